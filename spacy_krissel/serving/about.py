"""Facts about a served pipeline: its vocabularies, the components that find mentions, its
formats."""

import re
from typing import Any

from spacy.language import Language

from ..kb.prototype_kb import PrototypeKB
from ..ontology.vocabularies import VOCABULARIES, Vocabulary
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import link_writers, mention_setters
from ..render.formats import WRITERS

# Labels that are offered for a new mention.
MAX_LABELS = 200
_ADDRESS = re.compile(r"https?://\S+")
# By the address of the terms, normalised.
_LICENCES = {
    re.sub(r"^https?://|/$", "", each.terms): each.licence for each in VOCABULARIES.values()
}


def about(nlp: Language, linker: KrisselLinker) -> dict[str, Any]:
    """Return facts about a pipeline, as JSON.

    entities: their number.
    vocabularies: `vocabularies`.
    finders: the components that find mentions.
    labels: of mentions that finders give or the linker distinguishes.
    formats: of an export.
    min_confidence: None without confidences.
    """
    finders = mention_setters(nlp)
    labels = {label for name in finders for label in nlp.pipe_labels.get(name, ())}
    labels |= linker.cfg["types_by_label"].keys()
    return {
        "entities": linker.kb.n_entities,
        "vocabularies": vocabularies(linker.kb),
        "finders": finders,
        "labels": sorted(labels)[:MAX_LABELS],
        "formats": [ending.removeprefix(".") for ending in WRITERS],
        "min_confidence": linker.cfg["min_confidence"] if gives_confidence(nlp, linker) else None,
    }


def gives_confidence(nlp: Language, linker: KrisselLinker) -> bool:
    """Return whether candidates have confidences: a re-ranker removes them."""
    return bool(linker.cfg["confidence"]) and link_writers(nlp)[-1:] in ([], [linker.name])


def vocabularies(kb: PrototypeKB) -> list[dict[str, str]]:
    """Return the vocabularies, by source: "name", "source" (its file), "version", "licence" and
    "terms", the address of the licence; "" for unknown values. The name of a known vocabulary
    (`known.csv`) is its title. A single source is also recognised by its ids, and gets the known
    licence if it states none."""
    ids = kb.entity_ids
    # Ids are sorted: all have a prefix that the first and the last share.
    ends = (ids[0], ids[len(ids) - 1]) if len(kb.ontology) == 1 and len(ids) else ()
    by_ids = (each for each in VOCABULARIES.values() if each.ids and ends)
    same = next((each for each in by_ids if all(id_.startswith(each.ids) for id_ in ends)), None)
    return [
        _vocabulary(each, VOCABULARIES.get(each.get("vocabulary", ""), same))
        for each in kb.ontology
    ]


def _vocabulary(stated: dict[str, Any], known: Vocabulary | None) -> dict[str, str]:
    licence, terms = str(stated.get("licence") or ""), ""
    if not licence and known:
        licence, terms = known.licence, known.terms
    elif found := _ADDRESS.search(licence):
        terms = found[0].rstrip(".,;)")
        licence = _licence_at(terms) or licence[: found.start()].strip(" ,;:(")
    source, version = (str(stated.get(key) or "") for key in ("source", "version"))
    name = known.title if known else source
    return {"name": name, "source": source, "version": version, "licence": licence, "terms": terms}


def _licence_at(address: str) -> str:
    return _LICENCES.get(re.sub(r"^https?://|/$", "", address), "")

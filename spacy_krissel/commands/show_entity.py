"""Description of an entity in a pipeline's knowledge base."""

import re
from collections import Counter
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import Errors, KrisselError
from ..finding.finder import REASON_MEANINGS
from ..finding.table import MAX_NAME_WORDS
from ..kb.prototype_kb import PrototypeKB
from ..ontology.entity import entity_url
from ..pipeline.finder import KrisselFinder
from ..pipeline.pipeline_io import find_finder, find_kb_pipe, load_pipeline
from ..pipeline.settings import LINKER
from ..util.folding import canonical_name

# Maximum number of entities with the same or similar names that are listed.
MAX_FOUND = 10
# An id or an address. A name is similar to it by chance: "11 pairs of ribs", by digits.
_ID, _NUMBER = re.compile(r"https?://\S+|[A-Za-z][\w.]*[:_][A-Za-z]*\d+"), re.compile(r"\d+")
# Ids of a knowledge base that show the form of all.
SAMPLED_IDS = 1000
NO_NAME = f"Nothing is found: no name of up to {MAX_NAME_WORDS} words is in the text, in any form."


def show(pipeline: str | Path, id: str, *, variants: bool = False, linker: str = LINKER) -> str:
    """Show an entity: names, definition, prototypes, licence.

    pipeline: A pipeline with a knowledge base
    id: Id of the entity, in any usual spelling: HP:0001677, HP_0001677, a URL; or a name
    variants: Show what `krissel_finder` finds in this text, why other names in it are not found,
        and the words that it takes for equal
    linker: Name of the linker in the pipeline

    If several entities share a name, they are listed.
    Raises KrisselError K610, K611 (pipeline), K525 (an unknown id), K534 (no such name, but similar
    ones), K620 (no finder).
    """
    nlp = load_pipeline(pipeline)
    if variants:
        return describe_variants(find_finder(nlp, linker), id)
    kb: PrototypeKB = find_kb_pipe(nlp, linker).kb
    found = kb.find(id, MAX_FOUND) if id.strip() and kb.resolve(id) is None else []
    named = [entity for entity in found if canonical_name(id) in map(canonical_name, entity.names)]
    if found and not named and not _is_id(id.strip(), kb):
        similar = "; ".join(f"{entity.name} ({entity.id})" for entity in found)
        raise KrisselError(Errors.K534.format(found=id, similar=similar))
    if len(named) > 1:
        return "\n".join(f"{entity.id:<13} {entity.name}" for entity in named)
    return describe_entity(kb, named[0].id if named else id)


def _is_id(text: str, kb: PrototypeKB) -> bool:
    """Return whether a text has the form of an id: of any usual one, or of one here (D012345)."""
    forms = {_NUMBER.sub("0", each) for each in islice(kb.entity_ids, SAMPLED_IDS)}
    return _ID.fullmatch(text) is not None or _NUMBER.sub("0", text) in forms


def describe_variants(finder: KrisselFinder, text: str) -> str:
    """Return what a finder finds in a text, one per line, or that it finds nothing.

    Then come the names that it does not find, with the reason, and words that the names show to be
    equal.
    """
    found, refused = finder.finder().explain(text)
    lines = []
    for match in found:
        written = " … ".join(text[start:end] for start, end in match.fragments)
        lines.append(
            f"{written}: {match.variant} of {match.named.name} ({', '.join(match.named.ids)})"
        )
    for (start, end), each in refused.items():
        lines.append(f"{text[start:end]}: not found as {each.name}: {REASON_MEANINGS[each.reason]}")
    lines = lines or [NO_NAME]
    variants = finder.cfg.variants
    if variants == "words":
        for word, others in finder.names().words_like(text).items():
            if others:
                lines.append(f"{word} = {', '.join(sorted(others))}")
    elif refused:
        lines.append(f"`variants` is '{variants}': plurals and other orders of words are not found")
    return "\n".join(lines)


def describe_entity(kb: PrototypeKB, id: str) -> str:
    """Return the facts about an entity in a knowledge base, one per line. Raises KrisselError K525
    for an unknown id."""
    entity = kb[id]
    kinds = Counter(prototype.kind for prototype in kb.prototypes_at(kb.prototype_rows(entity.id)))
    facts: dict[str, Any] = asdict(entity)
    if "parents" in facts:
        facts["parents"] = [
            f"{each} {kb[each].name}" if each in kb else each for each in facts["parents"]
        ]
    facts["prototypes"] = [f"{count} {kind}" for kind, count in kinds.items()]
    facts["url"] = entity_url(entity.id)
    for each in kb.ontology:
        stated = [f"{key} {each[key]}" for key in ("version", "licence") if each.get(key)]
        facts["ontology"] = [
            *facts.get("ontology", ()),
            ", ".join([str(each.get("source", "")), *stated]),
        ]
    lines = []
    for name, value in facts.items():
        shown = value if isinstance(value, str) else "; ".join(value)
        if shown:
            lines.append(f"{name.replace('_', ' '):<13} {shown}")
    return "\n".join(lines)

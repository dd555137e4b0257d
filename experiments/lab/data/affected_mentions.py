"""Number of gold mentions that the homonyms of an ontology affect (BELHD §3, Table 1, Appendix
A)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.tables import markdown_table, percent
from spacy_krissel.mentions.gold_mentions import gold_spans, split_gold
from spacy_krissel.ontology.store import OntologyStore


class AffectedMentions(NamedTuple):
    """Counts of gold mentions that name a concept: those affected by homonyms, and those whose
    concept the ontology lacks, which are not affected. `spelt` counts the affected ones with
    identically spelt homonyms, as in the paper's queries (Listing 2)."""

    mentions: int
    affected: int
    unknown: int
    spelt: int


def affected_table(ontology: str | Path, gold: Sequence[Path]) -> str:
    """Count the gold mentions that a linker by names could only guess (BELHD, Table 1).

    ontology: ontology store
    gold: gold mentions (.spacy)

    Raises KrisselError K001 to K004 (store), K201, K212 (gold).
    """
    store = OntologyStore(ontology)
    counts = ("corpus", "mentions", "in the store")
    rows = [(*counts, "affected", "affected %", "spelt alike", "spelt alike %")]
    for path in gold:
        found = affected_mentions(path, store)
        known = found.mentions - found.unknown
        parts = [(f"{n:,}", percent(n / max(known, 1))) for n in (found.affected, found.spelt)]
        rows.append((str(path), f"{found.mentions:,}", f"{known:,}", *parts[0], *parts[1]))
    return markdown_table(rows)


def affected_mentions(
    gold: str | Path, store: OntologyStore, *, spans_key: str = ""
) -> AffectedMentions:
    """Estimate how many mentions a linker by names could only guess at.

    A mention is affected when its gold entity (any, of a composite) has a name that is a homonym
    and that equals the mention, both lower-cased and without characters other than letters and
    digits. The paper asks for a normalised Levenshtein similarity of 1, which is just this
    equality.

    gold: a .spacy file, or a folder of them. spans_key: as `gold_spans` takes it.
    Raises KrisselError K201, K212 (gold).
    """
    homonyms: dict[str, tuple[set[str], set[str]]] = {}
    n_mentions = n_affected = n_unknown = n_spelt = 0
    for doc in read_doc_bins(gold, Vocab()):
        for span in gold_spans(doc, spans_key):
            ids = split_gold(span.kb_id_, store)
            known = [id_ for id_ in ids if store.resolve(id_) is not None]
            for id_ in known:
                if id_ not in homonyms:
                    homonyms[id_] = _homonyms(store, id_)
            text = squeeze(span.text)
            n_mentions += bool(ids)
            n_unknown += bool(ids) and not known
            # Symbols alone have nothing left that could be equal.
            n_affected += bool(text) and any(text in homonyms[id_][0] for id_ in known)
            n_spelt += bool(text) and any(text in homonyms[id_][1] for id_ in known)
    return AffectedMentions(n_mentions, n_affected, n_unknown, n_spelt)


def _homonyms(store: OntologyStore, id_: str) -> tuple[set[str], set[str]]:
    """Return the homonyms among an entity's names, squeezed: all, and those that another entity
    spells identically."""
    entity = store.get(id_)
    folded, spelt = set(), set()
    for name in entity.names:
        others = set(store.find(name)) - {entity.id}
        if others:
            folded.add(squeeze(name))
        if any(name in store.get(other).names for other in others):
            spelt.add(squeeze(name))
    return folded, spelt


def squeeze(text: str) -> str:
    """Lower-cased, letters and digits only (Appendix A): `squeeze("IL-2 receptor")` is
    "il2receptor"."""
    return "".join(filter(str.isalnum, text.lower()))

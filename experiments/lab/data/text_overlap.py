"""Entities that two sets of texts have in common (OSLAT, Tables A.1 and A.2)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.tables import Row, markdown_table, percent
from spacy_krissel.mentions.gold_mentions import document_entities
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.folding import fold_name
from spacy_krissel.util.settings import PositiveInt

from ..errors import Errors, KrisselError


@dataclass(frozen=True)
class Texts:
    """Two parts of a set of texts: the entities of those to train on, and those that only its test
    has.

    names: of each entity, folded; ids of two ontologies are not the same.
    counts: texts of each entity, in both parts.
    """

    name: str
    seen: frozenset[str]
    unseen: frozenset[str]
    names: dict[str, frozenset[str]]
    titles: dict[str, str]
    counts: Counter[str]


def text_overlap(texts: Sequence[str], *, top: PositiveInt = 15) -> str:
    """Count entities that two sets of texts share, by name, and list the most frequent of each
    (OSLAT, Tables A.1, A.2).

    texts: two of name=split:store, folders of `text-split` and stores of names
    top: number of most frequent entities listed of each

    Raises KrisselError K006 for another number of texts, and those of `read_texts`.
    """
    if len(texts) != 2:
        expected = "two of name=split:store"
        raise KrisselError(
            Errors.K006.format(setting="texts", found=list(texts), expected=expected)
        )
    first, second = map(read_texts, texts)
    header = ("entities", "all", "seen in the other", "unseen in the other", "not in the other")
    table = markdown_table([header, *overlap_rows(first, second), *overlap_rows(second, first)])
    lists = (f"{each.name}: {', '.join(frequent(each, top))}" for each in (first, second))
    return "\n\n".join([table, *lists])


def read_texts(given: str) -> Texts:
    """`name=split:store`: a folder of `text-split`, and the store of its entities.

    Raises KrisselError K006 for anything else, and what `read_doc_bins` and `OntologyStore` raise.
    """
    name, _, paths = given.partition("=")
    split, _, ontology = paths.rpartition(":")
    if not (name and split and ontology):
        expected = "name=split:store"
        raise KrisselError(Errors.K006.format(setting="texts", found=given, expected=expected))
    store = OntologyStore(ontology)
    parts, counts = [], Counter[str]()
    for part in ("train", "test"):
        docs = read_doc_bins(Path(split) / f"{part}.spacy", Vocab())
        found = [store.resolve(entity) for doc in docs for entity in document_entities(doc)]
        parts.append(frozenset(entity for entity in found if entity is not None))
        counts.update(entity for entity in found if entity is not None)
    entities = {entity: store.get(entity) for entity in parts[0] | parts[1]}
    names = {id_: frozenset(map(fold_name, entity.names)) for id_, entity in entities.items()}
    titles = {id_: entity.name for id_, entity in entities.items()}
    return Texts(name, parts[0], parts[1] - parts[0], names, titles, counts)


def overlap_rows(texts: Texts, other: Texts) -> list[Row]:
    """Return, for the seen and the unseen entities, their number, and the fractions (%) that share
    a name with a seen entity of the other texts, else with an unseen one, or with none."""
    parts = [
        {name for entity in part for name in other.names[entity]}
        for part in (other.seen, other.unseen)
    ]
    rows: list[Row] = []
    for title, own in (("seen", texts.seen), ("unseen", texts.unseen)):
        counts = Counter(
            next(
                (i for i, names in enumerate(parts) if not names.isdisjoint(texts.names[entity])), 2
            )
            for entity in own
        )
        shares = [percent(counts[group] / len(own)) if own else "–" for group in range(3)]
        rows.append((f"{texts.name}, {title}", f"{len(own):,}", *shares))
    return rows


def frequent(texts: Texts, n: int) -> list[str]:
    """Return the preferred names of the entities of most texts."""
    ordered = sorted(texts.counts, key=lambda id_: (-texts.counts[id_], id_))
    return [texts.titles[entity] for entity in ordered[:n]]

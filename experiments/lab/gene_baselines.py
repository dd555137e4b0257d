"""Baselines for genes: of the entities with a mention's name, those of one species."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import spacy

from spacy_krissel.evaluation.baselines import BASELINES, expand_abbreviations, settle_ties
from spacy_krissel.evaluation.gold import GoldDoc, read_gold
from spacy_krissel.evaluation.metrics import compare, measure
from spacy_krissel.evaluation.records import LinkRecord, read_records
from spacy_krissel.evaluation.tables import Row, markdown_table
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.mentions.species import species_scores, taxon_of
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.linker.query import LexicalQuery
from spacy_krissel.util.folding import fold_name
from spacy_krissel.util.settings import Count

# Human, mouse, rat.
FIRST = ("9606", "10090", "10116")
# Returns the intended species among those of a record's candidates; None for any.
Choose = Callable[[LinkRecord, list[str]], str | None]
Link = Callable[..., list[LinkRecord]]


def gene_table(links: Path, gold: Path, ontology: Path, *, seed: Count = 0) -> str:
    """Measure a report's links, and exact match and TF-IDF that take human first or the document's
    species, with the difference and its 95 % interval over documents.

    links: a report's .links.jsonl, for its mentions
    gold: gold corpus that was evaluated
    ontology: ontology store of genes
    seed: random seed of the bootstrap

    Raises those of `read_records`, `read_gold`, `OntologyStore` and `compare`.
    """
    records, store = read_records(links), OntologyStore(ontology)
    baselines = gene_baselines(records, read_gold(gold, spacy.blank("en")), store)
    rows: list[Row] = [("baseline", "strict", "lenient", "the pipeline is better by")]
    for title, row in {"the pipeline": records, **baselines}.items():
        measured = measure(row, store, resamples=0)
        better = compare(records, row, name=title, seed=seed)
        gain, low, high = (100 * each for each in (better["strict"], *better["interval"]))
        difference = "" if row is records else f"{gain:+.1f} ({low:+.1f} to {high:+.1f})"
        figures = (f"{100 * measured[name]:.1f}" for name in ("strict", "lenient"))
        rows.append((title, *figures, difference))
    return markdown_table(rows)


def gene_baselines(
    records: Sequence[LinkRecord], gold: Sequence[GoldDoc], store: OntologyStore
) -> dict[str, list[LinkRecord]]:
    """Return the records by name of the baseline; of `records` only the mentions are read.

    *Rules* are the linker's: abbreviations are expanded, and entities with a name spelt as the
    mention come first. Among several entities of the species, the one with it as preferred name
    wins, else the one with the most names.
    """
    texts = expand_abbreviations(records, {item.id: item.doc.text for item in gold})
    docs = {item.id: item.doc for item in gold}
    everything = sorted(set(store.each("species")))

    pairs = [(name, row) for row, entity in enumerate(store) for name in entity.names]
    index = LexicalIndex.of([name for name, _ in pairs], np.array([row for _, row in pairs]))
    ids = list(store.ids)
    spelt: list[list[str]] = [[] for _ in records]
    # The long form, or else the mention as written.
    written = [record.text for record in records]
    rows, owner, _ = LexicalQuery(index, texts, written=written).spelling_matches()
    for row, row_of_mention in zip(rows.tolist(), owner.tolist(), strict=True):
        spelt[row_of_mention].append(ids[row])

    def first(record: LinkRecord, species: list[str]) -> str | None:
        return next((each for each in FIRST if each in species), None)

    def of_document(record: LinkRecord, species: list[str]) -> str | None:
        span = docs[record.doc].char_span(record.start, record.end, alignment_mode="expand")
        scores = species_scores(docs[record.doc], [span], [taxon_of(each) for each in everything])[
            0
        ]
        return max(species, key=lambda each: scores[everything.index(each)])

    def with_rules(link: Link, choose: Choose) -> list[LinkRecord]:
        linked = [
            _narrowed(record, own) if own else record
            for record, own in zip(link(records, store, texts=texts), spelt, strict=True)
        ]
        narrowed = [
            preferred(of_species(each, choose, store), text, store)
            for each, text in zip(linked, texts, strict=True)
        ]
        return settle_ties(narrowed, store)

    exact, tfidf = BASELINES["exact"], BASELINES["tfidf"]
    return {
        "exact, human first": [of_species(each, first, store) for each in exact(records, store)],
        "the same, rules": with_rules(exact, first),
        "TF-IDF, human first": [of_species(each, first, store) for each in tfidf(records, store)],
        "TF-IDF, human first, rules": with_rules(tfidf, first),
        "exact, the document's species, rules": with_rules(exact, of_document),
        "TF-IDF, the document's species, rules": with_rules(tfidf, of_document),
    }


def of_species(record: LinkRecord, choose: Choose, store: OntologyStore) -> LinkRecord:
    """The record with those of its tied entities alone that are of the species that `choose`
    takes."""
    species = {id_: store.get(id_).species for id_ in record.ties}
    wanted = choose(record, sorted(set(species.values()))) if record.ties else None
    return (
        record
        if wanted is None
        else _narrowed(record, [id_ for id_ in record.ties if species[id_] == wanted])
    )


def preferred(record: LinkRecord, text: str, store: OntologyStore) -> LinkRecord:
    """The record with the one of its tied entities alone whose preferred name the text is, if it is
    one."""
    folded = fold_name(text)
    with_it = [id_ for id_ in record.ties if fold_name(store.get(id_).name) == folded]
    return _narrowed(record, with_it) if len(with_it) == 1 else record


def _narrowed(record: LinkRecord, first: list[str]) -> LinkRecord:
    others = [id_ for id_ in record.ranked if id_ not in first]
    return replace(
        record, ranked=first + others, ties=first if len(first) > 1 else [], prediction=first[0]
    )

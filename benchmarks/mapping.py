"""Mappings of vocabularies to each other, with curated ones as gold: precision and recall of links
by the name alone, next to exact match and TF-IDF.

    python benchmarks/mapping.py FOLDER --work work --output results/mapping.json

FOLDER holds the publishers' files:

- `doid_2016-09-01.obo`, `medic_06Jul2012.txt`: names of DOID, to MEDIC by its references to MeSH
  and OMIM;
- `hp_2023-01-27.json.gz`, `hp_layperson-synonyms.tsv`: layperson synonyms, to HPO without these
  names;
- `biomappings_positive.sssom.tsv.gz`, `mesh_descriptor_terms.tsv.gz`, `cl-basic_2022-12-15.obo`:
  exact matches to descriptors of MeSH, and of BTO to cell types of CL, by the other side's label;
- `depmap.obo`, `Cellosaurus.tsv.gz`: cell lines of DepMap to Cellosaurus.

Each vocabulary is built without text and with the settings of `krissel build`, whose confidence is
fitted to its own names only. The mean confidence of the links is `--precision`, as in `krissel
map`. A link is correct if it is one of the term's ids. A term whose ids the vocabulary
lacks is left out.
"""

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from wasabi import msg

from spacy_krissel.commands.build_linker import build
from spacy_krissel.corpora.term_lists import Term
from spacy_krissel.evaluation.baselines import exact_match, tfidf
from spacy_krissel.evaluation.confidence import lowest_confidence
from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.pipeline.linked_terms import linked_terms
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.util.folding import canonical_name

# Confidences at which precision and recall are stated.
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
BATCH_SIZE = 128


class GoldSet(NamedTuple):
    """Terms with the ids that they should be linked to, and the vocabulary that has these."""

    name: str
    vocabulary: str
    terms: dict[str, set[str]]


def main(
    folder: Annotated[Path, typer.Argument(help="Folder with the files")],
    work: Annotated[Path, typer.Option(help="Folder for stores and linkers")] = Path("work"),
    output: Annotated[
        Path | None, typer.Option(help="Write all figures to this .json file")
    ] = None,
    precision: Annotated[float, typer.Option(help="Asked precision of the links")] = 0.95,
    only: Annotated[str, typer.Option(help="Name of one set")] = "",
) -> None:
    """Measure each set, and print a table."""
    results = []
    for name, read in SETS.items():
        if not only or name == only:
            found = measure(read(folder, work), work, precision)
            results.append(found)
            typer.echo(json.dumps(found))
            if output is not None:
                output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf8")
    rows = [
        (
            each["set"], f"{each['terms']:,}",
            *(
                f"{each[system][key]:.3f}"
                for system in ("asked", "all", "exact", "tfidf")
                for key in ("precision", "recall")
            ),
        )
        for each in results
    ]  # fmt: skip
    systems = (f"--precision {precision}", "every link", "exact match", "TF-IDF")
    header = ("set", "terms", *(f"{system}: {key}" for system in systems for key in "PR"))
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * 9))


def measure(gold: GoldSet, work: Path, precision: float) -> dict:
    """Link the terms of a set, and return precision and recall, also by confidence."""
    store = OntologyStore(work / gold.vocabulary)
    linker_path = work / f"{gold.vocabulary}-linker"
    if not linker_path.exists():
        build([store.path], linker_path)
    terms = {
        term: own
        for term, ids in sorted(gold.terms.items())
        if (own := {each for id_ in ids for each in store.owners(id_)})
    }
    nlp = load_pipeline(linker_path)
    linker = find_linker(nlp)
    # All links with their confidence, from which those at any level follow.
    linker.cfg["min_confidence"] = 0.0
    listed = [Term(term, "") for term in terms]
    links = []
    for span, term in linked_terms(nlp, listed, linker.cfg["spans_key"], BATCH_SIZE):
        if span.kb_id_ != NIL:
            best = next(each for each in span._.krissel_candidates if each["id"] == span.kb_id_)
            links.append((best["confidence"], span.kb_id_ in terms[term.label]))

    sure = np.array([confidence for confidence, _ in links])
    # As `krissel map --precision` does it.
    threshold = lowest_confidence(sure, sure, np.ones(len(sure)), precision)

    def at(level: float) -> dict[str, float]:
        return figures([right for sure, right in links if sure >= level], len(terms))

    records = [
        LinkRecord(term, 0, len(term), term, "", tuple(sorted(own))) for term, own in terms.items()
    ]
    return {
        "set": gold.name,
        "terms": len(terms),
        "min_confidence": threshold,
        "asked": at(threshold),
        "all": at(0.0),
        "by_confidence": {str(level): at(level) for level in LEVELS},
        "exact": of_baseline(exact_match(records, store), len(terms)),
        "tfidf": of_baseline(tfidf(records, store), len(terms)),
    }


def figures(right: list[bool], n_terms: int) -> dict[str, float]:
    """Return precision and recall of links, and their number."""
    return {
        "precision": sum(right) / max(len(right), 1),
        "recall": sum(right) / n_terms,
        "links": len(right),
    }


def of_baseline(records: list[LinkRecord], n_terms: int) -> dict[str, float]:
    """Return the figures of a baseline, which links nothing where several entities tie."""
    links = [each for each in records if each.prediction and not each.ties]
    return figures([each.prediction in each.gold for each in links], n_terms)


# Sets ---------------------------------------------------------------------------------------------


def doid_to_medic(folder: Path, work: Path) -> GoldSet:
    make_store(work / "medic", lambda: read_ontology(folder / "medic_06Jul2012.txt"))
    terms: dict[str, set[str]] = defaultdict(set)
    for entity in read_ontology(folder / "doid_2016-09-01.obo"):
        if own := {each for each in entity.xrefs if each.startswith(("MESH:", "OMIM:"))}:
            terms[entity.name] |= own
    return GoldSet("DOID → MEDIC", "medic", terms)


def layperson_to_hpo(folder: Path, work: Path) -> GoldSet:
    with (folder / "hp_layperson-synonyms.tsv").open(encoding="utf8", newline="") as file_:
        rows = [*csv.reader(file_, delimiter="\t")][1:]
    names = {canonical_name(name) for _, _, name in rows}
    terms: dict[str, set[str]] = defaultdict(set)
    for iri, _, name in rows:
        terms[canonical_name(name)].add(iri.strip("<>").rpartition("/")[2].replace("_", ":"))
    preferred = set()

    def without_them() -> Iterator[Entity]:
        for entity in read_ontology(folder / "hp_2023-01-27.json.gz"):
            preferred.add(canonical_name(entity.name))
            kept = []
            for alias in entity.aliases:
                if (form := canonical_name(alias)) not in names:
                    kept.append(alias)
                elif form in terms:
                    # HPO gives some of these names to other entities as well.
                    terms[form].add(entity.id)
            yield replace(entity, aliases=tuple(kept))

    entities = [*without_them()]
    make_store(work / "hpo-without-layperson", lambda: entities)
    hidden = {form: own for form, own in terms.items() if form not in preferred}
    return GoldSet("HPO's layperson synonyms", "hpo-without-layperson", hidden)


def biomappings(folder: Path, prefix: str, other: str = "") -> dict[str, set[str]]:
    """Return the ids with a prefix by the labels of their exact matches (with the prefix
    `other`)."""
    with gzip.open(folder / "biomappings_positive.sssom.tsv.gz", "rt", encoding="utf8") as file_:
        lines = (line for line in file_ if not line.startswith("#"))
        table = csv.DictReader(lines, delimiter="\t")
        found: dict[str, set[str]] = defaultdict(set)
        for row in table:
            for own, its in (("subject", "object"), ("object", "subject")):
                is_it = row[f"{own}_id"].startswith(prefix) and row[f"{its}_id"].startswith(other)
                if is_it and row["predicate_id"] == "skos:exactMatch" and row[f"{its}_label"]:
                    found[row[f"{its}_label"]].add(row[f"{own}_id"])
    return found


def biomappings_to_mesh(folder: Path, work: Path) -> GoldSet:
    make_store(work / "mesh", lambda: read_ontology(folder / "mesh_descriptor_terms.tsv.gz"))
    return GoldSet("biomappings → MeSH", "mesh", biomappings(folder, "mesh:"))


def bto_to_cl(folder: Path, work: Path) -> GoldSet:
    make_store(work / "cl", lambda: read_ontology(folder / "cl-basic_2022-12-15.obo"))
    return GoldSet("BTO → CL", "cl", biomappings(folder, "cl:", "bto:"))


def depmap_to_cellosaurus(folder: Path, work: Path) -> GoldSet:
    make_store(work / "cellosaurus", lambda: read_ontology(folder / "Cellosaurus.tsv.gz"))
    text = next(folder.rglob("depmap.obo")).read_text(encoding="utf8")
    terms: dict[str, set[str]] = defaultdict(set)
    for stanza in text.split("\n[Term]\n")[1:]:
        name = re.search(r"^name: (.*)$", stanza, re.MULTILINE)
        ids = re.findall(r"exactMatch cellosaurus:(\w{4})", stanza)
        if name and ids:
            terms[re.sub(r"\\(.)", r"\1", name[1])].update(f"CVCL_{each}" for each in ids)
    return GoldSet("DepMap → Cellosaurus", "cellosaurus", terms)


def make_store(path: Path, entities: Callable[[], Iterable[Entity]]) -> OntologyStore:
    """Return a store of the entities, written at the first call."""
    return OntologyStore(path) if path.exists() else write_store(entities(), path)


SETS = {
    "bto": bto_to_cl,
    "layperson": layperson_to_hpo,
    "doid": doid_to_medic,
    "depmap": depmap_to_cellosaurus,
    "biomappings": biomappings_to_mesh,
}


if __name__ == "__main__":
    typer.run(main)

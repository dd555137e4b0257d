"""Ontology of PsyTAR's concepts: the names that its workbook, HPO and the training phrases give
them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.evaluation.tables import Row, markdown_table
from spacy_krissel.mentions.gold_mentions import document_entities, document_id
from spacy_krissel.ontology.entity import canonical_id
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.util.atomic import check_file, write_text
from spacy_krissel.util.folding import fold_name

from ..errors import Errors, KrisselError
from .lay_names import read_lay_names
from .psytar import psytar_concepts, read_psytar

# Where names are from, in the order in which an entity has them; the first is its preferred name.
SOURCES = ("psytar", "hpo", "lay", "phrases")
PathLike = str | Path
Names = dict[str, list[str]]


def psytar_names(
    workbook: PathLike,
    output: PathLike,
    *,
    train: PathLike | None = None,
    hpo: PathLike | None = None,
    lay: PathLike | None = None,
    phrases: bool = True,
) -> dict[str, Any]:
    """Write PsyTAR's concepts as an ontology of JSON lines, which `krissel ontology` reads, in
    order of their CUIs.

    A name that an entity has already, in `fold_name`'s form, is not repeated.

    workbook: PsyTAR's workbook (.xlsx): UMLS's name is the preferred one, SNOMED CT's the first
        alias. UMLS2's names are left out: they are of wider concepts
    output: .jsonl file to write, for `krissel ontology`
    train: train.spacy of `lab text-split`: the phrases of its pairs become names of their entities.
        An unseen entity has none, and a seen one not those that only test pairs have
    hpo: HPO (.obo, .gz too): names and exact synonyms of terms with a CUI among their xrefs
        (`UMLS:C0018681`)
    lay: HPO's table of lay synonyms
    phrases: take the training phrases as names; otherwise `train` only tells which entities are
        unseen

    RETURNS: counts: `entities`, `in_hpo` (entities with a term there), `added` (names by source),
        `shared_names` (borne by several entities), and for `seen` and `unseen` entities (all are
        "seen" without `train`) how many have `1`, `2` and `3+` names, and `names`, the mean.
    Raises what `read_psytar`, `read_ontology`, `read_lay_names` and `read_doc_bins` raise;
    KrisselError K006 (lay names without an ontology), K026 (the output), K235 (`train` is of other
    sentences).
    """
    if lay is not None and hpo is None:
        expected = "none without the ontology `hpo` whose terms they name"
        raise KrisselError(Errors.K006.format(setting="lay", found=str(lay), expected=expected))
    check_file(output)
    concepts = psytar_concepts(workbook)
    cuis = {concept.id for concept in concepts}
    pairs = None if train is None else _pairs(train)
    terms, hpo_names, lay_names = ({}, {}, {}) if hpo is None else _hpo_names(hpo, lay, cuis)
    found: dict[str, Names] = {
        "psytar": {concept.id: list(concept.names) for concept in concepts},
        "hpo": hpo_names,
        "lay": lay_names,
        "phrases": {}
        if pairs is None or not phrases
        else _training_phrases(workbook, train, pairs),
    }
    added: Counter = Counter()
    bearers: Counter = Counter()
    sizes: dict[str, list[int]] = {"seen": [], "unseen": []}
    seen = cuis if pairs is None else {entity for _, entity in pairs}
    lines = []
    for concept in concepts:
        names: dict[str, str] = {}
        for source in SOURCES:
            for name in found[source].get(concept.id, ()):
                # White space within names is as people typed it.
                name = " ".join(name.split())
                if name and fold_name(name) not in names:
                    names[fold_name(name)] = name
                    added[source] += 1
        bearers.update(names.keys())
        name, *aliases = names.values() or [concept.id]
        sizes["seen" if concept.id in seen else "unseen"].append(len(names))
        record = {
            "concept_id": concept.id,
            "canonical_name": name,
            "aliases": aliases,
            "types": [concept.type] if concept.type else [],
            "xrefs": terms.get(concept.id, []),
            "source": "PsyTAR",
        }
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    write_text(output, "".join(lines))
    return {
        "entities": len(concepts),
        "in_hpo": len(terms),
        "added": {source: added[source] for source in SOURCES},
        "shared_names": sum(number > 1 for number in bearers.values()),
        **{part: _sizes(numbers) for part, numbers in sizes.items()},
    }


def show_psytar_names(report: dict[str, Any], output: PathLike) -> str:
    added = ", ".join(f"{number:,} of {source}" for source, number in report["added"].items())
    rows: list[Row] = [("entities", "all", "1 name", "2 names", "3 or more", "names an entity")]
    for part in ("seen", "unseen"):
        figures = report[part]
        mean = "–" if figures["names"] is None else f"{figures['names']:.1f}"
        rows.append((part, *(f"{figures[key]:,}" for key in ("entities", "1", "2", "3+")), mean))
    return (
        f"{report['entities']:,} entities, {report['in_hpo']:,} of them in HPO; names: {added}\n"
        f"{report['shared_names']:,} names are shared by several entities\n\n"
        f"{markdown_table(rows)}\n\nOntology: {output}"
    )


def _pairs(train: PathLike) -> set[tuple[str, str]]:
    docs = read_doc_bins(train, Vocab())
    return {(document_id(doc), entity) for doc in docs for entity in document_entities(doc)}


def _hpo_names(hpo: PathLike, lay: PathLike | None, cuis: set[str]) -> tuple[Names, Names, Names]:
    """Return, for each CUI, the ids of its terms, their names, and their lay names."""
    lay_names = {} if lay is None else read_lay_names(lay)
    wanted = {canonical_id(f"UMLS:{cui}"): cui for cui in cuis}
    terms: Names = {}
    names: Names = {}
    lays: Names = {}
    for entity in read_ontology(hpo, "obo", scopes=("EXACT",)):
        for cui in sorted(
            {wanted[xref] for xref in map(canonical_id, entity.xrefs) if xref in wanted}
        ):
            terms.setdefault(cui, []).append(entity.id)
            names.setdefault(cui, []).extend(entity.names)
            lays.setdefault(cui, []).extend(lay_names.get(entity.id, ()))
    return terms, names, lays


def _training_phrases(
    workbook: PathLike, train: PathLike | None, pairs: set[tuple[str, str]]
) -> Names:
    found: Names = {}
    # Its data issues were reported when the docs were made.
    for text in read_psytar(workbook, report=CorpusReport()):
        for entity in text.mentions:
            if (text.id, entity.kb_id) in pairs:
                found.setdefault(entity.kb_id, []).append(entity.text)
    if not found:
        raise KrisselError(Errors.K235.format(pairs=len(pairs), train=train, path=workbook))
    return found


def _sizes(numbers: list[int]) -> dict[str, Any]:
    counts = Counter("3+" if number > 2 else str(number) for number in numbers)
    mean = sum(numbers) / len(numbers) if numbers else None
    return {
        "entities": len(numbers),
        **{key: counts[key] for key in ("1", "2", "3+")},
        "names": mean,
    }

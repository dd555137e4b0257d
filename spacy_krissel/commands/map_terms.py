"""Mapping of a list of terms to entities, as SSSOM."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from spacy.tokens import Span

from ..corpora.report import CorpusReport
from ..corpora.term_lists import Term, read_terms
from ..errors import wrong_setting
from ..kb.prototype_kb import PrototypeKB
from ..mentions.annotations import NIL
from ..pipeline.linked_terms import linked_terms
from ..pipeline.pipeline_io import find_linker, load_pipeline
from ..pipeline.settings import LINKER
from ..render.sssom import NO_LICENSE, NOT_FOUND, Curies, Mapping, write_sssom
from ..util.atomic import atomic_file, check_file
from ..util.escape import one_line
from ..util.folding import canonical_name
from ..util.outputs import writes
from ..util.progress import reading_bar, size_of
from ..util.settings import Fraction, PositiveInt, checked

EXACT, LEXICAL = "skos:exactMatch", "semapv:LexicalMatching"
SIMILAR = "semapv:LexicalSimilarityThresholdMatching"
SEMANTIC = "semapv:SemanticSimilarityThresholdMatching"
# Fields of an entity that a term may match.
LABEL, ALIAS = "rdfs:label", "skos:altLabel"


@writes("output")
@checked
def map_terms(
    pipeline: str | Path,
    terms: Path,
    output: Path,
    *,
    label_column: str = "",
    id_column: str = "",
    top_k: PositiveInt = 1,
    license: str = NO_LICENSE,
    mapping_set_id: str = "",
    object_source: str = "",
    min_confidence: Fraction | None = None,
    name: str = LINKER,
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> dict[str, int]:
    """Map a list of terms to entities, as SSSOM.

    pipeline: A pipeline with a linker
    terms: A table with a header (.csv, .tsv), or a text file with one term per line; .gz
    output: The file to write: .tsv, by convention .sssom.tsv
    label_column: Column of the terms; default: label, term, name and other usual names, else the
        only column
    id_column: Column of the terms' ids; default: id, code and other usual names, if there is one
    top_k: Number of candidates per term: those after the first row of a term are skos:relatedMatch
    license: Address of the licence of the mappings
    mapping_set_id: Address that identifies the mappings; default: a new one
    object_source: Vocabulary of the knowledge base, as CURIE or address: obo:mondo
    min_confidence: Lowest confidence of a mapping; other terms are sssom:NoTermFound; default: the
        linker's own
    name: Name of the linker in the pipeline
    batch_size: Number of terms per batch

    Each term is linked as a mention that is the whole text. The mapping is a skos:exactMatch if the
    term is a name of the entity in canonical form (`canonical_name`), else a skos:closeMatch; NIL
    is sssom:NoTermFound. `object_match_field` says whether the name is the
    preferred one. Other columns of the table are kept: `department` as `input_department`.
    RETURNS: the numbers of `terms`, of those `exact`, `close` and `without_entity`, and of rows
    `left_out`.

    Raises KrisselError K006 (output, columns, numbers, addresses), K026 (output), K610, K611
    (pipeline), K603 (no knowledge base), and those of `read_terms`. Warns KW201 (rows left out),
    KW620 (terms left out).
    """
    if output.suffix != ".tsv":
        raise wrong_setting("output", str(output), "a path ending in .tsv")
    addresses = {
        "license": license,
        **({"mapping_set_id": mapping_set_id} if mapping_set_id else {}),
    }
    for setting, found in addresses.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", found):
            raise wrong_setting(setting, found, "an address, https://…")
    check_file(output)
    report = CorpusReport()
    read = read_terms(terms, report, label_column=label_column, id_column=id_column)
    # A list without terms is refused before the pipeline is loaded.
    read = chain([next(read)], read)
    nlp = load_pipeline(pipeline)
    linker = find_linker(nlp, name)
    if top_k > linker.n_candidates_kept():
        expected = (
            f"at most {linker.n_candidates_kept()}, the candidates that the linker keeps "
            "(`n_candidates`)"
        )
        raise wrong_setting("top_k", top_k, expected)
    if min_confidence is not None:
        linker.cfg["min_confidence"] = min_confidence
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    curies = Curies()

    def mappings() -> Iterator[Mapping]:
        linked = linked_terms(nlp, read, linker.cfg["spans_key"], batch_size)
        for span, term in reading_bar(
            linked, size_of([terms]), show=progress, unit=" terms", desc="Mapping"
        ):
            first, *others = islice(_mappings(term, span, linker.kb, curies), top_k)
            exact = first.predicate_id == EXACT
            report.count(
                "without_entity" if first.object_id == NOT_FOUND else "exact" if exact else "close"
            )
            report.count("terms")
            yield from [first, *others]

    ids = {"mapping_set_id": mapping_set_id, "object_source": object_source}
    with atomic_file(output) as temporary:
        write_sssom(temporary, mappings(), curies, license=license, **ids)
    report.warn()
    counts = {key: report[key] for key in ("terms", "exact", "close", "without_entity")}
    return {**counts, "left_out": report["bad_records"]}


def show_map_terms(counts: dict[str, int]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in counts.items())


def _mappings(term: Term, span: Span, kb: PrototypeKB, curies: Curies) -> Iterator[Mapping]:
    """Yield the link, then the other candidates, best first."""
    subject, linked = term.id and curies(term.id, "term"), span.kb_id_

    def mapping(predicate: str, found: dict[str, Any]) -> Mapping:
        form = canonical_name(term.label)
        names = [*map(canonical_name, kb.names_of(found["id"]))] if found else []
        is_name, is_similar = form in names, found.get("match", "context") != "context"
        confidence, score = found.get("confidence"), found.get("score", -1)
        return Mapping(
            subject,
            term.label,
            predicate or (EXACT if is_name else "skos:closeMatch"),
            curies(found["id"], "kb") if found else NOT_FOUND,
            one_line(found.get("name", "")),
            LEXICAL if is_name else SIMILAR if is_similar else SEMANTIC,
            # The standard's rule for a subject without an id.
            "" if subject else "rdfs literal",
            "" if confidence is None else f"{round(confidence, 3):g}",
            (LABEL if form == names[0] else ALIAS) if is_name else "",
            form if is_name else "",
            f"{round(score, 3):g}" if confidence is None and 0 <= score <= 1 else "",
            dict(term.others),
        )

    candidates = sorted(span._.krissel_candidates, key=lambda each: each["id"] != linked)
    if linked == NIL:
        yield mapping(EXACT, {})
    for index, each in enumerate(candidates):
        yield mapping("skos:relatedMatch" if index or linked == NIL else "", each)

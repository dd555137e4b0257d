"""Mapping of terms, or of the nodes of a graph, to entities, as SSSOM."""

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import numpy as np
from spacy.tokens import Span

from ..corpora.report import CorpusReport
from ..corpora.term_lists import Term, read_terms
from ..errors import KrisselWarning, wrong_setting
from ..evaluation.confidence import Precision, lowest_confidence
from ..graphs.graph import Graph
from ..graphs.read import ENDINGS, GRAPHML, LINES, ending_of
from ..graphs.write import edges_path
from ..kb.prototype_kb import PrototypeKB
from ..mentions.annotations import NIL
from ..pipeline.linked_terms import linked_terms
from ..pipeline.pipeline_io import find_linker, load_pipeline
from ..pipeline.settings import LINKER
from ..render.mappings import KINDS, kind_of, term_mapping
from ..render.sssom import NO_LICENSE, NOT_FOUND, Curies, Mapping, write_sssom
from ..util.atomic import atomic_file, check_file
from ..util.outputs import writes
from ..util.progress import reading_bar, size_of
from ..util.settings import Fraction, OneOf, PositiveInt, checked
from .map_nodes import BY_ID, CHAINED, NodeMapper

# Predicate of a term and a candidate that is not its entity.
OTHER = "skos:relatedMatch"


@writes("output", "merge", next_to={"merge": edges_path})
@checked
def map_terms(
    pipeline: str | Path,
    terms: Path | Sequence[Path],
    output: Path,
    *,
    merge: Annotated[str | Path, OneOf(lambda: ENDINGS, is_ending=True)] | None = None,
    label_column: str = "",
    id_column: str = "",
    top_k: PositiveInt = 1,
    license: str = NO_LICENSE,
    mapping_set_id: str = "",
    object_source: str = "",
    min_confidence: Fraction | None = None,
    precision: Precision | None = None,
    name: str = LINKER,
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> dict[str, int]:
    """Map terms, or nodes of graphs, to entities, as SSSOM.

    pipeline: A pipeline with a linker
    terms: A table with a header (.csv, .tsv), or a text file with one term per line; .gz. Nodes and
        edges of a graph: .graphml, .jsonl, and with --merge tables
    output: The file to write: .tsv, by convention .sssom.tsv
    merge: Write the graph with equivalent nodes merged, in the format of its name:
        kg_nodes.tsv, with the edges in kg_edges.tsv; or kg.graphml
    label_column: Column of the terms; default: label, term, name and other usual names, else the
        only column
    id_column: Column of the terms' ids; default: id, code and other usual names, if there is one
    top_k: Number of candidates per term: those after the first row of a term are skos:relatedMatch
    license: Address of the licence of the mappings
    mapping_set_id: Address that identifies the mappings; default: a new one
    object_source: Vocabulary of the knowledge base, as CURIE or address: obo:mondo
    min_confidence: Lowest confidence of a mapping; other terms are sssom:NoTermFound; default: the
        linker's own
    precision: Mean confidence of the mappings: those with the lowest are left out, and all below
        0.2. If none is enough, those with the highest stay. Terms are linked twice. Nodes that
        their ids map do not count
    name: Name of the linker in the pipeline
    batch_size: Number of terms per batch

    Each term is linked as a mention that is the whole text. The mapping is a skos:exactMatch if the
    term is a name of the entity in canonical form (`canonical_name`), else a skos:closeMatch; NIL
    is sssom:NoTermFound. `object_match_field` says whether the name is the
    preferred one. Other columns of the table are kept: `department` as `input_department`.
    RETURNS: the numbers of `terms`, of those `exact`, `close` and `without_entity`, and of rows
    `left_out`.

    Nodes of a graph are mapped as `NodeMapper` does it. RETURNS: also the numbers of `nodes` and
    `edges`, and those that it counts.

    Raises KrisselError K006 (output, columns, numbers, addresses), K026 (output), K610, K611
    (pipeline), K603 (no knowledge base), and those of `read_terms` and `read_graph`. Warns KW201
    (rows left out), KW620 (terms left out).
    """
    paths = [Path(each) for each in ([terms] if isinstance(terms, (str, Path)) else terms)]
    merged = None if merge is None else Path(merge)
    is_graph = merged is not None or any(ending_of(each) in (GRAPHML, LINES) for each in paths)
    _check(paths, output, merged, license, mapping_set_id)
    if None not in (precision, min_confidence):
        raise wrong_setting("precision", precision, "no value, since `min_confidence` is set")
    if is_graph and top_k > 1:
        raise wrong_setting("top_k", top_k, "1 for a graph")
    columns = {"label_column": label_column, "id_column": id_column}
    report = CorpusReport()

    def read(report: CorpusReport) -> Graph | list[Iterator[Term]]:
        if is_graph:
            return Graph(paths, report, **columns)
        return [_begun(read_terms(each, report, **columns)) for each in paths]

    # A list without terms is refused before the pipeline is loaded.
    source = read(report)
    nlp = load_pipeline(pipeline)
    linker = find_linker(nlp, name)
    if top_k > linker.n_candidates_kept():
        expected = (
            f"at most {linker.n_candidates_kept()}, the candidates that the linker keeps "
            "(`n_candidates`)"
        )
        raise wrong_setting("top_k", top_k, expected)
    if precision is not None and not linker.cfg["confidence"]:
        expected = "a linker with a confidence (`krissel confidence`)"
        raise wrong_setting("precision", precision, expected)
    if min_confidence is not None:
        linker.cfg["min_confidence"] = min_confidence
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    curies = Curies()

    def mapped(
        source: Graph | list[Iterator[Term]],
        report: CorpusReport,
        curies: Curies,
        title: str,
    ) -> tuple[Iterator[Mapping], NodeMapper | None]:
        if isinstance(source, Graph):
            nodes = NodeMapper(source, nlp, linker, curies, report)
            return nodes.mappings(batch_size, progress=progress, title=title), nodes
        linked = linked_terms(nlp, chain(*source), linker.cfg["spans_key"], batch_size)
        bar = reading_bar(linked, size_of(paths), show=progress, unit=" terms", desc=title)
        return _rows(bar, linker.kb, curies, report, top_k), None

    if precision is not None:
        least, linker.cfg["min_confidence"] = linker.cfg["min_confidence"], 0.0
        other = CorpusReport()
        with warnings.catch_warnings():
            # The second pass warns.
            warnings.simplefilter("ignore", KrisselWarning)
            first = source if is_graph else read(other)
            found = _confidences(mapped(first, other, Curies(), "Confidence")[0])
        if len(found):
            # They are rounded to three digits.
            least = lowest_confidence(found, found, np.ones(len(found)), precision) - 0.0005
        linker.cfg["min_confidence"] = least
    rows, nodes = mapped(source, report, curies, "Mapping")
    ids = {"mapping_set_id": mapping_set_id, "object_source": object_source}
    with atomic_file(output) as temporary:
        write_sssom(temporary, rows, curies, license=license, **ids)
        if nodes and merged is not None:
            nodes.write(merged)
    report.warn()
    counts = nodes.counts() if nodes else {key: report[key] for key in ("terms", *KINDS)}
    return {**counts, "left_out": report["bad_records"]}


def show_map_terms(counts: dict[str, int]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in counts.items())


def _check(
    paths: Sequence[Path], output: Path, merged: Path | None, license: str, mapping_set_id: str
) -> None:
    """Raise KrisselError K006 for settings that do not go together, K026 for the outputs."""
    if output.suffix != ".tsv":
        raise wrong_setting("output", output, "a path ending in .tsv")
    addresses = {
        "license": license,
        **({"mapping_set_id": mapping_set_id} if mapping_set_id else {}),
    }
    for setting, found in addresses.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", found):
            raise wrong_setting(setting, found, "an address, https://…")
    check_file(output)
    if merged is None:
        return
    if merged.suffix != GRAPHML and "nodes" not in merged.name:
        expected = (
            "a name with 'nodes', such as kg_nodes.tsv, next to which kg_edges.tsv is written"
        )
        raise wrong_setting("merge", merged, expected)
    check_file(merged)
    written = {each.resolve() for each in (merged, edges_path(merged))}
    if not written.isdisjoint(each.resolve() for each in (output, *paths)):
        expected = "another path than those of the terms and the output, also for the edges"
        raise wrong_setting("merge", merged, expected)


def _confidences(rows: Iterator[Mapping]) -> np.ndarray:
    """Return the confidences of the mappings of terms to entities by a link."""
    found = [
        float(row.confidence)
        for row in rows
        if row.confidence
        and row.object_id != NOT_FOUND
        and row.predicate_id != OTHER
        and row.mapping_justification not in (BY_ID, CHAINED)
    ]
    return np.array(found)


def _begun(read: Iterator[Term]) -> Iterator[Term]:
    """Return an iterator whose first item was read."""
    return chain([next(read)], read)


def _rows(
    linked: Iterator[tuple[Span, Term]],
    kb: PrototypeKB,
    curies: Curies,
    report: CorpusReport,
    top_k: int,
) -> Iterator[Mapping]:
    for span, term in linked:
        first, *others = islice(_mappings(term, span, kb, curies), top_k)
        report.count(kind_of(first))
        report.count("terms")
        yield from [first, *others]


def _mappings(term: Term, span: Span, kb: PrototypeKB, curies: Curies) -> Iterator[Mapping]:
    """Yield the link, then the other candidates, best first."""
    linked = span.kb_id_
    candidates = sorted(span._.krissel_candidates, key=lambda each: each["id"] != linked)
    if linked == NIL:
        yield term_mapping(term, {}, kb, curies)
    for index, each in enumerate(candidates):
        other = OTHER if index or linked == NIL else ""
        yield term_mapping(term, each, kb, curies, other)

"""Conversion of gold corpora to `.spacy` files."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import wrong_setting
from ..mentions import gold_mentions
from ..mentions.gold_ids import Resolver
from ..ontology.build import open_ontology
from ..ontology.entity import check_prefix
from ..ontology.store import OntologyStore
from ..ontology.tree_numbers import PRESETS
from ..util.atomic import check_file
from ..util.outputs import writes
from ..util.progress import reading_bar, size_of
from ..util.settings import Count, checked
from .annotation import AnnotatedText
from .doc_bins import DEV_SHARE, DevShare, GoldSplit, write_doc_bin
from .docs import sentence_docs, to_doc
from .files import read_records
from .filters import distinct_texts, keep_labels, keep_types, rewrite_ids
from .readers import READERS, Format, check_documents, detect_format
from .report import CorpusReport, reporting

PathLike = str | Path
AUTO: Format = "auto"
Paths = PathLike | Annotated[list[PathLike], Field(min_length=1)]


@checked
def read_docs(
    inputs: Paths,
    nlp: Language,
    *,
    format: Format = AUTO,
    documents: PathLike | None = None,
    labels: list[str] | None = None,
    types: list[str] | None = None,
    ontology: PathLike | Resolver | None = None,
    prefixes: list[str] = [],  # noqa: B006
    unknown_as_nil: bool = False,
    report: CorpusReport | None = None,
) -> Iterator[Doc]:
    """Yield the documents of gold corpora one at a time, tokenised by `nlp` (`to_doc`).

    inputs: see `convert`
    format: format of the inputs; "auto" detects all but phrases, COMETA and those of plugins
    documents: ZESHEL: folder with one file of documents per world; knowtator, BRAT, SemEval, ShARe,
        n2c2, Linnaeus, S800, BioID: folder of the texts, if they are not next to the annotations
    labels: keep only mentions with this label
    types: keep only mentions of this semantic type, by id or name (`filters.keep_types`), or
        "st21pv", MedMentions' 21 types, by the tree numbers in `ontology`
    ontology: ontology store; an id that it has only without the prefix (`OMIM:145250`) loses the
        prefix, and missing ids are kept and counted. Ids are not mapped to primary ids, so that the
        file fits other versions of the ontology
    prefixes: prefix for ids without one, as in the ontology (NCBITaxon); or a prefix for mentions
        with one label only (Species=NCBITaxon)
    unknown_as_nil: make a mention NIL if the ontology has none of its ids
    report: counts, see `CorpusReport`. Without it, data-quality problems are warned about at the
        end.

    A document with the id of an earlier one is left out.
    Raises KrisselError K006 (a wrong setting), and what the readers raise.
    """
    if format != "auto":
        check_documents(format, documents)
    if unknown_as_nil and ontology is None:
        expected = "false, or an ontology that says which ids are known"
        raise wrong_setting("unknown_as_nil", unknown_as_nil, expected)
    by_label = {}
    for each in prefixes:
        label, _, prefix = each.rpartition("=")
        by_label[label] = check_prefix(prefix)
    # A preset needs types, and an ontology for its tree numbers.
    misnamed = {
        name
        for name in PRESETS.keys() & set(types or ())
        if ontology is None or not PRESETS[name].trees
    }
    if misnamed:
        raise wrong_setting("types", min(misnamed), "semantic types, or 'st21pv' with an ontology")
    if isinstance(ontology, (str, Path)):
        ontology = open_ontology(ontology)
    steps: list[Callable[..., Iterator[AnnotatedText]]] = [distinct_texts]
    if labels is not None:
        steps.append(partial(keep_labels, labels=set(labels)))
    if types is not None:
        # Resolvers other than a store only know ids.
        store = ontology if isinstance(ontology, OntologyStore) else None
        steps.append(partial(keep_types, types=types, store=store))
    if ontology is not None or by_label:
        steps.append(
            partial(
                rewrite_ids, ontology=ontology, prefixes=by_label, unknown_as_nil=unknown_as_nil
            )
        )
    paths = [Path(path) for path in ([inputs] if isinstance(inputs, (str, Path)) else inputs)]

    def read(path: Path, report: CorpusReport) -> Iterator[AnnotatedText]:
        actual = detect_format(path) if format == "auto" else format
        check_documents(actual, documents)
        settings: dict[str, Any] = {} if documents is None else {"documents": documents}
        return READERS[actual](path, report=report, **settings)

    @reporting
    def docs(*, report: CorpusReport) -> Iterator[Doc]:
        texts = chain.from_iterable(read(path, report) for path in paths)
        for step in steps:
            texts = step(texts, report=report)
        for annotated in texts:
            yield to_doc(annotated, nlp, report=report)

    return docs(report=report)


@writes("output")
@checked
def convert(
    inputs: Paths,
    output: PathLike,
    *,
    format: Format = AUTO,
    documents: PathLike | None = None,
    labels: list[str] | None = None,
    types: list[str] | None = None,
    ontology: PathLike | Resolver | None = None,
    prefixes: list[str] = [],  # noqa: B006
    unknown_as_nil: bool = False,
    lang: str = "en",
    sentences: bool = False,
    text_labels: bool = False,
    split: Literal["all", "train", "dev"] = "all",
    dev_share: DevShare = DEV_SHARE,
    seed: Count = 0,
    ids: PathLike | None = None,
    progress: bool = False,
) -> CorpusReport:
    """Convert gold corpora to a .spacy file.

    inputs: files, in order; for knowtator, BRAT, SemEval, ShARe and n2c2 also folders and `.tar.gz`
        archives of annotations and texts
    output: the `.spacy` file to write, atomically
    format, documents, labels, types, ontology, prefixes, unknown_as_nil: see `read_docs`
    lang: language of the tokenizer; ZESHEL has its own tokens
    sentences: write each sentence as a document; whole documents are split
    text_labels: set `doc.cats` to the entities that the document or sentence mentions, for training
        without spans
    split: documents to write: all, dev (chosen by hash) or train (the rest), independent of the
        held-out sets of training and calibration. Counts cover all documents, except
        `documents_written`
    dev_share: fraction of the documents in dev
    seed: random seed of the split
    ids: file of document ids, one per line: write only these documents (KW232 for missing ones)
    progress: show a progress bar

    RETURNS: a report of what was read. Warns once per kind of data-quality problem.
    Raises KrisselError K006 (a wrong setting), and what the readers raise.
    """
    output = Path(output)
    if output.suffix != ".spacy":
        raise wrong_setting("output", output, "a path ending in .spacy")
    check_file(output)
    part = GoldSplit(split, dev_share, seed, purpose="convert")
    report = CorpusReport()
    listed = None if ids is None else _requested_ids(Path(ids), report)
    docs = read_docs(
        inputs,
        blank_pipeline(lang),
        format=format,
        documents=documents,
        labels=labels,
        types=types,
        ontology=ontology,
        prefixes=prefixes,
        unknown_as_nil=unknown_as_nil,
        report=report,
    )
    size = size_of([inputs] if isinstance(inputs, (str, Path)) else inputs)
    shown = reading_bar(docs, size, show=progress, unit=" docs", desc="Converting")
    chosen = _selected_docs(shown, part, listed, report)
    write_doc_bin(_as_texts(chosen, sentences, text_labels, report), output)
    for id_, line in (listed or {}).items():
        report.record_issue("missing_documents", str(ids), line, id_)
    report.warn()
    return report


def blank_pipeline(lang: str) -> Language:
    """Return `spacy.blank(lang)`. Raises KrisselError K006 for a language that spaCy lacks."""
    import spacy

    try:
        return spacy.blank(lang)
    except ImportError as error:
        if "E048" not in str(error):
            # A dependency of the language is missing, not the language.
            raise
        expected = "the code of a language that spaCy has, such as 'en'"
        raise wrong_setting("lang", lang, expected) from error


def _requested_ids(path: Path, report: CorpusReport) -> dict[str, int]:
    """Read the ids in a file, with their lines. Raises KrisselError K204 if there is none."""
    expected = "one document id per line"
    return dict(
        read_records(
            path, lambda line, number: (line.strip(), number), report, expected=expected, what="id"
        )
    )


def _selected_docs(
    docs: Iterable[Doc], part: GoldSplit, listed: dict[str, int] | None, report: CorpusReport
) -> Iterator[Doc]:
    """Yield the listed documents of a split. Ids that remain in `listed` at the end were not
    found."""
    for doc in docs:
        if listed is not None and listed.pop(gold_mentions.document_id(doc), None) is None:
            report.count("unlisted_documents")
        elif part(doc):
            report.count("documents_written")
            yield doc


def _as_texts(
    docs: Iterable[Doc], sentences: bool, with_labels: bool, report: CorpusReport
) -> Iterator[Doc]:
    for doc in docs:
        if sentences and doc.cats:
            expected = (
                "false for documents with labels, since these do not say which sentence they are of"
            )
            raise wrong_setting("sentences", sentences, expected)
        for text in sentence_docs(doc, report=report) if sentences else (doc,):
            if with_labels:
                text.cats = {**text.cats, **gold_mentions.text_labels(text)}
                report.count("text_labels", len(text.cats))
            yield text

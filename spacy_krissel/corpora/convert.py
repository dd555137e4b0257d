"""Gold corpora to `.spacy` files."""

import re
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Set, Union

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import document_id
from ..util.atomic import check_file
from ..util.progress import progress_bar
from .blank import blank_pipeline
from .doc_bins import GoldSplit, write_doc_bin
from .files import open_lines
from .id_rewriter import IdRewriter
from .readers.annotation import AnnotatedText
from .readers.formats import FORMATS, READERS, check_documents, detect_format
from .report import CorpusReport

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_PREFIX = re.compile(r"\w[\w.-]*:?")
PathLike = Union[str, Path]
TypeFilter = Callable[..., Iterator[AnnotatedText]]


def convert(
    inputs: Union[PathLike, Sequence[PathLike]],
    output: PathLike,
    *,
    format: str = "auto",
    documents: Optional[PathLike] = None,
    lang: str = "en",
    labels: Optional[Iterable[str]] = None,
    types: Optional[Iterable[str]] = None,
    semantic_network: Optional[PathLike] = None,
    ontology: Union[PathLike, Resolver, None] = None,
    strip_prefixes: Iterable[str] = (),
    prefix: str = "",
    unknown_as_nil: bool = False,
    sentences: bool = False,
    with_text_labels: bool = False,
    split: str = "all",
    dev_share: float = 0.1,
    seed: int = 0,
    ids: Optional[PathLike] = None,
    progress: bool = False,
) -> CorpusReport:
    """Write gold corpora as one `.spacy` file for `spacy train` and the evaluation; return what was found.

    inputs: in order, files of the formats below; knowtator's, BRAT's and SemEval's are files of annotations with the
        texts beside them, or folders or `.tar.gz` of both. A document whose id was read before is left out.
    output: a path ending in `.spacy`, written all or nothing.
    format: "pubtator", "bioc", "knowtator" (XML), "brat" (`.ann`), "semeval" (`.pipe`), "phrases" (`id TAB concept
        TAB phrase`), "zeshel" (JSON lines of mentions), or "auto", which looks at each file for all but phrases.
    lang: the language whose blank tokenizer is used; ZESHEL brings tokens of its own.
    documents, labels, types, semantic_network, ontology, strip_prefixes, prefix, unknown_as_nil: see `read_docs`.
    sentences: write each sentence as a document, see `sentence_docs`. The split is of whole documents.
    with_text_labels: set `doc.cats` to the `text_labels` of what is written, a document or a sentence.
    split, dev_share, seed: write the documents of "train" or "dev" alone, told by hash (`GoldSplit`), independently of
        what training and calibration hold out; the counts are of all of them, but for `documents_written`.
    ids: a file of documents' ids, one a line: the others are left out, before the split. Those of it that no document
        has are warned of (KW232).
    progress: show a progress bar.

    Warns once for each kind of blemish. Raises KrisselError K006 for a bad setting, and what the readers raise.
    """
    output = Path(output)
    if output.suffix != ".spacy":
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected="a path ending in .spacy"))
    part = GoldSplit.checked(split, dev_share, seed, purpose="convert")
    check_file(output)
    report = CorpusReport()
    listed = None if ids is None else _listed(Path(ids))
    nlp = blank_pipeline(lang)
    docs = read_docs(
        inputs,
        nlp,
        format=format,
        documents=documents,
        labels=labels,
        types=types,
        semantic_network=semantic_network,
        ontology=ontology,
        strip_prefixes=strip_prefixes,
        prefix=prefix,
        unknown_as_nil=unknown_as_nil,
        report=report,
    )
    shown = progress_bar(docs, show=progress, desc="Documents", unit="doc")
    chosen = _chosen(shown, part, listed, report)
    write_doc_bin(_as_texts(chosen, sentences, with_text_labels, report), output)
    for id_, line in (listed or {}).items():
        report.blemish("missing_documents", str(ids), line, id_)
    report.warn()
    return report


def _listed(path: Path) -> Dict[str, int]:
    """The ids in a file, with their lines. Raises KrisselError K204 when there is none."""
    expected = "a document's id a line"
    with open_lines(path, expected) as lines:
        listed = {line.strip(): number for number, line in lines if line.strip()}
    if not listed:
        raise KrisselError(Errors.K204.format(path=path, what="id", line="0 or more blank", expected=expected))
    return listed


def _chosen(
    docs: Iterable["Doc"], part: GoldSplit, listed: Optional[Dict[str, int]], report: CorpusReport
) -> Iterator["Doc"]:
    """The documents of a split, of those that are listed; what is left of `listed` at the end was not there."""
    for doc in docs:
        if listed is not None and listed.pop(document_id(doc), None) is None:
            report.count("unlisted_documents")
        elif part(doc):
            report.count("documents_written")
            yield doc


def _as_texts(docs: Iterable["Doc"], sentences: bool, with_text_labels: bool, report: CorpusReport) -> Iterator["Doc"]:
    """What is written of `docs`: their sentences, or they themselves."""
    from ..mentions.gold_mentions import text_labels
    from .sentence_docs import sentence_docs

    for doc in docs:
        for text in sentence_docs(doc, report=report) if sentences else (doc,):
            if with_text_labels:
                text.cats = text_labels(text)
                report.count("text_labels", len(text.cats))
            yield text


def read_docs(
    inputs: Union[PathLike, Sequence[PathLike]],
    nlp: "Language",
    *,
    format: str = "auto",
    documents: Optional[PathLike] = None,
    labels: Optional[Iterable[str]] = None,
    types: Optional[Iterable[str]] = None,
    semantic_network: Optional[PathLike] = None,
    ontology: Union[PathLike, Resolver, None] = None,
    strip_prefixes: Iterable[str] = (),
    prefix: str = "",
    unknown_as_nil: bool = False,
    report: Optional[CorpusReport] = None,
) -> Iterator["Doc"]:
    """The documents of gold corpora, tokenised by `nlp`, one at a time; see `to_doc` for what they hold.

    documents: for ZESHEL, the folder with a file of documents a world; for knowtator and BRAT, the folder of the texts,
        where it is not one that their readers look at.
    labels: keep only mentions with these labels, e.g. ["Disease"].
    types: keep only mentions of these semantic types, by id or by name, see `keep_types`. MedMentions' subset ST21pv is
        `semantic_types.preset_types("st21pv")` with a `semantic_network`, and, since it is also of 18 vocabularies
        alone, an `ontology` of those with `unknown_as_nil`.
    semantic_network: UMLS's file SRDEF: what is below one of `types` counts as well.
    ontology: a store or its path. An id that it does not know, but knows without its prefix (`OMIM:145250` where MEDIC
        has `145250`), loses the prefix; ids that it knows in neither form are kept and counted. Ids are not mapped to
        primary ids here, so that the file serves other versions of the ontology too.
    strip_prefixes: take these prefixes off all ids, e.g. ["OMIM", "MESH"].
    prefix: put this before ids that have none, as the ontology spells them: "NCBITaxon", where a corpus of species
        has bare numbers. All mentions get it; choose those of one vocabulary by `labels`.
    unknown_as_nil: a mention none of whose ids the ontology holds has no concept there: it becomes "NIL", and so is not
        counted by the evaluation unless that is asked for.
    report: counts, see `CorpusReport`. Without one, warns of blemishes at the end.

    Raises KrisselError K006 for a bad setting, and what the readers raise.
    """
    paths = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if not paths:
        raise KrisselError(Errors.K006.format(setting="inputs", found=paths, expected="at least one file"))
    if format not in FORMATS:
        raise KrisselError(Errors.K006.format(setting="format", found=format, expected=f"one of {', '.join(FORMATS)}"))
    if format != "auto":
        check_documents(format, documents)
    wanted = None if labels is None else _as_set("labels", labels)
    if unknown_as_nil and ontology is None:
        expected = "false, or an ontology that says which ids are known"
        raise KrisselError(Errors.K006.format(setting="unknown_as_nil", found=unknown_as_nil, expected=expected))
    if prefix and not _PREFIX.fullmatch(prefix):
        raise KrisselError(Errors.K006.format(setting="prefix", found=prefix, expected="a word, such as 'NCBITaxon'"))
    if isinstance(ontology, (str, Path)):
        from ..ontology.store import OntologyStore

        ontology = OntologyStore(ontology)
    rewrite = _id_rewriter(ontology, _as_set("strip_prefixes", strip_prefixes), prefix, unknown_as_nil)
    keep = _type_filter(types, semantic_network, ontology)
    read = partial(_read_texts, [Path(path) for path in paths], format, documents)
    return _read_docs(read, nlp, wanted, keep, rewrite, report)


def _read_docs(
    read: Callable[[Set[str], CorpusReport], Iterator[AnnotatedText]],
    nlp: "Language",
    labels: Optional[Set[str]],
    keep: Optional[TypeFilter],
    rewrite: Optional["IdRewriter"],
    report: Optional[CorpusReport],
) -> Iterator["Doc"]:
    from .docs import drop_duplicates, keep_labels, to_doc

    own_report = report is None
    report = CorpusReport() if report is None else report
    found: Set[str] = set()
    texts = drop_duplicates(read(found, report), report)
    if labels is not None:
        texts = keep_labels(texts, labels, report)
    if keep is not None:
        texts = keep(texts, report=report)
    for annotated in texts:
        if rewrite is not None:
            annotated = replace(annotated, mentions=[rewrite(m, annotated, report) for m in annotated.mentions])
        yield to_doc(annotated, nlp, report=report)
    if labels is not None and labels - found:
        missing = ", ".join(map(repr, sorted(labels - found)))
        others = ", ".join(map(repr, sorted(found))) or "none"
        warnings.warn(Warnings.KW209.format(missing=missing, found=others), KrisselWarning, stacklevel=2)
    if own_report:
        report.warn()


def _read_texts(
    paths: Iterable[Path], format: str, documents: Optional[PathLike], found: Set[str], report: CorpusReport
) -> Iterator[AnnotatedText]:
    """The documents of all files; adds every label that occurs to `found`."""
    for path in paths:
        actual = detect_format(path) if format == "auto" else format
        check_documents(actual, documents)
        settings: Dict[str, Any] = {} if documents is None else {"documents": documents}
        for annotated in READERS[actual](path, report=report, **settings):
            found.update(mention.label for mention in annotated.mentions)
            yield annotated


def _type_filter(
    types: Optional[Iterable[str]], semantic_network: Optional[PathLike], ontology: Optional[Resolver]
) -> Optional[TypeFilter]:
    if types is None:
        if semantic_network is not None:
            found, expected = str(semantic_network), "none without `types` to look up in it"
            raise KrisselError(Errors.K006.format(setting="semantic_network", found=found, expected=expected))
        return None
    from ..ontology.store import OntologyStore
    from .filters import keep_types
    from .semantic_types import read_semantic_network, type_keys, with_descendants

    keys = type_keys(types)
    wanted = set(keys)
    if semantic_network is not None:
        wanted = with_descendants(keys.values(), read_semantic_network(semantic_network))
    # Another resolver than a store knows ids alone.
    return partial(keep_types, wanted=wanted, store=ontology if isinstance(ontology, OntologyStore) else None)


def _id_rewriter(
    ontology: Optional[Resolver], prefixes: Set[str], prefix: str, unknown_as_nil: bool
) -> Optional["IdRewriter"]:
    if ontology is None and not prefixes and not prefix:
        return None
    return IdRewriter(ontology, prefixes, prefix, unknown_as_nil)


def _as_set(setting: str, values: Iterable[str]) -> Set[str]:
    if isinstance(values, str):
        raise KrisselError(Errors.K006.format(setting=setting, found=values, expected=f"a list, such as [{values!r}]"))
    return set(values)

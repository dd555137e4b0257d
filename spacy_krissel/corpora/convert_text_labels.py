"""Texts with text-level labels to `.spacy` files."""

from pathlib import Path
from typing import Callable, Iterator, Union

from ..errors import Errors, KrisselError
from ..util.atomic import check_file
from ..util.progress import progress_bar
from .blank import blank_pipeline
from .doc_bins import write_doc_bin
from .readers.text_labels import LabelledText, read_text_labels, to_labelled_doc
from .report import CorpusReport


def convert_text_labels(
    source: Union[str, Path],
    output: Union[str, Path],
    *,
    read: Callable[..., Iterator[LabelledText]] = read_text_labels,
    lang: str = "en",
    progress: bool = False,
) -> CorpusReport:
    """Write texts and the entities they speak of as one `.spacy` file (`to_labelled_doc`); return what was found.

    source: JSON lines, or what `read` reads. A text whose id was read before is
        left out.
    output: a path ending in `.spacy`, written all or nothing.
    lang: the language whose blank tokenizer is used.

    Warns once for each kind of blemish. Raises KrisselError K006 for a bad setting, and what the readers raise.
    """
    source, output = Path(source), Path(output)
    if output.suffix != ".spacy":
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected="a path ending in .spacy"))
    check_file(output)
    nlp = blank_pipeline(lang)
    report = CorpusReport()
    texts = _distinct(read(source, report=report), report)
    shown = progress_bar(texts, show=progress, desc="Texts", unit="text")
    write_doc_bin((to_labelled_doc(text, nlp, report=report) for text in shown), output)
    report.warn()
    return report


def _distinct(texts: Iterator[LabelledText], report: CorpusReport) -> Iterator[LabelledText]:
    seen = set()
    for text in texts:
        if text.id in seen:
            report.blemish("duplicate_documents", text.source, text.line, f"document {text.id}")
        else:
            seen.add(text.id)
            yield text

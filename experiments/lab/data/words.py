"""Words of biomedical text that ship: which are too general to be a name, and which are written in
lower case."""

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.finding.case import MAX_LOWER, MIN_LOWER
from spacy_krissel.finding.common import count_words, general_words
from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.outputs import writes
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import checked

# Rarer stems are left out.
MIN_PER_MILLION = 100.0
# A word in lower case is not a slip if this many texts have it.
MIN_DOCS = 3
_LOWER = re.compile(rf"(?<![\w'’-])[a-z]{{{MIN_LOWER},{MAX_LOWER}}}(?![\w'’-])")


@writes("output", "lower")
@checked
def words(
    texts: Sequence[Path], output: Path, *, lower: Path | None = None, progress: bool = True
) -> tuple[int, int, int]:
    """Count the words of texts by stem, and write those that occur 100 times per million words, and
    the short words that three texts have in lower case.

    texts: JSONL files, as `krissel mine` reads them
    output: The file to write (.tsv.gz)
    lower: The file of words in lower case to write (.txt.gz)

    RETURNS: the numbers of stems written, of those too general to be a name, and of words. Raises
    KrisselError K026 (output), and those of `read_texts`.
    """
    check_file(output)
    if lower is not None:
        check_file(lower)
    report = CorpusReport()
    n_docs: Counter[str] = Counter()

    def read() -> Iterator[str]:
        for path in texts:
            for text in progress_bar(read_texts(path, report=report), show=progress, desc="Texts"):
                n_docs.update({*_LOWER.findall(text.text)})
                yield text.text

    counts, total = count_words(read())
    report.warn()
    common = {own: each for own, each in counts.items() if each.per_million >= MIN_PER_MILLION}
    lines = [
        f"{own}\t{each.per_million:.1f}\t{each.after:.3f}\n" for own, each in sorted(common.items())
    ]
    _write(output, lines)
    if lower is not None:
        _write(lower, (f"{word}\n" for word, n in sorted(n_docs.items()) if n >= MIN_DOCS))
    return len(common), len(general_words(common)), total


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_file(path) as temporary, temporary.open("wb") as raw:
        # Without a time stamp, so that the same words make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file_:
            file_.write("".join(lines).encode("utf8"))


def show_words(numbers: tuple[int, int, int], output: Path) -> str:
    common, general, total = numbers
    return f"{common:,} common words in {output}, {general:,} of them general, of {total:,} words"

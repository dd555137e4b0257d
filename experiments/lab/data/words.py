"""Counts of words of biomedical text that ship: which are too general to be a name."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.finding.common import count_words, general_words
from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.outputs import writes
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import checked

# Rarer stems are left out.
MIN_PER_MILLION = 100.0


@writes("output")
@checked
def words(texts: Sequence[Path], output: Path, *, progress: bool = True) -> tuple[int, int, int]:
    """Count the words of texts by stem, and write those that occur 100 times per million words.

    texts: JSONL files, as `krissel mine` reads them
    output: The file to write (.tsv.gz)

    RETURNS: the numbers of stems written, of those too general to be a name, and of words. Raises
    KrisselError K026 (output), and those of `read_texts`.
    """
    check_file(output)
    report = CorpusReport()

    def read() -> Iterator[str]:
        for path in texts:
            for text in progress_bar(read_texts(path, report=report), show=progress, desc="Texts"):
                yield text.text

    counts, total = count_words(read())
    report.warn()
    common = {own: each for own, each in counts.items() if each.per_million >= MIN_PER_MILLION}
    lines = [
        f"{own}\t{each.per_million:.1f}\t{each.after:.3f}\n" for own, each in sorted(common.items())
    ]
    with atomic_file(output) as temporary, temporary.open("wb") as raw:
        # Without a time stamp, so that the same counts make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file_:
            file_.write("".join(lines).encode("utf8"))
    return len(common), len(general_words(common)), total


def show_words(numbers: tuple[int, int, int], output: Path) -> str:
    common, general, total = numbers
    return f"{common:,} common words in {output}, {general:,} of them general, of {total:,} words"

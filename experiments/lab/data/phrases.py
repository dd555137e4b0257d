"""Phrases of biomedical text that ship: what a linker meets in text apart from its names."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from spacy.lang.en.stop_words import STOP_WORDS

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.util.outputs import writes
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import Count, PositiveInt, checked

# A word, with the marks inside it (TNF-α, 1,25-dihydroxy, CD8+), or another character.
WORD = re.compile(r"[^\W_]+(?:[-'’/.+,][^\W_]+)*\+?|[^\w\s]")
MAX_WORDS, MAX_CHARS = 4, 60


@writes("output")
@checked
def phrases(
    texts: Sequence[Path],
    output: Path,
    *,
    n: PositiveInt = 30_000,
    min_docs: PositiveInt = 3,
    seed: Count = 0,
    progress: bool = True,
) -> tuple[int, int]:
    """Draw phrases of texts, one per line: runs of up to four words between stop words, numbers
    and punctuation.

    texts: JSONL files, as `krissel mine` reads them
    output: The file to write (.txt.gz)
    n: Number of phrases drawn, by the hash of the phrase
    min_docs: Minimum number of texts with the phrase
    seed: Seed of the hash

    RETURNS: the number of phrases written, and of those with enough texts. Raises KrisselError K026
    (output), and those of `read_texts`.
    """
    check_file(output)
    counts: Counter[str] = Counter()
    report = CorpusReport()
    for path in texts:
        for text in progress_bar(read_texts(path, report=report), show=progress, desc="Texts"):
            counts.update(set(phrases_of(text.text)))
    report.warn()
    known = [phrase for phrase, n_docs in counts.items() if n_docs >= min_docs]
    drawn = sorted(sorted(known, key=lambda phrase: stable_hash(seed, phrase))[:n])
    with atomic_file(output) as temporary, temporary.open("wb") as raw:
        # Without a time stamp, so that the same phrases make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file_:
            file_.write("".join(f"{phrase}\n" for phrase in drawn).encode("utf8"))
    return len(drawn), len(known)


def show_phrases(numbers: tuple[int, int], output: Path) -> str:
    drawn, known = numbers
    return f"Phrases in {output}: {drawn:,} of {known:,}"


def phrases_of(text: str) -> Iterator[str]:
    """Yield the runs of words of a text that no stop word, number or other character divides."""
    start = end = n_words = 0
    for match in [*WORD.finditer(text), None]:
        ends = (
            match is None
            or not match[0][0].isalnum()
            or match[0].lower() in STOP_WORDS
            or match[0].lower() == match[0].upper()
        )
        if n_words and (ends or text[end : match.start()] != " "):
            if n_words <= MAX_WORDS and end - start <= MAX_CHARS:
                yield text[start:end]
            n_words = 0
        if match is not None and not ends:
            start = start if n_words else match.start()
            end, n_words = match.end(), n_words + 1

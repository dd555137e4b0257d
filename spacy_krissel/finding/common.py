"""Words that are too general to be a name by themselves, as plain text shows."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..mining.name_table import STOP_WORDS
from ..util.folding import fold_name, to_american
from .words import stem

# Counts in biomedical text, made by `experiments/lab words`.
COUNTS = Path(__file__).parent / "words.tsv.gz"
# A stem is general if it occurs so often per million words, and this fraction of the time right
# after another word that means something: "heart disease", "Down syndrome". Chosen on the training
# splits of NCBI Disease and BC5CDR.
MIN_PER_MILLION, MIN_AFTER = 100.0, 0.75
# Beside `STOP_WORDS`.
_FUNCTION_WORDS = STOP_WORDS.union(
    "against although among because before being between during each either however least less "
    "many neither nor only same several shall since there though through under until upon versus "
    "whether while whom whose within without one two three four five six seven eight nine ten "
    "first second".split()
)
_WORD = re.compile(r"[^\W_]+")


class Count(NamedTuple):
    """Frequency of a stem per million words, and the fraction of it right after a word that means
    something."""

    per_million: float
    after: float


def count_words(texts: Iterable[str]) -> tuple[dict[str, Count], int]:
    """Count the stems in texts. RETURNS: the counts by stem, and the number of words."""
    found: Counter[tuple[str, bool]] = Counter()
    for text in texts:
        end, means = -2, False
        for match in _WORD.finditer(text):
            word, start = match[0].lower(), match.start()
            found[word, means and start == end + 1 and text[end] in " -"] += 1
            end, means = match.end(), word not in _FUNCTION_WORDS and word[0].isalpha()
    all_: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for (word, follows), n in found.items():
        own = stem(to_american(fold_name(word)))
        all_[own] += n
        after[own] += n * follows
    total = all_.total()
    return {own: Count(1e6 * n / total, after[own] / n) for own, n in all_.items()}, total


def general_words(counts: Mapping[str, Count]) -> frozenset[str]:
    """Return the stems that are too general to be a name by themselves."""
    return frozenset(
        own
        for own, count in counts.items()
        if count.per_million >= MIN_PER_MILLION and count.after >= MIN_AFTER
    )


@cache
def bundled_general_words() -> frozenset[str]:
    """Return the `general_words` of the counts that ship."""
    return general_words(read_counts())


def read_counts(path: Path = COUNTS) -> dict[str, Count]:
    """Read the counts of a table: stem, count per million words, fraction after a word."""
    with gzip.open(path, "rt", encoding="utf8", newline="") as file_:
        rows = csv.reader(file_, delimiter="\t")
        return {own: Count(float(n), float(after)) for own, n, after in rows}

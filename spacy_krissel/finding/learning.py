"""Names learned from texts in which all mentions are annotated: which to add, which to leave out.

Counts of the names decide. On the training splits of NCBI Disease and BC5CDR, logistic regression
over the variant, length, case, words and counts of a name gained no more from 50 documents (F1
within 0.2 points).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..lexical.ngrams import canonical_form
from ..mining.name_table import is_searched
from .finder import Match

# A name is left out if at most this fraction of its mentions is annotated. F1 is highest if what is
# likelier than half of F1 is kept, and F1 is about 0.7.
MAX_LEFT_OUT = 0.34
# Before any was seen, this fraction of the mentions of a name is expected to be annotated, and
# counts as one mention: about as many as are. So one mention that is not annotated says too little.
PRIOR = 0.75
# A text is a name of an entity if at least this fraction of its annotations is.
MIN_SAME = 2 / 3
# Ids of the entities of each annotated mention, by its start and end in the text.
Annotated = Mapping[tuple[int, int], tuple[str, ...]]


def names_to_add(
    texts: Sequence[str], found: Iterable[Sequence[Match]], gold: Iterable[Annotated]
) -> dict[str, str]:
    """Return the annotated names that are not found as their entity, each with its id."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for form, match in chain.from_iterable(map(_forms, found)):
        known[form].update(match.named.ids)
    ids: defaultdict[str, Counter[str]] = defaultdict(Counter)
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, annotated in zip(texts, gold, strict=True):
        for (start, end), (first, *others) in annotated.items():
            # A composite mention does not say what its words are a name of.
            if not others and is_searched(text[start:end]):
                form = canonical_form(text[start:end])
                ids[form][first] += 1
                written[form][text[start:end]] += 1
    added = {}
    for form, counts in ids.items():
        ((id_, n),) = counts.most_common(1)
        if n >= MIN_SAME * counts.total() and id_ not in known[form]:
            added[_most_frequent(written[form])] = id_
    return added


def names_to_leave_out(found: Iterable[Sequence[Match]], gold: Iterable[Annotated]) -> list[str]:
    """Return the found names of whose mentions too few are annotated."""
    n_gold: Counter[str] = Counter()
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for matches, annotated in zip(found, gold, strict=True):
        for form, match in _forms(matches):
            written[form][match.text] += 1
            n_gold[form] += (match.start, match.end) in annotated
    return [
        _most_frequent(counts)
        for form, counts in written.items()
        if n_gold[form] + PRIOR <= MAX_LEFT_OUT * (counts.total() + 1)
    ]


def _forms(matches: Iterable[Match]) -> Iterator[tuple[str, Match]]:
    """Return the matches with their canonical form, but those with a part that stands apart: they
    do not have the offsets of one annotation."""
    return ((canonical_form(match.text), match) for match in matches if match.apart is None)


def _most_frequent(counts: Counter[str]) -> str:
    ((text, _),) = counts.most_common(1)
    return text

"""Pairs of names of one entity as training examples, few of them in memory at a time (SapBERT §3.1)."""

import random
from itertools import combinations
from math import comb, isqrt
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple, TypeVar

from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...ontology.folding import fold_name

LABEL = "ENTITY"
# Pairs between two vocabularies: names are not kept for good.
VOCAB_PAIRS = 10_000
Item = TypeVar("Item")


class SynonymPair(NamedTuple):
    """Two names of one entity."""

    entity: str
    first: str
    second: str


def different_names(names: Iterable[str], lowercase: bool = True) -> List[str]:
    """The names in lower case, of those that fold to the same the first."""
    found: Dict[str, str] = {}
    for name in names:
        one_line = " ".join(name.split())
        found.setdefault(fold_name(one_line), one_line)
    return [name.lower() if lowercase else name for name in found.values()]


def draw_pairs(names: Sequence[str], limit: int, rng: random.Random) -> List[Tuple[str, str]]:
    """All pairs of different names, or `limit` of them (0: all), without making the others."""
    total = comb(len(names), 2)
    if not limit or total <= limit:
        return list(combinations(names, 2))
    return [_pair_at(names, k) for k in rng.sample(range(total), limit)]


def _pair_at(names: Sequence[str], k: int) -> Tuple[str, str]:
    """Pair k of (0, 1), (0, 2), (1, 2), (0, 3), …"""
    j = (1 + isqrt(1 + 8 * k)) // 2
    return names[k - comb(j, 2)], names[j]


def shuffled(items: Iterable[Item], buffer_size: int, rng: random.Random) -> Iterator[Item]:
    """The items in another order, with `buffer_size` of them in memory: each is drawn from so many."""
    buffer: List[Item] = []
    for item in items:
        if len(buffer) < buffer_size:
            buffer.append(item)
            continue
        i = rng.randrange(buffer_size)
        yield buffer[i]
        buffer[i] = item
    rng.shuffle(buffer)
    yield from buffer


def pair_examples(pairs: Iterable[SynonymPair], spans_key: str = "") -> Iterator[Example]:
    """An example a pair: a doc of three tokens, the two names, both linked, and a line break between them.

    The docs have vocabularies of their own, renewed from time to time. Were it the pipeline's, every name of the
    ontology would stay in memory and be saved with the pipeline.
    """
    for i, pair in enumerate(pairs):
        if i % VOCAB_PAIRS == 0:
            vocab = Vocab()
        words = [pair.first, "\n", pair.second]
        doc = Doc(vocab, words=words, spaces=[False] * 3)
        spans = [Span(doc, token, token + 1, label=LABEL, kb_id=pair.entity) for token in (0, 2)]
        if spans_key:
            doc.spans[spans_key] = spans
        else:
            doc.ents = spans
        yield Example(Doc(vocab, words=words, spaces=[False] * 3), doc)

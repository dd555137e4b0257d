import threading

import numpy as np
import pytest
import torch

from spacy_krissel.index.products import products
from spacy_krissel.layers.features import MIN_PER_THREAD, text_features, word_features
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.pipeline.linker.query import LexicalQuery
from spacy_krissel.util.compiled import in_parts


@pytest.fixture
def three_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@pytest.mark.parametrize("n", [0, 1, 9, 10, 19, 20, 29, 30, 31, 100])
def test_parts_are_contiguous_and_have_the_minimum_size(n, three_threads):
    parts = in_parts(lambda start, end: (start, end), n, 10)
    assert [start for start, _ in parts] == [0, *(end for _, end in parts[:-1])] and parts[-1][
        1
    ] == n
    assert len(parts) == max(1, min(3, n // 10)) and all(
        end - start >= min(n, 10) for start, end in parts
    )


def test_parts_run_concurrently(three_threads):
    together = threading.Barrier(3, timeout=10)
    assert len(in_parts(lambda start, end: together.wait(), 3, 1)) == 3


def test_errors_of_other_threads_are_raised_in_the_caller(three_threads):
    def work(start, end):
        if start:
            raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        in_parts(work, 3, 1)


def test_features_and_similarities_do_not_depend_on_the_number_of_threads(monkeypatch):
    random = np.random.default_rng(0)
    words = ["".join(random.choice([*"abcde"], 4)) for _ in range(60)]
    texts = [" ".join(random.choice(words, 3)) for _ in range(4 * MIN_PER_THREAD)]
    index = LexicalIndex.of(words, np.arange(len(words)))
    vectors = random.standard_normal((MIN_PER_THREAD, 2**16), dtype=np.float32)
    pairs = np.repeat(np.arange(len(texts)), 5), random.integers(0, len(words), 5 * len(texts))

    def found():
        query = LexicalQuery(index, texts)
        bags = text_features(texts, rows=999, ngrams=(3, 5))
        by_words = word_features(texts, rows=999, ngrams=(3, 5))
        # A word of two parts has two numbers.
        of_word = np.split(by_words.rows, np.cumsum(by_words.n_rows))
        read = np.concatenate([of_word[word] for word in by_words.words])
        bags = *bags, read, by_words.n_words
        return (
            *bags,
            query.candidates(),
            query.similarity(*pairs),
            products(vectors, pairs[0] // 4, vectors, pairs[1]),
        )

    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    by_one = found()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for one, several in zip(by_one, found(), strict=True):
        np.testing.assert_array_equal(one, several)

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.layers.feature_kernel import BASE, MAX_WORD, MIX1, MIX2, SPACE, WHOLE, WORD
from spacy_krissel.layers.features import (
    _codes,
    context_features,
    mention_features,
    text_features,
    word_features,
)
from spacy_krissel.views import View, name_view

ROWS = 2**20
# Any text, halves of surrogate pairs included.
WILD = st.text(st.characters(exclude_categories=()), max_size=30)
VIEWS = st.lists(st.builds(View, WILD, WILD, WILD, st.booleans()), max_size=6)


def bags_of(found, views):
    """The rows of each view, with their counts."""
    bags = [Counter() for _ in views]
    for row, bag in zip(found.rows.tolist(), found.bags.tolist(), strict=True):
        bags[bag][row] += 1
    return bags


def of_mentions(*mentions, rows=ROWS, ngrams=(3, 5), **settings):
    views = [mention if isinstance(mention, View) else name_view(mention) for mention in mentions]
    return bags_of(mention_features(views, rows=rows, ngrams=ngrams, **settings), views)


def of_contexts(*views, rows=ROWS, chars=100):
    return bags_of(context_features(views, rows=rows, ngrams=(4, 5), chars=chars), views)


def restated(text, rows, ngrams):
    """`text_features` of one text, in Python's integers."""
    codes = _codes([f" {text} "])[0].tolist()
    base = int(BASE)
    # Characters beyond the longest word are ignored.
    powers = [*(pow(base, i, 2**64) for i in range(MAX_WORD)), 0]

    def row(value, salt):
        mixed = (value + int(salt) * base) % 2**64
        mixed = (mixed ^ mixed >> 30) * int(MIX1) % 2**64
        mixed = (mixed ^ mixed >> 27) * int(MIX2) % 2**64
        return (mixed >> 32) * rows >> 32

    def run(codes, last):
        return sum(code * powers[min(i, last)] for i, code in enumerate(codes))

    found = Counter()
    for n in range(max(2, ngrams[0]), ngrams[1] + 1):
        grams = (codes[start : start + n] for start in range(len(codes) - n + 1))
        for gram in (gram for gram in grams if SPACE not in gram[1:-1]):
            found[row(sum(code * base ** (n - 1 - i) for i, code in enumerate(gram)), n)] += 1
    for word in "".join(map(chr, codes)).split(chr(SPACE)):
        if word:
            found[row(run(map(ord, word), MAX_WORD), WORD)] += 1
    if len(codes) > 2:
        found[row(run(codes[1:-1], MAX_WORD - 1), WHOLE)] += 1
    return found


def overlap(a, b):
    return (a & b).total() / max(a.total(), b.total())


def test_case_and_punctuation_are_folded():
    plain, *others = of_mentions(
        "breast neoplasms", "Breast Neoplasms", "BREAST-NEOPLASMS", "breast/neoplasms"
    )
    assert plain and all(other == plain for other in others)
    accented, *others = of_mentions(
        "sjögren", "SJÖGREN", "sjogren", "sjo\u0308gren", "sjö\u00adgren"
    )
    assert accented and all(other == accented for other in others)
    greek, spelt_out = of_mentions("β-catenin", "beta catenin")
    assert greek == spelt_out


def test_word_order_has_little_effect():
    plain, turned, other = of_mentions("breast neoplasms", "Neoplasms, Breast", "renal failure")
    assert 0.75 < overlap(plain, turned) < 1
    assert overlap(plain, other) < 0.1


def test_similar_words_share_ngrams():
    singular, plural, other = of_mentions("neoplasm", "neoplasms", "migraine")
    assert overlap(singular, plural) > 0.5 and overlap(singular, other) < 0.1


def test_ngrams_stay_within_words():
    # Were there n-grams across words, "ab" + "cd" would share them with "abcd".
    one, two = of_mentions("abcd", "ab cd")
    inside = of_mentions("ab")[0] | of_mentions("cd")[0]
    assert not (one & two) - inside
    # " ab ", its three n-grams, the word, and the whole string.
    assert len(of_mentions("ab")[0]) == 3 + 2


def test_ngrams_have_the_given_lengths():
    # " abcd " has 4 + 3 + 2 n-grams of 3 to 5, and 5 of 2.
    counts = [
        of_mentions("abcd", ngrams=ngrams)[0].total() for ngrams in ((2, 2), (3, 3), (3, 5), (5, 5))
    ]
    assert np.diff(counts).tolist() == [-1, 5, -7]


def test_masked_views_hide_only_their_mention():
    masked = [View("a ", mention, " b", masked=True) for mention in ("MS", "asthma", "")]
    first, *others = of_mentions(*masked)
    assert first.total() == 1 and all(other == first for other in others)
    assert not first & of_mentions("MS", "mask", "[MASK]")[0]
    plain = View("seen in ", "MS", " patients")
    assert of_contexts(plain) == of_contexts(plain._replace(masked=True, mention="other"))


def test_names_have_no_context():
    assert of_contexts(name_view("MS")) == [Counter()]
    assert of_contexts(View(" (", "MS", "). ")) == [Counter()]


@pytest.mark.parametrize("space", [" ", "\n", "\t", "\u2003"])
@pytest.mark.parametrize(
    "chars, n", [(0, 0), (3, 0), (4, 1), (5, 1), (10, 1), (11, 2), (12, 2), (17, 2), (18, 3)]
)
def test_context_is_cut_at_whole_words(space, chars, n):
    words = ["near", "nearly", "remote"]
    left, right = space.join(words[::-1]), space.join(words)
    whole_left, whole_right = " ".join(words[:n][::-1]), " ".join(words[:n])
    assert of_contexts(View(left, "MS", ""), chars=chars) == of_contexts(View(whole_left, "MS", ""))
    assert of_contexts(View("", "MS", right), chars=chars) == of_contexts(
        View("", "MS", whole_right)
    )


@pytest.mark.parametrize("chars", [6, 10, 15, 22, 29])
def test_only_the_context_nearest_to_the_mention_counts(chars):
    left, right = (
        "first seconds third fourths fifth sixth ",
        " sixth fifth fourths third seconds first",
    )
    (bag,) = of_contexts(View(left, "MS", right), chars=chars)
    assert (
        bag
        == of_contexts(View("far away " * 9 + left, "MS", right + " far away" * 9), chars=chars)[0]
    )
    # As many whole words as fit, or one less a side; never half a word.
    words = left.split()
    allowed = []
    for n in range(len(words) + 1):
        near = " ".join(words[len(words) - n :])
        if chars - 9 <= len(near) <= chars:
            allowed += of_contexts(View(f"{near} ", "MS", " " + " ".join(near.split()[::-1])))
    assert bag in allowed


def test_a_context_of_too_few_characters_is_empty():
    assert of_contexts(View("one two ", "MS", " three"), chars=0) == [Counter()]
    assert of_contexts(View("one two", "MS", "three"), chars=2) == [Counter()]


def test_inflected_context_words_share_ngrams():
    forms = [View("", "MS", f" {word}") for word in ("relapsing", "relapses", "murmurs")]
    relapsing, relapses, murmurs = of_contexts(*forms)
    assert relapsing & relapses and not relapsing & murmurs


def test_left_and_right_contexts_are_equivalent():
    left, right = of_contexts(
        View("fever and cough ", "MS", ""), View("", "MS", " fever and cough")
    )
    assert left == right


def test_mention_and_context_features_are_independent():
    a, b = View("fever ", "MS", " cough"), View("pain ", "MS", "")
    assert of_mentions(a) == of_mentions(b)
    assert of_contexts(a) == of_contexts(a._replace(mention="asthma"))


@pytest.mark.parametrize("features", [of_mentions, of_contexts])
def test_no_views_have_no_features(features):
    assert features() == []


def test_views_without_letters_have_no_context_features():
    bags = of_mentions("", " ", "...", "\n")
    assert len(bags) == 4
    assert bags[0].total() <= 1
    assert of_contexts(View("… -- ", "", " \t"), View("", "", "")) == [Counter(), Counter()]


def test_very_long_mentions_have_features():
    bags = of_mentions("x" * 1000 + " y" * 500, "x" * 999 + " y" * 500)
    assert all(sum(bag.values()) > 1000 for bag in bags)


@settings(max_examples=200)
@given(VIEWS, st.integers(2, 50))
def test_arbitrary_texts_give_valid_rows(views, rows):
    for found in (
        mention_features(views, rows=rows, ngrams=(3, 5)),
        context_features(views, rows=rows, ngrams=(4, 5), chars=20),
    ):
        assert found.rows.shape == found.bags.shape
        if len(found.rows):
            assert 0 <= found.rows.min() and found.rows.max() < rows
            assert 0 <= found.bags.min() and found.bags.max() < len(views)


@settings(max_examples=200)
@given(VIEWS)
def test_features_of_a_view_do_not_depend_on_its_batch(views):
    for ngrams in ((3, 5), (2, 2)):
        assert of_mentions(*views, ngrams=ngrams) == [
            of_mentions(view, ngrams=ngrams)[0] for view in views
        ]
    assert of_contexts(*views, chars=12) == [of_contexts(view, chars=12)[0] for view in views]


@settings(max_examples=200)
@given(
    st.lists(WILD, max_size=6),
    st.integers(2, 50),
    st.sampled_from([(3, 5), (1, 1), (2, 2), (4, 3)]),
)
def test_features_are_the_hashes_of_ngrams_and_words(texts, rows, ngrams):
    found = bags_of(text_features(texts, rows=rows, ngrams=ngrams, whole=True), texts)
    assert found == [restated(text, rows, ngrams) for text in texts]


@settings(max_examples=200)
@given(
    st.lists(WILD, min_size=1, max_size=6),
    st.integers(2, 50),
    st.sampled_from([(3, 5), (1, 1), (2, 2), (4, 3)]),
)
def test_texts_read_by_words_have_the_same_features(texts, rows, ngrams):
    found = word_features(texts, rows=rows, ngrams=ngrams)
    of_word = np.split(found.rows, np.cumsum(found.n_rows))[:-1]
    of_text = np.split(found.words, np.cumsum(found.n_words))[:-1]
    bags = [Counter(row for word in words for row in of_word[word].tolist()) for words in of_text]
    assert bags == bags_of(text_features(texts, rows=rows, ngrams=ngrams), texts)


def test_a_word_of_many_texts_is_read_once():
    found = word_features(["Seen in MS", "seen -- in ms", "unseen"] * 9, rows=99, ngrams=(3, 5))
    # "seen", "in", "ms", "unseen", and what stands between two spaces.
    assert len(found.n_rows) == 5


def test_saved_encoders_find_their_rows():
    """With other features, the tables of every trained encoder would be read at the wrong rows."""
    rows = sorted(text_features(["cold"], rows=32768, ngrams=(3, 5), whole=True).rows.tolist())
    assert rows == [12918, 16019, 17211, 17818, 17955, 23562, 23799, 25409, 26222, 28670, 31510]


def test_features_are_the_same_in_every_process():
    """A saved table is read with them, in other processes."""
    code = (
        "from spacy_krissel.layers.features import text_features\n"
        "print(text_features(['seen in MS'], rows=999, ngrams=(3, 5)).rows.tolist())"
    )
    here = text_features(["seen in MS"], rows=999, ngrams=(3, 5)).rows.tolist()
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(here)

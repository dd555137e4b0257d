"""Equal words of a vocabulary: those that its synonyms show and its other names do not contradict,
as a brute force finds them."""

from collections import defaultdict
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_krissel.finding.substitutions import (
    MIN_ENTITIES,
    MIN_PRECISION,
    NARROWER_FRACTION,
    WIDER_FRACTION,
)
from spacy_krissel.finding.table import NameBags
from spacy_krissel.finding.words import WordReader
from spacy_krissel.mentions.general_words import DISEASES, GENERAL
from spacy_krissel.mining.name_table import STOP_WORDS

PARTS = "stone failure cyst tumor biopsy artery vein pain scan injury".split()


def bags(names, **settings):
    rows = {}
    return NameBags.of([(name, rows.setdefault(id_, len(rows))) for name, id_ in names], rows)


def made(names):
    """Return the names that exist with a word replaced: the words, and the name that is meant."""
    table = bags(names)
    words = {
        int(WordReader().read([word]).key[0]): word for name, _ in names for word in name.split()
    }
    found = set()
    for text in {" ".join(sorted(each)) for each in _candidates(names, words.values())}:
        at = table.bag_of(WordReader().read([text]).key)
        if at >= 0:
            found |= {
                (text, name, table.id_of(row))
                for name, row, is_substituted in table.names_of(at)
                if is_substituted
            }
    return found


def _candidates(names, words):
    for name, _ in names:
        own = name.split()
        for at in range(len(own)):
            for word in words:
                yield [*own[:at], word, *own[at + 1 :]]


def expected(names):
    """The same by brute force."""
    rows = [(tuple(sorted(name.split())), name, id_) for name, id_ in names]
    entities_of = defaultdict(set)
    for one, two in permutations(rows, 2):
        if one[2] != two[2] or len(one[0]) < 2 or len(one[0]) != len(two[0]):
            continue
        for word in one[0]:
            rest = _without(one[0], word)
            for by in two[0]:
                if word != by and rest == _without(two[0], by):
                    entities_of[word, by].add(one[2])
    functions = {*STOP_WORDS, "associated", "due", "nos", "related", "syndrome", "type", "without"}
    existing = defaultdict(set)
    for bag, _, id_ in rows:
        existing[bag].add(id_)
    replacing, fractions = {}, {}
    for (word, by), entities in entities_of.items():
        if len(entities) < MIN_ENTITIES or functions & {word, by}:
            continue
        tried = [
            (bag, name, id_, tuple(sorted([*_without(bag, word), by])))
            for bag, name, id_ in rows
            for _ in range(bag.count(word))
            if len(bag) > 1
        ]
        shown = [each for each in tried if each[3] in existing]
        right = [each for each in shown if each[2] in existing[each[3]]]
        fractions[word, by] = len(right) / len(tried)
        if len(right) >= MIN_PRECISION * len(shown):
            replacing[word, by] = {
                (" ".join(new), name, id_) for _, name, id_, new in tried if new not in existing
            }
    found = set()
    for (word, by), names in replacing.items():
        few, most = sorted([fractions[word, by], fractions[by, word]])
        if few >= WIDER_FRACTION or most < NARROWER_FRACTION:
            found |= names
    return found


def _without(bag, word):
    left = list(bag)
    left.remove(word)
    return tuple(left)


def kidney(n, *others):
    """Names of n entities with "kidney" and "renal", and one with "kidney" alone."""
    pairs = [
        (f"{word} {part}", f"E{number}")
        for number, part in enumerate(PARTS[:n])
        for word in ("kidney", "renal")
    ]
    return [*pairs, ("kidney abscess", "A"), *others]


def test_words_of_five_entities_are_equal():
    names = kidney(MIN_ENTITIES)
    assert made(names) == expected(names) == {("abscess renal", "kidney abscess", "A")}


def test_words_of_fewer_entities_are_not():
    names = kidney(MIN_ENTITIES - 1)
    assert made(names) == expected(names) == set()


def test_one_entity_with_many_synonyms_is_one():
    names = [(f"{word} {part}", "E1") for part in PARTS for word in ("kidney", "renal")]
    names.append(("kidney abscess", "A"))
    assert made(names) == expected(names) == set()


def test_words_of_different_entities_are_not_equal():
    """Two kinds of one disease, which some names confuse."""
    other = [("kidney colic", "B"), ("renal colic", "C")]
    names = kidney(MIN_ENTITIES, *other)
    assert made(names) == expected(names) == set()
    # One of twenty is allowed.
    many = [f"part{i}" for i in range(19)]
    names = [
        *((f"{word} {part}", f"E{part}") for part in many for word in ("kidney", "renal")),
        *other,
        ("kidney abscess", "A"),
    ]
    assert made(names) == expected(names) == {("abscess renal", "kidney abscess", "A")}


@pytest.mark.parametrize("n, is_narrower", [(45, False), (46, True)])
def test_a_narrower_word_is_not_equal(n, is_narrower):
    """Most cells are no lymphocytes, whatever T and B cells are."""
    pairs = [
        (f"{word} {part}", part) for part in PARTS[:MIN_ENTITIES] for word in ("cell", "lymphocyte")
    ]
    others = [(f"cell part{i}", f"E{i}") for i in range(n)]
    names = [*pairs, *others]
    assert made(names) == expected(names) and bool(made(names)) != is_narrower
    # Nor the wider word, for the narrower one.
    names.append(("lymphocyte count", "C"))
    assert (("cell count", "lymphocyte count", "C") in made(names)) != is_narrower
    # Two words that many names have alone are as equal as before.
    names = [*names, *((f"lymphocyte part{i}", f"L{i}") for i in range(100, 110))]
    assert made(names) == expected(names) != set()


@pytest.mark.parametrize("word", ["with", "syndrome", "type", "does", "those", "these"])
def test_stop_words_equal_nothing(word):
    names = [(name.replace("renal", word), id_) for name, id_ in kidney(8)]
    assert made(names) == set()


def test_names_that_exist_stay_as_they_are():
    names = kidney(8, ("renal abscess", "B"))
    assert made(names) == expected(names) == set()
    table = bags(names)
    at = table.bag_of(WordReader().read(["renal abscess"]).key)
    assert [(name, table.id_of(row)) for name, row, _ in table.names_of(at)] == [
        ("renal abscess", "B")
    ]


def test_a_name_of_one_word_is_not_replaced():
    names = kidney(8, ("kidney", "K"))
    assert not any(text == "renal" for text, *_ in made(names))


def test_no_words_are_equal_without_synonyms():
    for names in ([], [("kidney", "K")], [("of the", "K")], [("lung cancer", "L"), ("cold", "C")]):
        assert made(names) == set()


NAMES = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(
            lambda first: " ".join(f"w{letter}" for letter in first)
        ),
        st.sampled_from(["", " x1", " x2", " x3", " x4", " x5", " x6", " x1 x2"]),
        st.integers(0, 6),
    ).map(lambda each: (each[0] + each[1], f"E{each[2]}")),
    max_size=40,
)
TWO = [(f"w{w} x{i}", f"E{i}") for i in range(1, 7) for w in "ab"]
WIDER = [(f"wa y{i}", f"Y{i}") for i in range(60)]


@settings(max_examples=300, deadline=None)
@given(NAMES)
@example([*TWO, ("wa x1 x2", "E0"), ("wc x9", "E1")])
@example([("wb x9", "E9"), *WIDER])
@example([*TWO, ("wa wa", "E0"), ("wa wb", "E0")])
@example(
    [(f"wa wa x{i}", f"E{i}") for i in range(6)] + [(f"wa wb x{i}", f"E{i}") for i in range(6)]
)
def test_substitutions_equal_a_brute_force(names):
    names = [*dict.fromkeys(names)]
    assert made(names) == expected(names)
    names = [*dict.fromkeys([*TWO, *names])]
    assert made(names) == expected(names)


MODIFIERS = "kidney", "heart", "rare kidney"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([f"{each} {word}" for each in MODIFIERS for word in GENERAL[:5]])
            | st.sampled_from(["disease", "kidney"]),
            st.integers(0, 3),
        ),
        max_size=6,
    )
)
def test_disease_stands_for_other_general_words(pairs):
    table = bags([(name, f"E{entity}") for name, entity in pairs])
    for modifier in MODIFIERS:
        for word in GENERAL:
            text = f"{modifier} {word}"
            listed = {f"E{entity}" for name, entity in pairs if name == text}
            of = {
                f"E{entity}"
                for name, entity in pairs
                if name[: -len(name.split()[-1])].strip() == modifier
                and name.split()[-1] in DISEASES
            }
            at = table.bag_of(WordReader().read([text]).key)
            found = {table.id_of(row) for _, row, _ in table.names_of(at)} if at >= 0 else set()
            assert found == (listed or (of if len(of) == 1 else set()))


def test_equal_words_are_shown_as_words():
    """Not as stems: "diseas" is no word."""
    roots = ("lung", "liver", "heart", "brain", "nerve", "gland", "bone", "skin", "eye", "ear")
    pairs = [
        (f"{root} {word}", row)
        for row, root in enumerate(roots)
        for word in ("diseases", "disease", "disorder")
    ]
    table = NameBags.of(pairs, [f"E{row}" for row in range(len(roots))])
    assert table.words_like("Lung diseases") == {"lung": [], "diseases": ["disorder"]}
    assert table.words_like("a disorder")["disorder"] == ["disease"]

"""Words and their equivalents, induced from synonyms."""

import gzip
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.lexical import word_links
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.lexical.words import MANY_DIGITS

KINDS = ("pain", "cyst", "stone", "tumor", "failure", "edema")
# Synonyms that show "vorba" and "kidney" to be equivalent, and no table that ships knows them.
NAMES = [
    (f"{organ} {kind}", 3 * i) for i, kind in enumerate(KINDS) for organ in ("vorba", "kidney")
] + [(f"{organ} {kind}", 3 * i + 1) for i, kind in enumerate(KINDS) for organ in ("skin", "eye")]
WORDS = st.lists(
    st.sampled_from(["vorba", "kidney", "skin", "pain", "cyst", "ß", "nephropathy", "xyz", "of"]),
    max_size=5,
).map(" ".join)


@cache
def known_lexicon():
    return LexicalIndex.of([name for name, _ in NAMES], np.array([row for _, row in NAMES]))


@pytest.fixture(scope="module")
def lexicon():
    return known_lexicon()


def similarity(lexicon, text, entity, without=None):
    read = lexicon.read([text])
    hidden = None if without is None else lexicon.forms([without])
    return float(lexicon.word_similarity(read, np.array([0]), np.array([entity]), hidden)[0])


def test_synonyms_show_words_to_be_equivalent(lexicon):
    ((part, links),) = lexicon.words.like("vorba")
    assert part == "vorba" and dict(links)["vorba"] == 1
    assert dict(links)["kidney"] > 0.5
    assert "skin" not in dict(links)


def test_a_name_is_wholly_similar_and_an_equivalent_one_more_than_another(lexicon):
    assert similarity(lexicon, "Kidney pains", 0) == pytest.approx(1)
    hidden = similarity(lexicon, "kidney pain", 0, without="kidney pain")
    assert 0.3 < hidden < 1
    assert hidden > similarity(lexicon, "kidney pain", 1)
    assert similarity(lexicon, "nothing", 0) == 0 and similarity(lexicon, "", 0) == 0
    assert similarity(lexicon, "pain", 10_000) == 0


def test_compounds_are_read_by_their_parts():
    names = [(f"nephr{end}", i) for i, end in enumerate(("itis", "opathy", "osis", "oma"))]
    names += [("kidney toxicity", 5), ("liver toxicity", 6)]
    lexicon = LexicalIndex.of([name for name, _ in names], np.array([row for _, row in names]))
    parts = lexicon.words.like("nephrotoxicity")
    assert [part for part, _ in parts] == ["nephro-", "toxicity"]
    assert "kidney" in dict(parts[0][1])
    kidney, liver = (similarity(lexicon, "nephrotoxicity", row) for row in (5, 6))
    assert kidney > liver > 0


def test_names_with_digits_have_no_equivalents():
    lexicon = LexicalIndex.of(["gene 1", "gene 2", "kidney"], np.arange(3))
    assert MANY_DIGITS < 2 / 3 and not lexicon.words
    assert similarity(lexicon, "kidney", 2) == 0


def test_saved_words_are_the_same(lexicon, tmp_path):
    lexicon.to_disk(tmp_path / "index")
    loaded = LexicalIndex.from_disk(tmp_path / "index", 100)
    assert loaded.words.words == lexicon.words.words
    assert loaded.words.like("vorba") == lexicon.words.like("vorba")
    with pytest.raises(ValueError, match=r"word_"):
        np.save(tmp_path / "index" / "word_starts.npy", np.zeros(3, dtype=np.int64))
        LexicalIndex.from_disk(tmp_path / "index", 100)


@given(WORDS, st.sampled_from(range(18)))
def test_similarity_is_the_product_of_two_weighted_fractions(text, entity):
    lexicon = known_lexicon()
    words = lexicon.words
    units = words.units(canonical_form(text))
    weights = dict(zip(words.words, lexicon._arrays["word_weights"].tolist(), strict=True))
    best = 0.0
    for name in (name for name, row in NAMES if row == entity):
        own = {each for each in words.words if each in name.split()}
        reach = [
            max(
                (
                    s
                    for unit in units
                    for w, s in zip(unit.words, unit.strengths, strict=True)
                    if words.words[w] == each
                ),
                default=0.0,
            )
            for each in own
        ]
        covered = sum(
            unit.weight
            * max(
                (
                    s
                    for w, s in zip(unit.words, unit.strengths, strict=True)
                    if words.words[w] in own
                ),
                default=0.0,
            )
            for unit in units
        )
        whole, total = sum(weights[each] for each in own), sum(unit.weight for unit in units)
        if whole and total:
            reached = sum(weights[w] * s for w, s in zip(own, reach, strict=True))
            best = max(best, reached / whole * covered / total)
    assert similarity(lexicon, text, entity) == pytest.approx(best, abs=1e-5)
    assert 0 <= best <= 1 + 1e-6


def test_the_table_that_ships_knows_organs():
    shared = word_links.shared_links()
    assert dict(shared["renal"])["kidney"] > 0.3
    assert "kidney" in dict(shared["nephr-"]) and "liver" in dict(shared["hepato-"])
    assert all(0 < strength <= 1 for links in shared.values() for _, strength in links)


def test_read_links_groups_by_word(tmp_path):
    path = tmp_path / "links.tsv.gz"
    with gzip.open(path, "wt", encoding="utf8") as file_:
        file_.write("renal\tkidney\t0.47\nrenal\tnephric\t0.2\nnephr-\tkidney\t0.7\n")
    assert word_links.read_links(path) == {
        "renal": [("kidney", 0.47), ("nephric", 0.2)],
        "nephr-": [("kidney", 0.7)],
    }

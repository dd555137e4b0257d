"""Words of texts as keys: the forms of a word share one, offsets point at the words, and a text
reads the same alone and among others."""

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.finding import words as module
from spacy_krissel.finding.common import (
    COUNTS,
    Count,
    bundled_general_words,
    count_words,
    general_words,
    read_counts,
)
from spacy_krissel.finding.words import BARRIER, END, FREE, STRICT, WordReader, hashed, stem
from spacy_krissel.mining.matcher import plain_letters
from spacy_krissel.util.folding import APOSTROPHES

FORMS = [
    "tumor tumors Tumour TUMOURS",
    "biopsy biopsies",
    "abscess abscesses",
    "virus viruses",
    "headache headaches",
    "size sizes",
    "disease diseases",
    "dose doses",
    "rash rashes",
    "box boxes",
    "nose noses",
    "loss losses",
    "metastasis metastases",
    "diagnosis diagnoses",
    "vertebra vertebrae",
    "humerus humeri",
    "nevus nevi naevus naevi",
    "fetus fetuses",
    "diverticulum diverticula",
    "serum sera serums",
    "anaemia anemia anaemias",
    "oedema edema",
    "Sjögren sjogren",
    "β beta Β",
    "II ii 2",
    "XII 12",
    "naïve naive",
]
OTHERS = [
    "virus viral",
    "cell celled",
    "nose no",
    "gas gap",
    "lupus lump",
    "anemia anemic",
    "his hi",
    "2 3",
    "mouse moi",
]
LETTERS = st.characters(codec="utf-8") | st.sampled_from(
    "aabs  --..,/'’\n\0\u0301\u0308\u00ad\u200b\ufeffßαΔ½İ😀𝛽\ud800\udfffIVX12"
)
TEXTS = st.text(LETTERS, max_size=40)
WORDS = st.sampled_from(["type", "I", "II", "cancer", "of", "the", "and", "Crohn's", "11p15.5"])
ANY = st.lists(TEXTS | st.lists(WORDS, max_size=6).map(" ".join), max_size=6)


def read(*texts, reader=None):
    return (reader or WordReader()).read([plain_letters(text).text for text in texts])


def keys(text):
    words = read(text)
    return words.key[~words.skipped].tolist()


def columns(words):
    return {name: column.tolist() for name, column in words._asdict().items()}


@pytest.mark.parametrize("forms", FORMS)
def test_forms_of_a_word_share_a_key(forms):
    found = {tuple(keys(form)) for form in forms.split()}
    assert len(found) == 1 and len(found.pop()) == 1


@pytest.mark.parametrize("words", OTHERS)
def test_different_words_have_different_keys(words):
    first, second = words.split()
    assert keys(first) != keys(second)


# Plurals of other words look like singulars: "his", "emus", "lens", "zombies".
@given(st.from_regex(r"[a-z]{3,11}([b-hj-rtv-z]|ss|us)", fullmatch=True))
@example("headache")
@example("eyelash")
@example("size")
def test_regular_plurals_share_the_stem_of_the_singular(word):
    assume(not word.endswith("ie") and not word.endswith("ae"))
    if word.endswith("y") and word[-2] not in "aeiou":
        plural = word[:-1] + "ies"
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        plural = word + "es"
    else:
        plural = word + "s"
    assert stem(plural) == stem(word)


@pytest.mark.parametrize("word", ["gas", "pus", "his", "as", "HIV1", "a1s", "αs"])
def test_short_words_and_symbols_are_no_plurals(word):
    assert stem(word) == word


def test_roman_numerals_are_numbers_after_certain_words_only():
    assert keys("type I") == keys("type 1") and keys("group V") == keys("group 5")
    assert keys("chromosome X") != keys("chromosome 10")
    assert keys("I") != keys("1")
    assert keys("GSD II") == keys("GSD 2")


@pytest.mark.parametrize("text", ["type. I", "type\nI", "type (I"])
def test_numerals_do_not_reach_beyond_a_barrier(text):
    assert keys(text) != keys("type 1")


@pytest.mark.parametrize("apostrophe", sorted(set(APOSTROPHES) - {"ꞌ"}))
def test_possessives_are_skipped(apostrophe):
    words = read(f"Crohn{apostrophe}s disease")
    assert words.skipped.tolist() == [False, True, False]
    assert not read("S. aureus", "s", "vitamin s").skipped.any()


def test_of_and_the_are_skipped_and_and_or_join():
    words = read("absence of the speech and THE Of OR")
    assert words.skipped.tolist() == [False, True, True, False, False, True, True, False]
    assert words.joins.tolist() == [False, False, False, False, True, False, False, True]


@pytest.mark.parametrize(
    "between, gap",
    [
        *(
            (text, FREE)
            for text in (" ", "-", "–", "‑", "\t", "—", "\u00a0", " é".replace("é", ""))
        ),
        *((text, FREE) for text in ("·", "→", "😀", "\ud800", "\0", "'")),
        *((text, STRICT) for text in (",", ", ", "/", " & ", "+", "_", "%")),
        *((text, BARRIER) for text in (". ", "; ", ": ", " (", ") ", '"', "?", "! ", " = ")),
        ("\n", END),
        ("…", FREE),
        (".", STRICT),
    ],
)
def test_gap_between_words(between, gap):
    assert read(f"lung{between}cancer").gap.tolist() == [gap, END]
    # Whatever else is in the text.
    assert read(f"α lung{between}cancer ß").gap.tolist()[1] == gap


@settings(max_examples=300)
@given(ANY)
@example(["type", "I"])
@example(["a", "\u0301b"])
@example(["Crohn'", "s"])
@example(["", "\0", "\ud800"])
def test_reading_several_texts_equals_reading_each(texts):
    found = columns(read(*texts))
    shared, expected = WordReader(), {name: [] for name in found}
    for number, text in enumerate(texts):
        one = columns(read(text, reader=shared))
        assert one == columns(read(text))
        for name, column in one.items():
            expected[name] += [number] * len(column) if name == "text" else column
    assert found == expected


@settings(max_examples=300)
@given(TEXTS)
def test_offsets_point_at_the_words(text):
    plain = plain_letters(text).text
    words = read(text)
    spans = [*zip(words.start.tolist(), words.end.tolist(), strict=True)]
    assert all(start < end for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    inside = {at for start, end in spans for at in range(start, end)}
    for at, char in enumerate(plain):
        if char.isascii():
            assert (at in inside) == char.isalnum()
    assert len(words.key) == len(words.gap) == len(spans)


def test_texts_without_words():
    for texts in ([], [""], ["", " ", "\0\n", "…", "\ud800", "\u0301"[:0]]):
        assert not len(read(*texts).key)


def test_accents_invisible_characters_and_ligatures_do_not_count():
    assert keys("Sjo\u0308gren") == keys("Sjögren") == keys("Sjogren")
    assert keys("can\u00adcer") == keys("can\u200bcer") == keys("\ufeffcancer") == keys("cancer")
    assert keys("α-fetoprotein") == keys("alpha fetoprotein")
    assert keys("ﬁbrosis") == keys("fibrosis")


def test_many_distinct_words_are_forgotten(monkeypatch):
    """Words that were read keep their keys, whatever is remembered."""
    monkeypatch.setattr(module, "MAX_WORDS", 100)
    reader = WordReader()
    texts = [
        " ".join(f"word{i} tumors{i % 7}" for i in range(n, n + 60)) for n in range(0, 900, 60)
    ]
    for text in texts:
        assert columns(read(text, reader=reader)) == columns(read(text))
        assert len(reader._numbers) <= 100 + 120
    whole = " ".join(texts)
    assert columns(read(whole, reader=reader)) == columns(read(whole))


def test_a_reader_survives_an_interrupted_read(monkeypatch):
    reader = WordReader()
    reader.read(["lung cancer"])
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(module, "stem", raise_memory_error)
        reader.read(["new words"])
    assert columns(reader.read(["words of lung"])) == columns(read("words of lung"))


def raise_memory_error(word):
    raise MemoryError


def test_threads_share_a_reader(monkeypatch):
    monkeypatch.setattr(module, "MAX_WORDS", 300)
    reader, chance = WordReader(), random.Random(0)
    texts = [
        " ".join(f"w{chance.randrange(500)}s" for _ in range(chance.randrange(1, 60)))
        for _ in range(300)
    ]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: columns(read(text, reader=reader)), texts))
    assert found == [columns(read(text)) for text in texts]


# General words ------------------------------------------------------------------------------------


def test_words_are_counted_by_stem():
    counts, total = count_words(
        ["Lung diseases. Disease of the lung", "heart-disease, the disease"]
    )
    assert total == 10
    disease = counts[stem("disease")]
    assert disease.per_million == pytest.approx(1e6 * 4 / 10) and disease.after == 0.5
    assert counts["lung"].after == 0
    assert count_words([])[0] == {}


def test_general_words_are_frequent_and_follow_others():
    counts = {"syndrome": Count(500, 0.8), "rare": Count(50, 0.9), "fever": Count(500, 0.2)}
    assert general_words(counts) == {"syndrome"}


def test_bundled_counts_are_of_stems():
    """Or a name would not be compared with them."""
    counts = read_counts(COUNTS)
    assert len(counts) > 1000 and list(counts) == sorted(counts)
    assert {stem("disease"), stem("disorder"), stem("factor")} <= bundled_general_words()
    assert stem("asthma") not in bundled_general_words()
    # No key ends in what `stem` takes from every word.
    assert not [own for own in counts if len(own) > 4 and own.endswith(("che", "xe", "ze", "sis"))]


def test_hashes_are_keys_of_stems():
    assert hashed(["tumor"]).tolist() == keys("tumours")
    assert hashed([]).dtype == np.uint64

import pickle
from string import ascii_letters
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.mining.matcher import UNSUPPORTED, NameMatcher, is_acronym
from spacy_krissel.mining.name_table import AMBIGUOUS, SearchName

TWINS = {"\u2013": "-", "\u2019": "'", "\n": " ", "\u00a0": " "}
# Few characters, so that names are found often; all kinds that boundaries, folding and typography
# are about.
ALPHABET = "aAbBİΣς1é\u0301 -,('_" + "".join(TWINS)


def naive_char(char, fold):
    char = TWINS.get(char, char)
    if fold and len(char.lower()) == 1:
        char = char.lower().replace("ς", "σ")
    return char


def naive_plain(text):
    """Without accents, one letter for each, and the offsets of these letters."""
    groups, i = [], 0
    while i < len(text):
        end = i + 1
        while end < len(text) and text[end] == "\u0301":
            end += 1
        letter = {"é": "e", "İ": "I", "Σ": "Sigma", "ς": "sigma", "\u0301": ""}.get(
            text[i], text[i]
        )
        groups += [(char, i, end) for char in letter]
        i = end
    return groups


def naive_matches(names, text, fold):
    """Compare every name with every place of the text, one character at a time."""
    groups = naive_plain(text)
    text = "".join(char for char, _, _ in groups)
    names = [(row, "".join(char for char, _, _ in naive_plain(name))) for row, name in names]

    def is_word(i):
        return 0 <= i < len(text) and text[i].isalnum()

    wanted = {}
    for row, name in names:
        form = "".join(naive_char(char, fold) for char in name)
        form = " ".join(form.split())
        wanted[form] = row if wanted.get(form, row) == row else AMBIGUOUS
    form = "".join(naive_char(char, fold) for char in text)
    matches, start = [], 0
    while start < len(text):
        ends = [
            start + len(name)
            for name in wanted
            if form.startswith(name, start)
            and not is_word(start - 1)
            and not is_word(start + len(name))
        ]
        if ends:
            matches.append((start, max(ends), wanted[form[start : max(ends)]]))
            start = max(ends)
        else:
            start += 1
    return [
        (groups[start][1], groups[end - 1][2], row)
        for start, end, row in matches
        if row != AMBIGUOUS
    ]


class Match(NamedTuple):
    start: int
    end: int
    row: int
    name: str


def find_all(matcher, text):
    """The matches in a text, in order."""
    return [
        Match(start, end, row, matcher.table.names(np.array([entry]))[0].as_py())
        for part in matcher.find_in([text])
        for start, end, row, entry in zip(*(column.tolist() for column in part[1:]), strict=True)
    ]


def find(matcher, text):
    return [match for match in find_all(matcher, text) if match.row >= 0]


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.text(ALPHABET, min_size=1, max_size=5).filter(lambda name: name.strip()),
        ),
        max_size=12,
    ),
    st.text(ALPHABET, max_size=40),
    st.booleans(),
)
def test_matcher_equals_a_naive_one(names, text, fold):
    # A name has a letter or digit (`search_names` sees to that).
    names = [SearchName(row, name) for row, name in names if any(map(str.isalnum, name))]
    found = find(NameMatcher(names, "fold" if fold else "preserve"), text)
    assert [match[:3] for match in found] == naive_matches(names, text, fold)

    def form(text):
        return "".join(naive_char(char, fold) for char, _, _ in naive_plain(text))

    folded = [" ".join(form(name).split()) for _, name in names]
    for match in found:
        assert form(text[match.start : match.end]) in folded
        assert SearchName(match.row, match.name) in names


@given(st.text(max_size=80), st.sampled_from(["preserve", "fold", "smart"]))
def test_any_text_can_be_searched(text, case):
    matcher = NameMatcher([SearchName(0, "lung"), SearchName(1, "NS")], case)
    text = text + " lung cancer İ lung"
    assert [text[match.start : match.end].lower() for match in find(matcher, text)][-2:] == [
        "lung",
        "lung",
    ]


def found(matcher, text):
    return [text[match.start : match.end] for match in find(matcher, text)]


def names(*texts):
    return [SearchName(row, text) for row, text in enumerate(texts)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Cancer, then cancer.", ["Cancer", "cancer"]),
        ("cancers precancer cancer2", []),
        ("anti-cancer (cancer)/cancer_x", ["cancer", "cancer", "cancer"]),
        ("lung cancer of lung", ["lung cancer"]),
        ("lung\ncancer", ["lung cancer".replace(" ", "\n")]),
        ("lung  cancer", ["cancer"]),
        ("lung, cancer", ["cancer"]),
        ("that lung cancer", ["lung cancer"]),
        ("écancer cancerß", []),
        ("cancer\u0301 cancer", ["cancer\u0301", "cancer"]),
        ("lu\u00adng can\u200bcer", ["lu\u00adng can\u200bcer"]),
        ("癌 cancer 癌", ["cancer"]),
        ("癌cancer", []),
        ("", []),
    ],
)
def test_longest_names_match_at_word_boundaries(text, expected):
    matcher = NameMatcher(names("Cancer", "Lung Cancer", "at lung"), "fold")
    assert found(matcher, text) == expected


def test_a_failed_longer_name_does_not_hide_a_shorter_one():
    matcher = NameMatcher(names("AIDS", "AIDS Dementia", "dementia complex"), "preserve")
    assert found(matcher, "AIDS dementia complex") == ["AIDS", "dementia complex"]


def test_preserve_matches_exact_case_only():
    matcher = NameMatcher(names("Cancer"), "preserve")
    assert found(matcher, "Cancer cancer CANCER") == ["Cancer"]


def test_a_shared_name_lets_a_shorter_name_match():
    matcher = NameMatcher([SearchName(AMBIGUOUS, "lung cancer"), SearchName(1, "cancer")], "fold")
    assert found(matcher, "lung cancer or cancer") == ["cancer"]
    assert [match.row for match in find_all(matcher, "lung cancer or cancer")] == [AMBIGUOUS, 1]


def test_names_equal_after_folding_are_ambiguous():
    same = [SearchName(0, "Cold"), SearchName(1, "COLD")]
    assert found(NameMatcher(same, "fold"), "cold Cold COLD") == []
    assert [match.row for match in find(NameMatcher(same, "preserve"), "cold Cold COLD")] == [0, 1]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("he aids AIDS research", ["AIDS"]),
        ("Gout, gout and GOUT", ["Gout", "gout"]),
        ("LUNG CANCER and lung Cancer", ["LUNG CANCER", "lung Cancer"]),
        ("gsd ii, GSD II", ["GSD II"]),
        ("PIEBALDISM, piebaldism", ["PIEBALDISM", "piebaldism"]),
        ("tay-sachs disease", ["tay-sachs disease"]),
    ],
)
def test_smart_is_case_sensitive_for_acronyms_only(text, expected):
    matcher = NameMatcher(
        names("AIDS", "Gout", "Lung cancer", "GSD II", "PIEBALDISM", "Tay-Sachs Disease"), "smart"
    )
    assert found(matcher, text) == expected


def test_smart_requires_support_for_short_acronyms():
    matcher = NameMatcher(
        [SearchName(0, "Netherton Syndrome"), SearchName(0, "NS"), SearchName(1, "Ichthyosis")],
        "smart",
    )
    assert found(matcher, "NS in netherton syndrome") == ["NS", "netherton syndrome"]
    assert found(matcher, "NS in ichthyosis") == ["ichthyosis"]
    assert find_all(matcher, "NS")[0].row == UNSUPPORTED
    # The paper's way asks for none.
    assert found(NameMatcher([SearchName(0, "NS")], "preserve"), "NS in ichthyosis") == ["NS"]


def test_acronyms_are_recognized():
    assert all(map(is_acronym, ["AIDS", "mRNA", "MEN1", "T-ALL", "HbS", "GSD II", "NS", "22q11DS"]))
    assert not any(
        map(
            is_acronym,
            [
                "Aids",
                "Tay-Sachs",
                "Lung Cancer",
                "cold",
                "Dba5",
                "PIEBALDISM",
                "X-linked",
                "A B"[:1],
            ],
        )
    )


def test_match_has_the_first_name_of_the_ontology():
    matcher = NameMatcher([SearchName(0, "Lung  Cancer"), SearchName(0, "lung cancer")], "fold")
    assert [match.name for match in find(matcher, "LUNG CANCER")] == ["Lung  Cancer"]


def test_pickled_matcher_finds_the_same():
    matcher = NameMatcher(names(*ascii_letters, "lung cancer"), "fold")
    text = "a b lung cancer"
    assert find(pickle.loads(pickle.dumps(matcher)), text) == find(matcher, text)


@pytest.mark.parametrize(
    "name, texts",
    [
        (
            "Sjögren's syndrome",
            [
                "Sjogren's syndrome",
                "Sjo\u0308gren’s syndrome",
                "Sjögren syndrome",
                "Sjögren's syndrome",
            ],
        ),
        ("beta-catenin", ["β-catenin", "Beta-catenin", "ϐ-catenin"]),
        ("TNF-α", ["TNF-alpha", "TNF-α", "TNF‐α"]),
        ("factor VIII deficiency", ["factor 8 deficiency", "Factor VIII deficiency"]),
        ("type 2 diabetes", ["Type II diabetes", "type 2 diabetes"]),
        (
            "fibrosis of lung",
            ["ﬁbrosis of lung", "fib\u00adrosis of lung", "ｆｉｂｒｏｓｉｓ of lung"],
        ),
        ("H2O2 poisoning", ["H₂O₂ poisoning"]),
    ],
)
@pytest.mark.parametrize("case", ["preserve", "fold", "smart"])
def test_names_are_found_in_their_common_spellings(name, texts, case):
    matcher = NameMatcher([SearchName(0, name)], case)
    for text in texts:
        if case != "preserve" or text[0].isupper() == name[0].isupper():
            (match,) = find(matcher, f"“{text}” α, {text[:-1]}")
            assert (match.start, match.end, match.name) == (1, 1 + len(text), name)


@given(
    st.lists(st.text("abcdefgh", min_size=2, max_size=6), min_size=1, max_size=3),
    st.text("xyz αéﬁ\u0301\u00ad", max_size=8),
    st.data(),
)
def test_offsets_include_invisible_characters(words, before, data):
    name = written = " ".join(words)
    for _ in range(data.draw(st.integers(0, 4))):
        offset = data.draw(st.integers(1, len(written) - 1))
        written = (
            written[:offset]
            + data.draw(st.sampled_from("\u00ad\u200b\ufeff\u0301\u0308"))
            + written[offset:]
        )
    text = f"{before} {written}, {before}"
    matcher = NameMatcher([SearchName(0, name)], "smart")
    assert (match := find(matcher, text)) and text[match[0].start : match[0].end] == written


def test_empty_matcher_finds_nothing():
    assert find(NameMatcher([], "smart"), "lung cancer") == []


def test_misspelt_case_raises():
    with pytest.raises(KrisselError, match="K006.*'case'.*'folded'.*preserve, fold, smart"):
        NameMatcher([], "folded")

"""Beyond what the matcher's tests see of it."""

import numpy as np

from spacy_krissel.mining import name_table as name_table_module
from spacy_krissel.mining.matcher import NameMatcher
from spacy_krissel.mining.name_table import AMBIGUOUS, NameTable, NormalizedName, SearchName
from spacy_krissel.mining.text_forms import forms


def found(table, text):
    matches = table.find(forms(text, fold=True))
    return [
        (text[start:end], table.names(np.array([entry]))[0].as_py())
        for start, end, entry in zip(*matches[:3], strict=True)
    ]


def places(names, text):
    table = NameTable(
        [NormalizedName(name, name, row, False) for row, name in enumerate(names)], fold=True
    )
    return [place for place, _ in found(table, text)]


def test_longest_name_from_each_start_wins():
    names = ["a b c", "a b", "a", "b", "b c", "b (d)", "c (d)", "c", "-c"]
    assert places(names, "a b c (d)") == ["a b c", "b c", "c (d)"]
    assert places(names, "a b, c(d)") == ["a b", "b", "c"]


def test_names_with_punctuation_at_their_edges_are_found():
    names = ["(d) e", "(d) e.", "(d)", "d", "d)", "((d", "d) e f", "e"]
    assert places(names, "((d) e.) d) e f ((d") == [
        "((d",
        "(d) e.",
        "d)",
        "e",
        "d) e f",
        "e",
        "((d",
        "d",
    ]


def test_exact_name_is_found_before_a_folded_one():
    names = [NormalizedName("aids", "aids", 0, False), NormalizedName("AIDS", "AIDS", 1, True)]
    table = NameTable(names, fold=True)
    assert found(table, "AIDS aids Aids") == [("AIDS", "AIDS"), ("aids", "aids"), ("Aids", "aids")]
    assert len(table) == 2


def test_equal_names_are_merged():
    names = [
        ("A b", 3),
        ("a b", 3),
        ("A B", 3),
        ("c", 1),
        ("C", 2),
        ("c", 1),
        ("d", AMBIGUOUS),
        ("D", AMBIGUOUS),
    ]
    table = NameTable([NormalizedName(name, name, row, False) for name, row in names], fold=True)
    assert len(table) == 3
    matches = table.find(forms("a b c d", fold=True))
    assert dict(zip(table.names(matches.entry).to_pylist(), matches.row.tolist(), strict=True)) == {
        "A b": 3,
        "c": AMBIGUOUS,
        "d": AMBIGUOUS,
    }


def test_building_in_blocks_changes_nothing(monkeypatch):
    names = [
        NormalizedName(f"{i % 7} w{i} ({i})", f"{i % 7} w{i} ({i})", i, False) for i in range(50)
    ]
    names += [NormalizedName("...", "...", 9, False)]
    text = " and ".join(name.plain for name in names)
    whole = NameTable(names, fold=True)
    monkeypatch.setattr(name_table_module, "BLOCK_NAMES", 8)
    parts = NameTable(names, fold=True)
    assert len(whole) == len(parts) == 50
    assert found(parts, text) == found(whole, text) and len(found(whole, text)) == 50


def test_a_filter_that_lets_everything_pass_changes_nothing():
    names = [NormalizedName(f"w{i} w{i + 1}", f"w{i} w{i + 1}", i, False) for i in range(50)]
    table = NameTable(names, fold=True)
    text = " ".join(f"w{i}" for i in range(70))
    expected = found(table, text)
    table._filter[:] = name_table_module.NAME | name_table_module.BEGINNING
    assert found(table, text) == expected and len(expected) == 50


def test_names_with_equal_hashes_are_distinguished(monkeypatch):
    """Names that share the hash that is looked up are all found, and what has this hash alone is
    none of them."""
    hashes = name_table_module.SpanHashes.hashes

    def poor(self, starts, ends):
        return hashes(self, starts, ends) >> np.uint64(61) << np.uint64(61)

    monkeypatch.setattr(name_table_module.SpanHashes, "hashes", poor)
    names = [NormalizedName(f"W{i} W{i + 1}", f"W{i} W{i + 1}", i, True) for i in range(0, 60, 2)]
    table = NameTable(names, fold=True)
    text = "no " + ", ".join(name.text for name in names) + " W1 W2"
    assert len(table) == 30
    assert [name for _, name in found(table, text)] == [name.text for name in names]


def test_texts_of_several_blocks_keep_their_numbers(monkeypatch):
    monkeypatch.setattr("spacy_krissel.mining.matcher.BLOCK_CHARS", 12)
    texts = ["lung", "", "no", "a lung lung", "", "x" * 40, "lung"]
    matcher = NameMatcher(
        [SearchName(4, "lung"), SearchName(5, "lung no"), SearchName(6, "no a")], "fold"
    )
    parts = list(matcher.find_in(texts))
    places = [
        place
        for part in parts
        for place in zip(*(column.tolist() for column in part[:4]), strict=True)
    ]
    assert places == [(0, 0, 4, 4), (3, 2, 6, 4), (3, 7, 11, 4), (6, 0, 4, 4)]
    assert len(parts) > 1 and list(matcher.find_in([])) == []

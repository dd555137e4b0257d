import csv

import pytest
from lab.data.mention_sample import format_mentions, sample_mentions, tsv_cell

from spacy_krissel.errors import KrisselError
from spacy_krissel.mining.shards import MentionShards, MinedMention

MENTION = MinedMention(
    "D1", "Lung\tCancer", "t|1", 4, 15, "x" * 200 + " a|\n", "lung cancer", "\tb"
)


@pytest.fixture
def shards(toy_shards):
    return MentionShards(toy_shards)


def test_a_sample_is_seeded_and_without_repetition(shards):
    sample = sample_mentions(shards, 30, seed=4)
    assert sample == sample_mentions(shards, 30, seed=4) != sample_mentions(shards, 30, seed=5)
    assert len({(m.doc, m.start) for m in sample}) == 30
    assert sorted(sample_mentions(shards, len(shards))) == sorted(shards)


@pytest.mark.parametrize("n", [0, -1, 10**6])
def test_an_invalid_sample_size_raises(shards, n):
    with pytest.raises(KrisselError, match=f"K304.*{n} mentions.*from 1 to {len(shards)}"):
        sample_mentions(shards, n)


def test_text_shows_mentions_in_context(shards):
    assert (
        format_mentions([MENTION], context_chars=5)
        == "1. D1 Lung Cancer (t|1:4)\n   x a| ⟦lung cancer⟧ b\n"
    )
    assert format_mentions([]) == ""


def test_zero_context_shows_the_mention_only():
    assert "\n   ⟦lung cancer⟧\n" in format_mentions([MENTION], context_chars=0)


def test_tsv_can_be_read_back():
    rows = list(
        csv.DictReader(
            format_mentions([MENTION], "tsv", names={"D1": "Lung Neoplasms"}).splitlines(),
            dialect="excel-tab",
        )
    )
    assert (
        len(rows) == 1
        and rows[0]["name"] == "Lung Neoplasms"
        and rows[0]["mention"].endswith("a| ⟦lung cancer⟧ b")
    )
    assert rows[0]["right?"] == "" and rows[0]["text"] == "t|1"


def test_markdown_cells_are_escaped():
    header, rule, row = format_mentions([MENTION], "markdown", context_chars=5).splitlines()
    assert row == r"| 1 | D1 | Lung Cancer | t\|1 | 4 | x a\| ⟦lung cancer⟧ b |  |"
    assert header.count("|") == rule.count("|") == row.count("|") - row.count(r"\|")


def test_an_unknown_format_raises():
    with pytest.raises(KrisselError, match="K006.*'html'.*text, tsv, markdown"):
        format_mentions([], "html")


def test_names_are_escaped_against_formulas():
    (row,) = csv.DictReader(
        format_mentions([MENTION], "tsv", names={"D1": "=cmd|' /C calc'!A0"}).splitlines(),
        dialect="excel-tab",
    )
    assert row["name"] == "'=cmd|' /C calc'!A0"


def test_html_is_escaped_in_markdown():
    text = format_mentions([MENTION], "markdown", names={"D1": "<script>x</script>"})
    assert "| \\<script>x\\</script> |" in text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "\r="])
def test_tsv_cells_are_escaped_against_formulas(start):
    assert tsv_cell(f"{start}cmd|' /C calc'!A0").startswith("'")

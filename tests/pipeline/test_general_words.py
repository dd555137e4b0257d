"""Mentions with a general word of harm are read as names of diseases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search_terms import make_kb

from spacy_krissel.kb.search_result import SearchResult
from spacy_krissel.mentions.general_words import GENERAL, is_reading, readings
from spacy_krissel.pipeline.linker.confidence import MAX_UNNAMED, with_confidence
from spacy_krissel.pipeline.linker.match import VARIANT, match_codes
from spacy_krissel.pipeline.linker.query import Found, Query
from spacy_krissel.pipeline.linker.terms.general import GeneralTerm
from spacy_krissel.pipeline.settings import LinkerSettings
from spacy_krissel.views import View, name_view

NAMES = [
    (0, "name", "Kidney Diseases"),
    (0, "class", "renal"),
    (0, "class", "nephropathy"),
    (1, "name", "liver disorder"),
    (2, "name", "liver injury"),
    # Two entities.
    (3, "name", "heart disease"),
    (4, "name", "heart disorders"),
    # Two names of one.
    (5, "name", "eye disease"),
    (5, "name", "eye disorder"),
    (6, "name", "asthma"),
    (7, "name", "peripheral neuropathy"),
]


@pytest.fixture(scope="module")
def kb():
    owners, kinds, names = zip(*NAMES, strict=True)
    return make_kb(list(owners), list(names), np.eye(len(NAMES), dtype=np.float32), list(kinds))


def read(kb, *mentions, types=(), found=()):
    views = [View("In ", mention, ".") for mention in mentions]
    query = Query(kb.snapshot(), views, written=[*mentions])
    query.found = {row: Found([0], "name") for row in found}
    GeneralTerm(types, {}).prepare(query)
    assert query.texts == [view.mention for view in query.views]
    assert query.reworded.tolist() == [
        text != mention for text, mention in zip(query.texts, mentions, strict=True)
    ]
    assert query.written == [*mentions]
    return query


@pytest.mark.parametrize(
    "mention, text",
    [
        ("kidney injury", "kidney diseases"),
        ("Kidney lesions", "kidney diseases"),
        ("damage to the kidney", "kidney diseases"),
        ("toxicity in liver", "liver disorder"),
        ("impaired kidney function", "kidney diseases"),
        ("kidney function abnormalities", "kidney diseases"),
        # A class name.
        ("Abnormal renal functions", "renal"),
        ("renal dysfunction", "renal"),
        ("Nephrotoxic", "nephropathy"),
        ("nephrotoxicities", "nephropathy"),
        ("eye impairment", "eye disease"),
    ],
)
def test_general_words_stand_for_disease(kb, mention, text):
    query = read(kb, mention, "asthma", mention)
    assert query.texts == [text, "asthma", text]
    result = SearchResult.padded(1, 8)
    result.entities[:] = np.arange(8)
    assert match_codes(read(kb, mention), result).max() <= VARIANT
    # The spelling is that of a name, too, once the mention is reworded.
    result.parts["spelling"] = np.ones((1, 8), dtype=np.float32)
    assert match_codes(read(kb, mention), result).max() <= VARIANT


@pytest.mark.parametrize(
    "mention",
    [
        "liver injury",  # a name
        "heart injury",  # two entities
        "spleen injury",  # none
        "injury",
        "kidney function",
        # An entity's name, maybe of another kind: T cell deficiency is no T cell.
        "asthma problems",
        "complications of asthma",
        "peripheral neurotoxicity",
        "toxic",
        "kidney",
        "kidney transplant",
        "injurykidney",
        "hepatotoxic",
        "",
        " ",
    ],
)
def test_other_mentions_stay(kb, mention):
    assert read(kb, mention).texts == [mention]


def test_found_mentions_and_other_types_stay(kb):
    assert read(kb, "kidney injury", "kidney injury", found=[1]).texts == [
        "kidney diseases",
        "kidney injury",
    ]
    # Entities with even numbers are of type T0.
    assert read(kb, "kidney injury", types=["T1"]).texts == ["kidney injury"]
    assert read(kb, "heart injury", types=["T1"]).texts == ["heart disease"]
    assert read(kb, "heart injury", types=["T0"]).texts == ["heart disorders"]


def test_term_is_off_without_comparison_of_names(kb):
    of = GeneralTerm.of
    assert of(LinkerSettings(lexical_weight=0.5), kb.snapshot()) is not None
    assert of(LinkerSettings(), kb.snapshot()) is None
    off = LinkerSettings(lexical_weight=0.5, use_general_words=False)
    assert of(off, kb.snapshot()) is None


def test_found_general_words_are_told_from_other_words():
    """The finder's variant is the same for both."""
    assert all(map(is_reading, ["kidney injury", "damage to the kidney", "Kidney lesions"]))
    assert not any(map(is_reading, ["renal disease", "kidney disorders", "renal stone", ""]))


def test_reworded_mention_is_no_listed_name(kb):
    fitted = {"trust": 0.96, "bias": -3.0, "lexical": 3.0, "lexical_lead": 1.0, "vector_lead": 8.0}
    query = read(kb, "kidney diseases", "kidney injury")
    assert query.texts == ["kidney diseases"] * 2
    result = SearchResult.padded(2, 2)
    result.entities[:], result.scores[:] = [0, 1], [1.0, 0.5]
    found = with_confidence(query, result, LinkerSettings(confidence=fitted)).confidence
    assert found[0, 0] == 0.96 and found[1, 0] <= MAX_UNNAMED


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.sampled_from(GENERAL))
def test_wild_text_is_read(kb, text, word):
    read(kb, text, f"{text} {word}", f"{word} of {text}", f"{text}toxic")
    found = readings(f"kidney {text.strip()} {word}")
    assert found.names == tuple(
        f"{found.other} {form}" for form in ("disease", "diseases", "disorder", "disorders")
    )
    assert found.other.startswith("kidney")
    assert name_view(text).mention == text

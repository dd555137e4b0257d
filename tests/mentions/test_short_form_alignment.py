import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mentions.alignment import (
    PRECISIONS,
    Alignment,
    best_alignment,
    fold_letters,
    letters_of,
)


@pytest.mark.parametrize(
    "short, text, long, strategy",
    [
        ("AA", "in anaemia, aplastic anemia", "aplastic anemia", "initials"),
        ("IIEF", "International Index of Erectile Function",
         "International Index of Erectile Function", "initials"),
        ("MCL", "a mantle-cell lymphoma", "mantle-cell lymphoma", "initials"),
        ("Epo", "of erythropoietin", "erythropoietin", "inner"),
        ("Glu", "of glutamate", "glutamate", "runs"),
        ("AML", "acute non-Hodgkin myeloid leukemia", "acute non-Hodgkin myeloid leukemia",
         "skipped initials"),
        ("APC", "adenomatous polyposis coli gene", "adenomatous polyposis coli gene",
         "trailing initials"),
        ("PPAD", "phenyl methylpropyl azo dye", "phenyl methylpropyl azo dye", "scattered"),
        ("IFN-gamma", "the gamma-interferon", "gamma-interferon", "swapped"),
        ("Aβ", "the β-amyloid", "β-amyloid", "initials"),
        ("DM", "the myotonic dystrophy", "myotonic dystrophy", "shuffled"),
        ("FEV1", "the forced expiratory volume", "forced expiratory volume", "numbered initials"),
        ("ASAP", "done as soon as possible", "as soon as possible", "initials"),
        ("3D", "in three-dimensional", "three-dimensional", "initials"),
        ("CO2", "of carbon oxide 2", "carbon oxide 2", "initials"),
    ],
)  # fmt: skip
def test_best_alignment_covers_the_whole_long_form(short, text, long, strategy):
    found = best_alignment(short, text)
    assert found is not None
    assert (text[found.start :], found.strategy) == (long, strategy)


@pytest.mark.parametrize(
    "short, text",
    [
        ("AT", ""),
        ("AT", "xataxia xtelangiectasia"),
        # Not within a noun phrase.
        ("AT", "the ataxia was telangiectasia"),
        ("OM", "of mice"),
        # Too many words between.
        ("AT", "ataxia many words stand here between telangiectasia"),
        ("A", "ataxia"),
        ("A-", "ataxia"),
    ],
)
def test_text_without_the_long_form_has_no_alignment(short, text):
    assert best_alignment(short, text) is None


def test_a_whole_alignment_starts_at_the_first_word():
    assert best_alignment("AA", "aplastic anemia", whole=True) == Alignment(0, "initials", 2)
    assert best_alignment("AA", "an aplastic anemia", whole=True) is None
    assert best_alignment("AA", "acute aplastic anemia", whole=True) is None


@pytest.mark.parametrize(
    "short, letters",
    [("NF-κB", "nfkb"), ("NF-kappaB", "nfkb"), ("TGF-beta1", "tgfb1"), ("MSCs", "msc"),
     ("MSC's", "msc"),
     ("FEV(1)", "fev1"), ("CO₂", "co2"), ("É-A", "ea"), ("ABBEY", "abbey"), ("PGF2alpha", "pgf2a")],
)  # fmt: skip
def test_short_form_is_normalized_to_letters(short, letters):
    assert letters_of(short) == letters


@given(st.text(max_size=40))
def test_folding_keeps_offsets(text):
    folded = fold_letters(text)
    assert len(folded) == len(text)
    assert fold_letters(folded) == folded or not text.isascii()


def test_each_strategy_has_four_rates():
    assert all(len(row) == 4 and all(0 <= rate <= 1 for rate in row) for row in PRECISIONS.values())
    assert PRECISIONS["initials"] >= PRECISIONS["inner"] >= PRECISIONS["scattered"]


@given(st.text(max_size=12), st.text(max_size=60), st.booleans())
def test_alignment_of_any_text_is_valid(short, text, whole):
    found = best_alignment(short, text, whole=whole)
    if found is not None:
        assert 0 <= found.start < len(text)
        assert not text[: found.start].strip() or not whole or not text[: found.start].isalnum()
        assert 0 <= found.precision <= 1

import re
from itertools import islice, product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from operations import operations
from spacy.tokens import Doc, Span

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.mentions.abbreviations import (
    Definition,
    abbreviation_expander,
    definitions,
    doc_definitions,
    document_expander,
    find_definitions,
)
from spacy_krissel.mentions.contexts import mention_views
from spacy_krissel.mentions.short_forms import fold_short, key_of, keyed_runs
from spacy_krissel.util.folding import INVISIBLE_CHARS

FORMS = {
    "A-T": "ataxia-telangiectasia",
    "PLL": "prolymphocytic leukemia",
    "T-PLL": "T-cell prolymphocytic leukemia",
}


@pytest.mark.parametrize(
    "mention, expected",
    [
        ("A-T", "ataxia-telangiectasia"),
        ("A-T patients", "ataxia-telangiectasia patients"),
        ("sporadic T-PLL", "sporadic T-cell prolymphocytic leukemia"),
        ("T-PLL and PLL", "T-cell prolymphocytic leukemia and prolymphocytic leukemia"),
        ("A-T-like", "ataxia-telangiectasia-like"),
        # Only whole words, as they are spelt.
        ("BA-T", "BA-T"),
        ("PLLs", "PLLs"),
        ("a-t", "a-t"),
        ("asthma", "asthma"),
        ("", ""),
        # The definition itself, and a bracket that is none.
        ("ataxia-telangiectasia (A-T)", "ataxia-telangiectasia"),
        ("Ataxia-Telangiectasia [ A-T ] mutation", "Ataxia-Telangiectasia mutation"),
        ("leukemia (PLL)", "leukemia (prolymphocytic leukemia)"),
    ],
)
def test_short_forms_in_a_mention_are_written_out(mention, expected):
    assert abbreviation_expander(FORMS)(mention) == expected


TEXT = (
    "Report of AA in two boys. We saw AA early. Acquired ataxia (AA) was found, and AA grew.\n"
    "Aplastic anemia (AA) came, and MSCs in mesenchymal stem cell (MSC) lines. MSCs and AA went."
)


def written(text, mention):
    """All that stands for `mention` in its places in `text`."""
    expand = document_expander(text)
    return [expand(mention, found.start()) for found in re.finditer(rf"\b{mention}\b", text)]


def test_definition_applies_from_its_offset_on():
    text = "A title\n" + TEXT
    first, second = "Acquired ataxia", "Aplastic anemia"
    assert written(text, "AA") == ["AA", "AA", first, first, second, second]
    assert written(text, "MSCs") == ["MSCs", "mesenchymal stem cell"]
    # The definition itself, in both orders.
    expand = document_expander(text)
    for mention in ("Acquired ataxia (AA)", "Aplastic anemia (AA)"):
        assert expand(mention, text.index(mention)) == mention.removesuffix(" (AA)")
    assert written("A title\nThe AA (acquired ataxia) grew", "AA") == ["acquired ataxia"]


def test_first_definition_applies_in_the_title():
    assert written(TEXT.replace("\n", " "), "AA")[:2] == ["Acquired ataxia", "AA"]


def test_singular_and_plural_short_forms_are_written_out():
    assert written("Cancer stem cells (CSCs). One CSC grew.", "CSC") == ["Cancer stem cells"]
    assert written("A stem cell (SC). Many SCs grew.", "SCs") == ["stem cell"]
    # Its own definition comes first.
    assert written("A stem cell (SC). SCs (small cysts) grew.", "SCs") == ["small cysts"]


def test_single_letter_is_written_out_only_as_a_whole_mention():
    text = "A title\nTo epinephrine (E) or none. E was better than vitamin E."
    assert written(text, "E") == ["epinephrine", "epinephrine", "epinephrine"]
    assert document_expander(text)("vitamin E", text.index("vitamin")) == "vitamin E"


def test_short_form_with_a_number_missing_from_the_long_form_is_kept():
    text = "A title\nThe cyclooxygenase inhibitor (COX-2) and forced volume (FV1): COX-2, FV1."
    assert "FV1" in find_definitions(text)
    assert document_expander(text)("FV1", text.rindex("FV1")) == "FV1"


def test_doc_mentions_are_written_out_after_their_definition(blank):
    doc = blank("A title\nAA is rare. Aplastic anemia (AA) came, and AA went.")
    spans = [token for token in doc if token.text == "AA"]
    spans = [doc[token.i : token.i + 1] for token in spans]
    views = mention_views(doc, spans, context="window", use_abbreviations=True)
    assert [view.mention for view in views] == ["AA", "Aplastic anemia", "Aplastic anemia"]


def test_definitions_without_offsets_apply_everywhere():
    expand = abbreviation_expander([Definition("AA", "aplastic anemia")])
    assert expand("AA", 0) == expand("AA", 99) == expand("AA") == "aplastic anemia"


def test_short_forms_within_a_long_form_are_kept():
    assert abbreviation_expander({"AB": "a CD", "CD": "an AB"})("AB of CD") == "a CD of an AB"


@given(
    st.text(max_size=20),
    st.dictionaries(st.text(min_size=1, max_size=4), st.text(min_size=1, max_size=9)),
)
def test_only_known_short_forms_are_written_out(mention, forms):
    written, folded = abbreviation_expander(forms)(mention), fold_short(mention)
    shorts = [fold_short(short) for short in forms]
    keys = {key for start in range(len(folded)) for _, key in keyed_runs(folded, start)}
    if not any(short and short in folded for short in shorts) and keys.isdisjoint(
        map(key_of, shorts)
    ):
        assert written == mention
    if shorts.count(folded) == 1 and folded:
        assert written == forms.get(mention, written)


@given(
    st.text("Ab-( )é_1", max_size=16),
    st.dictionaries(
        st.text("Ab-( )é_1", min_size=1, max_size=4), st.text("Ab( -", min_size=1, max_size=5)
    ),
)
@example("b_A", {"_": "b"})
@example("A1A A_b 1", {"b": "A", "A1": "Ab"})
def test_short_forms_are_replaced_in_one_pass(mention, forms):
    """Compare with a regular expression of all short forms, where no key or bracket plays a
    role."""
    keys = {key for start in range(len(mention)) for _, key in keyed_runs(mention, start)}
    assume("(" not in mention and keys.isdisjoint(map(key_of, forms)))
    either = "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"
    expected = re.sub(rf"(?<![^\W_])(?:{either})(?![^\W_])", lambda found: forms[found[0]], mention)
    assert abbreviation_expander(forms)(mention) == forms.get(mention, expected)


INVISIBLE = st.sampled_from("\u200b\u00ad\u2060\ufeff\ufe0f\u200e\u200d")
FORM_TEXT = "Systemic lupus erythematosus (SLE) and NF-1 (neurofibromatosis type 1) are rare."


@given(
    st.lists(st.tuples(st.integers(0, len(FORM_TEXT)), INVISIBLE), max_size=8),
    st.sampled_from(["SLE", "NF-1"]),
)
@example([(FORM_TEXT.index("SLE"), "\u200b")], "SLE")
@example([(FORM_TEXT.index("LE)"), "\u00ad")], "SLE")
@example([(FORM_TEXT.index(")"), "\u200b")], "SLE")
@example([(FORM_TEXT.index(" (SLE"), "\u200b")], "SLE")
def test_invisible_characters_do_not_matter(inserted, short):
    text = FORM_TEXT
    for offset, char in sorted(inserted, reverse=True):
        text = text[:offset] + char + text[offset:]
    long = {"SLE": "Systemic lupus erythematosus", "NF-1": "neurofibromatosis type 1"}[short]
    found = {pair.short: pair for pair in definitions(text, ["\ufeff".join(short)])}
    pair = found[short]
    assert INVISIBLE_CHARS.sub("", pair.long) == long
    assert text[pair.long_start : pair.long_end] == pair.long
    assert INVISIBLE_CHARS.sub("", text[pair.start : pair.end]) == short
    assert pair.long[0] == long[0] and pair.long[-1] == long[-1]
    expand = document_expander(text, list(found.values()))
    for mention in (short, "\u200b".join(short), short + "\u200e"):
        assert expand(mention) == pair.long


@pytest.mark.parametrize(
    "text",
    [
        "Multiple sclerosis (ＭＳ) is", "Multiple sclerosis（MS） is",
        "Multiple sclerosis\u00a0(MS) is",
        "Multiple sclerosis\u2009(MS\u2009) is", "Multiple sclerosis [\u200bMS\ufe0f] is",
        "ＭＳ (Multiple sclerosis)",
    ],
)  # fmt: skip
def test_other_spaces_and_full_width_forms_do_not_matter(text):
    assert (
        find_definitions(text, ["ＭＳ"]) == find_definitions(text) == {"MS": "Multiple sclerosis"}
    )
    assert (
        document_expander(text)("ＭＳ")
        == document_expander(text)("M\u00adS")
        == "Multiple sclerosis"
    )


@pytest.mark.parametrize(
    "text, same, others",
    [
        ("nuclear factor kappa B (NF-κB)", ["NF-kB", "NFkB", "NF-kappaB", "NF kappa B", "NFκB"],
         ["nfkb", "NFKB"]),
        ("nuclear factor kappa B (NF-kappaB)", ["NF-kB", "NFkB", "NF-κB", "NF‐κB"], ["NF"]),
        ("interferon gamma (IFN-γ)", ["IFNg", "IFN gamma", "IFN-gamma", "IFNγ"], ["IFN", "IFNG"]),
        ("diabetes mellitus 2 (DM-2)", ["DM2", "DM 2", "DM–2"], ["DM", "dm2", "DM-21", "ADM2"]),
        ("diabetes mellitus 2 (DM2)", ["DM-2", "DM 2"], ["dm-2"]),
        ("type 2 diabetes mellitus (T2DM)", ["T2-DM", "T2 DM"], ["t2-dm", "T-DM"]),
        ("amyotrophic lateral sclerosis (A.L.S.)", ["ALS", "A.L.S.", "A-L-S"],
         ["als", "Als", "A L S"]),
        ("amyotrophic lateral sclerosis (ALS)", ["A.L.S.", "A.L.S"], ["A. L. Smith", "a.l.s."]),
        ("forced expiratory volume in 1 s (FEV(1))", ["FEV1", "FEV-1"], ["FEV"]),
        # Plain words, and signs that count.
        ("amyloid beta (Aβ)", ["A-beta", "Abeta"], ["Ab"]),
        ("aspartate neutrophil (A-N)", ["AN"], ["An", "an"]),
        # A number of two digits is another one.
        ("micro repeat 9-3 (MR-9-3)", ["MR9-3"], ["MR93"]),
    ],
)  # fmt: skip
def test_spelling_variants_of_a_short_form_are_written_out(text, same, others):
    (short, long), *_ = find_definitions(text).items()
    text += f" or {short} was seen."
    for mention in same:
        found = definitions(text, [mention])
        assert document_expander(text, found)(mention) == long
        assert document_expander(text, found)(f"rare {mention} cells") == f"rare {long} cells"
    for mention in others:
        assert document_expander(text)(mention) == mention


def test_ambiguous_variants_of_short_forms_are_kept():
    expand = abbreviation_expander({"A-LS": "acute limb swelling", "AL-S": "acid labile subunit"})
    assert [expand(mention) for mention in ("A-LS", "AL-S", "ALS")] == [
        "acute limb swelling",
        "acid labile subunit",
        "ALS",
    ]
    assert (
        abbreviation_expander({"A-LS": "acute limb swelling", "AL-S": "acute limb swelling"})("ALS")
        == "acute limb swelling"
    )


@given(st.text("abcdefghij -", min_size=1, max_size=20))
def test_lower_case_words_are_not_short_forms(mention):
    shorts = [mention.upper(), mention.upper().replace("-", ""), mention.upper().replace(" ", "-")]
    expand = abbreviation_expander(
        {
            short: "long form"
            for short in [*shorts, mention.title()]
            if short.upper() != short.lower()
        }
    )
    assert expand(mention) == mention


def lookups(n):
    """Count the interpreter's operations of writing out a mention of `n` short forms."""
    shorts = ["".join(letters) for letters in islice(product("ABCDEFGHIJ", repeat=3), n)]
    expand = abbreviation_expander([Definition(short, f"long {short.lower()}") for short in shorts])
    return operations(
        lambda: expand(" ".join(f"{short} or long x ({short})" for short in shorts)), "mentions"
    )


def test_cost_is_linear_in_the_mention():
    assert lookups(400) < 4.2 * lookups(100)


@pytest.fixture
def extension():
    Doc.set_extension("abbreviations", default=[], force=True)
    yield
    Doc.remove_extension("abbreviations")


def long_forms(doc):
    """The first long form of each short form."""
    return {each.short: each.long for each in reversed([*doc_definitions(doc)])}


def test_long_forms_are_read_from_the_text(blank):
    assert long_forms(blank("Bronchial asthma (BA) was treated.")) == {"BA": "Bronchial asthma"}


def test_abbreviations_of_a_component_win_over_the_text(blank, extension):
    doc = blank("Bronchial asthma (BA) was treated.")
    assert long_forms(doc) == {"BA": "Bronchial asthma"}
    doc._.abbreviations = [{"short_text": "BA", "long_text": "basilar artery"}]
    assert long_forms(doc) == {"BA": "basilar artery"}


def test_genera_are_added_to_a_components_abbreviations(blank, extension):
    doc = blank("Escherichia coli (EC), or E. coli")
    doc._.abbreviations = [{"short_text": "EC", "long_text": "Escherichia coli"}]
    assert long_forms(doc) == {"EC": "Escherichia coli", "E. coli": "Escherichia coli"}


def test_scispacys_dictionaries_and_spans_are_read(blank, extension):
    doc = blank("Bronchial asthma (BA) was treated.")
    entry = {"short_text": "BA", "short_start": 18, "short_end": 20}
    entry.update(long_text="basilar artery", long_start=0, long_end=16)
    doc._.abbreviations = [entry]
    assert long_forms(doc) == {"BA": "basilar artery"}
    Span.set_extension("long_form", default=None)
    try:
        short = doc.char_span(18, 20)
        short._.long_form = doc[0:2]
        doc._.abbreviations = [short]
        assert long_forms(doc) == {"BA": "Bronchial asthma"}
    finally:
        Span.remove_extension("long_form")


OTHER_FORMS = [
    ["BA"],
    "BA",
    {"BA": "basilar artery"},
    [("BA", "basilar artery")],
    (("BA", "basilar artery"),),
    [{"short": "BA", "long": "basilar artery"}],
    [{"short_text": "BA", "long_text": None}, {"short_text": "", "long_text": "x"}],
    [None, 3],
    True,
    7,
]


@pytest.mark.parametrize("given", OTHER_FORMS, ids=repr)
def test_unknown_abbreviation_formats_warn_and_are_ignored(blank, extension, given):
    """It is left out, with a warning that counts it, and the text's own definitions are read."""
    doc = blank("Bronchial asthma (BA) was treated.")
    doc._.abbreviations = given
    with pytest.warns(KrisselWarning, match=r"KW613\] \d of \d .*long_form"):
        assert long_forms(doc) == {"BA": "Bronchial asthma"}


def test_spans_without_a_long_form_are_left_out(blank, extension):
    doc = blank("Bronchial asthma (BA) was treated.")
    doc._.abbreviations = [doc[3:4], {"short_text": "BA", "long_text": "basilar artery"}]
    with pytest.warns(KrisselWarning, match="KW613.* 1 of 2"):
        assert long_forms(doc) == {"BA": "basilar artery"}


@pytest.fixture(scope="module")
def blank():
    import spacy

    return spacy.blank("en")


@given(st.text("AaBb-(),. /", max_size=60), st.lists(st.text("AaBb- ", max_size=8), max_size=3))
@example("ab bc (AB)", ["AB"])
@example("AB (ab bc)", ["AB"])
@example("bb a (x-AB)", ["AB"])
@example("ab bc (AB)", ["BC"])
@example("AB" + 40 * " " + "(ab bc)", ["AB"])
@example("ab ba (A B). aa bb (A B/b)", ["b"])
def test_skipping_unneeded_definitions_changes_no_mention(text, mentions):
    """Mentions are written out the same with and without the skipped definitions."""
    whole, needed = find_definitions(text), find_definitions(text, mentions)
    assert needed.keys() <= whole.keys()
    for mention in mentions:
        # Words that stand together only where a bracket between them was left out may be none of
        # the mentions'.
        if "(" not in mention:
            assert abbreviation_expander(needed)(mention) == abbreviation_expander(whole)(mention)

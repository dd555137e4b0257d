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
    definitions,
    doc_definitions,
    document_writer,
    find_definitions,
    writer,
)
from spacy_krissel.mentions.contexts import mention_views
from spacy_krissel.mentions.short_forms import fold_short, key_of, keyed_runs
from spacy_krissel.util.plain_text import UNSEEN

FORMS = {"A-T": "ataxia-telangiectasia", "PLL": "prolymphocytic leukemia", "T-PLL": "T-cell prolymphocytic leukemia"}


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
def test_write_out(mention, expected):
    assert writer(FORMS)(mention) == expected


TEXT = (
    "Report of AA in two boys. We saw AA early. Acquired ataxia (AA) was found, and AA grew.\n"
    "Aplastic anemia (AA) came, and MSCs in mesenchymal stem cell (MSC) lines. MSCs and AA went."
)


def written(text, mention):
    """All that stands for `mention` in its places in `text`."""
    write_out = document_writer(text)
    return [write_out(mention, found.start()) for found in re.finditer(rf"\b{mention}\b", text)]


def test_a_definition_counts_from_where_it_stands():
    text = "A title\n" + TEXT
    first, second = "Acquired ataxia", "Aplastic anemia"
    assert written(text, "AA") == ["AA", "AA", first, first, second, second]
    assert written(text, "MSCs") == ["MSCs", "mesenchymal stem cell"]
    # The definition itself, in both orders.
    write_out = document_writer(text)
    for mention in ("Acquired ataxia (AA)", "Aplastic anemia (AA)"):
        assert write_out(mention, text.index(mention)) == mention.removesuffix(" (AA)")
    assert written("A title\nThe AA (acquired ataxia) grew", "AA") == ["acquired ataxia"]


def test_in_the_title_the_first_definition_counts():
    assert written(TEXT.replace("\n", " "), "AA")[:2] == ["Acquired ataxia", "AA"]


def test_a_short_form_in_the_other_number_is_written_out():
    assert written("Cancer stem cells (CSCs). One CSC grew.", "CSC") == ["Cancer stem cells"]
    assert written("A stem cell (SC). Many SCs grew.", "SCs") == ["stem cell"]
    # Its own definition comes first.
    assert written("A stem cell (SC). SCs (small cysts) grew.", "SCs") == ["small cysts"]


def test_a_single_letter_is_written_out_as_a_whole_mention():
    text = "A title\nTo epinephrine (E) or none. E was better than vitamin E."
    assert written(text, "E") == ["epinephrine", "epinephrine", "epinephrine"]
    assert document_writer(text)("vitamin E", text.index("vitamin")) == "vitamin E"


def test_a_number_that_the_long_form_lacks_is_kept():
    text = "A title\nThe cyclooxygenase inhibitor (COX-2) and forced volume (FV1): COX-2, FV1."
    assert "FV1" in find_definitions(text)
    assert document_writer(text)("FV1", text.rindex("FV1")) == "FV1"


def test_mentions_of_a_doc_are_written_out_from_where_they_are_defined(blank):
    doc = blank("A title\nAA is rare. Aplastic anemia (AA) came, and AA went.")
    spans = [token for token in doc if token.text == "AA"]
    spans = [doc[token.i : token.i + 1] for token in spans]
    views = mention_views(doc, spans, context="window", use_abbreviations=True)
    assert [view.mention for view in views] == ["AA", "Aplastic anemia", "Aplastic anemia"]


def test_definitions_without_offsets_count_everywhere():
    write_out = writer([Definition("AA", "aplastic anemia")])
    assert write_out("AA", 0) == write_out("AA", 99) == write_out("AA") == "aplastic anemia"


def test_nothing_is_written_out_in_a_long_form():
    assert writer({"AB": "a CD", "CD": "an AB"})("AB of CD") == "a CD of an AB"


@given(st.text(max_size=20), st.dictionaries(st.text(min_size=1, max_size=4), st.text(min_size=1, max_size=9)))
def test_wild_forms(mention, forms):
    written, folded = writer(forms)(mention), fold_short(mention)
    shorts = [fold_short(short) for short in forms]
    keys = {key for start in range(len(folded)) for _, key in keyed_runs(folded, start)}
    if not any(short and short in folded for short in shorts) and keys.isdisjoint(map(key_of, shorts)):
        assert written == mention
    if shorts.count(folded) == 1 and folded:
        assert written == forms.get(mention, written)


@given(
    st.text("Ab-( )é_1", max_size=16),
    st.dictionaries(st.text("Ab-( )é_1", min_size=1, max_size=4), st.text("Ab( -", min_size=1, max_size=5)),
)
@example("b_A", {"_": "b"})
@example("A1A A_b 1", {"b": "A", "A1": "Ab"})
def test_short_forms_are_replaced_in_one_pass(mention, forms):
    """Compare with a regular expression of all short forms, where no key or bracket plays a role."""
    keys = {key for start in range(len(mention)) for _, key in keyed_runs(mention, start)}
    assume("(" not in mention and keys.isdisjoint(map(key_of, forms)))
    either = "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"
    expected = re.sub(rf"(?<![^\W_])(?:{either})(?![^\W_])", lambda found: forms[found[0]], mention)
    assert writer(forms)(mention) == forms.get(mention, expected)


INVISIBLE = st.sampled_from("\u200b\u00ad\u2060\ufeff\ufe0f\u200e\u200d")
FORM_TEXT = "Systemic lupus erythematosus (SLE) and NF-1 (neurofibromatosis type 1) are rare."


@given(st.lists(st.tuples(st.integers(0, len(FORM_TEXT)), INVISIBLE), max_size=8), st.sampled_from(["SLE", "NF-1"]))
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
    assert UNSEEN.sub("", pair.long) == long
    assert text[pair.long_start : pair.long_end] == pair.long
    assert UNSEEN.sub("", text[pair.start : pair.end]) == short
    assert pair.long[0] == long[0] and pair.long[-1] == long[-1]
    write_out = document_writer(text, list(found.values()))
    for mention in (short, "\u200b".join(short), short + "\u200e"):
        assert write_out(mention) == pair.long


@pytest.mark.parametrize(
    "text",
    [
        "Multiple sclerosis (ＭＳ) is", "Multiple sclerosis（MS） is", "Multiple sclerosis\u00a0(MS) is",
        "Multiple sclerosis\u2009(MS\u2009) is", "Multiple sclerosis [\u200bMS\ufe0f] is", "ＭＳ (Multiple sclerosis)",
    ],
)  # fmt: skip
def test_other_spaces_and_full_width_forms_do_not_matter(text):
    assert find_definitions(text, ["ＭＳ"]) == find_definitions(text) == {"MS": "Multiple sclerosis"}
    assert document_writer(text)("ＭＳ") == document_writer(text)("M\u00adS") == "Multiple sclerosis"


@pytest.mark.parametrize(
    "text, same, others",
    [
        ("nuclear factor kappa B (NF-κB)", ["NF-kB", "NFkB", "NF-kappaB", "NF kappa B", "NFκB"], ["nfkb", "NFKB"]),
        ("nuclear factor kappa B (NF-kappaB)", ["NF-kB", "NFkB", "NF-κB", "NF‐κB"], ["NF"]),
        ("interferon gamma (IFN-γ)", ["IFNg", "IFN gamma", "IFN-gamma", "IFNγ"], ["IFN", "IFNG"]),
        ("diabetes mellitus 2 (DM-2)", ["DM2", "DM 2", "DM–2"], ["DM", "dm2", "DM-21", "ADM2"]),
        ("diabetes mellitus 2 (DM2)", ["DM-2", "DM 2"], ["dm-2"]),
        ("type 2 diabetes mellitus (T2DM)", ["T2-DM", "T2 DM"], ["t2-dm", "T-DM"]),
        ("amyotrophic lateral sclerosis (A.L.S.)", ["ALS", "A.L.S.", "A-L-S"], ["als", "Als", "A L S"]),
        ("amyotrophic lateral sclerosis (ALS)", ["A.L.S.", "A.L.S"], ["A. L. Smith", "a.l.s."]),
        ("forced expiratory volume in 1 s (FEV(1))", ["FEV1", "FEV-1"], ["FEV"]),
        # Plain words, and signs that count.
        ("amyloid beta (Aβ)", ["A-beta", "Abeta"], ["Ab"]),
        ("aspartate neutrophil (A-N)", ["AN"], ["An", "an"]),
        # A number of two digits is another one.
        ("micro repeat 9-3 (MR-9-3)", ["MR9-3"], ["MR93"]),
    ],
)  # fmt: skip
def test_other_writings_of_a_short_form(text, same, others):
    (short, long), *_ = find_definitions(text).items()
    text += f" or {short} was seen."
    for mention in same:
        found = definitions(text, [mention])
        assert document_writer(text, found)(mention) == long
        assert document_writer(text, found)(f"rare {mention} cells") == f"rare {long} cells"
    for mention in others:
        assert document_writer(text)(mention) == mention


def test_other_writings_of_several_short_forms_are_left_alone():
    write_out = writer({"A-LS": "acute limb swelling", "AL-S": "acid labile subunit"})
    assert [write_out(mention) for mention in ("A-LS", "AL-S", "ALS")] == [
        "acute limb swelling",
        "acid labile subunit",
        "ALS",
    ]
    assert writer({"A-LS": "acute limb swelling", "AL-S": "acute limb swelling"})("ALS") == "acute limb swelling"


@given(st.text("abcdefghij -", min_size=1, max_size=20))
def test_lower_case_words_are_no_short_forms(mention):
    shorts = [mention.upper(), mention.upper().replace("-", ""), mention.upper().replace(" ", "-")]
    write_out = writer({short: "long form" for short in [*shorts, mention.title()] if short.upper() != short.lower()})
    assert write_out(mention) == mention


def lookups(n):
    """Count the interpreter's operations of writing out a mention of `n` short forms."""
    shorts = ["".join(letters) for letters in islice(product("ABCDEFGHIJ", repeat=3), n)]
    write_out = writer([Definition(short, f"long {short.lower()}") for short in shorts])
    return operations(lambda: write_out(" ".join(f"{short} or long x ({short})" for short in shorts)), "mentions")


def test_operations_grow_with_the_mention():
    assert lookups(400) < 4.2 * lookups(100)


@pytest.fixture
def extension():
    Doc.set_extension("abbreviations", default=[], force=True)
    yield
    Doc.remove_extension("abbreviations")


def long_forms(doc):
    """The first long form of each short form."""
    return {each.short: each.long for each in reversed([*doc_definitions(doc)])}


def test_long_forms_of_the_text(blank):
    assert long_forms(blank("Bronchial asthma (BA) was treated.")) == {"BA": "Bronchial asthma"}


def test_a_component_has_its_way(blank, extension):
    doc = blank("Bronchial asthma (BA) was treated.")
    assert long_forms(doc) == {"BA": "Bronchial asthma"}
    doc._.abbreviations = [{"short_text": "BA", "long_text": "basilar artery"}]
    assert long_forms(doc) == {"BA": "basilar artery"}


def test_a_component_of_abbreviations_knows_no_genera(blank, extension):
    doc = blank("Escherichia coli (EC), or E. coli")
    doc._.abbreviations = [{"short_text": "EC", "long_text": "Escherichia coli"}]
    assert long_forms(doc) == {"EC": "Escherichia coli", "E. coli": "Escherichia coli"}


def test_scispacys_dictionaries_and_spans(blank, extension):
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
def test_what_other_components_wrote_there_breaks_nothing(blank, extension, given):
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
def test_definitions_that_no_mention_needs_are_passed_over(text, mentions):
    """What mentions are written out as is the same."""
    whole, needed = find_definitions(text), find_definitions(text, mentions)
    assert needed.keys() <= whole.keys()
    for mention in mentions:
        # Words that stand together only where a bracket between them was left out may be none of the mentions'.
        if "(" not in mention:
            assert writer(needed)(mention) == writer(whole)(mention)

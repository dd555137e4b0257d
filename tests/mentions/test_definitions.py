from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operations import operations

from spacy_krissel.mentions.abbreviations import (
    MAX_CHARS,
    WINDOW,
    definitions,
    find_definitions,
    find_genera,
    title_end,
    with_variants,
)
from spacy_krissel.mentions.alignment import NO_START, OUTSIDE, SMALL_WORDS
from spacy_krissel.mentions.short_forms import plain_view


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Ataxia telangiectasia (AT) is rare.", {"AT": "Ataxia telangiectasia"}),
        ("In ataxia-telangiectasia (A-T) cells", {"A-T": "ataxia-telangiectasia"}),
        ("familial adenomatous polyposis [FAP]", {"FAP": "familial adenomatous polyposis"}),
        ("the Wiskott-Aldrich syndrome ( 'WAS' ) gene", {"WAS": "Wiskott-Aldrich syndrome"}),
        ("adrenomyeloneuropathy (AMN)", {"AMN": "adrenomyeloneuropathy"}),
        ("T-cell prolymphocytic leukemia (T-PLL)", {"T-PLL": "T-cell prolymphocytic leukemia"}),
        ("glucose-6-phosphate dehydrogenase (G6PD)", {"G6PD": "glucose-6-phosphate dehydrogenase"}),
        # Small words do not count against it, up to the bound.
        ("deficiency of the enzyme in man (DEM)", {"DEM": "deficiency of the enzyme in man"}),
        # What follows the short form in the bracket.
        ("phenylketonuria (PKU; MIM 261600)", {"PKU": "phenylketonuria"}),
        ("hereditary progressive dystonia (HPD; dopa-responsive dystonia, DRD)",
         {"HPD": "hereditary progressive dystonia", "DRD": "dopa-responsive dystonia"}),
        ("Duchenne or Becker muscular dystrophy (DMD/BMD)",
         {"DMD": "Duchenne or Becker muscular dystrophy", "BMD": "Becker muscular dystrophy"}),
        # The other way round.
        ("AT (ataxia telangiectasia) is rare", {"AT": "ataxia telangiectasia"}),
        ("the gene APC (adenomatous polyposis coli, on 5q)", {"APC": "adenomatous polyposis coli"}),
        # Initials in another order.
        ("In myotonic dystrophy (DM), the repeat", {"DM": "myotonic dystrophy"}),
        ("Therapy (TT)-associated liver failure (TT-ALF)",
         {"TT-ALF": "Therapy (TT)-associated liver failure"}),
        ("steroid hypertension (S-HT) and Huntington (HT)",
         {"S-HT": "steroid hypertension", "HT": "Huntington"}),
        # The first definition counts, and each short form is one of its own.
        ("Angelman syndrome (AS) or aortic stenosis (AS)", {"AS": "Angelman syndrome"}),
        ("breast cancer (BC) and ovarian cancer (OC)",
         {"BC": "breast cancer", "OC": "ovarian cancer"}),
        # Shortened genera, before or behind the genus in full.
        ("Strains of Streptococcus faecium, and S. faecium",
         {"S. faecium": "Streptococcus faecium"}),
        ("S. FAECIUM AND CH.VELIA. Streptococcus faecium", {"S. FAECIUM": "Streptococcus faecium"}),
        ("Ch. velia and Chromera velia, C. velia",
         {"Ch. velia": "Chromera velia", "C. velia": "Chromera velia"}),
        ("Salmonella avium, Staphylococcus avium: S. avium", {"S. avium": "Salmonella avium"}),
        ("Drosophila melanogaster: D.melanogaster", {"D.melanogaster": "Drosophila melanogaster"}),
        # Neither another genus, nor one with another species, nor a sentence that ends.
        ("Bordetella avium and M. avium; Mycobacterium bovis", {}),
        ("Escherichia coli, coli E, E.coliform, xE. coli", {}),
    ],
)  # fmt: skip
def test_definitions_are_found(text, expected):
    assert find_definitions(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "( )",
        "(AT)",
        "no bracket at all",
        "one (1) and two (2)",
        "in patients (n = 20) with asthma",
        "muscular dystrophy (see below)",
        "choroideremia (TCD)",
        # Begins in the middle of a word.
        "xataxia xtelangiectasia (AT)",
        # In the sentence before.
        "He had asthma. Then they came (AT)",
        # Too many words between.
        "ataxia of the muscles in every child of the family with telangiectasia (AT)",
        # Of itself, or not longer.
        "the AT (AT)",
        "at (AT)",
        "an unclosed bracket (AT",
        # A word behind a hyphen.
        "dystrophy of muscle (late-dom)",
    ],
)
def test_text_without_definitions_gives_none(text):
    assert find_definitions(text) == {}


def test_long_form_with_an_unbalanced_bracket_is_rejected():
    assert find_definitions("patients 1) and conjunctivitis (PC)") == {}


# Whole long forms, in both orders.
PAIRS = [
    # Word initials rather than scattered letters.
    ("AA", "aplastic anemia"),
    ("MM", "Multiple myeloma"),
    ("IIEF", "International Index of Erectile Function"),
    ("DIDS", "4,4'-diisothiocyanatostilbene-2,2'-disulfonic acid"),
    ("ATD", "alpha-1-antitrypsin deficiency"),
    ("SS", "Sjögren's syndrome"),
    ("SS", "Sjo\u0308gren's syndrome"),
    ("ES", "Écrasement syndrome"),
    ("AA", "aplastic ane\u00admia"),
    ("AA", "apla\u200bstic ane\u2060mia"),
    ("CFTR", "cystic fibrosis transmembrane conductance regulator"),
    ("DHEA", "dehydroepiandrosterone"),
    ("OVX", "ovariectomized"),
    ("AIDS", "acquired immune deficiency syndrome"),
    # "and", a comma, a slash, hyphens, small words.
    ("SBMA", "spinal and bulbar muscular atrophy"),
    ("HFMD", "hand, foot, and mouth disease"),
    ("ADHD", "attention deficit/hyperactivity disorder"),
    ("DRESS", "drug reaction with eosinophilia and systemic symptoms"),
    ("EORTC", "European Organisation for Research and Treatment of Cancer"),
    ("GVHD", "graft-versus-host disease"),
    ("QoL", "quality of life"),
    # Greek letters and their names, digits.
    ("NF-κB", "nuclear factor kappa B"),
    ("NF-kappaB", "nuclear factor κB"),
    ("IFN-γ", "interferon gamma"),
    ("IFN-gamma", "interferon-γ"),
    ("IFN-gamma", "gamma-interferon"),
    ("Aβ", "amyloid beta"),
    ("Aβ", "β-amyloid"),
    ("AFP", "α-fetoprotein"),
    ("TGF-β1", "transforming growth factor beta 1"),
    ("T2DM", "type 2 diabetes mellitus"),
    ("HIV-1", "human immunodeficiency virus type 1"),
    ("5-HT", "5-hydroxytryptamine"),
    ("CO₂D", "carbon oxygen 2 deficiency"),
    # Either number.
    ("CSCs", "cancer stem cells"),
    ("MSC", "mesenchymal stem cells"),
    ("MSCs", "mesenchymal stem cell"),
]


@pytest.mark.parametrize("short, long", PAIRS)
def test_both_orders_define_the_whole_long_form(short, long):
    assert find_definitions(f"We saw {long} ({short}) here.") == {short: long}
    assert find_definitions(f"We saw {short} ({long}) here.") == {short: long}


@pytest.mark.parametrize(
    "bracket",
    [
        "(CFS)", "[CFS]", "( CFS )", "(hereafter CFS)", "(hereafter referred to as CFS)",
        "(CFS, hereafter)",
        "(abbreviated as CFS)", "(abbreviated: CFS)", '("CFS")', "(‘CFS’)", "(or CFS)",
        "(CFS; also ME)", "(CFS, 12%)",
        "(CFS [2])", "(CFS) (1)", "(ME) (CFS)", ", hereafter CFS.", ", abbreviated as CFS,",
        " hereafter “CFS”",
    ],
)  # fmt: skip
def test_short_form_is_found_however_it_is_introduced(bracket):
    text = f"He had chronic fatigue syndrome{' ' * (bracket[0] in '([')}{bracket} and more"
    assert find_definitions(text) == {"CFS": "chronic fatigue syndrome"}
    assert find_definitions(f"(He had {text[7:]})") == {"CFS": "chronic fatigue syndrome"}


@pytest.mark.parametrize(
    "text, expected",
    [
        # Not the bracket between.
        ("hepatocyte growth factor (scatter factor) (HGF)", {"HGF": "hepatocyte growth factor"}),
        ("androgen sensitive factor (ASF) blocking retinoid malate sensor (RMS)",
         {"ASF": "androgen sensitive factor", "RMS": "retinoid malate sensor"}),
        # A wrapped line, an abbreviation with a full stop.
        ("an acute kidney\ninjury (AKI)", {"AKI": "acute kidney\ninjury"}),
        ("e.g. Acute kidney injury (AKI)", {"AKI": "Acute kidney injury"}),
        # Brackets in the short form.
        ("forced expiratory volume in 1 second (FEV(1))",
         {"FEV(1)": "forced expiratory volume in 1 second"}),
        # A word in capitals is no small word.
        ("nitric oxide (NO), neuronal NO synthase (nNOS)",
         {"NO": "nitric oxide", "nNOS": "neuronal NO synthase"}),
        # Roman numbers define nothing but by the initials of all words.
        ("Induction of immunity (II) and index value (IV)", {"IV": "index value"}),
        ("APC (adenomatous polyposis coli gene, on 5q)",
         {"APC": "adenomatous polyposis coli gene"}),
        # One capital, where the text uses it as a word.
        ("to placebo (P) or drug (D, 40 mg). P was better", {"P": "placebo"}),
        ("to placebo (P) or drug (D)", {}),
    ],
)  # fmt: skip
def test_difficult_definitions_are_resolved(text, expected):
    assert find_definitions(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "febrile events (fever)", "Pain at initial notice (pain)",
        "people keep own records (owners)",
        "is equivalent to (iv)", "in vivo (iv)", "some items (ii)", "stage of disease (II)",
        "interacted with it (II)",
        "body (e.g. bones)", "in essence (i.e. in effect)", "the effective group (e.g.)",
        "people (n = 12)", "placebo (P < .05)", "odds ratio (OR = 1.5)", "confidence (95% CI 1-2)",
        "see data (SD ± 2)",
        "many grams (10 mg)", "milligrams (mg)", "kilodalton (kDa)", "millimolar (mM)",
        "megahertz (MHz)",
        "so many in Tokyo hospital (Smith, 1999)", "some material in theory (Smith et al., 1999)",
        "figure (Fig. 1)",
        "(a) asthma, (b) bronchitis", "(A) asthma (B) bronchitis", "1) asthma 2) bronchitis (PC)",
        "5-HT(1A) GABA(A)",
        "Acute kidney. Injury (AKI)", "Acute kidney\n\nInjury (AKI)", "Acute kidney\nInjury (AKI)",
        "(Acute kidney) injury (AKI", "C57Bl mice (C57)", "mouse, abbreviated as me",
        "QT (QTc time)",
        "was it known (WIK)", "drug which may act (DMA)",
    ],
)  # fmt: skip
def test_plain_text_in_brackets_defines_nothing(text):
    assert find_definitions(text) == {}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("mesenchymal stem cell (MSC)", {"MSCs": "mesenchymal stem cell"}),
        ("cancer stem cells (CSCs)", {"CSC": "cancer stem cells"}),
        ("Drug-induced acute liver failure (DI-ALF)",
         {"ALF": "acute liver failure", "DI-ALFs": "Drug-induced acute liver failure"}),
        # Nor where it is defined, nor of a word.
        ("mesenchymal stem cell (MSC). MSCs (many small cells)", {}),
        ("factor gamma (F-gamma)", {}),
    ],
)  # fmt: skip
def test_variants_are_implied_if_not_defined(text, expected):
    found = definitions(text)
    known = {pair.short for pair in found}
    assert {
        pair.short: pair.long for pair in with_variants(found) if pair.short not in known
    } == expected


@pytest.mark.parametrize(
    "text, title",
    [
        ("Title\nText. More", "Title"),
        ("\n Title. More\nText", "\n Title. More"),
        ("A title. And text", "A title"),
        ("A sentence alone", "A sentence alone"),
        ("", ""),
        ("x" * 301, ""),
    ],
)
def test_the_title_is_the_first_line_or_sentence(text, title):
    assert text[: title_end(text)] == title


def in_order(short, long):
    place = 0
    for char in short:
        place = long.find(char, place) + 1
        if not place:
            return False
    return True


PIECES = st.sampled_from(
    [
        "(",
        ")",
        "[",
        "]",
        "AT",
        "a",
        "ataxia ",
        "t",
        ". ",
        " ",
        "; ",
        "/",
        "İ",
        "ß",
        "\n",
        "or ",
        "9",
    ]
)


@pytest.mark.slow
@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
def test_definitions_of_any_text_are_valid(text):
    """Whatever the text: what is found stands in it, fits, and is no longer than the window."""
    for short, long in find_definitions(text).items():
        assert short in plain_view(text).text and long in text
        assert 2 <= len(short) <= MAX_CHARS and len(short) < len(long) <= WINDOW
        letters, words = [char for char in short.lower() if char.isalnum()], long.lower()
        assert in_order(letters, words) or all(char in words for char in letters)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Bracket contents that define nothing, though their letters are those of the words.
LOCATORS = [
    "Fig. 1",
    "Figs. 1 and 2",
    "Tab. 1",
    "Table 2",
    "Sec. 3",
    "Ref 5",
    "Refs. 5-7",
    "Eq. 2",
    "App. A",
    "Suppl. 1",
]


@pytest.mark.parametrize("locator", LOCATORS)
@given(st.data())
def test_locators_define_nothing(locator, data):
    """Each letter begins a word, so that an alignment exists."""
    letters = [char for char in locator.lower() if char.isalpha()]
    words = [letter + data.draw(st.text(LETTERS, min_size=4, max_size=6)) for letter in letters]
    assert find_definitions(f"We saw {' '.join(words)} ({locator}) here.") == {}


@given(
    st.lists(st.text("bcdfglmprstv", min_size=4, max_size=7), min_size=2, max_size=4),
    st.integers(1900, 2029),
)
def test_citations_define_nothing(words, year):
    initials = "".join(word[0] for word in words)
    for name in (initials.upper(), initials.title()):
        for content in (
            f"{name}, {year}",
            f"{name} {year}",
            f"{name} et al., {year}",
            f"{name} and Xu, {year}a",
        ):
            assert find_definitions(f"We saw {' '.join(words)} ({content}) here.") == {}


@given(
    st.lists(st.text("bcdfglprst", min_size=4, max_size=7), min_size=2, max_size=4),
    st.floats(0.1, 99),
)
def test_a_number_after_a_short_form_is_no_part_of_its_definition(words, number):
    short, long = "".join(word[0] for word in words).upper(), " ".join(words)
    for content in (f"{short} {number:.2f}", f"{short}: {number:.2f}"):
        found = find_definitions(f"We saw {long} ({content}) here.")
        assert found in ({}, {short: long})


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Charles river (CR, Wilmington, MA)", {}), ("In Toronto, Ontario (IT)", {}),
        ("in press (IP)", {}),
        ("yes or no (Y/N)", {}), ("vitamin E deficiency (ED)", {}),
        ("the hepatitis B virus (BV)", {}),
        ("once or twice and more pain (AMP)", {}),
        ("acute and chronic hepatitis (ACH)", {"ACH": "acute and chronic hepatitis"}),
        ("in vitro fertilization (IVF)", {"IVF": "in vitro fertilization"}),
        ("the in situ hybridization (ISH)", {"ISH": "in situ hybridization"}),
        ("the T cell receptor (TCR)", {"TCR": "T cell receptor"}),
        ("standard error (SE 0.2)", {"SE": "standard error"}),
        ("odds ratio (OR 1.2, 95% CI 1)", {"OR": "odds ratio"}),
        ("risk ratio (RR: 1.2)", {"RR": "risk ratio"}),
        # Numbers in Roman letters.
        ("type II diabetes (T2D)", {"T2D": "type II diabetes"}),
        ("Neurofibromatosis type II (NF2)", {"NF2": "Neurofibromatosis type II"}),
        ("coagulation factor VIII (F8)", {"F8": "factor VIII"}),
        ("factor XIII (F13)", {"F13": "factor XIII"}),
        ("Mucopolysaccharidosis II (MPS2)", {"MPS2": "Mucopolysaccharidosis II"}),
        ("Group I plasminogen activator inhibitor (PAI-1)",
         {"PAI-1": "plasminogen activator inhibitor"}),
        ("type 2 diabetes mellitus (DM2)", {"DM2": "type 2 diabetes mellitus"}),
        # British words that American English begins with "e".
        ("oestrogen receptor (ER)", {"ER": "oestrogen receptor"}),
        ("ER (oestrogen receptor)", {"ER": "oestrogen receptor"}),
        ("oesophageal cancer (EC)", {"EC": "oesophageal cancer"}),
        ("potential (AEP) and electroencephalogram (EEG)", {"EEG": "electroencephalogram"}),
        # Quotes and brackets.
        ("chronic fatigue syndrome („CFS“)", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome (‹CFS›)", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome {CFS}", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome（CFS）", {"CFS": "chronic fatigue syndrome"}),
        # Lists in a bracket, but not of other short forms.
        ("seen (CFS, chronic fatigue syndrome)", {"CFS": "chronic fatigue syndrome"}),
        ("seen (CFS = chronic fatigue syndrome)", {"CFS": "chronic fatigue syndrome"}),
        ("(CFS: chronic fatigue syndrome; RA: rheumatoid arthritis)",
         {"CFS": "chronic fatigue syndrome", "RA": "rheumatoid arthritis"}),
        ("(CFS = chronic fatigue syndrome, RA = rheumatoid arthritis)",
         {"CFS": "chronic fatigue syndrome", "RA": "rheumatoid arthritis"}),
        ("cells (CD206, CD200R)", {}),
        # What precedes a short form.
        ("chronic fatigue syndrome (a.k.a. CFS)", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome (from now on CFS)", {"CFS": "chronic fatigue syndrome"}),
        ('chronic fatigue syndrome (the "CFS")', {"CFS": "chronic fatigue syndrome"}),
        ("CFS (short for chronic fatigue syndrome)", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome, from now on CFS,", {"CFS": "chronic fatigue syndrome"}),
        ("chronic fatigue syndrome, a.k.a. CFS, is", {"CFS": "chronic fatigue syndrome"}),
    ],
)  # fmt: skip
def test_formerly_false_or_missed_definitions_are_correct(text, expected):
    assert find_definitions(text) == expected


# Such that no word is a function word or short form, and none of them begins with a vowel's number.
PLAIN = st.text(LETTERS, min_size=4, max_size=9).filter(
    lambda word: (
        word not in NO_START | OUTSIDE | SMALL_WORDS and word not in ("hereafter", "abbreviated")
    )
)


@given(st.text(max_size=80) | st.lists(PIECES | PLAIN, max_size=30).map("".join))
def test_offsets_point_to_the_forms(text):
    for pair in definitions(text):
        assert plain_view(text[pair.start : pair.end]).text == pair.short
        assert text[pair.long_start : pair.long_end] == pair.long
        assert pair.end <= pair.long_start or pair.long_end <= pair.start
    assert set(find_definitions(text)) == {pair.short for pair in definitions(text)} | set(
        find_genera(text)
    )


@given(st.lists(PLAIN, min_size=2, max_size=8), st.booleans())
def test_initials_define_exactly_their_words(words, short_first):
    long, short = " ".join(words), "".join(word[0] for word in words).upper()
    text = f"We have {short} ({long}) now." if short_first else f"We have {long} ({short}) now."
    assert find_definitions(text) == {short: long}


@given(st.lists(PLAIN, min_size=1, max_size=12), st.data())
def test_words_in_lower_case_define_nothing(words, data):
    at = data.draw(st.integers(0, len(words) - 1))
    n = data.draw(st.integers(1, 3))
    text = " ".join([*words[:at], f"({' '.join(words[at : at + n])})", *words[at + n :]])
    assert find_definitions(text) == {}


@given(st.lists(st.lists(PLAIN, min_size=2, max_size=4), min_size=2, max_size=5), st.data())
def test_a_definition_leaves_other_sentences_alone(sentences, data):
    plain = ["We saw " + " ".join(words) + ". " for words in sentences]
    defining = [
        f"We saw {' '.join(words)} ({''.join(word[0] for word in words).upper()}). "
        for words in sentences
    ]
    chosen = data.draw(st.lists(st.booleans(), min_size=len(plain), max_size=len(plain)))
    texts = [
        one if chose else other for one, other, chose in zip(defining, plain, chosen, strict=True)
    ]
    expected = [(pair.short, pair.long) for text in texts for pair in definitions(text)]
    assert [(pair.short, pair.long) for pair in definitions("".join(texts))] == expected
    assert len(expected) == sum(chosen)


def test_long_text_without_spaces_defines_nothing():
    """A text of brackets alone is looked at once each."""
    assert find_definitions("x" * 100_000 + "(xy)" * 20_000) == {}


LONG_TEXTS = {
    "brackets": lambda n: "()[]" * n,
    "nested": lambda n: "(" * n + "ab" + ")" * n,
    "unclosed": lambda n: "aa bb (AB" * n,
    "mismatched": lambda n: "([" * n + ")]" * n,
    "one sentence": lambda n: "acute bronchitis (AB) of " * n,
    "letters": lambda n: "placebo (P) P " * n,
    "nested definitions": lambda n: "(acute bronchitis [AB]) (acute disease (AD)) " * n,
    "long forms": lambda n: "AB (acute; bronchitis, or, and, in) " * n,
    "no word ends": lambda n: "a" * n + " (AB)" * n,
    "referring": lambda n: "hereafter as to " * n,
    "invisible": lambda n: "acute bron\u200bchitis (A\u00adB) of " * n,
    "white space": lambda n: "acute bronchitis" + " " * n + "(AB)" + "\n" * n + "(AB)",
}


@pytest.mark.parametrize("kind", LONG_TEXTS)
def test_cost_is_linear_in_the_text(kind):
    short, long = (
        operations(partial(definitions, LONG_TEXTS[kind](n)), "mentions") for n in (100, 400)
    )
    assert long < 4.2 * short


@pytest.mark.parametrize("kind", ["brackets", "nested", "unclosed", "mismatched"])
def test_a_hundred_thousand_brackets_define_nothing(kind):
    """The test ends: with the square of the length it would not."""
    text = LONG_TEXTS[kind](25_000 if kind == "brackets" else 50_000)
    assert definitions(text) == []


@pytest.mark.parametrize(
    "word", ["dexamethasone", "atorvastatin", "doxorubicin", "cyclophosphamide"]
)
def test_truncated_words_define_short_forms_at_sentence_starts_too(word):
    for long in (word, word.capitalize()):
        short = word[:3].capitalize()
        assert find_definitions(f"{long} ({short}) was given.") == {short: long}

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mentions.abbreviations import LONGEST, WINDOW, find_definitions


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Ataxia telangiectasia (AT) is rare.", {"AT": "Ataxia telangiectasia"}),
        ("In ataxia-telangiectasia (A-T) cells", {"A-T": "ataxia-telangiectasia"}),
        ("familial adenomatous polyposis [FAP]", {"FAP": "familial adenomatous polyposis"}),
        ("the Wiskott-Aldrich syndrome ( 'WAS' ) gene", {"WAS": "Wiskott-Aldrich syndrome"}),
        ("adrenomyeloneuropathy (AMN)", {"AMN": "adrenomyeloneuropathy"}),
        ("T-cell prolymphocytic leukemia (T-PLL)",
         {"T-PLL": "T-cell prolymphocytic leukemia", "PLL": "prolymphocytic leukemia"}),
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
        # Behind the last hyphen, where nothing else defines it.
        ("Drug-induced acute liver failure (DI-ALF)", {"DI-ALF": "Drug-induced acute liver failure",
                                                        "ALF": "acute liver failure"}),
        ("Therapy (TT)-associated acute liver failure (TT-ALF)", {"ALF": "acute liver failure"}),
        ("steroid hypertension (S-HT) and Huntington (HT)", {"S-HT": "steroid hypertension", "HT": "Huntington"}),
        # The first definition counts, and each short form is one of its own.
        ("Angelman syndrome (AS) or aortic stenosis (AS)", {"AS": "Angelman syndrome"}),
        ("breast cancer (BC) and ovarian cancer (OC)", {"BC": "breast cancer", "OC": "ovarian cancer"}),
        # Shortened genera, before or behind the genus in full.
        ("Strains of Streptococcus faecium, and S. faecium", {"S. faecium": "Streptococcus faecium"}),
        ("S. FAECIUM AND CH.VELIA. Streptococcus faecium", {"S. FAECIUM": "Streptococcus faecium"}),
        ("Ch. velia and Chromera velia, C. velia", {"Ch. velia": "Chromera velia", "C. velia": "Chromera velia"}),
        ("Salmonella avium, Staphylococcus avium: S. avium", {"S. avium": "Salmonella avium"}),
        ("Drosophila melanogaster: D.melanogaster", {"D.melanogaster": "Drosophila melanogaster"}),
        # Neither another genus, nor one with another species, nor a sentence that ends.
        ("Bordetella avium and M. avium; Mycobacterium bovis", {}),
        ("Escherichia coli, coli E, E.coliform, xE. coli", {}),
    ],
)  # fmt: skip
def test_definitions(text, expected):
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
def test_no_definitions(text):
    assert find_definitions(text) == {}


def test_long_form_holds_its_brackets_whole():
    assert find_definitions("patients 1) and conjunctivitis (PC)") == {}


def in_order(short, long):
    place = 0
    for char in short:
        place = long.find(char, place) + 1
        if not place:
            return False
    return True


PIECES = st.sampled_from(
    ["(", ")", "[", "]", "AT", "a", "ataxia ", "t", ". ", " ", "; ", "/", "İ", "ß", "\n", "or ", "9"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
def test_wild_text(text):
    """Whatever the text: what is found stands in it, fits, and is no longer than the window."""
    for short, long in find_definitions(text).items():
        assert short in text and long in text
        assert 2 <= len(short) <= LONGEST and len(short) < len(long) <= WINDOW
        letters, words = [char for char in short.lower() if char.isalnum()], long.lower()
        assert in_order(letters, words) or all(char in words for char in letters)


def test_long_text_without_spaces():
    """A text of brackets alone is looked at once each."""
    assert find_definitions("x" * 100_000 + "(xy)" * 20_000) == {}

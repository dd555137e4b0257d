"""Names found in texts: the variants of each name, what is no mention of it, and any text."""

import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_krissel.finding import abbreviated as module
from spacy_krissel.finding import finder as finder_module
from spacy_krissel.finding.case import has_case
from spacy_krissel.finding.common import bundled_general_words
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.table import MAX_NAME_WORDS, NameBags

NAMES = {
    "cleft palate": "cp",
    "lung tumor": "lt",
    "absence of speech": "as",
    "diabetes mellitus type 2": "d2",
    "Crohn disease": "cd",
    "Graves' disease": "gd",
    "anemia": "an",
    "alpha-thalassemia": "at",
    "AIDS": "hiv",
    "acquired immunodeficiency syndrome": "hiv",
    "GSD II": "gsd",
    "glycogen storage disease": "gsd",
    "cold": "c1",
    "Sjögren syndrome": "sj",
    "disease": "dis",
    "headache": "ha",
    "MS": "ms",
    "multiple sclerosis": "ms",
    "TNF-α": "tnf",
    "11p15.5 deletion": "del",
    "syndrome of the lung, left": "sl",
}


def bags(names=NAMES, **settings):
    """Names to ids, or pairs of both."""
    rows, pairs = {}, names.items() if isinstance(names, dict) else names
    rows_of = [(name, rows.setdefault(id_, len(rows))) for name, id_ in pairs]
    return NameBags.of(rows_of, rows, **settings)


def finder(names=NAMES, **settings):
    return NameFinder(bags(names), **settings)


def found(text, names=NAMES, **settings):
    """Return the text, the ids and the variant of each mention."""
    return [
        (" … ".join(text[start:end] for start, end in each.fragments), each.named.ids, each.variant)
        for each in finder(names, **settings).find([text])[0]
    ]


def ids(text, names=NAMES, **settings):
    return [id_ for _, each, _ in found(text, names, **settings) for id_ in each]


# Variants -----------------------------------------------------------------------------------------

VARIANTS = [
    ("cleft palate", "cp", "name"),
    ("Cleft  palate", "cp", "name"),
    ("cleft-palate", "cp", "name"),
    ("cleft\npalate", "cp", ""),
    ("cleft–palate", "cp", "name"),
    ("cleft pal\u00adate", "cp", "name"),
    ("cleft palates", "cp", "form"),
    ("palate cleft", "cp", "order"),
    ("cleft of the palate", "cp", "form"),
    ("palate, cleft", "cp", ""),
    ("cleft, palate", "cp", "name"),
    ("lung tumour", "lt", "spelling"),
    ("tumours of the lung", "lt", "order"),
    ("speech absence", "as", "order"),
    ("diabetes mellitus type II", "d2", "spelling"),
    ("type 2 diabetes mellitus", "d2", "order"),
    ("diabetes-mellitus, type 2", "d2", "name"),
    ("syndromes of the lungs, left", "sl", "form"),
    ("syndromes of the lungs, of left", "sl", "form"),
    ("syndromes, lung left", "", ""),
    ("syndrome / lungs, left", "", ""),
    ("Crohn's disease", "cd", "spelling"),
    ("Crohn’s disease", "cd", "spelling"),
    ("Crohn diseases", "cd", "form"),
    ("Graves disease", "gd", "name"),
    ("Graves's disease", "gd", "spelling"),
    ("anaemia", "an", "spelling"),
    ("ANAEMIA", "an", "spelling"),
    ("anaemias", "an", "form"),
    ("α-thalassaemia", "at", "spelling"),
    ("alpha thalassemia", "at", "name"),
    ("Sjogren's syndrome", "sj", "spelling"),
    ("Sjo\u0308gren syndrome", "sj", "name"),
    ("headaches", "ha", "form"),
    ("TNF-α", "tnf", "name"),
    ("TNF-alpha", "tnf", "spelling"),
    ("11p15.5 deletion", "del", "name"),
    ("syndrome of the lung, left", "sl", "name"),
    ("syndrome of the left lung", "sl", "order"),
    # Other words, or words apart.
    ("cleft lip", "", ""),
    ("cleft. Palate", "", ""),
    ("cleft (palate)", "", ""),
    ("palate", "", ""),
    ("anemias of", "an", "form"),
    ("anemic", "", ""),
]


@pytest.mark.parametrize("text, id_, variant", VARIANTS)
def test_variants_of_a_name(text, id_, variant):
    expected = [(text.removesuffix(" of"), (id_,), variant)] if variant else []
    assert found(text) == expected
    assert found(f"a {text}!") == expected


WORST = {"name": 0, "spelling": 1, "form": 2, "order": 3, "word": 4}


@pytest.mark.parametrize("worst", WORST)
def test_variants_that_are_allowed(worst):
    for text, id_, variant in VARIANTS:
        expected = bool(variant) and WORST[variant] <= WORST[worst]
        assert (id_ in ids(text, worst=worst)) == expected, text


def test_a_word_that_synonyms_show_to_be_equal():
    names = [
        (f"{word} {part}", part)
        for part in "abscess cyst stone pain scar".split()
        for word in ("kidney", "renal")
    ]
    names.append(("kidney failure", "kf"))
    assert found("acute renal failures", names) == [("renal failures", ("kf",), "word")]
    assert ids("acute renal failures", names, worst="order") == []


def test_the_name_as_in_the_vocabulary():
    (match,) = finder().find(["TUMOURS of the lung"])[0]
    assert match.named.name == "lung tumor" and (match.start, match.end) == (0, 19)


def test_the_best_variant_of_several_names_wins():
    names = [("heart attack", "1"), ("attack heart", "2"), ("Heart Attack", "3")]
    assert found("heart attack", names) == [("heart attack", ("1", "3"), "name")]
    assert found("attack heart", names) == [("attack heart", ("2",), "name")]
    assert found("heart attacks", names) == [("heart attacks", ("1", "3"), "form")]


def test_a_shared_name_gives_all_entities_once():
    names = [("cold", "a"), ("Cold", "b"), ("cold", "a")]
    assert found("a cold", names) == [("cold", ("a", "b"), "name")]


# Case, general and stopped names ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, text, fits",
    [
        ("AIDS", "AIDS", True),
        ("AIDS", "aids", False),
        ("AIDS", "Aids", False),
        ("AIDS", "a\u00adids", False),
        ("GIST", "GISTs", True),
        ("GSD II", "GSD 2", True),
        ("GSD II", "gsd II", False),
        ("GSD II", "gsd–II", False),
        ("TNF-α", "TNF-alpha", True),
        ("TNF-alpha", "TNF-α", True),
        ("TNF-alpha", "TNF-Α", True),
        ("TNF-α", "tnf-alpha", False),
        ("T-ALL", "T ALL", True),
        ("T-ALL", "T all", False),
        ("mRNA", "mRNA", True),
        ("mRNA", "MRNA", False),
        ("XI", "xi", False),
        ("gas", "Gas", True),
        ("gas", "GAS", False),
        ("gas", "gAs", False),
        ("anemia", "ANEMIA", True),
        ("Éa", "éa", True),
    ],
)
def test_case_of_acronyms_and_short_names(name, text, fits):
    assert has_case(name, text) == fits
    assert (
        bool(
            found(f"{text} yes, {name} multiple sclerosis", {name: "x", "multiple sclerosis": "x"})[
                0
            ][0]
            == text
        )
        == fits
    )


def test_short_acronyms_need_a_longer_name_of_theirs():
    assert ids("MS was found.") == []
    assert ids("MS was found, a multiple sclerosis.") == ["ms", "ms"]
    assert ids("AIDS was found.") == ["hiv"]
    assert ids("MS was found.", lone_acronyms=True) == ["ms"]
    # The plural of one is no longer name.
    text, names = "A PDA among PDAs.", {"PDA": "p"}
    assert ids(text, names) == [] and ids(text, names, lone_acronyms=True) == ["p", "p"]


def test_short_symbols_are_found_in_their_case():
    names = {"A-2": "a2", "Ng": "ng", "Beta": "beta", "β-cell": "cell"}
    assert ids("A-2, A 2 and Ng", names) == ["a2", "a2", "ng"]
    assert ids("a 2 µL (10 ng) of β and beta", names) == []
    assert ids("a beta cell", names) == ["cell"]


def test_general_words_are_no_name_alone():
    common = bundled_general_words()
    assert ids("a disease") == ["dis"] and ids("a disease", common=common) == []
    assert ids("diseases", common=common) == [] and ids("Crohn disease", common=common) == ["cd"]


@pytest.mark.parametrize("stopped", ["anaemia", "Anemia", "ANEMIA"])
@pytest.mark.parametrize("text", ["anemia", "Anaemia", "an\u00ademia"])
def test_stopped_names_are_no_mention_in_any_spelling(stopped, text):
    assert ids(text, stopped=[stopped]) == []
    assert ids("anemias and colds", stopped=[stopped]) == ["an", "c1"]


def test_stopped_names_are_no_abbreviation_and_no_part():
    text = "cleft palate (CP), CP"
    assert ids(text) == ["cp"] * 3 and ids(text, stopped=["CP"]) == ["cp"]
    names = {"cleft lip": "cl", "cleft palate": "cp"}
    assert ids("cleft lip and palate", names, stopped=["cleft palate"]) == ["cl"]
    assert ids("cleft lip and palate", names, stopped=["cleft lip"]) == []


@pytest.mark.parametrize("name", ["of the", "the", "a", "7", "4 5", "±", "", "in"])
def test_names_that_are_no_name(name):
    assert ids(f"a {name} of the 7 4 5 ± in", {name: "x"}) == []


def test_long_names():
    names = {" ".join(f"w{i}" for i in range(n)): str(n) for n in (MAX_NAME_WORDS, 20)}
    text = " ".join(f"w{i}" for i in range(40))
    assert ids(text, names) == [str(MAX_NAME_WORDS)]


# Names that are not found -------------------------------------------------------------------------


def refused(text, names=NAMES, **settings):
    """Return each part of a text that is not found as a name, the name and the reason."""
    explained = finder(names, **settings).explain(text)[1]
    return [(text[slice(*at)], each.name, each.reason) for at, each in explained.items()]


def test_reasons_why_a_name_is_not_found():
    assert refused("a ms or aids", stopped=["aids"]) == [
        ("ms", "MS", "case"),
        ("aids", "AIDS", "stopped"),
    ]
    assert refused("Disease", common=bundled_general_words()) == [("Disease", "disease", "general")]
    assert refused("MS") == [("MS", "MS", "acronym")] and refused("MS", lone_acronyms=True) == []
    assert refused("palate, cleft; tumors of the lung", worst="form") == [
        ("palate, cleft", "cleft palate", "form"),
        ("tumors of the lung", "lung tumor", "form"),
    ]
    assert refused("Artificial intelligence data system (AIDS)") == [
        ("AIDS", "AIDS", "abbreviation")
    ]
    assert refused("in", {"in": "x"}) == [("in", "in", "word")]
    # Nor what a match or a longer name has.
    assert refused("a cold, cleft palate", {"a cold": "c", "COLD": "x", "cleft palate": "p"}) == []
    assert refused("lung cancer", {"CANCER LUNG": "c", "LUNG": "l"}, worst="form") == [
        ("lung cancer", "CANCER LUNG", "form")
    ]
    assert refused("nothing of these") == []


# Overlaps -----------------------------------------------------------------------------------------

NESTED = {"breast cancer": "bc", "cancer": "c", "breast": "b", "cancer pain": "p"}


def test_the_longest_from_the_left_is_found():
    assert [text for text, *_ in found("breast cancer pain", NESTED)] == ["breast cancer"]
    assert [text for text, *_ in found("severe cancer pain", NESTED)] == ["cancer pain"]


def test_nested_names_are_found_from_left_to_right():
    texts = [text for text, *_ in found("breast cancer pain", NESTED, nested=True)]
    assert texts == ["breast", "breast cancer", "cancer", "cancer pain"]


def test_the_first_table_wins():
    """Added names come before those of the knowledge base."""
    first, second = bags({"cancer": "mine"}), bags(NESTED)
    for nested in (False, True):
        matches = NameFinder(first, second, nested=nested).find(["cancer"])[0]
        assert [each.named.ids for each in matches] == [("mine",)]
    # What is no name in the first may be one in the second.
    names = NameFinder(bags({"CLEFT P": "x"}), bags({"cleft p": "y", "cleft lip": "z"}))
    assert [each.named.ids for each in names.find(["cleft lip and p"])[0]] == [("y",), ("z",)]


# Abbreviations ------------------------------------------------------------------------------------


def test_abbreviations_before_and_after_their_definition():
    text = "CP is frequent. We saw cleft palate (CP) and CPs; not CPA, XCP or CP2."
    assert found(text) == [
        ("CP", ("cp",), "abbreviation"),
        ("cleft palate", ("cp",), "name"),
        ("CP", ("cp",), "abbreviation"),
        ("CPs", ("cp",), "abbreviation"),
    ]
    assert [text for text, *_ in found(text, use_abbreviations=False)] == ["cleft palate"]


def test_an_abbreviation_has_no_other_meaning():
    assert ids("AIDS kills.") == ["hiv"]
    text = "Artificial intelligence data system (AIDS): AIDS works."
    assert ids(text) == [] and ids(text, use_abbreviations=False) == ["hiv"] * 2


def test_an_abbreviation_of_a_shared_name_has_all_its_entities():
    names = [("cleft palate", "1"), ("Cleft palate", "2")]
    assert ids("cleft palate (CP)", names) == ["1", "2"] * 2


AROUND = {
    "von Hippel-Lindau disease": "vhl",
    "diabetes mellitus": "dm",
    "type 2 diabetes mellitus": "dm2",
    "hypertension": "ht",
    "hypertension disease": "ht",
    "natural killer cell": "nk",
    "glucose-6-phosphate dehydrogenase deficiency": "g6pd",
}


@pytest.mark.parametrize(
    "text, mentions",
    [
        ("von Hippel-Lindau (VHL) disease", ["von Hippel-Lindau (VHL) disease"]),
        ("The von Hippel-Lindau (VHL) gene. VHL disease; VHL.", ["VHL disease"]),
        (
            "VHL disease is von Hippel-Lindau (VHL) disease",
            ["VHL disease", "von Hippel-Lindau (VHL) disease"],
        ),
        ("VHL (von Hippel-Lindau) disease", ["VHL (von Hippel-Lindau) disease"]),
        (
            "von Hippel-Lindau [VHL; OMIM 193300] disease",
            ["von Hippel-Lindau [VHL; OMIM 193300] disease"],
        ),
        ("von Hippel-Lindau (VHL), disease", []),
        ("von Hippel-Lindau (VHL). Disease", []),
        ("von Hippel-Lindau (VHL)\ndisease", []),
        ("Natural killer (NK) cells; NK cells", ["Natural killer (NK) cells", "NK cells"]),
        ("diabetes mellitus (DM); type 2 DM", ["diabetes mellitus", "DM", "type 2 DM"]),
        ("hypertension (HT) disease, HT disease", ["hypertension", "HT", "HT"]),
        ("diabetes mellitus (DM) and 2 DM", ["diabetes mellitus", "DM", "DM"]),
        (
            "glucose-6-phosphate dehydrogenase (G6PD)-deficiency",
            ["glucose-6-phosphate dehydrogenase (G6PD)-deficiency"],
        ),
    ],
)
def test_names_around_an_abbreviation(text, mentions):
    """In a definition, and around a short form elsewhere. No longer than what names the entity."""
    of = found(text, AROUND)
    assert [name for name, *_ in of] == mentions
    assert all(variant == "abbreviation" for name, _, variant in of if name not in AROUND)
    assert set(ids(text, AROUND, use_abbreviations=False)) <= {"dm", "ht"}


PARTS = st.lists(
    st.sampled_from("amber birch cedar delta ebony fjord grove heath".split()),
    min_size=2,
    max_size=4,
    unique=True,
)


@given(PARTS, st.sampled_from(["disease", "of type 2", "cell line", "-like ulcer"]))
def test_any_name_around_an_abbreviation(words, last):
    """Alone, neither the long form nor the short form is a name."""
    long, short = " ".join(words), "".join(word[0].upper() for word in words)
    space = "" if last[0] == "-" else " "
    defined = f"{long} ({short}){space}{last}"
    text = f"We saw {defined}, {short}, {long}, then {short}{space}{last}."
    assert found(text, {f"{long}{space}{last}": "x"}) == [
        (defined, ("x",), "abbreviation"),
        (f"{short}{space}{last}", ("x",), "abbreviation"),
    ]


def test_a_name_as_written_counts_more_than_one_around_an_abbreviation():
    names = {"KID syndrome": "1", "keratitis ichthyosis deafness syndrome": "2"}
    text = "keratitis ichthyosis deafness (KID) syndrome, KID syndrome"
    assert ids(text, names) == ["2", "1"]


def test_capitals_of_proper_names_count_where_other_names_have_none():
    proper = {"Cancer": "1", "Glycine": "2", "Bacillus": "3", "Drosophila": "4"}
    text = "cancer, glycine, drosophila; Cancer, mouse"
    assert ids(text, {**proper, "mouse": "5"}) == ["4", "1", "5"]
    assert ids(text, proper) == ["1", "2", "4", "1"]
    # Most are written without.
    assert ids(text, {"Cancer": "1", "glycine": "2", "mouse": "5"}) == ["1", "2", "1", "5"]
    assert ids("cancer", {**proper, "mouse": "5", "cancer": "6"}) == ["6"]


def test_a_number_before_a_name_is_no_number_of_the_name():
    names = {"Paget disease 4": "4", "type 2 diabetes": "2", "11p deletion": "del"}
    assert ids("4 Paget disease patients, 4 Paget diseases", names) == []
    assert ids("Paget disease 4; diabetes type 2; deletion 11p", names) == ["4", "2", "del"]


def test_an_added_short_form_is_found_where_the_text_defines_it_as_words_of_its_entity():
    """Not where it is short for other words, or for another entity."""
    own = NameFinder(bags(AROUND), added=bags({"VHL": "vhl", "HT": "vhl"}))

    def found_ids(text):
        return [(each.text, *each.named.ids) for each in own.find([text])[0]]

    text = "The von Hippel-Lindau (VHL) gene; VHL"
    assert found_ids(text) == [("VHL", "vhl"), ("VHL", "vhl")]
    assert found_ids("Very high level (VHL); VHL") == []
    assert found_ids("hypertension (HT); HT") == [
        ("hypertension", "ht"),
        ("HT", "ht"),
        ("HT", "ht"),
    ]
    assert found_ids("VHL") == [("VHL", "vhl")]


def test_stopped_names_are_not_found_around_an_abbreviation():
    text = "von Hippel-Lindau (VHL) disease. VHL disease"
    for stopped in ("von Hippel-Lindau disease", "VHL disease"):
        names = [name for name, *_ in found(text, AROUND, stopped=[stopped])]
        assert names == ["von Hippel-Lindau (VHL) disease"] * (stopped == "VHL disease")


def test_an_abbreviation_of_several_words():
    names = {"glycogen storage disease": "g"}
    assert ids("glycogen storage disease (GSD-1) GSD-1, GSD-12", names) in (
        ["g"],
        ["g", "g", "g"],
    )


@pytest.mark.parametrize("few", [0, 8])
def test_short_forms_are_those_of_a_regular_expression(few, monkeypatch):
    """Whatever they have in common, whether they are searched for one by one or at each word."""
    monkeypatch.setattr(module, "FEW_WORDS", few)
    chance = random.Random(1)
    for _ in range(300):
        shorts = {
            "".join(chance.choice("AB1- ") for _ in range(chance.randrange(1, 5))).strip(" -")
            for _ in range(4)
        } - {""} | {"AB"}
        text = "".join(chance.choice("AB1- .x") for _ in range(40))
        one_of = "|".join(map(re.escape, sorted(shorts, key=len, reverse=True)))
        expected = [
            each.span() for each in re.finditer(rf"(?<![^\W_])(?:{one_of})(?![^\W_])", text)
        ]
        assert [*module.short_forms(text, shorts)] == expected, (text, shorts)


# Any text -----------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    "cleft lip palate palates lung breast ovarian cancer cancers tumour of the and or , / ( ) . ; "
    "CP (CP) 's type II 1 2 AIDS aids anemia α β-thalassemia Sjögren \u00ad \u0301 \0 \ud800 😀 𝛽 "
    "² ½ İ ß".split(" ")
)
WILD = st.lists(WORDS | st.text(max_size=3), max_size=25).flatmap(
    lambda words: st.sampled_from([" ", "", "-", "\n"]).map(lambda between: between.join(words))
)
COORDINATED = {
    **NAMES,
    "cleft lip": "cl",
    "lung cancer": "lc",
    "breast cancer": "bc",
    "ovarian cancer": "oc",
    "cancer": "ca",
    "β-thalassemia": "bt",
    "palate": "pa",
}
FINDERS = {nested: finder(COORDINATED, nested=nested) for nested in (False, True)}


@settings(max_examples=500, deadline=None)
@given(st.lists(WILD, max_size=3))
@example(["cleft lip and palate"])
@example(["cleft and cleft lip"])
@example(["\ud800cleft\udfff palate\0"])
@example(["½ cancer²", "cancer"])
@example(["cancer\u0301 of the lung\u0308"])
def test_any_text(texts):
    for nested, own in FINDERS.items():
        matches = own.find(texts)
        assert matches == [own.find([text])[0] for text in texts]
        for text, each in zip(texts, matches, strict=True):
            check(text, each, nested)
            found, refused = own.explain(text)
            assert found == each
            # What a part of a coordination shares is in a whole name.
            own_parts = [match.apart or match.fragments[0] for match in found]
            parts = sorted([*refused, *own_parts])
            assert nested or all(end <= start for (_, end), (start, _) in pairwise(parts))


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(COORDINATED)),
    st.sampled_from([str, str.lower, str.upper, str.title]),
)
def test_a_name_in_any_case_is_found_or_refused(name, change):
    text = change(name)
    for own in (FINDERS[False], finder(COORDINATED, common=["disease"], worst="name")):
        found, refused = own.explain(text)
        assert found or (0, len(text)) in refused


def check(text, matches, nested):
    assert [each.fragments for each in matches] == sorted(each.fragments for each in matches)
    for match in matches:
        assert match.named.ids and match.named.name in COORDINATED
        assert (match.apart in match.fragments) == (match.variant == "coordination")
        assert (len(match.fragments) == 2) == (match.variant == "coordination")
        for start, end in match.fragments:
            assert 0 <= start < end <= len(text)
            assert not (text[start - 1 : start].isalnum() and text[start].isalnum())
            assert not (text[end - 1].isalnum() and text[end : end + 1].isalnum())
        for (_, end), (start, _) in pairwise(match.fragments):
            assert end < start
    own = sorted(each.apart or each.fragments[0] for each in matches)
    if nested:
        assert len({*own}) == len(own)
    else:
        assert all(end <= start for (_, end), (start, _) in pairwise(own))


def test_threads_share_a_finder(monkeypatch):
    monkeypatch.setattr(finder_module, "MAX_NAMED", 5)
    own, chance = finder(COORDINATED), random.Random(0)
    words = "cleft lip palate lung breast ovarian cancer and , (CP) anemia headaches".split()
    texts = [" ".join(chance.choices(words, k=30)) for _ in range(200)]
    with ThreadPoolExecutor(8) as threads:
        several = list(threads.map(lambda text: own.find([text])[0], texts))
    assert several == finder(COORDINATED).find(texts)


def test_no_texts():
    assert finder().find([]) == [] and finder().find(["", " "]) == [[], []]
    assert finder({}).find(["cleft palate (CP)"]) == [[]]


@pytest.mark.parametrize(
    "words",
    [
        ["cleft lip and palate."],
        ["cleft lip, palate and "],
        ["of "],
        ["cancer of the "],
        ["cancer "],
        ["(("],
        ["cleft palate (CP{}). CP{} "],
        ["cleft palate (CP-{}) CP-{} "],
        ["cancer's "],
        ["1.2."],
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_work_is_linear_in_the_length_of_a_text(words, nested):
    """Calls of Python functions, and runs that the compiled loop writes."""

    def work(n):
        text = "".join(words[0].replace("{}", str(i)) for i in range(n))
        own = finder(COORDINATED, nested=nested)
        own.find([text])
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            own.find([text])
        finally:
            sys.setprofile(None)
        return calls

    one, two = work(200), work(800)
    assert two < 4.6 * one + 2000


SEPARATORS = [" ", "-", ". ", " (", ") ", "(", ")", "; ", ": ", ", ", "/", ".", "=", " [", "] "]


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from("coli fever St alpha 4 virus natto".split()), min_size=2, max_size=4),
    st.lists(st.sampled_from(SEPARATORS), min_size=3, max_size=3),
)
@example(["St", "fever", "virus"], [". ", " ", " "])
def test_name_with_any_punctuation_is_found_as_written_and_in_its_plural(words, separators):
    # A name needs a word of letters.
    words[0] = "fever"
    name = words[0] + "".join(map("".join, zip(separators, words[1:], strict=False)))
    own = finder({name: "n", "cold": "c"})
    for text, variant in ((name, "name"), (name.replace("fever", "fevers", 1), "form")):
        (only,) = own.find([f"We saw {text}, a cold"])[0][:1]
        assert only.named.ids == ("n",) and only.variant == variant
        assert only.text == text


def test_time_is_linear_in_what_stands_between_the_words_of_a_name():
    text = f"E{'(' * 300_000}coli"
    assert found(text, {"E. coli": "e", "E (coli)": "f"}) == []


@pytest.mark.parametrize(
    "text, mentions",
    [
        ("E. coli and E coli.", ["E. coli", "E coli"]),
        # Two sentences, and other brackets.
        ("With E. A coli. St Louis fever. No. St: Louis fever.", ["St Louis fever"]),
        ("poly(ADP-ribose) or (poly ADP) ribose", ["poly(ADP-ribose)"]),
        ("(R)-limonene (R)", ["(R)-limonene"]),
        ("lung tumor (LT) of lung (tumor)", ["lung tumor", "LT"]),
        # A genus that the text spells out, and one that it does not.
        ("Mus musculus, M. musculus, M.  musculus, R. rattus", ["Mus musculus", "M. musculus"]),
    ],
)
def test_stops_and_brackets_are_crossed_as_the_name_has_them(text, mentions):
    names = ("E. coli", "St. Louis fever", "St Louis fever", "poly(ADP-ribose)", "(R)-limonene")
    names = {each: each for each in (*names, "lung tumor", "lung tumor (LT)", "Mus musculus")}
    assert [mention for mention, *_ in found(text, names)] == mentions

"""Names of which a part stands apart: both sides of a conjunction, lists, and what is none."""

import pytest

from spacy_krissel.finding.coordination import MAX_APART, MAX_PARTS
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.table import NameBags

NAMES = """
cleft lip
cleft palate
breast cancer
ovarian cancer
lung cancer
colorectal cancer
skin cancer
head cancer
diabetes mellitus type 1
diabetes mellitus type 2
diabetes mellitus type 3
short humerus
curved humerus
renal failure
acute hepatic failure
heart
heart failure
intrauterine growth retardation
postnatal growth retardation
very long severe mental delay
delay of speech
pain
""".strip().splitlines()
ONE_BEFORE = ("lung cancer", "lung … cancer")


def found(text, names=NAMES, **settings):
    finder = NameFinder(NameBags.of([(name, i) for i, name in enumerate(names)], names), **settings)
    return {
        (" … ".join(text[start:end] for start, end in match.fragments), match.named.name)
        for match in finder.find([text])[0]
    }


@pytest.mark.parametrize(
    "text, whole, parts",
    [
        ("cleft lip and palate", "cleft lip", {"cleft … palate": "cleft palate"}),
        ("cleft lip or palate", "cleft lip", {"cleft … palate": "cleft palate"}),
        ("cleft lip/palate", "cleft lip", {"cleft … palate": "cleft palate"}),
        ("cleft lip, palate", "cleft lip", {"cleft … palate": "cleft palate"}),
        ("cleft palates and lips", "cleft palates", {"cleft … lips": "cleft lip"}),
        (
            "breast and ovarian cancer",
            "ovarian cancer",
            {"breast … cancer": "breast cancer"},
        ),
        (
            "breast, ovarian and lung cancers",
            "lung cancers",
            {"ovarian … cancers": "ovarian cancer", "breast … cancers": "breast cancer"},
        ),
        (
            "breast, ovarian, and lung cancer",
            "lung cancer",
            {"ovarian … cancer": "ovarian cancer", "breast … cancer": "breast cancer"},
        ),
        (
            "breast, lung, skin, head and colorectal cancer",
            "colorectal cancer",
            {
                f"{organ} … cancer": f"{organ} cancer"
                for organ in ("breast", "lung", "skin", "head")
            },
        ),
        (
            "diabetes mellitus types 1 and 2",
            "diabetes mellitus types 1",
            {"diabetes mellitus types … 2": "diabetes mellitus type 2"},
        ),
        (
            "diabetes mellitus types 1, 2 and 3",
            "diabetes mellitus types 1",
            {f"diabetes mellitus types … {n}": f"diabetes mellitus type {n}" for n in (2, 3)},
        ),
        (
            "diabetes mellitus types II and III",
            "diabetes mellitus types II",
            {"diabetes mellitus types … III": "diabetes mellitus type 3"},
        ),
        ("short and curved humeri", "curved humeri", {"short … humeri": "short humerus"}),
        (
            "renal and acute hepatic failure",
            "acute hepatic failure",
            {"renal … failure": "renal failure"},
        ),
        (
            "acute hepatic and renal failure",
            "renal failure",
            {"acute hepatic … failure": "acute hepatic failure"},
        ),
        (
            "intrauterine and postnatal growth retardation",
            "postnatal growth retardation",
            {"intrauterine … growth retardation": "intrauterine growth retardation"},
        ),
        # Words that a name may lack are no part of it at its ends.
        (
            "cancer of the lung, of the breast and ovarian cancer",
            "ovarian cancer",
            {"cancer of the … breast": "breast cancer"},
        ),
        ("the breast and ovarian cancer", "ovarian cancer", {"breast … cancer": "breast cancer"}),
    ],
)
def test_parts_of_a_coordination(text, whole, parts):
    expected = {(surface, name) for surface, name in parts.items()}
    for around in ("{}", "We saw {} there.", "Pain. {}"):
        written = around.format(text)
        matches = found(written)
        assert {each for each in matches if "…" in each[0]} == expected
        assert whole in {surface for surface, _ in matches}


@pytest.mark.parametrize(
    "text",
    [
        # Another sentence, or a bracket.
        "cleft lip. And palate",
        "cleft lip; palate",
        "cleft lip (and palate)",
        "breast. Ovarian cancer",
        "cleft lip\nand palate",
        # Nothing joins the two.
        "cleft lip palate",
        "breast ovarian cancer",
        # Not next to it.
        "cleft lip and a palate",
        "cleft lip and and palate",
        "cleft lip and",
        "and palate",
        "breast and",
        # The part is a name.
        "heart and renal failure",
        "cleft lip and pain",
        # Both parts are no name together.
        "renal and ovarian cancer",
        # No whole name.
        "lip and palate",
        "",
    ],
)
def test_what_is_no_coordination(text):
    assert not [each for each in found(text) if "…" in each[0]]


def test_a_part_that_is_a_name_ends_a_list():
    assert ("breast … cancer", "breast cancer") not in found("breast, pain and lung cancer")


def test_a_part_does_not_reach_into_another_name():
    names = ["lung cancer", "cancer pain swelling", "severe swelling"]
    assert found("lung cancer pain and severe swelling", names) == {
        ("lung cancer", "lung cancer"),
        ("severe swelling", "severe swelling"),
    }
    names = ["mild fever", "mild chronic pain", "pain attack"]
    assert not [
        each for each in found("mild fever and chronic pain attack", names) if "…" in each[0]
    ]


def test_bounds_of_a_coordination():
    words = [f"w{i}" for i in range(MAX_PARTS + 3)]
    names = [f"{word} cancer" for word in words]
    text = ", ".join(words[:-1]) + f" and {words[-1]} cancer"
    parts = {name for surface, name in found(text, names) if "…" in surface}
    assert parts == set(names[-1 - MAX_PARTS : -1])
    for n in (MAX_APART, MAX_APART + 1):
        long = " ".join(words[:n])
        parts = found(f"{long} and mild cancer", [f"{long} cancer", "mild cancer"])
        assert (f"{long} … cancer", f"{long} cancer") in parts or n > MAX_APART
        assert len(parts) == 1 + (n <= MAX_APART)


@pytest.mark.parametrize("nested", [False, True])
def test_a_part_is_found_once(nested):
    names = ["breast cancer", "acute lung cancer", "lung cancer", "acute breast cancer"]
    parts = [
        each
        for each in found("breast and acute lung cancer", names, nested=nested)
        if each[0].startswith("breast")
    ]
    assert parts == [("breast … cancer", "breast cancer")]


def test_texts_of_a_batch_are_apart():
    finder = NameFinder(NameBags.of([(name, i) for i, name in enumerate(NAMES)], NAMES))
    matches = finder.find(["breast and", "ovarian cancer and", "lung", ", palate", "cleft lip and"])
    assert [[each.named.name for each in own] for own in matches] == [
        [],
        ["ovarian cancer"],
        [],
        [],
        ["cleft lip"],
    ]

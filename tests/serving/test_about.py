"""Facts about a served pipeline: vocabularies with version and licence, finders, labels,
formats."""

import pytest
import spacy

from spacy_krissel import Entity, build
from spacy_krissel.ontology.vocabularies import VOCABULARIES
from spacy_krissel.render.formats import WRITERS
from spacy_krissel.serving.about import vocabularies
from spacy_krissel.serving.corrected import CorrectedLinker

CC_BY = "https://creativecommons.org/licenses/by/4.0/"


class KB:
    """A knowledge base with these ids and this provenance."""

    def __init__(self, ids, *ontology):
        self.entity_ids, self.ontology = sorted(ids), [*ontology]


def test_facts_describe_the_pipeline(nlp):
    nlp.get_pipe("krissel_linker").cfg["types_by_label"] = {"Disease": ["Disease"]}
    about = CorrectedLinker(nlp).about()
    assert about["entities"] == 5 and about["finders"] == ["entity_ruler"]
    assert about["labels"] == ["Disease", "X"]
    assert [f".{each}" for each in about["formats"]] == [*WRITERS]
    assert about["min_confidence"] == nlp.get_pipe("krissel_linker").cfg["min_confidence"]


@pytest.mark.parametrize("change", ["no coefficients", "a re-ranker"])
def test_no_confidence_is_stated_if_links_have_none(nlp, change):
    if change == "a re-ranker":
        nlp.add_pipe("krissel_reranker", config={"linker": "krissel_linker"})
    else:
        nlp.get_pipe("krissel_linker").cfg["confidence"] = {}
    assert CorrectedLinker(nlp).about()["min_confidence"] is None


@pytest.mark.parametrize(
    "ids, stated, expected",
    [
        # Read by its name.
        (
            ["MONDO:1"],
            {
                "source": "mondo.obo",
                "vocabulary": "mondo",
                "version": "2024",
                "licence": f"CC BY 4.0, {CC_BY}",
            },
            (VOCABULARIES["mondo"].title, "2024", "CC BY 4.0", CC_BY),
        ),
        # A file with the ids of a known vocabulary alone, which states a licence or none.
        (
            ["HP:1", "HP:2"],
            {"source": "a.obo"},
            (VOCABULARIES["hpo"].title, "", VOCABULARIES["hpo"].licence, VOCABULARIES["hpo"].terms),
        ),
        (
            ["HP:1", "HP:2"],
            {"source": "a.obo", "licence": "https://example.org/terms"},
            (VOCABULARIES["hpo"].title, "", "", "https://example.org/terms"),
        ),
        # A known address has a name.
        (
            ["X:1"],
            {"source": "a.owl", "licence": CC_BY.rstrip("/")},
            ("a.owl", "", "CC BY 4.0", CC_BY.rstrip("/")),
        ),
        (
            ["X:1"],
            {
                "source": "a.obo",
                "licence": f"This work is licensed under a Creative Commons licence: {CC_BY}.",
            },
            ("a.obo", "", "CC BY 4.0", CC_BY),
        ),
        (
            ["X:1"],
            {"source": "a.obo", "licence": "Ask us (https://example.org/ask)."},
            ("a.obo", "", "Ask us", "https://example.org/ask"),
        ),
        (["HP:1", "X:1"], {"source": "a.obo", "licence": "ours"}, ("a.obo", "", "ours", "")),
        ([], {}, ("", "", "", "")),
    ],
)
def test_a_vocabulary_has_its_name_version_and_licence(ids, stated, expected):
    (found,) = vocabularies(KB(ids, stated))
    assert found.pop("source") == stated.get("source", "")
    assert tuple(found.values()) == expected


def test_one_of_several_sources_is_not_recognized_by_ids():
    found = vocabularies(KB(["HP:1"], {"source": "a.obo"}, {"source": "b.tsv"}))
    assert [each["name"] for each in found] == ["a.obo", "b.tsv"] and not any(
        each["licence"] for each in found
    )


def test_hierarchy_has_names_and_handles_cycles(tmp_path):
    """Also in a ring, below itself, and below what the knowledge base does not have."""
    entities = [
        Entity("A", "top"),
        Entity("B", "organ disease", parents=("A",)),
        Entity("C", "heart attack", parents=("B", "A", "Z")),
        Entity("R1", "ring", parents=("R2",)),
        Entity("R2", "other ring", parents=("R1",)),
        Entity("S", "lost", parents=("Z",)),
    ]
    nlp = spacy.load(build(entities, tmp_path / "linker").output)
    linker = CorrectedLinker(nlp)

    def named(each):
        return each["id"], each["name"]

    found = linker.entity("C")
    assert [*map(named, found["path"])] == [("A", "top"), ("B", "organ disease")]
    assert [*map(named, found["parents"])] == [("B", "organ disease"), ("A", "top"), ("Z", "")]
    assert [*map(named, linker.entity("R1")["path"])] == [("R2", "other ring")]
    assert [*map(named, linker.entity("S")["path"])] == [("Z", "")]
    assert linker.entity("A")["path"] == linker.entity("A")["parents"] == []

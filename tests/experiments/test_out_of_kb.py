import json

import pytest
import spacy
from lab.data.out_of_kb import (
    LinkedMention,
    drop_ids,
    out_of_kb,
    removed_entities,
    split_figures,
    without_removed,
)
from lab.data.relink import relink
from spacy.tokens import Span

from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store

ENTITIES = [
    Entity(
        "D1", "gout", ("podagra", "uric disease"), ("T047",), ("C05.550",), "Crystals in a joint."
    ),
    Entity("D2", "cold", (), ("T047", "T041"), ("C08.730",)),
    Entity("D3", "lung cancer", (), ("T191",), ("C04.588", "C08.785"), alt_ids=("OMIM:3",)),
    Entity("D4", "skin cancer", (), ("T191",), ("C04.5881",)),
    Entity("D5|x", "odd", (), ("Mental Process",)),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(
        iter(ENTITIES), tmp_path_factory.mktemp("out_of_kb") / "full", info={"sources": ["made"]}
    )


@pytest.fixture
def gold(tmp_path):
    """Two splits: ids by the words of their documents."""
    nlp = spacy.blank("en")

    def write(name, *texts):
        docs = []
        for number, (text, ids) in enumerate(texts):
            doc = nlp(text)
            spans = [
                Span(doc, i, i + 1, label="Disease", kb_id=id_)
                for i, id_ in enumerate(ids)
                if id_ is not None
            ]
            doc.ents, doc.spans["krissel"] = spans[::2], spans
            doc.user_data["krissel_id"] = f"{name}{number}"
            docs.append(doc)
        write_doc_bin(docs, tmp_path / f"{name}.spacy")
        return tmp_path / f"{name}.spacy"

    return {
        "train": write(
            "train", ("Tumour gout x", ["OMIM:3", "D1", None]), ("one two", ["D1|D2", "-1"])
        ),
        "dev": write(
            "dev",
            ("tumour Tumor gout what where", ["D3", "D3|X9", "D1", "X9", ""]),
            ("both", ["D3+D4"]),
        ),
    }


def ids(folder, name):
    docs = list(read_doc_bins(folder / f"{name}.spacy", spacy.blank("en").vocab))
    return [[span.kb_id_ for span in doc.spans["krissel"]] for doc in docs]


def test_entities_are_removed_and_their_mentions_become_nil(store, gold, tmp_path):
    report = out_of_kb(store, gold, tmp_path / "benchmark", trees=["C04.588"])
    reduced = OntologyStore(tmp_path / "benchmark" / "ontology")
    # D3 stands in another sub-tree as well; D4's number only begins like the removed one.
    assert list(reduced.ids) == ["D1", "D2", "D4", "D5|x"] and reduced.get("D1") == ENTITIES[0]
    assert ids(tmp_path / "benchmark", "train") == [["NIL", "D1"], ["D1|D2", "-1"]]
    assert ids(tmp_path / "benchmark", "dev") == [["NIL", "NIL", "D1", "X9", ""], ["D4"]]
    assert reduced.manifest["info"] == {
        "sources": ["full"],
        "removed": {"types": [], "trees": ["C04.588"], "entities": 1, "of": 5},
        "of": {"sources": ["made"]},
    }
    assert json.loads((tmp_path / "benchmark" / "report.json").read_text(encoding="utf8")) == report
    assert sorted(path.name for path in (tmp_path / "benchmark").iterdir()) == [
        "dev.spacy", "manifest.json", "ontology", "report.json", "train.spacy",
    ]  # fmt: skip


def test_split_statistics_count_seen_entities_and_forms(store, gold, tmp_path):
    dev = out_of_kb(store, gold, tmp_path / "benchmark", trees=["C04.588"])["splits"]["dev"]
    assert (dev["documents"], dev["unknown"], dev["without_id"], dev["nil_before"]) == (2, 1, 1, 0)
    # D1, D3, D3 and D3+D4 of dev; training has D1, D2 and D3, and the forms tumour, gout and one.
    assert dev["all"] == {
        "mentions": 4,
        "entities": 3,
        "forms": 4,
        "entities_seen": pytest.approx(2 / 3),
        "mentions_seen": 1.0,
        "forms_seen": 0.5,
        "mentions_of_seen_forms": 0.5,
    }
    assert dev["nil"]["mentions"] == 2 and dev["nil"]["entities"] == 1
    assert (dev["nil"]["entities_seen"], dev["nil"]["forms_seen"]) == (1.0, 0.5)


def test_reference_lengths_are_averaged(store, gold, tmp_path):
    references = out_of_kb(store, gold, tmp_path / "benchmark", types=["T041"], trees=["C04"])[
        "references"
    ]
    assert references["ontology"]["removed"] == {
        "entities": 4,
        "names": 1.0,
        "name_words": 1.5,
        "name_characters": 7.25,
        "defined": 0.0,
        "definition_words": None,
        "definition_characters": None,
    }
    assert references["mentioned"]["removed"]["entities"] == 3
    mentioned = references["mentioned"]["all"]
    assert (mentioned["entities"], mentioned["names"], mentioned["defined"]) == (4, 1.5, 0.25)
    assert (mentioned["definition_words"], mentioned["definition_characters"]) == (4.0, 20.0)


def test_without_a_training_split_there_are_no_seen_fractions(store, gold, tmp_path):
    report = out_of_kb(store, {"dev": gold["dev"]}, tmp_path / "benchmark", trees=["C04"])
    assert report["splits"]["dev"]["all"]["entities_seen"] is None
    assert report["splits"]["dev"]["nil"]["mentions"] == 3


def test_types_are_selected_by_id_or_name(store):
    assert removed_entities(store, types=["Mental Process"]) == {"D2", "D5|x"}
    assert removed_entities(store, types=["T041"]) == {"D2", "D5|x"}
    assert removed_entities(store, types=["T041"], trees=["C05"]) == {"D1", "D2", "D5|x"}


def test_types_and_trees_without_entities_raise_a_warning(store):
    with pytest.warns(KrisselWarning, match=r"KW221\].*'Mental Proces', 'C99'") as found:
        assert removed_entities(store, types=["Mental Proces"], trees=["C99", "C05"]) == {"D1"}
    assert len(found) == 1


def test_removing_nothing_or_everything_raises(store, gold, tmp_path):
    for types, trees, code in (((), ["C99"], "K221"), ((), (), "K221"), (["T041"], ["C"], "K222")):
        with pytest.raises(KrisselError, match=rf"\[{code}\]"):
            out_of_kb(store, gold, tmp_path / "benchmark", types=types, trees=trees)
    assert not (tmp_path / "benchmark").exists()


@pytest.mark.parametrize("name", ["", "../train", "a/b", ".hidden"])
def test_invalid_split_names_raise(store, gold, tmp_path, name):
    with pytest.raises(KrisselError, match="K006.*gold"):
        out_of_kb(store, {name: gold["dev"]}, tmp_path / "benchmark", trees=["C04"])


def test_a_missing_split_leaves_an_earlier_benchmark_unchanged(store, gold, tmp_path):
    out_of_kb(store, gold, tmp_path / "benchmark", trees=["C04.588"])
    with pytest.raises(KrisselError, match="K201"):
        out_of_kb(
            store,
            {**gold, "test": tmp_path / "missing.spacy"},
            tmp_path / "benchmark",
            trees=["C08"],
        )
    assert "D3" not in OntologyStore(tmp_path / "benchmark" / "ontology")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_removed_entities_without_mentions_raise_a_warning(store, gold, tmp_path):
    with pytest.warns(KrisselWarning, match=r"KW222\] None of the 4 linked mentions \(dev\)"):
        out_of_kb(store, {"dev": gold["dev"]}, tmp_path / "benchmark", types=["Mental Process"])


@pytest.mark.parametrize(
    "kb_id, expected",
    [
        ("D3", "NIL"),
        (" OMIM:3 ", "NIL"),
        ("MESH:D3", "NIL"),
        ("D1", "D1"),
        ("D3|D1", "D1"),
        ("D1+D3|D2", "D1|D2"),
        ("D3|X9", "NIL"),
        ("D3|D1|X9", "D1|X9"),
        ("D3|-1", "NIL"),
        ("D1|-1", "D1|-1"),
        ("X9|X8", "X9|X8"),
        ("D5|x", "NIL"),
        ("-1", "-1"),
        ("", ""),
    ],
)
def test_removed_entities_are_dropped_from_gold_ids(store, kb_id, expected):
    assert without_removed(kb_id, store, {"D3", "D5|x"}) == expected


def test_ids_are_dropped_with_the_separator_before_them():
    assert drop_ids("A|B+C", lambda id_: id_ == "B") == "A+C"
    assert drop_ids("A|B+-1", lambda id_: id_ == "A") == "B+-1"
    assert drop_ids("A", lambda id_: True) == ""


def test_relinking_keeps_everything_else():
    doc = spacy.blank("en")("gout and cold")
    doc.set_ents([Span(doc, 0, 1, label="Disease", kb_id="D1", span_id="s1")], default="missing")
    doc.spans["other"] = [Span(doc, 0, 3, label="All", kb_id="D2")]
    doc.spans["other"].attrs["made"] = "here"
    relink(doc, str.lower)
    (ent,) = doc.ents
    assert (ent.kb_id_, ent.label_, ent.id_) == ("d1", "Disease", "s1")
    assert [token.ent_iob for token in doc] == [3, 0, 0]
    assert doc.spans["other"].attrs == {"made": "here"}
    assert [(span.kb_id_, span.label_, span.end) for span in doc.spans["other"]] == [
        ("d2", "All", 3)
    ]


def test_fractions_of_no_mentions_are_none():
    figures = split_figures([], [LinkedMention(("D1",), "gout")])
    assert (
        figures["mentions"] == 0
        and figures["entities_seen"] is None
        and figures["mentions_of_seen_forms"] is None
    )


def test_the_root_of_a_tree_is_removed_with_it(tmp_path):
    """MeSH's files give its roots no number: they are known by their preferred name. A number goes
    before it."""
    entities = [
        Entity("R", "nervous system diseases"),
        Entity("N", "Nervous System Diseases", tree_numbers=("C23.1",)),
        Entity("A", "ataxia", ("Nervous System Diseases",)),
        Entity("E", "Eye Diseases"),
        Entity("B", "brain tumour", tree_numbers=("C10.2",)),
    ]
    store = write_store(iter(entities), tmp_path / "store")
    assert removed_entities(store, trees=["C10"]) == {"R", "B"}
    assert removed_entities(store, trees=["C"]) == {"R", "N", "E", "B"}
    assert removed_entities(store, trees=["C10.2"]) == {"B"}


@pytest.mark.nightly
@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_neoplasms_are_removed_from_medic(data_dir, tmp_path):
    ontologies, corpora = data_dir / "ontologies", data_dir / "corpora" / "bc5cdr"
    tree = ontologies / "mesh_tree_numbers.tsv.gz"
    store = build_ontology(
        ontologies / "medic_06Jul2012.txt", tmp_path / "medic", enrich_from=[tree]
    )
    gold = {}
    for name, file in (("train", "CDR_TrainingSet"), ("dev", "CDR_DevelopmentSet")):
        gold[name] = tmp_path / f"{name}.spacy"
        convert(corpora / f"{file}.PubTator.txt", gold[name], labels=["Disease"])
    report = out_of_kb(store, gold, tmp_path / "benchmark", trees=["C04"])
    reduced = OntologyStore(tmp_path / "benchmark" / "ontology")
    assert len(reduced) + report["removed"]["entities"] == len(store) == 11915
    # Breast neoplasms are in C04 and C17; hypertension is in C14.
    assert "D001943" in store and "D001943" not in reduced and "D006973" in reduced
    # The table of tree numbers lacks the roots of MeSH.
    assert store.get("D009369").tree_numbers == () and "D009369" not in reduced
    dev = report["splits"]["dev"]
    assert dev["all"]["mentions"] + dev["unknown"] + dev["nil_before"] + dev["without_id"] == 4244
    assert 0 < dev["nil"]["mentions"] < dev["all"]["mentions"] / 5
    assert report["splits"]["train"]["nil"]["entities_seen"] == 1
    assert 0.3 < dev["nil"]["entities_seen"] < 0.9 and 0.3 < dev["all"]["entities_seen"] < 0.9
    # No mention of the written split names an entity that the reduced store lacks, but for unknown
    # ones.
    again = out_of_kb(
        store, {"dev": tmp_path / "benchmark" / "dev.spacy"}, tmp_path / "again", trees=["C04"]
    )
    assert again["splits"]["dev"]["nil"]["mentions"] == 0
    assert again["splits"]["dev"]["nil_before"] == dev["nil"]["mentions"] + dev["nil_before"]

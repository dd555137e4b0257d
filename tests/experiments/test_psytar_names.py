import json
import warnings

import pytest
import spacy
from lab.data.lay_names import read_lay_names
from lab.data.psytar import convert_psytar
from lab.data.psytar_names import psytar_names
from lab.data.text_split import text_split

from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.corpora.docs import ID_KEY
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.readers import read_jsonl
from spacy_krissel.ontology.store import OntologyStore, write_store

HPO = """format-version: 1.2
ontology: hp

[Term]
id: HP:0000001
name: Gonalgia
synonym: "Knee ache" EXACT []
synonym: "Leg pain" BROAD []
synonym: "pain, in knee" EXACT layperson []
xref: UMLS:C0000001

[Term]
id: HP:0000002
name: Headache
xref: UMLS:C0000004
xref: UMLS:C0000003

[Term]
id: HP:0000003
name: Elsewhere
xref: UMLS:C0000009
"""
LAY = """?term\t?term_label\t?layperson
<http://purl.obolibrary.org/obo/HP_0000001>\t"Gonalgia"\t"Sore knee"
<http://purl.obolibrary.org/obo/HP_0000001>\t"Gonalgia"\t"knee pain"

HP:0000002\tHeadache\tSore head
<http://purl.obolibrary.org/obo/HP_0000001>\t"Gonalgia"\t"Sore knee"
"""


@pytest.fixture
def files(write_psytar, tmp_path):
    (tmp_path / "hp.obo").write_text(HPO)
    (tmp_path / "lay.tsv").write_text(LAY)
    nlp = spacy.blank("en")
    # Pairs of the first sentence and of the fourth; not d.1:2, where three entities of phrases are.
    docs = []
    for id_, entities in (("d.1:1", ["C0000001", "C0000002"]), ("d.2:1:2", ["C0000004"])):
        doc = nlp("text")
        doc.user_data[ID_KEY] = id_
        doc.cats = dict.fromkeys(entities, 1.0)
        docs.append(doc)
    write_doc_bin(docs, tmp_path / "train.spacy")
    write_psytar(tmp_path / "psytar.xlsx")
    return tmp_path


def names(path):
    return {
        record["concept_id"]: [record["canonical_name"], *record["aliases"]]
        for record in records(path)
    }


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_names_come_from_all_sources(files):
    settings = {"train": files / "train.spacy", "hpo": files / "hp.obo", "lay": files / "lay.tsv"}
    report = psytar_names(files / "psytar.xlsx", files / "names.jsonl", **settings)
    assert names(files / "names.jsonl") == {
        # SNOMED CT's "Pain in knee" is HPO's "pain, in knee" and the phrase "pain in knee".
        "C0000001": ["Knee Pain", "Pain in knee", "Gonalgia", "Knee ache", "Sore knee"],
        "C0000002": ["swelling/fullness of knee", "swelling in knee"],
        # "no sleep" is a phrase of d.1:2 alone, which is not of the training set.
        "C0000003": ["Not sleeping", "Headache", "Sore head"],
        "C0000004": ["Headache", "Sore head"],
        "C0000005": ["Shock sensation"],
    }
    assert report == {
        "entities": 5,
        "in_hpo": 3,
        "added": {"psytar": 6, "hpo": 3, "lay": 3, "phrases": 1},
        "shared_names": 2,
        "seen": {"entities": 3, "1": 0, "2": 2, "3+": 1, "names": 3.0},
        "unseen": {"entities": 2, "1": 1, "2": 0, "3+": 1, "names": 2.0},
    }
    first = records(files / "names.jsonl")[0]
    assert (
        first["types"] == ["Finding"]
        and first["xrefs"] == ["HP:0000001"]
        and first["source"] == "PsyTAR"
    )
    store = write_store(read_jsonl(files / "names.jsonl"), files / "store")
    assert isinstance(store, OntologyStore) and store.find("gonalgia") == ["C0000001"]
    psytar_names(files / "psytar.xlsx", files / "again.jsonl", **settings)
    assert (files / "again.jsonl").read_bytes() == (files / "names.jsonl").read_bytes()


def test_sources_are_optional(files):
    report = psytar_names(files / "psytar.xlsx", files / "bare.jsonl")
    assert names(files / "bare.jsonl")["C0000001"] == ["Knee Pain", "Pain in knee"]
    assert (
        report["added"] == {"psytar": 6, "hpo": 0, "lay": 0, "phrases": 0} and report["in_hpo"] == 0
    )
    assert report["unseen"] == {"entities": 0, "1": 0, "2": 0, "3+": 0, "names": None}
    report = psytar_names(
        files / "psytar.xlsx", files / "bare.jsonl", train=files / "train.spacy", phrases=False
    )
    assert names(files / "bare.jsonl")["C0000002"] == ["swelling/fullness of knee"]
    assert report["unseen"]["entities"] == 2


def test_invalid_input_raises(files):
    def refused(code, **settings):
        with pytest.raises(KrisselError, match=code):
            psytar_names(files / "psytar.xlsx", files / "names.jsonl", **settings)
        assert not (files / "names.jsonl").exists()

    refused("K006.*'lay'", lay=files / "lay.tsv")
    refused("K201", train=files / "missing.spacy")
    other = spacy.blank("en")("text")
    other.user_data[ID_KEY], other.cats = "elsewhere", {"C0000001": 1.0}
    write_doc_bin([other], files / "other.spacy")
    refused(r"K235\] None of the 1 pair", train=files / "other.spacy")
    (files / "lay.tsv").write_text(LAY + "a row of another table\n")
    refused("K234.*line 7 is 'a row", hpo=files / "hp.obo", lay=files / "lay.tsv")
    (files / "lay.tsv").write_text(LAY.splitlines()[0])
    refused("K204", hpo=files / "hp.obo", lay=files / "lay.tsv")


def test_lay_names_are_read_by_hpo_id(files):
    assert read_lay_names(files / "lay.tsv") == {
        "HP:0000001": ["Sore knee", "knee pain"],
        "HP:0000002": ["Sore head"],
    }


@pytest.mark.nightly
@pytest.mark.data
def test_the_real_corpus_has_known_split_and_name_counts(data_dir, tmp_path):
    """Split as by default; no phrase of the test alone is a name."""
    workbook = data_dir / "corpora" / "psytar" / "PsyTAR_dataset.xlsx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        convert_psytar(workbook, tmp_path / "psytar.spacy")
    report = text_split(tmp_path / "psytar.spacy", tmp_path / "split")
    assert (report["texts"], report["entities"], report["pairs"]) == (2788, 789, 6266)
    parts = ("train", "test_seen", "test_unseen")
    assert [(report[part]["entities"], report[part]["pairs"]) for part in parts] == [
        (710, 5449),
        (177, 523),
        (79, 294),
    ]
    assert [report[part]["disjoint"] for part in parts] == [345, 35, 26]
    assert [figures["unseen"] for figures in report["bins"].values()] == [16, 31, 32]
    found = psytar_names(
        workbook,
        tmp_path / "names.jsonl",
        train=tmp_path / "split" / "train.spacy",
        hpo=data_dir / "ontologies" / "hp_2017-04-13.obo.gz",
        lay=data_dir / "ontologies" / "hp_layperson-synonyms.tsv",
    )
    assert found["in_hpo"] == 163 and found["added"] == {
        "psytar": 959,
        "hpo": 309,
        "lay": 34,
        "phrases": 3053,
    }
    assert {key: found["unseen"][key] for key in ("entities", "1", "2", "3+")} == {
        "entities": 79, "1": 52, "2": 18, "3+": 9,
    }  # fmt: skip
    train = read_doc_bins(tmp_path / "split" / "train.spacy", spacy.blank("en").vocab)
    assert all(not doc.spans and not doc.ents for doc in train)

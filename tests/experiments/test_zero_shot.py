import json

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from lab.data.zero_shot import ZeroShot, zero_shot
from spacy.tokens import Span

from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

N_DOCS, N_ENTITIES = 60, 40


@pytest.fixture
def gold(tmp_path):
    """Documents of five mentions: single, composite, of another spelling, NIL, and unlinked."""
    nlp = spacy.blank("en")
    docs = []
    for i in range(N_DOCS):
        doc = nlp(f"one two three four five document {i}")
        first, second, third = (
            f"D{number:06}" for number in (i % N_ENTITIES, 7 * i % N_ENTITIES, 3 * i % N_ENTITIES)
        )
        kb_ids = (first, f"{second}|{third}", f"MESH:{second}", "NIL", "")
        doc.ents = [
            Span(doc, j, j + 1, label="Disease", kb_id=kb_id) for j, kb_id in enumerate(kb_ids)
        ]
        doc.user_data["krissel_id"] = str(i)
        docs.append(doc)
    write_doc_bin(docs, tmp_path / "gold.spacy")
    return tmp_path / "gold.spacy"


def read(path):
    return list(read_doc_bins(path, spacy.blank("en").vocab))


def linked(docs):
    kb_ids = [ent.kb_id_ for doc in docs for ent in doc.ents]
    return {id_.removeprefix("MESH:") for kb_id in kb_ids for id_ in split_ids(kb_id)}


def test_no_entity_is_in_two_splits(gold, tmp_path):
    report = zero_shot(gold, tmp_path / "splits", shares=(0.5, 0.3, 0.2))
    splits = {
        name: read(tmp_path / "splits" / f"{name}.spacy") for name in ("train", "dev", "test")
    }
    entities = {name: linked(docs) for name, docs in splits.items()}
    assert all(entities.values()) and len(set().union(*entities.values())) == sum(
        map(len, entities.values())
    )
    assert sum(map(len, splits.values())) == N_DOCS
    for name, docs in splits.items():
        figures = report["splits"][name]
        n_linked = sum(bool(ent.kb_id_) and ent.kb_id_ != "NIL" for doc in docs for ent in doc.ents)
        assert (figures["documents"], figures["nil"], figures["kept"]) == (
            len(docs),
            len(docs),
            n_linked,
        )
        assert figures["kept"] + figures["lost"] == 3 * len(docs) and figures["entities"] == len(
            entities[name]
        )
        # A mention that lost its link is still one.
        assert all(len(doc.ents) == 5 and doc.ents[3].kb_id_ == "NIL" for doc in docs)
    assert json.loads((tmp_path / "splits" / "report.json").read_text(encoding="utf8")) == report


def test_splits_depend_on_the_seed_only(gold, tmp_path):
    shares = (0.4, 0.3, 0.3)
    folders = [tmp_path / name for name in "abc"]
    for folder, seed in zip(folders, (1, 1, 2), strict=True):
        zero_shot(gold, folder, shares=shares, seed=seed)
    first, again, other = (
        [doc.user_data["krissel_id"] for doc in read(folder / "dev.spacy")] for folder in folders
    )
    assert first == again != other
    assert (folders[0] / "dev.spacy").read_bytes() == (folders[1] / "dev.spacy").read_bytes()


def test_alternative_ids_are_one_entity(gold, tmp_path):
    store = write_store(
        iter([Entity("D1", "gout", alt_ids=("OMIM:1",)), Entity("D2", "cold")]), tmp_path / "store"
    )
    part = ZeroShot((0.5, 0.3, 0.2), ontology=store)
    assert part.entities("OMIM:1|D1") == ("D1",) and part.entities("X9") == ("X9",)
    assert part.kept("OMIM:1", part.entity("D1"))
    assert ZeroShot().entities("D000001|MESH:D000001|UMLS_CUI:C0018923") == (
        "MESH:D000001",
        "UMLS:C0018923",
    )


def test_nil_and_unlinked_mentions_are_kept_in_every_split():
    part = ZeroShot()
    for kb_id in ("", "-1", "NIL", "-|-1"):
        assert part.entities(kb_id) == () and all(
            part.kept(kb_id, split) for split in ("train", "dev", "test")
        )


def test_a_document_read_twice_counts_once(gold, tmp_path):
    report = zero_shot([gold, gold], tmp_path / "splits", shares=(0.5, 0.5, 0.0))
    assert report["duplicate_documents"] == N_DOCS
    assert sum(figures["documents"] for figures in report["splits"].values()) == N_DOCS
    # No share, no file.
    assert not (tmp_path / "splits" / "test.spacy").exists()


@given(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    st.integers(),
    st.lists(st.text(), max_size=20),
)
def test_the_split_of_an_id_depends_on_the_seed_only(weights, seed, ids):
    shares = [weight / sum(weights) for weight in weights]
    part = ZeroShot(shares, seed)
    assert {part.entity(id_) for id_ in ids} <= {"train", "dev", "test"}
    assert [part.entity(id_) for id_ in ids] == [ZeroShot(shares, seed).entity(id_) for id_ in ids]


def test_the_requested_fractions_are_met():
    part = ZeroShot((0.6, 0.3, 0.1))
    splits = [part.entity(str(i)) for i in range(5000)]
    assert splits.count("train") / 5000 == pytest.approx(0.6, abs=0.03)
    assert splits.count("test") / 5000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    "shares", [(0.5, 0.5), (0.5, 0.6, -0.1), (0.5, 0.3, 0.3), (float("nan"), 0.5, 0.5)]
)
def test_invalid_fractions_raise(shares):
    with pytest.raises(KrisselError, match="K006.*shares"):
        ZeroShot(shares)


def test_an_empty_split_and_missing_files_raise(gold, tmp_path):
    with pytest.raises(KrisselError, match=r"K223\] The split 'test'.* 0 document"):
        zero_shot(gold, tmp_path / "splits", shares=(0.5, 0.4999, 0.0001))
    with pytest.raises(KrisselError, match="K201"):
        zero_shot(tmp_path / "missing.spacy", tmp_path / "splits")
    with pytest.raises(KrisselError, match="K006.*gold"):
        zero_shot([], tmp_path / "splits")
    assert not (tmp_path / "splits").exists()

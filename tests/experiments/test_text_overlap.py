import pytest
import spacy
from command_line import invoke
from lab.data.text_overlap import frequent, overlap_rows, read_texts, text_overlap
from spacy.tokens import DocBin

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store


@pytest.fixture
def texts(tmp_path):
    """Two sets of texts whose entities have other ids, and names in common."""
    entities = {
        "a": [
            Entity("A1", "Headache", ("cephalalgia",)),
            Entity("A2", "cough"),
            Entity("A3", "itch"),
        ],
        "b": [
            Entity("B1", "head pain", ("headache",)),
            Entity("B2", "Cough"),
            Entity("B3", "fever"),
        ],
    }
    labels = {"a": (["A1", "A1", "A2"], ["A3", "A1"]), "b": (["B1", "B3"], ["B2"])}
    nlp = spacy.blank("en")
    for name, found in entities.items():
        write_store(found, tmp_path / f"{name}-names")
        (tmp_path / name).mkdir()
        for part, ids in zip(("train", "test"), labels[name], strict=True):
            docs = [nlp.make_doc("text") for _ in ids]
            for doc, id_ in zip(docs, ids, strict=True):
                doc.cats = {id_: 1.0, "unknown": 1.0}
            DocBin(docs=docs).to_disk(tmp_path / name / f"{part}.spacy")
    return [f"{name}={tmp_path / name}:{tmp_path / name}-names" for name in ("a", "b")]


def test_entities_are_matched_by_folded_name(texts):
    first, second = map(read_texts, texts)
    # A1 is seen in the other by "headache", A2 is there but not seen, and nothing itches.
    shares = {
        row[0]: row[1:] for row in (*overlap_rows(first, second), *overlap_rows(second, first))
    }
    assert shares == {
        "a, seen": ("2", "50.0", "50.0", "0.0"),
        "a, unseen": ("1", "0.0", "0.0", "100.0"),
        "b, seen": ("2", "50.0", "0.0", "50.0"),
        "b, unseen": ("1", "100.0", "0.0", "0.0"),
    }
    assert frequent(first, 2) == ["Headache", "cough"]
    printed = invoke("text-overlap", *texts).output
    assert (
        "| b, unseen | 1 | 100.0 | 0.0 | 0.0 |" in printed and "a: Headache, cough, itch" in printed
    )


@pytest.mark.parametrize("given", ["a", "a=b", "=a:b", "a=:b"])
def test_invalid_arguments_raise(given):
    with pytest.raises(KrisselError, match="K006.*texts"):
        read_texts(given)
    with pytest.raises(KrisselError, match="K006.*texts"):
        text_overlap([given])

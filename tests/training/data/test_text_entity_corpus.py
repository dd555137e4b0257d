"""Texts with their entities, as training reads them."""

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.training.data.gold_corpus import TextEntityCorpus


@pytest.fixture
def corpus(tmp_path, toy_store):
    nlp = spacy.blank("en")
    docs = []
    for n, cats in enumerate(
        [{"T01": 1.0, "T02": 0.0}, {"T03": 1.0, "C999": 1.0}, {}, {"C999": 1.0}, {"T05": 1.0}] * 4
    ):
        doc = nlp.make_doc(f"text number {n}")
        doc.user_data["krissel_id"], doc.cats = f"D{n}", cats
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "texts.spacy")

    def read(**settings):
        return list(TextEntityCorpus(tmp_path / "texts.spacy", toy_store.path, **settings)(nlp))

    return read


def test_texts_keep_only_entities_of_the_ontology(corpus):
    with pytest.warns(KrisselWarning, match="KW603.*8 of 20"):
        examples = corpus()
    assert [list(example.reference.cats) for example in examples] == [["T01"], ["T03"], ["T05"]] * 4
    assert all(example.predicted.text == example.reference.text for example in examples)
    assert all(not example.predicted.cats for example in examples)


@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_splits_are_disjoint_and_complete(corpus):
    train, dev = (corpus(split=split, dev_share=0.4) for split in ("train", "dev"))
    texts = [{example.reference.text for example in part} for part in (train, dev)]
    assert texts[0] and texts[1] and not texts[0] & texts[1]
    assert texts[0] | texts[1] == {example.reference.text for example in corpus()}


def test_texts_without_entities_raise(tmp_path, toy_store):
    DocBin(docs=[spacy.blank("en")("text")]).to_disk(tmp_path / "empty.spacy")
    with pytest.raises(KrisselError, match="K608.*empty.spacy"):
        list(TextEntityCorpus(tmp_path / "empty.spacy", toy_store.path)(spacy.blank("en")))

import pickle
from collections import Counter

import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_krissel.building.sources import make_gold_source
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.training.data.batchers import PairBatcher
from spacy_krissel.training.data.examples import linked_mentions, single_mentions
from spacy_krissel.training.data.gold_corpus import GoldCorpus


@pytest.fixture
def write(tmp_path):
    """Writes docs of "w0 w1 …" with (start, end, id) mentions, in `doc.ents` or in a group."""

    def write(*docs, key=""):
        nlp = spacy.blank("en")
        made = DocBin(store_user_data=True)
        for number, mentions in enumerate(docs):
            doc = nlp(" ".join(f"w{i}" for i in range(8)))
            spans = [
                Span(doc, start, end, label="X", kb_id=kb_id) for start, end, kb_id in mentions
            ]
            if key:
                doc.spans[key] = spans
            else:
                doc.ents = spans
            doc.user_data["krissel_id"] = f"doc{number}"
            made.add(doc)
        made.to_disk(tmp_path / "gold.spacy")
        return tmp_path / "gold.spacy"

    return write


def read(path, store, **settings):
    return list(GoldCorpus(path, store.path, **settings)(spacy.blank("en")))


def linked(examples):
    return [[span.kb_id_ for span in example.reference.ents] for example in examples]


def test_gold_ids_are_mapped_to_the_ontology(write, toy_store):
    path = write(
        [(0, 1, "MESH:T01"), (2, 3, "T02|T03"), (4, 5, "T99"), (6, 7, "-1")], [(0, 1, "T04+T99")]
    )
    with pytest.warns(KrisselWarning, match=r"KW603\] 1 of 4"):
        assert linked(read(path, toy_store)) == [["T01", "T02|T03", "", "NIL"], ["T04"]]
    with pytest.warns(KrisselWarning, match="KW603"):
        # In training a composite mention is no example of either.
        assert linked(read(path, toy_store, split="train", dev_share=0.0)) == [
            ["T01", "", "", "NIL"],
            ["T04"],
        ]


def test_predicted_docs_have_the_mentions_without_ids(write, toy_store):
    for key in ("", "nested"):
        (example,) = read(write([(0, 1, "T01"), (2, 4, "T02")], key=key), toy_store, spans_key=key)
        spans = example.predicted.spans[key] if key else example.predicted.ents
        assert [(span.start, span.end, span.label_, span.kb_id_) for span in spans] == [
            (0, 1, "X", ""),
            (2, 4, "X", ""),
        ]
        assert example.predicted.text == example.reference.text


def test_splits_are_by_document_and_the_same_for_prototypes(write, toy_store):
    path = write(*[[(0, 1, "T01"), (1, 2, "T02")]] * 40)
    parts = {}
    for split in ("train", "dev", "all"):
        settings = {"split": split, "dev_share": 0.3, "seed": 2}
        parts[split] = {
            example.reference.user_data["krissel_id"]
            for example in read(path, toy_store, **settings)
        }
        source = pickle.loads(pickle.dumps(make_gold_source(path, toy_store.path, **settings)))()
        assert {p.origin.doc for p in source.prototypes()} == parts[split]
        assert {(p.kind, p.origin.source) for p in source.prototypes()} == {("gold", "gold")}
    assert 5 < len(parts["dev"]) < 20
    assert parts["train"].isdisjoint(parts["dev"]) and parts["train"] | parts["dev"] == parts["all"]
    assert len(list(source.entities())) == len(toy_store)


def test_separate_development_file_is_used_completely(write, toy_store, tmp_path):
    """Or a part of the training split is left out."""
    dev = write(*[[(0, 1, "T02")]] * 5).rename(tmp_path / "dev.spacy")
    path = write(*[[(0, 1, "T01")]] * 20)
    found = {
        split: linked(read(path, toy_store, split=split, dev=dev))
        for split in ("train", "dev", "all")
    }
    assert found == {"train": [["T01"]] * 20, "dev": [["T02"]] * 5, "all": [["T01"]] * 20}


def test_invalid_settings_and_missing_links_raise(write, toy_store):
    path = write([(0, 1, "NIL")])
    with pytest.raises(KrisselError, match="K608"):
        read(path, toy_store)
    for make in (GoldCorpus, make_gold_source):
        with pytest.raises(KrisselError, match="K006.*split"):
            make(path, toy_store.path, split="test")
        with pytest.raises(KrisselError, match="K006.*dev_share"):
            make(path, toy_store.path, dev_share=1.0)


def test_document_gives_one_example_per_linked_mention(write, toy_store):
    path = write([(0, 1, "T01"), (2, 3, "NIL"), (4, 6, "T02")])
    (example,) = read(path, toy_store)
    alone = list(single_mentions(example))
    assert [entity for entity, _ in alone] == ["T01", "T02"]
    both = linked_mentions(example.reference)
    assert [linked_mentions(each.reference) for _, each in alone] == [both[:1], both[1:]]
    assert list(single_mentions(alone[0][1])) == [alone[0]]


def test_batches_hold_every_mention_of_a_document(write, toy_store):
    """`spacy.Corpus.v1` gives several mentions per document; each is batched separately."""
    path = write(*[[(0, 1, "T01"), (1, 2, "T02"), (3, 4, "T03")]] * 4)
    examples = list(spacy.training.Corpus(path)(spacy.blank("en")))
    batches = list(PairBatcher(pairs=3)(examples))
    assert [len(batch) for batch in batches] == [3, 3]
    pairs = [linked_mentions(example.reference) for batch in batches for example in batch]
    assert all(first[0] == second[0] for first, second in pairs)
    assert Counter(entity for pair in pairs for entity, _ in pair) == {"T01": 4, "T02": 4, "T03": 4}


def test_frequent_entities_are_capped(write, toy_store):
    path = write(*[[(0, 1, "T01"), (1, 2, "T01"), (2, 3, "T01")]] * 10, *[[(0, 1, "T02")]] * 2)
    examples = read(path, toy_store)
    assert [len(batch) for batch in PairBatcher(pairs=2, max_pairs=1)(examples)] == [2]
    batcher = PairBatcher(pairs=2, max_pairs=2)
    chosen = [
        [linked_mentions(e.reference) for batch in batcher(examples) for e in batch]
        for _ in range(2)
    ]
    assert chosen[0] != chosen[1]
    with pytest.raises(KrisselError, match="K006.*max_pairs"):
        PairBatcher(max_pairs=-1)

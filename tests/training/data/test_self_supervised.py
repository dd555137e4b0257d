import pickle
from collections import Counter
from itertools import groupby

import pytest
import spacy

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.errors import KrisselError
from spacy_krissel.mining import shards
from spacy_krissel.mining.shards import MentionShards, MinedMention
from spacy_krissel.ontology.held_out import HeldOut
from spacy_krissel.training.data import self_supervised
from spacy_krissel.training.data.examples import linked_mentions
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus
from spacy_krissel.util.folding import fold_name

HELD_OUT = 0.3


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def read(nlp, toy_store, toy_shards):
    """(entity, text, mention) of each example of the toy corpus."""

    def read(mentions=toy_shards, held_out=HELD_OUT, **settings):
        corpus = SelfSupervisedCorpus(toy_store.path, mentions, held_out=held_out, **settings)
        found = []
        for example in corpus(nlp):
            (span,) = example.reference.ents
            found.append((span.kb_id_, example.reference.text, span.text))
        return found

    return read


def split_kinds(found):
    """Names alone, and mentions in context."""
    return [item for item in found if item[1] == item[2]], [
        item for item in found if item[1] != item[2]
    ]


def test_held_out_names_are_only_in_dev(read, toy_store):
    train, dev = (
        read(names_per_entity=99, mentions_per_entity=99),
        read(split="dev", mentions_per_entity=99),
    )
    assert train and dev
    held_out = HeldOut(HELD_OUT, 0)
    for entity, text, mention in dev:
        assert held_out(toy_store.get(entity), mention)
        assert text != mention  # in context, never a name alone
    dev_names = {(entity, fold_name(mention)) for entity, _, mention in dev}
    assert not dev_names & {(entity, fold_name(mention)) for entity, _, mention in train}


def test_splits_together_cover_all_mined_mentions(read, toy_shards):
    _, train = split_kinds(read(mentions_per_entity=99))
    dev = read(split="dev", mentions_per_entity=99)
    mined = [(m.entity, m.left + m.mention + m.right, m.mention) for m in MentionShards(toy_shards)]
    assert sorted(train + dev) == sorted(mined)


def test_mentions_and_names_are_capped_per_entity(read, toy_names):
    names, mentions = split_kinds(read(mentions_per_entity=3, names_per_entity=2, held_out=0.0))
    assert max(Counter(entity for entity, *_ in mentions).values()) == 3
    assert Counter(entity for entity, *_ in names) == {
        id_: min(2, len(bearing)) for id_, bearing in toy_names.items()
    }
    # The preferred name always stays.
    assert {(id_, bearing[0], bearing[0]) for id_, bearing in toy_names.items()} <= set(names)
    assert split_kinds(read(mentions_per_entity=0))[1] == []
    assert split_kinds(read(names_per_entity=0))[0] == []


def test_limit_takes_a_random_sample_of_entities(read):
    whole = read()
    assert read(limit=7) == whole[:7]
    assert len({read(seed=seed, limit=1)[0][0] for seed in range(12)}) > 4


def test_examples_of_an_entity_are_consecutive(read):
    for settings in ({}, {"names_per_entity": 0}, {"mentions": None}):
        entities = [entity for entity, _ in groupby(read(**settings), key=lambda item: item[0])]
        assert len(entities) == len(set(entities)) > 3


def test_each_epoch_has_other_mentions_in_another_order(nlp, toy_store, toy_shards):
    corpus = SelfSupervisedCorpus(
        toy_store.path, toy_shards, mentions_per_entity=1, names_per_entity=2, held_out=0.0
    )
    epochs = [list(corpus.linked_views()) for _ in range(8)]
    seen = [list(dict.fromkeys(entity for entity, _ in epoch)) for epoch in epochs]
    assert seen[0] != seen[1] and set(seen[0]) == set(seen[1])
    mined = [{each for each in epoch if each[1].left or each[1].right} for epoch in epochs]
    assert all(len(chosen) == len(mined[0]) for chosen in mined)
    assert len(set.union(*mined)) > 2 * len(mined[0])


def test_small_chunks_give_the_same_examples(read, monkeypatch):
    """Blocks and chunks smaller than the ontology give the same examples in another order."""
    settings = {"mentions_per_entity": 99, "names_per_entity": 99}
    whole = read(**settings)
    monkeypatch.setattr(self_supervised, "BLOCK", 2)
    monkeypatch.setattr(self_supervised, "CHUNK", 4)
    monkeypatch.setattr(shards, "CHUNK", 1)
    found = read(**settings)
    assert found != whole and sorted(found) == sorted(whole)
    assert read(split="dev", mentions_per_entity=99)
    assert sorted(read(names_per_entity=0)) == sorted(read(names_per_entity=0, seed=0))


def test_only_the_needed_mentions_of_an_entity_are_read(toy_store, write_mentions, monkeypatch):
    many = [MinedMention("T10", "flu", f"d{i}", 0, 3, f"{i} ", "flu", "") for i in range(500)]
    shards = write_mentions(many)
    corpus = SelfSupervisedCorpus(toy_store.path, shards, names_per_entity=0)
    read = []
    fields = MentionShards.fields
    monkeypatch.setattr(
        MentionShards,
        "fields",
        lambda self, places, *names: read.append(len(places)) or fields(self, places, *names),
    )
    assert len(list(corpus.linked_views())) == 3
    assert max(read) <= 20


def test_development_mentions_are_searched_once(toy_store, toy_shards, monkeypatch):
    corpus = SelfSupervisedCorpus(toy_store.path, toy_shards, "dev", held_out=HELD_OUT)
    first = list(corpus.linked_views())
    monkeypatch.setattr(MentionShards, "fields", None)
    assert list(corpus.linked_views()) == first


def test_same_seed_gives_the_same_examples(read):
    assert read(seed=3) == read(seed=3)
    assert read(seed=3) != read(seed=4)


def test_without_mentions_only_names_are_read(read, toy_names):
    found = read(mentions=None, held_out=0.0, names_per_entity=99)
    assert sorted(found) == sorted(
        (id_, name, name) for id_, names in toy_names.items() for name in names
    )


def test_predicted_docs_have_the_mention_without_its_link(nlp, toy_store, toy_shards):
    for example in SelfSupervisedCorpus(toy_store.path, toy_shards)(nlp):
        (predicted,), (reference,) = example.predicted.ents, example.reference.ents
        assert (predicted.text, predicted.label) == (reference.text, reference.label)
        assert not predicted.kb_id_ and reference.kb_id_


def test_mentions_can_be_in_a_span_group(nlp, toy_store, toy_shards):
    as_ents, as_spans = (
        list(SelfSupervisedCorpus(toy_store.path, toy_shards, spans_key=key)(nlp))
        for key in ("", "sc")
    )
    assert len(as_ents) == len(as_spans) > 20
    for expected, example in zip(as_ents, as_spans, strict=True):
        (entity,), (predicted,), (reference,) = (
            expected.reference.ents,
            example.predicted.spans["sc"],
            example.reference.spans["sc"],
        )
        assert (reference.text, reference.kb_id_) == (entity.text, entity.kb_id_)
        assert (predicted.text, predicted.kb_id_) == (entity.text, "")
        assert (
            not example.reference.ents
            and not example.predicted.ents
            and not expected.reference.spans
        )


def test_training_mentions_have_the_views_of_their_prototypes(
    nlp, toy_store, toy_shards, write_mentions
):
    inside = MinedMention("T10", "flu", "d", 0, 3, "The pre", "flu", "x season")
    shards = write_mentions(sorted([*MentionShards(toy_shards), inside]))
    corpus = SelfSupervisedCorpus(
        toy_store.path, shards, names_per_entity=0, mentions_per_entity=99, held_out=0.0
    )
    source = PrototypeSource(toy_store, MentionShards(shards), names=False, mentions_per_entity=99)
    trained = [each for example in corpus(nlp) for each in linked_mentions(example.reference)]
    stored = [(prototype.entity, prototype.view) for prototype in source.prototypes()]
    assert ("T10", inside.view) in trained and sorted(trained) == sorted(stored)


def test_a_reader_can_be_read_again_and_pickled(nlp, toy_store, toy_shards):
    corpus = SelfSupervisedCorpus(toy_store.path, toy_shards)
    again = pickle.loads(pickle.dumps(corpus))
    for _ in range(2):
        texts = [example.reference.text for example in corpus(nlp)]
        assert [example.reference.text for example in again(nlp)] == texts
        again = pickle.loads(pickle.dumps(again))


@pytest.mark.parametrize(
    "settings, todo",
    [
        ({"split": "dev", "mentions": None}, "Set `mentions`"),
        ({"split": "dev", "held_out": 0.0}, "raise `held_out`"),
        ({"mentions_per_entity": 0, "names_per_entity": 0}, "lower the limits"),
    ],
)
def test_corpus_without_an_example_raises(read, settings, todo):
    with pytest.raises(KrisselError, match=f"K608.*{todo}"):
        read(**settings)


def test_mined_entities_missing_from_the_ontology_raise(read, write_mentions):
    with pytest.raises(KrisselError, match="K106.*D404"):
        read(mentions=write_mentions([MinedMention("D404", "x", "d", 0, 1, "", "x", " y")]))


def test_unknown_split_raises(read):
    with pytest.raises(KrisselError, match="K006.*split.*test"):
        read(split="test")

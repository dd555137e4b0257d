import json
from collections import Counter

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.data.text_split import frequency_bins, split_pairs, text_split

from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.corpora.docs import ID_KEY, write_gold_mentions
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

NLP = spacy.blank("en")


def doc_of(id_, text, entities, mentions=()):
    doc = NLP(text)
    doc.user_data[ID_KEY] = id_
    write_gold_mentions(doc, [DocMention(kb_id, "X", fragments) for kb_id, fragments in mentions])
    doc.cats = dict.fromkeys(entities, 1.0)
    return doc


def read(path):
    return list(read_doc_bins(path, NLP.vocab))


def pairs_of(frequencies):
    return [(f"text {i}", entity) for entity, number in frequencies.items() for i in range(number)]


def test_bins_are_thirds_with_ties_by_id():
    frequencies = {"b": 2, "a": 2, "c": 9, "e": 1, "d": 1, "f": 1, "g": 1}
    assert frequency_bins(frequencies) == (["c", "a"], ["b", "d"], ["e", "f", "g"])
    assert frequency_bins({}) == ([], [], [])


@pytest.mark.parametrize(
    "n_entities, share, drawn",
    # 20, 40 and 40 % of 10; of 3: 0.6, 1.2 and 1.2; of 1: the last of the largest remainders.
    [
        (100, 0.1, (2, 4, 4)),
        (30, 0.1, (1, 1, 1)),
        (10, 0.1, (0, 0, 1)),
        (10, 0.8, (2, 3, 3)),
        (10, 0.04, (0, 0, 0)),
    ],
)
def test_unseen_entities_are_drawn_from_each_bin(n_entities, share, drawn):
    frequencies = {f"E{i:03}": 1 + n_entities - i for i in range(n_entities)}
    split = split_pairs(pairs_of(frequencies), unseen=share, seed=3)
    assert (
        tuple(len(split.unseen.intersection(each)) for each in frequency_bins(frequencies)) == drawn
    )


@pytest.mark.parametrize(
    "number, min_train, tested",
    # To the nearest, halves up, and training first.
    [
        (5, 5, 0),
        (6, 5, 1),
        (4, 0, 0),
        (5, 0, 1),
        (14, 5, 1),
        (15, 5, 2),
        (40, 5, 4),
        (40, 38, 2),
        (40, 41, 0),
    ],
)
def test_the_test_fraction_of_seen_entities_is_rounded(number, min_train, tested):
    split = split_pairs(pairs_of({"E": number}), unseen=0, min_train=min_train)
    assert len(split.test) == tested and not split.unseen


frequencies = st.dictionaries(
    st.text("ABC|é ", min_size=1, max_size=3), st.integers(1, 30), max_size=12
)


@settings(max_examples=60)
@given(frequencies, st.sampled_from([0, 0.1, 0.33, 0.5, 0.8]), st.sampled_from([0, 0.1, 0.5, 0.99]),
       st.integers(0, 8), st.integers(0, 5), st.randoms())  # fmt: skip
def test_invariants_hold(frequencies, unseen, test, min_train, seed, random):
    pairs = pairs_of(frequencies)
    split = split_pairs(pairs, unseen=unseen, test=test, min_train=min_train, seed=seed)
    train = set(pairs) - split.test
    assert split.test <= set(pairs) and split.unseen <= set(frequencies)
    assert len(split.unseen) == int(unseen * len(frequencies) + 0.5)
    assert not split.unseen & {entity for _, entity in train}
    kept = Counter(entity for _, entity in train)
    for entity in set(frequencies) - split.unseen:
        assert kept[entity] >= min(min_train, frequencies[entity])
        assert frequencies[entity] - kept[entity] <= test * frequencies[entity] + 0.5
    random.shuffle(pairs)
    assert split_pairs(pairs, unseen=unseen, test=test, min_train=min_train, seed=seed) == split


def test_splits_depend_on_the_seed():
    pairs = pairs_of({f"E{i}": 20 for i in range(40)})
    assert len({split_pairs(pairs, seed=seed).unseen for seed in range(5)}) == 5
    # Each entity has its own draw of texts.
    split = split_pairs(pairs, unseen=0)
    assert (
        len(
            {
                frozenset(text for text, each in split.test if each == entity)
                for entity in ("E1", "E2", "E3")
            }
        )
        == 3
    )


@pytest.mark.parametrize("wrong", [{"unseen": 0.9}, {"test": 1}])
def test_invalid_settings_raise(wrong):
    with pytest.raises(KrisselError, match=f"K006.*{next(iter(wrong))}"):
        split_pairs([], **wrong)


@pytest.fixture
def gold(tmp_path):
    """Fifty texts of six entities: two in every text, one of them disjoint, and four in ten to one
    text each."""
    docs = []
    for i in range(50):
        own = [("C1", ((0, 1), (3, 4))), ("C2", ((2, 3),))]
        own += [(f"D{j}", ((4, 5),)) for j in range(1, 5) if i % (5 * j) == 0]
        # D4 is known to be there, but not where.
        mentions = [each for each in own if each[0] != "D4"]
        docs.append(
            doc_of(
                f"t{i}", f"pain and swelling knee number {i}", [each[0] for each in own], mentions
            )
        )
    write_doc_bin(docs, tmp_path / "gold.spacy")
    return tmp_path / "gold.spacy"


def test_train_and_test_partition_the_pairs(gold, tmp_path):
    report = text_split(gold, tmp_path / "split", unseen=0.33, test=0.2, min_train=3, seed=1)
    train, test = read(tmp_path / "split" / "train.spacy"), read(tmp_path / "split" / "test.spacy")
    sets = {
        name: {(doc.text, entity) for doc in docs for entity in doc.cats}
        for name, docs in (("a", train), ("b", test))
    }
    all_pairs = {(doc.text, entity) for doc in read(gold) for entity in doc.cats}
    assert (
        sets["a"] | sets["b"] == all_pairs and not sets["a"] & sets["b"] and sets["a"] and sets["b"]
    )
    unseen = {entity for _, entity in all_pairs} - {entity for _, entity in sets["a"]}
    assert len(unseen) == 2
    # Nothing tells training where an entity is.
    for doc in train:
        assert not doc.spans and not doc.ents and set(doc.user_data) == {ID_KEY} and doc.cats
        assert [token.text for token in doc] == [token.text for token in NLP(doc.text)]
    for doc in test:
        placed = {mention.kb_id: mention.fragments for mention in gold_mentions(doc)}
        assert set(placed) == set(doc.cats) - {"D4"}
        assert placed.get("C1", ((0, 1), (3, 4))) == ((0, 1), (3, 4)) and placed.get(
            "C2", ((2, 3),)
        ) == ((2, 3),)
        assert {ent.kb_id_ for ent in doc.ents} <= set(doc.cats)
    parts = {
        "train": (sets["a"], False),
        "test_seen": (sets["b"], False),
        "test_unseen": (sets["b"], True),
    }
    for name, (pairs, is_unseen) in parts.items():
        chosen = [pair for pair in pairs if (pair[1] in unseen) == is_unseen]
        disjoint = sum(entity == "C1" for _, entity in chosen)
        placed = sum(entity != "D4" for _, entity in chosen)
        assert report[name] == {
            "texts": len({text for text, _ in chosen}),
            "entities": len({entity for _, entity in chosen}),
            "pairs": len(chosen),
            "with_spans": placed,
            "disjoint": disjoint,
            "disjoint_share": disjoint / placed if placed else None,
        }
    assert (report["texts"], report["entities"], report["pairs"]) == (50, 6, len(all_pairs))
    assert {name: tuple(figures.values()) for name, figures in report["bins"].items()} == {
        "high": (2, len(unseen & {"C1", "C2"}), 50, 50),
        "medium": (2, len(unseen & {"D1", "D2"}), 10, 5),
        "low": (2, len(unseen & {"D3", "D4"}), 4, 3),
    }
    assert json.loads((tmp_path / "split" / "report.json").read_text()) == report
    again = text_split([gold], tmp_path / "again", unseen=0.33, test=0.2, min_train=3, seed=1)
    assert again == report
    for name in ("train.spacy", "test.spacy"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "split" / name).read_bytes()


def test_texts_with_the_same_words_are_one_text(tmp_path):
    docs = [
        doc_of("a", "knee pain", ["C1"]),
        doc_of("b", "Knee  pain! ", ["C1", "C2"], [("C2", ((0, 1),))]),
        doc_of("c", "knee pain", ["C1"]),
        doc_of("d", "no label", []),
    ]
    write_doc_bin(docs, tmp_path / "gold.spacy")
    report = text_split(tmp_path / "gold.spacy", tmp_path / "split", unseen=0)
    assert (report["pairs"], report["texts"], report["repeated_pairs"], report["unlabelled"]) == (
        2,
        1,
        2,
        1,
    )
    assert [
        (doc.user_data[ID_KEY], dict(doc.cats)) for doc in read(tmp_path / "split" / "train.spacy")
    ] == [
        ("a", {"C1": 1.0}),
        ("b", {"C2": 1.0}),
    ]
    assert (
        report["test_seen"]["disjoint_share"] is None
        and read(tmp_path / "split" / "test.spacy") == []
    )


def test_training_tokens_do_not_reveal_mentions(tmp_path):
    """`convert` cuts tokens at the edges of mentions."""
    doc = NLP("kneepain here")
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[0], ["knee", "pain"], heads=[(doc[0], 0), (doc[0], 1)])
    write_gold_mentions(
        doc, [DocMention("C1|C2", "X", ((1, 2),)), DocMention("NIL", "X", ((2, 3),))]
    )
    write_doc_bin([doc], tmp_path / "gold.spacy")
    text_split(tmp_path / "gold.spacy", tmp_path / "seen", unseen=0)
    (train,) = read(tmp_path / "seen" / "train.spacy")
    assert [token.text for token in train] == ["kneepain", "here"] and set(train.cats) == {
        "C1",
        "C2",
    }
    report = text_split(tmp_path / "gold.spacy", tmp_path / "unseen", unseen=0.5)
    (train,), (test,) = (read(tmp_path / "unseen" / f"{name}.spacy") for name in ("train", "test"))
    assert report["test_unseen"]["pairs"] == 1 and set(train.cats) | set(test.cats) == {"C1", "C2"}
    # The concept of a composite that is tested, alone.
    assert [(m.kb_id, m.fragments) for m in gold_mentions(test)] == [(*test.cats, ((1, 2),))]
    assert [token.text for token in test] == ["knee", "pain", "here"]


def test_sentences_can_be_the_units(tmp_path):
    doc = doc_of(
        "d",
        "Knee pain. No pain. Knee.",
        [],
        [("C1", ((0, 2),)), ("C2", ((4, 5),)), ("C1", ((6, 7),))],
    )
    write_doc_bin([doc], tmp_path / "gold.spacy")
    report = text_split(tmp_path / "gold.spacy", tmp_path / "split", unit="sentence", unseen=0)
    train = read(tmp_path / "split" / "train.spacy")
    assert [(each.user_data[ID_KEY], each.text.strip(), set(each.cats)) for each in train] == [
        ("d:1", "Knee pain.", {"C1"}),
        ("d:2", "No pain.", {"C2"}),
        ("d:3", "Knee.", {"C1"}),
    ]
    assert report["settings"]["unit"] == "sentence" and report["texts"] == 3


def test_invalid_input_raises(gold, tmp_path):
    for inputs, settings_, code in (
        ([], {}, "K006"),
        (tmp_path / "missing.spacy", {}, "K201"),
        (gold, {"lang": "zz9"}, "K006"),
        (gold, {"unit": "page"}, "K006"),
    ):
        with pytest.raises(KrisselError, match=code):
            text_split(inputs, tmp_path / "split", **settings_)
    write_doc_bin([doc_of("a", "text", ["C1"])], tmp_path / "one.spacy")
    with pytest.raises(KrisselError, match=r"K233.*1 text\(s\) that speak of 1"):
        text_split(tmp_path / "one.spacy", tmp_path / "split")
    assert not (tmp_path / "split").exists()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    with pytest.raises(KrisselError, match="K005"):
        text_split(gold, tmp_path / "taken")

from collections import Counter

import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.examples import linked_mentions
from spacy_krissel.training.data.synonyms import GoldSynonymCorpus

NLP = spacy.blank("en")
# (mention, id) of each document.
GOLD = [
    [("M.S.", "T01"), ("the flu", "T10")],
    [("disseminated Sclerosis", "T01"), ("flu and MS", "T10|T01"), ("nothing", "NIL")],
    [("Soft bones", "T12"), ("m s", "T01"), ("unknown", "X99"), ("unlinked", "")],
]


@pytest.fixture(params=["", "sc"])
def gold(tmp_path, request):
    docs = DocBin(store_user_data=True)
    for i, mentions in enumerate(GOLD):
        words = [text for text, _ in mentions]
        doc = spacy.tokens.Doc(NLP.vocab, words=words)
        spans = [
            Span(doc, j, j + 1, label="Disease", kb_id=id_) for j, (_, id_) in enumerate(mentions)
        ]
        if request.param:
            doc.spans[request.param] = spans
        else:
            doc.ents = spans
        doc.user_data["krissel_id"] = f"doc {i}"
        docs.add(doc)
    docs.to_disk(tmp_path / "gold.spacy")
    return tmp_path / "gold.spacy", request.param


@pytest.fixture
def read(gold, toy_store):
    path, key = gold

    def read(**settings):
        corpus = GoldSynonymCorpus(path, toy_store.path, spans_key=key, **settings)
        found = []
        for example in corpus(NLP):
            (entity, first), (_, second) = linked_mentions(example.reference, key)
            found.append((entity, *sorted((first.mention, second.mention))))
        return found

    return read


@pytest.mark.filterwarnings("ignore:.*KW603")
def test_mentions_are_paired_with_names_of_their_entities(read):
    found = read(split="all")
    by_entity = {
        id_: {tuple(pair[1:]) for pair in found if pair[0] == id_} for id_ in ("T01", "T10", "T12")
    }
    assert sum(map(len, by_entity.values())) == len(found)
    # A mention that spells a name is no pair with itself; two mentions are none.
    names = [
        "ms",
        "multiple sclerosis",
        "insular sclerosis",
        "sclerosis multiplex",
        "disseminated sclerosis",
    ]
    mentions = ("m.s.", "m s", "disseminated sclerosis")
    pairs = {
        tuple(sorted((mention, name))) for mention in mentions for name in names if mention != name
    }
    assert by_entity["T01"] == pairs and ("m s", "m.s.") not in pairs
    assert by_entity["T10"] == {
        tuple(sorted(("the flu", name)))
        for name in ("influenza", "flu", "grippe", "epidemic catarrh")
    }
    assert by_entity["T12"] == {("rickets", "soft bones")}


@pytest.mark.filterwarnings("ignore:.*KW603")
def test_order_is_reproducible_by_seed(read):
    found = read(split="all", seed=3)
    assert found == read(split="all", seed=3) != read(split="all", seed=4)
    assert max(Counter(entity for entity, *_ in found).values()) > 3, "none is left out"


@pytest.mark.filterwarnings("ignore:.*KW603")
def test_only_documents_of_the_split_are_read(gold, toy_store):
    path, key = gold
    with pytest.raises(KrisselError, match="K608"):
        # A share of nearly one leaves no document to train on.
        list(
            GoldSynonymCorpus(path, toy_store.path, "train", dev_share=0.999999, spans_key=key)(NLP)
        )

"""The bundled demo is what README says of it, and its gold set was written apart from its text."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from spacy_krissel.corpora.readers.pubtator import read_pubtator
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.util.folding import fold_name

ASSETS = Path(__file__).parent.parent / "assets"
if not ASSETS.exists():
    pytest.skip("the assets are in the repository, not in the wheel", allow_module_level=True)


def sentences(text):
    return [sentence for sentence in re.split(r"(?<=[.?!]) ", text) if sentence]


@pytest.fixture(scope="module")
def bearers():
    owners = {}
    for entity in read_ontology(ASSETS / "ontology.jsonl"):
        for name in entity.names:
            owners.setdefault(fold_name(name), set()).add(entity.id)
    return owners


@pytest.fixture(scope="module")
def text():
    lines = (ASSETS / "text.jsonl").read_text(encoding="utf8").splitlines()
    return [sentence for line in map(json.loads, lines) for sentence in sentences(line["text"])]


@pytest.fixture(scope="module")
def gold():
    return list(read_pubtator(ASSETS / "gold.pubtator"))


def test_ontology_has_entities_that_share_forms():
    entities = list(read_ontology(ASSETS / "ontology.jsonl"))
    assert len(entities) >= 400
    assert len({entity.id for entity in entities}) == len(entities)
    assert all(entity.types and entity.tree_numbers for entity in entities)
    assert sum(bool(entity.definition) for entity in entities) >= 200
    counts = Counter(
        folded for entity in entities for folded in {fold_name(name) for name in entity.names}
    )
    assert sum(count > 1 for count in counts.values()) >= 60


def test_text_is_large_and_has_no_repeated_sentence(text):
    assert len(text) >= 3000
    assert len(set(text)) == len(text)


def test_gold_mentions_have_the_required_mix(gold, bearers):
    mentions = [mention for document in gold for mention in document.mentions]
    assert len(mentions) >= 400
    kinds = Counter(min(2, len(bearers.get(fold_name(mention.text), ()))) for mention in mentions)
    assert kinds[2] >= 150
    assert 0.3 <= kinds[0] / (kinds[0] + kinds[1]) <= 0.4
    for mention in mentions:
        owners = bearers.get(fold_name(mention.text), {mention.kb_id})
        assert mention.kb_id in owners, mention


def test_gold_and_text_share_no_word_5_gram(gold, text):
    def runs(sentence, n):
        words = re.findall(r"\w+", sentence.lower())
        return {" ".join(words[i : i + n]) for i in range(len(words) - n + 1)}

    seen = set().union(*(runs(sentence, 5) for sentence in text))
    shared = [run for document in gold for run in runs(document.text, 5) if run in seen]
    assert not shared

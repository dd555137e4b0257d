import json

import pytest
import spacy
from lab.few_shot import few_shot, few_shot_table, save_few_shot

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.evaluate import evaluate


@pytest.fixture
def nlp(gold_linker):
    return spacy.load(gold_linker)


@pytest.fixture
def docs(nlp, toy_files):
    return list(read_docs(toy_files / "gold.pubtator", nlp))


def test_each_draw_is_added_and_removed(nlp, docs, toy_store, tmp_path):
    kb = nlp.get_pipe("krissel_linker").kb
    before = kb.description()
    examples, test = docs, [nlp.make_doc(f"{doc.text} Again.") for doc in docs]
    for doc, gold in zip(test, docs, strict=True):
        # Other documents of nearly the same text, so that one example an entity is all that is to
        # be known.
        doc.ents = [
            doc.char_span(e.start_char, e.end_char, label=e.label_, kb_id=e.kb_id_)
            for e in gold.ents
        ]
        doc.user_data["krissel_id"] = "other " + gold.user_data["krissel_id"]
    rows = few_shot(nlp, test, examples, toy_store, shots=(0, 1, "all"), seeds=(0, 1))
    assert kb.description() == before
    assert [(row.shots, len(row.strict)) for row in rows] == [(0, 1), (1, 2), ("all", 1)]
    assert rows[0].strict == [evaluate(nlp, test, toy_store, baselines=False).data["strict"]]
    assert rows[0].prototypes == 0 and rows[1].prototypes == rows[2].prototypes > 0
    assert rows[2].strict[0] == 1.0 > rows[0].strict[0]
    save_few_shot(rows, tmp_path / "metrics", "toy")
    assert json.loads((tmp_path / "metrics" / "toy.json").read_text())["few_shot"][1]["shots"] == 1
    assert (tmp_path / "metrics" / "toy.md").read_text().endswith(few_shot_table(rows) + "\n")


def test_gold_already_in_the_kb_does_not_count(nlp, docs, toy_store):
    kb = nlp.get_pipe("krissel_linker").kb
    plain = few_shot(nlp, docs[5:], docs[:5], toy_store, shots=(0, 1), seeds=(0,))
    add_gold(kb, docs[:5], weight=3.0)
    assert few_shot(nlp, docs[5:], docs[:5], toy_store, shots=(0, 1), seeds=(0,)) == plain
    assert kb.description()["prototype_kinds"]["gold"]


@pytest.mark.parametrize("shots", [(-1,), ("some",), (1.5,)])
def test_invalid_shots_raise(nlp, docs, toy_store, shots):
    with pytest.raises(KrisselError, match="K006.*shots"):
        few_shot(nlp, docs, docs, toy_store, shots=shots)

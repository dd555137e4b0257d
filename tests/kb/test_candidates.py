import numpy as np
import pytest
import spacy
from spacy.kb import Candidate
from spacy.tokens import Span

from spacy_krissel.errors import KrisselError


def encode(views):
    """The axis of the disease when "relapsing" stands to the left, else that of the method."""
    return np.array(
        [[1, 0, 0, 0] if "elapsing" in view.left else [0, 1, 0, 0] for view in views],
        dtype=np.float32,
    )


@pytest.fixture
def nlp():
    return spacy.blank("en")


def mentions(doc):
    return [Span(doc, token.i, token.i + 1, label="DISEASE") for token in doc if token.text == "MS"]


def test_candidates_are_ranked_by_context(make_kb, nlp):
    kb = make_kb(vocab=nlp.vocab, n_candidates=2)
    kb.attach_encoder(encode)
    spans = mentions(nlp("MS found it. Relapsing MS is treated."))
    batch = kb.get_candidates_batch(spans)
    assert [[candidate.entity_ for candidate in candidates] for candidates in batch] == [
        ["D002", "D001"],
        ["D001", "D002"],
    ]
    best = batch[1][0]
    assert isinstance(best, Candidate)
    assert best.alias_ == "MS" and best.entity == nlp.vocab.strings["D001"]
    assert best.entity_freq == 2
    np.testing.assert_allclose(best.entity_vector, kb.get_vector("D001"))
    assert best.prior_prob > batch[1][1].prior_prob
    assert sum(candidate.prior_prob for candidate in batch[1]) == pytest.approx(1)
    assert [candidate.entity_ for candidate in kb.get_candidates(spans[1])] == ["D001", "D002"]
    assert kb.get_candidates_batch(iter(spans[:1]))[0][0].entity_ == "D002"
    assert kb.get_candidates_batch([]) == []


def test_candidates_require_an_encoder(make_kb, nlp):
    kb = make_kb(vocab=nlp.vocab)
    with pytest.raises(KrisselError, match="K521.*attach_encoder"):
        kb.get_candidates(mentions(nlp("MS"))[0])


def test_spacys_entity_linker_uses_the_candidates(make_kb, nlp):
    kb = make_kb(vocab=nlp.vocab)
    kb.attach_encoder(encode)
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "DISEASE", "pattern": "MS"}])
    linker = nlp.add_pipe(
        "entity_linker", config={"incl_context": False, "candidates_batch_size": 2}
    )
    linker.set_kb(lambda vocab: kb)
    doc = nlp("MS found it. Relapsing MS is treated.")
    assert [ent.kb_id_ for ent in doc.ents] == ["D002", "D001"]


def test_candidates_outlive_a_memory_zone(make_kb, nlp, tmp_path):
    make_kb().to_disk(tmp_path / "kb")
    kb = make_kb(vocab=nlp.vocab)
    with nlp.memory_zone():
        kb.from_disk(tmp_path / "kb")
        kb.attach_encoder(encode)
        candidate = kb.get_candidates(mentions(nlp("Relapsing MS"))[0])[0]
        assert candidate.entity_ == "D001"
    assert candidate.entity_ == "D001"
    assert "D004" in nlp.vocab.strings
    with nlp.memory_zone():
        assert kb.get_candidates(mentions(nlp("Relapsing MS"))[0])[0].entity_ == "D001"

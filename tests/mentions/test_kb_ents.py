import spacy
from spacy.tokens import Span

from spacy_krissel.mentions.annotations import kb_ents, register_extensions


def test_kb_ents_have_scispacys_form():
    doc = spacy.blank("en")("MS relapsed")
    span = doc[:1]
    assert span._.kb_ents == []
    span._.krissel_candidates = [
        {"id": "D1", "name": "one", "score": 0.9},
        {"id": "D2", "name": "two", "score": 0.5},
    ]
    assert span._.kb_ents == [("D1", 0.9), ("D2", 0.5)]


def test_kb_ents_of_another_package_are_kept():
    Span.set_extension("kb_ents", default=["theirs"], force=True)
    try:
        register_extensions()
        assert spacy.blank("en")("MS")[:1]._.kb_ents == ["theirs"]
    finally:
        Span.set_extension("kb_ents", getter=kb_ents, force=True)

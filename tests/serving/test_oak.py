"""The adapter of the Ontology Access Kit."""

import pytest

pytest.importorskip("oaklib")

from oaklib import get_adapter
from oaklib.datamodels.text_annotator import TextAnnotationConfiguration
from oaklib.interfaces import TextAnnotatorInterface
from oaklib.resource import OntologyResource

from spacy_krissel.errors import KrisselError
from spacy_krissel.serving.oak import KrisselImplementation


def test_annotations_equal_the_links(saved, nlp):
    text = "She has multiple sclerosis, no cold"
    adapter = get_adapter(f"krissel:{saved}")
    assert isinstance(adapter, TextAnnotatorInterface)
    found = list(adapter.annotate_text(text))
    ents = nlp(text).ents
    assert len(ents) == 2 and [each.object_id for each in found] == [ent.kb_id_ for ent in ents]
    for each, ent in zip(found, ents, strict=True):
        best = next(other for other in ent._.krissel_candidates if other["id"] == ent.kb_id_)
        assert (
            text[each.subject_start - 1 : each.subject_end]
            == each.match_string
            == each.subject_label
            == ent.text
        )
        assert (each.object_label, each.object_categories, each.matches_whole_text) == (
            best["name"],
            ["X"],
            False,
        )
        assert each.info == f"score={best['score']};match={best['match']}"
        assert each.confidence == (
            pytest.approx(best["confidence"]) if "confidence" in best else None
        )


def test_settings_of_oak_apply(nlp):
    adapter = KrisselImplementation(OntologyResource(), nlp=nlp)
    (whole,) = adapter.annotate_text(
        "common cold", TextAnnotationConfiguration(matches_whole_text=True)
    )
    assert (whole.object_id, whole.subject_start, whole.subject_end, whole.matches_whole_text) == (
        "D2",
        1,
        11,
        True,
    )
    left = adapter.annotate_text(
        "a cold and MS", TextAnnotationConfiguration(token_exclusion_list=["cold"])
    )
    assert [each.match_string for each in left] == ["MS"]
    for text in ("", " "):
        assert (
            list(adapter.annotate_text(text, TextAnnotationConfiguration(matches_whole_text=True)))
            == []
        )
    assert nlp.pipe_names == list(nlp.component_names)


def test_missing_pipeline_raises():
    with pytest.raises(KrisselError, match="K611"):
        KrisselImplementation(OntologyResource(slug="missing"))

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.losses.multi_similarity import MultiSimilarity
from spacy_krissel.training.data.examples import view_examples
from spacy_krissel.training.data.synonyms import synonym_pair
from spacy_krissel.training.objectives.sapbert import SelfAlignmentObjective
from spacy_krissel.views import name_view

PAIRS = [
    synonym_pair("T1", "ms", "multiple sclerosis"),
    synonym_pair("T2", "cold", "acute coryza"),
    synonym_pair("T1", "disseminated sclerosis", "ms"),
    synonym_pair("T3", "lung injury", "injury of the lung"),
]


@pytest.fixture
def examples():
    return list(view_examples(PAIRS))


def labels_given(objective, examples, model):
    seen = []

    def label_loss(vectors, labels):
        seen.append((vectors, labels))
        return vectors * 0, 0.0

    objective.label_loss = label_loss
    objective.update(model, examples)
    return seen[0]


def test_names_are_labelled_by_entity(examples, small_encoder):
    views, entities = SelfAlignmentObjective(None).labelled_names(examples)
    # Without the pair's other name as context, and "ms" once.
    names = [
        "ms",
        "multiple sclerosis",
        "cold",
        "acute coryza",
        "disseminated sclerosis",
        "lung injury",
    ]
    assert views == [name_view(name) for name in [*names, "injury of the lung"]]
    assert entities == ["T1", "T1", "T2", "T2", "T1", "T3", "T3"]
    vectors, labels = labels_given(SelfAlignmentObjective(None), examples, small_encoder.copy())
    assert_array_equal(labels, [0, 0, 1, 1, 0, 2, 2])
    assert_allclose(vectors, small_encoder.predict(views), rtol=1e-5)


def test_a_name_of_two_entities_counts_for_the_first(small_encoder):
    pairs = [
        *PAIRS[:2],
        synonym_pair("T4", "ms", "mitral stenosis"),
        synonym_pair("T4", "stenosis", "mitral stenosis"),
    ]
    views, entities = SelfAlignmentObjective(None).labelled_names(list(view_examples(pairs)))
    assert [view.mention for view in views].count("ms") == 1
    assert dict(zip((view.mention for view in views), entities, strict=True))["ms"] == "T1"


def test_mentions_of_documents_are_names_too(make_example):
    examples = [
        make_example("T1", "relapses of ", "MS", " were seen"),
        make_example("T1", "a case of ", "sclerosis"),
    ]
    views, entities = SelfAlignmentObjective(None).labelled_names(examples)
    assert views == [name_view("MS"), name_view("sclerosis")] and entities == ["T1", "T1"]


def test_names_can_come_from_a_span_group():
    examples = list(view_examples(PAIRS, "sc"))
    assert SelfAlignmentObjective(None).labelled_names(examples) == ([], [])
    assert len(SelfAlignmentObjective(None).labelled_names(examples, "sc")[0]) == 7


@pytest.mark.parametrize("chunk_size", [0, 2])
@pytest.mark.parametrize("miner", [None, HardPairMiner()])
def test_update_accumulates_the_gradient_of_the_loss(
    examples, small_encoder, take_step, chunk_size, miner
):
    objective = SelfAlignmentObjective(MultiSimilarity(), miner, chunk_size)
    objective.initialize(None)
    views, _ = objective.labelled_names(examples)
    losses = []
    before, after = take_step(
        small_encoder, lambda model: losses.append(objective.update(model, examples))
    )
    gradient, expected_loss = objective.label_loss(
        small_encoder.predict(views), np.array([0, 0, 1, 1, 0, 2, 2])
    )
    assert losses == [pytest.approx(expected_loss, rel=1e-4)] and expected_loss > 0
    _, expected = take_step(small_encoder, lambda model: model.begin_update(views)[1](gradient))
    for name in before:
        assert_allclose(
            after[name],
            expected[name],
            atol=2e-4 * np.abs(expected[name] - before[name]).max() + 1e-7,
        )
    assert any((before[name] != after[name]).any() for name in before)


def test_training_separates_synonyms_from_other_names(examples, small_encoder):
    from thinc.api import Adam

    objective = SelfAlignmentObjective(MultiSimilarity(), HardPairMiner())
    model, optimizer = small_encoder.copy(), Adam(0.01, use_averages=False)
    views, entities = objective.labelled_names(examples)

    def margin():
        vectors = model.predict(views)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = vectors @ vectors.T
        same = np.array(entities)[:, None] == np.array(entities)[None]
        return cosines[same & ~np.eye(len(views), dtype=bool)].min() - cosines[~same].max()

    before = margin()
    for _ in range(60):
        objective.update(model, examples)
        model.finish_update(optimizer)
        optimizer.step_schedules()
    assert before < 0 < margin()


def test_batch_without_synonyms_is_skipped_with_a_warning(make_example, small_encoder):
    objective = SelfAlignmentObjective(MultiSimilarity())
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 .*two names"):
        assert (
            objective.update(
                small_encoder, [make_example("T1"), make_example("T2", mention="other")]
            )
            == 0
        )
    assert objective.update(small_encoder, []) == 0


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*chunk_size"):
        SelfAlignmentObjective(MultiSimilarity(), chunk_size=-1)


def test_negatives_are_names_of_other_entities(examples, small_encoder, toy_store, toy_names):
    """An entity is drawn first, and a name of it then; none is an entity or a name of the batch."""
    objective = SelfAlignmentObjective(None, n_negatives=50, seed=1)
    objective.initialize(toy_store)
    drawn = set()
    for _ in range(20):
        vectors, labels = labels_given(objective, examples, small_encoder.copy())
        # Less those entities whose name was drawn that is one of the batch.
        n_others = len(set(labels)) - 3
        assert len(toy_names) - 3 <= n_others <= len(toy_names) and len(vectors) == 7 + n_others
        drawn.update(name for _, name in objective._negatives({"cold"}, {"T01", "T02", "T03"}))
    others = {
        name
        for id_, names in toy_names.items()
        if id_ not in ("T01", "T02", "T03")
        for name in names
    }
    assert drawn == others - {"cold"}


def test_negatives_need_an_ontology(examples, small_encoder):
    objective = SelfAlignmentObjective(MultiSimilarity(), n_negatives=3)
    with pytest.raises(KrisselError, match="K639.*n_negatives"):
        objective.update(small_encoder.copy(), examples)
    with pytest.raises(KrisselError, match="n_negatives"):
        SelfAlignmentObjective(None, n_negatives=-1)

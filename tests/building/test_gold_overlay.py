"""Gold mentions over a knowledge base: as if they were part of it, and gone without a trace."""

import numpy as np
import pytest
import term_search
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.vocab import Vocab
from term_search import search

from spacy_krissel.building import gold_overlay
from spacy_krissel.building.gold_overlay import GoldMention, GoldOverlay, with_overlay
from spacy_krissel.building.gold_prototypes import add_gold_prototypes
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.views import View, name_view

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS",)),
    Entity("D2", "mitral stenosis", ("MS",)),
    Entity("D3", "Morbus Çelik"),
    Entity("D4", "WAS"),
    Entity("D5", "cold"),
]
IDS = [entity.id for entity in ENTITIES]
WIDTH = 8
QUERIES = [
    "MS",
    "multiple sclerosis",
    "was",
    "morbus celik",
    "Morbus Çelik",
    "frostbite",
    "colds",
    "日本",
]


def encode(views):
    """A vector for each view, near that of its mention."""

    def vector(text):
        return np.random.default_rng(stable_hash(text)).standard_normal(WIDTH)

    rows = [vector(view.mention) + 0.3 * vector(view.left + "|" + view.right) for view in views]
    return np.array(rows, dtype=np.float32)


def make_kb(index=None, references=False, gold=False, **given):
    kb = PrototypeKB(Vocab(), WIDTH, index=index, **given)
    kb.set_entities(ENTITIES)
    names = [
        Prototype(entity.id, "name", name_view(name))
        for entity in ENTITIES
        for name in entity.names
    ]
    kb.add_prototypes(names, encode([name.view for name in names]))
    if references:
        kb.set_references([(IDS[:3], encode([name_view(f"about {id_}") for id_ in IDS[:3]]))])
    if gold:
        add_gold_prototypes(
            kb,
            [prototype for each in (MENTIONS[0], MENTIONS[9]) for prototype in prototypes(each)],
            encode=encode,
        )
    return kb


def mention(number, text, left, *rows, doc=""):
    return GoldMention(
        rows,
        View(left, text, " here" * bool(left)),
        Origin("said", doc, number, number + 1, f"h{number}"),
    )


MENTIONS = [
    mention(0, "MS", "she had ", 0, doc="a"),
    mention(1, "MS", "he had ", 0, doc="b"),
    mention(2, "MS", "it had ", 1),
    mention(3, "MS", ""),
    mention(4, "was", "that ", 3),
    mention(5, "WAS", "syndrome ", 3),
    mention(6, "Frostbite", "a ", 4),
    mention(7, "frostbite", "", 4),
    mention(8, "morbus Celik", "with ", 2, 4),
    mention(9, "morbus Çelik", "with ", 2),
    mention(10, "日本", "の", 1),
    mention(11, "...", "a ", 1),
    mention(12, "cold", "a ", 2),
    mention(13, "cold", "no ", 2),
]


def prototypes(mention_):
    return [
        Prototype(IDS[row], "gold", view, mention_.origin)
        for row in mention_.entities
        for view in mention_.views
    ]


def found(kb, **weights):
    """All that a search says, of names and of contexts."""
    views = [name_view(text) for text in QUERIES] + [View("she had ", "MS", " here")]
    texts = [view.mention for view in views]
    result = search(
        kb, encode(views), 5, texts=texts, names=encode([*map(name_view, texts)]), **weights
    )
    about = [kb.prototypes.display_fields(row[row >= 0]) for row in result.prototypes]
    return [
        result.entities.tolist(),
        [part.tolist() for part in (result.scores, *result.parts.values())],
        about,
        result.ties,
    ]


ALL = {"lexical_weight": 0.3, "spelling_weight": 0.1, "name_weight": 0.5, "gold_prior": 0.05}
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "hide", "show", "remove"]), st.integers(0, len(MENTIONS) - 1))
)


def as_told(kb, steps):
    """The overlay after these steps, and what is shown and hidden in the end, in order."""
    corrected, overlay = with_overlay(kb)
    shown = {}
    for do, number in steps:
        if do == "add" and number not in shown:
            overlay.add([(number, MENTIONS[number])], encode)
            overlay.show([number])
            shown[number] = True
        elif number in shown:
            getattr(overlay, do if do != "add" else "show")([number])
            if do == "remove":
                del shown[number]
            else:
                shown[number] = do != "hide"
    return corrected, overlay, shown


KBS = {
    "exact": make_kb(),
    "normalized": make_kb(normalize=True, dtype="float16"),
    "references": make_kb(references=True),
    "hnsw": make_kb(make_faiss_index("hnsw")),
    "gold": make_kb(gold=True),
}


@pytest.mark.parametrize("name", KBS)
@pytest.mark.parametrize("weights", [{}, ALL])
@settings(deadline=None, max_examples=12)
@given(steps=STEPS)
def test_removed_mentions_leave_no_trace(name, weights, steps):
    corrected, overlay, shown = as_told(KBS[name], steps)
    fresh, other = with_overlay(KBS[name])
    other.add([(number, MENTIONS[number]) for number in shown], encode)
    other.show(number for number, is_shown in shown.items() if is_shown)
    assert found(corrected, **weights) == found(fresh, **weights)
    assert overlay.n_shown == other.n_shown
    overlay.remove([*shown])
    assert found(corrected, **weights) == found(with_overlay(KBS[name])[0], **weights)


@settings(deadline=None, max_examples=12)
@given(steps=STEPS)
def test_rows_of_removed_mentions_are_compacted(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold_overlay, "MIN_REMOVED_ROWS", 1)
        corrected, overlay, _ = as_told(KBS["exact"], steps)
    as_before, other, _ = as_told(KBS["exact"], steps)
    assert found(corrected, **ALL) == found(as_before, **ALL)
    assert len(overlay.unweighted) <= len(other.unweighted)


@pytest.mark.parametrize("name", ["exact", "normalized", "references", "gold"])
@settings(deadline=None, max_examples=12)
@given(numbers=st.lists(st.integers(0, len(MENTIONS) - 1), unique=True))
def test_an_overlay_mention_counts_like_a_gold_prototype(name, numbers):
    """By vectors alone as in a knowledge base of which the mentions are part."""
    settings_ = {"normalized": {"normalize": True, "dtype": "float16"}}.get(name, {})
    part = make_kb(references=name == "references", gold=name == "gold", **settings_)
    add_gold_prototypes(
        part, [each for n in numbers for each in prototypes(MENTIONS[n])], encode=encode
    )
    corrected, overlay = with_overlay(KBS[name])
    overlay.add([(n, MENTIONS[n]) for n in numbers], encode)
    overlay.show(numbers)
    for weights in ({}, {"name_weight": 0.5, "gold_prior": 0.05}, {"spelling_weight": 0.1}):
        ours, theirs = found(corrected, **weights), found(part, **weights)
        for mine, other in zip(ours[1], theirs[1], strict=True):
            np.testing.assert_allclose(mine, other, atol=2e-3 if name == "normalized" else 1e-5)
        if name != "normalized":
            assert ours[0] == theirs[0]


def test_added_names_count_in_the_similarity():
    corrected, overlay = with_overlay(KBS["exact"])

    def similarity(text, id_):
        return term_search.similarity(corrected, text, IDS.index(id_))

    assert similarity("frostbite", "D5") < 0.2 and similarity("was", "D4") == pytest.approx(0.9)
    overlay.add([(n, each) for n, each in enumerate(MENTIONS)], encode)
    overlay.show([6, 10])
    assert similarity("frostbite", "D5") == 1 and 0.8 < similarity("frostbites", "D5") < 0.9998
    # N-grams that the base does not have, too.
    assert similarity("日本", "D2") == 1 and similarity("日本語", "D2") > 0.3
    assert next(each.id for each in corrected.find("Frostbite", 3)) == "D5"
    # What is written in small letters is no acronym.
    overlay.show([4])
    assert similarity("was", "D4") == 1
    overlay.hide([4, 6])
    assert similarity("frostbite", "D5") < 0.2 and similarity("was", "D4") == pytest.approx(0.9)


def test_vectors_of_wrong_width_or_nan_raise_and_add_nothing():
    _, overlay = with_overlay(KBS["exact"])
    with pytest.raises(KrisselError, match="K503"):
        overlay.add([(0, MENTIONS[0])], lambda views: np.ones((len(views), WIDTH + 1), np.float32))
    with pytest.raises(KrisselError, match="K504"):
        overlay.add(
            [(0, MENTIONS[0])], lambda views: np.full((len(views), WIDTH), np.nan, np.float32)
        )
    assert len(overlay) == 0 and isinstance(overlay, GoldOverlay)


def test_only_allowed_entities_are_found():
    corrected, overlay = with_overlay(KBS["exact"])
    overlay.add([(n, each) for n, each in enumerate(MENTIONS)], encode)
    overlay.show(range(len(MENTIONS)))
    overlay.hide([6])
    allowed = np.array([False, True, False, True, False])
    for weights in ({}, ALL):
        result = search(
            corrected,
            encode([name_view(each) for each in QUERIES]),
            5,
            texts=QUERIES,
            allowed=allowed,
            **weights,
        )
        assert (
            set(result.entities.ravel().tolist()) <= {-1, 1, 3}
            and (result.entities[:, 0] >= 0).all()
        )

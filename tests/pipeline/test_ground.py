"""Ids of names in bulk are those that the pipeline gives to mentions."""

import re

import pytest
import spacy
from built_linker import ENTITIES
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel import ground
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.pipeline import ground as module
from spacy_krissel.pipeline.ground import NameIn, in_context, linked_in_docs
from spacy_krissel.pipeline.pipeline_io import find_linker

NAMES = [name for entity in ENTITIES for name in entity.names]


@pytest.fixture(scope="module")
def nlp(built_linker):
    return spacy.load(built_linker)


def linked(nlp, names, contexts=None):
    """The same in docs, without look-ups."""
    found = [module.NOTHING] * len(names)
    texts = {
        row: NameIn(text, start, start + len(name.strip()))
        for row, (name, context) in enumerate(
            zip(names, contexts or [""] * len(names), strict=True)
        )
        for text, start in [in_context(name, context)]
        if name.strip()
    }
    of_names = linked_in_docs(nlp, find_linker(nlp), [*texts.values()])
    for row, each in zip(texts, of_names, strict=True):
        found[row] = each
    return found


def agree(found, expected):
    return all(
        (a.id, a.name, a.match) == (b.id, b.name, b.match)
        and a.confidence == pytest.approx(b.confidence, abs=1e-6)
        for a, b in zip(found, expected, strict=True)
    )


def test_each_name_gets_its_entity_in_its_order(nlp):
    asked = ["cold", "Common colds", "disseminated sclerosis", "cold", " ", "", "qwxzv"]
    found = ground(nlp, asked)
    assert [each.id for each in found] == ["D3", "D3", "D1", "D3", "NIL", "NIL", found[6].id]
    assert [(each.name, each.match) for each in found[:3:2]] == [
        ("common cold", "synonym"),
        ("multiple sclerosis", "synonym"),
    ]
    assert found[0].confidence > 0.9 and found[4] == ("NIL", "", None, "")
    assert ground(nlp, []) == [] == ground(nlp, [], [])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, *map(str.upper, NAMES), *map(str.lower, NAMES)])
            | st.text(max_size=30).filter(lambda text: text.isprintable()),
            st.sampled_from(
                ["", "She had {}.", "Mitral stenosis (MS) was found.", "{} and {} ({})"]
            ),
        ),
        max_size=8,
    )
)
@settings(max_examples=30, deadline=None)
def test_looked_up_names_are_linked_alike(nlp, pairs):
    """A look-up that another name, a spelling or the context would change is found here."""
    names = [name for name, _ in pairs]
    contexts = [context.replace("{}", name) for name, context in pairs]
    assert agree(ground(nlp, names, contexts), linked(nlp, names, contexts))


def test_context_decides_between_meanings(nlp):
    text = "Mitral stenosis (MS) was seen in all patients. MS was treated."
    assert [each.id for each in ground(nlp, ["MS"], [text])] == ["D2"]
    # Looked up although it stands in a text: no context changes that.
    assert ground(nlp, ["cold injury"], ["A cold injury of the hand"])[0].id == "D4"


def test_most_listed_names_are_looked_up(nlp):
    """Otherwise a bulk of names takes thirty times as long."""
    unique = module._UniqueNames(nlp, find_linker(nlp))
    names = ["common cold", "cold injury", "interleukin two", "mitral valve stenosis", "MS", "IL-2"]
    found = unique([(name, "") for name in names])
    assert [each and each.id for each in found] == ["D3", "D4", "G2", "D2", None, None]


@pytest.mark.parametrize(
    "changed",
    [
        {"types": ["Method"]},
        {"types_by_label": {"MENTION": ["Method"]}},
        {"threshold": 1.4},
        {"min_confidence": 0.99},
        {"nil_share_by_label": {"MENTION": 0.9}},
        {"confidence": {}, "min_confidence": 0.0},
        {"spans_key": "sc"},
        {"lexical_weight": 0.0},
    ],
)
def test_settings_count_for_names_too(built_linker, changed):
    nlp = spacy.load(built_linker)
    find_linker(nlp).configure(**changed)
    assert agree(ground(nlp, NAMES), linked(nlp, NAMES))


def test_corrections_and_gold_mentions_count(built_linker):
    nlp = spacy.load(built_linker)
    kb = find_linker(nlp).kb
    doc = nlp.make_doc("cold")
    doc.ents = [doc.char_span(0, 4, "X", kb_id="D4")]
    kb.add_corrections(doc, source="test")
    assert [each.id for each in ground(nlp, ["common cold", "cold"])] == ["D3", "D4"]
    assert agree(ground(nlp, NAMES), linked(nlp, NAMES))
    kb.remove_verdicts(source="test")
    assert ground(nlp, ["cold"])[0].id == "D3"


def test_disabled_linker_is_used(built_linker):
    nlp = spacy.load(built_linker, disable=["krissel_linker"])
    assert ground(nlp, ["coldd injuries"])[0].id == "D4"


def test_wrong_arguments_raise(nlp):
    with pytest.raises(KrisselError, match="K006.*contexts.*2 texts.*one for each of 1"):
        ground(nlp, ["cold"], ["a", "b"])
    with pytest.raises(KrisselError, match="K610"):
        ground(nlp, ["cold"], linker="other")
    with pytest.raises(KrisselError, match="K006.*batch_size"):
        ground(nlp, ["cold"], batch_size=0)


def test_too_long_context_is_counted(built_linker):
    nlp = spacy.load(built_linker)
    nlp.max_length = 50
    with pytest.warns(KrisselWarning, match="KW620"):
        found = ground(nlp, ["MS", "coldd injury"], ["x " * 50, ""])
    assert [each.id for each in found] == ["NIL", "D4"]


@given(st.text(max_size=12), st.text(max_size=40))
def test_name_stands_in_its_text(name, context):
    text, start = in_context(name, context)
    wanted = name.strip()
    assert text[start : start + len(wanted)].lower() == wanted.lower() or text == context
    assert in_context("cold", "A Colds, COLD.") == ("A Colds, COLD.", 9)


WORDS = st.text("aBk_ -é1K", max_size=4)


@settings(max_examples=300, deadline=None)
@given(name=WORDS, context=st.text("aAbBk_ -é1K", max_size=8))
def test_occurrence_of_a_name_is_that_of_the_pattern(name, context):
    """Also of a letter that is another one in lower case."""
    name = name.strip()
    pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
    match = re.search(pattern, context, re.IGNORECASE)
    expected = (context, match.start()) if match else None
    assert in_context(name, context) == (
        expected or (f"{name}\n{context}" if context.strip() else name, 0)
    )

"""Ids of names in bulk are those that the pipeline gives to mentions."""

import re

import pytest
import spacy
from built_linker import ENTITIES
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.tokens.underscore import Underscore

from spacy_krissel import ground
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.pipeline import ground as module
from spacy_krissel.pipeline.ground import NameIn, in_context, linked_in_docs
from spacy_krissel.pipeline.linker.terms.term import Term
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


MISSPELT = st.builds(
    lambda name, at, letter: name[: at % len(name)] + letter + name[at % len(name) + 1 :],
    st.sampled_from(NAMES),
    st.integers(0, 30),
    st.sampled_from(["", "e", "mm", "-", "(", "ß"]),
)
WILD = st.sampled_from(
    [
        *("", " \t\n", "\u2028", "\x1f", "x" * 3000, "mitral " * 500, "\u202ecold", "a\x00b"),
        *("疾患", "Болезнь", "مرض", "\u200b", "ﬁbrosis", "e\u0301"),
        *("MS (mitral stenosis)", "cold.", "(MS)"),
    ]
)
CONTEXTS = ["", "\n", "She had {}.", "Mitral stenosis (MS) was seen.", "{} and {} ({})", "（MS）{}"]


@given(
    st.lists(
        st.tuples(
            MISSPELT | WILD | st.text(max_size=30), st.sampled_from(CONTEXTS) | st.text(max_size=20)
        ),
        max_size=12,
    ),
    st.integers(1, 5),
)
@settings(max_examples=25, deadline=None)
def test_names_are_linked_without_docs_as_in_docs(nlp, pairs, batch_size):
    names = [name for name, _ in pairs]
    contexts = [context.replace("{}", name) for name, context in pairs]
    link, expected = module._Linked(nlp, find_linker(nlp)), linked(nlp, names, contexts)
    assert link._bare.is_possible
    assert agree(link([*zip(names, contexts, strict=True)]), expected)
    assert agree(ground(nlp, names, contexts, batch_size=batch_size), expected)


@pytest.mark.parametrize(
    "changed",
    [
        {"context": "none"},
        {"use_abbreviations": False},
        {"n_candidates": 1},
        {"coherence_weight": 0.0},
        {"spelling_weight": 0.0},
        {"types_by_label": {"MENTION": ["Disease"]}},
        {"nil_share_by_label": {"Disease": 0.9}},
        {"confidence": {}, "min_confidence": 0.0, "threshold": 0.9},
        {"lexical_weight": 0.0, "spelling_weight": 0.0, "coherence_weight": 0.0},
    ],
)
def test_settings_count_without_docs(built_linker, changed):
    nlp = spacy.load(built_linker)
    find_linker(nlp).configure(**changed)
    link = module._Linked(nlp, find_linker(nlp))
    assert link._bare.is_possible
    names = [*NAMES, *(name[1:] for name in NAMES), *(name[:-1] for name in NAMES)]
    contexts = ["Mitral stenosis (MS)", "", "multiple sclerosis"] * len(NAMES)
    assert agree(link([*zip(names, contexts, strict=True)]), linked(nlp, names, contexts))


def test_names_are_linked_in_docs_where_these_count(built_linker, monkeypatch):
    nlp = spacy.load(built_linker)
    pipe = find_linker(nlp)

    def is_bare():
        return module._Linked(nlp, pipe)._bare.is_possible

    nlp.add_pipe("entity_ruler", first=True)
    assert is_bare(), "it only sets mentions"
    nlp.add_pipe("sentencizer")
    assert not is_bare()
    assert agree(ground(nlp, NAMES[:4]), linked(nlp, NAMES[:4]))
    nlp.remove_pipe("sentencizer")
    for changed in ({"context": "sentence"}, {"nil_share_by_label": {"MENTION": 0.5}}):
        before = {name: pipe.cfg[name] for name in changed}
        pipe.configure(**changed)
        assert not is_bare()
        pipe.configure(**before)
    pipe.terms["own"] = Term()
    assert not is_bare()
    pipe.terms.clear()
    for extension, expected in (
        (([], None, None, None), True),
        ((None, None, lambda doc: [{"short_text": "a", "long_text": "b"}], None), False),
    ):
        monkeypatch.setitem(Underscore.doc_extensions, "abbreviations", extension)
        assert is_bare() == expected
    monkeypatch.delitem(Underscore.doc_extensions, "abbreviations")
    tokenizer, nlp.tokenizer = nlp.tokenizer, lambda text: Doc(nlp.vocab, [text])
    assert not is_bare()
    nlp.tokenizer = tokenizer
    assert is_bare()
    nlp.set_error_handler(lambda *_: None)
    assert not is_bare()


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

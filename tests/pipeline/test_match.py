"""Match of candidates: how their names were found in the mentions."""

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.kb.candidates import matched_name
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.kb.search_result import MATCHES
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.lexical.ngrams import Forms, canonical_form
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pipeline.linker.component import built_in_terms
from spacy_krissel.pipeline.linker.linking import search_candidates
from spacy_krissel.pipeline.linker.match import MIN_SIMILAR, match_codes
from spacy_krissel.pipeline.linker.query import Query
from spacy_krissel.pipeline.settings import LinkerSettings
from spacy_krissel.util.folding import is_capital_symbol, spelling
from spacy_krissel.views import name_view

NAMES = [
    "multiple sclerosis",
    "Multiple Sclerosis",
    "sclerosis multiple",
    "MS",
    "ms",
    "M-S",
    "IL-2",
    "IL2",
    "interleukin 2",
    "Sjögren",
    "Sjogren",
    "WAS",
    "was",
    "cold",
    "colds",
]
ROWS = 4
TEXTS = st.sampled_from([*NAMES, "frostbite", ""])
PAIRS = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.sampled_from(NAMES)), min_size=1, max_size=10
)


def make_kb(labels, named, gold, guesses):
    kb = PrototypeKB(Vocab(), 2)
    kb.set_entities([Entity(f"E{row}", label) for row, label in enumerate(labels)])
    kinds = [(row, name, "name") for row, name in [*enumerate(labels), *named]]
    kinds += [(row, name, "gold") for row, name in gold]
    kinds += [(row, name, "class") for row, name in guesses]
    prototypes = [Prototype(f"E{row}", kind, name_view(name)) for row, name, kind in kinds]
    vectors = np.ones((len(kinds), 2), dtype=np.float32)
    kb.add_prototypes(prototypes, vectors)
    return kb, kinds


def restated(text, written, row, labels, kinds, spelling_weight):
    """The match by comparing strings, name by name."""
    by_text = of_text(text, row, labels, kinds, spelling_weight, is_written=False)
    if text == written:
        return by_text
    by_mention = of_text(written, row, labels, kinds, spelling_weight, is_written=True)
    if by_text != "context":
        by_text = "abbreviation"
    found = max(by_text, by_mention, key=MATCHES.index)
    # The mention as written is searched by its spelling only where nobody has that of the text.
    if found == "context" and spelling_weight and not spelt(text, kinds):
        return "spelling" if row in spelt(written, kinds) else found
    return found


def of_text(text, row, labels, kinds, spelling_weight, *, is_written):
    names = [(name, kind) for owner, name, kind in kinds if owner == row and kind != "class"]
    form = canonical_form(text)
    same = [(name, kind) for name, kind in names if canonical_form(name) == form]
    of_form = [name for _, name, _ in kinds if canonical_form(name) == form]
    is_word = text.islower() or text[1:].islower()
    is_acronym = bool(of_form) and all(name.isupper() and name.isalpha() for name in of_form)
    (own,) = Forms.of([text]).written
    ways = {own_form for name in of_form for own_form in Forms.of([name]).written}
    if same and not (is_word and is_acronym):
        own_ways = {own_form for name, _ in same for own_form in Forms.of([name]).written}
        if len(ways) > 1 and own not in own_ways:
            return "spelling"
        if canonical_form(labels[row]) == form:
            return "label"
        return "synonym" if any(kind != "gold" for _, kind in same) else "mention"
    if same:
        return "spelling"
    if is_written:
        return "context"
    if spelling_weight and row in spelt(text, kinds):
        return "spelling"
    index = LexicalIndex.of(
        [name for _, name, _ in kinds],
        np.array([owner for owner, _, _ in kinds]),
        np.array([kind != "class" for _, _, kind in kinds]),
    )
    one = np.zeros(1, dtype=np.int64)
    similar = index.similarity(index.read([text]), one, one + row)[0]
    return "similar" if similar >= MIN_SIMILAR else "context"


def spelt(text, kinds):
    """Entities with a name of the text's spelling; capitals are no word in lower case."""
    is_word = text.islower() or text[1:].islower()
    return {
        row
        for row, name, kind in kinds
        if kind != "class"
        and spelling(name) == spelling(text)
        # A form counts as a symbol only if all its names are.
        and not (
            is_word
            and all(
                is_capital_symbol(other)
                for _, other, _ in kinds
                if canonical_form(other) == canonical_form(name)
                and spelling(other) == spelling(name)
            )
        )
    }


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(NAMES), min_size=ROWS, max_size=ROWS),
    PAIRS,
    st.just([]) | PAIRS,
    st.just([]) | PAIRS,
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, "frostbite", ""]), st.sampled_from(NAMES), st.booleans()
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([0.0, 0.2]),
)
def test_match_equals_its_restatement(labels, named, gold, guesses, mentions, spelling_weight):
    kb, kinds = make_kb(labels, named, gold, guesses)
    kb = kb.snapshot()
    texts = [text for text, _, _ in mentions]
    written = [other if differs else text for text, other, differs in mentions]
    cfg = LinkerSettings(lexical_weight=0.3, spelling_weight=spelling_weight)
    vectors = np.ones((len(texts), 2), dtype=np.float32)
    query = Query(kb, [*map(name_view, texts)], written=written, vectors=kb.queries(vectors))
    query.doc_of = np.zeros(len(texts), dtype=np.int64)
    result = search_candidates(query, built_in_terms(cfg, kb), ROWS)
    codes = match_codes(query, result)
    assert codes.shape == result.entities.shape and codes.dtype == np.int8
    for row, (text, own) in enumerate(zip(texts, written, strict=True)):
        for entity, code in zip(result.entities[row].tolist(), codes[row].tolist(), strict=True):
            expected = restated(text, own, entity, labels, kinds, spelling_weight)
            assert MATCHES[code] == expected, (text, own, entity)


def test_a_guess_with_the_accents_of_the_mention_is_no_name():
    names = ["Sjogren", *NAMES[: ROWS - 1]]
    kb, kinds = make_kb(names, [], [], [(0, "Sjögren")])
    kb, text = kb.snapshot(), "Sjögren"
    cfg = LinkerSettings(lexical_weight=0.3)
    query = Query(kb, [name_view(text)], vectors=kb.queries(np.ones((1, 2), dtype=np.float32)))
    result = search_candidates(query, built_in_terms(cfg, kb), ROWS)
    (column,) = np.flatnonzero(result.entities[0] == 0)
    found = MATCHES[match_codes(query, result)[0, column]]
    assert found == restated(text, text, 0, names, kinds, 0.0) == "spelling"


def test_a_gold_mention_is_a_mention_unless_it_is_a_name():
    kb, _ = make_kb(["cold", "WAS"], [(0, "common cold")], [], [])
    given = ["frostbite", "Common Cold"]
    mentions = [
        Prototype(kb.entity_ids[0], "gold", name_view(text), Origin("said", "", i, i + 1, f"h{i}"))
        for i, text in enumerate(given)
    ]
    kb.add_prototypes(mentions, np.ones((len(mentions), 2), dtype=np.float32))
    cfg = LinkerSettings(lexical_weight=0.3, gold_prior=0.0, gold_name_weight=0.0)

    def found(*texts, written=None):
        snapshot = kb.snapshot()
        vectors = snapshot.queries(np.ones((len(texts), 2), dtype=np.float32))
        query = Query(
            snapshot, [*map(name_view, texts)], written=[*(written or texts)], vectors=vectors
        )
        result = search_candidates(query, built_in_terms(cfg, snapshot), 1)
        return [MATCHES[code] for code in match_codes(query, result)[:, 0]]

    assert found("Frostbite", "common cold", "cold") == ["mention", "synonym", "label"]
    # An abbreviation that somebody annotated.
    assert found("freezing of skin", written=["frostbite"]) == ["mention"]
    kb.remove_prototypes(kind="gold")
    assert found("Frostbite", "common cold") == ["context", "synonym"]


TEXT = "Non-Hodgkin lymphoma (NHL): NHL, lymphomatoid, Hodgkin's lymphoma, il2 and frostbite."
EXPECTED = {
    "Non-Hodgkin lymphoma": ("label", "non-Hodgkin lymphoma"),
    "NHL": ("abbreviation", "non-Hodgkin lymphoma"),
    "lymphomatoid": ("similar", "lymphoma"),
    "Hodgkin's lymphoma": ("synonym", "Hodgkin lymphoma"),
    "il2": ("spelling", "IL-2"),
}
NAMED = {"lexical_weight": 0.3, "spelling_weight": 0.2}
SURE = {"trust": 0.95, "bias": -2.0, "lexical": 3.0, "lexical_lead": 1.0, "vector_lead": 2.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    entities = [
        Entity("D1", "non-Hodgkin lymphoma", types=("T1",)),
        Entity("D2", "Hodgkin disease", ("Hodgkin lymphoma",), ("T2",)),
        Entity("D3", "lymphoma", types=("T2",)),
        Entity("D4", "interleukin 2", ("IL-2",), ("T2",)),
    ]
    return write_store(entities, tmp_path_factory.mktemp("store") / "store")


def linker(store, **given):
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker", config={"objective": None, "context": "none", **given})
    nlp.initialize()
    nlp.add_pipe("entity_ruler", first=True).add_patterns(
        [{"label": text[:1], "pattern": text} for text in [*EXPECTED, "frostbite"]]
    )
    build_prototypes(nlp, PrototypeSource(store))
    return nlp


@pytest.mark.parametrize(
    "given",
    [
        NAMED,
        # Groups of mentions are searched apart.
        {**NAMED, "types_by_label": {"l": ["T2"], "N": ["T1"]}},
        {**NAMED, "confidence": SURE},
        {"lexical_weight": 0.0, "spelling_weight": 0.2, "confidence": SURE},
    ],
)
def test_links_carry_their_match(store, given, tmp_path):
    nlp = linker(store, **given)
    nlp.to_disk(tmp_path / "nlp")
    doc, reloaded = nlp(TEXT), spacy.load(tmp_path / "nlp")(TEXT)
    saved = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (again,) = DocBin(store_user_data=True).from_bytes(saved).get_docs(nlp.vocab)
    for each in (doc, again, reloaded):
        *named, other = each.ents
        found = {}
        for ent in named:
            best = ent._.krissel_candidates[0]
            found[ent.text] = best["match"], matched_name(best, ent.text)
        assert found == EXPECTED
        assert {each["match"] for each in other._.krissel_candidates} == {"context"}


def test_linker_that_compares_no_names_gives_no_match(store):
    for ent in linker(store)(TEXT).ents:
        assert ent._.krissel_candidates
        assert all("match" not in each for each in ent._.krissel_candidates)


@pytest.mark.parametrize(
    "match, evidence, mention, expected",
    [
        ("label", "⟦Lymphomas⟧", "lymphoma", "Lymphoma"),
        ("synonym", "⟦Lymph  tumour⟧", "lymph tumor", "Lymph  tumour"),
        # Another name won by the vectors.
        ("synonym", "a ⟦Lymphomas⟧ here", "lymph tumor", "lymph tumor"),
        ("abbreviation", "a ⟦Lymphomas⟧ here", "LT", "Lymphomas"),
        (None, "⟦Lymphomas⟧", "lymph tumor", "Lymphomas"),
        ("similar", None, "lymphomatoid", ""),
        ("context", "a ⟦Lymphomas⟧ here", "stent", ""),
    ],
)
def test_matched_name_is_a_name_of_the_entity(match, evidence, mention, expected):
    candidate = {"id": "D3", "name": "Lymphoma", "score": 1.0, "kind": "name"}
    candidate |= {"match": match} if match else {}
    candidate |= {"evidence": evidence} if evidence else {}
    assert matched_name(candidate, mention) == expected

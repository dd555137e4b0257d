import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from spacy_krissel.lexical import arrays as lexical
from spacy_krissel.lexical import index as lexical_index
from spacy_krissel.lexical.arrays import lexical_arrays
from spacy_krissel.lexical.index import (
    CANONICAL,
    DIFFERENT,
    FORMS_PER_ENTITY,
    LENGTHS,
    LOWER_CASE,
    LexicalIndex,
)
from spacy_krissel.lexical.index import _csr as as_csr
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.pipeline.linker.query import LexicalQuery

FORMS = [
    "Lung cancer",
    "lung-cancer",
    "Carcinoma of lung",
    "Common cold",
    "cold",
    "MS",
    "±",
    "Renal failure",
    "MS",
]
ENTITIES = np.array([0, 0, 0, 1, 1, 2, 3, 5, 6])
N_ENTITIES = 7


@pytest.fixture(scope="module")
def lexicon():
    return LexicalIndex.of(FORMS, ENTITIES)


def similarities(lexicon, texts, entities=None):
    """All pairs: (texts, entities)."""
    entities = np.arange(N_ENTITIES) if entities is None else entities
    queries = np.repeat(np.arange(len(texts)), len(entities))
    found = lexicon.similarity(lexicon.read(texts), queries, np.tile(entities, len(texts)))
    return found.reshape(len(texts), len(entities))


def oracle(forms, entities, texts, n_entities):
    """The same by scikit-learn, every form compared: n-grams that no form has weigh as the mean of
    others, and only equal texts have 1."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    folded, asked = (
        [canonical_form(form) for form in forms],
        [canonical_form(text) for text in texts],
    )
    known = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False)
    distinct = sorted(set(folded))
    known.fit(distinct)
    every = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), lowercase=False, norm=None, use_idf=False
    )
    every.fit(distinct + asked)
    rare = known.idf_.mean()
    idf = np.array(
        [
            known.idf_[known.vocabulary_[g]] if g in known.vocabulary_ else rare
            for g in every.get_feature_names_out()
        ]
    )
    queries, names = (every.transform(each).toarray() * idf for each in (asked, folded))
    queries, names = (
        each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-9)
        for each in (queries, names)
    )
    cosines = np.minimum(queries @ names.T, DIFFERENT)
    equal = np.array([[text == form for form in folded] for text in asked])
    cosines = np.where(equal & (cosines > 0), 1, cosines)
    best = np.zeros((len(texts), n_entities))
    for form, entity in enumerate(entities):
        best[:, entity] = np.maximum(best[:, entity], cosines[:, form])
    return best


def test_similarity_equals_tfidf(lexicon):
    texts = ["lung cancers", "Cold", "the common MS", "zzz", "", "failure, renal", "±"]
    expected = oracle(FORMS, ENTITIES, texts, N_ENTITIES)
    assert similarities(lexicon, texts) == pytest.approx(expected, abs=1e-5)
    assert expected[0, 0] > 0.75 and expected[3].max() == 0


def test_names_with_the_same_folded_form_count_once(lexicon):
    """A name and its copy in other case and punctuation do not count twice for the frequencies."""
    again = LexicalIndex.of([*FORMS, "LUNG CANCER"], np.append(ENTITIES, 0))
    texts = ["lung", "cancer", "cold"]
    assert (similarities(again, texts) == similarities(lexicon, texts)).all()


def test_equal_forms_have_equal_similarities(lexicon):
    scores = similarities(lexicon, ["MS disease"])[0]
    assert scores[2] == scores[6] > 0


def test_search_finds_the_most_similar_entities(lexicon):
    found = lexicon.search(lexicon.vectors(["lung cancer", "MS", "renal cold", "zzz", ""]), 3)
    assert found.shape == (5, 3)
    assert [set(line[line >= 0]) for line in found] == [{0}, {2, 6}, {1, 5}, set(), set()]


def test_search_finds_allowed_entities_only(lexicon):
    allowed = np.ones(N_ENTITIES, dtype=bool)
    allowed[[1, 2]] = False
    found = lexicon.search(lexicon.vectors(["lung cancer", "MS", "renal cold"]), 3, allowed)
    assert [set(line[line >= 0]) for line in found] == [{0}, {6}, {5}]
    assert (
        lexicon.search(lexicon.vectors(["MS"]), 2, np.zeros(N_ENTITIES, dtype=bool)) == -1
    ).all()


def test_entities_with_a_form_are_found(lexicon):
    forms = lexicon.forms(["MS", "zzz", "lung cancer"])
    assert [set(line[line >= 0]) for line in lexicon.entities_with_forms(forms, 3)] == [
        {2, 6},
        set(),
        {0},
    ]
    assert (lexicon.entities_with_forms(forms, 1)[:, 0] >= 0).tolist() == [True, False, True]
    allowed = np.ones(N_ENTITIES, dtype=bool)
    allowed[[0, 2]] = False
    assert [set(line[line >= 0]) for line in lexicon.entities_with_forms(forms, 3, allowed)] == [
        {6},
        set(),
        set(),
    ]


def test_induced_names_do_not_end_the_search():
    texts = ["papillary renal carcinoma", "renal carcinoma, papillary"]
    index = LexicalIndex.of(texts, np.array([0, 1]), np.array([False, True]))
    assert index.entities_with_forms(index.forms(texts), 2).tolist() == [[-1, -1], [1, -1]]
    assert sorted(LexicalQuery(index, texts[:1]).candidates()[0].tolist()) == [-1, -1, 0, 1]
    assert sorted(LexicalQuery(index, texts[1:]).candidates()[0].tolist()) == [-1, -1, -1, 1]


def test_an_induced_name_has_a_similarity_below_1():
    """The first entity has "Heart" as a guess, the second as a name."""
    index = LexicalIndex.of(
        ["Heart", "heart", "liver"], np.arange(3), np.array([False, True, False])
    )
    assert similarities(index, ["HEART", "liver"], np.arange(3)) == pytest.approx(
        np.array([[DIFFERENT, 1, 0], [0, 0, DIFFERENT]]), abs=1e-6
    )


def test_a_hidden_form_is_not_proposed(lexicon):
    proposed = LexicalQuery(lexicon, ["MS", "MS"], [True, False]).candidates()
    assert not {2, 6} & set(proposed[0]) and {2, 6} <= set(proposed[1])


def test_no_texts_give_empty_results(lexicon):
    texts = lexicon.read([])
    assert lexicon.search(texts.vectors, 2).shape == (0, 2)
    none = np.zeros(0, dtype=np.int64)
    assert lexicon.similarity(texts, none, none).shape == (0,)


def test_an_empty_index_finds_nothing():
    empty = LexicalIndex.of([], np.zeros(0, dtype=np.int64))
    assert (empty.search(empty.vectors(["cold"]), 2) == -1).all()
    assert similarities(empty, ["cold"]).tolist() == [[0.0] * N_ENTITIES]


# Without capitals that fold to one of the others: "a" is less like the acronym "𝔸" than the oracle
# says.
WORDS = st.text(st.sampled_from("abc é-İ𝕒\ud800"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(WORDS, st.integers(0, 6)), max_size=15),
    st.lists(WORDS, min_size=1, max_size=4),
)
def test_arbitrary_names_are_found_with_tfidf_similarity(pairs, texts):
    forms, entities = (
        [form for form, _ in pairs],
        np.array([entity for _, entity in pairs], dtype=np.int64),
    )
    lexicon = LexicalIndex.of(forms, entities)
    scores = similarities(lexicon, texts)
    if any(len(canonical_form(form)) for form in forms):
        assert scores == pytest.approx(
            oracle(forms, entities, texts, N_ENTITIES).reshape(scores.shape), abs=1e-5
        )
    found = lexicon.search(lexicon.vectors(texts), N_ENTITIES)
    for line, near in zip(found, scores, strict=True):
        kept = line[line >= 0]
        assert len(set(kept)) == len(kept)
        assert (near[kept] > 0).all()
        # So few n-grams that none is left out: whatever is like the text is found.
        assert set(kept) == set(np.flatnonzero(near > 0)) or len(lexicon.vectors(texts).indices) > 8


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(WORDS, st.integers(0, 6)), min_size=1, max_size=40),
    st.lists(WORDS, min_size=1, max_size=4),
    st.none() | st.lists(st.booleans(), min_size=7, max_size=7),
    st.booleans(),
)
def test_search_and_similarity_compare_every_form(pairs, texts, allowed, hidden):
    forms, entities = (
        [form for form, _ in pairs],
        np.array([entity for _, entity in pairs], dtype=np.int64),
    )
    mask = None if allowed is None else np.array(allowed)
    index = LexicalIndex.of(forms, entities)
    asked = index.read(texts)
    without = index.forms(texts) if hidden else np.full(len(texts), -1)
    arrays = {name: index._arrays[name] for name in LENGTHS}
    shape = len(arrays["hashes"]), len(arrays["grams"])
    known = csr_matrix(
        (arrays["form_weights"], arrays["form_grams"], arrays["form_starts"]), shape=shape
    )
    bearers = np.split(arrays["form_entities"], arrays["form_entity_starts"][1:-1])

    near = index.search(asked.vectors, 2, mask, without)
    by_rarest = (as_csr(index._rarest(asked.vectors)) @ known.T.tocsr()).toarray()
    for line, similarity, own in zip(near, by_rarest, without, strict=True):
        usable = [form for form, found in enumerate(bearers) if mask is None or mask[found].any()]
        best = sorted(
            (-similarity[form], form) for form in usable if similarity[form] > 0 and form != own
        )
        found = [
            entity for _, form in best[: 2 * FORMS_PER_ENTITY] for entity in bearers[form].tolist()
        ]
        assert (
            line[line >= 0].tolist()
            == [e for e in dict.fromkeys(found) if mask is None or mask[e]][:2]
        )

    # The best forms by the rarest n-grams; by all, where these are in too few forms.
    entities, owner = index.alike(asked.vectors, 3)
    by_all = (as_csr(asked.vectors) @ known.T.tocsr()).toarray()
    for text, similarity in enumerate(by_rarest):
        few = np.count_nonzero(similarity) < 3
        values = by_all[text] if few else similarity
        level = np.sort(values)[-3:][0]
        mine = {*entities[owner == text].tolist()}
        sure = np.flatnonzero((values > level + 1e-6) & (values > 0))
        possible = np.flatnonzero((values >= level - 1e-6) & (values > 0))
        assert {e for form in sure for e in bearers[form].tolist()} <= mine
        assert mine <= {e for form in possible for e in bearers[form].tolist()}
    assert (np.diff(owner * 7 + entities) > 0).all()

    queries, every = np.repeat(np.arange(len(texts)), 7), np.tile(np.arange(7), len(texts))
    cosines = (as_csr(asked.vectors) @ known.T).toarray()
    expected = [
        max(
            (cosines[q, f] for f, found in enumerate(bearers) if e in found and f != without[q]),
            default=0,
        )
        for q, e in zip(queries, every, strict=True)
    ]
    np.testing.assert_allclose(
        index._cosines(asked.vectors, queries, every, without), expected, atol=1e-6
    )


def test_forms_ignore_case_and_punctuation(lexicon):
    assert (lexicon.forms(["LUNG  cancer", "cold", "zzz", ""]) >= 0).tolist() == [
        True,
        True,
        False,
        False,
    ]
    one, other, third = lexicon.forms(["Lung-Cancer", "lung cancer", "cold"])
    assert one == other != third


@given(
    st.lists(st.tuples(st.text("ab c", max_size=6), st.integers(0, 3), st.booleans()), max_size=12),
    st.lists(st.text("abcd ", max_size=6), min_size=1, max_size=3),
)
@settings(deadline=None)
def test_guesses_can_be_left_out(rows, texts):
    forms = [form for form, _, _ in rows]
    entities, named = (
        np.array([row[i] for row in rows], dtype=kind) for i, kind in ((1, np.int64), (2, bool))
    )
    index = LexicalIndex.of(forms, entities, named)
    asked = index.read(texts)
    queries, every = np.repeat(np.arange(len(texts)), 4), np.tile(np.arange(4), len(texts))
    cosines = (as_csr(asked.vectors) @ index.vectors([*forms, ""]).T).toarray()
    expected = [
        max((cosines[q, i] for i in np.flatnonzero(named & (entities == e))), default=0)
        for q, e in zip(queries, every, strict=True)
    ]
    found = index._cosines(asked.vectors, queries, every, None, names_only=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    names = index.similarity(asked, queries, every, names_only=True)
    both = index.similarity(asked, queries, every)
    assert (names <= both).all() and (index.has_guesses or (names == both).all())
    # A text that is a name is as similar as ever.
    assert (names == both)[(both > DIFFERENT) | (both == 0)].all()


def test_a_form_can_be_left_out_per_text(lexicon):
    """Neither in the similarity nor in the search, for the one text that goes without it."""
    texts = ["lung cancer", "lung cancer", "MS"]
    without = np.where([True, False, True], lexicon.forms(texts), -1)
    queries, entities = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 2, 6])
    found = lexicon.similarity(lexicon.read(texts), queries, entities, without)
    others = LexicalIndex.of(FORMS, ENTITIES).similarity(
        lexicon.read(["lung cancer"]), np.zeros(1, int), np.array([0])
    )
    assert found[2] == pytest.approx(1, abs=1e-6) == others[0]
    left = lexicon.vectors(["lung cancer"]) @ lexicon.vectors(["Carcinoma of lung"]).T
    assert found[0] == pytest.approx(left.toarray()[0, 0], abs=1e-6) and 0 < found[0] < 0.9
    assert found[1] == found[3] == found[4] == 0
    nearest = lexicon.search(lexicon.vectors(texts), 2, without=without)
    assert [sorted(row[row >= 0]) for row in nearest] == [[0], [0], []]


@given(
    st.lists(st.tuples(st.text("ab c", max_size=6), st.integers(0, 4), st.booleans()), max_size=20),
    st.integers(1, 7),
)
@settings(deadline=None)
def test_arrays_do_not_depend_on_blocks_or_files(tmp_path_factory, rows, size):
    forms, entities = (
        [form for form, _, _ in rows],
        np.array([entity for _, entity, _ in rows], dtype=np.int64),
    )
    named = np.array([is_name for _, _, is_name in rows], dtype=bool)
    whole = lexical_arrays(forms.__getitem__, entities, named)
    with patch.object(lexical, "BLOCK_FORMS", size):
        for directory in (None, tmp_path_factory.mktemp("scratch")):
            again = lexical_arrays(forms.__getitem__, entities, named, directory)
            assert again.keys() == whole.keys() == lexical_index.LENGTHS.keys()
            for name, array in whole.items():
                np.testing.assert_array_equal(again[name], array, name)
                assert again[name].dtype == array.dtype, name


def test_large_indexes_use_64_bit_offsets(monkeypatch, lexicon):
    monkeypatch.setattr(lexical, "MAX_INT32", 10)
    arrays = lexical_arrays(FORMS.__getitem__, ENTITIES)
    assert {
        arrays[name].dtype for name in ("form_starts", "form_grams", "gram_starts", "gram_forms")
    } == {np.dtype("i8")}
    texts = ["lung cancers", "Cold", "the common MS"]
    assert (similarities(LexicalIndex(arrays), texts) == similarities(lexicon, texts)).all()


@pytest.mark.parametrize("n", [0, len(FORMS)])
@pytest.mark.parametrize("most_read", [128, lexical_index.MAX_READ_BYTES])
def test_only_large_saved_arrays_are_memory_mapped(n, most_read, tmp_path, monkeypatch):
    monkeypatch.setattr(lexical_index, "MAX_READ_BYTES", most_read)
    saved = LexicalIndex.of(FORMS[:n], ENTITIES[:n])
    saved.to_disk(tmp_path / "lexical")
    read = LexicalIndex.from_disk(tmp_path / "lexical", N_ENTITIES)
    texts = ["lung cancer", "MS", "±", "colds"]
    assert (read.search(read.vectors(texts), 3) == saved.search(saved.vectors(texts), 3)).all()
    assert (similarities(read, texts) == similarities(saved, texts)).all()
    for mine, its in zip(read.entities_named(texts), saved.entities_named(texts), strict=True):
        assert (mine == its).all()
    for array in read._arrays.values():
        assert isinstance(array, np.memmap) == (most_read == 128 and array.size > 0)
    if n:
        assert np.shares_memory(read._read_only["gram_forms"], read._arrays["gram_forms"])


def test_a_saved_index_finds_names_in_another_process(tmp_path):
    LexicalIndex.of(FORMS, ENTITIES).to_disk(tmp_path / "lexical")
    program = f"""
from pathlib import Path
from spacy_krissel.lexical.index import LexicalIndex
index = LexicalIndex.from_disk(Path({str(tmp_path / "lexical")!r}), {N_ENTITIES})
assert index.entities_named(["COLD", "lung cancer"])[0].tolist() == [1, 0]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("name", ["hashes", "form_starts", "gram_forms", "entity_forms", "idf"])
def test_files_that_do_not_fit_together_raise(name, tmp_path):
    index = LexicalIndex.of(FORMS, ENTITIES)
    index.to_disk(tmp_path / "lexical")
    with pytest.raises(
        ValueError, match=f"entity_form_starts.*{N_ENTITIES} entities, of {N_ENTITIES - 1}"
    ):
        LexicalIndex.from_disk(tmp_path / "lexical", N_ENTITIES - 1)
    path = tmp_path / "lexical" / f"{name}.npy"
    np.save(path, np.load(path)[1:])
    with pytest.raises(ValueError, match=r"^\w+\.npy.*fit"):
        LexicalIndex.from_disk(tmp_path / "lexical", N_ENTITIES)
    for other in (np.zeros(()), np.load(path).astype("f8" if name != "idf" else "i8")):
        np.save(path, other)
        with pytest.raises(ValueError, match=f"^{name}.npy.*fit"):
            LexicalIndex.from_disk(tmp_path / "lexical", N_ENTITIES)
    path.write_bytes(b"no array")
    with pytest.raises(ValueError, match=f"^{name}.npy"):
        LexicalIndex.from_disk(tmp_path / "lexical", N_ENTITIES)


def test_texts_of_frequent_n_grams_are_searched_by_their_rarest_ones(monkeypatch):
    """Without a bound, each such text would look at a large part of millions of forms."""
    forms = [f"cancer {chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(20)]
    index = LexicalIndex.of(forms, np.arange(len(forms)))
    monkeypatch.setattr(lexical_index, "MAX_POSTINGS", 50)
    looked_at = index._rarest(index.vectors(["cancer ab", "cancer"]))
    counts = np.diff(looked_at.indptr)
    assert counts[0] > 1 and counts[1] == 1
    assert index._frequencies[looked_at.indices[: counts[0]]].sum() <= 50
    assert forms.index("cancer ab") in index.search(index.vectors(["cancer ab"]), 4)[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("abcdeé"), min_size=3, max_size=6), min_size=1, max_size=4),
    st.text("xyzЖ喘", min_size=1, max_size=9),
)
def test_text_that_contains_a_name_and_more_has_a_similarity_below_one(words, other):
    """A text with more than the name has less, whether other forms have its n-grams or not."""
    name = " ".join(words)
    for forms in ([name], [name, other], [name, f"{other} {name}x", f"{name} {other}x"]):
        lexicon = LexicalIndex.of(forms, np.arange(len(forms)))
        assert similarities(lexicon, [name.upper()], np.zeros(1, int))[0, 0] == 1
        for text in (
            f"{other} {name}",
            f"{name} {other}",
            f"{name}{other}",
            f"{other}-{name}",
            f"{name} {name}",
        ):
            assert similarities(lexicon, [text], np.zeros(1, int))[0, 0] <= DIFFERENT


def test_words_in_another_order_have_a_similarity_below_one():
    lexicon = LexicalIndex.of(["lung cancer"], np.zeros(1, int))
    assert similarities(lexicon, ["cancer lung"], np.zeros(1, int))[0, 0] == pytest.approx(
        DIFFERENT
    )


def test_names_with_the_same_accents_are_preferred():
    lexicon = LexicalIndex.of(
        ["Löfgren syndrome", "Lofgren syndrome", "Sjögren syndrome"], np.arange(3)
    )
    texts = ["Löfgren syndrome", "lofgren syndrome", "Lófgren syndrome", "Sjogren syndrome"]
    found = similarities(lexicon, texts, np.arange(3))
    assert found[0].tolist()[:2] == pytest.approx([1, CANONICAL], abs=1e-6)
    assert found[1].tolist()[:2] == pytest.approx([CANONICAL, 1], abs=1e-6)
    assert found[2].tolist()[:2] == pytest.approx([CANONICAL, CANONICAL], abs=1e-6)
    # Nobody else writes it otherwise.
    assert found[3, 2] == 1


def test_a_lower_case_word_is_less_similar_to_an_acronym():
    lexicon = LexicalIndex.of(
        ["WAS", "Wiskott-Aldrich syndrome", "heart attack"], np.array([0, 0, 1])
    )
    expected = [1, LOWER_CASE, LOWER_CASE]
    assert similarities(lexicon, ["WAS", "Was", "was"], np.zeros(1, int)).ravel() == pytest.approx(
        expected
    )
    # Where phrases are in capitals, so is everything.
    capitals = LexicalIndex.of(["ASTHMA", "HEART ATTACK"], np.arange(2))
    assert similarities(capitals, ["asthma"], np.zeros(1, int))[0, 0] == 1

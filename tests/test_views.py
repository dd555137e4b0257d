import sys

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.entity import Entity
from spacy_krissel.views import (
    LAST_SPACE,
    PEL_PARTS,
    ReferenceParts,
    View,
    candidate_view,
    crop_view,
    doc_text,
    doc_texts,
    evidence,
    mention_view,
    name_view,
    passage_texts,
    passage_views,
    piece_window,
    reference_texts,
    reference_view,
    reference_window,
    span_view,
    view_edges,
    with_mentions,
)

CLS, SEP, START, END = -1, -2, -3, -4
NLP = spacy.blank("en")


def window_of(left, mention, right, window):
    return piece_window(
        left, mention, right, window=window, cls_id=CLS, sep_id=SEP, start_id=START, end_id=END
    )


@pytest.mark.parametrize(
    "left, mention, right, window, expected",
    [
        # Everything fits.
        ([1, 2], [10], [21], 64, [CLS, 1, 2, START, 10, END, 21, SEP]),
        # Six pieces of context: three a side, those nearest to the mention.
        ([1, 2, 3, 4], [10], [21, 22, 23, 24], 11, [CLS, 2, 3, 4, START, 10, END, 21, 22, 23, SEP]),
        # An odd piece goes to the right.
        ([1, 2, 3, 4], [10], [21, 22, 23, 24], 10, [CLS, 3, 4, START, 10, END, 21, 22, 23, SEP]),
        # What one side does not need goes to the other.
        ([1, 2, 3, 4], [10], [21], 10, [CLS, 1, 2, 3, 4, START, 10, END, 21, SEP]),
        ([1], [10], [21, 22, 23, 24, 25], 10, [CLS, 1, START, 10, END, 21, 22, 23, 24, SEP]),
        ([], [10], [21, 22, 23], 7, [CLS, START, 10, END, 21, 22, SEP]),
        ([1, 2, 3], [10], [], 7, [CLS, 2, 3, START, 10, END, SEP]),
        # No context at all, and no room for any: `left[-0:]` would keep everything.
        ([], [10, 11], [], 64, [CLS, START, 10, 11, END, SEP]),
        ([1, 2], [10, 11], [21, 22], 6, [CLS, START, 10, 11, END, SEP]),
        # A long mention loses its middle.
        ([1, 2], [10, 11, 12, 13, 14], [21], 8, [CLS, START, 10, 11, 13, 14, END, SEP]),
        ([], [10, 11, 12, 13, 14], [], 7, [CLS, START, 10, 11, 14, END, SEP]),
        ([1], [10, 11, 12], [21], 5, [CLS, START, 10, END, SEP]),
        # A mention of no pieces, as a tokenizer may make of odd characters.
        ([1], [], [21], 64, [CLS, 1, START, END, 21, SEP]),
    ],
)
def test_piece_window_matches_hand_made_examples(left, mention, right, window, expected):
    ids, start, end = window_of(left, mention, right, window)
    assert ids == expected
    assert (ids[start], ids[end]) == (START, END)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(5, 64))
def test_window_keeps_the_mention_and_as_much_context_as_fits(n_left, n_mention, n_right, window):
    left, mention, right = (
        list(range(base, base + n)) for base, n in ((0, n_left), (100, n_mention), (200, n_right))
    )
    ids, start, end = window_of(left, mention, right, window)
    assert len(ids) <= window
    assert ids[0] == CLS and ids[-1] == SEP
    assert ids.count(START) == ids.count(END) == 1
    assert ids[start] == START and ids[end] == END and 1 <= start < end
    kept_left, kept_mention, kept_right = ids[1:start], ids[start + 1 : end], ids[end + 1 : -1]
    # Contexts touch the mention, without gaps.
    assert kept_left == left[n_left - len(kept_left) :]
    assert kept_right == right[: len(kept_right)]
    if n_mention <= window - 4:
        assert kept_mention == mention
    else:
        head = (len(kept_mention) + 1) // 2
        assert kept_mention == mention[:head] + mention[n_mention - (len(kept_mention) - head) :]
    # No room is wasted, and the longer side is cut first.
    if len(ids) < window:
        assert (kept_left, kept_mention, kept_right) == (left, mention, right)
    if len(kept_left) < n_left:
        assert len(kept_left) >= len(kept_right) - 1 or len(kept_right) == n_right
    if len(kept_left) < n_left and len(kept_right) < n_right:
        assert len(kept_right) - len(kept_left) in (0, 1)


@pytest.mark.parametrize(
    "context_chars, left, right",
    [
        (100, "alpha beta ", " gamma delta"),
        (11, "alpha beta ", " gamma "),
        (10, " beta ", " gamma "),  # all but one letter of the text on either side
        (6, " beta ", " gamma"),  # the cuts fall between words
        (5, "beta ", " "),  # the right one inside "gamma"
        (4, " ", " "),
        (1, " ", " "),
        (0, "", ""),
    ],
)
def test_contexts_are_cut_between_words(context_chars, left, right):
    text = "alpha beta MS gamma delta"
    assert mention_view(text, 11, 13, context_chars) == View(left, "MS", right)


def test_context_within_one_endless_word_is_empty():
    text = "x" * 300 + "MS" + "y" * 300
    assert mention_view(text, 300, 302, 256) == View("", "MS", "")
    # At the edge of the text nothing is cut, so there is no half word.
    assert mention_view("x" * 256 + "MS" + "y" * 256, 256, 258, 256) == View(
        "x" * 256, "MS", "y" * 256
    )


@pytest.mark.parametrize("window", [1, 8, 200])
def test_near_view_equals_the_view_with_less_context(window):
    text = " ".join(f"word{i}" for i in range(400))
    whole = mention_view(text, 1000, 1007)._replace(masked=True)
    assert crop_view(whole, window) == mention_view(
        text, 1000, 1007, min(8 * window, 1024)
    )._replace(masked=True)


@given(st.text(st.sampled_from("ab \n\t."), max_size=60), st.data(), st.integers(0, 20))
def test_mention_view_holds_whole_words_of_the_text(text, data, context_chars):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    view = mention_view(text, start, end, context_chars)
    assert view.mention == text[start:end]
    assert len(view.left) <= context_chars and len(view.right) <= context_chars
    begin, stop = start - len(view.left), end + len(view.right)
    assert text[begin:stop] == view.left + view.mention + view.right
    if view.left and begin:
        assert text[begin].isspace() or text[begin - 1].isspace()
    if view.right and stop < len(text):
        assert text[stop - 1].isspace() or text[stop].isspace()
    # As many words as there is room for.
    if not view.left and start:
        assert not any(char.isspace() for char in text[max(0, start - context_chars) : start])


def test_span_view_crosses_sentences():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp("He fell ill. It was MS. She left.")
    assert span_view(doc[6:7]) == View("He fell ill. It was ", "MS", ". She left.")
    assert span_view(doc[0:1]).left == ""
    assert span_view(doc[6:7], 5) == View(" was ", "MS", ". She")


def test_evidence_marks_the_mention():
    assert name_view("asthma") == View("", "asthma", "", masked=False)
    assert evidence(View("a  case\nof ", "MS", "\tand more")) == "a case of ⟦MS⟧ and more"
    assert evidence(name_view("asthma")) == "⟦asthma⟧"


@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_doc_texts_equal_the_texts_of_the_docs(texts):
    docs = [NLP.make_doc(text) for text in texts]
    assert doc_texts(docs) == [doc_text(doc) for doc in docs] == [doc.text for doc in docs]


def test_doc_texts_work_across_vocabularies():
    docs = [spacy.blank("en").make_doc(text) for text in ("seen here alone", "and this there")]
    assert doc_texts(docs) == ["seen here alone", "and this there"]


ENTITY = Entity(
    id="D1",
    name="Lung Neoplasms",
    aliases=("Cancer of Lung", "Lung  Cancer"),
    types=("Disease", "Neoplasm"),
    tree_numbers=("C04.588", "C08.381", "C08.785", "C99"),
    definition="Tumors of\nthe LUNG.",
)


def test_reference_view_contains_all_parts_of_the_entity():
    view = reference_view(ENTITY)
    assert view == View(
        "C04.588 C08.381 C08.785\nDisease, Neoplasm",
        "Lung Neoplasms; Cancer of Lung; Lung Cancer",
        "Tumors of the LUNG.",
        reference=True,
    )
    assert evidence(view) == (
        "C04.588 C08.381 C08.785 [SEP] Disease, Neoplasm [SEP] Lung Neoplasms; Cancer of Lung; "
        "Lung Cancer [SEP] Tumors of the LUNG."
    )


@pytest.mark.parametrize(
    "switch, lost",
    [
        ("tree_numbers", "C04.588 C08.381 C08.785"),
        ("types", "Disease, Neoplasm"),
        ("aliases", "; Cancer of Lung; Lung Cancer"),
        ("definition", "Tumors of the LUNG."),
    ],
)
def test_each_reference_part_can_be_switched_off(switch, lost):
    whole, without = (
        reference_view(ENTITY, parts)
        for parts in (ReferenceParts(), ReferenceParts(**{switch: False}))
    )
    texts = [text.replace(lost, "") for text in reference_texts(whole)]
    assert reference_texts(without) == [text for text in texts if text]


def test_missing_parts_leave_no_separator():
    assert evidence(reference_view(Entity(id="D2", name="Cold"))) == "Cold"
    assert reference_view(ENTITY, ReferenceParts(False, False, False, False)) == View(
        "", "Lung Neoplasms", "", reference=True
    )


def test_reference_view_shows_only_the_given_names():
    shown = reference_view(ENTITY, names=["Lung Neoplasms", "Lung Cancer"])
    assert shown.mention == "Lung Neoplasms; Lung Cancer"


def test_reference_window_separates_and_truncates_parts():
    frame = {"cls_id": 1, "sep_id": 2}
    assert reference_window([[5, 6], [7]], window=8, **frame) == [1, 5, 6, 2, 7, 2]
    assert reference_window([[5, 6], [7]], window=5, **frame) == [1, 5, 6, 2, 2]
    assert reference_window([], window=8, **frame) == [1, 2]


# Candidates ---------------------------------------------------------------------------------------

ALIASES = ("MS", "disseminated sclerosis")
SCLEROSIS = Entity(
    "T01", "multiple sclerosis", ALIASES, ("T047",), ("C10.1", "C20.2"), "Of nerves."
)


def test_candidate_view_lists_names_and_parts():
    view = candidate_view(SCLEROSIS, max_names=8)
    assert view.names == ("multiple sclerosis", "MS", "disseminated sclerosis")
    assert view.parts == (
        "multiple sclerosis",
        "MS; disseminated sclerosis",
        "T047",
        "C10.1; C20.2",
        "Of nerves.",
    )


def test_candidate_view_leaves_out_missing_parts():
    assert candidate_view(Entity("T12", "rickets"), max_names=8).parts == ("rickets",)


def test_candidate_view_keeps_three_tree_numbers():
    entity = Entity("T12", "rickets", tree_numbers=("C1", "C2", "C3", "C4"), definition="Of bones.")
    assert candidate_view(entity, max_names=8).parts == ("rickets", "C1; C2; C3", "Of bones.")


def test_candidate_view_leaves_out_the_excluded_name():
    assert candidate_view(SCLEROSIS, max_names=8, without=("multiple sclerosis",)).parts[:2] == (
        "MS",
        "disseminated sclerosis",
    )
    assert candidate_view(Entity("T12", "rickets"), max_names=8, without=("rickets",)) == ((), ())


def test_candidate_view_shows_at_most_max_names():
    assert candidate_view(SCLEROSIS, max_names=1).parts == (
        "multiple sclerosis",
        "T047",
        "C10.1; C20.2",
        "Of nerves.",
    )
    plain = candidate_view(SCLEROSIS, max_names=1, tree_numbers=False)
    assert plain.parts == ("multiple sclerosis", "T047", "Of nerves.")


def test_reference_can_begin_with_the_title():
    entity = Entity(
        "T1", "asthma", ("wheeze",), ("Disease", "Lung"), ("C08",), "It is\nhard to breathe."
    )
    view = reference_view(entity, PEL_PARTS)
    assert reference_texts(view) == ["asthma", "Disease, Lung", "It is hard to breathe."]
    assert (view.left, view.mention, view.reference) == ("", "asthma", True)
    whole = reference_view(entity, ReferenceParts(title_first=True))
    assert reference_texts(whole) == [
        "asthma; wheeze",
        "C08",
        "Disease, Lung",
        "It is hard to breathe.",
    ]
    assert reference_texts(
        reference_view(entity, PEL_PARTS._replace(types=False, definition=False))
    ) == ["asthma"]


def test_passage_views_know_their_co_mentions():
    views = passage_views(["the ", "cold", " and ", "MS", "."])
    assert views == [
        View("the ", "cold", " and MS.", co_mentions=((13, 15),)),
        View("the cold and ", "MS", ".", co_mentions=((4, 8),)),
    ]
    assert passage_views(["no mention"]) == []


texts = st.text(alphabet="ab .", max_size=6)


@given(st.lists(texts, min_size=1, max_size=4), st.data())
def test_passage_texts_invert_passage_views(outside, data):
    """Each view knows the unit that it was made of, and which of its mentions it is."""
    mentions = data.draw(
        st.lists(texts.filter(bool), min_size=len(outside) - 1, max_size=len(outside) - 1)
    )
    unit = [text for pair in zip(outside, [*mentions, ""], strict=True) for text in pair][:-1]
    views = passage_views(unit)
    assert [passage_texts(view) for view in views] == [
        (unit, 2 * i + 1) for i in range(len(mentions))
    ]
    assert [with_mentions(view, lambda mention, start: mention, 0) for view in views] == views
    longer = [text + "xx" if i % 2 else text for i, text in enumerate(unit)]
    assert [
        with_mentions(view, lambda mention, start: mention + "x" * start, 2) for view in views
    ] == passage_views(longer)


def test_with_mentions_changes_a_lone_mention():
    view = View("a ", "b", " c", masked=True)
    assert with_mentions(
        view, lambda mention, start: mention.upper() + str(start), 2
    ) == view._replace(mention="B2")


@given(
    st.lists(st.text("ab \n\u2003\u3000é\U00020000", max_size=14), min_size=1, max_size=4),
    st.integers(0, 6),
    st.data(),
)
def test_view_edges_equal_those_of_each_mention_view(texts, context_chars, data):
    mentions = []
    for number, text in enumerate(texts):
        places = data.draw(
            st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), max_size=4)
        )
        mentions += [(number, *sorted(place)) for place in places if place[0] != place[1]]
    firsts = np.cumsum([0, *map(len, texts)])
    numbers, starts, ends = np.array(mentions, dtype=np.int64).reshape(-1, 3).T
    starts, ends = starts + firsts[numbers], ends + firsts[numbers]
    whole = "".join(texts)
    left, right = view_edges(whole, firsts, starts, ends, context_chars)
    for (number, start, end), first, a, b, last in zip(
        mentions, left, starts, ends, right, strict=True
    ):
        view = mention_view(texts[number], start, end, context_chars)
        assert (whole[first:a], whole[a:b], whole[b:last]) == (view.left, view.mention, view.right)


def test_last_space_is_the_last_white_space_character():
    assert max(code for code in range(sys.maxunicode + 1) if chr(code).isspace()) == LAST_SPACE

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.load import load_pretrained
from spacy_krissel.layers.hf.wordpieces import (
    configure_tokenizer,
    encode_texts,
    length_batches,
    pad_pieces,
    read_together,
    unit_pieces,
    view_pieces,
)
from spacy_krissel.views import (
    View,
    crop_view,
    mention_view,
    name_view,
    passage_views,
    piece_window,
)


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    return load_settled(tiny_bert)


def load_settled(path):
    tokenizer = load_pretrained(str(path), {}, {})[0]
    configure_tokenizer(tokenizer)
    return tokenizer


def tokens(tokenizer, row):
    return tokenizer.convert_ids_to_tokens(row.ids.tolist())


def test_a_mention_is_enclosed_in_markers(tokenizer):
    view = View("The patient had ", "acute lung injury", " and fever")
    (row,) = view_pieces(tokenizer, [view], 64)
    expected = "[CLS] the patient had [Ms] acute lung injury [Me] and fever [SEP]".split()
    assert tokens(tokenizer, row) == expected
    assert (expected[row.start], expected[row.end]) == ("[Ms]", "[Me]")


def test_a_bare_name_is_enclosed_in_markers(tokenizer):
    (row,) = view_pieces(tokenizer, [name_view("multiple sclerosis")], 64)
    assert tokens(tokenizer, row) == "[CLS] [Ms] multiple sclerosis [Me] [SEP]".split()


@pytest.mark.parametrize("window", [32, 128])
@pytest.mark.parametrize("place", [0, 700, 1380])
def test_the_window_is_filled_if_the_text_is_long(tokenizer, window, place):
    """PEL's 128 pieces were 101 on average, of 256 characters on each side."""
    text = "patients had acute fever " * 60
    (row,) = view_pieces(tokenizer, [mention_view(text, place, place + 8)], window)
    assert len(row.ids) == window


def test_views_without_markers_use_the_whole_window(tokenizer):
    views = [name_view("multiple sclerosis"), View("the patient had ", "lung injury", " and fever")]
    rows = view_pieces(tokenizer, views, 64, markers=())
    assert tokens(tokenizer, rows[0]) == "[CLS] multiple sclerosis [SEP]".split()
    assert tokens(tokenizer, rows[1]) == "[CLS] the patient had lung injury and fever [SEP]".split()
    assert all((row.start, row.end) == (0, 0) for row in rows)
    # All of the window but [CLS] and [SEP] is the name's.
    (row,) = view_pieces(tokenizer, [name_view("acute " + "lung " * 50 + "injury")], 25, markers=())
    got = tokens(tokenizer, row)
    assert len(got) == 25 and got[:2] == ["[CLS]", "acute"] and got[-2:] == ["injury", "[SEP]"]


def test_a_masked_mention_is_a_single_mask_token(tokenizer):
    view = View("acute ", "multiple sclerosis", " with fever", masked=True)
    (row,) = view_pieces(tokenizer, [view], 64)
    assert tokens(tokenizer, row) == "[CLS] acute [Ms] [MASK] [Me] with fever [SEP]".split()


def test_masking_a_view_leaves_other_views_unchanged(tokenizer):
    views = [View("a ", "cold", "", masked=i == 1) for i in range(3)]
    rows = view_pieces(tokenizer, views, 64)
    assert (
        tokens(tokenizer, rows[0])
        == tokens(tokenizer, rows[2])
        == "[CLS] a [Ms] cold [Me] [SEP]".split()
    )


def test_a_masked_view_without_a_mask_token_raises(tiny_bert):
    tokenizer = load_settled(tiny_bert)
    tokenizer.mask_token = None
    with pytest.raises(KrisselError, match="K407"):
        view_pieces(tokenizer, [View("a ", "cold", "", masked=True)], 64)


def test_a_too_long_mention_loses_its_middle(tokenizer):
    mention = "acute " + "lung " * 50 + "injury"
    (row,) = view_pieces(tokenizer, [View("the patient had ", mention, " and fever")], 16)
    got = tokens(tokenizer, row)
    assert len(got) == 16
    assert got[:3] == ["[CLS]", "[Ms]", "acute"] and got[-3:] == ["injury", "[Me]", "[SEP]"]


def test_markers_in_the_text_are_read_as_plain_text(tokenizer):
    (row,) = view_pieces(tokenizer, [View("a [Me] [MASK] ", "[Ms] cold", " [SEP]")], 64)
    specials = {*tokenizer.all_special_tokens, "[Ms]", "[Me]"} - {"[UNK]"}
    assert [
        token for token in tokens(tokenizer, row) if token in specials
    ] == "[CLS] [Ms] [Me] [SEP]".split()


text = st.text(
    alphabet=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" the[Ms][Me]-.")),
    max_size=80,
)


@settings(deadline=None)
@given(
    views=st.lists(st.builds(View, text, text, text, st.booleans(), st.just(False)), max_size=5),
    window=st.integers(8, 64),
)
def test_markers_are_never_cut(tokenizer, views, window):
    rows = view_pieces(tokenizer, views, window)
    start_id, end_id = tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
    assert len(rows) == len(views)
    for row in rows:
        assert len(row.ids) <= window
        assert row.ids[0] == tokenizer.cls_token_id and row.ids[-1] == tokenizer.sep_token_id
        assert 0 < row.start < row.end < len(row.ids) - 1
        assert row.ids[row.start] == start_id and row.ids[row.end] == end_id


@settings(deadline=None)
@given(
    left=st.lists(
        st.sampled_from(["the", "patient", "x-1", "unseenword", "\u200d", "é."]),
        min_size=30,
        max_size=60,
    ),
    right=st.lists(
        st.sampled_from(["had", "fever", "T(2)", "unseenword", "\x01", "ﬁ"]),
        min_size=30,
        max_size=60,
    ),
    window=st.integers(12, 40),
)
@example(left=["the"] * 18 + ["\u200d"] * 18, right=["had"] * 30, window=16)
def test_cutting_context_before_tokenizing_keeps_the_same_pieces(tokenizer, left, right, window):
    view = View(" ".join(left) + " ", "lung injury", " " + " ".join(right))
    (row,) = view_pieces(tokenizer, [view], window)
    markers = tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
    whole = crop_view(view, window)
    expected, _, _ = piece_window(
        *encode_texts(tokenizer, [whole.left, whole.mention, whole.right]),
        window=window,
        cls_id=tokenizer.cls_token_id,
        sep_id=tokenizer.sep_token_id,
        start_id=markers[0],
        end_id=markers[1],
    )
    assert row.ids.tolist() == expected


@given(
    lengths=st.lists(st.integers(1, 64), max_size=60),
    max_pieces=st.integers(1, 300),
    min_fill=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
)
def test_length_batches_respect_size_and_fill(lengths, max_pieces, min_fill):
    batches = list(length_batches(lengths, max_pieces, min_fill))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_pieces
        assert min(lengths[i] for i in batch) >= min_fill * longest


def test_padding_is_on_the_right(tokenizer):
    rows = view_pieces(tokenizer, [name_view("cold"), View("the patient had ", "fever", "")], 64)
    pieces = pad_pieces(rows, pad_id=7)
    assert pieces.lengths.tolist() == [5, 8]
    assert pieces.ids[0, 5:].tolist() == [7, 7, 7]
    assert numpy.array_equal(pieces.ids[1], rows[1].ids)
    assert pieces.starts.tolist() == [1, 4] and pieces.ends.tolist() == [3, 6]


@pytest.mark.parametrize(
    "allowed, length", [((), 8), ((4, 9), 9), ((4, 8, 12), 8), ((4, 7), 8), ((16, 32), 16)]
)
def test_rows_are_padded_to_an_allowed_length(tokenizer, allowed, length):
    rows = view_pieces(tokenizer, [name_view("cold"), View("the patient had ", "fever", "")], 64)
    pieces = pad_pieces(rows, 7, allowed)
    assert pieces.ids.shape == (2, length)
    assert pieces.lengths.tolist() == [5, 8]
    assert (pieces.ids[1, 8:] == 7).all()


def test_a_reference_has_separators_and_no_markers(tokenizer):
    view = View(
        "a2\nof a cold", "multiple sclerosis; ms", "sclerosis with [SEP] fever", reference=True
    )
    (row,) = view_pieces(tokenizer, [view], 64)
    expected = "[CLS] a ##2 [SEP] of a cold [SEP] multiple sclerosis [UNK] ms [SEP] sclerosis with"
    found = tokens(tokenizer, row)
    assert found[:15] == expected.split()
    assert found[-2:] == ["fever", "[SEP]"]
    # What a definition spells like a separator is text, and no part is missing an end.
    assert found.count("[SEP]") == 4 and not {"[Ms]", "[Me]"} & set(found)
    assert (row.start, row.end) == (0, 0)


def test_a_reference_is_cut_at_its_end(tokenizer):
    view = View("a cold", "acute lung injury " * 40, "fever", reference=True)
    rows = view_pieces(tokenizer, [view, View("a ", "cold", ""), view._replace(left="")], 12)
    assert (
        tokens(tokenizer, rows[0])
        == "[CLS] a cold [SEP] acute lung injury acute lung injury acute [SEP]".split()
    )
    assert tokens(tokenizer, rows[1]) == "[CLS] a [Ms] cold [Me] [SEP]".split()
    assert tokens(tokenizer, rows[2])[:2] == ["[CLS]", "acute"] and len(rows[2].ids) == 12


@given(
    views=st.lists(st.builds(View, text, text, text, st.just(False), st.booleans()), max_size=5),
    window=st.integers(8, 64),
)
@settings(max_examples=50)
def test_arbitrary_mixtures_of_views_fit_the_window(tokenizer, views, window):
    rows = view_pieces(tokenizer, views, window)
    assert len(rows) == len(views)
    for view, row in zip(views, rows, strict=True):
        assert 2 <= len(row.ids) <= window
        assert row.ids[0] == tokenizer.cls_token_id and row.ids[-1] == tokenizer.sep_token_id
        assert (row.start == 0) == view.reference


UNIT = ["the ", "cold", " and ", "multiple sclerosis", " with ", "fever", ""]


def test_a_unit_is_one_row(tokenizer):
    rows = unit_pieces(tokenizer, passage_views(UNIT)[::-1], 64)
    expected = (
        "[CLS] the [Ms] cold [Me] and [Ms] multiple sclerosis [Me] with [Ms] fever [Me] [SEP]"
    ).split()
    assert all(row.ids is rows[0].ids for row in rows) and tokens(tokenizer, rows[0]) == expected
    assert [expected[row.start + 1 : row.end] for row in rows] == [
        ["fever"],
        ["multiple", "sclerosis"],
        ["cold"],
    ]
    assert all((expected[row.start], expected[row.end]) == ("[Ms]", "[Me]") for row in rows)
    pieces = pad_pieces([*rows, *view_pieces(tokenizer, [name_view("cold")], 64)], 0)
    assert pieces.ids.shape == (2, len(expected)) and pieces.owners.tolist() == [0, 0, 0, 1]
    assert pieces.lengths.tolist() == [len(expected), 5] and pieces.starts.tolist() == [11, 6, 2, 1]


def test_views_outside_units_are_unchanged(tokenizer):
    views = [
        name_view("cold"),
        View("the ", "fever", ""),
        View("a ", "cold", " with ms", masked=True),
    ]
    mixed = [views[0], *passage_views(UNIT), *views[1:]]
    rows = unit_pieces(tokenizer, mixed, 64)
    assert read_together(rows) == [[0], [1, 2, 3], [4], [5]]
    for row, expected in zip([rows[0], *rows[4:]], view_pieces(tokenizer, views, 64), strict=True):
        assert row.ids.tolist() == expected.ids.tolist() and (row.start, row.end) == (
            expected.start,
            expected.end,
        )


def test_units_with_other_mentions_are_separate_rows(tokenizer):
    one, other = (
        passage_views(["the ", "cold", " and fever"]),
        passage_views(["the ", "cold", " and ", "fever", ""]),
    )
    rows = unit_pieces(tokenizer, [*one, *other, *one], 64)
    assert read_together(rows)[1] == [1, 2]
    assert tokens(tokenizer, rows[0]) == "[CLS] the [Ms] cold [Me] and fever [SEP]".split()


def test_a_long_unit_has_a_window_for_each_mention(tokenizer):
    unit = ["fever " * 9, "cold", " and " * 3, "ms", " a" * 9]
    first, second = unit_pieces(tokenizer, passage_views(unit), 16)
    assert (
        tokens(tokenizer, first)[1:-1]
        == "fever fever fever fever fever [Ms] cold [Me] and and and [Ms] ms [Me]".split()
    )
    # The other's `[Ms]` is beyond the window, so that its `[Me]` is left out.
    assert tokens(tokenizer, second)[1:-1] == "cold and and and [Ms] ms [Me] a a a a a a".split()
    assert (second.start, second.end) == (5, 7)
    # What one side does not need goes to the other.
    first, _ = unit_pieces(tokenizer, passage_views(["", "cold", " and " * 20, "ms", ""]), 16)
    assert tokens(tokenizer, first)[1:-1] == ["[Ms]", "cold", "[Me]"] + ["and"] * 11


def test_a_mention_too_long_for_the_window_is_cut(tokenizer):
    unit = ["the ", "lung " * 30, " and ", "ms", ""]
    long, other = unit_pieces(tokenizer, passage_views(unit), 16)
    assert tokens(tokenizer, long)[:3] == ["[CLS]", "[Ms]", "lung"] and len(long.ids) == 16
    assert "[Me]" in tokens(tokenizer, other) and len(other.ids) <= 16


@settings(deadline=None)
@given(data=st.data(), window=st.integers(8, 40))
def test_own_markers_are_never_cut(tokenizer, data, window):
    unit = data.draw(
        st.lists(text.filter(bool), min_size=3, max_size=9).filter(lambda texts: len(texts) % 2)
    )
    start_id, end_id = tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
    rows = unit_pieces(tokenizer, passage_views(unit), window)
    assert len(rows) == len(unit) // 2
    for row in rows:
        ids = row.ids.tolist()
        assert (
            len(ids) <= window
            and ids[0] == tokenizer.cls_token_id
            and ids[-1] == tokenizer.sep_token_id
        )
        assert (
            ids[row.start] == start_id
            and ids[row.end] == end_id
            and end_id not in ids[row.start : row.end]
        )
        assert ids.count(start_id) == ids.count(end_id)

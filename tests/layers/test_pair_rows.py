import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.layers.hf.cross_encoder import pair_pieces
from spacy_krissel.layers.hf.load import load_pretrained
from spacy_krissel.layers.hf.wordpieces import configure_tokenizer, view_pieces
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.views import CandidateView, View


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    tokenizer = load_pretrained(str(tiny_bert), {}, {})[0]
    configure_tokenizer(tokenizer)
    return tokenizer


def ranked(view, *parts):
    return RankedMention(view, tuple(CandidateView((), each) for each in parts), None)


MS = View("the patient had ", "ms", " with fever")


def test_a_pair_has_the_mention_before_the_names(tokenizer):
    rows = pair_pieces(tokenizer, [ranked(MS, ("multiple sclerosis", "ms"), ("cold",))], 64, 16)
    read = [" ".join(tokenizer.convert_ids_to_tokens(row.ids)) for row in rows]
    mention = "[CLS] the patient had [Ms] ms [Me] with fever [SEP]"
    assert read == [f"{mention} multiple sclerosis [SEP] ms [SEP]", f"{mention} cold [SEP]"]
    assert {(row.start, row.end) for row in rows} == {(4, 6)}


def test_special_tokens_in_a_text_are_read_as_plain_text(tokenizer):
    (row,) = pair_pieces(tokenizer, [ranked(MS, ("[SEP] [CLS]",))], 64, 32)
    assert (
        list(row.ids).count(tokenizer.cls_token_id) == 1
        and list(row.ids).count(tokenizer.sep_token_id) == 2
    )


def test_a_candidate_without_names_leaves_the_mention_only(tokenizer):
    (row,) = pair_pieces(tokenizer, [ranked(MS, ())], 64, 16)
    assert list(row.ids) == list(view_pieces(tokenizer, [MS], 64)[0].ids)


@given(
    st.lists(
        st.lists(st.sampled_from(["cold", "ms", "acute lung injury"]), max_size=4).map(tuple),
        max_size=3,
    )
)
def test_candidates_stay_within_their_window(tokenizer, candidates):
    """Whatever stands in it, a row has the mention first, a [SEP] last, and no more than its share
    of pieces."""
    mention = view_pieces(tokenizer, [MS], 12)[0].ids
    for row in pair_pieces(tokenizer, [ranked(MS, *candidates)], 12, 5):
        assert list(row.ids[: len(mention)]) == list(mention)
        assert len(row.ids) - len(mention) <= 5
        assert row.ids[-1] == tokenizer.sep_token_id


def test_rows_are_in_the_order_of_mentions(tokenizer):
    other = View("", "cold", "")
    rows = pair_pieces(
        tokenizer, [ranked(MS, ("cold",)), ranked(other, ("ms",), ("fever",))], 64, 16
    )
    read = [tokenizer.convert_ids_to_tokens(row.ids)[-2] for row in rows]
    assert read == ["cold", "ms", "fever"]


def test_no_mentions_give_no_rows(tokenizer):
    assert pair_pieces(tokenizer, [], 64, 16) == []

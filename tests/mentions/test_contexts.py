import pytest
import spacy
from hypothesis import example, given
from hypothesis import strategies as st
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

from spacy_krissel.mentions import contexts as sentences
from spacy_krissel.mentions.contexts import UNIT_REACH, sentence_starts, sentence_views
from spacy_krissel.views import View

TEXT = "Colds recur. MS and fever were seen. No relapse of MS"
NLP = spacy.blank("en")


@pytest.fixture(params=["own sentences", "told by punctuation"])
def doc(request):
    doc = NLP.make_doc(TEXT)
    if request.param == "own sentences":
        for token in doc:
            token.is_sent_start = token.text in ("Colds", "MS", "No") and token.i < len(doc) - 1
    return doc


WORDS = st.tuples(st.sampled_from([*'.?!,(-"。a9', "...", "\n", " ", "b."]), st.booleans())


@given(st.lists(WORDS, max_size=12))
@example([(".", False)] * 100_000)
def test_sentences_start_where_the_sentencizer_starts_them(words):
    doc = Doc(NLP.vocab, *zip(*words, strict=True))
    starts = sentence_starts(doc)
    assert (
        starts
        == [0, *(token.idx for token in Sentencizer()(doc) if token.is_sent_start)][
            (len(doc) > 0) :
        ]
    )
    assert sentence_starts(doc) == starts


def spans_of(doc, *texts):
    spans = []
    for text in texts:
        start = TEXT.index(text)
        spans.append(doc.char_span(start, start + len(text)))
    return spans


def test_mentions_of_a_sentence_form_one_unit(doc):
    spans = [*spans_of(doc, "fever", "MS", "Colds"), doc[len(doc) - 1 :]]
    assert spans[-1].text == "MS"
    assert sentence_views(doc, spans) == [
        View("MS and ", "fever", " were seen. ", co_mentions=((0, 2),)),
        View("", "MS", " and fever were seen. ", co_mentions=((7, 12),)),
        View("", "Colds", " recur. "),
        View("No relapse of ", "MS", ""),
    ]


def test_a_mention_across_sentences_joins_them(doc):
    spans = spans_of(doc, "recur. MS", "Colds", "fever")
    first, _, last = sentence_views(doc, spans)
    assert first == View(
        "Colds ", "recur. MS", " and fever were seen. ", co_mentions=((0, 5), (20, 25))
    )
    assert last.left == "Colds recur. MS and " and last.co_mentions == ((0, 5), (6, 15))


def test_overlapping_mentions_form_separate_units(doc):
    spans = spans_of(doc, "MS and fever", "fever", "MS")
    views = sentence_views(doc, spans)
    assert [view.co_mentions for view in views] == [(), ((0, 2),), ((7, 12),)]
    assert views[0] == View("", "MS and fever", " were seen. ")
    assert (
        views[2].left + views[2].mention + views[2].right
        == views[1].left + views[1].mention + views[1].right
    )


def test_no_spans_give_no_views(doc):
    assert sentence_views(doc, []) == []


def test_sentence_views_leave_the_doc_unchanged():
    doc = NLP.make_doc(TEXT)
    sentence_views(doc, [Span(doc, 0, 1)])
    assert not doc.has_annotation("SENT_START")


@pytest.fixture
def note():
    """A text without punctuation, of some 7,000 characters, in which every tenth word is a
    mention."""
    words = [f"word{i}" for i in range(800)]
    doc = Doc(spacy.blank("en").vocab, words=words)
    return doc, [Span(doc, i, i + 2) for i in range(3, 800, 10)]


def test_long_sentence_is_cut_around_the_mention(note):
    """The view has whole words around the mention, and the other mentions among them."""
    doc, spans = note
    for span, view in zip(spans, sentence_views(doc, spans), strict=True):
        whole = view.left + view.mention + view.right
        assert view.mention == span.text and whole in doc.text
        first = span.start_char - len(view.left)
        assert min(span.start_char, UNIT_REACH - 20) <= len(view.left) <= UNIT_REACH
        assert min(len(doc.text) - span.end_char, UNIT_REACH - 20) <= len(view.right) <= UNIT_REACH
        assert not first or doc.text[first - 1].isspace() or doc.text[first].isspace()
        near = [
            each
            for each in spans
            if each.start_char >= first and each.end_char <= first + len(whole)
        ]
        assert [whole[start:end] for start, end in view.co_mentions] == [
            each.text for each in near if each != span
        ]
        assert 10 < len(view.co_mentions) < len(spans) - 1


def test_ordinary_sentences_are_read_whole(note, monkeypatch):
    doc, spans = note
    monkeypatch.setattr(sentences, "MAX_UNIT_CHARS", len(doc.text))
    for view in sentence_views(doc, spans):
        assert (
            view.left + view.mention + view.right == doc.text
            and len(view.co_mentions) == len(spans) - 1
        )


def test_the_cost_of_long_sentences_is_linear(monkeypatch):
    """In what encoders are given to read: ten times the text has ten times as much, and not a
    hundred times."""
    sizes = []
    for n in (1000, 10_000):
        doc = Doc(spacy.blank("en").vocab, words=[f"word{i}" for i in range(n)])
        views = sentence_views(doc, [Span(doc, i, i + 1) for i in range(0, n, 20)])
        sizes.append(
            sum(len(view.left) + len(view.right) + 9 * len(view.co_mentions) for view in views)
        )
    assert sizes[1] < 15 * sizes[0]

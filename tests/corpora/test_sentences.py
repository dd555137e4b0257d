import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel.corpora.sentences import sentence_views
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


def spans_of(doc, *texts):
    spans = []
    for text in texts:
        start = TEXT.index(text)
        spans.append(doc.char_span(start, start + len(text)))
    return spans


def test_mentions_of_a_sentence_are_a_unit(doc):
    spans = [*spans_of(doc, "fever", "MS", "Colds"), doc[len(doc) - 1 :]]
    assert spans[-1].text == "MS"
    assert sentence_views(doc, spans) == [
        View("MS and ", "fever", " were seen. ", mates=((0, 2),)),
        View("", "MS", " and fever were seen. ", mates=((7, 12),)),
        View("", "Colds", " recur. "),
        View("No relapse of ", "MS", ""),
    ]


def test_a_mention_across_sentences_joins_them(doc):
    spans = spans_of(doc, "recur. MS", "Colds", "fever")
    first, _, last = sentence_views(doc, spans)
    assert first == View("Colds ", "recur. MS", " and fever were seen. ", mates=((0, 5), (20, 25)))
    assert last.left == "Colds recur. MS and " and last.mates == ((0, 5), (6, 15))


def test_overlapping_mentions_are_not_in_one_unit(doc):
    spans = spans_of(doc, "MS and fever", "fever", "MS")
    views = sentence_views(doc, spans)
    assert [view.mates for view in views] == [(), ((0, 2),), ((7, 12),)]
    assert views[0] == View("", "MS and fever", " were seen. ")
    assert views[2].left + views[2].mention + views[2].right == views[1].left + views[1].mention + views[1].right


def test_no_spans(doc):
    assert sentence_views(doc, []) == []


def test_nothing_is_written_to_the_doc():
    doc = NLP.make_doc(TEXT)
    sentence_views(doc, [Span(doc, 0, 1)])
    assert not doc.has_annotation("SENT_START")

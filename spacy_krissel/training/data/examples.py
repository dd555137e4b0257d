"""Conversion between linked mentions and training examples: a reader passes `(entity, View)` pairs
to an objective."""

from collections.abc import Iterable, Iterator, Sequence

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...mentions.annotations import NIL, set_spans, spans_of
from ...mentions.contexts import context_views
from ...views import View, mention_view

# An entity's id and the view of one of its mentions, names or references.
Linked = tuple[str, View]
# Key in `doc.user_data`: the linked mentions of a doc that was made from views, by spans key.
VIEWS = "krissel_views"
LABEL = "ENTITY"
# Number of examples per vocabulary, so that contexts and names are not kept forever.
VOCAB_EXAMPLES = 10_000


def linked_mentions(doc: Doc, spans_key: str = "") -> list[Linked]:
    """Return (entity id, view) of every linked mention, in document order; mentions that are NIL or
    unlinked are left out.

    A doc made from views stores them (`view_examples`). The views of an annotated doc are cut from
    its text.
    """
    views = doc.user_data.get(VIEWS, {}).get(spans_key)
    if views is not None:
        # Saving and loading turns tuples into lists.
        return [
            (entity, View._make((*texts, tuple(map(tuple, units)))))
            for entity, (*texts, units) in views
        ]
    spans = linked_spans(doc, spans_key)
    text = doc.text if spans else ""
    return [(span.kb_id_, mention_view(text, span.start_char, span.end_char)) for span in spans]


def mentions_in_context(doc: Doc, context: str | None, spans_key: str = "") -> list[Linked]:
    """Return (entity id, view) of every linked span in a context as in `context_views`. Unlinked
    spans count as co-occurring mentions of their sentences too."""
    spans = spans_of(doc, spans_key)
    found = zip(spans, context_views(doc, spans, context), strict=True)
    return [(span.kb_id_, view) for span, view in found if span.kb_id_ not in ("", NIL)]


def single_mentions(example: Example, spans_key: str = "") -> Iterator[tuple[str, Example]]:
    """Yield (entity id, example) per linked mention of an example, with only this mention linked.

    An example with one linked mention is yielded unchanged.
    """
    doc = example.reference
    linked = linked_mentions(doc, spans_key)
    if len(linked) == 1:
        yield linked[0][0], example
        return
    # Each copy gets its own view instead of a copy of all.
    kept = doc.user_data.pop(VIEWS, None)
    copies = [doc.copy() for _ in linked]
    if kept is not None:
        doc.user_data[VIEWS] = kept
    for copy, span, each in zip(copies, linked_spans(doc, spans_key), linked, strict=True):
        alone = Span(copy, span.start, span.end, label=span.label, kb_id=span.kb_id)
        yield each[0], Example(example.predicted, _with_mentions(copy, [alone], spans_key, [each]))


class LinkedExamples(Iterator[Example]):
    """Linked views, iterated as one example each (`view_examples`) or as views (`linked_views`),
    which is many times faster.

    linked: the views, which can be iterated once, either way.
    """

    def __init__(self, linked: Iterator[Linked], spans_key: str = "") -> None:
        self.linked = linked
        self._examples = view_examples(([each] for each in linked), spans_key)

    def __next__(self) -> Example:
        return next(self._examples)


def linked_views(examples: Iterable[Example], spans_key: str = "") -> Iterator[Linked]:
    """Yield (entity id, view) of every linked mention of the examples."""
    if isinstance(examples, LinkedExamples):
        return examples.linked
    return (each for example in examples for each in linked_mentions(example.reference, spans_key))


def view_examples(
    groups: Iterable[Sequence[Linked]], spans_key: str = "", *, texts: bool = True
) -> Iterator[Example]:
    """Yield one training example per group of linked views, which `linked_mentions` returns
    unchanged.

    The reference doc has one token per mention and per side of its context. The predicted doc has
    only the mentions, without links: spaCy sorts each batch by the length of these docs and keeps
    the batcher's order at equal lengths. The docs have their own vocabularies, renewed every
    `VOCAB_EXAMPLES`: the pipeline's would keep every name and context in memory and save them.

    texts: False if only `linked_mentions` is read: no contexts, and arbitrary mentions in the
        predicted docs.
    """
    predicted = Doc(Vocab())
    for i, linked in enumerate(groups):
        if i % VOCAB_EXAMPLES == 0:
            vocab = Vocab()
        words: list[str] = []
        spaces: list[bool] = []
        offsets: list[int] = []
        for _, view in linked:
            left, right = (view.left, view.right) if texts else ("", "")
            offsets.append(len(words) + bool(left))
            words += [text for text in (left, view.mention, right) if text]
            spaces += [False] * (len(words) - len(spaces) - 1) + [len(offsets) < len(linked)]
        reference = Doc(vocab, words=words, spaces=spaces)
        if texts or i % VOCAB_EXAMPLES == 0 or len(predicted) != len(linked):
            predicted = Doc(vocab, words=[view.mention for _, view in linked])
            set_spans(
                predicted,
                [Span(predicted, i, i + 1, label=LABEL) for i in range(len(linked))],
                spans_key,
            )
        spans = [
            Span(reference, offset, offset + 1, label=LABEL, kb_id=entity)
            for offset, (entity, _) in zip(offsets, linked, strict=True)
        ]
        yield Example(predicted, _with_mentions(reference, spans, spans_key, list(linked)))


def text_example(nlp: Language, linked: Linked, spans_key: str = "") -> Example:
    """Return a development example, which a pipeline links like any text: the tokenised text of one
    view.

    If the tokenizer joins the mention to its neighbour ("MS-based"), the whole token is the
    mention.
    """
    view = linked[1]
    doc = nlp.make_doc(view.left + view.mention + view.right)
    start = len(view.left)
    span = doc.char_span(start, start + len(view.mention), label=LABEL, alignment_mode="expand")
    assert span is not None, "a mention lies within its text"
    reference = doc.copy()
    set_spans(doc, [span], spans_key)
    gold = Span(reference, span.start, span.end, label=LABEL, kb_id=linked[0])
    return Example(doc, _with_mentions(reference, [gold], spans_key, [linked]))


def linked_spans(doc: Doc, spans_key: str) -> list[Span]:
    """Return the spans with an entity, in document order."""
    return [span for span in spans_of(doc, spans_key) if span.kb_id_ not in ("", NIL)]


def _with_mentions(doc: Doc, spans: Sequence[Span], spans_key: str, linked: list[Linked]) -> Doc:
    set_spans(doc, spans, spans_key)
    doc.user_data[VIEWS] = {spans_key: linked}
    return doc

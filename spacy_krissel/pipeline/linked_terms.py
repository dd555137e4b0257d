"""Links of terms, each as a mention that is the whole text."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..mentions.annotations import set_spans, spans_of
from .pipeline_io import mention_setters, within_max_length


class HasLabel(Protocol):
    """A term; its id is shown where it is left out."""

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> str: ...


Term = TypeVar("Term", bound=HasLabel)


def linked_terms(
    nlp: Language, terms: Iterable[Term], key: str, batch_size: int
) -> Iterator[tuple[Span, Term]]:
    """Yield the linked span of each term. key: of the spans that the linker reads.

    Warns KW620 about terms that are too long, which are left out.
    """

    def docs() -> Iterator[tuple[Doc, Term]]:
        for term in within_max_length(
            nlp, terms, lambda term: (term.label, term.id or term.label[:40])
        ):
            doc = nlp.make_doc(term.label)
            set_spans(doc, [Span(doc, 0, len(doc), label="MENTION")], key)
            yield doc, term

    with nlp.select_pipes(disable=mention_setters(nlp)):
        for doc, term in nlp.pipe(docs(), as_tuples=True, batch_size=batch_size):
            yield spans_of(doc, key)[0], term

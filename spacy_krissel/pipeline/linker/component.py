"""`krissel_linker`: encode mentions in context, search the knowledge base, write `kb_id_`."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...kb.snapshot import KBSnapshot
from ...lexical.groups import distinct
from ...lexical.likeness import Likeness
from ...mentions.annotations import DocLinks, SpanLink, spans_of, write_links
from ...mentions.contexts import read_mentions
from ...util.lock import WeakReference
from ...views import View, doc_texts, name_view, reference_view
from ..kb_pipe import KBPipe
from ..settings import LinkerSettings, RerankerSettings
from .linking import link_mentions
from .query import Names, Query
from .terms.document import DocumentTerm
from .terms.found import FoundTerm
from .terms.general import GeneralTerm
from .terms.gold import GoldTerm
from .terms.lexical import LexicalTerm
from .terms.plural import PluralTerm
from .terms.species import SpeciesTerm
from .terms.spelling import SpellingTerm
from .terms.term import Term
from .terms.vectors import VectorTerm, name_weight

if TYPE_CHECKING:
    from ...ontology.store import OntologyStore

# Views given to the encoder's initialisation: enough for document frequencies, few enough to take a
# second.
INIT_VIEWS = 20_000
# Default number of candidates kept per mention.
DEFAULT_CANDIDATES = 5
# File of the weights of `Likeness`, if there are any.
LIKENESS = "likeness"
# In the order of addition; the vector term comes first.
BUILT_IN = (
    *(VectorTerm, FoundTerm, PluralTerm, GeneralTerm, LexicalTerm),
    *(GoldTerm, SpeciesTerm, SpellingTerm, DocumentTerm),
)
# Keys of candidates that are not terms.
RESERVED = (
    "id",
    "name",
    "score",
    "match",
    "kind",
    "evidence",
    "doc",
    "source",
    "confidence",
    "verdict",
)


def built_in_terms(settings: LinkerSettings, kb: KBSnapshot) -> list[Term]:
    """Return the terms that these settings enable for a knowledge base.

    They are made from the linker's own settings for each batch, not from the config: training,
    `krissel confidence` and `pipe.cfg` change these settings on a loaded pipe, which saves them.
    Each setting is declared there, once. `terms` in the config adds others, with settings of their
    own (`Term`).
    """
    terms = [term.of(settings, kb) for term in BUILT_IN]
    return [term for term in terms if term is not None and term.weight]


def named_terms(component: str, terms: Mapping[str, Term]) -> dict[str, Term]:
    """Return a component's additional terms, each with its name. Raises KrisselError K662."""
    found = {}
    taken = {*RESERVED, *(each.name for each in BUILT_IN)}
    for name, term in terms.items():
        problem = ""
        if not isinstance(term, Term):
            problem = f"it is of the type {type(term).__name__}"
        elif name in taken:
            problem = "the name is taken by another key of candidates"
        if problem:
            raise KrisselError(Errors.K662.format(name=component, term=name, problem=problem))
        found[name] = copy(term)
        found[name].name = name
    return found


class KrisselLinker(KBPipe):
    """Link the entities or the spans of a doc to the entities of a `PrototypeKB`.

    The score of an entity is the inner product of the mention's vector with the entity's nearest
    prototype (KRISSBERT eq. 3), or with the sum of that prototype and the entity's reference (eq.
    6). The weighted scores of all other terms are added (`pipeline/linker/terms`). Made by the
    factory `krissel_linker`; all of its parts come from the config.
    """

    cfg: LinkerSettings
    optional_files = (LIKENESS,)
    # Settings of the re-rankers that read the candidates. Never saved: a pipeline makes new ones.
    _rerankers: dict[int, WeakReference[RerankerSettings]] = {}  # noqa: RUF012 (replaced, never changed)

    _warned = False

    def __init__(
        self,
        vocab: Vocab,
        model: Model[Any, Any],
        name: str,
        *,
        terms: Mapping[str, Term] | None = None,
        **parts: Any,
    ) -> None:
        """
        terms: additional terms of the score, keyed by their names in candidates. The rest as in
            `KBPipe`.

        Raises KrisselError K662 for a value that is no term, or whose name is taken.
        """
        super().__init__(vocab, model, name, **parts)
        self.terms = named_terms(name, terms or {})
        # Of the names of the knowledge base, for the confidence; `krissel confidence` fits it.
        self.likeness: Likeness | None = None

    # Linking --------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[DocLinks]:
        """Return the link of every span of every doc, without writing any."""
        docs = list(docs)
        spans = [spans_of(doc, self.cfg.spans_key) for doc in docs]
        if not self._warned and not any(spans):
            self._warn_of_no_mentions(docs)
        links = iter(self._link(docs, spans) if any(spans) else ())
        return [DocLinks(islice(links, len(own)), own) for own in spans]

    def _link(self, docs: list[Doc], spans: Sequence[Sequence[Span]]) -> list[SpanLink]:
        """Return the link of each of the docs' spans."""
        query, terms = self.query(docs, spans)
        return link_mentions(query, terms, self.cfg, self.n_candidates_kept())

    def query(self, docs: list[Doc], spans: Sequence[Sequence[Span]]) -> tuple[Query, list[Term]]:
        """Return the docs' spans as an encoded query, and the terms that it was prepared by."""
        kb = self._kb_to_search()
        read = [
            self._read(doc, own, text)
            for doc, own, text in zip(docs, spans, doc_texts(docs), strict=True)
        ]
        views, written = ([*chain.from_iterable(each)] for each in zip(*read, strict=True))
        doc_of = np.repeat(np.arange(len(docs)), [len(own) for own in spans])
        query = Query(
            kb,
            views,
            docs,
            [*chain.from_iterable(spans)],
            doc_of,
            written,
            likeness=self.likeness,
        )
        return query, self._prepare(query)

    def bare_query(self, views: list[View], written: list[str]) -> tuple[Query, list[Term]]:
        """Return mentions that are the only ones of their documents as an encoded query, and its
        terms. No term may need the documents themselves.

        written: the mentions without expanded abbreviations.
        """
        kb = self._kb_to_search()
        query = Query(
            kb, views, doc_of=np.arange(len(views)), written=written, likeness=self.likeness
        )
        return query, self._prepare(query)

    def _prepare(self, query: Query) -> list[Term]:
        """Encode a query, and return the terms that it was prepared by."""
        terms = self._terms(query.kb)
        for term in terms:
            term.prepare(query)
        if not query.found:
            # Links of others are as they were without `krissel_finder`.
            terms = [term for term in terms if not isinstance(term, FoundTerm)]
        self._encode(query)
        return terms

    def _warn_of_no_mentions(self, docs: Sequence[Doc]) -> None:
        """Warn KW622, once, if no component can have looked for mentions: one that finds none marks
        the doc."""
        key = self.cfg.spans_key
        if any(
            key not in doc.spans if key else len(doc) and not doc.has_annotation("ENT_IOB")
            for doc in docs
        ):
            self._warned = True
            where = f"doc.spans['{key}']" if key else "doc.ents"
            warnings.warn(
                Warnings.KW622.format(name=self.name, where=where), KrisselWarning, stacklevel=4
            )

    def set_annotations(self, docs: Iterable[Doc], links: Sequence[Sequence[SpanLink]]) -> None:
        """Write the links that `predict` found to the docs, which may be copies of those it
        read."""
        key, overwrite = self.cfg.spans_key, self.cfg.overwrite
        for doc, doc_links in zip(docs, links, strict=True):
            if doc_links:
                spans = doc_links.spans if isinstance(doc_links, DocLinks) else ()
                if not spans or spans[0].doc is not doc:
                    spans = spans_of(doc, key)
                write_links(doc, spans, doc_links, spans_key=key, overwrite=overwrite)

    def views(self, doc: Doc, spans: Sequence[Span]) -> list[View]:
        """Return the encoder's input for each span: its context, and its text with abbreviations
        expanded, or all fragments of a discontinuous mention."""
        return self._read(doc, spans)[0]

    def _read(
        self, doc: Doc, spans: Sequence[Span], text: str | None = None
    ) -> tuple[list[View], list[str]]:
        context = None if self.cfg.context == "none" else self.cfg.context
        settings: dict[str, Any] = {
            "use_abbreviations": self.cfg.use_abbreviations,
            "spans_key": self.cfg.spans_key,
        }
        return read_mentions(doc, spans, context=context, text=text, **settings)

    def register_reranker(self, settings: RerankerSettings) -> None:
        """Keep as many candidates as a re-ranker with these settings reads, as long as they are
        there."""
        self._rerankers = {**self._rerankers, id(settings): WeakReference(settings, followed=True)}

    def n_candidates_kept(self) -> int:
        """Return the number of candidates kept per mention: the setting, else what re-rankers
        read."""
        rerankers = (each() for each in self._rerankers.values())
        wanted = max(
            [
                DEFAULT_CANDIDATES,
                *(settings.top_k for settings in rerankers if settings is not None),
            ]
        )
        return wanted if self.cfg.n_candidates is None else self.cfg.n_candidates

    def _files(self) -> dict[str, Callable[[], bytes]]:
        likeness = self.likeness
        more = {} if likeness is None else {LIKENESS: likeness.to_bytes}
        return {**super()._files(), **more}

    def _readers(self) -> dict[str, Callable[[bytes], Any]]:
        return {**super()._readers(), LIKENESS: self._read_likeness}

    def _read_likeness(self, data: bytes) -> None:
        self.likeness = Likeness.from_bytes(data) if data else None

    def _terms(self, kb: KBSnapshot) -> list[Term]:
        return [
            *built_in_terms(self.cfg, kb),
            *(term for term in self.terms.values() if term.weight),
        ]

    def _encode(self, query: Query) -> None:
        """Set the vectors of a query, and those of its names if they are searched for or
        weighted."""
        kb, counts = query.kb, name_weight(self.cfg, query.kb) > 0
        if not counts and not self.searches_names(kb):
            query.vectors = kb.queries(self.encode(query.views))
            return
        distinct_texts, of_mention = distinct(query.texts)
        names = [name_view(text) for text in distinct_texts]
        if counts:
            query.vectors, by_name = (
                kb.queries(self.encode(each)) for each in (query.views, names)
            )
            query.name_vectors = by_name[of_mention]
        elif self.cfg.context == "none":
            vectors = kb.queries(self.encode(names))
            query.vectors, query.names = vectors[of_mention], Names(vectors, of_mention)
        else:
            # One call: the small encoder then reads each text once.
            vectors = self.encode([*names, *query.views])
            by_name, of_name = _distinct_rows(vectors[: len(names)])
            query.vectors = kb.queries(vectors[len(names) :])
            query.names = Names(kb.queries(by_name), of_name[of_mention])

    def searches_names(self, kb: KBSnapshot) -> bool:
        """Return whether entities are searched for by the mentions' texts alone.

        True if the knowledge base has only names: context then does not improve the search, and
        many mentions share a text. False for a transformer, which takes longer to encode a name
        than to search.
        """
        known = kb.prototypes
        return known.references is None and not known.in_text.any() and not self.has_transformer

    def _init_sample(
        self, examples: Iterable[Example], store: "OntologyStore | None"
    ) -> list[View]:
        from ...training.data.examples import linked_mentions

        sample: list[View] = []
        for example in examples:
            sample.extend(
                view for _, view in linked_mentions(example.reference, self.cfg.spans_key)
            )
            if len(sample) >= INIT_VIEWS:
                break
        if not sample:
            sample = [name_view("mention")]
        parts = self.reference_parts()
        if parts is not None and store is not None:
            sample.extend(reference_view(entity, parts) for entity in islice(store, INIT_VIEWS))
        return sample


def _distinct_rows(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of `vectors` (n, d), and the index of each among them (n,).
    An encoder that folds its texts gives some of them the same vector.
    """
    unique, indices = distinct([row.tobytes() for row in vectors])
    # From a `bytearray`, which is writable: torch warns about read-only arrays.
    return np.frombuffer(bytearray().join(unique), vectors.dtype).reshape(
        -1, vectors.shape[1]
    ), indices

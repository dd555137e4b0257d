"""`krissel_linker`: encode mentions in context, search the knowledge base, write `kb_id_`."""

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...errors import KrisselWarning, Warnings
from ...kb.lexical_index import distinct
from ...kb.prototype_kb import PrototypeKB
from ...mentions.annotations import DocLinks, SpanLink, spans_of, write_links
from ...mentions.discontinuous import holds_fragments
from ...mentions.mention_views import mention_views
from ...mentions.species import prefix_taxon, species_scores, taxon_numbers, taxon_of
from ...ontology.store import OntologyStore
from ...training.data.examples import linked_mentions
from ...util.lock import Weak
from ...views import View, doc_texts, name_view, reference_view, with_mention
from ..kb_pipe import KBPipe
from ..settings import LinkerSettings, RerankerSettings
from .linking import by_document, decide, find

# Views given to the encoder's initialisation: enough for document frequencies, few enough to take a second.
INIT_VIEWS = 20_000
# Kept of a mention by default.
CANDIDATES = 5


class KrisselLinker(KBPipe):
    """Link the entities or the spans of a doc to the entities of a `PrototypeKB`.

    The score of an entity is the inner product of the mention's vector with the entity's nearest prototype (KRISSBERT
    eq. 3), or with the sum of that prototype and the entity's reference (eq. 6), plus `lexical_weight` × lexical
    similarity. Made by the factory `krissel_linker`; all of its parts come from the config.
    """

    cfg: LinkerSettings
    # Of the re-rankers that read the candidates. Never saved: a pipeline makes new ones.
    _asked_by: dict[int, Weak[RerankerSettings]] = {}  # noqa: RUF012 (replaced, never changed)

    _warned = False

    # Linking -------------------------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[DocLinks]:
        """The link of every span of every doc, without writing any."""
        docs = list(docs)
        spans = [spans_of(doc, self.cfg.spans_key) for doc in docs]
        if not self._warned and not any(spans):
            self._warn_of_no_mentions(docs)
        known = zip(docs, spans, doc_texts(docs), strict=True)
        written: list[str] = []
        views = [view for doc, own, text in known for view in self.views(doc, own, text, written)]
        links = iter(self._link(docs, spans, views, written) if views else ())
        return [DocLinks(islice(links, len(own)), own) for own in spans]

    def _warn_of_no_mentions(self, docs: Sequence[Doc]) -> None:
        """Warn KW622, once, where no component can have looked for mentions: one that finds none says so in the doc."""
        key = self.cfg.spans_key
        if any(key not in doc.spans if key else len(doc) and not doc.has_annotation("ENT_IOB") for doc in docs):
            self._warned = True
            where = f"doc.spans['{key}']" if key else "doc.ents"
            warnings.warn(Warnings.KW622.format(name=self.name, where=where), KrisselWarning, stacklevel=4)

    def set_annotations(self, docs: Iterable[Doc], links: Sequence[Sequence[SpanLink]]) -> None:
        """Write the links that `predict` found, of these docs or of copies, to the docs."""
        key, overwrite = self.cfg.spans_key, self.cfg.overwrite
        for doc, doc_links in zip(docs, links, strict=True):
            if doc_links:
                spans = doc_links.spans if isinstance(doc_links, DocLinks) else ()
                if not spans or spans[0].doc is not doc:
                    spans = spans_of(doc, key)
                write_links(doc, spans, doc_links, spans_key=key, overwrite=overwrite)

    def views(
        self, doc: Doc, spans: Sequence[Span], text: str | None = None, written: list[str] | None = None
    ) -> list[View]:
        """What the encoder sees of each span: its context, and the span with its abbreviations written out, or all
        pieces of a mention in several. text, written: as in `mention_views`."""
        return mention_views(
            doc,
            spans,
            context=None if self.cfg.context == "none" else self.cfg.context,
            use_abbreviations=self.cfg.use_abbreviations,
            spans_key=self.cfg.spans_key,
            text=text,
            written=written,
        )

    def read_by(self, settings: RerankerSettings) -> None:
        """Keep as many candidates as a re-ranker with these settings reads, as long as they are there."""
        self._asked_by = {**self._asked_by, id(settings): Weak(settings, followed=True)}

    def n_kept(self) -> int:
        """The candidates kept of a mention: the setting, else what re-rankers read."""
        asking = (each() for each in self._asked_by.values())
        wanted = max([CANDIDATES, *(settings.top_k for settings in asking if settings is not None)])
        return wanted if self.cfg.n_candidates is None else self.cfg.n_candidates

    def _link(
        self, docs: list[Doc], spans: Sequence[Sequence[Span]], views: list[View], written: list[str]
    ) -> list[SpanLink]:
        """The link of each of the docs' spans, with these views. written: the mentions as in `mention_views`."""
        kb = self._kb_to_search()
        species, bare = None, {}
        if self.cfg.species_weight and taxon_numbers(kb.species) is not None:
            taxa = [taxon_of(each) for each in kb.species]
            bare = _bare_names(kb, views)
            prefixes = [prefix_taxon(view.mention) if row in bare else None for row, view in enumerate(views)]
            views = [with_mention(view, bare[row]) if row in bare else view for row, view in enumerate(views)]
            species = self._species(docs, spans, taxa, prefixes)
        texts = [view.mention for view in views]
        vectors, by_name = self._encoded(kb, views, texts)
        names = self._names(kb, views)
        # A bare name counts, and not how the doc has it with its prefix.
        spelt = [bare.get(row, text) for row, text in enumerate(written)] if self.cfg.spelling_weight else None
        groups = self._by_types(spans)
        found = [
            find(
                kb,
                _at(vectors, rows),
                _at(texts, rows),
                self.cfg,
                self.n_kept(),
                kb.entity_mask(types=types) if types else None,
                _at(names, rows),
                _at(species, rows),
                _at(spelt, rows),
                None if by_name is None else _used(*by_name, rows),
            )
            for types, rows in groups.items()
        ]
        docs_of = np.repeat(np.arange(len(docs)), [len(own) for own in spans])
        found = by_document(found, [*groups.values()], docs_of, texts, self.cfg)
        links: dict[int, SpanLink] = {}
        for rows, each in zip(groups.values(), found, strict=True):
            links.update(zip(rows, decide(kb, each, self.cfg, self.n_kept()), strict=True))
        return [links[row] for row in range(len(views))]

    def _species(
        self, docs: list[Doc], spans: Sequence[Sequence[Span]], taxa: list[str], prefixes: list[str | None]
    ) -> np.ndarray:
        """What each taxon adds to the scores of its entities, for each of the spans (q, len(taxa))."""
        found = []
        left = iter(prefixes)
        for doc, own in zip(docs, spans, strict=True):
            scores = species_scores(doc, own, taxa, list(islice(left, len(own))))
            if holds_fragments(doc, self.cfg.spans_key):
                # The fragments of a mention are of the species of the first.
                first = {span.id_: row for row, span in reversed([*enumerate(own)]) if span.id_}
                scores = scores[[first.get(span.id_, row) for row, span in enumerate(own)]]
            found.append(scores)
        return np.float32(self.cfg.species_weight) * np.concatenate(found)

    def _searches_names(self, kb: PrototypeKB) -> bool:
        """Are entities searched for by the mentions' texts alone?

        So where the knowledge base has names alone: context then tells nothing of where to search, and mentions often
        have the same text. Not for a transformer, which takes longer for a name than a search.
        """
        known = kb.prototypes
        return known.references is None and not known.in_text.any() and not self.has_transformer

    def _encoded(
        self, kb: PrototypeKB, views: list[View], texts: list[str]
    ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
        """The vectors of the views (q, d); and where names are searched for, those of their different texts (u, d) with
        the number of each view's (q,)."""
        if not self._searches_names(kb):
            return self.encode(views), None
        different, of_text = distinct(texts)
        names = [name_view(text) for text in different]
        if self.cfg.context == "none":
            vectors = self.encode(names)
            return vectors[of_text], (vectors, of_text)
        # In one call: the small encoder reads each text once.
        vectors = self.encode([*names, *views])
        by_name, of_name = _distinct_rows(vectors[: len(names)])
        return vectors[len(names) :], (by_name, of_name[of_text])

    def _names(self, kb: PrototypeKB, views: list[View]) -> np.ndarray | None:
        """The vectors of the views' mentions alone, where gold mentions are prototypes and names are to count."""
        if not (self.cfg.gold_name_weight and self.cfg.context != "none" and kb.has_gold):
            return None
        texts, of_view = distinct([view.mention for view in views])
        return self.encode([name_view(text) for text in texts])[of_view]

    def _by_types(self, spans: Sequence[Sequence[Span]]) -> dict[tuple[str, ...], list[int]]:
        """The rows of the spans, ascending, by the types that their labels may link to, () for all."""
        every, by_label = tuple(self.cfg.types), self.cfg.types_by_label
        if not by_label:
            return {every: [*range(sum(map(len, spans)))]}
        groups: dict[tuple[str, ...], list[int]] = {}
        for row, span in enumerate(chain.from_iterable(spans)):
            types = by_label.get(span.label_)
            groups.setdefault(every if types is None else tuple(types), []).append(row)
        return groups

    def _init_sample(self, examples: Iterable[Example], store: OntologyStore | None) -> list[View]:
        sample: list[View] = []
        for example in examples:
            sample.extend(view for _, view in linked_mentions(example.reference, self.cfg.spans_key))
            if len(sample) >= INIT_VIEWS:
                break
        if not sample:
            sample = [name_view("mention")]
        parts = self.reference_parts()
        if parts is not None and store is not None:
            sample.extend(reference_view(entity, parts) for entity in islice(store, INIT_VIEWS))
        return sample


def _distinct_rows(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of the `vectors` (n, d), and the number of each among them (n,): an encoder that folds its
    texts gives some of them the same one."""
    different, numbers = distinct([row.tobytes() for row in vectors])
    # Of a `bytearray`, so that it can be written to: torch warns of what cannot.
    return np.frombuffer(bytearray().join(different), vectors.dtype).reshape(-1, vectors.shape[1]), numbers


def _at(values: Any, rows: list[int]) -> Any:
    """The values of the mentions at these rows, which ascend; None where there are none."""
    if values is None or len(values) == len(rows):
        return values
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


def _used(vectors: np.ndarray, of_text: np.ndarray, rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Those of the `vectors` (u, d) that these of the mentions have, and the number of each mention's."""
    if len(of_text) == len(rows):
        return vectors, of_text
    used, numbers = np.unique(of_text[rows], return_inverse=True)
    return vectors[used], numbers


def _bare_names(kb: PrototypeKB, views: list[View]) -> dict[int, str]:
    """Of mentions that begin with their species (hMLH1) and are a name only without it: their row, and that name."""
    rows = [row for row, view in enumerate(views) if prefix_taxon(view.mention)]
    if not rows:
        return {}
    whole, bare = ([views[row].mention[start:] for row in rows] for start in (0, 1))
    is_name = [set(kb.prototypes.lexical_index.named(texts)[1].tolist()) for texts in (whole, bare)]
    return {row: bare[i] for i, row in enumerate(rows) if i in is_name[1] - is_name[0]}

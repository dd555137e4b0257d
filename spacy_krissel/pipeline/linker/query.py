"""Query: the mentions of a batch, as the linker's terms search for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ...kb.nearest import VisibilityFilter
from ...kb.snapshot import KBSnapshot
from ...views import View, with_mention
from .lexical_query import LexicalQuery, SpellingMatches


class Visible(NamedTuple):
    """Prototypes visible to mentions that are prototypes themselves; the others are ignored.

    can_see: (row of the mention, prototype rows (n,)) → mask (n,). hidden (q,): for these, the
        surface form of their text does not count in the lexical similarity. n_prototypes: number of
        nearest prototypes that are examined.
    """

    can_see: VisibilityFilter
    hidden: Sequence[bool]
    n_prototypes: int


class Names(NamedTuple):
    """Distinct texts of mentions. vectors (u, d): of each as a bare name. of_mention (q,): index of
    each mention's text."""

    vectors: np.ndarray
    of_mention: np.ndarray

    def at(self, rows: np.ndarray) -> "Names":
        used, indices = np.unique(self.of_mention[rows], return_inverse=True)
        return Names(self.vectors[used], indices)


@dataclass
class Query:
    """The q mentions of a batch, with the data that terms need.

    kb: a snapshot of the knowledge base.
    views: the encoder's input for each mention, abbreviations expanded.
    docs: documents of the batch. spans: the mentions (q,). doc_of: index of each mention's doc
        (q,). Empty if mentions are not from docs.
    written: the mentions as written in the docs (q,).
    vectors (q, d): of the views, as the knowledge base searches them. Set after terms have prepared
        the query.
    names: set if entities are searched for by the distinct texts of mentions, and compared with
        `vectors` only.
    name_vectors (q, d): of the texts alone, if these count in the vector similarity.
    species (q, s): log-odds that a mention is of each of the knowledge base's species; None if it
        has one.
    allowed: a mask of the entities that may be found; None for all.
    visible: None: mentions see all prototypes.
    near (q, w, m): prototypes found with the first proposals, as set by the vector term.
    """

    kb: KBSnapshot
    views: list[View]
    docs: Sequence[Doc] = ()
    spans: Sequence[Span] = ()
    doc_of: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    written: list[str] = field(default_factory=list)
    vectors: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    names: Names | None = None
    name_vectors: np.ndarray | None = None
    species: np.ndarray | None = None
    allowed: np.ndarray | None = None
    visible: Visible | None = None
    near: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 1), dtype=np.int64))

    def __post_init__(self) -> None:
        self.texts = [view.mention for view in self.views]

    def __len__(self) -> int:
        return len(self.views)

    def rename(self, row: int, name: str) -> None:
        """Read, search and compare a mention as if it were written as `name`. Call before the query
        is encoded."""
        self.views[row] = with_mention(self.views[row], name)
        self.texts[row] = self.written[row] = name

    def by_types(self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]) -> Iterator[tuple[Any, "Query"]]:
        """Yield groups of mentions that may be linked to the same types of entities, () for all:
        their rows, and a query of them.

        by_label: the types for spans of a label, instead of `types`.
        """
        groups: dict[tuple[str, ...], list[int]] = {}
        if by_label:
            for row, span in enumerate(self.spans):
                groups.setdefault(tuple(by_label.get(span.label_, types)), []).append(row)
        else:
            groups[tuple(types)] = [*range(len(self))]
        for own, rows in groups.items():
            query = self._at(np.array(rows))
            yield rows, replace(query, allowed=self.kb.entity_mask(own)) if own else query

    def _at(self, rows: np.ndarray) -> "Query":
        if len(rows) == len(self):
            return self

        def of(values: Any) -> Any:
            if values is None or isinstance(values, np.ndarray):
                return None if values is None else values[rows]
            return [values[row] for row in rows.tolist()]

        names = None if self.names is None else self.names.at(rows)
        each = ("views", "spans", "doc_of", "written", "vectors", "name_vectors", "species")
        return replace(self, names=names, **{name: of(getattr(self, name)) for name in each})

    @cached_property
    def lexical(self) -> LexicalQuery:
        """The texts, looked up among the names of the knowledge base."""
        hidden = None if self.visible is None else self.visible.hidden
        return LexicalQuery(self.kb.prototypes.lexical_index, self.texts, hidden)

    @cached_property
    def spelling_matches(self) -> SpellingMatches:
        """The allowed entities that have a name with the spelling of a mention."""
        found = self.lexical.spelling_matches(self.written, self.kb.entities.species[0])
        return found if self.allowed is None else found.at(self.allowed[found.entities])

    @cached_property
    def is_unambiguous(self) -> np.ndarray:
        """Is each text a name of one entity at most? (q,). Between homonyms, context decides."""
        _, owner = self.kb.prototypes.lexical_index.entities_named(self.texts)
        return np.bincount(owner, minlength=len(self)) < 2

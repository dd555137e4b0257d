"""The mentions of a batch, as the linker's terms search for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ...kb.nearest import VisibilityFilter
from ...kb.snapshot import KBSnapshot
from ...views import View, with_mention
from .lexical_query import LexicalQuery, Spelt


class Visible(NamedTuple):
    """Prototypes that mentions can see which are prototypes themselves; the others are left out as if they were not
    there.

    can_see: (number of the mention, prototype rows (n,)) → mask (n,). hidden (q,): for these, the surface form of their
    text does not count in the lexical similarity. n_prototypes: the nearest ones that are looked through.
    """

    can_see: VisibilityFilter
    hidden: Sequence[bool]
    n_prototypes: int


class Names(NamedTuple):
    """Distinct texts of mentions. vectors (u, d): of each as a bare name. of_mention (q,): the number of each one's."""

    vectors: np.ndarray
    of_mention: np.ndarray

    def at(self, rows: np.ndarray) -> "Names":
        used, numbers = np.unique(self.of_mention[rows], return_inverse=True)
        return Names(self.vectors[used], numbers)


@dataclass
class Query:
    """The q mentions of a batch, each with what the terms ask of it.

    kb: a snapshot of the knowledge base.
    views: what the encoder reads of each mention, abbreviations written out.
    docs: of the batch. spans: the mentions (q,), and doc_of: the number of each one's doc (q,). Empty where mentions
        are not of docs.
    written: the mentions as the docs have them (q,).
    vectors (q, d): of the views, as the knowledge base searches them. Set after terms have prepared the query.
    names: where entities are searched for by the distinct texts of mentions, and only compared with `vectors`.
    name_vectors (q, d): of the texts alone, where these count in the similarity of vectors.
    species (q, s): the log-odds that a mention is of each of the knowledge base's species; None where it has one.
    allowed: a mask of the entities that may be found; None for all.
    visible: None: mentions see all.
    near (q, w, m): prototypes of the first proposals that were found with them, as the term of vectors notes.
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
        """Let a mention be read, searched and compared as if it were written so. Before the query is encoded."""
        self.views[row] = with_mention(self.views[row], name)
        self.texts[row] = self.written[row] = name

    def by_types(self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]) -> Iterator[tuple[Any, "Query"]]:
        """The mentions that may be linked to the same types of entities, () for all: their rows, and a query of them.

        by_label: the types that spans of a label may be linked to, in place of `types`.
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
        """The texts among the names of the knowledge base."""
        hidden = None if self.visible is None else self.visible.hidden
        return LexicalQuery(self.kb.prototypes.lexical_index, self.texts, hidden)

    @cached_property
    def spelt(self) -> Spelt:
        """The allowed entities that have a name with the spelling of a mention."""
        found = self.lexical.spelt(self.written, self.kb.entities.species[0])
        return found if self.allowed is None else found.at(self.allowed[found.entities])

    @cached_property
    def has_own_name(self) -> np.ndarray:
        """Is each text a name of one entity at most? (q,). Between homonyms, context decides."""
        _, owner = self.kb.prototypes.lexical_index.entities_named(self.texts)
        return np.bincount(owner, minlength=len(self)) < 2

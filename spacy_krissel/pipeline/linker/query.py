"""Query: the mentions of a batch, as the linker's terms search for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ...kb.nearest import VisibilityFilter
from ...kb.snapshot import KBSnapshot
from ...kb.verdicts import form_key
from ...lexical.groups import distinct, indices_of, pair_keys
from ...lexical.index import LexicalIndex, Texts
from ...lexical.likeness import Likeness
from ...views import View, with_mention

# Number of entities that lexical search adds per query. On 9,284 mentions of two training splits, 2
# change 22 links and 16 change 43, less than 0.1 points of accuracy; 16 take three times as long.
LEXICAL_CANDIDATES = 4


class SpellingMatches(NamedTuple):
    """Entities that have a name with the spelling of a mention, as columns of one length.

    entities: rows. mentions: row of each one's mention, ascending. by_text: True if the mention's
        text matches, False if its alternative text does.
    """

    entities: np.ndarray
    mentions: np.ndarray
    by_text: np.ndarray

    def at(self, which: np.ndarray) -> "SpellingMatches":
        return SpellingMatches(*(each[which] for each in self))

    def lookup(self, mentions: np.ndarray, entities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which pairs of a mention and an entity (n,) match, and which of them by the
        text."""
        keys = pair_keys(
            np.concatenate([self.mentions, mentions]), np.concatenate([self.entities, entities])
        )
        known, asked = np.split(keys, [len(self.mentions)])
        order = np.argsort(known)
        indices = indices_of(known[order], asked)
        is_spelt, is_name = indices >= 0, np.zeros(len(mentions), dtype=bool)
        is_name[is_spelt] = self.by_text[order][indices[is_spelt]]
        return is_spelt, is_name


class Alternatives(NamedTuple):
    """Alternative texts that differ from the texts of their mentions, read without vectors.

    mentions (m,): rows of the mentions, ascending. texts: the distinct alternatives. of_mention
        (m,): index of each mention's alternative.
    """

    mentions: np.ndarray
    texts: Texts
    of_mention: np.ndarray


class LexicalQuery:
    """Texts of q mentions, as queries to a lexical index; equal texts are searched once.

    hidden (q,): for these, the surface form that the text folds to is ignored, as if no entity had
        it.
    written (q,): alternative texts: the mentions as written. None: there are none.
    """

    def __init__(
        self,
        index: LexicalIndex,
        texts: Sequence[str],
        hidden: Sequence[bool] | None = None,
        written: Sequence[str] | None = None,
    ) -> None:
        keys: Sequence[Any] = texts if hidden is None else list(zip(texts, hidden, strict=True))
        different, self._of_query = distinct(keys)
        self._asked, self._written = texts, texts if written is None else written
        searched = different if hidden is None else [text for text, _ in different]
        self._index = index
        self._texts = index.read(searched)
        self._without = None
        if hidden is not None:
            is_hidden = np.array([each for _, each in different], dtype=bool)
            forms = self._texts.forms
            self._without = np.where(is_hidden, forms, -1)
            self._texts = self._texts._replace(forms=np.where(is_hidden, -1, forms))

    def candidates(self, allowed: np.ndarray | None = None) -> np.ndarray:
        """Return the entities that have each query's text as a name, or else those that lexical
        search finds: (q, `LEXICAL_CANDIDATES`), padded with -1.

        Searching for both changed no link of 27,813 mentions, and takes twice as long.
        """
        found = self._index.entities_with_forms(self._texts.forms, LEXICAL_CANDIDATES, allowed)
        rest = np.flatnonzero(found[:, 0] < 0)
        without = None if self._without is None else self._without[rest]
        found[rest] = self._index.search(
            self._texts.vectors[rest], LEXICAL_CANDIDATES, allowed, without
        )
        return found[self._of_query]

    def alike(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the entities of the `n` forms that are lexically most similar to each of the
        `queries` (m,), and the index of each one's query (`LexicalIndex.alike`)."""
        return self._index.alike(self._texts.vectors[self._of_query[queries]], n)

    @cached_property
    def alternatives(self) -> Alternatives:
        """The alternative texts that differ."""
        differ = np.flatnonzero(
            [other != text for other, text in zip(self._written, self._asked, strict=True)]
        )
        different, of_mention = distinct([self._written[row] for row in differ.tolist()])
        return Alternatives(differ, self._index.read(different, with_vectors=False), of_mention)

    @property
    def hashes(self) -> np.ndarray:
        """Hash of the canonical form of each text (q,)."""
        return self._texts.hashes[self._of_query]

    @property
    def lower(self) -> np.ndarray:
        """Mask of texts in lower case whose canonical form is an acronym (q,)."""
        return self._texts.lower[self._of_query]

    def spelling_matches(self, species: np.ndarray | None = None) -> SpellingMatches:
        """Return the entities that have a name with the `spelling` of each query's text.
        Alternative texts count for the species in which no entity has the text.

        species: index of each entity's species; None: all entities are of one.
        """
        entities, owner = self._index.entities_with_spellings(self._texts.spellings).take(
            self._of_query
        )
        differ, texts, of_mention = self.alternatives
        others, index = self._index.entities_with_spellings(texts.spellings).take(of_mention)
        both, owners = np.append(entities, others), np.append(owner, differ[index])
        keys = owners if species is None else pair_keys(owners, species[both])
        kept = np.append(
            np.ones(len(entities), dtype=bool),
            ~np.isin(keys[len(entities) :], keys[: len(entities)]),
        )
        order = np.flatnonzero(kept)[np.argsort(owners[kept], kind="stable")]
        return SpellingMatches(both[order], owners[order], order < len(entities))

    def alternative_equality(self, entities: np.ndarray) -> np.ndarray:
        """Return how the alternative texts are names of `entities` (m, k), as
        `LexicalIndex.equality`, 0 for none: (m, k)."""
        row, column = np.nonzero(entities >= 0)
        found = np.zeros(entities.shape, dtype=np.float32)
        _, texts, of_mention = self.alternatives
        found[row, column] = self._index.equality(texts, of_mention[row], entities[row, column])
        return found

    def similarity(
        self, queries: np.ndarray, entities: np.ndarray, *, names_only: bool = False
    ) -> np.ndarray:
        """Return the lexical similarity of the `queries` (n,) with `entities` (n,): (n,), from 0 to
        1. names_only: as in `LexicalIndex.similarity`."""
        # Queries with the same text share many candidates.
        keys = pair_keys(self._of_query[queries], entities)
        _, one, of_pair = np.unique(keys, return_index=True, return_inverse=True)
        text = self._of_query[queries[one]]
        return self._index.similarity(
            self._texts, text, entities[one], self._without, names_only=names_only
        )[of_pair]

    def likeness(self, model: Likeness) -> np.ndarray:
        """Return the likeness of each query's text to the names of a vocabulary (q,)."""
        return model(self._texts.canonical, self._texts.grams)[self._of_query]

    def of_candidates(self, entities: np.ndarray, *, names_only: bool = False) -> np.ndarray:
        """Return the lexical similarity of each query with its candidates (q, k), 0 for none: (q,
        k). names_only: as in `LexicalIndex.similarity`."""
        query, column = np.nonzero(entities >= 0)
        found = np.zeros(entities.shape, dtype=np.float32)
        found[query, column] = self.similarity(
            query, entities[query, column], names_only=names_only
        )
        return found

    def of_names(self, entities: np.ndarray, similar: np.ndarray) -> np.ndarray:
        """Return the lexical similarity of each query with the names of its candidates (q, k),
        without induced class names: (q, k). similar: the same with them."""
        if not self._index.has_guesses:
            return similar
        return self.of_candidates(entities, names_only=True)


class Visible(NamedTuple):
    """Prototypes visible to mentions that are prototypes themselves; the others are ignored.

    can_see: (row of the mention, prototype rows (n,)) → mask (n,). hidden (q,): for these, the
        surface form of their text does not count in the lexical similarity. n_prototypes: number of
        nearest prototypes that are examined. nearest: scores and rows of these, if they are known.
    """

    can_see: VisibilityFilter
    hidden: Sequence[bool]
    n_prototypes: int
    nearest: tuple[np.ndarray, np.ndarray] | None = None


class Names(NamedTuple):
    """Distinct texts of mentions. vectors (u, d): of each as a bare name. of_mention (q,): index of
    each mention's text."""

    vectors: np.ndarray
    of_mention: np.ndarray

    def at(self, rows: np.ndarray) -> "Names":
        used, indices = np.unique(self.of_mention[rows], return_inverse=True)
        return Names(self.vectors[used], indices)


class Found(NamedTuple):
    """Rows of the entities that have the name by which the finder found a mention.

    variant: of the name, in the text. is_added: a person added the name, which the entities lack.
    """

    entities: list[int]
    variant: str
    is_added: bool = False

    def has(self, entities: np.ndarray) -> np.ndarray:
        """Return which of the `entities` (n,) are among them: (n,)."""
        # `np.isin` takes ten times longer for one of few.
        first, *others = self.entities
        return np.isin(entities, self.entities) if others else entities == first


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
    likeness: model of the vocabulary's names, for the confidence; None if it needs none.
    found: of the mentions that `krissel_finder` found. reworded (q,): mask of the mentions that are
        searched for by words that they are not written in.
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
    likeness: Likeness | None = None
    found: dict[int, Found] = field(default_factory=dict)
    reworded: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    near: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 1), dtype=np.int64))

    def __post_init__(self) -> None:
        self.texts = [view.mention for view in self.views]
        if not len(self.reworded):
            self.reworded = np.zeros(len(self.views), dtype=bool)

    def __len__(self) -> int:
        return len(self.views)

    def rename(self, row: int, name: str) -> None:
        """Read, search and compare a mention as if it were written as `name`. Call before the query
        is encoded."""
        self.views[row] = with_mention(self.views[row], name)
        self.texts[row] = self.written[row] = name

    def reword(self, row: int, name: str) -> None:
        """Search and compare a mention as if it were written as `name`, which it is not. Call
        before the query is encoded."""
        self.views[row] = with_mention(self.views[row], name)
        self.texts[row], self.reworded[row] = name, True

    def is_defined(self, row: int) -> bool:
        """Return whether the text of a mention has an abbreviation that the document defines, and
        is read as its long form."""
        found = self.found.get(row)
        return bool(
            self.written
            and self.written[row] != self.texts[row]
            and not self.reworded[row]
            and (found is None or found.variant == "abbreviation")
        )

    def by_types(
        self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[Any, "Query"]]:
        """Yield groups of mentions that may be linked to the same types of entities, () for all:
        their rows, and their query.

        by_label: the types for spans of a label, instead of `types`.
        """
        for rows, allowed in self.by_allowed(types, by_label):
            query = self._at(np.array(rows))
            yield rows, query if allowed is None else replace(query, allowed=allowed)

    def by_allowed(
        self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[list[int], np.ndarray | None]]:
        """Yield the rows of the groups of `by_types`, and the mask of their entities; None for
        all."""
        groups: dict[tuple[str, ...], list[int]] = {}
        if by_label:
            for row, span in enumerate(self.spans):
                groups.setdefault(tuple(by_label.get(span.label_, types)), []).append(row)
        else:
            groups[tuple(types)] = [*range(len(self))]
        for own, rows in groups.items():
            yield rows, self.kb.entity_mask(own) if own else None

    def _at(self, rows: np.ndarray) -> "Query":
        if len(rows) == len(self):
            return self

        def of(values: Any) -> Any:
            if values is None or isinstance(values, np.ndarray):
                return None if values is None else values[rows]
            return [values[row] for row in rows.tolist()]

        names = None if self.names is None else self.names.at(rows)
        each = ("views", "spans", "doc_of", "written", "vectors", "name_vectors", "species")
        each += ("reworded",)
        found = {
            number: self.found[row] for number, row in enumerate(rows.tolist()) if row in self.found
        }
        changed = {name: of(getattr(self, name)) for name in each}
        return replace(self, names=names, found=found, **changed)

    @cached_property
    def lexical(self) -> LexicalQuery:
        """The texts, looked up among the names of the knowledge base."""
        hidden = None if self.visible is None else self.visible.hidden
        index = self.kb.prototypes.lexical_index
        return LexicalQuery(index, self.texts, hidden, self.written or None)

    @cached_property
    def spelling_matches(self) -> SpellingMatches:
        """The allowed entities that have a name with the spelling of a mention."""
        found = self.lexical.spelling_matches(self.kb.entities.species[0])
        return found if self.allowed is None else found.at(self.allowed[found.entities])

    @cached_property
    def alike(self) -> tuple[np.ndarray, np.ndarray]:
        """The verdicts on mentions with the canonical form of a mention here: rows of the mentions,
        ascending, and of the verdicts (n,) each."""
        table = self.kb.verdicts
        if not len(table) or self.visible is not None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        # The same mention may be expanded here and there not. "kidney injury" is read as a kidney
        # disease, but a correction of that is none of this.
        texts = [
            written if reworded else text
            for text, written, reworded in zip(
                self.texts, self.written or self.texts, self.reworded, strict=True
            )
        ]
        read = (texts, self.written, [span.text for span in self.spans])
        mentions = np.concatenate([np.arange(len(texts)) for texts in read])
        different, of_text = distinct([text for texts in read for text in texts])
        keys, of_key = np.unique([*map(form_key, different)], return_inverse=True)
        of_asked = np.unique(pair_keys(mentions, of_key[of_text]), return_index=True)[1]
        rows, owner = table.alike(keys[of_key[of_text[of_asked]]])
        found = np.unique(pair_keys(mentions[of_asked][owner], rows), return_index=True)[1]
        return mentions[of_asked][owner][found], rows[found]

    @cached_property
    def is_unambiguous(self) -> np.ndarray:
        """Is each text a name of one entity at most? (q,). Between homonyms, context decides."""
        _, owner = self.kb.prototypes.lexical_index.entities_named(self.texts)
        return np.bincount(owner, minlength=len(self)) < 2

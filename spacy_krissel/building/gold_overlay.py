"""Gold mentions on top of an unchanged knowledge base, each added or removed on its own."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..index.exact import BLOCK_ROWS
from ..index.growing import GrowingArray
from ..index.hits import QUERY_ROWS, lower_bound, merge_hits, no_hits, rank_hits
from ..index.protocol import Mask, Rows, Scores, Vectors, check_vectors
from ..kb.changes import changed
from ..kb.nearest import OverlaidVectors
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Origin, PrototypeTable
from ..kb.snapshot import KBSnapshot
from ..lexical.groups import Groups
from ..lexical.ngrams import canonical_form
from ..lexical.overlaid_index import OverlaidLexicalIndex
from ..views import View, evidence, name_view
from .gold_prototypes import GOLD_WEIGHT, MIN_SHARED_DOCS

# Minimum number of removed rows for a compaction, which also needs them to be the majority.
MIN_REMOVED_ROWS = 1_000
# Relative difference below which two scores may be equal, since products are rounded.
ROUNDING = 1e-5


class GoldMention(NamedTuple):
    """A mention in its context.

    entities: rows. origin: unique among all mentions.
    """

    entities: tuple[int, ...]
    view: View
    origin: Origin

    @property
    def views(self) -> tuple[View, ...]:
        """Views of its prototypes: in context and, unless equal, the bare text."""
        bare = name_view(self.view.mention)
        return (self.view,) if self.view == bare else (self.view, bare)


class _Rows(NamedTuple):
    """Rows of a mention for one entity: in its context, and its bare text, -1 for none."""

    context: int
    bare: int


@dataclass(eq=False, slots=True)
class _Mention:
    view: View
    origin: Origin
    form: str
    rows: dict[int, _Rows]
    is_shown: bool = False


@dataclass(eq=False, slots=True)
class _EntityMentions:
    """Mentions of one form and one entity, and their documents.

    has_weight: see `split_shared_names`.
    """

    mentions: dict[Hashable, _Mention] = field(default_factory=dict)
    documents: dict[tuple[str, str], int] = field(default_factory=dict)
    has_weight: bool | None = None


@dataclass(eq=False, slots=True)
class _Form:
    """Mentions of a form.

    named: the entities of the base with the form as a name. n: number of mentions.
    """

    named: frozenset[int]
    n: int = 0
    given: dict[int, _EntityMentions] = field(default_factory=dict)


class GoldOverlay:
    """Gold mentions over a snapshot of a knowledge base, as prototypes like those of `add_gold`.

    They are prototypes in context and as bare text; those of shared names have no extra weight
    (`split_shared_names`).

    The result depends only on the mentions shown and the order of their addition, not on mentions
    removed or hidden before. Adding, hiding, showing or removing a mention takes constant time,
    except for mentions of the same form if their weight changes. Vectors are compared with all rows
    exactly, whatever the index of the base. The n-gram weights of the lexical similarity are those
    of the base.

    table, index: replace those of the base in a search. Not safe for several threads.
    """

    def __init__(self, base: KBSnapshot) -> None:
        """Create an empty overlay of `base`, which must have its index."""
        assert base.index is not None, "it is built"
        self._base = base
        self.names = OverlaidLexicalIndex(base.prototypes.lexical_index, len(base.entities))
        width, dtype = base.width, base.prototypes.dtype
        # c_p without weights, which change; the entity of each row, -1 while it is not shown.
        own, weights = np.zeros((0, width), dtype=dtype), np.zeros(0, dtype=np.float32)
        self._set_columns(own, weights, base.prototypes.entity_rows, base.prototypes.in_text)
        self._about: list[tuple[_Mention, bool]] = []
        self._mentions: dict[Hashable, _Mention] = {}
        self._forms: dict[str, _Form] = {}
        # Rows by entity, and whether an entity has any.
        self._rows_of: dict[int, dict[int, None]] = {}
        self.has_rows = np.zeros(len(base.entities), dtype=bool)
        self.n_shown = self._n_removed = 0
        self._base_documents: dict[tuple[str, int], set[tuple[str, str]]] | None = None
        self._base_origins: set[tuple[int, Origin]] = set()
        self.table, self.index = OverlaidTable(self), OverlaidIndex(self)

    @property
    def base(self) -> KBSnapshot:
        return self._base

    @property
    def n_base(self) -> int:
        return len(self._base.prototypes)

    def __len__(self) -> int:
        """Number of mentions, shown or hidden."""
        return len(self._mentions)

    def add(
        self,
        mentions: Iterable[tuple[Hashable, GoldMention]],
        encode: Callable[[list[View]], Vectors],
    ) -> None:
        """Add mentions by their keys, hidden, and encode their views.

        On an error nothing is added. Raises KrisselError K503 (vectors of another width), K504
        (NaN).
        """
        mentions = [*mentions]
        self._read_base()
        forms: dict[str, str] = {}
        numbers: dict[View, int] = {}
        of_rows: list[int] = []
        about: list[tuple[_Mention, bool]] = []
        made: dict[Hashable, _Mention] = {}
        row = len(self.unweighted)
        for key, each in mentions:
            entities, view, origin = each
            form = forms.get(view.mention)
            if form is None:
                form = forms[view.mention] = canonical_form(view.mention)
            mention = made[key] = _Mention(view, origin, form, {})
            views = each.views
            for entity in dict.fromkeys(entities):
                # Skip a mention that the base has already.
                if (entity, origin) in self._base_origins:
                    continue
                mention.rows[entity] = _Rows(row, row + 1 if len(views) > 1 else -1)
                row += len(views)
                of_rows += [numbers.setdefault(each, len(numbers)) for each in views]
                about += [(mention, is_bare) for is_bare in (False, True)[: len(views)]]
        if numbers:
            vectors = self._base.scaled(
                check_vectors(encode([*numbers]), self._base.width, "vectors of mentions")
            )
            n = len(of_rows)
            rows = (
                vectors[of_rows],
                np.zeros(n, dtype=np.float32),
                np.full(n, -1),
                np.ones(n, dtype=bool),
            )
            for column, values in zip(self._columns, rows, strict=True):
                column.append(values)
            self._read_columns()
        self._about += about
        self._mentions |= made

    def show(self, keys: Iterable[Hashable]) -> None:
        """Show mentions that were added: they become prototypes."""
        keys = [
            key for key in keys if self._mentions[key].rows and not self._mentions[key].is_shown
        ]
        forms = {self._mentions[key].form for key in keys}
        self._read_forms(form for form in forms if form not in self._forms)
        new: dict[str, dict[int, list[_Mention]]] = {}
        names = []
        for key in keys:
            mention = self._mentions[key]
            mention.is_shown = True
            form = self._forms[mention.form]
            form.n += 1
            document = _document_key(mention.origin)
            for entity in mention.rows:
                given = form.given.setdefault(entity, _EntityMentions())
                given.mentions[key] = mention
                given.documents[document] = given.documents.get(document, 0) + 1
                new.setdefault(mention.form, {}).setdefault(entity, []).append(mention)
                names.append((mention.view.mention, entity))
        self.names.add(names)
        for name, of_entity in new.items():
            self._reweight(name, of_entity)
        self._changed()

    def hide(self, keys: Iterable[Hashable]) -> None:
        """Hide mentions; they keep their order for when they are shown again."""
        changed = []
        for key in keys:
            mention = self._mentions[key]
            if not mention.is_shown:
                continue
            mention.is_shown = False
            form = self._forms[mention.form]
            form.n -= 1
            document = _document_key(mention.origin)
            for entity, rows in mention.rows.items():
                given = form.given[entity]
                del given.mentions[key]
                given.documents[document] -= 1
                if not given.documents[document]:
                    del given.documents[document]
                if not given.mentions:
                    del form.given[entity]
                for row in rows:
                    self._set_shown(row, entity, is_shown=False)
            self.names.remove((mention.view.mention, entity) for entity in mention.rows)
            changed.append(mention.form)
        for name in changed:
            if name in self._forms and not self._forms[name].n:
                del self._forms[name]
            elif name in self._forms:
                self._reweight(name, {})
        self._changed()

    def remove(self, keys: Sequence[Hashable]) -> None:
        """Remove mentions, as if they had never been added."""
        self.hide(keys)
        for key in keys:
            mention = self._mentions.pop(key)
            self._n_removed += sum(row >= 0 for rows in mention.rows.values() for row in rows)
            mention.rows = {}
        if self._n_removed >= MIN_REMOVED_ROWS and 2 * self._n_removed > len(self.unweighted):
            self._compact()

    def vectors_at(self, rows: Rows) -> Vectors:
        """Return the searched vectors at rows of the overlay (n,): (n, width) float32."""
        found = self.unweighted[rows].astype(np.float32) * self.weights[rows, None]
        references = self._base.prototypes.references
        return (
            found
            if references is None
            else found + references.at(self.entity_rows[self.n_base + rows])
        )

    def rows_of(self, entity: int) -> Rows:
        """Return the shown rows of an entity, ascending, numbered after the base's rows."""
        rows = self._rows_of.get(entity, {})
        return np.sort(np.fromiter(rows, dtype=np.int64, count=len(rows))) + self.n_base

    def view_and_origin(self, row: int) -> tuple[View, Origin]:
        """Return view and origin of a row of the overlay."""
        mention, is_bare = self._about[row]
        return name_view(mention.view.mention) if is_bare else mention.view, mention.origin

    def _read_forms(self, names: Iterable[str]) -> None:
        different = sorted(names)
        if not different:
            return
        named: list[list[int]] = [[] for _ in different]
        entities, indices = self._base.prototypes.lexical_index.entities_named(different)
        for entity, index in zip(entities.tolist(), indices.tolist(), strict=True):
            named[index].append(entity)
        self._forms |= {
            name: _Form(frozenset(each)) for name, each in zip(different, named, strict=True)
        }

    def _reweight(self, name: str, new: dict[int, list[_Mention]]) -> None:
        """Recompute the weight of the mentions of a form, and show the `new` mentions of its
        entities.
        """
        form, known = self._forms[name], self._base_documents or {}
        for entity, given in form.given.items():
            is_shared = len(given.mentions) < form.n or not form.named <= {entity}
            documents: Any = given.documents
            if is_shared and len(documents) < MIN_SHARED_DOCS:
                documents = documents.keys() | known.get((name, entity), set())
            has_weight = not is_shared or len(documents) >= MIN_SHARED_DOCS
            reweighted: Iterable[_Mention] = new.get(entity, ())
            if has_weight != given.has_weight:
                given.has_weight, reweighted = has_weight, given.mentions.values()
            for mention in reweighted:
                context, bare = mention.rows[entity]
                self.weights[context] = self._weight(has_weight)
                self._set_shown(context, entity)
                if bare >= 0:
                    self.weights[bare] = self._weight(has_weight)
                    self._set_shown(bare, entity, is_shown=has_weight)

    @staticmethod
    def _weight(has_weight: bool) -> float:
        return GOLD_WEIGHT if has_weight else 1.0

    def _set_shown(self, row: int, entity: int, *, is_shown: bool = True) -> None:
        """Show or hide a row as a prototype of the entity."""
        if row < 0 or is_shown == (self.entity_rows[self.n_base + row] >= 0):
            return
        self.entity_rows[self.n_base + row] = entity if is_shown else -1
        self.n_shown += 1 if is_shown else -1
        rows = self._rows_of.setdefault(entity, {})
        if is_shown:
            rows[row] = None
        else:
            del rows[row]
        self.has_rows[entity] = bool(rows)
        if not rows:
            del self._rows_of[entity]

    def _changed(self) -> None:
        self.table.clear_cache()

    def _compact(self) -> None:
        """Drop the rows of removed mentions."""
        kept = np.array([bool(mention.rows) for mention, _ in self._about], dtype=bool)
        moved = (np.cumsum(kept) - 1).tolist()
        self._about = [
            each for each, is_kept in zip(self._about, kept.tolist(), strict=True) if is_kept
        ]
        for mention in self._mentions.values():
            mention.rows = {
                entity: _Rows(moved[context], moved[bare] if bare >= 0 else -1)
                for entity, (context, bare) in mention.rows.items()
            }
        self._rows_of = {
            entity: {moved[row]: None for row in rows} for entity, rows in self._rows_of.items()
        }
        with_base = np.append(np.ones(self.n_base, dtype=bool), kept)
        self._set_columns(
            self.unweighted[kept],
            self.weights[kept],
            self.entity_rows[with_base],
            self.in_text[with_base],
        )
        self._n_removed = 0
        self._changed()

    def _set_columns(self, *columns: np.ndarray) -> None:
        self._columns = [*map(GrowingArray, columns)]
        self._read_columns()

    def _read_columns(self) -> None:
        self.unweighted, self.weights, self.entity_rows, self.in_text = (
            column.array for column in self._columns
        )

    def _read_base(self) -> None:
        """Read the gold mentions of the base once, before the first one is added."""
        if self._base_documents is not None:
            return
        self._base_documents = {}
        known = self._base.prototypes
        for entity, _, view, origin in known.at(known.rows_of_kinds(["gold"])):
            key = canonical_form(view.mention), entity
            self._base_documents.setdefault(key, set()).add(_document_key(origin))
            self._base_origins.add((entity, origin))


def with_overlay(kb: PrototypeKB) -> tuple[PrototypeKB, GoldOverlay]:
    """Return a search-only branch of `kb` with an overlay, and the overlay.

    Changes of the overlay take effect at once. The branch must not be changed or saved.

    Raises KrisselError K520 if there is nothing to link to.
    """
    other = kb.branch()
    overlay = GoldOverlay(other.current)
    other.replace(changed(other.current, prototypes=overlay.table, index=overlay.index))
    return other, overlay


class OverlaidTable(PrototypeTable):
    """Prototypes of the base, then the rows of an overlay; hidden rows have the entity -1.

    The table is only searched, never changed or saved.
    """

    def __init__(self, overlay: GoldOverlay) -> None:
        base = overlay.base.prototypes
        super().__init__(base.table, base.stored, base.references, base.path)
        self._base, self._overlay = base, overlay
        self._groups: Groups | None = None
        self._gold: Rows | None = None

    def clear_cache(self) -> None:
        self._groups = self._gold = None

    def __len__(self) -> int:
        """Number of prototypes, without hidden rows."""
        return len(self._base) + self._overlay.n_shown

    @property
    def vectors(self) -> Any:
        return OverlaidVectors(
            self._base.vectors, self._overlay.vectors_at, len(self._overlay.unweighted)
        )

    @property
    def entity_rows(self) -> Rows:  # type: ignore[override]
        return self._overlay.entity_rows

    @property
    def in_text(self) -> Mask:  # type: ignore[override]
        return self._overlay.in_text

    @property
    def lexical_index(self) -> OverlaidLexicalIndex:  # type: ignore[override]
        return self._overlay.names

    @property
    def by_entity(self) -> "_OverlaidGroups":  # type: ignore[override]
        return _OverlaidGroups(self._base.by_entity, self._overlay)

    @property
    def gold_entities(self) -> Rows:  # type: ignore[override]
        if self._gold is None:
            self._gold = np.union1d(
                self._base.gold_entities, np.flatnonzero(self._overlay.has_rows)
            )
        return self._gold

    def are_names(self, entities: Rows, hashes: Rows) -> Mask:
        return self._base.are_names(entities, hashes)

    def all_by_entity(self) -> Groups:
        if self._groups is None:
            rows = np.flatnonzero(self.entity_rows >= 0)
            order = rows[np.argsort(self.entity_rows[rows], kind="stable")]
            self._groups = Groups.of(self.entity_rows[order], order)
        return self._groups

    def at(self, rows: Any) -> list[tuple[int, str, View, Origin]]:
        rows, found = np.ravel(rows), []
        for row in rows.tolist():
            if row < len(self._base):
                found += self._base.at([row])
            else:
                view, origin = self._overlay.view_and_origin(row - len(self._base))
                found.append((int(self.entity_rows[row]), "gold", view, origin))
        return found

    def display_fields(self, rows: Any) -> dict[str, list[Any]]:
        rows = np.ravel(rows)
        is_base = rows < len(self._base)
        columns = self._base.display_fields(rows[is_base])
        added: dict[str, list[Any]] = {name: [] for name in columns}
        for row in rows[~is_base].tolist():
            view, origin = self._overlay.view_and_origin(row - len(self._base))
            values = {
                "entity": int(self.entity_rows[row]),
                "kind": "gold",
                "evidence": evidence(view),
                "source": origin.source,
                "doc": origin.doc,
            }
            for name, value in values.items():
                added[name].append(value)
        order = np.empty(len(rows), dtype=np.int64)
        order[np.flatnonzero(is_base)] = np.arange(is_base.sum())
        order[np.flatnonzero(~is_base)] = is_base.sum() + np.arange((~is_base).sum())
        together = {name: [*columns[name], *added[name]] for name in columns}
        return {name: [values[i] for i in order.tolist()] for name, values in together.items()}


class _OverlaidGroups:
    """Rows by entity, with the interface of `Groups`."""

    def __init__(self, base: Groups, overlay: GoldOverlay) -> None:
        self._base, self._overlay = base, overlay

    @property
    def values(self) -> Rows:
        return self._overlay.table.all_by_entity().values

    @property
    def edges(self) -> Rows:
        return self._overlay.table.all_by_entity().edges

    @property
    def present(self) -> Rows:
        return self._overlay.table.all_by_entity().present

    def at(self, key: int) -> Rows:
        return np.append(self._base.at(key), self._overlay.rows_of(key))

    def take(self, keys: Rows) -> tuple[Rows, Rows]:
        values, owners = self._base.take(keys)
        known = np.flatnonzero((keys >= 0) & self._overlay.has_rows[keys])
        if not len(known):
            return values, owners
        added = [self._overlay.rows_of(key) for key in keys[known].tolist()]
        owners = np.append(owners, np.repeat(known, [len(each) for each in added]))
        order = np.argsort(owners, kind="stable")
        return np.concatenate([values, *added])[order], owners[order]


class OverlaidIndex:
    """Index of the base, combined with an exhaustive search of the overlay."""

    def __init__(self, overlay: GoldOverlay) -> None:
        assert overlay.base.index is not None, "it is built"
        self._base, self._overlay = overlay.base.index, overlay

    def __getattr__(self, name: str) -> Any:
        # Kind, settings and device are those of the base.
        return getattr(self._base, name)

    def __len__(self) -> int:
        return len(self._base) + self._overlay.n_shown

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        n_base = len(self._base)
        base = self._base.search(
            queries, min(k, n_base), None if allowed is None else allowed[:n_base]
        )
        counts = self._overlay.entity_rows[n_base:] >= 0
        if allowed is not None:
            counts &= allowed[n_base:]
        scores, rows = no_hits(len(queries), k)
        for start in range(0, len(counts), BLOCK_ROWS):
            end = min(start + BLOCK_ROWS, len(counts))
            if not counts[start:end].any():
                continue
            for first in range(0, len(queries), QUERY_ROWS):
                part = slice(first, first + QUERY_ROWS)
                found = self._block(
                    queries[part], start, end, counts[start:end], k, scores[part, -1]
                )
                scores[part], rows[part] = merge_hits([(scores[part], rows[part]), found], k)
        rows[rows >= 0] += n_base
        return merge_hits([base, (scores, rows)], k)

    def _block(
        self, queries: Vectors, start: int, end: int, counts: Mask, k: int, floor: Scores
    ) -> tuple[Scores, Rows]:
        overlay = self._overlay
        if overlay.base.prototypes.references is None:
            scores = queries @ overlay.unweighted[start:end].astype(np.float32, copy=False).T
            scores *= overlay.weights[start:end]
        else:
            scores = queries @ overlay.vectors_at(np.arange(start, end)).T
        scores[:, ~counts] = -np.inf
        bound = np.maximum(lower_bound(scores, k), floor)
        finite = np.isfinite(bound)
        bound[finite] -= ROUNDING * np.maximum(1, np.abs(bound[finite]))
        query, row = np.nonzero((scores >= bound[:, None]) & (scores > -np.inf))
        # Recompute one by one: the rounding of a matrix product depends on a row's position.
        exact = np.einsum("nd,nd->n", overlay.vectors_at(start + row), queries[query])
        return rank_hits(query, start + row, exact, len(queries), k)


def _document_key(origin: Origin) -> tuple[str, str]:
    return origin.doc, origin.text_hash

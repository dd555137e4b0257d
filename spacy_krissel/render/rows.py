"""Rows of extracted entities: one per entity, bars under its fragments and a line that joins them.

A doc is drawn as cells: cell 2i is token i, cell 2i + 1 the space after it, so that a bar covers the spaces within
a fragment and not the one after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spacy.tokens import Doc

from ..errors import Errors, KrisselError
from ..mentions.discontinuous import read_fragments

# Any two differ by 25 or more (CIE 1976), also for colour-blind readers (protan-, deuter- and tritanopia), and each has
# a contrast of at least 3 to 1 with its background. Beyond five they repeat: each row also has its name.
LIGHT = ("#063fd9", "#ea6411", "#488b74", "#e557de", "#734f8c")
DARK = ("#659bfa", "#fecb7e", "#66fee2", "#a86184", "#8533f4")
PAPER = {"light": "#ffffff", "dark": "#14181e"}
INK = {"light": "#1d2430", "dark": "#e4e8ee"}
SOFT = {"light": "#5c6675", "dark": "#9aa5b4"}


@dataclass(frozen=True)
class DrawnEntity:
    """One row: an entity and its cells.

    id, name: as displayed; either may be "". score: None for an entity without one.
    colour: a position in `LIGHT` and `DARK`.
    bars: the cells of its fragments. lines: the cells between the fragments of one mention.
    starts, ends: the first and the last cells of its fragments.
    """

    id: str
    name: str
    score: float | None
    colour: int
    bars: frozenset[int]
    lines: frozenset[int]
    starts: frozenset[int]
    ends: frozenset[int]

    def kind(self, cell: int) -> str:
        """The mark under a cell: "bar", "line" or ""."""
        return "bar" if cell in self.bars else "line" if cell in self.lines else ""

    @property
    def details(self) -> str:
        """Id and score on one line, "" without either."""
        score = "" if self.score is None else f"{self.score:.2f}"
        return " · ".join(part for part in (self.id if self.name != self.id else "", score) if part)


def drawn_entities(doc: Doc, key: str) -> list[DrawnEntity]:
    """The rows of `doc.spans[key]`, by the first token of each entity.

    Mentions are read by `read_fragments`; those with one `kb_id_` (without it, one label) share a row. Names and scores
    are those of `doc.spans[key].attrs["entities"]`, a list of `{"id", "name", "score"}`, if present; an entity of that
    list without fragments has no row.

    Raises KrisselError K691 when the doc has no such key.
    """
    if key not in doc.spans:
        raise KrisselError(Errors.K691.format(key=key, keys=sorted(doc.spans) or "none"))
    known: dict[str, Mapping[str, Any]] = {
        str(entity["id"]): entity for entity in doc.spans[key].attrs.get("entities", ()) if "id" in entity
    }
    bars: dict[str, set[int]] = {}
    joined: dict[str, set[int]] = {}
    labels: dict[str, str] = {}
    for mention in read_fragments(doc, key):
        id_ = mention.kb_id or mention.label
        labels.setdefault(id_, mention.label)
        for start, end in mention.fragments:
            bars.setdefault(id_, set()).update(range(2 * start, 2 * end - 1))
        first, last = mention.fragments[0][0], mention.fragments[-1][1]
        joined.setdefault(id_, set()).update(range(2 * first, 2 * last - 1))
    rows = []
    for colour, id_ in enumerate(sorted(bars, key=lambda id_: (min(bars[id_]), max(bars[id_]), id_))):
        own, entity = bars[id_], known.get(id_, {})
        score = entity.get("score")
        rows.append(
            DrawnEntity(
                id=id_,
                name=str(entity.get("name") or labels[id_] or id_),
                score=None if score is None else float(score),
                colour=colour % len(LIGHT),
                bars=frozenset(own),
                lines=frozenset(joined[id_] - own),
                starts=frozenset(cell for cell in own if cell - 1 not in own),
                ends=frozenset(cell for cell in own if cell + 1 not in own),
            )
        )
    return rows


def cell_texts(doc: Doc) -> list[str]:
    """The text of each cell, "" for a missing space. White space is one space."""
    cells = []
    for token in doc:
        cells.append(" " if token.is_space else token.text)
        cells.append(" " if token.whitespace_ else "")
    return cells

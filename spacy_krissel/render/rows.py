"""Rows of extracted entities: one per entity, bars under its fragments and a line that joins them.

A doc is drawn as cells: cell 2i is token i, cell 2i + 1 the space after it, so that a bar covers the spaces within
a fragment and not the one after it.
"""

from collections import defaultdict
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

    name: may be "". details: id and score, "" without either.
    colour: a position in `LIGHT` and `DARK`.
    bars: the cells of its fragments. lines: the cells between the fragments of one mention.
    """

    name: str
    details: str
    colour: int
    bars: frozenset[int]
    lines: frozenset[int]

    def kind(self, cell: int) -> str:
        """The mark under a cell: "bar", "line" or ""."""
        return "bar" if cell in self.bars else "line" if cell in self.lines else ""


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
    bars: dict[str, set[int]] = defaultdict(set)
    joined: dict[str, set[int]] = defaultdict(set)
    labels: dict[str, str] = {}
    for mention in read_fragments(doc, key):
        id_ = mention.kb_id or mention.label
        labels.setdefault(id_, mention.label)
        for start, end in mention.fragments:
            bars[id_].update(range(2 * start, 2 * end - 1))
        joined[id_].update(range(2 * mention.fragments[0][0], 2 * mention.fragments[-1][1] - 1))
    rows = []
    for number, id_ in enumerate(sorted(bars, key=lambda id_: (min(bars[id_]), max(bars[id_]), id_))):
        entity = known.get(id_, {})
        name = str(entity.get("name") or labels[id_] or id_)
        details = [id_] if id_ and id_ != name else []
        if entity.get("score") is not None:
            details.append(f"{float(entity['score']):.2f}")
        lines = frozenset(joined[id_] - bars[id_])
        rows.append(DrawnEntity(name, " · ".join(details), number % len(LIGHT), frozenset(bars[id_]), lines))
    return rows


def cell_texts(doc: Doc) -> list[str]:
    """The text of each cell, "" for a missing space. White space is one space."""
    cells = []
    for token in doc:
        cells.append(" " if token.is_space else token.text)
        cells.append(" " if token.whitespace_ else "")
    return cells

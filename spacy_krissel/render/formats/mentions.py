"""Linked mentions as the formats of other tools want them."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ...mentions.gold_mentions import document_id
from ..links import mention_dicts

# Ends a line or a cell for some reader.
_BREAKS = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class Linked(NamedTuple):
    """A mention, characters `start` to `end` of its doc. id: of its entity; "" where it has none. name, score,
    confidence: the entity's, where they are known. candidates: as `span._.krissel_candidates` has them."""

    start: int
    end: int
    text: str
    label: str
    id: str
    name: str
    score: float | None
    confidence: float | None
    candidates: list[dict[str, Any]]

    @classmethod
    def of(cls, mention: dict[str, Any]) -> "Linked":
        """mention: as in `mention_dicts`."""
        candidates, id_ = [*mention["candidates"]], mention["kb_id"]
        best: dict[str, Any] = next((each for each in candidates if each["id"] == id_), {})
        place = (mention["start"], mention["end"], mention["text"], mention["label"])
        return cls(*place, id_, best.get("name", ""), best.get("score"), best.get("confidence"), candidates)


def linked_mentions(doc: Doc, spans_key: str) -> Iterator[Linked]:
    yield from map(Linked.of, mention_dicts(doc, spans_key))


def flat_text(text: str) -> str:
    """`text` on one line without tabs, each character in its place."""
    return _BREAKS.sub(" ", text)


class FileNames:
    """A name for each doc: its id, and where another has that, a number behind it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: Counter[str] = Counter()

    def __call__(self, doc: Doc) -> str:
        name = wanted = short_id(doc)
        while name in self._taken:
            self._last[wanted] += 1
            name = f"{wanted}_{self._last[wanted] + 1}"
        self._taken.add(name)
        return name


def short_id(doc: Doc) -> str:
    """An id of a doc for files and columns: letters, digits, points, dashes; others are underscores."""
    return re.sub(r"[^\w.-]", "_", document_id(doc))


def short_facts(**facts: object) -> str:
    """`id=MESH:D006073;score=0.75`: those that are not empty, with `%` and `;` in them percent-encoded."""
    shown = {name: str(fact).replace("%", "%25").replace(";", "%3B") for name, fact in facts.items()}
    return ";".join(f"{name}={fact}" for name, fact in shown.items() if facts[name] not in ("", None))

"""Mentions with links, as input of the writers of other tools' formats."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ...kb.candidates import matched_name
from ...mentions.gold_mentions import document_id
from ..links import whole_mentions

# Characters that end a line or a cell for some reader.
_BREAKS = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class LinkedMention(NamedTuple):
    """A mention, characters `start` to `end` of its doc. id: of its entity; "" without one. name,
    match, score, confidence: the entity's, if known. matched_name: the name of the entity that the
    mention matches. candidates: as in `span._.krissel_candidates`. fragments: (start, end) of each
    part of a discontinuous mention, one for others."""

    start: int
    end: int
    text: str
    label: str
    id: str
    name: str
    match: str
    matched_name: str
    score: float | None
    confidence: float | None
    candidates: list[dict[str, Any]]
    fragments: tuple[tuple[int, int], ...]

    @property
    def texts(self) -> list[str]:
        """The text of each fragment."""
        return [self.text[start - self.start : end - self.start] for start, end in self.fragments]

    @classmethod
    def of(cls, mention: dict[str, Any]) -> "LinkedMention":
        """Make a linked mention from a dictionary of `whole_mentions`."""
        candidates, id_ = [*mention["candidates"]], mention["kb_id"]
        best: dict[str, Any] = next((each for each in candidates if each["id"] == id_), {})
        span = (mention["start"], mention["end"], mention["text"], mention["label"])
        name = matched_name(best, mention["text"]) if best else ""
        return cls(
            *span,
            id_,
            best.get("name", ""),
            best.get("match", ""),
            name,
            best.get("score"),
            best.get("confidence"),
            candidates,
            tuple(map(tuple, mention.get("fragments", [span[:2]]))),
        )


def linked_mentions(doc: Doc, spans_key: str) -> Iterator[LinkedMention]:
    yield from map(LinkedMention.of, whole_mentions(doc, spans_key))


def flat_text(text: str) -> str:
    """Return `text` on one line without tabs, with the same offsets."""
    return _BREAKS.sub(" ", text)


class FileNames:
    """Unique names for docs: the id, followed by a number if another doc has that id."""

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
    """Return an id of a doc for files and columns: letters, digits, points, dashes; others become
    underscores."""
    return re.sub(r"[^\w.-]", "_", document_id(doc))


def short_facts(**facts: object) -> str:
    """Return `id=MESH:D006073;score=0.75` for the values that are not empty, with `%` and `;`
    percent-encoded."""
    shown = {
        name: str(fact).replace("%", "%25").replace(";", "%3B") for name, fact in facts.items()
    }
    return ";".join(
        f"{name}={fact}" for name, fact in shown.items() if facts[name] not in ("", None)
    )

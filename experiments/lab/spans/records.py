"""One evaluated pair of a text and an entity that it speaks of: its tokens and its rank, whatever system said them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from spacy_krissel.util.atomic import atomic_file
from spacy_krissel.util.disk import coded_io

from ..errors import Errors, KrisselError

# (start, end) in tokens, end exclusive, in order; no two touch.
Pieces = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class SpanRecord:
    """A text, an entity that is in it, and what a system said of the two.

    doc, entity: the document's id and the entity's primary id.
    gold: the pieces of all gold mentions of the entity in the text, joined; None where the corpus has none, and then
        the pair counts for linking only.
    predicted: the pieces that the system found, `()` for none; None when it is one that gives no spans.
    rank: the place of the entity among all that were scored, from 1; None when it was not among them.
    seen: training showed the entity; None when that is not known.
    disjoint: any gold mention of the entity is in several pieces; None without gold pieces.
    ignored: the tokens of `gold` and `predicted` that are stop words, punctuation or white space.
    """

    doc: str
    entity: str
    gold: Pieces | None = None
    predicted: Pieces | None = None
    rank: int | None = None
    seen: bool | None = None
    disjoint: bool | None = None
    ignored: tuple[int, ...] = ()


def tokens_of(pieces: Pieces | None) -> frozenset[int]:
    """The tokens that pieces cover; none for None."""
    return frozenset(i for start, end in pieces or () for i in range(start, end))


def pair_keys(records: Iterable[SpanRecord]) -> Iterator[tuple[str, str, int]]:
    """Document, entity and occurrence of each record: what the same pair has in common in two lists."""
    seen: dict[tuple[str, str], int] = {}
    for record in records:
        pair = (record.doc, record.entity)
        seen[pair] = seen.get(pair, -1) + 1
        yield (*pair, seen[pair])


def write_span_records(records: Iterable[SpanRecord], path: str | Path) -> None:
    """Write records as JSON lines, to compare a later system with this one."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf8") as file_:
        for record in records:
            file_.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


def read_span_records(path: str | Path) -> list[SpanRecord]:
    """Read what `write_span_records` wrote.

    Raises KrisselError K001 (no such file) and K731 (a line is not a record; names file and line).
    """
    path = Path(path)
    if not path.is_file():
        wanted = {"what": "span records", "expected": "a .spans.jsonl file", "make": "evaluate_spans"}
        raise KrisselError(Errors.K001.format(path=path, **wanted))
    records = []
    with coded_io(path), path.open(encoding="utf8", errors="replace") as file_:
        for number, line in enumerate(file_, start=1):
            try:
                records.append(_record(json.loads(line)))
            except (ValueError, TypeError, RecursionError) as error:
                raise KrisselError(Errors.K731.format(path=path, line=number, problem=error)) from None
    return records


def _record(values: Any) -> SpanRecord:
    """Raises ValueError or TypeError for what is no record."""
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(SpanRecord)}:
        raise ValueError("its fields are others")
    if not (isinstance(values["doc"], str) and isinstance(values["entity"], str)):
        raise ValueError("'doc' and 'entity' are not both text")
    if values["rank"] is not None and (type(values["rank"]) is not int or values["rank"] < 1):
        raise ValueError("'rank' is not a number from 1 on")
    for flag in ("seen", "disjoint"):
        if values[flag] is not None and type(values[flag]) is not bool:
            raise ValueError(f"'{flag}' is not true, false or null")
    pieces = {name: _pieces(values[name]) for name in ("gold", "predicted")}
    return SpanRecord(**{**values, **pieces, "ignored": tuple(int(i) for i in values["ignored"])})


def _pieces(value: Any) -> Pieces | None:
    if value is None:
        return None
    pieces = tuple((int(start), int(end)) for start, end in value)
    if any(not 0 <= start < end for start, end in pieces):
        raise ValueError("a piece is not a start and a later end")
    return pieces

"""Link records: one per evaluated mention, the same for pipelines and baselines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..errors import Errors, KrisselError
from ..util.atomic import atomic_file
from ..util.disk import coded_io


@dataclass(slots=True)
class LinkRecord:
    """A mention, its gold ids and a system's answer.

    doc, start, end: the document's id and character offsets.
    gold: primary ids, several for a composite mention (any of them is correct), `("NIL",)` for a
        mention without a concept in the ontology, empty for a predicted mention without a gold
        mention.
    ranked, scores: candidate ids, best first, and their scores.
    ties: the ids that share the top score, empty if there is only one.
    prediction: an id, `"NIL"`, or `""` without an answer.
    prototype, prototype_surface, prototype_kind: the winning prototype as a line of text, its
        surface form, and its kind ("name", "mention", "gold", "reference", "replaced", "class").
    left, right: context, for display.
    confidence: of the best candidate, linked or not; None if the linker computes none.
    found: whether the system was given this mention or found it; False counts as missing.
    """

    doc: str
    start: int
    end: int
    text: str
    label: str
    gold: tuple[str, ...]
    ranked: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ties: list[str] = field(default_factory=list)
    prediction: str = ""
    prototype: str = ""
    prototype_surface: str = ""
    prototype_kind: str = ""
    left: str = ""
    right: str = ""
    confidence: float | None = None
    found: bool = True

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")


def counted(records: Iterable[LinkRecord]) -> list[LinkRecord]:
    """Return the records of gold mentions, without predicted mentions that match no gold
    mention."""
    return [record for record in records if record.gold]


def record_keys(records: Iterable[LinkRecord]) -> Iterator[tuple[str, int, int, int]]:
    """Yield document, offsets and occurrence of each record, which identify a mention in two
    lists."""
    seen: dict[tuple[str, int, int], int] = {}
    for record in records:
        span = (record.doc, record.start, record.end)
        seen[span] = seen.get(span, -1) + 1
        yield (*span, seen[span])


def write_records(records: Iterable[Any], path: str | Path) -> None:
    """Write records, any dataclass, as JSON lines."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf8") as file_:
        for record in records:
            file_.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


def read_records(path: str | Path) -> list[LinkRecord]:
    """Read the records that `write_records` wrote.

    Raises KrisselError K001 (no such file) and K704 (a line is not a record; names file and line).
    """
    path = Path(path)
    if not path.is_file():
        wanted = {
            "what": "link records",
            "expected": "a .links.jsonl file",
            "make": "python -m spacy krissel evaluate",
        }
        raise KrisselError(Errors.K001.format(path=path, **wanted))
    record = TypeAdapter(LinkRecord)
    records = []
    with coded_io(path), path.open("rb") as file_:
        for number, line in enumerate(file_, start=1):
            try:
                records.append(record.validate_json(line))
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                location = ".".join(map(str, first["loc"]))
                problem = f"'{location}': {first['msg']}" if location else first["msg"]
                raise KrisselError(
                    Errors.K704.format(path=path, line=number, problem=problem)
                ) from None
    return records

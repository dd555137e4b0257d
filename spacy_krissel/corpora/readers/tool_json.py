"""JSON of annotation tools and collections: Label Studio's export, Prodigy's answers, rows of
BigBIO.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError
from ...mentions.gold_mentions import hash_of
from ...util.inputs import JSON_CLOSING
from ..annotation import AnnotatedText, Mention
from ..files import has_surrogate, json_object, open_binary, read_records
from ..report import CorpusReport, reporting
from .bioc import BioCDocument

LABEL_STUDIO, PRODIGY, BIGBIO = (
    "a Label Studio export (JSON)",
    "Prodigy's answers",
    "rows of BigBIO's KB schema",
)
Json = dict[str, Any]


@reporting
def read_label_studio(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the tasks of a Label Studio export in JSON, with the labelling configuration of
    `render/formats/label_studio.py`. A region's label is its first one, and its ids are in its text
    area, joined by `|`.

    The last annotation of a task that was not cancelled counts. A task without one is counted in
    `unanswered` and left out, even if it has predictions. The file is held in memory, and "lines"
    in messages count tasks.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K204 (no task), K246
    (no list of tasks).
    """
    with open_binary(path, LABEL_STUDIO) as file_:
        raw = file_.read_all()
    try:
        tasks = json.loads(raw.decode("utf-8-sig"))
        if not isinstance(tasks, list):
            raise ValueError("it is not a list of tasks")
    except (ValueError, RecursionError) as error:
        raise KrisselError(Errors.K246.format(path=path, problem=str(error)[:80])) from None
    if not tasks:
        raise KrisselError(
            Errors.K204.format(path=path, what="task", line=1, expected=LABEL_STUDIO)
        )
    for number, task in enumerate(tasks, 1):
        try:
            data, results = _answered(task)
            if results is None:
                report.count("unanswered")
                continue
            text = _text(data, "text")
            id_ = str(data.get("doc") or task.get("id") or f"{Path(path).name}:{number}")
            yield AnnotatedText(id_, text, list(_regions(results, number)), str(path), number)
        except (ValueError, RecursionError) as error:
            report.record_issue("bad_records", str(path), number, str(error))


def _answered(task: Any) -> tuple[Json, list[Any] | None]:
    """Return the data of a task, and the results of the annotation that counts. Raises ValueError
    for another form.
    """
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise ValueError('no task with "data"')
    annotations = task.get("annotations") or []
    if not isinstance(annotations, list):
        raise ValueError('"annotations" is not a list')
    kept = [
        each for each in annotations if isinstance(each, dict) and not each.get("was_cancelled")
    ]
    if not kept:
        return task["data"], None
    results = kept[-1].get("result")
    if not isinstance(results, list):
        raise ValueError('an annotation without "result"')
    return task["data"], results


def _regions(results: list[Any], number: int) -> Iterator[Mention]:
    """Parse the regions. Raises ValueError for another form."""
    offsets: dict[str, tuple[int, int, str]] = {}
    labels: dict[str, str] = {}
    ids: dict[str, str] = {}
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        if (
            not isinstance(value, dict)
            or type(value.get("start")) is not int
            or type(value.get("end")) is not int
        ):
            # Skip choices for the whole text, and relations.
            continue
        region = str(result.get("id"))
        if result.get("type") == "textarea":
            texts = value.get("text")
            given = [texts] if isinstance(texts, str) else _texts(texts)
            ids[region] = "|".join(each.strip() for each in given if each.strip())
            offsets.setdefault(region, (value["start"], value["end"], ""))
        elif result.get("type") == "labels":
            labels[region] = next(iter(_texts(value.get("labels"))), "")
            text = value.get("text")
            offsets[region] = (value["start"], value["end"], text if isinstance(text, str) else "")
    for region, (start, end, text) in offsets.items():
        yield Mention(((start, end),), text, labels.get(region, ""), ids.get(region, ""), number)


@reporting
def read_prodigy(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the texts of Prodigy's answers, JSON lines as written by `prodigy db-out`.

    The mentions of an accepted task are its "spans". If it has options, the chosen ones are the ids
    of its only span, joined by `|`. Tasks with the same text make one document with `meta.doc` as
    id. Answers other than "accept" are counted in `unanswered` and left out. The answers are held
    in memory.

    report: counts `bad_records`, lines of another form.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no answer).
    """
    documents: dict[tuple[str, str], AnnotatedText] = {}

    def answer(line: str, number: int) -> None:
        task = json_object(line)
        text, meta = _text(task, "text"), task.get("meta")
        if task.get("answer") != "accept":
            report.count("unanswered")
            return
        id_ = str(meta.get("doc") or "") if isinstance(meta, dict) else ""
        mentions = _spans(task, text, number)
        new = AnnotatedText(id_ or hash_of(text), text, [], str(path), number)
        documents.setdefault((id_, text), new).mentions += mentions

    for _ in read_records(
        path, answer, report, expected=PRODIGY, what="answer", closing=JSON_CLOSING
    ):
        pass
    yield from documents.values()


def _spans(task: Json, text: str, number: int) -> list[Mention]:
    """Parse the spans of a task. Raises ValueError for another form."""
    spans, chosen = task.get("spans") or [], task.get("accept")
    if not isinstance(spans, list) or not all(map(_is_span, spans)):
        raise ValueError('"spans" is not a list of objects with whole numbers "start" and "end"')
    ids = ""
    if task.get("options"):
        if len(spans) != 1:
            raise ValueError("options for several spans, or for none")
        ids = "|".join(_texts(chosen))
    return [
        Mention(
            ((span["start"], span["end"]),),
            text[span["start"] : span["end"]],
            str(span.get("label") or ""),
            ids or str(span.get("kb_id") or ""),
            number,
        )
        for span in spans
    ]


def _is_span(span: Any) -> bool:
    return (
        isinstance(span, dict) and type(span.get("start")) is int and type(span.get("end")) is int
    )


@reporting
def read_bigbio(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield rows of BigBIO's knowledge base schema from JSON lines, as written by
    `datasets.Dataset.to_json`.

    The text consists of the passages at their offsets, with gaps filled with spaces. An id is
    `db_name:db_id`, or `db_id` alone if it includes the name or there is none; several are joined
    by `|`.

    report: counts `bad_records`, lines of another form.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no row).
    """

    def row(line: str, number: int) -> AnnotatedText:
        record = json_object(line)
        if has_surrogate(json.dumps(record, ensure_ascii=False)):
            raise ValueError("a lone surrogate")
        found = BioCDocument(str(path), number, report)
        found.annotated.id = str(record.get("document_id") or record.get("id") or "")
        for passage in _objects(record.get("passages")):
            offsets = _offsets(passage.get("offsets"))
            found.units += [
                (start, text)
                for (start, _), text in zip(offsets, _texts(passage.get("text")), strict=False)
            ]
        for entity in _objects(record.get("entities")):
            ids = "|".join(map(_normalized, _objects(entity.get("normalized"))))
            text, label = " ".join(_texts(entity.get("text"))), str(entity.get("type") or "")
            found.annotated.mentions.append(
                Mention(_offsets(entity.get("offsets")), text, label, ids, number)
            )
        return found.finished()

    yield from read_records(path, row, report, expected=BIGBIO, what="row", closing=JSON_CLOSING)


def _normalized(record: Json) -> str:
    name, id_ = str(record.get("db_name") or ""), str(record.get("db_id") or "")
    return id_ if not name or id_.startswith(f"{name}:") else f"{name}:{id_}"


def _offsets(offsets: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(offsets, list) or not all(
        isinstance(each, list) and len(each) == 2 and all(type(i) is int and i >= 0 for i in each)
        for each in offsets
    ):
        raise ValueError('"offsets" is not a list of pairs of whole numbers')
    return tuple((start, end) for start, end in offsets)


def _objects(value: Any) -> list[Json]:
    if value is not None and not (
        isinstance(value, list) and all(isinstance(each, dict) for each in value)
    ):
        raise ValueError("a list holds something other than objects")
    return value or []


def _texts(value: Any) -> list[str]:
    if value is not None and not (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    ):
        raise ValueError("a list holds something other than texts")
    return value or []


def _text(record: Json, key: str) -> str:
    """Return a text. Raises ValueError for another value, or a lone surrogate."""
    text = record.get(key)
    if (
        not isinstance(text, str)
        or not text.strip()
        or has_surrogate(json.dumps(record, ensure_ascii=False))
    ):
        raise ValueError(f'no "{key}", or a lone surrogate')
    return text

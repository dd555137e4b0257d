"""Label Studio's tasks with predictions; `read_label_studio` reads its export.

The labelling configuration is `CONFIG`: regions of text with a label, and a field for the id of each.
"""

import json
from collections.abc import Iterable
from typing import IO, Any

from spacy.tokens import Doc

from ... import __version__
from ...mentions.gold_mentions import document_id
from .mentions import Linked, linked_mentions

# Of the tags in `CONFIG`.
LABELS, ENTITY, TEXT = "label", "entity", "text"
# Labels are added in the project's settings, or by those that the predictions have.
CONFIG = f"""<View>
  <Labels name="{LABELS}" toName="{TEXT}" allowEmpty="true"/>
  <Text name="{TEXT}" value="$text"/>
  <TextArea name="{ENTITY}" toName="{TEXT}" perRegion="true" editable="true" maxSubmissions="1" placeholder="id"/>
</View>
"""
# Candidates that are shown beside a region.
SHOWN = 5


def write_label_studio(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """A JSON list of tasks: the text as `data.text`, the doc's id as `data.doc`."""
    file_.write(b"[")
    for number, doc in enumerate(docs):
        data = {"text": doc.text, "doc": document_id(doc)}
        task = json.dumps({"data": data, "predictions": [prediction(doc, key)]}, ensure_ascii=False)
        file_.write((",\n" if number else "\n").encode() + task.encode("utf8", "replace"))
    file_.write(b"\n]\n")


def prediction(doc: Doc, key: str) -> dict[str, Any]:
    """Two results a mention, of one region: its label, and the id of its entity."""
    results = [result for number, each in enumerate(linked_mentions(doc, key)) for result in _region(number, each)]
    return {"model_version": f"spacy-krissel {__version__}", "result": results}


def _region(number: int, each: Linked) -> Iterable[dict[str, Any]]:
    place = {"start": each.start, "end": each.end, "text": each.text}
    shown = [f"{other['id']} {other['name']} {other['score']:.3f}" for other in each.candidates[:SHOWN]]
    region = {"id": f"m{number}", "to_name": TEXT, "meta": {"text": shown}}
    score = each.score if each.confidence is None else each.confidence
    labels = {**place, "labels": [each.label] if each.label else []}
    yield {**region, "from_name": LABELS, "type": "labels", "value": labels, "score": score}
    if each.id:
        yield {**region, "from_name": ENTITY, "type": "textarea", "value": {**place, "text": [each.id]}, "score": score}

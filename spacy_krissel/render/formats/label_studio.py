"""Tasks of Label Studio with predictions; `read_label_studio` reads its export.

The labelling configuration is `CONFIG`: regions of text with a label, and a field for the id of
each.
"""

import json
from collections.abc import Iterable
from typing import IO, Any

from spacy.tokens import Doc

from ...about import __version__
from ...mentions.gold_mentions import document_id
from ..links import candidate_text
from .mentions import LinkedMention, linked_mentions

# Names of the tags in `CONFIG`.
LABELS, ENTITY, TEXT = "label", "entity", "text"
# Labels are added in the project's settings, or taken from the predictions.
CONFIG = f"""<View>
  <Labels name="{LABELS}" toName="{TEXT}" allowEmpty="true"/>
  <Text name="{TEXT}" value="$text"/>
  <TextArea name="{ENTITY}" toName="{TEXT}" perRegion="true" editable="true" maxSubmissions="1" placeholder="id"/>
</View>
"""  # noqa: E501
MODEL = f"spacy-krissel {__version__}"
# Number of candidates shown next to a region.
MAX_SHOWN = 5


def write_label_studio(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write a JSON list of tasks: the text as `data.text`, the doc's id as `data.doc`. For Label
    Studio's *Import*, with predictions; `krissel convert` reads its JSON export."""
    file_.write(b"[")
    for number, doc in enumerate(docs):
        data = {"text": doc.text, "doc": document_id(doc)}
        task = json.dumps(
            {"data": data, "predictions": [prediction(linked_mentions(doc, key))]},
            ensure_ascii=False,
        )
        file_.write((",\n" if number else "\n").encode() + task.encode("utf8", "replace"))
    file_.write(b"\n]\n")


def prediction(
    mentions: Iterable[LinkedMention],
    *,
    labels: str = LABELS,
    entity: str = ENTITY,
    text: str = TEXT,
) -> dict[str, Any]:
    """Return two results per mention, for one region: its label, and the id of its entity. labels,
    entity, text: names of the tags in the labelling configuration; an empty name omits the results
    of that kind."""
    results = []
    for number, each in enumerate(mentions):
        of_label, *of_entity = _region(number, each)
        results += [{**of_label, "from_name": labels, "to_name": text}] if labels else []
        results += [
            {**result, "from_name": entity, "to_name": text} for result in of_entity if entity
        ]
    return {"model_version": MODEL, "result": results}


def _region(number: int, each: LinkedMention) -> Iterable[dict[str, Any]]:
    span = {"start": each.start, "end": each.end, "text": each.text}
    shown = [*map(candidate_text, each.candidates[:MAX_SHOWN])]
    region = {"id": f"m{number}", "meta": {"text": shown}}
    score = each.score if each.confidence is None else each.confidence
    labels = {**span, "labels": [each.label] if each.label else []}
    yield {**region, "type": "labels", "value": labels, "score": score}
    if each.id:
        yield {**region, "type": "textarea", "value": {**span, "text": [each.id]}, "score": score}

"""Tasks of Prodigy with options; `read_prodigy` reads its answers."""

import json
from collections.abc import Iterable
from typing import IO, Any

from spacy.tokens import Doc

from ...mentions.annotations import NIL
from ...mentions.gold_mentions import document_id
from .mentions import LinkedMention, linked_mentions

# Number of candidates offered.
MAX_OPTIONS = 10
NONE = {"id": NIL, "text": "none of these"}


def write_prodigy(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one task per mention for `choice`: the candidates, best first, with their matches and
    scores, and one for none. The linked entity is preselected. For `prodigy mark DATASET
    links.prodigy.jsonl --view-id choice`; `krissel convert` reads the output of `prodigy
    db-out`."""
    for doc in docs:
        for each in linked_mentions(doc, key):
            file_.write(
                (json.dumps(_task(doc, each), ensure_ascii=False) + "\n").encode("utf8", "replace")
            )


def _task(doc: Doc, each: LinkedMention) -> dict[str, Any]:
    first = each.candidates[:MAX_OPTIONS]
    # The link may differ from the candidates, by a threshold or another component.
    if each.id and each.id not in [candidate["id"] for candidate in first]:
        first = [{"id": each.id, "name": each.name, "score": each.score}, *first[: MAX_OPTIONS - 1]]
    options = [
        {
            "id": option["id"],
            "text": f"{option['name']} ({option['id']})",
            "meta": {key: option[key] for key in ("match", "score") if key in option},
        }
        for option in first
    ]
    return {
        "text": doc.text,
        "spans": [{"start": each.start, "end": each.end, "label": each.label}],
        "options": [*options, NONE],
        "accept": [each.id or NIL],
        "meta": {
            "doc": document_id(doc),
            "match": each.match,
            "matched_name": each.matched_name,
            "score": each.score,
            "confidence": each.confidence,
        },
    }

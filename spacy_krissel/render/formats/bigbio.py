"""Rows of BigBIO's knowledge base schema, as `datasets` reads JSON lines; `read_bigbio` reads them
back."""

import json
from collections.abc import Iterable
from typing import IO

from spacy.tokens import Doc

from ...mentions.gold_mentions import document_id
from .mentions import linked_mentions


def write_bigbio(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one passage per text. `normalized` has the entity, its database before the colon of its
    id, and in addition to BigBIO's keys `match`, `matched_name`, `score` and `confidence`, if
    known. For Hugging Face `datasets`; `krissel convert` reads the file."""
    for number, doc in enumerate(docs):
        entities = []
        for i, each in enumerate(linked_mentions(doc, key)):
            db_name, _, db_id = each.id.rpartition(":")
            normalized = {
                "db_name": db_name,
                "db_id": db_id,
                "match": each.match or None,
                "matched_name": each.matched_name or None,
                "score": each.score,
                "confidence": each.confidence,
            }
            entities.append(
                {
                    "id": f"{number}_T{i}",
                    "type": each.label,
                    "text": each.texts,
                    "offsets": [*map(list, each.fragments)],
                    "normalized": [normalized] if each.id else [],
                }
            )
        passage = {
            "id": f"{number}_P0",
            "type": "text",
            "text": [doc.text],
            "offsets": [[0, len(doc.text)]],
        }
        row = {
            "id": str(number),
            "document_id": document_id(doc),
            "passages": [passage],
            "entities": entities,
        }
        file_.write(
            (json.dumps({**row, "events": [], "coreferences": [], "relations": []}) + "\n").encode()
        )

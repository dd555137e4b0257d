"""Table NOTE_NLP of OMOP's Common Data Model 5.4, as CSV."""

import csv
import re
from collections.abc import Iterable
from datetime import date
from itertools import count
from types import SimpleNamespace
from typing import IO

from spacy.tokens import Doc

from ...about import __version__
from ...mentions.gold_mentions import document_id
from .mentions import LinkedMention, flat_text, linked_mentions, short_facts

# In the order of the model's own script, for databases that rely on the order.
COLUMNS = (
    *(
        "note_nlp_id",
        "note_id",
        "section_concept_id",
        "snippet",
        "offset",
        "lexical_variant",
        "note_nlp_concept_id",
    ),
    *("note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime"),
    *("term_exists", "term_temporal", "term_modifiers"),
)
# Number of characters of a snippet and of a lexical variant.
WIDTH = 250
_INTEGER = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)
# Numbers of docs without one start above those, and are still integers of 32 bits.
FIRST = 1_000_000_000
# A bare number may also be an id of SNOMED CT, RxNorm or NCBI.
_CONCEPT = re.compile(r"OMOP:(\d{1,10})", re.ASCII | re.IGNORECASE)


def write_note_nlp(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one row per mention. `note_id` is the doc's id if that is a number of up to nine
    digits. Otherwise it is 1,000,000,000 plus the doc's index in the file, from 0, and the id is
    among `term_modifiers`, such as
    `doc=PMID:1;end=27;label=Disease;id=MESH:D006073;match=synonym;matched_name=Gouts;score=0.75`.
    `note_nlp_concept_id` is the number of ids with the prefix OMOP, else 0. Columns of unknown
    values are empty."""
    # `writerow` returns what `write` returns.
    table = csv.writer(
        SimpleNamespace(write=lambda row: row.encode("utf8", "replace")), lineterminator="\n"
    )
    file_.write(table.writerow(COLUMNS))
    numbers, system, day = count(1), f"spacy-krissel {__version__}", date.today().isoformat()
    for number, doc in enumerate(docs, start=FIRST):
        id_ = document_id(doc)
        note, named = (int(id_), "") if _INTEGER.fullmatch(id_) else (number, id_)
        # A quoted NUL ends some readers.
        text = flat_text(doc.text).replace("\0", " ")
        for each in linked_mentions(doc, key):
            concept = _CONCEPT.fullmatch(each.id)
            facts = short_facts(
                doc=named,
                end=each.end,
                label=each.label,
                id=each.id,
                match=each.match,
                matched_name=each.matched_name,
                score=each.score,
                confidence=each.confidence,
            )
            texts = (_snippet(text, each), each.start, text[each.start : each.end][:WIDTH])
            found = (int(concept[1]) if concept else 0, 0)
            row = (
                next(numbers),
                note,
                "",
                *texts,
                *found,
                system,
                day,
                "",
                "",
                "",
                flat_text(facts),
            )
            file_.write(table.writerow(row))


def _snippet(text: str, each: LinkedMention) -> str:
    """Return the mention with equal context on its left and right."""
    start = max(0, min(each.start, (each.start + each.end - WIDTH) // 2))
    return text[start : start + WIDTH]

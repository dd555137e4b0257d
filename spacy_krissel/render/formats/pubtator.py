"""PubTator, as PubMed's annotation tools read it; `read_pubtator` reads it back."""

from collections.abc import Iterable
from typing import IO

from spacy.tokens import Doc

from .mentions import flat_text, linked_mentions, short_id


def write_pubtator(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write the first line of a text as its title and the rest as its abstract, on one line, with
    unchanged offsets. A mention without an entity has the id `-`. The format has no field for
    scores or matches. For PubTator, TeamTat and TaggerOne; `krissel convert` reads the file."""
    for doc in docs:
        id_, text = short_id(doc), doc.text
        title, _, abstract = text.partition("\n")
        rows = [f"{id_}|t|{flat_text(title)}", f"{id_}|a|{flat_text(abstract)}"]
        for each in linked_mentions(doc, key):
            cells = (
                id_,
                str(each.start),
                str(each.end),
                flat_text(each.text),
                flat_text(each.label),
                each.id or "-",
            )
            rows.append("\t".join(cells))
        file_.write(("\n".join(rows) + "\n\n").encode("utf8"))

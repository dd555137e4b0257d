"""MEDIC, CTD's merged disease vocabulary, in lines `ID|alternative ids||preferred name|synonyms`."""

from html import unescape
from pathlib import Path
from typing import Iterator, List, Sequence, Union

from ..entity import Entity
from .records import open_records, unique


def read_medic(path: Union[str, Path], *, types: Sequence[str] = ("Disease",)) -> Iterator[Entity]:
    """Read a MEDIC file, a concept a line.

    Ids stay as they stand: MeSH's without their prefix, OMIM's as bare numbers. Since corpora write the latter with
    their prefix, `OMIM:145250` becomes an alternative id of whatever bears the number 145250.

    types: what every concept of a disease vocabulary is.
    Raises KrisselError K101, K102, K103; a line that cannot be used is counted (KW101).
    """
    with open_records(path, "medic", "lines `ID|alternative ids||preferred name|synonyms`") as records:
        for line in records.lines():
            if not line.strip():
                continue
            head, bars, tail = line.partition("||")
            ids = unique(head.split("|"))
            # The published file writes apostrophes and accents as HTML does ("Alzheimer&apos;s").
            names = unique(map(unescape, tail.split("|")))
            if not bars:
                records.reject("has no '||' between ids and names")
            elif not ids or not head.split("|")[0].strip():
                records.reject("has no id before '||'")
            elif not names or not tail.split("|")[0].strip():
                records.reject("has no preferred name after '||'")
            else:
                records.accept()
                yield Entity(
                    id=ids[0],
                    name=names[0],
                    aliases=names[1:],
                    types=tuple(types),
                    source="MEDIC",
                    alt_ids=unique(_with_prefixes(ids), without=ids[0]),
                )


def _with_prefixes(ids: Sequence[str]) -> List[str]:
    spelt = []
    for id_ in ids:
        spelt.append(id_)
        if id_.isdecimal():
            spelt.append(f"OMIM:{id_}")
    return spelt

"""Vocabularies known by name (`known.csv`): where their publishers keep them, and how to read
them."""

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary at its publisher; missing values are "".

    address: of its file, with `{year}` for that of the release; with a `command`, of the page to
        get it from.
    format: a name in `readers.READERS`. options: of the reader, such as `id_column=hgnc_id`, joined
        by "|".
    ids: prefix of the ids of its own entities; imported ones are left out.
    licence, terms: its name, and its address. size: approximate size of the download.
    members: patterns of the archive's files to keep, in lower case, joined by "|"; the first is
        read.
    checksum: suffix of the address of a file with the MD5 sum.
    command: how to read it after unpacking, if it needs a licence or a login.
    """

    name: str
    title: str
    address: str
    format: str
    ids: str
    licence: str
    terms: str
    size: str
    members: str
    checksum: str
    options: str
    command: str


with Path(__file__).with_name("known.csv").open(encoding="utf8", newline="") as table:
    VOCABULARIES = {row["name"]: Vocabulary(**row) for row in csv.DictReader(table)}

"""The vocabularies that are known by name (`known.csv`): where their publishers keep them, and how they are read."""

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary at its publisher; what it does not have is "".

    address: of its file, `{year}` being that of the release; or, with a `command`, of the page where to get it.
    format: a name in `readers.READERS`. options: of the reader, such as `id_column=hgnc_id`, joined by "|".
    ids: how the ids of its own entities begin; others, which it imports, are left out.
    licence, terms: its name, and its address. size: of the download, about.
    members: patterns of the files of an archive that are kept, in small letters, joined by "|"; the first is read.
    checksum: what follows the address in that of a file with its MD5.
    command: how to read it when it is unpacked, where it needs a licence or a login.
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

"""brat: `.txt` and `.ann`, with normalisations; `read_brat` reads it back."""

import gzip
import io
import re
import tarfile
from collections.abc import Iterable
from typing import IO

from spacy.tokens import Doc

from .mentions import FileNames, flat_text, linked_mentions


def write_brat(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write a `.tar.gz` of two files per doc, named by its id. `N` names a mention's entity, and a
    note has its score, confidence, match and matched name. A mention that spans several lines has
    fragments, as a discontinuous one has. Unpack it into brat's data folder; `krissel convert`
    reads that folder, or its `.tar.gz`."""
    names = FileNames()
    # Without the time, so that the same docs give the same file.
    with (
        gzip.GzipFile(fileobj=file_, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for doc in docs:
            name = names(doc)
            for ending, content in ((".txt", doc.text), (".ann", _annotations(doc, key))):
                data = content.encode("utf8")
                info = tarfile.TarInfo(name + ending)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def _annotations(doc: Doc, key: str) -> str:
    rows = []
    for number, each in enumerate(linked_mentions(doc, key), start=1):
        lines = [
            (start + line.start(), start + line.end())
            for (start, _), text in zip(each.fragments, each.texts, strict=True)
            for line in re.finditer(r"[^\n]+", text)
        ]
        offsets = ";".join(f"{start} {end}" for start, end in lines)
        label = re.sub(r"\s+", "_", each.label) or "Mention"
        rows.append(f"T{number}\t{label} {offsets}\t{flat_text(' '.join(each.texts))}")
        if each.id:
            rows.append(f"N{number}\tReference T{number} {each.id}\t{flat_text(each.name)}")
        notes = [
            f"{name} {value:.4f}"
            for name in ("score", "confidence")
            if (value := getattr(each, name)) is not None
        ]
        named = f" {flat_text(each.matched_name)}" if each.matched_name else ""
        notes += [f"match {each.match}{named}"] if each.match else []
        if notes:
            rows.append(f"#{number}\tAnnotatorNotes T{number}\t{', '.join(notes)}")
    return "".join(f"{row}\n" for row in rows)

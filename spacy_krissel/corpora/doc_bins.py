"""Docs from `.spacy` files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, Iterator, Union

from ..errors import Errors, KrisselError

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab


def read_doc_bins(path: Union[str, Path], vocab: "Vocab") -> Iterator["Doc"]:
    """The docs of a `.spacy` file, or of all such files below a folder.

    Raises KrisselError K201 (no such file), K212 (a damaged file, or a folder without any).
    """
    from spacy.tokens import DocBin

    path = Path(path)
    if not path.exists():
        raise KrisselError(Errors.K201.format(path=path, expected="a .spacy file"))
    files = sorted(path.rglob("*.spacy")) if path.is_dir() else [path]
    if not files:
        raise KrisselError(Errors.K212.format(path=path, problem="the folder holds no .spacy file"))
    for file_ in files:
        try:
            docs = list(DocBin().from_disk(file_).get_docs(vocab))
        except Exception as error:  # a damaged file fails in zlib, msgpack, numpy or spaCy, wherever the damage is met
            raise KrisselError(Errors.K212.format(path=file_, problem=f"{type(error).__name__}: {error}")) from error
        yield from docs


def write_doc_bin(docs: Iterable["Doc"], path: Union[str, Path]) -> None:
    """Write docs with their user data as one `.spacy` file, aside and renamed when whole; its folder is made."""
    from spacy.tokens import DocBin

    path = Path(path)
    doc_bin = DocBin(store_user_data=True)
    for doc in docs:
        doc_bin.add(doc)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        doc_bin.to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)

"""Reading, splitting and writing of `.spacy` files."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ..errors import Errors, KrisselError
from ..mentions.gold_mentions import document_id
from ..util.atomic import atomic_file, check_file
from ..util.disk import coded_damage
from ..util.hashing import stable_hash
from ..util.limits import FILE, MIB
from ..util.settings import checked

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

# Text attributes of a token.
STRINGS: list[int | str] = [
    "ORTH",
    "NORM",
    "LEMMA",
    "TAG",
    "DEP",
    "MORPH",
    "ENT_TYPE",
    "ENT_ID",
    "ENT_KB_ID",
]
# Default for a corpus without a development split.
DEV_SHARE = 0.1
DevShare = Annotated[float, Field(ge=0, lt=1)]


def read_doc_bins(path: str | Path, vocab: "Vocab") -> Iterator["Doc"]:
    """Yield the docs of a `.spacy` file, or of all such files below a folder.

    Raises KrisselError K201 (no such file), K212 (a damaged file, or a folder without any), K055
    (it unpacks to more than the limit), K026 (the disk).
    """
    from spacy.tokens import DocBin

    path = Path(path)
    if not path.exists():
        raise KrisselError(Errors.K201.format(path=path, expected="a .spacy file"))
    files = sorted(path.rglob("*.spacy")) if path.is_dir() else [path]
    if not files:
        raise KrisselError(Errors.K212.format(path=path, problem="the folder holds no .spacy file"))
    for file_ in files:
        with coded_damage(file_, partial(_damaged, file_)):
            _check_size(file_)
            docs = list(DocBin().from_disk(file_).get_docs(vocab))
            for doc in docs:
                _look_up(doc)
        yield from docs


def _damaged(path: Path, problem: object) -> KrisselError:
    return KrisselError(
        Errors.K212.format(path=path, problem=f"{type(problem).__name__}: {problem}")
    )


def _check_size(path: Path) -> None:
    """Raise KrisselError K055 for a small file that unpacks to more than memory may hold, since
    spaCy unpacks it at once.
    """
    unpacked, packed, decompress = 0, path.stat().st_size, zlib.decompressobj()
    with path.open("rb") as file_:
        while block := file_.read(MIB):
            while block:
                unpacked += len(decompress.decompress(block, MIB))
                FILE.check_unpacked(unpacked, packed, path, "it")
                block = decompress.unconsumed_tail


def _look_up(doc: "Doc") -> None:
    """Look up strings and spans, which raises for a damaged doc; otherwise, a later access would
    fail.
    """
    for value in np.unique(doc.to_array(STRINGS)):
        doc.vocab.strings[value]
    for group in (doc.ents, *doc.spans.values()):
        for span in group:
            _ = span.label_, span.kb_id_, span.id_
    if not all(isinstance(label, str) for label in doc.cats):
        raise ValueError("a category is not text")


def write_doc_bin(docs: Iterable["Doc"], path: str | Path) -> None:
    """Write docs with their user data as one `.spacy` file, atomically; its folder is created.

    Raises KrisselError K026 before the first doc is read if the file cannot be written.
    """
    from spacy.tokens import DocBin

    check_file(path)
    doc_bin = DocBin(store_user_data=True)
    for doc in docs:
        doc_bin.add(doc)
    with atomic_file(path) as temporary:
        doc_bin.to_disk(temporary)


@checked
@dataclass(frozen=True)
class GoldSplit:
    """A fixed pseudo-random part of a corpus, chosen by hash of the document and equal on every
    machine.

    split: "train", "dev" (a `dev_share` of the documents), or "all"
    dev_share: fraction of the documents in dev
    seed: random seed
    purpose: splits for different purposes are independent, so that one can be split again with the
        same seed
    """

    split: Literal["train", "dev", "all"]
    dev_share: DevShare
    seed: int = 0
    purpose: str = ""

    def __call__(self, doc: "Doc") -> bool:
        """Return whether `doc` is in this split."""
        if self.split == "all":
            return True
        in_dev = stable_hash(self.seed, self.purpose + document_id(doc)) < self.dev_share * 2**64
        return in_dev == (self.split == "dev")

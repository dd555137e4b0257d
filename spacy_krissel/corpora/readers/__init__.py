"""Formats of gold corpora, one reader each.

To add a format: one module here with a reader, a function from a path to annotated texts; one line
in `_BUILT_IN`; one seed in tests/fuzz/seeds.py. The choices of `--format` and messages follow from
`READERS`. Plugins: CONTRIBUTING.md.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

from ...errors import Errors, KrisselError, wrong_setting
from ...util.plugins import Registry
from ...util.settings import OneOf
from ..annotation import AnnotatedText
from ..bundles import holds_suffixes, is_bundle
from ..files import open_binary
from . import brat, cas, knowtator, mention_tables, semeval
from .belb import read_belb, read_bioc_json
from .bioc import read_bioc
from .cas import read_cas
from .cometa import read_cometa
from .mention_tables import read_phrases
from .pubtator import read_pubtator
from .text_labels import read_text_labels
from .tool_json import read_bigbio, read_label_studio, read_prodigy
from .zeshel import read_zeshel

_BUILT_IN: dict[str, Callable[..., Iterator[AnnotatedText]]] = {
    "pubtator": read_pubtator,
    "bioc": read_bioc,
    "bioc-json": read_bioc_json,
    "belb": read_belb,
    "knowtator": knowtator.read_knowtator,
    "brat": brat.read_brat,
    "semeval": semeval.read_semeval,
    "share": partial(semeval.read_share_or_n2c2, labelled=True),
    "n2c2": partial(semeval.read_share_or_n2c2, labelled=False),
    "cometa-general": partial(read_cometa, ids="General"),
    "cometa-specific": partial(read_cometa, ids="Specific"),
    "linnaeus": mention_tables.read_linnaeus,
    "s800": mention_tables.read_s800,
    "bioid": mention_tables.read_bioid,
    "phrases": read_phrases,
    "zeshel": read_zeshel,
    "text-labels": read_text_labels,
    "label-studio": read_label_studio,
    "prodigy": read_prodigy,
    "bigbio": read_bigbio,
    "cas": read_cas,
}
READERS = Registry("krissel_corpus_readers", _BUILT_IN)
Format = Annotated[str, OneOf(lambda: chain(["auto"], READERS))]
# Annotations apart from their texts: how the names of their files end.
SUFFIXES = {
    knowtator.SUFFIX: "knowtator",
    brat.SUFFIX: "brat",
    semeval.SUFFIX: "semeval",
    semeval.SHARE_SUFFIX: "share",
    semeval.N2C2_SUFFIX: "n2c2",
}
_ENTITIES = re.compile(rb'"entities"\s*:')
_COLLECTION = re.compile(rb'"(?:documents|PubTator3)"\s*:\s*\[')
_DOCUMENT = re.compile(rb'"passages"\s*:\s*\[')
_ANNOTATIONS = re.compile(rb'"annotations"\s*:')
# Keys of BigBIO and BELB that precede passages.
_OTHER_JSON = re.compile(rb'"(?:document_id|annotations|metadata)"\s*:')
_ANSWERED = re.compile(rb'"(?:_input_hash|accept)"\s*:')
_PASSAGES = re.compile(rb'"document_id"\s*:.*?"passages"\s*:\s*\[', re.DOTALL)
# In UTF-16, a null byte follows.
_JSON_LIST = re.compile(rb"\[[\s\0]*(?:[{\]]|\Z)")
_KNOWTATOR = re.compile(rb"<annotations[\s/>]")


def check_documents(format: str, documents: str | Path | None) -> None:
    """Raise KrisselError K006 for documents that the format's reader does not take, or lacks."""
    taken = inspect.signature(READERS[format]).parameters.get("documents")
    if documents is not None and taken is None:
        expected = f"none for the format '{format}', whose files hold the texts"
    elif documents is None and taken is not None and taken.default is taken.empty:
        expected = f"a folder of documents for the format '{format}'"
    else:
        return
    raise wrong_setting("documents", documents, expected)


def detect_format(path: Path) -> str:
    """Detect the format of a corpus file from its first bytes. A line may be too long: BioC may be
    one line of gigabytes.

    Folders, archives and files of `SUFFIXES` are detected by name; COMETA, phrases and formats of
    plugins not at all.

    Raises KrisselError K201 (no file), K202, K211 (damaged), K228 (a folder or an archive of none
    or several kinds of `SUFFIXES`), K249 (no annotations in a known format).
    """
    if is_bundle(path):
        found = holds_suffixes(path, tuple(SUFFIXES))
        if len(found) != 1:
            names = " and ".join(found) or "none"
            raise KrisselError(
                Errors.K228.format(path=path, found=names, expected=" or ".join(SUFFIXES))
            )
        return SUFFIXES[found[0]]
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return SUFFIXES[suffix]
    with open_binary(path, "a gold corpus in one of the formats of `convert`") as file_:
        head = file_.read(4096)
        # In Prodigy's records, the answer follows the text.
        line = (head + file_.read(2**18 if b"{" in head[:8] else 0)).partition(b"\n")[0]
    # A byte order mark may precede the first character.
    head = head.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")
    if path.suffix == cas.SUFFIX or head.startswith(b"PK"):
        return "cas"
    if head.startswith(b"<"):
        return "knowtator" if _KNOWTATOR.search(head) else "bioc"
    # Texts and tables may begin with a bracket, too.
    if _JSON_LIST.match(head):
        return "bioc-json" if _is_bioc(head) and b'"data"' not in head else "label-studio"
    if not head.startswith((b"{", b"[")):
        return next(
            (name for name, begins in mention_tables.HEADS.items() if begins.match(head)),
            "pubtator",
        )
    if _is_bioc(head):
        return "bioc-json"
    if _ANNOTATIONS.search(head):
        return "belb"
    if _ANSWERED.search(line):
        return "prodigy"
    if _PASSAGES.search(head):
        return "bigbio"
    if b'"context_document_id"' in head:
        return "zeshel"
    if _ENTITIES.search(head):
        return "text-labels"
    raise KrisselError(
        Errors.K249.format(path=path, found=line[:60].decode("utf8", errors="replace"))
    )


def _is_bioc(head: bytes) -> bool:
    """Return whether JSON begins with a collection or a document of BioC: passages at the top
    level.
    """
    passages = _DOCUMENT.search(head)
    return _COLLECTION.search(head) is not None or (
        passages is not None and _OTHER_JSON.search(head, 0, passages.start()) is None
    )

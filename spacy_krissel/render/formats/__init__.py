"""Formats of linked docs, one writer each.

To add a format: one module here with a writer, a function from docs, the key of their spans and an
open binary file; one line in `_BUILT_IN`. What other tools made of it is read by `corpora/readers`.
Plugins: CONTRIBUTING.md.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from spacy.tokens import Doc

from ...util.plugins import Registry
from .bigbio import write_bigbio
from .bioc import write_bioc
from .brat import write_brat
from .cas import write_cas
from .fhir import write_fhir
from .label_studio import write_label_studio
from .note_nlp import write_note_nlp
from .own import write_html, write_jsonl, write_spacy, write_tsv
from .parquet import write_parquet
from .phenopackets import write_phenopackets
from .prodigy import write_prodigy
from .pubtator import write_pubtator

Writer = Callable[[Iterable[Doc], str, IO[bytes]], Any]
_BUILT_IN: dict[str, Writer] = {
    ".jsonl": write_jsonl,
    ".spacy": write_spacy,
    ".tsv": write_tsv,
    ".html": write_html,
    ".parquet": write_parquet,
    ".pubtator": write_pubtator,
    ".bioc.xml": write_bioc,
    ".brat.tar.gz": write_brat,
    ".bigbio.jsonl": write_bigbio,
    ".prodigy.jsonl": write_prodigy,
    ".labelstudio.json": write_label_studio,
    ".xmi.zip": write_cas,
    ".fhir.json": write_fhir,
    ".note_nlp.csv": write_note_nlp,
    ".phenopackets.jsonl": write_phenopackets,
}
# By how the name of a file ends, the longest of several that fit.
WRITERS = Registry("krissel_output_formats", _BUILT_IN)


def writer_of(path: str | Path) -> Writer | None:
    """The writer of a file by its name; None for one of no format."""
    endings = [ending for ending in WRITERS if str(path).endswith(ending)]
    return WRITERS[max(endings, key=len)] if endings else None

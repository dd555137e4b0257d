"""One reader a source format, and the choice among them."""

import inspect
import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Union

from ...errors import Errors, KrisselError
from ..entity import Entity
from .cellosaurus import FIRST_ACCESSION, is_cellosaurus_row, read_cellosaurus, read_cellosaurus_table
from .ctd import ctd_header, read_ctd
from .gene_info import GENE_COLUMNS, read_gene_info
from .jsonl import read_jsonl
from .medic import read_medic
from .mesh import TERM_COLUMNS, TREE_COLUMNS, read_mesh, read_mesh_tree
from .mesh_xml import is_mesh_xml, read_mesh_xml
from .obo import read_obo
from .obographs import read_obographs
from .phrases import read_phrases
from .records import FORMATS, open_bytes, read_start
from .taxonomy import is_taxonomy_row, read_taxonomy
from .umls import holds_umls, is_umls_row, read_umls
from .zeshel import read_zeshel

__all__ = [
    "READERS",
    "detect_format",
    "read_cellosaurus",
    "read_cellosaurus_table",
    "read_ctd",
    "read_gene_info",
    "read_jsonl",
    "read_medic",
    "read_mesh",
    "read_mesh_tree",
    "read_mesh_xml",
    "read_obo",
    "read_obographs",
    "read_ontology",
    "read_phrases",
    "read_taxonomy",
    "read_umls",
    "read_zeshel",
]

READERS: Dict[str, Callable[..., Iterator[Entity]]] = dict(
    zip(
        FORMATS,
        (
            read_medic,
            read_obo,
            read_jsonl,
            read_mesh,
            read_mesh_tree,
            read_phrases,
            read_zeshel,
            read_gene_info,
            read_taxonomy,
            read_cellosaurus,
            read_cellosaurus_table,
            read_ctd,
            read_umls,
            read_obographs,
            read_mesh_xml,
        ),
        strict=True,
    )
)
GRAPHS = re.compile(r'\{\s*("meta"\s*:.*?)?"graphs"\s*:\s*\[', re.DOTALL)


def read_ontology(path: Union[str, Path], format: str = "auto", **options: Any) -> Iterator[Entity]:
    """Read the entities of an ontology file, one at a time; a gzipped file is unpacked on the way.

    format: "medic", "obo", "jsonl", "mesh" (terms), "mesh-tree", "phrases", "zeshel" (a world's documents),
        "gene-info" (NCBI Gene), "taxonomy" (NCBI Taxonomy's names.dmp), "cellosaurus" (its text file),
        "cellosaurus-tsv" (name, id, species), "ctd" (diseases or chemicals), "umls" (the folder of its RRF files),
        "obographs" (JSON), "mesh-xml" (NLM's descriptors or supplementary records), or "auto" to tell by the content
        (not phrases).
    options: those of the format's reader (`tree_path` for "mesh", `scopes` and `types` for "obo" and "obographs",
        `species` for "gene-info", the parts of "umls").

    Raises KrisselError K101 to K105, K110 and what the reader raises, before the first entity where it can be known by
    then.
    """
    if format == "auto":
        format = detect_format(path)
    elif format not in READERS:
        raise KrisselError(Errors.K105.format(found=format, formats=", ".join(FORMATS)))
    reader = READERS[format]
    allowed = [name for name in inspect.signature(reader).parameters if name != "path"]
    for name in options:
        if name not in allowed:
            raise KrisselError(Errors.K110.format(format=format, found=name, expected=", ".join(allowed) or "none"))
    if not holds_umls(path):
        with open_bytes(path):
            pass
    return reader(path, **options)


def detect_format(path: Union[str, Path]) -> str:
    """The format of an ontology file by its first lines; UMLS's folder by the names in it.

    Raises KrisselError K101 (no file), K102 (damaged compression), K104 (none of the known formats).
    """
    if holds_umls(path):
        return "umls"
    start = read_start(path)
    lines = [line.strip() for line in start.decode("utf-8-sig", errors="replace").splitlines()]
    first = next((line for line in lines if line and not line.startswith("!")), "")
    cells = first.split("\t")
    if is_mesh_xml(start):
        return "mesh-xml"
    if first.startswith("{"):
        if GRAPHS.match("\n".join(lines)):
            return "obographs"
        return "zeshel" if '"document_id"' in first and '"concept_id"' not in first else "jsonl"
    if set(TERM_COLUMNS) <= set(cells):
        return "mesh"
    if set(TREE_COLUMNS) <= set(cells):
        return "mesh-tree"
    if set(GENE_COLUMNS) <= set(cells):
        return "gene-info"
    if is_taxonomy_row(first):
        return "taxonomy"
    if is_umls_row(first):
        return "umls"
    if "||" in first:
        return "medic"
    if first == "[Term]" or first.startswith(("format-version:", "ontology:", "data-version:")):
        return "obo"
    if is_cellosaurus_row(cells):
        return "cellosaurus-tsv"
    # These two begin with explanations; CTD's name the columns.
    if any(map(ctd_header, lines)):
        return "ctd"
    if any(line.startswith(FIRST_ACCESSION) for line in lines):
        return "cellosaurus"
    raise KrisselError(Errors.K104.format(path=path, found=first[:60], formats=", ".join(FORMATS)))

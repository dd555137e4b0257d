"""Ontology formats, one reader each.

All readers raise KrisselError K101 (no such file), K102 (damaged or truncated) and K103
(another format), and count unusable records (KW101).

To add a format: one module here with a reader, a function from a path (and options) to entities;
one line in `_BUILT_IN`; one seed in tests/fuzz/seeds.py. Detection, the choices of `--format` and
messages follow from `READERS`. A format that is a folder also says which folders it `holds`, which
`files` are read, and what they state (`Reader`). Plugins: CONTRIBUTING.md.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from ...errors import Errors, KrisselError
from ...util.plugins import Registry
from ...util.settings import OneOf, check
from ..entity import Entity
from .babelon import is_babelon, read_babelon
from .cellosaurus import (
    is_cellosaurus,
    is_cellosaurus_table,
    read_cellosaurus,
    read_cellosaurus_table,
)
from .ctd import is_ctd, is_medic, read_ctd, read_medic
from .fhir import is_fhir, read_fhir
from .gene_info import is_gene_info, read_gene_info
from .icd10cm import is_icd10cm, read_icd10cm
from .jsonl import JSON_LD, is_jsonl, read_jsonl
from .mesh import is_mesh, is_mesh_tree, is_mesh_xml, read_mesh, read_mesh_tree, read_mesh_xml
from .obo import is_obo, read_obo
from .obographs import is_obographs, obographs_release, read_obographs
from .omop import holds_omop, omop_files, omop_release, read_omop
from .owl import is_owl, read_owl
from .records import FileHead, open_bytes
from .rxnorm import holds_rxnorm, is_rxnorm, read_rxnorm, rxnorm_files, rxnorm_release
from .skos import is_skos, read_skos
from .snomed import holds_snomed, read_snomed, snomed_files, snomed_release
from .table import (
    TABLE_COLUMNS,
    is_medcat,
    is_ssslm,
    is_table,
    read_medcat,
    read_phrases,
    read_ssslm,
    read_table,
    table_header,
    unknown_columns,
)
from .taxonomy import is_taxonomy, read_taxonomy
from .umls import holds_umls, is_umls, read_umls, umls_files, umls_release
from .zeshel import is_zeshel, read_zeshel


@dataclass(frozen=True)
class Reader:
    """Reader of a format, with its detection by the beginning of a file, or by the content of a
    folder.

    files: the files that are read for a path, with options of the reader; the first one is
        required. states: metadata of the files ("version", "licence" …) that is not in the first
        lines of one.
    """

    read: Callable[..., Iterator[Entity]]
    detects: Callable[[FileHead], bool] = lambda start: False
    holds: Callable[[Path], bool] = lambda folder: False
    files: Callable[..., list[Path]] = lambda path, **options: [path]
    states: Callable[[Path], dict[str, Any]] = lambda path: {}

    def __call__(self, path: str | Path, **options: Any) -> Iterator[Entity]:
        return self.read(path, **options)


# The first that detects a file reads it; plugins come last.
_BUILT_IN = {
    "mesh-xml": Reader(read_mesh_xml, is_mesh_xml),
    "icd10cm": Reader(read_icd10cm, is_icd10cm),
    # SKOS precedes OWL, since a thesaurus may use OWL as well.
    "skos": Reader(read_skos, is_skos),
    "owl": Reader(read_owl, is_owl),
    "obographs": Reader(read_obographs, is_obographs, states=obographs_release),
    "fhir": Reader(read_fhir, is_fhir),
    "zeshel": Reader(read_zeshel, is_zeshel),
    "jsonl": Reader(read_jsonl, is_jsonl),
    "mesh": Reader(read_mesh, is_mesh),
    "mesh-tree": Reader(read_mesh_tree, is_mesh_tree),
    "gene-info": Reader(read_gene_info, is_gene_info),
    "taxonomy": Reader(read_taxonomy, is_taxonomy),
    "umls": Reader(read_umls, is_umls, holds_umls, umls_files, umls_release),
    "snomed": Reader(read_snomed, holds=holds_snomed, files=snomed_files, states=snomed_release),
    "rxnorm": Reader(read_rxnorm, is_rxnorm, holds_rxnorm, rxnorm_files, rxnorm_release),
    "omop": Reader(read_omop, holds=holds_omop, files=omop_files, states=omop_release),
    "medic": Reader(read_medic, is_medic),
    "obo": Reader(read_obo, is_obo),
    "cellosaurus-tsv": Reader(read_cellosaurus_table, is_cellosaurus_table),
    "ctd": Reader(read_ctd, is_ctd),
    "cellosaurus": Reader(read_cellosaurus, is_cellosaurus),
    "ssslm": Reader(read_ssslm, is_ssslm),
    "babelon": Reader(read_babelon, is_babelon),
    "medcat": Reader(read_medcat, is_medcat),
    "table": Reader(read_table, is_table),
    # Never detected, since any table could be one.
    "phrases": Reader(read_phrases),
}
READERS = Registry("krissel_ontology_readers", _BUILT_IN, Reader)
Format = Annotated[str, OneOf(lambda: chain(["auto"], READERS))]

# Unsupported syntaxes, and the command that converts them. The context of JSON-LD may be a web
# address.
ROBOT = "robot convert --input {path} --output {path}.owl"
CONVERTED = (
    (re.compile(r"^(?:Prefix|Ontology)\(", re.MULTILINE), "OWL's functional syntax", ROBOT),
    (re.compile(r"^(?:Prefix|Ontology): ", re.MULTILINE), "OWL's Manchester syntax", ROBOT),
    (re.compile(r"<Ontology\s"), "OWL/XML", ROBOT),
    (JSON_LD, "JSON-LD", "rdfpipe -i json-ld -o turtle {path} > {path}.ttl"),
)
# A line that is only a name.
_NAME = re.compile(r"\w[^\t{}<>=|@\"]{0,99}")
PEEK_LINES = 20


def read_ontology(path: str | Path, format: str = "auto", **options: Any) -> Iterator[Entity]:
    """Read the entities of an ontology file or folder one at a time; gzipped files are
    decompressed.

    format: a name in `READERS`, or "auto" to detect it from the content (all but "phrases").
    options: those of the format's reader (`tree_path` for "mesh", `scopes` and `types` for "obo",
        "obographs" and "owl", `language` for "owl", "skos", "fhir" and "snomed", `species` for
        "gene-info", the parts of "umls", "rxnorm" and "omop", `refset` for "snomed").

    Raises KrisselError K006 (another format), K101 to K104, K110 and what the reader raises, as far
    as possible before the first entity.
    """
    check("format", format, Format)
    if format == "auto":
        format = detect_format(path, options)
    reader = READERS[format]
    _, *known = inspect.signature(reader.read).parameters
    for name in options:
        if name not in known:
            raise KrisselError(
                Errors.K110.format(format=format, found=name, expected=", ".join(known) or "none")
            )
    with open_bytes(reader.files(Path(path), **options)[0]):
        pass
    return reader(path, **options)


def detect_format(path: str | Path, options: Collection[str] = ()) -> str:
    """Detect the format of an ontology file from its first lines; of a folder, from the names of
    its files.

    options: names of the options given for its reader; an option for a table column means that it
        is a table.

    Raises KrisselError K101 (no file), K102 (damaged compression), K104 (unknown format), K118 (a
    table of unknown columns), K119 (a syntax to convert), K120 (a list of names).
    """
    if not TABLE_COLUMNS.isdisjoint(options):
        return "table"
    if Path(path).is_dir():
        for name, reader in READERS.loaded():
            if reader.holds(Path(path)):
                return name
    start = FileHead(path)
    for name, reader in READERS.loaded():
        if reader.detects(start):
            return name
    for pattern, syntax, command in CONVERTED:
        if pattern.search(start.text):
            raise KrisselError(
                Errors.K119.format(path=path, syntax=syntax, command=command.format(path=path))
            )
    if header := table_header(start):
        raise unknown_columns(path, header)
    if len(names := [*filter(None, start.lines)][:PEEK_LINES]) > 1 and all(
        map(_NAME.fullmatch, names)
    ):
        raise KrisselError(Errors.K120.format(path=path, first=names[0]))
    raise KrisselError(
        Errors.K104.format(path=path, found=start.first[:60], formats=", ".join(READERS))
    )

"""Formats of files with pairs of an id and a label."""

from pathlib import Path
from typing import Literal, get_args

from ..errors import wrong_setting
from .json_file import JsonFile
from .obo_file import OboFile
from .pair import PairFile
from .prose import TextFile
from .rdf import RdfFile
from .tables import ParquetTable, TextTable
from .yaml_file import YamlFile

Format = Literal["auto", "table", "parquet", "json", "jsonl", "yaml", "rdf", "obo", "text"]
FORMATS: tuple[str, ...] = get_args(Format)
# Endings of names, without .gz. All others are text.
ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "table"),
    ".parquet": "parquet",
    **dict.fromkeys((".json", ".jsonld", ".geojson"), "json"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".obo": "obo",
    **dict.fromkeys((".ttl", ".nt", ".rdf", ".owl", ".skos"), "rdf"),
}


def open_pairs(
    path: Path, format: Format, *, id_column: str = "", label_column: str = ""
) -> PairFile:
    """Open a file with pairs of an id and a label.

    format: "auto" for the one that the name ends in, else text.
    id_column, label_column: of a table, see `choose_columns`.

    Raises KrisselError K006 (columns of a file that is no table), K201, K202, K203, K055, K056,
    K060 (the file), K102 (damaged), K114 (no rdflib), K007 to K009 (damaged XML).
    """
    columns = {"id_column": id_column, "label_column": label_column}
    if format == "auto":
        suffixes = Path(path.name.lower().removesuffix(".gz")).suffix
        format = ENDINGS.get(suffixes, "table" if any(columns.values()) else "text")  # type: ignore[assignment]
    if format in ("table", "parquet"):
        return (TextTable if format == "table" else ParquetTable)(path, **columns)
    for setting, value in columns.items():
        if value:
            raise wrong_setting(setting, value, "no column: the file is no table")
    if format in ("json", "jsonl"):
        return JsonFile(path, lines=format == "jsonl")
    return {"yaml": YamlFile, "rdf": RdfFile, "obo": OboFile}.get(format, TextFile)(path)

"""Writer of mappings as TSV in the Simple Standard for Sharing Ontological Mappings (SSSOM),
version 1.0.

https://mapping-commons.github.io/sssom/
"""

import csv
import json
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import compress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple
from urllib.parse import quote

from ..about import __version__
from ..ontology.entity import canonical_id, entity_url

NOT_FOUND = "sssom:NoTermFound"
# Value that the standard's own tools write for no licence.
NO_LICENSE = "https://w3id.org/sssom/license/unspecified"
_SET, _UNKNOWN = "https://w3id.org/sssom/mappings/", "https://w3id.org/sssom/unknown_prefix/"
# Declared by the standard.
_BUILT_IN = {
    "linkml": "https://w3id.org/linkml/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sssom": "https://w3id.org/sssom/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_CURIE = re.compile(r"([A-Za-z_][\w.-]*):((?!//)\S.*)", re.ASCII)
_ADDRESS = re.compile(r"(https?://.+[/#=])([^/#=]+)")
_NOT_IN_IRI = re.compile(r'[\s<>"{}|\\^`]')


class Mapping(NamedTuple):
    """A row, in the order of the standard. Columns without any filled cell are omitted.

    others: the subject's filled cells of other columns, each an extension of the standard.
    """

    subject_id: str
    subject_label: str
    predicate_id: str
    object_id: str
    object_label: str
    mapping_justification: str
    subject_type: str
    confidence: str
    object_match_field: str
    match_string: str
    similarity_score: str
    others: dict[str, str] = {}  # noqa: RUF012 (never written to)


COLUMNS = Mapping._fields[:-1]


class Curies:
    """CURIEs for ids, and the prefixes that they need."""

    def __init__(self) -> None:
        # Prefixes by address.
        self._prefixes = {address: prefix for prefix, address in _BUILT_IN.items()}
        self._addresses = dict(_BUILT_IN)

    def __call__(self, id: str, bare: str) -> str:
        """Return the CURIE of an id: `D009203` → `MESH:D009203`. An id without a recognisable
        prefix gets the prefix `bare`. For an address, the part before its last component becomes a
        prefix, ns and a number."""
        prefix, address, local = self.parts(id, bare)
        # One prefix per address: "hp" is written "HP" if that came first.
        return f"{self._prefixes.setdefault(address, prefix)}:{_NOT_IN_IRI.sub(lambda match: quote(match[0]), local)}"  # noqa: E501

    def parts(self, id: str, bare: str) -> tuple[str, str, str]:
        """Return the prefix of an id, the address that it represents, and the rest: `HP:0001677` →
        `HP`, `http://purl.obolibrary.org/obo/HP_`, `0001677`."""
        if whole := _ADDRESS.fullmatch(id):
            return f"ns{len(self._prefixes) - len(_BUILT_IN) + 1}", whole[1], whole[2]
        known = _CURIE.fullmatch(canonical_id(id))
        prefix, local = known.groups() if known else (bare, id)
        if prefix not in self._addresses:
            self._addresses[prefix] = _address(prefix, local)
        return prefix, self._addresses[prefix], local

    def prefixes(self) -> dict[str, str]:
        """Return the address of each prefix that was used, except those that the standard
        declares."""
        return {
            prefix: address for address, prefix in self._prefixes.items() if prefix not in _BUILT_IN
        }


def write_sssom(
    path: Path,
    mappings: Iterable[Mapping],
    curies: Curies,
    *,
    license: str = NO_LICENSE,
    mapping_set_id: str = "",
    object_source: str = "",
) -> None:
    """Write a mapping set. The mappings, whose ids `curies` made, are not held in memory.

    mapping_set_id: "" for a new one. object_source: CURIE or address of the vocabulary of the
        objects.
    """
    with (
        path.open("w", encoding="utf8", newline="") as file_,
        TemporaryFile("w+", dir=path.parent) as body,
    ):
        # The header needs the prefixes of all mappings.
        filled = [False] * len(COLUMNS)
        others: dict[str, None] = {}
        for mapping in mappings:
            *cells, more = mapping
            filled = [before or bool(cell) for before, cell in zip(filled, cells, strict=True)]
            others.update(dict.fromkeys(more))
            body.write(json.dumps(mapping) + "\n")
        body.seek(0)
        slots = _slots([*others])
        source = object_source and curies(object_source, "kb")
        # In quotes, since YAML would parse some prefixes and addresses as other types.
        declared = [
            f"  {json.dumps(each)}: {json.dumps(address)}"
            for each, address in sorted(curies.prefixes().items())
        ]
        header = [
            *(["curie_map:", *declared] if declared else []),
            f"mapping_set_id: {json.dumps(mapping_set_id or _SET + str(uuid.uuid4()))}",
            f"license: {json.dumps(license)}",
            *([f"object_source: {json.dumps(source)}"] if source else []),
            *(
                ["extension_definitions:", *(f"  - slot_name: {slot}" for slot in slots)]
                if slots
                else []
            ),
            "mapping_tool: spacy-krissel",
            f"mapping_tool_version: {json.dumps(__version__)}",
            f"mapping_date: {date.today().isoformat()}",
        ]
        file_.writelines(f"#{line}\n" for line in header)
        table = csv.writer(file_, delimiter="\t", lineterminator="\n")
        table.writerow([*compress(COLUMNS, filled), *slots])
        for line in body:
            *cells, more = json.loads(line)
            table.writerow([*compress(cells, filled), *(more.get(name, "") for name in others)])


def _slots(columns: Sequence[str]) -> list[str]:
    """Return names in the standard's form for columns of the input, none of them one of its own:
    `input_Term_ID`."""
    found: dict[str, None] = {}
    for column in columns:
        name = slot = "_".join(["input", *re.findall(r"\w+", column, re.ASCII)])
        while slot in found:
            slot = f"{name}_{len(found) + 1}"
        found[slot] = None
    return [*found]


def _address(prefix: str, local: str) -> str:
    url = entity_url(f"{prefix}:{local}")
    return url.removesuffix(local) if url.endswith(local) else f"{_UNKNOWN}{prefix.lower()}/"

"""RDF graphs, read by the library rdflib (the extra `rdf`): resources with their labels.

A corrected copy has another IRI wherever the file has the old one, in the form that it has there.
"""

import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..ontology.entity import canonical_id
from ..ontology.readers.graphs import is_xml, read_graph
from ..ontology.readers.records import RecordFile, curie, open_bytes
from .pair import Cell, Edit, IsId, Pair, PairFile, read_text

LABELS = (
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://purl.org/dc/terms/title",
)
# Turtle: IRIs, strings and comments, and names with a prefix.
_TURTLE = re.compile(
    r"<(?P<iri>[^<>\s\"]*)>|#[^\n]*|"
    r'(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|'
    r"'''(?:[^'\\]|\\.|'(?!''))*'''|'(?:[^'\\\n]|\\.)*')|"
    r"(?P<name>[A-Za-z][\w.-]*:\w(?:[\w.-]*\w)?)"
)
_XML = re.compile(
    r"<!--.*?-->|\brdf:(?:about|resource|ID)\s*=\s*[\"'](?P<iri>[^\"'<>]*)[\"']|"
    r">(?P<text>[^<>]*[^<>\s][^<>]*)</",
    re.DOTALL,
)
Offsets = dict[str, list[tuple[int, int]]]


class RdfFile(PairFile):
    """A graph in RDF/XML, Turtle or N-Triples. A resource without a label is verified by its id.

    The first offsets of an IRI are those of its cell. A label that occurs several times cannot be
    replaced.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_text(path))
        with open_bytes(path) as file_:
            records = RecordFile(file_, "rdf", "RDF/XML, Turtle or N-Triples")
            self._in_xml = is_xml(records)
            self._graph: Any = read_graph(records)

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        from rdflib import URIRef

        found = {node for triple in self._graph for node in triple if isinstance(node, URIRef)}
        pairs = []
        for iri in found:
            if is_id(str(iri)):
                labels = [
                    self._label(str(each))
                    for name in LABELS
                    for each in self._graph.objects(iri, URIRef(name))
                    if each.strip()
                ]
                start, end = self._offsets[0].get(_key(str(iri)), [(0, 0)])[0]
                pairs.append(
                    Pair(Cell(str(iri), start, end), tuple(labels), next(iter(labels), None))
                )
        yield from sorted(pairs, key=lambda pair: pair.id.start)

    def _label(self, value: str) -> Cell:
        offsets = self._offsets[1].get(value, [])
        return Cell(value, *offsets[0]) if len(offsets) == 1 else Cell(value, 0, 0)

    @cached_property
    def _offsets(self) -> tuple[Offsets, Offsets]:
        """Return the offsets of IRIs by their key (`_key`), and of texts."""
        iris, texts = defaultdict(list), defaultdict(list)
        for match in (_XML if self._in_xml else _TURTLE).finditer(self.text):
            for group in match.re.groupindex:
                if match[group] is None:
                    continue
                if group == "text":
                    texts[self._decoded(match[group])].append(match.span(group))
                else:
                    iris[_key(match[group])].append(match.span(group))
        return iris, texts

    def _decoded(self, raw: str) -> str:
        if self._in_xml:
            return html.unescape(raw)
        inner = raw[3:-3] if raw[:3] in ('"""', "'''") else raw[1:-1]
        try:
            return str(json.loads(f'"{inner}"', strict=False)) if "\\" in inner else inner
        except ValueError:
            return inner

    def encode(self, raw: str, value: str) -> str:
        if self._in_xml:
            return html.escape(value, quote=False)
        return json.dumps(value, ensure_ascii=False) if raw[:1] in "\"'" else value

    def can_replace(self, edit: Edit) -> bool:
        # An IRI that is in the file has statements of its own, which must not be mixed with others.
        is_iri = _key(edit.cell.value) in self._offsets[0]
        return super().can_replace(edit) and not (is_iri and _key(edit.value) in self._offsets[0])

    def corrected(self, edits: Sequence[Edit]) -> bytes:
        offsets = self._offsets[0]
        everywhere = []
        for cell, value in edits:
            others = offsets.get(_key(cell.value), [(cell.start, cell.end)])
            if (cell.start, cell.end) not in others:
                everywhere.append(Edit(cell, value))
                continue
            for start, end in others:
                written = self.text[start:end]
                everywhere.append(Edit(Cell(written, start, end), _in_place(written, value)))
        return super().corrected(everywhere)


def _key(iri: str) -> str:
    """Return the same key for an IRI, a name with a prefix, and a relative IRI."""
    if "://" not in iri:
        # "obo:HP_0000421" and "&obo;HP_0000421".
        local = re.split("[:;]", iri)[-1]
        iri = local.replace("_", ":", 1) if "_" in local else iri
    return canonical_id(curie(iri)).casefold()


def _in_place(written: str, iri: str) -> str:
    """Return the new IRI as the old one is written there."""
    new = re.split("[/#:=_]", iri)[-1]
    return re.sub(r"[^/#:=_;]*$", lambda _: new, written, count=1)

"""OBO Graphs: an ontology as JSON, `{"graphs": [{"nodes": […], "edges": […]}]}`, as written by
ROBOT and OAK.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..entity import Entity
from .obo import SCOPES
from .records import (
    TAXON_XREF,
    BadRecord,
    FileHead,
    RecordFile,
    open_bytes,
    open_records,
    require_storable,
    species_name,
    unique,
)
from .replaced import Replaced

# http://purl.obolibrary.org/obo/CL_0000540
_IRI = re.compile(r".*[/#]([A-Za-z][A-Za-z0-9.]*)_(\w+)")
EXPECTED = '{"graphs": [{"nodes": [{"id": …, "lbl": …, "type": "CLASS"}]}]}'
_BEGINNING = re.compile(r'\{\s*("meta"\s*:.*?)?"graphs"\s*:\s*\[', re.DOTALL)
_LICENCE = re.compile("licen[cs]e$", re.IGNORECASE)
_SCOPE = re.compile(r"has(\w+)Synonym")


def read_obographs(
    path: str | Path, *, scopes: Sequence[str] = SCOPES, types: Sequence[str] | None = None
) -> Iterator[Entity]:
    """Read the classes of an OBO Graphs file that are not deprecated and have a label.

    The file is one JSON object, which is held in memory. An IRI that ends in `CL_0000540` becomes
    the id `CL:0000540`. A class without a label belongs to another ontology and is left out; so is
    a node without a type in a graph that states types ("has part").

    Parents are those of `is_a` edges. Deprecated ids are alternative ids of the classes that
    replace them (`Replaced`), in any graph of the file.

    scopes, types: as in `read_obo`, and so is an xref to NCBI Taxonomy.

    KW101 counts nodes, not lines. Warns KW108 about deprecated classes whose replacement is not in
    the file.
    """
    with open_records(path, "obographs", EXPECTED) as records:
        graphs, replaced = _graphs(records), Replaced(records.path)
        # Type of untyped nodes, by graph.
        untypeds = [
            None if any(node.get("type") for node in objects(each["nodes"])) else "CLASS"
            for each in graphs
        ]
        for graph, untyped in zip(graphs, untypeds, strict=True):
            for node in objects(graph["nodes"]):
                _add_replaced(replaced, node, untyped)
        for graph, untyped in zip(graphs, untypeds, strict=True):
            source = _id(str(graph.get("id") or "")).rsplit("/", 1)[-1]
            parents: dict[str, list[str]] = defaultdict(list)
            for edge in objects(graph.get("edges")):
                if edge.get("pred") == "is_a":
                    parents[str(edge.get("sub"))].append(_id(str(edge.get("obj"))))
            parse = partial(
                _to_entity,
                parents,
                replaced=replaced,
                scopes=scopes,
                types=types,
                source=source,
                untyped=untyped,
            )
            yield from records.parsed(_nodes(records, graph), parse)
        replaced.finish()


def obographs_release(path: Path) -> dict[str, Any]:
    """Return version and licence as the first of the file or its graphs states them, before or
    after its nodes."""
    with open_bytes(path) as file_:
        data = RecordFile(file_, "obographs", EXPECTED).json()
    graphs = objects(data.get("graphs")) if isinstance(data, dict) else []
    found: dict[str, Any] = {}
    for meta in objects([each.get("meta") for each in (data, *graphs) if isinstance(each, dict)]):
        stated = {
            "version": [{"val": meta.get("version")}],
            "licence": [
                each
                for each in objects(meta.get("basicPropertyValues"))
                if _LICENCE.search(str(each.get("pred")))
            ],
        }
        for name, values in stated.items():
            for text in _texts(values)[:1]:
                found.setdefault(name, text)
    return found


def is_obographs(start: FileHead) -> bool:
    return start.first.startswith("{") and _BEGINNING.match("\n".join(start.lines)) is not None


def _graphs(records: RecordFile) -> list[dict[str, Any]]:
    data = records.json()
    graphs = objects(data.get("graphs")) if isinstance(data, dict) else []
    graphs = [graph for graph in graphs if isinstance(graph.get("nodes"), list)]
    if not graphs:
        raise records.wrong_format("has no graph with a list of nodes", 1)
    return graphs


def _nodes(records: RecordFile, graph: dict[str, Any]) -> Iterator[Any]:
    for records.line, node in enumerate(graph["nodes"], 1):
        yield node


def _to_entity(
    parents: dict[str, list[str]],
    node: Any,
    replaced: Replaced,
    scopes: Sequence[str],
    types: Sequence[str] | None,
    source: str,
    untyped: str | None,
) -> Entity | None:
    if not isinstance(node, dict) or not isinstance(node.get("id"), str) or not node["id"].strip():
        raise BadRecord("(counting nodes) is not a node with an id")
    meta, label = node.get("meta") or {}, node.get("lbl")
    if not isinstance(meta, dict) or not isinstance(label, (str, type(None))):
        raise BadRecord(f"(counting nodes) has a label or meta data of another kind, {node['id']}")
    if (
        (node.get("type") or untyped) != "CLASS"
        or meta.get("deprecated")
        or not (label or "").strip()
    ):
        return None
    id_, name = _id(node["id"]), " ".join(str(label).split())
    synonyms = [synonym for synonym in objects(meta.get("synonyms")) if _scope(synonym) in scopes]
    xrefs = _texts(meta.get("xrefs"))
    if types is None:
        types = _property(meta, "hasOBONamespace")[:1]
    entity = Entity(
        id=id_,
        name=name,
        aliases=unique(_texts(synonyms), without=name),
        types=unique(types),
        definition=" ".join(_texts([meta.get("definition")])),
        xrefs=unique(_id(xref) for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=source.removesuffix(".json").removesuffix(".owl"),
        alt_ids=replaced.alt_ids(id_, _ids(meta, "hasAlternativeId")),
        parents=unique(parents.get(node["id"], ()), without=id_),
    )
    try:
        return require_storable(entity)
    except BadRecord as error:
        raise BadRecord(f"(counting nodes) {error}") from None


def _add_replaced(replaced: Replaced, node: dict[str, Any], untyped: str | None) -> None:
    id_, meta = node.get("id"), node.get("meta") or {}
    if not isinstance(id_, str) or not isinstance(meta, dict):
        return
    if meta.get("deprecated"):
        properties = ("IAO_0100001", "consider", "hasAlternativeId")
        replaced.add(_id(id_), *(_ids(meta, name) for name in properties))
    elif (node.get("type") or untyped) == "CLASS" and node.get("lbl"):
        replaced.add_present((_id(id_), *_ids(meta, "hasAlternativeId")))


def _ids(meta: dict[str, Any], name: str) -> list[str]:
    return [*map(_id, _property(meta, name))]


def _id(text: str) -> str:
    match = _IRI.fullmatch(text)
    return f"{match[1]}:{match[2]}" if match else text


def objects(values: Any) -> list[dict[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def _texts(values: Any) -> list[str]:
    """Return the texts under `val` of each object, on one line."""
    texts = (value.get("val") for value in objects(values))
    return [" ".join(text.split()) for text in texts if isinstance(text, str) and text.strip()]


def _scope(synonym: dict[str, Any]) -> str:
    """Return the scope under its OBO name, or ""."""
    match = _SCOPE.fullmatch(str(synonym.get("pred")))
    return match[1].upper() if match else ""


def _property(meta: dict[str, Any], name: str) -> list[str]:
    """Return the values of a property, by the last part of its IRI."""
    values = objects(meta.get("basicPropertyValues"))
    wanted = (name, name.replace("_", ":"))
    return _texts(
        [value for value in values if re.split(r"[#/]", str(value.get("pred")))[-1] in wanted]
    )

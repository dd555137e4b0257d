"""Answers of a worker process to the tools of agents: short, without scores and evidence."""

from typing import Any

from ..kb.candidates import matched_name
from ..kb.entity_columns import EntityTable
from ..ontology.entity import entity_url
from ..ontology.hierarchy import Hierarchy
from ..ontology.verify import verify_pair
from ..pipeline.ground import in_context
from .corrected import CorrectedLinker, Document, Mention

# Maximum number of characters of a definition.
MAX_DEFINITION = 300


def annotate(linker: CorrectedLinker, text: str) -> dict[str, Any]:
    """Return the "mentions" that are linked, each with its "link", and the number "unlinked".

    Raises KrisselError K682, K692 as `CorrectedLinker.link`.
    """
    (document,) = linker.link([Document(text)])
    mentions, unlinked = [], 0
    for each in document["mentions"]:
        best = next((c for c in each["candidates"] if c["id"] == each["kb_id"]), None)
        if best is None:
            unlinked += 1
        else:
            shown = {key: each[key] for key in ("text", "start", "end")}
            mentions.append({**shown, "link": _link(linker, best, each["text"])})
    return {"mentions": mentions, "unlinked": unlinked}


def candidates(linker: CorrectedLinker, term: str, context: str = "") -> dict[str, Any]:
    """Return the "candidates" of a term, best first, and the "id" it is linked to, or "NIL"."""
    text, start = in_context(term, context)
    mention = Mention(start, start + len(term.strip()))
    (document,) = linker.link([Document(text, mentions=(mention,))])
    (found,) = document["mentions"]
    links = [_link(linker, each, term) for each in found["candidates"]]
    return {"id": found["kb_id"], "candidates": links}


def verify(linker: CorrectedLinker, id_: str, label: str = "") -> dict[str, Any]:
    """Return the verdict on an id and its label (`Verdict.as_dict`)."""
    return verify_pair(linker.kb, id_, label).as_dict()


def entity(linker: CorrectedLinker, id_: str) -> dict[str, Any]:
    """Return an entity: id, name, synonyms, definition, types, xrefs and url; "is_former": `id_` is
    an id that it replaces. Raises KrisselError K525."""
    found = linker.kb[id_]
    fields = ("id", "name", "definition", "types", "xrefs")
    facts = {field: getattr(found, field) for field in fields}
    is_former = verify_pair(linker.kb, id_).status == "retired"
    url = entity_url(found.id)
    return {**facts, "synonyms": found.aliases, "is_former": is_former, "url": url}


def warm(linker: CorrectedLinker, relatives: "Relatives") -> dict[str, Any]:
    """Load what the first requests would wait for: the hierarchy, and the tables of addresses."""
    first = linker.kb.entity_ids[0]
    relatives(linker, first, below=True, k=1)
    entity(linker, first)
    candidates(linker, linker.kb[first].name)
    return {}


class Relatives:
    """Parents and children of the entities of a knowledge base."""

    def __init__(self) -> None:
        self._of: tuple[EntityTable, Hierarchy] | None = None

    def __call__(self, linker: CorrectedLinker, id_: str, *, below: bool, k: int) -> dict[str, Any]:
        """Return the "id" and "name" of an entity, at most `k` entities directly below or above it,
        "related", and their number, "total". Raises KrisselError K525 for an unknown id."""
        table, known = linker.kb.entities, self._of
        if known is None or known[0] is not table:
            known = self._of = table, Hierarchy(_Rows(table))
        row = table.resolve(id_)
        if row is None:
            raise table.unknown("ids", [id_])
        hierarchy = known[1]
        rows = hierarchy.children(row) if below else hierarchy.parents(row)
        named = [{"id": table.ids[each], "name": table.names[each]} for each in (row, *rows[:k])]
        return {**named[0], "related": named[1:], "total": len(rows)}


class _Rows:
    """The entities of a knowledge base as a store: parents may be alternative ids."""

    def __init__(self, table: EntityTable) -> None:
        self.row, self.each, self._n = table.resolve, table.each, len(table)

    def __len__(self) -> int:
        return self._n


def _link(linker: CorrectedLinker, candidate: dict[str, Any], mention: str) -> dict[str, Any]:
    definition, confidence = linker.kb[candidate["id"]].definition, candidate.get("confidence")
    if len(definition) > MAX_DEFINITION:
        definition = f"{definition[:MAX_DEFINITION].rsplit(' ', 1)[0]} …"
    return {
        "id": candidate["id"],
        "name": candidate["name"],
        "confidence": None if confidence is None else round(confidence, 3),
        "found_by": candidate.get("match", ""),
        "matched_name": matched_name(candidate, mention),
        "definition": definition,
    }


RELATIVES = Relatives()

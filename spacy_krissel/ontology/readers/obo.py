"""OBO files: the terms of an ontology in stanzas of `tag: value` lines.

Not read by pronto or fastobo: both stop at the first malformed line, which published files have (the Disease Ontology
of 2016, HPO of 2017; `benchmarks/reader_peers.py`). This reader leaves that line out and names it (KW101).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..entity import Entity
from .records import TAXON_XREF, RecordFile, Start, open_records, species_name, unique

SCOPES = ("EXACT", "RELATED")
_TAG = re.compile(r"([A-Za-z][\w-]*):\s*(.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(.*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": " ", "t": " ", "W": " "}
# Tags whose values are quoted texts.
_QUOTING = ("def", "synonym")
_USED = ("id", "name", "namespace", "alt_id", "def", "synonym", "xref", "is_obsolete")


def read_obo(
    path: str | Path, *, scopes: Sequence[str] = SCOPES, types: Sequence[str] | None = None
) -> Iterator[Entity]:
    """Read the terms of an OBO file that are not obsolete.

    scopes: which synonyms become aliases. BROAD and NARROW ones are names of other concepts by their own account.
    types: given to every term. Without it, a term's type is its namespace, or the file's default one. The hierarchy
        (`is_a`) is not kept: to draw types from it, the whole graph would have to be held before the first term.
    An xref to NCBI Taxonomy, as cell lines of Cellosaurus have it, is the species instead of an xref.

    Raises KrisselError K101, K102, K103; a line or term that cannot be used is counted (KW101).
    """
    with open_records(path, "obo", "`tag: value` lines with the terms in [Term] stanzas") as records:
        header: dict[str, list[str]] = {}
        tags = header
        in_term = False
        start = 0
        for line in records.lines():
            line = line.strip()
            if not line or line.startswith("!"):
                continue
            if line.startswith("["):
                if not line.endswith("]"):
                    records.reject("begins a stanza without ']'")
                    continue
                if in_term and (entity := _to_entity(records, tags, header, scopes, types, start)):
                    yield entity
                in_term, tags, start = line == "[Term]", {}, records.line
                records.restart()
                continue
            match = _TAG.match(line)
            if match is None:
                # What cannot be read in the header means another format; in a later stanza it is one bad line.
                if tags is header:
                    raise records.wrong_format("is no `tag: value` line")
                records.reject("is no `tag: value` line")
                continue
            tag, value = match[1], match[2]
            if not in_term:
                if tags is header and tag in ("default-namespace", "ontology"):
                    header.setdefault(tag, []).append(value)
            elif tag in _QUOTING and _QUOTED.match(value) is None:
                records.reject(f"has no quoted text after '{tag}:'")
            elif tag in _USED:
                tags.setdefault(tag, []).append(value)
        if in_term and (entity := _to_entity(records, tags, header, scopes, types, start)):
            yield entity


def is_obo(start: Start) -> bool:
    return start.first == "[Term]" or start.first.startswith(("format-version:", "ontology:", "data-version:"))


def _to_entity(
    records: RecordFile,
    tags: dict[str, list[str]],
    header: dict[str, list[str]],
    scopes: Sequence[str],
    types: Sequence[str] | None,
    start: int,
) -> Entity | None:
    if tags.get("is_obsolete", [""])[0].startswith("true"):
        # Read and left out on purpose, so neither bad nor missing.
        records.accept()
        return None
    id_ = _first_word(tags.get("id", [""])[0])
    name = _unescape(tags.get("name", [""])[0])
    if not id_ or not name:
        records.reject(f"begins a [Term] without {'name' if id_ else 'id'}", start)
        return None
    records.accept()
    if types is None:
        types = [*tags.get("namespace", []), *header.get("default-namespace", [])][:1]
    definitions = [text for text, _ in map(_split_quoted, tags.get("def", []))]
    synonyms = map(_split_quoted, tags.get("synonym", []))
    xrefs = tags.get("xref", [])
    return Entity(
        id=id_,
        name=name,
        aliases=unique((text for text, rest in synonyms if _scope(rest) in scopes), without=name),
        types=unique(types),
        definition=definitions[0] if definitions else "",
        xrefs=unique(_first_word(xref) for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=header.get("ontology", [""])[0],
        alt_ids=unique(map(_first_word, tags.get("alt_id", [])), without=id_),
    )


def _split_quoted(value: str) -> tuple[str, str]:
    match = _QUOTED.match(value)
    return (_unescape(match[1]), match[2]) if match else ("", "")


def _scope(rest: str) -> str:
    """The word after a synonym's text; the format's own default is RELATED."""
    word = rest.split("[")[0].split(None, 1)
    return word[0] if word else "RELATED"


def _first_word(value: str) -> str:
    """An id without the comment, description or modifiers that may follow it."""
    words = _unescape(value).split(None, 1)
    return words[0] if words else ""


def _unescape(value: str) -> str:
    if "\\" not in value:
        return value.strip()
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value).strip()

"""OBO files: the terms of an ontology in stanzas of `tag: value` lines.

Not read by pronto or fastobo: both stop at the first malformed line, which published files have (the Disease Ontology
of 2016, HPO of 2017; `benchmarks/reader_peers.py`). This reader leaves that line out and names it (KW101).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ..entity import Entity
from .records import TAXON_XREF, BadRecord, RecordFile, Start, open_records, species_name, unique

SCOPES = ("EXACT", "RELATED")
_TAG = re.compile(r"([A-Za-z][\w-]*):\s*(.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(.*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": " ", "t": " ", "W": " "}
# Tags whose values are quoted texts.
_QUOTING = ("def", "synonym")
_USED = ("id", "name", "namespace", "alt_id", "def", "synonym", "xref", "is_a", "is_obsolete")
_OF_HEADER = ("default-namespace", "ontology")
Tags = dict[str, list[str]]


def read_obo(
    path: str | Path, *, scopes: Sequence[str] = SCOPES, types: Sequence[str] | None = None
) -> Iterator[Entity]:
    """Read the terms of an OBO file that are not obsolete.

    scopes: which synonyms become aliases. BROAD and NARROW ones are names of other concepts by their own account.
    types: given to every term. Without it, a term's type is its namespace, or the file's default one.
    Parents are those of `is_a`; other relationships, such as part_of, are left out.
    An xref to NCBI Taxonomy, as cell lines of Cellosaurus have it, is the species instead of an xref.
    """
    with open_records(path, "obo", "`tag: value` lines with the terms in [Term] stanzas") as records:
        header: Tags = {}
        yield from records.parsed(_terms(records, header), lambda tags: _to_entity(tags, header, scopes, types))


def is_obo(start: Start) -> bool:
    return start.first == "[Term]" or start.first.startswith(("format-version:", "ontology:", "data-version:"))


def _terms(records: RecordFile, header: Tags) -> Iterator[Tags]:
    """The values of each [Term], by their tags; `header` gets those above the first stanza."""
    tags = header
    in_term = False
    for line in chain(map(str.strip, records.lines()), ["[End]"]):
        if line.startswith("!"):
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                records.reject("begins a stanza without ']'")
                continue
            if in_term:
                yield tags
            in_term, tags, records.start = line == "[Term]", {}, records.line
            records.restart()
            continue
        match = _TAG.match(line)
        if match is None:
            # An unreadable line of the header means another format; in a later stanza it is one bad line.
            if tags is header:
                raise records.wrong_format("is no `tag: value` line")
            records.reject("is no `tag: value` line")
            continue
        tag, value = match.groups()
        if in_term and tag in _QUOTING and _QUOTED.match(value) is None:
            records.reject(f"has no quoted text after '{tag}:'")
        elif tag in (_OF_HEADER if tags is header else _USED):
            tags.setdefault(tag, []).append(value)


def _to_entity(tags: Tags, header: Tags, scopes: Sequence[str], types: Sequence[str] | None) -> Entity | None:
    if tags.get("is_obsolete", [""])[0].startswith("true"):
        return None
    id_ = _first_word(tags.get("id", [""])[0])
    name = _unescape(tags.get("name", [""])[0])
    if not id_ or not name:
        raise BadRecord(f"begins a [Term] without {'name' if id_ else 'id'}")
    if types is None:
        types = [*tags.get("namespace", []), *header.get("default-namespace", [])][:1]
    synonyms = map(_split_quoted, tags.get("synonym", []))
    xrefs = tags.get("xref", [])
    return Entity(
        id=id_,
        name=name,
        aliases=unique((text for text, rest in synonyms if _scope(rest) in scopes), without=name),
        types=unique(types),
        definition=next((text for text, _ in map(_split_quoted, tags.get("def", []))), ""),
        xrefs=unique(_first_word(xref) for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=header.get("ontology", [""])[0],
        alt_ids=unique(map(_first_word, tags.get("alt_id", [])), without=id_),
        parents=unique(map(_first_word, tags.get("is_a", [])), without=id_),
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
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value).strip()

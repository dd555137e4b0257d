"""OBO files: the terms of an ontology in stanzas of `tag: value` lines.

pronto and fastobo are not used: both stop at the first malformed line, which published files have
(the Disease Ontology of 2016, HPO of 2017; `benchmarks/reader_peers.py`). This reader skips that
line and reports it (KW101).
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import KrisselWarning, Warnings
from ..entity import Entity
from .records import TAXON_XREF, BadRecord, FileHead, RecordFile, open_records, species_name, unique
from .replaced import Replaced

SCOPES = ("EXACT", "RELATED")
ALL_SCOPES = (*SCOPES, "BROAD", "NARROW")
# Maximum unescaped quotes inside a text, each of which may be its end. Texts with more are left
# out.
MAX_QUOTES = 50
# Maximum non-standard words after a text: a scope or type of the file's own, and one more.
MAX_OWN_WORDS = 2
_STANZA = re.compile(r"\[\s*([A-Za-z][\w-]*)\s*\]")
_TAG = re.compile(r"([A-Za-z][\w-]*):\s*(.*)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": " ", "t": " ", "W": " "}
# Each run of plain letters is matched at once: letter by letter takes long for long values.
_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_QUOTED = re.compile(_TEXT)
_QUOTE = re.compile(r'\\.|"')
# Parts after a text: words, cross-references, modifiers. Each begins with a different character, so
# that none is tried twice.
_BLANK = re.compile(r"\s*")
_WORDS = re.compile(r'[^"\[\]{}!]*')
_LIST = re.compile(rf'\[[^\]"\\]*(?:(?:\\.|{_TEXT})[^\]"\\]*)*\]')
_MODIFIERS = re.compile(rf'\{{[^{{}}"\\]*(?:(?:\\.|{_TEXT})[^{{}}"\\]*)*\}}')
# Possible end of an unquoted value: modifiers or a comment. Without white space before them,
# modifiers have quotes.
_CUT = re.compile(r'\\.|(?<!\S)[{!]|\{(?=[\w:.-]+=")')
_ID = re.compile(r"(?:\\.|[^\s{!\\])+")
# Tags of OBO 1.0 and their later names.
_RENAMED = {
    **{f"{scope.lower()}_synonym": "synonym" for scope in ALL_SCOPES},
    **dict.fromkeys(("xref_analog", "xref_unk", "xref_unknown"), "xref"),
    "use_term": "consider",
}
_USED = tuple(
    "id name namespace alt_id def synonym xref is_a is_obsolete replaced_by consider".split()
)
_UNUSED = frozenset(
    "is_anonymous comment subset builtin property_value intersection_of union_of equivalent_to "
    "disjoint_from relationship created_by creation_date modified_by modification_date instance_of "
    "domain range inverse_of transitive_over is_cyclic is_reflexive is_symmetric is_anti_symmetric "
    "is_transitive is_metadata_tag".split()
)
_OF_HEADER = ("default-namespace", "ontology", "synonymtypedef")
_OF_OBSOLETE = {
    tag.encode(): _RENAMED.get(tag, tag)
    for tag in ("id", "alt_id", "is_obsolete", "replaced_by", "consider", "use_term")
}
# Values by tag: texts; for "synonym", pairs of the name and its scope.
Tags = dict[str, list[Any]]


def read_obo(
    path: str | Path, *, scopes: Sequence[str] = SCOPES, types: Sequence[str] | None = None
) -> Iterator[Entity]:
    """Read the terms of an OBO file that are not obsolete.

    Versions 1.0 to 1.4 of the grammar are read, with common violations: a text may contain
    unescaped quotes, and a synonym's scope may be in lower case, custom or missing. A custom scope
    is mapped to that of its declaration (`synonymtypedef`), else to RELATED, the format's default.
    Modifiers and comments are not part of a value. An unreadable line is left out and counted
    (KW101).

    scopes: the scopes of synonyms that become aliases. BROAD and NARROW synonyms are names of other
        concepts.
    types: given to every term; default: a term's namespace, or the file's default one.

    Parents are those of `is_a`; other relationships, such as part_of, are left out. An xref to NCBI
    Taxonomy, as in Cellosaurus, is the species instead of an xref. Obsolete ids are alternative ids
    of the terms that replace them (`Replaced`), which requires a second pass over the file.

    Warns KW104 about unknown tags, and KW108 about obsolete ids whose replacement is not in the
    file.
    """
    with open_records(
        path, "obo", "`tag: value` lines with the terms in [Term] stanzas"
    ) as records:
        replaced = _replaced(records)
        header: Tags = {}
        unknown: Counter[str] = Counter()
        terms = _terms(records, header, unknown)
        yield from records.parsed(
            terms, lambda tags: _to_entity(tags, header, scopes, types, replaced)
        )
        replaced.finish()
        if unknown:
            keys, known = ", ".join(sorted(unknown)[:10]), ", ".join(_USED)
            message = Warnings.KW104.format(
                count=unknown.total(), path=path, keys=keys, known=known
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)


def is_obo(start: FileHead) -> bool:
    return start.first == "[Term]" or start.first.startswith(
        ("format-version:", "ontology:", "data-version:")
    )


def _replaced(records: RecordFile) -> Replaced:
    """Read the ids of a file, obsolete or not, and rewind it; bad lines are left to the second
    pass.
    """
    replaced = Replaced(records.path)
    tags: Tags = {}
    for raw in chain(records.file.lines(), [b"[End]"]):
        raw = raw.lstrip()
        head, _, value = raw.partition(b":")
        if raw.startswith(b"["):
            id_ = "".join(tags.get("id", [])[:1])
            replaced_by, consider, alt_ids = (
                tags.get(tag, ()) for tag in ("replaced_by", "consider", "alt_id")
            )
            if _is_obsolete(tags):
                replaced.add(id_, replaced_by, consider, alt_ids)
            else:
                replaced.add_present((id_, *alt_ids))
            tags = {}
        elif (tag := _OF_OBSOLETE.get(head.lower())) is not None:
            tags.setdefault(tag, []).append(_id(value.decode("utf8", "replace").strip()))
    records.file.rewind()
    return replaced


def _terms(records: RecordFile, header: Tags, unknown: Counter[str]) -> Iterator[Tags]:
    """Yield the values of each [Term] by tag; `header` receives those above the first stanza."""
    tags = header
    in_term = False
    declared: dict[str, str] = {}
    for line in chain(map(str.strip, records.lines()), ["[End]"]):
        if line.startswith("!"):
            continue
        if line.startswith("["):
            stanza = _STANZA.match(line)
            if stanza is None:
                records.reject(
                    "begins a stanza without ']'" if "]" not in line else "begins an unknown stanza"
                )
                continue
            if in_term:
                yield tags
            elif tags is header:
                declared = _declared(header)
            in_term, tags, records.start = stanza[1].lower() == "term", {}, records.line
            records.restart()
            continue
        match = _TAG.match(line)
        if match is None:
            # An unreadable line in the header means another format; in a later stanza it is one bad
            # line.
            if tags is header:
                raise records.wrong_format("is not a `tag: value` line")
            records.reject("is not a `tag: value` line")
            continue
        tag = match[1].lower()
        name, value = _RENAMED.get(tag, tag), match[2]
        if name not in (_OF_HEADER if tags is header else _USED):
            if in_term and name not in _UNUSED:
                unknown[tag] += 1
        elif not in_term or name not in ("def", "synonym"):
            tags.setdefault(name, []).append(value)
        else:
            try:
                text, words = _quoted(value, name, declared)
            except BadRecord as error:
                records.reject(str(error))
                continue
            scope = tag.split("_")[0].upper() if tag != name else _scope(words, declared)
            tags.setdefault(name, []).append((text, scope) if name == "synonym" else text)


def _declared(header: Tags) -> dict[str, str]:
    """Return the synonym types that a file declares, by name, and their scopes, "" for none."""
    found: dict[str, str] = {}
    for value in header.get("synonymtypedef", ()):
        name, *described = value.split(None, 1)
        after = "".join(described).rpartition('"')[2]
        found[name] = next(
            (word.upper() for word in after.split() if word.upper() in ALL_SCOPES), ""
        )
    return found


def _to_entity(
    tags: Tags, header: Tags, scopes: Sequence[str], types: Sequence[str] | None, replaced: Replaced
) -> Entity | None:
    if _is_obsolete(tags):
        return None
    id_ = _id("".join(tags.get("id", [])[:1]))
    # A second name becomes an alias.
    names = unique(map(_plain, tags.get("name", ())))
    if not id_ or not names:
        raise BadRecord(f"begins a [Term] without {'name' if id_ else 'id'}")
    if types is None:
        types = [*tags.get("namespace", []), *header.get("default-namespace", [])][:1]
        types = [*map(_plain, types)]
    aliases = (text for text, scope in tags.get("synonym", ()) if scope in scopes)
    xrefs = tags.get("xref", [])
    return Entity(
        id=id_,
        name=names[0],
        aliases=unique([*names[1:], *aliases], without=names[0]),
        types=unique(types),
        definition="".join(tags.get("def", [])[:1]),
        xrefs=unique(_first_word(xref) for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=_plain("".join(header.get("ontology", [])[:1])),
        alt_ids=replaced.alt_ids(id_, unique(map(_id, tags.get("alt_id", ())))),
        parents=unique(map(_id, tags.get("is_a", ())), without=id_),
    )


def _is_obsolete(tags: Tags) -> bool:
    return "".join(tags.get("is_obsolete", [])[:1]).lower().startswith(("true", "1"))


def _quoted(value: str, tag: str, declared: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the quoted text at the start of a value, and the words after it, which are a scope and
    a type.

    A text may contain unescaped quotes: it ends at the first quote after which the rest follows the
    grammar. Raises `BadRecord` if there is none.
    """
    if not value.startswith('"'):
        raise BadRecord(f"has no quoted text after '{tag}:'")
    first = _QUOTED.match(value)
    after = None if first is None else _after(value, first.end(), tag, declared)
    if first is not None and after is not None and after.rank == 0:
        return _unescape(first[1]), after.words
    quotes = [
        (match.end() - 1, len(match[0]) > 1)
        for match in _QUOTE.finditer(value, 1)
        if match[0].endswith('"')
    ]
    ends = [end for end, is_escaped in quotes if not is_escaped]
    if len(ends) > MAX_QUOTES:
        raise BadRecord(f"has {len(ends)} quotes after '{tag}:'")
    # A backslash at the end of a text may be literal, and not escape the quote.
    ends = ends or [end for end, is_escaped in quotes if is_escaped][-1:]
    found = [
        (after.rank, end, after.words)
        for end in ends
        if (after := _after(value, end + 1, tag, declared))
    ]
    if not found:
        raise BadRecord(f"has no end of the quoted text after '{tag}:'")
    _, end, words = min(found)
    return _unescape(value[1:end]), words


class _After(NamedTuple):
    """The words between a text and its cross-references.

    rank: 0 for full conformance; the higher, the less likely the text ends before these words.
    """

    rank: int
    words: list[str]


def _after(value: str, start: int, tag: str, declared: Mapping[str, str]) -> _After | None:
    """Parse the rest of a value; None if it does not follow the grammar."""
    match = _WORDS.match(value, start)
    assert match is not None, "it may be empty"
    at, words = match.end(), match[0].split()
    scoped = bool(words) and (words[0].upper() in ALL_SCOPES or words[0] in declared)
    has_list = value.startswith("[", at)
    if words and (tag == "def" or not (scoped or (has_list and len(words) <= MAX_OWN_WORDS))):
        return None
    rest = at
    for part, closing in ((_LIST, "]"), (_BLANK, ""), (_MODIFIERS, "}"), (_BLANK, "")):
        # Without its end, each quote would search the whole value for a part.
        found = part.match(value, rest) if value.find(closing, rest) >= 0 else None
        rest = found.end() if found else rest
    is_end = value[rest : rest + 1] in ("", "!")
    quoted_comment = '"' in value[rest:]
    if is_end and has_list:
        return _After(1 if quoted_comment else 0, words)
    if is_end and (scoped or not quoted_comment):
        return _After(2 if scoped else 3, words)
    # A list without a proper end.
    if has_list and (scoped or '"' not in value[at:]):
        return _After(4, words)
    return _After(5, words) if has_list and not words else None


def _scope(words: Sequence[str], declared: Mapping[str, str]) -> str:
    """Return the scope of a synonym from the words after its text; the format's default is
    RELATED."""
    stated = (word.upper() for word in words)
    of_types = (declared.get(word, "") for word in words)
    return next((scope for scope in chain(stated, of_types) if scope in ALL_SCOPES), "RELATED")


def _plain(value: str) -> str:
    """Return an unquoted value, without trailing modifiers or comments."""
    for match in _CUT.finditer(value):
        mark = match[0]
        if mark == "!" or (mark == "{" and _ends_in_modifiers(value, match.start())):
            value = value[: match.start()]
            break
    return _unescape(value)


def _ends_in_modifiers(value: str, start: int) -> bool:
    found = _MODIFIERS.match(value, start)
    # Braces without an equals sign may belong to a chemical name.
    if found is None or ("=" not in found[0] and found[0][1:-1].strip()):
        return False
    return value[found.end() :].lstrip()[:1] in ("", "!")


def _id(value: str) -> str:
    """Return an id without trailing comments or modifiers."""
    match = _ID.match(value)
    return _unescape(match[0]) if match else ""


def _first_word(value: str) -> str:
    """Return a cross-reference without anything that follows; it may contain any character, as URLs
    do.
    """
    words = _unescape(value).split(None, 1)
    # Lists of several, and quotes, do not follow the grammar.
    return words[0].strip('",') if words else ""


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value).strip()

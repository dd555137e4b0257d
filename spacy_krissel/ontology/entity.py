"""Concepts of an ontology, and spellings of their ids, whose prefixes differ by publisher."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import wrong_setting

LISTS = ("aliases", "types", "tree_numbers", "xrefs", "alt_ids", "parents")
_TUPLES = (tuple,) * len(LISTS)
# Canonical prefix -> all of its spellings, in lower case.
_SPELLINGS = {
    "MESH": ("mesh", "msh"),
    "OMIM": ("omim", "mim"),
    "UMLS": ("umls", "umls_cui"),
    "NCIT": ("nci", "ncit"),
    "ORPHA": ("ordo", "orpha", "orphanet"),
    "NCBITaxon": ("ncbitaxon", "taxid", "taxonomy", "ncbi taxon"),
    "NCBIGene": ("ncbigene", "geneid", "entrez", "ncbi gene"),
}
PREFIXES = {spelling: prefix for prefix, spellings in _SPELLINGS.items() for spelling in spellings}
# Ids whose form shows their publisher: MeSH has six or nine digits after C or D, a UMLS concept has
# seven after C.
_BARE_MESH = re.compile(r"[CD](?:\d{6}|\d{9})")
_BARE_UMLS = re.compile(r"C\d{7}")
_PREFIX = re.compile(r"\w[\w.-]*:?")
_URL_END = re.compile("[/#=]")
_LETTERS, _DIGIT = re.compile(r"[^\W\d_]+"), re.compile(r"\d")
# Cellosaurus's own prefix is part of its ids.
_CELLOSAURUS = re.compile(r"(?:cellosaurus:)?cvcl[_:]([a-z0-9]{4})", re.IGNORECASE | re.ASCII)


def canonical_id(text: str) -> str:
    """Return one spelling for an id with or without its prefix.

    `MSH:D009103`, `MeSH:D009103` and `D009103` are `MESH:D009103`; `UMLS_CUI:C0018923` is
    `UMLS:C0018923`; dated SNOMED CT prefixes lose their date, and `CVCL:0030` is `CVCL_0030`. Other
    ids are unchanged.
    """
    text = text.strip()
    cell_line = _CELLOSAURUS.fullmatch(text)
    if cell_line:
        return f"CVCL_{cell_line[1].upper()}"
    prefix, colon, local = text.partition(":")
    if not colon:
        if _BARE_MESH.fullmatch(text):
            return f"MESH:{text}"
        return f"UMLS:{text}" if _BARE_UMLS.fullmatch(text) else text
    known = PREFIXES.get(prefix.lower())
    if known is None and prefix.lower().startswith("snomedct"):
        known = "SNOMEDCT"
    return f"{known}:{local.strip()}" if known else text


def spellings(text: str) -> list[str]:
    """Return the id and other spellings that a store may use, most likely first.

    `HP_0001677`, `hp:0001677` and
    `http://purl.obolibrary.org/obo/HP_0001677` are also looked up as `HP:0001677`.
    """
    local = _URL_END.split(text)[-1] if "://" in text else text
    canonical = canonical_id(local)
    number = canonical.partition(":")[2]
    # A bare number does not show its publisher: only spellings with the same canonical id are
    # tried.
    bare = [number] if number and canonical_id(number) == canonical else []
    curie = local if ":" in local else local.replace("_", ":", 1)
    prefix, colon, number = curie.partition(":")
    others = [canonical_id(curie), f"{prefix.upper()}:{number}"] if colon and number else []
    return list(dict.fromkeys([text, canonical, *bare, *others]))


def id_prefix(id: str) -> str:
    """Return the prefix of an id in lower case: `hp` for `HP:0001677`, `mesh` for `D009103`, and ""
    for a bare number.

    `mesh:c` is that of MeSH's supplementary concepts, which are a vocabulary of their own.
    """
    prefix, colon, local = canonical_id(id).partition(":")
    if not colon:
        found = _LETTERS.match(prefix)
        prefix = found[0] if found else ""
    return "mesh:c" if prefix == "MESH" and local.startswith("C") else prefix.lower()


def prefixes_of(ids: Iterable[str]) -> frozenset[str]:
    """Return the prefixes of many ids."""
    # Ids that differ in their digits only have the same prefix, and most ids do.
    return frozenset(map(id_prefix, {_DIGIT.sub("0", each) for each in ids}))


@lru_cache(maxsize=1 << 12)
def possible_prefixes(id: str) -> frozenset[str]:
    """Return the possible prefixes of an id, a CURIE or IRI."""
    found = {id_prefix(each) for each in spellings(id)}
    # An address begins with no prefix, and does not end in a bare number.
    return frozenset(found - {"http", "https", ""} if "://" in id else found)


def entity_url(id: str) -> str:
    """Return the URL of an entity's page; "" if none is known for the id's prefix, or the extra
    `urls` is missing.

    Reads the tables of the package `bioregistry`, without network access.
    """
    prefix, colon, local = canonical_id(id).partition(":")
    if local.startswith("//"):
        return id if prefix.lower() in ("http", "https") else ""
    try:
        import bioregistry
    except ImportError:
        return ""
    return (colon and bioregistry.get_default_iri(prefix, local)) or ""


@lru_cache(maxsize=1 << 14)
def registered_id(text: str) -> str:
    """Return the CURIE of an address, or of a CURIE with another spelling of its prefix.

    The tables are those of the package `bioregistry` (extra `urls`). RETURNS: "" without it, or if
    it does not know the text.
    """
    try:
        import bioregistry
    except ImportError:
        return ""
    if "://" in text:
        prefix, local = bioregistry.parse_iri(text)
        # A path of identifiers.org: hp/0000421.
        text = (local or "").replace("/", ":", 1) if prefix == "idot" else f"{prefix}:{local}"
    prefix, _, local = text.partition(":")
    prefix = bioregistry.normalize_prefix(prefix) if local else None
    return canonical_id(f"{prefix}:{local}") if prefix and local else ""


def check_prefix(prefix: str) -> str:
    """Return the prefix without its colon. Raises KrisselError K006 if it is not a word."""
    if not _PREFIX.fullmatch(prefix):
        raise wrong_setting("prefix", prefix, "a word, such as 'NCBITaxon'")
    return prefix.rstrip(":")


def add_prefix(id: str, prefix: str) -> str:
    """Add a prefix to an id without one: `9606` → `NCBITaxon:9606`."""
    return f"{prefix}:{id}" if prefix and ":" not in id else id


@dataclass(frozen=True, slots=True)
class Entity:
    """A concept as described by its ontology.

    id: primary id, in the spelling of its source.
    name: canonical (preferred) name.
    aliases: other names, in the order of the source.
    types: semantic types, e.g. `("Disease",)`.
    tree_numbers: positions in a hierarchy, e.g. MeSH's `C04.588.322`.
    definition: one text, or "".
    xrefs: ids of the same or a close concept elsewhere, e.g. `UMLS:C0018923`.
    species: its organism, or "": a name if the source has one, else an id of NCBI Taxonomy.
    source: the ontology it was read from.
    alt_ids: other ids of this concept.
    parents: ids of the concepts directly above it in its ontology.

    Lists become tuples. Raises KrisselError K006 if a field of several texts is a single text or
    anything else.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tree_numbers: tuple[str, ...] = ()
    definition: str = ""
    xrefs: tuple[str, ...] = ()
    species: str = ""
    source: str = ""
    alt_ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # One comparison of all fields is fast; ontologies have millions of entities.
        of = self.aliases.__class__, self.types.__class__, self.tree_numbers.__class__
        if (*of, self.xrefs.__class__, self.alt_ids.__class__, self.parents.__class__) != _TUPLES:
            for name in LISTS:
                object.__setattr__(self, name, _tuple(name, getattr(self, name)))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the canonical name and the aliases, without duplicates and blank names."""
        return tuple(dict.fromkeys(name for name in (self.name, *self.aliases) if name.strip()))


def _tuple(name: str, texts: Any) -> tuple[str, ...]:
    """Convert texts to a tuple. Raises KrisselError K006 for a single text, which would become a
    list of letters.
    """
    if not isinstance(texts, (list, tuple)):
        example = f"({texts!r},)" if isinstance(texts, str) else "('first', 'second')"
        raise wrong_setting(name, texts, f"a list or tuple of texts, such as {example}")
    return tuple(texts)

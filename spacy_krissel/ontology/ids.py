"""Spellings of ids: prefixes differ between publishers."""

import re

from ..errors import wrong_setting

# The prefix used for comparison -> all of its spellings, in lower case.
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
# Ids whose form shows their publisher: MeSH has six or nine digits after C or D, a UMLS concept has seven after C.
_BARE_MESH = re.compile(r"[CD](?:\d{6}|\d{9})")
_BARE_UMLS = re.compile(r"C\d{7}")
_PREFIX = re.compile(r"\w[\w.-]*:?")
_URL_END = re.compile("[/#=]")
# Cellosaurus's own prefix is part of its ids.
_CELLOSAURUS = re.compile(r"(?:cellosaurus:)?cvcl[_:]([a-z0-9]{4})", re.IGNORECASE | re.ASCII)


def canonical_id(text: str) -> str:
    """One spelling for an id with or without its prefix.

    `MSH:D009103`, `MeSH:D009103` and `D009103` are `MESH:D009103`; `UMLS_CUI:C0018923` is `UMLS:C0018923`; dated
    SNOMED CT prefixes lose their date, and `CVCL:0030` is `CVCL_0030`. Other ids are unchanged.
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
    """The id itself and other spellings that a store may have, the most likely first.

    `HP_0001677`, `hp:0001677` and `http://purl.obolibrary.org/obo/HP_0001677` are looked for as `HP:0001677` too.
    """
    local = _URL_END.split(text)[-1] if "://" in text else text
    canonical = canonical_id(local)
    number = canonical.partition(":")[2]
    # A bare number does not show its publisher: only spellings that lead back to the same id are tried.
    bare = [number] if number and canonical_id(number) == canonical else []
    curie = local if ":" in local else local.replace("_", ":", 1)
    prefix, colon, number = curie.partition(":")
    others = [canonical_id(curie), f"{prefix.upper()}:{number}"] if colon and number else []
    return list(dict.fromkeys([text, canonical, *bare, *others]))


def entity_url(id: str) -> str:
    """The address of an entity's page; "" where none is known for the id's prefix, or the extra `urls` is missing.

    Reads the tables of the package `bioregistry`, without network.
    """
    prefix, colon, local = canonical_id(id).partition(":")
    if local.startswith("//"):
        return id if prefix.lower() in ("http", "https") else ""
    try:
        import bioregistry
    except ImportError:
        return ""
    return (colon and bioregistry.get_default_iri(prefix, local)) or ""


def check_prefix(prefix: str) -> str:
    """The prefix without its colon. Raises KrisselError K006 if it is no word."""
    if not _PREFIX.fullmatch(prefix):
        raise wrong_setting("prefix", prefix, "a word, such as 'NCBITaxon'")
    return prefix.rstrip(":")


def add_prefix(id: str, prefix: str) -> str:
    """`9606` → `NCBITaxon:9606` for the prefix `NCBITaxon`; an id with a prefix of its own keeps it."""
    return f"{prefix}:{id}" if prefix and ":" not in id else id

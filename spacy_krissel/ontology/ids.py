"""Ids of one concept in the spellings of several publishers."""

import re
from typing import List

# Prefixes in lower case -> the one spelling used for comparison.
PREFIXES = {
    "mesh": "MESH",
    "msh": "MESH",
    "omim": "OMIM",
    "mim": "OMIM",
    "umls": "UMLS",
    "umls_cui": "UMLS",
    "nci": "NCIT",
    "ncit": "NCIT",
    "ordo": "ORPHA",
    "orpha": "ORPHA",
    "orphanet": "ORPHA",
    "ncbitaxon": "NCBITaxon",
    "taxid": "NCBITaxon",
    "taxonomy": "NCBITaxon",
}
# Ids whose form alone says whose they are: MeSH has six or nine digits after C or D, a UMLS concept has seven after C.
_BARE_MESH = re.compile(r"[CD](?:\d{6}|\d{9})")
_BARE_UMLS = re.compile(r"C\d{7}")


def canonical_id(text: str) -> str:
    """One spelling for an id with or without its prefix.

    `MSH:D009103`, `MeSH:D009103` and `D009103` are `MESH:D009103`; `UMLS_CUI:C0018923` is `UMLS:C0018923`; dated
    SNOMED CT prefixes lose their date. What is not known stays as it is.
    """
    text = text.strip()
    prefix, colon, local = text.partition(":")
    if not colon:
        if _BARE_MESH.fullmatch(text):
            return f"MESH:{text}"
        return f"UMLS:{text}" if _BARE_UMLS.fullmatch(text) else text
    known = PREFIXES.get(prefix.lower())
    if known is None and prefix.lower().startswith("snomedct"):
        known = "SNOMEDCT"
    return f"{known}:{local.strip()}" if known else text


def spellings(text: str) -> List[str]:
    """The id itself and the other ways in which a store may hold it, the most likely first."""
    canonical = canonical_id(text)
    local = canonical.partition(":")[2]
    # A bare number says nothing about whose it is, so only those that lead back to the same id are tried.
    bare = [local] if local and canonical_id(local) == canonical else []
    return list(dict.fromkeys([text, canonical, *bare]))

"""Semantic types of UMLS by id and name, and the set of them that PEL leaves out."""

from collections.abc import Iterable
from functools import cache

from spacy_krissel.errors import Errors, KrisselError
from spacy_krissel.util.folding import fold_name

# The 11 types whose entities PEL takes out of the knowledge base (appendix D, which prints Mental
# Process twice).
PEL = {
    "T041": "Mental Process",
    "T058": "Health Care Activity",
    "T059": "Laboratory Procedure",
    "T060": "Diagnostic Procedure",
    "T074": "Medical Device",
    "T089": "Regulation or Law",
    "T092": "Organization",
    "T093": "Health Care Related Organization",
    "T094": "Professional Society",
    "T097": "Professional or Occupational Group",
    "T196": "Element, Ion, or Isotope",
}
PRESETS = {"pel": PEL}
_IDS = {fold_name(name): id_ for id_, name in PEL.items()}


@cache
def type_key(text: str) -> str:
    """The key of a type: the id of one named here, of others the folded name."""
    folded = fold_name(text)
    return _IDS.get(folded, folded).lower()


def preset_types(name: str) -> tuple[str, ...]:
    """The ids of a named set of types. Raises KrisselError K006 for another name."""
    if name not in PRESETS:
        expected = f"one of {', '.join(PRESETS)}"
        raise KrisselError(Errors.K006.format(setting="preset", found=name, expected=expected))
    return tuple(PRESETS[name])


def type_keys(types: Iterable[str]) -> dict[str, str]:
    """`type_key` of each type → the type as it was written."""
    return {type_key(type_): type_ for type_ in types}

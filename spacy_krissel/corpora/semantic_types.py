"""Semantic types of UMLS by id and by name, and the sets of them that papers use."""

from functools import cache
from typing import Dict, Iterable, Tuple

from ..errors import Errors, KrisselError
from ..ontology.folding import fold_name

# The 21 types of MedMentions' subset ST21pv (Mohan and Li, 2019); each stands for what is below it, too.
ST21PV = {
    "T005": "Virus",
    "T007": "Bacterium",
    "T017": "Anatomical Structure",
    "T022": "Body System",
    "T031": "Body Substance",
    "T033": "Finding",
    "T037": "Injury or Poisoning",
    "T038": "Biologic Function",
    "T058": "Health Care Activity",
    "T062": "Research Activity",
    "T074": "Medical Device",
    "T082": "Spatial Concept",
    "T091": "Biomedical Occupation or Discipline",
    "T092": "Organization",
    "T097": "Professional or Occupational Group",
    "T098": "Population Group",
    "T103": "Chemical",
    "T168": "Food",
    "T170": "Intellectual Product",
    "T201": "Clinical Attribute",
    "T204": "Eukaryote",
}
# The 11 types whose entities PEL takes out of the knowledge base (appendix D, which prints Mental Process twice).
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
PRESETS: Dict[str, Dict[str, str]] = {"st21pv": ST21PV, "pel": PEL}
_IDS = {fold_name(name): id_ for preset in PRESETS.values() for id_, name in preset.items()}


@cache
def type_key(text: str) -> str:
    """What the spellings of one type share: of the types named here the id, of others the folded name."""
    folded = fold_name(text)
    return _IDS.get(folded, folded).lower()


def preset_types(name: str) -> Tuple[str, ...]:
    """The ids of a named set of types. Raises KrisselError K006 for another name."""
    if name not in PRESETS:
        expected = f"one of {', '.join(PRESETS)}"
        raise KrisselError(Errors.K006.format(setting="preset", found=name, expected=expected))
    return tuple(PRESETS[name])


def type_keys(types: Iterable[str]) -> Dict[str, str]:
    """`type_key` of each type → the type as it was written. Raises KrisselError K006 for one text instead of a list."""
    if isinstance(types, str):
        raise KrisselError(Errors.K006.format(setting="types", found=types, expected=f"a list, such as [{types!r}]"))
    return {type_key(type_): type_ for type_ in types}

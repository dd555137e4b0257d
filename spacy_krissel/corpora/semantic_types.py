"""Semantic types of UMLS by id and name, their hierarchy, and the sets of them that papers use."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors, KrisselError
from ..ontology.folding import fold_name
from ..ontology.tree_numbers import is_in_tree, tree_parts
from .files import open_lines

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
PRESETS: dict[str, dict[str, str]] = {"st21pv": ST21PV, "pel": PEL}
_IDS = {fold_name(name): id_ for preset in PRESETS.values() for id_, name in preset.items()}


@cache
def type_key(text: str) -> str:
    """What the spellings of one type share: of the types named here the id, of others the folded name."""
    folded = fold_name(text)
    return _IDS.get(folded, folded).lower()


def preset_types(name: str) -> tuple[str, ...]:
    """The ids of a named set of types. Raises KrisselError K006 for another name."""
    if name not in PRESETS:
        expected = f"one of {', '.join(PRESETS)}"
        raise KrisselError(Errors.K006.format(setting="preset", found=name, expected=expected))
    return tuple(PRESETS[name])


def type_keys(types: Iterable[str]) -> dict[str, str]:
    """`type_key` of each type → the type as it was written. Raises KrisselError K006 for one text instead of a list."""
    if isinstance(types, str):
        raise KrisselError(Errors.K006.format(setting="types", found=types, expected=f"a list, such as [{types!r}]"))
    return {type_key(type_): type_ for type_ in types}


EXPECTED = "the semantic network's file SRDEF"
TYPE, RELATION = "STY", "RL"
_ID = re.compile(r"T\d{3}")


class SemanticType(NamedTuple):
    """A type, and its place in the tree of types, such as `A1.2.3.1`."""

    id: str
    name: str
    number: str


def read_semantic_network(path: str | Path) -> list[SemanticType]:
    """The types of the file SRDEF, `STY|T017|Anatomical Structure|A1.2|…` a line; relations (`RL|…`) are left out.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no type), K225 (another line:
    the file is small, and without one type all below it would be lost).
    """
    types: dict[SemanticType, None] = {}
    number = 0
    with open_lines(path, EXPECTED) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            kind, *cells = (cell.strip() for cell in line.split("|"))
            if kind == RELATION:
                continue
            if (
                kind != TYPE
                or len(cells) < 3
                or not _ID.fullmatch(cells[0])
                or not cells[1]
                or not tree_parts(cells[2])
            ):
                raise KrisselError(Errors.K225.format(path=path, line=number, found=line[:80]))
            types[SemanticType(*cells[:3])] = None
    if not types:
        raise KrisselError(Errors.K204.format(path=path, what="type", line=number, expected=EXPECTED))
    return list(types)


def with_descendants(types: Iterable[str], network: Iterable[SemanticType]) -> set[str]:
    """The keys (`type_key`) of `types`, named by id or by name, and of all types below them, each by id and by name.

    Raises KrisselError K006 for a type that the network does not have.
    """
    network = list(network)
    wanted: set[str] = set()
    for key, written in type_keys(types).items():
        roots = [type_.number for type_ in network if key in _keys(type_)]
        if not roots:
            expected = "types of the semantic network, by id or by name"
            raise KrisselError(Errors.K006.format(setting="types", found=written, expected=expected))
        for type_ in network:
            if any(is_in_tree(type_.number, root) for root in roots):
                wanted |= _keys(type_)
    return wanted


def _keys(type_: SemanticType) -> set[str]:
    return {type_key(type_.id), type_key(type_.name)}

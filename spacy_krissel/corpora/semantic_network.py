"""UMLS's semantic network: which types are below a type."""

import re
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Set, Union

from ..errors import Errors, KrisselError
from ..ontology.tree_numbers import is_in_tree, tree_parts
from .files import open_lines
from .semantic_types import type_key, type_keys

EXPECTED = "the semantic network's file SRDEF"
TYPE, RELATION = "STY", "RL"
_ID = re.compile(r"T\d{3}")


class SemanticType(NamedTuple):
    """A type, and its place in the tree of types, such as `A1.2.3.1`."""

    id: str
    name: str
    number: str


def read_semantic_network(path: Union[str, Path]) -> List[SemanticType]:
    """The types of the file SRDEF, `STY|T017|Anatomical Structure|A1.2|…` a line; relations (`RL|…`) are left out.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no type), K225 (another line:
    the file is small, and without one type all below it would be lost).
    """
    types: Dict[SemanticType, None] = {}
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


def with_descendants(types: Iterable[str], network: Iterable[SemanticType]) -> Set[str]:
    """The keys (`type_key`) of `types`, named by id or by name, and of all types below them, each by id and by name.

    Raises KrisselError K006 for a type that the network does not have.
    """
    network = list(network)
    wanted: Set[str] = set()
    for key, written in type_keys(types).items():
        roots = [type_.number for type_ in network if key in _keys(type_)]
        if not roots:
            expected = "types of the semantic network, by id or by name"
            raise KrisselError(Errors.K006.format(setting="types", found=written, expected=expected))
        for type_ in network:
            if any(is_in_tree(type_.number, root) for root in roots):
                wanted |= _keys(type_)
    return wanted


def _keys(type_: SemanticType) -> Set[str]:
    return {type_key(type_.id), type_key(type_.name)}

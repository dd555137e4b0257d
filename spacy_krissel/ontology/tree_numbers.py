"""Tree numbers, the places of concepts in a hierarchy, such as MeSH's `C04.588.322` or UMLS's `A1.2`."""

import re
from typing import Tuple

_CATEGORY = re.compile(r"([^\W\d_]*)(.*)", re.DOTALL)


def tree_parts(number: str) -> Tuple[str, ...]:
    """The steps from the root: `C04.588` is ("C", "04", "588"); the letters of the category are a step of their own."""
    match = _CATEGORY.fullmatch(number.strip().strip("."))
    assert match is not None, "both halves may be empty"
    return tuple(part for part in (match[1], *match[2].split(".")) if part)


def is_in_tree(number: str, tree: str) -> bool:
    """Whether `number` is `tree` or below it, by whole parts: `C04.588` is below `C04` and `C`, not below `C04.5`."""
    root = tree_parts(tree)
    return bool(root) and tree_parts(number)[: len(root)] == root

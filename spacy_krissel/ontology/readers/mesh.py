"""MeSH descriptors as two tables: their terms, and their tree numbers."""

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple, Union

from ..entity import Entity
from .records import groups, open_records, table_rows, unique

TERM_COLUMNS = ("DescriptorUI", "TermName", "RecordPreferredTermYN")
TREE_COLUMNS = ("DescriptorUI", "DescriptorName", "tree_location")
# The sixteen categories of MeSH, by the first letter of a tree number.
CATEGORIES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographicals",
}


def read_mesh(path: Union[str, Path], tree_path: Optional[Union[str, Path]] = None) -> Iterator[Entity]:
    """Read a table of terms, tab-separated with a header, the terms of one descriptor next to each other.

    tree_path: table of tree numbers, held in memory (65,000 rows in all of MeSH). Types are the categories of the tree
        numbers, so without it there are none.
    Raises KrisselError K101, K102, K103; a row that cannot be used is counted (KW101).
    """
    trees: Dict[str, Tuple[str, ...]] = {}
    if tree_path is not None:
        trees = {entity.id: entity.tree_numbers for entity in read_mesh_tree(tree_path)}
    with open_records(path, "mesh", f"a tab-separated table with the columns {', '.join(TERM_COLUMNS)}") as records:
        for id_, rows in groups(records, table_rows(records, TERM_COLUMNS)):
            terms: List[str] = []
            name = ""
            for _, term, preferred in rows:
                terms.append(term)
                if preferred == "Y" and not name:
                    name = term
            name = name or terms[0]
            tree_numbers = trees.get(id_, ())
            yield Entity(
                id=id_,
                name=name,
                aliases=unique(terms, without=name),
                types=categories(tree_numbers),
                tree_numbers=tree_numbers,
                source="MeSH",
            )


def read_mesh_tree(path: Union[str, Path]) -> Iterator[Entity]:
    """Read a table of tree numbers: descriptors with their name, tree numbers and categories, and no further terms.

    Enough to enrich another ontology from. Raises and warns as `read_mesh`.
    """
    expected = f"a tab-separated table with the columns {', '.join(TREE_COLUMNS)}"
    with open_records(path, "mesh-tree", expected) as records:
        for id_, rows in groups(records, table_rows(records, TREE_COLUMNS)):
            tree_numbers = unique(tree_number for _, _, tree_number in rows)
            types = categories(tree_numbers)
            yield Entity(id=id_, name=rows[0][1], types=types, tree_numbers=tree_numbers, source="MeSH")


def categories(tree_numbers: Sequence[str]) -> Tuple[str, ...]:
    return tuple(dict.fromkeys(CATEGORIES[number[0]] for number in tree_numbers if number[0] in CATEGORIES))

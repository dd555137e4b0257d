"""Species in ontology files: which are kept, and how Cellosaurus writes them."""

import re
from typing import Dict, FrozenSet, Iterable, Sequence, Tuple

from ...errors import Errors, KrisselError

# The species of the genes that two corpora mention, by NCBI Taxonomy (BELHD, Garda and Leser, Table 11).
SPECIES_SUBSETS: Dict[str, Tuple[str, ...]] = {
    "gnormplus": tuple(
        "3702 3847 4896 6239 7227 7955 8355 8364 9031 9606 9823 9913 9986 10090 10116 10298 11676 11908 41856 333760 "
        "511145 559292".split()
    ),
    "nlm-gene": tuple(
        "3055 3702 4896 6239 6956 7227 7955 8355 8364 9031 9606 9615 9823 9913 9940 9986 10029 10089 10090 10116 11676 "
        "11709 51031 81972 559292 2886926".split()
    ),
}
# How the OBO file of Cellosaurus refers to a species.
TAXON_XREF = "NCBI_TaxID:"
_NUMBER = re.compile(r"\d+")


def species_ids(species: Sequence[str]) -> FrozenSet[str]:
    """The tax ids that `species` names, by themselves or as one of `SPECIES_SUBSETS`.

    Raises KrisselError K006 for anything else.
    """
    expected = f"a list of tax ids, such as ['9606'], or of {', '.join(SPECIES_SUBSETS)}"
    if isinstance(species, str):
        raise KrisselError(Errors.K006.format(setting="species", found=species, expected=expected))
    found = [id_ for each in species for id_ in SPECIES_SUBSETS.get(str(each).lower(), (str(each),))]
    for id_ in found:
        if not (id_.isascii() and id_.isdecimal()):
            raise KrisselError(Errors.K006.format(setting="species", found=id_, expected=expected))
    return frozenset(found)


def species_name(references: Iterable[str]) -> str:
    """The scientific name in `NCBI_TaxID=9606; ! Homo sapiens (Human)`, or the tax id of a reference without name.

    A hybrid has several, joined as it is written: `Homo sapiens x Mus musculus`.
    """
    names = []
    for reference in references:
        head, _, comment = reference.partition("!")
        number = _NUMBER.search(head)
        names.append(comment.partition(" (")[0].strip() or (number[0] if number else ""))
    return " x ".join(dict.fromkeys(filter(None, names)))

"""NCBI Gene's `gene_info`: one gene per line, tab-separated, below a header that begins with
`#tax_id`.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..entity import Entity
from .records import FileHead, open_records, table_rows, unique

# The species of the genes in two corpora, by NCBI Taxonomy (BELHD, Garda and Leser, Table 11).
SPECIES_SUBSETS: dict[str, tuple[str, ...]] = {
    "gnormplus": tuple(
        "3702 3847 4896 6239 7227 7955 8355 8364 9031 9606 9823 9913 9986 10090 10116 10298 11676 "
        "11908 41856 333760 511145 559292".split()
    ),
    "nlm-gene": tuple(
        "3055 3702 4896 6239 6956 7227 7955 8355 8364 9031 9606 9615 9823 9913 9940 9986 10029 "
        "10089 10090 10116 11676 11709 51031 81972 559292 2886926".split()
    ),
}
# The columns that are read, of sixteen. A name of the nomenclature authority, such as HGNC,
# precedes others.
GENE_COLUMNS = ("#tax_id", "GeneID", "Symbol", "dbXrefs")
NAME_COLUMNS = (
    "Symbol_from_nomenclature_authority",
    "Full_name_from_nomenclature_authority",
    "description",
    "Synonyms",
    "Other_designations",
)
NOTHING = "-"
# Symbol of a placeholder row for all genes of a species that have no row.
NEW_ENTRY = "NEWENTRY"


def read_gene_info(
    path: str | Path, *, species: Sequence[str] = (), types: Sequence[str] = ("Gene",)
) -> Iterator[Entity]:
    """Read the genes of a gene_info file, of all species or of some.

    Ids are bare numbers, as in the file and in corpora linked to it; a gene's species is its tax
    id. The name is the symbol; aliases are the authority's names, the description, synonyms and
    other designations.

    species: tax ids to keep, or "gnormplus" or "nlm-gene", the species of these corpora
        (`SPECIES_SUBSETS`).
    types: given to every gene.

    Raises KrisselError K006 (an invalid species), K130 (no gene is left); warns KW130 about species
    without a gene.
    """
    expected = f"a list of tax ids, such as ['9606'], or of {', '.join(SPECIES_SUBSETS)}"
    names = [species] if isinstance(species, str) else species
    chosen = [id_ for each in names for id_ in SPECIES_SUBSETS.get(str(each).lower(), (str(each),))]
    wrong = (
        [species]
        if isinstance(species, str)
        else [id_ for id_ in chosen if not re.fullmatch("[0-9]+", id_)]
    )
    if wrong:
        raise wrong_setting("species", wrong[0], expected)
    wanted = frozenset(chosen)

    def genes() -> Iterator[Entity]:
        columns = (*GENE_COLUMNS, *NAME_COLUMNS)
        with open_records(
            path, "gene-info", f"a tab-separated table with the columns {', '.join(columns)}"
        ) as records:
            found: set[str] = set()
            for tax_id, gene_id, symbol, xrefs, *names in table_rows(records, columns):
                if (wanted and tax_id not in wanted) or symbol in (NEW_ENTRY, NOTHING):
                    continue
                found.add(tax_id)
                aliases = (name for cell in names if cell != NOTHING for name in cell.split("|"))
                yield Entity(
                    id=gene_id,
                    name=symbol,
                    aliases=unique(aliases, without=symbol),
                    types=tuple(types),
                    xrefs=() if xrefs == NOTHING else unique(xrefs.split("|")),
                    species=tax_id,
                    source="NCBI Gene",
                )
        missing = ", ".join(sorted(wanted - found, key=int))
        if wanted and not found:
            raise KrisselError(Errors.K130.format(path=path, species=missing))
        if missing:
            warnings.warn(
                Warnings.KW130.format(path=path, species=missing), KrisselWarning, stacklevel=2
            )

    return genes()


def is_gene_info(start: FileHead) -> bool:
    return set(GENE_COLUMNS) <= set(start.cells)

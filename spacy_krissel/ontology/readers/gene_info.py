"""NCBI Gene's `gene_info`: a gene a line, tab-separated, below a header that begins with `#tax_id`."""

import warnings
from pathlib import Path
from typing import FrozenSet, Iterator, Sequence, Set, Tuple, Union

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ..entity import Entity
from .records import open_records, table_rows, unique
from .species import species_ids

# What is read of the sixteen columns. A name of the nomenclature authority, such as HGNC, goes before the others.
GENE_COLUMNS = ("#tax_id", "GeneID", "Symbol", "dbXrefs")
NAME_COLUMNS = (
    "Symbol_from_nomenclature_authority",
    "Full_name_from_nomenclature_authority",
    "description",
    "Synonyms",
    "Other_designations",
)
NOTHING = "-"
# The symbol of rows that stand for all genes of a species that have no row.
NEW_ENTRY = "NEWENTRY"


def read_gene_info(
    path: Union[str, Path], *, species: Sequence[str] = (), types: Sequence[str] = ("Gene",)
) -> Iterator[Entity]:
    """Read the genes of a gene_info file, of all species or of some.

    Ids are bare numbers, as in the file and in the corpora that are linked to it; a gene's species is its tax id. The
    name is the symbol; aliases are the authority's names, the description, synonyms and other designations.

    species: tax ids to keep, or "gnormplus" or "nlm-gene", the species of these corpora (`SPECIES_SUBSETS`).
    types: given to every gene.
    Raises KrisselError K006 (a species that is neither), K101, K102, K103, K130 (no gene is left); a row that cannot
    be used is counted (KW101), and species without a gene are named (KW130).
    """
    return _read_genes(path, species_ids(species), tuple(types))


def _read_genes(path: Union[str, Path], wanted: FrozenSet[str], types: Tuple[str, ...]) -> Iterator[Entity]:
    columns = (*GENE_COLUMNS, *NAME_COLUMNS)
    with open_records(path, "gene-info", f"a tab-separated table with the columns {', '.join(columns)}") as records:
        found: Set[str] = set()
        for tax_id, gene_id, symbol, xrefs, *names in table_rows(records, columns):
            if wanted and tax_id not in wanted or symbol in (NEW_ENTRY, NOTHING):
                continue
            found.add(tax_id)
            aliases = (name for cell in names if cell != NOTHING for name in cell.split("|"))
            yield Entity(
                id=gene_id,
                name=symbol,
                aliases=unique(aliases, without=symbol),
                types=types,
                xrefs=() if xrefs == NOTHING else unique(xrefs.split("|")),
                species=tax_id,
                source="NCBI Gene",
            )
    missing = ", ".join(sorted(wanted - found, key=int))
    if wanted and not found:
        raise KrisselError(Errors.K130.format(path=path, species=missing))
    if missing:
        warnings.warn(Warnings.KW130.format(path=path, species=missing), KrisselWarning, stacklevel=2)

"""The organisms that entities belong to, by name."""

import re
import warnings

from ...errors import KrisselWarning, Warnings
from ..folding import fold_name
from ..store import OntologyStore

IDS_SHOWN = 5
# How sources write the ids of NCBI Taxonomy: 9606, NCBITaxon:9606, NCBITaxID:9606, taxon:9606, …
_TAXON = re.compile(r"(?:(?:ncbi[_ ]?)?(?:tax|taxon|taxid|taxonomy):\s*)?(\d+)", re.IGNORECASE)


def taxon_number(species: str) -> str | None:
    """The number in an id of NCBI Taxonomy, however it is written; None for anything else, such as a name."""
    taxon = _TAXON.fullmatch(species.strip())
    return taxon[1] if taxon else None


class SpeciesNames(dict[str, str]):
    """From the species of an entity, a name or an id, to the name of that species; "" for no species.

    An id is looked up in `taxonomy`, where one is given, and becomes the preferred name there, which in NCBI Taxonomy's
    own files is the scientific one. Everything else is a name already, as is an id that `taxonomy` does not have.
    """

    def __init__(self, taxonomy: OntologyStore | None = None) -> None:
        super().__init__()
        self._taxonomy = taxonomy
        self._unknown: list[str] = []

    def __missing__(self, species: str) -> str:
        return self.setdefault(species, self._find(species.strip()))

    def warn_of_unknown(self) -> None:
        """Warn KW121 of the ids that were not found, if there are any."""
        if self._taxonomy is not None and self._unknown:
            shown = ", ".join(sorted(self._unknown)[:IDS_SHOWN])
            message = Warnings.KW121.format(count=len(self._unknown), path=self._taxonomy.path, ids=shown)
            warnings.warn(message, KrisselWarning, stacklevel=2)

    def _find(self, species: str) -> str:
        # Symbols alone would be folded away.
        if not any(map(str.isalnum, fold_name(species))):
            return ""
        if self._taxonomy is None:
            return species
        taxon = taxon_number(species)
        ids = [f"NCBITaxon:{taxon}", f"NCBITaxID:{taxon}", taxon] if taxon else []
        for id_ in (species, *ids):
            if id_ in self._taxonomy:
                return self._taxonomy.get(id_).name
        if taxon:
            self._unknown.append(species)
        return species

"""Parts of UMLS that papers name."""

import warnings
from typing import NamedTuple

from ..errors import Errors, KrisselError, KrisselWarning, Warnings


class Preset(NamedTuple):
    """release: of UMLS. trees: places in the semantic network, with those below them; vocabularies: all where empty.
    suppressed, tradenames: suppressible and obsolete atoms, and trade names, are names too.
    """

    release: str
    trees: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    suppressed: bool = False
    tradenames: bool = False


# T005, T007, T017, T022, T031, T033, T037, T038, T058, T062, T074, T082, T091, T092, T097, T098, T103, T168, T170, T201
# and T204, by their places.
_ST21 = """
    A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 A2.9.1 A2.9.2 A1.4.1
    A1.4.3 A2.4 A2.3.1 A1.1.3
"""
_ST_SOURCES = "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM SNOMEDCT_US"
PRESETS = {
    # MedMentions, KRISSBERT.
    "2017AA": Preset("2017AA"),
    # MedMentions' 21 semantic types and 18 vocabularies.
    "st21pv": Preset("2017AA", tuple(_ST21.split()), tuple(_ST_SOURCES.split())),
    # SapBERT's names (§3.1).
    "sapbert": Preset("2020AA", suppressed=True, tradenames=True),
}


def find_preset(name: str, release: str, where: object) -> Preset:
    """The preset `name` for files or a store, `where`, of `release` ("" where they state none).

    Another release is read too (KW106): it follows merged concepts, but lacks deleted ones and has new ones.
    Raises KrisselError K006 for another name.
    """
    if name not in PRESETS:
        expected = f"one of {', '.join(PRESETS)}"
        raise KrisselError(Errors.K006.format(setting="preset", found=name, expected=expected))
    preset = PRESETS[name]
    if release != preset.release:
        found = release or "no release"
        message = Warnings.KW106.format(where=where, found=found, name=name, expected=preset.release)
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return preset

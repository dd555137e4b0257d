"""Tree numbers: positions of concepts in a hierarchy, such as MeSH's `C04.588.322` or UMLS's
`A1.2`.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from ..errors import KrisselWarning, Warnings, wrong_setting
from .entity import Entity
from .hierarchy import Hierarchy
from .store import OntologyStore


def tree_parts(number: str) -> tuple[str, ...]:
    """Return the steps from the root: `C04.588` is ("C", "04", "588"); the letters of the category
    are a separate step.
    """
    number = number.strip().strip(".")
    category = "".join(takewhile(str.isalpha, number))
    return tuple(filter(None, (category, *number[len(category) :].split("."))))


def is_in_tree(number: str, tree: str) -> bool:
    """Return whether `number` is `tree` or below it, by whole parts: `C04.588` is below `C04` and
    `C`, not below `C04.5`.
    """
    root = tree_parts(tree)
    return bool(root) and tree_parts(number)[: len(root)] == root


# MeSH's files do not name the tops of its trees, which are not descriptors. Names as of 2022.
_MESH_TREES = """
    A01 Body Regions; A02 Musculoskeletal System; A03 Digestive System; A04 Respiratory System; A05 Urogenital System;
    A06 Endocrine System; A07 Cardiovascular System; A08 Nervous System; A09 Sense Organs; A10 Tissues; A11 Cells; A12
    Fluids and Secretions; A13 Animal Structures; A14 Stomatognathic System; A15 Hemic and Immune Systems; A16
    Embryonic Structures; A17 Integumentary System; A18 Plant Structures; A19 Fungal Structures; A20 Bacterial
    Structures; A21 Viral Structures; B01 Eukaryota; B02 Archaea; B03 Bacteria; B04 Viruses; B05 Organism Forms; C01
    Infections; C04 Neoplasms; C05 Musculoskeletal Diseases; C06 Digestive System Diseases; C07 Stomatognathic
    Diseases; C08 Respiratory Tract Diseases; C09 Otorhinolaryngologic Diseases; C10 Nervous System Diseases; C11 Eye
    Diseases; C12 Urogenital Diseases; C14 Cardiovascular Diseases; C15 Hemic and Lymphatic Diseases; C16 Congenital,
    Hereditary, and Neonatal Diseases and Abnormalities; C17 Skin and Connective Tissue Diseases; C18 Nutritional and
    Metabolic Diseases; C19 Endocrine System Diseases; C20 Immune System Diseases; C21 Disorders of Environmental
    Origin; C22 Animal Diseases; C23 Pathological Conditions, Signs and Symptoms; C24 Occupational Diseases; C25
    Chemically-Induced Disorders; C26 Wounds and Injuries; D01 Inorganic Chemicals; D02 Organic Chemicals; D03
    Heterocyclic Compounds; D04 Polycyclic Compounds; D05 Macromolecular Substances; D06 Hormones, Hormone
    Substitutes, and Hormone Antagonists; D08 Enzymes and Coenzymes; D09 Carbohydrates; D10 Lipids; D12 Amino Acids,
    Peptides, and Proteins; D13 Nucleic Acids, Nucleotides, and Nucleosides; D20 Complex Mixtures; D23 Biological
    Factors; D25 Biomedical and Dental Materials; D26 Pharmaceutical Preparations; D27 Chemical Actions and Uses; E01
    Diagnosis; E02 Therapeutics; E03 Anesthesia and Analgesia; E04 Surgical Procedures, Operative; E05 Investigative
    Techniques; E06 Dentistry; E07 Equipment and Supplies; F01 Behavior and Behavior Mechanisms; F02 Psychological
    Phenomena; F03 Mental Disorders; F04 Behavioral Disciplines and Activities; G01 Physical Phenomena; G02 Chemical
    Phenomena; G03 Metabolism; G04 Cell Physiological Phenomena; G05 Genetic Phenomena; G06 Microbiological Phenomena;
    G07 Physiological Phenomena; G08 Reproductive and Urinary Physiological Phenomena; G09 Circulatory and Respiratory
    Physiological Phenomena; G10 Digestive System and Oral Physiological Phenomena; G11 Musculoskeletal and Neural
    Physiological Phenomena; G12 Immune System Phenomena; G13 Integumentary System Physiological Phenomena; G14 Ocular
    Physiological Phenomena; G15 Plant Physiological Phenomena; G16 Biological Phenomena; G17 Mathematical Concepts
"""  # noqa: E501
MESH_TREES = dict(" ".join(each.split()).split(" ", 1) for each in _MESH_TREES.split(";"))


def with_tree_types(store: OntologyStore) -> Iterator[Entity]:
    """Yield the entities of a store with the names of the tops of their trees as types. For
    example, tree numbers below MeSH's C10 give "Nervous System Diseases".

    A top is named by the entity with its number, else by MeSH, else by its number. An entity
    without a tree number has the names of its topmost ancestors by parents (`Hierarchy.roots`), or
    else keeps its types.
    """
    tops: dict[str, str] = {}
    for entity in store:
        for number in entity.tree_numbers:
            if "." not in number:
                tops.setdefault(number, entity.name)
    hierarchy = Hierarchy(store, by_numbers=False)
    roots = {row: store.entity_at(row).name for row in hierarchy.roots()}
    for row, entity in enumerate(store):
        numbers = dict.fromkeys(number.partition(".")[0] for number in entity.tree_numbers)
        if numbers:
            types = dict.fromkeys(
                tops.get(number) or MESH_TREES.get(number, number) for number in numbers
            )
            entity = replace(entity, types=tuple(types))
        elif above := dict.fromkeys(
            roots[each] for each in hierarchy.ancestors(row) if each in roots
        ):
            entity = replace(entity, types=tuple(above))
        yield entity


class _Preset(NamedTuple):
    """A selection of UMLS.

    release: of UMLS. trees: positions in the semantic network, including descendants. vocabularies:
        all if empty.
    suppressed, tradenames: include suppressible and obsolete atoms, and trade names.
    """

    release: str
    trees: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    suppressed: bool = False
    tradenames: bool = False


# Positions of T005, T007, T017, T022, T031, T033, T037, T038, T058, T062, T074, T082, T091, T092,
# T097, T098, T103, T168, T170, T201 and T204.
_ST21 = """
    A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 A2.9.1 A2.9.2 A1.4.1
    A1.4.3 A2.4 A2.3.1 A1.1.3
"""  # noqa: E501
_ST_SOURCES = (
    "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM "
    "SNOMEDCT_US"
)
PRESETS = {
    # MedMentions, KRISSBERT.
    "2017AA": _Preset("2017AA"),
    # MedMentions' 21 semantic types and 18 vocabularies.
    "st21pv": _Preset("2017AA", tuple(_ST21.split()), tuple(_ST_SOURCES.split())),
    # SapBERT's names (§3.1).
    "sapbert": _Preset("2020AA", suppressed=True, tradenames=True),
}


def find_preset(name: str, release: str, where: object) -> _Preset:
    """Return the preset `name` for files or a store, `where`, of `release` ("" if they state none).

    Another release is accepted with warning KW106: merged concepts are mapped, but deleted ones are
    missing and new ones added.

    Raises KrisselError K006 for another name.
    """
    if name not in PRESETS:
        raise wrong_setting("preset", name, f"one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    if release != preset.release:
        found = release or "no release"
        message = Warnings.KW106.format(
            where=where, found=found, name=name, expected=preset.release
        )
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return preset

"""UMLS's Rich Release Format: MRCONSO.RRF, read together with MRSTY, MRDEF, MRREL and MRCUI."""

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ...util.folding import fold_name
from ..entity import Entity, canonical_id
from ..tree_numbers import PRESETS, find_preset, is_in_tree
from .records import (
    BadRecord,
    FileHead,
    RecordFile,
    check_width,
    find_file,
    groups,
    open_records,
    required_file,
    unique,
)

CONCEPTS, TYPES, DEFINITIONS, RETIRED, NETWORK = (
    "MRCONSO.RRF",
    "MRSTY.RRF",
    "MRDEF.RRF",
    "MRCUI.RRF",
    "SRDEF",
)
RELATIONS, SOURCES, RELEASE = "MRREL.RRF", "MRSAB.RRF", "release.dat"
SYNONYMOUS, PARENT = "SY", "PAR"
# An atom is obsolete in its source, or suppressed by UMLS's editors or users.
SUPPRESSED = frozenset("OEY")
# UMLS's name for the source of taxa's ids; `canonical_id` knows the prefixes of other sources.
PREFIXES = {"NCBI": "NCBITaxon"}
NO_CODE = "NOCODE"
# Restriction levels of sources in UMLS's licence.
RESTRICTIONS = frozenset("012349")
FROM_BEST_TO_WORST = ("MSH", "NCI", "SNOMEDCT_US", "HPO")
# Term types of the concept that a code belongs to, if atoms of other concepts have it, too: a MeSH
# descriptor has narrower concepts. In other sources, atoms of any type have the code of their
# concept.
HEADINGS = {"MSH": ("MH", "NM"), "OMIM": ("PT",), "SNOMEDCT_US": ("PT", "FN")}
# True if the first concept of a row of MRREL is the drug and the second its trade name: labels
# describe the second.
TRADENAMES = {"tradename_of": True, "has_tradename": False}


# Number of columns of each file, and the indices of those that are read: CUI, LAT, TS, STT, ISPREF,
# SAB, TTY, STR, SUPPRESS, CODE; CUI, TUI, STN, STY; CUI, SAB, DEF, SUPPRESS; CUI1, REL, CUI2; CUI1,
# REL, CUI2, SUPPRESS, RELA, SAB; RSAB, VSAB, SRL, CURVER; record type, UI, STY, STN.
COLUMNS = {
    CONCEPTS: (18, (0, 1, 2, 4, 6, 11, 12, 14, 16, 13)),
    TYPES: (6, (0, 1, 2, 3)),
    DEFINITIONS: (8, (0, 4, 5, 6)),
    RETIRED: (7, (0, 2, 5)),
    RELATIONS: (16, (0, 3, 4, 14, 7, 10)),
    SOURCES: (25, (3, 2, 13, 21)),
    NETWORK: (10, (0, 1, 2, 3)),
}
# RxNorm's files have the same columns.
COLUMNS.update({"RXNCONSO.RRF": COLUMNS[CONCEPTS], "RXNSAB.RRF": COLUMNS[SOURCES]})
Row = tuple[str, ...]
# Sorts after the last CUI.
END: tuple[str, list[Row]] = ("\U0010ffff", [])


def read_umls(
    path: str | Path,
    *,
    vocabularies: Sequence[str] = (),
    term_types: Sequence[str] = (),
    semantic_types: Sequence[str] = (),
    languages: Sequence[str] = ("ENG",),
    suppressed: bool = False,
    type_ids: bool = False,
    relations: Sequence[str] = (),
    codes: Sequence[str] = (),
    tradenames: bool = False,
    parents: bool = False,
    preset: str = "",
) -> Iterator[Entity]:
    """Read UMLS's concepts one at a time, in the order of MRCONSO.

    All files are sorted by CUI, as UMLS ships them and MetamorphoSys writes them, so that they are
    read in parallel. Only MRCUI is held in memory: the retired CUIs of a concept are its
    alternative ids.

    path: the folder that holds the files (META), or MRCONSO.RRF; each of them plain or as `.gz`.
    vocabularies, term_types: read only their atoms, by abbreviation (SNOMEDCT_US; PT); a concept
        without any is left out.
    semantic_types: read only their concepts, by id, name or tree number (T047, "Disease or
        Syndrome", B2.2.1.2.1), including the types below them.
    languages: of atoms (ENG).
    suppressed: include suppressible and obsolete atoms and definitions.
    type_ids: types are ids (T047) and not names.
    relations: concepts with these relations (MRREL's RL, of like meaning, or SY) are xrefs; they
        are no names.
    codes: ids of a concept in these sources (MSH) are its alternative ids, so that gold ids of MeSH
        are found. A descriptor's id belongs to the concept with its heading (`HEADINGS`), whatever
        atoms are read.
    tradenames: names of a drug's trade names (MRREL's tradename_of) are its aliases (SapBERT §3.1).
        They are held in memory.
    parents: keep the parents (MRREL's PAR) that the vocabularies give a concept.
    preset: "st21pv", MedMentions' semantic types and vocabularies; "2017AA", everything; or
        "sapbert", which includes suppressed atoms and trade names. Each warns about a release other
        than its own (`tree_numbers.PRESETS`). `vocabularies` and `semantic_types` override those of
        the preset.

    The ids of a concept in its sources are its xrefs (`MESH:D009103`). The name is the atom that
    UMLS prefers (TS P, STT PF, ISPREF Y) among those that are read, else the first. A concept's
    tree numbers are those of its types in the semantic network. The definition is the first of
    MeSH, NCI, SNOMED CT or HPO, else any.

    Raises KrisselError K006 (an unknown type or preset), K101 also without MRSTY, or without MRREL
    if types, relations, parents or trade names are requested, K131 (a file that is not sorted by
    CUI).
    """
    folder, concepts = _locate(path)
    trees: Sequence[str] = ()
    if preset:
        chosen = find_preset(preset, umls_release(path).get("version", ""), path)
        vocabularies = vocabularies or chosen.vocabularies
        trees = () if semantic_types else chosen.trees
        suppressed, tradenames = suppressed or chosen.suppressed, tradenames or chosen.tradenames
    retired = _retired(folder)
    positions = _positions(folder, semantic_types, trees) if semantic_types or trees else None
    related_path = required_file(folder, RELATIONS, "UMLS") if relations or parents else None
    kept = (*relations, PARENT) if parents else relations

    def takes(row: Row) -> bool:
        _, language, _, _, _, source, term_type, text, suppress, _ = row
        return bool(
            text.strip()
            and language in languages
            and (not vocabularies or source in vocabularies)
            and (not term_types or term_type in term_types)
            and (suppressed or suppress not in SUPPRESSED)
        )

    traded = _traded(folder, concepts, takes, suppressed) if tradenames else {}
    with (
        _joined(find_file(folder, TYPES), TYPES) as types,
        _joined(find_file(folder, DEFINITIONS), DEFINITIONS) as definitions,
        _joined(related_path, RELATIONS, lambda row: row[1] in kept) as related,
        open_rrf(concepts, CONCEPTS) as records,
    ):
        unread = set(codes)
        for cui, rows in _groups(records, CONCEPTS):
            unread.difference_update(row[5] for row in rows)
            own_types, own_definitions, own_related = types(cui), definitions(cui), related(cui)
            if positions is not None and positions.isdisjoint(
                number for _, _, number, _ in own_types
            ):
                continue
            names = list(filter(takes, rows))
            if not names:
                continue
            name = min(names, key=_preference)[7].strip()
            above = [
                row
                for row in own_related
                if parents and (not vocabularies or row[5] in vocabularies)
            ]
            yield Entity(
                id=cui,
                name=name,
                aliases=unique((*(row[7] for row in names), *traded.get(cui, ())), without=name),
                types=unique(tui if type_ids else title for _, tui, _, title in own_types),
                tree_numbers=unique(number for _, _, number, _ in own_types),
                definition=_definition(own_definitions, suppressed),
                xrefs=unique(
                    (
                        *codes_of(names),
                        *map(canonical_id, _related(own_related, relations, suppressed)),
                    )
                ),
                source="UMLS",
                alt_ids=unique(
                    (*retired.get(cui, ()), *codes_of(_headings(rows, codes, suppressed)))
                ),
                parents=unique(_related(above, [PARENT], suppressed)),
            )
        if unread:
            message = Warnings.KW107.format(path=folder, sources=", ".join(sorted(unread)))
            warnings.warn(message, KrisselWarning, stacklevel=2)


def holds_umls(folder: str | Path) -> bool:
    """Return whether it is a folder of UMLS's files."""
    return find_file(Path(folder), CONCEPTS) is not None


def is_umls(start: FileHead) -> bool:
    """Return whether the first line is a row of MRCONSO."""
    cells = start.first.split("|")
    return len(cells) == COLUMNS[CONCEPTS][0] + 1 and not cells[-1] and cells[2] in ("P", "S")


def _preference(row: Row) -> tuple[bool, bool, bool]:
    """Return a key that sorts atoms by UMLS's preference: the first term, in its first form, the
    first atom.
    """
    return row[2] != "P", row[3] != "PF", row[4] != "Y"


def _definition(rows: Sequence[Row], suppressed: bool) -> str:
    order = {source: rank for rank, source in enumerate(FROM_BEST_TO_WORST)}
    kept = [row for row in rows if row[2].strip() and (suppressed or row[3] not in SUPPRESSED)]
    return min(kept, key=lambda row: order.get(row[1], len(order)))[2].strip() if kept else ""


def codes_of(atoms: Sequence[Row]) -> Iterator[str]:
    """Yield the ids of a concept in the sources of its atoms, with prefixes; ids of some sources
    already have one.
    """
    for atom in atoms:
        source, code = atom[5], atom[9].strip()
        if code and code != NO_CODE:
            yield code if ":" in code else canonical_id(f"{PREFIXES.get(source, source)}:{code}")


def _headings(atoms: Sequence[Row], sources: Sequence[str], suppressed: bool) -> list[Row]:
    """Return the atoms of `sources` whose codes are ids of their concept."""
    return [
        atom
        for atom in atoms
        if atom[5] in sources
        and atom[6] in HEADINGS.get(atom[5], (atom[6],))
        and (suppressed or atom[8] not in SUPPRESSED)
    ]


def _traded(
    folder: Path, concepts: Path, takes: Callable[[Row], bool], suppressed: bool
) -> dict[str, list[str]]:
    """Return the names of each drug's trade names."""
    brands: dict[str, dict[str, None]] = defaultdict(dict)
    with open_rrf(required_file(folder, RELATIONS, "UMLS"), RELATIONS) as records:
        for first, _, second, suppress, label, _ in rrf_rows(records, RELATIONS):
            if (
                label in TRADENAMES
                and first != second
                and (suppressed or suppress not in SUPPRESSED)
            ):
                drug, brand = (first, second) if TRADENAMES[label] else (second, first)
                brands[drug][brand] = None
    names: dict[str, list[str]] = {brand: [] for drug in brands.values() for brand in drug}
    with open_rrf(concepts, CONCEPTS) as records:
        for row in rrf_rows(records, CONCEPTS):
            if row[0] in names and takes(row):
                names[row[0]].append(row[7])
    return {
        drug: [name for brand in found for name in names[brand]] for drug, found in brands.items()
    }


def _related(rows: Sequence[Row], relations: Sequence[str], suppressed: bool) -> Iterator[str]:
    for cui, relation, other, suppress, _, _ in rows:
        if (
            relation in relations
            and other
            and other != cui
            and (suppressed or suppress not in SUPPRESSED)
        ):
            yield other


def _positions(
    folder: Path, semantic_types: Sequence[str], trees: Sequence[str] = ()
) -> frozenset[str]:
    """Return the tree numbers, among those of concepts, of the requested types, of `trees`, and of
    all types below.

    SRDEF, if it exists, names the types that no concept has.
    """
    required_file(folder, TYPES, "UMLS")
    numbers: dict[str, set[str]] = defaultdict(set)
    for _, tui, number, title in _read(folder, TYPES):
        numbers[fold_name(tui)].add(number)
        numbers[fold_name(title)].add(number)
    used = set().union(*numbers.values())
    for kind, *keys in chain(_read(folder, NETWORK), _read(folder.parent / "NET", NETWORK)):
        if kind == "STY":
            for key in keys:
                numbers[fold_name(key)].add(keys[-1])
    found = {number for number in used if any(is_in_tree(number, tree) for tree in trees)}
    for each in semantic_types:
        below = {number for number in used if is_in_tree(number, each.upper())}
        if not below and fold_name(each) not in numbers:
            expected = "types of UMLS's semantic network, by id, name or tree number"
            raise wrong_setting("semantic_types", each, expected)
        tops = numbers.get(fold_name(each), ())
        found |= below.union(
            number for number in used if any(is_in_tree(number, top) for top in tops)
        )
    return frozenset(found)


def umls_release(path: str | Path) -> dict[str, Any]:
    """Return the release of UMLS's files (`release.dat`) and, from MRSAB, the version and
    restriction of each current source (0 to 4 and 9, appendix 2 of UMLS's licence), if these files
    exist.
    """
    folder, _ = _locate(path)
    found: dict[str, Any] = {}
    release = folder / RELEASE
    if release.is_file():
        text = release.read_text(encoding="utf8", errors="replace")
        if named := re.search(r"^umls\.release\.name=(\S+)", text, re.MULTILINE):
            found["version"] = named[1]
    if find_file(folder, SOURCES) is not None:
        found["vocabularies"] = source_versions(folder, SOURCES)
    return found


def source_versions(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Return the version and the restriction of each current source from the file `name`, if it
    exists.
    """
    return {
        source: {"version": version, "restriction": int(level) if level in RESTRICTIONS else level}
        for source, version, level, current in _read(folder, name)
        if current == "Y"
    }


def umls_files(path: str | Path, **options: Any) -> list[Path]:
    """Return UMLS's files at `path` that are read; MRREL, the largest, only for options that need
    it.
    """
    folder, concepts = _locate(path)
    preset = PRESETS.get(options.get("preset", ""))
    related = any(map(options.get, ("relations", "tradenames", "parents"))) or (
        preset and preset.tradenames
    )
    names = (TYPES, DEFINITIONS, *((RELATIONS,) if related else ()), RETIRED, SOURCES)
    return [concepts, *filter(None, (find_file(folder, name) for name in names))]


@contextmanager
def _joined(
    path: Path | None, name: str, keep: Callable[[Row], bool] = bool
) -> Iterator[Callable[[str], list[Row]]]:
    """Yield a function for the rows of each CUI that `keep` accepts, from a file sorted by CUI.
    CUIs must be requested in order. Without a file, there are no rows.

    The rest is read at the end, to find its bad rows.
    """
    if path is None:
        yield lambda cui: []
        return
    with open_rrf(path, name) as records:
        every = _groups(records, name, keep)
        latest = next(every, END)

        def rows(cui: str) -> list[Row]:
            nonlocal latest
            while latest[0] < cui:
                latest = next(every, END)
            return latest[1] if latest[0] == cui else []

        yield rows
        for _ in every:
            pass


def _groups(
    records: RecordFile, name: str, keep: Callable[[Row], bool] = bool
) -> Iterator[tuple[str, list[Row]]]:
    """Group the rows by CUI. Raises KrisselError K131 if a CUI is smaller than the previous one."""
    last = ""
    every = rrf_rows(records, name)
    for cui, rows in groups(records, filter(keep, every)):
        if cui < last:
            line = records.line
            # A damaged file looks the same; its end then raises K102.
            for _ in every:
                pass
            raise KrisselError(
                Errors.K131.format(path=records.path, line=line, found=cui, last=last)
            )
        last = cui
        yield cui, rows


def rrf_rows(records: RecordFile, name: str) -> Iterator[Row]:
    """Yield the columns of each row that are read; the first is never blank."""
    width, read = COLUMNS[name]
    columns = itemgetter(*read)

    def parse(line: str) -> Row:
        # Every column ends with a bar.
        cells = line.removesuffix("|").split("|")
        check_width(cells, width)
        if not cells[read[0]]:
            raise BadRecord("has nothing in its first column")
        return columns(cells)

    return records.parsed(records.lines(), parse)


def _read(folder: Path, name: str) -> Iterator[Row]:
    """Yield the rows of a file; none if it is missing."""
    path = find_file(folder, name)
    if path is not None:
        with open_rrf(path, name) as records:
            yield from rrf_rows(records, name)


def _retired(folder: Path) -> dict[str, dict[str, None]]:
    """Return the former CUIs of each concept: of concepts merged into it, not of wider or narrower
    ones.
    """
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for old, relation, new in _read(folder, RETIRED):
        if relation == SYNONYMOUS and new and new != old:
            found[new][old] = None
    return found


def open_rrf(path: Path, name: str) -> AbstractContextManager[RecordFile]:
    format = "rxnorm" if name.startswith("RXN") else "umls"
    return open_records(
        path, format, f"{name}, {COLUMNS[name][0]} columns that end with bars", closing=(b"|",)
    )


def _locate(path: str | Path) -> tuple[Path, Path]:
    """Return the folder of the files, and MRCONSO."""
    path = Path(path)
    return (path, required_file(path, CONCEPTS, "UMLS")) if path.is_dir() else (path.parent, path)

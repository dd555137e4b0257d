"""UMLS's Rich Release Format: MRCONSO.RRF, and beside it MRSTY, MRDEF, MRREL and MRCUI, all read together."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import Errors, KrisselError
from ..entity import Entity
from ..folding import fold_name
from ..ids import canonical_id
from .records import RecordFile, Start, groups, open_records, unique

CONCEPTS, TYPES, DEFINITIONS, RETIRED, NETWORK = "MRCONSO.RRF", "MRSTY.RRF", "MRDEF.RRF", "MRCUI.RRF", "SRDEF"
RELATIONS, SOURCES, RELEASE = "MRREL.RRF", "MRSAB.RRF", "release.dat"
LANGUAGE = "ENG"
SYNONYMOUS = "SY"
# Of an atom that its source has made obsolete, or UMLS's editors or users have suppressed.
SUPPRESSED = frozenset("OEY")
# What UMLS calls taxa's ids; the prefixes of other sources are known to `canonical_id`.
PREFIXES = {"NCBI": "NCBITaxon"}
NO_CODE = "NOCODE"
# Of the use of a source, by UMLS's licence.
RESTRICTIONS = frozenset("012349")
FROM_BEST_TO_WORST = ("MSH", "NCI", "SNOMEDCT_US", "HPO")


class Columns(NamedTuple):
    """How many columns a file has, and the numbers of those that are read."""

    width: int
    read: tuple[int, ...]


# CUI, LAT, TS, STT, ISPREF, SAB, TTY, STR, SUPPRESS, CODE; CUI, TUI, STN, STY; CUI, SAB, DEF, SUPPRESS; CUI1, REL,
# CUI2; CUI1, REL, CUI2, SUPPRESS; RSAB, VSAB, SRL, CURVER; record type, UI, STY, STN.
COLUMNS = {
    CONCEPTS: Columns(18, (0, 1, 2, 4, 6, 11, 12, 14, 16, 13)),
    TYPES: Columns(6, (0, 1, 2, 3)),
    DEFINITIONS: Columns(8, (0, 4, 5, 6)),
    RETIRED: Columns(7, (0, 2, 5)),
    RELATIONS: Columns(16, (0, 3, 4, 14)),
    SOURCES: Columns(25, (3, 2, 13, 21)),
    NETWORK: Columns(10, (0, 1, 2, 3)),
}


def read_umls(
    path: str | Path,
    *,
    vocabularies: Sequence[str] = (),
    term_types: Sequence[str] = (),
    semantic_types: Sequence[str] = (),
    languages: Sequence[str] = (LANGUAGE,),
    suppressed: bool = False,
    type_ids: bool = False,
    relations: Sequence[str] = (),
) -> Iterator[Entity]:
    """Read UMLS's concepts, one at a time, in the order of MRCONSO.

    All files are sorted by CUI, as UMLS ships them and MetamorphoSys writes them, so that a concept's rows are read
    when it comes; of MRCUI alone, all is kept: the retired CUIs of a concept are its alternative ids.

    path: the folder that holds the files (META), or MRCONSO.RRF; each of them plain or with `.gz` behind its name.
    vocabularies, term_types: atoms of these alone, by abbreviation (SNOMEDCT_US; PT); a concept without any is left
        out.
    semantic_types: concepts of these alone, by id, name or tree number (T047, "Disease or Syndrome", B2.2.1.2.1), with
        the types below them.
    languages: of atoms (ENG).
    suppressed: take suppressible and obsolete atoms and definitions as well.
    type_ids: types are ids (T047) and not names.
    relations: concepts that are related so (MRREL's RL, of like meaning, or SY) are xrefs; they are no names.

    The ids of a concept in its sources are its xrefs (`MESH:D009103`). The name is the atom that UMLS prefers (TS P,
    STT PF, ISPREF Y) among those that are taken, else the first; a concept's tree numbers are those of its types in the
    semantic network. Of its definitions, the first of MeSH, NCI, SNOMED CT, HPO or else any is taken.

    Raises KrisselError K101 (no MRCONSO, or no MRSTY or MRREL where types or relations are asked for), K102, K103, K131
    (a file that is not sorted by CUI); a row that cannot be used is counted (KW101).
    """
    folder, concepts = _locate(Path(path))
    wanted = _Wanted(frozenset(vocabularies), frozenset(term_types), frozenset(languages), suppressed)
    retired = _retired(_find(folder, RETIRED))
    tops = _tree_numbers(folder, semantic_types) if semantic_types else ()
    related_path = _needed(folder, RELATIONS) if relations else None
    with (
        _joined(_find(folder, TYPES), TYPES) as types,
        _joined(_find(folder, DEFINITIONS), DEFINITIONS) as definitions,
        _joined(related_path, RELATIONS, lambda row: row[1] in relations) as related,
        _open(concepts, CONCEPTS) as records,
    ):
        for cui, rows in _groups(records, CONCEPTS):
            own_types, own_definitions, own_related = types(cui), definitions(cui), related(cui)
            if tops and not any(_is_below(number, tops) for _, _, number, _ in own_types):
                continue
            names = [row for row in rows if wanted.takes(row)]
            if not names:
                continue
            name = min(names, key=_preference)[7].strip()
            yield Entity(
                id=cui,
                name=name,
                aliases=unique((row[7] for row in names), without=name),
                types=unique(tui if type_ids else title for _, tui, _, title in own_types),
                tree_numbers=unique(number for _, _, number, _ in own_types),
                definition=_definition(own_definitions, suppressed),
                xrefs=unique((*_codes(names), *_related(own_related, suppressed))),
                source="UMLS",
                alt_ids=tuple(retired.get(cui, ())),
            )


def holds_umls(folder: str | Path) -> bool:
    """Is it a folder of UMLS's files?"""
    return Path(folder).is_dir() and _find(Path(folder), CONCEPTS) is not None


def is_umls(start: Start) -> bool:
    """Is the first line a row of MRCONSO?"""
    line = start.first
    cells = line.split("|")
    return line.endswith("|") and len(cells) == COLUMNS[CONCEPTS].width + 1 and cells[2] in ("P", "S")


class _Wanted(NamedTuple):
    vocabularies: Collection[str]
    term_types: Collection[str]
    languages: Collection[str]
    suppressed: bool

    def takes(self, row: tuple[str, ...]) -> bool:
        _, language, _, _, _, source, term_type, text, suppress, _ = row
        return bool(
            text.strip()
            and language in self.languages
            and (not self.vocabularies or source in self.vocabularies)
            and (not self.term_types or term_type in self.term_types)
            and (self.suppressed or suppress not in SUPPRESSED)
        )


def _preference(row: tuple[str, ...]) -> tuple[bool, bool, bool]:
    """Smaller for what UMLS prefers: of the first term, in its first form, the first atom."""
    return row[2] != "P", row[3] != "PF", row[4] != "Y"


def _definition(rows: Sequence[tuple[str, ...]], suppressed: bool) -> str:
    order = {source: place for place, source in enumerate(FROM_BEST_TO_WORST)}
    kept = [row for row in rows if row[2].strip() and (suppressed or row[3] not in SUPPRESSED)]
    return min(kept, key=lambda row: order.get(row[1], len(order)))[2].strip() if kept else ""


def _codes(atoms: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The ids of a concept in the sources of its atoms, with their prefixes; some sources' ids have theirs already."""
    for atom in atoms:
        source, code = atom[5], atom[9].strip()
        if code and code != NO_CODE:
            yield code if ":" in code else canonical_id(f"{PREFIXES.get(source, source)}:{code}")


def _related(rows: Sequence[tuple[str, ...]], suppressed: bool) -> Iterator[str]:
    for cui, _, other, suppress in rows:
        if other and other != cui and (suppressed or suppress not in SUPPRESSED):
            yield canonical_id(other)


def _is_below(number: str, tops: Collection[str]) -> bool:
    """Is a type at this place of the network, one of `tops` or below one? `B2.2` is above `B2.2.1` and not `B2.21`;
    `A1` is above `A1.2`, and `A` above it."""
    return any(number == top or number.startswith(f"{top}." if top[1:] else top) for top in tops)


def _tree_numbers(folder: Path, wanted: Sequence[str]) -> tuple[str, ...]:
    """The places in the semantic network of the types that are asked for, by the types that concepts have, and by
    SRDEF, where it is, those that none has."""
    places: dict[str, set[str]] = defaultdict(set)
    with _open(_needed(folder, TYPES), TYPES) as records:
        for _, tui, number, title in _rows(records, TYPES):
            for key in (tui, title, *_places(number)):
                places[fold_name(key)].add(number)
    network = _find(folder, NETWORK) or _find(folder.parent / "NET", NETWORK)
    if network is not None:
        with _open(network, NETWORK) as records:
            for kind, *keys in _rows(records, NETWORK):
                if kind == "STY":
                    for key in keys:
                        places[fold_name(key)].add(keys[-1])
    for each in wanted:
        if fold_name(each) not in places:
            expected = "types of UMLS's semantic network, by id, name or tree number"
            raise KrisselError(Errors.K006.format(setting="semantic_types", found=each, expected=expected))
    return tuple(sorted({number for each in wanted for number in places[fold_name(each)]}))


def _places(number: str) -> Iterator[str]:
    """A place and those above it: `A1.2` → `A`, `A1`, `A1.2`."""
    parts = number.split(".")
    yield number[:1]
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def umls_release(path: str | Path) -> dict[str, Any]:
    """What UMLS's files say of themselves: their release (`release.dat`), and by MRSAB the version of each current
    source and how restricted its use is (0 to 4 and 9, appendix 2 of UMLS's licence); as far as these files are there.
    """
    folder, _ = _locate(Path(path))
    found: dict[str, Any] = {}
    release = folder / RELEASE
    if release.is_file():
        named = re.search(
            r"^umls\.release\.name=(\S+)", release.read_text(encoding="utf8", errors="replace"), re.MULTILINE
        )
        if named:
            found["version"] = named[1]
    sources = _find(folder, SOURCES)
    if sources is not None:
        with _open(sources, SOURCES) as records:
            found["vocabularies"] = {
                source: {"version": version, "restriction": int(level) if level in RESTRICTIONS else level}
                for source, version, level, current in _rows(records, SOURCES)
                if current == "Y"
            }
    return found


def umls_files(path: str | Path, relations: Sequence[str] = ()) -> list[Path]:
    """Those of UMLS's files at `path` that are read; MRREL, the largest, only for `relations`."""
    folder, concepts = _locate(Path(path))
    names = (TYPES, DEFINITIONS, *((RELATIONS,) if relations else ()), RETIRED, SOURCES)
    others = (_find(folder, name) for name in names)
    return [concepts, *(file_ for file_ in others if file_ is not None)]


Rows = list[tuple[str, ...]]


@contextmanager
def _joined(
    path: Path | None, name: str, keep: Callable[[tuple[str, ...]], bool] | None = None
) -> Iterator[Callable[[str], Rows]]:
    """The rows of each CUI that `keep` takes, of a file that is sorted by CUI as another is and read as far as that one
    has come: what is asked for comes after all that was asked for before. No rows without a file.

    What is left at the end is read, for its bad rows.
    """
    if path is None:
        yield lambda cui: []
        return
    with _open(path, name) as records:
        every = _groups(records, name, keep)
        latest: tuple[str, Rows] | None = next(every, None)

        def rows(cui: str) -> Rows:
            nonlocal latest
            while latest is not None and latest[0] < cui:
                latest = next(every, None)
            return latest[1] if latest is not None and latest[0] == cui else []

        yield rows
        for _ in every:
            pass


def _groups(
    records: RecordFile, name: str, keep: Callable[[tuple[str, ...]], bool] | None = None
) -> Iterator[tuple[str, Rows]]:
    """The rows of each CUI. Raises KrisselError K131 where one is smaller than that before it."""
    last = ""
    every = _rows(records, name)
    for cui, rows in groups(records, every if keep is None else filter(keep, every)):
        if cui < last:
            line = records.line
            # A damaged file looks like this, too, and says so at its end (K102).
            for _ in every:
                pass
            raise KrisselError(Errors.K131.format(path=records.path, line=line, found=cui, last=last))
        last = cui
        yield cui, rows


def _rows(records: RecordFile, name: str) -> Iterator[tuple[str, ...]]:
    """The columns of each row that are read, the first of them never blank."""
    width, read = COLUMNS[name]
    for line in records.lines():
        if not line.strip():
            continue
        # Every column ends with a bar.
        cells = line.removesuffix("|").split("|")
        if len(cells) != width:
            records.reject(f"has {len(cells)} columns instead of {width}")
        elif not cells[read[0]]:
            records.reject("has nothing in its first column")
        else:
            records.accept()
            yield tuple(cells[place] for place in read)


def _retired(path: Path | None) -> dict[str, dict[str, None]]:
    """The CUIs that stood for each concept once: of those that were merged into it, not of wider or narrower ones."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    if path is None:
        return found
    with _open(path, RETIRED) as records:
        for old, relation, new in _rows(records, RETIRED):
            if relation == SYNONYMOUS and new and new != old:
                found[new][old] = None
    return found


def _open(path: Path, name: str) -> AbstractContextManager[RecordFile]:
    expected = f"UMLS's {name}, {COLUMNS[name].width} columns that end with bars"
    return open_records(path, "umls", expected, closing=(b"|",))


def _locate(path: Path) -> tuple[Path, Path]:
    """The folder of the files, and MRCONSO."""
    if not path.is_dir():
        return path.parent, path
    return path, _needed(path, CONCEPTS)


def _find(folder: Path, name: str) -> Path | None:
    """A file of UMLS, plain or gzipped, if it is there."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _needed(folder: Path, name: str) -> Path:
    """The same. Raises KrisselError K101 where it is not there."""
    path = _find(folder, name)
    if path is None:
        raise KrisselError(Errors.K101.format(path=folder / name, expected=f"UMLS's {name} or {name}.gz"))
    return path

"""RxNorm's Rich Release Format: RXNCONSO.RRF, with UMLS's columns."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..entity import Entity
from .records import FileHead, find_file, required_file, unique
from .umls import COLUMNS, SUPPRESSED, codes_of, open_rrf, rrf_rows, source_versions

CONCEPTS, SOURCES = "RXNCONSO.RRF", "RXNSAB.RRF"
RXNORM, ENGLISH = "RXNORM", "ENG"
# Term types of a concept's own name, one each; others, such as PSN, SY and TMSY, are synonyms.
NAMES = (
    "IN PIN MIN BN SCD SBD GPCK BPCK SCDC SCDF SCDFP SCDG SCDGP SBDC SBDF SBDFP SBDG DF DFG".split()
)


def read_rxnorm(
    path: str | Path, *, vocabularies: Sequence[str] = (RXNORM,), term_types: Sequence[str] = ()
) -> Iterator[Entity]:
    """Read RxNorm's concepts with their English names; suppressed and obsolete rows are left out.

    The name is RxNorm's own, with its term type ("IN") as type; without one it is the first name.
    Ids are bare numbers (RXCUI); the number with `RXNORM:` is an alternative id. Codes in all other
    sources are xrefs. All are held in memory, 1.0 kB per concept with two names and two codes: 240
    MiB for 250,000.

    path: the folder `rrf` or the one above it, or RXNCONSO.RRF; files plain or as `.gz`.
    vocabularies: read the names of these sources (MSH); a concept without any is left out.
    term_types: read only concepts whose name has one of these term types (IN).

    Raises KrisselError K101 (no such file).
    """
    names: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    codes: dict[str, list[str]] = defaultdict(list)
    with open_rrf(_locate(path), CONCEPTS) as records:
        for row in rrf_rows(records, CONCEPTS):
            id_, language, _, _, _, source, term_type, text, suppress, _ = row
            if suppress in SUPPRESSED:
                continue
            own = source == RXNORM
            if not own:
                codes[id_] += codes_of([row])
            if text.strip() and language == ENGLISH and source in vocabularies:
                rank = (
                    NAMES.index(term_type) if own and term_type in NAMES else len(NAMES) + (not own)
                )
                names[id_].append((rank, term_type, text))
    for id_, every in names.items():
        _, term_type, name = min(every, key=lambda each: each[0])
        if not term_types or term_type in term_types:
            yield Entity(
                id=id_,
                name=name.strip(),
                aliases=unique((text for _, _, text in every), without=name.strip()),
                types=unique([term_type]),
                xrefs=unique(codes.get(id_, ())),
                source="RxNorm",
                alt_ids=(f"{RXNORM}:{id_}",),
            )


def holds_rxnorm(folder: Path) -> bool:
    """Return whether it is a folder of RxNorm's files, or the one above it."""
    return any(find_file(each, CONCEPTS) for each in (folder, folder / "rrf"))


def is_rxnorm(start: FileHead) -> bool:
    """Return whether the first line is a row of RXNCONSO, in which UMLS's columns for terms are
    empty.
    """
    cells = start.first.split("|")
    return (
        len(cells) == COLUMNS[CONCEPTS][0] + 1
        and cells[0].isdecimal()
        and not any((*cells[2:7], cells[-1]))
    )


def rxnorm_files(path: str | Path, **options: Any) -> list[Path]:
    """Return RxNorm's files at `path` that are read."""
    concepts = _locate(path)
    return [concepts, *filter(None, [find_file(concepts.parent, SOURCES)])]


def rxnorm_release(path: Path) -> dict[str, Any]:
    """Return the version of RxNorm and of each of its sources, from RXNSAB if it exists; see
    `umls.umls_release`.
    """
    found = source_versions(_locate(path).parent, SOURCES)
    return {"version": found[RXNORM]["version"], "vocabularies": found} if RXNORM in found else {}


def _locate(path: str | Path) -> Path:
    path = Path(path)
    return (
        path
        if path.is_file()
        else find_file(path / "rrf", CONCEPTS) or required_file(path, CONCEPTS, "RxNorm")
    )

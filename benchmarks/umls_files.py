"""Synthetic RRF files of UMLS's shape and size, from a seed: MRCONSO, MRSTY, MRDEF, MRCUI, MRREL,
MRSAB and SRDEF.

Words are made of syllables and have Zipf's frequencies, names have one to eight of them, and the
names of a concept share some. A concept has 2.55 English names, each with an atom or two of several
sources, some of them suppressed, and a fourth as many names in other languages; one name in seventy
is shared with another concept.

    python benchmarks/umls_files.py META --concepts 3400000
"""

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Annotated, TextIO

import typer

from spacy_krissel.util.progress import progress_bar

# Fraction of atoms, and restriction level of the licence.
SOURCES = {
    "SNOMEDCT_US": 0.24,
    "MSH": 0.22,
    "NCI": 0.12,
    "RXNORM": 0.10,
    "MDR": 0.06,
    "LNC": 0.14,
    "NCBI": 0.12,
}
LICENCES = {"SNOMEDCT_US": 9, "MSH": 0, "NCI": 0, "RXNORM": 0, "MDR": 3, "LNC": 0, "NCBI": 0}
TERM_TYPES = ("PT", "SY", "LLT", "AB", "PM", "ET")
OTHER_LANGUAGES = ("SPA", "FRE", "GER", "JPN")
N_WORDS, N_TYPES = 120_000, 127
NAMES_A_CONCEPT, ATOMS_A_NAME, FOREIGN = 2.55, 1.25, 0.25
SUPPRESSED, SHARED, DEFINED, RETIRED = 0.08, 0.014, 0.05, 0.1
# Names that a shared one is drawn from.
KEPT = 4096
CONSONANTS, VOWELS = "bcdfghlmnprstvz", "aeiou"


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the files")],
    concepts: Annotated[
        int, typer.Option(help="Number of concepts; UMLS has 3.4 million")
    ] = 3_400_000,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Write the files, and print how many rows each has."""
    print(json.dumps(write_umls(folder, concepts, seed), indent=2))


def write_umls(folder: Path, concepts: int, seed: int = 0) -> dict[str, int]:
    """Write the files of `concepts` concepts below `folder`. RETURNS: the rows of each file."""
    folder.mkdir(parents=True, exist_ok=True)
    made = _Made(seed)
    rows: dict[str, int] = {}
    files: dict[str, TextIO] = {}
    names = ("MRCONSO", "MRSTY", "MRDEF", "MRCUI", "MRREL")
    try:
        for name in names:
            files[name] = (folder / f"{name}.RRF").open("w", encoding="utf8")
            rows[name] = 0

        def write(name: str, *cells: object) -> None:
            files[name].write("|".join(map(str, cells)) + "|\n")
            rows[name] += 1

        for number in progress_bar(range(concepts), show=True, desc="concepts", unit_scale=True):
            made.concept(number, concepts, write)
    finally:
        for file_ in files.values():
            file_.close()
    (folder / "SRDEF").write_text("".join(made.types()), encoding="utf8")
    (folder / "MRSAB.RRF").write_text("".join(made.sources()), encoding="utf8")
    return {**rows, "SRDEF": N_TYPES, "MRSAB": len(SOURCES)}


class _Made:
    """Generator of concepts, one after the other, from one stream of random numbers."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._words = words(self._random, N_WORDS)
        self._ranks = list(accumulate(1 / (rank + 30) for rank in range(N_WORDS)))
        self._atoms = 0
        self._earlier: list[str] = []
        self._tree_numbers = [_tree_number(number) for number in range(N_TYPES)]

    def concept(self, number: int, concepts: int, write: Callable[..., None]) -> None:
        """Write a concept's rows, in the order of the files."""
        draw = self._random
        cui = f"C{number:07}"
        (source,) = draw.choices(list(SOURCES), weights=list(SOURCES.values()))
        for index, name in enumerate(self._names(draw)):
            first = True
            while first or draw.random() < 1 - 1 / ATOMS_A_NAME:
                suppress = "N" if index == 0 or draw.random() > SUPPRESSED else "O"
                self._atom(write, cui, "ENG", source, index, first, name, suppress)
                (source,) = draw.choices(list(SOURCES), weights=list(SOURCES.values()))
                first = False
            if draw.random() < FOREIGN:
                self._atom(
                    write, cui, draw.choice(OTHER_LANGUAGES), "MDR", index, True, f"{name} ü", "N"
                )
        for type_ in {int(N_TYPES * draw.random() ** 2) for _ in range(1 + (draw.random() < 0.08))}:
            tui = f"T{type_ + 1:03}"
            write(
                "MRSTY", cui, tui, self._tree_numbers[type_], f"Kind {tui}", f"AT{number:08}", 256
            )
        if draw.random() < DEFINED:
            text = " ".join(self._draw_words(draw, 20 + int(40 * draw.random())))
            write(
                "MRDEF",
                cui,
                f"A{self._atoms:08}",
                f"AT{number:08}",
                "",
                source,
                f"{text}.",
                "N",
                "",
            )
        if draw.random() < RETIRED:
            write("MRCUI", f"C{9_000_000 - number:07}", "2016AB", "SY", "", "", cui, "Y")
        for _ in range(2):
            other = f"C{draw.randrange(concepts):07}"
            relation = draw.choice(("PAR", "CHD", "RB", "RN", "RO"))
            write(
                "MRREL",
                cui,
                "",
                "CUI",
                relation,
                other,
                "",
                "CUI",
                "",
                "",
                "",
                source,
                source,
                "",
                "",
                "N",
                "",
            )

    def _names(self, draw: Random) -> Iterator[str]:
        # A single word is rarely a name, and then a rare word.
        alone = draw.random() < 0.08
        name = (
            [f"{draw.choice(self._words)}{draw.randrange(99)}"]
            if alone
            else self._draw_words(draw, _length(draw))
        )
        preferred = " ".join(name)
        yield preferred
        if len(self._earlier) < KEPT:
            self._earlier.append(preferred)
        elif draw.random() < 0.05:
            self._earlier[draw.randrange(KEPT)] = preferred
        while draw.random() < 1 - 1 / NAMES_A_CONCEPT:
            if draw.random() < SHARED * NAMES_A_CONCEPT / (NAMES_A_CONCEPT - 1) / 2:
                yield draw.choice(self._earlier)
                continue
            # Another word order, or with some words replaced.
            other = (
                name[::-1]
                if draw.random() < 0.2
                else [*name[1:], *self._draw_words(draw, 1 + len(name) // 3)]
            )
            yield " ".join(other)

    def _atom(
        self,
        write: Callable[..., None],
        cui: str,
        language: str,
        source: str,
        index: int,
        first: bool,
        name: str,
        suppress: str,
    ) -> None:
        self._atoms += 1
        number = f"{self._atoms:08}"
        status, form, preferred = (
            ("P" if index == 0 else "S"),
            ("PF" if first else "VO"),
            ("Y" if first else "N"),
        )
        kind = TERM_TYPES[min(index, len(TERM_TYPES) - 1)]
        lui, sui, aui, code = f"L{number}", f"S{number}", f"A{number}", int(cui[1:]) + 100_000
        write(
            "MRCONSO",
            cui,
            language,
            status,
            lui,
            form,
            sui,
            preferred,
            aui,
            "",
            code,
            "",
            source,
            kind,
            code,
            name,
            0,
            suppress,
            "",
        )

    def _draw_words(self, draw: Random, n: int) -> list[str]:
        return draw.choices(self._words, cum_weights=self._ranks, k=n)

    def types(self) -> Iterator[str]:
        """Yield the rows of SRDEF."""
        for number, tree_number in enumerate(self._tree_numbers):
            tui = f"T{number + 1:03}"
            yield f"STY|{tui}|Kind {tui}|{tree_number}|Made up.||||||\n"

    def sources(self) -> Iterator[str]:
        """Yield the rows of MRSAB."""
        for number, (source, licence) in enumerate(LICENCES.items()):
            cells = [
                f"C{8_000_000 + number}",
                f"C{8_100_000 + number}",
                f"{source}2016",
                source,
                f"{source}, synthetic",
            ]
            cells += [
                "",
                "2016",
                "",
                "",
                "2017AA",
                "",
                "",
                "",
                str(licence),
                "",
                "",
                "",
                "",
                "",
                "ENG",
                "UTF-8",
                "Y",
                "Y",
            ]
            yield "|".join([*cells, source, ""]) + "|\n"


def words(draw: Random, n: int) -> list[str]:
    """Return distinct synthetic words, the first of them the shortest."""
    found: dict[str, None] = {}
    while len(found) < n:
        syllables = 2 + len(found) * 3 // n + draw.randrange(3)
        found[
            "".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(syllables))
            + draw.choice(CONSONANTS)
        ] = None
    return list(found)


def _length(draw: Random) -> int:
    return min(8, 2 + int(draw.expovariate(0.4)))


def _tree_number(number: int) -> str:
    """Return the tree number of a semantic type: below A or B, deeper for later types."""
    digits: list[str] = []
    rest = number // 2
    while rest:
        rest, digit = divmod(rest - 1, 4)
        digits.insert(0, str(digit + 1))
    return "AB"[number % 2] + ".".join(digits)


if __name__ == "__main__":
    typer.run(main)

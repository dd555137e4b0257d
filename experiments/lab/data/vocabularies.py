"""MeSH as two tables, and MEDIC in lines: the forms that the projects read, made from NLM's and
CTD's own files."""

import gzip
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spacy_krissel.corpora.files import open_lines
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.ontology.readers.mesh import TERM_COLUMNS, TREE_COLUMNS, read_mesh_xml
from spacy_krissel.util.atomic import atomic_file, check_file, write_text

from ..errors import Errors, KrisselError

PathLike = str | Path
EXPECTED = "CTD's table of diseases, tab-separated"
# The columns of CTD's table of diseases, at the front of every release: name, id, alternative ids,
# …, synonyms.
NAME, ID, OTHER_IDS, SYNONYMS = 0, 1, 2, 7
PREFIXES = ("MESH:", "OMIM:")


def mesh_tables(source: PathLike, terms: PathLike, trees: PathLike) -> tuple[int, int, int]:
    """Write NLM's descriptors (desc2024.xml, .gz too) as a table of terms and one of tree numbers.

    Without the scope notes, so that the stores made from both hold names, types and tree numbers.

    source: NLM's descriptors: desc2024.xml, .gz too
    terms: table of terms to write (.tsv.gz), all or nothing
    trees: table of tree numbers to write (.tsv.gz), all or nothing

    RETURNS: the numbers of descriptors, of terms and of tree numbers.
    Raises what `read_mesh_xml` raises; KrisselError K026 (the outputs).
    """
    check_file(terms)
    check_file(trees)
    descriptors: list[str] = []
    term_rows: list[Sequence[str]] = []
    tree_rows: list[Sequence[str]] = []
    for entity in read_mesh_xml(source):
        descriptors.append(entity.id)
        term_rows.append((entity.id, entity.name, "Y"))
        term_rows.extend((entity.id, alias, "N") for alias in entity.aliases)
        tree_rows.extend((entity.id, entity.name, number) for number in entity.tree_numbers)
    _write_table(terms, TERM_COLUMNS, term_rows)
    _write_table(trees, TREE_COLUMNS, tree_rows)
    return len(descriptors), len(term_rows), len(tree_rows)


def show_mesh_tables(numbers: tuple[int, int, int]) -> str:
    return "{} descriptors, {} terms, {} tree numbers".format(*numbers)


def _write_table(path: PathLike, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with atomic_file(path) as temporary, temporary.open("wb") as raw:
        with (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, "utf8") as file_,
        ):
            file_.writelines("\t".join(row) + "\n" for row in (columns, *rows))


def medic_lines(source: PathLike, output: PathLike) -> int:
    """Write CTD's table of diseases (MEDIC) as lines `ID|other ids||name|synonyms`, the ids without
    `MESH:` and `OMIM:`.

    source: CTD's table of diseases: CTD_diseases.tsv
    output: file of lines to write

    RETURNS: the number of diseases.
    Raises KrisselError K238 (another table), K026 (the output), and what `open_lines` raises.
    """
    check_file(output)
    lines = list(_medic_lines(source))
    write_text(output, "".join(lines))
    return len(lines)


def _medic_lines(source: PathLike) -> Iterator[str]:
    report = CorpusReport()
    number = found = 0
    with open_lines(source, EXPECTED, report=report) as lines:
        for number, line in lines:
            if line.startswith("#") or not line.strip():
                continue
            cells = line.split("\t")
            if len(cells) <= SYNONYMS or not cells[ID].startswith(PREFIXES):
                raise KrisselError(Errors.K238.format(path=source, line=number, found=line[:80]))
            ids = [_without_prefix(each) for each in (cells[ID], *_parts(cells[OTHER_IDS]))]
            found += 1
            yield "|".join(ids) + "||" + "|".join((cells[NAME], *_parts(cells[SYNONYMS]))) + "\n"
    if not found:
        raise KrisselError(
            Errors.K204.format(path=source, what="disease", line=number, expected=EXPECTED)
        )
    report.warn()


def _parts(cell: str) -> list[str]:
    return [part for part in cell.split("|") if part]


def _without_prefix(id_: str) -> str:
    for prefix in PREFIXES:
        id_ = id_.removeprefix(prefix)
    return id_


def show_medic_lines(number: int, output: PathLike) -> str:
    return f"{number} diseases in {output}"

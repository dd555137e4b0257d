"""Files cut short: is it noticed? And files whose lines end in CR alone, as of old Macs and
careless conversions."""

import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from lab.data.lay_names import read_lay_names
from lab.data.psytar import read_psytar

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.readers import READERS as CORPUS_READERS
from spacy_krissel.corpora.readers.text_labels import read_text_labels
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.records import read_records
from spacy_krissel.ontology.readers import READERS, read_ontology

from . import seeds
from .attempt import write_files
from .run import fast_folder
from .seeds import Files
from .targets import NLP, all_targets, corpus_seeds, is_folder, ontology_seeds

PLACES = 200
NOTICED, HARMLESS, SILENT = "noticed", "harmless", "silent"
# Beside annotations, texts are as long as they are.
UNCUT = (".txt", ".text")


class Format(NamedTuple):
    """read: the records of a file. cut: the name of the file that is cut. lines: a record ends
    where a line does."""

    name: str
    files: Files
    read: Callable[[Path], list[Any]]
    cut: str
    lines: bool


class Reading(NamedTuple):
    records: list[str] | None
    warned: set[str]


def formats() -> Iterator[Format]:
    """Every format, and of those of several files each that can be cut."""
    lines: list[tuple[str, dict[str, Any], Callable[[Path], Any]]] = []
    for name, folders in ontology_seeds().items():
        lines += [(f"onto:{name}", dict(files), _ontology_reader(name)) for files in folders]
    for name, folders in corpus_seeds().items():
        lines += [(f"corp:{name}", dict(files), _corpus_reader(name)) for files in folders]
    lines.append(
        (
            "lay-names",
            {"lay.tsv": seeds.LAY_NAMES[0]},
            lambda path: sorted(read_lay_names(path).items()),
        )
    )
    lines.append(("corp:text-labels", {"labels.jsonl": seeds.TEXT_LABELS[0]}, read_text_labels))
    lines.append(("text:jsonl", {"texts.jsonl": seeds.TEXTS_JSONL[0]}, read_texts))
    lines.append(("text:plain", {"texts.txt": seeds.PLAIN[0]}, read_texts))
    lines.append(("text:pubmed", {"pubmed.xml": seeds.PUBMED[0]}, read_texts))
    lines.append(("records", {"a.links.jsonl": seeds.RECORDS[0]}, read_records))
    for name, files, read in lines:
        encoded = {each: text.encode("utf8") for each, text in files.items()}
        for i, each in enumerate(encoded):
            is_text = name.startswith("corp:") and each.endswith(UNCUT)
            if not i or (not is_text and each != "release.dat"):
                yield Format(
                    f"{name} ({each})" if len(encoded) > 1 else name, encoded, read, each, True
                )
    packed: dict[str, Callable[[Path], Any]] = {
        "text:jsonl.gz": read_texts,
        "text:pubmed.gz": read_texts,
        "text:tar.gz": read_texts,
        "text:parquet": read_texts,
        "corp:knowtator-tar": _corpus_reader("knowtator"),
        "corp:brat-tar": _corpus_reader("brat"),
        "corp:semeval-tar": _corpus_reader("semeval"),
        "corp:share-tar": _corpus_reader("share"),
        "corp:n2c2-tar": _corpus_reader("n2c2"),
        "corp:cas-zip": _corpus_reader("cas"),
        "corp:psytar-xlsx": read_psytar,
        "corp:docbin": lambda path: [doc.to_bytes() for doc in read_doc_bins(path, NLP.vocab)],
    }
    for target in all_targets():
        if target.name in packed:
            first = next(iter(target.seeds[0]))
            yield Format(target.name, target.seeds[0], packed[target.name], first, False)


def try_truncation(pattern: str | None = None, seed: int = 0) -> int:
    """Print a table of what was noticed. Returns 1 where a cut or other line ends gave other
    records in silence."""
    rows: dict[str, dict[str, int]] = {}
    line_ends: dict[str, set[str]] = {}
    silent: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        for format in formats():
            if pattern and not fnmatchcase(format.name.partition(" ")[0], pattern):
                continue
            counts = rows.setdefault(format.name, dict.fromkeys((NOTICED, HARMLESS, SILENT), 0))
            whole = _read(format, format.files[format.cut], Path(folder))
            assert whole.records is not None, f"{format.name}: the whole file is not read"
            for place in cut_places(format, Random(f"{seed}:{format.name}")):
                data = format.files[format.cut][:place]
                outcome = judge(
                    whole,
                    _read(format, data, Path(folder)),
                    is_boundary=_is_boundary(format, place),
                )
                counts[outcome] += 1
                if outcome == SILENT:
                    silent.setdefault(format.name, []).append(
                        f"cut at byte {place}, behind {data[-40:]!r}"
                    )
            if format.lines:
                other = _read(format, format.files[format.cut].replace(b"\n", b"\r"), Path(folder))
                same = other.records == whole.records
                outcome = HARMLESS if same else judge(whole, other, is_boundary=False, prefix=False)
                line_ends.setdefault(format.name, set()).add(outcome)
                if outcome == SILENT:
                    found = f"{len(other.records or ())} instead of {len(whole.records)} records"
                    silent.setdefault(f"{format.name} with CR", []).append(found)
    print(
        "| format | cuts | noticed | harmless | **silent** | line ends of CR |\n| --- |"
        + " ---: |" * 4
        + " --- |"
    )
    for name, counts in rows.items():
        cells = " | ".join(str(counts[key] or "") for key in (NOTICED, HARMLESS, SILENT))
        print(
            f"| {name} | {sum(counts.values())} | {cells} | "
            f"{', '.join(sorted(line_ends.get(name, ())))} |"
        )
    print()
    for name, places in silent.items():
        print(f"silent: {name}, {len(places)}x, {places[0]}")
    return 1 if silent else 0


def cut_places(format: Format, rng: Random) -> list[int]:
    """Every end of a record but the last, and others."""
    data = format.files[format.cut]
    ends = [match.end() for match in re.finditer(b"\n", data)] if format.lines else []
    others = [place for place in range(len(data)) if place not in set(ends)]
    return sorted({*ends[:-1], *rng.sample(others, min(PLACES, len(others)))})


def judge(whole: Reading, found: Reading, *, is_boundary: bool, prefix: bool = True) -> str:
    """Classify the reading of a truncated file. Fewer records are harmless if each is complete."""
    if found.records is None or found.warned - whole.warned:
        return NOTICED
    assert whole.records is not None
    if is_boundary or (prefix and found.records == whole.records[: len(found.records)]):
        return HARMLESS
    return SILENT


def _is_boundary(format: Format, place: int) -> bool:
    """Is the last record whole, whether its line has its end or not?"""
    return format.lines and (not place or b"\n" in format.files[format.cut][place - 1 : place + 1])


def _read(format: Format, data: bytes, folder: Path) -> Reading:
    path = write_files(folder / "input", {**format.files, format.cut: data})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            records: list[str] | None = [repr(record) for record in format.read(path)]
        except KrisselError:
            records = None
    return Reading(
        records, {str(each.message) for each in caught if issubclass(each.category, KrisselWarning)}
    )


def _ontology_reader(format: str) -> Callable[[Path], Any]:
    def read_folder(path: Path) -> list[Any]:
        # Relations are read on demand, MRSAB for what is said of the store.
        on_demand = {
            "MRREL.RRF": {"relations": ["RL"]},
            "CONCEPT_RELATIONSHIP.csv": {"parents": True},
        }
        options = next(
            (each for name, each in on_demand.items() if (path.parent / name).exists()), {}
        )
        return [
            *read_ontology(path.parent, format=format, **options),
            READERS[format].states(path.parent),
        ]

    def read_file(path: Path) -> Iterator[Any]:
        return read_ontology(path, format=format)

    return read_folder if is_folder(format) else read_file


def _corpus_reader(format: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        more = {"documents": path.parent / "documents"} if format == "zeshel" else {}
        return CORPUS_READERS[format](path, **more)

    return read

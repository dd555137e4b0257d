"""The encoder that ships: texts with licences that allow it, and the weights, averaged and
rounded."""

import re
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import spacy
import srsly

from spacy_krissel.commands.build_linker import CONFIG
from spacy_krissel.corpora.files import json_object, read_records
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.layers.hashed_bags import average_weights, round_tables
from spacy_krissel.pipeline.pipeline_io import (
    check_pipeline_output,
    find_linker,
    load_pipeline,
    save_whole,
)
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.atomic import atomic_file
from spacy_krissel.util.inputs import coded_reading
from spacy_krissel.util.settings import Fraction

from ..errors import Errors, KrisselError

JSON_LINES = "a JSON object with an id on each line"
_ANNOTATION = re.compile(r"\[(\d+)::(\d+)\]\t(\w+) \| (.*)")


def open_texts(
    texts: Sequence[Path], output: Path, without: Collection[str] = ()
) -> tuple[int, int]:
    """Copy texts except those of some sources, such as those whose licence does not allow the
    publication of weights.

    texts: texts as JSON lines with ids; .gz too
    output: .jsonl file to write
    without: leave out texts whose ids begin with this and a hyphen

    RETURNS: the numbers of texts that were copied, and of all. Raises what `read_records` raises.
    """
    kept = total = 0
    report = CorpusReport()
    with atomic_file(output) as temporary, temporary.open("w", encoding="utf8") as file_:
        for path in texts:
            for source, line in read_records(
                path, _with_source, report, expected=JSON_LINES, what="text with an id"
            ):
                total += 1
                if source not in without:
                    kept += 1
                    file_.write(line + "\n")
    report.warn()
    return kept, total


def show_open_texts(numbers: tuple[int, int], output: Path) -> str:
    kept, total = numbers
    return f"{kept:,} of {total:,} texts in {output}"


def _with_source(line: str, _: int) -> tuple[str, str]:
    if (id_ := json_object(line).get("id")) is None:
        raise ValueError("it has no id")
    return str(id_).partition("-")[0], line


def gsc_plus(folder: Path, output: Path) -> tuple[int, int]:
    """Write GSC+, phenotypes in abstracts, as PubTator.

    folder: folder of GSC+, with corpus/ and ann/
    output: PubTator file to write

    RETURNS: the numbers of texts and mentions.
    Raises KrisselError K201 (no texts), and what `coded_reading` raises.
    """
    n_mentions = 0
    with (
        atomic_file(output) as temporary,
        temporary.open("w", encoding="utf8") as file_,
        coded_reading(folder),
    ):
        texts = sorted((folder / "corpus").glob("*"))
        if not texts:
            raise KrisselError(
                Errors.K201.format(path=folder / "corpus", expected="the texts of GSC+")
            )
        for path in texts:
            text = " ".join(path.read_text(encoding="utf8").rstrip("\n").split("\n"))
            file_.write(f"{path.name}|t|{text}\n{path.name}|a|\n")
            for line in (folder / "ann" / path.name).read_text(encoding="utf8").splitlines():
                if match := _ANNOTATION.fullmatch(line):
                    start, end = int(match[1]), int(match[2])
                    id_ = match[3].replace("_", ":", 1)
                    file_.write(
                        f"{path.name}\t{start}\t{end}\t{text[start:end]}\tPhenotype\t{id_}\n"
                    )
                    n_mentions += 1
            file_.write("\n")
    return len(texts), n_mentions


def show_gsc_plus(numbers: tuple[int, int], output: Path) -> str:
    n_texts, n_mentions = numbers
    return f"{n_mentions:,} mentions in {n_texts} texts in {output}"


def make_compact(
    trained: Path,
    start: Path,
    output: Path,
    *,
    meta: Path,
    others: Sequence[Path] = (),
    share: Fraction = 0.6,
) -> int:
    """Write the encoder that ships: averaged with its start and with others that were trained from
    it (Wortsman et al. 2022), which forgets less, and rounded to a byte per weight.

    trained: trained pipeline
    start: pipeline that it was trained from
    others: Further pipelines that were trained from it, with the same weight as the first
    output: folder of the pipeline to write
    meta: its card: a meta.json
    share: fraction of the trained weights in the average

    RETURNS: its bytes.
    Raises KrisselError K005 and K026 as `check_pipeline_output`, K611 as `load_pipeline`,
    and those of `coded_reading`.
    """
    check_pipeline_output(output)
    with coded_reading(meta):
        card = srsly.read_json(meta)
    pipelines = [load_pipeline(path) for path in (trained, *others, start)]
    each = share / (len(pipelines) - 1)
    average, *rest = (find_linker(nlp).model for nlp in pipelines)
    average_weights([average, *rest], [each] * (1 + len(others)) + [1 - share])
    round_tables(average)
    # The linker as `krissel build` makes it, without what it was trained by.
    linker = spacy.util.load_config(CONFIG)["components"][LINKER]
    settings = pipelines[0].config.interpolate()["components"][LINKER]
    nlp = spacy.blank("en", meta=card)
    nlp.add_pipe(
        LINKER,
        config={
            "model": settings["model"],
            "lexical_weight": linker["lexical_weight"],
            "objective": None,
        },
    )
    nlp.initialize()
    find_linker(nlp).model.from_bytes(average.to_bytes())
    save_whole(nlp.to_disk, output)
    # What a blank pipeline has anyway.
    shutil.rmtree(output / "vocab")
    return sum(path.stat().st_size for path in output.rglob("*") if path.is_file())


def show_make_compact(size: int, output: Path) -> str:
    return f"{size / 1e6:.1f} MB in {output}"

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
from spacy_krissel.layers.hashed_bags import HashedTable, round_tables
from spacy_krissel.pipeline.pipeline_io import (
    check_pipeline_output,
    find_linker,
    load_pipeline,
    save_whole,
)
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.atomic import atomic_file
from spacy_krissel.util.inputs import coded_reading

from ..errors import Errors, KrisselError

JSON_LINES = "a JSON object with an id on each line"
_ANNOTATION = re.compile(r"\[(\d+)::(\d+)\]\t(\w+) \| (.*)")


def open_texts(paths: Sequence[Path], output: Path, without: Collection[str]) -> tuple[int, int]:
    """Copy the texts whose ids do not begin with one of `without` and a hyphen. RETURNS: how many,
    of how many.

    Raises what `read_records` raises.
    """
    kept = total = 0
    report = CorpusReport()
    with atomic_file(output) as temporary, temporary.open("w", encoding="utf8") as file_:
        for path in paths:
            for source, line in read_records(
                path, _with_source, report, expected=JSON_LINES, what="text with an id"
            ):
                total += 1
                if source not in without:
                    kept += 1
                    file_.write(line + "\n")
    report.warn()
    return kept, total


def _with_source(line: str, _: int) -> tuple[str, str]:
    if (id_ := json_object(line).get("id")) is None:
        raise ValueError("it has no id")
    return str(id_).partition("-")[0], line


def gsc_plus(folder: Path, output: Path) -> tuple[int, int]:
    """Write GSC+, a folder of texts and one of annotations by the same names, as PubTator. RETURNS:
    texts, mentions.

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


def make_compact(trained: Path, start: Path, output: Path, *, share: float, meta: Path) -> int:
    """Write the encoder of `trained`, averaged with the untrained one that it started from
    (Wortsman et al. 2022), which forgets less of how names are spelt, and rounded to a byte a
    weight. RETURNS: its bytes.

    share: of the trained weights. meta: its `meta.json`.
    Raises KrisselError K005 and K026 as `check_pipeline_output`, K611 as `load_pipeline`,
    and those of `coded_reading`.
    """
    check_pipeline_output(output)
    with coded_reading(meta):
        card = srsly.read_json(meta)
    pipelines = [load_pipeline(path) for path in (start, trained)]
    before, after = (find_linker(nlp).model for nlp in pipelines)
    for old, new in zip(before.walk(), after.walk(), strict=True):
        for mine, other in zip(new.shims, old.shims, strict=True):
            if isinstance(mine, HashedTable):
                mine.table[:] = share * mine.table + (1 - share) * other.table
        for name in new.param_names:
            if new.has_param(name):
                new.set_param(name, share * new.get_param(name) + (1 - share) * old.get_param(name))
    round_tables(after)
    # The linker as `krissel build` makes it, without what it was trained by.
    linker = spacy.util.load_config(CONFIG)["components"][LINKER]
    settings = pipelines[1].config.interpolate()["components"][LINKER]
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
    find_linker(nlp).model.from_bytes(after.to_bytes())
    save_whole(nlp.to_disk, output)
    # What a blank pipeline has anyway.
    shutil.rmtree(output / "vocab")
    return sum(path.stat().st_size for path in output.rglob("*") if path.is_file())

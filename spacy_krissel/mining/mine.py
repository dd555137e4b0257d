"""Mining of self-supervised mentions: unambiguous names in unlabelled text (KRISSBERT §3.1)."""

import hashlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..ontology.build import open_ontology
from ..ontology.store import OntologyStore
from ..util.disk import coded_io
from ..util.manifest import check_replaceable, new_directory
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked
from ..views import MINED_CHARS
from .matcher import Case, NameMatcher
from .miner import COUNTS, TEXT_COUNTS, Miner
from .name_table import search_names
from .reading import SeenIds, ordered_files, text_hashes, units_of
from .shards import FORMAT_VERSION, KIND, MentionShards, write_shard
from .work import WORK_VERSION, WorkDirectory
from .workers import local_workers, mine_units, ray_workers

PathLike = str | Path
# A fraction of a second of matching: the work per process that an interruption repeats.
CHUNK_CHARS = 4_000_000
# Counts that reading reports.
READ_COUNTS = ("bad_records", "blank_texts")


class MiningReport(NamedTuple):
    """Result of a run. Times are not in the manifest: the same run writes the same bytes.

    manifest: of the shards. seconds: wall time of the run. matched_bytes, match_seconds: UTF-8 text
        searched in this run, without the run that it resumed, and the time to read, match and
        sample it.
    """

    path: Path
    manifest: dict[str, Any]
    seconds: float
    matched_bytes: int
    match_seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.matched_bytes / 1e6 / self.match_seconds if self.match_seconds else 0.0


@checked
def mine(
    ontology: OntologyStore | PathLike,
    texts: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    case: Case = "smart",
    cap: Count | None = 32,
    seed: int = 0,
    n_process: PositiveInt = 1,
    restart: bool = False,
    progress: bool = False,
    chunk_chars: PositiveInt = CHUNK_CHARS,
    aliases: bool = True,
    ray: str | None = None,
) -> MiningReport:
    """Find the unambiguous names of an ontology in text.

    KRISSBERT, §3.1. An interrupted run continues where it stopped.

    ontology: ontology store or file, or the name of a vocabulary
    texts: JSONL, plain text, PubTator, PubMed's XML (these with .gz, too), Parquet, .tar.gz of
        text; or folders with such files
    output: directory of the shards
    case: preserve, fold, or smart (fold, but acronyms as written)
    cap: maximum number of mentions per entity, a uniform sample of all its mentions; 0 keeps all
    seed: seed of the sample
    n_process: processes that read and match. The shards are the same for any number, and for any
        order of the texts.
    restart: discard the work of an interrupted run. Otherwise a run with the same settings,
        ontology and texts resumes it, and one with others is refused.
    progress: show a progress bar.
    chunk_chars: characters of text between two checkpoints; no influence on the shards.
    aliases: search all names, not only the preferred ones.
    ray: read and match by Ray: "local" on this machine, or the address of a cluster, as host:port,
        or auto; the files must be on all of its machines

    A text with the id of an earlier one is skipped. PubMed's files are read from the last to the
    first: the last version of an article is mined, deleted articles are not
    (`reading.ordered_files`).
    Raises KrisselError K005 (output is something else), K006 (setting), K301 (no names), K302
    (other work left), K303 (a process died), K023 to K025, K029 (Ray), K026 (the disk refuses),
    K045 (another run writes there), and those of `read_texts` and `open_ontology`. Warns KW301
    (nothing found), KW302 (repeated ids).
    """
    import pyarrow as pa

    began = time.perf_counter()
    output = Path(output)
    paths = [Path(texts)] if isinstance(texts, (str, Path)) else [Path(path) for path in texts]
    if ray is not None and n_process != 1:
        expected = "1, since Ray has its own"
        raise wrong_setting("n_process", n_process, expected)
    # Checked before the work, since `new_directory` would refuse only afterwards.
    check_replaceable(output, KIND)
    if not isinstance(ontology, OntologyStore):
        ontology = open_ontology(ontology, progress=progress)
    cap = cap or None
    files = ordered_files(paths)
    with coded_io(output), WorkDirectory(output) as work:
        names: dict[str, int] = {}
        matcher = NameMatcher(search_names(ontology, names, aliases), case)
        if not names["searched"]:
            skipped = ", ".join(f"{count} are {reason}" for reason, count in names.items() if count)
            raise KrisselError(
                Errors.K301.format(
                    path=ontology.path, entities=len(ontology), skipped=skipped or "none is left"
                )
            )
        settings = {
            "case": case,
            "aliases": aliases,
            "cap": cap,
            "seed": seed,
            "context_chars": MINED_CHARS,
        }
        # By name and sorted: the same texts in another folder or order give the same shards.
        texts_hash = sorted(f"{name} {sha256}" for name, sha256 in text_hashes(files))
        hashes = {"ontology": _ontology_hash(ontology), "texts": texts_hash}
        # Chunks are counted in the order of the files, so the order is part of the state.
        order = [file_.name for file_ in files]
        state = {
            "format_version": WORK_VERSION,
            "chunk_chars": chunk_chars,
            "order": order,
            **settings,
            **hashes,
        }
        work.begin(state, cap, len(ontology), restart=restart)
        miner = Miner(
            matcher, pa.array(ontology.ids, type=pa.large_string()), cap, seed, work.limits
        )

        seen = SeenIds()
        for ids in work.ids():
            seen.add(ids)
        done = sum(record["counts"]["bytes"] for record in work.records)
        n_found = sum(record["counts"]["mentions_found"] for record in work.records)
        first, n_skipped = work.next_unit()
        units = list(enumerate(units_of(files)))[first:]
        matching = time.perf_counter()
        used = (
            local_workers(miner, n_process, len(units), work.path)
            if ray is None
            else ray_workers(miner, ray)
        )
        size = sum(map(_text_size, files))
        shown = progress_bar(show=progress, total=size, desc="Mining", unit="B", unit_scale=True)
        with shown as bar, used as workers:
            bar.update(done)
            for chunk, mined, ids in mine_units(workers, units, chunk_chars, seen, n_skipped):
                record = {
                    "unit": chunk.unit,
                    "is_last": chunk.is_last,
                    "report": chunk.report,
                    "counts": {**mined.counts, "deleted_ids": len(chunk.deleted)},
                    "first_repeated": mined.first_repeated,
                }
                work.add(mined.mentions, record, ids)
                n_found += mined.counts["mentions_found"]
                bar.update(mined.counts["bytes"])
                bar.set_postfix_str(f"{n_found:,} mentions", refresh=False)
            # Files are larger than their texts.
            bar.update(size - bar.n)
        match_seconds = time.perf_counter() - matching
        summed = _sum_counts(work.records)

        with new_directory(output, KIND, FORMAT_VERSION) as directory:
            shards: list[dict[str, Any]] = []
            entities = set()
            for table in work.shards():
                name = f"shard-{len(shards):05}.arrow"
                write_shard(directory.path / name, table)
                shards.append({"file": name, "mentions": table.num_rows})
                entities.update(table["entity"].unique().to_pylist())
            counts = {
                **summed,
                "mentions": sum(shard["mentions"] for shard in shards),
                "entities": len(entities),
                "ontology_entities": len(ontology),
            }
            directory.info.update(
                settings=settings,
                counts=counts,
                names=names,
                rates=_rates(counts),
                shards=shards,
                **hashes,
            )
        manifest = MentionShards(output, verify=False).manifest
        work.remove()
    if not counts["mentions"]:
        message = Warnings.KW301.format(
            names=names["searched"], ontology=ontology.path, texts=counts["texts"], path=output
        )
        warnings.warn(message, KrisselWarning, stacklevel=3)
    matched_bytes = counts["bytes"] - done
    return MiningReport(output, manifest, time.perf_counter() - began, matched_bytes, match_seconds)


def show_mine(report: MiningReport) -> str:
    counts = report.manifest["counts"]
    return (
        f"{counts['mentions']} mentions of {counts['entities']} entities (of "
        f"{counts['mentions_found']} found) in {counts['texts']} texts; {report.mb_per_second:.1f} "
        "MB/s"
    )


def _sum_counts(records: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the sums of the counts of all chunks.

    Warns of repeated ids (KW302) and of bad records.
    """
    report, counts, first_repeated = CorpusReport(), Counter[str](), ""
    for record in records:
        counts.update(record["counts"])
        first_repeated = first_repeated or record["first_repeated"]
        if record["report"]:
            report.add(record["report"])
    report.warn()
    if repeated := counts["repeated_ids"]:
        message = Warnings.KW302.format(
            count=repeated, texts=repeated + counts["texts"], first=first_repeated
        )
        warnings.warn(message, KrisselWarning, stacklevel=4)
    mined = {name: counts[name] for name in (*TEXT_COUNTS, "deleted_ids", *COUNTS)}
    return {**mined, **{name: report[name] for name in READ_COUNTS}}


def _ontology_hash(ontology: OntologyStore) -> str:
    files = {name: file_["sha256"] for name, file_ in ontology.manifest["files"].items()}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _rates(counts: dict[str, Any]) -> dict[str, float]:
    ratios = {
        "mentions_found_per_text": (counts["mentions_found"], counts["texts"]),
        "mentions_found_per_mb": (counts["mentions_found"], counts["bytes"] / 1e6),
        "mentions_per_entity": (counts["mentions"], counts["entities"]),
        "entities_covered": (counts["entities"], counts["ontology_entities"]),
    }
    return {name: round(a / b, 4) if b else 0.0 for name, (a, b) in ratios.items()}


def _text_size(path: Path) -> int:
    """Return the approximate bytes of text in a file, for the progress bar.

    A gzip file ends with its uncompressed size.
    """
    with path.open("rb") as file_:
        size = path.stat().st_size
        if file_.read(2) != b"\x1f\x8b" or size < 4:
            return size
        file_.seek(-4, 2)
        return int.from_bytes(file_.read(), "little")

"""Mine self-supervised mentions: an ontology's unambiguous names, searched in unlabelled text (KRISSBERT §3.1)."""

import hashlib
import json
import time
import warnings
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

from ..corpora.report import CorpusReport
from ..corpora.texts import SUFFIXES, Text, read_texts
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..util.manifest import MANIFEST, new_directory, sha256_file
from ..util.progress import progress_bar
from ..views import CONTEXT_CHARS
from .matcher import Case, NameMatcher
from .miner import COUNTS, Miner, mine_chunks
from .names import search_names
from .shards import FORMAT_VERSION, KIND, MentionShards, write_shard
from .work import WorkDirectory

if TYPE_CHECKING:
    from ..ontology.store import OntologyStore

PathLike = Union[str, Path]
# A fraction of a second of matching: this much, times the processes, is done again after an interruption.
CHUNK_CHARS = 4_000_000
DEFAULT_CAP = 64


class MiningReport(NamedTuple):
    """What a run did. Times are here and not in the manifest, so that the same run writes the same bytes.

    manifest: of the shards. seconds: wall time of the run. matched_bytes, match_seconds: UTF-8 text that was searched
    in this run (not in one that it resumed), and the time for reading, matching and sampling it.
    """

    path: Path
    manifest: Dict[str, Any]
    seconds: float
    matched_bytes: int
    match_seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.matched_bytes / 1e6 / self.match_seconds if self.match_seconds else 0.0


def mine(
    ontology: "OntologyStore",
    texts: Union[PathLike, Sequence[PathLike]],
    output: PathLike,
    *,
    case: Case = "smart",
    cap: Optional[int] = DEFAULT_CAP,
    seed: int = 0,
    n_process: int = 1,
    restart: bool = False,
    progress: bool = False,
    chunk_chars: int = CHUNK_CHARS,
    aliases: bool = True,
) -> MiningReport:
    """Search every unambiguous name of `ontology` in `texts` and write the mentions found as shards at `output`.

    texts: files or folders as `corpora.texts.read_texts` takes them. A text with the id of an earlier one is left out.
    case: see `NameMatcher`.
    cap: at most so many mentions an entity, a uniform sample of all its mentions (see `reservoir`); None keeps all.
    n_process: processes that match. The shards are the same for any number, and for any order of the texts.
    restart: drop what an interrupted run left beside the output. Otherwise a run started with the same settings,
        ontology and texts goes on where it stopped, and one with others is refused.
    aliases: search all names, not the preferred ones alone.
    chunk_chars: characters of text between two steps that are safe from an interruption; no influence on the shards.

    Raises KrisselError K005 (output is something else), K006 (setting), K301 (no names), K302 (other work left),
    K303 (a process died), and those of `read_texts`. Warns KW301 (nothing found), KW302 (repeated ids).
    """
    began = time.perf_counter()
    output = Path(output)
    paths = [Path(texts)] if isinstance(texts, (str, Path)) else [Path(path) for path in texts]
    _check_settings(cap=cap, n_process=n_process, chunk_chars=chunk_chars)
    _check_output(output)
    names, name_counts = search_names(ontology, aliases)
    matcher = NameMatcher(names, case)
    if not name_counts["searched"]:
        skipped = ", ".join(f"{count} are {reason}" for reason, count in name_counts.items() if count) or "none is left"
        raise KrisselError(Errors.K301.format(path=ontology.path, entities=len(ontology), skipped=skipped))
    settings = {"case": case, "aliases": aliases, "cap": cap, "seed": seed, "context_chars": CONTEXT_CHARS}
    hashes = {"ontology": _ontology_hash(ontology), "texts": _text_hashes(paths)}
    # The order of the files is part of the state of a run: its chunks are counted in it.
    state = {"format_version": FORMAT_VERSION, "chunk_chars": chunk_chars, **settings, **hashes}
    state["order"] = [file_.name for file_ in _files(paths)]
    work = WorkDirectory(output, state, cap, restart=restart)

    reader = _TextReader(paths)
    matching = time.perf_counter()
    with _progress_bar(paths, show=progress) as bar:
        chunks = reader.chunks(chunk_chars)
        done = sum(_n_bytes(chunk) for chunk in islice(chunks, len(work)))
        bar.update(done)
        for chunk, (mentions, counts) in mine_chunks(Miner(matcher, list(ontology.ids), cap, seed), chunks, n_process):
            work.add(mentions, counts)
            bar.update(_n_bytes(chunk))
            bar.set_postfix_str(f"{work.total('mentions_found'):,} mentions", refresh=False)
    match_seconds = time.perf_counter() - matching
    reader.warn()

    with new_directory(output, KIND, FORMAT_VERSION) as directory:
        shards: List[Dict[str, Any]] = []
        entities = set()
        for table in work.shards():
            name = f"shard-{len(shards):05}.arrow"
            write_shard(directory.path / name, table)
            shards.append({"file": name, "mentions": table.num_rows})
            entities.update(table["entity"].unique().to_pylist())
        counts = {
            **reader.counts,
            **{name: work.total(name) for name in COUNTS},
            "mentions": sum(shard["mentions"] for shard in shards),
            "entities": len(entities),
            "ontology_entities": len(ontology),
        }
        directory.info.update(
            settings=settings, counts=counts, names=name_counts, rates=_rates(counts), shards=shards, **hashes
        )
    work.remove()
    if not counts["mentions"]:
        message = Warnings.KW301.format(
            names=name_counts["searched"], ontology=ontology.path, texts=counts["texts"], path=output
        )
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return MiningReport(
        path=output,
        manifest=MentionShards(output).manifest,
        seconds=time.perf_counter() - began,
        matched_bytes=counts["bytes"] - done,
        match_seconds=match_seconds,
    )


class _TextReader:
    """The texts of several files, each id once, in chunks; what was read and left out is in `counts` at the end."""

    def __init__(self, paths: List[Path]) -> None:
        self._paths = paths
        self._report = CorpusReport()
        self._counts: Counter = Counter()
        self._first_repeated = ""

    def chunks(self, n_chars: int) -> Iterator[List[Text]]:
        chunk: List[Text] = []
        size = 0
        for text in self._texts():
            chunk.append(text)
            size += len(text.text)
            if size >= n_chars:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    @property
    def counts(self) -> Dict[str, int]:
        names = ("texts", "characters", "bytes", "repeated_ids")
        return {**{name: self._counts[name] for name in names}, "bad_records": self._report["bad_records"]}

    def warn(self) -> None:
        self._report.warn()
        if self._counts["repeated_ids"]:
            message = Warnings.KW302.format(
                count=self._counts["repeated_ids"], texts=self._report["texts"], first=self._first_repeated
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)

    def _texts(self) -> Iterator[Text]:
        seen = set()
        for path in self._paths:
            for text in read_texts(path, report=self._report):
                if text.id in seen:
                    self._first_repeated = self._first_repeated or f"{text.id} in {text.source}, line {text.line}"
                    self._counts["repeated_ids"] += 1
                    continue
                seen.add(text.id)
                self._counts["texts"] += 1
                self._counts["characters"] += len(text.text)
                self._counts["bytes"] += _n_bytes([text])
                yield text


def _check_settings(**settings: Any) -> None:
    for setting, value in settings.items():
        if value is None and setting == "cap":
            continue
        if not isinstance(value, int) or value < 1:
            raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="a number from 1 up"))


def _check_output(output: Path) -> None:
    # Seen before the work rather than after it, when `new_directory` would refuse.
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        try:
            kind = json.loads((output / MANIFEST).read_text(encoding="utf8"))["kind"]
        except (OSError, ValueError, KeyError, TypeError):
            kind = None
        if kind != KIND:
            raise KrisselError(Errors.K005.format(path=output, kind=KIND))


def _ontology_hash(ontology: "OntologyStore") -> str:
    files = {name: file_["sha256"] for name, file_ in ontology.manifest["files"].items()}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _text_hashes(paths: List[Path]) -> List[str]:
    # By name and not by path, and in no order: the same texts elsewhere, or listed differently, give the same shards.
    return sorted(f"{file_.name} {sha256_file(file_)}" for file_ in _files(paths))


def _files(paths: List[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file_ for file_ in path.rglob("*") if file_.name.lower().endswith(SUFFIXES))
        elif path.is_file():
            yield path


def _n_bytes(texts: List[Text]) -> int:
    return sum(len(text.text) if text.text.isascii() else len(text.text.encode()) for text in texts)


def _rates(counts: Dict[str, Any]) -> Dict[str, float]:
    def rate(a: float, b: float) -> float:
        return round(a / b, 4) if b else 0.0

    return {
        "mentions_found_per_text": rate(counts["mentions_found"], counts["texts"]),
        "mentions_found_per_mb": rate(counts["mentions_found"], counts["bytes"] / 1e6),
        "mentions_per_entity": rate(counts["mentions"], counts["entities"]),
        "entities_covered": rate(counts["entities"], counts["ontology_entities"]),
    }


def _progress_bar(paths: List[Path], show: bool) -> Any:
    total = sum(map(_text_size, _files(paths)))
    return progress_bar(show=show, total=total, desc="mining", unit="B", unit_scale=True)


def _text_size(path: Path) -> int:
    """About how many bytes of text a file holds, for the progress bar: a gzip file's last four bytes say it."""
    with path.open("rb") as file_:
        if file_.read(2) != b"\x1f\x8b":
            return path.stat().st_size
        file_.seek(-4, 2)
        return int.from_bytes(file_.read(), "little")

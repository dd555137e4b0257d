"""Every command that writes, where the disk fails or the process is killed: the old result or the
new one, no third."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiers import nightly

from spacy_krissel.building.tune import Tuning
from spacy_krissel.pipeline import pipeline_io as save

from .harness import Ended, Fault, Injector, Operation, digest, drawn, ended_by, in_child, spread
from .steps import Command, Inputs, commands, state_at, state_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked"),
    pytest.mark.filterwarnings("ignore"),
]
HEADER = (
    "command", "in place of", "operations", "faults", "old", "new", "nothing", "mixed", "coded",
    "uncoded", "silent",
    "half", "left over", "not rerun", "crashed",
)  # fmt: skip
NAMES = (
    "ontology", "mine", "convert", "text-labels", "text-split", "zero-shot", "out-of-kb",
    "psytar-names", "prototypes",
    "prototypes-gold", "kb", "update", "tune", "calibrate", "train", "link-jsonl", "link-spacy",
    "evaluate", "evaluate-spans",
    "few-shot", "extract", "projection", "encoder", "linker.to_disk", "reranker.to_disk",
    "extractor.to_disk",
)  # fmt: skip
# Each command in place of an earlier result or of nothing, in turn, by a fault of one kind; nightly
# in both places, by faults of three.
ROWS = [
    *((name, number % 2 == 0, 1) for number, name in enumerate(NAMES)),
    *(nightly(name, earlier, 3) for name in NAMES for earlier in (False, True)),
]
EXCHANGES = sys.platform == "linux"
KINDS = ("ENOSPC", "EIO", "EACCES", "KILL", "FSIZE")
# Of a workbook of PsyTAR.
FEW_PHRASES = {
    "ADR_Mapped": (("d.1", 1, "pain in knee", "C0000001 / Knee Pain / Finding", None, None, None),),
    "WD-Mapped ": (),
    "SSI_Mapped": (),
    "DI_Mapped": (),
}


@pytest.fixture(scope="module")
def all_commands(
    toy_files, toy_store, toy_shards, trained, save_linker, save_reranker, save_extractor,
    tiny_bert,
    write_psytar, configs, toy_overrides, tmp_path_factory,
) -> dict[str, Command]:  # fmt: skip
    pytest.importorskip("matplotlib")
    work = tmp_path_factory.mktemp("inputs")
    shutil.copytree(toy_files, work / "files")
    given = Inputs(
        files=work / "files",
        store=toy_store.path,
        shards=toy_shards,
        trained=trained,
        linker=save_linker("small"),
        reranker=save_reranker("list"),
        extractor=save_extractor("words"),
        transformer=save_linker("transformer"),
        bert=tiny_bert,
        workbooks=(
            write_psytar(work / "part.xlsx", phrases=FEW_PHRASES),
            write_psytar(work / "psytar.xlsx"),
        ),
        config=configs / "small.cfg",
        overrides=toy_overrides["small"],
    )
    return commands(given)


@pytest.mark.parametrize("name, earlier, n_kinds", ROWS)
def test_fault_leaves_the_old_result_or_the_new(
    all_commands, name, earlier, n_kinds, size, table, tmp_path, monkeypatch
):
    # Of so few vectors no index is faster than the exact one.
    monkeypatch.setattr(Tuning, "chosen", property(lambda tuning: tuning.trials[-1]))
    trial = Trial(all_commands[name], earlier, tmp_path)
    # Other operations of each command.
    for fault in trial.faults(size.points, f"{name} {earlier}", n_kinds):
        trial.run(fault)
    if size.full_disk:
        for kilobytes in spread(_kilobytes(tmp_path / "new"), size.points or 20):
            trial.run_on_full_disk(kilobytes)
    table((name, "old" if earlier else "nothing", len(trial.operations), trial.n, *trial.counts()))
    if trial.problems:
        pytest.fail("\n".join(trial.problems), pytrace=False)


class Trial:
    """One command, in place of an earlier result or of nothing, and what became of it under each
    fault."""

    def __init__(self, command: Command, earlier: bool, work: Path) -> None:
        self.command, self.earlier, self.work = command, earlier, work
        self.problems: list[str] = []
        self.n = 0
        self.seen = dict.fromkeys(HEADER[4:], 0)
        self.old = self._whole("old", 0)[0] if earlier else dict.fromkeys(command.load, "absent")
        self.new, self.operations, self.sizes = self._whole("new", 1)
        self.on_the_way = self._models_on_the_way() if command.watched else set()
        assert self.old != self.new and "absent" not in self.new.values(), (
            "two results that can be told apart"
        )

    def _whole(self, name: str, version: int) -> tuple[dict[str, str], list[Operation], list[int]]:
        """A run without a fault: its state, its operations and the sizes of its files."""
        path = self._place(name) / self.command.name
        if self.earlier and version:
            self._put_earlier(path)

        def run() -> Any:
            injector = Injector(path.parent)
            self.command.make(path, version)
            operations = [Operation(*each) for each in injector.operations]
            files = (
                [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
            )
            sizes = [file_.stat().st_size for file_ in files]
            return state_at(self.command, path), operations, sizes

        ended = in_child(run)
        assert ended.how == "returned", f"without a fault: {ended}"
        return ended.value

    def _models_on_the_way(self) -> set[str]:
        """Each model that a run saves, for a later one to replace."""

        def run() -> set[str]:
            saved: set[str] = set()
            commit_folder = save.commit_folder

            def noted(temporary: Path, path: Path) -> None:
                commit_folder(temporary, path)
                saved.add(digest(state_of(path)))

            save.commit_folder = noted
            self.command.make(self._place("on-the-way") / self.command.name, 1)
            return saved

        ended = in_child(run)
        assert ended.how == "returned" and ended.value, ended
        return ended.value

    def _place(self, name: str) -> Path:
        place = self.work / name
        place.mkdir()
        return place

    def _put_earlier(self, path: Path) -> None:
        """The earlier result, made once."""
        source = self.work / "old" / self.command.name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, path)

    def faults(self, points: int, seed: str = "", n_kinds: int = 3) -> Iterator[Fault]:
        # One of each kind would take CI too long.
        for kind in KINDS if points != 1 else drawn(KINDS, n_kinds, seed):
            numbers = [
                n
                for n, operation in enumerate(self.operations, 1)
                if Fault(kind, 0).fits(operation)
            ]
            if kind == "FSIZE":
                numbers = sorted(
                    {0, *(n // 2 for n in self.sizes), *(n - 1 for n in self.sizes if n)}
                )
            for number in drawn(numbers, points, f"{seed} {kind}"):
                yield Fault(kind, number)

    def run(self, fault: Fault) -> None:
        place = self._place(f"{fault.kind}-{fault.at}")
        at = (
            ""
            if fault.kind == "FSIZE"
            else " ".join(self.operations[fault.at - 1]).replace(str(self.work), "")
        )
        removes = fault.kind != "FSIZE" and self.operations[fault.at - 1].removes
        self._judge(place, f"{fault.kind} {fault.at} {at}", lambda: Injector(place, fault), removes)
        shutil.rmtree(place, ignore_errors=True)

    def run_on_full_disk(self, kilobytes: int) -> None:
        """On a disk of so much room besides the earlier result."""
        place = self._place(f"full-{kilobytes}")
        room = kilobytes + (_kilobytes(self.work / "old") if self.earlier else 0)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={room}k", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("cannot mount a small disk")
        try:
            self._judge(place, f"disk of {room} kB", lambda: None, False, lambda: _remount(place))
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)

    def _judge(self, place, title, inject, removes, mend=lambda: None) -> None:
        self.n += 1
        path = place / self.command.name
        if self.earlier:
            self._put_earlier(path)
        # What the fixture's own copying leaves is no leftover.
        before = {each.name for each in place.iterdir()}

        def faulty() -> None:
            inject()
            self.command.make(path, 1)

        ended = in_child(faulty)
        left = sorted(
            each.name for each in place.iterdir() if each.name not in before | {self.command.name}
        )
        mend()
        told = f"{title}: {_told(ended)}"
        if ended.how in ("coded", "uncoded"):
            self.seen[ended.how] += 1
        if ended.how == "uncoded":
            self.problems.append(f"{told}: no coded message")
        if ended.how in ("crashed", "hung"):
            self._count("crashed", told)
        found, again = self._state_and_rerun(path)
        self._compare(found, ended, told)
        if ended.how in ("coded", "uncoded") and not removes:
            # What an interrupted run goes on with is no leftover.
            if left := [name for name in left if not name.endswith(".partial")]:
                self._count("left over", f"{told}: left over {left}")
        if again.how != "returned":
            self._count("not rerun", f"{title}: the rerun {_told(again)}")
        elif again.value != (self.new, []):
            state, beside = again.value
            self._count(
                "not rerun", f"{title}: after the rerun {_short(state)}, beside it {beside}"
            )

    def _state_and_rerun(self, path: Path) -> tuple[dict[str, str], Ended]:
        """Return the state at the path, and how a rerun ended: its state and the other names."""

        def rerun() -> Any:
            self.command.make(path, 1)
            beside = [
                each.name
                for each in path.parent.iterdir()
                if each != path and not self._is_backup(each)
            ]
            return state_at(self.command, path), beside

        both = in_child(lambda: (state_at(self.command, path), ended_by(rerun)))
        if both.how == "returned":
            found, again = both.value
            return found, again
        return dict.fromkeys(self.new, f"unreadable: {_told(both)}"), in_child(rerun)

    def _is_backup(self, path: Path) -> bool:
        """Return True for a complete backup of what was replaced on request."""
        named = path.name.startswith(f"{self.command.name}.bak")
        return self.earlier and named and state_at(self.command, path) in (self.old, self.new)

    def _compare(self, found: dict[str, str], ended: Ended, told: str) -> None:
        if found == self.new:
            return self._count("new")
        if ended.how == "returned":
            return self._count("silent", f"{told}: it said nothing, and left {_short(found)}")
        if found == self.old:
            return self._count("old" if self.earlier else "nothing")
        whole = all(
            state in (self.old[part], self.new[part], *self.on_the_way)
            # Where folders cannot be exchanged, one killed between two renames leaves a backup that
            # a rerun restores.
            or (
                state == "absent"
                and (not self.earlier or (ended.how == "killed" and not EXCHANGES))
            )
            or (self.command.in_place and state.startswith("refused"))
            for part, state in found.items()
        )
        if whole and len(found) == 1:
            return self._count("nothing")
        if whole and self.command.several:
            return self._count("mixed")
        self._count("half", f"{told}: left {_short(found)}")

    def _count(self, what: str, problem: str = "") -> None:
        self.seen[what] += 1
        if problem:
            self.problems.append(problem)

    def counts(self) -> list[int]:
        return list(self.seen.values())


def _kilobytes(folder: Path) -> int:
    """Return the size of the files on a disk with blocks of 4 kB."""
    return sum(
        -(-file_.stat().st_size // 4096) * 4 for file_ in folder.rglob("*") if file_.is_file()
    )


def _remount(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)


def _told(ended: Ended) -> str:
    where = f" ({ended.where})" if ended.where else ""
    return (
        f"{ended.how} {' '.join(str(ended.value).split())[:160]}{where}"
        if ended.value
        else ended.how
    )


def _short(state: dict[str, str]) -> str:
    return ", ".join(f"{part or 'it'}: {value[:120]}" for part, value in state.items())

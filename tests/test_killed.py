"""Each step of a build, killed: nothing half-written is ever loaded, and the step run again
completes."""

import os
import signal
import sys

import pytest
from reliability.harness import CHANGING, spread
from reliability.steps import MODELS, build_steps, docs_of, state_of
from tiers import nightly

from spacy_krissel.building import fill as build
from spacy_krissel.building.tune import Tuning
from spacy_krissel.commands.train_pipeline import train
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline import pipeline_io as save

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs processes that can be forked"
)
STEPS = ["ontology", "mine", "convert", "split", "prototypes", "tune", "update"]
# How often each is killed in a first run, or in one that replaces earlier work. By command, `python
# -m tests.reliability faults` kills at every operation.
KILLS = [
    *((step, number % 2 == 0, 1) for number, step in enumerate(STEPS)),
    *(nightly(step, earlier, 4) for step in STEPS for earlier in (False, True)),
]


@pytest.fixture
def step(request, toy_files, toy_store, toy_shards, trained, tmp_path, monkeypatch):
    # Several blocks of views, of which an earlier run may have encoded some.
    monkeypatch.setattr(build, "BLOCK_VIEWS", 16)
    # Of so few vectors no index is faster than the exact one.
    monkeypatch.setattr(Tuning, "chosen", property(lambda tuning: tuning.trials[-1]))
    return build_steps(toy_files, toy_store, toy_shards, trained, tmp_path)[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("step, earlier, points", KILLS, indirect=["step"])
def test_killed_step_leaves_nothing_partial_and_can_be_rerun(step, earlier, points, tmp_path):
    """At changes of folders all through a first run and one that replaces earlier work, and in
    between at calls."""
    name = "out.spacy" if step.load is docs_of else "out"
    whole = tmp_path / "whole" / name
    n_calls, n_changes = run_until(lambda: step.make(whole))
    expected = step.load(whole)
    kills = [(0, change) for change in spread(n_changes, points)]
    if not earlier:
        kills += [(call, 0) for call in spread(n_calls, (points + 1) // 2)]
    for number, point in enumerate(kills):
        path = tmp_path / str(number) / name
        if earlier:
            step.make(path)
        run_until(lambda path=path: step.make(path), *point)
        try:
            found = step.load(path)
        except KrisselError:
            pass
        else:
            assert found == expected
        step.make(path)
        assert step.load(path) == expected
        assert not list(path.parent.rglob("*.tmp"))
        assert [each.name for each in path.parent.iterdir()] == [name], (
            "and nothing is left beside it"
        )


@pytest.mark.slow
@pytest.mark.parametrize("points", [1, nightly(4)])
def test_killed_training_leaves_complete_models(
    configs, toy_overrides, points, tmp_path, monkeypatch
):
    """`model-best` and `model-last` are one of those that were saved, all of it, whenever training
    is killed."""
    saved = []
    commit_folder = save.commit_folder

    def noted(temporary, path):
        commit_folder(temporary, path)
        saved.append(state_of(path))

    def make(path):
        train(configs / "small.cfg", path, overrides=toy_overrides["small"])

    with monkeypatch.context() as patch:
        patch.setattr(save, "commit_folder", noted)
        make(tmp_path / "whole")
    assert len(saved) > len(set(saved)) > 1
    expected = [state_of(tmp_path / "whole" / name) for name in MODELS]
    # Of a run in place of an earlier one.
    _, n_changes = run_until(lambda: make(tmp_path / "whole"))
    for number, change in enumerate(spread(n_changes, points)):
        path = tmp_path / str(number)
        for _ in range(2):
            # The second time with what the first one left in its place.
            run_until(lambda path=path: make(path), 0, change)
            assert {state_of(path / name) for name in MODELS if (path / name).exists()} <= set(
                saved
            )
        make(path)
        assert [state_of(path / name) for name in MODELS] == expected
        assert sorted(each.name for each in path.iterdir()) == sorted(MODELS), (
            "and nothing is left beside them"
        )


def run_until(make, calls=0, changes=0):
    """Run `make` in another process, and kill that at its so manieth call of a function, or change
    of a folder.

    RETURNS: how many there were of both, of one that ran to its end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        counts = {"call": 0, "change": 0}

        def count(what, last):
            counts[what] += 1
            if counts[what] == last:
                os.kill(os.getpid(), signal.SIGKILL)

        def audit(event, arguments):
            if event in CHANGING or (
                event == "open" and arguments[1] and set("wxa+") & set(str(arguments[1]))
            ):
                count("change", changes)

        status = 1
        try:
            sys.addaudithook(audit)
            sys.setprofile(
                lambda frame, event, argument: count("call", calls) if event == "call" else None
            )
            make()
            sys.setprofile(None)
            os.write(writer, f"{counts['call']} {counts['change']}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as told:
        found = told.read()
    _, status = os.waitpid(child, 0)
    if calls or changes:
        assert os.WIFSIGNALED(status) or not status
        return None
    assert not status
    return tuple(map(int, found.split()))

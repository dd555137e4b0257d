import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from tiers import nightly

import spacy_krissel
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mining import mine as mine_module
from spacy_krissel.mining import miner as miner_module
from spacy_krissel.mining import reservoir as reservoir_module
from spacy_krissel.mining import work as work_module
from spacy_krissel.mining import workers as workers_module
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.mining.work import WorkDirectory
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util import inputs
from spacy_krissel.views import mention_view

TEXTS = {
    "a": "AIDS and lung cancer. Cancer of lung, not COLD.",
    "b": "Nothing here aids anyone.",
    "c": "A tumor with İ before: Tumor.",
}


def test_mentions_names_and_counts_are_written(ontology, write_texts, tmp_path):
    report = mine(ontology, write_texts(TEXTS), tmp_path / "shards")
    found = {(m.entity, m.name, m.doc, m.mention) for m in MentionShards(tmp_path / "shards")}
    assert found == {
        ("D1", "Lung Cancer", "a", "lung cancer"),
        ("D1", "Cancer of Lung", "a", "Cancer of lung"),
        ("D2", "Tumor", "c", "tumor"),
        ("D2", "Tumor", "c", "Tumor"),
        ("D3", "AIDS", "a", "AIDS"),
    }
    counts = report.manifest["counts"]
    assert counts["texts"] == 3 and counts["mentions_found"] == counts["mentions"] == 5
    assert (
        counts["entities"] == 3
        and counts["ontology_entities"] == 7
        and counts["ambiguous_matches"] == 1
    )
    assert counts["characters"] == sum(map(len, TEXTS.values())) == counts["bytes"] - 1
    assert report.manifest["names"]["ambiguous"] == 4
    assert report.manifest["rates"]["entities_covered"] == round(3 / 7, 4)
    assert report.matched_bytes == counts["bytes"] and report.mb_per_second > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards", "texts.jsonl"]


def test_offsets_and_views_match_the_text(ontology, write_texts, tmp_path):
    mine(ontology, write_texts(TEXTS), tmp_path / "shards", case="fold")
    for m in MentionShards(tmp_path / "shards"):
        assert TEXTS[m.doc][m.start : m.end] == m.mention
        assert m.view == mention_view(TEXTS[m.doc], m.start, m.end)


def by_entity(shards):
    return {
        entity: list(group) for entity, group in groupby(shards, key=lambda mention: mention.entity)
    }


def test_cap_keeps_a_sample_of_all(ontology, many_texts, tmp_path):
    mine(ontology, many_texts, tmp_path / "all", cap=None)
    report = mine(ontology, many_texts, tmp_path / "some", cap=10)
    whole, some = MentionShards(tmp_path / "all"), MentionShards(tmp_path / "some")
    groups = by_entity(whole)
    assert {entity: len(mentions) for entity, mentions in by_entity(some).items()} == {
        entity: min(10, len(mentions)) for entity, mentions in groups.items()
    }
    # Of one entity the mentions are in the order of the sample: a lower cap is a beginning.
    for entity, mentions in by_entity(some).items():
        assert mentions == groups[entity][:10]
    assert report.manifest["counts"]["mentions_found"] == len(whole) > len(some)
    # A sample, and not the first ones.
    assert max(int(m.doc[1:]) for m in some) > 250


def test_same_seed_gives_the_same_bytes(ontology, many_texts, tmp_path, read_bytes):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        mine(ontology, many_texts, tmp_path / name, cap=9, seed=seed)
    assert read_bytes(tmp_path / "a") == read_bytes(tmp_path / "b")
    assert list(MentionShards(tmp_path / "a")) != list(MentionShards(tmp_path / "c"))


def test_order_chunks_and_processes_change_nothing(ontology, write_texts, tmp_path, read_bytes):
    texts = {f"t{i}": f"{i} tumor, lung cancer, AIDS" for i in range(120)}
    items = list(texts.items())
    one, two = write_texts(items[:50], "in/one.jsonl"), write_texts(items[50:], "in/two.jsonl")
    mine(ontology, [one, two], tmp_path / "a", cap=8)
    for name, paths, options in (
        ("b", [two, one], {"chunk_chars": 200}),
        ("c", tmp_path / "in", {"chunk_chars": 300, "n_process": 2}),
    ):
        mine(ontology, paths, tmp_path / name, cap=8, **options)
        assert read_bytes(tmp_path / name) == read_bytes(tmp_path / "a")


class Stop(Exception):
    pass


def stop_after(monkeypatch, n):
    """Let `n` chunks be mined, then fail; returns the list of mined chunks."""
    mined = []
    call = miner_module.Miner.__call__

    def counting(self, texts):
        if len(mined) == n:
            raise Stop
        mined.append([text.id for text in texts])
        return call(self, texts)

    monkeypatch.setattr(miner_module.Miner, "__call__", counting)
    return mined


@pytest.mark.parametrize("done", [0, 1, 4])
def test_interrupted_run_resumes(ontology, many_texts, tmp_path, monkeypatch, done, read_bytes):
    settings = {"cap": 10, "seed": 3, "chunk_chars": 1500}
    mine(ontology, many_texts, tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        first = stop_after(patch, done)
        mine(ontology, many_texts, tmp_path / "resumed", **settings)
    assert not (tmp_path / "resumed").exists() and (tmp_path / ".resumed.partial").is_dir() == (
        done > 0
    )
    with monkeypatch.context() as patch:
        second = stop_after(patch, -1)
        report = mine(ontology, many_texts, tmp_path / "resumed", **settings)
    assert len(first) == done
    ids = [id_ for chunk in first + second for id_ in chunk]
    assert ids == [f"t{i}" for i in range(300)]
    assert read_bytes(tmp_path / "resumed") == read_bytes(tmp_path / "whole")
    assert not (tmp_path / ".resumed.partial").exists()
    assert (report.matched_bytes < report.manifest["counts"]["bytes"]) == (done > 0)


def test_truncated_chunk_is_mined_again(ontology, many_texts, tmp_path, monkeypatch, read_bytes):
    settings = {"cap": 10, "chunk_chars": 1500}
    mine(ontology, many_texts, tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 4)
        mine(ontology, many_texts, tmp_path / "resumed", **settings)
    partial = tmp_path / ".resumed.partial"
    chunk = partial / "000002.arrow"
    chunk.write_bytes(chunk.read_bytes()[:-30])
    (partial / "chunk.tmp").write_bytes(b"half")
    with monkeypatch.context() as patch:
        mined = stop_after(patch, -1)
        mine(ontology, many_texts, tmp_path / "resumed", **settings)
    assert mined[0][0] != "t0"
    assert read_bytes(tmp_path / "resumed") == read_bytes(tmp_path / "whole")


def test_run_interrupted_before_writing_shards_resumes(
    ontology, many_texts, tmp_path, monkeypatch, read_bytes
):
    mine(ontology, many_texts, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(mine_module, "write_shard", lambda *args: (_ for _ in ()).throw(Stop))
        mine(ontology, many_texts, tmp_path / "resumed")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".resumed.partial",
        "texts.jsonl",
        "whole",
    ]
    mine(ontology, many_texts, tmp_path / "resumed")
    assert read_bytes(tmp_path / "resumed") == read_bytes(tmp_path / "whole")


@pytest.mark.parametrize(
    "changed",
    ["cap was 10 and is 11", "seed was", "case was 'smart'", "texts changed", "ontology changed"],
)
def test_work_of_other_input_is_refused_and_kept(
    ontology, many_texts, tmp_path, monkeypatch, changed, read_bytes
):
    settings = {"cap": 10, "seed": 0, "case": "smart", "chunk_chars": 1500}
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 3)
        mine(ontology, many_texts, tmp_path / "shards", **settings)
    work = read_bytes(tmp_path / ".shards.partial")
    other = {"cap": 11} if "cap" in changed else {"seed": 1} if "seed" in changed else {}
    if "case" in changed:
        other = {"case": "fold"}
    if "texts" in changed:
        many_texts.write_text(many_texts.read_text().replace("AIDS", "flu"))
    if "ontology" in changed:
        ontology = write_store([Entity("X", "glioma")], tmp_path / "other")
    with pytest.raises(KrisselError, match=f"K302.*{changed}.*restart"):
        mine(ontology, many_texts, tmp_path / "shards", **{**settings, **other})
    assert read_bytes(tmp_path / ".shards.partial") == work
    mine(ontology, many_texts, tmp_path / "shards", **{**settings, **other}, restart=True)
    mine(ontology, many_texts, tmp_path / "fresh", **{**settings, **other})
    assert read_bytes(tmp_path / "shards") == read_bytes(tmp_path / "fresh")


SCRIPT = """
import sys
from spacy_krissel.mining.mine import mine
from spacy_krissel.ontology.store import OntologyStore
if __name__ == "__main__":
    mine(OntologyStore(sys.argv[1]), sys.argv[2], sys.argv[3], cap=20, chunk_chars=2000, n_process=int(sys.argv[4]))
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.parametrize("n_process", [nightly(1), 2])
def test_killed_run_resumes(ontology, write_texts, tmp_path, n_process, read_bytes):
    texts = write_texts({f"t{i}": f"{i} tumor, lung cancer, AIDS, glioma" for i in range(20000)})
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        str(tmp_path / "script.py"),
        str(ontology.path),
        str(texts),
        str(tmp_path / "killed"),
    ]
    partial = tmp_path / ".killed.partial"
    environment = {**os.environ, "PYTHONPATH": str(Path(spacy_krissel.__file__).parent.parent)}
    process = subprocess.Popen([*command, str(n_process)], env=environment, start_new_session=True)
    deadline = time.time() + 60
    while (
        len(list(partial.glob("*.json"))) < 5 and process.poll() is None and time.time() < deadline
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    assert not (tmp_path / "killed").exists()
    with pytest.raises(ProcessLookupError):
        # The workers of a killed run end by themselves.
        while time.time() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.01)
    report = mine(ontology, texts, tmp_path / "killed", cap=20, chunk_chars=2000)
    assert report.matched_bytes < report.manifest["counts"]["bytes"]
    mine(ontology, texts, tmp_path / "whole", cap=20)
    assert read_bytes(tmp_path / "killed") == read_bytes(tmp_path / "whole")


def _die(miner):
    os._exit(9)


def test_dead_process_raises_and_loses_no_work(
    ontology, many_texts, tmp_path, monkeypatch, read_bytes
):
    monkeypatch.setattr(workers_module, "_start_worker", _die)
    with pytest.raises(KrisselError, match="K303.*n_process is 2"):
        mine(ontology, many_texts, tmp_path / "shards", n_process=2)
    monkeypatch.undo()
    mine(ontology, many_texts, tmp_path / "shards", n_process=2)
    mine(ontology, many_texts, tmp_path / "whole")
    assert read_bytes(tmp_path / "shards") == read_bytes(tmp_path / "whole")


def test_repeated_ids_are_left_out_and_counted(ontology, write_texts, tmp_path):
    texts = write_texts([("a", "glioma"), ("b", "tumor"), ("a", "glioma"), ("a", "lung cancer")])
    with pytest.warns(KrisselWarning, match=r"KW302.*2 of 4 texts.*a in .*texts.jsonl, line 3"):
        report = mine(ontology, texts, tmp_path / "shards")
    assert [m.mention for m in MentionShards(tmp_path / "shards")] == ["tumor", "glioma"]
    assert (
        report.manifest["counts"]["repeated_ids"] == 2 and report.manifest["counts"]["texts"] == 2
    )


def test_bad_records_are_counted(ontology, write_texts, tmp_path):
    texts = write_texts({"a": "glioma"})
    texts.write_text(texts.read_text() + "not json\n")
    with pytest.warns(KrisselWarning, match="KW2"):
        report = mine(ontology, texts, tmp_path / "shards")
    assert report.manifest["counts"]["bad_records"] == 1


def test_run_without_matches_warns_and_writes_empty_shards(ontology, write_texts, tmp_path):
    with pytest.warns(KrisselWarning, match="KW301.*2 texts"):
        mine(ontology, write_texts({"a": "Nothing.", "b": " here"}), tmp_path / "shards")
    shards = MentionShards(tmp_path / "shards")
    assert (len(shards), list(shards), shards.by_entity(), shards[0:3]) == (0, [], {}, [])


@pytest.mark.parametrize(
    "entities", [[], [Entity("A", "x", ("12", "was")), Entity("B", "flu"), Entity("C", "Flu")]]
)
def test_ontology_without_searchable_names_raises(entities, write_texts, tmp_path):
    empty = write_store(entities, tmp_path / "empty")
    with pytest.raises(KrisselError, match=f"K301.*empty.*has {len(entities)} entities"):
        mine(empty, write_texts(TEXTS), tmp_path / "shards")
    assert not (tmp_path / ".shards.partial").exists()


def test_truncated_text_is_refused_and_nothing_written(
    ontology, many_texts, tmp_path, read_bytes, monkeypatch
):
    # Chunks are mined before the end is met.
    monkeypatch.setattr(inputs, "CHUNK", 256)
    whole = gzip.compress(many_texts.read_bytes())
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(whole[:-100])
    with pytest.raises(KrisselError, match="K202.*broken.jsonl.gz"):
        mine(ontology, broken, tmp_path / "shards", chunk_chars=500)
    assert not (tmp_path / "shards").exists()
    # With the file repaired it is other text: what was mined from the broken one is not taken for
    # it.
    broken.write_bytes(whole)
    with pytest.raises(KrisselError, match="K302.*texts changed"):
        mine(ontology, broken, tmp_path / "shards", chunk_chars=500)


def test_no_texts_give_empty_shards_and_a_warning(ontology, tmp_path):
    with pytest.warns(KrisselWarning, match="KW301.*0 texts"):
        mine(ontology, [], tmp_path / "shards")
    assert len(MentionShards(tmp_path / "shards")) == 0


@pytest.mark.parametrize("content", ['{"cap"', "[" * 100_000, "[1]"])
def test_work_with_an_unreadable_state_is_kept(ontology, write_texts, tmp_path, content):
    partial = tmp_path / ".shards.partial"
    partial.mkdir()
    (partial / "000000.arrow").write_bytes(b"work")
    (partial / "state.json").write_text(content)
    with pytest.raises(KrisselError, match="K302.*state.json cannot be read"):
        mine(ontology, write_texts(TEXTS), tmp_path / "shards")
    assert (partial / "000000.arrow").read_bytes() == b"work"
    mine(ontology, write_texts(TEXTS), tmp_path / "shards", restart=True)


def test_repaired_text_is_mined_if_no_work_exists(ontology, write_texts, tmp_path):
    """Nor is it after a run that was killed before its first chunk."""
    texts = tmp_path / "texts.txt.gz"
    texts.write_bytes(gzip.compress(b"A case of glioma.")[:-4])
    with pytest.raises(KrisselError, match="K2"):
        mine(ontology, texts, tmp_path / "shards")
    assert not (tmp_path / ".shards.partial").exists()
    (tmp_path / ".shards.partial").mkdir()
    (tmp_path / ".shards.partial" / "state.json").write_text(json.dumps({"format_version": 1}))
    texts.write_bytes(gzip.compress(b"A case of glioma."))
    mine(ontology, texts, tmp_path / "shards")
    assert [mention.mention for mention in MentionShards(tmp_path / "shards")] == ["glioma"]


@pytest.mark.parametrize("n_bytes", [0, 1, 2, 3])
def test_gzip_file_of_few_bytes_raises_only_coded_errors(ontology, tmp_path, n_bytes):
    (tmp_path / "texts.txt.gz").write_bytes(gzip.compress(b"A case of glioma.")[:n_bytes])
    try:
        mine(ontology, tmp_path / "texts.txt.gz", tmp_path / "shards", progress=True)
    except KrisselError as error:
        assert error.code.startswith("K2")


@pytest.mark.parametrize("name", ["000002.arrow", "000002.json", "state.json"])
def test_flipped_bit_of_unfinished_work_never_reaches_the_shards(
    ontology, many_texts, tmp_path, monkeypatch, name, read_bytes
):
    settings = {"cap": 10, "chunk_chars": 1500}
    mine(ontology, many_texts, tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 4)
        mine(ontology, many_texts, tmp_path / "kept", **settings)
    n_bytes = (tmp_path / ".kept.partial" / name).stat().st_size
    for byte in {0, n_bytes - 1, *range(5, n_bytes, n_bytes // 25)}:
        shutil.copytree(tmp_path / ".kept.partial", tmp_path / ".shards.partial")
        damaged = bytearray((tmp_path / ".shards.partial" / name).read_bytes())
        damaged[byte] ^= 1 << byte % 8
        (tmp_path / ".shards.partial" / name).write_bytes(damaged)
        try:
            mine(ontology, many_texts, tmp_path / "shards", **settings)
        except KrisselError as error:
            assert error.code == "K302" and name == "state.json"
            shutil.rmtree(tmp_path / ".shards.partial")
        else:
            assert read_bytes(tmp_path / "shards") == read_bytes(tmp_path / "whole")


@pytest.mark.parametrize("n_chunks", [0, 2])
@pytest.mark.parametrize("other", [{}, {"seed": 1}, {"restart": True}])
def test_second_run_into_the_same_output_is_refused(
    ontology, many_texts, tmp_path, monkeypatch, n_chunks, other, read_bytes
):
    """The second begins when the first has so many chunks."""
    settings = {"cap": 10, "chunk_chars": 1500}
    mine(ontology, many_texts, tmp_path / "whole", **settings)
    call, refused = miner_module.Miner.__call__, []

    def second(self, texts):
        if len(list((tmp_path / ".shards.partial").glob("*.json"))) == n_chunks + 1 and not refused:
            refused.append(True)
            with pytest.raises(
                KrisselError, match=r"K045.*\.shards\.partial.*choose another output"
            ):
                mine(ontology, many_texts, tmp_path / "shards", **{**settings, **other})
        return call(self, texts)

    monkeypatch.setattr(miner_module.Miner, "__call__", second)
    mine(ontology, many_texts, tmp_path / "shards", **settings)
    assert refused and read_bytes(tmp_path / "shards") == read_bytes(tmp_path / "whole")


def test_two_processes_into_one_output_leave_valid_shards(
    ontology, write_texts, tmp_path, read_bytes
):
    texts = write_texts({f"t{i}": f"{i} tumor, lung cancer, AIDS, glioma" for i in range(20000)})
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        str(tmp_path / "script.py"),
        str(ontology.path),
        str(texts),
        str(tmp_path / "both"),
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(spacy_krissel.__file__).parent.parent)}
    runs = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    messages = [run.communicate()[1] for run in runs]
    failed = [message for run, message in zip(runs, messages, strict=True) if run.returncode]
    assert len(failed) < 2 and all("[K045]" in message for message in failed), messages
    mine(ontology, texts, tmp_path / "whole", cap=20)
    assert read_bytes(tmp_path / "both") == read_bytes(tmp_path / "whole")


def test_disk_errors_are_coded(ontology, write_texts, tmp_path, monkeypatch):
    texts = write_texts(TEXTS)
    for module in (work_module, mine_module):
        with (
            monkeypatch.context() as patch,
            pytest.raises(KrisselError, match="K026.*No space left.*Free space"),
        ):
            patch.setattr(
                module,
                "write_shard",
                lambda *args: (_ for _ in ()).throw(OSError(28, "No space left")),
            )
            mine(ontology, texts, tmp_path / "shards")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(KrisselError, match="K026.*A file stands where a folder is needed"):
        mine(ontology, texts, tmp_path / "file" / "shards")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".shards.partial",
        "file",
        "texts.jsonl",
    ]


def test_missing_texts_raise(ontology, tmp_path):
    with pytest.raises(KrisselError, match="K201"):
        mine(ontology, tmp_path / "nowhere.jsonl", tmp_path / "shards")


def test_invalid_settings_raise(ontology, write_texts, tmp_path):
    with pytest.raises(KrisselError, match="K006.*'n_process'"):
        mine(ontology, write_texts(TEXTS), tmp_path / "shards", n_process=0)


def test_foreign_output_is_refused_before_mining(ontology, write_texts, tmp_path, monkeypatch):
    stop_after(monkeypatch, 0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    for path in (tmp_path / "mine", ontology.path, tmp_path / "mine/letter.txt"):
        with pytest.raises(KrisselError, match="K005"):
            mine(ontology, write_texts(TEXTS), path)


def test_earlier_shards_are_replaced(ontology, write_texts, tmp_path):
    mine(ontology, write_texts({"a": "glioma"}), tmp_path / "shards")
    mine(ontology, write_texts({"a": "tumor"}), tmp_path / "shards")
    assert [m.mention for m in MentionShards(tmp_path / "shards")] == ["tumor"]


def test_progress_bar_writes_to_stderr_only_when_asked(ontology, write_texts, tmp_path, terminal):
    mine(ontology, write_texts(TEXTS), tmp_path / "shards")
    assert terminal.readouterr() == ("", "")
    mine(ontology, write_texts(TEXTS), tmp_path / "shards", progress=True)
    assert "Mining: 100%" in terminal.readouterr().err


@pytest.mark.data
@pytest.mark.parametrize(
    "case, mentions, entities",
    [
        nightly("preserve", 12000, 550),
        nightly("fold", 85000, 1600),
        ("smart", 75000, 1400),
    ],
)
def test_abstracts_give_the_expected_counts(medic, data_dir, tmp_path, case, mentions, entities):
    report = mine(medic, data_dir / "text" / "abstracts.jsonl.gz", tmp_path / "shards", case=case)
    counts = report.manifest["counts"]
    print(f"{case}: {report.mb_per_second:.1f} MB/s, {json.dumps(counts)}")
    assert counts["texts"] == 13752
    assert mentions < counts["mentions_found"] < mentions * 1.2
    assert entities < counts["entities"] < entities * 1.2


@pytest.fixture(scope="module")
def medic(data_dir, tmp_path_factory):
    from spacy_krissel.ontology.build import build_ontology

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        return build_ontology(
            data_dir / "ontologies" / "medic_06Jul2012.txt", tmp_path_factory.mktemp("medic") / "s"
        )


def test_workers_with_stale_limits_write_the_same_shards(
    ontology, many_texts, tmp_path, monkeypatch, read_bytes
):
    """On some systems, processes do not see how the limits of the first one sink."""
    monkeypatch.setattr(reservoir_module, "MIN_NEW", 1)
    kept = []
    remove = WorkDirectory.remove

    def counting(self):
        kept.append(
            sum(
                pa.ipc.open_file(path.read_bytes()).read_all().num_rows
                for path in self.path.glob("*.arrow")
            )
        )
        remove(self)

    monkeypatch.setattr(WorkDirectory, "remove", counting)
    settings = {"cap": 2, "chunk_chars": 500, "n_process": 2}
    mine(ontology, many_texts, tmp_path / "seen", **settings)
    local_workers = mine_module.local_workers
    monkeypatch.setattr(
        mine_module,
        "local_workers",
        lambda miner, *args: local_workers(miner._replace(limits=miner.limits.copy()), *args),
    )
    report = mine(ontology, many_texts, tmp_path / "not-seen", **settings)
    assert read_bytes(tmp_path / "not-seen") == read_bytes(tmp_path / "seen")
    n_found = report.manifest["counts"]["mentions_found"]
    assert report.manifest["counts"]["mentions"] <= kept[-1] < n_found / 3
    assert not list(tmp_path.rglob("*.tmp"))


def test_gzip_file_of_two_bytes_raises(ontology, tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"\x1f\x8b")
    with pytest.raises(KrisselError, match=r"K202.*a\.jsonl\.gz"):
        mine(ontology, path, tmp_path / "out")

import os
import signal

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.building import fill as build
from spacy_krissel.building.encoding import Encoders, VectorWork, encode_blocks
from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.prototype_kb import empty_kb
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.views import ReferenceParts, name_view

WIDTH = 6


class Stop(Exception):
    pass


class Counting:
    """An encoder that counts its blocks, and stops before one of them."""

    def __init__(self, stop_before=None):
        self.n_blocks = 0
        self.stop_before = stop_before

    def __call__(self, views):
        if self.n_blocks == self.stop_before:
            raise Stop
        self.n_blocks += 1
        rows = [np.random.default_rng(stable_hash(*view)).standard_normal(WIDTH) for view in views]
        return np.array(rows, dtype=np.float32).reshape(-1, WIDTH)


class Ahead(Encoders):
    """Begins others before the first is asked for."""

    n_ahead = 3

    def __init__(self, encode):
        super().__init__(encode)
        self.most = self.waiting = 0

    def begin(self, views):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        result = super().begin(views)

        def finish():
            self.waiting -= 1
            return result()

        return finish


@pytest.fixture
def filled(toy_store, toy_shards, monkeypatch):
    """Fills a knowledge base with prototypes and references, in blocks of 5."""
    monkeypatch.setattr(build, "BLOCK_VIEWS", 5)

    def fill(encode, kb_settings=None, **settings):
        source = PrototypeSource(toy_store, MentionShards(toy_shards))
        kb = fill_kb(
            empty_kb(**kb_settings or {})(Vocab(), WIDTH),
            source,
            encode,
            references=ReferenceParts(),
            **settings,
        )
        return (
            kb.vectors.tolist(),
            kb.prototypes_at(np.arange(kb.n_prototypes)),
            list(kb.entity_ids),
        )

    return fill


def test_an_interrupted_run_resumes_where_it_stopped(filled, tmp_path):
    whole = Counting()
    expected = filled(whole)
    n_done = 0
    for more in (2, 7, 0, 30):
        encode = Counting(stop_before=more)
        with pytest.raises(Stop), VectorWork(tmp_path / "kb", {"of": 1}) as work:
            filled(encode, work=work)
        n_done += encode.n_blocks
    encode = Counting()
    work = VectorWork(tmp_path / "kb", {"of": 1})
    assert filled(encode, work=work) == expected
    assert n_done == 39 and encode.n_blocks == whole.n_blocks - 39 > 0
    work.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("normalize", [False, True])
def test_stored_blocks_use_the_smallest_dtype_without_double_rounding(filled, tmp_path, normalize):
    settings = {"dtype": "float16", "normalize": normalize}
    expected = filled(Counting(), settings)
    for _ in range(2):
        with VectorWork(tmp_path / "kb", {}) as work:
            assert filled(Counting(), settings, work=work) == expected
    dtypes = {np.load(path).dtype.str for path in work.path.glob("*.npy")}
    assert dtypes == {"<f4" if normalize else "<f2"}


def test_a_damaged_block_is_encoded_again(filled, tmp_path):
    with VectorWork(tmp_path / "kb", {}) as work:
        expected = filled(Counting(), work=work)
    (work.path / "prototypes-000003.npy").write_bytes(b"\x93NUMPY")
    (work.path / "references-000001.npy").unlink()
    flipped = bytearray((work.path / "references-000000.npy").read_bytes())
    flipped[-3] ^= 1
    (work.path / "references-000000.npy").write_bytes(flipped)
    (work.path / "prototypes-000001.sha256").write_bytes(b"\xff")
    (work.path / "prototypes-000002.sha256").unlink()
    encode = Counting()
    with VectorWork(tmp_path / "kb", {}) as work:
        assert filled(encode, work=work) == expected
    assert encode.n_blocks == 5


def test_partial_work_of_other_input_raises_unless_restarted(tmp_path):
    with VectorWork(tmp_path / "kb", {"encoder": "a", "settings": (1, 2)}):
        pass
    with VectorWork(tmp_path / "kb", {"encoder": "b"}) as work:
        work.put("x", np.zeros((2, 3)))
    with pytest.raises(
        KrisselError, match=r"K529.*\.kb\.vectors\.partial.*encoder was 'b' and is 'c'"
    ):
        VectorWork(tmp_path / "kb", {"encoder": "c"})
    assert work.get("x", 2, 3).tolist() == np.zeros((2, 3)).tolist() and work.get("x", 3, 2) is None
    (work.path / "state.json").write_text("{")
    with pytest.raises(KrisselError, match="K529"):
        VectorWork(tmp_path / "kb", {"encoder": "b"})
    with VectorWork(tmp_path / "kb", {"encoder": "c"}, restart=True) as work:
        assert work.get("x", 2, 3) is None


@pytest.mark.parametrize(
    "state, restart", [({}, False), ({"other": 1}, False), ({"other": 1}, True)]
)
@pytest.mark.parametrize("n_blocks", [0, 3])
def test_a_second_concurrent_run_raises(filled, tmp_path, state, restart, n_blocks):
    """The second begins when the first has so many blocks."""

    class Second(Counting):
        def __call__(self, views):
            if self.n_blocks == n_blocks:
                with pytest.raises(
                    KrisselError, match=r"K045.*\.kb\.vectors\.partial.*choose another output"
                ):
                    VectorWork(tmp_path / "kb", state, restart=restart)
            return super().__call__(views)

    encode = Second()
    with VectorWork(tmp_path / "kb", {}) as work:
        assert filled(encode, work=work) == filled(Counting())
    assert encode.n_blocks > n_blocks


def test_without_locks_the_run_that_lost_its_folder_raises(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_krissel.util.work_folder.try_lock", lambda path: None)
    first, second = (VectorWork(tmp_path / "kb", {"of": name}) for name in "ab")
    second.put("x", np.zeros((2, 3)))
    with pytest.raises(KrisselError, match="K045"):
        first.put("x", np.ones((2, 3)))
    assert second.get("x", 2, 3).tolist() == np.zeros((2, 3)).tolist()


def test_a_full_disk_raises_a_coded_error(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spacy_krissel.building.encoding.write_array", full)
    with (
        VectorWork(tmp_path / "kb", {}) as work,
        pytest.raises(KrisselError, match="K026.*Free space"),
    ):
        work.put("x", np.zeros((2, 3)))
    assert not list(tmp_path.iterdir())


def test_blocks_encoded_by_workers_arrive_in_order(filled, tmp_path):
    encode = Counting()
    ahead = Ahead(encode)
    expected = filled(Counting())
    assert filled(None, encoders=ahead) == expected
    assert ahead.most == 4 and not ahead.waiting
    # Of blocks that are there nothing is begun.
    for _ in range(2):
        with VectorWork(tmp_path / "kb", {}) as work:
            assert filled(None, encoders=ahead, work=work) == expected
    assert encode.n_blocks == 2 * ahead_blocks(expected)


def ahead_blocks(expected):
    _, prototypes, entities = expected
    return -(-len(prototypes) // 5) + -(-len(entities) // 5)


def test_no_items_yield_no_blocks():
    assert list(encode_blocks([], name_view, Encoders(Counting()), WIDTH)) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_a_run_killed_in_the_middle_of_a_block_resumes(filled, tmp_path, monkeypatch):
    child = os.fork()
    if not child:
        replace = os.replace

        def killing(source, target):
            if str(target).endswith("prototypes-000004.npy"):
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)

        monkeypatch.setattr(os, "replace", killing)
        filled(Counting(), work=VectorWork(tmp_path / "kb", {}))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    encode, whole = Counting(), Counting()
    with VectorWork(tmp_path / "kb", {}) as work:
        assert filled(encode, work=work) == filled(whole)
    assert encode.n_blocks == whole.n_blocks - 3 - 4  # references come first

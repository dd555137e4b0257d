import os
import signal

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.kb import build
from spacy_krissel.kb.build import fill_kb
from spacy_krissel.kb.empty import empty_kb
from spacy_krissel.kb.encoding import Here, VectorWork, encoded
from spacy_krissel.kb.sources import PrototypeSource
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


class Ahead(Here):
    """Begins others before the first is asked for."""

    n_ahead = 3

    def __init__(self, encode):
        super().__init__(encode)
        self.most = self.waiting = 0

    def begin(self, views):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return super().begin(views)

    def result(self, begun):
        self.waiting -= 1
        return super().result(begun)


@pytest.fixture
def filled(toy_store, toy_shards, monkeypatch):
    """Fills a knowledge base with prototypes and references, in blocks of 5."""
    monkeypatch.setattr(build, "BLOCK", 5)

    def fill(encode, **settings):
        source = PrototypeSource(toy_store, MentionShards(toy_shards))
        kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, references=ReferenceParts(), **settings)
        return kb.own_vectors.tolist(), kb.prototypes_at(np.arange(kb.n_prototypes)), list(kb.entity_ids)

    return fill


def test_an_interrupted_run_goes_on_where_it_stopped(filled, tmp_path):
    whole = Counting()
    expected = filled(whole)
    n_done = 0
    for more in (2, 7, 0, 30):
        encode = Counting(stop_before=more)
        with pytest.raises(Stop):
            filled(encode, work=VectorWork(tmp_path / "kb", {"of": 1}))
        n_done += encode.n_blocks
    encode = Counting()
    work = VectorWork(tmp_path / "kb", {"of": 1})
    assert filled(encode, work=work) == expected
    assert n_done == 39 and encode.n_blocks == whole.n_blocks - 39 > 0
    work.remove()
    assert not list(tmp_path.iterdir())


def test_a_damaged_block_is_encoded_again(filled, tmp_path):
    work = VectorWork(tmp_path / "kb", {})
    expected = filled(Counting(), work=work)
    (work.path / "prototypes-000003.npy").write_bytes(b"\x93NUMPY")
    (work.path / "references-000001.npy").unlink()
    encode = Counting()
    assert filled(encode, work=VectorWork(tmp_path / "kb", {})) == expected
    assert encode.n_blocks == 2


def test_work_of_other_input_is_refused_unless_there_is_none(tmp_path):
    work = VectorWork(tmp_path / "kb", {"encoder": "a", "settings": (1, 2)})
    VectorWork(tmp_path / "kb", {"encoder": "b"}).put("x", np.zeros((2, 3)))
    with pytest.raises(KrisselError, match=r"K529.*\.kb\.vectors\.partial.*encoder was 'b' and is 'c'"):
        VectorWork(tmp_path / "kb", {"encoder": "c"})
    assert work.get("x", 2, 3).tolist() == np.zeros((2, 3)).tolist() and work.get("x", 3, 2) is None
    (work.path / "state.json").write_text("{")
    with pytest.raises(KrisselError, match="K529"):
        VectorWork(tmp_path / "kb", {"encoder": "b"})
    assert VectorWork(tmp_path / "kb", {"encoder": "c"}, restart=True).get("x", 2, 3) is None


def test_what_is_encoded_elsewhere_comes_in_order(filled, tmp_path):
    encode = Counting()
    ahead = Ahead(encode)
    expected = filled(Counting())
    assert filled(None, encoders=ahead) == expected
    assert ahead.most == 4 and not ahead.waiting
    # Of blocks that are there nothing is begun.
    for _ in range(2):
        assert filled(None, encoders=ahead, work=VectorWork(tmp_path / "kb", {})) == expected
    assert encode.n_blocks == 2 * ahead_blocks(expected)


def ahead_blocks(expected):
    _, prototypes, entities = expected
    return -(-len(prototypes) // 5) + -(-len(entities) // 5)


def test_no_blocks():
    assert list(encoded([], name_view, Here(Counting()), WIDTH)) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_killed_in_the_middle_of_a_block(filled, tmp_path, monkeypatch):
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
    assert filled(encode, work=VectorWork(tmp_path / "kb", {})) == filled(whole)
    assert encode.n_blocks == whole.n_blocks - 4

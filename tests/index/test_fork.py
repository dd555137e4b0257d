"""Children forked after their parent has searched must not wait for threads that are not there."""

import os
import signal
import subprocess
import sys

import pytest
from tiers import nightly

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

SEARCH = """
import os, sys, numpy as np
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.index.devices import guard_forks

what = sys.argv[1]
vectors = np.random.default_rng(0).standard_normal((20_000, 64), dtype=np.float32)
if what == "torch":
    import torch
    torch.set_num_threads(2)
    tensor = torch.from_numpy(vectors)
    guard_forks()
    search = lambda: (tensor @ tensor[:500].T).argmax(0).numpy()
else:
    index = ExactIndex() if what == "exact" else FaissIndex(what)
    index.build(vectors)
    search = lambda: index.search(vectors[:500], 1)[1].ravel()
expected = search()
child = os.fork()
if not child:
    os._exit(0 if (search() == expected).all() else 1)
status = os.waitpid(child, 0)[1]
assert (search() == expected).all()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(program, *arguments):
    # Several threads, however many this machine and its environment would give.
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment, start_new_session=True
    )
    try:
        return process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        # The child that hangs, too.
        os.killpg(process.pid, signal.SIGKILL)
        raise


@pytest.mark.slow
@pytest.mark.parametrize("what", ["exact", "flat", nightly("hnsw"), nightly("ivf"), "torch"])
def test_a_forked_child_can_search_after_its_parent(what):
    pytest.importorskip("torch" if what == "torch" else "faiss")
    assert run(SEARCH, what) == 0


def test_a_forked_child_of_a_cuda_process_searches_on_the_cpu():
    program = """
import os, sys, numpy as np
from spacy_krissel.index import devices
from spacy_krissel.index.exact import ExactIndex
index = ExactIndex("cuda")
index.build(np.eye(3, dtype=np.float32))
devices.guard_forks()
devices.note_cuda()
assert not devices.cuda_lost()
child = os.fork()
if not child:
    os._exit(index.search(np.eye(3, dtype=np.float32)[2:], 1)[1][0, 0])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(program) == 2

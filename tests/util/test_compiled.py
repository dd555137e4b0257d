import importlib.util
import subprocess
import sys

import pytest

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.util import compiled
from spacy_krissel.util.compiled import kernel

NAME = "spacy_krissel.layers.feature_kernel"


@pytest.fixture(autouse=True)
def forgotten():
    kernel.cache_clear()
    yield
    kernel.cache_clear()


def test_without_numba_there_is_no_loop_and_no_warning(monkeypatch, recwarn):
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    assert kernel(NAME) is None
    assert not recwarn.list


def test_a_numba_that_cannot_be_imported_is_told_once(monkeypatch):
    pytest.importorskip("numba")

    def failing(name):
        raise ImportError("Numba needs NumPy 2.3 or less")

    monkeypatch.setattr(compiled, "import_module", failing)
    with pytest.warns(KrisselWarning, match="KW031.*NumPy 2.3 or less") as told:
        assert kernel(NAME) is None and kernel(NAME) is None
    assert len(told) == 1


def test_where_no_folder_can_be_written_to_loops_are_compiled_all_the_same(monkeypatch):
    numba = pytest.importorskip("numba")
    plain = numba.njit

    def refusing(function, *, cache=False, **settings):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return plain(function, **settings)

    monkeypatch.setattr(numba, "njit", refusing)
    assert compiled.compiled(lambda x: x + 1)(2) == 3


def test_numba_is_not_imported_before_something_is_linked():
    """It takes a quarter of a second."""
    if importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed")
    code = (
        "import sys, spacy; nlp = spacy.blank('en'); "
        "nlp.add_pipe('krissel_linker', config={'model': {'@architectures': 'spacy-krissel.SmallEncoder.v1'}}); "
        "import spacy_krissel.kb.lexical_index, spacy_krissel.layers.small; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

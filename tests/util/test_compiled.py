import subprocess
import sys

import pytest

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.util import compiled
from spacy_krissel.util.compiled import MIN_COMPILED_TEXTS, kernel

NAME = "spacy_krissel.layers.feature_kernel"


@pytest.fixture(autouse=True)
def forgotten():
    compiled._imported.cache_clear()
    yield
    compiled._imported.cache_clear()


def test_without_numba_there_is_no_loop_and_no_warning(monkeypatch, recwarn):
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    assert kernel(NAME, MIN_COMPILED_TEXTS) is None
    assert not recwarn.list


def test_a_numba_that_cannot_be_imported_is_told_once(monkeypatch):
    pytest.importorskip("numba")

    def failing(name):
        raise ImportError("Numba needs NumPy 2.3 or less")

    monkeypatch.setattr(compiled, "import_module", failing)
    with pytest.warns(KrisselWarning, match="KW031.*NumPy 2.3 or less") as told:
        assert kernel(NAME, MIN_COMPILED_TEXTS) is None and kernel(NAME, MIN_COMPILED_TEXTS) is None
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
    exact, quick = compiled.compiled(lambda x: x), compiled.compiled(fastmath={"reassoc"})(lambda x: x)
    assert not exact.targetoptions.get("fastmath") and quick.targetoptions["fastmath"] == {"reassoc"}


def test_a_few_texts_import_numba_and_many_do_not():
    """Its import takes half a second of the first link."""
    pytest.importorskip("numba")
    code = (
        "import sys; from spacy_krissel.layers.features import text_features;"
        "from spacy_krissel.lexical.index import LexicalIndex;"
        "import numpy as np; index = LexicalIndex.of(['cold'], np.zeros(1, int));"
        "from spacy_krissel.kb.nearest import _products; few = np.ones((9, 4), 'f'); pairs = np.zeros(999, int);"
        "text_features(['cold'] * 9, rows=9, ngrams=(3, 5)); index.search(index.vectors(['colds'] * 9), 1);"
        "_products(few, pairs, few, pairs);"
        "assert 'numba' not in sys.modules;"
        f"text_features(['cold'] * {MIN_COMPILED_TEXTS}, rows=9, ngrams=(3, 5)); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

import subprocess
import sys

import numba
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.util.compiled import compiled


@pytest.mark.parametrize(
    "reason", ["Numba needs NumPy 2.3 or less", "libllvmlite.so: cannot open shared object file"]
)
def test_numba_that_cannot_be_imported_has_a_code(monkeypatch, reason):
    class Failing:
        def find_spec(self, name, path=None, target=None):
            if name == "numba":
                raise (ImportError if "NumPy" in reason else OSError)(reason)

    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    with pytest.raises(KrisselError, match=f"K803.*{reason}.*pip install --upgrade numba"):
        compiled(lambda x: x)


def test_loops_are_compiled_without_a_writable_cache(monkeypatch):
    plain = numba.njit

    def refusing(function, *, cache=False, **settings):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return plain(function, **settings)

    monkeypatch.setattr(numba, "njit", refusing)
    assert compiled(lambda x: x + 1)(2) == 3
    exact, quick = compiled(lambda x: x), compiled(fastmath={"reassoc"})(lambda x: x)
    assert not exact.targetoptions.get("fastmath") and quick.targetoptions["fastmath"] == {
        "reassoc"
    }


def test_numba_is_imported_by_the_first_link_and_no_module():
    """Its import takes half a second."""
    code = (
        "import sys; from spacy_krissel.layers.features import text_features;import "
        "spacy_krissel.pipeline.factories, spacy_krissel.lexical.index, "
        "spacy_krissel.kb.nearest;assert 'numba' not in sys.modules;text_features(['cold'], "
        "rows=9, ngrams=(3, 5)); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

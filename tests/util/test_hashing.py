import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.util.hashing import stable_hash, stable_hashes


def test_hash_is_the_same_in_every_process():
    code = (
        "from spacy_krissel.util.hashing import stable_hash; print(stable_hash(0, 'doc', 17, 'D1'))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(printed) == stable_hash(0, "doc", 17, "D1")


def test_hash_is_the_same_on_every_machine():
    # Stored on disk: with another value, existing stores would find no name.
    assert stable_hash("multiple sclerosis") == 18009524386172280476


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_any_text_has_a_hash(parts):
    assert 0 <= stable_hash(*parts) < 2**64
    each = b"".join(stable_hash(part).to_bytes(8, "big") for part in parts)
    assert stable_hashes(parts) == each


def test_hashes_are_evenly_distributed():
    hashes = [stable_hash(0, i) for i in range(1000)]
    assert len(set(hashes)) == 1000
    assert 400 < sum(value < 2**63 for value in hashes) < 600
    assert stable_hash(1, 0) != stable_hash(0, 1)

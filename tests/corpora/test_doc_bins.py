import zlib

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.errors import KrisselError


@pytest.mark.parametrize("attribute", ["NORM", "TAG", "DEP", "ENT_KB_ID"])
def test_a_token_without_its_string_raises(tmp_path, attribute):
    """spaCy looks a token's texts up when they are asked for, far from the file that lacks them."""
    doc = spacy.blank("en")("Gout in the knee.")
    doc_bin = DocBin(attrs=["ENT_TYPE", "ENT_IOB", attribute], docs=[doc])
    doc_bin.tokens[0][1, doc_bin.attrs.index(spacy.attrs.IDS[attribute])] = 12345678901
    doc_bin.to_disk(tmp_path / "docs.spacy")
    with pytest.raises(KrisselError, match=r"K212.*docs\.spacy"):
        list(read_doc_bins(tmp_path / "docs.spacy", Vocab()))


def test_a_category_that_is_no_string_raises(tmp_path):
    doc = spacy.blank("en")("Gout in the knee.")
    doc.cats = {1: 1.0}
    DocBin(docs=[doc]).to_disk(tmp_path / "docs.spacy")
    with pytest.raises(KrisselError, match="K212.*category"):
        list(read_doc_bins(tmp_path / "docs.spacy", Vocab()))


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    (tmp_path / "docs.spacy").write_bytes(zlib.compress(b"\0" * 2**22))
    with pytest.raises(KrisselError, match=r"K055.*docs\.spacy.*KRISSEL_MAX_FILE_MIB"):
        list(read_doc_bins(tmp_path / "docs.spacy", Vocab()))

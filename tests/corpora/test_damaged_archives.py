"""One byte of a compressed corpus changed, or its end cut off: refused with a code, or read as
before."""

import gzip

import pytest
import spacy
from damaged_bytes import damaged
from fuzz import seeds
from fuzz.containers import tarred, zipped
from hypothesis import given, settings
from spacy.tokens import DocBin

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.readers.brat import read_brat
from spacy_krissel.corpora.readers.cas import read_cas
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.errors import KrisselError

NLP = spacy.blank("en")
LINES = b'{"id": "1", "text": "Gout in the knee."}\n{"id": "2", "text": "Rickets."}\n'


def annotated(read):
    def read_all(path):
        return [(each.id, each.text, each.mentions) for each in read(path, report=CorpusReport())]

    return read_all


def texts(path):
    return [(each.id, each.text) for each in read_texts(path)]


def docs(path):
    return [doc.to_bytes() for doc in read_doc_bins(path, NLP.vocab)]


def encoded(files):
    return {
        name: text if isinstance(text, bytes) else text.encode("utf8")
        for name, text in files.items()
    }


@pytest.mark.parametrize(
    "name, data, read, code",
    [
        ("export.zip", zipped(encoded(seeds.CAS[0])), annotated(read_cas), "K248"),
        ("a.jsonl.gz", gzip.compress(LINES, mtime=0), texts, "K202"),
        ("a.txt.gz", gzip.compress(b"Gout in the knee.\nRickets.\n", mtime=0), texts, "K202"),
        (
            "a.tar.gz",
            gzip.compress(tarred({"1.txt": b"Gout.\n", "2.txt": b"Rickets.\n"}), mtime=0),
            texts,
            "K211",
        ),
        (
            "brat.tar.gz",
            gzip.compress(tarred(encoded(seeds.BRAT[0])), mtime=0),
            annotated(read_brat),
            "K211",
        ),
        ("docs.spacy", DocBin(docs=[NLP("Gout in the knee.")]).to_bytes(), docs, "K212"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_any_damage_is_refused_or_harmless(name, data, read, code, tmp_path):
    if name == "export.zip":
        pytest.importorskip("cassis")
    path = tmp_path / name
    path.write_bytes(data)
    whole, codes = read(path), set()

    @settings(max_examples=200, deadline=None)
    @given(damaged(data))
    def check(damaged_data):
        path.write_bytes(damaged_data)
        try:
            assert read(path) == whole
        except KrisselError as error:
            codes.add(str(error)[1:5])

    check()
    # Where the first bytes are damaged, the file may be taken for an uncompressed one.
    assert code in codes and codes <= {code, "K201", "K203", "K204", "K057", "K060"}

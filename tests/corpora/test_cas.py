"""UIMA CAS as INCEpTION and WebAnno export it."""

import tracemalloc
import zipfile

import pytest
from fuzz.seeds import CAS

from spacy_krissel.corpora.readers import READERS, detect_format
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError

pytest.importorskip("cassis")
FILES = CAS[0]


def read(path, report=None):
    return list(READERS[detect_format(path)](path, report=report or CorpusReport()))


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_mentions_are_read_and_suggestions_are_not(tmp_path):
    (document,) = read(zipped(tmp_path / "export.zip", FILES))
    assert (document.id, document.text) == ("1", "Gout é.")
    assert [(each.fragments, each.text, each.label, each.kb_id) for each in document.mentions] == [
        (((0, 4),), "Gout", "Disease", "MESH:D006073")
    ]
    nested = {f"ada/{name}": text for name, text in FILES.items()} | {
        "bob/2.xmi": FILES["1.xmi"],
        **FILES,
    }
    assert [each.id for each in read(zipped(tmp_path / "nested.zip", nested))] == ["1", "1", "2"]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf8")
    assert read(tmp_path / "1.xmi") == [
        type(document)("1", document.text, document.mentions, str(tmp_path / "1.xmi"))
    ]
    assert [each.id for each in READERS["cas"](tmp_path, report=CorpusReport())] == ["1"]


def test_bad_files_are_counted_and_unusable_archives_raise(tmp_path):
    bad = '<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>'
    report = CorpusReport()
    assert [
        each.id
        for each in read(zipped(tmp_path / "a.zip", {**FILES, "0.xmi": bad, "2.xmi": "<a"}), report)
    ] == ["1"]
    assert report["bad_records"] == 2
    with pytest.raises(KrisselError, match="K204"):
        read(zipped(tmp_path / "b.zip", {"0.xmi": bad, "TypeSystem.xml": FILES["TypeSystem.xml"]}))
    with pytest.raises(KrisselError, match="K201.*TypeSystem"):
        read(zipped(tmp_path / "c.zip", {"1.xmi": FILES["1.xmi"]}))
    whole = zipped(tmp_path / "d.zip", FILES).read_bytes()
    (tmp_path / "d.zip").write_bytes(whole[:-30])
    with pytest.raises(KrisselError, match="K248"):
        read(tmp_path / "d.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_member_larger_than_its_stated_size_is_refused(method, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("1.xmi", "x" * 12_345_678)
        archive.writestr("TypeSystem.xml", FILES["TypeSystem.xml"])
    path.write_bytes(path.read_bytes().replace((12_345_678).to_bytes(4, "little"), b"\1\0\0\0"))
    tracemalloc.start()
    with pytest.raises(KrisselError, match="K248"):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    with pytest.raises(KrisselError, match="K055"):
        read(zipped(tmp_path / "a.zip", {**FILES, "2.xmi": "x" * 2_000_000}))

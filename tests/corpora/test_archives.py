import gzip
import io
import tarfile
import time

import pytest

from spacy_krissel.corpora.readers.brat import read_brat
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.errors import KrisselError


def archive(path, *members):
    """members: (name, size that its header states, content)"""
    data = b""
    for name, size, content in members:
        info = tarfile.TarInfo(name)
        info.size = size
        data += info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)
    path.write_bytes(gzip.compress(data))
    return path


@pytest.mark.parametrize("read", [read_texts, read_brat])
@pytest.mark.parametrize("name", ["1.txt", "1.ann", "other.pdf"])
@pytest.mark.parametrize("size", [2**20, 2**36, 2**50])
def test_a_header_with_an_excessive_size_is_refused_quickly(tmp_path, read, name, size):
    path = archive(tmp_path / "a.tar.gz", (name, size, b"T1\tDisease 0 4\tpain\n"))
    started = time.process_time()
    with pytest.raises(KrisselError, match=r"K211|K055"):
        list(read(path))
    assert time.process_time() - started < 2


def test_a_name_that_is_not_utf8_becomes_a_valid_id(tmp_path):
    info = tarfile.TarInfo("caf\xe9.txt")
    info.size = 4
    path = tmp_path / "a.tar.gz"
    path.write_bytes(
        gzip.compress(info.tobuf(tarfile.GNU_FORMAT, "latin-1") + b"Pain" + bytes(508 + 1024))
    )
    (text,) = read_texts(path)
    assert text.id.encode("utf8").startswith("caf\ufffd".encode("utf8"))


@pytest.mark.parametrize("read", [read_texts, read_brat])
def test_an_oversized_header_is_refused(tmp_path, read):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**36
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(2**21)))
    with pytest.raises(KrisselError, match="K211.*header of 68719476736 bytes"):
        list(read(path))


@pytest.mark.parametrize("read", [read_texts, read_brat])
def test_a_sparse_header_without_numbers_raises_a_coded_error(tmp_path, read):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("1.txt")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.realsize": "9",
        }
        info.size = 512
        tar.addfile(info, io.BytesIO(b"many\n" + bytes(507)))
    with pytest.raises(KrisselError, match="K211.*ValueError"):
        list(read(path))


def test_archive_size_in_memory_is_limited(tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    half = b"x" * (600 * 1024)
    path = archive(tmp_path / "a.tar.gz", ("1.txt", len(half), half), ("2.txt", len(half), half))
    with pytest.raises(
        KrisselError, match=r"K055.*a\.tar\.gz!2\.txt.*1\.2 MiB.*KRISSEL_MAX_FILE_MIB"
    ):
        list(read_brat(path))
    # Each of them is read by itself.
    assert len(list(read_texts(path))) == 2


def test_line_length_in_an_archive_is_limited(tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "1")
    path = archive(tmp_path / "a.tar.gz", ("1.txt", 2**21, b"x" * 2**21))
    with pytest.raises(KrisselError, match=r"K055.*a\.tar\.gz!1\.txt.*line 1"):
        list(read_texts(path))


def test_carriage_returns_alone_as_line_ends_are_refused(tmp_path):
    path = archive(tmp_path / "a.tar.gz", ("1.txt", 7, b"one\rtwo"))
    with pytest.raises(KrisselError, match=r"K057.*a\.tar\.gz!1\.txt"):
        list(read_texts(path))

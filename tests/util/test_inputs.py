import errno
import gzip
import io
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.util import inputs
from spacy_krissel.util.inputs import (
    InputFile,
    check_encoding,
    coded_reading,
    control_character,
    not_utf8,
    open_input,
)


def opened(path):
    return open_input(path, "nothing there", "{path} {line} {problem}")


@pytest.mark.parametrize(
    "error, code, said",
    [
        (IndexError("7"), "K053", "IndexError: 7"),
        (UnicodeDecodeError("utf8", b"", 0, 1, "bad"), "K053", "UnicodeDecodeError"),
        (RecursionError(), "K054", "line 3"),
        (OSError(errno.EIO, "Input/output error"), "K026", "Input/output error"),
    ],
)
def test_errors_of_a_reader_are_coded(error, code, said):
    with (
        pytest.raises(KrisselError, match=rf"{code}.*a\.txt.*{said}") as caught,
        coded_reading("a.txt", lambda: "line 3"),
    ):
        raise error
    assert caught.value.__cause__ is error, "the cause is lost"


@pytest.mark.parametrize(
    "error", [MemoryError(), KrisselError("[K001] …"), KrisselWarning("…"), KeyboardInterrupt()]
)
def test_other_errors_pass_unchanged(error):
    with pytest.raises(type(error)) as caught, coded_reading("a.txt"):
        raise error
    assert caught.value is error


def test_directory_and_unreadable_file_raise(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with pytest.raises(KrisselError, match="nothing there"), opened(tmp_path):
        pass
    path.write_text("x")
    monkeypatch.setattr(
        inputs,
        "CountedFile",
        lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no", "a")),
    )
    with pytest.raises(KrisselError, match="K026.*'a'"), opened(path):
        pass


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b", gzip.compress(b"text" * 99)[:-4]], ids=["header", "cut"]
)
def test_damaged_compression_raises(tmp_path, data):
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(KrisselError, match="1 Compressed file ended"), opened(path) as file_:
        file_.read_all()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_line_beyond_the_limit_raises(tmp_path, monkeypatch, pack):
    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "1")
    path = tmp_path / "a"
    path.write_bytes(pack(b"short\n" + b"x" * (2**20 + 1)))
    message = r"K055.*line 2 has 1\.0 MiB.*at most 1 MiB.*KRISSEL_MAX_RECORD_MIB"
    with pytest.raises(KrisselError, match=message), opened(path) as file_:
        list(file_.lines())
    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "2")
    with opened(path) as file_:
        assert len(list(file_.lines())) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_file_beyond_the_limit_raises(tmp_path, monkeypatch, pack):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    path = tmp_path / "a"
    path.write_bytes(pack(b"x" * (2**20 + 1)))
    with (
        pytest.raises(KrisselError, match="K055.*at most 1 MiB.*KRISSEL_MAX_FILE_MIB"),
        opened(path) as file_,
    ):
        file_.read_all()


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "²"])
def test_invalid_limit_raises(monkeypatch, value):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", value)
    with pytest.raises(KrisselError, match="K006.*KRISSEL_MAX_FILE_MIB"):
        InputFile("a", io.BytesIO(b"x")).read_all()


def test_only_line_feeds_end_lines():
    raw = b"one\r\ntwo\x0b\xc2\x85three\rfour\nlast"
    file_ = InputFile("a", io.BytesIO(raw))
    assert list(file_.lines()) == [
        *raw.splitlines(True)[:0],
        b"one\r\n",
        b"two\x0b\xc2\x85three\rfour\n",
        b"last",
    ]
    assert (file_.line, file_.ended) == (3, False)


@pytest.mark.parametrize("raw", [b"a\rb\rc", b"a\rb\rc\r", b"a\rb\rc\n"])
def test_bare_carriage_returns_raise(raw):
    with pytest.raises(KrisselError, match="K057"):
        list(InputFile("a", io.BytesIO(raw)).lines())
    assert list(InputFile("a", io.BytesIO(b"a\r\n")).lines()) == [b"a\r\n"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(encoding):
    named = "UTF-32" if encoding == "utf-32" else "UTF-16"
    with pytest.raises(KrisselError, match=f"K056.*{named}"):
        check_encoding("D009103||Multiple Sclerosis\n".encode(encoding), "a")
    for plain in (b"", b"a", b"D00\x009", b"\x00\x01\x00\x01", "\ufeffé".encode()):
        check_encoding(plain, "a")


def test_control_characters_are_named():
    assert control_character("a\tb") == control_character("é\u2028\x85") == ""
    assert control_character("a\x00b") == "holds the control character U+0000"


def test_too_many_blank_lines_raise(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_BLANK_LINES", 10)
    path = tmp_path / "blank.txt"
    path.write_bytes(b"a\n" + b"\n" * 10 + b"b\n" + b" \r\n" * 11)
    found = []
    with pytest.raises(
        KrisselError, match=r"K059.*blank\.txt.*line 23.*11 consecutive blank lines"
    ):
        with open_input(path, "", "") as file_:
            found.extend(file_.lines())
    assert found.count(b"b\n") == 1


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=300).filter(
        lambda text: text.strip()[:1] != "<"
    ),
    encoding=st.sampled_from(["utf-16", "utf-32"]),
    pack=st.sampled_from([bytes, gzip.compress]),
)
@example("aé𝔸" * 50_000, "utf-16", bytes)
def test_marked_encodings_are_read_as_utf8(tmp_path, text, encoding, pack):
    path = tmp_path / "a"
    path.write_bytes(pack(f"{text}\n{text}".encode(encoding)))
    with opened(path) as file_:
        first = b"".join(file_.lines())
        file_.rewind()
        assert first == file_.read_all() == f"{text}\n{text}".encode()


def test_damaged_utf16_is_coded(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("one\ntwo".encode("utf-16")[:-1])
    with pytest.raises(KrisselError, match="2 not utf-16"), opened(path) as file_:
        list(file_.lines())


@pytest.mark.parametrize(
    "raw, said",
    [(b"1,M\xe9ni\xe8re", "byte 4 is 0xe9.*'1,Ménière'.*WINDOWS-1252"), (b"\x81a", r"0x81\)$")],
)
def test_likely_encodings_are_named(raw, said):
    with pytest.raises(UnicodeDecodeError) as caught:
        raw.decode()
    assert re.search(said, not_utf8(raw, caught.value))


@pytest.mark.parametrize(
    "text", ["a\tb\r\n" * 9, "\x1b[31mred\x1b[0m text that goes on", "ÄÖÜ" * 20, "日本語" * 20]
)
@pytest.mark.parametrize("encoding", ["utf8", "cp1252", "gb18030"])
def test_text_is_not_taken_for_binary(text, encoding):
    check_encoding(text.encode(encoding, errors="replace"), "a")

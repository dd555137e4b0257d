import io
import zipfile
import zlib

import pytest
from damaged_bytes import damaged
from hypothesis import given, settings

from spacy_krissel.errors import KrisselError
from spacy_krissel.util.zip_file import open_zip

MEMBERS = {"é.xmi": b"Gout " * 9, "a/TypeSystem.xml": b"types", "2.xmi": b""}


def zipped(method=zipfile.ZIP_DEFLATED, comment=b"", members=MEMBERS):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
        archive.comment = comment
    return out.getvalue()


def changed(old, new, first_only=False):
    data = zipped()
    assert old in data
    return data.replace(old, new, 1 if first_only else -1)


def read(path, data):
    path.write_bytes(data)
    with open_zip(path, lambda problem: KrisselError(f"[K000] {problem}")) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    "data", [zipped(), zipped(zipfile.ZIP_STORED), zipped(comment=b"from a tool")]
)
def test_any_damage_is_refused_or_harmless(data, tmp_path):
    @settings(max_examples=500, deadline=None)
    @given(damaged(data))
    def check(damaged_data):
        try:
            assert read(tmp_path / "a.zip", damaged_data) == MEMBERS
        except KrisselError as error:
            assert len(str(error)) > len("[K000] ")

    assert read(tmp_path / "a.zip", data) == MEMBERS
    check()


def one_member_hidden():
    """The comment of one member in the list is the entry of the next."""
    data = bytearray(zipped())
    first = data.find(b"PK\1\2")
    second = data.find(b"PK\1\2", first + 1)
    third = data.find(b"PK\1\2", second + 1)
    data[first + 32 : first + 34] = (third - second).to_bytes(2, "little")
    return bytes(data)


def encrypted():
    data = bytearray(zipped(members={"1.xmi": b"Gout"}))
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.find(signature) + flags] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"", "not a zip file"),
        (b"text", "not a zip file"),
        (encrypted(), "encrypted"),
        (zipped(zipfile.ZIP_BZIP2), "another method than Deflate"),
        (zipped(zipfile.ZIP_LZMA), "another method than Deflate"),
        (changed(b"\x08\0\0\0", b"\x63\0\0\0"), "another method than Deflate"),
        (one_member_hidden(), "states another number"),
        (changed(b"2.xmi", b"3.xmi", first_only=True), "differ"),
    ],
)
def test_the_problem_is_named(data, problem, tmp_path):
    with pytest.raises(KrisselError, match=problem):
        read(tmp_path / "a.zip", data)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("1.xmi", "one")
        archive.writestr("1.xmi", "two")
    with pytest.raises(KrisselError, match="same name"):
        read(tmp_path / "a.zip", (tmp_path / "b.zip").read_bytes())


def test_a_folder_and_a_missing_file_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "absent.zip"):
        with pytest.raises(KrisselError, match=f"K026.*{path}"), open_zip(path, KrisselError):
            pass


def test_errors_of_the_block_are_coded(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zipped())
    with pytest.raises(KrisselError, match="K000.*Error -3"):
        with open_zip(path, lambda problem: KrisselError(f"[K000] {problem}")):
            zlib.decompress(b"no data")

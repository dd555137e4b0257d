import json
import os

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.util import manifest as module
from spacy_krissel.util.manifest import MANIFEST, content_hash, new_directory, read_manifest, sha256_file

KIND = "mention shards"


def write(path, files=None, kind=KIND, version=1, **info):
    with new_directory(path, kind, version) as writer:
        for name, content in (files or {"a.txt": "alpha", "sub/b.bin": "beta"}).items():
            (writer.path / name).parent.mkdir(exist_ok=True)
            (writer.path / name).write_text(content)
        writer.info.update(info)
    return path


def edit(path, change):
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


@pytest.fixture
def directory(tmp_path):
    return write(tmp_path / "made", count=2)


def test_manifest_describes_every_file(directory):
    manifest = read_manifest(directory, KIND, 1)
    assert (manifest["kind"], manifest["format_version"], manifest["count"]) == (KIND, 1, 2)
    assert manifest["files"] == {
        "a.txt": {"bytes": 5, "sha256": sha256_file(directory / "a.txt")},
        "sub/b.bin": {"bytes": 4, "sha256": sha256_file(directory / "sub" / "b.bin")},
    }
    assert sha256_file(directory / "a.txt") == "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"


def test_same_content_same_bytes(tmp_path):
    one, two = write(tmp_path / "one", x=1, y=2), write(tmp_path / "two", y=2, x=1)
    assert (one / MANIFEST).read_bytes() == (two / MANIFEST).read_bytes()


def test_nothing_but_the_directory_is_left(directory, tmp_path):
    write(directory, {"c.txt": "new"})
    assert os.listdir(tmp_path) == ["made"]
    assert sorted(os.listdir(directory)) == ["c.txt", MANIFEST]


def test_exception_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "new", KIND, 1) as writer:
        (writer.path / "a.txt").write_text("half")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_exception_leaves_the_old_one_whole(directory, tmp_path):
    before = read_manifest(directory, KIND, 1)
    with pytest.raises(KeyboardInterrupt), new_directory(directory, KIND, 1) as writer:
        (writer.path / "a.txt").write_text("half")
        raise KeyboardInterrupt
    assert read_manifest(directory, KIND, 1, verify=True) == before
    assert os.listdir(tmp_path) == ["made"]


def test_manifest_that_cannot_be_written_leaves_the_old_one(directory, tmp_path):
    with pytest.raises(TypeError), new_directory(directory, KIND, 1) as writer:
        writer.info["not JSON"] = object()
    assert read_manifest(directory, KIND, 1)["count"] == 2
    assert os.listdir(tmp_path) == ["made"]


def test_old_directory_is_there_until_the_new_one_is_whole(directory):
    with new_directory(directory, KIND, 1) as writer:
        (writer.path / "c.txt").write_text("new")
        assert read_manifest(directory, KIND, 1)["count"] == 2
    assert list(read_manifest(directory, KIND, 1)["files"]) == ["c.txt"]


def test_open_files_of_the_old_directory_stay_readable(directory):
    with (directory / "a.txt").open() as file_:
        write(directory, {"a.txt": "other"})
        assert file_.read() == "alpha"


def test_parents_are_made_and_an_empty_directory_is_taken(tmp_path):
    write(tmp_path / "deep" / "er" / "made")
    (tmp_path / "empty").mkdir()
    assert read_manifest(write(tmp_path / "empty"), KIND, 1)


def test_k001_missing(tmp_path):
    with pytest.raises(KrisselError, match=f"K001.*mention shards.*{tmp_path}.*python -m spacy krissel mine"):
        read_manifest(tmp_path / "missing", KIND, 1)
    with pytest.raises(KrisselError, match="K001.*make it with: the oven"):
        read_manifest(tmp_path / "missing", KIND, 1, make="the oven")


@pytest.mark.parametrize("content", ["", "{", "[]", "1", "null", '"text"', '{"kind": "cake"}', "{}", "\0"])
def test_k002_not_such_a_directory(directory, content):
    (directory / MANIFEST).write_text(content)
    with pytest.raises(KrisselError, match="K002.*not a mention shards.*python -m spacy krissel mine"):
        read_manifest(directory, KIND, 1)


def test_k002_no_manifest(directory, tmp_path):
    (directory / MANIFEST).unlink()
    (tmp_path / "file").write_text("")
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / MANIFEST).write_bytes('{"kind": "é"}'.encode("latin1"))
    for path in (directory, tmp_path / "file", tmp_path / "latin"):
        with pytest.raises(KrisselError, match="K002.*cannot be read"):
            read_manifest(path, KIND, 1)


@pytest.mark.parametrize("files", [[], "a.txt", {"a.txt": {}}, {"a.txt": 5}, {"a.txt": {"bytes": "5", "sha256": None}}])
def test_k002_files_that_are_not_described(directory, files):
    edit(directory, lambda manifest: manifest.update(files=files))
    with pytest.raises(KrisselError, match="K00[24].*made"):
        read_manifest(directory, KIND, 1)


def test_k003_other_version(directory):
    with pytest.raises(KrisselError, match="K003.*format version 1.*expected 2|K003.*version 1.*2"):
        read_manifest(directory, KIND, 2)
    edit(directory, lambda manifest: manifest.pop("format_version"))
    with pytest.raises(KrisselError, match="K003.*None"):
        read_manifest(directory, KIND, 1)


@pytest.mark.parametrize(
    "damage, problem",
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_text("alph"), "4 bytes instead of 5"),
        (lambda path: path.write_text("alphA"), "SHA-256"),
    ],
)
def test_k004_damaged(directory, damage, problem):
    damage(directory / "a.txt")
    with pytest.raises(KrisselError, match=f"K004.*'a.txt'.*{problem}"):
        read_manifest(directory, KIND, 1)


def test_large_files_are_hashed_only_when_asked(directory, monkeypatch):
    monkeypatch.setattr(module, "HASH_LIMIT", 4)
    (directory / "a.txt").write_text("alphA")
    read_manifest(directory, KIND, 1)
    with pytest.raises(KrisselError, match="K004.*SHA-256"):
        read_manifest(directory, KIND, 1, verify=True)
    (directory / "a.txt").write_text("alpha")
    (directory / "sub" / "b.bin").write_text("bETA")
    with pytest.raises(KrisselError, match="K004.*b.bin"):
        read_manifest(directory, KIND, 1)


def test_k005_something_else_is_in_the_way(directory, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    write(tmp_path / "cake", kind="cake")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / MANIFEST).write_text("[]")
    for name in ("file", "folder", "cake", "broken"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(KrisselError, match=f"K005.*{name}.*mention shards"):
            write(tmp_path / name)
        assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "mine"


def test_content_of_whatever_is_at_a_path(directory, tmp_path):
    assert content_hash(directory) == sha256_file(directory / MANIFEST)
    assert content_hash(directory / "a.txt") == sha256_file(directory / "a.txt")
    assert content_hash(tmp_path / "missing") == ""
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    found = [content_hash(plain)]
    for name, content in (("a", "alpha"), ("a", "beta"), ("sub/b", "beta")):
        (plain / name).write_text(content)
        found.append(content_hash(plain))
    (plain / "a").rename(plain / "c")
    found.append(content_hash(plain))
    assert len(set(found)) == 5 and content_hash(plain) == found[-1]

import json
import os
import shutil
import time

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.util import manifest as module
from spacy_krissel.util.hashing import content_hash, sha256_file
from spacy_krissel.util.manifest import (
    MANIFEST,
    OWN_HASH,
    Count,
    ManifestSchema,
    manifest_hash,
    new_directory,
    read_manifest,
)

KIND = "mention shards"


def write(path, files=None, kind=KIND, version=1, **info):
    with new_directory(path, kind, version) as writer:
        for name, content in (files or {"a.txt": "alpha", "sub/b.bin": "beta"}).items():
            (writer.path / name).parent.mkdir(exist_ok=True)
            (writer.path / name).write_text(content)
        writer.info.update(info)
    return path


def edit(path, change):
    """Change a manifest, and sign it again."""
    manifest = json.loads((path / MANIFEST).read_text())
    change(manifest)
    manifest[OWN_HASH] = manifest_hash(manifest)
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
    assert (
        sha256_file(directory / "a.txt")
        == "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"
    )


def test_same_content_gives_the_same_bytes(tmp_path):
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


def test_exception_leaves_the_old_directory_intact(directory, tmp_path):
    before = read_manifest(directory, KIND, 1)
    with pytest.raises(KeyboardInterrupt), new_directory(directory, KIND, 1) as writer:
        (writer.path / "a.txt").write_text("half")
        raise KeyboardInterrupt
    assert read_manifest(directory, KIND, 1, verify=True) == before
    assert os.listdir(tmp_path) == ["made"]


def test_unwritable_manifest_leaves_the_old_directory(directory, tmp_path):
    with pytest.raises(TypeError), new_directory(directory, KIND, 1) as writer:
        writer.info["not JSON"] = object()
    assert read_manifest(directory, KIND, 1)["count"] == 2
    assert os.listdir(tmp_path) == ["made"]


def test_old_directory_exists_until_the_new_one_is_complete(directory):
    with new_directory(directory, KIND, 1) as writer:
        (writer.path / "c.txt").write_text("new")
        assert read_manifest(directory, KIND, 1)["count"] == 2
    assert list(read_manifest(directory, KIND, 1)["files"]) == ["c.txt"]


def test_open_files_of_the_old_directory_stay_readable(directory):
    with (directory / "a.txt").open() as file_:
        write(directory, {"a.txt": "other"})
        assert file_.read() == "alpha"


def test_parents_are_created_and_an_empty_directory_is_used(tmp_path):
    write(tmp_path / "deep" / "er" / "made")
    (tmp_path / "empty").mkdir()
    assert read_manifest(write(tmp_path / "empty"), KIND, 1)


def test_missing_directory_raises_k001(tmp_path):
    with pytest.raises(
        KrisselError, match=f"K001.*mention shards.*{tmp_path}.*python -m spacy krissel mine"
    ):
        read_manifest(tmp_path / "missing", KIND, 1)
    with pytest.raises(KrisselError, match="K001.*create it with: the oven"):
        read_manifest(tmp_path / "missing", KIND, 1, make="the oven")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "1", "null", '"text"', '{"kind": "cake"}', "{}", "\0"]
)
def test_manifest_of_another_kind_raises_k002(directory, content):
    (directory / MANIFEST).write_text(content)
    with pytest.raises(
        KrisselError, match="K002.*holds no mention shards.*python -m spacy krissel mine"
    ):
        read_manifest(directory, KIND, 1)


def test_missing_manifest_raises_k002(directory, tmp_path):
    (directory / MANIFEST).unlink()
    (tmp_path / "file").write_text("")
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / MANIFEST).write_bytes('{"kind": "é"}'.encode("latin1"))
    for path in (directory, tmp_path / "file", tmp_path / "latin"):
        with pytest.raises(KrisselError, match="K002.*(cannot be read|is missing)"):
            read_manifest(path, KIND, 1)


@pytest.mark.parametrize(
    "files",
    [[], None, "a.txt", {"a.txt": {}}, {"a.txt": 5}, {"a.txt": {"bytes": "5", "sha256": None}}],
)
def test_invalid_file_entries_raise(directory, files):
    edit(directory, lambda manifest: manifest.update(files=files))
    with pytest.raises(KrisselError, match="K00[24].*made"):
        read_manifest(directory, KIND, 1)


def test_other_version_raises_k003(directory):
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
def test_damaged_file_raises_k004(directory, damage, problem):
    damage(directory / "a.txt")
    with pytest.raises(KrisselError, match=f"K004.*'a.txt'.*{problem}"):
        read_manifest(directory, KIND, 1)


def test_large_files_are_hashed_unless_verification_is_off(directory):
    """Files of any size are hashed unless `verify` is off."""
    with (directory / "a.txt").open("r+b") as file_:
        file_.truncate(65 * 2**20)
        os.utime(directory / "a.txt", (1e9, 1e9))
    edit(directory, lambda manifest: manifest["files"]["a.txt"].update(bytes=65 * 2**20))
    with pytest.raises(KrisselError, match="K004.*a.txt.*SHA-256"):
        read_manifest(directory, KIND, 1)
    read_manifest(directory, KIND, 1, verify=False)


@pytest.fixture
def hashed(monkeypatch):
    """The names of the files that are hashed, in any order."""
    found = []
    monkeypatch.setattr(
        module, "sha256_file", lambda path: (found.append(path.name), sha256_file(path))[1]
    )
    return found


@pytest.fixture
def stamped(directory, monkeypatch, tmp_path):
    """A directory whose files are stamped, however small, after they are hashed."""
    monkeypatch.setattr(module, "CLOCK_STEP", 0.05)
    monkeypatch.setattr(module, "MIN_STAMPED_BYTES", 5)
    monkeypatch.setenv("KRISSEL_CACHE", str(tmp_path / "cache"))
    time.sleep(0.1)
    return directory


def in_another_process(monkeypatch):
    monkeypatch.setattr(module, "_verified", set())


def test_other_processes_do_not_hash_a_large_file_again(stamped, hashed, monkeypatch):
    for _ in range(3):
        read_manifest(stamped, KIND, 1)
        in_another_process(monkeypatch)
    assert hashed.count("a.txt") == 1
    assert hashed.count("b.bin") == 3, "it has four bytes"


@pytest.mark.parametrize("keep_time", [True, False])
def test_a_changed_or_copied_file_is_hashed_in_spite_of_a_stamp(
    stamped, monkeypatch, tmp_path, keep_time
):
    read_manifest(stamped, KIND, 1)
    in_another_process(monkeypatch)
    other = tmp_path / "other"
    shutil.copytree(stamped, other)
    for path in (stamped, other):
        before = (path / "a.txt").stat()
        (path / "a.txt").write_text("alphA")
        if keep_time:
            os.utime(path / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(KrisselError, match="K004.*a.txt.*SHA-256"):
            read_manifest(path, KIND, 1)


def test_a_damaged_file_is_not_stamped(stamped, monkeypatch, tmp_path):
    (stamped / "a.txt").write_text("alphA")
    time.sleep(0.1)
    for _ in range(2):
        with pytest.raises(KrisselError, match="K004.*a.txt.*SHA-256"):
            read_manifest(stamped, KIND, 1)
        in_another_process(monkeypatch)
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_costs_time_alone(stamped, hashed, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KRISSEL_CACHE", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        read_manifest(stamped, KIND, 1)
        in_another_process(monkeypatch)
    assert hashed.count("a.txt") == 2


def test_unchanged_file_is_hashed_once(directory, hashed, monkeypatch):
    monkeypatch.setattr(module, "CLOCK_STEP", 0.05)
    time.sleep(0.1)
    for _ in range(3):
        read_manifest(directory, KIND, 1)
    assert sorted(hashed) == ["a.txt", "b.bin"]


def test_change_after_hashing_is_detected(directory, monkeypatch):
    """At once, within one step of the file system's clock; later, with the time set back; and by
    another file."""
    path = directory / "a.txt"

    def damaged(write):
        path.write_text("alpha")
        read_manifest(directory, KIND, 1)
        write()
        with pytest.raises(KrisselError, match="K004"):
            read_manifest(directory, KIND, 1)

    def with_its_time():
        before = path.stat()
        path.write_text("alphA")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replaced():
        (directory / "other").write_text("alphA")
        os.replace(directory / "other", path)

    changes = [lambda: path.write_text("alphA"), with_its_time, replaced]
    for change in changes:
        damaged(change)
    monkeypatch.setattr(module, "CLOCK_STEP", 0.05)
    for change in changes:
        damaged(
            lambda change=change: (time.sleep(0.1), read_manifest(directory, KIND, 1), change())
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(count=3),
        lambda manifest: manifest.update(other=1),
        lambda manifest: manifest.pop("count"),
        lambda manifest: manifest["files"].pop("a.txt"),
        lambda manifest: manifest["files"].clear(),
        lambda manifest: manifest.pop(OWN_HASH),
        lambda manifest: manifest.update({OWN_HASH: None}),
    ],
)
def test_changed_manifest_raises(directory, change):
    manifest = json.loads((directory / MANIFEST).read_text())
    change(manifest)
    (directory / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(KrisselError, match="K002.*manifest_sha256"):
        read_manifest(directory, KIND, 1)


def test_flipped_bit_of_a_manifest_is_refused_or_harmless(directory):
    """Each bit: refused, or the same is read, as where white space became other white space."""
    before, whole = read_manifest(directory, KIND, 1), (directory / MANIFEST).read_bytes()
    for bit in range(len(whole) * 8):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        (directory / MANIFEST).write_bytes(changed)
        try:
            assert read_manifest(directory, KIND, 1, verify=False) == before
        except KrisselError as error:
            assert error.code in ("K002", "K003")


class Cake(ManifestSchema):
    count: Count
    layers: dict[str, list[float]]

    def required_files(self):
        return ["a.txt", "sub/"]


def cake(path, **info):
    return write(path, **{"count": 2, "layers": {"top": [1, 2.5]}, **info})


HUGE = "9" * 400


@pytest.mark.parametrize(
    "text", ["null", "true", '"2"', "2.0", "-1", "[]", "{}", "NaN", "Infinity", "1e400", HUGE]
)
@pytest.mark.parametrize("key", ["count", "layers", "files", "format_version", "kind"])
def test_value_of_another_type_raises(tmp_path, key, text):
    path = cake(tmp_path / "cake")
    try:
        edit(path, lambda manifest: manifest.update({key: json.loads(text)}))
    except ValueError:
        pytest.skip("no JSON")
    if key == "layers" and text == "{}":
        assert read_manifest(path, KIND, 1, schema=Cake)["layers"] == {}
        return
    with pytest.raises(KrisselError, match="K00[23]"):
        read_manifest(path, KIND, 1, schema=Cake)


@pytest.mark.parametrize("key", ["count", "layers", "files", "format_version", "kind"])
def test_missing_key_is_named(tmp_path, key):
    path = cake(tmp_path / "cake")
    edit(path, lambda manifest: manifest.pop(key))
    with pytest.raises(KrisselError, match=rf"K002.*'{key}'|K003.*None|K002.*None"):
        read_manifest(path, KIND, 1, schema=Cake)


@pytest.mark.parametrize(
    "layers", [{"top": [1, "2"]}, {"top": [float("nan")]}, {"top": [float("inf")]}, {"top": 1}]
)
def test_invalid_nested_value_raises(tmp_path, layers):
    path = cake(tmp_path / "cake", layers=layers)
    with pytest.raises(KrisselError, match=r"K002.*'layers\.top"):
        read_manifest(path, KIND, 1, schema=Cake)


@pytest.mark.parametrize(
    "bomb", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900, "1" * 10_000]
)
def test_deeply_nested_or_huge_manifest_raises(directory, bomb):
    text = (directory / MANIFEST).read_text()
    for content in (bomb, text.replace('"count": 2', f'"count": {bomb}')):
        (directory / MANIFEST).write_text(content)
        with pytest.raises(KrisselError, match="K002"):
            read_manifest(directory, KIND, 1)


def test_oversized_manifest_raises(directory, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    with pytest.raises(KrisselError, match="K002.*more than 100 bytes"):
        read_manifest(directory, KIND, 1)


def test_unlisted_files_raise(tmp_path):
    path = cake(tmp_path / "cake")
    read_manifest(path, KIND, 1, schema=Cake)
    (path / "notes.txt").write_text("Nobody reads this.")
    read_manifest(path, KIND, 1, schema=Cake)
    (path / "sub" / "more.bin").write_text("But this.")
    with pytest.raises(
        KrisselError, match="K002.*does not list the file 'sub/more.bin', which is there"
    ):
        read_manifest(path, KIND, 1, schema=Cake)
    (path / "sub" / "more.bin").unlink()
    edit(path, lambda manifest: manifest["files"].pop("a.txt"))
    with pytest.raises(KrisselError, match="K002.*does not list the file 'a.txt', which it needs"):
        read_manifest(path, KIND, 1, schema=Cake)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/hostname",
        "../secret",
        "sub/../../secret",
        "./a.txt",
        "sub//b.bin",
        "",
        ".",
        "..",
        "a\0",
        "C:a",
        "a\\b",
    ],
)
def test_file_outside_the_folder_raises(directory, tmp_path, name):
    (tmp_path / "secret").write_text("alpha")
    edit(directory, lambda manifest: manifest["files"].update({name: manifest["files"]["a.txt"]}))
    with pytest.raises(KrisselError, match="K002.*cannot be in it"):
        read_manifest(directory, KIND, 1)


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="needs files that this user may not read"
)
def test_unreadable_file_is_not_reported_as_damage(directory):
    for name in (MANIFEST, "a.txt"):
        (directory / name).chmod(0)
        with pytest.raises(KrisselError, match=f"K026.*{name}"):
            read_manifest(directory, KIND, 1)
        (directory / name).chmod(0o600)


def test_disk_errors_are_coded(directory, monkeypatch):
    def fails(path):
        raise OSError(5, "Input/output error", str(path))

    with (
        monkeypatch.context() as patch,
        pytest.raises(KrisselError, match="K026.*a.txt.*Input/output"),
    ):
        patch.setattr(module, "sha256_file", fails)
        read_manifest(directory, KIND, 1)
    with (
        pytest.raises(KrisselError, match="K026.*made.*No space"),
        new_directory(directory, KIND, 1),
    ):
        raise OSError(28, "No space left on device")
    assert read_manifest(directory, KIND, 1)["count"] == 2


def test_something_else_at_the_path_raises_k005(directory, tmp_path):
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


@pytest.mark.parametrize("name", ["thesis.txt", "notes/thesis.txt", "sub/thesis.txt"])
def test_foreign_files_raise_k028(directory, name):
    (directory / ".DS_Store").touch()
    write(directory)
    mine = directory / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(KrisselError, match=f"K028.*1 file.*'{name}'"):
        write(directory)
    assert mine.read_text() == "mine"


def test_content_hash_covers_files_and_folders(directory, tmp_path):
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


def test_directory_replaced_while_reading_is_read_again(tmp_path, monkeypatch):
    write(tmp_path / "shards", {"a.txt": "old"})

    def hash_of_the_new(path):
        monkeypatch.setattr(module, "sha256_file", sha256_file)
        write(tmp_path / "shards", {"a.txt": "new"})
        return sha256_file(path)

    monkeypatch.setattr(module, "sha256_file", hash_of_the_new)
    found = read_manifest(tmp_path / "shards", KIND, 1)
    assert found["files"]["a.txt"]["sha256"] == sha256_file(tmp_path / "shards/a.txt")

import errno
import os
import shutil
import sys
from contextlib import contextmanager

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.util import atomic
from spacy_krissel.util.atomic import (
    backups_of,
    commit_folder,
    copy_folder,
    hard_linking,
    remove_folder,
    restore_backup,
    temporary_folder,
)


class Killed(BaseException):
    pass


def write(path, content):
    with temporary_folder(path) as folder:
        for i in range(3):
            (folder / str(i)).write_text(content)
        commit_folder(folder, path)


def content_of(path):
    return [(path / str(i)).read_text() for i in range(3)]


@pytest.fixture
def no_exchange(monkeypatch):
    """Disable the exchange of folders."""
    monkeypatch.setattr(atomic, "exchange", lambda first, second: False)


@pytest.fixture
def killed_at(monkeypatch):
    """A context that ends like a killed process at the so manieth rename: what would tidy up does
    not run either."""

    @contextmanager
    def made(number):
        replace, calls = os.replace, []

        def counting(*args):
            calls.append(args)
            if len(calls) >= number:
                raise Killed
            replace(*args)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(os, "replace", counting)
            patch.setattr(shutil, "rmtree", lambda *args, **settings: None)
            yield

    return made


def test_a_folder_is_replaced_and_nothing_is_left(tmp_path):
    for content in ("a", "b"):
        write(tmp_path / "x", content)
        assert content_of(tmp_path / "x") == [content] * 3
        assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("target", ["full", "missing"])
@pytest.mark.parametrize("can_exchange", [True, False])
def test_link_to_a_folder_stays_a_link(tmp_path, monkeypatch, target, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    if target == "full":
        write(tmp_path / "elsewhere" / "folder", "old")
    link = tmp_path / "here" / "link"
    link.symlink_to("../elsewhere/folder")
    for content in ("a", "b"):
        write(link, content)
        assert link.is_symlink() and content_of(tmp_path / "elsewhere" / "folder") == [content] * 3
    names = [
        [path.name for path in folder.iterdir()]
        for folder in (tmp_path / "elsewhere", tmp_path / "here")
    ]
    assert names == [["folder"], ["link"]]
    remove_folder(link)
    assert link.is_symlink() and not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize("number, there", [(1, True), (2, False), (3, True)])
def test_replacement_that_is_killed_can_be_restored(
    tmp_path, no_exchange, killed_at, number, there
):
    """Before anything; between the old one's stepping aside and the new one's coming; before the
    old one's removal."""
    path = tmp_path / "x"
    write(path, "a")
    with killed_at(number):
        write(path, "b")
    assert path.exists() == there and bool(backups_of(path)) != there
    restore_backup(path)
    assert content_of(path) == ["b" if number == 3 else "a"] * 3
    write(path, "c")
    assert content_of(path) == ["c"] * 3 and [found.name for found in tmp_path.iterdir()] == ["x"]


def test_half_removed_folder_is_never_restored(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write(path, "a")

    def half(folder, **settings):
        (folder / "1").unlink()
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(shutil, "rmtree", half)
        remove_folder(path)
    assert not path.exists() and not backups_of(path)
    restore_backup(path)
    assert not path.exists()
    write(path, "b")
    assert content_of(path) == ["b"] * 3 and [found.name for found in tmp_path.iterdir()] == ["x"]


def test_other_folders_are_left_alone(tmp_path):
    others = [
        tmp_path / name
        for name in (".x.old", ".xy.12345678.old", ".x.123456789.tmp", "x.12345678.old")
    ]
    for other in others:
        other.mkdir()
    write(tmp_path / "x", "a")
    assert all(other.exists() for other in others)


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_rename_leaves_the_old_folder(tmp_path, no_exchange, monkeypatch, failing):
    write(tmp_path / "out", "old")
    replace, calls = os.replace, []

    def refusing(*args):
        calls.append(args)
        if len(calls) == failing:
            raise OSError(errno.EIO, "broken")
        replace(*args)

    with monkeypatch.context() as patch, pytest.raises(KrisselError, match="K026.*broken"):
        patch.setattr(os, "replace", refusing)
        write(tmp_path / "out", "new")
    assert content_of(tmp_path / "out") == ["old"] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's renameat2")
class TestExchange:
    def test_folder_exists_at_every_moment(self, tmp_path, monkeypatch):
        """Whatever is renamed, and when: `path` is there before and after."""
        path = tmp_path / "x"
        write(path, "a")
        there = []
        replace = os.replace

        def watched(*args):
            there.append(path.exists())
            replace(*args)
            there.append(path.exists())

        monkeypatch.setattr(os, "replace", watched)
        write(path, "b")
        assert content_of(path) == ["b"] * 3 and there and all(there)
        assert [found.name for found in tmp_path.iterdir()] == ["x"]

    def test_old_folder_is_removed_after_a_kill(self, tmp_path, killed_at):
        path = tmp_path / "x"
        write(path, "a")
        with killed_at(1):
            write(path, "b")
        assert content_of(path) == ["b"] * 3
        write(path, "c")
        assert content_of(path) == ["c"] * 3 and [found.name for found in tmp_path.iterdir()] == [
            "x"
        ]

    def test_disk_error_is_raised(self, tmp_path):
        (tmp_path / "x").mkdir()
        with pytest.raises(OSError, match="No such file") as caught:
            atomic.exchange(tmp_path / "missing", tmp_path / "x")
        assert caught.value.filename == str(tmp_path / "missing")


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("can_link", [True, False])
def test_linked_copy_shares_only_its_large_files(tmp_path, monkeypatch, can_link):
    """A file edited in place is a copy; without `hard_linking`, or on a disk without links, all
    is."""
    source = tmp_path / "source"
    (source / "kb").mkdir(parents=True)
    for name in (
        "kb/vectors.npy",
        "kb/entities.arrow",
        "kb/index.faiss",
        "config.cfg",
        "kb/manifest.json",
    ):
        (source / name).write_text(name)
    if not can_link:
        monkeypatch.setattr(
            os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "another disk"))
        )
    copy_folder(source, tmp_path / "copied")
    with hard_linking():
        copy_folder(source, tmp_path / "linked")
        copy_folder(tmp_path / "linked", tmp_path / "again")
    before = inodes(source)
    assert not set(before.values()) & set(inodes(tmp_path / "copied").values())
    for name in ("linked", "again"):
        found = inodes(tmp_path / name)
        shared = {file_ for file_ in before if found[file_] == before[file_]}
        assert shared == ({"vectors.npy", "entities.arrow", "index.faiss"} if can_link else set())
        assert (tmp_path / name / "kb" / "vectors.npy").read_text() == "kb/vectors.npy"


def test_linked_copy_of_a_relative_link_is_a_file(tmp_path):
    for name in ("blobs", "from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "blobs" / "1").write_bytes(b"vectors")
    (tmp_path / "from" / "vectors.npy").symlink_to("../blobs/1")
    with hard_linking():
        copy_folder(tmp_path / "from", tmp_path / "to" / "copy")
    copied = tmp_path / "to" / "copy" / "vectors.npy"
    assert not copied.is_symlink() and copied.read_bytes() == b"vectors"

import errno
import os
import threading

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.util.atomic import (
    atomic_file,
    check_file,
    check_folder,
    check_parent,
    write_text,
)


def test_a_failure_leaves_the_earlier_file_alone(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("earlier")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), atomic_file(path) as temporary:
            temporary.write_text("half")
            raise error
    assert path.read_text() == "earlier" and os.listdir(tmp_path) == ["out.txt"]


def test_failed_lock_leaves_no_file(tmp_path, monkeypatch):
    def failing(folder):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    monkeypatch.setattr("spacy_krissel.util.atomic.try_lock", failing)
    with pytest.raises(KrisselError, match="K026.*Input/output error"):
        write_text(tmp_path / "out.txt", "whole")
    assert not os.listdir(tmp_path)


def test_concurrent_writers_write_complete_files(tmp_path):
    path = tmp_path / "deep" / "out.txt"
    barrier = threading.Barrier(2)

    def write(text):
        with atomic_file(path) as temporary:
            barrier.wait()
            temporary.write_text(text)
            barrier.wait()

    writers = [threading.Thread(target=write, args=(text * 1000,)) for text in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_text() in ("a" * 1000, "b" * 1000) and os.listdir(path.parent) == ["out.txt"]


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / ".out.txt.01234567.tmp").write_text("half")
    (tmp_path / ".out.txt.76543210.tmp").mkdir()
    (tmp_path / ".other.txt.01234567.tmp").write_text("another's")
    write_text(tmp_path / "out.txt", "whole")
    assert sorted(os.listdir(tmp_path)) == [
        ".other.txt.01234567.tmp",
        ".out.txt.76543210.tmp",
        "out.txt",
    ]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "file").write_text("earlier")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_umask_is_honoured(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "out.txt", "")
    finally:
        os.umask(before)
    assert (tmp_path / "out.txt").stat().st_mode & 0o777 == 0o640


def test_half_surrogates_are_written_as_escapes(tmp_path):
    write_text(tmp_path / "out.txt", "a\ud800b")
    assert (tmp_path / "out.txt").read_text(encoding="utf8") == "a\\ud800b"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_disk_errors_while_writing_are_coded(number, tmp_path):
    with pytest.raises(KrisselError, match="K026.*out.txt"), atomic_file(tmp_path / "out.txt"):
        raise OSError(number, os.strerror(number))
    assert os.listdir(tmp_path) == []


def test_broken_pipe_is_not_reported_as_a_disk_error(tmp_path):
    with pytest.raises(BrokenPipeError), atomic_file(tmp_path / "out.txt"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_unwritable_paths_raise(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "deeper")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for check, name in (
        (check_file, "folder"),
        (check_file, "file/out"),
        (check_file, "file/folder/out"),
        (check_file, "nowhere/out"),
        (check_file, "x" * 300),
        (check_folder, "file"),
        (check_folder, "file/out"),
        (check_parent, "file/out"),
        (check_parent, "loop"),
        (check_file, "loop"),
    ):
        with pytest.raises(KrisselError, match="K026"):
            check(tmp_path / name)
    check_file(tmp_path / "file")
    check_file(tmp_path / "new" / "deep" / "out")
    check_folder(tmp_path / "folder")
    check_folder(tmp_path / "new" / "deep")
    check_parent(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "loop", "nowhere"]
    assert os.listdir(tmp_path / "folder") == []

import errno
import json
import os
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.cli.app import COMMANDS
from spacy_krissel.cli.options import _functions
from spacy_krissel.errors import KrisselError
from spacy_krissel.util.atomic import commit_folder, temporary_folder, write_text
from spacy_krissel.util.outputs import describe_loss, writes
from spacy_krissel.util.seal import mark_changed, seal

# Folders that are made again from what they were made from, and hold no work of a person.
MADE_AGAIN = {"mine", "train", "encoder", "evaluate"}


@writes("output")
def write(text, output, *, fail=False):
    """Write a text."""
    write_text(output, text)
    if fail:
        raise ZeroDivisionError


@writes(folders=["output"], keeps="pipeline")
def save(pipeline, output, *, text="new"):
    with temporary_folder(Path(output)) as folder:
        make(folder, text, 0)
        commit_folder(folder, Path(output))


def make(folder, text, n_gold, name="krissel_linker"):
    """Make the knowledge base part of a pipeline's folder."""
    kb = folder / name / "kb"
    kb.mkdir(parents=True)
    kinds = {"name": 3, **({"gold": n_gold} if n_gold else {})}
    (kb / "manifest.json").write_text(
        json.dumps({"prototype_kinds": kinds, "prototype_sources": {"fix": n_gold}})
    )
    (folder / "note.txt").write_text(text)


def test_a_failed_rename_leaves_no_backup_and_the_earlier_output(tmp_path, monkeypatch):
    make(tmp_path / "linker", "curated", 2)
    write("one", tmp_path / "a.txt")
    rename = os.replace

    def failing(source, target):
        if Path(target) in (tmp_path / "a.txt", tmp_path / "linker") and ".tmp" in str(source):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(KrisselError, match="K026"):
        write("two", tmp_path / "a.txt", force=True)
    with pytest.raises(KrisselError, match="K026"):
        save("other", tmp_path / "linker", force=True)
    assert (tmp_path / "a.txt").read_text() == "one"
    assert (tmp_path / "linker" / "note.txt").read_text() == "curated"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "linker"]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x85\u2028\u2029")),
        max_size=5,
    )
)
def test_earlier_outputs_are_never_lost(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("outputs")
    output = folder / "links.tsv"
    for number, text in enumerate(texts):
        before = output.read_bytes() if output.exists() else b""
        if before:
            with pytest.raises(KrisselError, match=r"K027.*links\.tsv.*force"):
                write(text, output)
            assert output.read_bytes() == before
        write(text, output, force=True)
        assert output.read_text(encoding="utf8") == text
        kept = {path.read_text(encoding="utf8") for path in folder.iterdir()}
        assert {each for each in texts[: number + 1] if each} <= kept


def test_failure_after_the_backup_keeps_both_files(tmp_path):
    output = tmp_path / "a.txt"
    write("one", output)
    with pytest.raises(ZeroDivisionError):
        write("two", output, fail=True, force=True)
    assert output.read_text() == "two" and (tmp_path / "a.txt.bak").read_text() == "one"


@pytest.mark.parametrize(
    "rows, n",
    [
        ("id\tverdict\tright_id\nD1\t\t\nD2\tyes\t\nD3\t\tD4\n", 2),
        ("id;right_id;verdict\nD1;;\nD2;D3;\n", 1),
        ("\ufeffid,verdict\nD1,no\n", 1),
        ("id\tverdict\nD1\t \n", 0),
        ('"ID","Verdict","Right_ID"\r\n"D1","","D4"\r\n', 1),
        ("id\tRIGHT_ID \nD1\n\nD2\tD3\textra\n", 1),
        ("id\tname\nD1\tyes\n", 0),
    ],
)
def test_filled_in_rows_are_counted(tmp_path, rows, n):
    path = tmp_path / "links.tsv"
    path.write_text(rows, encoding="utf8")
    assert describe_loss(path) == (
        f"a table with {n} row(s) that were filled in" if n else "a file"
    )


def test_empty_file_is_overwritten(tmp_path):
    (tmp_path / "a.txt").touch()
    write("text", tmp_path / "a.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_pipeline_with_gold_mentions_is_kept(tmp_path):
    """One without is made again."""
    output = tmp_path / "linker"
    save("other", output, text="first")
    save("other", output, text="second")
    assert [path.name for path in tmp_path.iterdir()] == ["linker"]
    for number in range(2):
        with temporary_folder(output) as folder:
            make(folder, f"curated {number}", 3, name="any_name")
            commit_folder(folder, output)
        with pytest.raises(KrisselError, match=r"K027.*3 gold mention\(s\).* of fix"):
            save("other", output)
        assert (output / "note.txt").read_text() == f"curated {number}"
        save("other", output, force=True)
    assert (output / "note.txt").read_text() == "new"
    kept = [(tmp_path / name / "note.txt").read_text() for name in ("linker.bak", "linker.bak2")]
    assert kept == ["curated 0", "curated 1"]


def test_pipeline_can_be_saved_over_itself(tmp_path):
    make(tmp_path / "linker", "curated", 2)
    (tmp_path / "link").symlink_to(tmp_path / "linker")
    with pytest.raises(KrisselError, match=r"K027.*'.*/link'.*next to it as linker\.bak"):
        save("other", tmp_path / "link")
    save(str(tmp_path / "link"), tmp_path / "linker", text="with more")
    assert (tmp_path / "linker" / "note.txt").read_text() == "with more"
    assert not (tmp_path / "linker.bak").exists()


@pytest.mark.parametrize("name", ["review.tsv", "corrections.jsonl", ".git", "notes", "my.cfg"])
def test_personal_files_in_a_pipeline_folder_are_kept(tmp_path, name):
    """`correct`, too, would leave them out of the pipeline that it saves where it is."""
    folder = tmp_path / "linker"
    make(folder, "first", 0)
    (folder / "note.txt").unlink()
    for part in ("config.cfg", "tokenizer", "LICENSES_SOURCES", ".DS_Store", "sentencizer.json"):
        (folder / part).write_text(part)
    (folder / "meta.json").write_text(json.dumps({"components": ["krissel_linker", "sentencizer"]}))
    assert describe_loss(folder) == ""
    (folder / name).mkdir() if name in (".git", "notes") else (folder / name).write_text("mine")
    for pipeline in ("other", str(folder)):
        with pytest.raises(KrisselError, match=rf"K027.*1 file\(s\) .*{name}"):
            save(pipeline, folder)
    save(str(folder), folder, force=True)
    assert (tmp_path / "linker.bak" / name).exists()


PARTS = ("config.cfg", "tokenizer", "krissel_linker/cfg", "krissel_linker/kb/manifest.json")


@pytest.mark.parametrize("changed", [*PARTS, "ruler/patterns.jsonl", "ruler/deep/model", ""])
def test_a_pipeline_that_a_person_changed_is_kept(tmp_path, changed):
    """Its settings, components and the texts of its card. What evaluations write there is not."""
    folder = tmp_path / "linker"
    make(folder, "first", 0)
    (folder / "note.txt").unlink()
    (folder / "ruler" / "deep").mkdir(parents=True)
    (folder / "vocab").mkdir()
    for each in (*PARTS[:3], "ruler/patterns.jsonl", "ruler/deep/model", "vocab/strings.json"):
        (folder / each).write_text("as built")
    meta = {"components": ["krissel_linker", "ruler"], "description": "as built", "krissel": {}}
    (folder / "meta.json").write_text(json.dumps(meta))
    assert describe_loss(folder) == ""
    seal(folder)
    sealed = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**sealed, "performance": {"f": 1}}, indent=1))
    (folder / "vocab" / "strings.json").write_text("grown")
    assert describe_loss(folder) == ""
    if changed:
        (folder / changed).write_text("as I like it")
    else:
        (folder / "meta.json").write_text(json.dumps({**sealed, "description": "mine"}))
    with pytest.raises(KrisselError, match="K027.*settings, components or texts"):
        save("other", folder)
    assert describe_loss(folder, is_kept=True) == ""
    # A command that saves it again, with what was changed, does not make it replaceable.
    meta = json.loads((folder / "meta.json").read_text())
    mark_changed(meta)
    (folder / "meta.json").write_text(json.dumps(meta))
    seal(folder)
    assert "settings, components or texts" in describe_loss(folder)


def test_unreadable_outputs_are_kept(tmp_path, monkeypatch):
    write("mine", tmp_path / "links.tsv")
    make(tmp_path / "linker", "curated", 2)

    def refuse(self, *args, **settings):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(KrisselError, match="K027.*a file"):
            write("other", tmp_path / "links.tsv")
        with pytest.raises(KrisselError, match="K027.*may not read"):
            save("other", tmp_path / "linker")
    assert (tmp_path / "links.tsv").read_text() == "mine"
    assert (tmp_path / "linker" / "note.txt").read_text() == "curated"


@pytest.mark.parametrize("force", ["no", "false", 1, None])
def test_force_must_be_a_boolean(tmp_path, force):
    write("mine", tmp_path / "a.txt")
    with pytest.raises(KrisselError, match="K006.*'force'.*true or false"):
        write("other", tmp_path / "a.txt", force=force)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_path_like_outputs_are_checked(tmp_path):
    class Place:
        def __fspath__(self):
            return str(tmp_path / "a.txt")

    write("mine", tmp_path / "a.txt")
    with pytest.raises(KrisselError, match="K027"):
        write("other", Place())
    assert (tmp_path / "a.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"prototype_kinds": 3}', '{"prototype_kinds": {"gold": "x"}}']
)
def test_damaged_manifest_counts_as_holding_nothing(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    assert describe_loss(tmp_path) == ""


def test_all_writing_commands_have_the_force_option():
    for name, command in COMMANDS.items():
        parameters = signature(_functions(command)[0]).parameters
        if {
            "output",
            "metrics",
            "homonyms",
            "kb_path",
        } & parameters.keys() and name not in MADE_AGAIN:
            assert parameters["force"].annotation is bool, name


@pytest.mark.parametrize("output", [5, None, "a\0b"])
def test_invalid_paths_are_left_to_the_function(output):
    @writes("output", folders=["output"], keeps="output")
    def refuse(output):
        raise LookupError

    with pytest.raises(LookupError):
        refuse(output)
    with pytest.raises(TypeError, match="missing"):
        refuse()
    with pytest.raises(TypeError, match="unexpected"):
        refuse(output, other=1)

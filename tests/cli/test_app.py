"""The guard that all commands share."""

import errno
import json
import os
import subprocess
import sys
import warnings
from importlib.metadata import entry_points

import pytest
import typer
from typer.testing import CliRunner

from spacy_krissel.cli.app import _BUILT_IN, coded_errors, command_line, main
from spacy_krissel.cli.options import click_command, listed_command
from spacy_krissel.errors import KrisselError, KrisselWarning


@pytest.fixture
def end():
    """Run a command that raises an error; return its output, exit code and exception."""

    def run(error):
        app = typer.Typer()

        @app.command()
        @coded_errors
        def command() -> None:
            raise error

        result = CliRunner().invoke(app, [])
        return result.output, result.exit_code, result.exception

    return run


class ArrowMemoryError(MemoryError):
    """Subclass of MemoryError like that of pyarrow."""


@pytest.mark.parametrize(
    "error, code, said",
    [
        (KrisselError("[K006] cake"), 1, "✘ [K006] cake"),
        (OSError(errno.ENOSPC, "No space left on device", "/data/out"), 1, "[K026] '/data/out'"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/out"), 1, "[K026] '/data/out'"),
        (MemoryError(), 1, "[K802] Out of memory (MemoryError)"),
        (
            ArrowMemoryError("malloc of size 64 failed"),
            1,
            "[K802] Out of memory (malloc of size 64 failed)",
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), 1, "[K802]"),
        (
            RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
            ),
            1,
            "[K802]",
        ),
        (KeyboardInterrupt(), 130, "[K801] Interrupted"),
    ],
    ids=str,
)
def test_an_error_ends_with_one_message_and_its_exit_code(end, error, code, said):
    output, found, _ = end(error)
    assert found == code and said in output and "Traceback" not in output
    assert "damaged" not in output.replace("Nothing is damaged", "")
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    "error", [RuntimeError("an error of ours"), KeyError("x"), AssertionError()], ids=repr
)
def test_an_unexpected_error_keeps_its_traceback(end, error):
    assert end(error)[2] is error


def test_a_warning_is_printed_without_file_and_line():
    @coded_errors
    def command():
        # What pytest records is not printed.
        return warnings.formatwarning(KrisselWarning("[KW204] cake"), KrisselWarning, "x.py", 1)

    before = warnings.formatwarning
    assert command() == "⚠ [KW204] cake\n"
    assert warnings.formatwarning is before


def test_a_warning_is_printed_once_per_command(tmp_path):
    """Also if a command reads an ontology twice, at other lines."""
    path, split = tmp_path / "split.jsonl", {"alt_ids": ["A:5"], "aliases": ["cold"]}
    entities = [{"concept_id": f"A:{n}", "canonical_name": f"cold {n}", **split} for n in (8, 9)]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in entities))
    args = ["ontology", str(path), "-o", str(tmp_path / "store"), "--disambiguate", "shortest"]
    args = [sys.executable, "-m", "spacy", "krissel", *args]
    done = subprocess.run(args, capture_output=True, encoding="utf8", check=True)
    assert done.stderr.count("[KW103]") == 1


CLOSED = """
import sys
from spacy_krissel.cli.in_spacy import app, krissel

@krissel.command("talk")
def talk() -> None:
    import typer
    for number in range(100_000):
        typer.echo(number)

app(["krissel", "talk"])
"""


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_closed_pipe_ends_the_command_quietly():
    """`krissel sample … | head -1`"""
    process = subprocess.Popen(
        [sys.executable, "-c", CLOSED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf8",
    )
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.parametrize(
    "typed", [["/usr/bin/krissel", "link"], ["/lib/spacy/__main__.py", "krissel", "link"]]
)
def test_a_report_names_the_command_as_typed(monkeypatch, typed):
    monkeypatch.setattr(sys, "argv", typed)
    assert command_line() in ("krissel link", "python -m spacy krissel link")
    assert command_line().startswith("krissel") == typed[0].endswith("krissel")


HELP = """
import json, sys
from spacy_krissel.cli.app import main
sys.argv = ["krissel", "--help"]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)))
"""


def test_the_help_of_all_commands_imports_none():
    run = [sys.executable, "-c", HELP]
    printed = subprocess.run(run, check=True, capture_output=True, encoding="utf8").stdout
    *help, modules = printed.splitlines()
    assert {"spacy", "thinc", "torch", "numpy"}.isdisjoint(json.loads(modules))
    assert any("build" in line and "Build a linker from an ontology" in line for line in help)


@pytest.mark.parametrize("name", _BUILT_IN)
def test_the_help_of_all_commands_says_what_that_of_each_says(name):
    listed = listed_command(name, _BUILT_IN[name])
    own = click_command(name, _BUILT_IN[name], coded_errors)
    first, _, _ = own.help.partition("\n\n")
    assert listed.help.replace("\n", " ") == first
    assert listed.rich_help_panel == own.rich_help_panel


def test_the_console_script_is_installed():
    (script,) = (each for each in entry_points(group="console_scripts") if each.name == "krissel")
    assert script.load() is main

"""Rules of the project's English and layout that a program can check."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import spacy_krissel

ROOT = Path(__file__).parents[1]
PACKAGE = Path(spacy_krissel.__file__).parent
TESTS = ROOT / "tests"
FOLDERS = (PACKAGE, TESTS, ROOT / "benchmarks", ROOT / "experiments")
CODE = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "experiments").rglob("*.md")]
)
MAX_COLUMNS = 100
PRAGMA = re.compile(r"# (noqa|type:|fmt:)")
# f-strings have tokens of their own from Python 3.12 on.
MULTILINE = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
# A docstring begins with a verb or a noun.
FIRST_WORDS = {"What", "Whether", "How", "Of", "Those", "As"}
# What is at an index or an offset is not at a place; a change in place is another matter.
PLACE = re.compile(r"(^|(?<!in)_)places?(_|$)")
BOUNDS = re.compile(r"^_?(MOST|FEWEST|LEAST|LONGEST|SHORTEST)_")
# A title of a test says what holds.
FAULTS = re.compile(r"^test_.*(wrong|invalid|unknown|bad)\w*_(is|are)_(accepted|taken|used)$")


def documented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that are defined: functions, classes, parameters and variables."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.name)
def test_names_and_docstrings_follow_the_style(path):
    tree = ast.parse(path.read_text(encoding="utf8"))
    wrong = [
        f"{line}: docstring begins with {text.split()[0]}"
        for line, text in documented(tree)
        if text.split()[0] in FIRST_WORDS
    ]
    for line, name in bound_names(tree):
        if PLACE.search(name.lower()) and TESTS not in path.parents:
            wrong.append(f"{line}: {name}: write index or offset")
        if BOUNDS.match(name):
            wrong.append(f"{line}: {name}: write MAX_ or MIN_")
        if FAULTS.match(name):
            wrong.append(f"{line}: {name}: a title says what holds")
    assert not wrong


def test_lines_end_at_100_columns():
    wide = [f"{path}:{number}" for path in CODE for number in wide_lines_of_code(path)]
    wide += [f"{path}:{number}" for path in PAGES for number in wide_lines_of_text(path)]
    assert not wide


def wide_lines_of_code(path: Path) -> Iterator[int]:
    """Data in several lines is kept, and so are pragmas, which cannot be moved."""
    with path.open("rb") as file_:
        tokens = [each for each in tokenize.tokenize(file_.readline) if each.type in MULTILINE]
    in_data = {
        line
        for each in tokens
        for line in range(each.start[0], each.end[0] + 1)
        if each.end[0] > each.start[0]
    }
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1):
        if len(line) > MAX_COLUMNS and number not in in_data and not PRAGMA.search(line):
            yield number


def wide_lines_of_text(path: Path) -> Iterator[int]:
    """Tables, code and links are kept: none of them can be broken."""
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        is_kept = is_code or line.lstrip().startswith(("|", "!", "<")) or "](" in line
        if len(line) > MAX_COLUMNS and not is_kept:
            yield number

"""README and the documentation: their snippets run, and what they name exists.

A block of Python or shell runs, in a folder with the assets and configs, after the blocks above it
on its page; a block without a language after it is its output. A block that cannot run has a
comment above: `<!-- not run: needs a GPU -->`.
"""

import contextlib
import importlib.util
import inspect
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from command_line import invoke

import spacy_krissel

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
README_BYTES = 6 * 1024


class Block(NamedTuple):
    language: str
    code: str
    reason: str


def blocks_of(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text(encoding="utf8"))
    return [Block(each["language"], each["code"], each["reason"] or "") for each in found]


def commands_of(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def generator():
    """docs/generate.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = generator()
RUN = [
    page
    for page in PAGES
    if any(not each.reason and each.language in ("python", "bash") for each in blocks_of(page))
]
# What installs, builds or tests the whole of it is run by `.ci/run`, or by hand.
RUN_ELSEWHERE = (
    "python3 -m venv",
    "pytest",
    "python -m tests",
    "ruff",
    "mkdocs",
    ".ci/run",
    "tests/",
)


# Many pages begin with it.
BUILD = ["build", "assets/ontology.jsonl", "--output"]


@pytest.fixture
def build_once(make_once):
    """Builds that linker once for all pages, in a working directory with the assets."""

    def build():
        return make_once("documented", lambda folder: run_command([*BUILD, folder / "linker"]))

    return lambda: build() / "linker"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, id=page.name, marks=[] if page == ROOT / "README.md" else pytest.mark.slow
        )
        for page in RUN
    ],
)
def test_snippets_run_and_print_the_output_shown(page, build_once, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("assets", "configs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    names, printed = {"__name__": page.stem}, None
    for block in blocks_of(page):
        if block.language == "" and printed is not None:
            assert printed.strip() == block.code.strip(), f"{page.name} shows another output"
        printed = None
        if block.reason or block.language not in ("python", "bash"):
            continue
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(block.code, str(page), "exec"), names)
            printed = output.getvalue()
        else:
            run_commands(block.code, build_once)


def run_commands(code, build_once):
    for words in commands_of(code):
        if " ".join(words).startswith(RUN_ELSEWHERE):
            continue
        assert words[:4] == ["python", "-m", "spacy", "krissel"], (
            "mark it `not run`, with the reason"
        )
        if words[4:-1] == BUILD:
            shutil.copytree(build_once(), words[-1])
        else:
            run_command(words[4:])


def run_command(words):
    done = invoke(*words)
    assert done.exit_code == 0, (words, done.output, done.exception)


def test_readme_is_within_its_size_limit():
    assert (ROOT / "README.md").stat().st_size <= README_BYTES


def test_readme_shows_the_commands_that_ci_runs():
    readme, ci = (
        (ROOT / "README.md").read_text(encoding="utf8"),
        (ROOT / ".ci" / "run").read_text(encoding="utf8"),
    )
    (tests,) = (line for line in readme.splitlines() if "pytest -q" in line)
    assert tests in ci
    assert ".venv/bin/python -m spacy project run all" in readme


def documented_commands():
    for page in PAGES:
        for block in blocks_of(page):
            for words in commands_of(block.code) if block.language == "bash" else ():
                if "krissel" in words:
                    yield pytest.param(
                        words[words.index("krissel") + 1 :],
                        id=f"{page.stem}: {' '.join(words)[-50:]}",
                    )


def test_documented_commands_and_options_exist():
    options_of = {
        name: {option for row in rows for option in row.name.split(", ")}
        for name, _, rows in GENERATE.commands()
    }
    for parameter in documented_commands():
        ((name, *words),) = parameter.values
        assert name in options_of, f"there is no command {name}"
        # Options with a dot override the config.
        options = {word for word in words if re.match(r"--?[a-z][\w-]*$", word)}
        if name == "train":
            options -= {"--gpu-id", "--output", "--code", "--verbose"}
        assert options <= options_of[name], (name, options - options_of[name])


def projects():
    return [ROOT / "project.yml", *sorted((ROOT / "experiments").glob("*/project.yml"))]


def test_documented_workflows_exist():
    known = set()
    for path in projects():
        project = yaml.safe_load(path.read_text(encoding="utf8"))
        known |= {*project.get("workflows", {}), *(each["name"] for each in project["commands"])}
    named = {
        name
        for page in PAGES
        for name in re.findall(r"project\s+run ([\w-]+)", page.read_text(encoding="utf8"))
    }
    assert len(named) > 3 and named <= known, named - known


def test_documented_paths_exist():
    folders = "spacy_krissel|experiments|configs|tests|docs|benchmarks|assets"
    own = "|".join(
        path.name
        for path in (ROOT / "spacy_krissel").iterdir()
        if path.is_dir() and path.name[0] != "_"
    )
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf8")
        for path in re.findall(rf"(?<![\w./-])(?:{folders})/[\w./-]*\w", text):
            missing += [(page.name, path)] if not (ROOT / path).exists() else []
        # The architecture names files of the package from its folder on.
        for path in re.findall(rf"`((?:{own})/[\w./-]*)`", text):
            missing += (
                [(page.name, path)]
                if not any((base / path).exists() for base in package_folders())
                else []
            )
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text):
            missing += [(page.name, target)] if not (page.parent / target).exists() else []
    assert missing == []


def package_folders():
    return ROOT / "spacy_krissel", ROOT


def test_documented_names_are_registered():
    known = {each.name for group in GENERATE.GROUPS for each in GENERATE.entry_points(group)}
    for page in PAGES:
        named = set(re.findall(r"spacy-krissel\.\w+\.v\d+", page.read_text(encoding="utf8")))
        assert named <= known, (page.name, named - known)


def test_every_page_is_in_the_navigation():
    # The file has tags of Python that a safe loader refuses; its navigation has none.
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    named = re.findall(r": ([\w/-]+\.md)$", text[text.index("\nnav:") :], re.M)
    assert sorted(named) == sorted(
        {
            *(page.name for page in (ROOT / "docs").glob("*.md")),
            *GENERATE.REFERENCE,
            *GENERATE.NOTEBOOKS,
        }
    )


def test_every_registered_part_is_on_the_settings_page():
    page = GENERATE.settings_page()
    for group in ("spacy_factories", *GENERATE.GROUPS):
        for entry in GENERATE.entry_points(group):
            assert f"### {entry.name}\n" in page, entry.name
    known = {"console_scripts", "spacy_factories", "spacy_cli", "oaklib.plugins", *GENERATE.GROUPS}
    found = {each.group for each in GENERATE.distribution("spacy-krissel").entry_points}
    assert found <= known, "a group that the settings page does not know"


def test_every_setting_has_help():
    missing = [
        (name, row.name) for name, rows in GENERATE.components() for row in rows if not row.help
    ]
    for _, name, what, rows in GENERATE.parts():
        missing += [(name, row.name) for row in rows if not row.help] + (
            [] if what else [(name, "what it is")]
        )
    for name, what, rows in GENERATE.commands():
        missing += [(name, row.name) for row in rows if not row.help] + (
            [] if what else [(name, "what it does")]
        )
    assert missing == []


@pytest.mark.parametrize("name", GENERATE.REFERENCE)
def test_reference_is_made_from_the_code(name):
    page = ROOT / "docs" / name
    made = GENERATE.REFERENCE[name]()
    assert page.read_text(encoding="utf8") == made, "run `python docs/generate.py`"


def test_every_error_has_a_heading():
    page = GENERATE.errors_page()
    codes = set(
        re.findall(r"\[(KW?\d{3})\]", "\n".join(message for _, _, message in GENERATE.codes()))
    )
    assert len(codes) > 100
    assert codes == set(re.findall(r"^### (KW?\d{3})$", page, re.M))


def test_every_public_name_and_parameter_is_on_the_api_page():
    page = GENERATE.api_page()
    for name in spacy_krissel.__all__:
        assert f"## {name}\n" in page
        public = getattr(spacy_krissel, name)
        if inspect.isfunction(public) and not hasattr(public, "settings"):
            part = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
            for parameter in inspect.signature(public).parameters:
                assert f"| `{parameter}` |" in part or parameter in ("self", "options"), name

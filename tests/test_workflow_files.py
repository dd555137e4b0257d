"""GitHub and pre-commit configuration: everything that these files name exists."""

import re
import shlex
import subprocess
from configparser import ConfigParser
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import spacy_krissel

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf8")
EXTRAS = SETUP["options.extras_require"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
# Commands, and the distribution that brings each; None: the runner has it.
TOOLS = {
    **dict.fromkeys(("pip", "python", "test"), None),
    **{name: name for name in ("build", "mypy", "pytest", "ruff", "twine", "uv")},
    "mkdocs": "mkdocs-material",
}
# Nothing else may write anything, or get an identity.
WRITES = {("release", "publish"): {"id-token": "write"}}


def load(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf8"))
    # YAML 1.1 takes the key `on` for true.
    return {("on" if key is True else key): value for key, value in content.items()}


def jobs() -> list[Any]:
    return [
        pytest.param(name, title, job, id=f"{name}: {title}")
        for name, path in WORKFLOWS.items()
        for title, job in load(path)["jobs"].items()
    ]


def lines_of(job: dict[str, Any]) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


def words_of(line: str) -> list[str]:
    return shlex.split(line)


def requirements_of(line: str) -> set[str]:
    """The distributions that a line of `pip install` brings, those of the named extras included;
    "." is the package."""
    found = set()
    for word in words_of(line):
        if word.startswith(".["):
            for extra in word[2:-1].split(","):
                found |= {
                    re.split(r"[\[<>=;]", each)[0] for each in EXTRAS[extra].split("\n") if each
                }
        elif not word.startswith("-"):
            found.add(word)
    return found


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS)
def test_workflow_has_few_permissions_and_one_run_at_a_time(path):
    workflow = load(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert workflow["concurrency"]["group"].startswith("${{ github.workflow }}")
    # What is half published would stay so.
    assert workflow["concurrency"]["cancel-in-progress"] is (path.stem != "release")


@pytest.mark.parametrize("name, title, job", jobs())
def test_job_has_a_timeout_and_minimal_permissions(name, title, job):
    assert 0 < job["timeout-minutes"] <= 120
    allowed = WRITES.get((name, title), {"contents": "read"})
    assert job.get("permissions", {"contents": "read"}) == allowed
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


@pytest.mark.parametrize("name, title, job", jobs())
def test_actions_are_pinned_by_tag(name, title, job):
    uses = [step["uses"] for step in job["steps"] if "uses" in step]
    assert uses and all(re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+(\.\d+)*", each) for each in uses)


def test_each_action_has_one_version():
    uses = {step["uses"] for each in jobs() for step in each.values[2]["steps"] if "uses" in step}
    assert len({each.partition("@")[0] for each in uses}) == len(uses)


def test_every_supported_python_is_tested():
    job = load(WORKFLOWS["tests"])["jobs"]
    assert job["newest"]["strategy"]["matrix"]["python"] == PYTHONS
    assert SETUP["options"]["python_requires"] == f">={PYTHONS[0]},<3.{int(PYTHONS[-1][2:]) + 1}"
    (lowest,) = (
        step["with"] for step in job["lowest"]["steps"] if "setup-python" in step.get("uses", "")
    )
    assert lowest["python-version"] == PYTHONS[0]
    assert f"PYTHON:-{PYTHONS[0]}" in (ROOT / "tests" / "lowest.sh").read_text(encoding="utf8")


@pytest.mark.parametrize("name, title, job", jobs())
def test_python_is_supported_and_cache_files_exist(name, title, job):
    for step in job["steps"]:
        if "setup-python" in step.get("uses", ""):
            # Without quotes 3.10 would be 3.1.
            assert step["with"]["python-version"] in (*PYTHONS, "${{ matrix.python }}")
            for path in step["with"].get("cache-dependency-path", "").split():
                assert (ROOT / path).is_file()


@pytest.mark.parametrize("name, title, job", jobs())
def test_commands_are_installed_and_paths_exist(name, title, job):
    installed: set[str] = set()
    for line in lines_of(job):
        words = words_of(line)
        if words[:2] == ["pip", "install"]:
            assert all(
                word in EXTRAS
                for found in re.findall(r"\.\[(.+?)\]", line)
                for word in found.split(",")
            )
            installed |= requirements_of(line)
        if "/" in words[0]:
            assert (ROOT / words[0]).stat().st_mode & 0o111, f"{words[0]} cannot be run"
        else:
            tool = words[2] if words[:2] == ["python", "-m"] else words[0]
            assert TOOLS[tool] is None or TOOLS[tool] in installed, (
                f"{tool} is not installed before: {line}"
            )
        for path in re.findall(
            r"(?:^|[\s\"'])((?:tests|docs|spacy_krissel)(?:/\S*)?|[\w.-]+\.(?:txt|cfg|sh))\b", line
        ):
            assert (ROOT / path).exists(), f"{line} names {path}"


@pytest.mark.parametrize("name, title, job", jobs())
def test_commands_are_valid_bash(name, title, job):
    for step in job["steps"]:
        subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)


def test_workflows_run_their_commands():
    lines = {
        name: [line for job in load(path)["jobs"].values() for line in lines_of(job)]
        for name, path in WORKFLOWS.items()
    }
    assert {"ruff check .", "ruff format --check .", "mypy spacy_krissel"} <= set(lines["lint"])
    assert (
        any(line.startswith("pytest ") for line in lines["tests"])
        and "tests/lowest.sh" in lines["tests"]
    )
    assert ".ci/run" in lines["nightly"]
    everything = [words_of(line) for line in lines["nightly"] if line.startswith("pytest ")]
    assert [words[words.index("-m") + 1] for words in everything] == [""]
    assert "mkdocs build --strict" in lines["docs"]
    assert {"tests/sdist.sh", "python -m build", "twine check --strict dist/*"} <= set(
        lines["release"]
    )


def test_a_test_runs_in_one_tier(pytestconfig):
    """`.ci/run` runs each test once, as quick or as slow, but for the nightly ones."""
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf8").splitlines()
    readmes, slow = (
        shlex.split(line.partition("/pytest ")[2]) for line in commands if "/pytest " in line
    )
    assert "-m" not in readmes
    tiers = [options[options.index("-m") + 1] for options in (pytestconfig.getini("addopts"), slow)]
    for marks in product((False, True), repeat=3):
        named = dict(zip(("slow", "data", "nightly"), marks, strict=True))
        assert sum(eval(tier, {}, named) for tier in tiers) == (not named["nightly"]), named


def test_only_a_checked_tag_is_published():
    release = load(WORKFLOWS["release"])
    assert release["on"] == {"push": {"tags": ["v*"]}}
    assert release["jobs"]["publish"]["needs"] == "build"
    assert any(
        "GITHUB_REF_NAME" in line and "__version__" in line
        for line in lines_of(release["jobs"]["build"])
    )
    up, down = (
        next(step["with"] for step in job["steps"] if f"{verb}-artifact" in step.get("uses", ""))
        for job, verb in zip(release["jobs"].values(), ("upload", "download"), strict=True)
    )
    assert up == {"if-no-files-found": "error", **down}


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
    assert str(citation["version"]) == spacy_krissel.__version__
    latest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf8"), re.M)
    assert latest and latest[1] == spacy_krissel.__version__


def test_changelog_sections_are_short():
    sections = (ROOT / "CHANGELOG.md").read_text(encoding="utf8").split("\n## ")[1:]
    assert sections and all(section.count("\n") <= 40 for section in sections)


def test_pre_commit_runs_what_the_workflow_runs():
    config = load(ROOT / ".pre-commit-config.yaml")
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf8").split()
        if "==" in line
    )
    revisions = {repo["repo"].rpartition("/")[2]: repo.get("rev") for repo in config["repos"]}
    assert revisions["ruff-pre-commit"] == f"v{pinned['ruff']}"
    (local,) = (repo["hooks"] for repo in config["repos"] if repo["repo"] == "local")
    assert [hook["entry"] for hook in local] == ["mypy spacy_krissel"]
    for pattern in (config["exclude"], *(hook["files"] for hook in local)):
        names = [
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "spacy_krissel").rglob("*")
            if path.is_file()
        ]
        assert any(re.search(pattern, name) for name in names)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_form_asks_each_question_once(path):
    form = load(path)
    assert form["name"] and form["description"] and form["labels"]
    questions = [each for each in form["body"] if each["type"] != "markdown"]
    ids, labels = (
        [each["id"] for each in questions],
        [each["attributes"]["label"] for each in questions],
    )
    assert len(set(ids)) == len(set(labels)) == len(questions) > 0
    assert any(each.get("validations", {}).get("required") for each in questions)


def test_dependabot_updates_the_actions():
    (update,) = load(ROOT / ".github" / "dependabot.yml")["updates"]
    assert (update["package-ecosystem"], update["directory"]) == ("github-actions", "/")


@pytest.mark.parametrize(
    "path",
    [path for path in (ROOT / ".github").rglob("*") if path.is_file()],
    ids=lambda path: path.name,
)
def test_paths_in_comments_and_texts_exist(path):
    for named in re.findall(
        r"(?<![\w./-])(?:docs|tests)/[\w./-]*\w", path.read_text(encoding="utf8")
    ):
        assert (ROOT / named).exists(), named

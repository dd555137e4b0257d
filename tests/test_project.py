"""The `project.yml` files: whatever a command names exists, before a run of hours finds that it
does not."""

import os
from functools import cache
from pathlib import Path

import pytest
import typer
from command_line import laboratory, names_of
from project_files import FOLDERS, ROOT, name_of, read_project, words_of
from spacy.cli._util import app, parse_config_overrides
from spacy.util import load_config, registry
from weasel.util.config import load_project_config

KILOBYTES = 16
MODULES = ("tarfile", "zipfile")
every_project = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: name_of(path) or "top")
EXPERIMENTS = [folder for folder in FOLDERS if folder != ROOT]


def lines_of(folder):
    for command in read_project(folder)["commands"]:
        for line in command["script"]:
            yield command["name"], line


@cache
def command_groups():
    """The commands of spaCy, ours among them, and those of the laboratory."""
    registry.cli.get_all()
    return typer.main.get_command(app), typer.main.get_command(laboratory())


def absolute(folder, path):
    return Path(os.path.normpath(folder / path))


@cache
def outputs_of(folder):
    return {
        absolute(folder, path)
        for command in read_project(folder)["commands"]
        for path in command.get("outputs_no_cache", [])
    }


@every_project
def test_project_is_within_its_size_limit(folder):
    assert (folder / "project.yml").stat().st_size <= KILOBYTES * 1024


def test_there_are_at_most_16_configs():
    assert len(list((ROOT / "configs").iterdir())) <= 16


@every_project
def test_workflows_name_existing_commands(folder):
    project = load_project_config(folder)
    commands = [command["name"] for command in project["commands"]]
    assert len(set(commands)) == len(commands)
    assert not set(commands) & set(project["workflows"]), (
        "a workflow and a command of one name: neither runs"
    )
    for steps in project["workflows"].values():
        assert set(steps) <= set(commands)


@every_project
def test_every_dependency_is_made_or_exists(folder):
    """By no earlier command of the project and none of another one, and it is no asset and not in
    the repository."""
    project = read_project(folder)
    made = {absolute(folder, asset["dest"]) for asset in project.get("assets", [])}
    for other in FOLDERS:
        made |= outputs_of(other) if other != folder else set()
    for command in project["commands"]:
        for path in command.get("deps", []):
            path = absolute(folder, path)
            assert path in made or path.exists(), f"{command['name']} needs {path}"
        made |= {absolute(folder, path) for path in command.get("outputs_no_cache", [])}


@every_project
def test_every_line_can_run(folder, monkeypatch):
    """Its command, options, configs, settings of a config, rows of an ablation and projects
    exist."""
    monkeypatch.chdir(folder)
    for name, line in lines_of(folder):
        try:
            check_line(folder, words_of(line))
        except Exception as error:
            raise AssertionError(f"{name}: {line}") from error


def check_line(folder, words):
    for word in words:
        if word.endswith((".cfg", ".yml")):
            assert Path(word).is_file()
    if words[:2] == ["python", "-m"] and words[2] in MODULES:
        return
    if words[:5] == ["python", "-m", "spacy", "project", "run"]:
        name, where = words[5:]
        project = load_project_config(folder / where)
        assert name in project["workflows"] or name in [
            command["name"] for command in project["commands"]
        ]
        return
    spacys, laboratorys = command_groups()
    if words[:3] == ["python", "-m", "spacy"]:
        group, words = spacys, words[3:]
    else:
        assert words[0] == "python" and absolute(folder, words[1]) == ROOT / "experiments" / "lab"
        group, words = laboratorys, words[2:]
    options, rest = parsed(group, words)
    check_settings(words, options, rest)


def parsed(group, words):
    """The options of a command line by the parameter's name, and the overrides that are left of
    it."""
    command, words = group, list(words)
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.list_commands(None), f"there is no command {name}"
        command = command.get_command(None, name)
    context = command.context_class(command, **command.context_settings)
    found, rest, _ = command.make_parser(context).parse_args(words)
    for parameter in command.params:
        if parameter.required and parameter.param_type_name == "option":
            assert parameter.name in found, f"{parameter.name} is missing"
        if parameter.required and parameter.param_type_name == "argument":
            assert found[parameter.name], f"{parameter.name} is missing"
    assert context.allow_extra_args or not rest, f"nothing reads {rest}"
    return found, rest


def check_settings(words, options, rest):
    overrides = parse_config_overrides(rest)
    name = next(word for word in words if word != "krissel")
    if name in ("train", "assemble"):
        path = options.get("config") or options["config_path"]
        load_config(Path(path), overrides=overrides, interpolate=True)
    elif name == "ablation":
        from lab.ablation.settings import read_ablation

        ablation = read_ablation(options["config"], overrides)
        assert ablation.chosen(options.get("row") or ())
        for row in ablation.rows.values():
            load_config(
                ablation.train.config,
                overrides={**ablation.train.overrides, **row.train},
                interpolate=True,
            )
            if ablation.reranker is not None:
                settings = {**ablation.reranker.overrides, **row.reranker}
                load_config(ablation.reranker.config, overrides=settings, interpolate=True)
    else:
        assert all(key.startswith("components.") for key in overrides)


def test_projects_use_all_but_four_laboratory_commands():
    used = {
        words_of(line)[2] for folder in FOLDERS for _, line in lines_of(folder) if "/lab " in line
    }
    # For reading, for corpora of one's own, and over pipelines of any project.
    assert names_of(laboratory()) - used == {"judged-links", "projection", "sample", "zero-shot"}


# Settings of one meaning, and the section that holds the value.
ONCE = ("held_out", "dev_share", "spans_key", "seed", "ontology", "mentions", "gold", "texts")
CONFIGS = [
    *sorted((ROOT / "configs").glob("*.cfg")),
    *sorted((ROOT / "experiments").glob("*/configs/*.cfg")),
]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_defines_each_shared_value_once(path):
    """A path, the seed, the fraction held out or the span key is written twice, where one is
    meant."""
    config = load_config(path, interpolate=False)
    values = {}

    def collect(section, where):
        for key, value in section.items():
            if isinstance(value, dict):
                collect(value, f"{where}.{key}")
            elif key in ONCE and not str(value).startswith("${"):
                values.setdefault(key, []).append(f"{where}.{key}"[1:])

    collect(config, "")
    assert {key: places for key, places in values.items() if len(places) > 1} == {}
    assert all(
        places[0] == f"paths.{key}" for key, places in values.items() if key in config["paths"]
    )

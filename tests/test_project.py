"""`project.yml`: what it names exists, before a run of an hour finds that it does not."""

from pathlib import Path

import pytest
import srsly

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    text = (ROOT / "project.yml").read_text(encoding="utf8")
    for name, value in srsly.yaml_loads(text)["vars"].items():
        text = text.replace(f"${{vars.{name}}}", str(value))
    return srsly.yaml_loads(text)


def test_workflows_name_commands(project):
    commands = [command["name"] for command in project["commands"]]
    assert len(set(commands)) == len(commands)
    assert not set(commands) & set(project["workflows"]), "a workflow and a command of one name: neither runs"
    for steps in project["workflows"].values():
        assert set(steps) <= set(commands)


def test_what_a_command_needs_is_made_before_it(project):
    """By an earlier command, or is an asset, or is in the repository."""
    made = {asset["dest"] for asset in project["assets"]}
    for command in project["commands"]:
        for path in command.get("deps", []):
            assert path in made or (ROOT / path).exists(), f"{command['name']} needs {path}"
        made.update(command.get("outputs_no_cache", []))


def test_the_configs_exist(project):
    for command in project["commands"]:
        for word in " ".join(command["script"]).split():
            if word.startswith("configs/"):
                assert (ROOT / word).is_file(), f"{command['name']} reads {word}"

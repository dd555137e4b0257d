"""The files by which a container serves a pipeline. Docker itself runs in none of these tests: they
hold what the files say against the command, the service and the package."""

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from urllib.error import HTTPError

import pytest
import srsly
import typer

from spacy_krissel.cli.app import krissel
from spacy_krissel.serving.app import PUBLIC_PATHS
from spacy_krissel.serving.listening import KEY

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "container"
DOCKERFILE = FOLDER / "Dockerfile"


def instructions():
    """Each instruction of the Dockerfile with its arguments."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf8"), flags=re.M).replace(
        "\\\n", " "
    )
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def last(name):
    return [rest for each, rest in instructions() if each == name][-1]


def copied():
    """Return the files that are copied from the checkout."""
    lines = [
        rest.split()
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
    ]
    return [source for *sources, _ in lines for source in sources]


def service():
    return srsly.read_yaml(FOLDER / "compose.yml")["services"]["krissel"]


def served():
    """The settings of `krissel serve` by the entry point and the command of the image."""
    program, command, *words = json.loads(last("ENTRYPOINT")) + json.loads(last("CMD"))
    assert (program, command) == ("krissel", "serve")
    # Raises for an option that the command does not have, and for a value that it does not take.
    return (
        typer.main.get_group(krissel).get_command(None, command).make_context(command, words).params
    )


def test_image_starts_the_command_with_valid_options():
    settings = served()
    assert (settings["host"], settings["port"]) == ("0.0.0.0", 8000)
    assert last("EXPOSE") == str(settings["port"])


def test_pipeline_and_corrections_are_mounted():
    settings, mounts = served(), {each["target"]: each for each in service()["volumes"]}
    named = srsly.read_yaml(FOLDER / "compose.yml")["volumes"]
    pipeline, corrections = (
        mounts[str(settings["pipeline"])],
        mounts[str(Path(settings["corrections"]).parent)],
    )
    assert pipeline["read_only"] and pipeline["source"].startswith("${KRISSEL_PIPELINE:?")
    assert corrections["type"] == "volume" and corrections["source"] in named
    assert f" {corrections['target']}" in last("RUN"), "the volume would belong to root"


def test_service_is_local_and_requires_a_key():
    assert service()["environment"][KEY].startswith(f"${{{KEY}:?")
    assert not [rest for name, rest in instructions() if name in ("ENV", "ARG") and KEY in rest]
    (port,) = service()["ports"]
    assert port.startswith("127.0.0.1:") and port.endswith(f":{served()['port']}")


def test_container_has_minimal_privileges():
    assert last("USER") not in ("root", "0")
    assert service()["read_only"] and service()["tmpfs"] == ["/tmp"]
    assert service()["cap_drop"] == ["ALL"] and service()["security_opt"] == [
        "no-new-privileges:true"
    ]


def test_service_is_restarted_unless_stopped():
    assert service()["restart"] == "unless-stopped" and service()["init"]


def test_compose_builds_the_documented_image():
    build = service()["build"]
    context = (FOLDER / build["context"]).resolve()
    assert context == ROOT and (context / build["dockerfile"]) == DOCKERFILE


def test_image_installs_the_required_extras_at_pinned_versions():
    (install,) = [rest for name, rest in instructions() if name == "RUN" and ".[" in rest]
    assert '".[cpu,serve]"' in install and "-c constraints.txt" in install


@pytest.mark.parametrize("status", [200, 503])
def test_health_check_follows_the_status_of_the_service(status):
    python, option, code = json.loads(last("HEALTHCHECK").split("CMD", 1)[1])
    assert (python, option) == ("python", "-c")
    (url,) = re.findall(r"'(http:[^']+)'", code)
    address = f"http://127.0.0.1:{served()['port']}"
    assert url.startswith(address) and url.removeprefix(address) in PUBLIC_PATHS

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        code = code.replace(address, f"http://127.0.0.1:{server.server_port}")
        if status == 200:
            exec(code, {})
        else:
            with pytest.raises(HTTPError):
                exec(code, {})


def test_copied_files_exist_and_are_not_ignored_by_docker():
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf8").splitlines()
    assert "*" in ignored
    assert {f"!{source}" for source in copied()} == {
        line for line in ignored if line.startswith("!")
    }
    assert [source for source in copied() if not (ROOT / source).exists()] == []


@pytest.mark.slow
def test_image_contains_every_file_of_the_package(tmp_path):
    source = tmp_path / "source"
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, source)
    # Its requirements are there already; what matters is that the files are enough to build and
    # install it.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "-w", str(tmp_path), str(source)], check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("spacy_krissel/")}
    package = ROOT / "spacy_krissel"
    files = {path.relative_to(ROOT).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {name for name in files if "__pycache__" not in name} == held

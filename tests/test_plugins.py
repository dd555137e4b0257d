"""Parts of other distributions: each is a module and an entry point, used through the public
commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from command_line import invoke
from spacy.tokens import DocBin

import spacy_krissel
from spacy_krissel.cli.app import COMMANDS
from spacy_krissel.corpora.readers import READERS as CORPUS_READERS
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.index.kinds import KINDS
from spacy_krissel.ontology.readers import READERS as ONTOLOGY_READERS
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.render.formats import WRITERS, writer_of
from spacy_krissel.util import plugins

# Group and name of the entry point → the module, whose first line has the object.
PLUGINS = {
    ("krissel_output_formats", ".words"): """# write
def write(docs, key, file_):
    for doc in docs:
        for span in doc.spans[key] if key else doc.ents:
            best = span._.krissel_candidates[0]
            file_.write(f"{span.text} = {span.kb_id_} {best.get('prior')}\\n".encode())
""",
    ("krissel_corpus_readers", "bars"): """# read
from pathlib import Path
from spacy_krissel.corpora.annotation import AnnotatedText, Mention

def read(path, *, report):
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        id_, text, mention, kb_id = line.split("|")
        start = text.index(mention)
        place = ((start, start + len(mention)),)
        yield AnnotatedText(id_, text, [Mention(place, mention, "Disease", kb_id, number)], str(path), number)
""",  # noqa: E501
    ("krissel_ontology_readers", "arrows"): """# READER
from pathlib import Path
from spacy_krissel import Entity
from spacy_krissel.ontology.readers import Reader

def read(path):
    for line in Path(path).read_text().splitlines()[1:]:
        id_, names = line.split(" -> ")
        yield Entity(id_, *names.split("; ")[:1], tuple(names.split("; ")[1:]))

READER = Reader(read, lambda start: start.lines[:1] == ["ARROWS"])
""",
    ("krissel_commands", "shout"): '''# shout
from __future__ import annotations
from pathlib import Path

def shout(text: Path, *, times: int = 1) -> str:
    """Print a file in capitals.

    text: The file
    times: How often
    """
    return text.read_text().upper() * times
''',
    ("krissel_indexes", "toy"): """# ToyIndex
from spacy_krissel.index.exact import ExactIndex

class ToyIndex(ExactIndex):
    kind = "toy"
""",
    ("thinc_losses", "test-plugins.Margin.v1"): """# Margin
class Margin:
    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def __call__(self, scores, positives, negatives):
        gradient = self.weight / scores.size * (negatives * 1.0 - positives * 1.0)
        return gradient.astype(scores.dtype), float((gradient * scores).sum())
""",
    ("spacy_misc", "test-plugins.Prior.v1"): """# Prior
from spacy_krissel import Term

class Prior(Term):
    def __init__(self, id: str) -> None:
        self.id = id

    def score(self, query, pairs):
        return pairs.entities == query.kb.entities.row(self.id)
""",
}
SETUP = """[metadata]
name = {module}
version = 1.0

[options]
py_modules = {module}

[options.entry_points]
{group} =
    {name} = {module}:{object}
"""
# What an installer writes.
INSTALL = """
import os, sys
from setuptools import setup
for folder in sys.argv[1:]:
    os.chdir(folder)
    setup(script_args=["-q", "egg_info"])
"""
RUN = """
import json, sys
from typer.main import get_group
from spacy_krissel.cli.app import krissel
for words in json.loads(sys.argv[1]):
    get_group(krissel)(words, prog_name="krissel", standalone_mode=False)
"""
ARROWS = "ARROWS\nD1 -> multiple sclerosis; MS\nD2 -> mitral stenosis; MS\nD3 -> rickets\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders on `sys.path`, one per plugin."""
    found = []
    for number, ((group, name), source) in enumerate(PLUGINS.items()):
        folder, module = tmp_path_factory.mktemp(group), f"krissel_plugin_{number}"
        (folder / f"{module}.py").write_text(source)
        facts = {"object": source.split()[1], "group": group, "name": name}
        (folder / "setup.cfg").write_text(SETUP.format(module=module, **facts))
        assert len([*folder.iterdir()]) == 2
        found.append(str(folder))
    subprocess.run([sys.executable, "-c", INSTALL, *found], check=True)
    return found


@pytest.fixture
def installed(folders, monkeypatch):
    for folder in folders:
        monkeypatch.syspath_prepend(folder)


@pytest.fixture(scope="module")
def linker(folders, tmp_path_factory):
    """A linker built from a file of a plugin's format, which is detected."""
    path = tmp_path_factory.mktemp("linker")
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns([{"label": "Disease", "pattern": "MS"}])
    finder.to_disk(path / "finder")
    (path / "my.arrows").write_text(ARROWS)
    with pytest.MonkeyPatch.context() as patch:
        for folder in folders:
            patch.syspath_prepend(folder)
        run("build", path / "my.arrows", "-o", path / "linker", "--ner", path / "finder")
    # "MS" has two entities, so that its confidence is low.
    config = spacy.util.load_config(path / "linker" / "config.cfg")
    config["components"]["krissel_linker"]["min_confidence"] = 0.0
    config.to_disk(path / "linker" / "config.cfg")
    return path / "linker"


def run(*words, code=0):
    result = invoke(*words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return " ".join(result.output.replace("│", " ").split())


def test_ontology_reader(installed, linker):
    """That the linker was built shows that its format was detected; it can be named as well."""
    assert len(spacy.load(linker).get_pipe("krissel_linker").kb.entity_ids) == 3
    path = linker.with_name("my.arrows")
    assert [entity.id for entity in read_ontology(path, "arrows")] == ["D1", "D2", "D3"]


def test_output_format(installed, linker, tmp_path):
    run("link", linker, "She had MS then.", "--output", tmp_path / "links.words")
    mention, _, id_, prior = (tmp_path / "links.words").read_text().split()
    assert mention == "MS" and id_ in ("D1", "D2") and prior == "None"
    assert "words" in run("link", "--help") and "words" in [*WRITERS][-1]


def test_corpus_reader(installed, tmp_path):
    (tmp_path / "gold.txt").write_text("7|She had MS.|MS|D1\n")
    run("convert", tmp_path / "gold.txt", "-o", tmp_path / "gold.spacy", "--format", "bars")
    (doc,) = DocBin().from_disk(tmp_path / "gold.spacy").get_docs(spacy.blank("en").vocab)
    assert [(span.text, span.kb_id_) for span in doc.ents] == [("MS", "D1")]
    words = ("-o", tmp_path / "b.spacy", "--format", "bars", "--documents", tmp_path)
    assert "[K006] Setting 'documents'" in run("convert", tmp_path / "gold.txt", *words, code=1)


def test_command(installed, tmp_path):
    (tmp_path / "text").write_text("ms! ")
    assert run("shout", tmp_path / "text", "--times", 2) == "MS! MS!"
    listed = run("--help")
    assert "Plugins" in listed and "shout" in listed and "Print a file in capitals." in listed


def test_index(installed, linker, tmp_path):
    store = linker.with_name("my.arrows")
    run("prototypes", linker, "-o", tmp_path / "toy", "--ontology", store, "--index", "toy")
    kb = spacy.load(tmp_path / "toy").get_pipe("krissel_linker").kb
    assert kb.description()["index"]["kind"] == "toy"


def test_loss_and_term(folders, linker, configs, toy_overrides, tmp_path):
    """spaCy looks up entry points once per process."""
    config = spacy.util.load_config(configs / "small.cfg")
    config["components"]["krissel_linker"]["objective"]["loss"] = {
        "@losses": "test-plugins.Margin.v1",
        "weight": 0.5,
    }
    config.to_disk(tmp_path / "margin.cfg")
    options = {**toy_overrides["small"], "training.max_steps": 2, "training.eval_frequency": 1}
    words = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    nlp = spacy.util.load_config(linker / "config.cfg")
    links = []
    for id_ in ("D1", "D2"):
        nlp["components"]["krissel_linker"]["terms"] = {
            "prior": {"@misc": "test-plugins.Prior.v1", "id": id_}
        }
        nlp.to_disk(shutil.copytree(linker, tmp_path / id_) / "config.cfg")
        links.append(
            ["link", str(tmp_path / id_), "She had MS then.", "-o", str(tmp_path / f"{id_}.words")]
        )
    train = ["train", str(tmp_path / "margin.cfg"), "--output", str(tmp_path / "trained"), *words]
    package = str(Path(spacy_krissel.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, package])}
    subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([train, *links])], check=True, env=env, cwd=tmp_path
    )
    for id_ in ("D1", "D2"):
        assert (tmp_path / f"{id_}.words").read_text() == f"MS = {id_} 1.0\n"
    saved = spacy.util.load_config(tmp_path / "trained" / "model-last" / "config.cfg")
    loss = saved["components"]["krissel_linker"]["objective"]["loss"]
    assert loss == {"@losses": "test-plugins.Margin.v1", "weight": 0.5}


def test_unknown_names_are_refused_with_all_names(installed, linker, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    path = tmp_path / "a.txt"
    assert "'bars'" in run("convert", path, "-o", tmp_path / "a.spacy", "--format", "cake", code=2)
    assert "'arrows'" in run("ontology", path, "-o", tmp_path / "store", "--format", "cake", code=2)
    assert "'toy'" in run("prototypes", linker, "-o", tmp_path / "b", "--index", "cake", code=2)
    assert "No such command 'cake'" in run("cake", code=2)
    for words in (("She had MS.", "-o", tmp_path / "a.cake"), (path,)):
        said = run("link", linker, *words, code=1)
        assert "[K006] Setting 'output'" in said and ".jsonl, .spacy" in said and ".words" in said
    with pytest.raises(KrisselError, match="K006.*'format'.*one of auto, mesh-xml.*, arrows"):
        read_ontology(path, "cake")
    path.write_text("%%%")
    with pytest.raises(KrisselError, match="K104.*, arrows"):
        read_ontology(path)


REGISTRIES = {
    "krissel_output_formats": WRITERS,
    "krissel_corpus_readers": CORPUS_READERS,
    "krissel_ontology_readers": ONTOLOGY_READERS,
    "krissel_commands": COMMANDS,
    "krissel_indexes": KINDS,
}


def distribution(folder, name, points, source=""):
    folder = folder / name
    (folder / f"{name}-1.dist-info").mkdir(parents=True)
    (folder / f"{name}-1.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    )
    (folder / f"{name}-1.dist-info" / "entry_points.txt").write_text(points)
    (folder / f"{name}_module.py").write_text(source)
    return folder


@pytest.mark.parametrize("group", REGISTRIES)
@pytest.mark.parametrize("source, problem", [
    ("import no_such_library", "ModuleNotFoundError: .*no_such_library"),
    ("def (", "SyntaxError"),
    ("raise OSError('no disk')", "OSError: no disk"),
    ("other = 1", "AttributeError"),
    ("part = 1", "is of the type int"),
])  # fmt: skip
def test_broken_plugins_are_refused_with_their_distribution(
    tmp_path, monkeypatch, group, source, problem
):
    name = f"bad_{abs(hash((group, source)))}"
    monkeypatch.syspath_prepend(
        distribution(tmp_path, name, f"[{group}]\n.bad = {name}_module:part\n", source)
    )
    registry = REGISTRIES[group]
    with pytest.raises(KrisselError, match=f"K061.*'.bad'.*'{name}'.*{problem}.*{group}"):
        registry[".bad"]
    assert [*registry][-1] == ".bad"
    with pytest.warns(KrisselWarning, match=f"KW035.*'.bad'.*'{name}'"):
        loaded = [*registry.loaded()]
    assert [name for name, _ in loaded] == [*registry][:-1]


@pytest.mark.parametrize("group", REGISTRIES)
def test_plugins_of_one_name_are_refused(tmp_path, monkeypatch, group):
    for name in ("first", "second"):
        monkeypatch.syspath_prepend(distribution(tmp_path, name, f"[{group}]\n.bad = json:loads\n"))
    with pytest.raises(
        KrisselError, match="K061.*'.bad'.*'first'.*'second' has a plugin of this name"
    ):
        REGISTRIES[group][".bad"]


@pytest.mark.parametrize("group", REGISTRIES)
def test_plugins_do_not_replace_what_is_built_in(tmp_path, monkeypatch, group):
    registry = REGISTRIES[group]
    before = dict(registry)
    name = next(iter(before))
    monkeypatch.syspath_prepend(
        distribution(tmp_path, "first", f"[{group}]\n{name} = json:loads\n")
    )
    with pytest.warns(KrisselWarning, match=f"KW035.*'{name}'.*'first'.*built-in"):
        assert dict(registry) == before and len(registry) == len(before)
    assert registry[name] is before[name]


def test_a_broken_command_leaves_the_others(tmp_path, monkeypatch):
    points = "[krissel_commands]\nbroken = broken_module:part\n"
    monkeypatch.syspath_prepend(distribution(tmp_path, "broken", points, "import nothing_here"))
    with pytest.warns(KrisselWarning, match="KW035.*'broken'"):
        assert "Build a linker" in run("--help")
    assert "✘ [K061] Plugin 'broken' of the distribution 'broken'" in run("broken", code=1)


def test_a_format_with_a_longer_ending_is_preferred(tmp_path, monkeypatch):
    points = "[krissel_output_formats]\n.my.jsonl = json:loads\n"
    monkeypatch.syspath_prepend(distribution(tmp_path, "longer", points))
    assert writer_of("a.my.jsonl") is json.loads
    assert writer_of("a.jsonl") is WRITERS[".jsonl"]


def test_built_in_parts_need_no_look_up(linker, tmp_path, monkeypatch):
    """Not when a pipeline is made, loaded or run, nor when a file of a built-in format is read."""

    def fail(**group):
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "entry_points", fail)
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker")
    assert spacy.load(linker)("She had MS.").ents[0].kb_id_
    (tmp_path / "a.jsonl").write_text('{"concept_id": "D1", "canonical_name": "rickets"}\n')
    for format in ("auto", "jsonl"):
        assert [entity.id for entity in read_ontology(tmp_path / "a.jsonl", format)] == ["D1"]
    for registry in REGISTRIES.values():
        assert registry[next(iter(registry))]

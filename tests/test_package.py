"""A packaged pipeline installs and links with the network cut; so does one saved by another
process."""

import json
import subprocess
import sys
import textwrap
from configparser import ConfigParser
from pathlib import Path

import pytest
import spacy
from spacy.cli.package import package
from spacy.tokens import Span

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.mining.shards import MentionShards

# Any attempt to reach another machine ends the program.
CUT = """
    import socket, sys
    def refuse(*args, **kwargs):
        raise SystemExit(f"the network was asked for: {args}")
    socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""
LINK = """
    import json
    from spacy.tokens import Span
    def links(nlp, texts):
        docs = []
        for text, start, end in texts:
            doc = nlp.make_doc(text)
            doc.ents = [doc.char_span(start, end, label="X", alignment_mode="expand")]
            docs.append(doc)
        return [[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(docs)]
"""


@pytest.fixture(scope="module")
def texts(toy_shards):
    mentions = list(MentionShards(toy_shards))[:12]
    return [
        (m.left + m.mention + m.right, len(m.left), len(m.left) + len(m.mention)) for m in mentions
    ]


@pytest.fixture(scope="module")
def pipeline(trained, toy_store, toy_shards, tmp_path_factory):
    nlp = spacy.load(trained)
    build_prototypes(nlp, PrototypeSource(toy_store, MentionShards(toy_shards)))
    path = tmp_path_factory.mktemp("package") / "pipeline"
    nlp.to_disk(path)
    return path


def link(nlp, texts):
    docs = []
    for text, start, end in texts:
        doc = nlp.make_doc(text)
        span = doc.char_span(start, end, label="X", alignment_mode="expand")
        doc.ents = [Span(doc, span.start, span.end, label="X")]
        docs.append(doc)
    return [[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(docs)]


def run_cut(program, texts):
    script = textwrap.dedent(CUT) + textwrap.dedent(LINK) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_saved_pipeline_links_in_a_new_process_without_network(pipeline, texts):
    program = f"""
        import spacy
        print(json.dumps(links(spacy.load({str(pipeline)!r}), json.load(sys.stdin))))
    """
    assert run_cut(program, texts) == link(spacy.load(pipeline), texts)


def test_only_the_cpu_extra_requires_faiss_cpu():
    """The folder of `.[gpu,tests]` would have both."""
    config = ConfigParser()
    config.read(Path(__file__).parents[1] / "setup.cfg", encoding="utf8")
    extras = config["options.extras_require"]
    assert [name for name in extras if "faiss-cpu" in extras[name]] == ["cpu"]
    assert "faiss" not in config["options"]["install_requires"]


@pytest.mark.slow
def test_wheel_installs_and_links_without_network(pipeline, texts, tmp_path):
    package(
        pipeline,
        tmp_path,
        name="toy_linker",
        version="1.2.3",
        create_wheel=True,
        create_sdist=False,
        silent=True,
    )
    wheel = next(tmp_path.glob("*/dist/*.whl"))
    site = tmp_path / "site"
    # Its requirements are there already; what matters is that the wheel holds everything else.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(site), str(wheel)], check=True)
    program = f"""
        sys.path.insert(0, {str(site)!r})
        import en_toy_linker
        print(json.dumps(links(en_toy_linker.load(), json.load(sys.stdin))))
    """
    assert run_cut(program, texts) == link(spacy.load(pipeline), texts)
    meta = json.loads(next(site.glob("en_toy_linker/meta.json")).read_text(encoding="utf8"))
    assert any(requirement.startswith("spacy-krissel") for requirement in meta["requirements"])

"""The workflow `umls` by the lines of docs/scale.md, on a UMLS, a PubMed and an encoder of toy
size."""

import gzip
import json
import re
import shlex
import shutil
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import srsly
from spacy.cli._util import app
from spacy.util import load_config, registry
from typer.testing import CliRunner

from spacy_krissel.ontology.store import OntologyStore

ROOT = Path(__file__).parents[1]
STEPS = "--training.max_steps 2 --training.eval_frequency 2 --corpora.train.held_out 0.3"
TRAINING = (
    f"{STEPS} --training.batcher.pairs 4 --components.krissel_linker.model.reference.window 32"
)
RERANKING = (
    f"{STEPS} --components.krissel_reranker.model.window 24 "
    "--components.krissel_reranker.model.candidate_window 24"
)


@pytest.fixture
def toy(toy_files, tiny_bert, tmp_path, monkeypatch):
    """A folder with the project and the inputs of the workflow, entered; the options that make it
    small."""
    records = [json.loads(line) for line in (toy_files / "ontology.jsonl").read_text().splitlines()]
    cuis = {record["concept_id"]: f"C{number:07}" for number, record in enumerate(records, 1)}
    # Named as in the documented line.
    meta = tmp_path / "META"
    meta.mkdir()
    concepts, types = [], []
    for record in records:
        cui = cuis[record["concept_id"]]
        for place, name in enumerate([record["canonical_name"], *record["aliases"]]):
            status = "P|L|PF" if place == 0 else "S|L|PF"
            concepts.append(
                f"{cui}|ENG|{status}|S|Y|A||||MSH|MH|{record['concept_id']}|{name}|0|N||\n"
            )
        types.append(f"{cui}|{record['types'][0]}|B2.2.1.2.1|Disease or Syndrome|AT||\n")
    (meta / "MRCONSO.RRF").write_text("".join(concepts))
    (meta / "MRSTY.RRF").write_text("".join(types))
    texts = [json.loads(line) for line in (toy_files / "texts.jsonl").read_text().splitlines()]
    articles = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>A "
        f"report.</ArticleTitle><Abstract><AbstractText>{escape(text['text'])}</AbstractText>"
        "</Abstract></Article></MedlineCitation></PubmedArticle>\n"
        for number, text in enumerate(texts, 1)
    )
    pubmed = tmp_path / "PUBMED"
    pubmed.mkdir()
    whole = (
        '<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n'
        f"{articles}</PubmedArticleSet>\n"
    )
    (pubmed / "pubmed26n0001.xml.gz").write_bytes(gzip.compress(whole.encode()))
    gold = (toy_files / "gold.pubtator").read_text()
    for id_, cui in cuis.items():
        gold = gold.replace(f"\t{id_}\n", f"\t{cui}\n")
    (tmp_path / "medmentions.txt.gz").write_bytes(gzip.compress(gold.encode()))
    (tmp_path / "medmentions-test.txt").write_text("0\n1\n2\n")
    assets = [
        asset
        for asset in srsly.read_yaml(ROOT / "project.yml")["assets"]
        if "medmentions" in asset["dest"]
    ]
    downloads = {asset["url"]: tmp_path / Path(asset["dest"]).name for asset in assets}
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "project.yml").symlink_to(ROOT / "project.yml")
    monkeypatch.chdir(tmp_path)
    # In this process, which takes a third of the time; weasel itself starts one for each line.
    monkeypatch.setattr("weasel.cli.run.run_command", lambda words, capture: spacy_command(*words))
    monkeypatch.setattr(
        "weasel.cli.assets.download_file", lambda url, path, **_: shutil.copy(downloads[url], path)
    )
    toy = {
        "processes": 1,
        "pubmedbert": tiny_bert,
        "index": "exact",
        "gpu_id": -1,
        "index_device": "cpu",
    }
    toy.update(training=TRAINING, reranking=RERANKING)
    # A value that begins with "--" would be the next option.
    return [word for name, value in toy.items() for word in (f"--vars.{name}", f" {value}")]


def spacy_command(python, *words):
    assert words[:2] == ("-m", "spacy")
    registry.cli.get_all()
    result = CliRunner().invoke(app, words[2:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, f"{words}\n{result.output}"
    return result.output


def documented():
    """The lines of docs/scale.md that run the workflow."""
    (block,) = re.findall(
        r"^```bash\n([^`]*project run umls [^`]*)^```$",
        (ROOT / "docs" / "scale.md").read_text(),
        re.M,
    )
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_documented_command_searches_on_the_gpu(tmp_path, monkeypatch):
    for name in ("project.yml", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    run = documented()[-1]
    assert run[run.index("--vars.index_device") + 1] == "cuda:0"
    commands = re.findall(r"krissel (\w+)(.*)", spacy_command(*run, "--dry"))
    on_card = [
        name for name, options in commands if options.endswith(" --gpu-id 0 --index-device cuda:0")
    ]
    assert on_card == ["prototypes", "evaluate", "evaluate"]


@pytest.mark.nightly
def test_documented_commands_lead_from_umls_to_a_package(toy):
    *fetch, run = documented()
    for words in fetch:
        spacy_command(*words)
    # Of two values for a variable, the later one counts.
    spacy_command(*run, *toy)
    project = srsly.read_yaml(ROOT / "project.yml")
    commands = {command["name"]: command for command in project["commands"]}
    for name in project["workflows"]["umls"]:
        for path in commands[name]["outputs_no_cache"]:
            assert Path(path.replace("${vars.version}", project["vars"]["version"])).exists(), (
                f"{name} makes {path}"
            )
    store = OntologyStore("corpus/umls-store")
    assert [entity.tree_numbers for entity in store] == [("B2.2.1.2.1",)] * len(store)
    mined = json.loads(Path("corpus/umls-mentions/manifest.json").read_text())
    assert mined["counts"]["mentions"] > 0 and mined["settings"]["case"] == "preserve"
    kb = json.loads(Path("training/umls/kb/manifest.json").read_text())
    assert set(kb["prototype_kinds"]) <= {"mention", "reference"} and kb["dtype"] == "float16"
    made = load_config("training/umls/reranker/model-last/config.cfg")["components"][
        "krissel_linker"
    ]
    assert made["generate_empty_kb"]["index_device"] == "cpu", (
        "the re-ranker's linker searches elsewhere"
    )
    copies = [path.as_posix() for path in Path("training/umls").rglob("vectors.npy")]
    assert copies == ["training/umls/kb/vectors.npy"], "one knowledge base for all pipelines"
    for name in ("umls-linker", "umls-reranker"):
        assert Path(f"metrics/{name}.json").exists()
        assert len(Path(f"metrics/{name}.links.jsonl").read_text().splitlines()) == 3

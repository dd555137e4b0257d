"""`project.yml`'s workflow `umls`, its commands as they stand, on a UMLS, a PubMed and an encoder of toy size."""

import gzip
import json
import shlex
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import srsly
from typer.testing import CliRunner

from spacy_krissel.ontology.store import OntologyStore

ROOT = Path(__file__).parents[1]
STEPS = "--training.max_steps 2 --training.eval_frequency 2 --corpora.train.held_out 0.3"
TRAINING = f"{STEPS} --training.batcher.pairs 4 --components.krissel_linker.model.reference.window 32"
RERANKING = (
    f"{STEPS} --components.krissel_reranker.model.window 24 --components.krissel_reranker.model.candidate_window 24"
)


@pytest.fixture
def project(toy_files, tiny_bert, tmp_path, monkeypatch):
    """A folder with the inputs of the workflow, entered; and the project's variables."""
    records = [json.loads(line) for line in (toy_files / "ontology.jsonl").read_text().splitlines()]
    cuis = {record["concept_id"]: f"C{number:07}" for number, record in enumerate(records, 1)}
    meta = tmp_path / "META"
    meta.mkdir()
    concepts, types = [], []
    for record in records:
        cui = cuis[record["concept_id"]]
        for place, name in enumerate([record["canonical_name"], *record["aliases"]]):
            status = "P|L|PF" if place == 0 else "S|L|PF"
            concepts.append(f"{cui}|ENG|{status}|S|Y|A||||MSH|MH|{record['concept_id']}|{name}|0|N||\n")
        types.append(f"{cui}|{record['types'][0]}|B2.2.1.2.1|Disease or Syndrome|AT||\n")
    (meta / "MRCONSO.RRF").write_text("".join(concepts))
    (meta / "MRSTY.RRF").write_text("".join(types))
    texts = [json.loads(line) for line in (toy_files / "texts.jsonl").read_text().splitlines()]
    articles = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{number}</PMID><Article><ArticleTitle>A report.</ArticleTitle>"
        f"<Abstract><AbstractText>{escape(text['text'])}</AbstractText></Abstract></Article></MedlineCitation>"
        "</PubmedArticle>\n"
        for number, text in enumerate(texts, 1)
    )
    pubmed = tmp_path / "pubmed"
    pubmed.mkdir()
    whole = f'<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n{articles}</PubmedArticleSet>\n'
    (pubmed / "pubmed26n0001.xml.gz").write_bytes(gzip.compress(whole.encode()))
    download = tmp_path / "corpus" / "download"
    download.mkdir(parents=True)
    gold = (toy_files / "gold.pubtator").read_text()
    for id_, cui in cuis.items():
        gold = gold.replace(f"\t{id_}\n", f"\t{cui}\n")
    (download / "medmentions.txt.gz").write_bytes(gzip.compress(gold.encode()))
    (download / "medmentions-test.txt").write_text("0\n1\n2\n")
    file_ = srsly.read_yaml(ROOT / "project.yml")
    for folder in file_["directories"]:
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "configs").rmdir()
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    changed = {"umls": "META", "pubmed": "pubmed", "processes": 1, "pubmedbert": str(tiny_bert), "index": "exact"}
    file_["vars"].update(changed, training=TRAINING, reranking=RERANKING)
    return file_


@pytest.mark.slow
def test_from_umls_to_a_package(project):
    from spacy import registry
    from spacy.cli._util import app

    registry.cli.get_all()
    commands = {command["name"]: command for command in project["commands"]}
    for name in project["workflows"]["umls"]:
        for line in commands[name]["script"]:
            for key, value in project["vars"].items():
                line = line.replace(f"${{vars.{key}}}", str(value))
            python, _, spacy, *words = shlex.split(line)
            assert (python, spacy) == ("python", "spacy")
            result = CliRunner().invoke(app, words)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code == 0, f"{line}\n{result.output}"
        for path in commands[name]["outputs_no_cache"]:
            assert Path(path.replace("${vars.version}", project["vars"]["version"])).exists(), f"{name} makes {path}"
    store = OntologyStore("corpus/umls-store")
    assert [entity.tree_numbers for entity in store] == [("B2.2.1.2.1",)] * len(store)
    mined = json.loads(Path("corpus/umls-mentions/manifest.json").read_text())
    assert mined["counts"]["mentions"] > 0 and mined["settings"]["case"] == "preserve"
    kb = json.loads(Path("training/umls/kb/manifest.json").read_text())
    assert set(kb["prototype_kinds"]) <= {"mention", "reference"} and kb["dtype"] == "float16"
    copies = [path.as_posix() for path in Path("training/umls").rglob("vectors.npy")]
    assert copies == ["training/umls/kb/vectors.npy"], "one knowledge base for all pipelines"
    for name in ("umls-linker", "umls-reranker"):
        assert Path(f"metrics/{name}.json").exists()
        assert len(Path(f"metrics/{name}.links.jsonl").read_text().splitlines()) == 3

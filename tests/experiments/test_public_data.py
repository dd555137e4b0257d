"""`reproduce` and `reproduce-small` from the publishers' files: each line of the commands as it
stands, on archives in the layouts of the publishers, at toy size, from a server on this machine."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import srsly
from command_line import laboratory
from lab.data.abstracts import title_hash
from project_files import ROOT, words_of
from pubmed_server import serving
from spacy.cli._util import app
from spacy.util import registry
from typer.testing import CliRunner
from weasel.cli.assets import project_assets
from weasel.util.config import load_project_config

pytestmark = pytest.mark.slow
FEW = (
    "--training.max_steps 2 --training.eval_frequency 2 --corpora.train.held_out 0.3 "
    "--training.batcher.pairs 4"
)
ENCODER = "components.krissel_linker.model"
EXTRA = {
    "configs/transformer.cfg": f"{FEW} --training.max_epochs 0",
    "configs/small-references.cfg": (
        f"{FEW} --{ENCODER}.mention.width 16 --{ENCODER}.mention.hidden 8 "
        f"--{ENCODER}.reference.width 16 --{ENCODER}.reference.hidden 8"
    ),
}
CHEMICALS = {
    "D001241": ("Aspirin", "Acetylsalicylic Acid", "2-(Acetyloxy)benzoic Acid"),
    "D008687": ("Metformin", "Dimethylbiguanidine", "Glucophage"),
    "D002110": ("Caffeine", "1,3,7-Trimethylxanthine", "Coffeinum"),
    "D010100": ("Oxygen", "Dioxygen", "Oxygen-16"),
}
DRUG_TEXT = "Daily doses of {} were given to each group of volunteers."
MESH = """<DescriptorRecord DescriptorClass="1"><DescriptorUI>{id}</DescriptorUI>
<DescriptorName><String>{name}</String></DescriptorName>
<TreeNumberList><TreeNumber>{tree}</TreeNumber></TreeNumberList>
<ConceptList><Concept PreferredConceptYN="Y"><ConceptUI>M1</ConceptUI><ConceptName><String>{name}</String></ConceptName>
<ScopeNote>A note.</ScopeNote><TermList>{terms}</TermList></Concept></ConceptList></DescriptorRecord>
"""  # noqa: E501
TERM = '<Term RecordPreferredTermYN="{preferred}"><TermUI>T1</TermUI><String>{name}</String></Term>'


def mesh_xml(names):
    records = []
    for number, (id_, (name, *aliases)) in enumerate(names.items(), 1):
        terms = [
            TERM.format(preferred="Y", name=name),
            *(TERM.format(preferred="N", name=each) for each in aliases),
        ]
        tree = f"{'D02' if id_ in CHEMICALS else 'C10'}.{number:03}"
        records.append(MESH.format(id=id_, name=name, tree=tree, terms="".join(terms)))
    body = "".join(records)
    return (
        '<?xml version="1.0"?>\n<DescriptorRecordSet LanguageCode="eng">\n'
        f"{body}</DescriptorRecordSet>\n"
    ).encode()


def ctd_table(names):
    lines = [
        "# Fields:",
        "# " + "\t".join("DiseaseName DiseaseID AltDiseaseIDs Definition".split()),
    ]
    lines[1] += "\tParentIDs\tTreeNumbers\tParentTreeNumbers\tSynonyms"
    for number, (id_, (name, *aliases)) in enumerate(names.items()):
        lines.append(
            f"{name}\tMESH:{id_}\tOMIM:{600000 + number}\t\tMESH:C\tC10\tC\t{'|'.join(aliases)}"
        )
    return ("\n".join(lines) + "\n").encode()


def obo(prefix, names):
    terms = [
        f'[Term]\nid: {prefix}:{number:07}\nname: {name}\ndef: "A state." []\nxref: MESH:{id_}\n'
        for number, (id_, (name, *_)) in enumerate(names.items(), 1)
    ]
    return ("format-version: 1.2\n\n" + "\n".join(terms)).encode()


def pubtator(documents):
    """documents: (text, mention, label, id)."""
    lines = []
    for number, (text, mention, label, id_) in enumerate(documents, 1):
        start = len("A report. ") + text.index(mention)
        lines += [f"{number}|t|A report.", f"{number}|a|{text}"]
        lines += [f"{number}\t{start}\t{start + len(mention)}\t{mention}\t{label}\t{id_}", ""]
    return ("\n".join(lines) + "\n").encode()


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    return content.getvalue()


def tarred(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, each in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(each)
            archive.addfile(header, io.BytesIO(each))
    return content.getvalue()


@pytest.fixture
def repository(toy_files, toy_names, tmp_path, monkeypatch):
    """A folder like the repository, and its projects with their files from a server of toy
    archives."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    diseases = {id_.replace("T", "D0000"): names for id_, names in toy_names.items()}
    texts = [json.loads(line) for line in (toy_files / "texts.jsonl").read_text().splitlines()]
    abstracts = [each["text"] for each in texts]
    names = [name for names in CHEMICALS.values() for name in names]
    abstracts += [f"{number}. {DRUG_TEXT.format(name)}" for number in range(4) for name in names]
    gold = [
        line.split("\t")
        for line in (toy_files / "gold.pubtator").read_text().splitlines()
        if "\t" in line
    ]
    text_of = [
        line.split("|a|")[1]
        for line in (toy_files / "gold.pubtator").read_text().splitlines()
        if "|a|" in line
    ]
    of_ncbi = [
        (text, row[3], "SpecificDisease", row[5].replace("T", "D0000"))
        for text, row in zip(text_of, gold, strict=True)
    ]
    of_cdr = [(text, mention, "Disease", id_) for text, mention, _, id_ in of_ncbi]
    of_cdr += [
        (DRUG_TEXT.format(names[1]), names[1], "Chemical", id_) for id_, names in CHEMICALS.items()
    ]
    of_cdr.append((DRUG_TEXT.format("Xylitol"), "Xylitol", "Chemical", "-1"))
    pmids = {str(1000 + number): ("A report.", text) for number, text in enumerate(abstracts[:-2])}
    of_table = {
        f"review-{number}": (f"Title {number}", text) for number, text in enumerate(abstracts[-2:])
    }
    rows = [f"{id_}\tAuthor\t{title}\t{text}\t1" for id_, (title, text) in of_table.items()]
    ncbi, cdr = pubtator(of_ncbi), pubtator(of_cdr)
    folder = "CDR_Data/CDR.Corpus.v010516/"
    cdr_files = {
        f"{folder}CDR_{part}Set.PubTator.txt": cdr for part in ("Training", "Development", "Test")
    }
    cdr_files |= {
        f"{folder}CDR_DevelopmentSet.BioC.xml": b"<collection/>",
        "CDR_Data/README.txt": b"A corpus.",
    }
    cdr_files |= {
        f"__MACOSX/{name.replace('CDR_', '._CDR_', 2)}": b"\0\5\26\7" for name in list(cdr_files)
    }
    cdr_files[f"__MACOSX/{folder}CDR_DevelopmentSet.PubTator.txt"] = b"\0\5\26\7"
    doid, hp = obo("DOID", diseases), obo("HP", dict(list(diseases.items())[:4]))
    with serving() as server:
        server.files = {
            "NCBItrainset_corpus.zip": zipped({"NCBItrainset_corpus.txt": ncbi}),
            "NCBIdevelopset_corpus.zip": zipped({"NCBIdevelopset_corpus.txt": ncbi}),
            "CDR_Data.zip": zipped(cdr_files),
            "DNorm-0.0.7.tgz": tarred(
                {
                    "DNorm-0.0.7/data/CTD_diseases.tsv": ctd_table(diseases),
                    "DNorm-0.0.7/README.txt": b"A tool.",
                }
            ),
            "desc2024.gz": gzip.compress(mesh_xml({**diseases, **CHEMICALS})),
            "doid.obo": doid,
            "hp.obo": hp,
            "Depression-Dataset-SLIM-DevelopmentTrainingSet.txt": (
                "ID\tAuthor\tTitle\tAbstract\tIncl(1)/Excl(0)\n" + "\n".join(rows) + "\n"
            ).encode(),
        }
        server.articles = pmids
        for path in ("configs", "experiments/lab"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).symlink_to(ROOT / path)
        for path in ("experiments/sources", "experiments/data", "."):
            (tmp_path / path).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path / "project.yml", tmp_path / path)
        sources = tmp_path / "experiments" / "sources" / "project.yml"
        project = srsly.read_yaml(sources)
        for asset in project["assets"]:
            name = Path(asset["url"]).name
            asset["url"] = f"{server.address}/{name}"
            if "checksum" in asset:
                asset["checksum"] = hashlib.md5(
                    server.files[name], usedforsecurity=False
                ).hexdigest()
        srsly.write_yaml(sources, project)
        listed = [f"{id_}\t{title_hash(title)}" for id_, (title, _) in of_table.items()]
        listed += pmids
        (sources.parent / "abstracts.txt.gz").write_bytes(gzip.compress("\n".join(listed).encode()))
        yield tmp_path, server


@pytest.fixture
def run(repository, tiny_bert, monkeypatch):
    """Runs the lines of a command or of a workflow's, each in this process, with what `EXTRA` adds
    to them."""
    root, server = repository
    extra = {**EXTRA, "fetch-abstracts": f"--address {server.address}"}
    registry.cli.get_all()

    def run(folder, name):
        overrides = {"vars.encoder": str(tiny_bert)} if folder == root else {}
        project = load_project_config(folder, overrides=overrides)
        commands = {command["name"]: command for command in project["commands"]}
        for command in project["workflows"].get(name, [name]):
            for path in commands[command].get("deps", []):
                assert (folder / path).exists(), f"{command} needs {path}"
            for line in commands[command]["script"]:
                run_line(folder, words_of(line))
            for path in commands[command].get("outputs_no_cache", []):
                assert (folder / path).exists(), f"{command} makes {path}"

    def run_line(folder, words):
        if words[:5] == ["python", "-m", "spacy", "project", "run"]:
            return run(folder / words[6], words[5])
        words += [each for word in words if word in extra for each in words_of(extra[word])]
        monkeypatch.chdir(folder)
        own = words[1].endswith("lab")
        result = CliRunner().invoke(laboratory() if own else app, words[2 if own else 3 :])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, f"{words}\n{result.output}"

    return run


@pytest.mark.nightly
def test_reproduce_runs_from_the_publishers_files(repository, run, monkeypatch):
    root, server = repository
    project_assets(root / "experiments" / "sources")
    run(root / "experiments" / "sources", "all")
    assert len(server.requests) == 2, "a request for each 200"
    monkeypatch.setenv("KRISSEL_DATA", str(root / "data"))
    data = root / "data"
    files = sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())
    assert files == [
        "corpora/bc5cdr/CDR_DevelopmentSet.PubTator.txt",
        "corpora/bc5cdr/CDR_TrainingSet.PubTator.txt",
        "corpora/ncbi_disease/NCBIdevelopset_corpus.txt",
        "corpora/ncbi_disease/NCBItrainset_corpus.txt",
        "ontologies/doid_2016-09-01.obo",
        "ontologies/hp_2017-04-13.obo.gz",
        "ontologies/medic_06Jul2012.txt",
        "ontologies/mesh_descriptor_terms.tsv.gz",
        "ontologies/mesh_tree_numbers.tsv.gz",
        "text/abstracts.jsonl.gz",
        "text/abstracts.jsonl.gz.missing.txt",
    ]
    assert (data / "text" / "abstracts.jsonl.gz.missing.txt").read_text() == ""
    run(root, "reproduce")
    run(root, "reproduce-small")
    for name in ("ncbi", "bc5cdr", "chemicals"):
        for prefix in ("", "small-"):
            report = json.loads((root / "metrics" / f"{prefix}{name}.json").read_text())
            assert report["n"] == (4 if name == "chemicals" else 11), f"{prefix}{name}"


@pytest.mark.nightly
def test_without_krissel_data_the_workflow_fails_first(repository, tmp_path):
    environment = {**os.environ, "COLUMNS": "500"}
    environment.pop("KRISSEL_DATA", None)
    command = [sys.executable, "-m", "spacy", "project", "run", "reproduce"]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.returncode != 0
    assert "[K239] The environment variable KRISSEL_DATA is not set." in found.stdout + found.stderr
    assert "krissel ontology" not in found.stdout

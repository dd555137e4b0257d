"""`experiments/umls`: its commands as they stand, on toy files in the layout of each data set, and
a toy UMLS."""

import gzip
import sys
import zipfile
from functools import partial
from itertools import chain

import pytest
import spacy
from command_line import run_commands
from project_files import ROOT, read_project
from spacy.cli._util import app
from typer.testing import CliRunner

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.mentions.gold_mentions import gold_mentions, split_gold
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.store import OntologyStore

CODES = {"asthma": ("MSH|MH|D001249", "195967001"), "gout": ("OMIM|PT|138900", "90560007")}
CODES |= {"aspirin": ("MSH|MH|D001241", "387458008"), "knee pain": ("MSH|MH|D000070", "30989003")}
CUIS = {name: f"C000000{number}" for number, name in enumerate(CODES, 1)}
TEXT = "Severe asthma and gout were seen. Aspirin for pain of the knee."
PLACES = {"asthma": (7, 13), "gout": (18, 22), "aspirin": (34, 41)}
OF = {"ncbi": ("asthma", "gout"), "diseases": ("asthma", "gout"), "chemicals": ("aspirin",)}
EVERYTHING = ("asthma", "gout", "aspirin")
SPLITS = ("train", "dev", "test")
SMALL = "--training.max_epochs 0 --training.max_steps 2 --training.eval_frequency 2"


def pubtator(split, ids):
    """A document in the form of each corpus; its id is of the split."""
    rows = [
        f"{split}\t{start}\t{end}\t{TEXT[start:end]}\t{ids[name]}"
        for name, (start, end) in PLACES.items()
    ]
    # Of one text, training mentions would not be used in the evaluation.
    return (
        f"{split}|t|{TEXT[:33]}\n{split}|a|{TEXT[34:]} Case {split}.\n" + "\n".join(rows) + "\n\n"
    )


@pytest.fixture
def place(tmp_path):
    """The project's folder, with what it downloads, what is licensed, and `umls`'s store."""
    meta, down = tmp_path / "META", tmp_path / "experiments" / "umls" / "download"
    for folder in (meta, down, tmp_path / "corpus"):
        folder.mkdir(parents=True)
    atoms = "".join(
        f"{CUIS[name]}|ENG|P|L|PF|S|Y|A||||{code}|{name}|0|N||\n"
        f"{CUIS[name]}|ENG|S|L|PF|S|Y|A||||SNOMEDCT_US|PT|{snomed}|{name} (x)|9|N||\n"
        for name, (code, snomed) in CODES.items()
    )
    (meta / "MRCONSO.RRF").write_text(atoms)
    (meta / "MRSTY.RRF").write_text(
        "".join(f"{cui}|T047|B2.2.1.2.1|Disease or Syndrome|A||\n" for cui in CUIS.values())
    )
    (meta / "MRREL.RRF").write_text("C0000001|A|CUI|RO|C0000002|A|CUI|isa|R||RXNORM|RXNORM|||N||\n")
    build_ontology(meta, tmp_path / "corpus" / "umls-store", codes=["MSH", "OMIM", "SNOMEDCT_US"])

    mesh = {
        "asthma": "Disease\tD001249",
        "gout": "Disease\tOMIM:138900",
        "aspirin": "Chemical\tD001241",
    }
    disease = {**mesh, "aspirin": "Modifier\t-1"}
    cuis = {name: f"T047\t{cui}" for name, cui in CUIS.items()}
    for split, name in zip(SPLITS, ("train", "develop", "test"), strict=True):
        with zipfile.ZipFile(down / f"NCBI{name}set_corpus.zip", "w") as archive:
            archive.writestr(f"NCBI{name}set_corpus.txt", pubtator(split, disease))
    with zipfile.ZipFile(down / "CDR_Data.zip", "w") as archive:
        for split, name in zip(SPLITS, ("Training", "Development", "Test"), strict=True):
            archive.writestr(
                f"CDR_Data/CDR.Corpus.v010516/CDR_{name}Set.PubTator.txt", pubtator(split, mesh)
            )
    # So many that entities have pairs of mentions.
    documents = {
        "trng": [f"train{number}" for number in range(16)],
        "dev": ["dev"],
        "test": ["test"],
    }
    whole = "".join(pubtator(each, cuis) for part in documents.values() for each in part)
    for name in ("medmentions", "st21pv"):
        (down / f"{name}.txt.gz").write_bytes(gzip.compress(whole.encode()))
    for name, part in documents.items():
        (down / f"pmids-{name}.txt").write_text("\n".join(part) + "\n")

    pain = f"{CUIS['knee pain']}||46||50||58||62"
    lines = [
        *(f"{CUIS[name]}||{start}||{end}" for name, (start, end) in PLACES.items()),
        pain,
        "CUI-less||0||6",
    ]
    for split in SPLITS:
        folder = down / "share" / split
        folder.mkdir(parents=True)
        (folder / "00-DISCHARGE.txt").write_text(TEXT)
        rows = "".join(f"00-DISCHARGE.txt||Disease_Disorder||{line}\n" for line in lines)
        (folder / "00-DISCHARGE.pipe.txt").write_text(rows)
    for part, number in [*(("train", number) for number in range(20)), ("test", 0)]:
        for kind, ending in (("note", "txt"), ("norm", "norm")):
            folder = down / "n2c2" / part / f"{part}_{kind}"
            folder.mkdir(parents=True, exist_ok=True)
            rows = "".join(f"N{i:03}||{line}\n" for i, line in enumerate(lines))
            (folder / f"{number:04}.{ending}").write_text(TEXT if kind == "note" else rows)
    header = (
        "\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\t"
        "Specific SNOMED ID\tExample\n"
    )
    for split in ("stratified", "zeroshot"):
        (down / "cometa" / f"{split}_general").mkdir(parents=True)
        rows = (
            "0\tgout\tGout\t90560007\tGout\t1\tMy Gout.\n"
            "1\tknees hurt\tPain\t30989003\tPain\t1\tMy knees hurt\n"
        )
        (down / "cometa" / f"{split}_general" / "test.csv").write_text(header + rows)
    return down.parent


@pytest.fixture
def run(place, monkeypatch):
    """Runs commands of the project. extras: what is appended to the lines of one, in their
    order."""
    monkeypatch.chdir(place)
    (place / "configs").symlink_to(ROOT / "experiments" / "umls" / "configs")
    (place.parents[1] / "configs").symlink_to(ROOT / "configs")
    return partial(run_commands, ROOT / "experiments" / "umls", umls="../../META")


def linked(path, store):
    """The entities of the gold mentions of a file, as `krissel evaluate` reads them."""
    docs = read_doc_bins(path, spacy.blank("en").vocab)
    return [
        id_ for doc in docs for each in gold_mentions(doc) for id_ in split_gold(each.kb_id, store)
    ]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_data_sets_of_table_2_have_their_mentions_and_ids(place, run):
    run(*read_project(ROOT / "experiments" / "umls")["workflows"]["open"])
    run(*read_project(ROOT / "experiments" / "umls")["workflows"]["licensed"])
    corpus = place.parents[1] / "corpus"
    store = OntologyStore(corpus / "umls-store")
    for name, names in {**OF, "medmentions": EVERYTHING, "st21pv": EVERYTHING}.items():
        for split in SPLITS:
            n_docs = 16 if names is EVERYTHING and split == "train" else 1
            found = linked(corpus / "umls" / f"{name}-{split}.spacy", store)
            assert found == [CUIS[each] for each in names] * n_docs, name
    notes = [CUIS[each] for each in (*EVERYTHING, "knee pain")]
    for split in SPLITS:
        assert linked(corpus / "umls" / f"share-{split}.spacy", store) == notes
    assert linked(corpus / "umls" / "n2c2-test.spacy", store) == notes
    parts = [linked(corpus / "umls" / f"n2c2-{split}.spacy", store) for split in ("train", "dev")]
    assert sorted(chain.from_iterable(parts)) == sorted(notes * 20) and all(parts)
    run("cometa")
    snomed = OntologyStore(corpus / "umls" / "snomed")
    for split in ("stratified", "zeroshot"):
        found = linked(corpus / "umls" / f"cometa-{split}-test.spacy", snomed)
        assert found == [CUIS["gout"], CUIS["knee pain"]]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")
def test_every_row_of_table_2_can_be_measured(place, run, tiny_bert):
    run("medmentions", "cometa")
    corpus, linker = place.parents[1] / "corpus", place.parents[1] / "linker"
    for words in (
        [
            "assemble",
            "../../configs/sapbert.cfg",
            "plain",
            "--paths.ontology",
            str(corpus / "umls-store"),
        ],
        [
            "krissel",
            "prototypes",
            "plain",
            "-o",
            str(linker),
            "--ontology",
            str(corpus / "umls-store"),
            "--no-class-names",
        ],
    ):
        more = ["--paths.encoder", str(tiny_bert)] if words[0] == "assemble" else []
        assert CliRunner().invoke(app, [*words, *more]).exit_code == 0, words
    settings = {
        "set": "medmentions",
        "linker": str(linker),
        "reranker": str(linker),
        "pubmedbert": str(tiny_bert),
    }
    run("evaluate", "lazy", "few-shot", **settings)
    small = " ".join(
        f"--train.overrides.{each[2:]}" if each[:2] == "--" else each for each in SMALL.split()
    )
    more = (
        "--train.overrides.corpora.train.dev_share 0.4 --train.overrides.training.batcher.pairs 2"
    )
    run("supervised", supervised=f"{small} {more}", **settings)
    names = f"{SMALL} --corpora.train.held_out 0.3 --training.batcher.pairs 2"
    run("names", names=names, pubmedbert_full=str(tiny_bert))
    reports = {path.name for path in (place / "metrics").glob("*.json")}
    rows = {f"medmentions-{row}-0.json" for row in ("linker", "reranker", "lazy", "few-shot")}
    assert reports == rows | {"cometa-stratified-0.json", "cometa-zeroshot-0.json"}
    assert (place / "metrics" / "supervised-medmentions" / "ablation.json").exists()

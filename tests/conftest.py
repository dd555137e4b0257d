"""Fixtures and skips shared by the whole suite."""

import gc
import json
import os
import shutil
import string
import sys
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# The laboratory lies outside the wheel.
sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday")

# Processes of `pytest -n` share the cores as they are.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no failure.
settings.register_profile("krissel", deadline=None)
settings.load_profile("krissel")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Freeze what was collected, which lives to the end: who collects garbage, as `build` does,
    would visit ten thousand tests and all modules each time."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    missing = not os.environ.get("KRISSEL_DATA")
    for item in items:
        if missing and item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs the data folder: set KRISSEL_DATA"))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def terminal(capsys, monkeypatch):
    """`capsys`, with a standard error that passes for a terminal."""
    # In its class: the test will find another object there than its fixtures do.
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True)
    return capsys


@pytest.fixture(scope="session")
def data_dir() -> Path:
    path = os.environ.get("KRISSEL_DATA")
    if not path:
        pytest.skip("needs the data folder: set KRISSEL_DATA")
    return Path(path)


@pytest.fixture(scope="session")
def make_once(tmp_path_factory):
    """Makes a folder once for all processes of `pytest -n`: `make_once(name, make)` calls
    `make(folder)` unless another process has, and returns the folder. Tests read it: they change a
    copy."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    (root / "made").mkdir(exist_ok=True)

    def once(name, make):
        folder = root / "made" / name
        done = folder.with_name(f"{name}.done")
        with FileLock(folder.with_name(f"{name}.lock")):
            if not done.exists():
                # What failed in another process.
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return once


# The words of the tiny BERT.
WORDS = (
    "the patient had acute lung injury and cold with fever in of a discharge was ms multiple "
    "sclerosis"
).split()


@pytest.fixture(scope="session")
def tiny_bert(make_once):
    """A directory with a BERT of width 32, two layers and 64 positions, as `save_pretrained` writes
    it."""
    return make_once("tiny_bert", write_bert)


@pytest.fixture(scope="session")
def bert_with_markers(make_once):
    """`tiny_bert` with `<ENT>` and `</ENT>` in its vocabulary, as the released KRISSBERT has
    them."""
    return make_once("bert_with_markers", partial(write_bert, tokens=["<ENT>", "</ENT>"]))


def write_bert(path, tokens=()):
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokens]
    letters = list(string.ascii_lowercase + string.digits + ".,-")
    pieces = special + WORDS + letters + ["##" + letter for letter in letters]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    # Settings that a saved tokenizer may bring along, and that must not touch the pieces of a view.
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    fast = BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)
    fast.save_pretrained(path)
    # what a slow tokenizer reads
    (path / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf8")
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
        # away from the tiny initial values, so that differences show
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        model.save_pretrained(path)


# A small ontology: "MS" and "cold" are homonyms, and every entity but the last has aliases.
TOY_NAMES = {
    "T01": (
        "multiple sclerosis",
        "MS",
        "disseminated sclerosis",
        "insular sclerosis",
        "sclerosis multiplex",
    ),
    "T02": (
        "mitral stenosis",
        "MS",
        "mitral valve stenosis",
        "stenosed mitral valve",
        "mitral narrowing",
    ),
    "T03": (
        "lung neoplasms",
        "lung cancer",
        "pulmonary neoplasm",
        "carcinoma of lung",
        "lung tumour",
    ),
    "T04": ("common cold", "cold", "acute coryza", "acute nasopharyngitis", "viral rhinitis"),
    "T05": (
        "cold temperature",
        "cold",
        "low temperature",
        "icy temperature",
        "chilled surroundings",
    ),
    "T06": (
        "breast neoplasms",
        "breast cancer",
        "mammary neoplasm",
        "breast tumour",
        "carcinoma of breast",
    ),
    "T07": ("asthma", "bronchial asthma", "asthma bronchiale", "wheezy bronchitis"),
    "T08": ("migraine", "migraine disorder", "megrim", "sick headache", "hemicrania"),
    "T09": ("anemia", "anaemia", "low haemoglobin", "hypohaemoglobinaemia"),
    "T10": ("influenza", "flu", "grippe", "epidemic catarrh"),
    "T11": ("psoriasis", "psoriasis vulgaris", "scaly plaques", "lepra vulgaris"),
    "T12": ("rickets",),
}
TOY_CONTEXTS = {
    "T01": "Demyelinating lesions and relapses point to {} in this woman.",
    "T02": "A diastolic murmur and an enlarged atrium point to {} in this man.",
    "T03": "The smoker's chest film showed {} in the upper lobe.",
    "T04": "Sneezing and a running nose for a week: {}, caught at school.",
    "T05": "The samples were kept in {} until they were thawed.",
    "T06": "A lump on the mammogram was {} and oestrogen receptors were found.",
    "T07": "Wheezing at night from {} was relieved by an inhaler.",
    "T08": "Throbbing pain with aura, the {} ended after triptans.",
    "T09": "Pale and tired from {}, she was given iron.",
    "T10": "Fever in winter from {} in spite of the vaccine.",
    "T11": "Red skin of {} on both elbows itched.",
}


@pytest.fixture(scope="session")
def toy_names():
    """Entity id → its names, the preferred one first."""
    return TOY_NAMES


@pytest.fixture(scope="session")
def toy_files(make_once) -> Path:
    """A folder with the toy ontology (ontology.jsonl), text to mine (texts.jsonl) and a gold corpus
    (gold.pubtator)."""
    return make_once("toy", write_toy_files)


def write_toy_files(path):
    records = [
        {
            "concept_id": id_,
            "canonical_name": names[0],
            "aliases": names[1:],
            "types": ["T047" if id_ < "T07" else "T184"],
        }
        for id_, names in TOY_NAMES.items()
    ]
    _write_jsonl(path / "ontology.jsonl", records)
    texts = [
        # Of different words: two texts of the same n-grams would have one vector, and either could
        # be the evidence.
        {
            "id": f"{id_}-{i}-{j}",
            "text": (
                f"{MONTHS[i]}, {DAYS[j]}. {TOY_CONTEXTS[id_].format(name)} Follow-up was short."
            ),
        }
        for id_, names in TOY_NAMES.items()
        if id_ in TOY_CONTEXTS
        for i, name in enumerate(names)
        for j in range(4)
    ]
    _write_jsonl(path / "texts.jsonl", texts)
    lines = []
    for number, (id_, context) in enumerate(TOY_CONTEXTS.items()):
        name = TOY_NAMES[id_][1]
        title = "A report."
        text = context.format(name)
        start = len(title) + 1 + context.index("{}")
        lines += [f"{number}|t|{title}", f"{number}|a|{text}"]
        lines += [f"{number}\t{start}\t{start + len(name)}\t{name}\tDisease\t{id_}", ""]
    (path / "gold.pubtator").write_text("\n".join(lines) + "\n", encoding="utf8")


def _write_jsonl(path: Path, records) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")


@pytest.fixture(scope="session")
def toy_store(toy_files, make_once):
    from spacy_krissel.ontology.build import build_ontology
    from spacy_krissel.ontology.store import OntologyStore

    return OntologyStore(
        make_once(
            "toy_store", lambda path: build_ontology(toy_files / "ontology.jsonl", path / "store")
        )
        / "store"
    )


@pytest.fixture(scope="session")
def toy_shards(toy_files, toy_store, make_once) -> Path:
    from spacy_krissel.mining.mine import mine

    texts = toy_files / "texts.jsonl"
    return (
        make_once("toy_shards", lambda path: mine(toy_store, texts, path / "shards", cap=None))
        / "shards"
    )


@pytest.fixture(scope="session")
def make_example():
    """Makes a training example of one linked mention: predicted without its link, reference with
    it."""
    import spacy
    from spacy.tokens import Span
    from spacy.training import Example

    nlp = spacy.blank("en")

    def make(entity, left="", mention="mention", right=""):
        docs = [nlp.make_doc(left + mention + right) for _ in range(2)]
        for doc, kb_id in zip(docs, ("", entity), strict=True):
            span = doc.char_span(len(left), len(left) + len(mention))
            doc.ents = [Span(doc, span.start, span.end, label="ENTITY", kb_id=kb_id)]
        return Example(*docs)

    return make


@pytest.fixture
def write_mentions(tmp_path):
    """Writes `MinedMention`s as a directory of shards, without mining."""
    import pyarrow as pa

    from spacy_krissel.mining.shards import FORMAT_VERSION, KIND, shard_schema, write_shard
    from spacy_krissel.util.manifest import new_directory

    def write(mentions, name="mentions"):
        with new_directory(tmp_path / name, KIND, FORMAT_VERSION) as directory:
            rows = [mention._asdict() for mention in mentions]
            write_shard(
                directory.path / "shard-00000.arrow",
                pa.Table.from_pylist(rows, schema=shard_schema()),
            )
            directory.info["shards"] = [{"file": "shard-00000.arrow", "mentions": len(rows)}]
        return tmp_path / name

    return write


# What makes a run of the configs on the toy data take seconds, and the same ones whatever the
# configs are tuned to.
FEW_STEPS = {
    "corpora.train.held_out": 0.3,
    "training.batcher.pairs": 4,
    "training.max_steps": 20,
    "training.eval_frequency": 10,
    "training.dropout": 0.0,
    "training.optimizer.learn_rate.initial_rate": 0.002,
    "training.optimizer.learn_rate.warmup_steps": 2,
}
TINY_MODEL = {
    "components.krissel_linker.model.width": 16,
    "components.krissel_linker.model.rows": 2048,
    "components.krissel_linker.model.context_rows": 1024,
    "components.krissel_linker.model.hidden": 8,
    "components.krissel_linker.objective.p_mask": 0.2,
    "components.krissel_linker.objective.p_replace": 0.2,
}


@pytest.fixture(scope="session")
def toy_overrides(toy_store, toy_shards):
    """Overrides of a training config for the toy data, by the config's name."""
    data = {"paths.ontology": str(toy_store.path), "paths.mentions": str(toy_shards)}
    names = ("transformer", "krissbert", "small-references")
    ontology = {"paths.ontology": str(toy_store.path)}
    no_schedule = {key: value for key, value in FEW_STEPS.items() if "learn_rate" not in key}
    small_names = {
        key: value for key, value in {**FEW_STEPS, **TINY_MODEL}.items() if ".p_" not in key
    }
    return {
        "small": {**data, **FEW_STEPS, **TINY_MODEL},
        "sapbert": {**ontology, **no_schedule},
        "sapbert-small": {**ontology, **small_names},
        **{name: {**data, **FEW_STEPS} for name in names},
    }


@pytest.fixture(scope="session")
def configs() -> Path:
    return Path(__file__).parents[1] / "configs"


@pytest.fixture(scope="session")
def trained(toy_overrides, configs, make_once) -> Path:
    """A small pipeline trained for a few steps, without a knowledge base."""
    from spacy.cli.train import train

    overrides = toy_overrides["small"]
    return (
        make_once("trained", lambda path: train(configs / "small.cfg", path, overrides=overrides))
        / "model-last"
    )


# PsyTAR's sheets: post, number, sentence; and post, number, phrase, UMLS1, SNOMED CT, UMLS2, SNOMED
# CT.
_KNEE_PAIN = (
    "C0000001 / Knee Pain / Finding",
    "Pain in knee (finding) [A1/SNOMEDCT_US/FN/1]",
    None,
    None,
)
_SLEEP = ("\nC0000003 / Not sleeping / Sign or Symptom ", None, None, None)
_HEADACHE = (
    "C0000004 / Headache / Finding",
    "Headache (finding) [A2/SNOMEDCT_US/FN/2]",
    None,
    None,
)
PSYTAR_SENTENCES = (
    ("d.1", 1, "Pain and swelling in knee."),
    ("d.1", 2, " No sleep, bad headaches; no SLEEP at all "),
    ("d.1", 3, None),
    ("d.2", 1, "It worked."),
    ("d.2", 1, "Such a headache!"),
    ("d.2", 2.0, "Pain, swelling in the other knee, and zaps."),
)
PSYTAR_PHRASES = {
    "ADR_Mapped": (
        ("d.1", 1, "pain in knee ", *_KNEE_PAIN),
        (
            "d.1",
            1,
            "swelling in knee",
            "c0000002/swelling/fullness of knee/finding",
            "No code",
            None,
            None,
        ),
        ("d.1", 2, "no sleep", *_SLEEP),
        ("d.1", 2, "no sleep", *_SLEEP),
        (None, None, None, None, None, None, None),
        ("d.2", 1, "headache", "No code", None, *_HEADACHE[:2]),
        ("d.2", 2, "knee pain", *_KNEE_PAIN),
        ("d.2", 2, "brain zaps", "C0000005 / Shock sensation / Finding", None, None, None),
    ),
    "WD-Mapped ": (("d.2", 2, "zaps", "brain shivers", None, None, None),),
    "SSI_Mapped": (
        ("d.1", 2, "headache", *_HEADACHE),
        ("d.9", 1, "headache", *_HEADACHE),
        (None, None, "headache", *_HEADACHE),
    ),
    "DI_Mapped": (("d.1", 2, "no sleep", *_SLEEP),),
}


@pytest.fixture(scope="session")
def write_psytar():
    """Writes a workbook in PsyTAR's form and returns its path."""
    openpyxl = pytest.importorskip("openpyxl")

    def write(path, sentences=PSYTAR_SENTENCES, phrases=PSYTAR_PHRASES):
        workbook = openpyxl.Workbook()
        workbook.active.title = "Sentence_Labeling"
        workbook.active.append(["id", "comment_id", "drug_id", "sentence_index", "sentences"])
        for number, row in enumerate(sentences, 1):
            workbook.active.append([number, number, *row])
        for title, rows in phrases.items():
            sheet = workbook.create_sheet(title)
            sheet.append(
                [
                    "id",
                    "drug_id",
                    "sentence_index",
                    title,
                    "UMLS1",
                    "SNOMED-CT",
                    "UMLS2",
                    "SNOMED-CT",
                ]
            )
            for number, row in enumerate(rows, 1):
                sheet.append([number, *row])
        workbook.save(path)
        return path

    return write


@pytest.fixture(scope="session")
def two_processes():
    """Calls a function in two processes that train together: `TwoProcesses`."""
    pytest.importorskip("torch")
    from two_processes import TwoProcesses

    processes = TwoProcesses()
    yield processes
    processes.close()

"""Outputs of commands, and how they are read back for comparison."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from command_line import invoke
from lab.data.text_split import text_split

from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.commands.tune_pipeline import tune_index
from spacy_krissel.commands.update_linker import update
from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.util.atomic import copy_folder
from spacy_krissel.util.manifest import read_manifest

from .harness import digest

MODELS = ("model-best", "model-last")


class Step(NamedTuple):
    """make: writes at a path. load: RETURNS what is there, to be compared; raises KrisselError
    where nothing is."""

    make: Callable[[Path], Any]
    load: Callable[[Path], Any]


# Readers ------------------------------------------------------------------------------------------


def store_of(path):
    store = OntologyStore(path, verify=True)
    return [*store], [*store.names()]


def shards_of(path):
    return list(MentionShards(path, verify=True))


def docs_of(path):
    return [
        (doc.text, [(ent.start, ent.kb_id_) for ent in doc.ents], sorted(doc.cats))
        for doc in read_doc_bins(path, spacy.blank("en").vocab)
    ]


def load_pipeline(path):
    try:
        return spacy.load(path)
    except (OSError, ValueError) as error:  # spaCy's own files
        raise KrisselError(f"no pipeline: {error}") from error


def contents_of(kb):
    return list(kb.entity_ids), kb.prototypes.entity_rows.tolist(), kb.vectors.tolist()


def links_of(path):
    kb = load_pipeline(path).get_pipe("krissel_linker").kb
    assert not kb.is_empty(), "a pipeline that loads has its knowledge base"
    assert kb.search(kb.vectors[:3], 1).entities.shape == (3, 1)
    return contents_of(kb)


def split_of(path):
    read_manifest(path, "text-level split", 1, verify=True)
    return [docs_of(path / f"{part}.spacy") for part in ("train", "test")]


def state_of(path):
    nlp = load_pipeline(path)
    return (
        json.dumps(nlp.meta["performance"]),
        find_linker(nlp).fingerprint(),
        len(nlp.vocab.strings),
    )


def kb_of(path):
    return contents_of(PrototypeKB(spacy.blank("en").vocab, 0).from_disk(path))


def file_of(path):
    if not path.is_file():
        raise KrisselError(f"no file: {path}")
    # Times and paths are of one run.
    text = path.read_text(encoding="utf8")
    return re.sub(
        (
            r"(?m)^.*(per_second|mentions per "
            r"second|command|<dc:date|/tmp/|#[mp][0-9a-f]{10}|id=\").*$"
        ),
        "",
        text,
    )


def folder_of(path):
    if not path.exists():
        raise KrisselError("no folder")
    found = []
    for file_ in sorted(path.rglob("*")):
        if file_.suffix == ".spacy":
            found.append((file_.name, docs_of(file_)))
        elif file_.name == "manifest.json" and (file_.parent != path):
            found.append((str(file_.relative_to(path)), store_of(file_.parent)))
    return found


# Steps of a build ---------------------------------------------------------------------------------


def build_steps(
    files: Path, store: OntologyStore, shards: Path, trained: Path, work: Path
) -> dict[str, Step]:
    """The steps from an ontology to a linker, on the toy data; `work` is a folder for what they
    need besides."""

    def split(path):
        convert(files / "gold.pubtator", work / "gold.spacy", force=True)
        text_split(work / "gold.spacy", path, min_train=0)

    def tuned(path):
        if not (work / "pipeline").exists():
            prototypes(trained, work / "pipeline", store.path, shards, progress=False)
        if not path.exists():
            copy_folder(work / "pipeline", path)
        tune_index(path, types=["ivf"], n_queries=5)

    def linker(path):
        prototypes(trained, path, store.path, shards, progress=False)

    def updated(path):
        if not (work / "earlier").exists():
            prototypes(trained, work / "earlier", store.path, shards, progress=False)
        # In place of the earlier pipeline, where there is one.
        update(path if path.exists() else work / "earlier", files / "ontology.jsonl", path)

    return {
        "ontology": Step(lambda path: build_ontology(files / "ontology.jsonl", path), store_of),
        "mine": Step(
            lambda path: mine(store, files / "texts.jsonl", path, chunk_chars=300), shards_of
        ),
        "convert": Step(lambda path: convert(files / "gold.pubtator", path, force=True), docs_of),
        "split": Step(split, split_of),
        "prototypes": Step(linker, links_of),
        "tune": Step(tuned, links_of),
        "update": Step(updated, links_of),
    }


# Every command that writes ------------------------------------------------------------------------


class Command(NamedTuple):
    """A command over the toy data: what it writes at a path, in two versions, and the parts of that
    by name.

    name: of the file or folder that it writes. make: `make(path, version)`, version 0 or 1. load:
    the parts at a path; each raises KrisselError where it is not there. several: its files are
    replaced one by one, so that they may be of two runs. in_place: spaCy writes into the folder, so
    that what is left may be refused. watched: each model that is saved on the way is a whole one,
    too.
    """

    name: str
    make: Callable[[Path, int], Any]
    load: dict[str, Callable[[Path], Any]]
    several: bool = False
    in_place: bool = False
    watched: bool = False


def state_at(command: Command, path: Path) -> dict[str, str]:
    """The digest of each part, "absent", or "refused: …" by a coded error although something is
    there."""
    found = {}
    for part, load in command.load.items():
        at = path / part if part else path
        try:
            found[part] = digest(load(at))
        except KrisselError as error:
            found[part] = f"refused: {str(error)[:200]}" if at.exists() else "absent"
    return found


def cli(*arguments: Any) -> None:
    """`python -m spacy krissel …` in this process. Raises KrisselError for a coded message with
    exit code 1, and whatever would have been a traceback."""
    result = invoke(*arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        if result.exit_code == 1 and "✘ [K" in result.output and "Traceback" not in result.output:
            raise KrisselError(result.output)
        raise AssertionError(f"exit code {result.exit_code}: {result.output}")


class Inputs(NamedTuple):
    """Inputs of all commands: files and pipelines, which none of them changes.

    bert: the transformer that `transformer` was made from. workbooks: of PsyTAR, the first with
        less in it.
    config, overrides: of a short training.
    """

    files: Path
    store: Path
    shards: Path
    trained: Path
    linker: Path
    reranker: Path
    extractor: Path
    transformer: Path
    bert: Path
    workbooks: tuple[Path, Path]
    config: Path
    overrides: dict[str, Any]


def lines_of(path: Path, fraction: float) -> Path:
    """The first lines of a file, or of a PubTator file the first documents, as another file of that
    format."""
    text = path.read_text(encoding="utf8")
    between = "\n\n" if path.suffix == ".pubtator" else "\n"
    blocks = text.strip().split(between)
    part = path.with_name(f"part-{path.name}")
    part.write_text(
        between.join(blocks[: max(1, int(len(blocks) * fraction))]) + "\n", encoding="utf8"
    )
    return part


def commands(given: Inputs) -> dict[str, Command]:  # noqa: C901
    """Every command that writes, by its name."""
    work = given.files
    both = {
        name: (lines_of(work / name, 0.6), work / name)
        for name in ("ontology.jsonl", "texts.jsonl", "gold.pubtator")
    }
    docs: list[Path] = []
    for number, source in enumerate(both["gold.pubtator"]):
        docs.append(work / f"gold-{number}.spacy")
        convert(source, docs[-1])
        convert(source, work / f"labels-{number}.spacy", text_labels=True)
    labels = [work / f"labels-{number}.spacy" for number in range(2)]
    nil = work / "nil.pubtator"
    mentions = [("lung cancer", "T03"), ("bronchial asthma", "T07"), ("zyxt", "-1")]
    nil.write_text(
        "".join(
            f"{i}|t|Saw {text}.\n{i}|a|None.\n{i}\t4\t{4 + len(text)}\t{text}\tDisease\t{id_}\n\n"
            for i, (text, id_) in enumerate(mentions)
        )
    )
    records = [
        {"text": f"text {i}", "entities": [{"id": f"C{i % 3}", "spans": [[0, 4]]}]}
        for i in range(12)
    ]
    for number in range(2):
        content = "\n".join(map(json.dumps, records[: 6 + 6 * number]))
        (work / f"labels-{number}.jsonl").write_text(content + "\n")
    linker, store = given.linker, given.store
    reports = {f"report.{suffix}": file_of for suffix in ("json", "md")}

    def tuned(path, version):
        # Where there was something, it is tuned there, also by a rerun.
        here = path / "tuned-here"
        if not version:
            copy_folder(linker, path)
            return here.touch()
        if here.exists():
            return tune_index(path, types=["ivf"], n_queries=5)
        return tune_index(linker, path, types=["ivf"], n_queries=5)

    def index_of(path):
        kb = load_pipeline(path).get_pipe("krissel_linker").kb
        return kb.description()["index"], contents_of(kb)

    def trained(path, version):
        from spacy_krissel.commands.train_pipeline import train

        steps = {"training.max_steps": 2, "training.eval_frequency": 1}
        seeds = {"training.seed": version, "system.seed": version}
        train(given.config, path, overrides={**given.overrides, **steps, **seeds})

    def calibrated(path, version):
        precision = ("--nil-precision", 0.5) if version else ()
        cli(
            "calibrate",
            linker,
            nil,
            "-o",
            path / "pipeline",
            "--metrics",
            path / "nil.json",
            "--force",
            *precision,
        )

    def threshold_of(path):
        return load_pipeline(path).get_pipe("krissel_linker").cfg["threshold"]

    def saved(pipeline, pipe_name):
        def make(path, version):
            pipe = spacy.load(pipeline).get_pipe(pipe_name)
            if version:
                pipe.cfg.update({"threshold": 0.25} if "threshold" in pipe.cfg else {"weight": 0.5})
            pipe.to_disk(path)

        def load(path):
            if not path.exists():
                raise KrisselError("no folder")
            nlp = spacy.load(pipeline)
            pipe = nlp.get_pipe(pipe_name).from_disk(path)
            found = getattr(pipe, "kb", None)
            contents = None if found is None else contents_of(found)
            return (
                pipe.cfg.get("threshold"),
                pipe.cfg.get("weight"),
                pipe.model.to_bytes(),
                contents,
            )

        return Command("pipe", make, {"": load}, in_place=True)

    def saved_kb(path, version):
        kb = spacy.load(linker).get_pipe("krissel_linker").kb
        if version:
            kb.remove_prototypes(kind="mention")
        kb.to_disk(path)

    def transformer_of(path):
        from transformers import AutoModel

        try:
            model = AutoModel.from_pretrained(str(path), local_files_only=True)
        except Exception as error:
            if path.exists() and any(path.iterdir()):
                raise AssertionError(f"half a transformer: {error}") from error
            raise KrisselError("no transformer") from error
        # A pooler that no one trained is drawn anew at each load.
        weights = [
            value.sum().item() for name, value in model.named_parameters() if "pooler" not in name
        ]
        return weights, sorted(file_.name for file_ in path.iterdir())

    def encoded(path, version):
        average = ("--average-with", given.bert) if version else ()
        cli("encoder", given.transformer, "-o", path, *average)

    return {
        "ontology": Command(
            "out",
            lambda path, v: cli("ontology", both["ontology.jsonl"][v], "-o", path),
            {"": store_of},
        ),
        "mine": Command(
            "out",
            lambda path, v: mine(
                OntologyStore(store), both["texts.jsonl"][v], path, chunk_chars=1500
            ),
            {"": shards_of},
        ),
        "convert": Command(
            "out.spacy",
            lambda path, v: cli("convert", both["gold.pubtator"][v], "-o", path, "--force"),
            {"": docs_of},
        ),
        "text-labels": Command(
            "out.spacy",
            lambda path, v: cli("convert", work / f"labels-{v}.jsonl", "-o", path, "--force"),
            {"": docs_of},
        ),
        "text-split": Command(
            "out",
            lambda path, v: cli("text-split", labels[v], "-o", path, "--min-train", 0),
            {"": split_of},
        ),
        "zero-shot": Command(
            "out",
            lambda path, v: cli(
                "zero-shot",
                docs[1],
                "-o",
                path,
                *(each for share in (0.6, 0.2, 0.2) for each in ("--share", share)),
                "--seed",
                (15, 17)[v],
            ),
            {"": folder_of},
        ),
        "out-of-kb": Command(
            "out",
            lambda path, v: cli(
                "out-of-kb",
                store,
                "--gold",
                f"train={docs[1]}",
                "-o",
                path,
                "--type",
                ("T047", "T184")[v],
            ),
            {"": folder_of},
        ),
        "psytar-names": Command(
            "out.jsonl",
            lambda path, v: cli("psytar-names", given.workbooks[v], "-o", path),
            {"": file_of},
        ),
        "update": Command(
            "out",
            lambda path, v: cli("update", linker, both["ontology.jsonl"][v], "-o", path),
            {"": links_of},
        ),
        "prototypes": Command(
            "out",
            lambda path, v: cli(
                "prototypes",
                given.trained,
                "-o",
                path,
                "--ontology",
                store,
                "--mentions",
                given.shards,
                *((), ("--max-entities", 6))[v],
            ),
            {"": links_of},
        ),
        "prototypes-gold": Command(
            "out",
            lambda path, v: cli("prototypes", linker, "-o", path, "--gold", docs[v], "--force"),
            {"": links_of},
        ),
        "kb": Command("out", saved_kb, {"": kb_of}),
        "tune": Command("out", tuned, {"": index_of}),
        "calibrate": Command(
            "out", calibrated, {"pipeline": threshold_of, "nil.json": file_of}, several=True
        ),
        "train": Command(
            "out", trained, dict.fromkeys(MODELS, state_of), several=True, watched=True
        ),
        "link-jsonl": Command(
            "out.jsonl",
            lambda path, v: cli("link", linker, docs[v], "-o", path, "--force"),
            {"": file_of},
        ),
        "link-spacy": Command(
            "out.spacy",
            lambda path, v: cli("link", linker, docs[v], "-o", path, "--force"),
            {"": docs_of},
        ),
        "evaluate": Command(
            "out",
            lambda path, v: cli(
                "evaluate",
                linker,
                docs[v],
                "--ontology",
                store,
                "-o",
                path,
                "--name",
                "report",
                "--no-baselines",
            ),
            {**reports, "report.links.jsonl": file_of},
            several=True,
        ),
        "evaluate-spans": Command(
            "out",
            lambda path, v: cli(
                "evaluate-spans",
                given.extractor,
                labels[v],
                "--ontology",
                store,
                "-o",
                path,
                "--name",
                "report",
                "--no-baselines",
            ),
            reports,
            several=True,
        ),
        "few-shot": Command(
            "out",
            lambda path, v: cli(
                "few-shot",
                linker,
                docs[v],
                "--examples",
                docs[v],
                "--ontology",
                store,
                "--shot",
                0,
                "--shot",
                1,
                "--seed",
                0,
                "-o",
                path,
                "--name",
                "report",
            ),
            reports,
            several=True,
        ),
        "extract": Command(
            "out.html",
            lambda path, v: cli(
                "extract",
                given.extractor,
                ("a cold at school", "wheezy asthma")[v],
                "-o",
                path,
                "--force",
            ),
            {"": file_of},
        ),
        "projection": Command(
            "out.svg",
            lambda path, v: cli(
                "projection",
                linker,
                "--ontology",
                store,
                "-o",
                path,
                "--entities",
                2 + v,
                "--names",
                2,
            ),
            {"": file_of},
        ),
        "encoder": Command("out", encoded, {"": transformer_of}),
        "linker.to_disk": saved(linker, "krissel_linker"),
        "reranker.to_disk": saved(given.reranker, "krissel_reranker"),
        "extractor.to_disk": saved(given.extractor, "krissel_span_extractor"),
    }

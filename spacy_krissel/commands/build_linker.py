"""Build of a linking pipeline from an ontology, in one command."""

import gc
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, NamedTuple

import spacy
import srsly
from pydantic import Field
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training.loop import DIR_MODEL_LAST
from wasabi import msg

from ..about import __version__
from ..corpora.report import CorpusReport
from ..corpora.text_stream import Text, read_texts
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..evaluation.confidence import (
    MIN_STATED,
    PRECISION,
    Precision,
    ShareOfNil,
    expected_links,
    fit_confidence,
)
from ..finding.common import count_words, general_words
from ..layers.hashed_bags import average_weights, round_tables
from ..mining.mine import mine
from ..mining.shards import MentionShards
from ..ontology.build import build_ontology
from ..ontology.entity import Entity
from ..ontology.provenance import provenance
from ..ontology.store import OntologyStore, write_store
from ..ontology.vocabularies.cache import locate
from ..pipeline.pipeline_io import (
    check_pipeline_output,
    choose_gpu,
    configure,
    find_linker,
    load_pipeline,
    save_pipeline,
    save_whole,
)
from ..pipeline.settings import FINDER, LINKER
from ..util.atomic import hard_linking
from ..util.hashing import content_hash, stable_hash
from ..util.manifest import MANIFEST
from ..util.memory import few_collections, forget_pages
from ..util.outputs import writes
from ..util.settings import Count, PositiveInt, checked, explicit_settings, takes
from ..util.work_folder import WorkFolder
from .build_prototypes import prototypes
from .export_encoder import start_encoder
from .make_ontology import OntologySettings
from .train_pipeline import train

CONFIG = Path(__file__).parent / "build.cfg"
# The small encoder that every build starts from, with its card in meta.json; `experiments/compact`
# makes it.
COMPACT = Path(__file__).parents[1] / "compact"
COMPONENT = f"components.{LINKER}"
# With fewer mined mentions nothing is trained: too few are held out to see what training does.
MIN_MENTIONS = 500
# Texts in which the NER looks for mentions, to see what fraction has no entity.
MAX_TEXTS = 300
# In an error message.
MAX_TYPES_SHOWN = 8
# Of class names, which are guesses. Chosen on Linnaeus and S800, where "yeast" is no class
# "yeasts"; on the training splits of NCBI Disease and BC5CDR's diseases 0.9 is 0.2 points better
# and 0.2 worse than 1.
CLASS_WEIGHT = 0.9
# Weight of the species where entities are of several, and of their names this share or more is of
# several entities. Chosen on nine tenths of the training documents of GNormPlus, NLM-Gene and
# BioRED. Genes share a tenth of their names; cell lines one in two hundred.
MIN_SHARED = 0.05
SPECIES_WEIGHT = 0.15
# Fraction of the encoder that ships in its average with what it is after training. On the training
# splits of NCBI Disease and BC5CDR's diseases the average is 0.5 and 0.4 points better than the
# trained encoder (MEDIC, names alone).
START_SHARE = 0.5
# The trained pipeline of a build as it is encoded with; `model-last` stays what training left.
DIR_READY = "ready"
TRANSFORMER: dict[str, Any] = {
    "@architectures": "spacy-krissel.TransformerEncoder.v1",
    "window": 32,
    "pooling": "mean",
    "normalize": True,
    "name_weight": 1.0,
    "mixed_precision": True,
}
# Where this fraction of the words in names have a digit, and of their last words, another order or
# number of words is another name. Genes have .36 and .76, chemicals .14 and .18, diseases .05 and
# .10, phenotypes .02 and .01. Blood cells have .17 and .06: "CD4-positive T cell" has a plural.
MANY_DIGITS = 0.1
# Number of words of the given text below which its counts say less than those that ship, and of
# texts that are counted: 20 seconds of abstracts.
MIN_COUNTED, MAX_COUNTED = 1_000_000, 50_000
# Settings for a transformer: fewer pairs at a lower rate.
FOR_TRANSFORMER: dict[str, Any] = {
    "training.batcher.pairs": 64,
    "training.dropout": 0.0,
    "training.optimizer.learn_rate.initial_rate": 0.0001,
}


@dataclass
class Built:
    """A pipeline, and the figures that `krissel build` prints.

    n_entities, n_names: of the ontology. n_mentions: number of mined mentions, 0 without text.
        confidence: `ConfidenceFit.data`.
    """

    nlp: Language
    output: Path
    n_entities: int
    n_names: int
    n_mentions: int
    confidence: dict[str, Any]


@checked
@dataclass(frozen=True)
class BuildSettings(OntologySettings):
    """Settings of `build`.

    ontology: Ontology files, stores, or names of vocabularies (krissel vocabularies); from Python
        also one of them, or entities (`Entity`)
    output: Folder to save the pipeline in
    text: Unlabelled text to mine and train on: JSONL, plain text, PubMed's XML, Parquet, .tar.gz;
        or folders
    ner: Pipeline that finds mentions, by name or path: the linker is added to it
    find: How mentions are found by the ontology's names: words, also in other forms and another
        order of their words; spelling, in other spellings only; none; auto, spelling for genes,
        chemicals and the like, else words. Default: auto, or none with ner
    types_by_label: label=type: link mentions with this label to entities of this semantic type only
        (Gene=Gene); from Python also the types by label, as in the linker's settings
    encoder: Transformer to train, by name or path, instead of the compact encoder; needs text
    steps: Number of training steps; 0 skips training; default: 600 with text
    precision, nil_share: see `fit_confidence`
    seed: Random seed of mining, training and sampling
    n_process: Number of processes that mine
    gpu_id: GPU, or -1 for the CPU
    index_device: Device of the index, saved with the pipeline: cpu, cuda:0 or cuda:all; default:
        cpu
    restart: Discard the work of an interrupted build
    """

    ontology: str | Path | Iterable[str | Path] | Iterable[Entity]
    output: Path
    _: KW_ONLY
    text: Sequence[str | Path] = ()
    ner: str | None = None
    find: Literal["auto", "words", "spelling", "none"] | None = None
    types_by_label: Mapping[str, Sequence[str]] | Sequence[str] = ()
    encoder: str | None = None
    steps: Count | None = None
    precision: Precision = PRECISION
    nil_share: ShareOfNil | None = None
    seed: Count = 0
    n_process: PositiveInt = 1
    gpu_id: Annotated[int, Field(ge=-1)] = -1
    index_device: str | None = None
    restart: bool = False
    progress: bool = False


@dataclass(frozen=True)
class BuildPlan:
    """The inputs and results that the steps of a build share.

    sources: paths and names of vocabularies, or entities; located: the files of the former, () for
        the latter.
    types: by label. ner: the pipeline that the linker is added to. folder: of the unfinished build.
    """

    asked: BuildSettings
    sources: list[Any]
    located: Sequence[Path]
    types: dict[str, list[str]]
    ner: Language | None
    folder: Path

    @cached_property
    def store(self) -> OntologyStore:
        """The ontology store. Raises KrisselError K006 for a type in `types` that no entity has."""
        store = OntologyStore(self.folder / "store")
        _check_types(self.types, store)
        return store

    @property
    def mentions(self) -> Path | None:
        return self.folder / "mentions" if self.asked.text else None

    @cached_property
    def trained_on(self) -> Path | None:
        """The mentions, unless nothing is to be trained or they are too few (KW680)."""
        return (
            self.mentions
            if self.mentions and self.asked.steps != 0 and _are_enough(self.mentions)
            else None
        )

    def shared(self) -> dict[str, Any]:
        return {"seed": self.asked.seed, "progress": self.asked.progress}


class Step(NamedTuple):
    """A step of a build: `make` fills the path `name` in its folder; a step without a name always
    runs."""

    name: str
    title: str | Callable[[BuildPlan], str]
    make: Callable[[BuildPlan, Path], Any]


class BuildWork(WorkFolder):
    """The store, the mentions and the trained pipeline of an unfinished build."""

    def has_work(self) -> bool:
        return (self.path / "store").exists()

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K680.format(path=self.path, difference=difference))

    def run(self, plan: BuildPlan, steps: Sequence[Step]) -> Any:
        """Run the steps that no earlier run completed. RETURNS: the result of the last step."""
        made: Any = None
        for number, step in enumerate(steps, 1):
            done = f"{step.name}.done"
            is_done = (self.path / done).exists()
            title = step.title if isinstance(step.title, str) else step.title(plan)
            if plan.asked.progress:
                msg.divider(f"{number}/{len(steps)} {title}{' (already done)' if is_done else ''}")
            if not is_done:
                made = step.make(plan, self.path / step.name)
                if step.name:
                    self.write(done, b"")
        return made


@writes(folders=["output"])
@takes(BuildSettings)
def build(asked: BuildSettings) -> Built:
    """Build a linker from an ontology: all steps in one command.

    Without text, the compact encoder that ships with this package compares names. With text,
    mentions of unambiguous names are mined and become prototypes; the encoder is trained on them if
    there are 500 or more. An interrupted build resumes, except its training.

    RETURNS: the pipeline, saved at `output`, and its figures.
    Raises KrisselError K005 (the output is something else), K006 (a setting), K680 (other
    unfinished work), and those of `build_ontology`, `mine`, `train`, `prototypes` and
    `fit_confidence`.
    """
    plan = _plan(asked)
    with BuildWork(plan.folder) as work, few_collections():
        work.start(_state(plan), restart=asked.restart)
        built: Built = work.run(
            plan, [step for step in STEPS if asked.text or step.name != "mentions"]
        )
        work.remove()
    return built


FOUND_BY = {
    "words": "names in other spellings, forms and orders of words",
    "spelling": "names in other spellings, without plurals",
}


def show_build(built: Built) -> str:
    data = built.confidence
    mined = f", {built.n_mentions:,} mined mentions" if built.n_mentions else ""
    n, right = data["n_with_other_names"], data["right_without_the_name"]
    lines = [f"{built.n_entities:,} entities, {built.n_names:,} names{mined} in {built.output}"]
    if n >= MIN_STATED:
        lines.append(
            f"Self-test: with the name hidden, {100 * right:.0f} % of {n:,} names were linked "
            "correctly."
        )
    lines.append(expected_links(data))
    finder: Any = built.nlp.get_pipe(FINDER) if FINDER in built.nlp.pipe_names else None
    # Another one may have come with the NER.
    if finder is not None and finder.cfg.variants in FOUND_BY:
        lines.append(f"Mentions: {FOUND_BY[finder.cfg.variants]} (--find).")
    lines.append(f'Use: nlp = spacy.load("{built.output}")')
    if not [name for name in built.nlp.pipe_names if name != LINKER]:
        lines.append(
            "No component finds mentions: add the linker to a pipeline that does, or build it with "
            "--find auto or --ner.\n"
            f'Add: nlp.add_pipe("{LINKER}", source=spacy.load("{built.output}"))'
        )
    return "\n".join(lines)


def compact_model() -> dict[str, Any]:
    """Return the architecture of the encoder that ships, and its settings."""
    model: dict[str, Any] = spacy.util.load_config(COMPACT / "config.cfg")["components"][LINKER][
        "model"
    ]
    return model


def _plan(asked: BuildSettings) -> BuildPlan:
    """Make the plan, and check early all that can be checked before minutes of work."""
    types = _by_label(asked.types_by_label)
    if not asked.text and (asked.encoder or asked.steps):
        setting, found = ("encoder", asked.encoder) if asked.encoder else ("steps", asked.steps)
        expected = "none without `text` to train on"
        raise wrong_setting(setting, found, expected)
    check_pipeline_output(asked.output)
    # Here, since a step that an interrupted build completed does not choose the GPU.
    choose_gpu(asked.gpu_id, silent=True)
    ner = None if asked.ner is None else load_pipeline(asked.ner)
    if ner is not None and LINKER in ner.pipe_names:
        raise wrong_setting("ner", asked.ner, f"a pipeline without a '{LINKER}'")
    sources = sources_of(asked.ontology)
    are_files = not isinstance(sources[0], Entity)
    located = [locate(each, "auto", asked.progress).path for each in sources] if are_files else []
    folder = asked.output.absolute().with_name(f".{asked.output.name}.build")
    return BuildPlan(asked, sources, located, types, ner, folder)


def _state(plan: BuildPlan) -> dict[str, Any]:
    """Return everything that the results of the steps depend on."""
    asked = plan.asked
    settings = explicit_settings(asked, OntologySettings)
    translations = settings.pop("translations", ())
    contents = [_content(each, asked.format) for each in plan.located]
    return {
        "ontology": contents or stable_hash(repr(plan.sources)),
        "text": [content_hash(Path(each)) for each in asked.text],
        "settings": settings,
        "translations": [content_hash(Path(each)) for each in translations],
        "encoder": [asked.encoder, content_hash(Path(asked.encoder) if asked.encoder else COMPACT)],
        "steps": asked.steps,
        "seed": asked.seed,
        "spacy-krissel": __version__,
    }


def _by_label(pairs: Mapping[str, Sequence[str]] | Sequence[str]) -> dict[str, list[str]]:
    """Return types by label. Raises KrisselError K006 for a text other than label=type."""
    if isinstance(pairs, Mapping):
        return {label: [*types] for label, types in pairs.items()}
    by_label: dict[str, list[str]] = {}
    for pair in pairs:
        label, _, type_ = pair.partition("=")
        if not (label and type_):
            raise wrong_setting("types_by_label", pair, "label=type")
        by_label.setdefault(label, []).append(type_)
    return by_label


def sources_of(ontology: Any) -> list[Any]:
    """Return the paths and names of vocabularies, or the entities. Raises KrisselError K006 for
    anything else."""
    sources = (
        [ontology]
        if isinstance(ontology, (str, Path, Mapping)) or not isinstance(ontology, Iterable)
        else [*ontology]
    )
    kinds = (str, Path) if sources and isinstance(sources[0], (str, Path)) else Entity
    wrong = [each for each in sources if not isinstance(each, kinds)]
    if wrong or not sources:
        expected = "paths, names of vocabularies, or entities: Entity(id, name, [other names])"
        raise wrong_setting("ontology", wrong[0] if wrong else sources, expected)
    return sources


def _content(source: Path, format: str) -> Any:
    """Return a hash of an ontology's content, or of the files of a folder that are read; a release
    contains gigabytes of others."""
    if source.is_dir() and not (source / MANIFEST).is_file():
        return [each["files"] for each in provenance(source, format)]
    return content_hash(source)


def _check_types(types_by_label: Mapping[str, Sequence[str]], store: OntologyStore) -> None:
    """Raise KrisselError K006 for a type that no entity has."""
    wanted = {each for types in types_by_label.values() for each in types}
    known = set(chain.from_iterable(store.each("types"))) if wanted else set()
    if wanted - known:
        shown = ", ".join(map(repr, sorted(known)[:MAX_TYPES_SHOWN])) or "none"
        expected = f"one of the ontology's {len(known)} types: {shown}"
        raise wrong_setting("types_by_label", min(wanted - known), expected)


def _are_enough(mentions: Path) -> bool:
    n = len(MentionShards(mentions))
    if n < MIN_MENTIONS:
        warnings.warn(Warnings.KW680.format(n=n, fewest=MIN_MENTIONS), KrisselWarning, stacklevel=3)
    return n >= MIN_MENTIONS


def _read_ontology(plan: BuildPlan, path: Path) -> None:
    settings = explicit_settings(plan.asked, OntologySettings)
    read_sources(plan.sources, path, progress=plan.asked.progress, **settings)


def read_sources(sources: Sequence[Any], path: Path, **settings: Any) -> OntologyStore:
    """Read ontology files, or entities, into a store at `path`. settings: of `build_ontology`."""
    with TemporaryDirectory(prefix="krissel-") as folder:
        # Entities as a store, which settings such as `below` are applied to.
        stored = (
            [write_store(iter(sources), Path(folder) / "entities").path]
            if isinstance(sources[0], Entity)
            else [*sources]
        )
        return build_ontology(stored, path, **settings)


def _mine(plan: BuildPlan, path: Path) -> None:
    mine(
        plan.store,
        [*map(Path, plan.asked.text)],
        path,
        n_process=plan.asked.n_process,
        **plan.shared(),
    )


def _encoder_title(plan: BuildPlan) -> str:
    return "Making the encoder" if plan.trained_on is None else "Training the encoder"


def _make_encoder(plan: BuildPlan, path: Path) -> None:
    """Save a pipeline without a knowledge base: with its encoder unchanged, at `path`, or trained
    on mentions, below it. The encoder that ships is averaged with what it is after training."""
    encoder, steps, progress = plan.asked.encoder, plan.asked.steps, plan.asked.progress
    overrides: dict[str, Any] = {
        "paths.ontology": str(plan.store.path),
        "system.seed": plan.asked.seed,
    }
    if encoder is not None:
        overrides |= {f"{COMPONENT}.model": {**TRANSFORMER, "name": encoder}, **FOR_TRANSFORMER}
    else:
        start = {
            "@misc": "spacy-krissel.EncoderFromPipeline.v1",
            "path": str(COMPACT),
            "contexts": True,
        }
        overrides |= {
            f"{COMPONENT}.model": compact_model(),
            f"initialize.{COMPONENT}.encoder": start,
        }
    if plan.trained_on is None:
        config = spacy.util.load_config(CONFIG, overrides=overrides).interpolate()
        nlp = spacy.blank("en")
        linker = {
            key: config["components"][LINKER][key]
            for key in ("model", "lexical_weight", "spelling_weight")
        }
        nlp.add_pipe(LINKER, config={**linker, "objective": None})
        nlp.initialize()
        if encoder is None:
            start_encoder(find_linker(nlp).model, path=COMPACT, name=LINKER, contexts=True)
    else:
        overrides["paths.mentions"] = str(plan.trained_on)
        if steps is not None:
            overrides |= {
                "training.max_steps": steps,
                "training.eval_frequency": max(1, steps // 3),
            }
        # Its log is a table, which is hidden without progress.
        with nullcontext() if progress else redirect_stdout(StringIO()):
            train(CONFIG, path, gpu_id=plan.asked.gpu_id, overrides=overrides, progress=progress)
        nlp = load_pipeline(path / DIR_MODEL_LAST)
        path = path / DIR_READY
    if encoder is None:
        model = find_linker(nlp).model
        if plan.trained_on is not None:
            before = find_linker(load_pipeline(COMPACT)).model
            average_weights([model, before], [1 - START_SHARE, START_SHARE])
        round_tables(model)
        meta = srsly.read_json(COMPACT / "meta.json")
        start = {"name": f"{meta['name']} {meta['version']}", "sources": meta["sources"]}
        nlp.meta.setdefault("krissel", {})["start"] = {LINKER: start}
    save_whole(nlp.to_disk, path)


def _encode(plan: BuildPlan, path: Path) -> None:
    """Make the prototypes."""
    store, base = plan.store, plan.folder / "encoder"
    encoding: dict[str, Any] = {
        "class_weight": CLASS_WEIGHT,
        "gpu_id": plan.asked.gpu_id,
        **plan.shared(),
    }
    if len({species for species in store.each("species") if species}) > 1:
        share = store.manifest["shared_names"] / max(1, store.manifest["names"])
        weights = {f"{COMPONENT}.species_weight": SPECIES_WEIGHT} if share >= MIN_SHARED else {}
        encoding |= {"by_species": True, "overrides": weights}
    base = base if plan.trained_on is None else base / DIR_READY
    prototypes(base, path, store.path, plan.mentions, **encoding)
    # The saved pipeline has reference cycles, and would keep its vectors in memory in addition to
    # those that are read.
    gc.collect()


def _finish(plan: BuildPlan, folder: Path) -> Built:
    """Fit the confidence, save the pipeline at its output, and load it from there."""
    asked, manifest = plan.asked, plan.store.manifest
    n_mentions, data = _save_fitted(plan, folder)
    # Reference cycles would keep the pipeline in memory in addition to the one that is loaded.
    gc.collect()
    nlp = load_pipeline(asked.output)
    return Built(nlp, asked.output, manifest["entities"], manifest["names"], n_mentions, data)


def _save_fitted(plan: BuildPlan, folder: Path) -> tuple[int, dict[str, Any]]:
    """Fit the confidence, and save the pipeline at its output. RETURNS: number of mined mentions,
    and `ConfidenceFit.data`."""
    asked = plan.asked
    nlp = load_pipeline(folder / "linker", index_device=asked.index_device)
    configure(nlp, LINKER, types_by_label=plan.types)
    fit = fit_confidence(
        nlp,
        texts=_found_mentions(plan, folder / "found.spacy"),
        precision=asked.precision,
        nil_share=asked.nil_share,
        **plan.shared(),
    )
    if plan.ner is not None:
        plan.ner.add_pipe(LINKER, source=nlp)
        plan.ner.meta.setdefault("krissel", {}).update(nlp.meta.get("krissel", {}))
        nlp = plan.ner
    forget_pages(find_linker(nlp).kb.prototypes.vectors)
    _add_finder(plan, nlp)
    # The fit changed no file of the knowledge base, and those of the unfinished build are removed.
    with hard_linking():
        save_pipeline(nlp, asked.output, name=LINKER)
    kinds = find_linker(nlp).kb.description()["prototype_kinds"]
    return kinds.get("mention", 0), fit.data


def _add_finder(plan: BuildPlan, nlp: Language) -> None:
    """Add a component that finds mentions by the names of the linker, if one is wanted."""
    find = plan.asked.find or ("auto" if plan.ner is None else "none")
    if find == "none":
        return
    if find == "auto":
        of_words, of_last = Counter[bool](), Counter[bool]()
        for _, name, _ in plan.store.names():
            has_digit = [any(map(str.isdigit, word)) for word in name.split()]
            of_words.update(has_digit)
            of_last.update(has_digit[-1:])
        are_symbols = all(each[True] >= MANY_DIGITS * each.total() for each in (of_words, of_last))
        find = "spelling" if are_symbols else "words"
    finder: Any = nlp.add_pipe(FINDER, before=LINKER, config={"variants": find})
    finder.read_names(find_linker(nlp).kb)
    if plan.asked.text:
        texts = islice(_texts(plan), MAX_COUNTED)
        counts, n_words = count_words(each.text for each in texts)
        if n_words >= MIN_COUNTED:
            finder.set_general_words(general_words(counts))


def _texts(plan: BuildPlan) -> Iterator[Text]:
    report = CorpusReport()
    return chain.from_iterable(read_texts(Path(each), report=report) for each in plan.asked.text)


def _found_mentions(plan: BuildPlan, path: Path) -> Path | None:
    """Save the first texts with the mentions that the NER finds there; None if it finds none."""
    if plan.ner is None or not plan.asked.text:
        return None
    docs = plan.ner.pipe(each.text for each in islice(_texts(plan), MAX_TEXTS))
    bin_ = DocBin(docs=(doc for doc in docs if doc.ents))
    if not len(bin_):
        return None
    bin_.to_disk(path)
    return path


STEPS = (
    Step("store", "Reading the ontology", _read_ontology),
    Step("mentions", "Mining mentions", _mine),
    Step("encoder", _encoder_title, _make_encoder),
    Step("linker", "Encoding names and mentions", _encode),
    Step("", "Fitting the confidence of links", _finish),
)

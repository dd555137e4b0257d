"""From an ontology to a pipeline that links to it, in one command."""

import gc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import spacy
import srsly
from pydantic import Field
from spacy.language import Language
from wasabi import msg

from .. import __version__
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..evaluation.confidence import MIN_STATED, TOO_FEW, fit_confidence
from ..layers.hashed_bags import round_tables
from ..mining.mine import mine
from ..mining.shards import MentionShards
from ..ontology.build import build_ontology
from ..ontology.entity import Entity
from ..ontology.provenance import provenance
from ..ontology.readers.table import TABLE_OPTIONS, read_table
from ..ontology.store import OntologyStore, write_store
from ..ontology.vocabularies.cache import locate
from ..pipeline.pipeline_io import (
    check_place,
    choose_gpu,
    configure,
    find_linker,
    load_pipeline,
    save_pipeline,
    save_whole,
)
from ..pipeline.settings import LINKER
from ..util.hashing import stable_hash
from ..util.manifest import MANIFEST, content_hash
from ..util.outputs import writes
from ..util.settings import Count, PositiveInt, checked, passes_on
from ..util.work_folder import WorkFolder
from .build_prototypes import prototypes
from .export_encoder import start_encoder
from .train_pipeline import train

CONFIG = Path(__file__).parent / "build.cfg"
# The small encoder that every build starts from, with its card in meta.json; `experiments/compact` makes it.
COMPACT = Path(__file__).parents[1] / "compact"
COMPONENT = f"components.{LINKER}"
# With fewer mined mentions nothing is trained: too few are held out to see what training does.
FEWEST_MENTIONS = 500
# In an error message.
TYPES_SHOWN = 8
# Weight of the species where entities are of several, and of their names this share or more is of several entities.
# Chosen on nine tenths of the training documents of GNormPlus, NLM-Gene and BioRED. Genes share a tenth of their
# names; cell lines one in two hundred.
SHARED = 0.05
SPECIES_WEIGHT = 0.15
TRANSFORMER: dict[str, Any] = {
    "@architectures": "spacy-krissel.TransformerEncoder.v1",
    "window": 32,
    "pooling": "mean",
    "normalize": True,
    "name_weight": 1.0,
    "mixed_precision": True,
}
# Fewer pairs at a smaller rate.
FOR_TRANSFORMER: dict[str, Any] = {
    "training.batcher.pairs": 64,
    "training.dropout": 0.0,
    "training.optimizer.learn_rate.initial_rate": 0.0001,
}


@dataclass
class Built:
    """A pipeline, and what `krissel build` says of it.

    n_entities, n_names: of the ontology. n_mentions: mined ones, 0 without text. confidence: `ConfidenceFit.data`.
    """

    nlp: Language
    output: Path
    n_entities: int
    n_names: int
    n_mentions: int
    confidence: dict[str, Any]


class BuildWork(WorkFolder):
    """The store, the mentions and the trained pipeline of an unfinished build.

    n_steps: of the whole build, which are shown if `progress`.
    """

    n_steps, progress, _step = 0, False, 0

    def begin(self, what: str) -> None:
        self._step += 1
        if self.progress:
            msg.divider(f"{self._step}/{self.n_steps} {what}")

    def has_work(self) -> bool:
        return (self.path / "store").exists()

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K680.format(path=self.path, difference=difference))

    def once(self, name: str, what: str, make: Callable[[Path], Any]) -> Path:
        """The path `name` in the folder, which `make` fills unless it did before. what: the step."""
        done = f"{name}.done"
        is_done = (self.path / done).exists()
        self.begin(f"{what} (done before)" if is_done else what)
        if not is_done:
            make(self.path / name)
            self.write(done, b"")
        return self.path / name


@writes(folders=["output"])
@passes_on(build_ontology, "format", "language", "translations", "below", "not_below", "trees", "species_words")
@passes_on(build_ontology, "version", "licence")
@passes_on(read_table, *TABLE_OPTIONS)
@passes_on(fit_confidence, "precision", "nil_share")
@checked
def build(
    ontology: Any,
    output: Path,
    *,
    text: Sequence[Path] = (),
    ner: str | None = None,
    types_by_label: Mapping[str, Sequence[str]] = {},
    encoder: str | None = None,
    steps: Count | None = None,
    seed: Count = 0,
    n_process: PositiveInt = 1,
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    index_device: str | None = None,
    restart: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Built:
    """Build a pipeline that links to an ontology: store, knowledge base, confidence.

    Without text the compact encoder that ships compares names as it is; with text, mentions of unambiguous names are
    mined, it is trained on them where there are 500 or more, and they too are prototypes. An interrupted build goes on
    where it stopped.

    ontology: an ontology file or folder, a store, the name of a vocabulary (mondo), several of them, or entities
        (`Entity`)
    output: Where to save the pipeline
    text: Unlabelled text to mine and train on: JSONL, plain text, PubMed's XML, Parquet, .tar.gz; or folders
    ner: A pipeline that finds mentions, by name or path: the linker is added to it
    types_by_label: the semantic types that mentions with a label are linked to, as the linker has it
    encoder: A transformer to train, by name or path, in place of the compact one; needs text
    steps: Training steps; 0 trains nothing; default: 600 with text
    seed: Of mining, training and what is drawn
    n_process: Processes that mine
    gpu_id: GPU, or -1 for the CPU
    index_device: Where the index lives: cpu, cuda:0 or cuda:all; the pipeline keeps it; default: cpu
    restart: Drop what an interrupted build left

    RETURNS: the pipeline, saved at `output`, and its figures.
    Raises KrisselError K005 (the output is something else), K006 (a setting), K680 (other work left), and what
    `build_ontology`, `mine`, `train`, `prototypes` and `fit_confidence` raise.
    """
    if not text and (encoder or steps):
        given = "encoder" if encoder else "steps"
        expected = "none without `text` to train on"
        raise KrisselError(Errors.K006.format(setting=given, found=encoder or steps, expected=expected))
    check_place(output)
    # Here, since a step that an interrupted build completed does not choose it.
    choose_gpu(gpu_id, silent=True)
    # Before minutes of work.
    finder = None if ner is None else load_pipeline(ner)
    if finder is not None and LINKER in finder.pipe_names:
        expected = f"a pipeline without a '{LINKER}'"
        raise KrisselError(Errors.K006.format(setting="ner", found=ner, expected=expected))
    of_confidence = {key: settings.pop(key) for key in ("precision", "nil_share") if key in settings}
    sources = _sources(ontology)
    are_files = not isinstance(sources[0], Entity)
    located = [locate(each, "auto", progress).path for each in sources] if are_files else []
    text = [*map(Path, text)]
    state = {
        "ontology": [_content(each, settings) for each in located] if are_files else stable_hash(repr(sources)),
        "text": [content_hash(each) for each in text],
        "settings": {key: value for key, value in settings.items() if value is not None and key != "translations"},
        "translations": [content_hash(Path(each)) for each in settings.get("translations", ())],
        "encoder": [encoder, content_hash(Path(encoder) if encoder else COMPACT)],
        "steps": steps,
        "seed": seed,
        "spacy-krissel": __version__,
    }
    work = BuildWork(output.absolute().with_name(f".{output.name}.build"))
    work.n_steps, work.progress = 5 if text else 4, progress
    shared: dict[str, Any] = {"seed": seed, "progress": progress}
    with work:
        work.start(state, restart=restart)

        def read(path: Path) -> None:
            with TemporaryDirectory(prefix="krissel-") as folder:
                # As a store, which settings such as `below` are applied to.
                stored = sources if are_files else [write_store(iter(sources), Path(folder) / "entities").path]
                build_ontology(stored, path, progress=progress, **settings)

        store = OntologyStore(work.once("store", "Reading the ontology", read))
        _check_types(types_by_label, store)
        mentions = None
        if text:
            mentions = work.once(
                "mentions", "Mining mentions", lambda path: mine(store, [*text], path, n_process=n_process, **shared)
            )
        trained = mentions if mentions is not None and steps != 0 and _are_enough(mentions) else None
        what = "Making the encoder" if trained is None else "Training the encoder"
        base = work.once("encoder", what, lambda path: _encoder(store, trained, path, encoder, steps, gpu_id, **shared))
        if trained is not None:
            base = base / "model-last"
        what = "Encoding names and mentions"
        encoding = {"gpu_id": gpu_id, **shared}
        if len({species for species in store.each("species") if species}) > 1:
            share = store.manifest["shared_names"] / max(1, store.manifest["names"])
            weights = {f"{COMPONENT}.species_weight": SPECIES_WEIGHT} if share >= SHARED else {}
            encoding |= {"by_species": True, "overrides": weights}
        work.once("linker", what, lambda path: prototypes(base, path, store.path, mentions, **encoding))
        # The pipeline that was saved refers to itself, and would keep all of its vectors beside those that are read.
        gc.collect()
        nlp = load_pipeline(work.path / "linker", index_device=index_device)
        configure(nlp, LINKER, types_by_label={label: [*types] for label, types in types_by_label.items()})
        work.begin("Fitting the confidence of links")
        fit = fit_confidence(nlp, **shared, **of_confidence)
        if finder is not None:
            finder.add_pipe(LINKER, source=nlp)
            finder.meta.setdefault("krissel", {}).update(nlp.meta.get("krissel", {}))
            nlp = finder
        save_pipeline(nlp, output, name=LINKER)
        manifest = store.manifest
        linker: Any = nlp.get_pipe(LINKER)
        n_mentions = linker.kb.description()["prototype_kinds"].get("mention", 0)
        work.remove()
    # Loaded again: the one above has its knowledge base in the folder that was removed.
    return Built(load_pipeline(output), output, manifest["entities"], manifest["names"], n_mentions, fit.data)


@passes_on(
    build,
    "text",
    "ner",
    "encoder",
    "steps",
    "precision",
    "nil_share",
    "format",
    "language",
    "translations",
    "below",
    "not_below",
    "trees",
    "species_words",
    "version",
    "licence",
    *TABLE_OPTIONS,
    "seed",
    "n_process",
    "gpu_id",
    "index_device",
    "restart",
    "progress",
    "force",
)
def build_files(ontology: list[Path], output: Path, *, types_by_label: Sequence[str] = (), **settings: Any) -> Built:
    """Build a linker from an ontology: all steps in one command.

    Without text the compact encoder that ships compares names as it is; with text, mentions of unambiguous names are
    mined, it is trained on them where there are 500 or more, and they too are prototypes. An interrupted build goes on
    where it stopped.

    ontology: Ontology files, stores, or names of vocabularies (krissel vocabularies)
    output: Where to save the pipeline
    types_by_label: label=type: link mentions with this label to entities of this semantic type only (Gene=Gene)
    """
    by_label: dict[str, list[str]] = {}
    for pair in types_by_label:
        label, _, type_ = pair.partition("=")
        if not (label and type_):
            raise KrisselError(Errors.K006.format(setting="types_by_label", found=pair, expected="label=type"))
        by_label.setdefault(label, []).append(type_)
    return build(ontology, output, types_by_label=by_label, **settings)


def show_build_files(built: Built) -> str:
    data = built.confidence
    mined = f", {built.n_mentions:,} mined mentions" if built.n_mentions else ""
    linked, precision = 100 * data["linked"], 100 * data["precision"]
    n, right = data["n_with_other_names"], data["right_without_the_name"]
    lines = [f"{built.n_entities:,} entities, {built.n_names:,} names{mined} in {built.output}"]
    if data["n"] < MIN_STATED:
        lines.append(TOO_FEW.format(n=data["n"]))
    else:
        if n >= MIN_STATED:
            lines.append(f"Of {n:,} names that it is not given, it links {100 * right:.0f} % rightly.")
        lines.append(
            f"Expected of mentions in text: {linked:.0f} % are linked, {precision:.0f} % of these rightly; "
            "others are NIL."
        )
    lines.append(f'Use: nlp = spacy.load("{built.output}")')
    if not [name for name in built.nlp.pipe_names if name != LINKER]:
        lines.append(
            "Nothing in it finds mentions: add it to a pipeline that does, or build it with --ner.\n"
            f'Add: nlp.add_pipe("{LINKER}", source=spacy.load("{built.output}"))'
        )
    return "\n".join(lines)


def compact_model() -> dict[str, Any]:
    """The architecture of the encoder that ships, and its settings."""
    model: dict[str, Any] = spacy.util.load_config(COMPACT / "config.cfg")["components"][LINKER]["model"]
    return model


def _sources(ontology: Any) -> list[Any]:
    """The paths and names of vocabularies, or the entities. Raises KrisselError K006 for anything else."""
    sources = (
        [ontology] if isinstance(ontology, (str, Path, Mapping)) or not isinstance(ontology, Iterable) else [*ontology]
    )
    kinds = (str, Path) if sources and isinstance(sources[0], (str, Path)) else Entity
    wrong = [each for each in sources if not isinstance(each, kinds)]
    if wrong or not sources:
        expected = "paths, names of vocabularies, or entities: Entity(id, name, [other names])"
        raise KrisselError(
            Errors.K006.format(setting="ontology", found=wrong[0] if wrong else sources, expected=expected)
        )
    return sources


def _content(source: Path, settings: dict[str, Any]) -> Any:
    """What changes with an ontology, or with the files of a folder that are read; a release has others of gigabytes."""
    if source.is_dir() and not (source / MANIFEST).is_file():
        return [each["files"] for each in provenance(source, settings.get("format") or "auto")]
    return content_hash(source)


def _check_types(types_by_label: Mapping[str, Sequence[str]], store: OntologyStore) -> None:
    """Raises KrisselError K006 for a type that no entity has."""
    wanted = {each for types in types_by_label.values() for each in types}
    known = set(chain.from_iterable(store.each("types"))) if wanted else set()
    if wanted - known:
        shown = ", ".join(map(repr, sorted(known)[:TYPES_SHOWN])) or "none"
        raise KrisselError(
            Errors.K006.format(
                setting="types_by_label",
                found=min(wanted - known),
                expected=f"one of the ontology's {len(known)} types: {shown}",
            )
        )


def _are_enough(mentions: Path) -> bool:
    n = len(MentionShards(mentions))
    if n < FEWEST_MENTIONS:
        warnings.warn(Warnings.KW680.format(n=n, fewest=FEWEST_MENTIONS), KrisselWarning, stacklevel=3)
    return n >= FEWEST_MENTIONS


def _encoder(
    store: OntologyStore,
    mentions: Path | None,
    path: Path,
    encoder: str | None,
    steps: int | None,
    gpu_id: int,
    seed: int,
    progress: bool,
) -> None:
    """A pipeline without knowledge base: its encoder as it is, at `path`, or trained on `mentions`, in model-last."""
    overrides: dict[str, Any] = {"paths.ontology": str(store.path), "system.seed": seed}
    if encoder is not None:
        overrides |= {f"{COMPONENT}.model": {**TRANSFORMER, "name": encoder}, **FOR_TRANSFORMER}
    else:
        start = {"@misc": "spacy-krissel.EncoderFromPipeline.v1", "path": str(COMPACT), "contexts": True}
        model = compact_model()
        overrides |= {f"{COMPONENT}.model": model, f"initialize.{COMPONENT}.encoder": start}
    if mentions is None:
        config = spacy.util.load_config(CONFIG, overrides=overrides).interpolate()
        nlp = spacy.blank("en")
        linker = {key: config["components"][LINKER][key] for key in ("model", "lexical_weight", "spelling_weight")}
        nlp.add_pipe(LINKER, config={**linker, "objective": None})
        nlp.initialize()
        if encoder is None:
            start_encoder(find_linker(nlp).model, path=COMPACT, name=LINKER, contexts=True)
    else:
        overrides["paths.mentions"] = str(mentions)
        if steps is not None:
            overrides |= {"training.max_steps": steps, "training.eval_frequency": max(1, steps // 3)}
        # Its log is a table, which who asked for no progress has no use for.
        with nullcontext() if progress else redirect_stdout(StringIO()):
            train(CONFIG, path, gpu_id=gpu_id, overrides=overrides, progress=progress)
        path = path / "model-last"
        nlp = load_pipeline(path)
    if encoder is None:
        round_tables(find_linker(nlp).model)
        meta = srsly.read_json(COMPACT / "meta.json")
        start = {"name": f"{meta['name']} {meta['version']}", "sources": meta["sources"]}
        nlp.meta.setdefault("krissel", {})["start"] = {LINKER: start}
    save_whole(nlp.to_disk, path)

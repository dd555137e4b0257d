"""Build of the full knowledge base of a trained pipeline."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from spacy.language import Language

from ..about import __version__
from ..building import fill as build
from ..building.encoding import Encoders, VectorWork
from ..building.fill import fill_kb
from ..building.gold_prototypes import GOLD_WEIGHT, GoldCounts, add_gold
from ..building.sources import CONTEXTS_PER_SHARED_NAME, MENTIONS_PER_ENTITY, PrototypeSource
from ..corpora.doc_bins import read_doc_bins
from ..distributed.processes import n_gpus
from ..errors import Errors, KrisselError, wrong_setting
from ..index.kinds import IndexName, named_index
from ..kb.prototype_kb import PrototypeKB
from ..ontology.build import open_ontology
from ..pipeline.card import update_card
from ..pipeline.kb_pipe import skip_loading_kb
from ..pipeline.pipeline_io import (
    check_pipeline_output,
    choose_gpu,
    find_finder,
    find_kb_pipe,
    load_pipeline,
    save_pipeline,
    update_finders,
)
from ..pipeline.settings import LINKER
from ..util.disk import coded_io
from ..util.hashing import content_hash
from ..util.outputs import writes
from ..util.settings import (
    Count,
    NotNegative,
    Positive,
    PositiveInt,
    checked,
    explicit_settings,
    takes,
)
from .encoding_workers import EncoderOf, encoding_actors, encoding_processes


def build_prototypes(
    nlp: Language,
    source: PrototypeSource,
    *,
    name: str = LINKER,
    index: Callable[..., Any] | None = None,
    scratch: Path | None = None,
    encoders: Encoders | None = None,
    work: VectorWork | None = None,
    progress: bool = False,
) -> PrototypeKB:
    """Encode `source` with the linker's encoder, including references if it has them, as the
    linker's knowledge base.

    index: an index to use instead of the config's, such as one made by
        `spacy-krissel.FaissIndex.v1`.
    scratch: a folder with space for data that does not fit into memory (`PrototypeKB.scratch`).
    encoders, work, progress: see `fill_kb`
    """
    pipe = find_kb_pipe(nlp, name)
    pipe.require_weights()
    kb = pipe.new_kb(index=index)
    kb.scratch = scratch
    given: Any = {
        "encoder": pipe.fingerprint(),
        "references": pipe.reference_parts(),
        "progress": progress,
    }
    fill_kb(kb, source, pipe.encode, encoders=encoders, work=work, **given)
    pipe.set_kb(kb)
    # Lines of file name and SHA-256.
    texts = [] if source.mentions is None else source.mentions.manifest.get("texts", [])
    facts = nlp.meta.setdefault("krissel", {})
    facts.setdefault("text", {})[name] = [text.rpartition(" ")[0] for text in texts]
    for fitted_to_another in ("confidence", "calibration"):
        facts.get(fitted_to_another, {}).pop(name, None)
    update_card(nlp)
    return kb


def add_gold_files(
    nlp: Language,
    gold: Sequence[Path],
    *,
    name: str = LINKER,
    weight: float = GOLD_WEIGHT,
    surface_forms: bool = True,
) -> dict[str, GoldCounts]:
    """Add the gold mentions of .spacy files to the linker's knowledge base, with the file name as
    source.

    weight, surface_forms: see `add_gold`. RETURNS: the counts by source.
    Raises KrisselError K520 if the knowledge base has no entities, K619 if two files have the same
    name or the knowledge base already has that source, K201 and K212 (files). Nothing is added
    then, except for K201 and K212.
    """
    sources = _gold_sources(gold)
    kb = find_kb_pipe(nlp, name).kb
    if not kb.n_entities:
        kb.check_filled()
    present = kb.description()["prototype_sources"]
    for source, path in sources.items():
        if source in present:
            problem = f"the knowledge base has {present[source]:,} prototypes of it already"
            todo = f"Remove those with kb.remove_prototypes(source='{source}'), or rename the file"
            raise KrisselError(
                Errors.K619.format(path=path, source=source, problem=problem, todo=todo)
            )
    given: Any = {"weight": weight, "surface_forms": surface_forms, "skip_unknown": True}
    return {
        source: add_gold(kb, read_doc_bins(path, nlp.vocab), source=source, **given)
        for source, path in sources.items()
    }


def _gold_sources(gold: Sequence[Path]) -> dict[str, Path]:
    """Return the files by source. Raises KrisselError K619 if two files have the same name."""
    sources: dict[str, Path] = {}
    for path in gold:
        if path.stem in sources:
            problem, todo = (
                f"'{sources[path.stem]}' has the same name",
                "Rename one of them, or leave one out",
            )
            raise KrisselError(
                Errors.K619.format(path=path, source=path.stem, problem=problem, todo=todo)
            )
        sources[path.stem] = path
    return sources


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Settings of a `PrototypeSource` that the command exposes.

    names, mentions_per_entity, contexts_per_shared_name, max_entities, aliases, use_references: see
        `PrototypeSource`
    reference_prototypes, mentions_only, shared_names, by_species, details: see `PrototypeSource`
    class_names: Add induced hypernym names: words shared by the names of the entities below a class
        (needs parents or tree numbers)
    class_weight: Multiply the scores of class names by this
    """

    names: bool = True
    mentions_per_entity: Count = MENTIONS_PER_ENTITY
    contexts_per_shared_name: Count = CONTEXTS_PER_SHARED_NAME
    max_entities: Count = 0
    aliases: bool = True
    class_names: bool = True
    class_weight: Positive = 1.0
    use_references: bool = True
    reference_prototypes: bool = False
    mentions_only: bool = False
    shared_names: bool = False
    by_species: bool = False
    details: bool = True


@dataclass(frozen=True, kw_only=True)
class GoldSettings:
    """Settings of `add_gold` that the command exposes.

    gold_weight: Multiply the scores of gold prototypes by this
    gold_names: Add the bare text of each gold mention as a name of its entity
    learn_names: The finder learns which names to find, and which not; all mentions in the documents
        with gold mentions must be annotated
    """

    gold_weight: NotNegative = GOLD_WEIGHT
    gold_names: bool = True
    learn_names: bool = False


@checked
@dataclass(frozen=True)
class PrototypeSettings(GoldSettings, SourceSettings):
    """Settings of `prototypes`.

    pipeline: A trained pipeline
    output: Folder to save the pipeline with its knowledge base in
    ontology: Ontology store or file, or the name of a vocabulary; without it, gold mentions
        (`gold`) are added to the pipeline's knowledge base
    mentions: Mention shards; without them, names only
    gold: Gold mentions (.spacy) as prototypes too
    index: Type of the index; default: as the config says
    index_device: Where the index lives: cpu, cuda:0 or cuda:all; the pipeline keeps it; default: as
        the config says
    kb_path: Save the knowledge base here and let the pipeline point to it
    overrides: of the pipeline's config, by dotted key
    name: Name of the linker, or span extractor, in the pipeline
    seed: Random seed of samples
    n_process: Number of processes that encode, on the GPUs from gpu_id on, or on the CPU
    gpu_id: GPU, or -1 for the CPU
    ray: Encode with Ray: "local" on this machine, or the address of a cluster, as host:port, or
        auto; the files must be on all of its machines, and gpu_id 0 uses its GPUs
    restart: Discard the work of an interrupted run; otherwise a run with the same input resumes,
        and one with other input is refused. Gold mentions are always encoded again, on this
        machine.
    """

    pipeline: str | Path
    output: Path
    ontology: Path | None = None
    mentions: Path | None = None
    _: KW_ONLY
    gold: Sequence[Path] = ()
    index: IndexName | Callable[..., Any] | None = None
    index_device: str | None = None
    kb_path: Path | None = None
    overrides: dict[str, Any] | None = None
    name: str = LINKER
    seed: Count = 0
    n_process: PositiveInt = 1
    gpu_id: Annotated[int, Field(ge=-1)] = -1
    ray: str | None = None
    restart: bool = False
    progress: bool = False


@writes(folders=["output", "kb_path"])
@takes(PrototypeSettings)
def prototypes(asked: PrototypeSettings) -> dict[str, Any]:
    """Make the knowledge base: encode names and mentions.

    Names, mined mentions (KRISSBERT §3.4) and gold mentions (§3.7) become prototypes.

    Further options override the pipeline's config: --components.krissel_linker.threshold 0.6

    RETURNS: the knowledge base's description; with `learn_names` also the numbers of `names_added`
    and `names_left_out`.
    Raises KrisselError K005 (the output is something else), K006 (a setting), K023 to K025 and K029
    (Ray), K026 (disk), K045 (another run writes there), K529 (other unfinished work), K641 (a
    process died), K675 (no such GPU), K614 if there is neither an ontology nor gold, or a setting
    needs the missing one, K620 (no finder that learns), and those of `add_gold_files` and
    `KrisselFinder.learn`.
    """
    _check_read(asked)
    index, name = asked.index, asked.name
    made_by = named_index(index, asked.index_device or "cpu") if isinstance(index, str) else index
    # Before hours of encoding.
    check_pipeline_output(asked.output, asked.kb_path)
    _gold_sources(asked.gold)
    # With Ray, this machine may have no GPU.
    if asked.ray is None or asked.gpu_id < n_gpus():
        choose_gpu(asked.gpu_id, silent=not asked.progress)
    # The replaced knowledge base is not read: it may be from other weights.
    with skip_loading_kb(name) if asked.ontology is not None else nullcontext():
        nlp = load_pipeline(asked.pipeline, asked.overrides, index_device=asked.index_device)
    learned: dict[str, int] = {}
    if asked.learn_names:
        find_finder(nlp, name)
    with ExitStack() as stack:
        work = (
            None if asked.ontology is None else stack.enter_context(_encoded(nlp, asked, made_by))
        )
        of_gold: Any = {"weight": asked.gold_weight, "surface_forms": asked.gold_names}
        add_gold_files(nlp, asked.gold, name=name, **of_gold)
        pipe = find_kb_pipe(nlp, name)
        if pipe.kb_path and asked.kb_path is None:
            # The new knowledge base is not in the folder that the pipeline referred to.
            pipe.kb_path = None
            nlp.get_pipe_config(name)["kb_path"] = None
        pipe.kb.check_filled()
        # The weight of gold mentions depends on names.
        if pipe.cfg.get("lexical_weight") or pipe.cfg.get("spelling_weight") or pipe.kb.has_gold:
            pipe.kb.keep_lexical_index()
        if work is not None:
            update_finders(nlp, name)
        if asked.learn_names:
            docs = chain.from_iterable(read_doc_bins(path, nlp.vocab) for path in asked.gold)
            found = find_finder(nlp, name).learn(docs, pipe.kb)
            learned = {f"names_{key}": found[key] for key in ("added", "left_out")}
        save_pipeline(nlp, asked.output, kb_path=asked.kb_path, name=name)
        if work is not None:
            work.remove()
    return {**pipe.kb.description(), **learned}


def show_prototypes(description: dict[str, Any]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in description.items())


def _check_read(asked: PrototypeSettings) -> None:
    """Raise KrisselError K614 for settings that nothing would read, K006 for processes in addition
    to Ray's."""
    if asked.ontology is None:
        plain = {"mentions": None, "index": None, "n_process": 1, "ray": None, "restart": False}
        unread = [name for name, default in plain.items() if getattr(asked, name) != default]
        if unread := [*unread, *explicit_settings(asked, SourceSettings)]:
            raise KrisselError(
                Errors.K614.format(
                    problem=f"Without an ontology, nothing reads {', '.join(unread)}"
                )
            )
        if not asked.gold:
            raise KrisselError(Errors.K614.format(problem="There is nothing to make prototypes of"))
    if not asked.gold and (unread := [*explicit_settings(asked, GoldSettings)]):
        raise KrisselError(
            Errors.K614.format(problem=f"Without gold mentions, nothing reads {', '.join(unread)}")
        )
    if asked.ray is not None and asked.n_process != 1:
        raise wrong_setting("n_process", asked.n_process, "1, since Ray has its own")


@contextmanager
def _encoded(
    nlp: Language, asked: PrototypeSettings, index: Callable[..., Any] | None
) -> Iterator[VectorWork]:
    """Fill the knowledge base from the ontology, reusing the vectors of an interrupted run."""
    assert asked.ontology is not None
    # On the disk of the result.
    target = (asked.kb_path or asked.output).absolute()
    scratch = target.parent
    with coded_io(scratch):
        scratch.mkdir(parents=True, exist_ok=True)
    pipe = find_kb_pipe(nlp, asked.name)
    pipe.require_weights()
    store = open_ontology(asked.ontology, progress=asked.progress)
    drawn = {**explicit_settings(asked, SourceSettings), "seed": asked.seed}
    # All that the vectors depend on.
    state = {
        "ontology": content_hash(store.path),
        "mentions": asked.mentions and content_hash(asked.mentions),
        **drawn,
        "overrides": asked.overrides or {},
        "version": __version__,
        "encoder": pipe.fingerprint(),
        "references": str(pipe.reference_parts()),
        "block": build.BLOCK_VIEWS,
    }
    with VectorWork(target, state, restart=asked.restart) as work:
        source = PrototypeSource(store, asked.mentions, **drawn)
        path: Any = (
            Path(asked.pipeline).absolute() if Path(asked.pipeline).exists() else asked.pipeline
        )
        encoder = EncoderOf(path, asked.overrides or {}, asked.name)
        with _encoders(encoder, asked.n_process, asked.gpu_id, asked.ray) as encoders:
            settings: dict[str, Any] = {"scratch": scratch, "encoders": encoders, "work": work}
            build_prototypes(
                nlp, source, name=asked.name, index=index, progress=asked.progress, **settings
            )
        yield work


def _encoders(
    encoder: EncoderOf, n_process: int, gpu_id: int, ray: str | None
) -> AbstractContextManager[Encoders | None]:
    if ray is not None:
        return encoding_actors(encoder, ray, gpu_id)
    return encoding_processes(encoder, n_process, gpu_id) if n_process > 1 else nullcontext()

"""Pipelines as a whole: loading, atomic saving, finding components and filtering texts by
length."""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import spacy
from spacy.language import Language
from spacy.util import get_package_path, is_package, load_config
from thinc.api import set_gpu_allocator

from ..distributed.processes import use_tf32
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..finding.finder import NameFinder
from ..kb.directory import KIND as KB
from ..util.atomic import check_parent, commit_folder, temporary_folder
from ..util.hashing import content_hash
from ..util.manifest import check_replaceable
from ..util.seal import is_changed, mark_changed, seal
from .card import update_card, write_licences
from .finder import KrisselFinder
from .kb_pipe import KBPipe
from .linker.component import KrisselLinker
from .pipe import link_writers
from .settings import LINKER

Item = TypeVar("Item")
# Number of ids of too long texts in the warning.
MAX_IDS = 3
# Key of a component's config that makes its knowledge base.
KB_FACTORY_KEY = "generate_empty_kb"
# Key of a pipeline's meta for the added names whose entities its knowledge base lacks.
INACTIVE_NAMES = "inactive_names"
# Files that every saved pipeline has.
PIPELINE_FILES = ("config.cfg", "meta.json")


def load_pipeline(
    pipeline: str | Path, config: dict[str, Any] | None = None, *, index_device: str | None = None
) -> Language:
    """Load a pipeline from a directory or an installed package, as `spacy.load` does.

    config: overrides of the pipeline's config, such as `components.krissel_linker.threshold`.
    index_device: overrides this setting of all its knowledge bases (`PrototypeKB`).
    Raises KrisselError K611 if there is no pipeline or it cannot be read.
    """
    name = str(pipeline)
    if not Path(pipeline).exists() and not is_package(name):
        raise KrisselError(
            Errors.K611.format(path=pipeline, problem="there is no such directory or package")
        )
    try:
        overrides = {**(config or {})}
        if index_device is not None:
            overrides |= {
                f"{section}.index_device": index_device for section in _kb_sections(pipeline)
            }
        nlp = spacy.load(pipeline if Path(pipeline).exists() else name, config=overrides)
        if is_changed(Path(pipeline)):
            mark_changed(nlp.meta)
        return nlp
    except (KrisselError, MemoryError):
        raise
    # A damaged directory raises many types of error: from files, JSON or the config.
    except Exception as error:
        raise KrisselError(
            Errors.K611.format(path=pipeline, problem=f"{type(error).__name__}: {error}")
        ) from error


def open_to_change(pipeline: Language | str | Path, output: Path | None) -> Language:
    """Return the pipeline, loaded if it is a path or package.

    output: folder that the changed pipeline will be saved in.
    Raises KrisselError K006 (a path without an output), and what `check_pipeline_output` and
    `load_pipeline` raise.
    """
    if output is not None:
        check_pipeline_output(output)
    if isinstance(pipeline, Language):
        return pipeline
    if output is None:
        expected = "a folder to save the pipeline in, which is loaded from a path"
        raise wrong_setting("output", output, expected)
    return load_pipeline(pipeline)


def pipeline_hash(pipeline: str | Path) -> str:
    """Return the SHA-256 of a pipeline's files, with those of a knowledge base by its manifest.

    Raises KrisselError K611 if there is no pipeline, or its config cannot be read.
    """
    try:
        config = _config_path(pipeline)
        components = load_config(config)["components"].values()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise KrisselError(Errors.K611.format(path=pipeline, problem=problem)) from error
    root = config.parent
    parts = [root, *(Path(each["kb_path"]) for each in components if each.get("kb_path"))]
    return hashlib.sha256("".join(map(content_hash, parts)).encode()).hexdigest()


def _config_path(pipeline: str | Path) -> Path:
    if Path(pipeline).exists():
        return Path(pipeline) / "config.cfg"
    (path,) = get_package_path(str(pipeline)).glob("*/config.cfg")
    return path


def _kb_sections(pipeline: str | Path) -> list[str]:
    """Return the sections of a pipeline's config that make knowledge bases."""
    components = load_config(_config_path(pipeline))["components"].items()
    return [
        f"components.{name}.{KB_FACTORY_KEY}" for name, each in components if KB_FACTORY_KEY in each
    ]


def choose_gpu(gpu_id: int, allocator: str | None = "pytorch", *, silent: bool = False) -> None:
    """Use this GPU, or the CPU for -1. Enables TF32 on a GPU (`use_tf32`).

    allocator: memory allocator of CuPy (`set_gpu_allocator`); None: its own, or the training
        config's.
    Raises KrisselError K675 if there is no such GPU.
    """
    from spacy.cli._util import setup_gpu

    try:
        setup_gpu(gpu_id, silent)
        if gpu_id >= 0:
            use_tf32()
            if allocator is not None:
                set_gpu_allocator(allocator)
    except (ValueError, RuntimeError) as error:
        raise KrisselError(Errors.K675.format(gpu_id=gpu_id, problem=error)) from error


def save_pipeline(
    nlp: Language, output: Path, *, kb_path: Path | None = None, name: str = LINKER
) -> None:
    """Save the pipeline with its card (`update_card`) and its knowledge base.

    kb_path: saves a large knowledge base there, outside the pipeline's folder.
    Raises KrisselError K005 and K006 as `check_pipeline_output` does.
    """
    pipe = find_kb_pipe(nlp, name)
    check_pipeline_output(output, kb_path or (Path(pipe.kb_path) if pipe.kb_path else None))
    if kb_path is not None:
        # The pipeline may be loaded from any working directory.
        kb_path = kb_path.absolute()
        pipe.kb.to_disk(kb_path)
        pipe.kb_path = str(kb_path)
        # Not in `nlp.config`, which is rebuilt from the pipe configs on every access.
        nlp.get_pipe_config(name)["kb_path"] = str(kb_path)
    update_card(nlp)

    def to_disk(folder: Path) -> None:
        nlp.to_disk(folder)
        write_licences(nlp, folder)

    save_whole(to_disk, output)


def configure(nlp: Language, name: str, **settings: Any) -> None:
    """Change settings of a pipe and of the pipeline's config, as if the pipe had been made with
    them."""
    pipe: Any = nlp.get_pipe(name)
    pipe.configure(**settings)
    nlp.get_pipe_config(name).update({setting: pipe.cfg[setting] for setting in settings})


def save_whole(to_disk: Callable[..., Any], output: str | Path, **settings: Any) -> None:
    """Save a pipeline atomically: write it to a temporary folder, then replace `output` by rename.

    spaCy writes into the folder file by file. If that process is killed, the folder may load with
    parts of an earlier pipeline.

    settings: passed to `to_disk`. Raises KrisselError K005 if `output` holds something other than a
        pipeline.
    """
    # The target of a symbolic link is replaced, not the link.
    output = Path(output).resolve()
    check_pipeline_output(output)
    with temporary_folder(output) as folder:
        to_disk(folder, **settings)
        seal(folder)
        commit_folder(folder, output)


def check_pipeline_output(output: Path, kb_path: Path | None = None) -> None:
    """Check that a pipeline can be saved in `output`.

    Raises KrisselError K005 if `output` holds something other than a pipeline, or `kb_path`
    something other than a knowledge base; K006 if `output` is a mount point, or `kb_path` is inside
    `output`; K026 if the folder cannot be written.
    """
    if kb_path is not None and output.absolute() in (
        kb_path.absolute(),
        *kb_path.absolute().parents,
    ):
        expected = f"a folder outside '{output}', which is replaced as a whole"
        raise wrong_setting("kb_path", kb_path, expected)
    if kb_path is not None:
        check_replaceable(kb_path, KB)
    if os.path.ismount(output):
        expected = "a folder within it: a whole disk cannot be replaced"
        raise wrong_setting("output", output, expected)
    check_parent(output)
    if not output.exists():
        return
    if not output.is_dir() or (
        any(output.iterdir()) and not all((output / file_).is_file() for file_ in PIPELINE_FILES)
    ):
        raise KrisselError(Errors.K005.format(path=output, kind="pipeline"))


def find_linker(nlp: Language, name: str = LINKER) -> KrisselLinker:
    """Return the linker of a pipeline, enabled or not. Raises KrisselError K610 if there is none
    called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(
            Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing")
        )
    return pipe


def find_kb_pipe(nlp: Language, name: str) -> KBPipe:
    """Return a pipe with a knowledge base (linker or span extractor), enabled or not. Raises
    KrisselError K610 if there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KBPipe):
        raise KrisselError(
            Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing")
        )
    return pipe


def mention_setters(nlp: Language) -> list[str]:
    """Return the enabled components that set mentions (`doc.ents` or spans) without linking them.
    Docs that keep their given mentions are processed with these disabled.
    """
    links = link_writers(nlp)
    setters = (
        {"doc.ents", "doc.spans"}.intersection(nlp.get_pipe_meta(name).assigns)
        for name in nlp.pipe_names
    )
    return [
        name
        for name, sets in zip(nlp.pipe_names, setters, strict=True)
        if sets and name not in links
    ]


def finders_of(nlp: Language, linker: str) -> list[tuple[str, KrisselFinder]]:
    """Return the finders of a linker, enabled or not, with their names."""
    return [
        (name, pipe)
        for name, pipe in nlp.components
        if isinstance(pipe, KrisselFinder) and pipe.linker_name == linker
    ]


def name_finders(nlp: Language, linker: str) -> list[NameFinder]:
    """Return what finds names for a linker now. Raises as `KrisselFinder.finder`."""
    return [pipe.finder() for _, pipe in finders_of(nlp, linker)]


def find_finder(nlp: Language, linker: str = LINKER) -> KrisselFinder:
    """Return the first finder of a linker. Raises KrisselError K620 if there is none."""
    for _, pipe in finders_of(nlp, linker):
        return pipe
    found = ", ".join(nlp.component_names) or "nothing"
    raise KrisselError(Errors.K620.format(linker=linker, found=found))


class AddedName(NamedTuple):
    """One of a finder's `added_names`, with the id that was given.

    was_active: it was found before. entities: the ids that its id leads to, exactly one if it is
        found now (a person has to choose between several).
    """

    name: str
    id: str
    was_active: bool
    entities: list[str]


def update_finders(nlp: Language, linker: str) -> list[AddedName]:
    """Give the finders of a linker the names of its knowledge base.

    `added_names` whose entities it lacks, or has split, are kept in the pipeline's meta, and are
    found again as soon as it has them. Warns KW628 of these names.

    RETURNS: the `added_names` of all finders.
    """
    found: list[AddedName] = []
    for name, pipe in finders_of(nlp, linker):
        kb = find_linker(nlp, linker).kb
        pipe.read_names(kb)
        inactive = nlp.meta.setdefault("krissel", {}).setdefault(INACTIVE_NAMES, {})
        active = pipe.cfg.added_names
        added = {**inactive.pop(name, {}), **active}
        own = [AddedName(text, id_, text in active, kb.owners(id_)) for text, id_ in added.items()]
        gone = {each.name: each.id for each in own if len(each.entities) != 1}
        pipe.cfg.added_names = {text: id_ for text, id_ in added.items() if text not in gone}
        found += own
        if gone:
            inactive[name] = gone
            names = ", ".join(f"'{text}' ({id_})" for text, id_ in gone.items())
            message = Warnings.KW628.format(
                name=pipe.name, n=len(gone), total=len(added), names=names
            )
            warnings.warn(message, KrisselWarning, stacklevel=2)
        elif not inactive:
            del nlp.meta["krissel"][INACTIVE_NAMES]
    return found


def within_max_length(
    nlp: Language, items: Iterable[Item], text_and_id: Callable[[Item], tuple[str, str]]
) -> Iterator[Item]:
    """Yield the items whose text is within `nlp.max_length`: a longer one would end the run (E088).

    Warns KW620 once, at the end, with the number and the first ids of the others.
    """
    total = 0
    longer: list[str] = []
    for item in items:
        text, id_ = text_and_id(item)
        total += 1
        if len(text) > nlp.max_length:
            longer.append(id_)
        else:
            yield item
    if longer:
        first = ", ".join(longer[:MAX_IDS])
        message = Warnings.KW620.format(
            count=len(longer), total=total, limit=nlp.max_length, first=first
        )
        warnings.warn(message, KrisselWarning, stacklevel=2)

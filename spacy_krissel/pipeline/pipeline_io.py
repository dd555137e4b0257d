"""Pipelines as a whole: loaded, saved atomically, searched for components, and given texts that they can read."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import spacy
from spacy.language import Language
from spacy.util import get_package_path, is_package, load_config
from thinc.api import set_gpu_allocator

from ..distributed.processes import use_tf32
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..kb.directory import KIND as KB
from ..util.atomic import check_parent, commit_folder, temporary_folder
from ..util.manifest import check_replaceable
from .card import update_card, write_licences
from .kb_pipe import KBPipe
from .linker.component import KrisselLinker
from .settings import LINKER

Item = TypeVar("Item")
# Ids of texts that are too long, shown in the warning.
MAX_IDS = 3
# The part of a component's config that makes its knowledge base.
KB_MAKER = "generate_empty_kb"
# Files that every saved pipeline has.
OF_PIPELINE = ("config.cfg", "meta.json")


def load_pipeline(
    pipeline: str | Path, config: dict[str, Any] | None = None, *, index_device: str | None = None
) -> Language:
    """`spacy.load` for a directory or an installed package.

    config: overrides of the pipeline's config, such as `components.krissel_linker.threshold`.
    index_device: overrides the setting of all its knowledge bases (`PrototypeKB`).
    Raises KrisselError K611 when there is no pipeline, or one that cannot be read.
    """
    name = str(pipeline)
    if not Path(pipeline).exists() and not is_package(name):
        raise KrisselError(Errors.K611.format(path=pipeline, problem="there is no such directory or package"))
    try:
        overrides = {**(config or {})}
        if index_device is not None:
            overrides |= {f"{section}.index_device": index_device for section in _kb_sections(pipeline)}
        return spacy.load(pipeline if Path(pipeline).exists() else name, config=overrides)
    except (KrisselError, MemoryError):
        raise
    # A damaged directory ends in errors of many kinds: of files, of JSON, of the config.
    except Exception as error:
        raise KrisselError(Errors.K611.format(path=pipeline, problem=f"{type(error).__name__}: {error}")) from error


def open_to_change(pipeline: Language | str | Path, output: Path | None) -> Language:
    """Return the pipeline, loaded where it is a path or package; `output` is where its changed form is to be saved.

    Raises KrisselError K006 (a path without an output), and what `check_place` and `load_pipeline` raise.
    """
    if output is not None:
        check_place(output)
    if isinstance(pipeline, Language):
        return pipeline
    if output is None:
        expected = "a folder to save the pipeline in, which is loaded from a path"
        raise wrong_setting("output", output, expected)
    return load_pipeline(pipeline)


def _kb_sections(pipeline: str | Path) -> list[str]:
    """The sections of a pipeline's config that make knowledge bases."""
    path = Path(pipeline) / "config.cfg"
    if not Path(pipeline).exists():
        (path,) = get_package_path(str(pipeline)).glob("*/config.cfg")
    components = load_config(path)["components"].items()
    return [f"components.{name}.{KB_MAKER}" for name, each in components if KB_MAKER in each]


def choose_gpu(gpu_id: int, allocator: str | None = "pytorch", *, silent: bool = False) -> None:
    """Work on this GPU, or with -1 on the CPU. On a GPU, with TF32 (`use_tf32`).

    allocator: of CuPy's memory (`set_gpu_allocator`); None: its own, or what the training config says.
    Raises KrisselError K675 where there is no such GPU.
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


def save_pipeline(nlp: Language, output: Path, *, kb_path: Path | None = None, name: str = LINKER) -> None:
    """Save the pipeline with its card (`update_card`) and knowledge base; with `kb_path` that beside it, if too large.

    Raises KrisselError K005 and K006 as `check_place` does.
    """
    pipe = find_kb_pipe(nlp, name)
    check_place(output, kb_path or (Path(pipe.kb_path) if pipe.kb_path else None))
    if kb_path is not None:
        # The pipeline is loaded from any working directory.
        kb_path = kb_path.absolute()
        pipe.kb.to_disk(kb_path)
        pipe.kb_path = str(kb_path)
        # Not in `nlp.config`, which is made anew from these at every access.
        nlp.get_pipe_config(name)["kb_path"] = str(kb_path)
    update_card(nlp)

    def to_disk(folder: Path) -> None:
        nlp.to_disk(folder)
        write_licences(nlp, folder)

    save_whole(to_disk, output)


def configure(nlp: Language, name: str, **settings: Any) -> None:
    """Change settings of a pipe and in the pipeline's config, as if it had been made with them."""
    pipe: Any = nlp.get_pipe(name)
    pipe.configure(**settings)
    nlp.get_pipe_config(name).update({setting: pipe.cfg[setting] for setting in settings})


def save_whole(to_disk: Callable[..., Any], output: str | Path, **settings: Any) -> None:
    """What `nlp.to_disk` writes, put in the place of an earlier pipeline and its folder when all of it is there.

    spaCy writes into the folder file by file: a process that was killed meanwhile leaves one that may load, with some
    of an earlier pipeline.

    settings: of `to_disk`. Raises KrisselError K005 when `output` holds something else than a pipeline.
    """
    # Of a link to a folder it is the folder that is replaced.
    output = Path(output).resolve()
    check_place(output)
    with temporary_folder(output) as folder:
        to_disk(folder, **settings)
        commit_folder(folder, output)


def check_place(output: Path, kb_path: Path | None = None) -> None:
    """Raises KrisselError K005 when `output` holds something else than a pipeline, or `kb_path` than a knowledge base;
    K006 when the output is a whole disk, or the knowledge base is to be apart from the pipeline, but in its folder;
    K026 where nothing can be written there.
    """
    if kb_path is not None and output.absolute() in (kb_path.absolute(), *kb_path.absolute().parents):
        expected = f"a folder outside '{output}', which is written anew as a whole"
        raise wrong_setting("kb_path", str(kb_path), expected)
    if kb_path is not None:
        check_replaceable(kb_path, KB)
    if os.path.ismount(output):
        expected = "a folder within it: a whole disk cannot be replaced when the pipeline is there"
        raise wrong_setting("output", str(output), expected)
    check_parent(output)
    if not output.exists():
        return
    if not output.is_dir() or (any(output.iterdir()) and not all((output / file_).is_file() for file_ in OF_PIPELINE)):
        raise KrisselError(Errors.K005.format(path=output, kind="pipeline"))


def find_linker(nlp: Language, name: str = LINKER) -> KrisselLinker:
    """The linker of a pipeline, be it disabled. Raises KrisselError K610 when there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing"))
    return pipe


def find_kb_pipe(nlp: Language, name: str) -> KBPipe:
    """A pipe with a knowledge base, linker or span extractor, be it disabled. Raises KrisselError K610 when there is
    none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KBPipe):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing"))
    return pipe


def link_writers(nlp: Language) -> list[str]:
    """The enabled components that write links, re-rankers among them."""
    return [name for name in nlp.pipe_names if "token.ent_kb_id" in nlp.get_pipe_meta(name).assigns]


def mention_setters(nlp: Language) -> list[str]:
    """The enabled components that set mentions, `doc.ents` or spans, and do not link them: what is switched off where
    docs keep the mentions that they have."""
    links = link_writers(nlp)
    setters = ({"doc.ents", "doc.spans"}.intersection(nlp.get_pipe_meta(name).assigns) for name in nlp.pipe_names)
    return [name for name, sets in zip(nlp.pipe_names, setters, strict=True) if sets and name not in links]


def of_length(nlp: Language, items: Iterable[Item], text_and_id: Callable[[Item], tuple[str, str]]) -> Iterator[Item]:
    """The items whose text is within `nlp.max_length`: at a longer one spaCy would end the whole run (E088).

    Warns KW620 of the others at the end, once.
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
        message = Warnings.KW620.format(count=len(longer), total=total, limit=nlp.max_length, first=first)
        warnings.warn(message, KrisselWarning, stacklevel=2)

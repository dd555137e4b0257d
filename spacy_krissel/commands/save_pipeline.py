"""Save a pipeline, whole or not at all."""

import os
import shutil
from pathlib import Path
from typing import Any, Callable, Optional, Union

from spacy.language import Language

from ..errors import Errors, KrisselError
from ..kb.directory import KIND as KB
from ..pipeline.find import find_kb_pipe
from ..util.atomic import beside, put_in_place
from ..util.manifest import check_replaceable
from ..util.whole_file import check_parent

# Files that every saved pipeline has.
OF_PIPELINE = ("config.cfg", "meta.json")


def save_pipeline(nlp: Language, output: Path, *, kb_path: Optional[Path] = None, name: str = "krissel_linker") -> None:
    """Save the pipeline with its knowledge base inside; or, with `kb_path`, beside it, if too large for a wheel.

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
    save_whole(nlp.to_disk, output)


def save_whole(to_disk: Callable[..., Any], output: Union[str, Path], **settings: Any) -> None:
    """What `nlp.to_disk` writes, put in the place of an earlier pipeline and its folder when all of it is there.

    spaCy writes into the folder file by file: a process that was killed meanwhile leaves one that may load, with some
    of an earlier pipeline.

    settings: of `to_disk`. Raises KrisselError K005 when `output` holds something else than a pipeline.
    """
    # Of a link to a folder it is the folder that is replaced.
    output = Path(output).resolve()
    check_place(output)
    with beside(output) as folder:
        to_disk(folder, **settings)
        put_in_place(folder, output)


def copy_whole(source: Union[str, Path], output: Union[str, Path]) -> None:
    """`shutil.copytree`, put in place when all of it is there."""
    output = Path(output).resolve()
    with beside(output) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        put_in_place(folder, output)


def check_place(output: Path, kb_path: Optional[Path] = None) -> None:
    """Raises KrisselError K005 when `output` holds something else than a pipeline, or `kb_path` than a knowledge base;
    K006 when the output is a whole disk, or the knowledge base is to be apart from the pipeline, but in its folder;
    K026 where nothing can be written there.
    """
    if kb_path is not None and output.absolute() in (kb_path.absolute(), *kb_path.absolute().parents):
        expected = f"a folder outside '{output}', which is written anew as a whole"
        raise KrisselError(Errors.K006.format(setting="kb_path", found=str(kb_path), expected=expected))
    if kb_path is not None:
        check_replaceable(kb_path, KB)
    if os.path.ismount(output):
        expected = "a folder within it: a whole disk cannot be replaced when the pipeline is there"
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected=expected))
    check_parent(output)
    if not output.exists():
        return
    if not output.is_dir() or (any(output.iterdir()) and not all((output / file_).is_file() for file_ in OF_PIPELINE)):
        raise KrisselError(Errors.K005.format(path=output, kind="pipeline"))

"""Save a pipeline, whole or not at all."""

import shutil
from pathlib import Path
from typing import Any, Callable, Optional, Union

from spacy.language import Language

from ..errors import Errors, KrisselError
from ..util.beside import beside, put_in_place
from .find import find_kb_pipe

# Files that every saved pipeline has.
OF_PIPELINE = ("config.cfg", "meta.json")


def save_pipeline(nlp: Language, output: Path, *, kb_path: Optional[Path] = None, name: str = "krissel_linker") -> None:
    """Save the pipeline with its knowledge base inside; or, with `kb_path`, beside it, if too large for a wheel.

    Raises KrisselError K005 when `output` holds something else than a pipeline.
    """
    check_place(output)
    pipe = find_kb_pipe(nlp, name)
    if kb_path is not None:
        pipe.kb.to_disk(kb_path)
        pipe.kb_path = str(kb_path)
        # Not in `nlp.config`, which is made anew from these at every access.
        nlp.get_pipe_config(name)["kb_path"] = str(kb_path)
    save_whole(nlp.to_disk, output)


def save_whole(to_disk: Callable[[Path], Any], output: Union[str, Path]) -> None:
    """What `nlp.to_disk` writes, put in the place of an earlier pipeline when all of it is there.

    spaCy writes into the folder file by file: a process that was killed meanwhile leaves one that may load, with some
    of an earlier pipeline.

    Raises KrisselError K005 when `output` holds something else than a pipeline.
    """
    output = Path(output).absolute()
    check_place(output)
    with beside(output) as folder:
        to_disk(folder)
        put_in_place(folder, output)


def copy_whole(source: Union[str, Path], output: Union[str, Path]) -> None:
    """`shutil.copytree`, put in place when all of it is there."""
    output = Path(output).absolute()
    with beside(output) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        put_in_place(folder, output)


def check_place(output: Path) -> None:
    """Raises KrisselError K005 when `output` holds something else than a pipeline."""
    if not output.exists():
        return
    if not output.is_dir() or (any(output.iterdir()) and not all((output / file_).is_file() for file_ in OF_PIPELINE)):
        raise KrisselError(Errors.K005.format(path=output, kind="pipeline"))

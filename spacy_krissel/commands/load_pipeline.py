"""Open a saved pipeline by path or by the name of its package."""

from pathlib import Path
from typing import Any, Dict, Optional, Union

import spacy
from spacy.cli._util import setup_gpu
from spacy.language import Language
from spacy.util import is_package

from ..errors import Errors, KrisselError


def load_pipeline(pipeline: Union[str, Path], config: Optional[Dict[str, Any]] = None) -> Language:
    """`spacy.load` for a directory or an installed package.

    config: overrides of the pipeline's config, such as `components.krissel_linker.threshold`.
    Raises KrisselError K611 when there is no pipeline, or one that cannot be read.
    """
    name = str(pipeline)
    if not Path(pipeline).exists() and not is_package(name):
        raise KrisselError(Errors.K611.format(path=pipeline, problem="there is no such directory or package"))
    try:
        return spacy.load(pipeline if Path(pipeline).exists() else name, config=config or {})
    except (KrisselError, MemoryError):
        raise
    # A damaged directory ends in errors of many kinds: of files, of JSON, of the config.
    except Exception as error:
        raise KrisselError(Errors.K611.format(path=pipeline, problem=f"{type(error).__name__}: {error}")) from error


def choose_gpu(gpu_id: int) -> None:
    """Work on this GPU, or with -1 on the CPU. Raises KrisselError K675 where there is no such GPU."""
    try:
        setup_gpu(gpu_id)
    except (ValueError, RuntimeError) as error:
        raise KrisselError(Errors.K675.format(gpu_id=gpu_id, problem=error)) from error

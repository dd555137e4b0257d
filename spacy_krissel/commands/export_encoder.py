"""The encoder of a trained pipeline as the start of another one."""

from functools import partial
from pathlib import Path
from typing import Callable, Optional, Union

from thinc.api import Model

from ..errors import Errors, KrisselError
from ..layers.hf.weights import average_with, start_from, write_transformer
from ..pipeline.pipeline_io import find_kb_pipe, find_linker, load_pipeline
from ..util.atomic import check_folder


def export_encoder(
    pipeline: Union[str, Path],
    output: Path,
    *,
    name: str = "krissel_linker",
    average: Optional[str] = None,
    share: float = 0.5,
) -> None:
    """Write the transformer of a trained pipeline as a directory with config, tokenizer and weights.

    It stands wherever a model's name does, here (`name` of `spacy-krissel.TransformerEncoder.v1`) and elsewhere.

    average: the transformer that this one was trained from, by name or path: the weights written are `share` of the
        trained ones and the rest of its own (`layers.start.average_with`). None: the trained ones.

    Raises KrisselError K005 and K026 (the output), K006 (a share that is none), K401 to K403, K413 (not the
    transformer that it was trained from), K604 (no weights), K610, K611 (no such pipeline or linker), K632 (no
    transformer).
    """
    check_folder(output)
    linker = find_linker(load_pipeline(pipeline), name)
    linker.require_weights()
    if average is not None:
        average_with(linker.model, average, share)
    if not write_transformer(linker.model, Path(output)):
        todo = "start from a small encoder with `encoder` in [initialize.components.krissel_linker]"
        raise KrisselError(Errors.K632.format(name=pipeline, problem="it has none", todo=todo))


def make_encoder_from_pipeline(path: Path, name: str = "krissel_linker") -> Callable[[Model], None]:
    """Registered in misc as `spacy-krissel.EncoderFromPipeline.v1`: the start for `[initialize.components…]`.

    path: a trained pipeline, a directory or the name of a package. name: of its linker.

    Every encoder of the pipeline to be trained, that of references too, gets the weights of the trained encoder of
    mentions or names, be it small or a transformer; see `layers.start.start_from`.
    """
    return partial(start_encoder, path=path, name=name)


def start_encoder(model: Model, *, path: Path, name: str) -> None:
    """Raises KrisselError K408, K411 (a small encoder of other sizes), K610, K611, K633 (of another kind)."""
    pipe = find_kb_pipe(load_pipeline(path), name)
    pipe.require_weights()
    if not start_from(pipe.model, model):
        raise KrisselError(Errors.K633.format(name=path))

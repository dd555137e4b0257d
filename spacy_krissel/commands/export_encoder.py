"""Export of a trained pipeline's encoder, and its use as a start for another."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from thinc.api import Model

from ..errors import Errors, KrisselError
from ..layers.warm_start import warm_start
from ..pipeline.pipeline_io import find_kb_pipe, find_linker, load_pipeline
from ..pipeline.settings import LINKER
from ..util.atomic import check_folder
from ..util.settings import checked


@checked
def export_encoder(
    pipeline: str | Path,
    output: str | Path,
    *,
    name: str = LINKER,
    average_with: str | None = None,
) -> None:
    """Export a trained encoder as a transformer.

    Its directory can be passed as --paths.encoder. Averaged with the transformer that it was
    trained from, it keeps more of its knowledge.

    pipeline: A trained pipeline whose linker has a transformer
    output: Directory to write: config, tokenizer and model.safetensors, as `from_pretrained` reads
        them
    name: Name of the linker in the pipeline
    average_with: Use the means of the weights and those of this transformer, by name or path

    Raises KrisselError K005 and K026 (the output), K401 to K403, K413 (not the transformer that it
    was trained from), K604 (no weights), K610, K611 (no such pipeline or linker), K632 (no
    transformer).
    """
    from ..layers.hf import weights

    check_folder(Path(output))
    linker = find_linker(load_pipeline(pipeline), name)
    linker.require_weights()
    if average_with is not None:
        weights.average_with(linker.model, average_with)
    if not weights.write_transformer(linker.model, Path(output)):
        todo = "start from a small encoder with `encoder` in [initialize.components.krissel_linker]"
        raise KrisselError(Errors.K632.format(name=pipeline, problem="it has none", todo=todo))


def show_export_encoder(found: None, output: Path) -> str:
    return f"Encoder written to {output}"


def make_encoder_from_pipeline(
    path: Path, name: str = LINKER, contexts: bool = False
) -> Callable[[Model[Any, Any]], None]:
    """Registered in misc as `spacy-krissel.EncoderFromPipeline.v1`: initial weights for
    `[initialize.components…]`.

    path: a trained pipeline, a directory or the name of a package
    name: name of its linker
    contexts: for a small encoder, copy the table of contexts too, which an encoder of names has not
        trained

    Every encoder of the pipeline to be trained, that of references too, gets the weights of the
    trained encoder of mentions or names, be it small or a transformer; see
    `layers.warm_start.warm_start`.
    """
    return partial(start_encoder, path=path, name=name, contexts=contexts)


def start_encoder(model: Model[Any, Any], *, path: Path, name: str, contexts: bool = False) -> None:
    """Raises KrisselError K408, K411 (a small encoder of other sizes), K610, K611, K633 (of another
    kind)."""
    pipe = find_kb_pipe(load_pipeline(path), name)
    pipe.require_weights()
    if not warm_start(pipe.model, model, contexts=contexts):
        raise KrisselError(Errors.K633.format(name=path))

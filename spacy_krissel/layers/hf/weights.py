"""Weights of transformers: export, averaging, quantization."""

from pathlib import Path
from typing import Any

import torch
from thinc.api import Model

from ...errors import Errors, KrisselError
from ...util.atomic import commit_folder, temporary_folder
from ..warm_start import TRANSFORMER, find_encoder
from .load import load_pretrained
from .quantized import quantize
from .wordpieces import MARKERS
from .wrapper import hf_shim, transformer_shims


def write_transformer(model: Model[Any, Any], path: Path) -> bool:
    """Write the transformer of a model atomically in the format of `save_pretrained`.

    An earlier one is replaced. RETURNS: whether the model has one.

    Raises KrisselError K005 if the path holds something else, K026 for an error of the disk, K405
    if the encoder has no weights.
    """
    found = find_encoder(model, TRANSFORMER)
    if found is None:
        return False
    # Replaces the target of a link.
    path = path.resolve()
    if path.exists() and not _is_transformer(path):
        raise KrisselError(Errors.K005.format(path=path, kind="transformer"))
    with temporary_folder(path) as folder:
        hf_shim(found).write(folder)
        commit_folder(folder, path)
    return True


def _is_transformer(path: Path) -> bool:
    """Return whether the path may be replaced.

    It must be a transformer or an empty folder, without other folders in it.
    """
    if not path.is_dir():
        return False
    files = list(path.iterdir())
    weights = any(file_.suffix in (".safetensors", ".bin") for file_ in files)
    return not files or (
        weights and (path / "config.json").is_file() and all(file_.is_file() for file_ in files)
    )


def quantize_transformers(model: Model[Any, Any]) -> bool:
    """Quantize the transformers of a model to 8-bit integers, for predictions.

    RETURNS: whether it has any. On an error all of them stay unchanged.

    Raises KrisselError K405 (no weights), K417, K418 (`quantize`).
    """
    shims = transformer_shims(model)
    if any(shim.transformer is None for shim in shims):
        raise KrisselError(Errors.K405)
    for shim, made in zip(shims, [quantize(shim.transformer) for shim in shims], strict=True):
        shim.quantized = made
    return bool(shims)


def average_with(model: Model[Any, Any], name: str) -> None:
    """Replace the weights of a model's transformer by the means of these and those of the
    transformer `name`, from which it was trained: it forgets less (Wortsman et al. 2022).

    Raises KrisselError K401 to K403 (nothing to read), K405 (no weights), K413 (another
    architecture or vocabulary).
    """
    found = find_encoder(model, TRANSFORMER)
    if found is None:
        return
    shim = hf_shim(found)
    if shim.transformer is None:
        raise KrisselError(Errors.K405)
    tokens = found.attrs["settings"].markers or MARKERS
    tokenizer, start = load_pretrained(name, shim.tokenizer_config, shim.transformer_config, tokens)
    weights, others = dict(shim.transformer.named_parameters()), dict(start.named_parameters())
    shapes = [
        {key: tuple(weight.shape) for key, weight in each.items()} for each in (weights, others)
    ]
    differ = [key for key in {**weights, **others} if shapes[0].get(key) != shapes[1].get(key)]
    problem = ""
    if differ:
        pair = " and ".join(str(each.get(differ[0])) for each in shapes)
        problem = f"{len(differ)} of them differ, such as '{differ[0]}': {pair}"
    elif tokenizer.get_vocab() != shim.tokenizer.get_vocab():
        problem = "its tokenizer has another vocabulary"
    if problem:
        raise KrisselError(Errors.K413.format(name=name, problem=problem))
    with torch.no_grad():
        for key, weight in weights.items():
            weight.lerp_(others[key].to(weight), 0.5)
    # It was made from the earlier weights.
    shim.quantized = None

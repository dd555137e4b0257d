"""Transfer of weights between encoders: warm start, export as a transformer, averaging."""

from pathlib import Path
from typing import Any, cast

import torch
from thinc.api import Model

from ...errors import Errors, KrisselError
from ...util.atomic import commit_folder, temporary_folder
from ..hashed_bags import NAME as BAGS
from ..token_states import NAME as WORD_STATES
from .load import load_pretrained
from .piece_states import NAME as PIECE_STATES
from .quantized import quantize
from .shim import TransformerShim
from .wordpieces import MARKERS
from .wrapper import hf_shim

TRANSFORMER = "transformer_encoder"
SMALL = "small_encoder"
KINDS = (TRANSFORMER, SMALL, PIECE_STATES, WORD_STATES)


def find_encoder(model: Model[Any, Any], kind: str) -> Model[Any, Any] | None:
    """Return the first encoder of this kind in a model, or None.

    If references have their own encoder, it is the encoder of mentions.
    """
    return next((node for node in model.walk() if node.name == kind), None)


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
    shims = _transformers(model)
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


def warm_start(source: Model[Any, Any], target: Model[Any, Any], *, contexts: bool = False) -> bool:
    """Initialize the encoders of `target` with the weights of the same kind of encoder in `source`.

    RETURNS: whether there was any.

    Token encoders (`PieceStates`, `WordStates`) get all weights, a classifier above them none;
    `PieceStates` may start from a linker's transformer. A small encoder keeps its context table and
    weight unless `contexts` is set: an encoder of names has not trained them, and their size may
    differ.
    Raises KrisselError K408 and K411 for small encoders of other sizes, K406 for a source that is
    not a transformer.
    """
    started = False
    for node in target.walk():
        found = find_encoder(source, node.name) if node.name in KINDS else None
        if found is not None and node.name == SMALL:
            _start_small(found, node, contexts)
        elif found is not None:
            node.from_bytes(found.to_bytes())
        elif (
            node.name == PIECE_STATES and (encoder := find_encoder(source, TRANSFORMER)) is not None
        ):
            hf_shim(node).from_bytes(hf_shim(encoder).to_bytes())
        else:
            continue
        for shim in _transformers(node):
            # It will be trained.
            shim.quantized = None
        started = True
    return started


def _transformers(model: Model[Any, Any]) -> list[TransformerShim]:
    return [
        shim for node in model.walk() for shim in node.shims if isinstance(shim, TransformerShim)
    ]


def _start_small(source: Model[Any, Any], target: Model[Any, Any], contexts: bool) -> None:
    sizes = [{name: node.get_dim(name) for name in ("nO", "nH")} for node in (source, target)]
    if sizes[0] != sizes[1]:
        found, expected = ((each["nO"], each["nH"]) for each in sizes)
        raise KrisselError(Errors.K411.format(found=found, expected=expected))
    of_both = [[node for node in each.walk() if node.name == BAGS] for each in (source, target)]
    for trained, started in list(zip(*of_both, strict=True))[: None if contexts else 1]:
        started.shims[0].from_bytes(trained.shims[0].to_bytes())
    for name in ("W1", "b1", "W2", "b2", *(["context_weight"] if contexts else [])):
        value: Any = source.get_param(name)
        target.set_param(name, cast(Any, target.ops.asarray(value)).copy())

"""Loading of Hugging Face encoders, with added mention markers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from thinc.api import get_torch_default_device
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ...errors import Errors, KrisselError
from .wordpieces import MARKERS

# Never run Python files of a model, and never ask the user about them, as the library would by
# default.
NO_REMOTE_CODE = {"trust_remote_code": False}


def load_pretrained(
    name: str,
    tokenizer_config: dict[str, Any],
    transformer_config: dict[str, Any],
    tokens: Sequence[str] = MARKERS,
) -> tuple[Any, Any]:
    """Read tokenizer and transformer from a directory or the hub, and add the special tokens to
    both.

    tokens: the markers, and further special tokens.
    tokenizer_config, transformer_config: passed to `from_pretrained` of the tokenizer and of the
        model's config, except `trust_remote_code`: a model's own code never runs.
    RETURNS: the tokenizer, and the transformer on the default device.
    RAISES: KrisselError K401 (nothing there), K402 (not a whole transformer), K403 (not an
        encoder's tokenizer), K415 (it needs code of its own).
    """
    _check_path(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **{**tokenizer_config, **NO_REMOTE_CODE})
        config = AutoConfig.from_pretrained(name, **{**transformer_config, **NO_REMOTE_CODE})
        # Without the fork, weights missing in the checkpoint (the pooler) would change the global
        # random state.
        with torch.random.fork_rng(devices=[]):
            transformer, info = AutoModel.from_pretrained(
                name,
                config=config,
                output_loading_info=True,
                **attention(transformer_config),
                **NO_REMOTE_CODE,
            )
    except Exception as err:
        if needs_code(err):
            raise KrisselError(Errors.K415.format(name=f"'{name}'")) from err
        # The library raises OSError, ValueError, KeyError, SafetensorError… for the same problem.
        code = Errors.K402 if Path(name).is_dir() else Errors.K401
        raise KrisselError(code.format(name=name, problem=f"{type(err).__name__}: {err}")) from err
    missing = [key for key in info["missing_keys"] if not key.startswith("pooler.")]
    if missing:
        problem = f"its weights lack {len(missing)} of the architecture's, such as '{missing[0]}'"
        raise KrisselError(Errors.K402.format(name=name, problem=problem))
    _check_tokenizer(tokenizer, name)
    drop_pooler(transformer)
    add_tokens(tokenizer, transformer, tokens)
    transformer.to(get_torch_default_device())
    return tokenizer, transformer


def needs_code(error: Exception) -> bool:
    """Return whether the model needs to run Python files of its own."""
    return isinstance(error, ValueError) and "trust_remote_code" in str(error)


def attention(transformer_config: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword for the attention implementation: the user's, else the fastest.

    On CUDA the fastest is the library's choice. On the CPU it is plain matrix products, since the
    fused kernel has no dropout and a slower backward pass at these lengths.
    """
    if "attn_implementation" in transformer_config:
        return {"attn_implementation": transformer_config["attn_implementation"]}
    return {"attn_implementation": "eager"} if get_torch_default_device().type == "cpu" else {}


def drop_pooler(transformer: Any) -> None:
    """Remove the pooler, which no view passes through.

    Many checkpoints lack it, so it would have random weights.
    """
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None


def add_tokens(tokenizer: Any, transformer: Any, tokens: Sequence[str]) -> None:
    """Add special tokens, such as `[Ms]` and `[Me]`, to tokenizer and embeddings, unless present.

    Their embeddings start as the mean of all others, so that a checkpoint always gives the same
    encoder.
    """
    vocab = tokenizer.get_vocab()
    added = [token for token in tokens if token not in vocab]
    if not added:
        return
    tokenizer.add_tokens(added, special_tokens=True)
    old = transformer.get_input_embeddings().weight
    mean = old.detach()[: len(vocab)].mean(dim=0)
    if len(tokenizer) > old.shape[0]:
        with torch.random.fork_rng(devices=[]):
            transformer.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = transformer.get_input_embeddings().weight
    with torch.no_grad():
        for token_id in tokenizer.convert_tokens_to_ids(added):
            weight[token_id] = mean


def _check_path(name: str) -> None:
    """Refuse a wrong path without contacting the hub."""
    path = Path(name)
    if path.is_dir() and not (path / "config.json").is_file():
        raise KrisselError(
            Errors.K402.format(name=name, problem="the directory has no config.json")
        )
    looks_like_path = (
        path.is_absolute() or name.startswith((".", "~")) or "\\" in name or name.count("/") > 1
    )
    if not path.is_dir() and (path.exists() or looks_like_path):
        problem = "this is a file" if path.exists() else "no such directory"
        raise KrisselError(Errors.K401.format(name=name, problem=problem))


def _check_tokenizer(tokenizer: Any, name: str) -> None:
    missing = [
        token
        for token in ("cls_token", "sep_token", "pad_token")
        if getattr(tokenizer, token) is None
    ]
    if not tokenizer.is_fast:
        missing.append("fast version")
    # transformers 5 returns such a tokenizer if the tokenizer files are missing.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        missing.append("vocabulary")
    if missing:
        raise KrisselError(Errors.K403.format(name=name, missing=", ".join(missing)))

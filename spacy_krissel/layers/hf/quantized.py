"""A transformer in 8-bit integers, for ONNX Runtime on a CPU."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakSet

import numpy as np
import torch

from ...errors import Errors, KrisselError

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "last_hidden_state"
# Version of the ONNX standard that torch supports since 1.13.
OPSET = 17
# Maximum error of a value of the exported transformer in float32.
TOLERANCE = 1e-3


class Quantized:
    """A quantized transformer, and its ONNX session, created on first use.

    The session's threads do not exist in a forked process, where ending it would wait for them; it
    is therefore ended before a fork.
    """

    def __init__(self, content: bytes) -> None:
        """Wrap the output of `quantize`."""
        self.content = content
        self._session: Any = None
        _OPEN.add(self)

    def __call__(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor]:
        """Return the states of all pieces, in the form of the transformer's output.

        Raises KrisselError K417.
        """
        # Read once: another thread may fork in between.
        session = self._session
        if session is None:
            session = self._session = _session(self.content)
        return _run(session, inputs)

    def close(self) -> None:
        self._session = None

    def __reduce__(self) -> Any:
        return Quantized, (self.content,)


_OPEN: WeakSet[Quantized] = WeakSet()


def _close_all() -> None:
    for each in list(_OPEN):
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all)


class _Traced(torch.nn.Module):
    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.transformer(input_ids=input_ids, attention_mask=attention_mask)[
            0
        ]
        return states


def quantize(transformer: Any) -> Quantized:
    """Quantize the weights of a transformer's products to integers of seven bits.

    There is a scale per column. Their inputs are rounded to eight bits on the fly, with one scale
    for all views in a pass.

    Raises KrisselError K417 (neither onnx nor ONNX Runtime), K418 (it cannot be exported to ONNX,
    or its results differ there).
    """
    try:
        import onnx  # noqa: F401 (used by torch)
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError:
        raise KrisselError(Errors.K417) from None
    # Set eval mode on the whole wrapper: the exporter afterwards restores the mode of every part
    # from it.
    traced = _Traced(transformer).eval()
    axes = {name: {0: "views", 1: "pieces"} for name in (*INPUTS, OUTPUT)}
    # Newer versions of torch have several exporters; use the one that all versions have.
    exporter: dict[str, Any] = (
        {"dynamo": False} if "dynamo" in signature(torch.onnx.export).parameters else {}
    )
    with TemporaryDirectory() as folder, _quiet(), torch.no_grad():
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "small.onnx"
        try:
            torch.onnx.export(
                traced,
                _pieces(transformer, 3, 16),
                str(whole),
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_axes=axes,
                opset_version=OPSET,
                **exporter,
            )
            off = _difference(transformer, whole)
            quantize_dynamic(
                whole,
                small,
                op_types_to_quantize=["MatMul", "Gemm"],
                per_channel=True,
                # Seven bits: sums of two products overflow on processors without instructions for
                # them.
                reduce_range=True,
                weight_type=QuantType.QInt8,
                extra_options={"MatMulConstBOnly": True},
            )
            content = small.read_bytes()
        except KrisselError:
            raise
        except Exception as error:  # the libraries raise anything
            problem = (
                f"{type(error).__name__}: "
                f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            )
            raise KrisselError(Errors.K418.format(problem=problem)) from error
        if not off <= TOLERANCE:
            problem = f"its values are off by {off:.2g} there, expected at most {TOLERANCE:g}"
            raise KrisselError(Errors.K418.format(problem=problem))
    return Quantized(content)


def _session(content: Any) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise KrisselError(Errors.K417) from None
    options = onnxruntime.SessionOptions()
    # As many cores as torch.
    options.intra_op_num_threads = torch.get_num_threads()
    # Spinning threads that wait for the next pass would take cores from other work in between.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _run(session: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor]:
    (states,) = session.run([OUTPUT], {name: inputs[name].numpy() for name in INPUTS})
    return (torch.from_numpy(states),)


def _difference(transformer: Any, path: Path) -> float:
    """Return the largest error of the exported transformer, in passes of other sizes than
    traced.
    """
    exported = _session(str(path))
    most = 0.0
    for views, length in ((1, 8), (5, 11)):
        ids, mask = _pieces(transformer, views, length)
        expected = transformer(input_ids=ids, attention_mask=mask)[0].numpy()
        found = _run(exported, dict(zip(INPUTS, (ids, mask), strict=True)))[0].numpy()
        # Not `max`, which may skip NaN.
        most = float(np.maximum(most, np.abs(found - expected)[mask.numpy().astype(bool)].max()))
    return most


def _pieces(transformer: Any, views: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and masks of made-up views, all shorter than the first."""
    random = np.random.default_rng(0)
    ids = torch.from_numpy(random.integers(0, transformer.config.vocab_size, (views, length)))
    lengths = torch.tensor([length, *(length - 1 - i % 4 for i in range(views - 1))])
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    return ids, mask


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its age and about shapes that `_difference` checks."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

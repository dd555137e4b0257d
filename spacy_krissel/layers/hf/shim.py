"""Shim around a Hugging Face encoder: runs it, and saves it with tokenizer, config and weights."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import srsly
import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from thinc.api import (
    ArgsKwargs,
    Optimizer,
    PyTorchGradScaler,
    PyTorchShim,
    get_torch_default_device,
    torch2xp,
    xp2torch,
)
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ...errors import Errors, KrisselError
from .adam_step import adam_step, is_adam
from .load import NO_REMOTE_CODE, attention, drop_pooler, load_pretrained, needs_code
from .quantized import Quantized
from .wordpieces import MARKERS, PieceRow, Pieces, configure_tokenizer, length_batches

# Minimum fill of a batch. On the CPU, time is proportional to pieces, padding included; on a GPU
# one larger batch is faster than several tight ones.
MIN_FILL = {"cpu": 0.75, "cuda": 0.0}
# Devices on which all weights are updated at once. On the CPU, thinc's loop is as fast.
FUSED_STEPS = {"cuda"}
# Encoders that use masks only for attention, equally in all layers.
MASKED = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
# Pieces per pass, padding included. A GPU idles between the kernels of smaller passes.
PASS_PIECES = {"cpu": 4096, "cuda": 32768}
# Keys that differ between machines, not between encoders: the files' location, and the library's
# version.
UNSAVED_CONFIG = ("_name_or_path", "transformers_version")


class TransformerShim(PyTorchShim):
    """Tokenizer and transformer, saved as safetensors with the files of config and tokenizer.

    Nothing is pickled. The files are made once, when the encoder is set: the bytes stay the same
    after any number of saves and loads, under any version of the libraries.

    mixed_precision: run the encoder under autocast, on CUDA in bfloat16 (float16 with scaled
        gradients if the card has no bfloat16), on the CPU in bfloat16. Weights, outputs and
        gradients are float32.
    compile: run the encoder by `torch.compile`, whose first pass takes minutes; the compiled code
        is not saved.

    Once it is quantized (`quantized`), predictions on a CPU use 8-bit integers, and it is no longer
    trained.

    batch_pieces: pieces per pass; None: the device's `PASS_PIECES`. Not saved.
    tokenizer_config, transformer_config: as in `load_pretrained`.
    """

    def __init__(
        self,
        tokenizer_config: dict[str, Any],
        transformer_config: dict[str, Any],
        *,
        mixed_precision: bool = False,
        compile: bool = False,
        batch_pieces: int | None = None,
    ) -> None:
        super().__init__(
            None, mixed_precision=mixed_precision, grad_scaler=PyTorchGradScaler(enabled=False)
        )
        self.tokenizer_config = tokenizer_config
        self.transformer_config = transformer_config
        self.tokenizer: Any = None
        self._files: dict[str, bytes] = {}
        self._pid = os.getpid()
        self._compile = compile
        self.batch_pieces = batch_pieces
        self._compiled: Callable[..., Any] | None = None
        # Mode of all modules, True for training; None: not set yet.
        self._training: bool | None = None
        # The encoder in 8-bit integers; None: not quantized.
        self.quantized: Quantized | None = None
        self._reset_scaler()

    @property
    def transformer(self) -> Any:
        return self._model

    @property
    def max_window(self) -> int:
        """Maximum number of pieces that the encoder reads."""
        positions = (
            getattr(self.transformer.config, "max_position_embeddings", None)
            or self.tokenizer.model_max_length
        )
        return min(int(positions), int(self.tokenizer.model_max_length))

    def read(
        self, name: str, window: int, what: str = "", *, tokens: Sequence[str] = MARKERS
    ) -> None:
        """Read the encoder from `name` with these special tokens (`load_pretrained`).

        An existing encoder is kept. It must support `window` pieces (`begin`).
        """
        if self.transformer is None:
            tokenizer, transformer = load_pretrained(
                name, self.tokenizer_config, self.transformer_config, tokens
            )
            self._files = _encoder_files(tokenizer, transformer)
            self._hold(tokenizer, transformer)
        self.begin(window, what)

    def begin(self, window: int, what: str = "") -> None:
        """Check the encoder before a pass. what: for the message about the window.

        Raises KrisselError K404 (a window beyond the encoder's maximum), K405 (no weights).
        """
        if self.transformer is None:
            raise KrisselError(Errors.K405)
        if window > self.max_window:
            raise KrisselError(Errors.K404.format(window=f"{window}{what}", limit=self.max_window))
        if os.getpid() != self._pid:
            # A forked worker gets one thread: its parent's thread pool does not exist there, and
            # waiting for it would never end.
            torch.set_num_threads(1)
            self._pid = os.getpid()

    @property
    def pass_pieces(self) -> int:
        """Maximum number of pieces of a pass, padding included."""
        return self.batch_pieces or PASS_PIECES.get(self.device.type, PASS_PIECES["cpu"])

    def batches(self, rows: Sequence[PieceRow]) -> Iterator[list[int]]:
        """Yield row numbers in batches of similar length (`length_batches`)."""
        return length_batches(
            [len(row.ids) for row in rows], self.pass_pieces, MIN_FILL.get(self.device.type, 0.0)
        )

    def mask(self, pieces: Pieces) -> torch.Tensor | None:
        """Return the attention mask of a pass, in a form for which the host never waits.

        transformers 5 asks the device whether a mask of two dimensions hides anything. A mask of
        four dimensions is used unchanged, and without a mask, faster kernels are chosen.
        """
        whole = self._takes_whole_masks()
        if whole and pieces.full:
            return None
        indices = torch.arange(pieces.ids.shape[1], device=pieces.ids.device)
        inside = indices[None] < pieces.lengths[:, None]
        return inside[:, None, None] if whole else inside.long()

    def _takes_whole_masks(self) -> bool:
        config = self.transformer.config
        if (
            self.quantized is not None
            or config._attn_implementation != "sdpa"
            or config.model_type not in MASKED
        ):
            return False
        # transformers 5, and some earlier versions.
        return hasattr(sys.modules[type(self.transformer).__module__], "create_bidirectional_mask")

    def autocast(self) -> AbstractContextManager[Any]:
        """Return a context with this shim's precision; nested calls share the outermost cast
        weights.
        """
        device = self.device.type
        enabled = self._mixed_precision and device in ("cpu", "cuda")
        return torch.autocast(
            device if enabled else "cpu", dtype=_half_type(device), enabled=enabled
        )

    def predict(self, inputs: ArgsKwargs) -> Any:
        if self.quantized is not None and self.device.type == "cpu":
            return self.quantized(inputs.kwargs)
        self._set_training(False)
        with torch.no_grad(), self.autocast():
            return self._run(inputs)

    def begin_update(self, inputs: ArgsKwargs) -> tuple[Any, Callable[[ArgsKwargs], None]]:
        if self.quantized is not None:
            raise KrisselError(Errors.K419)
        self._set_training(True)
        with self.autocast():
            output = self._run(inputs)

        def backprop(grads: ArgsKwargs) -> None:
            grads.kwargs["grad_tensors"] = self._grad_scaler.scale(grads.kwargs["grad_tensors"])
            torch.autograd.backward(*grads.args, **grads.kwargs)

        return output, backprop

    def _set_training(self, training: bool) -> None:
        """Set the mode of all modules, walking them only if it changes.

        The mode is recorded after the last module: if that of the first were read, another thread
        could run while dropout is still on in the others.
        """
        if self._training is not training:
            self._model.train(training)
            self._training = training

    def _run(self, inputs: ArgsKwargs) -> Any:
        if self._compiled is None:
            self._compiled = (
                torch.compile(self._model, dynamic=True) if self._compile else self._model
            )
        return self._compiled(*inputs.args, **inputs.kwargs)

    def squared_gradient(self) -> Any:
        """Return the sum of squares of all gradients, unscaled: 0-dimensional, on the device.

        The host does not wait for it to be computed.
        """
        gradients = [gradient for *_, gradient in self._with_gradient()]
        if not gradients:
            return 0.0
        (scale,) = self._grad_scaler.scale([torch.ones(1, device=self.device)])
        norms = torch.stack(torch._foreach_norm(gradients)) / scale
        return torch2xp(norms.square().sum())

    def scale_gradients(self, factor: Any) -> None:
        """Multiply all gradients. factor: a number, or an array of one on the device."""
        gradients = [gradient for *_, gradient in self._with_gradient()]
        if gradients:
            number = (
                factor
                if isinstance(factor, float)
                else xp2torch(factor, device=self.device).squeeze()
            )
            torch._foreach_mul_(gradients, number)

    def finish_update(self, optimizer: Optimizer) -> None:
        # Not in backprop as in the parent class, which would unscale the gradients of earlier parts
        # of a batch again with each later part.
        found = self._with_gradient()
        gradients = [gradient for *_, gradient in found]
        self._grad_scaler.unscale(gradients)
        if self.device.type not in FUSED_STEPS or not is_adam(optimizer):
            super().finish_update(optimizer)
            return
        # A step with overflowing gradients is skipped.
        if found and not self._grad_scaler.found_inf:
            adam_step(
                optimizer, [((self.id, name), weight, gradient) for name, weight, gradient in found]
            )
        if found:
            torch._foreach_zero_(gradients)
        self._grad_scaler.update()

    def _with_gradient(self) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
        """Return (name, weight, gradient) of each weight with a gradient."""
        return [
            (name, p.data, p.grad)
            for name, p in self._model.named_parameters()
            if p.grad is not None
        ]

    def to_device(self, device_type: str, device_id: int) -> None:
        if self._model is not None:
            super().to_device(device_type, device_id)
            self._reset_scaler()

    def to_bytes(self) -> bytes:
        weights = (
            save_safetensors(_state(self.transformer)) if self.transformer is not None else b""
        )
        saved: dict[str, Any] = {"files": self._files, "weights": weights}
        # Added only if set: without it, bytes and fingerprint are those of an encoder that was
        # never quantized.
        if self.quantized is not None:
            saved["quantized"] = self.quantized.content
        return srsly.msgpack_dumps(saved)

    def write(self, path: Path) -> None:
        """Write the encoder to a directory that transformers' `from_pretrained` reads.

        Raises KrisselError K405.
        """
        if self.transformer is None:
            raise KrisselError(Errors.K405)
        path.mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (path / name).write_bytes(content)
        # Readers require the format of the tensors.
        weights = save_safetensors(_state(self.transformer), metadata={"format": "pt"})
        (path / "model.safetensors").write_bytes(weights)

    def from_bytes(self, bytes_data: bytes) -> "TransformerShim":
        """Load the bytes of `to_bytes`, onto the default device and without the network.

        RAISES: KrisselError K406 if it is damaged or of another kind, K415 if it needs code of its
            own.
        """
        try:
            msg = srsly.msgpack_loads(bytes_data)
            files, weights = msg["files"], msg["weights"]
            if files:
                self._hold(*self._build(files, weights))
            if "quantized" in msg:
                self.quantized = Quantized(msg["quantized"])
        except Exception as err:  # readers raise anything, even ImportError for a missing file
            if needs_code(err):
                raise KrisselError(Errors.K415.format(name="of the saved pipeline")) from err
            raise KrisselError(Errors.K406.format(problem=f"{type(err).__name__}: {err}")) from err
        self._files = dict(files)
        return self

    def _build(self, files: dict[str, bytes], weights: bytes) -> tuple[Any, Any]:
        # Without its file, transformers 5 makes a tokenizer of special tokens alone.
        files["tokenizer.json"]
        with TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / Path(name).name).write_bytes(content)
            config = AutoConfig.from_pretrained(folder, local_files_only=True, **NO_REMOTE_CODE)
            tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, **NO_REMOTE_CODE
            )
        overrides = self.transformer_config
        config.update(
            {key: value for key, value in overrides.items() if key != "attn_implementation"}
        )
        with torch.random.fork_rng(devices=[]):
            transformer = AutoModel.from_config(config, **attention(overrides), **NO_REMOTE_CODE)
        drop_pooler(transformer)
        transformer.load_state_dict(load_safetensors(weights))
        transformer.to(get_torch_default_device())
        return tokenizer, transformer

    def _hold(self, tokenizer: Any, transformer: Any) -> None:
        configure_tokenizer(tokenizer)
        self.tokenizer = tokenizer
        self._model = transformer
        self._compiled = None
        self._training = None
        self.quantized = None
        self._reset_scaler()

    def _reset_scaler(self) -> None:
        device = self.device if self._model is not None else get_torch_default_device()
        # float16 loses small gradients; bfloat16 has the exponent of float32.
        scaled = (
            self._mixed_precision and device.type == "cuda" and _half_type("cuda") == torch.float16
        )
        self._grad_scaler = PyTorchGradScaler(enabled=scaled)
        self._grad_scaler.to_(device)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pid = os.getpid()
        if self.tokenizer is not None:
            configure_tokenizer(self.tokenizer)  # a copied Rust tokenizer loses some settings


def _half_type(device: str) -> torch.dtype:
    # Cards before Ampere only emulate it, slower than float32.
    if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


def _state(transformer: Any) -> dict[str, torch.Tensor]:
    """Return the weights by name, on the CPU.

    Shared weights are copied, since safetensors cannot share them.
    """
    state: dict[str, torch.Tensor] = {}
    seen = set()
    for name, tensor in transformer.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        state[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return state


def _encoder_files(tokenizer: Any, transformer: Any) -> dict[str, bytes]:
    config = json.loads(transformer.config.to_json_string(use_diff=False))
    for key in UNSAVED_CONFIG:
        config.pop(key, None)
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder, legacy_format=False)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    files["config.json"] = json.dumps(config, indent=2, sort_keys=True).encode("utf8")
    return dict(sorted(files.items()))

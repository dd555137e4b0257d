"""A trainable pipe with a knowledge base: what the linker and the span extractor have in common."""

import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Union

import numpy as np
import srsly
from spacy import util
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.build import fill_kb
from ..kb.prototype_kb import PrototypeKB
from ..kb.sources import PrototypeSource
from ..layers.fingerprint import fingerprint
from ..layers.gradients import gradient_norm, sum_gradients
from ..objectives.protocol import Objective
from ..util.beside import stepped_aside
from ..views import AnyParts, View
from .annotations import NIL
from .pipe import KrisselPipe
from .settings import LiveSettings


class KBPipe(KrisselPipe):
    """A `PrototypeKB` and the encoder that made it, trained by an objective and saved together.

    A subclass encodes views (`encode`) and annotates docs.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str,
        *,
        objective: Optional[Objective],
        generate_empty_kb: Callable[[Vocab, int], PrototypeKB],
        settings: LiveSettings,
        kb_path: Optional[str] = None,
        scorer: Optional[Callable] = None,
    ) -> None:
        """
        objective: what `update` does with a batch; needed for training alone.
        generate_empty_kb: makes the knowledge base that `from_disk` fills.
        settings: the live ones, `self.cfg`, which are saved with the pipe.
        kb_path: a knowledge base directory outside the pipeline's folder; it is then not copied into it.
        """
        self.vocab = vocab
        self.model = model
        self.name = name
        self.objective = objective
        self.scorer = scorer
        self.generate_empty_kb = generate_empty_kb
        self.kb_path = kb_path
        self.cfg: Any = settings
        self._kb: Optional[PrototypeKB] = None
        self._dev: Optional[PrototypeSource] = None
        self._dev_kb: Optional[PrototypeKB] = None
        self._fingerprint: Optional[str] = None
        # Of the last training step: "loss" and, while `log_gradients`, "gradient_norm".
        self.last_step: Dict[str, float] = {}
        self.log_gradients = False
        self._loss = 0.0
        vocab.strings.add(NIL)

    # Knowledge base ------------------------------------------------------------------------------------------------

    @property
    def kb(self) -> PrototypeKB:
        """The knowledge base; empty until it is set, or loaded with the pipeline."""
        if self._kb is None:
            self._kb = self.new_kb()
        # Lent at each turn, since a knowledge base that was sent to another process left its encoder behind.
        self._kb.lend_encoder(self.encode)
        return self._kb

    def new_kb(self, index: Optional[Callable] = None) -> PrototypeKB:
        """An empty knowledge base that fits the encoder, with the config's index or with `index`."""
        kb = self.generate_empty_kb(self.vocab, self._width())
        if index is not None:
            kb.use_index(index)
        return kb

    def set_kb(self, kb: PrototypeKB) -> None:
        """Link to `kb` from now on. Raises KrisselError when another encoder made it, or its vectors do not fit."""
        kb.check_encoder(self.fingerprint(), self._width())
        kb.lend_encoder(self.encode)
        self._kb = kb

    def fingerprint(self) -> str:
        """What identifies the encoder: a hash of its weights and settings."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.model)
        return self._fingerprint

    def reference_parts(self) -> Optional[AnyParts]:
        """What stands in the references that the encoder was made for; None for an encoder of mentions alone."""
        return None

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """views → (n, width) float32 on the CPU. Raises KrisselError K604 when the encoder has no weights."""
        raise NotImplementedError

    def _kb_to_search(self) -> PrototypeKB:
        """The knowledge base, or that of development meanwhile. Raises KrisselError K603 when there is none."""
        kb = self._searched_kb()
        if kb is None:
            raise KrisselError(Errors.K603.format(name=self.name))
        return kb

    def _searched_kb(self) -> Optional[PrototypeKB]:
        if self._kb is not None and not self._kb.is_empty():
            return self._kb
        if self._dev is None:
            return None
        if self._dev_kb is None:
            self._dev_kb = self._build_dev_kb(self._dev)
        return self._dev_kb

    # Training ------------------------------------------------------------------------------------------------------

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """One training step, as the objective defines it."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        if not examples or self.objective is None:
            return losses
        self.require_weights()
        set_dropout_rate(self.model, drop)
        loss = self.objective.update(self.model, examples)
        losses[self.name] += loss
        self._loss += loss
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        sum_gradients(self.model)
        self.last_step, self._loss = {"loss": self._loss}, 0.0
        if self.log_gradients:
            self.last_step["gradient_norm"] = gradient_norm(self.model)
        self.model.finish_update(sgd)
        self._weights_changed()

    def _weights_changed(self) -> None:
        """Drop the vectors made by the old weights; the development KB is encoded again when it is next searched.

        Warns KW601 when a knowledge base was in use: it would link wrongly, and refuse to be loaded with these weights.
        """
        self._fingerprint = None
        self._dev_kb = None
        if self._kb is not None and self._kb.encoder != self.fingerprint():
            if not self._kb.is_empty():
                message = Warnings.KW601.format(name=self.name, entities=self._kb.n_entities)
                warnings.warn(message, KrisselWarning, stacklevel=3)
            self._kb = None

    def _build_dev_kb(self, source: PrototypeSource) -> PrototypeKB:
        return fill_kb(self.new_kb(), source, self.encode, references=self.reference_parts())

    def require_weights(self) -> None:
        """Raise KrisselError K604 unless the encoder was initialized or loaded."""
        # A transformer has no parameter of thinc's, but knows its width from its weights.
        missing = self.model.has_dim("nO") is None
        for node in self.model.walk():
            missing |= any(node.has_param(param) is None for param in node.param_names)
        if missing:
            raise KrisselError(Errors.K604.format(name=self.name))

    def _width(self) -> int:
        return self.model.get_dim("nO") if self.model.has_dim("nO") else 0

    # Serialisation -------------------------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """All of the pipe, the knowledge base included (held twice in memory); `exclude=["kb"]` leaves it out."""
        serialize: Dict[str, Callable[[], bytes]] = {
            "cfg": lambda: srsly.json_dumps(self.cfg.saved(), sort_keys=True).encode("utf8"),
            "model": self.model.to_bytes,
        }
        if self._carries_kb():
            serialize["kb"] = self.kb.to_bytes
        return util.to_bytes(serialize, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KBPipe":
        deserialize: Dict[str, Callable[[bytes], Any]] = {
            "cfg": lambda data: self.cfg.restore(srsly.json_loads(data)),
            "model": self._load_model,
            "kb": lambda data: self.set_kb(self.new_kb().from_bytes(data)),
        }
        with self._coded("bytes"):
            util.from_bytes(bytes_data, deserialize, exclude)
        self._open_kb_path(exclude)
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        # The knowledge base first: a folder without it, of a process that was killed, must not load as one without any.
        serialize: Dict[str, Callable[[Path], Any]] = {}
        if self._carries_kb():
            serialize["kb"] = lambda p: self.kb.to_disk(p)
        serialize["cfg"] = lambda p: srsly.write_json(p, self.cfg.saved())
        serialize["model"] = lambda p: p.write_bytes(self.model.to_bytes())
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "KBPipe":
        path = util.ensure_path(path)
        deserialize: Dict[str, Callable[[Path], Any]] = {
            "cfg": lambda p: self.cfg.restore(srsly.read_json(p)),
            "model": lambda p: self._load_model(p.read_bytes()),
        }
        if not self.kb_path and "kb" not in exclude:
            if aside := stepped_aside(path / "kb"):
                raise KrisselError(Errors.K642.format(path=path, aside=aside[-1].name))
            if (path / "kb").exists():
                deserialize["kb"] = self._load_kb
        with self._coded(path):
            util.from_disk(path, deserialize, exclude)
        self._open_kb_path(exclude)
        return self

    def _carries_kb(self) -> bool:
        # Not the development KB, which training replaces at every evaluation, nor one that lives elsewhere.
        return not self.kb_path and self._kb is not None and not self._kb.is_empty()

    def _load_model(self, data: bytes) -> None:
        self.model.from_bytes(data)
        self._weights_changed()

    def _load_kb(self, path: Path) -> None:
        self.set_kb(self.new_kb().from_disk(path))

    def _open_kb_path(self, exclude: Iterable[str]) -> None:
        if self.kb_path and "kb" not in exclude:
            self._load_kb(Path(self.kb_path))

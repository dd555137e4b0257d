"""A trainable pipe with a knowledge base: what the linker and the span extractor have in common."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from spacy import util
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from ..distributed.processes import gradient_norm, sum_gradients
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.build.fill import fill_kb
from ..kb.build.sources import PrototypeSource
from ..kb.prototype_kb import PrototypeKB
from ..layers.identity import fingerprint
from ..mentions.gold_ids import NIL
from ..training.objectives.protocol import Objective
from ..util.atomic import backups_of, remove_folder
from ..util.disk import coded_io
from ..util.lock import Lock
from ..util.settings import Settings
from ..views import ReferenceParts, View
from .pipe import KrisselPipe

# The pipe that is loaded without its knowledge base.
_LEFT_OUT: ContextVar[str] = ContextVar("krissel_kb_left_out", default="")
# A pipe and the version of its knowledge base that all of a call goes by.
_IN_USE: ContextVar[tuple[Any, PrototypeKB | None]] = ContextVar("krissel_kb_in_use", default=(None, None))


@contextmanager
def kb_left_out(name: str) -> Iterator[None]:
    """Within, the pipe `name` of a pipeline is loaded without its knowledge base: one of another encoder, or a damaged
    one, is no obstacle to whoever makes it again."""
    token = _LEFT_OUT.set(name)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def with_one_kb(method: Callable) -> Callable:
    """A method of a `KBPipe` that goes by one version of the knowledge base, whatever other threads do to it."""

    @wraps(method)
    def within(self: "KBPipe", *args: Any, **kwargs: Any) -> Any:
        kb = self._searched_kb()
        token = _IN_USE.set((self, None if kb is None else kb.snapshot()))
        try:
            return method(self, *args, **kwargs)
        finally:
            _IN_USE.reset(token)

    return within


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
        objective: Objective | None,
        generate_empty_kb: Callable[[Vocab, int], PrototypeKB],
        settings: Settings,
        kb_path: str | None = None,
        scorer: Callable | None = None,
    ) -> None:
        """
        objective: what `update` does with a batch; needed for training alone.
        generate_empty_kb: makes the knowledge base that `from_disk` fills.
        settings: see `KrisselPipe`.
        kb_path: a knowledge base directory outside the pipeline's folder; it is then not copied into it.
        """
        self.vocab = vocab
        self.model = model
        self.name = name
        self.objective = objective
        self.scorer = scorer
        self.generate_empty_kb = generate_empty_kb
        self.kb_path = kb_path
        self._set_settings(settings)
        self._kb: PrototypeKB | None = None
        self._dev: PrototypeSource | None = None
        self._dev_kb: PrototypeKB | None = None
        self._fingerprint: str | None = None
        # The folder from which everything but the knowledge base was loaded: it stays there.
        self._kb_stays_in: Path | None = None
        self._lock = Lock()
        # Of the last training step: "loss" and, while `log_gradients`, "gradient_norm".
        self.last_step: dict[str, float] = {}
        self.log_gradients = False
        self._loss = 0.0
        vocab.strings.add(NIL)

    # Knowledge base ------------------------------------------------------------------------------------------------

    @property
    def kb(self) -> PrototypeKB:
        """The knowledge base; empty until it is set, or loaded with the pipeline."""
        with self._lock:
            if self._kb is None:
                self._kb = self.new_kb()
            kb = self._kb
        # Lent at each turn, since a knowledge base that was sent to another process left its encoder behind.
        kb.attach_encoder(self.encode)
        return kb

    def new_kb(self, index: Callable | None = None) -> PrototypeKB:
        """An empty knowledge base that fits the encoder, with the config's index or with `index`."""
        kb = self.generate_empty_kb(self.vocab, self._width())
        if index is not None:
            kb.use_index(index)
        return kb

    def set_kb(self, kb: PrototypeKB | Callable[[Vocab], PrototypeKB]) -> None:
        """Link to `kb` from now on, or to what it makes of the vocabulary, as spaCy's `kb_loader` does.

        Raises KrisselError K522 and K528 when another encoder made it, or its vectors do not fit; K006 for anything but
        a `PrototypeKB`.
        """
        found: Any = kb
        if callable(kb):
            found = kb(self.vocab)
        if not isinstance(found, PrototypeKB):
            expected = "a PrototypeKB, or a function that makes one of a vocabulary"
            raise KrisselError(Errors.K006.format(setting="kb", found=type(found).__name__, expected=expected))
        found.check_encoder(self.fingerprint(), self._width())
        found.attach_encoder(self.encode)
        self._kb = found

    def fingerprint(self) -> str:
        """What identifies the encoder: a hash of its weights and settings."""
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = fingerprint(self.model)
            return self._fingerprint

    def reference_parts(self) -> ReferenceParts | None:
        """What stands in the references that the encoder was made for; None for an encoder of mentions alone."""
        return None

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """views → (n, width) float32 on the CPU. Raises KrisselError K604 when the encoder has no weights."""
        raise NotImplementedError

    def _kb_to_search(self) -> PrototypeKB:
        """The knowledge base as it is now, or that of development meanwhile.

        Raises KrisselError K603 when there is none, K520 when there is one without prototypes.
        """
        pipe, kb = _IN_USE.get()
        if pipe is not self:
            kb = self._searched_kb()
        if kb is not None:
            return kb.snapshot()
        if self._kb is not None and self._kb.n_entities:
            self._kb.check_filled()
        raise KrisselError(Errors.K603.format(name=self.name))

    def _searched_kb(self) -> PrototypeKB | None:
        kb = self._kb
        if kb is not None and not kb.is_empty():
            return kb
        if self._dev is None:
            return None
        with self._lock:
            if self._dev_kb is None:
                self._dev_kb = self._build_dev_kb(self._dev)
            return self._dev_kb

    # Training ------------------------------------------------------------------------------------------------------

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """One training step, as the objective defines it."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        if not examples or self.objective is None:
            return losses
        self.require_weights()
        set_dropout_rate(self.model, drop)
        loss = self.objective.update(self.model, examples, self.cfg["spans_key"])
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
        self._kb_stays_in = None
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
        """All of the pipe, the knowledge base included (held twice in memory); `exclude=["kb"]` leaves it out.

        Raises KrisselError K660 for a knowledge base that belongs to `kb_path`, and is not saved there.
        """
        self._check_kb_path(exclude)
        serialize: dict[str, Callable[[], bytes]] = self._files()
        if self._carries_kb():
            serialize["kb"] = self.kb.to_bytes
        return util.to_bytes(serialize, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KBPipe":
        deserialize: dict[str, Callable[[bytes], Any]] = {
            "cfg": self._restore_settings,
            "model": self._load_model,
            "kb": lambda data: self.set_kb(self.new_kb().from_bytes(data)),
        }
        with self._coded("bytes"):
            util.from_bytes(bytes_data, deserialize, exclude)
        self._open_kb_path(exclude)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Raises KrisselError K660 as `to_bytes` does, before anything is written."""
        self._check_kb_path(exclude)
        path = util.ensure_path(path)
        carried = self._carries_kb()
        # The knowledge base first: a folder without it, of a process that was killed, must not load as one without any.
        if carried and "kb" not in exclude:
            self.kb.to_disk(path / "kb")
        self._write_files(path, self._files(), exclude)
        if not carried and "kb" not in exclude:
            self._remove_kb(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "KBPipe":
        path = util.ensure_path(path)
        if _LEFT_OUT.get() == self.name:
            exclude = [*exclude, "kb"]
        has_kb = not self.kb_path and "kb" not in exclude
        if has_kb and (aside := backups_of(path / "kb")):
            raise KrisselError(Errors.K642.format(path=path, aside=aside[-1].name))
        files = {"cfg": self._restore_settings, "model": self._load_model}
        self._read_files(path, files, exclude)
        if has_kb and (path / "kb").exists():
            with self._coded(path):
                self._load_kb(path / "kb")
        self._kb_stays_in = path.resolve() if "kb" in exclude else None
        self._open_kb_path(exclude)
        return self

    def _carries_kb(self) -> bool:
        # Not the development KB, which training replaces at every evaluation, nor one that lives elsewhere. One that
        # lost all prototypes is carried too, and one that never had any.
        return not self.kb_path and self._kb is not None and self._kb.n_entities > 0

    def _check_kb_path(self, exclude: Iterable[str]) -> None:
        kb = self._kb
        if self.kb_path and "kb" not in exclude and kb is not None and kb.n_entities and not kb.is_saved(self.kb_path):
            raise KrisselError(Errors.K660.format(name=self.name, path=self.kb_path))

    def _remove_kb(self, path: Path) -> None:
        """Remove the knowledge base of an earlier pipe from the folder `path` that this one, without any, replaces."""
        stays = (self._kb_stays_in, Path(self.kb_path).resolve() if self.kb_path else None)
        if path.resolve() == stays[0] or (path / "kb").resolve() == stays[1]:
            return
        with coded_io(path):
            if (path / "kb").exists():
                remove_folder(path / "kb")
            for aside in backups_of(path / "kb"):
                remove_folder(aside)

    def _load_model(self, data: bytes) -> None:
        self.model.from_bytes(data)
        self._weights_changed()

    def _load_kb(self, path: Path) -> None:
        self.set_kb(self.new_kb().from_disk(path))

    def _open_kb_path(self, exclude: Iterable[str]) -> None:
        if self.kb_path and "kb" not in exclude:
            self._load_kb(Path(self.kb_path))

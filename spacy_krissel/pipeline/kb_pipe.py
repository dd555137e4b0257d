"""A trainable pipe with a knowledge base: what the linker and the span extractor have in common."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..kb.snapshot import KBSnapshot
from ..layers.identity import fingerprint
from ..layers.referenced import reference_parts
from ..util.atomic import backups_of, remove_folder
from ..util.disk import coded_io
from ..util.lock import Lock
from ..util.settings import Settings
from ..views import ReferenceParts, View
from .pipe import KrisselPipe, check_examples

# Linking needs none of these: what trains or fills a knowledge base is imported by the method that does.
if TYPE_CHECKING:
    from ..building.sources import PrototypeSource
    from ..ontology.store import OntologyStore
    from ..training.objectives.protocol import Objective

# The pipe that is loaded without its knowledge base.
_LEFT_OUT: ContextVar[str] = ContextVar("krissel_kb_left_out", default="")


@contextmanager
def kb_left_out(name: str) -> Iterator[None]:
    """Within, the pipe `name` of a pipeline is loaded without its knowledge base: one of another encoder, or a damaged
    one, is no obstacle to whoever makes it again."""
    token = _LEFT_OUT.set(name)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


class KBPipe(KrisselPipe):
    """A `PrototypeKB` and the encoder that made it, trained by an objective and saved together.

    A subclass chooses what its model is initialized with (`_init_sample`) and annotates docs.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[Any, Any],
        name: str,
        *,
        objective: "Objective | None",
        generate_empty_kb: Callable[[Vocab, int], PrototypeKB],
        settings: Settings,
        kb_path: str | None = None,
        scorer: Callable[..., Any] | None = None,
    ) -> None:
        """
        generate_empty_kb: makes the knowledge base that `from_disk` fills.
        kb_path: a knowledge base directory outside the pipeline's folder; it is then not copied into it.
        The rest as in `KrisselPipe`.
        """
        super().__init__(vocab, model, name, objective=objective, settings=settings, scorer=scorer)
        self.generate_empty_kb = generate_empty_kb
        self.kb_path = kb_path
        # One that is not loaded with the pipe is opened when it is first needed.
        self._opens_kb_path = True
        self._kb: PrototypeKB | None = None
        self._dev: PrototypeSource | None = None
        self._dev_kb: PrototypeKB | None = None
        self._fingerprint: str | None = None
        # The folder from which everything but the knowledge base was loaded: it stays there.
        self._kb_stays_in: Path | None = None
        self._lock = Lock()

    # Knowledge base ------------------------------------------------------------------------------------------------

    @property
    def kb(self) -> PrototypeKB:
        """The knowledge base; empty until it is set, or loaded with the pipeline."""
        self._open_given_kb()
        with self._lock:
            if self._kb is None:
                self._kb = self.new_kb()
            kb = self._kb
        # Lent at each turn, since a knowledge base that was sent to another process left its encoder behind.
        kb.attach_encoder(self.encode)
        return kb

    def new_kb(self, index: Callable[..., Any] | None = None) -> PrototypeKB:
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

    @property
    def has_transformer(self) -> bool:
        """Has the encoder one, which takes long for a view?"""
        return any(hasattr(shim, "transformer") for node in self.model.walk() for shim in node.shims)

    @property
    def is_quantized(self) -> bool:
        """Do the encoder's transformers predict by 8-bit integers, on a CPU?"""
        shims = (shim for node in self.model.walk() for shim in node.shims)
        return any(getattr(shim, "quantized", None) is not None for shim in shims)

    def quantize(self) -> bool:
        """Let the encoder's transformers predict by 8-bit integers, on a CPU; it is not trained any more. The knowledge
        base keeps the vectors that it has. RETURNS: whether the encoder has a transformer.

        Raises KrisselError K417, K418 (ONNX), K604 (no weights).
        """
        from ..layers.hf.weights import quantize_transformers

        self.require_weights()
        kb = self.kb
        if not quantize_transformers(self.model):
            return False
        with self._lock:
            self._fingerprint = None
        kb.encoder = self.fingerprint()
        return True

    def reference_parts(self) -> ReferenceParts | None:
        """What stands in the references that the encoder was made for; None for an encoder of mentions alone."""
        return reference_parts(self.model)

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """views → (n, width) float32 on the CPU. Raises KrisselError K604 when the encoder has no weights."""
        self.require_weights()
        if not views:
            return np.zeros((0, self._width()), dtype=np.float32)
        return self.model.ops.to_numpy(self._vectors(list(views))).astype(np.float32, copy=False)

    def _vectors(self, views: list[View]) -> Any:
        return self.model.predict(views)

    def _kb_to_search(self) -> KBSnapshot:
        """The present version of the knowledge base, else of that of development, whatever other threads do to it.

        Raises KrisselError K603 when there is none, K520 when there is one without prototypes.
        """
        self._open_given_kb()
        kb = self._kb
        if kb is not None and not kb.is_empty():
            return kb.snapshot()
        if self._dev is not None:
            with self._lock:
                if self._dev_kb is None:
                    self._dev_kb = self._build_dev_kb(self._dev)
                return self._dev_kb.snapshot()
        if kb is not None and kb.n_entities:
            kb.check_filled()
        raise KrisselError(Errors.K603.format(name=self.name))

    # Training ------------------------------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        # spaCy resolves these annotations, so that they name nothing that linking does not import.
        ontology: Callable[[], Any] | None = None,
        dev_kb: Callable[[], Any] | None = None,
        encoder: Callable[[Model[Any, Any]], None] | None = None,
    ) -> None:
        """Give the encoder its weights, and training its ontology and its development knowledge base.

        ontology: loads the names that replace mentions and what stands in references
            (`spacy-krissel.OntologyFromDisk.v1`).
        dev_kb: prototypes of a bounded knowledge base that is encoded again whenever development accuracy is measured
            (`spacy-krissel.PrototypeSource.v1`).
        encoder: gives the encoder the weights of a trained one to start from (`spacy-krissel.EncoderFromPipeline.v1`).
        """
        from ..training.data.examples import linked_views

        check_examples(get_examples, f"{type(self).__name__}.initialize")
        store = ontology() if ontology is not None else None
        self.model.initialize(X=self._init_sample(get_examples(), store))
        if encoder is not None:
            encoder(self.model)
        self._weights_changed()
        if self.objective is not None:
            self.objective.initialize(store)
        objective: Any = self.objective
        if getattr(objective, "refresh_every", None) == "epoch":
            objective.set_epoch(sum(1 for _ in linked_views(get_examples(), self.cfg["spans_key"])))
        self._dev = dev_kb() if dev_kb is not None else None

    def _init_sample(self, examples: Iterable[Example], store: "OntologyStore | None") -> list[Any]:
        """Inputs of the model from which its layers take their sizes and frequencies."""
        raise NotImplementedError

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

    def _build_dev_kb(self, source: "PrototypeSource") -> PrototypeKB:
        from ..building.fill import fill_kb

        return fill_kb(self.new_kb(), source, self.encode, references=self.reference_parts())

    def _width(self) -> int:
        return self.model.get_dim("nO") if self.model.has_dim("nO") else 0

    # Serialisation -------------------------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """All of the pipe, the knowledge base included (held twice in memory); `exclude=["kb"]` leaves it out.

        Raises KrisselError K660 for a knowledge base that belongs to `kb_path`, and is not saved there.
        """
        self._check_kb_path(exclude)
        kb = {"kb": self.kb.to_bytes} if self._carries_kb() else {}
        return util.to_bytes({**self._files(), **kb}, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KBPipe":
        self._read_bytes(bytes_data, {"kb": lambda data: self.set_kb(self.new_kb().from_bytes(data))}, exclude)
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
        self._write_files(path, exclude)
        if not carried and "kb" not in exclude:
            self._remove_kb(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "KBPipe":
        path = util.ensure_path(path)
        if _LEFT_OUT.get() == self.name:
            exclude = [*exclude, "kb"]
        has_kb = not self.kb_path and "kb" not in exclude
        if has_kb and (aside := backups_of(path / "kb")):
            raise KrisselError(Errors.K642.format(path=path, aside=aside[-1].name))
        self._read_files(path, exclude)
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

    def _load_kb(self, path: Path) -> None:
        self.set_kb(self.new_kb().from_disk(path))

    def _open_kb_path(self, exclude: Iterable[str]) -> None:
        if self.kb_path and "kb" not in exclude:
            self._load_kb(Path(self.kb_path))
        self._opens_kb_path = False

    def _open_given_kb(self) -> None:
        """Open the knowledge base at `kb_path` of a pipe that was made with it, by `nlp.add_pipe`, and not loaded."""
        if self._opens_kb_path and self.kb_path and self._kb is None and self._dev is None:
            self.require_weights()
            self._load_kb(Path(self.kb_path))

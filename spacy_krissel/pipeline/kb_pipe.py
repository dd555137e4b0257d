"""Trainable pipe with a knowledge base: base class of the linker and the span extractor."""

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

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..kb.prototype_kb import PrototypeKB
from ..kb.snapshot import KBSnapshot
from ..layers.identity import fingerprint
from ..util.atomic import backups_of, remove_folder
from ..util.disk import coded_io
from ..util.lock import Lock
from ..util.settings import Settings
from ..views import ReferenceParts, View
from .pipe import KrisselPipe, check_examples

# Linking needs none of these: what trains or fills a knowledge base is imported by the method that
# does.
if TYPE_CHECKING:
    from ..building.sources import PrototypeSource
    from ..ontology.store import OntologyStore
    from ..training.objectives.protocol import Objective

# Name of the pipe that is loaded without its knowledge base.
_SKIPPED: ContextVar[str] = ContextVar("krissel_skip_loading_kb", default="")


@contextmanager
def skip_loading_kb(name: str) -> Iterator[None]:
    """Load the pipe `name` without its knowledge base inside this context.

    A knowledge base that is damaged, or was built by another encoder, cannot prevent rebuilding it.
    """
    token = _SKIPPED.set(name)
    try:
        yield
    finally:
        _SKIPPED.reset(token)


class KBPipe(KrisselPipe):
    """Hold a `PrototypeKB` and the encoder that built it, trained by an objective and saved
    together.

    A subclass chooses the sample that initializes its model (`_init_sample`) and annotates docs.
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
        kb_path: a knowledge base directory outside the pipeline's folder; it is not copied into the
            folder.
        The rest as in `KrisselPipe`.
        """
        super().__init__(vocab, model, name, objective=objective, settings=settings, scorer=scorer)
        self.generate_empty_kb = generate_empty_kb
        self.kb_path = kb_path
        # A knowledge base that is not loaded with the pipe is opened on first use.
        self._opens_kb_path = True
        self._kb: PrototypeKB | None = None
        self._dev: PrototypeSource | None = None
        self._dev_kb: PrototypeKB | None = None
        self._fingerprint: str | None = None
        # Folder that everything but the knowledge base was loaded from; its knowledge base stays
        # there.
        self._kb_stays_in: Path | None = None
        self._lock = Lock()

    # Knowledge base -------------------------------------------------------------------------------

    @property
    def kb(self) -> PrototypeKB:
        """The knowledge base; empty until it is set, or loaded with the pipeline."""
        self._open_given_kb()
        with self._lock:
            if self._kb is None:
                self._kb = self.new_kb()
            kb = self._kb
        # Attached on each access: a knowledge base that was sent to another process has lost its
        # encoder.
        kb.attach_encoder(self.encode)
        return kb

    def new_kb(self, index: Callable[..., Any] | None = None) -> PrototypeKB:
        """Return an empty knowledge base that fits the encoder, with the config's index or with
        `index`."""
        kb = self.generate_empty_kb(self.vocab, self._width())
        if index is not None:
            kb.use_index(index)
        return kb

    def set_kb(self, kb: PrototypeKB | Callable[[Vocab], PrototypeKB]) -> None:
        """Link to `kb` from now on, or to what `kb(vocab)` returns, as spaCy's `kb_loader` does.

        Raises KrisselError K522 and K528 if another encoder built it or its vectors do not fit;
        K006 for anything but a `PrototypeKB`.
        """
        found: Any = kb
        if callable(kb):
            found = kb(self.vocab)
        if not isinstance(found, PrototypeKB):
            expected = "a PrototypeKB, or a function that makes one of a vocabulary"
            raise wrong_setting("kb", type(found).__name__, expected)
        found.check_encoder(self.fingerprint(), self._width())
        found.attach_encoder(self.encode)
        self._kb = found

    def fingerprint(self) -> str:
        """Return a hash of the encoder's weights and settings, which identifies the encoder."""
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = fingerprint(self.model)
            return self._fingerprint

    @property
    def has_transformer(self) -> bool:
        """True if the encoder has a transformer, which is slow per view."""
        return any(
            hasattr(shim, "transformer") for node in self.model.walk() for shim in node.shims
        )

    @property
    def is_quantized(self) -> bool:
        """True if the encoder's transformers predict in 8-bit integers, on a CPU."""
        shims = (shim for node in self.model.walk() for shim in node.shims)
        return any(getattr(shim, "quantized", None) is not None for shim in shims)

    def quantize(self) -> bool:
        """Make the encoder's transformers predict in 8-bit integers, on a CPU; the encoder cannot
        be trained afterwards. The knowledge base keeps its vectors. RETURNS: whether the encoder
        has a transformer.

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
        """Return the parts of references that the encoder was made for; None if it encodes mentions
        alone."""
        from ..layers.referenced import reference_parts

        return reference_parts(self.model)

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """Encode views as (n, width) float32 on the CPU. Raises KrisselError K604 if the encoder
        has no weights."""
        self.require_weights()
        if not views:
            return np.zeros((0, self._width()), dtype=np.float32)
        return self.model.ops.to_numpy(self._vectors(list(views))).astype(np.float32, copy=False)

    def _vectors(self, views: list[View]) -> Any:
        return self.model.predict(views)

    def _kb_to_search(self) -> KBSnapshot:
        """Return a snapshot of the knowledge base, or of the development one, whatever other
        threads do.

        Raises KrisselError K603 if there is none, K520 if it has no prototypes.
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

    # Training -------------------------------------------------------------------------------------

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
        """Initialize the encoder's weights, the objective's ontology and the development knowledge
        base.

        ontology: loads the names that replace mentions and the texts of references
            (`spacy-krissel.OntologyFromDisk.v1`).
        dev_kb: prototypes of a bounded knowledge base that is encoded again at each evaluation on
            development data (`spacy-krissel.PrototypeSource.v1`).
        encoder: initializes the encoder with the weights of a trained one
            (`spacy-krissel.EncoderFromPipeline.v1`).
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
        """Drop the vectors made by the old weights; the next search encodes the development KB
        again.

        Warns KW601 if a knowledge base was in use: its links would be wrong, and it could not be
        loaded with these weights.
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

    # Serialisation --------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the pipe with its knowledge base (held twice in memory); `exclude=["kb"]` omits
        it.

        Raises KrisselError K660 for a knowledge base that belongs to `kb_path` and is not saved
        there.
        """
        self._check_kb_path(exclude)
        kb = {"kb": self.kb.to_bytes} if self._carries_kb() else {}
        return util.to_bytes({**self._files(), **kb}, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KBPipe":
        self._read_bytes(
            bytes_data, {"kb": lambda data: self.set_kb(self.new_kb().from_bytes(data))}, exclude
        )
        self._open_kb_path(exclude)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the pipe. Raises KrisselError K660 as `to_bytes` does, before anything is
        written."""
        self._check_kb_path(exclude)
        path = util.ensure_path(path)
        carried = self._carries_kb()
        # The knowledge base first. If the process is killed, the folder must not load as a pipe
        # without one.
        if carried and "kb" not in exclude:
            self.kb.to_disk(path / "kb")
        self._write_files(path, exclude)
        if not carried and "kb" not in exclude:
            self._remove_kb(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "KBPipe":
        path = util.ensure_path(path)
        if _SKIPPED.get() == self.name:
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
        # Not the development KB, which training replaces at every evaluation, nor one that is saved
        # elsewhere. One that lost all prototypes, or never had any, is saved too.
        return not self.kb_path and self._kb is not None and self._kb.n_entities > 0

    def _check_kb_path(self, exclude: Iterable[str]) -> None:
        kb = self._kb
        if (
            self.kb_path
            and "kb" not in exclude
            and kb is not None
            and kb.n_entities
            and not kb.is_saved(self.kb_path)
        ):
            raise KrisselError(Errors.K660.format(name=self.name, path=self.kb_path))

    def _remove_kb(self, path: Path) -> None:
        """Remove the knowledge base of an earlier pipe from the folder `path`, if this pipe has
        none."""
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
        """Open the knowledge base at `kb_path` if the pipe was made by `nlp.add_pipe` and not
        loaded."""
        if self._opens_kb_path and self.kb_path and self._kb is None and self._dev is None:
            self.require_weights()
            self._load_kb(Path(self.kb_path))

"""Base class of the package's pipes."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from ..errors import Errors, KrisselError
from ..mentions.annotations import NIL, register_extensions
from ..util.disk import coded_io
from ..util.settings import Settings

# SHA-256 of each file of a pipe that affects links.
CHECKSUMS = "checksums.json"


def link_writers(nlp: Language) -> list[str]:
    """Return the enabled components that write links, including re-rankers."""
    return [name for name in nlp.pipe_names if "token.ent_kb_id" in nlp.get_pipe_meta(name).assigns]


def check_examples(get_examples: Any, method: str) -> None:
    """Call spaCy's `validate_get_examples` on the first 100 examples only: there may be
    millions."""
    some = (lambda: list(islice(get_examples(), 100))) if callable(get_examples) else get_examples
    validate_get_examples(some, method)


class KrisselPipe(TrainablePipe):
    """Base of pipes that lose no doc to an error and report what is wrong with files they cannot
    read.

    `cfg` holds the current settings. Settings that were changed since the pipe was made are saved
    with it. They are restored on loading, unless the config's value has changed in the meantime.
    """

    cfg: Settings
    # Files that a saved pipe may lack.
    optional_files: tuple[str, ...] = ()

    def __init__(
        self,
        vocab: Vocab,
        model: Model[Any, Any],
        name: str,
        *,
        objective: Any | None,
        settings: Settings,
        scorer: Callable[..., Any] | None = None,
    ) -> None:
        """objective: defines the step of `update`; needed for training only."""
        self.vocab = vocab
        self.model = model
        self.name = name
        self.objective = objective
        self.scorer = scorer
        self.cfg = settings
        self._configured = deepcopy(dict(settings))
        # Figures of the last training step: "loss" and, with `log_gradients`, "gradient_norm".
        self.last_step: dict[str, float] = {}
        self.log_gradients = False
        self._loss = 0.0
        register_extensions()
        vocab.strings.add(NIL)

    def configure(self, **settings: Any) -> None:
        """Change settings as if the pipe had been made with them. Raises KrisselError as `Settings`
        does."""
        self.cfg.update(settings)
        self._configured.update(deepcopy({name: self.cfg[name] for name in settings}))

    def score(self, examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
        # spaCy forwards `cfg` only if it is a `dict`.
        scores: dict[str, Any] = super().score(examples, **{**self.cfg, **settings})
        return scores

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of docs; the mentions of `batch_size` docs are encoded together."""
        for docs in util.minibatch(stream, size=batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        error_handler = self.get_error_handler()
        try:
            # Settings that are lists may have been changed in place.
            self.cfg.checked()
            self.set_annotations(docs, self.predict(docs))
        except Exception as error:
            error_handler(self.name, self, docs, error)

    # Training -------------------------------------------------------------------------------------

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Run one training step, as the objective defines it."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        if not examples or self.objective is None:
            return losses
        self.require_weights()
        set_dropout_rate(self.model, drop)
        loss = self._learn(self.objective, examples)
        losses[self.name] += loss
        self._loss += loss
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def _learn(self, objective: Any, examples: list[Example]) -> float:
        """Accumulate the gradient of a batch. RETURNS: its loss."""
        loss: float = objective.update(self.model, examples, self.cfg["spans_key"])
        if learned := getattr(objective, "learned_settings", None):
            self.cfg.update(learned)
        return loss

    def finish_update(self, sgd: Optimizer) -> None:
        """Make a step by the gradients of all updates since the last one, those of other processes
        included."""
        from ..distributed.processes import clip_gradients, sum_gradients

        sum_gradients(self.model)
        self.last_step, self._loss = {"loss": self._loss}, 0.0
        # Set by `AdamW`.
        bound: float = getattr(sgd, "clip_norm", 0.0)
        if bound or self.log_gradients:
            norm = clip_gradients(self.model, bound)
            if self.log_gradients:
                # Read only here, since reading waits for the device.
                self.last_step["gradient_norm"] = float(norm[0])
        self.model.finish_update(sgd)
        self._weights_changed()

    def _weights_changed(self) -> None:
        """Drop what was computed with the old weights."""

    def require_weights(self) -> None:
        """Raise KrisselError K604 unless the model was initialized or loaded."""
        missing = False
        for node in self.model.walk():
            missing |= any(node.has_param(param) is None for param in node.param_names)
            # A transformer has no thinc parameters.
            missing |= any(getattr(shim, "transformer", shim) is None for shim in node.shims)
        if missing:
            raise KrisselError(Errors.K604.format(name=self.name))

    # Serialisation --------------------------------------------------------------------------------

    def _read_bytes(
        self, data: bytes, readers: Mapping[str, Callable[[bytes], Any]], exclude: Iterable[str]
    ) -> None:
        with self._coded("bytes"):
            util.from_bytes(data, {**self._readers(), **readers}, exclude)

    @contextmanager
    def _coded(self, source: str | Path) -> Iterator[None]:
        # Files that are missing, truncated or from another encoder raise many types of error, in
        # spaCy and thinc.
        try:
            yield
        except KrisselError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise KrisselError(
                Errors.K605.format(name=self.name, source=source, problem=problem)
            ) from error

    def _files(self) -> dict[str, Callable[[], bytes]]:
        return {"cfg": self._changed_settings, "model": self.model.to_bytes}

    def _readers(self) -> dict[str, Callable[[bytes], Any]]:
        return {"cfg": self._restore_settings, "model": self._load_model}

    def _changed_settings(self) -> bytes:
        """Return JSON that maps each changed setting to its value in the config and its value
        now."""
        before = self._configured
        changed = {
            name: [before[name], value]
            for name, value in self.cfg.checked().items()
            if value != before[name]
        }
        return srsly.json_dumps(changed, sort_keys=True).encode("utf8")

    def _restore_settings(self, data: bytes) -> None:
        for name, (configured, value) in srsly.json_loads(data).items():
            if name in self.cfg and self._configured[name] == configured:
                self.cfg[name] = value

    def _load_model(self, data: bytes) -> None:
        self.model.from_bytes(data)
        self._weights_changed()

    def _write_files(self, path: Path, exclude: Iterable[str]) -> None:
        """Write `_files`, then their checksums. An excluded file is left unchanged."""
        files = self._files()
        contents = {name: content() for name, content in files.items() if name not in exclude}
        with coded_io(path):
            path.mkdir(parents=True, exist_ok=True)
            sums = {
                name: sum_
                for name, sum_ in _checksums(path).items()
                if name in files and name in exclude
            }
            for name, content in contents.items():
                (path / name).write_bytes(content)
                sums[name] = hashlib.sha256(content).hexdigest()
            srsly.write_json(path / CHECKSUMS, sums)

    def _read_files(self, path: Path, exclude: Iterable[str]) -> None:
        """Pass each file's content to its reader. Raises KrisselError K605 if one is missing or was
        changed."""
        with self._coded(path):
            sums = _checksums(path)
            for name, read in self._readers().items():
                if name in exclude:
                    continue
                if name in self.optional_files and name not in sums:
                    # An earlier pipe in this folder may have left one.
                    read(b"")
                    continue
                content = (path / name).read_bytes()
                if sums.get(name) != hashlib.sha256(content).hexdigest():
                    problem = f"the SHA-256 of '{name}' is not the one in {CHECKSUMS}"
                    raise KrisselError(
                        Errors.K605.format(name=self.name, source=path, problem=problem)
                    )
                read(content)


def _checksums(path: Path) -> dict[str, str]:
    """Return the checksums in a pipe's folder; none if they are missing or damaged."""
    try:
        found = srsly.read_json(path / CHECKSUMS)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

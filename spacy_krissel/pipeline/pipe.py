"""What the pipes of the package have in common."""

from contextlib import contextmanager
from pathlib import Path
from typing import Iterable, Iterator, List, Union

from spacy import util
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from thinc.api import Optimizer

from ..errors import Errors, KrisselError
from ..layers.gradients import sum_gradients


class KrisselPipe(TrainablePipe):
    """A pipe that loses no doc to an error, and that says what is wrong with files it cannot read."""

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of docs; the mentions of `batch_size` docs go through the model together."""
        for docs in util.minibatch(stream, size=batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: List[Doc]) -> None:
        error_handler = self.get_error_handler()
        try:
            self.set_annotations(docs, self.predict(docs))
        except Exception as error:
            error_handler(self.name, self, docs, error)

    def finish_update(self, sgd: Optimizer) -> None:
        """Make a step by the gradients of all updates since the last one, those of other processes included."""
        sum_gradients(self.model)
        super().finish_update(sgd)

    @contextmanager
    def _coded(self, source: Union[str, Path]) -> Iterator[None]:
        # Files that are missing, cut short or of another encoder end in errors of many kinds, spaCy's and thinc's.
        try:
            yield
        except KrisselError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise KrisselError(Errors.K605.format(name=self.name, source=source, problem=problem)) from error

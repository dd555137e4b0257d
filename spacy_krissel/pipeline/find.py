"""A pipe of this package in a pipeline."""

from spacy.language import Language

from ..errors import Errors, KrisselError
from .kb_pipe import KBPipe
from .linker import KrisselLinker


def find_linker(nlp: Language, name: str = "krissel_linker") -> KrisselLinker:
    """The linker of a pipeline, be it disabled. Raises KrisselError K610 when there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.pipe_names) or "nothing"))
    return pipe


def find_kb_pipe(nlp: Language, name: str) -> KBPipe:
    """A pipe with a knowledge base, linker or span extractor, be it disabled. Raises KrisselError K610 when there is
    none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KBPipe):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.pipe_names) or "nothing"))
    return pipe

"""A pipe of this package in a pipeline, and pipes by what they write."""

from typing import List

from spacy.language import Language

from ..errors import Errors, KrisselError
from .kb_pipe import KBPipe
from .linker.component import KrisselLinker


def find_linker(nlp: Language, name: str = "krissel_linker") -> KrisselLinker:
    """The linker of a pipeline, be it disabled. Raises KrisselError K610 when there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing"))
    return pipe


def find_kb_pipe(nlp: Language, name: str) -> KBPipe:
    """A pipe with a knowledge base, linker or span extractor, be it disabled. Raises KrisselError K610 when there is
    none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KBPipe):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.component_names) or "nothing"))
    return pipe


def link_writers(nlp: Language) -> List[str]:
    """The enabled components that write links, re-rankers among them."""
    return [name for name in nlp.pipe_names if "token.ent_kb_id" in nlp.get_pipe_meta(name).assigns]


def mention_setters(nlp: Language) -> List[str]:
    """The enabled components that set mentions, `doc.ents` or spans, and do not link them: what is switched off where
    docs keep the mentions that they have."""
    links = link_writers(nlp)
    setters = ({"doc.ents", "doc.spans"}.intersection(nlp.get_pipe_meta(name).assigns) for name in nlp.pipe_names)
    return [name for name, sets in zip(nlp.pipe_names, setters) if sets and name not in links]

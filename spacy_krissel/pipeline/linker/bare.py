"""Links of names that each stand in a text of their own, without spaCy's docs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.util import raise_error

from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...mentions.contexts import read_mention
from ...mentions.species import taxon_numbers
from ..settings import LinkerSettings
from .component import KrisselLinker
from .decision import without_link
from .linking import find_candidates


class NameIn(NamedTuple):
    """A name in a text: `text[start:end]`."""

    text: str
    start: int
    end: int


class BareLinks(NamedTuple):
    """Links of q names to the entities of a snapshot.

    result: their candidates. linked (q,): is each linked to its best candidate? unsure (q,): a
        correction in a text may be of the name, so that it has to be linked in a doc.
    """

    kb: KBSnapshot
    result: SearchResult
    linked: np.ndarray
    unsure: np.ndarray


class BareNames:
    """Links of names, as `nlp.pipe` links mentions with a label, in a fraction of its time.

    is_possible: False if the pipeline may link them otherwise in docs: it has other components, or
        a term of the score reads docs.
    """

    def __init__(
        self, nlp: Language, pipe: KrisselLinker, label: str, others: Sequence[str]
    ) -> None:
        """label: of the mentions. others: components that do not run."""
        self._pipe, cfg = pipe, pipe.cfg
        self._settings = LinkerSettings(
            **{
                **cfg,
                "types": cfg.types_by_label.get(label, cfg.types),
                "types_by_label": {},
                "nil_share_by_label": {},
            }
        )
        self.is_possible = (
            [name for name in nlp.pipe_names if name not in others] == [pipe.name]
            and type(nlp.tokenizer) is Tokenizer
            and type(nlp).make_doc is Language.make_doc
            and pipe.get_error_handler() is raise_error
            and not _may_set_abbreviations()
            and not pipe.terms
            and cfg.context != "sentence"
            and label not in cfg.nil_share_by_label
            and taxon_numbers(pipe.kb.snapshot().species) is None
        )

    def __call__(self, names: Sequence[NameIn]) -> BareLinks:
        """Return the links of one name or more."""
        settings = self._settings
        read = [
            read_mention(
                *name,
                in_window=settings.context != "none",
                use_abbreviations=settings.use_abbreviations,
            )
            for name in names
        ]
        views, written = ([*each] for each in zip(*read, strict=True))
        query, terms = self._pipe.bare_query(views, written)
        result = find_candidates(query, terms, settings, self._pipe.n_candidates_kept())
        unsure = np.zeros(len(names), dtype=bool)
        unsure[query.alike[0]] = True
        return BareLinks(query.kb, result, ~without_link(result, settings), unsure)


def _may_set_abbreviations() -> bool:
    """May docs have abbreviations that no component sets?"""
    if not Doc.has_extension("abbreviations"):
        return False
    default, method, getter, _ = Doc.get_extension("abbreviations")
    return bool(default) or method is not None or getter is not None

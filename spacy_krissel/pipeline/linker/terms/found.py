"""Found term: a mention that was found by a name is linked to an entity that has it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....mentions.annotations import FOUND
from ....mentions.discontinuous import holds_fragments
from ....mentions.general_words import is_reading
from ....util.folding import spelling
from ....views import with_mention
from ...settings import LinkerSettings
from ..query import Found, Query
from .term import Pairs, Term

# Loss of an entity without the name: more than similarities can make up for.
LOSS = np.float32(-3)
# Variant of a mention of which a part stands apart.
COORDINATION = "coordination"


class FoundTerm(Term):
    """Loss of the entities that do not have the name by which `krissel_finder` found the mention.

    The mention is encoded, searched for and compared as this name. Among the entities that have it,
    the other terms decide. If its label allows none of them, a mention keeps its own words.
    """

    name = "found"

    def __init__(self, spans_key: str, by_label: Mapping[str, Sequence[str]]) -> None:
        """by_label: types of entities for spans of a label (`types_by_label`)."""
        self.spans_key, self._by_label = spans_key, by_label

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "FoundTerm":
        return cls(settings.spans_key, settings.types_by_label)

    def prepare(self, query: Query) -> None:
        masks: dict[str, np.ndarray] = {}
        for row, said in self._said(query):
            entities = query.kb.entities.known_rows(said["ids"])
            label = query.spans[row].label_
            if types := self._by_label.get(label):
                if label not in masks:
                    masks[label] = query.kb.entity_mask(types)
                entities = [each for each in entities if masks[label][each]]
            if entities:
                query.found[row] = Found(entities, said["variant"], _is_added(said))
                name = _known_name(query.kb, said["name"], entities)
                query.views[row] = with_mention(query.views[row], name)
                query.texts[row] = name
                query.reworded[row] = said["variant"] == "word" and is_reading(query.written[row])

    def _said(self, query: Query) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the rows of found mentions, and what was said of each."""
        fragments: dict[tuple[int, str], dict[str, Any]] = {}
        found = {}
        for row, span in enumerate(query.spans):
            data: dict[Any, Any] = span.doc.user_data
            if said := data.get(("._.", FOUND, span.start_char, span.end_char)):
                found[row] = said
                if said["variant"] == COORDINATION and span.id_:
                    fragments[query.doc_of[row], span.id_] = said
        if fragments:
            # What a fragment shares with others may be a mention by itself.
            for row, span in enumerate(query.spans):
                if span.id_ and holds_fragments(span.doc, self.spans_key):
                    found[row] = fragments.get((query.doc_of[row], span.id_), found.get(row, {}))
        yield from ((row, said) for row, said in found.items() if said)

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray | None:
        if not query.found:
            return None
        proposed = np.full(
            (len(query), max(len(each.entities) for each in query.found.values())), -1
        )
        for row, found in query.found.items():
            proposed[row, : len(found.entities)] = found.entities
        return proposed

    def score(self, query: Query, pairs: Pairs) -> np.ndarray | None:
        if not query.found:
            return None
        scores = np.zeros(len(pairs.mentions), dtype=np.float32)
        edges = np.searchsorted(pairs.mentions, np.arange(len(query) + 1))
        for row, found in query.found.items():
            here = slice(edges[row], edges[row + 1])
            scores[here] = np.where(found.has(pairs.entities[here]), 0, LOSS)
        return scores


def _is_added(said: dict[str, Any]) -> bool:
    """Return whether a text is an added name: as written, it is none of the vocabulary."""
    text, name = said["text"], said["name"]
    return said["variant"] == "name" and text != name and spelling(text) != spelling(name)


def _known_name(kb: KBSnapshot, name: str, entities: Sequence[int]) -> str:
    """Return the name, or the preferred name of an entity that lacks it: a user added the name, and
    no similarity shows the entity."""
    if len(entities) > 1 or kb.prototypes.has_name(entities[0], name):
        return name
    return kb.entities.display_fields(np.array(entities))[1][0]

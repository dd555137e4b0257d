"""How long the texts are that describe entities."""

from typing import Any, Dict, Optional

from spacy_krissel.ontology.entity import Entity


class ReferenceLengths:
    """Sums over entities; `figures` are their means."""

    def __init__(self) -> None:
        self._entities = self._names = self._name_words = self._name_characters = 0
        self._definitions = self._definition_words = self._definition_characters = 0

    def add(self, entity: Entity) -> None:
        self._entities += 1
        for name in entity.names:
            self._names += 1
            self._name_words += len(name.split())
            self._name_characters += len(name)
        if definition := entity.definition.strip():
            self._definitions += 1
            self._definition_words += len(definition.split())
            self._definition_characters += len(definition)

    def figures(self) -> Dict[str, Any]:
        """`entities` (a count), `names` an entity, words and characters of a name, the share of entities that are
        `defined`, words and characters of a definition where there is one; None stands for a mean of nothing."""
        return {
            "entities": self._entities,
            "names": mean(self._names, self._entities),
            "name_words": mean(self._name_words, self._names),
            "name_characters": mean(self._name_characters, self._names),
            "defined": mean(self._definitions, self._entities),
            "definition_words": mean(self._definition_words, self._definitions),
            "definition_characters": mean(self._definition_characters, self._definitions),
        }


def mean(total: float, number: int) -> Optional[float]:
    return total / number if number else None

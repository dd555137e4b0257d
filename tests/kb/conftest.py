from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.views import View


class Entity(NamedTuple):
    id: str
    name: str
    types: Sequence[str] = ()


ENTITIES = [
    Entity("D003", "Mitral stenosis", ("T047",)),
    Entity("D001", "Multiple sclerosis", ("T047", "T191")),
    Entity("D002", "Mass spectrometry", ("T059",)),
    Entity("D004", "Never seen"),
]
PROTOTYPES = [
    Prototype("D001", "name", View("", "Multiple sclerosis", "")),
    Prototype("D001", "mention", View("Relapsing ", "MS", " is treated")),
    Prototype("D002", "mention", View("Proteins were found by ", "MS", "")),
    Prototype("D003", "gold", View("a murmur of ", "MS", " was heard", masked=True)),
    Prototype("D003", "name", View("", "Mitral stenosis", "")),
]
VECTORS = np.array(
    [[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 1, 0, 0], [0, 0.6, 0.8, 0], [0, 0, 1, 0]], dtype=np.float32
)


@pytest.fixture
def entities():
    return ENTITIES


@pytest.fixture
def prototypes():
    return PROTOTYPES


@pytest.fixture
def vectors():
    return VECTORS.copy()


@pytest.fixture
def make_kb():
    """Makes the small knowledge base of this file, with the settings given."""

    def make(index=None, vocab=None, **settings):
        kb = PrototypeKB(vocab or Vocab(), 4, index=index, **settings)
        kb.set_entities(ENTITIES)
        kb.add_prototypes(PROTOTYPES, VECTORS)
        kb.encoder = "fingerprint"
        return kb

    return make


@pytest.fixture
def random_kb():
    """Makes a knowledge base of random vectors: prototype i is of entity `owners[i]`."""

    def make(owners, vectors, index=None, **settings):
        kb = PrototypeKB(Vocab(), vectors.shape[1], index=index, **settings)
        kb.set_entities(
            [
                Entity(f"E{row:05}", f"name {row}", (f"T{row % 3}",))
                for row in range(max(owners) + 1)
            ]
        )
        prototypes = [
            Prototype(f"E{row:05}", "name", View("", f"name {row}", "")) for row in owners
        ]
        kb.add_prototypes(prototypes, vectors)
        return kb

    return make

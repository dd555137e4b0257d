"""Descriptions of the components for a contract over all of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import spacy


class Component(NamedTuple):
    """One component with one kind of model.

    name: in the pipeline. save: gives the folder of a small, trained pipeline. make: a pipeline,
    initialized and untrained. docs: unannotated docs. links: what the component wrote to a
    doc. examples: to train it with. source: of its knowledge base.
    """

    name: str
    save: Callable
    make: Callable
    docs: Callable
    links: Callable
    examples: Callable
    source: Any
    learn_rate: float
    steps: int

    def load(self, **config):
        return spacy.load(
            self.save(),
            config={f"components.{self.name}.{key}": value for key, value in config.items()},
        )

    def run(self, nlp):
        return [self.links(nlp(doc)) for doc in self.docs(nlp)]


LEARN_RATES = {
    "small": 0.01,
    "transformer": 0.002,
    "referenced": 0.01,
    "list": 0.03,
    "pairs": 0.0005,
    "words": 0.02,
    "pieces": 0.002,
}
# Enough to learn the toy examples by heart; a head that begins at zero over a transformer from
# nothing takes its time.
STEPS = {"pairs": 100, "pieces": 60}
LINKERS = ["krissel_linker-small", "krissel_linker-transformer", "krissel_linker-referenced"]
RERANKERS = ["krissel_reranker-list", "krissel_reranker-pairs"]
EXTRACTORS = ["krissel_span_extractor-words", "krissel_span_extractor-pieces"]
# It has no model and is not trained.
FINDERS = ["krissel_finder-names"]
ALL = [*LINKERS, *RERANKERS, *EXTRACTORS, *FINDERS]
FIRST = [LINKERS[0], RERANKERS[0], EXTRACTORS[0]]


def kinds(*names):
    """Parameters of `component`. The other kinds of model are slow, and go the same ways through
    the components."""
    quick = FIRST + FINDERS
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


# For what only a component with a knowledge base promises, and only one that links mentions.
with_kb = pytest.mark.parametrize("component", kinds(*LINKERS, *EXTRACTORS), indirect=True)
linkers = pytest.mark.parametrize("component", kinds(*LINKERS), indirect=True)
with_mentions = pytest.mark.parametrize("component", kinds(*LINKERS, *RERANKERS), indirect=True)
# One kind of model of each, where the kind makes no difference.
each_pipe = pytest.mark.parametrize("component", FIRST + FINDERS, indirect=True)
each_model = pytest.mark.parametrize("component", FIRST, indirect=True)
# What only a component with a model promises.
with_model = pytest.mark.parametrize(
    "component", kinds(*LINKERS, *RERANKERS, *EXTRACTORS), indirect=True
)

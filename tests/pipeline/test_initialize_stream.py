"""Reading of a long stream of examples by `initialize`."""

from itertools import count

import spacy

from spacy_krissel.training.data.examples import view_examples
from spacy_krissel.views import View


def test_initialize_reads_only_the_start_of_a_stream(encoders):
    taken = []

    def linked():
        for i in count():
            taken.append(i)
            yield [(f"E{i}", View(f"left {i} ", "mention", " right"))]

    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker", config={"model": encoders["small"]})
    nlp.initialize(lambda: view_examples(linked()))
    assert 100 < len(taken) < 30_000

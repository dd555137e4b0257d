"""Cost of linking by document length, counted in operations and memory, not in seconds."""

import tracemalloc

import pytest
from operations import operations

from spacy_krissel import Entity, build

WORDS = ("heart", "liver", "lung", "brain", "skin", "kidney", "bone", "blood", "ear", "eye")
KINDS = ("failure", "disease", "injury", "cancer", "infection")
ENTITIES = [
    Entity(
        f"D{i:02}{j}", f"{word} {kind}", (f"{kind} of the {word}", f"{word[0]}{kind[0]}".upper())
    )
    for i, word in enumerate(WORDS)
    for j, kind in enumerate(KINDS)
]
GENES = [
    Entity(f"{taxon}{i}", f"BRCA{i}", species=taxon)
    for i in range(1, 4)
    for taxon in ("9606", "10090")
]


@pytest.fixture(scope="module")
def nlp(tmp_path_factory):
    # With all that a linker may read: abbreviations, spelling, species, confidence, the other
    # mentions.
    return build([*ENTITIES, *GENES], tmp_path_factory.mktemp("growth") / "linker").nlp


def document(nlp, n):
    """Make a doc of n sentences, each with a definition, two mentions, a gene and a species."""
    text, places = "", []
    for i in range(n):
        word, kind = WORDS[i % len(WORDS)], KINDS[i % len(KINDS)]
        short = f"{word[0]}{kind[0]}n{i}".upper()
        start = len(text)
        gene, species = f"BRCA{1 + i % 3}", ("mice", "men")[i % 2]
        text += (
            f"The {word} {kind} number {i} ({short}) was seen in {species} with {gene} and "
            f"{short}. "
        )
        for mention in (f"{word} {kind}", gene, f"{short}."):
            place = text.index(mention, start)
            places.append((place, place + len(mention.rstrip("."))))
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(*place, label="X", alignment_mode="expand") for place in places]
    return doc


def peak(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("measure", [operations, peak])
def test_cost_is_linear_in_the_document_length(nlp, measure):
    linker = nlp.get_pipe("krissel_linker")
    linker(document(nlp, 10))
    docs = [document(nlp, n) for n in (100, 400)]
    short, long = (measure(lambda doc=doc: linker(doc)) for doc in docs)
    assert len(docs[1].ents) == 1200
    assert long < 4.2 * short

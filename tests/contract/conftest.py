"""The pipelines of `tests/pipeline`, one fixture for all components."""

import importlib.util
from functools import partial
from pathlib import Path

import pytest
import spacy
from components import (
    ALL,
    LEARN_RATES,
    STEPS,
    Component,
    kinds,
)

_SPEC = importlib.util.spec_from_file_location(
    "pipeline_fixtures", Path(__file__).parents[1] / "pipeline" / "conftest.py"
)
assert _SPEC is not None and _SPEC.loader is not None
_FIXTURES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_FIXTURES)
globals().update(
    {name: value for name, value in vars(_FIXTURES).items() if not name.startswith("_")}
)


@pytest.fixture(scope="session")
def make_finder(toy_names):
    """Makes a pipeline that finds the names of the toy ontology."""

    def make(kind="names", **settings):
        nlp = spacy.blank("en")
        names = [(name, id_) for id_, names in toy_names.items() for name in names]
        nlp.add_pipe("krissel_finder", config=settings).set_names(names)
        return nlp

    return make


@pytest.fixture(scope="session")
def save_finder(make_finder, make_once):
    def save(kind="names"):
        folder = make_once("finder", lambda folder: make_finder().to_disk(folder / "pipeline"))
        return folder / "pipeline"

    return save


def found_in(doc):
    """Return what a finder wrote to a doc."""
    return [
        (ent.start, ent.end, ent.label_, found["name"], [*found["ids"]], found["variant"])
        for ent in doc.ents
        if (found := ent._.krissel_found)
    ]


@pytest.fixture
def makers(
    save_linker,
    make_linker,
    save_reranker,
    make_reranker,
    save_extractor,
    make_extractor,
    save_finder,
    make_finder,
):
    return {
        "krissel_finder": (save_finder, make_finder),
        "krissel_linker": (save_linker, make_linker),
        "krissel_reranker": (save_reranker, make_reranker),
        "krissel_span_extractor": (save_extractor, make_extractor),
    }


@pytest.fixture
def component_of(
    makers,
    make_docs,
    links_of,
    entities_of,
    make_examples,
    make_text_examples,
    source,
    names_source,
):
    """Return a function that gives the component of a title."""

    def component_of(title):
        name, kind = title.split("-")
        saver, maker = makers[name]
        if name == "krissel_finder":
            return Component(
                name,
                partial(saver, kind),
                partial(maker, kind),
                lambda nlp: [nlp.make_doc(doc.text) for doc in make_docs(nlp)],
                found_in,
                make_text_examples,
                names_source,
                0.0,
                0,
            )
        finds = name == "krissel_span_extractor"
        return Component(
            name,
            partial(saver, kind),
            partial(maker, kind),
            make_docs,
            entities_of if finds else links_of,
            make_text_examples if finds else make_examples,
            names_source if finds else source,
            LEARN_RATES[kind],
            STEPS.get(kind, 20),
        )

    return component_of


@pytest.fixture(params=kinds(*ALL))
def component(request, component_of):
    return component_of(request.param)


@pytest.fixture
def nlp(component, toy_store):
    nlp = component.load()
    # What training needs beside the pipeline, and no pipeline carries.
    if component.name not in ("krissel_reranker", "krissel_finder"):
        nlp.get_pipe(component.name).objective.initialize(toy_store)
    return nlp


@pytest.fixture
def pipe(nlp, component):
    return nlp.get_pipe(component.name)

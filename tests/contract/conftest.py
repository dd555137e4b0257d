"""The pipelines of `tests/pipeline`, one fixture for all components."""

import importlib.util
from functools import partial
from pathlib import Path

import pytest
from components import EXTRACTORS, LEARN_RATES, LINKERS, RERANKERS, STEPS, Component, kinds

_SPEC = importlib.util.spec_from_file_location(
    "pipeline_fixtures", Path(__file__).parents[1] / "pipeline" / "conftest.py"
)
assert _SPEC is not None and _SPEC.loader is not None
_FIXTURES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_FIXTURES)
globals().update(
    {name: value for name, value in vars(_FIXTURES).items() if not name.startswith("_")}
)


@pytest.fixture
def makers(save_linker, make_linker, save_reranker, make_reranker, save_extractor, make_extractor):
    return {
        "krissel_linker": (save_linker, make_linker),
        "krissel_reranker": (save_reranker, make_reranker),
        "krissel_span_extractor": (save_extractor, make_extractor),
    }


@pytest.fixture(params=kinds(*LINKERS, *RERANKERS, *EXTRACTORS))
def component(
    request,
    makers,
    make_docs,
    links_of,
    entities_of,
    make_examples,
    make_text_examples,
    source,
    names_source,
):
    name, kind = request.param.split("-")
    saver, maker = makers[name]
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


@pytest.fixture
def nlp(component, toy_store):
    nlp = component.load()
    # What training needs beside the pipeline, and no pipeline carries.
    if component.name != "krissel_reranker":
        nlp.get_pipe(component.name).objective.initialize(toy_store)
    return nlp


@pytest.fixture
def pipe(nlp, component):
    return nlp.get_pipe(component.name)

"""spaCy's own imports of `spacy.blank()` and `python -m spacy` stay cheap."""

import json
import subprocess
import sys

import pytest

import spacy_krissel

HEAVY = {
    "torch",
    "faiss",
    "transformers",
    "pyarrow",
    "sklearn",
    "scipy",
    "numba",
}
SCRIPT = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
before = {name.split(".")[0] for name in sys.modules}
module = importlib.import_module(sys.argv[2])
after = {name.split(".")[0] for name in sys.modules}
ours = sorted(name for name in sys.modules if name.startswith("spacy_krissel"))
print(json.dumps([sorted(after - before), ours]))
"""


def imported(first, then):
    """The packages, and the modules of ours, that importing `then` adds to what importing `first`
    brought."""
    command = [sys.executable, "-c", SCRIPT, first, then]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    packages, ours = json.loads(done.stdout.splitlines()[-1])
    return set(packages), ours


def test_the_root_imports_only_its_version():
    packages, ours = imported("json", "spacy_krissel")
    assert ours == ["spacy_krissel", "spacy_krissel.about"]
    assert packages & {"spacy", "numpy", "thinc", "pydantic", *HEAVY} == set()


@pytest.mark.parametrize("name", spacy_krissel.__all__)
def test_public_name_resolves_and_is_documented(name):
    assert getattr(spacy_krissel, name).__name__ == name
    assert name in dir(spacy_krissel)
    assert getattr(spacy_krissel, name).__doc__, "the API page shows it"


def test_unknown_attribute_raises():
    assert sorted(spacy_krissel._MODULES) == sorted(spacy_krissel.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spacy_krissel.nothing  # noqa: B018


@pytest.mark.parametrize(
    "first, then",
    [("spacy", "spacy_krissel.pipeline.factories"), ("spacy.cli", "spacy_krissel.cli.in_spacy")],
)
def test_entry_points_import_nothing_heavy(first, then):
    """Beyond what spaCy brings itself: thinc, for one, imports torch where it is installed."""
    packages, ours = imported(first, then)
    assert "spacy_krissel" in packages, "or nothing was measured"
    assert packages & HEAVY == set()
    # The package that it lies in; spaCy's extension attributes and the error catalogue are a few
    # names and strings.
    packages_of_ours = {name.split(".")[1] for name in ours if "." in name}
    assert packages_of_ours <= {then.split(".")[1], "about", "errors", "mentions", "util"}


def test_a_small_encoder_starts_without_transformers():
    """Their import takes as long as spaCy's."""
    packages, ours = imported("spacy", "spacy_krissel.commands.build_linker")
    assert "spacy_krissel.layers.warm_start" in ours
    assert packages & {"transformers", "sklearn", "numba"} == set()


def test_factories_import_no_component():
    """The component is imported when it is made."""
    _, ours = imported("spacy", "spacy_krissel.pipeline.factories")
    assert without_errors(ours) == FACTORIES


FACTORIES = [
    "spacy_krissel",
    "spacy_krissel.about",
    *(f"spacy_krissel.{name}" for name in ("mentions", "mentions.annotations")),
    *(f"spacy_krissel.{name}" for name in ("pipeline", "pipeline.factories", "pipeline.settings")),
    *(f"spacy_krissel.{name}" for name in ("util", "util.settings")),
]


def without_errors(modules):
    """Without the error catalogue, which is a few strings."""
    return [name for name in modules if name.split(".")[1:2] != ["errors"]]


BLANK = """
import json, sys
import spacy
from spacy.tokens import Doc
nlp = spacy.blank("en")
doc = nlp.make_doc("He has MS")
doc.set_ents([doc.char_span(7, 9, label="X")])
print(json.dumps({
    "ours": sorted(name for name in sys.modules if name.startswith("spacy_krissel")),
    "pyarrow": "pyarrow" in sys.modules,
    "spans": [list(doc.ents[0]._.get(name)) for name in sys.argv[1].split()],
    "docs": [list(doc._.get(name)) for name in sys.argv[2].split()],
    "stored": len(doc.user_data),
}))
"""


def test_blank_pipeline_imports_only_factories_and_loggers():
    """All that it lists counts, loggers too. What other pipelines wrote to docs can be read in
    it."""
    spans = ("krissel_candidates", "krissel_ties", "krissel_reranked_by")
    docs = ("krissel_entities", "krissel_entity_candidates")
    command = [sys.executable, "-c", BLANK, " ".join(spans), " ".join(docs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    loggers = {"spacy_krissel.pipeline.step_logger"}
    assert set(without_errors(found["ours"])) <= {*FACTORIES, *loggers}
    assert not found["pyarrow"]
    assert (found["spans"], found["docs"], found["stored"]) == ([[]] * 3, [[]] * 2, 0)


def test_factories_work_without_the_heavy_libraries():
    """Not even tried for: an import that is refused and caught would not show above."""
    script = f"""
import sys
sys.modules.update({{name: None for name in {sorted(HEAVY)!r}}})
import spacy
import spacy_krissel.pipeline.factories
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr

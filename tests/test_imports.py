"""The layers of the package: imports run downward only, and some packages know nothing of some
libraries."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

import spacy_krissel

PACKAGE = Path(spacy_krissel.__file__).parent
# A package may import itself, those of its own line, and those above it.
LAYERS = (
    ("about", "errors", "util"),
    ("views", "distributed"),
    ("losses", "layers"),
    ("ontology", "index"),
    ("lexical",),
    ("mentions",),
    ("corpora", "pairs", "graphs"),
    ("mining",),
    ("kb",),
    ("finding",),
    ("building",),
    ("training",),
    ("pipeline",),
    ("evaluation",),
    ("render",),
    ("serving",),
    ("commands",),
    ("cli",),
    # The root names the public API for type checkers; nothing inside the package imports it.
    ("",),
)
RANKS = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
# Requirements of setup.cfg by the name they are imported by, and what these bring: jinja2
# markupsafe, spaCy wasabi, scikit-learn threadpoolctl, pooch requests and its urllib3. Extras:
# faiss, numba, onnx, ray, cupy, bioregistry, rdflib, oaklib.
LIBRARIES = {
    *(
        "spacy",
        "thinc",
        "srsly",
        "pydantic",
        "pydantic_core",
        "typer",
        "tqdm",
        "jinja2",
        "markupsafe",
        "wasabi",
    ),
    *("pooch", "requests", "urllib3"),
    *(
        "numpy",
        "scipy",
        "sklearn",
        "threadpoolctl",
        "pyarrow",
        "torch",
        "transformers",
        "safetensors",
        "yaml",
    ),
    *("cassis", "cupy", "cupyx", "numba", "onnx", "onnxruntime"),
    *(
        "faiss",
        "ray",
        "bioregistry",
        "rdflib",
        "oaklib",
        "fastapi",
        "starlette",
        "uvicorn",
        "prometheus_client",
        "mcp",
        "mcp_types",
    ),
}
# Below what its rank allows: what a package must not know, libraries and packages.
TRANSFORMERS = ("torch", "transformers", "spacy_transformers", "safetensors")
MODELS = (*TRANSFORMERS, "thinc.api.Model", "spacy_krissel.layers")
STRANGERS = {
    "about": (),
    "errors": ("spacy", "thinc", "numpy", "pyarrow", "faiss", *TRANSFORMERS),
    "util": ("spacy", "thinc", "numpy", "pyarrow", "faiss", *TRANSFORMERS),
    "views": ("thinc", "faiss", *TRANSFORMERS),
    "distributed": ("faiss", "pyarrow"),
    "ontology": ("spacy", "thinc", "faiss", *TRANSFORMERS),
    "mentions": ("faiss", *MODELS),
    "corpora": ("faiss", *MODELS),
    "pairs": ("spacy", "thinc", "faiss", *MODELS),
    "graphs": ("spacy", "thinc", "faiss", *MODELS),
    "mining": ("spacy", "thinc", "faiss", *MODELS),
    "losses": ("spacy", "faiss", "spacy_krissel.views", *MODELS),
    "index": ("spacy", "thinc", "spacy_krissel.ontology", "spacy_krissel.views"),
    "lexical": ("spacy", "thinc", "faiss", "spacy_krissel.views", *MODELS),
    "layers": ("faiss", "spacy_krissel.losses"),
    "kb": (
        "spacy_krissel.mining",
        "spacy_krissel.corpora",
        "spacy_krissel.losses",
        "faiss",
        *MODELS,
    ),
    "finding": ("thinc", "faiss", *MODELS),
    "building": ("faiss", "spacy_krissel.losses", *MODELS),
    "training": ("faiss", *TRANSFORMERS),
    "pipeline": ("faiss", "spacy_krissel.losses", "spacy_krissel.index", *TRANSFORMERS),
    "evaluation": (
        "faiss",
        "spacy_krissel.losses",
        "spacy_krissel.training",
        "spacy_krissel.layers",
        *TRANSFORMERS,
    ),
    "render": ("faiss", *MODELS),
    "serving": ("faiss", "spacy_krissel.losses", "spacy_krissel.training", *MODELS),
    "commands": ("faiss", "spacy_krissel.losses", "transformers"),
    "cli": ("faiss", *TRANSFORMERS),
}


class Import(NamedTuple):
    """One imported name: `importer` (a module of ours) imports `imported` at `line`.

    typing: under `if TYPE_CHECKING`, so that it never runs. late: within a function.
    """

    importer: str
    imported: str
    line: int
    typing: bool
    late: bool

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: {self.imported}"


def module_name(path: Path) -> str:
    parts = (PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports_of(module: str, source: str, is_package: bool) -> Iterator[Import]:
    """Every import in `source`, at whatever depth, with relative ones resolved and each name of a
    `from` apart."""

    def visit(node: ast.AST, typing: bool, late: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, typing, late)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: None if is_package else -1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, *([base] if base else [])])
            for alias in node.names:
                yield Import(module, f"{base}.{alias.name}", node.lineno, typing, late)
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        body: list[ast.AST] = list(getattr(node, "body", [])) if guarded else []
        for child in ast.iter_child_nodes(node):
            yield from visit(child, typing or child in body, late)

    return visit(ast.parse(source), False, False)


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    found = []
    for module, path in SOURCES.items():
        found.extend(
            imports_of(module, path.read_text(encoding="utf8"), path.name == "__init__.py")
        )
    return found


def our_module(name: str) -> str:
    """The module of ours that `name`, a module or something in one, stands for; "" for others'."""
    if name in SOURCES:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in SOURCES else ""


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first one again at the end; empty without a
    ring."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for imported in sorted(graph.get(module, ())):
            ring = visit(imported, [*path, module])
            if ring:
                return ring
        done.add(module)
        return []

    for module in sorted(graph):
        ring = visit(module, [])
        if ring:
            return ring
    return []


def test_imports_and_cycles_are_found():
    """The other tests rest on this one."""
    source = """
import torch.nn as nn
from . import sibling
from .names import fold
from ..util import hashing
if TYPE_CHECKING:
    from ..kb.candidates import x
else:
    import numpy
class A:
    def f(self):
        try:
            import faiss
        except ImportError:
            pass
"""
    found = list(imports_of("spacy_krissel.room.module", source, False))
    assert [(each.imported, each.typing, each.late) for each in found] == [
        ("torch.nn", False, False),
        ("spacy_krissel.room.sibling", False, False),
        ("spacy_krissel.room.names.fold", False, False),
        ("spacy_krissel.util.hashing", False, False),
        ("spacy_krissel.kb.candidates.x", True, False),
        ("numpy", False, False),
        ("faiss", False, True),
    ]
    (package,) = imports_of("spacy_krissel.room", "from .module import x", True)
    assert package.imported == "spacy_krissel.room.module.x"
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) == []


def test_sources_and_imports_were_found(imports):
    assert len(SOURCES) > 80 and len(imports) > 500


def test_every_package_has_a_layer():
    assert {room_of(module) for module in SOURCES} == set(RANKS)
    assert set(STRANGERS) == set(RANKS) - {""}


def test_imports_within_the_package_resolve(imports):
    ours = [each for each in imports if each.imported.split(".")[0] == PACKAGE.name]
    assert len(ours) > 200
    assert [str(each) for each in ours if not our_module(each.imported)] == []


def test_imports_run_downward(imports):
    """Late imports and those for type checkers too: they are knowledge all the same."""
    wrong = []
    for each in imports:
        target = our_module(each.imported)
        if target and RANKS[room_of(target)] > RANKS[room_of(each.importer)]:
            wrong.append(str(each))
    assert wrong == [], "move the code down, or what needs it up"


def test_imports_have_no_cycle(imports):
    """Between modules, whenever the import runs, and for type checkers alone too."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        target = our_module(each.imported)
        if target:
            graph.setdefault(each.importer, set()).add(target)
    assert cycle_in(graph) == []


def test_packages_import_no_forbidden_library(imports):
    wrong = []
    for each in imports:
        for stranger in STRANGERS.get(room_of(each.importer), ()):
            if f"{each.imported}.".startswith(f"{stranger}."):
                wrong.append(str(each))
    assert wrong == []


def test_core_knows_neither_the_service_nor_output_formats(imports):
    """Neither late nor for type checkers, nor as a module that is imported by its name."""
    apart = ("serving", "render.formats")
    users = ("serving", "commands", "cli")
    core = {name for name in SOURCES if room_of(name) not in users and not is_in(name, apart)}
    assert {each.importer for each in imports if is_in(each.imported, apart)} - core, (
        "or nothing was found"
    )
    assert [
        str(each) for each in imports if each.importer in core and is_in(each.imported, apart)
    ] == []
    for module in core:
        for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.fullmatch(
                    r"(spacy_krissel)?\.?(serving|render\.formats)[\w.:]*", node.value
                ), module


def is_in(module: str, rooms: tuple[str, ...]) -> bool:
    return f"{module}.".startswith(tuple(f"{PACKAGE.name}.{room}." for room in rooms))


def test_views_import_spacy_for_type_checking_only(imports):
    """`views` names spaCy's `Span` for type checkers alone: it takes one and makes none."""
    found = [
        each
        for each in imports
        if room_of(each.importer) == "views" and each.imported.startswith("spacy.")
    ]
    assert found and all(each.typing for each in found)


@pytest.mark.parametrize("library", ["torch", "faiss", "transformers", "pyarrow"])
def test_cli_imports_other_packages_late(imports, library):
    """`python -m spacy` imports the command line each time it starts."""
    for each in imports:
        if room_of(each.importer) == "cli" and room_of(our_module(each.imported)) not in (
            "cli",
            "errors",
            "util",
            "",
        ):
            assert each.late, each
        assert not (room_of(each.importer) == "cli" and each.imported.split(".")[0] == library)


def test_the_root_imports_only_its_version():
    """`import spacy_krissel` costs nothing: spaCy imports entry points of it in every
    `spacy.blank`."""
    found = imports_of(PACKAGE.name, SOURCES[PACKAGE.name].read_text(encoding="utf8"), True)
    allowed = ("importlib.", "typing.", f"{PACKAGE.name}.about.")
    assert [
        str(each) for each in found if not each.typing and not each.imported.startswith(allowed)
    ] == []


def test_about_imports_nothing():
    """setup.cfg reads the version from it before any dependency is installed."""
    about = f"{PACKAGE.name}.about"
    assert list(imports_of(about, SOURCES[about].read_text(encoding="utf8"), False)) == []
    assert spacy_krissel.__version__ == version("spacy-krissel")


def test_type_checkers_see_what_the_root_resolves():
    found = imports_of(PACKAGE.name, SOURCES[PACKAGE.name].read_text(encoding="utf8"), True)
    typed = {
        each.imported.rpartition(".")[2]: each.imported.rpartition(".")[0]
        for each in found
        if each.typing
    }
    assert typed == {
        name: f"{PACKAGE.name}.{module}" for name, module in spacy_krissel._MODULES.items()
    }


def test_package_imports_only_declared_libraries(imports):
    """The laboratory (`lab`, `experiments`), tests and benchmarks above all, and any library that
    setup.cfg lacks."""
    found = {each.imported.split(".")[0] for each in imports} - sys.stdlib_module_names
    assert sorted(found - {PACKAGE.name, *LIBRARIES}) == []

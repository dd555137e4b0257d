"""A default is written once: what a function passes on under its own parameter has the default of one of the two."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spacy_krissel

ROOT = Path(spacy_krissel.__file__).parent
# Says nothing about a setting: absent, off, empty.
PLAIN = (None, False, True, "", 0)


class Function(NamedTuple):
    module: str
    defaults: dict[str, ast.expr]
    node: ast.AST


def defaults_of(function: ast.FunctionDef) -> dict[str, ast.expr]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [*zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
    return {name.arg: value for name, value in pairs}


def fields_of(declared: ast.ClassDef) -> dict[str, ast.expr]:
    return {
        each.target.id: each.value
        for each in declared.body
        if isinstance(each, ast.AnnAssign) and each.value is not None and isinstance(each.target, ast.Name)
    }


def functions(trees: dict[str, ast.Module]) -> dict[str, list[Function]]:
    """Functions and classes by the name that a call has."""
    found = defaultdict(list)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found[node.name].append(Function(module, defaults_of(node), node))
            elif isinstance(node, ast.ClassDef):
                made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
                defaults = defaults_of(made[0]) if made else fields_of(node)
                found[node.name].append(Function(module, defaults, node))
    return found


def written_twice(trees: dict[str, ast.Module]) -> Iterator[str]:
    known = functions(trees)
    callers = [each for group in known.values() for each in group if isinstance(each.node, ast.FunctionDef)]
    for caller in callers:
        for call in ast.walk(caller.node):
            if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Name, ast.Attribute)):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            if len(known.get(name, ())) != 1:
                continue
            for keyword in call.keywords:
                theirs = known[name][0].defaults.get(keyword.arg or "")
                ours = caller.defaults.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else None
                if isinstance(ours, ast.Constant) and isinstance(theirs, ast.Constant) and ours.value not in PLAIN:
                    where = f"{caller.module}: {caller.node.name}({keyword.arg}={ours.value!r})"  # type: ignore[attr-defined]
                    yield f"{where} passes it on to {name}, whose default is {theirs.value!r}"


def test_a_default_is_written_twice():
    files = sorted(ROOT.rglob("*.py"))
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf8")) for path in files}
    assert sorted(set(written_twice(trees))) == []


def test_a_default_that_was_written_twice_is_not_found():
    functions = "def inner(cap=3): ...\ndef outer(cap=4):\n    inner(cap=cap)\n"
    code = f"{functions}class Made:\n    n: int = 2\ndef make(n=2):\n    Made(n=n)"
    found = list(written_twice({"a.py": ast.parse(code)}))
    assert found == [
        "a.py: outer(cap=4) passes it on to inner, whose default is 3",
        "a.py: make(n=2) passes it on to Made, whose default is 2",
    ]

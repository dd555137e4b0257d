"""A default is written once: what a function, or an object, passes on as it got it has the default
of one of them."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spacy_krissel

ROOT = Path(spacy_krissel.__file__).parent
# Says nothing about a setting: absent, off, empty.
PLAIN = (None, False, True, "", 0)
Defaults = dict[str, ast.expr]


class Declared(NamedTuple):
    """A function, or a class that is called: the names of its positional parameters, and its
    defaults."""

    positional: list[str]
    defaults: Defaults


class Call(NamedTuple):
    """A call within a function, and a class where the function is a method."""

    module: str
    owner: ast.ClassDef | None
    function: ast.FunctionDef
    node: ast.Call


def of_function(function: ast.FunctionDef) -> Declared:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    pairs = [*zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True)]
    pairs += [
        (each.arg, value)
        for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value
    ]
    return Declared(names, dict(pairs))


def of_class(declared: ast.ClassDef) -> Declared:
    """Return the parameters of `__init__`, or the fields."""
    for each in declared.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            positional, defaults = of_function(each)
            return Declared(positional[1:], defaults)
    fields = {
        each.target.id: each.value
        for each in declared.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return Declared([*fields], {name: value for name, value in fields.items() if value is not None})


def known(trees: dict[str, ast.Module]) -> dict[str, list[Declared]]:
    """Functions and classes by the name that a call has."""
    found = defaultdict(list)
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                found[node.name].append(of_function(node))
            elif isinstance(node, ast.ClassDef):
                found[node.name].append(of_class(node))
    return found


def calls(module: str, tree: ast.Module) -> Iterator[Call]:
    def visit(
        node: ast.AST, owner: ast.ClassDef | None, function: ast.FunctionDef | None
    ) -> Iterator[Call]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and function is not None:
                yield Call(module, owner, function, child)
            inner = (child, None) if isinstance(child, ast.ClassDef) else (owner, function)
            yield from visit(
                child, *((owner, child) if isinstance(child, ast.FunctionDef) else inner)
            )

    yield from visit(tree, None, None)


def written_twice(trees: dict[str, ast.Module]) -> Iterator[str]:
    declared = known(trees)
    for call in (each for module, tree in trees.items() for each in calls(module, tree)):
        function = call.node.func
        name = getattr(function, "id", getattr(function, "attr", ""))
        # A copy of an object has that object's values.
        if call.owner is not None and name == call.owner.name:
            continue
        for positional, defaults in declared.get(name, ()):
            passed = [*zip(positional, call.node.args, strict=False)]
            passed += [(keyword.arg or "", keyword.value) for keyword in call.node.keywords]
            for parameter, value in passed:
                ours, theirs = default_of(call, value), defaults.get(parameter)
                # A constant with a name is one declaration, which several may use.
                if (
                    says_something(ours)
                    and says_something(theirs)
                    and not isinstance(ours, ast.Name)
                ):
                    where = (
                        f"{call.module}: "
                        f"{call.function.name}({ast.unparse(value)}={ast.unparse(ours)})"
                    )
                    yield f"{where} passes it on to {name}, whose default is {ast.unparse(theirs)}"


def default_of(call: Call, value: ast.expr) -> ast.expr | None:
    """Return the default of a parameter of the function, or of a setting of its object."""
    if isinstance(value, ast.Name):
        return of_function(call.function).defaults.get(value.id)
    if (
        call.owner is not None
        and isinstance(value, ast.Attribute)
        and isinstance(value.value, ast.Name)
    ):
        if value.value.id == "self":
            return of_class(call.owner).defaults.get(value.attr.lstrip("_"))
    return None


def says_something(default: ast.expr | None) -> bool:
    return isinstance(default, ast.Name) or (
        isinstance(default, ast.Constant) and default.value not in PLAIN
    )


def test_no_default_is_written_twice():
    files = sorted(ROOT.rglob("*.py"))
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf8"))
        for path in files
    }
    assert sorted(set(written_twice(trees))) == []


def test_repeated_defaults_are_found():
    """By keyword, by position, from an object's own setting, by one of several functions of a name,
    for a constant."""
    code = """
CAP = 3
def inner(texts, cap=3): ...
def outer(cap=4):
    inner([], cap=cap)
def by_position(cap=3):
    inner([], cap)
def named(cap=CAP):
    inner([], cap=cap)
class Made:
    n: int = 2
    def copy(self):
        return Made(self.n)
    def use(self):
        draw(self.n)
def make(n=2):
    Made(n=n)
def draw(n=5): ...
class Other:
    def inner(self, cap=CAP): ...
"""
    assert sorted(set(written_twice({"a.py": ast.parse(code)}))) == [
        "a.py: by_position(cap=3) passes it on to inner, whose default is 3",
        "a.py: by_position(cap=3) passes it on to inner, whose default is CAP",
        "a.py: make(n=2) passes it on to Made, whose default is 2",
        "a.py: outer(cap=4) passes it on to inner, whose default is 3",
        "a.py: outer(cap=4) passes it on to inner, whose default is CAP",
        "a.py: use(self.n=2) passes it on to draw, whose default is 5",
    ]

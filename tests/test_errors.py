"""The catalogue of messages: its codes, and every place that uses one."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import pytest

import spacy_krissel
from spacy_krissel import errors
from spacy_krissel.errors import Errors, KrisselError, KrisselWarning, Warnings

PACKAGE = Path(spacy_krissel.__file__).parent
# First digits of codes in the order of the catalogue; those of all packages include commands, K8xx.
BLOCKS = ("0", "8", "1", "2", "3", "4", "5", "6", "7")


def codes(catalogue: type) -> list[str]:
    return [name for name in vars(catalogue) if not name.startswith("_")]


ERRORS = codes(Errors)
WARNINGS = codes(Warnings)
DEFINED = [*ERRORS, *WARNINGS]


class Use(NamedTuple):
    """One place that uses a message; `fields` are the keywords it is formatted with, None when they
    cannot be read."""

    place: str
    catalogue: str
    code: str
    fields: set[str] | None


def uses() -> Iterator[Use]:
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf8"))
        formatted: dict[ast.AST, set[str] | None] = {}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "format"
            ):
                plain = not node.args and all(keyword.arg for keyword in node.keywords)
                formatted[node.func.value] = (
                    {str(keyword.arg) for keyword in node.keywords} if plain else None
                )
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "KrisselError"
            ):
                formatted.update((argument, set()) for argument in node.args)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in ("Errors", "Warnings"):
                    place = f"{path}, line {node.lineno}"
                    yield Use(place, node.value.id, node.attr, formatted.get(node))


USES: list[Use] = list(uses())


def fields_of(message: str) -> set[str]:
    return {
        field.split("[")[0].split(".")[0]
        for _, field, _, _ in Formatter().parse(message)
        if field is not None
    }


def test_codes_and_uses_were_found():
    assert len(DEFINED) > 60 and len(USES) > 100


@pytest.mark.parametrize("catalogue", [ERRORS, WARNINGS])
def test_codes_are_in_the_order_of_their_blocks(catalogue):
    assert catalogue == sorted(catalogue, key=lambda code: BLOCKS.index(code.lstrip("KW")[0]))


def test_each_code_is_defined_once():
    source = (PACKAGE / "errors.py").read_text(encoding="utf8")
    assert sorted(re.findall(r"^    (KW?\d{3}) = ", source, re.M)) == sorted(DEFINED)


@pytest.mark.parametrize("code", sorted(DEFINED))
def test_message_starts_with_its_code(code):
    assert re.fullmatch(rf"{'K' if code in ERRORS else 'KW'}\d\d\d", code)
    message = getattr(Errors if code in ERRORS else Warnings, code)
    assert message.startswith(f"[{code}] ")
    assert "  " not in message and message == message.strip()
    raised = (KrisselError if code in ERRORS else KrisselWarning)(message)
    assert raised.code == code and pickle.loads(pickle.dumps(raised)).code == code


@pytest.mark.parametrize(
    "message", ["", "no code", "[K06] short", "[X001] other", "after [K001] it", "[K001]"]
)
@pytest.mark.parametrize("kind", [KrisselError, KrisselWarning])
def test_message_without_a_code_has_an_empty_code(kind, message):
    assert kind(message).code == kind().code == ""


def test_no_module_reads_a_code_from_a_message():
    """They ask for `code`."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "errors.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
                if isinstance(node, ast.Constant) and re.match(r"\[KW?\d", str(node.value)):
                    found.append(f"{path}, line {node.lineno}")
    assert found == []


def test_messages_differ():
    messages = [getattr(Errors, code, None) or getattr(Warnings, code) for code in DEFINED]
    texts = [message.partition("] ")[2] for message in messages]
    assert len(set(texts)) == len(texts)


def test_every_used_code_is_defined():
    wrong = [
        use for use in USES if use.code not in (ERRORS if use.catalogue == "Errors" else WARNINGS)
    ]
    assert wrong == []


def test_every_defined_code_is_used():
    assert sorted(set(DEFINED) - {use.code for use in USES}) == [], (
        "remove these messages, or raise them"
    )


def test_messages_are_formatted_with_their_fields():
    """A field that is missing would end in a KeyError in the place of the message; one too many
    says nothing."""
    wrong = []
    for use in USES:
        wanted = fields_of(getattr(getattr(errors, use.catalogue), use.code))
        if use.fields is not None and use.fields != wanted:
            wrong.append((use.place, use.code, sorted(use.fields ^ wanted)))
    assert wrong == []

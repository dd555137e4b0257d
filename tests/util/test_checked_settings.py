import inspect
import pickle
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import Field

from spacy_krissel.errors import KrisselError, wrong_setting
from spacy_krissel.util.settings import (
    Count,
    Fraction,
    Positive,
    PositiveInt,
    checked,
    explicit_settings,
    factory_for,
    parameter_help,
    takes,
)


@checked
def call(
    store: Any = None,
    *,
    n: Count = 3,
    fraction: Fraction = 0.5,
    rate: Positive = 1.0,
    kind: Literal["a", "b"] = "a",
    flag: bool = True,
    names: list[str] | None = None,
    by_label: dict[str, list[str]] | None = None,
    path: str | Path | None = None,
    below_one: Annotated[float, Field(ge=0, lt=1)] = 0.0,
):
    """Do it.

    store: anything. n: how many.
    fraction, rate: two numbers
        over two lines.

    Returns: nothing.
    """
    return n, fraction, rate, kind, flag, names, by_label, path


@checked
class Thing:
    """flag: whether."""

    def __init__(self, flag: bool = True) -> None:
        self.flag = flag


@pytest.mark.parametrize(
    "given, message",
    [
        ({"n": -1}, "'n' is -1. Expected a whole number, 0 or more"),
        ({"n": "3"}, "'n' is '3'"),
        ({"n": 2.0}, "'n'"),
        ({"n": True}, "'n'"),
        ({"fraction": 1.5}, "a number from 0 to 1"),
        ({"fraction": float("nan")}, "'fraction'"),
        ({"rate": 0}, "a number above 0"),
        ({"kind": "c"}, "one of a, b"),
        ({"flag": "no"}, "true or false"),
        ({"names": "abc"}, "a list with text at each index or null"),
        ({"names": [1]}, "'names'"),
        ({"by_label": {"a": "b"}}, "'by_label'"),
        ({"path": 3}, "text or a path or null"),
        ({"below_one": 1}, "a number from 0 to below 1"),
    ],
)
def test_invalid_setting_raises(given, message):
    with pytest.raises(KrisselError, match=f"K006.*{message}"):
        call(**given)


def test_a_path_is_shown_as_it_was_typed():
    with pytest.raises(KrisselError, match=r"K006.*'path' is 'a/b'\. Expected"):
        raise wrong_setting("path", Path("a/b"), "a file")


def test_valid_settings_are_accepted_and_converted():
    n, fraction, _rate, _kind, _flag, names, _by_label, path = call(
        object(), n=np.int64(2), fraction=np.float32(0.5), rate=1, names=("x", "y"), path=Path("a")
    )
    assert (type(n), type(fraction), names, path) == (int, float, ["x", "y"], Path("a"))
    assert call()[:3] == (3, 0.5, 1.0)


def test_settings_of_a_class_are_checked():
    assert Thing(False).flag is False
    with pytest.raises(KrisselError, match="K006"):
        Thing("no")


def test_help_is_read_from_the_docstring():
    help_ = parameter_help(call)
    assert help_["fraction"] == help_["rate"] == "two numbers over two lines."
    assert help_["store"] == "anything. n: how many."
    assert parameter_help(Thing) == {"flag": "whether."}


@checked
class Part:
    """size: how large it is."""

    def __init__(self, owner: object, size: PositiveInt = 3, *, name: str = "part") -> None:
        self.values = owner, size, name


def test_maker_has_the_settings_of_what_it_makes():
    make = factory_for(Part, "owner")
    assert list(inspect.signature(make).parameters) == ["size", "name"] and parameter_help(
        make
    ) == {"size": "how large it is."}
    assert make()("me").values == ("me", 3, "part")
    assert pickle.loads(pickle.dumps(make(size=5, name="x")))("you").values == ("you", 5, "x")
    for wrong in ({"size": 0}, {"size": "3"}, {"name": 1}):
        with pytest.raises(KrisselError, match="K006"):
            make(**wrong)
    with pytest.raises(TypeError):
        make(owner="me")


def test_path_settings_accept_text():
    @checked
    def read(path: Path, cache: Path | None = None, either: str | Path = "") -> Any:
        return path, cache, either

    assert read("a", "b", "c") == (Path("a"), Path("b"), "c")
    assert read(Path("a"), None, Path("c")) == (Path("a"), None, Path("c"))
    with pytest.raises(KrisselError, match="K006.*'path' is 3"):
        read(3)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """size: see `Part`"""

    size: PositiveInt = 3
    words: tuple[str, ...] = ()


@checked
@dataclass(frozen=True)
class Asked(Shared):
    """path: where to. name: see `nothing here`"""

    path: Path
    _: KW_ONLY
    flag: bool = False


@takes(Asked)
def ask(asked: Asked) -> Asked:
    """Return what is asked."""
    return asked


def test_a_function_of_settings_is_called_with_the_fields_of_the_class():
    assert ask("a", size=5) == Asked(Path("a"), size=5) and ask(path=Path("a")).flag is False
    # Its own before those that it shares.
    assert list(inspect.signature(ask).parameters) == ["path", "flag", "size", "words"]
    assert parameter_help(ask)["size"] == "how large it is." and parameter_help(ask)[
        "path"
    ].startswith("where to")
    with pytest.raises(TypeError, match="no_such_setting"):
        ask("a", no_such_setting=3)
    with pytest.raises(KrisselError, match="K006.*'size'"):
        ask("a", size=0)


def test_given_returns_only_settings_that_were_passed():
    assert explicit_settings(ask("a", flag=True), Shared) == {}
    assert explicit_settings(ask("a", size=3, flag=True), Shared) == {"size": 3}
    assert explicit_settings(ask("a", flag=True), Asked) == {"path": Path("a"), "flag": True}

"""Settings, each declared once: type, bounds and default in a signature, help in the docstring."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, reduce, wraps
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import core_schema

from ..errors import Errors, KrisselError, wrong_setting

# Refuse text for a number, numbers for booleans, and values that JSON cannot represent.
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
# `Optional[int]` and `int | None` differ at run time.
UNION = (Union, UnionType)
Count = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    type(None): "null",
}
# Bounds in words, by kind; the first matching one is used.
BOUNDS = {
    ("MinLen",): "{what} that is not empty",
    ("Gt", "Lt"): "{what} between {Gt} and {Lt}",
    ("Gt", "Le"): "{what} above {Gt}, at most {Le}",
    ("Gt",): "{what} above {Gt}",
    ("Ge", "Le"): "{what} from {Ge} to {Le}",
    ("Ge", "Lt"): "{what} from {Ge} to below {Lt}",
    ("Ge",): "{what}, {Ge} or more",
}
Declared = TypeVar("Declared", bound=Callable[..., Any])
Given = ParamSpec("Given")
Made = TypeVar("Made")
Returned = TypeVar("Returned")
_DESCRIBED = re.compile(r"(\w+(?:, \w+)*): (.*)")
# Attribute of a settings object: the names of the settings passed explicitly.
_GIVEN = "_given"
_ELSEWHERE = re.compile(r"see `(\w+)`")


@dataclass(frozen=True)
class OneOf:
    """In `Annotated`: the names that a text may be, or a path may end in. Listed when used, since
    plugins add some."""

    names: Callable[[], Iterable[str]]
    is_ending: bool = False

    def __str__(self) -> str:
        return f"{'a path ending in' if self.is_ending else 'one of'} {', '.join(self.names())}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, value: Any) -> Any:
        if not (
            str(value).endswith(tuple(self.names())) if self.is_ending else value in self.names()
        ):
            raise ValueError(str(self))
        return value


def checked(declared: Declared) -> Declared:
    """Decorate a function, or the `__init__` of a class, to refuse settings of a wrong type or out
    of bounds.

    A setting is a parameter annotated as a number, text, path, boolean or literal, or as a list or
    dictionary. Bounds are pydantic's, as in `Annotated[int, Field(ge=1)]` or the types
    above. Other parameters are not checked. NumPy numbers become plain numbers, tuples and sets
    become lists, and text becomes a `Path` where one is declared.

    Raises KrisselError K006 when called with a wrong value.
    """
    if isinstance(declared, type):
        declared.__init__ = checked(declared.__init__)  # type: ignore[misc]
        return declared
    signature = inspect.signature(declared)

    @wraps(declared)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        for name, (type_, adapter) in _settings(called).items():
            if name in given.arguments:
                given.arguments[name] = check(name, given.arguments[name], type_, adapter)
        return declared(*given.args, **given.kwargs)

    return called  # type: ignore[return-value]


def factory_for(declared: Callable[..., Any], *left_out: str) -> Callable[..., Callable[..., Any]]:
    """Return a function with the settings of a `@checked` class or function, which returns a
    factory for it. Register it where each use needs its own object.

    left_out: parameters that the factory itself takes. The factory is a `functools.partial`, which
        can be pickled.
    """
    signature = inspect.signature(declared, eval_str=True)
    kept = [each for name, each in signature.parameters.items() if name not in left_out]
    own = signature.replace(parameters=kept, return_annotation=Callable)

    def make(*args: Any, **settings: Any) -> Callable[..., Any]:
        return partial(declared, **own.bind(*args, **settings).arguments)

    make.__doc__ = declared.__doc__
    make.__name__ = make.__qualname__ = f"make_{getattr(declared, '__name__', 'it')}"
    make.__module__ = declared.__module__
    make.__annotations__ = {each.name: each.annotation for each in kept}
    make.__signature__ = own  # type: ignore[attr-defined]
    return checked(make)


class Settings(MutableMapping[str, Any]):
    """Base of dataclasses of settings, each declared as a field; with `eq=False`, since they
    compare as mappings.

    A setting is read and changed as an attribute or by key. Lists and dictionaries may be changed
    in place; `checked` refuses invalid changes later.

    Raises KrisselError K006 (a wrong value), K607 (an unknown setting), K661 (a deleted setting).
    """

    def __setattr__(self, name: str, value: Any) -> None:
        types = _fields(type(self))
        if name not in types:
            raise KrisselError(
                Errors.K607.format(name=type(self).__name__, setting=name, known=", ".join(types))
            )
        super().__setattr__(name, check(name, value, *types[name]))

    def checked(self) -> dict[str, Any]:
        """Return all settings as plain values. Raises KrisselError K006."""
        return {
            name: check(name, self[name], *field) for name, field in _fields(type(self)).items()
        }

    def __getitem__(self, name: str) -> Any:
        if name not in _fields(type(self)):
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        raise KrisselError(Errors.K661.format(name=type(self).__name__, setting=name))

    def __iter__(self) -> Iterator[str]:
        return iter(_fields(type(self)))

    def __len__(self) -> int:
        return len(_fields(type(self)))

    def __ior__(self, other: Any) -> "Settings":
        self.update(other)
        return self


@cache
def _fields(declared: Any) -> dict[str, tuple[Any, TypeAdapter[Any]]]:
    types = type_hints(declared, include_extras=True)
    return {
        each.name: (types[each.name], TypeAdapter(types[each.name], config=STRICT))
        for each in fields(declared)
    }


def check(name: str, value: Any, type_: Any, adapter: Any = None) -> Any:
    """Validate a value and convert it to its type. Raises KrisselError K006."""
    try:
        return (adapter or TypeAdapter(type_, config=STRICT)).validate_python(_plain(value))
    except (ValidationError, RecursionError):
        raise wrong_setting(name, value, describe_type(type_)) from None


def takes(
    settings: Callable[Given, Made],
) -> Callable[[Callable[[Made], Returned]], Callable[Given, Returned]]:
    """Decorate a function of one settings object, so that it is called with the fields of the
    dataclass and has their help.

    Python refuses unknown settings.
    """
    signature = inspect.signature(settings)
    # Fields inherited from other dataclasses come last.
    ordered = sorted(
        signature.parameters.values(),
        key=lambda each: (each.kind, each.name not in settings.__annotations__),
    )

    def decorate(function: Callable[[Made], Returned]) -> Callable[Given, Returned]:
        @wraps(function)
        def called(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
            made = settings(*args, **kwargs)
            vars(made)[_GIVEN] = {**signature.bind(*args, **kwargs).arguments}.keys()
            return function(made)

        called.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        called.settings = settings  # type: ignore[attr-defined]
        lines = [f"{name}: {text}" for name, text in parameter_help(settings).items()]
        called.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", *lines])
        return called

    return decorate


def explicit_settings(settings: Any, group: Any) -> dict[str, Any]:
    """Return the settings of the dataclass `group`, a base of that of `settings`, that were passed
    explicitly and are not None.
    """
    values = ((each.name, getattr(settings, each.name)) for each in fields(group))
    return {
        name: value
        for name, value in values
        if name in vars(settings)[_GIVEN] and value is not None
    }


def parameter_help(declared: Any) -> dict[str, str]:
    """Parse the help of each parameter from the docstring of a function or class: lines
    `name: text`, and lines indented below.

    A dataclass inherits the help of its bases; "see `other`" refers to the help in `other`, in the
    same module.
    """
    bases = (
        [each for each in inspect.getmro(declared)[1:] if is_dataclass(each)]
        if inspect.isclass(declared)
        else []
    )
    found: dict[str, str] = {}
    for each in reversed([declared, *bases]):
        for name, text in _help(each).items():
            reference = _ELSEWHERE.fullmatch(text)
            other = reference and getattr(inspect.getmodule(each), reference[1], None)
            found[name] = _help(other).get(name, text) if other else text
    return found


def _help(declared: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(declared.__doc__ or "").splitlines():
        if line.startswith("    ") and names:
            for name in names:
                found[name] += f" {line.strip()}"
            continue
        match = _DESCRIBED.match(line)
        names = match.group(1).split(", ") if match else []
        found.update({name: match.group(2) for name in names} if match else {})
    return found


def describe_type(type_: Any) -> str:
    """Describe the values of a declared type in words."""
    if type_ in NAMES:
        return NAMES[type_]
    origin, args = get_origin(type_), get_args(type_)
    if origin in UNION:
        return " or ".join(dict.fromkeys(map(describe_type, args)))
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin is Annotated:
        return _bounded(args)
    if origin is dict:
        return f"a dictionary with {describe_type(args[1])} for each key"
    return f"a list with {describe_type(args[0])} at each index"


def listed(type_: Any) -> OneOf | None:
    """Return the names that a declared type is restricted to."""
    args = get_args(type_)
    if get_origin(type_) in UNION:
        return next(filter(None, map(listed, args)), None)
    return next((each for each in args[1:] if isinstance(each, OneOf)), None)


def bounds(type_: Any) -> dict[str, Any]:
    """Return the bounds of a declared type by kind: Ge, Gt, Le, Lt, MinLen."""
    origin, args = get_origin(type_), get_args(type_)
    if origin in UNION:
        return {kind: bound for each in args for kind, bound in bounds(each).items()}
    if origin is not Annotated:
        return {}
    found = [
        each for field in args[1:] for each in getattr(field, "metadata", ()) if is_dataclass(each)
    ]
    return {type(each).__name__: getattr(each, fields(each)[0].name) for each in found}


def _bounded(args: tuple[Any, ...]) -> str:
    if names := listed(Annotated[args]):
        return str(names)
    limits = bounds(Annotated[args])
    what = describe_type(args[0])
    for kinds, words in BOUNDS.items():
        if set(kinds) <= set(limits):
            return words.format(what=what, **limits)
    return what


@cache
def _settings(declared: Any) -> dict[str, tuple[Any, TypeAdapter[Any]]]:
    types = type_hints(declared, include_extras=True)
    return {
        name: (types[name], TypeAdapter(_paths_from_text(types[name]), config=STRICT))
        for name in inspect.signature(declared).parameters
        if name in types and _is_setting(types[name])
    }


def _paths_from_text(type_: Any) -> Any:
    # Configs give paths as text.
    if type_ is Path:
        return Annotated[Path, Field(strict=False)]
    if get_origin(type_) in UNION:
        return reduce(or_, map(_paths_from_text, get_args(type_)))
    return type_


def _is_setting(type_: Any) -> bool:
    if type_ in NAMES or get_origin(type_) is Literal:
        return True
    if get_origin(type_) is Annotated:
        return _is_setting(get_args(type_)[0])
    # A tuple or a sequence may be data.
    return get_origin(type_) in (*UNION, list, dict) and all(map(_is_setting, get_args(type_)))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value

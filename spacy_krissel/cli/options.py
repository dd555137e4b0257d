"""Options of a command, made from the signature and the docstring of the function that does its
work."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand

from ..errors import KrisselError
from ..util.settings import UNION, bounds, check, describe_type, listed, parameter_help
from .alone import can_run_alone, run_alone

# Short names of options.
SHORT = {"output": "-o", "gpu_id": "-g", "code": "-c"}
GPU = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU")


class Command(NamedTuple):
    """A command of a `CodedApp`.

    function: "module:function" of a package, or a function. Its required
        positional parameters are arguments, but for `output` and those in `names`. A parameter
        `progress` is true, `command` is the command line, `overrides` are further options, such as
        --training.max_steps 100. The card of an `index_device` must be there before the function is
        called. What it returns is printed, in the form that `show_<function>` of the same module
        gives it; that may take parameters of the function as well.
    panel: of the help.
    example: of its arguments and options, at the end of the help.
    names: of options, by parameter, where it is another.
    defaults: of options, by parameter, where it is another, or is required (`Parameter.empty`).
    hidden: parameters that are no options, for Python alone.
    panels: of options in the help, by a pattern that the parameter matches.
    gpu: for a function without `gpu_id`: add the option --gpu-id, and choose the GPU before the
        call.
    alone: the function returns nothing, and goes on in a process without spaCy's command line
        (`run_alone`).
    package: of the module.
    """

    function: str | Callable[..., Any]
    panel: str
    example: str = ""
    gpu: bool = False
    names: Mapping[str, str] = {}
    defaults: Mapping[str, Any] = {}
    hidden: Collection[str] = ()
    panels: Mapping[str, str] = {}
    alone: bool = False
    package: str = "spacy_krissel"


def command_line() -> str:
    """Return the command as it was typed, for reports."""
    begins = "krissel" if Path(sys.argv[0]).stem == "krissel" else "python -m spacy"
    return " ".join([begins, *sys.argv[1:]])


def click_command(name: str, command: Command, guard: Callable[[Any], Any]) -> Any:
    """Return the command with an option for each parameter of its function; options that were typed
    are passed.

    guard: decorates what is called.
    """
    function, show = _functions(command)
    takes = inspect.signature(function, eval_str=True).parameters
    help = parameter_help(function)
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    ]
    parameters += [
        _option(each, help.get(each.name, ""), command)
        for each in takes.values()
        if each.name not in (*FILLED_IN, *command.hidden) and cli_type(each.annotation) is not None
    ]
    if command.gpu:
        parameters.append(
            inspect.Parameter("gpu_id", inspect.Parameter.KEYWORD_ONLY, default=GPU, annotation=int)
        )

    def run(ctx: typer.Context, **values: Any) -> None:
        if command.gpu:
            from ..pipeline.pipeline_io import choose_gpu

            choose_gpu(values["gpu_id"])
        if values.get("index_device") is not None:
            from ..index.devices import require_device

            require_device(values["index_device"])
        typed = {
            name: _plain(value)
            for name, value in values.items()
            if name in takes and _is_typed(ctx, name)
        }
        typed = {**command.defaults, **typed}
        typed.update({name: make(ctx) for name, make in FILLED_IN.items() if name in takes})
        if command.alone and can_run_alone():
            run_alone(str(command.function), typed)
        found = function(**typed)
        if show is not None:
            given = {**{name: each.default for name, each in takes.items()}, **typed}
            found = show(
                found,
                **{name: given[name] for name in list(inspect.signature(show).parameters)[1:]},
            )
        if found is not None:
            typer.echo(str(found))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = _summary(function)
    single = typer.Typer(add_completion=False)
    more = (
        {"allow_extra_args": True, "ignore_unknown_options": True} if "overrides" in takes else {}
    )
    example = f"Example: krissel {name} {command.example}" if command.example else None
    single.command(name, rich_help_panel=command.panel, context_settings=more, epilog=example)(
        guard(run)
    )
    return typer.main.get_command(single)


def listed_command(name: str, command: Command) -> Any:
    """Return a command with no more than the help of all commands shows. The docstring is read from
    the source: imports of all modules take seconds."""
    module, _, function = str(command.function).partition(":")
    spec = find_spec(f"{command.package}.{module}")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else ""  # type: ignore[attr-defined]
    found = (each for each in ast.parse(source).body if getattr(each, "name", "") == function)
    help = ast.get_docstring(next(found)) or ""  # type: ignore[arg-type]
    return TyperCommand(name, help=help.partition("\n\n")[0], rich_help_panel=command.panel)


def _functions(command: Command) -> tuple[Callable[..., Any], Callable[..., str] | None]:
    function = command.function
    if isinstance(function, str):
        module, _, name = function.partition(":")
        function = getattr(import_module(f"{command.package}.{module}"), name)
    return function, getattr(sys.modules[function.__module__], f"show_{function.__name__}", None)


def _option(parameter: inspect.Parameter, help: str, command: Command) -> inspect.Parameter:
    """Return the parameter as a typer option or argument."""
    name = parameter.name
    default = command.defaults.get(name, parameter.default)
    required = default is inspect.Parameter.empty
    type_: Any = cli_type(parameter.annotation)
    is_list = get_origin(type_) is list
    limits = bounds(parameter.annotation)
    help = help[:1].upper() + help[1:]
    checks = None
    if not limits.keys().isdisjoint(("Gt", "Lt")):
        # Typer knows closed bounds alone.
        words = describe_type(parameter.annotation).removesuffix(" or null")
        checks = _bounded(name, parameter.annotation, words)
        limits, help = {}, f"{help.rstrip('.')} ({words})"
    elif (names := listed(parameter.annotation)) and names.is_ending:
        help = f"{help.rstrip('.')} ({names})"
    if is_list and not required:
        default, help = list(default or ()), f"{help.rstrip('.')}; may be repeated"
    panel = next(
        (panel for pattern, panel in command.panels.items() if re.fullmatch(pattern, name)), None
    )
    settings: dict[str, Any] = {"help": help, "min": limits.get("Ge"), "max": limits.get("Le")}
    settings.update(rich_help_panel=panel, callback=checks)
    positional = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    if required and positional and name not in ("output", *command.names):
        declared = typer.Argument(... if required else default, **settings)
    else:
        names = _names(command.names.get(name, name), type_, default)
        declared = typer.Option(... if required else default, *names, **settings)
    annotation = type_ | None if default is None else type_
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=annotation
    )


def _bounded(name: str, type_: Any, words: str) -> Callable[[Any], Any]:
    """Return a function that takes the value of an option and returns it, if it is within its
    bounds."""

    def checked(value: Any) -> Any:
        try:
            return value if value is None else check(name, value, type_)
        except KrisselError:
            raise typer.BadParameter(f"{value} is not {words}") from None

    return checked


def _names(name: str, type_: Any, default: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if type_ is bool and default is True:
        return [f"{option}/--no-{option[2:]}"]
    if get_origin(type_) is list:
        # One value of a list at a time: --index, --label.
        option = re.sub(r"(?<=x)es$|(?<!ie)s$", "", option)
    return [option, *([SHORT[name]] if name in SHORT else [])]


def cli_type(type_: Any) -> Any:
    """Return the type of an option that takes values of a parameter's type; None if there is
    none."""
    origin, args = get_origin(type_), get_args(type_)
    if type_ in (bool, int, float, str, Path):
        return type_
    if origin is Annotated:
        names = listed(type_)
        return cli_type(
            args[0] if names is None or names.is_ending else Literal[tuple(names.names())]
        )  # type: ignore[valid-type]
    if origin is Literal:
        return Enum("Choice", {str(value): value for value in args})
    if origin in UNION:
        # The wider type: a path rather than text, several rather than one.
        types = [found for each in args if (found := cli_type(each)) is not None]
        return max(types, key=lambda each: (get_origin(each) is list, each is Path), default=None)
    if origin in (list, Sequence, Iterable, Collection):
        item = cli_type(args[0])
        return None if item is None else list[item]  # type: ignore[valid-type]
    return None


def _summary(function: Any) -> str:
    """Return a docstring up to its first parameter."""
    text = inspect.cleandoc(function.__doc__ or "")
    starts = [
        text.find(f"\n{name}")
        for line in parameter_help(function)
        for name in (f"{line}:", f"{line},")
    ]
    text = text[: min((start for start in starts if start >= 0), default=len(text))].strip()
    # The terminal wraps paragraphs.
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and not source.name.startswith("DEFAULT")


def _overrides(ctx: typer.Context) -> dict[str, Any]:
    from spacy.cli._util import parse_config_overrides

    return parse_config_overrides(list(ctx.args))


# Parameters that are not options.
FILLED_IN: dict[str, Callable[[typer.Context], Any]] = {
    "progress": lambda ctx: True,
    "command": lambda ctx: command_line(),
    "overrides": _overrides,
}

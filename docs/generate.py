"""The pages of the reference, made from the code, and those of the notebooks.

`python docs/generate.py` writes the reference into `docs/reference`, where readers of a clone find
it. The hook of mkdocs adds the notebooks. Every setting is declared once, with its type, bounds,
default and help; the pages show those declarations.
"""

import html
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from typing import get_type_hints as type_hints

REFERENCE: dict[str, Callable[[], str]] = {}
NOTEBOOKS = {
    f"notebooks/{path.stem}.md": path
    for path in sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))
}
GROUPS = {
    "spacy_architectures": ("@architectures", "Models"),
    "thinc_losses": ("@losses", "Losses"),
    "thinc_optimizers": ("@optimizers", "Optimizers"),
    "thinc_schedules": ("@schedules", "Schedules"),
    "spacy_misc": ("@misc", "Objectives, indexes, knowledge bases and sources"),
    "spacy_readers": ("@readers", "Training data"),
    "spacy_batchers": ("@batchers", "Batchers"),
    "spacy_loggers": ("@loggers", "Loggers"),
    "spacy_scorers": ("@scorers", "Scorers"),
}
# The parts that a component is made of, which its class takes besides its settings.
COMPONENT_PARTS = {
    "model": "the encoder, a registered model",
    "objective": "how it is trained; null for a component that is not",
    "generate_empty_kb": "makes the knowledge base that is filled or loaded, with its index",
    "terms": "further terms of the score, each under its name (How it works: Add a term)",
    "kb_path": (
        "folder of a knowledge base that several pipelines share; null: it is saved with the "
        "pipeline"
    ),
    "linker": "name of the linker whose candidates are re-ranked, or whose names are found",
    "max_names": "number of names of a candidate that the model reads",
    "tree_numbers": "whether the model reads a candidate's tree numbers",
    "scorer": "of `nlp.evaluate` and `spacy train`",
}
CODE = re.compile(r"KW?\d{3}$")


class Setting(NamedTuple):
    name: str
    type: str
    default: str
    help: str


def page(make: Callable[[], str]) -> Callable[[], str]:
    name = make.__name__.removesuffix("_page")
    REFERENCE[f"reference/{name}.md"] = make
    return make


def components() -> Iterator[tuple[str, list[Setting]]]:
    """Each component with its settings, in the order of its config."""
    from spacy.language import Language

    from spacy_krissel.pipeline import settings as declared
    from spacy_krissel.util.settings import parameter_help

    classes = {
        "krissel_finder": declared.FinderSettings,
        "krissel_linker": declared.LinkerSettings,
        "krissel_reranker": declared.RerankerSettings,
        "krissel_span_extractor": declared.ExtractorSettings,
    }
    import spacy_krissel.pipeline.factories  # noqa: F401  (registers them)

    for name in [entry.name for entry in entry_points("spacy_factories")]:
        meta = Language.get_factory_meta(name)
        help = {**COMPONENT_PARTS, **parameter_help(classes[name])}
        parameters = inspect.signature(entry_point("spacy_factories", name)).parameters.values()
        types = {each.name: each.annotation for each in parameters}
        types.update(type_hints(classes[name], include_extras=True))
        rows = [
            Setting(key, type_name(types.get(key)), default_name(value), help.get(key, ""))
            for key, value in meta.default_config.items()
        ]
        yield name, rows


def parts() -> Iterator[tuple[str, str, str, list[Setting]]]:
    """Each registered part: its group, its name, what it is, and its settings."""
    for group in GROUPS:
        for entry in entry_points(group):
            part = entry.load()
            yield group, entry.name, summary(part), part_settings(part)


def part_settings(part: Any, describe: Callable[[Any], str] | None = None) -> list[Setting]:
    """describe: names types that are no settings."""
    from spacy_krissel.util.settings import parameter_help

    help = parameter_help(part)
    hints = type_hints(part, include_extras=True)
    if inspect.isclass(part):
        help = {**parameter_help(part.__init__), **help}
        hints |= type_hints(part.__init__, include_extras=True)
    return [
        Setting(
            name,
            type_name(hints.get(name), describe),
            default_name(parameter.default),
            help.get(name, ""),
        )
        for name, parameter in inspect.signature(part).parameters.items()
        if name != "self"
    ]


def commands() -> Iterator[tuple[str, str, list[Setting]]]:
    """Each command of `krissel`: its name, what it does, and its arguments and options."""
    group: Any = click_group()
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        rows = []
        for parameter in command.params:
            if "--help" in parameter.opts or getattr(parameter, "hidden", False):
                continue
            # An argument is known by its name alone.
            is_option = parameter.param_type_name == "option"
            names = (
                ", ".join([*parameter.opts, *parameter.secondary_opts])
                if is_option
                else parameter.name.upper()
            )
            default = "required" if parameter.required else default_name(parameter.default)
            rows.append(
                Setting(
                    names, option_type(parameter), default, getattr(parameter, "help", None) or ""
                )
            )
        yield name, (command.help or "").strip(), rows


def click_group() -> Any:
    import typer

    from spacy_krissel.cli.app import krissel

    return typer.main.get_group(krissel)


def codes() -> Iterator[tuple[str, str, str]]:
    """Each code: the title of its group, the code, and its message."""
    from spacy_krissel.errors import Errors, Warnings

    for catalogue in (Errors, Warnings):
        for owner in (catalogue, *catalogue.__bases__):
            module = inspect.getmodule(owner)
            title = (inspect.getdoc(module) or "").splitlines()[0]
            for code, message in vars(owner).items():
                if CODE.match(code):
                    yield title, code, message


@page
def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        (
            "Made from the declarations in the code. A setting of a wrong type or out of bounds is "
            "refused with K006."
        ),
        (
            "Settings of a component are given to `nlp.add_pipe(..., config=...)` or in a config "
            "file. Those that"
        ),
        (
            '`nlp.get_pipe("krissel_linker").cfg` holds can be changed on a loaded pipeline: '
            '`cfg["threshold"] = 0.6`.'
        ),
        "",
        "## Components",
        "",
    ]
    for name, rows in components():
        lines += [f"### {name}", "", *table(rows, "setting")]
    seen = ""
    for group, name, what, rows in parts():
        if group != seen:
            key, title = GROUPS[group]
            lines += [f"## {title} (`{key}`)", ""]
            seen = group
        lines += [f"### {name}", "", what, "", *table(rows, "setting")]
    lines += ["## Commands", "", "`python -m spacy krissel COMMAND …`", ""]
    for name, what, rows in commands():
        lines += [
            f"### krissel {name}",
            "",
            text(what),
            "",
            *table(rows, "argument or option"),
        ]
    return "\n".join(lines) + "\n"


@page
def errors_page() -> str:
    lines = [
        "# Errors and warnings",
        "",
        (
            "`K…` are errors (`KrisselError`), `KW…` warnings (`KrisselWarning`). Each message "
            "says what was expected,"
        ),
        (
            "what was found and what to do; words in braces are filled in. Codes are stable; "
            "`error.code` has the code."
        ),
        "",
    ]
    seen = ""
    for title, code, message in codes():
        if title != seen:
            lines += [f"## {title}", ""]
            seen = title
        shown = html.escape(message.removeprefix(f"[{code}] "))
        lines += [f"### {code}", "", f"<p>{shown}</p>", ""]
    return "\n".join(lines) + "\n"


@page
def terms_page() -> str:
    from spacy_krissel.corpora.report import COUNTS
    from spacy_krissel.evaluation.end_to_end_report import KINDS
    from spacy_krissel.evaluation.report import MEANINGS
    from spacy_krissel.finding.finder import VARIANT_MEANINGS
    from spacy_krissel.kb.candidates import CANDIDATE_KEYS
    from spacy_krissel.kb.search_result import MATCH_MEANINGS
    from spacy_krissel.ontology.verify import STATUS_MEANINGS

    matches = dict(reversed(MATCH_MEANINGS.items()))
    first = "The first that holds counts"
    evaluation = "The terms of `krissel evaluate` and its page, with the kinds of prototypes"
    lines = ["# Terms", ""]
    for title, lead, key, of_terms in (
        ("Candidates", "Keys of `span._.krissel_candidates`", "key", CANDIDATE_KEYS),
        ("How a name was found", f"{first}: the mention …", "match", matches),
        ("Variants of a name", "The text in which it was found …", "variant", VARIANT_MEANINGS),
        ("Verdicts of `krissel verify`", "The id and its label", "verdict", STATUS_MEANINGS),
        (
            "Counts of `krissel convert`",
            "Those of data issues are in its warnings",
            "count",
            COUNTS,
        ),
        ("Terms of evaluation", evaluation, "term", MEANINGS),
        ("Errors of `--end-to-end`", first, "error", KINDS),
    ):
        lines += [f"## {title}", "", f"{lead}:", "", *meanings(key, of_terms)]
    return "\n".join(lines) + "\n"


@page
def links_page() -> str:
    from spacy_krissel.render.formats import WRITERS

    lines = [
        "# Formats of links",
        "",
        (
            "What `krissel link --output` writes, by the end of the file's name. Offsets count "
            "characters from 0, and the end is exclusive. [Other tools](../tools.md) says which "
            "tool reads what."
        ),
        "",
    ]
    for ending in WRITERS:
        lines += [f"## `{ending}`", "", inspect.getdoc(WRITERS[ending]) or "", ""]
    return "\n".join(lines) + "\n"


def meanings(first: str, of_terms: dict[str, str]) -> list[str]:
    rows = [f"| {cell(text(term))} | {cell(text(what))} |" for term, what in of_terms.items()]
    return [f"| {first} | meaning |", "| --- | --- |", *rows, ""]


@page
def vocabularies_page() -> str:
    from spacy_krissel.ontology.readers.table import HEADERS
    from spacy_krissel.ontology.vocabularies import VOCABULARIES

    lines = [
        "# Vocabularies and columns",
        "",
        (
            "The names that stand for a publisher's file "
            "([Your own ontology](../own-ontology.md#vocabularies-by-name))."
        ),
        "",
        "| name | vocabulary | licence | how to get it |",
        "| --- | --- | --- | --- |",
    ]
    for each in VOCABULARIES.values():
        how = f"[login]({each.address}), then `{each.command}`" if each.command else "downloaded"
        licence = f"[{each.licence}]({each.terms})" if each.terms else each.licence
        cells = (f"`{each.name}`", each.title, licence, how)
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    lines += [
        "",
        "## Columns of tables",
        "",
        (
            "The usual names of columns, by which [a table](../formats.md#tables) is read. Case, "
            "spaces and underscores do not matter."
        ),
        "",
        "| part | names |",
        "| --- | --- |",
        *(
            f"| {part} | {', '.join(f'`{each}`' for each in names)} |"
            for part, names in HEADERS.items()
        ),
    ]
    return "\n".join(lines) + "\n"


@page
def configs_page() -> str:
    lines = [
        "# Configs",
        "",
        "The configs of the folder `configs`, by the comments at their beginning.",
        "[Train](../train.md) says how to use one. What each is worth is in `experiments/`.",
        "",
    ]
    for path in sorted((Path(__file__).parents[1] / "configs").glob("*.cfg")):
        head = itertools.takewhile(lambda line: line.startswith("#"), path.open(encoding="utf8"))
        what = "\n".join(line[2:].rstrip() for line in head)
        lines += [f"## {path.name}", "", re.sub(r"https://[^\s,)]+", r"<\g<0>>", what), ""]
    return "\n".join(lines) + "\n"


@page
def api_page() -> str:
    import spacy_krissel

    lines = [
        "# API",
        "",
        "The public names: `from spacy_krissel import …`. Each is imported when it is first used.",
        "",
    ]
    for name in spacy_krissel.__all__:
        value = getattr(spacy_krissel, name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        rows = [] if is_error else part_settings(getattr(value, "settings", value), annotation)
        lines += [f"## {name}", "", *prose(value, rows)]
        lines += table(rows, "parameter") if rows else []
        known = {row.name for row in rows}
        for member, each in vars(value).items() if inspect.isclass(value) else ():
            each = getattr(each, "__func__", each)
            is_part = callable(each) or isinstance(each, property)
            # Not the docstring of what it overrides.
            if member[0] == "_" or member in known or not is_part or not each.__doc__:
                continue
            rows = part_settings(each, annotation) if callable(each) else []
            lines += [f"### {name}.{member}", "", f"`{call(member, each)}`", "", *prose(each, rows)]
            lines += table(rows, "parameter") if any(row.help for row in rows) else []
    return "\n".join(lines) + "\n"


def call(name: str, member: Any) -> str:
    """A member as it is called; a property by its name alone."""
    if not callable(member):
        return name
    bare = [
        each.replace(annotation=each.empty)
        for each in inspect.signature(member).parameters.values()
        if each.name not in ("self", "cls")
    ]
    return f"{name}{inspect.Signature(bare)}"


def prose(part: Any, rows: list[Setting]) -> list[str]:
    """The lines of a docstring that are no help of these settings, and a blank one."""
    known = tuple(f"{row.name}{end}" for row in rows for end in (":", ","))
    lines: list[str] = []
    is_help = False
    for line in (inspect.getdoc(part) or "").splitlines():
        is_indented = line.startswith("    ")
        is_help = line.startswith(known) or (is_help and is_indented)
        if not is_help and (line or lines[-1:] != [""]):
            lines.append(line if is_indented else text(line))
    return [*lines, *([""] if lines[-1:] != [""] else [])]


def notebook_page(path: Path) -> str:
    """The cells of a notebook with the outputs that are stored in it."""
    notebook = json.loads(path.read_text(encoding="utf8"))
    lines = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                lines += ["```", "".join(output["text"]).rstrip("\n"), "```", ""]
            else:
                # Around the block that displaCy makes is a span, which Markdown would take for
                # prose.
                shown = "".join(output["data"]["text/html"])
                lines += [re.sub(r"^<span[^>]*>|</span>$", "", shown), ""]
    return "\n".join([*lines, f"This page is `docs/notebooks/{path.name}`."]) + "\n"


def table(rows: list[Setting], first: str) -> list[str]:
    if not rows:
        return ["No settings.", ""]
    lines = [f"| {first} | type | default | |", "| --- | --- | --- | --- |"]
    for row in rows:
        default = f"`{row.default}`" if row.default not in ("", "required") else row.default
        lines.append(
            f"| `{row.name}` | {cell(row.type)} | {cell(default)} | {cell(text(row.help))} |"
        )
    return [*lines, ""]


def cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def text(value: str) -> str:
    """Prose of a docstring, so that Markdown shows it as it is; what stands in backticks stays."""
    parts = re.split(r"(`[^`]*`)", value)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\[\]*_])", r"\\\1", html.escape(part, False))
        for part in parts
    )


def summary(part: Any) -> str:
    """The first paragraph of a docstring that is no setting."""
    from spacy_krissel.util.settings import parameter_help

    known = parameter_help(part)
    for paragraph in (inspect.getdoc(part) or "").split("\n\n"):
        if paragraph.strip() and not any(
            paragraph.startswith((f"{name}:", f"{name},")) for name in known
        ):
            return text(" ".join(paragraph.split()))
    return ""


def type_name(type_: Any, describe: Callable[[Any], str] | None = None) -> str:
    from spacy_krissel.util.settings import describe_type

    try:
        return describe_type(type_)
    except (IndexError, AttributeError, TypeError):
        # A model, a function, an index.
        return "a registered part" if describe is None else describe(type_)


def annotation(type_: Any) -> str:
    """A type that is no setting, without the names of modules; equal for all Python versions."""
    origin = get_origin(type_)
    # Python 3.10 adds null where it is the default.
    if origin in (Union, UnionType) and Any not in get_args(type_):
        return " or ".join(type_name(each, annotation) for each in get_args(type_))
    if type_ is Any or origin in (Union, UnionType):
        return "any"
    if origin is Callable:
        return "a function"
    return re.sub(r"[\w.]+\.(\w+)", r"\1", inspect.formatannotation(type_))


def option_type(parameter: Any) -> str:
    """Of whichever version of typer: older ones have click's types, newer ones the annotation."""
    if getattr(parameter, "is_flag", False):
        return "flag"
    kind = getattr(parameter, "type", None)
    low, high = (getattr(parameter, name, getattr(kind, name, None)) for name in ("min", "max"))
    if kind is None:
        words = type_name(parameter.type_descriptor.annotation)
    else:
        words = (
            " or ".join(kind.choices)
            if hasattr(kind, "choices")
            else kind.name.replace(" range", "")
        )
    if low is not None or high is not None:
        words += (
            f" from {low}"
            if high is None
            else f" from {low} to {high}"
            if low is not None
            else f" up to {high}"
        )
    return words


def default_name(value: Any) -> str:
    value = getattr(value, "value", value)
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, dict) and value:
        return next((str(each) for key, each in value.items() if key.startswith("@")), str(value))
    if isinstance(value, tuple):
        value = list(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "" if callable(value) or value is ... else str(value)


def entry_points(group: str) -> list[Any]:
    found = [each for each in distribution("spacy-krissel").entry_points if each.group == group]
    return sorted(found, key=lambda each: each.name)


def entry_point(group: str, name: str) -> Any:
    return next(each.load() for each in entry_points(group) if each.name == name)


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: add the pages of notebooks, without writing them to the folder."""
    from mkdocs.structure.files import File

    for name, path in NOTEBOOKS.items():
        files.append(File.generated(config, name, content=notebook_page(path)))
    return files


def on_page_markdown(markdown: str, **of_page: Any) -> str:
    """mkdocs: a link to a notebook, which repositories show, leads to its page."""
    return re.sub(r"(\]\((?!https?:)[^)]+)\.ipynb\)", r"\1.md)", markdown)


def on_post_page(output: str, **of_page: Any) -> str:
    """mkdocs: a name for the theme's search, and no empty headers of tables."""
    output = output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)


if __name__ == "__main__":
    for name, make in REFERENCE.items():
        (Path(__file__).parent / name).write_text(make(), encoding="utf8")

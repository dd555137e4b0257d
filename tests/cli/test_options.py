"""The options of each command are those of its function."""

import inspect
import re
import shlex
from collections import defaultdict

import pytest
from lab.app import COMMANDS as LABORATORY

from spacy_krissel.cli.app import COMMANDS, coded_errors
from spacy_krissel.cli.options import FILLED_IN, _functions, cli_type, click_command
from spacy_krissel.errors import KrisselError
from spacy_krissel.util.settings import bounds, check, describe_type

ALL = {**COMMANDS, **LABORATORY}


@pytest.mark.parametrize("name", ALL)
def test_options_match_their_function(name):
    """Its default or its help was written twice, or not at all."""
    parameters = inspect.signature(_functions(ALL[name])[0]).parameters
    for option in click_command(name, ALL[name], coded_errors).params:
        if option.name == "help" or (option.name == "gpu_id" and "gpu_id" not in parameters):
            continue
        assert option.help, f"{option.name} has no help"
        default = ALL[name].defaults.get(option.name, parameters[option.name].default)
        if default is inspect.Parameter.empty:
            assert option.required
        else:
            assert not option.required and (option.default or None) == (_plain(default) or None)
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_the_help_parses(name):
    command = click_command(name, COMMANDS[name], coded_errors)
    words = shlex.split(command.epilog.removeprefix("Example: "))
    assert words[:2] == ["krissel", name]
    context = command.make_context(name, words[2:])
    # Overrides of a config alone are left.
    assert all("." in word for word in context.args if word.startswith("--"))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_line_of_the_help_fits_the_list(name):
    first = click_command(name, COMMANDS[name], coded_errors).help.split("\n\n")[0]
    assert len(first) < 60 and first.endswith(".") and "\n" not in first
    # Papers come below.
    assert not re.search("§|KRISSBERT|PEL", first)


def test_commands_are_listed_in_the_order_of_work(run):
    """Or has no panels below `python -m spacy`."""
    listed = run("--help")
    places = [
        listed.index(f" {word} ")
        for word in ("Build", "build", "mine", "train", "Use", "link", "Measure")
    ]
    assert places == sorted(places)


def test_linker_and_output_options_have_the_same_name_everywhere():
    """Another option names the linker, or the output is an argument."""
    options = defaultdict(set)
    for name in COMMANDS:
        for option in click_command(name, COMMANDS[name], coded_errors).params:
            for typed in option.opts:
                options[typed].add(name)
            assert len([typed for typed in option.opts if typed.startswith("--")]) <= 1
            if option.name == "name":
                assert option.opts[0] in ("--linker", "--extractor") or name == "evaluate"
            if option.name == "output":
                assert option.opts == ["--output", "-o"]
    assert options["--name"] == {"evaluate"}


def test_options_of_one_vocabulary_have_their_own_panel():
    panels = {
        each.name: each.rich_help_panel
        for each in click_command("ontology", COMMANDS["ontology"], coded_errors).params
    }
    assert (
        panels["umls_source"] == "UMLS"
        and panels["id_column"] == "Tables"
        and panels["merge"] == "Several sources"
    )
    assert panels["output"] is panels["version"] is None and panels["homonyms"] == "Homonyms"


def _plain(default):
    return list(default) if isinstance(default, tuple) else default


def test_no_gpu_is_chosen_for_functions_with_a_gpu_id():
    for name, command in ALL.items():
        takes_it = "gpu_id" in inspect.signature(_functions(command)[0]).parameters
        assert not (command.gpu and takes_it), f"{name} leaves the choice to its processes"


@pytest.mark.parametrize("name", ALL)
def test_every_setting_is_an_option_unless_hidden(name):
    """But for what Python alone can give."""
    command = ALL[name]
    parameters = inspect.signature(_functions(command)[0]).parameters
    options = {option.name for option in click_command(name, command, coded_errors).params}
    assert set(parameters) - options - set(FILLED_IN) == set(command.hidden)


SEARCHING = {
    "build": ("nowhere.obo", "-o", "out"),
    "prototypes": ("nowhere", "-o", "out"),
    "tune": ("nowhere",),
    "link": ("nowhere", "a text"),
    "serve": ("nowhere",),
    "mcp": ("nowhere",),
    "evaluate": ("nowhere", "gold.spacy", "--ontology", "store"),
}


@pytest.mark.parametrize("name", SEARCHING)
def test_an_unavailable_index_device_is_refused_before_loading(refuse, name, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert "[K502]" in refuse(name, *SEARCHING[name], "--index-device", "cuda:1")
    assert "[K006]" in refuse(name, *SEARCHING[name], "--index-device", "gpu")


def test_every_command_with_an_index_device_is_tested():
    takes = {
        name
        for name in COMMANDS
        if "index_device" in inspect.signature(_functions(COMMANDS[name])[0]).parameters
    }
    assert takes == set(SEARCHING)


OPEN = [
    (name, each.name)
    for name in COMMANDS
    for each in inspect.signature(_functions(COMMANDS[name])[0]).parameters.values()
    if cli_type(each.annotation) is not None and {"Gt", "Lt"} & bounds(each.annotation).keys()
]


@pytest.mark.parametrize("name, option", OPEN)
def test_open_bounds_are_the_same_in_help_and_error(name, option):
    annotation = inspect.signature(_functions(COMMANDS[name])[0]).parameters[option].annotation
    (declared,) = (
        each
        for each in click_command(name, COMMANDS[name], coded_errors).params
        if each.name == option
    )
    words = describe_type(annotation).removesuffix(" or null")
    assert words in declared.help
    limits = bounds(annotation)
    with pytest.raises(KrisselError, match=re.escape(words)):
        check(option, limits.get("Lt", limits.get("Gt")), annotation)


def test_nil_share_has_the_same_bound_in_help_and_error(run):
    words = "a number from 0 to below 1"
    assert words in " ".join(run("confidence", "--help").replace("│", " ").split())
    said = run("confidence", "linker", "-o", "out", "--nil-share", "1", code=2)
    assert f"1.0 is not {words}" in " ".join(said.replace("│", " ").split())
    assert ("confidence", "nil_share") in OPEN and ("build", "precision") in OPEN

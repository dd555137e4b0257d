"""The options of each command are those of its function."""

import inspect

import pytest

from spacy_krissel.cli.app import COMMANDS, coded_errors
from spacy_krissel.cli.options import FILLED_IN, _functions, click_command


@pytest.mark.parametrize("name", COMMANDS)
def test_option_differs_from_the_function(name):
    """Its default or its help was written twice, or not at all."""
    parameters = inspect.signature(_functions(COMMANDS[name])[0]).parameters
    for option in click_command(name, COMMANDS[name], coded_errors).params:
        if option.name == "help" or (option.name == "gpu_id" and COMMANDS[name].gpu):
            continue
        assert option.help, f"{option.name} has no help"
        default = parameters[option.name].default
        if default is inspect.Parameter.empty:
            assert option.required
        else:
            assert not option.required and (option.default or None) == (_plain(default) or None)
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def _plain(default):
    return list(default) if isinstance(default, tuple) else default


@pytest.mark.parametrize("name", COMMANDS)
def test_setting_is_no_option(name):
    """But for what Python alone can give."""
    parameters = inspect.signature(_functions(COMMANDS[name])[0]).parameters
    options = {option.name for option in click_command(name, COMMANDS[name], coded_errors).params}
    assert set(parameters) - options <= set(FILLED_IN)

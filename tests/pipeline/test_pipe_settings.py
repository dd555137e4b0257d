import copy
import inspect
import pickle

import numpy as np
import pytest
import srsly

from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline import factories
from spacy_krissel.pipeline.settings import (
    ExtractorSettings,
    FinderSettings,
    LinkerSettings,
    RerankerSettings,
)
from spacy_krissel.util.settings import parameter_help

CLASSES = [LinkerSettings, RerankerSettings, ExtractorSettings, FinderSettings]
WRONG = [
    (
        LinkerSettings,
        "threshold",
        ["high", "0.5", float("inf"), -float("inf"), float("nan"), [0.5], True],
    ),
    (LinkerSettings, "n_candidates", [2.5, "5", -1, True, np.float64(2.5), float("inf")]),
    (LinkerSettings, "overwrite", ["no", 1, None, 0.0]),
    (LinkerSettings, "types", ["T047", None, [1], {"T047": 1}, 5, ["T047", None]]),
    (LinkerSettings, "types_by_label", [["x"], {"DRUG": "T121"}, {1: ["T121"]}, None, "DRUG"]),
    (LinkerSettings, "context", ["para", None, 1]),
    (LinkerSettings, "spans_key", [None, 1]),
    (LinkerSettings, "lexical_weight", ["0.5", None, -0.1, float("inf")]),
    (LinkerSettings, "gold_name_weight", [-0.1, 1.1, float("nan")]),
    (LinkerSettings, "gold_prior", [-0.1, float("inf")]),
    (RerankerSettings, "use_abbreviations", ["no", 1]),
    (RerankerSettings, "weight", ["1", None, -1, float("inf")]),
    (RerankerSettings, "temperature", [0, "1", float("inf")]),
    (RerankerSettings, "top_k", [1, 2.5, None, "8"]),
    (RerankerSettings, "nil_score", [float("nan"), "0"]),
    (ExtractorSettings, "spans_key", ["", None]),
    (ExtractorSettings, "candidates", ["some", None]),
    (ExtractorSettings, "threshold", [1.1, -0.1, "0.5", float("nan")]),
    (ExtractorSettings, "attention_threshold", [-0.1]),
    (ExtractorSettings, "longest_run", [0]),
    (ExtractorSettings, "max_all", [-1]),
    (ExtractorSettings, "n_retrieved", [0, 1.5]),
    (ExtractorSettings, "max_entities", [-1, "all"]),
    (FinderSettings, "spans_key", [None, 1]),
    (FinderSettings, "variants", ["all", "", None]),
    (FinderSettings, "nested", ["no", 1, None]),
    (FinderSettings, "use_abbreviations", ["no", 1]),
    (FinderSettings, "general_names", ["no", 1]),
    (FinderSettings, "stop_names", ["fall", None, [1]]),
    (FinderSettings, "added_names", [["cold"], {"cold": 1}, {1: "T04"}, "cold", None]),
    (FinderSettings, "label", ["", None, 1]),
]


@pytest.mark.parametrize(
    "settings, name, values", WRONG, ids=[f"{cls.__name__}-{name}" for cls, name, _ in WRONG]
)
def test_invalid_value_raises(settings, name, values):
    for value in values:
        cfg = settings()
        before = dict(cfg)
        with pytest.raises(KrisselError, match=f"K006.*'{name}' is .*Expected .*"):
            cfg[name] = value
        with pytest.raises(KrisselError, match=f"K006.*'{name}'"):
            cfg.update({name: value})
        assert dict(cfg) == before


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("threshold", np.float32(0.5), 0.5),
        ("threshold", np.array(0.25), 0.25),
        ("threshold", 1, 1.0),
        ("n_candidates", np.int64(3), 3),
        ("overwrite", np.bool_(False), False),
        ("types", np.array(["T047", "T191"]), ["T047", "T191"]),
        ("types", {"T191", "T047"}, ["T047", "T191"]),
        ("types", ("T047",), ["T047"]),
        ("types_by_label", {"DRUG": ("T121",)}, {"DRUG": ["T121"]}),
    ],
)
def test_value_is_stored_as_plain_python(name, value, expected):
    cfg = LinkerSettings()
    cfg[name] = value
    assert cfg[name] == expected and type(cfg[name]) is type(expected)
    assert srsly.json_loads(srsly.json_dumps(cfg.checked()))[name] == expected
    assert pickle.loads(pickle.dumps(cfg)) == cfg


def test_error_describes_the_expected_value():
    for settings, name, value, expected in [
        (LinkerSettings, "n_candidates", -1, "a whole number, 0 or more or null."),
        (LinkerSettings, "threshold", "x", "a number or null."),
        (LinkerSettings, "context", "x", "one of window, sentence, none."),
        (
            LinkerSettings,
            "types_by_label",
            [],
            "a dictionary with a list with text at each index for each key.",
        ),
        (ExtractorSettings, "threshold", 2, "a number from 0 to 1 or null."),
        (ExtractorSettings, "spans_key", "", "text that is not empty."),
        (RerankerSettings, "temperature", 0, "a number above 0 or null."),
    ]:
        with pytest.raises(KrisselError) as error:
            settings(**{name: value})
        assert str(error.value) == f"[K006] Setting '{name}' is {value!r}. Expected {expected}"


@pytest.mark.parametrize("settings", CLASSES)
def test_removing_a_setting_raises(settings):
    cfg = settings()
    before = dict(cfg)
    first = next(iter(cfg))
    for take_out in (
        lambda: cfg.pop(first),
        lambda: cfg.pop(first, None),
        lambda: cfg.__delitem__(first),
        cfg.popitem,
        cfg.clear,
    ):
        with pytest.raises(KrisselError, match=f"K661.*'{settings.__name__}'"):
            take_out()
    assert dict(cfg) == before


@pytest.mark.parametrize(
    "made", [lambda cfg: cfg, copy.deepcopy, lambda cfg: pickle.loads(pickle.dumps(cfg))]
)
def test_change_in_place_is_kept(made):
    cfg = made(LinkerSettings())
    cfg["types"].append("T047")
    cfg["types_by_label"]["DRUG"] = ["T121"]
    cfg.checked()
    assert cfg["types"] == cfg.types == ["T047"] and cfg.checked()["types_by_label"] == {
        "DRUG": ["T121"]
    }


def test_invalid_change_in_place_raises():
    cfg = LinkerSettings()
    cfg["types_by_label"]["DRUG"] = "T121"
    with pytest.raises(KrisselError, match="K006.*types_by_label"):
        cfg.checked()


def test_unknown_setting_raises():
    cfg = LinkerSettings()
    with pytest.raises(KeyError):
        cfg["treshold"]
    assert "treshold" not in cfg and cfg.get("treshold") is None
    with pytest.raises(KrisselError, match="K607.*'treshold'"):
        cfg.treshold = 0.5


@pytest.mark.parametrize(
    "settings, config, factory",
    [
        (LinkerSettings, factories.LINKER_CONFIG, factories.make_krissel_linker),
        (RerankerSettings, factories.RERANKER_CONFIG, factories.make_krissel_reranker),
        (ExtractorSettings, factories.EXTRACTOR_CONFIG, factories.make_krissel_span_extractor),
    ],
)
def test_config_and_declaration_have_the_same_settings(settings, config, factory):
    parameters = inspect.signature(factory).parameters
    assert {name: config[name] for name in settings()} == dict(settings())
    assert set(config) == set(parameters) - {"nlp", "name"}


@pytest.mark.parametrize("settings", CLASSES)
def test_every_setting_has_help(settings):
    help = parameter_help(settings)
    assert set(help) == set(settings()) and all(help.values())

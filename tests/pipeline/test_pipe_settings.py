import copy
import pickle

import numpy as np
import pytest
import srsly

from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.settings import ExtractorSettings, LinkerSettings, LiveSettings, RerankerSettings

CLASSES = [LinkerSettings, RerankerSettings, ExtractorSettings]
WRONG = [
    (LinkerSettings, "threshold", ["high", "0.5", float("inf"), -float("inf"), float("nan"), [0.5], True]),
    (LinkerSettings, "n_candidates", [2.5, "5", None, -1, True, np.float64(2.5), float("inf")]),
    (LinkerSettings, "overwrite", ["no", 1, None, 0.0]),
    (LinkerSettings, "types", ["T047", None, [1], {"T047": 1}, 5, ["T047", None]]),
    (LinkerSettings, "types_by_label", [["x"], {"DRUG": "T121"}, {1: ["T121"]}, None, "DRUG"]),
    (LinkerSettings, "context", ["para", None, 1]),
    (LinkerSettings, "spans_key", [None, 1]),
    (LinkerSettings, "lexical_weight", ["0.5", None, -0.1, float("inf")]),
    (RerankerSettings, "enabled", ["no", 1]),
    (RerankerSettings, "weight", ["1", None, -1, float("inf")]),
    (RerankerSettings, "temperature", [0, "1", float("inf")]),
    (RerankerSettings, "top_k", [1, 2.5, None, "8"]),
    (RerankerSettings, "nil_score", [float("nan"), "0"]),
    (ExtractorSettings, "spans_key", ["", None]),
    (ExtractorSettings, "candidates", ["some", None]),
    (ExtractorSettings, "threshold", [1.1, -0.1, "0.5", float("nan")]),
    (ExtractorSettings, "n_retrieved", [0, 1.5]),
    (ExtractorSettings, "max_entities", [-1, "all"]),
]


def live(settings=LinkerSettings, **values):
    return LiveSettings("pipe", settings(**values))


@pytest.mark.parametrize("settings, name, values", WRONG, ids=[f"{cls.__name__}-{name}" for cls, name, _ in WRONG])
def test_wrong_value_was_taken(settings, name, values):
    for value in values:
        cfg = live(settings)
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
def test_value_is_not_plain(name, value, expected):
    cfg = live()
    cfg[name] = value
    assert cfg[name] == expected and type(cfg[name]) is type(expected)
    assert srsly.json_loads(srsly.json_dumps(cfg.saved()))["settings"][name] == expected
    assert pickle.loads(pickle.dumps(cfg)) == cfg


def test_expected_value_is_not_in_words():
    for settings, name, value, expected in [
        (LinkerSettings, "n_candidates", -1, "a whole number, 0 or more."),
        (LinkerSettings, "threshold", "x", "a number, or null."),
        (LinkerSettings, "context", "x", "one of window, sentence."),
        (LinkerSettings, "types_by_label", [], "a dictionary of lists of texts."),
        (ExtractorSettings, "threshold", 2, "a number from 0 to 1, or null."),
        (ExtractorSettings, "spans_key", "", "text that is not empty."),
        (RerankerSettings, "temperature", 0, "a number above 0, or null."),
    ]:
        with pytest.raises(KrisselError) as error:
            settings(**{name: value})
        assert str(error.value) == f"[K006] Setting '{name}' is {value!r}. Expected {expected}"


@pytest.mark.parametrize("settings", CLASSES)
def test_setting_was_taken_out(settings):
    cfg = live(settings)
    before = dict(cfg)
    first = next(iter(cfg))
    for take_out in (
        lambda: cfg.pop(first),
        lambda: cfg.pop(first, None),
        lambda: cfg.__delitem__(first),
        cfg.popitem,
        cfg.clear,
    ):
        with pytest.raises(KrisselError, match="K661.*'pipe'"):
            take_out()
    assert dict(cfg) == before


@pytest.mark.parametrize("made", [lambda cfg: cfg, copy.deepcopy, lambda cfg: pickle.loads(pickle.dumps(cfg))])
def test_change_in_place_is_lost(made):
    cfg = made(live())
    cfg["types"].append("T047")
    cfg["types_by_label"]["DRUG"] = ["T121"]
    fresh = live()
    fresh.restore(cfg.saved())
    assert fresh["types"] == ["T047"] and fresh["types_by_label"] == {"DRUG": ["T121"]}


def test_config_given_at_load_loses_to_a_change_in_place():
    cfg = live(types=["T047"])
    cfg["types"].append("T191")
    other = live(types=["T200"])
    other.restore(cfg.saved())
    assert other["types"] == ["T200"]


def test_wrong_change_in_place_is_saved():
    cfg = live()
    cfg["types_by_label"]["DRUG"] = "T121"
    for use in (cfg.checked, cfg.saved, lambda: pickle.dumps(cfg), lambda: cfg.__setitem__("threshold", 0.5)):
        with pytest.raises(KrisselError, match="K006.*types_by_label"):
            use()

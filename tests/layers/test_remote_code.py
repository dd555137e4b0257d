"""Python files that a model brings along never run, and nobody is asked whether they may."""

import builtins
import json
import shutil
import sys

import pytest
import srsly

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.piece_states import PieceStates
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.views import name_view

CODE = """
from pathlib import Path
Path({mark!r}).write_text("ran")
from transformers import BertConfig, BertModel, BertTokenizerFast
class Own(BertConfig):
    model_type = "own"
class OwnModel(BertModel):
    config_class = Own
class OwnTokenizer(BertTokenizerFast):
    pass
"""
# What of the model is its own; the first two are of a kind that the library does not know.
ATTACKS = {
    "config": (
        {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.OwnModel"}},
        {},
        True,
    ),
    "tokenizer": (
        {},
        {
            "tokenizer_class": "OwnTokenizer",
            "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]},
        },
        None,
    ),
    # The library's own class is there to be used.
    "known": ({"auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.OwnModel"}}, {}, False),
}


@pytest.fixture(params=ATTACKS)
def attack(request, tmp_path, monkeypatch):
    """Rewrites the files of a transformer, by name; `refused` says whether one of them is left to
    read."""
    config, tokenizer, refused = ATTACKS[request.param]
    mark = tmp_path / "mark"
    asked = []

    def rewrite(files):
        files = dict(files)
        for name, changes in (("config.json", config), ("tokenizer_config.json", tokenizer)):
            files[name] = json.dumps({**json.loads(files[name]), **changes}).encode()
        return {**files, "own.py": CODE.format(mark=str(mark)).encode()}

    monkeypatch.setattr(builtins, "input", lambda *question: asked.append(question) or "y")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    rewrite.refused = refused
    yield rewrite
    assert not mark.exists(), "the code ran"
    assert not asked, "a question was asked"
    assert not [
        name for name in sys.modules if name.startswith("transformers_modules") and "own" in name
    ]


def check(refused, load):
    """A refusal with its own code where there is nothing else to read, and only there."""
    if refused is False:
        load()
        return
    try:
        load()
    except KrisselError as error:
        assert error.code == "K415"
    else:
        assert refused is None, "it was read without its code"


def test_remote_code_saved_with_a_pipeline_is_not_run(tiny_bert, attack):
    model = TransformerEncoder(str(tiny_bert))
    model.initialize()
    message = srsly.msgpack_loads(model.layers[0].layers[0].shims[0].to_bytes())
    message["files"] = attack(message["files"])
    shim = TransformerEncoder("x").layers[0].layers[0].shims[0]
    check(attack.refused, lambda: shim.from_bytes(srsly.msgpack_dumps(message)))


@pytest.mark.parametrize("asked_for", [False, True])
@pytest.mark.parametrize("make", [TransformerEncoder, PieceStates])
def test_remote_code_named_in_a_config_is_not_run(tiny_bert, attack, tmp_path, make, asked_for):
    """Not even where the config says that it may."""
    path = tmp_path / "bert"
    shutil.copytree(tiny_bert, path)
    files = {file_.name: file_.read_bytes() for file_ in path.iterdir()}
    for name, content in attack(files).items():
        (path / name).write_bytes(content)
    config = {"trust_remote_code": True} if asked_for else {}
    model = make(str(path), window=32, tokenizer_config=config, transformer_config=config)
    check(attack.refused, model.initialize)


def test_trust_remote_code_is_ignored_for_known_architectures(tiny_bert):
    config = {"trust_remote_code": True}
    model = TransformerEncoder(str(tiny_bert), tokenizer_config=config, transformer_config=config)
    model.initialize()
    assert model.predict([name_view("ms")]).shape == (1, 32)

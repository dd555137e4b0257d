import json
import shutil
import subprocess
import sys

import pytest
from spacy.cli.package import package

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import devices
from spacy_krissel.pipeline import pipeline_io
from spacy_krissel.pipeline.pipeline_io import choose_gpu, find_linker, load_pipeline


def test_pipeline_loads_from_a_path_with_overrides(save_linker):
    nlp = load_pipeline(str(save_linker()), {"components.krissel_linker.n_candidates": 3})
    assert nlp.get_pipe("krissel_linker").cfg["n_candidates"] == 3


def test_pipeline_loads_by_package_name(save_linker, tmp_path, monkeypatch):
    (tmp_path / "en_toylinks").mkdir()
    code = (
        "import spacy\n\n\ndef load(**settings):\n"
        f"    return spacy.load({str(save_linker())!r}, **settings)\n"
    )
    (tmp_path / "en_toylinks" / "__init__.py").write_text(code)
    (tmp_path / "en_toylinks-1.dist-info").mkdir()
    (tmp_path / "en_toylinks-1.dist-info" / "METADATA").write_text(
        "Name: en_toylinks\nVersion: 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_pipeline("en_toylinks").pipe_names == ["krissel_linker"]


def test_index_device_overrides_the_saved_setting(save_linker, tmp_path, monkeypatch):
    nlp = load_pipeline(save_linker(), index_device="cuda:1")
    assert find_linker(nlp).kb.index_device == find_linker(nlp).kb.build_index().device == "cuda:1"
    nlp.to_disk(tmp_path / "saved")
    package(
        tmp_path / "saved", tmp_path, name="on_card", version="1.0", create_sdist=False, silent=True
    )
    folder = tmp_path / "en_on_card-1.0"
    # As its setup.py does.
    shutil.copy(folder / "meta.json", folder / "en_on_card")
    (folder / "en_on_card-1.0.dist-info").mkdir()
    (folder / "en_on_card-1.0.dist-info" / "METADATA").write_text(
        "Name: en_on_card\nVersion: 1.0\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    for saved in (tmp_path / "saved", "en_on_card"):
        found = [
            find_linker(load_pipeline(saved, index_device=each)).kb.index_device
            for each in (None, "cpu")
        ]
        assert found == ["cuda:1", "cpu"], "a saved pipeline keeps its setting"


def test_saved_gpu_index_links_without_a_gpu(save_linker, make_docs, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "cuda_lost", lambda: True)
    load_pipeline(save_linker(), index_device="cuda:0").to_disk(tmp_path / "saved")
    links = []
    for path in (save_linker(), tmp_path / "saved"):
        nlp = load_pipeline(path)
        links.append([[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(make_docs(nlp))])
    assert find_linker(nlp).kb.build_index().device == "cuda:0" and links[0] == links[1]


@pytest.mark.parametrize("name", ["missing", "not_a_package_either"])
def test_missing_pipeline_raises(tmp_path, name):
    with pytest.raises(KrisselError, match=f"K611.*{name}"):
        load_pipeline(tmp_path / name)


def test_directory_of_something_else_raises(tmp_path, toy_store):
    for path in (tmp_path, toy_store.path):
        with pytest.raises(KrisselError, match="K611"):
            load_pipeline(path)


def test_error_codes_from_loading_are_kept(save_linker, tmp_path):
    with pytest.raises(KrisselError, match="K001.*nowhere"):
        load_pipeline(
            save_linker(), {"components.krissel_linker.kb_path": str(tmp_path / "nowhere")}
        )


def test_out_of_memory_is_not_reported_as_damage(save_linker, monkeypatch):
    def load(*arguments, **settings):
        raise MemoryError("malloc of size 64 failed")

    monkeypatch.setattr("spacy.load", load)
    with pytest.raises(MemoryError):
        load_pipeline(save_linker())


def test_missing_gpu_raises(monkeypatch):
    def require_gpu(gpu_id):
        raise ValueError("No GPU devices detected")

    monkeypatch.setattr("spacy.cli._util.require_gpu", require_gpu)
    with pytest.raises(KrisselError, match="K675.*GPU 7 .*No GPU devices"):
        choose_gpu(7)
    choose_gpu(-1)


@pytest.mark.parametrize(
    "gpu_id, allocator, expected", [(-1, "pytorch", []), (0, "pytorch", ["pytorch"]), (0, None, [])]
)
def test_chosen_gpu_gets_tf32_and_its_allocator(gpu_id, allocator, expected, monkeypatch):
    """Products in float32 are rounded for those who ask for a GPU here, and for nobody else."""
    import torch

    chosen, before = [], torch.get_float32_matmul_precision()
    monkeypatch.setattr("spacy.cli._util.require_gpu", lambda gpu_id: None)
    monkeypatch.setattr(pipeline_io, "set_gpu_allocator", chosen.append)
    try:
        choose_gpu(gpu_id, allocator, silent=True)
        assert torch.get_float32_matmul_precision() == ("highest" if gpu_id < 0 else "high")
    finally:
        torch.set_float32_matmul_precision(before)
    assert chosen == expected


LOAD = """
import json, sys
import spacy
nlp = spacy.load(sys.argv[1])
assert nlp.pipe_names == ["krissel_linker"]
print(json.dumps([name for name in ("transformers", "tokenizers", "faiss", "sklearn") if name in sys.modules]))
"""  # noqa: E501


def test_small_encoder_pipeline_imports_nothing_unused(save_linker):
    """Unless another installed plugin does: `spacy.blank` imports the factories of all."""
    command = [sys.executable, "-c", LOAD, str(save_linker())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []

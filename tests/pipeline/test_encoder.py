import pytest
import spacy
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file

from spacy_krissel.commands.export_encoder import export_encoder, make_encoder_from_pipeline
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import name_view

NAME = name_view("multiple sclerosis")


@pytest.fixture
def save(encoders, tmp_path):
    """Saves a pipeline with an encoder of a kind, initialized and without a knowledge base."""

    def save(kind, name="krissel_linker", **settings):
        nlp = spacy.blank("en")
        nlp.add_pipe("krissel_linker", name=name, config={"model": {**encoders[kind], **settings}})
        nlp.initialize()
        nlp.to_disk(tmp_path / kind)
        return tmp_path / kind

    return save


def test_exported_encoder_starts_a_pipeline(save, encoders, tmp_path):
    pipeline = save("transformer", name="names")
    export_encoder(pipeline, tmp_path / "encoder", name="names")
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "krissel_linker",
        config={"model": {**encoders["transformer"], "name": str(tmp_path / "encoder")}},
    )
    nlp.initialize()
    expected = find_linker(spacy.load(pipeline), "names").encode([NAME])
    assert_allclose(find_linker(nlp).encode([NAME]), expected, atol=1e-6)


def test_exported_encoder_can_be_averaged_with_its_start(encoders, tiny_bert, tmp_path):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe(
        "krissel_linker", config={"model": {**encoders["transformer"], "name": str(tiny_bert)}}
    )
    nlp.initialize()
    shim = next(
        shim for node in linker.model.walk() for shim in node.shims if hasattr(shim, "transformer")
    )
    with torch.no_grad():
        for weight in shim.transformer.parameters():
            weight *= 3
    nlp.to_disk(tmp_path / "trained")
    # Each in a folder of its own: the files are mapped, not read.
    export_encoder(tmp_path / "trained", tmp_path / "averaged", average_with=str(tiny_bert))
    export_encoder(tmp_path / "trained", tmp_path / "as-it-is")
    averaged = load_file(tmp_path / "averaged" / "model.safetensors")
    for name, weight in load_file(tmp_path / "as-it-is" / "model.safetensors").items():
        assert_allclose(averaged[name], weight * 2 / 3, rtol=1e-5)
    with pytest.raises(KrisselError, match="K401"):
        export_encoder(
            tmp_path / "trained", tmp_path / "other", average_with=str(tmp_path / "missing")
        )
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["small", "transformer"])
def test_linker_starts_from_the_encoder_of_a_pipeline(save, encoders, make_example, kind):
    other = {"seed": 7} if kind == "small" else {}
    pipeline = save(kind, **other)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("krissel_linker", config={"model": encoders[kind]})
    linker.initialize(
        lambda: [make_example("T01")], nlp=nlp, encoder=make_encoder_from_pipeline(pipeline)
    )
    assert_allclose(
        linker.encode([NAME]), find_linker(spacy.load(pipeline)).encode([NAME]), atol=1e-6
    )


def test_unsuitable_encoder_sources_raise(save, encoders, make_example, tmp_path):
    small = save("small")
    with pytest.raises(KrisselError, match="K632.*small"):
        export_encoder(small, tmp_path / "encoder")
    with pytest.raises(KrisselError, match="K610.*other"):
        export_encoder(small, tmp_path / "encoder", name="other")
    with pytest.raises(KrisselError, match="K611"):
        export_encoder(tmp_path / "missing", tmp_path / "encoder")
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("krissel_linker", config={"model": encoders["transformer"]})
    with pytest.raises(KrisselError, match="K633"):
        linker.initialize(
            lambda: [make_example("T01")], nlp=nlp, encoder=make_encoder_from_pipeline(small)
        )

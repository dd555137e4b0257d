"""Update of trained pipelines to a release: every kind of encoder, mined mentions, a re-ranker."""

import json

import numpy as np
import pytest
import spacy

from spacy_krissel import Entity, KrisselError, update
from spacy_krissel.commands.update_linker import show_update
from spacy_krissel.pipeline.linker.component import KrisselLinker
from spacy_krissel.pipeline.pipeline_io import find_linker

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("encoder", ["small", "transformer", "referenced"])
def test_the_same_release_gives_the_same_knowledge_base(
    save_linker, toy_files, tmp_path, encoder, monkeypatch
):
    before = find_linker(spacy.load(save_linker(encoder))).kb
    encoded = []
    encode = KrisselLinker.encode
    monkeypatch.setattr(
        KrisselLinker,
        "encode",
        lambda linker, views: encoded.extend(views) or encode(linker, views),
    )
    found = update(save_linker(encoder), toy_files / "ontology.jsonl", tmp_path / "newer")
    assert not found.counts and found.figures["mined mentions"][0] > 0
    # A transformer is slow per view.
    assert bool(encoded) == (encoder != "transformer")
    kb = find_linker(spacy.load(tmp_path / "newer")).kb
    rows = np.arange(before.n_prototypes)
    assert kb.prototypes_at(rows) == before.prototypes_at(rows)
    np.testing.assert_allclose(kb.vectors, before.vectors, atol=1e-5)
    described, expected = kb.description(), before.description()
    for key in ("entities", "prototype_kinds", "references", "made_with", "encoder", "dtype"):
        assert described[key] == expected[key], key


def test_fields_that_the_encoder_reads_are_needed(save_linker, toy_names):
    untyped = [Entity(id_, names[0], names[1:]) for id_, names in toy_names.items()]
    with pytest.raises(KrisselError, match="K695.*its encoder reads `types`"):
        update(save_linker("referenced"), untyped)
    update(save_linker("small"), untyped)


def test_a_reranker_reads_the_names_of_the_release(save_reranker, toy_files, tmp_path, make_docs):
    records = [json.loads(line) for line in (toy_files / "ontology.jsonl").open()]
    for record in records:
        record["canonical_name"] = f"New {record['canonical_name']}"
    path = tmp_path / "later.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    found = update(save_reranker(), path, tmp_path / "newer")
    assert found.counts["entity", "renamed"] == len(records)
    nlp = spacy.load(tmp_path / "newer")
    (entity,) = nlp.get_pipe("krissel_reranker")._table.get(["T01"]).values()
    assert entity.name.startswith("New ")
    docs = list(nlp.pipe(make_docs(nlp)))
    assert all(ent._.krissel_candidates[0]["name"][:4] == "New " for ent in docs[0].ents)


def test_a_calibrated_threshold_stays_and_is_reported(save_linker, toy_files, tmp_path):
    nlp = spacy.load(save_linker("small"))
    find_linker(nlp).cfg.threshold = 0.25
    nlp.meta["krissel"]["calibration"] = {"krissel_linker": {"threshold": 0.25, "n": 9}}
    # A confidence whose fit is not recorded.
    find_linker(nlp).cfg.confidence = {
        **dict.fromkeys(("bias", "lexical", "lexical_lead", "vector_lead"), 1.0),
        "trust": 0.9,
    }
    nlp.to_disk(tmp_path / "calibrated")
    found = update(tmp_path / "calibrated", toy_files / "ontology.jsonl")
    said = show_update(found, None, None)
    assert "run `krissel calibrate` again" in said and "fitted with the defaults" in said
    cfg = find_linker(found.nlp).cfg
    assert cfg.threshold == 0.25 and cfg.confidence["bias"] != 1.0
    assert not found.nlp.meta["krissel"]["calibration"]


def test_an_index_outside_the_pipeline_is_left_alone(save_linker, toy_files, tmp_path):
    nlp = spacy.load(save_linker("small"))
    linker = find_linker(nlp)
    linker.kb.to_disk(tmp_path / "kb")
    linker.kb_path = nlp.get_pipe_config("krissel_linker")["kb_path"] = str(tmp_path / "kb")
    nlp.to_disk(tmp_path / "pointing")
    before = (tmp_path / "kb" / "manifest.json").read_bytes()
    update(tmp_path / "pointing", toy_files / "ontology.jsonl", tmp_path / "newer")
    assert (tmp_path / "kb" / "manifest.json").read_bytes() == before
    newer = spacy.load(tmp_path / "newer")
    assert (
        find_linker(newer).kb_path is None
        and (tmp_path / "newer" / "krissel_linker" / "kb").exists()
    )

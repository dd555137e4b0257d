"""Proposals of a linker for labels that are no name."""

import json

from spacy_krissel.commands.verify_pairs import verify


def test_a_linker_proposes_entities_for_other_labels(save_linker, toy_store, tmp_path):
    first, second = toy_store.entity_at(0), toy_store.entity_at(1)
    path = tmp_path / "t.csv"
    labels = (first.name, second.name, f"{second.name}s x")
    path.write_text("\n".join(["id,label", *(f"{first.id},{label}" for label in labels)]))
    report = tmp_path / "r.json"
    result = verify([path], pipeline=save_linker(), report=report, top_k=2)
    assert result.counts == {"pairs": 3, "right": 1, "wrong_label": 2}
    right, named, other = (each.proposals for each in result.checked)
    assert right == named == () and len(other) == 2
    assert second.id in [each.id for each in other]
    said = json.loads(report.read_text(encoding="utf8"))["pairs"][2]
    assert said["proposals"][0]["id"] == other[0].id and "; proposed: " in said["message"]

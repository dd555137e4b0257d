"""`zeshel` of experiments/pel: its commands as they stand, on toy worlds in ZESHEL's layout."""

import json

import pytest
from command_line import run_commands
from project_files import ROOT, read_project
from spacy.util import load_config

from spacy_krissel.evaluation.records import read_records
from spacy_krissel.ontology.store import OntologyStore

PEL = ROOT / "experiments" / "pel"
WORLDS = {
    "train": (
        "american_football doctor_who fallout final_fantasy military pro_wrestling starwars "
        "world_of_warcraft"
    ),
    "val": "coronation_street muppets ice_hockey elder_scrolls",
    "test": "forgotten_realms lego star_trek yugioh",
}
SMALL = {
    "zeshel_linker": (
        "components.krissel_linker.objective.n_negatives 4 "
        "components.krissel_linker.model.mention.window 24 "
        "components.krissel_linker.model.reference.window 24"
    ),
    "zeshel_ranker": "components.krissel_reranker.model.window 24 "
    "components.krissel_reranker.model.candidate_window 24",
}
STEPS = "training.max_epochs 0 training.max_steps 2 training.eval_frequency 2"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The project's folder, and the data where the project looks for it."""
    data, folder = tmp_path / "data" / "zeshel", tmp_path / "experiments" / "pel"
    for each in (data / "documents", data / "mentions", folder):
        each.mkdir(parents=True)
    for split, worlds in WORLDS.items():
        mentions = []
        for world in worlds.split():
            ids = [f"{world}-{number}" for number in range(4)]
            texts = [f"Batman number {id_} met Batman in {world} ." for id_ in ids]
            documents = [
                {"document_id": id_, "title": f"Batman {id_}", "text": text}
                for id_, text in zip(ids, texts, strict=True)
            ]
            lines = "".join(json.dumps(each) + "\n" for each in documents)
            (data / "documents" / f"{world}.json").write_text(lines)
            for number, id_ in enumerate(ids):
                place = {
                    "context_document_id": id_,
                    "start_index": 4,
                    "end_index": 4,
                    "text": "Batman",
                }
                mentions.append({**place, "label_document_id": ids[number - 1], "corpus": world})
        (data / "mentions" / f"{split}.json").write_text(
            "".join(json.dumps(each) + "\n" for each in mentions)
        )
    monkeypatch.chdir(folder)
    (folder / "configs").symlink_to(PEL / "configs")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    return folder


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_mentions_are_linked_within_their_world(place, tiny_bert):
    options = {
        name: " ".join(f"--{word}" if "." in word else word for word in f"{text} {STEPS}".split())
        for name, text in SMALL.items()
    }
    run_commands(PEL, *read_project(PEL)["workflows"]["zeshel"], bert=str(tiny_bert), **options)
    store = OntologyStore(place.parents[1] / "corpus" / "zeshel" / "ontology")
    assert len(store) == 16 * 4
    for name in ("zeshel", "zeshel-ranked"):
        records = read_records(place / "metrics" / f"{name}.links.jsonl")
        assert len(records) == 16
        for record in records:
            assert {store.get(id_).types for id_ in record.ranked} == {(record.label,)} and len(
                record.ranked
            ) == 4
        report = json.loads((place / "metrics" / f"{name}.json").read_text())
        # Of four worlds with four mentions each, the means are the same.
        assert report["macro"] == pytest.approx(report["strict"])


def test_the_config_differs_from_pels_only_where_zeshel_requires(configs):
    """But for what ZESHEL has otherwise."""

    def flat(section, path=()):
        for key, value in section.items():
            yield from (
                flat(value, (*path, key))
                if isinstance(value, dict)
                else [(".".join((*path, key)), value)]
            )

    ours = dict(flat(load_config(PEL / "configs" / "zeshel.cfg", interpolate=False)))
    pel = dict(flat(load_config(configs / "pel.cfg", interpolate=False)))
    assert {key for key in pel if ours.get(key) != pel[key]} == {
        "paths.encoder",
        "components.krissel_linker.model.types",
        "training.optimizer.learn_rate.total_steps",
        "training.optimizer.learn_rate.warmup_steps",
    }
    worlds = " ".join(WORLDS.values()).split()
    by_label = {f"components.krissel_linker.types_by_label.{world}": [world] for world in worlds}
    assert {key: value for key, value in ours.items() if key not in pel} == by_label

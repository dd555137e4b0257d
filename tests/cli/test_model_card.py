"""The model card: `meta.json`, and what `spacy package` makes of it."""

import json
import zipfile
from types import SimpleNamespace

import pytest
import spacy
import srsly
from spacy.cli.package import generate_readme, package
from spacy.schemas import ModelMetaSchema, validate

from spacy_krissel import build, update_card
from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.commands.build_linker import COMPACT
from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.pipeline.card import describe
from spacy_krissel.pipeline.pipeline_io import load_pipeline, save_pipeline

pytestmark = pytest.mark.slow

LINKER = "krissel_linker"


def meta_of(path):
    meta = json.loads((path / "meta.json").read_text(encoding="utf8"))
    assert validate(ModelMetaSchema, meta) == []
    return meta


@pytest.fixture(scope="module")
def stated(toy_files):
    return {"version": "1999", "licence": "CC0 | toy"}


@pytest.fixture(scope="module")
def linker(toy_files, stated, tmp_path_factory):
    path = tmp_path_factory.mktemp("card") / "linker"
    build(toy_files / "ontology.jsonl", path, **stated)
    return path


@pytest.fixture
def finder(tmp_path):
    """A pipeline of someone else, with a card and licences of its own."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "Disease", "pattern": "rickets"}])
    nlp.meta.update(
        description="Finds diseases.", license="MIT", notes="Theirs.", sources=["GENIA"]
    )
    nlp.meta["performance"] = {"ents_f": 0.81, "ner_loss": 12.5}
    nlp.to_disk(tmp_path / "finder")
    (tmp_path / "finder" / "LICENSE").write_text("MIT, theirs")
    (tmp_path / "finder" / "LICENSES_SOURCES").write_text("GENIA, theirs")
    return tmp_path / "finder"


def test_the_model_card_of_a_built_pipeline_names_its_ontology_and_sources(linker):
    meta = meta_of(linker)
    assert meta["description"] == "Links mentions to 12 entities of ontology.jsonl, version 1999."
    assert meta["license"] == "CC0 | toy"
    ontology, *of_the_encoder = meta["sources"]
    assert ontology == {
        "name": "ontology.jsonl, version 1999",
        "license": "CC0 | toy",
        "for": LINKER,
    }
    compact = srsly.read_json(COMPACT / "meta.json")
    assert of_the_encoder == [{**each, "for": LINKER} for each in compact["sources"]]
    for said in (
        "CC0 \\| toy",
        f"of krissel_compact {compact['version']}, not trained further",
        "of links are correct",
        "krissel evaluate --write-meta",
    ):
        assert said in meta["notes"]
    assert meta["performance"] == {}
    assert "CC0 | toy" in (linker / "LICENSES_SOURCES").read_text(encoding="utf8")
    readme = generate_readme(meta)
    assert meta["description"] in readme and meta["notes"] in readme
    # Saved again, it is the same.
    save_pipeline(load_pipeline(linker), linker.with_name("again"))
    assert meta_of(linker.with_name("again")) == meta


def test_describe_names_the_linker_and_its_knowledge_base(linker):
    said = describe(load_pipeline(linker))
    assert said["name"] == "linker" and list(said["linkers"]) == [LINKER]
    made_of = "12 entities of ontology.jsonl, version 1999, licence CC0 | toy"
    assert said["linkers"][LINKER]["knowledge_base"] == made_of
    assert said["linkers"][LINKER]["nil"].startswith(
        "where the best candidate's confidence is below 0."
    )
    assert describe(spacy.blank("en")) == {
        "name": "en_pipeline",
        "package": "en_pipeline 0.0.0",
        "linkers": {},
    }


def test_encoder_training_scores_are_not_performance(trained, toy_store, toy_shards, tmp_path):
    nlp = spacy.load(trained)
    assert {"krissel_acc", "krissel_linker_loss"} <= nlp.meta["performance"].keys()
    nlp.meta["performance"]["ents_f"] = 0.81
    nlp.to_disk(tmp_path / "trained")
    prototypes(tmp_path / "trained", tmp_path / "linker", toy_store.path, toy_shards)
    meta = meta_of(tmp_path / "linker")
    assert meta["performance"] == {"ents_f": 0.81}
    assert "trained by spacy-krissel.ContrastiveObjective.v1" in meta["notes"]
    other = spacy.blank("en")
    other.add_pipe(LINKER, source=spacy.load(tmp_path / "linker"))
    update_card(other)
    assert "objective: spacy-krissel.ContrastiveObjective.v1" in other.meta["notes"]
    # The text that was mined is a source.
    assert "texts.jsonl" in [each["name"] for each in meta["sources"]]
    prototypes(tmp_path / "linker", tmp_path / "linker", toy_store.path)
    meta = meta_of(tmp_path / "linker")
    assert len(meta["sources"]) == 1 and "trained by" in meta["notes"]


def test_vocabularies_without_restriction_level_are_listed_in_the_licences(linker, tmp_path):
    """OMOP states the versions of its vocabularies, and no level of restriction."""
    nlp = load_pipeline(linker)
    stated = {"SNOMED": {"version": "2026-01-01"}, "MSH": {"version": "2026", "restriction": 0}}
    nlp.get_pipe(LINKER).kb.ontology = [
        {"source": "ATHENA", "format": "omop", "vocabularies": stated}
    ]
    save_pipeline(nlp, tmp_path / "saved")
    licences = (tmp_path / "saved" / "LICENSES_SOURCES").read_text(encoding="utf8")
    assert (
        "- SNOMED 2026-01-01, of ATHENA\n- MSH 2026, of ATHENA: restriction level 0\n" in licences
    )


def test_the_model_card_and_licences_of_the_ner_are_kept(toy_files, finder, stated, tmp_path):
    build(toy_files / "ontology.jsonl", tmp_path / "both", ner=str(finder), **stated)
    for _ in range(2):
        meta = meta_of(tmp_path / "both")
        assert (meta["description"], meta["license"]) == ("Finds diseases.", "MIT")
        assert meta["performance"] == {"ents_f": 0.81, "ner_loss": 12.5}
        assert [each["name"] for each in meta["sources"]][:2] == [
            "GENIA",
            "ontology.jsonl, version 1999",
        ]
        assert (
            meta["notes"].startswith("Theirs.\n\n<!--")
            and meta["notes"].count("### Evaluation") == 1
        )
        assert "finds mentions" not in meta["notes"]
        assert (tmp_path / "both" / "LICENSE").read_text() == "MIT, theirs"
        licences = (tmp_path / "both" / "LICENSES_SOURCES").read_text(encoding="utf8")
        assert licences.startswith("GENIA, theirs") and licences.count("CC0 | toy") == 1
        # Once more, from its own folder.
        save_pipeline(load_pipeline(tmp_path / "both"), tmp_path / "both")


def test_an_unstated_licence_leaves_the_license_empty(toy_files, tmp_path):
    build(toy_files / "ontology.jsonl", tmp_path / "linker")
    meta = meta_of(tmp_path / "linker")
    assert meta["license"] == "" and "licence: not stated" in meta["notes"]


@pytest.mark.parametrize("find", ["auto", "none"])
def test_a_finder_finds_mentions(toy_files, tmp_path, find):
    build(toy_files / "ontology.jsonl", tmp_path / "linker", find=find)
    notes = meta_of(tmp_path / "linker")["notes"]
    assert ("needs a component before it that finds mentions" in notes) is (find == "none")


def test_added_gold_is_listed_on_the_model_card(linker, tmp_path):
    nlp = spacy.load(linker)
    doc = nlp.make_doc("She had the English disease.")
    doc.ents = [doc.char_span(8, 27, label="Disease", kb_id="T12")]
    add_gold(nlp.get_pipe(LINKER).kb, [doc], source="my *corrections*")
    update_card(nlp)
    nlp.to_disk(tmp_path / "linker")
    assert "2 of my *corrections*" in meta_of(tmp_path / "linker")["notes"]
    nlp.meta["description"] = "Mine."
    save_pipeline(nlp, tmp_path / "linker")
    assert meta_of(tmp_path / "linker")["description"] == "Mine."


@pytest.fixture
def evaluated(linker, toy_files, toy_store, tmp_path):
    """A copy of the linker, evaluated on two corpora."""
    path = tmp_path / "evaluated"
    save_pipeline(load_pipeline(linker), path)
    for name in ("first", "second"):
        gold = tmp_path / f"{name}.pubtator"
        gold.write_bytes((toy_files / "gold.pubtator").read_bytes())
        asked = {"ontology": toy_store.path, "output": tmp_path / "metrics", "baselines": False}
        report = evaluate(path, gold, **asked, write_meta=True)
    return path, report.data


def test_an_evaluation_is_written_to_the_meta(evaluated, linker):
    path, data = evaluated
    meta = meta_of(path)
    scores = {
        f"krissel_{name}_{key}": data[key]
        for name in ("first", "second")
        for key in ("strict", "lenient")
    }
    assert meta["performance"] == pytest.approx(scores)
    low, high = (100 * bound for bound in data["intervals"]["strict"])
    row = f"| first | gold | {data['n']} | {100 * data['strict']:.1f}, {low:.1f} to {high:.1f} |"
    assert row in meta["notes"] and "| second |" in meta["notes"]
    # Nothing but the card has changed, and another pipeline not at all.
    assert meta_of(linker)["performance"] == {}
    for file_ in (
        each for each in linker.rglob("*") if each.is_file() and each.name != "meta.json"
    ):
        assert (path / file_.relative_to(linker)).read_bytes() == file_.read_bytes()
    # spaCy multiplies by 100.
    assert f"| `KRISSEL_FIRST_STRICT` | {100 * data['strict']:.2f} |" in generate_readme(meta)


def test_an_evaluation_is_dropped_when_settings_change(evaluated):
    path, _ = evaluated
    nlp = load_pipeline(path)
    save_pipeline(nlp, path)
    assert len(meta_of(path)["krissel"]["evaluations"]) == 2
    nlp.get_pipe(LINKER).cfg["min_confidence"] = 0.99
    save_pipeline(nlp, path)
    meta = meta_of(path)
    assert meta["performance"] == {} and "| first |" not in meta["notes"]


def test_expected_accuracy_is_dropped_with_the_knowledge_base(linker, toy_store, tmp_path):
    assert "of links are correct" in meta_of(linker)["notes"]
    prototypes(linker, tmp_path / "again", toy_store.path)
    meta = meta_of(tmp_path / "again")
    assert "of links are correct" not in meta["notes"] and "confidence is below" in meta["notes"]


def test_write_meta_refuses_packages_and_overrides(linker, toy_files, toy_store, refuse, tmp_path):
    given = (
        toy_files / "gold.pubtator",
        "--ontology",
        toy_store.path,
        "-o",
        tmp_path,
        "--write-meta",
    )
    assert "[K006]" in refuse("evaluate", "en_some_package", *given)
    assert "[K006]" in refuse("evaluate", linker, *given, f"--components.{LINKER}.threshold", "0.6")
    assert meta_of(linker)["performance"] == {}


@pytest.mark.slow
def test_the_wheel_contains_the_model_card_and_the_licences(evaluated, tmp_path, monkeypatch):
    path, data = evaluated
    package(
        path,
        tmp_path,
        name="toy_card",
        version="1.2.3",
        create_wheel=True,
        create_sdist=False,
        silent=True,
    )
    wheel_path = next(tmp_path.glob("*/dist/*.whl"))
    with zipfile.ZipFile(wheel_path) as wheel:
        files = {name: wheel.read(name).decode("utf8", "replace") for name in wheel.namelist()}
    licences = [name for name in files if name.endswith("LICENSES_SOURCES")]
    assert any("dist-info" in name for name in licences) and all(
        "CC0 | toy" in files[name] for name in licences
    )
    (metadata,) = (files[name] for name in files if name.endswith("dist-info/METADATA"))
    (readme,) = (files[name] for name in files if name.endswith("README.md"))
    for text in (metadata, readme):
        assert "Links mentions to 12 entities" in text and "### Intended use and limits" in text
        assert f"KRISSEL_FIRST_STRICT` | {100 * data['strict']:.2f}" in text
    pushed = pushed_to_the_hub(wheel_path, monkeypatch)
    _, header, text = pushed["README.md"].decode().split("---\n", 2)
    assert "- spacy\n" in header and text == readme
    assert {"LICENSES_SOURCES", "config.cfg", "meta.json"} <= set(pushed)


def pushed_to_the_hub(wheel_path, monkeypatch):
    """The files that `spacy huggingface-hub push` sends, without sending them."""
    hub = pytest.importorskip("spacy_huggingface_hub.push")
    pushed = {}

    def upload(repo_id, folder_path, **_):
        pushed.update(
            {path.name: path.read_bytes() for path in folder_path.rglob("*") if path.is_file()}
        )
        return f"https://hub/{repo_id}/tree/main"

    monkeypatch.setattr(hub, "HfApi", lambda: SimpleNamespace(create_repo=lambda **_: None))
    monkeypatch.setattr(hub, "upload_folder", upload)
    hub.push(wheel_path, "ada", silent=True)
    return pushed

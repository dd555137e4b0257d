import json

import numpy as np
import pytest
import spacy
from spacy.cli.package import package
from spacy.lang.en import English
from spacy.util import load_model_from_path

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.corpora.doc_bins import GoldSplit
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.calibrate import calibrate
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.pipeline.pipeline_io import find_linker, save_pipeline
from spacy_krissel.pipeline.reranker import KrisselReranker, reorder

pytestmark = pytest.mark.slow

# Names of the toy ontology, and words that none of its names is like.
LINKED = {
    "T03": "lung cancer",
    "T07": "bronchial asthma",
    "T08": "megrim",
    "T10": "grippe",
    "T06": "mammary neoplasm",
}
NIL = ("kwashiorkor", "zyxt", "quokka", "vww")


@pytest.fixture
def nlp(gold_linker):
    return spacy.load(gold_linker)


@pytest.fixture
def linker(nlp):
    return find_linker(nlp)


@pytest.fixture
def docs(make_doc):
    """Nine mentions that count and one without any id."""
    linked = [
        make_doc(f"was {name}", [(1, 1 + len(name.split()), id_)], doc_id=id_)
        for id_, name in LINKED.items()
    ]
    marks = ("NIL", "-1", "-", "NIL")
    nil = [
        make_doc(f"was {word}", [(1, 2, mark)], doc_id=word)
        for word, mark in zip(NIL, marks, strict=True)
    ]
    return [*linked, *nil, make_doc("was flu", [(1, 2, "")], doc_id="none")]


def links(nlp, docs):
    """Return the pipeline's links of the docs' mentions."""
    found = []
    for gold in docs:
        doc = nlp.make_doc(gold.text)
        doc.set_ents(
            [spacy.tokens.Span(doc, ent.start, ent.end, label=ent.label) for ent in gold.ents]
        )
        found.append(nlp(doc).ents[0].kb_id_)
    return found


def test_calibration_shows_a_progress_bar(nlp, linker, docs, terminal):
    calibrate(nlp, docs, progress=True)
    assert "Linking: 100%" in terminal.readouterr().err


def test_the_threshold_is_set_and_recorded_in_the_meta(nlp, linker, docs):
    linker.cfg["threshold"] = 0.123
    found = calibrate(nlp, docs)
    assert linker.cfg["threshold"] == found.threshold == found.data["threshold"]
    assert found.threshold_before == found.data["threshold_before"] == 0.123
    assert (found.data["n"], found.data["n_nil"], found.data["gold"]) == (9, 4, None)
    assert nlp.meta["krissel"]["calibration"] == {"krissel_linker": found.data}
    assert json.loads(json.dumps(found.data)) == found.data
    # What was fitted is what the pipeline then does.
    said = links(nlp, docs)
    right = sum(answer == "NIL" for answer in said[5:9])
    assert found.data["after"]["recall"] == right / 4
    assert found.data["after"]["n_predicted"] == said[:9].count("NIL")
    assert found.data["after"]["f1"] >= 0.8 and found.data["before"]["f1"] < 0.8
    assert found.curve.called[-1] == 9


def test_a_low_nil_fraction_lowers_the_threshold(nlp, docs):
    """If fewer mentions are expected to be NIL, the threshold must not rise."""
    plain, rare = calibrate(nlp, docs), calibrate(nlp, docs, nil_share=0.01)
    assert (plain.data["nil_share"], rare.data["nil_share"]) == (None, 0.01)
    assert rare.data["after"]["share"] == pytest.approx(0.01) and plain.data["after"][
        "share"
    ] == pytest.approx(4 / 9)
    assert (
        rare.threshold <= plain.threshold
        and rare.data["after"]["aupr"] <= plain.data["after"]["aupr"]
    )
    for share in (0.0, 1.0):
        with pytest.raises(KrisselError, match="K006.*nil_share"):
            calibrate(nlp, docs, nil_share=share)


def test_only_held_out_documents_are_used_on_request(nlp, docs):
    part = GoldSplit("dev", 0.6, 2)
    kept = [doc for doc in docs if part(doc)]
    assert 0 < len(kept) < len(docs)
    found = calibrate(nlp, docs, held_out=0.6, seed=2)
    assert (
        found.data["n"] == sum(bool(doc.ents[0].kb_id_) for doc in kept)
        and found.data["held_out"] == 0.6
    )
    with pytest.raises(KrisselError, match="K006.*held_out"):
        calibrate(nlp, docs, held_out=1.5)


def test_calibration_results_equal_an_evaluation(nlp, linker, docs, toy_store):
    linker.cfg["threshold"] = 0.9
    found = calibrate(nlp, docs)
    for threshold, when in ((0.9, "before"), (found.threshold, "after")):
        linker.cfg["threshold"] = threshold
        data = evaluate(nlp, docs, toy_store, gold_nil=True, baselines=False, n_candidates=2).data
        assert data["nil"] == {**found.data[when], "aupr": pytest.approx(found.data[when]["aupr"])}
        assert data["strict"] == found.data[when]["strict"]


def test_the_earlier_threshold_does_not_matter(nlp, linker, docs):
    fitted = []
    for threshold in (None, 0.3, 99.0):
        linker.cfg["threshold"] = threshold
        fitted.append(calibrate(nlp, docs).threshold)
    assert len(set(fitted)) == 1


def test_a_linker_without_stored_candidates_can_be_calibrated(nlp, linker, docs):
    expected = calibrate(nlp, docs).threshold
    linker.cfg["n_candidates"] = 0
    assert calibrate(nlp, docs).threshold == pytest.approx(expected)
    assert linker.cfg["n_candidates"] == 0


def test_the_calibration_survives_saving_and_packaging(nlp, docs, tmp_path):
    found = calibrate(nlp, docs)
    save_pipeline(nlp, tmp_path / "first")
    again = spacy.load(tmp_path / "first")
    again.to_disk(tmp_path / "second")
    package(tmp_path / "second", tmp_path, create_wheel=False, create_sdist=False, silent=True)
    (config,) = tmp_path.glob("en_pipeline-*/en_pipeline/en_pipeline-*/config.cfg")
    loaded = [load_model_from_path(config.parent), spacy.load(tmp_path / "second"), again]
    # Into a pipeline of the same config, as files and as bytes.
    loaded.append(English.from_config(again.config).from_disk(tmp_path / "second"))
    loaded.append(English.from_config(again.config).from_bytes(again.to_bytes()))
    for each in loaded:
        # spaCy's JSON keeps ten decimals.
        assert find_linker(each).cfg["threshold"] == pytest.approx(found.threshold, abs=1e-9)
        noted = each.meta["krissel"]["calibration"]["krissel_linker"]
        assert noted == {
            **found.data,
            **{key: pytest.approx(found.data[key]) for key in ("threshold", "before", "after")},
        }
    assert links(loaded[0], docs) == links(nlp, docs)
    for threshold in (0.25, None):
        override = {"components.krissel_linker.threshold": threshold}
        assert (
            find_linker(spacy.load(tmp_path / "second", config=override)).cfg["threshold"]
            == threshold
        )


def test_an_external_kb_stays_in_its_folder(nlp, docs, tmp_path):
    save_pipeline(nlp, tmp_path / "in", kb_path=tmp_path / "kb")
    before = {path: path.read_bytes() for path in (tmp_path / "kb").rglob("*") if path.is_file()}
    nlp = spacy.load(tmp_path / "in")
    calibrate(nlp, docs)
    save_pipeline(nlp, tmp_path / "out")
    assert not (tmp_path / "out" / "krissel_linker" / "kb").exists()
    assert find_linker(spacy.load(tmp_path / "out")).kb_path == str(tmp_path / "kb")
    assert before == {
        path: path.read_bytes() for path in (tmp_path / "kb").rglob("*") if path.is_file()
    }


def test_a_requested_precision_is_reached(nlp, docs, make_doc):
    # Two that are named like entities, but are none: no threshold has them without the others.
    hidden = [
        make_doc("was psoriasis", [(1, 2, "NIL")], doc_id="p"),
        make_doc("was anemia", [(1, 2, "NIL")], doc_id="a"),
    ]
    best, precise = (
        calibrate(nlp, [*docs, *hidden]),
        calibrate(nlp, [*docs, *hidden], precision=1.0),
    )
    assert precise.data["after"]["precision"] == 1.0 and precise.data["precision"] == 1.0
    assert (
        best.data["after"]["f1"] >= precise.data["after"]["f1"] and best.data["precision"] is None
    )


def test_unsuitable_gold_and_settings_raise(nlp, linker, docs, make_doc):
    def refuse(code, docs, **settings):
        linker.cfg["threshold"] = 0.4
        with pytest.raises(KrisselError, match=code):
            calibrate(nlp, docs, **settings)
        assert linker.cfg["threshold"] == 0.4 and "calibration" not in nlp.meta.get("krissel", {})

    refuse("K711.* 5 mentions", docs[:5])
    refuse("K712.* 4 mentions", docs[5:])
    refuse("K701.*1 document", docs[9:])
    refuse(r"K701.*labels \['Cake'\]", docs, labels=["Cake"])
    refuse("K006.*precision", docs, precision=2.0)
    # All alike.
    mixed = [
        make_doc("was flu", [(1, 2, id_)], doc_id=str(i))
        for i, id_ in enumerate(["T10", "T10", "NIL"])
    ]
    refuse("K713.* 0.9.* 0.3333", mixed, precision=0.9)
    refuse("K610", docs, name="cake")


def test_scores_that_cannot_separate_nil_raise_a_warning(nlp, make_doc):
    docs = [
        make_doc("was flu", [(1, 2, id_)], doc_id=str(i)) for i, id_ in enumerate(["T10", "NIL"])
    ]
    with pytest.warns(KrisselWarning, match="KW712.* all 2 "):
        assert calibrate(nlp, docs).data["after"]["recall"] == 1.0


def test_unknown_ids_are_not_nil(nlp, docs, make_doc):
    unknown = make_doc("was zzzq", [(1, 2, "X9")], doc_id="unknown")
    with pytest.warns(KrisselWarning, match="KW711.* 1 of 10 .*unknown 4-8 X9"):
        found = calibrate(nlp, [*docs, unknown])
    assert (found.data["n"], found.data["n_nil"]) == (10, 4)


def test_alternative_ids_are_known(nlp, store, make_doc, recwarn):
    """The knowledge base knows them: no ontology is asked for."""
    build_prototypes(nlp, PrototypeSource(store, held_out=0.0))
    docs = [
        make_doc("was common cold", [(1, 3, "MESH:OMIM:300")]),
        make_doc("was zyxt", [(1, 2, "NIL")]),
    ]
    assert calibrate(nlp, docs).data["after"]["strict"] == 1.0
    assert not [each for each in recwarn if "KW711" in str(each.message)]


def test_gold_prototypes_of_the_same_documents_are_left_out(nlp, linker, docs):
    expected = calibrate(nlp, docs)
    add_gold(linker.kb, docs)
    with pytest.warns(KrisselWarning, match="KW703"):
        found = calibrate(nlp, docs)
    assert found.threshold == pytest.approx(expected.threshold)
    assert linker.kb.has_gold


def test_with_a_reranker_the_linkers_scores_are_calibrated(nlp, linker, docs, monkeypatch):
    """One that turns each list around and triples the scores: NIL stays NIL, links are its own."""

    def turn(self, docs):
        def link(span):
            candidates = span._.krissel_candidates
            if span.kb_id_ == "NIL" or len(candidates) < 2:
                return None
            return reorder(candidates, [], np.array([3.0 * i for i in range(len(candidates))]))

        return [[link(span) for span in doc.ents] for doc in docs]

    plain = calibrate(nlp, docs)
    linker.cfg["threshold"] = None
    monkeypatch.setattr(KrisselReranker, "predict", turn)
    nlp.add_pipe("krissel_reranker")
    found = calibrate(nlp, docs)
    assert (found.threshold, found.data["rerankers"]) == (plain.threshold, ["krissel_reranker"])
    for when in ("before", "after"):
        same = ("precision", "recall", "f1", "aupr", "n_predicted")
        assert [found.data[when][key] for key in same] == [plain.data[when][key] for key in same]
        assert found.data[when]["strict_linked"] < plain.data[when]["strict_linked"]
    said = links(nlp, docs)[:9]
    assert said.count("NIL") == found.data["after"]["n_predicted"]


def test_another_linker_does_not_change_the_threshold(nlp, docs):
    expected = calibrate(nlp, docs).threshold
    find_linker(nlp).cfg["threshold"] = None
    nlp.add_pipe("test_table_linker", config={"answers": {"megrim": "T01", "zyxt": "T02"}})
    assert calibrate(nlp, docs).threshold == expected


def test_a_path_without_an_output_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(KrisselError, match="K006.*'output' is not set"):
        calibrate(tmp_path / "nowhere", [])

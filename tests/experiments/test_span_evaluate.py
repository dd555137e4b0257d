"""Two texts, three systems, every figure worked out by hand."""

import json

import numpy as np
import pytest
import spacy
from lab.spans.evaluate import evaluate_spans
from spacy.tokens import Span

from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.discontinuous import DISJOINT_KEY, DocMention, write_fragments
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

IDS = ("F1", "F2", "F3", "F4")
NAMES = ("knee pain", "knee swelling", "headache", "fever")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    entities = [
        Entity(id_, name, alt_ids=(f"X:{id_}",)) for id_, name in zip(IDS, NAMES, strict=True)
    ]
    return write_store(entities, tmp_path_factory.mktemp("spans") / "store")


@pytest.fixture
def docs():
    nlp = spacy.blank("en")
    knee, head = nlp("pain and swelling in knee"), nlp("My headache is back, the fever not")
    knee.cats = {"X:F1": 1.0, "F2": 1.0, "F3": 0.0}
    knee.spans["krissel"] = [Span(knee, 2, 5, label="Finding", kb_id="F2")]
    write_fragments(knee, [DocMention("F1", "Finding", ((0, 1), (4, 5)))], DISJOINT_KEY)
    head.cats = {"F3": 1.0, "F4": 1.0}
    # fever's place is not known
    head.spans["krissel"] = [Span(head, 1, 2, label="Finding", kb_id="F3")]
    for doc, id_ in ((knee, "a"), (head, "b")):
        doc.user_data["krissel_id"] = id_
    return [knee, nlp("Of nothing."), head]


class Everything:
    """The whole text for each entity, and no order: ids decide."""

    def spans(self, doc, entity_ids):
        return {entity: ((0, len(doc)),) for entity in entity_ids}

    def scores(self, docs, entity_ids):
        return np.zeros((len(docs), len(entity_ids)))


class Oracle:
    def spans(self, doc, entity_ids):
        return {"F1": ((0, 1), (4, 5)), "F2": ((2, 3), (4, 5)), "F3": ((1, 2),)}


class Wrong:
    def __init__(self, spans=None, scores=None):
        self.answer, self.table = spans, scores

    def spans(self, doc, entity_ids):
        return self.answer

    def scores(self, docs, entity_ids):
        return np.zeros((len(docs), len(entity_ids))) if self.table is None else self.table


def test_results_agree_with_hand_computed_values(findings, docs):
    report = evaluate_spans(
        {"oracle": Oracle(), "all": Everything()}, docs, findings, seen=["X:F1", "F3", "F4"]
    )
    data = report.data
    assert (data["n"], data["n_docs"], data["n_gold"], data["n_entities"]) == (4, 2, 3, 4)
    assert data["slices"] == {
        "all": 4,
        "contiguous": 2,
        "disjoint": 1,
        "seen": 3,
        "contiguous seen": 1,
        "disjoint seen": 1,
        "unseen": 1,
        "contiguous unseen": 1,
    }
    oracle, everything = data["systems"]["oracle"], data["systems"]["all"]
    assert oracle["spans"]["slices"]["all"]["exact"] == oracle["spans"]["slices"]["all"]["f1"] == 1
    assert oracle["linking"]["slices"] == {}
    # Content words: pain swelling knee; headache fever ("back" and "not" are stop words).
    # Predicted 3 + 3 + 2, gold 2 + 2 + 1, right 2 + 2 + 1.
    assert everything["spans"]["slices"]["all"]["f1"] == pytest.approx(2 * 5 / (8 + 5))
    assert everything["behind"]["spans"]["all"]["f1"]["lead"] == pytest.approx(1 - 10 / 13)
    assert everything["behind"]["linking"] == {}
    # Ranks by id: F1 1, F2 2, F3 3, F4 4.
    assert everything["linking"]["slices"]["all"]["accuracy"] == {"1": 0.25, "5": 1, "10": 1}
    assert [record.rank for record in report.records["all"]] == [1, 2, 3, 4]
    assert [record.entity for record in report.records["all"]] == ["F1", "F2", "F3", "F4"]


def test_results_of_several_seeds_are_pooled(findings, docs):
    """One run of a system stands beside each of two of another."""
    systems = {"half": [Oracle(), Everything()], "all": Everything()}
    data = evaluate_spans(systems, docs, findings).data
    half = data["systems"]["half"]["spans"]["slices"]["all"]
    # Right 5 and 5, predicted 5 and 8, gold 5 and 5.
    assert half["f1"] == pytest.approx(2 * 10 / (13 + 10)) and half["exact"] == 0.5
    assert data["systems"]["all"]["behind"]["spans"]["all"]["f1"]["lead"] == pytest.approx(
        20 / 23 - 10 / 13
    )
    assert (data["n"], data["n_runs"]) == (4, 2)
    with pytest.raises(KrisselError, match="K006.*systems"):
        evaluate_spans({**systems, "thrice": [Oracle()] * 3}, docs, findings)


def test_equal_scores_are_ranked_by_id(findings, docs):
    report = evaluate_spans(
        {"all": Everything()}, docs, findings, entities=["F4", "F2", "X:F1", "F3"]
    )
    assert [record.rank for record in report.records["all"]] == [1, 2, 3, 4]
    # A score that is no number is the lowest.
    scores = np.array([[np.nan, 1, 2, 3], [0, 1, 2, np.nan]])
    report = evaluate_spans({"all": Wrong({}, scores)}, docs, findings)
    assert [record.rank for record in report.records["all"]] == [4, 3, 1, 4]


def test_a_file_is_read_with_the_stop_words_of_its_language(findings, docs, tmp_path):
    write_doc_bin(docs, tmp_path / "test.spacy")
    systems = {"all": Everything(), "oracle": Oracle()}
    report = evaluate_spans(systems, docs, findings, tmp_path / "report")
    again = evaluate_spans(systems, tmp_path / "test.spacy", findings.path)
    assert again.data == report.data
    saved = sorted(path.name for path in (tmp_path / "report").iterdir())
    assert saved == [
        "spans.1-all.spans.jsonl",
        "spans.2-oracle.spans.jsonl",
        "spans.json",
        "spans.md",
    ]
    assert json.loads((tmp_path / "report" / "spans.json").read_text()) == report.data
    lines = (tmp_path / "report" / saved[1]).read_text().splitlines()
    assert [json.loads(line)["entity"] for line in lines] == [
        record.entity for record in report.records["oracle"]
    ]


def test_tables_show_results_and_leads(findings, docs):
    text = evaluate_spans(
        {"oracle": Oracle(), "all": Everything()}, docs, findings, seen=["F2"], command="x"
    ).to_markdown()
    assert "| oracle | 100.0 (100.0 to 100.0) |" in text
    assert "## Linking: accuracy @10" in text and "## Exact set of pieces" in text
    f1 = text.split("F1 of tokens")[1].split("##")[0]
    assert (
        "| system | contiguous seen | contiguous unseen | contiguous | disjoint unseen | disjoint |"
        in f1
    )
    lead = text.split("Lead of oracle in F1")[1]
    # 1 - 2 * 2 / (3 + 2) for knee swelling, 1 - 2 * 1 / (2 + 1) for headache
    assert "| all | +20.0 (+20.0 to +20.0) | +33.3 (+33.3 to +33.3) |" in lead


def test_unreachable_entities_count_as_wrong(findings, docs):
    docs[0].cats = {"F1": 1.0, "Z9": 1.0}
    with pytest.warns(KrisselWarning, match="KW731.*3 of 4.*Z9 in a"):
        report = evaluate_spans({"all": Everything()}, docs, findings, entities=["F1"])
    assert [record.rank for record in report.records["all"]] == [1, None, None, None]
    assert [record.predicted for record in report.records["all"]] == [((0, 5),), (), (), ()]
    assert report.data["systems"]["all"]["linking"]["slices"]["all"]["accuracy"]["10"] == 0.25


@pytest.mark.parametrize(
    "system, message",
    [
        (object(), "K733.*'it'.*object"),
        (Wrong({"F1": ((0, 6),)}), "K734.*'it'.*F1.*document a.*5 tokens"),
        (Wrong({"F1": ((3, 3),)}), "K734"),
        (Wrong({}, np.zeros((2, 3))), r"K735.*\(2, 3\).*\(2, 4\)"),
    ],
)
def test_invalid_answers_of_systems_raise(findings, docs, system, message):
    with pytest.raises(KrisselError, match=message):
        evaluate_spans({"it": system}, docs, findings)


def test_nothing_to_evaluate_raises(findings, docs):
    with pytest.raises(KrisselError, match="K736.*1 document"):
        evaluate_spans({"it": Oracle()}, docs[1:2], findings)
    with pytest.raises(KrisselError, match="K006.*systems"):
        evaluate_spans({}, docs, findings)
    with pytest.raises(KrisselError, match="K106"):
        evaluate_spans({"it": Oracle()}, docs, findings, entities=["F1", "Z9"])

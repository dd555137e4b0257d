from html.parser import HTMLParser

import pytest

from spacy_krissel.evaluation import report as report_module
from spacy_krissel.evaluation.metrics import compare, measure, shuffled_scores, span_scores
from spacy_krissel.evaluation.report import Report, error_reason
from spacy_krissel.evaluation.tables import fact_rows, markdown_table, slice_rows, system_rows


@pytest.fixture
def make_report(store):
    def make(records, name="demo", titles=None, **data):
        figures = measure(records, store, resamples=50)
        data = {
            "mentions": "gold",
            "command": "",
            "n_left_out": 0,
            "n_own_gold": 0,
            **figures,
            "distance": None,
            "span": span_scores(records, resamples=50),
            "shuffled": shuffled_scores(records, store),
            "mentions_per_second": 1234.5,
            "baselines": {"exact": {**figures, "difference": compare(records, records, resamples=50)}},
            **data,
        }
        return Report(name, data, list(records), titles or {})

    return make


@pytest.fixture
def report(make_report, make_record):
    records = [make_record(prediction="D5", doc=str(i)) for i in range(12)]
    records.append(
        make_record(
            "<i>odd</i>",
            ("D6",),
            "D1",
            ["D1", "D6"],
            doc="&13",
            left="<script>alert(1)</script> ",
            prototype="left ⟦<MS>⟧ right",
            prototype_kind="mention",
            label="Dis<ease",
        )
    )
    return make_report(records, "a <name>", {"D6": "<Odd & Sons> disease"}, command="run --x '<y>'")


class Page(HTMLParser):
    VOID = {"meta", "input", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_self_contained_and_escaped(report):
    text = report.to_html()
    page = Page()
    page.feed(text)
    assert not page.open and not page.links
    assert page.tags.count("script") == 1 and "link" not in page.tags
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert "alert(1)</script>" not in text and "&lt;script&gt;alert(1)" in text
    assert "&lt;Odd &amp; Sons&gt; disease" in text
    assert "left <mark>&lt;MS&gt;</mark> right" in text
    assert page.tags.count("article") == 1


def test_the_distance_of_wrong_links_is_missing(make_report, make_record):
    far = {"n": 1200, "parent": 0.25, "child": 0.125, "sibling": 0.1, "other": 0.525}
    report = make_report([make_record(prediction="D1")], distance=far)
    row = "1,200, of which 25.0 % a parent, 12.5 % a child, 10.0 % a sibling of the right entity, 52.5 % other"
    assert f"- wrong links: {row}" in report.to_markdown() and f"<dt>wrong links</dt><dd>{row}</dd>" in report.to_html()


def test_a_page_without_errors_has_no_filter(make_report, make_record):
    text = make_report([make_record(prediction="D5")]).to_html()
    assert "<script>" not in text and "Errors (0)" in text


def test_a_page_shows_the_first_errors_and_says_so(make_report, make_record, monkeypatch):
    monkeypatch.setattr(report_module, "MAX_ERRORS", 3)
    text = make_report([make_record(prediction="D1", doc=str(i)) for i in range(5)]).to_html()
    assert text.count("<article") == 3 and "Errors (5)" in text and "The first 3" in text


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"found": False}, "mention not found"),
        ({}, "no answer"),
        ({"prediction": "NIL"}, "said NIL"),
        ({"prediction": "D1", "gold": ("NIL",)}, "should be NIL"),
        ({"prediction": "D1", "ties": ["D1", "D5"]}, "tied with the right one"),
        ({"prediction": "D1", "ties": ["D1", "D2"]}, "right one not among the candidates"),
        ({"prediction": "D1", "ranked": ["D1", "D5"]}, "right one in the top 5"),
        ({"prediction": "D1", "ranked": ["D1", "D2", "D3", "D4", "D6", "D5"]}, "right one further down"),
    ],
)
def test_reasons(make_record, fields, reason):
    assert error_reason(make_record(**fields)) == reason


def test_tables_show_the_figures(report):
    header, pipeline, exact = system_rows(report.data)
    assert dict(zip(header, pipeline, strict=True))["strict"] == "92.3"
    assert dict(zip(header, pipeline, strict=True))["R@5"] == "100.0"
    assert dict(zip(header, exact, strict=True))["improvement"] == "+0.0 (+0.0 to +0.0)"
    assert pipeline[-1] == ""
    # Slices of fewer than ten mentions stay in the JSON.
    assert "composite" not in [row[0] for row in slice_rows(report.data)]
    for text in (report.to_table(), report.to_markdown()):
        assert "92.3" in text and "1,23" in text and "exact" in text


def test_a_report_shows_at_most_twenty_types(make_report, make_record):
    report = make_report([make_record(prediction="D5", doc=str(i)) for i in range(12)])
    figures = report.data["slices"]["type:Disease"]
    report.data["slices"].update({f"type:{i}": {**figures, "n": 100 + i} for i in range(40)})
    types = [row[0] for row in slice_rows(report.data) if row[0].startswith("type:")]
    assert len(types) == 20 and types[0] == "type:39"


def test_markdown_cells_keep_their_bars():
    assert markdown_table([("a", "b"), ("x|y", "1")]).splitlines()[2] == "| x\\|y | 1 |"


def test_figures_without_mentions_are_dashes(make_report, make_record):
    report = make_report([make_record(gold=("NIL",), prediction="NIL")])
    assert dict(zip(*system_rows(report.data)[:2], strict=True))["R@5"] == "–"
    assert "NIL" in report.to_markdown() and report.to_html()


def test_recall_of_slices_is_shown(report):
    rows = slice_rows(report.data)
    shown = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    assert (shown["label:Disease"]["R@64"], shown["unambiguous"]["R@64"]) == ("100.0", "100.0")
    assert ("macro accuracy", "50.0, the mean of 2 labels") in fact_rows(report.data)


def test_markdown_holds_no_html_of_a_corpus(make_report, make_record):
    record = make_record(prediction="D5", label="<script>alert(1)</script>|x\n\n# Title")
    report = make_report([record] * 10, "a <b>name</b>\n# other", command="run\n\n<script>")
    text = report.to_markdown()
    assert "\n# Title" not in text and "\n# other" not in text and "\n<script>" not in text
    assert "<b>" not in text.replace("\\<b>", "") and "| label:\\<script>alert(1)\\</script>\\|x" in text


def test_the_page_holds_no_control_characters(make_report, make_record):
    report = make_report([make_record("a\x00b", ("D6",), "D1", ["D1"], left="\x08\x1b")], "na\x01me")
    assert not set(map(chr, range(32))).difference("\t\n\r").intersection(report.to_html())

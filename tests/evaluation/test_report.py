import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest
from test_documentation import GENERATE

from spacy_krissel.evaluation import report as report_module
from spacy_krissel.evaluation.end_to_end_report import KINDS
from spacy_krissel.evaluation.metrics import compare, measure, span_scores
from spacy_krissel.evaluation.report import MEANINGS, Report, error_reason, meaning
from spacy_krissel.evaluation.tables import (
    compared_rows,
    fact_rows,
    markdown_table,
    slice_rows,
    system_rows,
)

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def make_report(store):
    def make(records, name="demo", titles=None, others=None, **data):
        figures = measure(records, store, resamples=50)
        data = {
            "mentions": "gold",
            "command": "",
            "version": "0.1.0",
            "software": {"spaCy": "3.8.1", "Python": "3.12.3"},
            "date": "2026-01-02",
            "pipeline": {
                "name": "model-<best>",
                "package": "en_demo 1.2",
                "linkers": {
                    "krissel_linker": {
                        "knowledge_base": "6 entities of <b>, licence CC0",
                        "nil": "below 0.4",
                    }
                },
            },
            "n_left_out": 0,
            "n_discontinuous": 0,
            "n_own_gold": 0,
            **figures,
            "distance": None,
            "span": span_scores(records, resamples=50),
            "mentions_per_second": 1234.5,
            "baselines": {
                title: {**figures, "difference": compare(records, other, resamples=50)}
                for title, other in {"exact": records, **(others or {})}.items()
            },
            **data,
        }
        return Report(name, data, list(records), titles or {}, others or {})

    return make


@pytest.fixture
def report(make_report, make_record):
    records = [make_record(prediction="D5", doc=str(i)) for i in range(12)]
    records.append(
        make_record(
            "<i>odd</i>",
            ("D6",),
            "D1",
            ["D1", "D6", "javascript://%0aalert(1)"],
            scores=[0.75, 0.5, 0.25],
            confidence=0.625,
            doc="&13",
            left="<script>alert(1)</script> ",
            prototype="left ⟦<MS>⟧ right",
            prototype_kind="mention",
            label="Dis<ease",
        )
    )
    return make_report(records, "a <name>", {"D6": "<Odd & Sons> disease"}, command="run --x '<y>'")


class Page(HTMLParser):
    VOID = frozenset({"meta", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [
            value for name, value in attrs if name in ("src", "href", "srcset", "action")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_self_contained_and_escaped(report):
    text = report.to_html()
    page = Page()
    page.feed(text)
    assert not page.open and page.links == ["#slices", "#terms"]
    assert page.tags.count("script") == 1 and "link" not in page.tags
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert "alert(1)</script>" not in text and "&lt;script&gt;alert(1)" in text
    assert "&lt;Odd &amp; Sons&gt; disease" in text
    assert "left <mark>&lt;MS&gt;</mark> right" in text
    assert "<a>javascript://%0aalert(1)</a>" in text and "model-&lt;best&gt;" in text
    assert page.tags.count("article") == 13 and text.count(" hidden>") == 12


def test_the_distance_of_wrong_links_is_shown(make_report, make_record):
    far = {"n": 1200, "parent": 0.25, "child": 0.125, "sibling": 0.1, "other": 0.525}
    report = make_report([make_record(prediction="D1")], distance=far)
    row = (
        "1,200, of which 25.0 % a parent, 12.5 % a child, 10.0 % a sibling of the correct entity, "
        "52.5 % other"
    )
    assert (
        f"- wrong links: {row}" in report.to_markdown()
        and f"</abbr></dt><dd>{row}</dd>" in report.to_html()
    )


def test_a_page_without_errors_shows_its_correct_links(make_report, make_record):
    text = make_report([make_record(prediction="D5")]).to_html()
    assert (
        "Errors (0)" in text
        and "None." in text
        and "correct links too (1)" in text
        and text.count("<article") == 1
    )


def test_a_page_says_how_many_mentions_it_shows(make_report, make_record, monkeypatch):
    monkeypatch.setattr(report_module, "MAX_ERRORS", 3)
    monkeypatch.setattr(report_module, "MAX_CORRECT", 2)
    records = [
        make_record(prediction=id_, doc=f"{id_}-{i}") for i in range(5) for id_ in ("D1", "D5")
    ]
    text = make_report(records).to_html()
    assert text.count("<article") == 5 and "Errors (5)" in text and "The first 3;" in text
    assert "correct links too (the first 2 of 5)" in text
    assert re.findall('class="doc">(.+?)<', text) == ["D1-0", "D5-0", "D1-1", "D5-1", "D1-2"], (
        "not the corpus's order"
    )


def test_an_error_shows_scores_and_the_rank_of_the_correct_entity(make_report, make_record):
    ranked = ["D1", "D2", "D1", "D3", "D4", "D6", "X", "D5"]
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25]
    record = make_record(prediction="D1", ranked=ranked, scores=scores, confidence=0.125, ties=[])
    report = make_report(
        [record, make_record(prediction="D5", ranked=["D5", "D1", "D2"])], titles={"D2": "<2>"}
    )
    wrong, right = report.to_html().split("<article")[1:]
    assert 'rank <b class="rank">7</b>' in wrong and 'confidence <b class="sure">0.125</b>' in wrong
    assert re.findall("<a>(.+?)</a> <b>(.+?)</b>", wrong) == [
        *(("D1", "0.900"), ("D2", "0.800"), ("D3", "0.600"), ("D4", "0.500"), ("D6", "0.400")),
        ("D5", "0.250"),
    ]
    assert '<li value="7" class="gold"><a>D5' in wrong and "<li><i>&lt;2&gt;</i> <a>D2" in wrong
    assert right.count("<li") == 2 and 'rank <b class="rank">1</b>' in right
    assert report.page_entity_ids() == {"D1", "D2", "D3", "D4", "D5", "D6"}


@pytest.fixture
def compared(make_report, make_record):
    """Four mentions that both, only this, only the other and neither link correctly.

    The other system gives no answer to the second.
    """
    answers = {
        "both": ("D5", "D5"),
        "this": ("D5", ""),
        "other": ("D1", "D5"),
        "neither": ("D1", "<script>x"),
    }
    ours = [
        make_record(prediction=id_, doc=f"{who}<", confidence=0.75, scores=[0.9])
        for who, (id_, _) in answers.items()
    ]
    theirs = [
        make_record(prediction=id_, doc=f"{who}<", scores=[0.5] if id_ else [], found=bool(id_))
        for who, (_, id_) in answers.items()
    ]
    theirs.insert(0, make_record(prediction="D3", doc="only there"))
    return make_report(ours, titles={"D5": "<5>"}, others={'</script>"<i>&': theirs})


def test_answers_of_two_pipelines_are_side_by_side(compared):
    text = compared.to_html()
    sides = dict(
        re.findall(r'class="doc">(\w+)&lt;<.+?<ul class="side">(.+?)</ul>', text, re.DOTALL)
    )
    found = {}
    for who, side in sides.items():
        (own, said), (shade, other) = re.findall('<li class="(.+?)">(.+?)</li>', side, re.DOTALL)
        found[who] = [" ".join(re.sub("<.+?>", " ", cell).split()) for cell in (said, other)]
        assert (own, shade) == ("said", "agrees" if who in ("both", "other") else "fails")
    other = "&lt;/script&gt;&#34;&lt;i&gt;&amp;"
    this = "model-&lt;best&gt;"
    assert found == {
        "both": [
            f"{this} right &lt;5&gt; D5 confidence 0.750",
            f"{other} right &lt;5&gt; D5 score 0.500",
        ],
        "this": [f"{this} right &lt;5&gt; D5 confidence 0.750", f"{other} wrong mention not found"],
        "other": [f"{this} wrong D1 confidence 0.750", f"{other} right &lt;5&gt; D5 score 0.500"],
        "neither": [
            f"{this} wrong D1 confidence 0.750",
            f"{other} wrong &lt;script&gt;x score 0.500",
        ],
    }
    assert re.findall('data-versus="(.+?)"', text) == [
        "both",
        "this differ",
        "other differ",
        "neither differ",
    ]
    assert re.findall('data-order="(.+?)"', text) == ["0.75|0.5", "0.75|", "0.75|0.5", "0.75|0.5"]
    assert "only there" not in text and "<script>x" in compared.page_entity_ids()


def test_a_comparison_page_is_well_formed_and_escaped(compared):
    text = compared.to_html()
    page = Page()
    page.feed(text)
    assert not page.open and page.tags.count("script") == 1 and "http" not in text
    assert (
        '<optgroup label="&lt;/script&gt;&#34;&lt;i&gt;&amp;">' in text
        and text.count("</script>") == 1
    )
    assert "only model-&lt;best&gt; correct" in text


def test_a_comparison_counts_agreements_with_an_interval(compared):
    improvement = r"\+0\.0 \([+-][\d.]+ to \+[\d.]+\)"
    assert re.search(
        f"<td>&lt;/script.+?</td>{'<td>1</td>' * 4}<td>{improvement}</td>", compared.to_html()
    )


def test_a_page_of_one_system_has_no_comparison(report):
    text = report.to_html()
    assert (
        'id="versus"' not in text and 'id="comparison"' not in text and 'class="side"' not in text
    )


def test_mentions_with_different_answers_are_shown_first(make_report, make_record, monkeypatch):
    monkeypatch.setattr(report_module, "MAX_ERRORS", 2)
    monkeypatch.setattr(report_module, "MAX_CORRECT", 2)
    ours = [make_record(prediction=id_, doc=f"{id_}-{i}") for i in range(4) for id_ in ("D1", "D5")]
    theirs = [
        make_record(prediction=r.prediction if r.doc[-1] < "3" else "D2", doc=r.doc) for r in ours
    ]
    text = make_report(ours, others={"old": theirs}).to_html()
    assert re.findall('class="doc">(.+?)<', text) == ["D1-0", "D5-0", "D1-3", "D5-3"], (
        "not the corpus's order"
    )
    assert "The first 2, those that the systems answer differently before others;" in text


@pytest.mark.skipif(not which("node"), reason="needs node")
def test_the_page_filters_and_sorts_by_the_chosen_system(compared):
    code = re.search(r"function by.+?(?=function filter)", compared.to_html(), re.DOTALL)[0]
    script = f"""{code}
        const get = id => ({{ value: '-1 1' }});
        const row = {{ dataset: {{ order: '0.5|0.25|', versus: 'both|this differ' }} }};
        const answers = ['1 this', '1 differ', '0 differ', '0 this'].map(each => agrees(row, each));
        [by(row), ...answers].join()"""
    found = subprocess.run(["node", "-p", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "-0.25,true,true,false,false"


def test_an_id_with_a_url_is_a_link(make_report, make_record, monkeypatch):
    address = 'https://example.org/?a="&b='
    monkeypatch.setattr(
        report_module, "entity_url", lambda id_: address + id_ if id_ == "D1" else ""
    )
    text = make_report([make_record(prediction="D1")]).to_html()
    assert '<a href="https://example.org/?a=&#34;&amp;b=D1">D1</a>' in text and "<a>D5</a>" in text


def test_the_page_sorts_by_confidence_or_else_by_score(make_report, make_record):
    scored = make_record(prediction="D1", scores=[0.12345])
    assert 'data-order="0.1235"' in make_report([scored]).to_html()
    sure = make_record(prediction="D1", scores=[0.12345], confidence=0.75)
    text = make_report([scored, sure]).to_html()
    assert (
        'data-order=""' in text
        and 'data-order="0.75"' in text
        and "lowest confidence first" in text
    )


@pytest.mark.skipif(not which("node"), reason="needs node")
def test_exported_cells_are_escaped_against_formulas(report):
    line = next(line for line in report.to_html().splitlines() if line.startswith("const cell ="))
    cells = """['=1+1', '@x', '-x', '-0.5', 'a"b', ''].map(cell).join()"""
    found = subprocess.run(
        ["node", "-p", f"{line}\n{cells}"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == """"'=1+1","'@x","'-x","-0.5","a""b","\""""


def test_slices_come_folded_after_the_errors(report):
    text = report.to_html()
    places = [
        text.index(part)
        for part in ("<h2>Systems", '<h2 id="errors"', "<article", '<details id="slices"')
    ]
    assert places == sorted(places) and "<details open" not in text


def test_the_head_states_what_was_evaluated(report):
    facts = dict(fact_rows(report.data))
    assert facts["date"] == "2026-01-02" and facts["pipeline"] == "model-<best>, en_demo 1.2"
    assert facts["versions"] == "spacy-krissel 0.1.0, spaCy 3.8.1, Python 3.12.3"
    assert (facts["knowledge base"], facts["predicts NIL"]) == (
        "6 entities of <b>, licence CC0",
        "below 0.4",
    )
    assert system_rows(report.data)[1][0] == "model-<best>"


def test_each_result_has_an_interval(report):
    tiles = re.findall(r"<dd>([\d.]+)<small>95 %: ([\d.]+ to [\d.]+)</small>", report.to_html())
    assert len(tiles) == 5 + ("homonym" in report.data["slices"]) + (
        "ambiguous" in report.data["slices"]
    )
    assert tiles[0][0] == "92.3"


def test_intervals_are_drawn_to_scale(report):
    report.data.update(strict=0.8, intervals={**report.data["intervals"], "strict": [0.75, 0.85]})
    report.data["baselines"]["exact"]["intervals"]["strict"] = None
    table = report.to_html().split('<table class="systems">')[1]
    assert '<th class="plot">70<span>100</span>' in table, "the scale starts at 0"
    assert '<i style="left:16.7%;width:33.3%"></i><b style="left:33.3%">' in table
    assert table.split("<tr>")[3].count("<i ") == 0 and "left:74.3%" in table.split("<tr>")[3]


def test_baselines_with_equal_results_share_a_row(report):
    exact = report.data["baselines"]["exact"]
    report.data["baselines"] = {
        "exact": exact,
        "tfidf": {**exact, "random": 0.5},
        "exact + abbreviations": exact,
    }
    assert [row[0] for row in system_rows(report.data)[2:]] == [
        "exact, exact + abbreviations",
        "tfidf",
    ]


def test_every_term_has_an_explanation(report):
    terms = [
        *system_rows(report.data)[0][1:],
        "exact, exact + abbreviations",
        "tfidf + abbreviations",
    ]
    terms += [*report.data["slices"], "seen", "unmined", "nil"]
    terms += ["name", "mention", "gold", "reference", "replaced", "class", "score", "rank"]
    terms += compared_rows(report.data, ["exact"])[0][1:]
    named = {"date", "versions", "pipeline", "knowledge base", "speed"}
    terms += [title for title, _ in fact_rows(report.data) if title not in named]
    assert [term for term in terms if not meaning(term)] == []
    assert (
        meaning("exact, exact + abbreviations")
        == f"{MEANINGS['exact']}; {MEANINGS['abbreviations']}"
    )
    assert f'<abbr title="{MEANINGS["recall at k"]}">R@5</abbr>' in report.to_html()


def test_the_documentation_explains_terms_like_the_report():
    page, known = terms_of(GENERATE.REFERENCE["reference/terms.md"]()), {**MEANINGS, **KINDS}
    assert {term: page[term].replace("\\_", "_") for term in known} == known
    found = terms_of((DOCS / "evaluate.md").read_text(encoding="utf8"))
    assert [term for term, what in found.items() if known.get(term, what) != what] == []


def terms_of(page):
    return dict(re.findall(r"^\| `?([^`|]+)`? \| (.+) \|$", page, re.MULTILINE))


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"found": False}, "mention not found"),
        ({}, "no answer"),
        ({"prediction": "NIL"}, "predicted NIL"),
        ({"prediction": "D1", "gold": ("NIL",)}, "should be NIL"),
        ({"prediction": "D1", "ties": ["D1", "D5"]}, "tied with the correct entity"),
        ({"prediction": "D1", "ties": ["D1", "D2"]}, "correct entity not among the candidates"),
        ({"prediction": "D1", "ranked": ["D1", "D5"]}, "correct entity in the top 5"),
        (
            {"prediction": "D1", "ranked": ["D1", "D2", "D3", "D4", "D6", "D5"]},
            "correct entity below the top 5",
        ),
    ],
)
def test_errors_are_classified_by_reason(make_record, fields, reason):
    assert error_reason(make_record(**fields)) == reason and reason in MEANINGS


def test_tables_show_the_results(report):
    header, pipeline, exact = system_rows(report.data)
    assert dict(zip(header, pipeline, strict=True))["strict"] == "92.3"
    assert dict(zip(header, pipeline, strict=True))["R@5"] == "100.0"
    assert dict(zip(header, exact, strict=True))["improvement"] == "+0.0 (+0.0 to +0.0)"
    assert pipeline[-1] == ""
    # Slices of fewer than ten mentions stay in the JSON.
    assert "composite" not in [row[0] for row in slice_rows(report.data)]
    for text in (report.to_table(), report.to_markdown()):
        assert "92.3" in text and "1,23" in text and "exact" in text


def test_slices_with_a_column_have_a_row(make_report, make_record):
    records = [make_record(doc=str(number)) for number in range(3)]
    for record, is_homonym in ((make_record("MS"), True), (make_record("nothing"), False)):
        data = make_report([*records, record]).data
        column = dict(zip(*system_rows(data)[:2], strict=True))["homonym"]
        assert (column != "–") is is_homonym
        assert ("homonym" in [row[0] for row in slice_rows(data)]) is is_homonym


def test_links_to_unmined_entities_are_shown_if_others_are_mined(make_report, make_record):
    report = make_report([make_record()])
    for share, shown in ((None, False), (0.0, False), (0.25, True), (1.0, False)):
        report.data["winners"]["unmined"] = {"n": 3, "share": share, "strict": 1.0}
        (text,) = [value for name, value in fact_rows(report.data) if name[:7] == "unmined"] or [""]
        assert bool(text) is shown
        assert not shown or ("25.0 % of the links" in text and "100.0 % of these links" in text)


def test_a_report_shows_at_most_twenty_types(make_report, make_record):
    report = make_report([make_record(prediction="D5", doc=str(i)) for i in range(12)])
    figures = report.data["slices"]["type:Disease"]
    report.data["slices"].update({f"type:{i}": {**figures, "n": 100 + i} for i in range(40)})
    types = [row[0] for row in slice_rows(report.data) if row[0].startswith("type:")]
    assert len(types) == 20 and types[0] == "type:39"


def test_bars_in_markdown_cells_are_escaped():
    assert markdown_table([("a", "b"), ("x|y", "1")]).splitlines()[2] == "| x\\|y | 1 |"


def test_results_without_mentions_are_dashes(make_report, make_record):
    report = make_report([make_record(gold=("NIL",), prediction="NIL")])
    assert dict(zip(*system_rows(report.data)[:2], strict=True))["R@5"] == "–"
    assert "NIL" in report.to_markdown() and report.to_html()


def test_recall_of_slices_is_shown(report):
    rows = slice_rows(report.data)
    shown = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    assert (shown["label:Disease"]["R@64"], shown["unambiguous"]["R@64"]) == ("100.0", "100.0")
    assert ("macro accuracy", "50.0, the mean of 2 labels") in fact_rows(report.data)


def test_html_of_a_corpus_is_escaped_in_markdown(make_report, make_record):
    record = make_record(prediction="D5", label="<script>alert(1)</script>|x\n\n# Title")
    report = make_report([record] * 10, "a <b>name</b>\n# other", command="run\n\n<script>")
    text = report.to_markdown()
    assert "\n# Title" not in text and "\n# other" not in text and "\n<script>" not in text
    assert (
        "<b>" not in text.replace("\\<b>", "")
        and "| label:\\<script>alert(1)\\</script>\\|x" in text
    )


def test_the_page_contains_no_control_characters(make_report, make_record):
    report = make_report(
        [make_record("a\x00b", ("D6",), "D1", ["D1"], left="\x08\x1b")], "na\x01me"
    )
    assert not set(map(chr, range(32))).difference("\t\n\r").intersection(report.to_html())

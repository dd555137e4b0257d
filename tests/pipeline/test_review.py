import csv
import random
from collections import Counter

import pytest
import spacy
from command_line import invoke
from spacy.tokens import Doc, DocBin, Span
from tiers import nightly

from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.link_texts import link
from spacy_krissel.commands.measure_precision import precision, show_precision
from spacy_krissel.commands.review_links import _choose, _draw, _reason, review
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.annotations import SpanLink, write_links
from spacy_krissel.pipeline.pipeline_io import configure
from spacy_krissel.render.links import COLUMNS

pytestmark = pytest.mark.slow

VOCAB = spacy.blank("en").vocab
TEXTS = [
    "She had flu.",
    "He had the flu.",
    "A cold day.",
    "The clinic saw STEMI twice.",
    "Flu and a cold.",
]


@pytest.fixture
def pipeline(nlp, tmp_path):
    ruler = nlp.add_pipe("entity_ruler", before="krissel_linker")
    ruler.add_patterns(
        [{"label": "Disease", "pattern": name} for name in ("STEMI", "flu", "Flu", "cold")]
    )
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path / "texts.txt"


def read_table(path):
    with path.open(encoding="utf8", newline="") as file_:
        return list(csv.DictReader(file_, delimiter="\t"))


def fill_in(path, cells):
    """cells: of the rows that a function gives them for."""
    rows = read_table(path)
    with path.open("w", encoding="utf8", newline="") as file_:
        writer = csv.DictWriter(file_, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows({**row, **cells(number, row)} for number, row in enumerate(rows))
    return path


def doc_of(*mentions):
    """A doc of mentions: word, id, and its candidates' scores, or the confidence of one."""
    doc = Doc(VOCAB, words=[word for word, _, _ in mentions])
    doc.ents = [Span(doc, i, i + 1, label="Disease") for i in range(len(doc))]
    links = []
    for _, id_, scores in mentions:
        ids = [id_, *(f"other {i}" for i in range(9))]
        if isinstance(scores, float):
            found = [{"id": id_, "name": "name", "score": 0.5, "confidence": scores}]
        else:
            found = [
                {"id": id, "name": id, "score": score}
                for id, score in zip(ids, scores, strict=False)
            ]
        links.append(SpanLink(id_, found, []))
    write_links(doc, doc.ents, links)
    return doc


def chosen_of(docs, n, seed=0, answers=(), *, keep=()):
    """keep: numbers of mentions that are not to be random; with the first such seed."""
    answered = [(doc, answers[i] if answers else {}) for i, doc in enumerate(docs)]
    sample, links, _ = _draw(answered, "", n, random.Random(seed))
    drawn, chosen = _choose(sample, links, n)
    if {each.number for each in drawn} & set(keep):
        return chosen_of(docs, n, seed + 1, answers, keep=keep)
    return drawn, chosen


DOUBTFUL = [
    doc_of(("a", "A", 0.99), ("b", "B", 0.1), ("c", "C", 0.5)),
    doc_of(*[("a", "A", 0.98)] * 9),
]


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 11, 12, 30])
def test_mentions_are_drawn_once_up_to_the_requested_rows(n):
    for seed in range(30):
        drawn, chosen = chosen_of(DOUBTFUL, n, seed)
        assert (
            len({each.number for each in (*drawn, *chosen)})
            == len(drawn) + len(chosen)
            == min(n, 12)
        )
        assert len(drawn) == max((min(n, 12) + 1) // 2, min(n, 12) - 3)


@pytest.mark.parametrize("n", [nightly(2), 6, nightly(12)])
def test_random_rows_are_unbiased(n):
    """Towards what is doubtful, or by their order: a person may stop at any of them."""
    found, first, n_seeds = Counter(), Counter(), 4000
    for seed in range(n_seeds):
        drawn, _ = chosen_of(DOUBTFUL, n, seed)
        found.update(each.number for each in drawn)
        first[drawn[0].number] += 1
    for counts, probability in ((found, len(drawn) / 12), (first, 1 / 12)):
        deviation = (n_seeds * probability * (1 - probability)) ** 0.5
        assert all(
            abs(counts[number] - n_seeds * probability) < 4.5 * deviation for number in range(12)
        )


def test_links_are_ordered_by_expected_errors():
    """Expected wrong links: 0.5 of "c", 0.9 of "b", 1.0 of "a" with 100 mentions, one of "A" as
    well."""
    common = [doc_of(*[("a", "A", 0.99)] * 49, ("A", "A", 0.98), *[("a", "A", 0.99)] * 50)]
    docs = [doc_of(("c", "C", 0.5), ("b", "B", 0.1), ("d", "D", 0.999)), *common]
    _, chosen = chosen_of(docs, 8, keep=(0, 1, 2, 52))
    assert [each.row["id"] for each in chosen] == ["A", "B", "C", "D"]
    assert [each.row["mention"] for each in chosen] == ["A", "b", "c", "d"]
    assert _reason(chosen[0]) == "confidence 0.980; 100 mentions with this text and link"


def test_margin_counts_without_a_confidence():
    near, far, alone = ("n", "N", (0.7, 0.69)), ("f", "F", (0.9, 0.2)), ("o", "O", (0.9,))
    # Ties, and links that a later step made against the scores.
    behind = ("w", "W", (0.5, 0.8))
    docs = [doc_of(far, alone, near, behind, *[("x", "X", (1.0,))] * 200)]
    _, chosen = chosen_of(docs, 10, keep=range(5))
    reasons = [
        "margin -0.300 to the best other candidate; 1 mention with this text and link",
        "margin 0.010 to the best other candidate; 1 mention with this text and link",
        "margin 0.700 to the best other candidate; 1 mention with this text and link",
    ]
    assert [_reason(each) for each in chosen] == [
        *reasons,
        "frequent; 200 mentions with this text and link",
        "frequent; 1 mention with this text and link",
    ]


def test_disagreement_comes_first_and_is_the_example():
    other = ("Z", "another name")
    docs = [
        doc_of(("b", "B", 0.1), ("a", "A", 0.5), ("a", "A", 0.9)),
        doc_of(*[("x", "X", 1.0)] * 99),
    ]
    _, (first, second, *_) = chosen_of(
        docs, 6, answers=[{(4, 5): other}, {(0, 1): ("X", "")}], keep=(0, 1, 2)
    )
    assert (first.number, _reason(first)) == (
        2,
        "disagreement: Z another name; 2 mentions with this text and link",
    )
    assert second.row["id"] == "B"


def test_mention_without_a_link_is_not_reviewed():
    drawn, chosen = chosen_of([doc_of(("a", "NIL", 0.1), ("b", "", 0.1), ("c", "C", 0.5))], 10)
    assert [each.row["id"] for each in (*drawn, *chosen)] == ["C"]


def test_review_table_has_the_rows_of_link(pipeline, texts, tmp_path):
    link(pipeline, texts, tmp_path / "links.tsv")
    found = review(pipeline, texts, tmp_path / "review.tsv", batch_size=2)
    assert found == {"docs": 5, "mentions": 6, "linked": 6, "links": 3, "rows": 6, "random": 3}
    rows = read_table(tmp_path / "review.tsv")
    assert list(rows[0]) == [*COLUMNS, "why"]
    assert [row["why"] == "random" for row in rows] == [True, False] * 3
    plain = [{key: row[key] for key in COLUMNS} for row in rows]
    assert sorted(plain, key=str) == sorted(read_table(tmp_path / "links.tsv"), key=str)


def test_same_seed_gives_the_same_table(pipeline, texts, tmp_path):
    written = []
    for seed, batch_size in ((0, 2), (0, 128), (1, 128)):
        review(
            pipeline,
            texts,
            tmp_path / "review.tsv",
            rows=4,
            seed=seed,
            batch_size=batch_size,
            force=True,
        )
        written.append((tmp_path / "review.tsv").read_bytes())
    assert written[0] == written[1] != written[2]


def test_answers_of_a_second_pipeline_are_compared(pipeline, texts, tmp_path):
    link(pipeline, texts, tmp_path / "links.tsv")
    before = next(
        row["id"] for row in read_table(tmp_path / "links.tsv") if row["mention"] == "STEMI"
    )
    right = "T11" if before != "T11" else "T01"
    filled = fill_in(
        tmp_path / "links.tsv",
        lambda _, row: {"right_id": right} if row["mention"] == "STEMI" else {},
    )
    correct(pipeline, filled, tmp_path / "other")
    whys = set()
    for seed in range(4):
        review(
            pipeline,
            texts,
            tmp_path / "review.tsv",
            rows=2,
            also=tmp_path / "other",
            seed=seed,
            force=True,
        )
        whys |= {(row["mention"], row["why"]) for row in read_table(tmp_path / "review.tsv")}
    ((mention, why),) = [(mention, why) for mention, why in whys if why.startswith("disagreement")]
    assert (
        mention == "STEMI"
        and why.startswith(f"disagreement: {right} ")
        and why.endswith("; 1 mention with this text and link")
    )
    review(pipeline, texts, tmp_path / "review.tsv", also=pipeline, force=True)
    assert not any("disagreement" in row["why"] for row in read_table(tmp_path / "review.tsv"))


def test_second_pipeline_may_link_entities_instead_of_a_group(
    nlp, linker, make_doc, pipeline, tmp_path
):
    """Nor of one that would find other mentions."""
    nlp.remove_pipe("entity_ruler")
    linker.cfg["spans_key"] = "sc"
    nlp.to_disk(tmp_path / "grouped")
    docs = [
        make_doc(nlp, f"Seen in [MS|Disease] and [flu|Disease] {number}", "sc")
        for number in range(3)
    ]
    docs[0].spans["sc"] = [*docs[0].spans["sc"], docs[0][1:3]]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    found = review(
        tmp_path / "grouped", tmp_path / "docs.spacy", tmp_path / "review.tsv", also=pipeline
    )
    assert (found["docs"], found["linked"], found["rows"]) == (3, 7, 7)


def test_correct_reads_a_filled_in_review_table(pipeline, texts, tmp_path):
    review(pipeline, texts, tmp_path / "review.tsv")
    fill_in(
        tmp_path / "review.tsv",
        lambda number, row: {"verdict": "yes"} if number < 4 else {"right_id": "T10"},
    )
    assert correct(pipeline, tmp_path / "review.tsv", tmp_path / "fixed")["corrections"] == 6


def test_precision_matches_a_hand_computed_one(pipeline, texts, tmp_path):
    """Random rows 0, 2 and 4: correct by verdict, correct by id, wrong as NIL.
    Others: wrong by an id that contradicts the verdict, correct, not filled in."""
    review(pipeline, texts, tmp_path / "review.tsv")

    def cells(number, row):
        another = "T10" if row["id"] != "T10" else "T01"
        given = (
            {"verdict": "Yes"},
            {"verdict": "yes", "right_id": another},
            {"right_id": row["id"]},
        )
        return [*given, {"verdict": "1"}, {"right_id": "NIL"}, {}][number]

    found = precision(pipeline, fill_in(tmp_path / "review.tsv", cells))
    assert found["random"] == {"right": 2, "filled": 3, "unfilled": 0}
    assert found["chosen"] == {"right": 1, "filled": 2, "unfilled": 1}
    assert found["precision"] == pytest.approx(2 / 3)
    assert found["interval"] == pytest.approx((0.2077, 0.9385), abs=1e-4)
    printed = invoke("precision", pipeline, tmp_path / "review.tsv").output.splitlines()
    assert printed == [
        "precision, by the rows drawn at random: 66.7% (2 of 3), 95 % interval 20.8% to 93.9%",
        "correct among the rows to review first, no estimate of the precision: 50.0% (1 of 2)",
        "not filled in: 0 (random)",
        "not filled in: 1 (chosen)",
    ]


def test_chosen_rows_alone_give_no_precision(pipeline, texts, tmp_path):
    review(pipeline, texts, tmp_path / "review.tsv")
    fill_in(
        tmp_path / "review.tsv", lambda _, row: {"verdict": "no"} if row["why"] != "random" else {}
    )
    found = precision(pipeline, tmp_path / "review.tsv")
    assert (found["precision"], found["interval"], found["random"]["unfilled"]) == (None, None, 3)
    assert "unknown, none is filled in" in show_precision(found)


def test_table_without_a_sampling_column_gives_no_interval(pipeline, texts, tmp_path):
    link(pipeline, texts, tmp_path / "links.tsv")
    # A mention without an entity is no link.
    given = {
        0: {"verdict": "yes"},
        1: {"verdict": "no"},
        2: {"verdict": "yes", "id": "NIL"},
        3: {"id": ""},
    }
    found = precision(
        pipeline, fill_in(tmp_path / "links.tsv", lambda number, row: given.get(number, {}))
    )
    assert (found["precision"], found["all"], found["unlinked"]) == (
        None,
        {"right": 1, "filled": 2, "unfilled": 2},
        2,
    )
    printed = show_precision(found)
    assert "50.0% (1 of 2)" in printed and "only if" in printed and "interval" not in printed
    assert "without a link: 2" in printed


def test_bad_rows_are_counted_and_the_others_used(pipeline, texts, tmp_path):
    review(pipeline, texts, tmp_path / "review.tsv")
    bad = {
        0: {"right_id": "T999"},
        2: {"verdict": "perhaps"},
        3: {"verdict": "yes", "context": "no brackets"},
    }
    fill_in(tmp_path / "review.tsv", lambda number, _: bad.get(number, {"verdict": "yes"}))
    with pytest.warns(
        KrisselWarning,
        match=r"KW201.*3 record.*review.tsv, line 2 \(.*'T999'.*line 4.*perhaps.*line 5",
    ):
        found = precision(pipeline, tmp_path / "review.tsv")
    assert (found["random"]["filled"], found["chosen"]["filled"]) == (1, 2)


def test_table_without_verdicts_raises(pipeline, texts, tmp_path):
    review(pipeline, texts, tmp_path / "review.tsv")
    with pytest.raises(KrisselError, match="K204.*review.tsv.*filled in.*right_id"):
        precision(pipeline, tmp_path / "review.tsv")


def test_nothing_to_review_raises_and_keeps_an_earlier_table(pipeline, texts, tmp_path):
    (tmp_path / "review.tsv").write_text("earlier")
    (tmp_path / "none.txt").write_text("Nothing here.\n")
    with (
        pytest.warns(KrisselWarning, match="KW621"),
        pytest.raises(KrisselError, match=r"K678.*none.txt.*0 mention"),
    ):
        review(pipeline, tmp_path / "none.txt", tmp_path / "review.tsv", force=True)
    nlp = spacy.load(pipeline)
    configure(nlp, "krissel_linker", threshold=9.0)
    nlp.to_disk(tmp_path / "nil")
    with pytest.raises(KrisselError, match=r"K678.*texts.txt.*6 mention\(s\) in its 5 doc"):
        review(tmp_path / "nil", texts, tmp_path / "review.tsv", force=True)
    with pytest.raises(KrisselError, match="K006.*output.*tsv"):
        review(pipeline, texts, tmp_path / "review.jsonl")
    assert (tmp_path / "review.tsv").read_text() == "earlier"


def test_command_prints_its_counts(pipeline, texts, tmp_path):
    done = invoke(
        "review", pipeline, texts, "-o", tmp_path / "review.tsv", "--rows", "5", "--seed", "3"
    )
    assert done.exit_code == 0 and "5 of 6 linked mentions" in done.output, done.output
    assert "3 drawn at random, 2 to review first" in done.output

"""Review of found names, verdicts on them, and names learned from gold mentions."""

import csv
from collections import Counter

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin, Span

from spacy_krissel import Entity, build
from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.review_links import review
from spacy_krissel.commands.review_names import COLUMNS, FoundName
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.pipeline.linker.query import Found
from spacy_krissel.pipeline.pipeline_io import find_finder, find_linker, update_finders
from spacy_krissel.util.escape import text_of_cell

NAMES = {
    "D0": ("anemia",),
    "D1": ("cleft palate",),
    "D2": ("fall", "accidental fall"),
    "D3": ("nasal bleeding",),
    "D4": ("lung cancer",),
    "D6": ("cleft lip",),
    "D5": ("multiple sclerosis", "disseminated sclerosis"),
}
TEXTS = [
    "A fall and another Fall.",
    "An anaemia after the fall.",
    "Multiple sclerosis (MS) and more MS with a cleft lip and palate.",
    "No nosebleed, no anemia, no lung cancers.",
]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names") / "linker"
    entities = (
        Entity(id_, names[0], names[1:], alt_ids=(f"OLD{id_}",)) for id_, names in NAMES.items()
    )
    build(list(entities), folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path / "texts.txt"


@pytest.fixture
def judge(pipeline, texts, tmp_path):
    """Reviews the names of a pipeline, fills in rows by their text, and corrects it."""

    def judge(cells, folder=pipeline, **settings):
        table = tmp_path / "names.tsv"
        review(folder, texts, table, names=True, force=True)
        return correct(folder, fill_in(table, cells), tmp_path / "judged", **settings)

    return judge


def read_table(path):
    with path.open(encoding="utf8", newline="") as file_:
        return list(csv.DictReader(file_, delimiter="\t"))


def fill_in(path, cells):
    rows = read_table(path)
    assert {row["text"] for row in rows}.issuperset(cells)
    with path.open("w", encoding="utf8", newline="") as file_:
        writer = csv.DictWriter(file_, COLUMNS, delimiter="\t")
        writer.writeheader()
        writer.writerows({**row, **cells.get(row["text"], {})} for row in rows)
    return path


def links(source):
    nlp = source if callable(source) else spacy.load(source)
    return [(ent.text, ent.kb_id_) for text in TEXTS for ent in nlp(text).ents]


def test_table_has_a_row_per_form_the_most_frequent_first(pipeline, texts, tmp_path):
    found = review(pipeline, texts, tmp_path / "names.tsv", names=True)
    assert found == {"docs": 4, "mentions": 11, "forms": 7, "rows": 7}
    first, *others = read_table(tmp_path / "names.tsv")
    assert first == {
        "text": "fall",
        "mentions": "3",
        "docs": "2",
        "variant": "name",
        "id": "D2",
        "name": "fall",
        "example": "A ⟦fall⟧ and another Fall.",
        "verdict": "",
        "right_id": "",
    }
    assert [(row["text"], row["mentions"], row["variant"], row["id"]) for row in others] == [
        ("anaemia", "2", "spelling", "D0"),
        ("MS", "2", "abbreviation", "D5"),
        ("Multiple sclerosis", "1", "name", "D5"),
        ("cleft lip", "1", "name", "D6"),
        ("cleft palate", "1", "coordination", "D1"),
        ("lung cancers", "1", "form", "D4"),
    ]
    review(pipeline, texts, tmp_path / "names.tsv", names=True, rows=1, force=True)
    assert read_table(tmp_path / "names.tsv") == [first]


# A mention begins and ends with a word.
@given(st.from_regex(r"[^\W_](.{0,20}[^\W_])?", fullmatch=True))
def test_text_of_a_row_has_the_form_of_its_mentions(text):
    form = FoundName("example", Counter([text]), Counter(["name"]), Counter([("D0", "anemia")]))
    assert canonical_form(text_of_cell(form.row()[0].strip())) == canonical_form(text)


VERDICTS = [
    ("fall", {"verdict": "no"}, []),
    ("fall", {"right_id": "D3"}, [("fall", "D3"), ("Fall", "D3"), ("fall", "D3")]),
    ("fall", {"right_id": "NIL"}, []),
    ("fall", {"verdict": "yes"}, [("fall", "D2"), ("Fall", "D2"), ("fall", "D2")]),
    ("fall", {"verdict": "no", "right_id": "D3"}, [("fall", "D3")] * 3),
    ("lung cancers", {"verdict": "no"}, []),
    ("cleft palate", {"verdict": "no"}, []),
    ("MS", {"verdict": "no"}, []),
]


@pytest.mark.parametrize("text, cells, expected", VERDICTS)
def test_verdict_holds_at_once_and_yes_undoes_it(pipeline, judge, tmp_path, text, cells, expected):
    before, words = links(pipeline), text.lower().split()
    judge({text: cells})
    after = links(tmp_path / "judged")

    def own(found):
        return [(each, id_) for each, id_ in found if each.lower().split()[-1] == words[-1]]

    assert [id_ for _, id_ in own(after)] == [id_ for _, id_ in expected]
    assert [each for each in after if each not in own(after)] == [
        each for each in before if each not in own(before)
    ]
    fill_in(tmp_path / "names.tsv", {text: {"verdict": "yes", "right_id": ""}})
    correct(tmp_path / "judged", tmp_path / "names.tsv", tmp_path / "judged")
    undone = spacy.load(tmp_path / "judged")
    assert links(undone) == before
    cfg = find_finder(undone).cfg
    assert (cfg.stop_names, cfg.added_names) == ([], {})


def test_rows_are_counted_and_earlier_names_stay(pipeline, judge, tmp_path):
    nlp = spacy.load(pipeline)
    find_finder(nlp).cfg.update(stop_names=["Death"], added_names={"nosebleed": "D3", "NB": "D3"})
    nlp.to_disk(tmp_path / "earlier")
    rows = {
        "fall": {"verdict": "no"},
        "anaemia": {"verdict": "Yes"},
        "lung cancers": {"right_id": "D5"},
        # It stays, since the verdict confirms it.
        "nosebleed": {"verdict": "yes"},
    }
    found = judge(rows, tmp_path / "earlier")
    assert found == {"rows": 4, "left_out": 1, "kept": 2, "added": 1}
    cfg = find_finder(spacy.load(tmp_path / "judged")).cfg
    assert cfg.stop_names == ["Death", "fall"]
    assert cfg.added_names == {"nosebleed": "D3", "NB": "D3", "lung cancers": "D5"}


@pytest.mark.parametrize(
    "cells, problem",
    [
        ({"right_id": "D9"}, "no 'D9'"),
        ({"right_id": "D1|D2"}, "more than one id"),
        ({"verdict": "perhaps"}, "neither yes nor no"),
        ({"text": "", "verdict": "no"}, "no name"),
    ],
)
def test_unusable_rows_are_named_and_others_followed(judge, tmp_path, cells, problem):
    with pytest.warns(KrisselWarning, match=f"KW201.*names.tsv, line 2.*{problem}"):
        found = judge({"fall": cells, "anaemia": {"verdict": "no"}})
    assert (found["rows"], found["left_out"]) == (2, 1)


@pytest.mark.parametrize("header", ["text,right_id", "right_id,note,Text"])
def test_a_table_of_texts_and_ids_is_one_of_names(pipeline, tmp_path, header):
    columns = header.lower().split(",")
    row = {"text": "NB", "right_id": "D3"}
    table = tmp_path / "own.csv"
    table.write_text(f"{header}\n{','.join(row.get(name, '') for name in columns)}\n")
    assert correct(pipeline, table, tmp_path / "fixed")["added"] == 1
    finder = spacy.load(tmp_path / "fixed").get_pipe("krissel_finder")
    assert finder.cfg.added_names == {"NB": "D3"}


def test_invalid_calls_raise(pipeline, judge, texts, tmp_path):
    with pytest.raises(KrisselError, match=r"K204.*names.tsv.*row to follow.*review --names"):
        judge({})
    for setting, value in {"source": "x", "replace": True, "same_document": True}.items():
        with pytest.raises(KrisselError, match=f"K006.*{setting}.*table of names"):
            judge({"fall": {"verdict": "no"}}, **{setting: value})
    nlp = spacy.load(pipeline)
    nlp.remove_pipe("krissel_finder")
    nlp.add_pipe("entity_ruler", first=True).add_patterns([{"label": "X", "pattern": "fall"}])
    nlp.to_disk(tmp_path / "ruled")
    with pytest.raises(KrisselError, match=r"K620.*krissel_linker.*entity_ruler.*--find auto"):
        correct(tmp_path / "ruled", tmp_path / "names.tsv", tmp_path / "other")
    with pytest.raises(KrisselError, match=r"K679.*texts.txt.*4 doc"):
        review(tmp_path / "ruled", texts, tmp_path / "none.tsv", names=True)
    with pytest.raises(KrisselError, match="K006.*also.*names"):
        review(pipeline, texts, tmp_path / "none.tsv", names=True, also=pipeline)
    assert not (tmp_path / "other").exists() and not (tmp_path / "none.tsv").exists()


def gold_docs(vocab):
    """Every mention of TEXTS is gold but those of falls; one name is not in the vocabulary."""
    nlp, docs = spacy.blank("en", vocab=vocab), []
    for text in TEXTS:
        doc = nlp.make_doc(text)
        ids = {"anaemia": "D0", "anemia": "D0", "nosebleed": "D3", "MS": "D5", "thing": "NIL"}
        doc.ents = [
            Span(doc, token.i, token.i + 1, label="X", kb_id=ids[token.text])
            for token in doc
            if token.text in ids
        ]
        docs.append(doc)
    return docs


def test_finder_learns_from_gold_mentions(pipeline, tmp_path):
    nlp = spacy.load(pipeline)
    finder, kb = find_finder(nlp), find_linker(nlp).kb
    assert finder.learn(gold_docs(nlp.vocab), kb) == {
        "docs": 4,
        "mentions": 5,
        "added": 1,
        "left_out": 1,
    }
    assert (finder.cfg.stop_names, finder.cfg.added_names) == (["fall"], {"nosebleed": "D3"})
    assert ("nosebleed", "D3") in links(nlp) and "D2" not in dict(map(reversed, links(nlp)))
    # Deterministic, saved, and learned once.
    again = spacy.load(pipeline)
    find_finder(again).learn(gold_docs(again.vocab), find_linker(again).kb)
    assert find_finder(again).to_bytes() == finder.to_bytes()
    nlp.to_disk(tmp_path / "learned")
    loaded = spacy.load(tmp_path / "learned")
    assert links(loaded) == links(nlp)
    assert find_finder(loaded).learn(gold_docs(nlp.vocab), kb)["added"] == 0


def test_learning_leaves_what_a_person_judged(pipeline):
    nlp = spacy.load(pipeline)
    finder = find_finder(nlp)
    given = {"stop_names": ["Nosebleed"], "added_names": {"FALL": "D2"}}
    finder.cfg.update(given)
    finder.learn(gold_docs(nlp.vocab), find_linker(nlp).kb)
    assert {name: finder.cfg[name] for name in given} == given


def test_docs_without_gold_mentions_raise_and_change_nothing(pipeline):
    nlp = spacy.load(pipeline)
    finder, doc = find_finder(nlp), nlp.make_doc(TEXTS[0])
    doc.ents = [Span(doc, 1, 2, label="X", kb_id="unknown"), Span(doc, 4, 5, label="X")]
    for docs in ([], [doc]):
        with pytest.raises(KrisselError, match=f"K621.*{len(docs)} doc.*convert"):
            finder.learn(docs, find_linker(nlp).kb)
    assert finder.cfg.stop_names == [] and finder.cfg.added_names == {}


def test_gold_files_teach_the_finder_on_request_only(pipeline, tmp_path):
    docs = gold_docs(spacy.blank("en").vocab)
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "gold.spacy")
    gold = [tmp_path / "gold.spacy"]
    plain = prototypes(pipeline, tmp_path / "plain", gold=gold)
    learned = prototypes(pipeline, tmp_path / "learned", gold=gold, learn_names=True)
    assert (learned.pop("names_added"), learned.pop("names_left_out")) == (1, 1)
    assert plain.keys() == learned.keys()
    cfg = find_finder(spacy.load(tmp_path / "plain")).cfg
    assert (cfg.stop_names, cfg.added_names) == ([], {})
    assert find_finder(spacy.load(tmp_path / "learned")).cfg.stop_names == ["fall"]
    with pytest.raises(KrisselError, match="K614.*learn_names"):
        prototypes(pipeline, tmp_path / "none", tmp_path / "store", learn_names=True)


@pytest.mark.parametrize("n_process", [1, 2])
def test_added_name_is_linked_by_an_alternative_id(pipeline, n_process):
    nlp = spacy.load(pipeline)
    finder = find_finder(nlp)
    finder.cfg.added_names = {"nosebleed": "X:D3"}
    with pytest.raises(KrisselError, match="K525.*added_names.*X:D3"):
        nlp(TEXTS[3])
    finder.cfg.added_names = {"nosebleed": "OLDD3"}
    docs = nlp.pipe(TEXTS, n_process=n_process)
    assert ("nosebleed", "D3") in [(ent.text, ent.kb_id_) for doc in docs for ent in doc.ents]


@pytest.mark.parametrize("text", ["cleft palates", "lung cancers", "nosebleed", "MS"])
def test_mentions_of_another_component_are_linked_as_the_finder_links_them(pipeline, text):
    found = spacy.load(pipeline)
    find_finder(found).cfg.added_names = {"nosebleed": "D3"}
    both = spacy.load(pipeline)
    find_finder(both).cfg.added_names = {"nosebleed": "D3"}
    ruler = both.add_pipe("entity_ruler", before="krissel_finder")
    ruler.add_patterns([{"label": "NER", "pattern": text}])
    whole = f"He has multiple sclerosis (MS), {text}."
    own, theirs = (
        [(ent.text, ent.kb_id_, ent._.krissel_found) for ent in nlp(whole).ents]
        for nlp in (found, both)
    )
    assert own == theirs and len(own) >= 2
    assert {ent.label_ for ent in both(whole).ents if ent.text == text} <= {"NER"}


def test_what_another_finder_said_stays(pipeline):
    nlp = spacy.load(pipeline)
    nlp.remove_pipe("krissel_finder")
    other = nlp.add_pipe("krissel_finder", "other", before="krissel_linker")
    other.set_names([("fall", "X:1")])
    nlp.add_pipe("krissel_finder", before="krissel_linker")
    found = {ent.text: ent._.krissel_found["ids"] for ent in nlp("A fall and a cleft lip.").ents}
    assert found == {"fall": ["X:1"], "cleft lip": ["D6"]}


def test_a_name_of_entities_that_a_label_does_not_allow_is_no_evidence(tmp_path):
    entities = [
        Entity("D1", "cold", types=("Disease",)),
        Entity("M1", "cold bath", types=("Method",)),
    ]
    nlp = build(entities, tmp_path / "built").nlp
    linker = find_linker(nlp)
    linker.configure(types_by_label={"NER": ["Method"]}, min_confidence=0.0)
    ruler = nlp.add_pipe("entity_ruler", before="krissel_finder")
    ruler.add_patterns([{"label": "NER", "pattern": "cold"}])
    (ent,) = nlp("He had a cold.").ents
    (best, *_) = ent._.krissel_candidates
    assert ent.kb_id_ == "M1" and best.get("found", 0) == 0


def test_an_added_name_is_a_synonym(pipeline):
    nlp = spacy.load(pipeline)
    find_finder(nlp).cfg.added_names = {"nose that bleeds": "D3"}
    (best, *_) = nlp("A Nose that bleeds.").ents[0]._.krissel_candidates
    assert (best["id"], best["match"]) == ("D3", "synonym")


def test_added_names_of_lost_entities_are_kept_with_a_warning(pipeline, tmp_path):
    """They are found again by a linker that has the entity."""
    nlp = spacy.load(pipeline)
    finder = find_finder(nlp)
    finder.cfg.added_names = {"nosebleed": "D3", "gone": "D99"}
    for _ in range(2):
        with pytest.warns(KrisselWarning, match=r"KW628.*1 of its 2.*'gone' \(D99\)"):
            update_finders(nlp, "krissel_linker")
        assert finder.cfg.added_names == {"nosebleed": "D3"} and ("nosebleed", "D3") in links(nlp)
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    again.meta["krissel"]["inactive_names"]["krissel_finder"] = {"gone": "D3"}
    update_finders(again, "krissel_linker")
    assert find_finder(again).cfg.added_names == {"nosebleed": "D3", "gone": "D3"}
    assert "inactive_names" not in again.meta["krissel"]


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=3), st.lists(st.integers(-1, 5)))
def test_found_entities_are_compared_one_by_one(own, others):
    expected = [each in own for each in others]
    assert Found(own, "name").has(np.array(others, dtype=int)).tolist() == expected

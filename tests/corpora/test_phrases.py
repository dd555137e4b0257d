import gzip

import pytest

from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.readers.mention_tables import read_phrases
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology

TIRED = "1\tTired all the time\tcan't get up\n"
TABLE = f"{TIRED}2\tMyocardial infarction\tHEART ATTACK\n\n{TIRED}"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "fold-0.test.txt"
    path.write_text(TABLE, encoding="utf8")
    return path


def test_each_phrase_is_a_document_with_one_mention(table):
    first, second, third = read_phrases(table)
    assert (first.id, first.text, second.text, third.id) == (
        "fold-0.test.txt:1",
        "can't get up",
        "HEART ATTACK",
        "fold-0.test.txt:4",
    )
    (mention,) = second.mentions
    assert (mention.fragments, mention.text, mention.kb_id, mention.line) == (
        ((0, 12),),
        "HEART ATTACK",
        "2",
        2,
    )


def test_docs_have_one_entity(table, tmp_path):
    import spacy

    nlp = spacy.blank("en")
    docs = list(read_docs(table, nlp, format="phrases"))
    assert [(ent.text, ent.kb_id_) for doc in docs for ent in doc.ents] == [
        ("can't get up", "1"),
        ("HEART ATTACK", "2"),
        ("can't get up", "1"),
    ]
    report = convert(table, tmp_path / "out.spacy", format="phrases")
    assert report.to_dict()["counts"]["mentions"] == 3


def test_bad_lines_are_counted(tmp_path):
    path = tmp_path / "x.txt.gz"
    with gzip.open(path, "wb") as file_:
        file_.write(b"1\ta\tb\n4\tSj\xf6gren\tg\n1\ta\n2\t\tc\n3\td\te\tf\n")
    report = CorpusReport()
    assert [text.text for text in read_phrases(path, report=report)] == ["b"]
    assert report.to_dict()["counts"]["bad_records"] == 4
    assert "line 2 (not UTF-8 (byte" in report.to_dict()["examples"]["bad_records"][0]
    with pytest.warns(KrisselWarning, match="line 2"):
        list(read_phrases(path))


def test_a_file_without_phrases_raises(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1\ta\n", encoding="utf8")
    with pytest.raises(KrisselError, match="K204.*phrase"):
        list(read_phrases(path, report=CorpusReport()))


def test_an_ontology_is_built_from_the_concepts_of_phrases(tmp_path, table):
    other = tmp_path / "other.txt"
    other.write_text(
        "2\tHeart attack\tchest gave out\n3\tNausea\tsick\n2\tMyocardial infarction\tMI\n",
        encoding="utf8",
    )
    store = build_ontology([other], tmp_path / "store", format="phrases")
    assert [(entity.id, entity.names) for entity in store] == [
        ("2", ("Heart attack", "Myocardial infarction")),
        ("3", ("Nausea",)),
    ]
    with pytest.raises(KrisselError, match="K103"):
        bad = tmp_path / "bad.txt"
        bad.write_text("1 a b\n", encoding="utf8")
        build_ontology([bad], tmp_path / "bad-store", format="phrases")


@pytest.mark.parametrize(
    "data, message",
    [
        ("1\ta\tb\n".encode("utf-16-le"), "K056.*UTF-16"),
        ("1\tSjögren\tgrün\n".encode("latin-1"), r"K204.*line 1: not UTF-8"),
    ],
)
def test_a_table_in_another_encoding_raises(tmp_path, data, message):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    with pytest.raises(KrisselError, match=message):
        list(read_phrases(path, report=CorpusReport()))

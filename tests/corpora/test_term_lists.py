import gzip

import pytest

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.term_lists import read_terms
from spacy_krissel.errors import KrisselError


@pytest.fixture
def read(tmp_path):
    """Reads a file with this content. RETURNS: labels with ids, and the places of rows that were
    left out."""

    def read(content, name="terms.csv", **columns):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        report = CorpusReport()
        found = [term[:2] for term in read_terms(path, report, **columns)]
        places = report.examples.get("bad_records", [])
        return found, [place.removeprefix(f"{path}, ") for place in places]

    return read


@pytest.mark.parametrize(
    "content, name, columns, expected",
    [
        ("id,label\nA:1,flu\nA:2,cold\n", "terms.csv", {}, [("flu", "A:1"), ("cold", "A:2")]),
        ("Name;Subject_ID\r\nflu;1\r\n", "TERMS.CSV", {}, [("flu", "1")]),
        ("subject_label\tid\n“flu”\t\n", "terms.tsv.gz", {}, [("“flu”", "")]),
        ("\ufeffDiagnosis\nflu\n\n", "terms.csv", {}, [("flu", "")]),
        ('name,label\nno,"flu, of\nbirds"\n', "terms.csv", {}, [("flu, of birds", "")]),
        ("a,b\nflu,7\n", "terms.csv", {"label_column": "A", "id_column": "b"}, [("flu", "7")]),
        ("a,b\nflu,7\n", "terms.dat", {"label_column": "a"}, [("flu", "")]),
        ("label\n\n a, b \n", "terms.txt", {}, [("label", ""), ("a, b", "")]),
        ("flu\n", "terms", {}, [("flu", "")]),
        ("\ufeffsep=;\r\nCode;Term\r\n7;flu\r\n", "terms.csv", {}, [("flu", "7")]),
        ('"sep=,"\nCode,Term\n7,flu\n', "terms.csv", {}, [("flu", "7")]),
        ("code|term\n7|flu\n", "terms.csv", {}, [("flu", "7")]),
        ("term\nflu|cold\n", "terms.csv", {}, [("flu|cold", "")]),
    ],
)
def test_lists_are_read_in_every_layout(read, content, name, columns, expected):
    assert read(content, name, **columns) == (expected, [])


def test_unreadable_rows_are_reported_by_line_and_skipped(read):
    content = b'id,label\n1,flu\n2,\n3\n\n\xff\n4,"a\nb"\n5,"a"b\n6,cold\n'
    found, places = read(content)
    assert found == [("flu", "1"), ("a b", "4"), ("cold", "6")]
    assert places[:2] == ["line 3 (no term)", "line 4 (no term)"]
    assert places[2].startswith(
        "line 6 (not UTF-8 (byte 1 is 0xff); in Windows-1252 it reads 'ÿ': convert"
    )


@pytest.mark.parametrize(
    "content, name, columns, code",
    [
        ("a,b\nflu,7\n", "terms.csv", {}, "K006.*label_column.*terms.csv.*'a', 'b'"),
        ("label,b\nflu,7\n", "terms.csv", {"id_column": "c"}, "K006.*id_column.*'c'.*'label', 'b'"),
        ("label,b\nflu,7\n", "terms.csv", {"label_column": "c"}, "K006.*label_column.*'c'"),
        ("label,id\n", "terms.csv", {}, "K204.*term"),
        ("\n\n", "terms.txt", {}, "K204.*term"),
        ("", "terms.csv", {}, "K204.*term"),
        ("a,b".encode("utf-16-le"), "terms.csv", {}, "K056"),
        (b"PK\x03\x04\x14\0", "terms.csv", {}, "K060.*Excel.*CSV UTF-8"),
        (b"PK\x03\x04\x14\0", "terms.xlsx", {}, "K060.*terms.xlsx.*Excel"),
    ],
)
def test_lists_without_terms_raise(read, content, name, columns, code):
    with pytest.raises(KrisselError, match=code):
        read(content, name, **columns)


def test_terms_are_streamed(tmp_path):
    (tmp_path / "terms.csv").write_text("label\n" + "flu\n" * 200_000 + '"cut')
    terms = read_terms(tmp_path / "terms.csv", report := CorpusReport())
    assert next(terms).label == "flu" and not report["bad_records"]


@pytest.mark.parametrize(
    "header, expected",
    [
        ("code;term;ward", ("flu", "J11", {"ward": "3"})),
        ("Term ID;Preferred Term;", ("flu", "J11", {"column 3": "3"})),
        ("ward;label;ward", ("flu", "", {"ward": "J11", "ward 3": "3"})),
        ("n;title;code", ("flu", "3", {"n": "J11"})),
    ],
)
def test_common_column_names_are_recognized_and_others_kept(tmp_path, header, expected):
    (tmp_path / "terms.csv").write_text(f"{header}\nJ11;flu;3\nJ12;cold;\n;fever\n")
    report = CorpusReport()
    first, second, third = read_terms(tmp_path / "terms.csv", report)
    assert tuple(first) == expected and third.label == "fever"
    assert set(second.others) == set(expected[2]) - {list(expected[2])[-1]} or "title" in header


@pytest.mark.parametrize(
    "header, told", [("flu", True), ("Diagnosis", True), ("term", False), ("Preferred Name", False)]
)
def test_an_unrecognized_header_raises_a_warning(tmp_path, header, told, recwarn):
    path = tmp_path / "terms.csv"
    path.write_text(f"{header}\nMS\ncold\n")
    assert [term.label for term in read_terms(path, CorpusReport())] == ["MS", "cold"]
    assert [f"'{header}', was read as the name" in str(each.message) for each in recwarn] == [
        True
    ] * told

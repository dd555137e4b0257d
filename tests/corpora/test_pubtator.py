import gzip
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import Mention
from spacy_krissel.corpora.readers.pubtator import read_pubtator
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning

TWO = (
    "\n1|t|Cold water.\n1|a|Renal colic hurts.\n1\t0\t4\tCold\tDisease\t D000\n"
    "1\t12\t23\tRenal colic\tDisease\tD1|D2\tx|y\n"
    "1\tCID\tD000\tD1\n\n2|t|Second\r\n2|a|\r\n2\t0\t6\tSecond\tChemical\r\n"
)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf8"))
    return path


def test_documents_are_read_with_mentions_and_relations_counted(tmp_path):
    report = CorpusReport()
    first, second = read_pubtator(write(tmp_path / "a.txt", TWO), report=report)
    assert (first.id, first.text, first.line) == ("1", "Cold water. Renal colic hurts.", 2)
    assert first.mentions == [
        Mention(((0, 4),), "Cold", "Disease", " D000", 4),
        Mention(((12, 23),), "Renal colic", "Disease", "D1|D2", 5),
    ]
    # No abstract: no space behind the title; no id column: nothing is said about the concept.
    assert (second.id, second.text) == ("2", "Second")
    assert second.mentions == [Mention(((0, 6),), "Second", "Chemical", "", 10)]
    assert report["relations"] == 1 and report["bad_records"] == 0


def test_only_line_feeds_end_a_line(tmp_path):
    title = "a\u2028b\x85c\x0cd"
    (text,) = read_pubtator(write(tmp_path / "a.txt", f"1|t|{title}\n1\t6\t7\td\tX\t-1\n"))
    assert text.text == title and text.text[6:7] == text.mentions[0].text


def test_gzip_with_a_byte_order_mark_is_read(tmp_path):
    path = write(tmp_path / "a.gz", gzip.compress(b"\xef\xbb\xbf" + TWO.lstrip().encode()))
    assert [text.id for text in read_pubtator(path)] == ["1", "2"]


@pytest.mark.parametrize(
    "line",
    [
        "1\t0\t4",
        "9\t0\t4\tCold\tDisease\tD1",
        "1\tzero\t4\tCold\tDisease\tD1",
        "1\t0\t-4\tCold\tDisease\tD1",
        "1\t0\t" + "9" * 5000 + "\tCold\tDisease\tD1",
        "1\t0\t4\tCold",
        "2|a|another abstract",
        "1|a|a second abstract",
        "no record at all",
    ],
)
def test_a_bad_line_is_counted_and_reported(tmp_path, line):
    path = write(tmp_path / "a.txt", f"1|t|Cold\n1|a|water\n{line}\n1\t0\t4\tCold\tDisease\tD1\n")
    with pytest.warns(KrisselWarning, match=r"KW201\] 1 record.*a\.txt, line 3") as caught:
        (text,) = read_pubtator(path)
    assert len(caught) == 1
    assert text.text == "Cold water" and len(text.mentions) == 1


def test_many_bad_lines_give_one_warning(tmp_path):
    path = write(tmp_path / "a.txt", "1|t|Cold\n" + "bad\n" * 50)
    with pytest.warns(
        KrisselWarning, match=r"50 record.*line 2.*line 3.*line 4.*and 47 more"
    ) as caught:
        list(read_pubtator(path))
    assert len(caught) == 1


def test_a_stray_abstract_does_not_block_the_correct_one(tmp_path):
    path = write(tmp_path / "a.txt", "1|t|Cold\n2|a|stray\n1|a|water\n")
    (text,) = read_pubtator(path, report=CorpusReport())
    assert text.text == "Cold water"


@pytest.mark.parametrize(
    "content, code, where",
    [
        (b"", "K204", "0 line"),
        (b"\n\n", "K204", "2 line"),
        (b'\n{"text": "a"}\n', "K205", "line 2"),
        (b"1\t0\t4\tCold\tDisease\tD1\n", "K205", "line 1"),
        (b"1|t|Cold\n1|a|\xff\n", "K203", "line 2 is not UTF-8 .byte 5 is 0xff.*iconv"),
        (gzip.compress(TWO.encode() * 99)[:-20], "K202", "at line"),
        (b"\x1f\x8bnot gzip", "K202", "at line 1"),
    ],
)
def test_unreadable_files_raise_coded_errors(tmp_path, content, code, where):
    path = write(tmp_path / "broken.txt", content)
    with pytest.raises(KrisselError, match=rf"\[{code}\].*broken\.txt.*{where}"):
        list(read_pubtator(path, report=CorpusReport()))


def test_a_missing_file_raises_a_coded_error(tmp_path):
    with pytest.raises(KrisselError, match=r"K201.*absent\.txt.*PubTator"):
        list(read_pubtator(tmp_path / "absent.txt"))


@given(st.lists(st.text(alphabet="1|ta\t 0\nx-", max_size=12), max_size=8))
def test_arbitrary_lines_are_read_without_warnings(tmp_path_factory, lines):
    path = write(tmp_path_factory.mktemp("wild") / "a.txt", "1|t|x\n" + "\n".join([*lines, ""]))
    report = CorpusReport()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = list(read_pubtator(path, report=report))
    assert texts[0].id == "1"


def test_gnormplus_gene_ids_are_read(tmp_path):
    rows = (
        (0, 3, "Abc", "Gene", "4363,9429"),
        (4, 7, "def", "Gene", "4535(Tax:9606)"),
        (8, 11, "ghi", "FamilyName", ""),
    )
    lines = [
        f"1\t{start}\t{end}\t{text}\t{label}\t{kb_id}\n" for start, end, text, label, kb_id in rows
    ]
    (text,) = read_pubtator(
        write(tmp_path / "BC2GNtrain.PubTator.txt", "1|t|Abc def ghi\n1|a|\n" + "".join(lines))
    )
    assert [mention.kb_id for mention in text.mentions] == ["4363|9429", "4535", ""]

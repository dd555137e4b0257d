"""Files that unpack to more than there is, in encodings that are not read, or with what no text
has."""

import gzip
import json
import re
import zipfile

import pytest
from lab.data.lay_names import read_lay_names
from lab.data.psytar import read_psytar

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.readers import READERS
from spacy_krissel.corpora.readers.mention_tables import read_phrases
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.errors import KrisselError, KrisselWarning

MORE = 2**20 + 2**17


def blanks(root, before="", after=""):
    return f"<{root}>{before}" + " " * MORE + f"{after}</{root}>"


BOMBS = {
    "plain text": (read_texts, "a.txt", "x" * MORE),
    "JSONL": (read_texts, "a.jsonl", '{"text": "' + "x" * MORE + '"}\n'),
    "PubMed, a text": (
        read_texts,
        "a.xml",
        blanks("PubmedArticleSet", "<AbstractText>", "</AbstractText>"),
    ),
    "PubMed, blanks": (read_texts, "a.xml", blanks("PubmedArticleSet")),
    "PubMed, a tag": (
        read_texts,
        "a.xml",
        "<PubmedArticleSet><a " + "x" * MORE + "='1'></a></PubmedArticleSet>",
    ),
    "BioC": (READERS["bioc"], "a.xml", blanks("collection", "<document>", "</document>")),
    "knowtator": (READERS["knowtator"], "a.knowtator.xml", blanks("annotations")),
    "BRAT": (READERS["brat"], "a.ann", "T1\tDisease 0 4\t" + "x" * MORE + "\n"),
    "PubTator, a line": (READERS["pubtator"], "a.txt", "1|t|" + "x" * MORE + "\n"),
    "PubTator, a document": (
        READERS["pubtator"],
        "a.txt",
        "1|t|x\n" + "1\t0\t1\tx\tD\tC\n" * 20_000,
    ),
    "Linnaeus": (READERS["linnaeus"], "a.tsv", "species:ncbi:1\ta\t0\t1\t" + "x" * MORE + "\n"),
    "BioC JSON": (READERS["bioc-json"], "a.json", '{"documents": [{"id": "' + "x" * MORE + '"}]}'),
    "BELB": (READERS["belb"], "a.jsonl", '{"text": "' + "x" * MORE + '", "annotations": []}\n'),
    "Label Studio": (
        READERS["label-studio"],
        "a.json",
        '[{"data": {"text": "' + "x" * MORE + '"}}]',
    ),
    "Prodigy": (
        READERS["prodigy"],
        "a.jsonl",
        '{"text": "' + "x" * MORE + '", "answer": "accept"}\n',
    ),
    "BigBIO": (
        READERS["bigbio"],
        "a.jsonl",
        '{"document_id": "' + "x" * MORE + '", "passages": []}\n',
    ),
    "phrases": (read_phrases, "a.txt", "C1\tname\t" + "x" * MORE + "\n"),
}


@pytest.mark.parametrize("read, name, content", BOMBS.values(), ids=BOMBS)
def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch, read, name, content):
    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "1")
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    (tmp_path / "a.txt").write_text("some pain")
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode("utf8")))
    with pytest.raises(KrisselError, match=r"K055.*a\..*KRISSEL_MAX_(RECORD|FILE)_MIB"):
        list(read(path))


@pytest.mark.parametrize("text", [["x" * MORE], ["a"] * 2000 + ["x" * MORE]])
def test_a_too_large_parquet_cell_is_refused(tmp_path, monkeypatch, text):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "1")
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    with pytest.raises(KrisselError, match="K055.*KRISSEL_MAX_RECORD_MIB"):
        list(read_texts(tmp_path / "a.parquet"))


def test_a_row_group_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * MORE] * 3}), path, compression="zstd")
    with pytest.raises(KrisselError, match="K055.*row group 1.*KRISSEL_MAX_FILE_MIB"):
        list(read_texts(path))


def test_a_repeated_dictionary_text_is_streamed(tmp_path):
    """1,024 rows of a megabyte at once are a gigabyte; the texts come one by one."""
    pa = pytest.importorskip("pyarrow")
    import resource

    import pyarrow.parquet as pq

    indices, texts = pa.array([0] * 1024, pa.int32()), pa.array(["x" * 2**20])
    pq.write_table(
        pa.table({"text": pa.DictionaryArray.from_arrays(indices, texts)}), tmp_path / "a.parquet"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in read_texts(tmp_path / "a.parquet")) == 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("ids", [[2**63], [1.0]])
def test_unrepresentable_ids_are_read_or_raise_a_coded_error(tmp_path, ids):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    kind = pa.timestamp("ns") if ids == [2**63] else pa.float64()
    column = pa.array([1], pa.timestamp("ns")) if ids == [2**63] else pa.array(ids, kind)
    pq.write_table(pa.table({"id": column, "text": ["a"]}), tmp_path / "a.parquet")
    try:
        assert len(list(read_texts(tmp_path / "a.parquet"))) == 1
    except KrisselError as error:
        assert error.code == "K213"


XML = {
    "bioc": (READERS["bioc"], "<collection></collection>"),
    "knowtator": (READERS["knowtator"], "<annotations></annotations>"),
    "PubMed": (read_texts, "<PubmedArticleSet></PubmedArticleSet>"),
}


@pytest.mark.parametrize(
    "encoding", ["gb2312", "shift_jis", "utf-7", "rot13", "idna", "no-such-thing", "undefined"]
)
@pytest.mark.parametrize("read, content", XML.values(), ids=XML)
def test_an_unsupported_encoding_raises_a_coded_error(tmp_path, read, content, encoding):
    path = tmp_path / "a.xml"
    path.write_text(f"<?xml version='1.0' encoding='{encoding}'?>\n{content}")
    with pytest.raises(
        KrisselError, match=rf"K058.*a\.xml.*'{encoding}'|K007.*a\.xml.*unknown encoding"
    ):
        list(read(path))


def workbook(
    path, rows, sheets=("Sentence_Labeling", "ADR_Mapped", "WD-Mapped", "SSI_Mapped", "DI_Mapped")
):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for sheet in sheets:
        page = book.create_sheet(sheet)
        page.append(["head"])
        for row in rows:
            page.append(row)
    book.save(path)
    return path


def rewritten(path, member, change):
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents[member] = change(contents[member])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda sheet: sheet[: len(sheet) // 2],
        lambda sheet: sheet.replace(b'r="2"', b'r="two"'),
        lambda sheet: sheet.replace(b'<c r="A2" t="n"><v>1', b'<c r="A2" t="s"><v>99999'),
    ],
)
def test_an_unparsable_workbook_row_raises_a_coded_error(tmp_path, change):
    path = workbook(tmp_path / "a.xlsx", [[1, 2, 3, "text", "text"]])
    with pytest.raises(KrisselError, match=r"(K232|K053).*a\.xlsx"):
        list(read_psytar(rewritten(path, "xl/worksheets/sheet2.xml", change)))


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    path = workbook(tmp_path / "a.xlsx", [[1, 2, 3]])
    with pytest.raises(KrisselError, match=r"K055.*a\.xlsx.*KRISSEL_MAX_FILE_MIB"):
        list(read_psytar(rewritten(path, "xl/styles.xml", lambda content: content + b" " * MORE)))


def test_a_workbook_member_larger_than_its_stated_size_is_refused(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [[1, 2, 3]])
    rewritten(path, "xl/styles.xml", lambda content: content + b" " * 12_345_678)
    size = zipfile.ZipFile(path).getinfo("xl/styles.xml").file_size.to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, b"\1\0\0\0"))
    with pytest.raises(KrisselError, match=r"K232.*a\.xlsx.*CRC"):
        list(read_psytar(path))


def test_a_huge_row_number_is_refused(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [[1, 2, 3]])
    far = b'<row r="99999999999"'
    rewritten(
        path, "xl/worksheets/sheet2.xml", lambda sheet: re.sub(b"<dimension[^>]*>", b"", sheet)
    )
    rewritten(path, "xl/worksheets/sheet2.xml", lambda sheet: sheet.replace(b'<row r="2"', far))
    with pytest.raises(KrisselError, match=r"K232.*a\.xlsx.*rows"):
        list(read_psytar(path))


def test_a_too_long_world_name_raises_a_coded_error(tmp_path):
    mention = {
        "context_document_id": "A",
        "label_document_id": "B",
        "corpus": "x" * 999,
        "text": "a",
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**mention, "start_index": 0, "end_index": 0}) + "\n")
    with pytest.raises(KrisselError, match="K201.*xxx"):
        list(READERS["zeshel"](path, documents=tmp_path))


def test_names_with_control_characters_are_bad_records(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("C1\tname\tphrase\nC2\tna\x00me\tphrase\nC3\tname\tphr\x07ase\n")
    report = CorpusReport()
    assert len(list(read_phrases(path, report=report))) == 1 and report["bad_records"] == 2
    path.write_text("HP:0000001\tname\tlay\x00name\nHP:0000002\tname\tlay\x00name\n")
    with pytest.raises(KrisselError, match="K234.*line 2"):
        read_lay_names(path)


def test_invalid_spans_raise_when_a_file_is_read(tmp_path):
    import zlib

    import srsly
    from spacy.lang.en import English
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    nlp = English()
    doc = nlp("some severe pain")
    doc.spans["krissel"] = [doc[1:3]]
    content = srsly.msgpack_loads(
        zlib.decompress(DocBin(docs=[doc], store_user_data=True).to_bytes())
    )
    groups = srsly.msgpack_loads(content["span_groups"][0])
    changed = [
        group.replace(
            (1).to_bytes(4, "big") + (3).to_bytes(4, "big"),
            (3).to_bytes(4, "big") + (1).to_bytes(4, "big"),
        )
        for group in groups
    ]
    assert changed != groups, "the places of spans are written otherwise"
    content["span_groups"] = [srsly.msgpack_dumps(changed)]
    path = tmp_path / "a.spacy"
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(content)))
    with pytest.raises(KrisselError, match=r"K212.*a\.spacy"):
        next(read_doc_bins(path, Vocab()))


def test_a_file_without_a_final_line_end_raises_a_warning(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.")
    with pytest.warns(KrisselWarning, match=r"KW210.*a\.txt, line 2"):
        assert len(list(read_texts(path))) == 2
    path.write_text("HP:0000001\tname\tlay name")
    with pytest.warns(KrisselWarning, match=r"KW210.*a\.txt, line 1"):
        read_lay_names(path)

"""Reading of texts: what is read, in which order, and what a resumed run skips."""

import gzip
import json
import os
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mining import miner as miner_module
from spacy_krissel.mining import reading as reading_module
from spacy_krissel.mining import workers as workers_module
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.reading import SeenIds, ordered_files, read_unit, units_of
from spacy_krissel.mining.shards import MentionShards


def pubmed(articles, deleted=()):
    records = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article>"
        f"<ArticleTitle>{title}</ArticleTitle></Article></MedlineCitation></PubmedArticle>\n"
        for pmid, title in articles
    )
    gone = "".join(f"<PMID>{pmid}</PMID>" for pmid in deleted)
    gone = f"<DeleteCitation>{gone}</DeleteCitation>" if deleted else ""
    return gzip.compress(f"<PubmedArticleSet>{records}{gone}</PubmedArticleSet>".encode())


@pytest.fixture
def baseline(tmp_path):
    """A folder with a baseline of two files and two updates."""
    folder = tmp_path / "pubmed"
    files = {
        "1": pubmed([(1, "glioma one"), (2, "glioma two"), (3, "glioma three"), (4, "")]),
        "2": pubmed([(5, "tumor five"), (6, "tumor six")]),
        "3": pubmed(
            [(2, "glioma two revised"), (7, "tumor seven"), (8, "tumor eight")], deleted=[3, 5]
        ),
        "4": pubmed([(2, "glioma two, again revised"), (5, "tumor five, back")], deleted=[8]),
    }
    folder.mkdir()
    for number, content in files.items():
        (folder / f"pubmed26n000{number}.xml.gz").write_bytes(content)
        (folder / f"pubmed26n000{number}.xml.gz.md5").write_text("MD5(...)")
    return folder


@pytest.mark.parametrize(
    "unit_bytes, chunk_chars", [(1, 1), (1, 10**6), (10**6, 1), (10**6, 10**6), (500, 30)]
)
@pytest.mark.parametrize("n_process", [1, 2])
def test_the_last_version_of_an_article_counts(
    ontology, baseline, tmp_path, monkeypatch, unit_bytes, chunk_chars, n_process
):
    monkeypatch.setattr(reading_module, "UNIT_BYTES", unit_bytes)
    with pytest.warns(KrisselWarning, match=r"KW302\] 5 of 10 texts"):
        report = mine(
            ontology, baseline, tmp_path / "s", chunk_chars=chunk_chars, n_process=n_process
        )
    found = sorted((m.doc, m.left + m.mention + m.right) for m in MentionShards(tmp_path / "s"))
    assert found == [
        ("1", "glioma one"),
        ("2", "glioma two, again revised"),
        ("5", "tumor five, back"),
        ("6", "tumor six"),
        ("7", "tumor seven"),
    ]
    counts = report.manifest["counts"]
    # 2 twice; 5, which came back; 3 and 8, which are gone.
    assert counts["texts"] == 5 and counts["repeated_ids"] == 5 and counts["deleted_ids"] == 3
    assert counts["blank_texts"] == 1


def test_xml_files_are_read_in_reverse_order(tmp_path, write_texts):
    for name in ("x/1.xml", "x/2.xml.gz", "y/0.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("<")
    first, _ = write_texts({"a": "b"}, "a.jsonl"), write_texts({"a": "b"}, "x/z.jsonl")
    names = [path.name for path in ordered_files([first, tmp_path / "x", tmp_path / "y"])]
    assert names == ["a.jsonl", "0.xml", "2.xml.gz", "z.jsonl", "1.xml"]


def test_small_files_are_read_together(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_module, "UNIT_BYTES", 100)
    paths = []
    for i, size in enumerate([30, 70, 10, 300, 95, 5, 1]):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_bytes(b"x" * size)
    sizes = [[path.stat().st_size for path in unit] for unit in units_of(paths)]
    assert sizes == [[30, 70], [10], [300], [95, 5], [1]]
    assert units_of([]) == []


def test_unit_is_read_in_chunks_with_a_report_at_the_end(write_texts):
    one = write_texts({f"a{i}": "0123456789" for i in range(5)}, "one.jsonl")
    one.write_text(one.read_text() + "no JSON\n")
    two = write_texts({f"b{i}": "0123456789" for i in range(2)}, "two.jsonl")
    chunks = list(read_unit((one, two), 7, chunk_chars=20))
    assert [[text.id for text in texts] for _, texts in chunks] == [
        ["a0", "a1"],
        ["a2", "a3"],
        ["a4", "b0"],
        ["b1"],
    ]
    assert [chunk.is_last for chunk, _ in chunks] == [False, False, False, True]
    assert {chunk.unit for chunk, _ in chunks} == {7}
    assert [bool(chunk.report) for chunk, _ in chunks] == [False, False, False, True]
    assert chunks[-1][0].report["counts"] == {"bad_records": 1, "texts": 7}


def test_files_of_all_formats_are_mined_together(ontology, tmp_path, read_bytes, write_texts):
    folder = tmp_path / "texts"
    write_texts({"j": "glioma"}, "texts/a.jsonl")
    (folder / "b.txt").write_text("tumor\n")
    (folder / "c.xml.gz").write_bytes(pubmed([(1, "AIDS in x")]))
    pq.write_table(pa.table({"id": ["p"], "text": ["lung cancer"]}), folder / "d.parquet")
    report = mine(ontology, folder, tmp_path / "s")
    assert report.manifest["counts"]["texts"] == 4
    assert {m.doc for m in MentionShards(tmp_path / "s")} == {"j", "b.txt:1", "1", "p"}


@pytest.fixture
def many_files(write_texts, tmp_path):
    """Eight files of ten texts; the last line of each is bad, and the id of its first text is that
    of another's."""
    for i in range(8):
        texts = {f"t{i}-{j}": f"{i} {j} tumor, lung cancer, AIDS" for j in range(9)}
        path = write_texts({"same": "glioma", **texts}, f"in/{i}.jsonl")
        path.write_text(path.read_text() + "no JSON\n")
    return tmp_path / "in"


class Stop(Exception):
    pass


@pytest.mark.parametrize("n_process", [1, 2, 3])
@pytest.mark.parametrize("stop_at", [0, 4, 7, 15])
def test_read_units_are_not_read_again(
    ontology, many_files, tmp_path, monkeypatch, read_bytes, n_process, stop_at
):
    monkeypatch.setattr(reading_module, "UNIT_BYTES", 1)
    settings = {"cap": 3, "chunk_chars": 150}
    with pytest.warns(KrisselWarning) as expected:
        mine(ontology, many_files, tmp_path / "whole", **settings)
    call = miner_module.Miner.__call__
    n_mined = []

    def stopping(self, texts):
        if len(n_mined) == stop_at:
            raise Stop
        n_mined.append(len(texts))
        return call(self, texts)

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(miner_module.Miner, "__call__", stopping)
        mine(ontology, many_files, tmp_path / "again", **settings)
    read = []

    def reading(unit, number, chunk_chars):
        read.append(number)
        return read_unit(unit, number, chunk_chars)

    if n_process == 1:
        monkeypatch.setattr(workers_module, "read_unit", reading)
    with pytest.warns(KrisselWarning) as found:
        mine(ontology, many_files, tmp_path / "again", n_process=n_process, **settings)
    assert read_bytes(tmp_path / "again") == read_bytes(tmp_path / "whole")
    # Two chunks a file.
    assert n_process > 1 or read == list(range(stop_at // 2, 8))
    # What the first run read is warned of, too.
    assert [str(each.message) for each in found] == [str(each.message) for each in expected] != []


def test_large_files_are_read_by_this_process(
    ontology, many_files, tmp_path, monkeypatch, read_bytes
):
    """And many processes read the others, whatever is read first."""
    monkeypatch.setattr(reading_module, "UNIT_BYTES", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        mine(ontology, many_files, tmp_path / "whole")
        for i, limit in enumerate((1, 500, 900)):
            large = many_files / "3.jsonl"
            assert large.stat().st_size > limit or limit == 900
            monkeypatch.setattr(workers_module, "READ_AHEAD", limit)
            mine(ontology, many_files, tmp_path / f"{i}", n_process=2, chunk_chars=100)
            assert read_bytes(tmp_path / f"{i}") == read_bytes(tmp_path / "whole")


def test_damaged_file_is_named_in_the_error(ontology, many_files, tmp_path, monkeypatch):
    monkeypatch.setattr(reading_module, "UNIT_BYTES", 1)
    (many_files / "5.jsonl").write_text("no JSON at all\n")
    for n_process in (1, 2):
        with pytest.raises(KrisselError, match=r"K209.*5\.jsonl"):
            mine(ontology, many_files, tmp_path / str(n_process), n_process=n_process)
        assert not (tmp_path / str(n_process)).exists()


def test_work_of_another_version_raises(ontology, write_texts, tmp_path):
    """A run that an earlier version of the package began, which kept chunks in other files."""
    partial = tmp_path / ".s.partial"
    partial.mkdir()
    (partial / "state.json").write_text(json.dumps({"format_version": 3}))
    (partial / "000000.arrow").write_bytes(b"work")
    with pytest.raises(KrisselError, match="K302.*format_version was 3 and is 4"):
        mine(ontology, write_texts({"a": "glioma"}), tmp_path / "s")
    assert sorted(os.listdir(partial)) == ["000000.arrow", "state.json"]


@given(
    st.lists(
        st.lists(st.integers(0, 30) | st.integers(2**64 - 3, 2**64 - 1), max_size=12), max_size=12
    )
)
def test_each_id_is_new_once(parts):
    seen, known = SeenIds(), set()
    for part in parts:
        new = seen.add(np.array(part, dtype=np.uint64))
        expected = []
        for id_ in part:
            expected.append(id_ not in known)
            known.add(id_)
        assert new.tolist() == expected
    # Few arrays to search, and none of them twice over.
    assert sum(map(len, seen._runs)) == len(known) and len(seen._runs) <= 8

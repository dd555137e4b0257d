"""Linking of a corpus to a folder of parts."""

import gzip
import json
import os
import shutil
from itertools import count
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin, Span

from spacy_krissel.commands import link_corpus as module
from spacy_krissel.commands import linking_workers
from spacy_krissel.commands.link_corpus import Schedule, run
from spacy_krissel.commands.link_texts import link
from spacy_krissel.commands.linking_work import LinkingWork, part_name
from spacy_krissel.commands.linking_workers import Linked
from spacy_krissel.distributed.pool import Event
from spacy_krissel.errors import KrisselError, KrisselWarning

TEXTS = [
    {"id": f"t{i}", "title": f"Case {i}.", "text": f"She had {name}, then {other} {i} times."}
    for i, (name, other) in enumerate(
        [("MS", "flu"), ("migraine", "nothing"), ("flu", "MS and flu"), ("cake", "tea")] * 6
    )
]
WHOLE = [f"{each['title']} {each['text']}" for each in TEXTS]
# Of some 60 characters per text: six parts of four texts.
SMALL = {"part_chars": 180, "batch_size": 2}


@pytest.fixture(scope="session")
def ruled(save_linker, make_once):
    """A pipeline that finds mentions, and links them."""
    import spacy

    def make(path):
        nlp = spacy.load(save_linker("small"))
        ruler = nlp.add_pipe("entity_ruler", before="krissel_linker")
        ruler.add_patterns(
            [{"label": "Disease", "pattern": name} for name in ("MS", "flu", "migraine")]
        )
        nlp.to_disk(path / "pipeline")

    return make_once("ruled_corpus", make) / "pipeline"


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch, loaded):
    """Loading takes longer than linking so few texts."""
    load = linking_workers.load_pipeline

    def cached(path, **settings):
        key = str(path)
        if key not in loaded:
            loaded[key] = load(path, **settings)
        return loaded[key]

    monkeypatch.setattr(linking_workers, "load_pipeline", cached)


@pytest.fixture(scope="module")
def loaded():
    return {}


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in TEXTS))
    return path


def parts_in(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir() if "part" in each.name}


def rows_in(folder):
    """All rows of a linked corpus, in the order of its parts."""
    rows = []
    for each in json.loads((folder / "manifest.json").read_text())["parts"]:
        path = folder / each["file"]
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        else:
            rows += [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    return rows


def test_parts_hold_the_links_that_one_file_holds(ruled, texts, tmp_path):
    link(ruled, texts, tmp_path / "one.parquet")
    expected = pq.read_table(tmp_path / "one.parquet").to_pylist()
    for format in ("parquet", "jsonl"):
        for settings in ({}, {"candidates": True}, {"rows": "document", "candidates": True}):
            output = tmp_path / f"{format}{len(settings)}"
            found = link(ruled, texts, output, format=format, **SMALL, **settings)
            n_linked = sum(each["id"] != "NIL" for each in expected)
            assert found == (len(TEXTS), len(expected)) and len(expected) > 20
            assert found.linked == n_linked
            assert len(parts_in(output)) > 3
            rows = rows_in(output)
            if "rows" in settings:
                assert [each["doc"] for each in rows] == [each["id"] for each in TEXTS]
                assert [each["text"] for each in rows] == WHOLE
                rows = [{"doc": each["doc"], **one} for each in rows for one in each["mentions"]]
            wanted = [
                {key: row[key] for key in row if settings or key != "candidates"}
                for row in expected
            ]
            for own, other in zip(rows, wanted, strict=True):
                # The batches differ.
                for numbers in (
                    own,
                    other,
                    *own.get("candidates", ()),
                    *other.get("candidates", ()),
                ):
                    numbers["score"] = round(numbers["score"], 4)
                assert own == other


def test_part_bytes_do_not_depend_on_other_parts(ruled, texts, tmp_path):
    link(ruled, texts, tmp_path / "all", format="parquet", **SMALL)
    first, second = json.loads((tmp_path / "all" / "manifest.json").read_text())["parts"][:2]
    lines = texts.read_text().splitlines(keepends=True)[first["docs"] :][: second["docs"]]
    few = tmp_path / "few.jsonl"
    few.write_text("".join(lines))
    link(ruled, few, tmp_path / "few", format="parquet", **SMALL)
    assert [*parts_in(tmp_path / "few").values()] == [
        parts_in(tmp_path / "all")["part-00000-0001.parquet"]
    ]


def write_pubmed(path):
    articles = "".join(
        f"<PubmedArticle><MedlineCitation><PMID Version='1'>{each['id']}</PMID><Article>"
        f"<ArticleTitle>{each['title']}</ArticleTitle><Abstract><AbstractText>{each['text']}"
        "</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>\n"
        for each in TEXTS
    )
    content = f"<?xml version='1.0'?>\n<PubmedArticleSet>{articles}</PubmedArticleSet>"
    path.write_bytes(gzip.compress(content.encode()))


def write_bioc(path):
    documents = "".join(
        f"<document><id>{each['id']}</id><passage><offset>0</offset><text>{each['title']}</text>"
        f"</passage><passage><offset>{len(each['title']) + 1}</offset><text>{each['text']}</text>"
        "</passage></document>\n"
        for each in TEXTS
    )
    path.write_text(f"<?xml version='1.0'?>\n<collection>{documents}</collection>")


def write_bioc_json(path):
    documents = [
        {
            "id": each["id"],
            "passages": [
                {"offset": 0, "text": each["title"], "annotations": []},
                {"offset": len(each["title"]) + 1, "text": each["text"], "annotations": []},
            ],
        }
        for each in TEXTS
    ]
    path.write_text(json.dumps({"documents": documents}))


WRITERS = {
    "pubmed26n0001.xml.gz": write_pubmed,
    "collection.BioC.xml": write_bioc,
    "collection.bioc.json": write_bioc_json,
    "corpus.PubTator": lambda path: path.write_text(
        "".join(f"{t['id']}|t|{t['title']}\n{t['id']}|a|{t['text']}\n\n" for t in TEXTS)
    ),
    "texts.parquet": lambda path: pq.write_table(pa.Table.from_pylist(TEXTS), path),
    "texts.jsonl.gz": lambda path: path.write_bytes(
        gzip.compress("".join(json.dumps(each) + "\n" for each in TEXTS).encode())
    ),
}


@pytest.fixture
def folder(tmp_path):
    """A corpus in all formats of text, each with the same documents."""
    path = tmp_path / "corpus"
    (path / "below").mkdir(parents=True)
    for number, (name, write) in enumerate(WRITERS.items()):
        write((path / "below" if number % 2 else path) / name)
    (path / "README").write_text("Not of the corpus.")
    return path


def test_each_format_has_the_same_links(ruled, texts, folder, tmp_path):
    link(ruled, texts, tmp_path / "expected", format="jsonl", rows="document", **SMALL)
    expected = rows_in(tmp_path / "expected")
    for number, name in enumerate(WRITERS):
        (path,) = folder.rglob(name)
        output = tmp_path / str(number)
        link(ruled, path, output, format="jsonl", rows="document", **SMALL)
        assert rows_in(output) == expected, name


def test_folder_and_glob_are_read_in_order(ruled, folder, nlp, tmp_path):
    docs = [nlp.make_doc(text) for text in WHOLE[:3]]
    docs[0].ents = [Span(docs[0], 4, 5, label="X")]
    docs[0].user_data["krissel_id"] = "own"
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "docs.spacy")
    n = len(WRITERS) * len(TEXTS)
    link(ruled, folder, tmp_path / "all", format="jsonl", rows="document")
    rows = rows_in(tmp_path / "all")
    assert len(rows) == n + 3
    # A doc keeps its mentions: the ruler would have found two.
    (own,) = (each for each in rows if each["doc"] == "own")
    assert [each["start"] for each in own["mentions"]] == [docs[0][4].idx]
    manifest = json.loads((tmp_path / "all" / "manifest.json").read_text())
    names = [each["file"] for each in manifest["inputs"]]
    assert sorted(names) == sorted([*WRITERS, "docs.spacy"])
    assert [name for each in manifest["parts"] for name in each["inputs"]] == names
    link(ruled, f"{folder}/**/*.json*", tmp_path / "glob", format="jsonl")
    manifest = json.loads((tmp_path / "glob" / "manifest.json").read_text())
    assert {each["file"] for each in manifest["inputs"]} == {
        "texts.jsonl.gz",
        "collection.bioc.json",
    }
    for missing in (f"{folder}/*.cake", folder / "missing", tmp_path / "glob" / "manifest.json"):
        expected = "K201" if "manifest" not in str(missing) else "K648.*K210"
        with pytest.raises(KrisselError, match=expected):
            link(ruled, missing, tmp_path / "none", format="jsonl")
    assert not (tmp_path / "none").exists()


class Stop(Exception):
    pass


@pytest.fixture
def linked_parts(monkeypatch):
    """The parts that are linked, as they are."""
    found = []
    call = linking_workers.PartLinker.__call__

    def counted(self, request):
        found.append((request.unit, request.number))
        return call(self, request)

    monkeypatch.setattr(linking_workers.PartLinker, "__call__", counted)
    return found


def stop_after(monkeypatch, n):
    add, calls = LinkingWork.add, count()

    def stopping(self, *args):
        if next(calls) == n:
            raise Stop
        add(self, *args)

    return monkeypatch.setattr(LinkingWork, "add", stopping)


def test_parts_do_not_depend_on_how_often_a_worker_starts(ruled, texts, tmp_path, monkeypatch):
    settings = {"format": "parquet", **SMALL}
    link(ruled, texts, tmp_path / "once", **settings)
    starts = []
    start = module.start_linking
    monkeypatch.setattr(module, "start_linking", lambda own: (starts.append(1), start(own))[1])
    monkeypatch.setattr(module, "PARTS_PER_WORKER", 2)
    link(ruled, texts, tmp_path / "often", **settings)
    n_parts = len(parts_in(tmp_path / "once"))
    assert len(starts) == -(-n_parts // 2) > 1
    assert parts_in(tmp_path / "often") == parts_in(tmp_path / "once")


def test_a_pipeline_that_changes_meanwhile_is_refused(ruled, texts, tmp_path, monkeypatch):
    other = tmp_path / "pipeline"
    shutil.copytree(ruled, other)
    monkeypatch.setattr(module, "PARTS_PER_WORKER", 1)
    add = LinkingWork.add

    def changing(self, *args):
        add(self, *args)
        cfg = other / "krissel_linker" / "cfg"
        cfg.write_text(cfg.read_text().replace("{", "{ ", 1))

    monkeypatch.setattr(LinkingWork, "add", changing)
    with pytest.raises(KrisselError, match=r"K649.*pipeline.*--restart"):
        link(other, texts, tmp_path / "out", format="parquet", **SMALL)
    assert not (tmp_path / "out").exists()


def test_a_finished_run_with_other_input_is_replaced_on_request_only(ruled, texts, tmp_path):
    settings = {"format": "jsonl", **SMALL}
    output = tmp_path / "out"
    link(ruled, texts, output, **settings)
    before = parts_in(output)
    with pytest.raises(KrisselError, match=r"K647.*out' is of.*rows was .*mention.*--restart"):
        link(ruled, texts, output, rows="document", **settings)
    assert parts_in(output) == before and not (tmp_path / ".out.partial").exists()
    link(ruled, texts, output, rows="document", restart=True, **settings)
    assert parts_in(output) != before


def test_interrupted_run_resumes(ruled, texts, tmp_path, monkeypatch, linked_parts):
    settings = {"format": "parquet", **SMALL}
    link(ruled, texts, tmp_path / "whole", **settings)
    n_parts = len(linked_parts)
    output = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 3)
        link(ruled, texts, output, **settings)
    assert not output.exists()
    work = tmp_path / ".out.partial"
    # What a crash of the machine may leave.
    (work / "part-00000-0002.parquet").write_bytes(b"PAR1")
    (work / "part.0123.tmp").write_bytes(b"PA")
    linked_parts.clear()
    for other in ({"rows": "document"}, {"batch_size": 3}, {"format": "jsonl"}):
        with pytest.raises(KrisselError, match=r"K647.*\.out\.partial.*--restart"):
            link(ruled, texts, output, **{**settings, **other})
    changed = tmp_path / "changed" / "texts.jsonl"
    changed.parent.mkdir()
    changed.write_text(texts.read_text().replace("MS", "ME"))
    with pytest.raises(KrisselError, match=r"K647.*texts"):
        link(ruled, changed, output, **settings)
    other = tmp_path / "pipeline"
    shutil.copytree(ruled, other)
    cfg = other / "krissel_linker" / "cfg"
    cfg.write_text(cfg.read_text().replace("{", "{ ", 1))
    with pytest.raises(KrisselError, match=r"K647.*pipeline"):
        link(other, texts, output, **settings)
    assert linked_parts == []
    link(ruled, texts, output, **settings)
    assert linked_parts == [(0, number) for number in range(2, n_parts)]
    assert parts_in(output) == parts_in(tmp_path / "whole")
    assert (output / "manifest.json").read_bytes() == (
        tmp_path / "whole" / "manifest.json"
    ).read_bytes()
    assert not work.exists()
    # A finished run is left as it is.
    linked_parts.clear()
    assert link(ruled, texts, output, **settings)[0] == len(TEXTS)
    assert linked_parts == []
    link(ruled, texts, output, restart=True, **settings)
    assert len(linked_parts) == n_parts
    link(ruled, texts, output, **{**settings, "format": "jsonl"}, restart=True)
    assert {each.rpartition(".")[2] for each in parts_in(output)} == {"jsonl"}


def test_restart_discards_the_parts_of_other_settings(
    ruled, texts, tmp_path, monkeypatch, linked_parts
):
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stop_after(patch, 2)
        link(ruled, texts, tmp_path / "out", format="jsonl", **SMALL)
    linked_parts.clear()
    link(ruled, texts, tmp_path / "out", format="parquet", restart=True, **SMALL)
    assert (0, 0) in linked_parts and not (tmp_path / ".out.partial").exists()


def test_damaged_files_and_bad_records_are_named_and_left_out(ruled, folder, tmp_path):
    damaged = folder / "texts.parquet"
    gz = next(folder.rglob("texts.jsonl.gz"))
    gz.write_bytes(gz.read_bytes()[:-20])
    damaged.write_bytes(b"PAR1 and no more")
    bad = folder / "a.jsonl"
    bad.write_text('{"text": "flu"}\nno JSON\n{"text": "MS"}\n')
    with pytest.warns(KrisselWarning) as warned:
        docs, *_ = link(ruled, folder, tmp_path / "out", format="jsonl", rows="document")
    said = " ".join(str(each.message) for each in warned)
    assert "[KW201] 1 record(s)" in said and "a.jsonl, line 2" in said
    assert "[KW235] 2 file(s)" in said and "texts.jsonl.gz" in said and "texts.parquet" in said
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert len(manifest["damaged"]) == 2 and manifest["issues"]["counts"]["bad_records"] == 1
    # What precedes the damage is used.
    assert (len(WRITERS) - 2) * len(TEXTS) < docs <= (len(WRITERS) - 1) * len(TEXTS) + 2
    assert docs == len(rows_in(tmp_path / "out"))
    with pytest.raises(KrisselError, match=r"K648.*texts\.parquet"):
        link(ruled, damaged, tmp_path / "none", format="jsonl")
    assert not list(tmp_path.glob("*none*"))


def test_long_texts_are_left_out_and_texts_without_mentions_warn(
    ruled, tmp_path, monkeypatch, texts, loaded
):
    link(ruled, texts, tmp_path / "first", format="parquet")
    monkeypatch.setattr(loaded[str(ruled)], "max_length", 50)
    texts.write_text('{"id": "a", "text": "%s"}\n{"id": "b", "text": "None."}\n' % ("flu " * 20))
    with pytest.warns(KrisselWarning) as warned:
        assert link(ruled, texts, tmp_path / "out", format="parquet") == (1, 0)
    said = [str(each.message)[:7] for each in warned]
    assert said == ["[KW620]", "[KW621]"]
    assert "1 of 2 texts" in str(warned[0].message) and "first: a" in str(warned[0].message)
    (part,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(part).num_rows == 0


def test_invalid_settings_raise(ruled, texts, save_linker, tmp_path):
    for settings in (
        {"rows": "document"},
        {"candidates": True},
        {"n_process": 2},
        {"ray": "local"},
    ):
        (name,) = settings
        with pytest.raises(KrisselError, match=f"K006.*'{name}'.*without `format`"):
            link(ruled, texts, tmp_path / "out.jsonl", **settings)
    with pytest.raises(KrisselError, match="K006.*'output'"):
        link(ruled, texts, format="jsonl")
    with pytest.raises(KrisselError, match="K006.*'n_process'"):
        link(ruled, texts, tmp_path / "out", format="jsonl", ray="local", n_process=2)
    with pytest.raises(KrisselError, match="K005"):
        link(ruled, texts, texts.parent, format="jsonl")
    with pytest.raises(KrisselError, match="K611"):
        link(tmp_path / "missing", texts, tmp_path / "out", format="jsonl")
    with pytest.raises(KrisselError, match="K676"):
        link(save_linker("small"), texts, tmp_path / "out", format="jsonl")
    assert not (tmp_path / "out").exists() and not (tmp_path / ".out.partial").exists()


def test_progress_reaches_its_total(ruled, texts, tmp_path, terminal):
    link(ruled, texts, tmp_path / "out", format="jsonl", progress=True, **SMALL)
    shown = terminal.readouterr().err
    assert "Linking: 100%" in shown and f"{len(TEXTS)} docs" in shown


class LossyPool:
    """Workers that are lost where `lost` says so, and otherwise answer with what they were sent,
    in the order of `order`. max_parts: parts that one links before it may be renewed."""

    def __init__(self, n, lost, order=(), max_parts=99):
        self.n = n
        self._max_parts = max_parts
        self._linked = [0] * n
        self._order = iter(order)
        self._lost = iter(lost)
        self._waiting = [(worker, Event.READY) for worker in range(n)]

    def send(self, worker, request):
        lost = next(self._lost, False)
        self._linked[worker] += 1
        self._waiting.append((worker, request if not lost else Event.LOST))

    def receive(self):
        index = next(self._order, 0) % len(self._waiting)
        worker, answer = self._waiting.pop(index)
        if answer is Event.LOST:
            self._linked[worker] = 0
            self._waiting.append((worker, Event.READY))
        if isinstance(answer, Event):
            return worker, answer
        n_parts = PARTS[answer.unit]
        assert answer.number < n_parts, "a unit has no such part"
        return worker, Linked(b"", {"is_last": answer.number == n_parts - 1})

    def renew(self, worker):
        assert all(worker != each for each, _ in self._waiting)
        assert self._linked[worker] >= self._max_parts
        self._linked[worker] = 0
        self._waiting.append((worker, Event.READY))


PARTS = [3, 1, 5, 2, 1, 4]
KEYS = [(unit, number) for unit, n in enumerate(PARTS) for number in range(n)]


@given(
    n=st.integers(1, 4),
    lost=st.lists(st.booleans(), max_size=12).filter(lambda lost: sum(lost) <= 5),
    order=st.lists(st.integers(0, 3), max_size=30),
    done=st.sets(st.sampled_from(KEYS)),
    in_workers=st.booleans(),
    max_parts=st.integers(1, 9),
)
def test_every_part_is_linked_once_whatever_is_lost(n, lost, order, done, in_workers, max_parts):
    work = SimpleNamespace(records={key: {"is_last": key[1] == PARTS[key[0]] - 1} for key in done})
    left = [
        unit
        for unit, n_parts in enumerate(PARTS)
        if not done >= {(unit, i) for i in range(n_parts)}
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "parts_of", lambda unit, chars: iter(range(unit)))
        patch.setattr(module, "PARTS_PER_WORKER", max_parts)
        schedule = Schedule(PARTS, left, work, 1, in_workers)
        found = [key for key, _ in run(LossyPool(n, lost, order, max_parts), schedule)]
    assert sorted(found) == sorted(set(KEYS) - done)


def test_part_that_ends_each_worker_raises():
    work = SimpleNamespace(records={})
    with pytest.raises(KrisselError, match="K646.*6 times"):
        list(run(LossyPool(2, [True] * 99), Schedule([["a.jsonl"]], [0], work, 1, True)))


def test_part_names_sort_as_the_parts_do():
    keys = [(0, 0), (0, 11), (2, 3), (10, 0)]
    assert sorted(map(part_name, keys)) == [part_name(key) for key in keys]


def test_copies_where_the_disk_has_no_links(ruled, texts, tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(1, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    link(ruled, texts, tmp_path / "out", format="parquet", **SMALL)
    assert len(rows_in(tmp_path / "out")) > 20

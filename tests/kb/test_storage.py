import errno
import json
import multiprocessing
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from spacy.vocab import Vocab
from term_search import search

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index
from spacy_krissel.kb import columns, prototype_table, storage
from spacy_krissel.kb import directory as folder
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.directory import KIND
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype, PrototypeTable
from spacy_krissel.kb.storage import FORMAT_VERSION
from spacy_krissel.util.manifest import OWN_HASH, manifest_hash, write_manifest
from spacy_krissel.views import View, name_view

QUERIES = np.eye(4, dtype=np.float32)
INDEXES = [
    None,
    make_faiss_index("flat"),
    make_faiss_index("hnsw", m=8),
    make_faiss_index("ivf", nlist=2, nprobe=2),
]


def files(path):
    return {
        file_.relative_to(path).as_posix(): file_.read_bytes()
        for file_ in path.rglob("*")
        if file_.is_file()
    }


def same_answers(a, b):
    found, expected = a.search(QUERIES, 4), b.search(QUERIES, 4)
    return (found.entities == expected.entities).all() and candidate_dicts(
        a, found
    ) == candidate_dicts(b, expected)


def add_one(kb):
    kb.add_prototypes([Prototype("D004", "gold", name_view("seen"))], QUERIES[3:])


@pytest.mark.parametrize("settings", [{}, {"normalize": True}, {"dtype": "float16"}])
@pytest.mark.parametrize("index", INDEXES)
def test_saved_bytes_are_stable_after_loading(make_kb, index, settings, tmp_path):
    pytest.importorskip("faiss")
    kb = make_kb(index, **settings)
    kb.to_disk(tmp_path / "one")
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "one")
    assert same_answers(loaded, kb)
    assert loaded.description() == kb.description()
    assert isinstance(loaded.vectors, np.memmap)
    assert "D004" in loaded.vocab.strings
    loaded.to_disk(tmp_path / "two")
    kb.to_disk(tmp_path / "three")
    assert files(tmp_path / "one") == files(tmp_path / "two") == files(tmp_path / "three")


def test_a_kept_lexical_index_is_loaded_and_not_rebuilt(make_kb, tmp_path, monkeypatch):
    kb = make_kb(None)
    both = {"texts": ["renal failur"] * 4, "lexical_weight": 0.5}
    expected = search(kb, QUERIES, 4, **both)
    kb.to_disk(tmp_path / "without")
    assert not (tmp_path / "without" / "lexical").exists(), "saved because it was searched"
    before = kb.snapshot()
    kb.keep_lexical_index()
    assert not before.description()["lexical"] and before.is_saved(tmp_path / "without")
    assert not kb.is_saved(tmp_path / "without")
    kb.to_disk(tmp_path / "one")
    data = kb.to_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(prototype_table, "lexical_arrays", lambda *_: pytest.fail("it was made"))
        for loaded in (
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "one"),
            PrototypeKB(Vocab(), 4).from_bytes(data),
            pickle.loads(pickle.dumps(kb)),
        ):
            found = search(loaded, QUERIES, 4, **both)
            assert (found.entities == expected.entities).all() and (
                found.scores == expected.scores
            ).all()
            assert loaded.description() == kb.description()
            assert loaded.description()["lexical"]
        loaded.to_disk(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    (tmp_path / "one" / "lexical" / "grams.npy").unlink()
    with pytest.raises(KrisselError, match="K004.*lexical/grams.npy"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "one")
    add_one(loaded)
    loaded.to_disk(tmp_path / "three")
    assert not (tmp_path / "three" / "lexical").exists(), "it has the prototypes of before"


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("exclude", [(), ("prototypes",)])
def test_vectors_can_be_added_to_a_kb_saved_without_any(entities, tmp_path, width, exclude):
    empty = PrototypeKB(Vocab(), 0)
    empty.set_entities(entities)
    empty.to_disk(tmp_path / "kb")
    kb = PrototypeKB(Vocab(), width).from_disk(tmp_path / "kb", exclude=exclude)
    assert kb.entity_vector_length == kb.current.width == width and (
        exclude or kb.is_saved(tmp_path / "kb")
    )
    if width:
        with pytest.raises(KrisselError, match="K503"):
            kb.add_prototypes(
                [Prototype("D001", "name", View("", "x", ""))], np.ones((1, width + 1))
            )
    kb.add_prototypes([Prototype("D001", "name", View("", "x", ""))], np.ones((1, 3)))
    assert kb.entity_vector_length == 3 and kb.search(np.ones((1, 3)), 1).scores[0, 0] == 3
    kb.to_disk(tmp_path / "kb")
    assert PrototypeKB(Vocab(), 3).from_disk(tmp_path / "kb").description() == kb.description()


def test_a_damaged_lexical_index_raises(make_kb, tmp_path):
    kb = make_kb()
    kb.keep_lexical_index()
    kb.to_disk(tmp_path / "kb")
    path = tmp_path / "kb" / "lexical" / "grams.npy"
    for content in (b"no array", path.read_bytes()[:-8]):
        path.write_bytes(content)
        with pytest.raises(KrisselError, match=r"K524.*lexical/grams\.npy: ") as raised:
            PrototypeTable.from_disk(
                tmp_path / "kb", len(kb.prototypes), 4, "float32", len(kb), lexical=True
            )
        assert str(tmp_path / "kb") in str(raised.value)


def test_saved_tables_of_many_batches_are_stable_after_loading(random_kb, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "BATCH_ROWS", 7)
    monkeypatch.setattr(columns, "BLOCK_ROWS", 11)
    rng = np.random.default_rng(0)
    kb = random_kb(list(range(30)), rng.standard_normal((30, 4), dtype=np.float32))
    kb.add_prototypes([Prototype("E00003", "gold", name_view("later"))], np.ones((1, 4)))
    kb.to_disk(tmp_path / "one")
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "one")
    assert same_answers(loaded, kb)
    loaded.to_disk(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


@pytest.mark.parametrize("index", INDEXES)
def test_a_kb_can_be_saved_to_the_folder_it_is_mapped_from(make_kb, index, tmp_path):
    pytest.importorskip("faiss")
    make_kb(index).to_disk(tmp_path / "kb")
    kb = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    kb.to_disk(tmp_path / "kb")
    assert same_answers(kb, make_kb(index))
    add_one(kb)
    kb.to_disk(tmp_path / "kb")
    again = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    assert again.n_prototypes == 6
    assert same_answers(again, kb)
    assert again.entity_ids[again.search(QUERIES[3:], 1).entities[0, 0]] == "D004"
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]


def test_an_interrupted_save_leaves_the_earlier_one_unchanged(make_kb, tmp_path, monkeypatch):
    kb = make_kb()
    kb.to_disk(tmp_path / "kb")
    before = files(tmp_path / "kb")
    add_one(kb)

    def full_disk(self, directory):
        (directory / "prototypes.arrow").write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(PrototypeTable, "to_disk", full_disk)
    with pytest.raises(KrisselError, match="K026.*no space left"):
        kb.to_disk(tmp_path / "kb")
    assert files(tmp_path / "kb") == before
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]
    # What was not saved is not taken for saved.
    monkeypatch.undo()
    assert pickle.loads(pickle.dumps(kb)).n_prototypes == 6


def test_the_configured_index_wins_over_the_saved_one(make_kb, tmp_path):
    pytest.importorskip("faiss")
    kb = make_kb(make_faiss_index("hnsw", m=8))
    kb.to_disk(tmp_path / "kb")

    def load(index):
        loaded = PrototypeKB(Vocab(), 4, index=index).from_disk(tmp_path / "kb")
        assert same_answers(loaded, kb)
        return loaded.build_index()

    assert isinstance(load(make_exact_index()), ExactIndex)
    assert load(make_faiss_index("flat")).type == "flat"
    searched_wider = load(make_faiss_index("hnsw", m=8, ef_search=99))
    assert searched_wider._index.hnsw.efSearch == 99
    assert searched_wider._mapped
    assert isinstance(load(None), FaissIndex)


def test_a_change_keeps_the_kind_of_a_loaded_index(make_kb, tmp_path):
    pytest.importorskip("faiss")
    make_kb(make_faiss_index("hnsw", m=8)).to_disk(tmp_path / "kb")
    kb = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    kb.remove_prototypes(kind="name")
    assert kb.build_index().settings["type"] == "hnsw"
    kb.use_index(None)
    assert isinstance(kb.build_index(), ExactIndex)


def test_excluded_parts_are_neither_saved_nor_loaded(make_kb, tmp_path):
    pytest.importorskip("faiss")
    kb = make_kb(make_faiss_index("flat"))
    kb.to_disk(tmp_path / "bare", exclude=["index", "vocab"])
    assert "index/index.faiss" not in files(tmp_path / "bare")
    assert same_answers(PrototypeKB(Vocab(), 4).from_disk(tmp_path / "bare"), kb)
    kb.to_disk(tmp_path / "entities", exclude=["prototypes"])
    entities = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "entities")
    assert (entities.n_entities, entities.n_prototypes, entities.is_empty()) == (4, 0, True)
    kb.to_disk(tmp_path / "whole")
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "whole", exclude=["index"])
    assert isinstance(loaded.build_index(), ExactIndex)
    assert (
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "whole", exclude=["prototypes"]).n_prototypes
        == 0
    )
    assert len(kb.to_bytes(exclude=["index"])) < len(kb.to_bytes())
    assert same_answers(PrototypeKB(Vocab(), 4).from_bytes(kb.to_bytes(exclude=["index"])), kb)
    assert (
        PrototypeKB(Vocab(), 4).from_bytes(kb.to_bytes(), exclude=["prototypes"]).n_prototypes == 0
    )


@pytest.mark.parametrize("index", INDEXES)
def test_a_bytes_round_trip_keeps_everything(make_kb, index):
    pytest.importorskip("faiss")
    kb = make_kb(index)
    data = kb.to_bytes()
    loaded = PrototypeKB(Vocab(), 4).from_bytes(data)
    assert same_answers(loaded, kb)
    assert loaded.to_bytes() == data


def test_large_files_are_serialized_in_pieces(make_kb, monkeypatch):
    monkeypatch.setattr(folder, "CHUNK_BYTES", 10)
    kb = make_kb()
    assert same_answers(PrototypeKB(Vocab(), 4).from_bytes(kb.to_bytes()), kb)


def test_invalid_bytes_raise(tmp_path):
    import srsly

    kb = PrototypeKB(Vocab(), 4)
    names = ["../../escaped", "/escaped", ".", "", "a\0", "a/../../b", "C:\\a", 5, None, b"a"]
    files = [
        *({name: [b"x"]} for name in names),
        {"a": b"x"},
        {"a": 5},
        {"a": ["x"]},
        {"a": [5]},
        [],
        None,
        5,
        "a",
    ]
    messages = [
        [1, 2],
        {"kb": b""},
        {"kind": "knowledge base"},
        {"kind": ["knowledge base"], "files": {}},
    ]
    messages += [{"kind": "knowledge base", "files": each} for each in files]
    for data in (b"", b"\xc1rubbish", b"\x91" * 100_000, *map(srsly.msgpack_dumps, messages)):
        with pytest.raises(KrisselError, match="K527"):
            kb.from_bytes(data)
    with pytest.raises(KrisselError, match="K026"):
        kb.from_bytes(
            srsly.msgpack_dumps({"kind": "knowledge base", "files": {"a": [b"x"], "a/b": [b"x"]}})
        )


def test_an_empty_kb_is_saved_and_loaded(tmp_path):
    kb = PrototypeKB(Vocab(), 4)
    kb.to_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), 0).from_disk(tmp_path / "kb")
    assert loaded.is_empty() and loaded.entity_vector_length == 4
    assert PrototypeKB(Vocab(), 4).from_bytes(loaded.to_bytes()).is_empty()
    assert pickle.loads(pickle.dumps(PrototypeKB(Vocab(), 0))).is_empty()


def sent_by_path(data):
    return b"Source" in data


def test_a_saved_kb_is_pickled_by_path_until_it_changes(make_kb, tmp_path):
    kb = make_kb()
    assert not sent_by_path(pickle.dumps(kb))
    kb.to_disk(tmp_path / "kb")
    assert sent_by_path(pickle.dumps(kb))
    kb = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    assert sent_by_path(pickle.dumps(kb))
    assert same_answers(pickle.loads(pickle.dumps(kb)), kb)
    for change in (
        add_one,
        lambda kb: kb.set_entities(
            [type("E", (), {"id": id_, "name": "", "types": ()}) for id_ in kb.entity_ids]
        ),
        lambda kb: setattr(kb, "encoder", "another"),
        lambda kb: (tmp_path / "kb/manifest.json").write_text("{}"),
        lambda kb: shutil.rmtree(tmp_path / "kb"),
    ):
        shutil.rmtree(tmp_path / "kb", ignore_errors=True)
        make_kb().to_disk(tmp_path / "kb")
        loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
        change(loaded)
        data = pickle.dumps(loaded)
        assert not sent_by_path(data)
        copy = pickle.loads(data)
        assert same_answers(copy, loaded)
        assert copy.encoder == loaded.encoder


def test_a_folder_changed_after_pickling_raises(make_kb, tmp_path):
    kb = make_kb()
    kb.to_disk(tmp_path / "kb")
    data = pickle.dumps(kb)
    add_one(kb)
    kb.to_disk(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K526.*was changed"):
        pickle.loads(data)
    shutil.rmtree(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K526.*was removed"):
        pickle.loads(data)


@pytest.mark.slow
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_worker_processes_can_search_after_their_parent(make_kb, method, tmp_path):
    pytest.importorskip("faiss")
    make_kb(make_faiss_index("hnsw", m=8)).to_disk(tmp_path / "kb")
    kb = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    kb.attach_encoder(lambda views: QUERIES[: len(views)])
    expected = kb.search(QUERIES, 4)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert (
            pool.submit(kb.search, QUERIES, 4).result(timeout=120).entities == expected.entities
        ).all()
        add_one(kb)
        assert pool.submit(kb.search, QUERIES[3:], 1).result(timeout=120).entities.tolist() == [[3]]


def test_damaged_and_missing_files_raise_with_their_name(make_kb, tmp_path):
    def damaged(name, act):
        path = tmp_path / "kb"
        make_kb(make_faiss_index("flat")).to_disk(path)
        act(path / name)
        with pytest.raises(KrisselError) as error:
            PrototypeKB(Vocab(), 4).from_disk(path)
        shutil.rmtree(path)
        return str(error.value)

    for name in ("entities.arrow", "prototypes.arrow", "vectors.npy", "index/index.faiss"):
        cut = damaged(name, lambda file_: file_.write_bytes(file_.read_bytes()[:-10]))
        assert cut.startswith("[K004]") and name in cut
        other = damaged(name, lambda file_: file_.write_bytes(b"\0" * file_.stat().st_size))
        assert other.startswith("[K004]") and name in other
        assert damaged(name, lambda file_: file_.unlink()).startswith("[K004]")
    assert damaged("manifest.json", lambda file_: file_.unlink()).startswith("[K002]")
    assert damaged("manifest.json", lambda file_: file_.write_text("[")).startswith("[K002]")
    with pytest.raises(KrisselError, match="K001.*python -m spacy krissel prototypes"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "nowhere")


def test_files_that_contradict_the_manifest_raise_with_their_name(make_kb, tmp_path, monkeypatch):
    make_kb().to_disk(tmp_path / "kb")
    manifest = json.loads((tmp_path / "kb/manifest.json").read_text())

    def fails(message, **changes):
        monkeypatch.setattr(
            storage, "read_manifest", lambda *args, **settings: {**manifest, **changes}
        )
        with pytest.raises(KrisselError, match=message):
            PrototypeKB(Vocab(), 0).from_disk(tmp_path / "kb")

    fails("K524.*entities.arrow: it has 4 rows.*expected 5", entities=5)
    fails("K524.*prototypes.arrow: it has 5 rows", prototypes=6)
    fails("K524.*vectors.npy holds", dimensions=5)
    fails("K524.*vectors.npy holds", dtype="float16")
    for name in ("entities.arrow", "details.arrow", "prototypes.arrow", "vectors.npy"):
        content = (tmp_path / "kb" / name).read_bytes()
        (tmp_path / "kb" / name).write_bytes(b"\0" * len(content))
        fails(f"K524.*{name}")
        (tmp_path / "kb" / name).write_bytes(content)
    # Prototypes of a larger set of entities.
    shutil.copyfile(tmp_path / "kb/entities.arrow", tmp_path / "entities.arrow")
    PrototypeKB(Vocab(), 4).to_disk(tmp_path / "none")
    shutil.copyfile(tmp_path / "none/entities.arrow", tmp_path / "kb/entities.arrow")
    fails("K524.*outside 0 to", entities=0, details=False)


def test_another_width_raises_and_leaves_the_kb_unchanged(make_kb, tmp_path):
    make_kb().to_disk(tmp_path / "kb")
    kb = PrototypeKB(Vocab(), 8)
    with pytest.raises(KrisselError, match="K523.*width 4, expected 8"):
        kb.from_disk(tmp_path / "kb")
    assert kb.is_empty() and kb.entity_vector_length == 8


def test_saving_over_other_files_raises(make_kb, tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(KrisselError, match="K005"):
        make_kb().to_disk(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "keep me"


def test_an_unknown_index_kind_raises(make_kb, tmp_path):
    class Annoy(ExactIndex):
        kind = "annoy"

    make_kb(Annoy).to_disk(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K507.*'annoy'"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    assert not PrototypeKB(Vocab(), 4, index=Annoy).from_disk(tmp_path / "kb").is_empty()
    assert not PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", exclude=["index"]).is_empty()


def sign(path):
    """Describe what is there as if it were what was written."""
    manifest = json.loads((path / "manifest.json").read_text())
    for key in ("kind", "format_version", "files", OWN_HASH):
        del manifest[key]
    write_manifest(path, KIND, FORMAT_VERSION, manifest)


@pytest.mark.nightly
def test_a_flipped_bit_raises(random_kb, tmp_path):
    """In any file, also above 64 MiB."""
    pytest.importorskip("faiss")
    n = 70_000
    kb = random_kb(
        list(range(n)), np.random.default_rng(0).standard_normal((n, 256), dtype=np.float32)
    )
    kb.use_index(make_faiss_index("flat"))
    kb.to_disk(tmp_path / "kb")
    large = [name for name, content in files(tmp_path / "kb").items() if len(content) > 64 * 2**20]
    assert sorted(large) == ["index/index.faiss", "vectors.npy"]
    for name in files(tmp_path / "kb"):
        path = tmp_path / "kb" / name
        for place in (0.01, 0.5, 0.99):
            with path.open("r+b") as file_:
                file_.seek(int(path.stat().st_size * place))
                byte = file_.read(1)
                file_.seek(-1, 1)
                file_.write(bytes([byte[0] ^ 16]))
            with pytest.raises(
                KrisselError,
                match="K00[23]" if name == "manifest.json" else f"K004.*{name}.*SHA-256",
            ):
                PrototypeKB(Vocab(), 256).from_disk(tmp_path / "kb")
            with path.open("r+b") as file_:
                file_.seek(int(path.stat().st_size * place))
                file_.write(byte)


VALUES = [
    ...,
    None,
    True,
    5,
    -1,
    2.5,
    10**30,
    "x",
    [],
    {},
    [1],
    {"a": 1},
    float("nan"),
    float("inf"),
    "float64",
]


@pytest.mark.parametrize("value", VALUES)
def test_invalid_manifest_values_raise_only_coded_errors(make_kb, tmp_path, value):
    """Each key missing, or of any value; and those within them."""
    pytest.importorskip("faiss")
    kb = make_kb(make_faiss_index("flat"))
    kb.set_references([(["D001"], np.ones((1, 4)))])
    kb.to_disk(tmp_path / "whole")
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text())
    keys = [(key,) for key in manifest if key not in (OWN_HASH, "files")]
    keys += [(key, name) for key in ("index", "references") for name in manifest[key]]
    for key, *within in keys:
        shutil.rmtree(tmp_path / "kb", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "kb")
        changed = value
        if within:
            changed = {**manifest[key], within[0]: value}
            if value is ...:
                del changed[within[0]]
        edited = {**manifest, key: changed}
        if changed is ...:
            del edited[key]
        edited[OWN_HASH] = manifest_hash(edited)
        (tmp_path / "kb" / "manifest.json").write_text(json.dumps(edited))
        for exclude in ([], ["prototypes"], ["index"]):
            with suppress(KrisselError):
                PrototypeKB(Vocab(), 0).from_disk(tmp_path / "kb", exclude=exclude)


@pytest.mark.parametrize(
    "name", ["entities.arrow", "prototypes.arrow", "vectors.npy", "references.npy"]
)
def test_a_file_missing_from_the_manifest_raises(make_kb, tmp_path, name):
    kb = make_kb()
    kb.set_references([(["D001"], np.ones((1, 4)))])
    kb.to_disk(tmp_path / "kb")
    manifest = json.loads((tmp_path / "kb" / "manifest.json").read_text())
    del manifest["files"][name]
    manifest[OWN_HASH] = manifest_hash(manifest)
    (tmp_path / "kb" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(KrisselError, match=f"K002.*'{name}', which it needs"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")


def test_an_unlisted_file_in_the_index_folder_raises(make_kb, tmp_path):
    make_kb().to_disk(tmp_path / "kb")
    (tmp_path / "kb" / "README.md").write_text("Nothing reads this.")
    PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    (tmp_path / "kb" / "index").mkdir(exist_ok=True)
    (tmp_path / "kb" / "index" / "index.faiss").write_text("x")
    with pytest.raises(KrisselError, match="K002.*'index/index.faiss', which is there"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")


def wrong_offsets(table):
    """Strings of which the second begins far behind the end of all."""
    n = len(table)
    offsets = pa.py_buffer(np.array([0, 2**28, *range(n - 1)], dtype=np.int32))
    column = pa.StringArray.from_buffers(n, offsets, pa.py_buffer(b"x" * n))
    return table.set_column(0, "id", column)


def not_utf8(table):
    n = len(table)
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int32))
    return table.set_column(
        0, "id", pa.StringArray.from_buffers(n, offsets, pa.py_buffer(b"\xff" * n))
    )


def without_value(table):
    return table.set_column(0, "id", pa.array([None] * len(table), pa.string()))


def rewrite(path, change):
    table = change(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    sign(path.parent)


def wrong_offsets_of_lists(table):
    n = len(table)
    offsets = pa.py_buffer(np.array([0, 2**28, *range(2, n + 1)], dtype=np.int32))
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.string()), n, [None, offsets], children=[pa.array(["x"] * n)]
    )
    return table.set_column(table.schema.get_field_index("types"), "types", lists)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("change", [wrong_offsets, wrong_offsets_of_lists, not_utf8, without_value])
def test_damaged_arrow_data_with_valid_checksums_raises(make_kb, tmp_path, change, verify):
    """Reading it could end the process."""
    make_kb().to_disk(tmp_path / "kb")
    rewrite(tmp_path / "kb" / "entities.arrow", change)
    with pytest.raises(KrisselError, match="K524.*entities.arrow"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", verify=verify)


@pytest.mark.parametrize("end", [2**52, 2**37])
def test_a_string_longer_than_its_file_is_reported_as_damage(make_kb, tmp_path, monkeypatch, end):
    def too_long(table):
        offsets = pa.py_buffer(np.array([0, end, *range(len(table) - 1)], dtype=np.int64))
        column = pa.LargeStringArray.from_buffers(
            len(table), offsets, pa.py_buffer(b"x" * len(table))
        )
        return table.set_column(table.schema.get_field_index("mention"), "mention", column)

    make_kb().to_disk(tmp_path / "kb")
    rewrite(tmp_path / "kb" / "prototypes.arrow", too_long)
    kb = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", verify=False)
    if end < 2**40:
        # It may be had where memory is overcommitted.
        failed = pa.ArrowMemoryError(f"malloc of size {end} failed")
        monkeypatch.setattr(columns, "_chunks", lambda *args: (_ for _ in ()).throw(failed))
    with pytest.raises(KrisselError, match=f"K524.*{tmp_path / 'kb'}.*prototypes.arrow.*{end}"):
        kb.prototypes_at([0])


def test_out_of_memory_in_reading_rows_is_not_reported_as_damage(make_kb, tmp_path, monkeypatch):
    kb = make_kb()
    kb.to_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", verify=False)
    failed = pa.ArrowMemoryError("malloc of size 64 failed")
    monkeypatch.setattr(columns, "_chunks", lambda *args: (_ for _ in ()).throw(failed))
    with pytest.raises(MemoryError):
        loaded.prototypes_at([0])
    with pytest.raises(MemoryError):
        loaded.entity_ids.take([0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_that_are_not_finite_raise(make_kb, tmp_path, value, dtype):
    make_kb(dtype=dtype).to_disk(tmp_path / "kb")
    vectors = np.load(tmp_path / "kb" / "vectors.npy")
    for changed in (
        np.full_like(vectors, np.finfo(dtype).max),
        np.where(np.arange(4) == 3, value, vectors),
    ):
        np.save(tmp_path / "kb" / "vectors.npy", changed.astype(dtype))
        sign(tmp_path / "kb")
        if np.isfinite(changed).all():
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
            continue
        with pytest.raises(KrisselError, match="K524.*vectors.npy.*not finite"):
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")


def test_unknown_prototype_kinds_raise(make_kb, tmp_path):
    make_kb().to_disk(tmp_path / "kb")
    unknown = pa.array([99] * 5, pa.int8())
    rewrite(
        tmp_path / "kb" / "prototypes.arrow", lambda table: table.set_column(1, "kind", unknown)
    )
    with pytest.raises(KrisselError, match="K524.*kinds outside 0 to 5"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")


@pytest.mark.parametrize("name", ["pyarrow.ipc.open_file", "numpy.load"])
def test_out_of_memory_in_loading_is_not_reported_as_damage(make_kb, tmp_path, monkeypatch, name):
    make_kb().to_disk(tmp_path / "kb")
    for error in (
        pa.ArrowMemoryError("malloc of size 5000 failed"),
        OSError(12, "Cannot allocate memory"),
    ):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(name, lambda *args, error=error, **settings: (_ for _ in ()).throw(error))
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")


def test_an_unreadable_manifest_raises_a_coded_error(make_kb, tmp_path, monkeypatch):
    kb = make_kb()
    read = Path.read_bytes

    def failing(path):
        if path.name == "manifest.json":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.raises(KrisselError, match="K026.*manifest.json.*Input/output"):
        kb.to_disk(tmp_path / "kb")

import numpy as np
import pyarrow as pa
import pytest
import spacy
from spacy.vocab import Vocab

from spacy_krissel.building import fill as build
from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.index import growing
from spacy_krissel.index.growing import GrowingVectors, zeros
from spacy_krissel.kb import columns, prototype_kb
from spacy_krissel.kb import prototype_table as prototypes
from spacy_krissel.kb.columns import on_disk, read_table, take_rows, write_table
from spacy_krissel.kb.prototype_kb import PrototypeKB, empty_kb
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.views import ReferenceParts, name_view

WIDTH = 4


@pytest.fixture
def small_blocks(monkeypatch):
    """So small that a few prototypes fill several."""
    monkeypatch.setattr(build, "BLOCK_VIEWS", 3)
    monkeypatch.setattr(build, "BLOCKS_PER_ADD", 2)
    monkeypatch.setattr(columns, "BLOCK_ROWS", 2)
    monkeypatch.setattr(growing, "BLOCK_ROWS", 2)
    monkeypatch.setattr(prototypes, "BLOCK_ROWS", 2)
    monkeypatch.setattr(columns, "BATCH_ROWS", 5)


def encode(views):
    rows = [
        np.random.default_rng(sum(map(ord, view.left + view.mention))).standard_normal(WIDTH)
        for view in views
    ]
    return np.array(rows, dtype=np.float32).reshape(-1, WIDTH)


def files(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("pieces", [True, False])
def test_a_growing_file_keeps_earlier_arrays_unchanged(tmp_path, dtype, pieces, monkeypatch):
    if pieces:
        monkeypatch.setattr(growing, "BLOCK_ROWS", 2)
    rows = np.arange(28, dtype=np.float32).reshape(7, WIDTH)
    first = GrowingVectors(np.zeros((0, WIDTH), dtype)).appended(rows[:3], tmp_path)
    grown = first.appended(rows[3:], tmp_path)
    assert isinstance(grown.array, np.memmap) and grown.array.dtype == dtype
    np.testing.assert_array_equal(grown.array, rows)
    np.testing.assert_array_equal(first.array, rows[:3])
    assert not list(tmp_path.iterdir()), "the file has no name that could be left behind"


@pytest.mark.parametrize("in_file", [False, True])
def test_additions_to_the_same_rows_are_independent(tmp_path, in_file):
    rows, directory = (
        np.arange(28, dtype=np.float32).reshape(7, WIDTH),
        tmp_path if in_file else None,
    )
    start = GrowingVectors(rows[:1].copy()).appended(rows[1:3], directory)
    one, two = start.appended(rows[3:5], directory), start.appended(rows[5:], directory)
    again = one.appended(rows[:2], directory)
    for found, expected in (
        (start, [0, 1, 2]),
        (one, [0, 1, 2, 3, 4]),
        (two, [0, 1, 2, 5, 6]),
        (again, [*range(5), 0, 1]),
    ):
        np.testing.assert_array_equal(found.array, rows[expected])


@pytest.mark.parametrize("on_files", [False, True])
def test_a_table_of_small_additions_has_few_chunks(tmp_path, monkeypatch, on_files):
    monkeypatch.setattr(columns, "BATCH_ROWS", 64)
    table = pa.table({"i": pa.array([], pa.int64())})
    for i in range(200):
        table = columns.appended(table, pa.table({"i": [i]}), tmp_path if on_files else None)
        assert table.column(0).num_chunks <= 3 + 6
    assert table.column(0).to_pylist() == list(range(200))


def test_zero_vectors_are_writable(tmp_path):
    for directory in (None, tmp_path):
        found = zeros((3, WIDTH), "float16", directory)
        assert isinstance(found, np.memmap) == (directory is not None)
        found[1] = 2
        assert found.sum() == 2 * WIDTH
        assert zeros((0, WIDTH), "float16", directory).shape == (0, WIDTH)


def test_rows_are_taken_from_tables_in_several_chunks(tmp_path, small_blocks):
    table = pa.table(
        {"text": pa.array([f"number {i}" for i in range(23)], pa.large_string()), "i": range(23)}
    )
    write_table(table, tmp_path / "table.arrow")
    mapped = read_table(tmp_path / "table.arrow", table.schema, 23)
    assert mapped.column(0).num_chunks == 5
    for piece in (table, mapped, on_disk(table, tmp_path), mapped.slice(0, 11)):
        for rows in ([], [0], [10, 3, 3, 0, 9], [[4, 5], [9, 10]]):
            assert take_rows(piece, rows).equals(table.take(pa.array(np.ravel(rows).astype(int))))
    for outside in ([23], [0, -1]):
        with pytest.raises(IndexError, match="of a table of 23"):
            take_rows(mapped, outside)
    assert [file.name for file in tmp_path.iterdir()] == ["table.arrow"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("settings", [{}, {"reference_prototypes": True}])
def test_building_on_disk_equals_in_memory(
    toy_store, toy_shards, tmp_path, small_blocks, settings, dtype
):
    source = PrototypeSource(
        toy_store, MentionShards(toy_shards), mentions_per_entity=2, **settings
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = {}
    for name, directory in (("memory", None), ("disk", scratch)):
        kb = empty_kb(dtype=dtype)(Vocab(), WIDTH)
        kb.scratch = directory
        fill_kb(kb, source, encode, references=ReferenceParts())
        # Added after it was searched.
        kb.search(encode([name_view("ms")]), 1)
        kb.add_prototypes(
            [Prototype(kb.entity_ids[0], "gold", name_view("late"))], encode([name_view("late")])
        )
        made[name] = kb
    memory, disk = made["memory"], made["disk"]
    assert isinstance(disk.vectors, np.memmap)
    assert isinstance(disk.prototypes.references.vectors, np.memmap)
    for array in ("vectors", "entity_rows"):
        np.testing.assert_array_equal(
            getattr(disk.prototypes, array), getattr(memory.prototypes, array)
        )
    np.testing.assert_array_equal(
        disk.prototypes.references.vectors, memory.prototypes.references.vectors
    )
    everything = np.arange(memory.n_prototypes)
    assert disk.prototypes_at(everything) == memory.prototypes_at(everything)
    assert disk.description() == memory.description()
    disk.to_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    assert loaded.prototypes_at(everything) == memory.prototypes_at(everything)
    memory.to_disk(tmp_path / "memory")
    assert files(tmp_path / "kb") == files(tmp_path / "memory")
    assert files(tmp_path / "kb").keys() >= {"vectors.npy", "references.npy"}
    assert not list(scratch.iterdir())


def test_a_scratch_folder_takes_over_existing_vectors(make_kb, tmp_path, vectors):
    kb = make_kb()
    kb.scratch = tmp_path
    kb.add_prototypes([Prototype("D004", "name", name_view("late"))], vectors[:1])
    assert isinstance(kb.vectors, np.memmap)
    np.testing.assert_array_equal(kb.vectors, np.concatenate([vectors, vectors[:1]]))
    kb.scratch = None
    kb.add_prototypes([Prototype("D004", "name", name_view("later"))], vectors[1:2])
    np.testing.assert_array_equal(kb.vectors, np.concatenate([vectors, vectors[:2]]))
    assert [prototype.view.mention for prototype in kb.prototypes_at([5, 6])] == ["late", "later"]


def test_only_candidate_ids_of_many_entities_enter_the_vocab(
    make_kb, monkeypatch, vectors, tmp_path
):
    make_kb().to_disk(tmp_path / "kb")
    monkeypatch.setattr(prototype_kb, "MAX_STRINGS", 3)
    kb = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    assert not any(id_ in kb.vocab.strings for id_ in kb.entity_ids)
    kb.attach_encoder(lambda views: vectors[2:3])
    doc = spacy.blank("en")("MS")
    with kb.vocab.memory_zone():
        kb.get_candidates(doc[:])
    assert "D002" in kb.vocab.strings
    assert kb.get_candidates(doc[:])[0].entity_ == "D002"

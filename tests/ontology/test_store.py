import json
import os
import pickle
import random
import time
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology import hash_index as hashes
from spacy_krissel.ontology.entity import Entity, spellings
from spacy_krissel.ontology.provenance import provenance
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.ontology.table import BATCH_ROWS
from spacy_krissel.util.folding import canonical_name, fold_name
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.util.manifest import OWN_HASH, manifest_hash, write_manifest

from .strategies import names, ontologies

CONCEPTS = [
    Entity(
        "D009103",
        "Multiple Sclerosis",
        ("MS", "Sclerosis, Multiple"),
        ("Disease",),
        alt_ids=("126200",),
    ),
    Entity(
        "D008946",
        "Mitral Valve Stenosis",
        ("M.S.", "Mitral Stenosis"),
        ("Disease",),
        alt_ids=("126200", "X1"),
    ),
    Entity("C535", "Morphine Sulfate", ("ms",), ("Chemical", "Drug")),
    Entity("X1", "Asthma", ("asthma", "ASTHMA"), ("Disease",)),
]
# Three of the wide tests write a store an example.
wild = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def store(tmp_path):
    with pytest.warns(KrisselWarning, match=r"KW103.*X1 \(of .* and X1\)"):
        return write_store(CONCEPTS, tmp_path / "store", info={"made": "here"})


@wild
@given(ontologies)
def test_stored_entities_are_unchanged(tmp_path, entities):
    store = write_store(entities, tmp_path / "store")
    assert list(store) == entities
    assert [store.entity_at(row) for row in range(len(store))] == entities
    assert list(store.ids) == [entity.id for entity in entities]
    for row, entity in enumerate(entities):
        assert store.get(entity.id) == entity
        assert store.row(entity.id) == row
    assert list(store.names()) == [
        (row, name, name == entity.name)
        for row, entity in enumerate(entities)
        for name in entity.names
    ]


@wild
@given(ontologies, st.lists(names, max_size=4), st.sampled_from([2**64, 1, 3]))
def test_names_are_found_as_by_scanning(tmp_path, monkeypatch, entities, others, n_hashes):
    """With the real hash, and with one under which all or most names collide."""
    monkeypatch.setattr(hashes, "stable_hash", lambda text: stable_hash(text) % n_hashes)
    store = write_store(entities, tmp_path / "store")
    bearers, canonical = {}, {}
    for entity in entities:
        for name in entity.names:
            bearers.setdefault(fold_name(name), set()).add(entity.id)
            canonical.setdefault(canonical_name(name), set()).add(entity.id)
    for name in [*others, *(name for entity in entities for name in entity.names)]:
        expected = sorted(bearers.get(fold_name(name)) or canonical.get(canonical_name(name), ()))
        assert store.find(name) == expected
    homonyms = {name: sorted(ids) for name, ids in bearers.items() if len(ids) > 1}
    shared = list(store.shared_names())
    assert (
        dict(shared) == homonyms and len(shared) == len(homonyms) == store.manifest["shared_names"]
    )
    for flag in (True, False):
        wanted = [entry for entry in store.names() if (fold_name(entry[1]) in homonyms) == flag]
        assert list(store.names(shared=flag)) == wanted
    for entity in entities:
        assert store.resolve(entity.id) == entity.id


def test_homonyms_are_found_across_spellings(store):
    assert store.find("ms") == store.find("Ms") == ["C535", "D009103"]
    assert store.find("m s") == ["D008946"]
    # Spellings of one entity that fold to the same do not make a name shared.
    assert dict(store.shared_names()) == {"ms": ["C535", "D009103"]}
    assert store.find("") == store.find("no such name") == store.find("\ud800") == []


def test_alternative_ids_resolve_to_the_primary_one(store):
    # Claimed by two: the first bears it. The id of another: that one bears it.
    assert store.resolve("126200") == "D009103"
    assert store.resolve("X1") == "X1" and store.get("X1").name == "Asthma"
    assert store.resolve("D008946") == "D008946"
    assert store.resolve("MESH:D009103") == store.resolve("MSH:D009103") == "D009103"
    assert "126200" in store and "nowhere" not in store and 7 not in store
    assert store.resolve("nowhere") is None and store.row("nowhere") is None
    assert store.manifest["ambiguous_alternative_ids"] == 2
    # What a replaced id leads to: all that claim it, but for one that bears it.
    assert store.owners("126200") == ["D008946", "D009103"]
    assert store.owners("X1") == ["X1"] and store.owners("MSH:D009103") == ["D009103"]
    assert store.owners("nowhere") == []
    assert store.primary_ids().to_pylist() == list(store.ids)


def test_rows_of_many_ids_equal_single_lookups(store):
    ids = [*store.ids, "126200", "MSH:D009103", *store.ids]
    assert store.rows(pa.array(ids)).tolist() == [store.row(id_) for id_ in ids]
    assert store.rows(pa.array([], pa.string())).tolist() == []
    with pytest.raises(KrisselError, match="K106.*nowhere"):
        store.rows(pa.array(["nowhere"]))


@wild
@given(ontologies, st.lists(names, max_size=4), st.sampled_from([2**64, 1, 3]))
def test_ids_are_found_as_by_scanning(tmp_path, monkeypatch, entities, others, n_hashes):
    monkeypatch.setattr(hashes, "stable_hash", lambda text: stable_hash(text) % n_hashes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        store = write_store(entities, tmp_path / "store")
    rows = {}
    for row, entity in enumerate(entities):
        rows[entity.id] = row
    for row, entity in enumerate(entities):
        for id_ in entity.alt_ids:
            rows.setdefault(id_, row)
    for id_ in [
        *rows,
        *others,
        *(f"UMLS:{id_}" for id_ in rows),
        "MSH:D009103",
        "UMLS_CUI:C0000001",
    ]:
        assert store.row(id_) == next(
            (rows[spelling] for spelling in spellings(id_) if spelling in rows), None
        )


def test_ids_in_other_spellings_are_found(store):
    ids = [
        "MSH:D009103",
        "D009103",
        "MESH:D009103",
        "126200",
        "X1",
        "unknown",
        "MESH:D000000",
        "C535",
    ]
    assert list(map(store.resolve, ids)) == ["D009103"] * 4 + ["X1", None, None, "C535"]


def test_unknown_ids_and_rows_raise(store):
    with pytest.raises(KrisselError, match=r"K106.*store.*'nowhere'"):
        store.get("nowhere")
    for row in (-1, 4):
        with pytest.raises(KrisselError, match=rf"K107.*row {row}.*0 to 3"):
            store.entity_at(row)


def test_ids_are_in_row_order(store):
    assert (
        list(store.ids)
        == [store.id_at(row) for row in range(4)]
        == ["D009103", "D008946", "C535", "X1"]
    )
    assert store.id_at(np.int64(1)) == "D008946"
    with pytest.raises(KrisselError, match="K107"):
        store.id_at(4)


def test_second_entity_of_an_id_is_counted_and_left_out(tmp_path):
    # Across batches, so that rows move: every third entity is a repetition.
    n = 2 * BATCH_ROWS + 10
    entities = [
        Entity(f"E{i - i % 3}" if i % 3 == 2 else f"E{i}", f"name {i}", (f"alias {i}",))
        for i in range(n)
    ]
    kept = [entity for i, entity in enumerate(entities) if i % 3 != 2]
    with pytest.warns(KrisselWarning, match=rf"KW102.*{n - len(kept)} entities.*E0, E3"):
        store = write_store(entities, tmp_path / "store")
    assert list(store) == kept
    assert store.manifest["duplicate_ids_dropped"] == n - len(kept)
    for row in random.Random(0).sample(range(len(kept)), 200):
        assert store.entity_at(row) == kept[row]
        assert store.row(kept[row].id) == row
        assert store.find(f"ALIAS-{kept[row].name.split()[1]}") == [kept[row].id]
    assert store.find("name 2") == []


def test_store_of_many_batches_is_searchable(tmp_path):
    n = 2 * BATCH_ROWS
    store = write_store(
        (Entity(f"E{i}", f"name {i}", ("common",)) for i in range(n)), tmp_path / "store"
    )
    assert len(store) == n and store.entity_at(n - 1).id == f"E{n - 1}"
    assert store.find(f"name {BATCH_ROWS}") == [f"E{BATCH_ROWS}"]
    assert len(store.find("common")) == n
    assert sum(1 for _ in store.names(shared=True)) == n


def test_empty_store_can_be_read(tmp_path):
    store = write_store([], tmp_path / "store")
    assert (
        len(store) == 0
        and list(store) == []
        and list(store.names()) == []
        and list(store.shared_names()) == []
    )
    assert store.find("x") == [] and "x" not in store


@pytest.mark.parametrize(
    "entity, problem",
    [
        (Entity("", "name"), "blank id or name"),
        (Entity("E2", " "), "blank id or name"),
        (Entity("E2", "half \ud800"), "surrogate"),
        (Entity("E2", "name", aliases=(3,)), "3 is no text"),
        (Entity("E2", "name", aliases=(float("nan"),)), "nan is no text"),
        (Entity("E2", "name", alt_ids=(3,)), "int"),
        (Entity(2, "name"), "2 is no text"),
        (Entity("E2", None), "None is no text"),
        (Entity("E2", "name", types=(3,)), "int"),
    ],
)
def test_entities_that_cannot_be_stored_are_named(tmp_path, entity, problem):
    with pytest.raises(KrisselError, match=f"K108.*Entity 2.*{problem}"):
        write_store([Entity("E1", "good"), entity], tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_failure_halfway_leaves_the_earlier_store(tmp_path, store):
    def failing():
        yield Entity("E1", "one")
        raise RuntimeError("source gone")

    with pytest.raises(RuntimeError, match="source gone"):
        write_store(failing(), store.path)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert list(OntologyStore(store.path)) == CONCEPTS


def test_store_can_be_rewritten_from_itself(store):
    with pytest.warns(KrisselWarning, match="KW103"):
        again = write_store(store, store.path)
    assert list(again) == list(store) == CONCEPTS


def test_same_entities_give_the_same_bytes(tmp_path, store):
    with pytest.warns(KrisselWarning):
        other = write_store(CONCEPTS, tmp_path / "other", info={"made": "here"})
    for name in os.listdir(store.path):
        assert (store.path / name).read_bytes() == (other.path / name).read_bytes(), name
    assert store.manifest["info"] == {"made": "here"}


def test_store_is_pickled_by_path(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(OntologyStore("store"))
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert len(data) < 500 and list(again) == CONCEPTS and again.find("MS") == ["C535", "D009103"]


def test_missing_and_foreign_directories_raise(tmp_path):
    with pytest.raises(KrisselError, match="K001.*nowhere"):
        OntologyStore(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(KrisselError, match="K002.*folder"):
        OntologyStore(tmp_path / "folder")
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    with pytest.raises(KrisselError, match="K005"):
        write_store(CONCEPTS[2:], tmp_path / "folder")
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("file", ["entities.arrow", "names.arrow", "ids.arrow"])
def test_damage_is_found_on_opening(store, file):
    path = store.path / file
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(KrisselError, match=f"K004.*{file}.*bytes"):
        OntologyStore(store.path)
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 255]) + whole[101:])
    with pytest.raises(KrisselError, match=f"K004.*{file}.*SHA-256"):
        OntologyStore(store.path)
    path.unlink()
    with pytest.raises(KrisselError, match=f"K004.*{file}.*missing"):
        OntologyStore(store.path)


def sign(path, **changes):
    """Describe what is there as if it were what was written."""
    manifest = {**json.loads((path / "manifest.json").read_text()), **changes}
    kind, version, _ = (manifest.pop(key) for key in ("kind", "format_version", "files"))
    manifest.pop(OWN_HASH)
    write_manifest(path, kind, version, manifest)


@pytest.mark.parametrize("file", ["entities.arrow", "names.arrow", "ids.arrow"])
def test_damage_signed_by_the_manifest_raises(store, file):
    (store.path / file).write_bytes(b"not an Arrow file")
    sign(store.path)
    with pytest.raises(KrisselError, match=f"K109.*{file}.*krissel ontology"):
        OntologyStore(store.path)


def test_row_count_other_than_in_the_manifest_raises(store):
    sign(store.path, entities=5)
    with pytest.raises(KrisselError, match="K109.*4 rows instead of 5"):
        OntologyStore(store.path)


def test_memory_does_not_grow_with_the_ontology(tmp_path):
    n, definition = 10 * BATCH_ROWS, "x" * 2000
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    most = 0

    def stream():
        nonlocal most
        for i in range(n):
            most = max(most, pool.bytes_allocated() - before)
            yield Entity(f"E{i}", f"name {i}", definition=f"{definition}{i}")

    tracemalloc.start()
    try:
        store = write_store(stream(), tmp_path / "store")
        for _ in store:
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    whole = n * len(definition)
    assert (store.path / "entities.arrow").stat().st_size > whole
    # One batch is a tenth of it.
    assert most < whole / 4
    assert peak < whole / 2


def test_opening_and_looking_up_do_not_read_everything(tmp_path):
    write_store(
        (Entity(f"E{i}", f"name {i}", (f"alias {i}",)) for i in range(30_000)), tmp_path / "store"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = time.perf_counter()
        store = OntologyStore(tmp_path / "store")
        assert store.find("alias 29999") == ["E29999"]
        # About 10 ms; a scan in Python takes ten times the bound.
        assert time.perf_counter() - start < 0.5
    assert sum(batch is not None for batch in store._table._batches) <= 2


@pytest.mark.filterwarnings("error")
def test_progress_bar_is_shown(tmp_path, terminal):
    write_store(CONCEPTS[2:], tmp_path / "store", progress=True)
    assert "2" in terminal.readouterr().err


VALUES = [..., None, True, -1, 2.5, 10**30, "x", [], {}, [1], float("nan"), float("inf")]


@pytest.mark.parametrize("value", VALUES)
def test_invalid_manifest_raises_only_coded_errors(store, value):
    """Each key missing, or of any value."""
    manifest = json.loads((store.path / "manifest.json").read_text())
    for key in manifest:
        changed = {**manifest, key: value}
        if value is ...:
            del changed[key]
        if key != OWN_HASH:
            changed[OWN_HASH] = manifest_hash(changed)
        (store.path / "manifest.json").write_text(json.dumps(changed))
        try:
            assert list(OntologyStore(store.path)) == CONCEPTS
            provenance(store.path, "auto")
        except KrisselError:
            pass
    changed = {**manifest, "info": {"provenance": value if value is not ... else [1]}}
    changed[OWN_HASH] = manifest_hash(changed)
    (store.path / "manifest.json").write_text(json.dumps(changed))
    if value == []:
        assert provenance(store.path, "auto") == []
        return
    for read in (OntologyStore, partial(provenance, format="auto")):
        with pytest.raises(KrisselError, match=r"K002.*info\.provenance"):
            read(store.path)


@pytest.mark.parametrize("file", ["entities.arrow", "names.arrow", "ids.arrow"])
def test_flipped_bit_raises(store, file):
    path = store.path / file
    whole = path.read_bytes()
    for byte in range(3, len(whole), len(whole) // 100):
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ 16]) + whole[byte + 1 :])
        with pytest.raises(KrisselError, match=f"K004.*{file}.*SHA-256"):
            OntologyStore(store.path)


@pytest.mark.parametrize("file", ["entities.arrow", "names.arrow", "ids.arrow"])
def test_file_missing_from_the_manifest_raises(store, file):
    manifest = json.loads((store.path / "manifest.json").read_text())
    del manifest["files"][file]
    manifest[OWN_HASH] = manifest_hash(manifest)
    (store.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(KrisselError, match=f"K002.*'{file}', which it needs"):
        OntologyStore(store.path)


def rewrite(path, change):
    """Replace an Arrow file by what `change` makes of its table, and sign for it."""
    table = change(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    sign(path.parent)


def strings(n, ends, data):
    return pa.StringArray.from_buffers(
        n, pa.py_buffer(np.array(ends, dtype=np.int32)), pa.py_buffer(data)
    )


@pytest.mark.parametrize(
    "column",
    [
        lambda n: strings(n, [0, 2**28, *range(n - 1)], b"x" * n),
        lambda n: strings(n, range(n + 1), b"\xff" * n),
        lambda n: pa.array([None] * n, pa.string()),
        lambda n: pa.array(range(n)),
    ],
)
def test_damaged_signed_arrow_raises(store, column):
    """Reading it could end the process."""
    rewrite(
        store.path / "entities.arrow", lambda table: table.set_column(1, "name", column(len(table)))
    )
    with pytest.raises(KrisselError, match="K109.*entities.arrow"):
        OntologyStore(store.path)


def test_index_of_other_rows_raises(store):
    def others(table):
        row = pa.array([99] * len(table), pa.uint32())
        return table.set_column(table.schema.get_field_index("row"), "row", row)

    rewrite(store.path / "names.arrow", others)
    with pytest.raises(KrisselError, match="K109.*names.arrow.*rows from 4 up"):
        OntologyStore(store.path)
    rewrite(store.path / "names.arrow", lambda table: table.drop_columns(["shared"]))
    with pytest.raises(KrisselError, match="K109.*names.arrow.*columns"):
        OntologyStore(store.path)


def test_positions_out_of_range_raise(store):
    def others(table):
        positions = pa.array([9] * len(table), pa.uint32())
        return table.set_column(table.schema.get_field_index("position"), "position", positions)

    rewrite(store.path / "names.arrow", others)
    with pytest.raises(KrisselError, match="K109.*has no number 8 of its aliases"):
        OntologyStore(store.path).find("Asthma")


def test_out_of_memory_is_not_reported_as_damage(store, monkeypatch):
    for error in (
        pa.ArrowMemoryError("malloc of size 5000 failed"),
        OSError(12, "Cannot allocate memory"),
    ):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(
                "pyarrow.memory_map", lambda *args, error=error: (_ for _ in ()).throw(error)
            )
            OntologyStore(store.path)


def test_store_can_be_opened_without_verification(store):
    path = store.path / "entities.arrow"
    path.write_bytes(path.read_bytes().replace(b"Asthma", b"Asthmb"))
    assert OntologyStore(store.path, verify=False).get("X1").name == "Asthmb"
    assert (
        pickle.loads(pickle.dumps(OntologyStore(store.path, verify=False))).get("X1").name
        == "Asthmb"
    )
    with pytest.raises(KrisselError, match="K004"):
        OntologyStore(store.path)

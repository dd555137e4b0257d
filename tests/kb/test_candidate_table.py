import errno
import gc
import pickle
import shutil
from copy import deepcopy
from pathlib import Path

import pytest
import srsly

from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.candidate_columns import CandidateTable
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

ENTITIES = [
    Entity(
        "B",
        "flu",
        ("grippe",),
        ("T047",),
        ("C01.1",),
        "An illness.",
        ("X:1",),
        "human",
        "here",
        ("OLD",),
    ),
    Entity("A", "cold"),
]


@pytest.fixture
def table():
    return CandidateTable.from_entities(ENTITIES)


def read_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_displayed_fields_are_kept(table):
    assert len(table) == 2
    assert table.get(["A", "Z", "B"]) == {
        "A": ENTITIES[1],
        "B": Entity("B", "flu", ("grippe",), ("T047",), ("C01.1",), "An illness."),
    }
    assert table.get(["OLD"]) == {}


def test_saving_loading_and_pickling_keep_the_contents(table, tmp_path):
    table.to_disk(tmp_path / "one")
    loaded = CandidateTable(tmp_path / "one")
    again = CandidateTable.from_bytes(loaded.to_bytes())
    again.to_disk(tmp_path / "two")
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two")
    loaded.to_disk(tmp_path / "one")
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two"), (
        "onto the folder it was loaded from"
    )
    for copy in (loaded, again, pickle.loads(pickle.dumps(table))):
        assert copy.get(["A", "B"]) == table.get(["A", "B"])


def test_saving_over_a_table_leaves_its_readers_unchanged(table, tmp_path):
    table.to_disk(tmp_path / "one")
    reader = CandidateTable(tmp_path / "one")
    CandidateTable.from_entities([Entity("C", "asthma")]).to_disk(tmp_path / "one")
    assert reader.get(["A"]) == {"A": ENTITIES[1]}
    assert CandidateTable(tmp_path / "one").get(["A", "C"]) == {"C": Entity("C", "asthma")}


@pytest.mark.parametrize("failing", [1, 2])
def test_a_disk_error_in_comparison_rewrites_the_table(table, tmp_path, monkeypatch, failing):
    """Whichever look at its manifest fails, the table is written anew."""
    table.to_disk(tmp_path / "one")
    loaded = CandidateTable(tmp_path / "one")
    read, looks = Path.read_bytes, []

    def fail(path):
        looks.append(path)
        if len(looks) == failing:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", fail)
    monkeypatch.setattr(srsly, "read_json", lambda path: srsly.json_loads(fail(Path(path))))
    loaded.to_disk(tmp_path / "one")
    monkeypatch.undo()
    assert CandidateTable(tmp_path / "one").get(["A", "B"]) == loaded.get(["A", "B"])


def test_damaged_tables_raise(table, tmp_path):
    table.to_disk(tmp_path / "one")
    path = tmp_path / "one" / "entities.arrow"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(KrisselError, match="K004"):
        CandidateTable(tmp_path / "one")
    with pytest.raises(KrisselError, match="K527"):
        CandidateTable.from_bytes(b"something else")


@pytest.fixture(params=["removed", "moved", "replaced"])
def loaded_and_gone(request, table, tmp_path):
    """A table of which the folder has gone since it was loaded."""
    table.to_disk(tmp_path / "one")
    loaded = CandidateTable(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    if request.param == "removed":
        shutil.rmtree(tmp_path / "elsewhere")
    elif request.param == "replaced":
        CandidateTable.from_entities([Entity("C", "asthma")]).to_disk(tmp_path / "one")
    return loaded


def test_a_loaded_table_works_without_its_folder(table, loaded_and_gone, tmp_path):
    """All of it is in its copies, none of them empty, and none what stands at its place now."""
    loaded = loaded_and_gone
    assert loaded.get(["A", "B"]) == table.get(["A", "B"])
    loaded.to_disk(tmp_path / "two")
    loaded.to_disk(tmp_path / "one")
    copies = [
        CandidateTable(tmp_path / "two"),
        CandidateTable(tmp_path / "one"),
        CandidateTable.from_bytes(loaded.to_bytes()),
        pickle.loads(pickle.dumps(loaded)),
        deepcopy(loaded),
    ]
    assert [(len(each), each.get(["A", "B"])) for each in copies] == [
        (2, table.get(["A", "B"]))
    ] * len(copies)
    assert loaded.to_bytes() == table.to_bytes()


def test_a_pickle_outlives_a_table_made_from_bytes(table):
    pickled = pickle.dumps(CandidateTable.from_bytes(table.to_bytes()))
    gc.collect()
    assert pickle.loads(pickled).get(["A", "B"]) == table.get(["A", "B"])


def test_a_pickle_of_a_saved_table_refers_to_its_folder(table, tmp_path):
    """Sent to workers it is small, and never what the folder became meanwhile."""
    table.to_disk(tmp_path / "one")
    pickled = pickle.dumps(CandidateTable(tmp_path / "one"))
    assert len(pickled) < 1000
    assert len(pickle.loads(pickled)) == 2
    CandidateTable.from_entities([Entity("C", "asthma")]).to_disk(tmp_path / "one")
    with pytest.raises(KrisselError, match="K560.*was changed"):
        pickle.loads(pickled)


def test_saving_leaves_no_other_files(table, tmp_path):
    for _ in range(2):
        table.to_disk(tmp_path / "one")
        CandidateTable.from_entities([Entity("C", "asthma")]).to_disk(tmp_path / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize(
    "held, whole", [(("A", "B"), True), (("B",), True), (("Z",), True), ((), False)]
)
def test_a_table_of_half_an_ontology_contains_all_of_it(tmp_path, held, whole):
    store = write_store([*ENTITIES], tmp_path / "store")
    table = CandidateTable.of(store, held)
    assert len(table) == (2 if whole else 0)
    table.to_disk(tmp_path / "table")
    assert (read_files(tmp_path / "table") == read_files(tmp_path / "store")) is whole
    shutil.rmtree(tmp_path / "store")
    assert ("A" in table.get(["A"])) is whole, "the store is needed no more"
    assert pickle.loads(pickle.dumps(table)).get(["A"]) == table.get(["A"])

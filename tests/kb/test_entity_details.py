"""Entity details that a knowledge base keeps in addition to what is searched."""

import socket
import sys
from dataclasses import fields

import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.kb import columns, entity_columns
from spacy_krissel.kb.entity_columns import DETAILS_FILE, EntityTable
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.ontology.entity import Entity, entity_url, spellings

ENTITIES = [
    Entity(
        "HP:0001677",
        "Coronary artery disease",
        ("CAD",),
        ("disease",),
        ("C14.280",),
        "Narrow arteries.",
        ("MSH:1",),
    ),
    Entity(
        "D003920", "Diabetes mellitus", alt_ids=("HP:0000819",), species="human", source="medic"
    ),
    Entity("HP:0000001", "All"),
]


@pytest.fixture
def kb():
    kb = PrototypeKB(Vocab(), 4)
    kb.set_entities(ENTITIES)
    kb.ontology = [{"source": "hp.obo", "version": "2017", "licence": "free"}]
    return kb


@pytest.mark.parametrize("details", [True, False])
def test_entities_are_listed_as_they_are_read_by_row(details):
    table = EntityTable.from_entities(ENTITIES, details=details)
    assert list(table) == [table.at(row) for row in range(len(table))]
    assert (list(table)[-1] == ENTITIES[0]) is details


def test_entities_are_saved_and_loaded_completely(kb, tmp_path):
    kb.to_disk(tmp_path / "kb")
    for each in (kb, PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")):
        assert [each[entity.id] for entity in ENTITIES] == ENTITIES
        assert each.ontology == [{"source": "hp.obo", "version": "2017", "licence": "free"}]
        assert each.description()["details"] is True
    kept = {*entity_columns.SCHEMA.names, *entity_columns.DETAILS.names}
    assert kept == {field.name for field in fields(Entity)}


@pytest.mark.parametrize("scratch", [False, True])
def test_details_stay_with_their_entity(tmp_path, monkeypatch, scratch):
    for module in (columns, entity_columns):
        monkeypatch.setattr(module, "BATCH_ROWS", 7)
    entities = [
        Entity(f"E{i * 37 % 100:02}", "name", (f"alias {i * 37 % 100:02}",)) for i in range(100)
    ]
    table = EntityTable.from_entities(entities, scratch=tmp_path if scratch else None)
    assert [table.at(row).aliases for row in range(100)] == [
        (f"alias {row:02}",) for row in range(100)
    ]


def test_details_can_be_left_out(kb, tmp_path):
    kb.set_entities(ENTITIES, details=False)
    kb.to_disk(tmp_path / "kb")
    assert not (tmp_path / "kb" / DETAILS_FILE).exists()
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    assert loaded["HP:0001677"] == Entity(
        "HP:0001677", "Coronary artery disease", types=("disease",)
    )


def test_damaged_details_raise_even_without_verification(kb, tmp_path):
    kb.to_disk(tmp_path / "kb")
    path = tmp_path / "kb" / DETAILS_FILE
    content, alias = bytearray(path.read_bytes()), b"CAD"
    content[content.index(alias)] = 0xFF
    path.write_bytes(content)
    with pytest.raises(KrisselError, match="K004"):
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", verify=False)
    assert loaded.resolve("HP_0001677") == "HP:0001677"
    with pytest.raises(KrisselError, match="K524.*details.arrow"):
        loaded["HP:0001677"]


@pytest.mark.parametrize(
    "spelling, id_",
    [
        ("HP_0001677", "HP:0001677"),
        ("hp:0001677", "HP:0001677"),
        ("http://purl.obolibrary.org/obo/HP_0001677", "HP:0001677"),
        ("MESH:D003920", "D003920"),
        ("mesh:D003920", "D003920"),
        ("https://meshb.nlm.nih.gov/record/ui?ui=D003920", "D003920"),
        ("hp_0000819", "D003920"),
    ],
)
def test_common_spellings_of_an_id_are_resolved(kb, spelling, id_):
    assert kb.resolve(spelling) == kb[spelling].id == id_
    assert spelling == spellings(spelling)[0]


@pytest.mark.parametrize(
    "spelling", ["", "HP", "0001677", "HP:", "_", "http://", "HP:1677", "GO:0001677"]
)
def test_other_ids_are_not_resolved(kb, spelling):
    assert kb.resolve(spelling) is None
    with pytest.raises(KrisselError, match="K525"):
        kb[spelling]


def test_entity_urls_need_no_network(monkeypatch):
    pytest.importorskip("bioregistry")

    def refuse(*args, **settings):
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert entity_url("HP:0001677") == "http://purl.obolibrary.org/obo/HP_0001677"
    assert entity_url("D003920").endswith("D003920")
    assert entity_url("https://example.org/1") == "https://example.org/1"
    assert entity_url("javascript://%0aalert(1)") == "", "the address of a script is linked"
    assert entity_url("nonsense:1") == entity_url("T01") == entity_url("") == ""
    monkeypatch.setitem(sys.modules, "bioregistry", None)
    assert entity_url("HP:0001677") == ""

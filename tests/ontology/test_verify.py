"""Verdicts on pairs of an id and a label, by a store and by a knowledge base."""

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.ontology.verify import verify_pair, verify_with
from spacy_krissel.views import View

ENTITIES = [
    Entity("HP:0000421", "Epistaxis", ("Nosebleed", "Hemorrhage, nasal"), alt_ids=("HP:0000999",)),
    Entity("HP:0001677", "Coronary artery disease", ("CAD",), alt_ids=("HP:0000998",)),
    Entity("HP:0001871", "Abnormality of blood", alt_ids=("HP:0000998", "UMLS:C0018939")),
    Entity("HP:0001903", "Anemia", ("Low red cell count",)),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.warns(UserWarning, match="KW103"):
        return write_store(ENTITIES, tmp_path_factory.mktemp("verify") / "store")


@pytest.fixture(scope="module", params=["store", "kb"])
def vocabulary(request, store):
    if request.param == "store":
        return store
    kb = PrototypeKB(Vocab(), 2)
    kb.set_entities(ENTITIES)
    names = [
        Prototype(each.id, "name", View("", name, "")) for each in ENTITIES for name in each.names
    ]
    kb.add_prototypes(names, [[1.0, 0.0]] * len(names))
    return kb


@pytest.mark.parametrize(
    "id, label, status, entities, meant",
    [
        ("HP:0000421", "Epistaxis", "right", ["HP:0000421"], []),
        ("http://purl.obolibrary.org/obo/HP_0000421", "epistaxis", "right", ["HP:0000421"], []),
        ("hp:0000421", "", "right", ["HP:0000421"], []),
        ("HP:0000421", "nosebleed", "synonym", ["HP:0000421"], []),
        ("HP:0000421", "Haemorrhage nasal", "synonym", ["HP:0000421"], []),
        ("HP_0001903", "Anaemia", "right", ["HP:0001903"], []),
        ("HP:0001903", "Nosebleed", "wrong_label", ["HP:0001903"], ["HP:0000421"]),
        ("HP:0001903", "Flower", "wrong_label", ["HP:0001903"], []),
        ("HP:9999999", "Anaemia", "unknown_id", [], ["HP:0001903"]),
        ("HP:9999999", "Flower", "unknown_id", [], []),
        ("HP:0000999", "Epistaxis", "retired", ["HP:0000421"], []),
        ("HP:0000998", "Anemia", "retired", ["HP:0001677", "HP:0001871"], ["HP:0001903"]),
        # An id of another vocabulary for the same entity is no former id.
        ("UMLS:C0018939", "Abnormality of blood", "right", ["HP:0001871"], []),
        ("MESH:D009103", "Anemia", "unchecked", [], []),
        ("HPO:0000421", "Epistaxis", "right", ["HP:0000421"], []),
        ("https://identifiers.org/hp/0000421", "Epistaxis", "right", ["HP:0000421"], []),
        ("https://identifiers.org/hp/9999999", "Anemia", "unknown_id", [], ["HP:0001903"]),
        ("https://orcid.org/0000-0001-2345-6789", "", "unchecked", [], []),
        ("", "Anemia", "unchecked", [], []),
    ],
)
def test_each_kind_of_pair_gets_its_verdict(vocabulary, id, label, status, entities, meant):
    verdict = verify_pair(vocabulary, id, label)
    assert verdict.status == status
    assert [each.id for each in verdict.entities] == entities
    assert [each.id for each in verdict.meant] == meant
    assert verdict.is_finding == (status in ("wrong_label", "unknown_id", "retired"))
    assert bool(verdict.message) == (status != "right")
    assert verdict.as_dict()["message"] == verdict.message


def test_a_former_entity_that_nothing_replaces_is_retired():
    kb = PrototypeKB(Vocab(), 2)
    kb.set_entities(ENTITIES)
    kb.add_prototypes([Prototype("HP:0001903", "name", View("", "Anemia", ""))], [[1.0, 0.0]])
    kb.set_inactive([Entity("HP:0000001", "All")], [], np.zeros((0, 2)), [])
    verdict = verify_pair(kb, "HP:0000001", "Anemia")
    assert verdict.status == "retired" and not verdict.entities
    assert [each.name for each in verdict.meant] == ["Anemia"]


def test_a_label_tells_which_entity_replaces_an_id_that_was_split(vocabulary):
    verdict = verify_pair(vocabulary, "HP:0000998", "CAD")
    assert verdict.status == "retired" and verdict.fits
    assert [each.id for each in verdict.entities] == ["HP:0001677"]


def test_the_first_vocabulary_that_knows_an_id_decides(store, tmp_path):
    other = write_store([Entity("MESH:D000740", "Anemia"), Entity("X:1", "Y")], tmp_path / "mesh")
    pairs = [("D000740", "Anemia"), ("HP:0001903", "Anemia"), ("X:2", ""), ("Q:1", "")]
    found = [verify_with([store, other], *each).status for each in pairs]
    assert found == ["right", "right", "unknown_id", "unchecked"]

import subprocess
import sys

from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.held_out import HeldOut

ENTITIES = [
    Entity(f"D{i}", f"name {i}", tuple(f"alias {i} {j}" for j in range(20))) for i in range(100)
]


def chosen(held_out):
    return {
        (entity.id, name) for entity in ENTITIES for name in entity.names if held_out(entity, name)
    }


def test_given_fraction_of_aliases_is_held_out():
    assert 140 < len(chosen(HeldOut(0.1))) < 260  # of 2000, expected 200
    assert chosen(HeldOut(0.0)) == chosen(HeldOut()) == set()
    assert len(chosen(HeldOut(1.0))) == 2000


def test_preferred_names_are_never_held_out():
    entity = Entity("D1", "Common Cold", ("common-cold", "cold"))
    held_out = HeldOut(1.0)
    assert not held_out(entity, "Common Cold")
    # Another spelling of the preferred name gives it away just as well.
    assert not held_out(entity, "common-cold")
    assert held_out(entity, "cold")


def test_spellings_of_a_name_are_held_out_together():
    held_out = HeldOut(0.5)
    for entity in ENTITIES[:20]:
        for name in entity.aliases:
            assert held_out(entity, name) == held_out(entity, name.upper().replace(" ", "-"))


def test_choice_differs_by_entity_and_seed():
    shared = [Entity(f"D{i}", "preferred", ("shared",)) for i in range(100)]
    assert 20 < sum(HeldOut(0.5)(entity, "shared") for entity in shared) < 80
    assert chosen(HeldOut(0.3, seed=1)) != chosen(HeldOut(0.3, seed=2))


def test_larger_fraction_includes_the_smaller_ones_choice():
    assert chosen(HeldOut(0.1)) < chosen(HeldOut(0.2))


def test_choice_is_the_same_in_every_process():
    code = (
        "from spacy_krissel.ontology.held_out import HeldOut\n"
        "from spacy_krissel.ontology.entity import Entity\n"
        "print([j for j in range(20) if HeldOut(0.5)(Entity('D7', 'name'), f'alias 7 {j}')])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(
        [j for j in range(20) if HeldOut(0.5)(ENTITIES[7], f"alias 7 {j}")]
    )

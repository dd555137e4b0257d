import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.hypernyms import _lower_bound, class_names
from spacy_krissel.ontology.store import write_store

KIDNEY = [
    Entity("K", "Kidney Diseases", tree_numbers=("C12.1",)),
    Entity("K1", "IgA Nephropathy", tree_numbers=("C12.1.1",)),
    Entity("K2", "Gouty nephropathy", tree_numbers=("C12.1.2",)),
    Entity(
        "K3",
        "Kimmelstiel syndrome",
        ("Nephropathy, Diabetic", "nephropathy of diabetes"),
        tree_numbers=("C12.1.3",),
    ),
    Entity("U", "Urologic Disorders", tree_numbers=("C12",)),
]
# Elsewhere, so that the classes above are small beside the whole.
OTHERS = [Entity(f"O{i}", f"Other {i}", tree_numbers=(f"C20.{i}",)) for i in range(60)]


@pytest.fixture
def found(tmp_path):
    numbers = iter(range(100))

    def found(*entities, **settings):
        store = write_store(entities, tmp_path / str(next(numbers)))
        return {word: store.id_at(row) for word, row in class_names(store, **settings).items()}

    return found


def test_shared_word_names_the_smallest_class_above_its_entities(found):
    assert found(*KIDNEY, *OTHERS, largest=0.1) == {"nephropathy": "K"}


def test_entity_without_tree_numbers_is_ignored(found):
    free = [Entity(f"F{i}", f"Nephropathy {i}") for i in range(20)]
    assert found(*KIDNEY, *OTHERS, *free, largest=0.1) == {"nephropathy": "K"}
    assert found(*free) == {}


def test_existing_name_is_not_induced(found):
    taken = Entity("N", "Something", ("NEPHROPATHY",), tree_numbers=("C12.1.4",))
    assert found(*KIDNEY, *OTHERS, taken, largest=0.1) == {}


def test_too_few_entities_or_too_large_a_class_induce_no_name(found):
    assert found(*KIDNEY, *OTHERS, largest=0.1, min_entities=4) == {}
    # K has four of 65 entities below it or at it.
    assert found(*KIDNEY, *OTHERS, largest=3.9 / 65) == {}
    assert found(*KIDNEY, *OTHERS, largest=4.1 / 65) == {"nephropathy": "K"}


def test_most_of_the_entities_must_be_in_the_class(found):
    elsewhere = [
        Entity(f"E{i}", f"False nephropathy {i}", tree_numbers=(f"C20.{i}.1",)) for i in range(3)
    ]
    # Three of four: the lower bound of the share is about .5.
    assert _lower_bound(3, 4) == pytest.approx(0.5, abs=0.01)
    few = found(*KIDNEY, *OTHERS, elsewhere[0], largest=0.1)
    assert "nephropathy" not in few
    assert found(*KIDNEY, *OTHERS, elsewhere[0], largest=0.1, coverage=0.4)["nephropathy"] == "K"
    assert "nephropathy" not in found(*KIDNEY, *OTHERS, *elsewhere, largest=0.1, coverage=0.4)


def test_class_named_by_the_word_needs_only_two_entities(found):
    angina = [
        Entity("A", "Angina Pectoris", tree_numbers=("C14.1",)),
        Entity("A1", "Microvascular angina", tree_numbers=("C14.1.1",)),
        Entity("H", "Cardiac Disorders", tree_numbers=("C14",)),
    ]
    assert found(*angina, *OTHERS, largest=0.1) == {"angina": "A"}
    # Two that stand below a class without the word say nothing of it.
    orphaned = [Entity("A", "Chest pain", tree_numbers=("C14.1",)), *angina[1:]]
    orphaned.append(Entity("A2", "Vasospastic angina", tree_numbers=("C14.1.2",)))
    assert "angina" not in found(*orphaned, *OTHERS, largest=0.1)
    assert found(*orphaned, *OTHERS, largest=0.1, min_entities=2)["angina"] == "A"


def test_short_words_and_numbers_are_not_induced(found):
    members = [
        Entity(f"M{i}", f"type 12345 {i} nosis", tree_numbers=(f"C30.{i}",)) for i in range(4)
    ]
    top = Entity("M", "All of it", tree_numbers=("C30",))
    assert found(top, *members, *OTHERS, largest=0.1) == {"nosis": "M"}


@pytest.mark.parametrize(
    "m, n, expected", [(1, 1, 0.5), (3, 3, 0.75), (9, 10, 0.7662), (50, 100, 0.4502)]
)
def test_wilson_lower_bound_matches_hand_computed_values(m, n, expected):
    # At one standard error, of m = n it is n / (n + 1).
    assert _lower_bound(m, n) == pytest.approx(expected, abs=1e-3)


WORDS = st.sampled_from(["alpha", "bravos", "gamma", "delta", "short", "tiny"])
TREES = st.lists(st.sampled_from(["A", "A.1", "A.1.1", "A.2", "B", "B.1", "C"]), max_size=2).map(
    tuple
)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), TREES), max_size=12))
def test_class_names_equal_a_plain_restatement(tmp_path_factory, described):
    entities = [
        Entity(f"E{i}", names[0], tuple(names[1:]), tree_numbers=t)
        for i, (names, t) in enumerate(described)
    ]
    store = write_store(entities, tmp_path_factory.mktemp("store") / "store")
    entities = list(store)
    placed = [e for e in entities if e.tree_numbers]
    first = {}
    for e in entities:
        for number in e.tree_numbers:
            first.setdefault(number, e.id)

    def is_in(e, cls):
        return any(
            first.get(t) == cls.id and (n + ".").startswith(t + ".")
            for n in e.tree_numbers
            for t in cls.tree_numbers
        )

    expected = {}
    for word in {word for e in entities for name in e.names for word in name.split()} - {"tiny"}:
        if word in {name for e in entities for name in e.names}:
            continue
        having = [e for e in placed if any(word in name.split() for name in e.names)]
        options = []
        for row, cls in enumerate(entities):
            m, size = sum(is_in(e, cls) for e in having), sum(is_in(e, cls) for e in placed)
            own = cls in having
            if m >= (2 if own else 3) and size <= 0.7 * len(placed):
                if _lower_bound(m, len(having)) >= (0.5 if own else 0.6):
                    options.append((size, -m, row))
        if options:
            expected[word] = min(options)[2]
    assert class_names(store, largest=0.7) == expected

"""Names of several entities that are equal in canonical form, but not as they are written."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import nightly

from spacy_krissel.lexical.index import CANONICAL, LexicalIndex
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util.folding import canonical_name, fold_name

# Words, each as it is written in several ways.
PARTS = (
    ("Sjögren", "Sjogren", "sjögren", "SJO\u0308GREN", "Sjögren\u2019s", "Sjogren's"),
    ("β", "beta", "Beta", "\u03d0"),
    ("type II", "type 2", "Type-II", "type \u2161"),
    ("caspase III", "caspase 3", "Caspase-III"),
    ("naïve", "naive", "NAI\u0308VE"),
    ("ﬁeld", "field", "fi\u00adeld"),
)


def check_writings(store):
    """Each name finds the entities that write it so, and has a similarity of 1 with these alone.

    RETURNS: number of canonical forms that several entities write in several ways.
    """
    names = [(row, name) for row, name, _ in store.names()]
    index = LexicalIndex.of([name for _, name in names], np.array([row for row, _ in names]))
    forms = defaultdict(list)
    for row, name in names:
        forms[canonical_name(name)].append((row, name))
    n = 0
    for own in forms.values():
        rows = np.array(sorted({row for row, _ in own}))
        writings = {fold_name(name) for _, name in own}
        if len(rows) == 1 or len(writings) == 1:
            continue
        n += 1
        for name in {name for _, name in own}:
            expected = {row for row, other in own if fold_name(other) == fold_name(name)}
            assert store.find(name) == sorted(map(store.id_at, expected))
            found = index.similarity(index.read([name]), np.zeros(len(rows), dtype=np.int64), rows)
            assert found == pytest.approx(
                [1 if row in expected else CANONICAL for row in rows], abs=1e-6
            )
    return n


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(0, len(PARTS) - 1), min_size=1, max_size=3).flatmap(
        lambda parts: st.lists(
            st.tuples(*(st.sampled_from(PARTS[part]) for part in parts)), min_size=2, max_size=6
        )
    )
)
def test_names_are_disambiguated_by_their_exact_spelling(tmp_path, names):
    entities = (Entity(f"X:{i}", " ".join(parts)) for i, parts in enumerate(names))
    check_writings(write_store(entities, tmp_path / "store"))


@pytest.mark.data
@pytest.mark.parametrize(
    "file, n_forms",
    [
        ("medic_06Jul2012.txt", 20),
        nightly("hp_2017-04-13.obo.gz", 1),
        nightly("doid_2016-09-01.obo", 1),
        ("cl-basic_2022-12-15.obo", 0),
    ],
)
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_public_vocabularies_are_disambiguated_by_spelling(data_dir, tmp_path, file, n_forms):
    assert (
        check_writings(build_ontology(data_dir / "ontologies" / file, tmp_path / "store"))
        >= n_forms
    )

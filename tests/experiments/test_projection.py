import numpy as np
import pytest
from lab.projection import (
    choose_names,
    draw_projections,
    pair_similarities,
    project,
    projection_figure,
    similarities_figure,
)

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store


@pytest.fixture
def store(tmp_path):
    entities = [
        Entity(f"E{i}", f"entity {i}", tuple(f"alias {i} {j}" for j in range(i))) for i in range(6)
    ]
    shared = Entity("S", "shared", ("entity 5", "entity 4", "entity 3", "entity 2"))
    return write_store([*entities, shared], tmp_path / "store")


def test_names_of_entities_with_enough_unshared_names_are_chosen(store):
    names, owners, titles = choose_names(store, n_entities=3, n_names=3)
    # Of E3, E4 and E5 the preferred name is shared; E3 to E5 have three to five others, S has one.
    assert sorted(titles) == ["entity 3", "entity 4", "entity 5"]
    assert owners.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(
        name.startswith(f"alias {titles[owner][-1]} ")
        for name, owner in zip(names, owners, strict=True)
    )
    assert len(set(names)) == 9
    assert choose_names(store, n_entities=3, n_names=3)[0] == names
    assert (
        choose_names(store, n_entities=2, n_names=2, seed=1)[0]
        != choose_names(store, n_entities=2, n_names=2)[0]
    )


@pytest.mark.parametrize("n_entities, n_names", [(4, 3), (2, 6), (1, 3), (2, 1)])
def test_too_few_entities_or_names_raise(store, n_entities, n_names):
    with pytest.raises(KrisselError, match="K905"):
        choose_names(store, n_entities=n_entities, n_names=n_names)


def test_projection_statistics_agree_with_their_definition():
    vectors = np.array([[1, 0.1], [1, 0.2], [0.1, 1], [0.2, 3], [-1, 0], [0.9, -0.2]], dtype="f")
    owners = np.array([0, 0, 1, 1, 2, 2])
    found = project(vectors, owners)
    assert found.points.shape == (6, 2)
    # The last two are apart; the last lies with the first entity.
    assert found.neighbours == pytest.approx(4 / 6)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = 1 - unit @ unit.T
    silhouettes = []
    for i in range(6):
        own = distances[i, (owners == owners[i]) & (np.arange(6) != i)].mean()
        other = min(distances[i, owners == each].mean() for each in {0, 1, 2} - {owners[i]})
        silhouettes.append((other - own) / max(own, other))
    assert found.silhouette == pytest.approx(np.mean(silhouettes), abs=1e-5)
    assert np.array_equal(project(vectors, owners).points, found.points)


def test_pair_similarities_are_split_by_same_and_other_entity():
    vectors = np.array([[1, 0], [2, 0], [0, 1], [0, 3]], dtype="f")
    owners = np.array([0, 0, 1, 1])
    same, other = pair_similarities(vectors, owners)
    assert same.tolist() == [1, 1] and other.tolist() == [0, 0]
    assert len(pair_similarities(vectors, owners, 1)[0]) == 1
    pytest.importorskip("matplotlib")
    (panel,) = similarities_figure({"before": (same, other)}).axes
    assert panel.get_title() == "before" and len(panel.patches) == 2


def test_the_figure_has_one_panel_per_projection(tmp_path):
    pytest.importorskip("matplotlib")
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    owners = np.repeat([0, 1, 2], 2)
    projections = {
        "before": project(vectors, owners),
        "after": project(vectors * 2, owners, seed=1),
    }
    figure = projection_figure(projections, owners, ["a", "b", "c"])
    assert [panel.get_title().split()[0] for panel in figure.axes] == ["before", "after"]
    points = figure.axes[1].collections[2].get_offsets()
    assert np.allclose(points, projections["after"].points[4:])
    (path,) = draw_projections(projections, owners, ["a", "b", "c"], tmp_path / "names.svg")
    assert all(f">{word}" in path.read_text() for word in ("a<", "b<", "c<", "before", "after"))

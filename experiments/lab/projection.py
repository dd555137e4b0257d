"""Names in two dimensions, coloured by entity, as encoders see them (SapBERT, Figure 1)."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from spacy_krissel.evaluation.tables import Row, markdown_table, percent
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.util.settings import Count, PositiveInt
from spacy_krissel.views import name_view

from .errors import Errors, KrisselError
from .named_paths import name_path_pairs
from .plots import MARKERS, check_drawing, draw, panels

# Distinct colours; more entities repeat them.
COLOURS = "tab20"
PAIR_COLOURS = ("#0072b2", "#d55e00")
AtLeastTwo = Annotated[int, Field(ge=2)]


def projection(
    pipelines: Sequence[Path],
    ontology: Path,
    output: Path,
    *,
    entities: AtLeastTwo = 12,
    names: AtLeastTwo = 12,
    seed: Count = 0,
    linker: str = LINKER,
) -> str:
    """Draw names as each pipeline's encoder sees them, coloured by entity (SapBERT, Figure 1).

    pipelines: pipelines with a linker, such as an untrained and a trained one
    ontology: ontology store that the names are from
    output: .svg file to draw
    entities: number of entities, drawn by seed
    names: number of names of each
    seed: random seed
    linker: name of the linker in the pipelines

    RETURNS: a table, and the files. Raises those of `check_drawing`, `choose_names` and
    `load_pipeline`.
    """
    check_drawing(output)
    chosen = choose_names(OntologyStore(ontology), n_entities=entities, n_names=names, seed=seed)
    found, owners, titles = chosen
    paths = [(str(path), path) for path in pipelines]
    projections = {
        title: project(vectors, owners, seed=seed)
        for title, vectors in _encoded(paths, found, linker)
    }
    rows: list[Row] = [("pipeline", "silhouette", "nearest name is of the same entity")]
    for title, each in projections.items():
        rows.append((title, f"{each.silhouette:.2f}", percent(each.neighbours)))
    drawn = draw_projections(projections, owners, titles, output)
    return "\n".join([markdown_table(rows), *(f"Drawn: {file}" for file in drawn)])


def similarities(
    pipelines: Sequence[str],
    ontology: Path,
    output: Path,
    *,
    entities: AtLeastTwo = 200,
    names: AtLeastTwo = 2,
    pairs: PositiveInt = 1000,
    seed: Count = 0,
    linker: str = LINKER,
) -> str:
    """Draw how similar names of one entity are, and of two, as each pipeline's encoder sees them
    (OSLAT, Figure C.1).

    pipelines: title=path of pipelines with a linker, untrained and trained
    ontology: ontology store that the names are from
    output: .svg file to draw
    entities: number of entities, drawn by seed
    names: number of names of each
    pairs: maximum number of pairs of either kind
    seed: random seed
    linker: name of the linker in the pipelines

    RETURNS: a table, and the files. Raises KrisselError K006 (`pipelines`), and those of
    `check_drawing`, `choose_names` and `load_pipeline`.
    """
    check_drawing(output)
    paths = name_path_pairs("pipelines", pipelines)
    chosen = choose_names(OntologyStore(ontology), n_entities=entities, n_names=names, seed=seed)
    found, owners, _ = chosen
    similar = {
        title: pair_similarities(vectors, owners, pairs, seed=seed)
        for title, vectors in _encoded(paths, found, linker)
    }
    means = ("mean cosine, one entity", "two entities", "above 95 % of these")
    rows: list[Row] = [("pipeline", "pairs of a kind", *means)]
    for title, (same, other) in similar.items():
        above = (same > np.quantile(other, 0.95)).mean()
        figures = (f"{same.mean():.2f}", f"{other.mean():.2f}", f"{100 * above:.1f}")
        rows.append((title, f"{len(same):,}", *figures))
    drawn = draw_similarities(similar, output)
    return "\n".join([markdown_table(rows), *(f"Drawn: {file}" for file in drawn)])


def _encoded(
    pipelines: Iterable[tuple[str, str | Path]], names: Sequence[str], linker: str
) -> Iterator[tuple[str, np.ndarray]]:
    views = [name_view(name) for name in names]
    for title, path in pipelines:
        yield title, find_linker(load_pipeline(path), linker).encode(views)


class Projection(NamedTuple):
    """Projection of the names by one encoder.

    points: (n, 2), t-SNE of the vectors by cosine distance.
    silhouette: the mean silhouette of the vectors by cosine distance, from -1 to 1: how much nearer
        a name is to those of its entity than to those of the nearest other entity.
    neighbours: the fraction of names whose nearest other name is of the same entity.
    """

    points: np.ndarray
    silhouette: float
    neighbours: float


def choose_names(
    store: OntologyStore, *, n_entities: int, n_names: int, seed: int = 0
) -> tuple[list[str], np.ndarray, list[str]]:
    """Choose names of `n_entities` entities that have at least `n_names` of their own, both drawn
    by seed; shared names are left out.

    RETURNS: names (n,), the index of the entity of each (n,), and the preferred names of the
    entities.
    Raises KrisselError K905 if too few entities have enough names.
    """
    names: dict[int, list[str]] = {}
    for row, name, _ in store.names(shared=False):
        names.setdefault(row, []).append(name)
    rows = [row for row, found in names.items() if len(found) >= n_names]
    if len(rows) < n_entities or n_entities < 2 or n_names < 2:
        raise KrisselError(
            Errors.K905.format(
                path=store.path, n=len(rows), names=max(n_names, 2), entities=max(n_entities, 2)
            )
        )
    rows = sorted(rows, key=lambda row: stable_hash(seed, store.id_at(row)))[:n_entities]
    chosen = [
        sorted(names[row], key=lambda name: stable_hash(seed, name))[:n_names] for row in rows
    ]
    owners = np.repeat(np.arange(n_entities), n_names)
    return (
        [name for each in chosen for name in each],
        owners,
        [store.entity_at(row).name for row in rows],
    )


def project(vectors: np.ndarray, owners: np.ndarray, *, seed: int = 0) -> Projection:
    """Project vectors (n, width) of names. owners: (n,) the entity of each, at least two of them
    with two names each."""
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    alike = unit @ unit.T
    np.fill_diagonal(alike, -np.inf)
    nearest = alike.argmax(axis=1)
    # t-SNE asks for fewer neighbours than there are points.
    perplexity = min(30.0, (len(unit) - 1) / 3)
    # Euclidean distance of unit vectors ranks as cosine does.
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(unit)
    return Projection(
        points,
        float(silhouette_score(unit, owners, metric="cosine")),
        float((owners[nearest] == owners).mean()),
    )


def pair_similarities(
    vectors: np.ndarray, owners: np.ndarray, n: int = 1000, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of up to n pairs of names of one entity, and of as many of two, drawn by seed (OSLAT,
    Figure C.1).

    vectors: (m, width) of names. owners: (m,) the entity of each.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first, second = np.triu_indices(len(unit), 1)
    alike = owners[first] == owners[second]
    random = np.random.default_rng(seed)
    found = []
    for kind in (alike, ~alike):
        rows = random.permutation(np.flatnonzero(kind))[
            : min(n, int(alike.sum()), int((~alike).sum()))
        ]
        found.append((unit[first[rows]] * unit[second[rows]]).sum(axis=1))
    return found[0], found[1]


def draw_similarities(pairs: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> list[Path]:
    """A panel of two densities for each encoder, by title, to the SVG at `path`. RETURNS: the
    files.

    Warns KW901, and draws nothing, without matplotlib.
    """
    return draw(lambda: {path: similarities_figure(pairs)})


def similarities_figure(pairs: dict[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    figure, axes = panels(len(pairs), sharex=True)
    bins = np.linspace(-1, 1, 81)
    for panel, (title, found) in zip(axes, pairs.items(), strict=True):
        for values, label, colour in zip(
            found, ("of one entity", "of two entities"), PAIR_COLOURS, strict=True
        ):
            panel.hist(
                values,
                bins=bins,
                density=True,
                histtype="stepfilled",
                alpha=0.5,
                color=colour,
                label=label,
            )
        panel.set(title=title, xlabel="cosine of two names", ylabel="density")
    axes[0].legend(fontsize=7)
    return figure


def draw_projections(
    projections: dict[str, Projection], owners: np.ndarray, entities: Sequence[str], path: Path
) -> list[Path]:
    """A panel for each encoder, by title, to the SVG at `path`. RETURNS: the files.

    Warns KW901, and draws nothing, without matplotlib.
    """
    return draw(lambda: {path: projection_figure(projections, owners, entities)})


def projection_figure(
    projections: dict[str, Projection], owners: np.ndarray, entities: Sequence[str]
) -> Any:
    from matplotlib import colormaps

    figure, axes = panels(len(projections))
    colours = colormaps[COLOURS]
    for panel, (title, projection) in zip(axes, projections.items(), strict=True):
        for entity, name in enumerate(entities):
            points = projection.points[owners == entity]
            marker = MARKERS[entity % len(MARKERS)]
            panel.scatter(
                *points.T, s=14, color=colours(entity % colours.N), marker=marker, label=name
            )
        panel.set(title=f"{title} (silhouette {projection.silhouette:.2f})", xticks=[], yticks=[])
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=6
    )
    return figure

"""Distill the encoder of a linker into a small one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.util import fix_random_seed

from ..errors import Errors, KrisselError
from ..index.protocol import Rows, Vectors
from ..kb.build.fill import BLOCK
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Prototype
from ..layers.hashed_bags import round_tables
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import check_place, find_linker, load_pipeline, save_pipeline
from ..pipeline.settings import LINKER
from ..training.distillation import fit_to_vectors, narrowed, to_unit
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked
from .build_linker import COMPACT

# Views from which the small encoder takes the frequencies of n-grams.
INIT_VIEWS = 20_000
# What was fitted to the scores of the other encoder.
REFITTED: dict[str, Any] = {"threshold": None, "confidence": {}, "min_confidence": 0.0}
PASSES = 8
# Prototypes whose vectors are multiplied by a weight.
WEIGHTED = ("class", "gold")


def distill_linker(
    nlp: Language, *, passes: int = PASSES, name: str = LINKER, seed: int = 0, progress: bool = False
) -> float:
    """Put a linker with a small encoder in the place of the linker `name`, as `distill` does."""
    large = find_linker(nlp, name)
    large.require_weights()
    kb = large.kb
    kb.check_filled()
    n_references = kb.prototypes.rows_of_kinds(["reference"]).size
    if n_references:
        raise KrisselError(Errors.K686.format(name=name, n=n_references))
    small = _with_small_encoder(nlp, name, kb, seed)
    place = narrowed(kb.vectors, small.model.get_dim("nO"), seed)

    def wanted(rows: Rows) -> Vectors:
        return to_unit(to_unit(kb.vectors[rows]) @ place)

    fit_to_vectors(
        small.model,
        lambda rows: [each.view for each in kb.prototypes_at(rows)],
        wanted,
        kb.n_prototypes,
        passes=passes,
        seed=seed,
        progress=progress,
    )
    round_tables(small.model)
    encoded = small.new_kb()
    encoded.encoder = small.fingerprint()
    encoded.ontology = kb.ontology
    encoded.set_entities(kb[id_] for id_ in kb.entity_ids)
    cosines = 0.0
    for rows, prototypes in _blocks(kb, progress):
        vectors = small.encode([each.view for each in prototypes])
        cosines += float((vectors * wanted(rows)).sum())
        encoded.add_prototypes(prototypes, vectors, weight=_weights(large, kb, rows, prototypes))
    if small.cfg.lexical_weight or encoded.has_gold:
        encoded.keep_lexical_index()
    small.set_kb(encoded)
    facts = nlp.meta.setdefault("krissel", {})
    for fitted in ("confidence", "calibration"):
        facts.get(fitted, {}).pop(name, None)
    return cosines / kb.n_prototypes


@checked
def distill(
    pipeline: str | Path,
    output: Path,
    *,
    passes: PositiveInt = PASSES,
    name: str = LINKER,
    seed: Count = 0,
    progress: bool = False,
) -> float:
    """Replace a linker's transformer by a small encoder.

    That learns to give the transformer's vectors of the prototypes in the knowledge base, which are there, and encodes
    them anew: minutes on a CPU, without a pass through the transformer but for gold mentions. Where references are in
    use, they are in these vectors, and so in what the small encoder learns. What was fitted to the scores of the
    transformer is reset: threshold and confidence (`krissel confidence`), and the kind of index (`krissel tune`).

    pipeline: A pipeline with a linker and its knowledge base
    output: Where to save the pipeline with the small encoder
    passes: How often each prototype is trained on
    name: Name of the linker in the pipeline
    seed: Seed of the small encoder and of the order of training

    The small encoder has the sizes of the one that ships. If no prototype has a context, it reads none either.

    RETURNS: the mean cosine of its vectors with those that it was trained on.
    Raises KrisselError K005 and K026 (the output), K520 (no knowledge base), K604 (no weights), K610 and K611 (no such
    pipeline or linker), K686 (prototypes that are references).
    """
    check_place(output)
    nlp = load_pipeline(pipeline)
    cosine = distill_linker(nlp, passes=passes, name=name, seed=seed, progress=progress)
    save_pipeline(nlp, output, name=name)
    return cosine


def show_distill(cosine: float, output: Path) -> str:
    return f"Mean cosine with the vectors it was trained on: {cosine:.3f}\nPipeline written to {output}"


def _with_small_encoder(nlp: Language, name: str, kb: PrototypeKB, seed: int) -> KrisselLinker:
    """The linker that now stands in the place of `name`, with an untrained small encoder and no knowledge base."""
    model = spacy.util.load_config(COMPACT / "config.cfg")["components"][LINKER]["model"]
    settings = {**nlp.config.interpolate()["components"][name], **REFITTED, "model": {**model, "seed": seed}}
    settings |= {"objective": None, "kb_path": None}
    factory = settings.pop("factory")
    if not kb.prototypes.in_text.any():
        settings["context"] = "none"
    nlp.replace_pipe(name, factory, config=settings)
    small = find_linker(nlp, name)
    # The layers above its tables are drawn from NumPy's own state.
    fix_random_seed(seed)
    some = np.unique(np.linspace(0, kb.n_prototypes - 1, INIT_VIEWS, dtype=np.int64))
    small.model.initialize(X=[each.view for each in kb.prototypes_at(some)])
    return small


def _blocks(kb: PrototypeKB, progress: bool) -> Iterator[tuple[Rows, list[Prototype]]]:
    with progress_bar(show=progress, total=kb.n_prototypes, desc="Prototypes", unit=" views") as bar:
        for start in range(0, kb.n_prototypes, BLOCK):
            rows = np.arange(start, min(start + BLOCK, kb.n_prototypes))
            yield rows, kb.prototypes_at(rows)
            bar.update(len(rows))


def _weights(large: KrisselLinker, kb: PrototypeKB, rows: Rows, prototypes: list[Prototype]) -> list[float]:
    """By what the vectors of the prototypes at `rows` were multiplied, which is seen beside the encoder's own."""
    weights = np.ones(len(rows))
    weighted = np.array([each.kind in WEIGHTED for each in prototypes])
    if weighted.any():
        own = kb.queries(large.encode([each.view for each in prototypes if each.kind in WEIGHTED]))
        stored = kb.vectors[rows[weighted]].astype(np.float32)
        if kb.prototypes.references is not None:
            stored -= kb.prototypes.references.at(kb.prototypes.entity_rows[rows[weighted]])
        weights[weighted] = np.linalg.norm(stored, axis=1) / np.linalg.norm(own, axis=1)
    return weights.tolist()

"""Distillation of a linker's encoder into a small one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.util import fix_random_seed

from ..building.fill import BLOCK_VIEWS, BLOCKS_PER_ADD
from ..errors import Errors, KrisselError
from ..index.protocol import Rows, Vectors
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Prototype
from ..kb.snapshot import KBSnapshot, Lookups, numbers_of, verdicts_of
from ..kb.verdicts import NumberedVerdicts
from ..layers.hashed_bags import round_tables
from ..pipeline.card import encoder_facts
from ..pipeline.linker.component import INIT_VIEWS, KrisselLinker
from ..pipeline.pipeline_io import find_linker, open_to_change, save_pipeline
from ..pipeline.reranker import KrisselReranker
from ..pipeline.settings import LINKER
from ..training.distillation import fit_to_vectors, narrowing_projection, to_unit
from ..util.disk import coded_io
from ..util.outputs import writes
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked
from .build_linker import compact_model

# Settings that were fitted to the scores of the other encoder, reset.
REFITTED: dict[str, Any] = {"threshold": None, "confidence": {}, "min_confidence": 0.0}
PASSES = 8
# Prototypes whose vectors commands multiply by a weight.
WEIGHTED = ("class", "gold")


@writes(folders=["output"])
@checked
def distill(
    pipeline: Language | str | Path,
    output: Path | None = None,
    *,
    passes: PositiveInt = PASSES,
    name: str = LINKER,
    seed: Count = 0,
    progress: bool = False,
) -> float:
    """Replace a linker's transformer by a small encoder.

    The small encoder learns the directions of the vectors in the knowledge base, then encodes its
    prototypes: minutes on a CPU. The transformer encodes only gold mentions and class names.
    References, if in use, are part of these vectors, and so of the training target. Settings fitted
    to the transformer's scores are reset: threshold and confidence (`krissel confidence`), and the
    kind of index (`krissel tune`). Weights such as that of lexical similarity stay, since the new
    scores are of unit vectors.

    pipeline: A pipeline with a linker and its knowledge base: a path, or the pipeline, which is
        changed
    output: Folder to save the pipeline with the small encoder in
    passes: Number of passes over the prototypes
    name: Name of the linker in the pipeline
    seed: Random seed of the small encoder and of the order of training

    The small encoder has the sizes of the one that ships. If no prototype has a context, it reads
    none either.

    RETURNS: the mean cosine of its vectors with those of the training.
    Raises KrisselError K005, K006 and K026 (the output), K520 (no knowledge base), K604 (no
    weights), K610 and K611 (no such pipeline or linker), K686 (prototypes that are references),
    K687 (a re-ranker).
    """
    nlp = open_to_change(pipeline, output)
    large = find_linker(nlp, name)
    for reranker, pipe in nlp.components:
        if isinstance(pipe, KrisselReranker) and pipe.linker_name == name:
            raise KrisselError(Errors.K687.format(name=name, reranker=reranker))
    large.require_weights()
    kb = large.kb
    kb.check_filled()
    n_references = kb.prototypes.rows_of_kinds(["reference"]).size
    if n_references:
        raise KrisselError(Errors.K686.format(name=name, n=n_references))
    facts = nlp.meta.setdefault("krissel", {})
    start = encoder_facts(nlp, name)
    small = _with_small_encoder(nlp, name, kb, seed)
    projection = narrowing_projection(kb.vectors, small.model.get_dim("nO"), seed)

    def wanted(rows: Rows) -> Vectors:
        return to_unit(to_unit(kb.vectors[rows]) @ projection)

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
    if output is not None:
        # On the disk of the result.
        encoded.scratch = output.absolute().parent
        with coded_io(encoded.scratch):
            encoded.scratch.mkdir(parents=True, exist_ok=True)
    encoded.encoder = small.fingerprint()
    encoded.ontology, encoded.made_with = kb.ontology, kb.made_with
    encoded.set_entities(kb[id_] for id_ in kb.entity_ids)
    cosines = 0.0
    for rows, prototypes in _blocks(kb, progress):
        vectors = small.encode([each.view for each in prototypes])
        cosines += float((vectors * wanted(rows)).sum())
        encoded.add_prototypes(prototypes, vectors, weight=_weights(large, kb, rows, prototypes))
    if kb.inactive is not None:
        rows = np.arange(kb.inactive.n_prototypes)
        prototypes = kb.inactive.prototypes_at(rows)
        vectors = small.encode([each.view for each in prototypes])
        weights = np.array(_weights(large, kb.inactive, rows, prototypes))
        entities = [kb.inactive[id_] for id_ in kb.inactive.entity_ids]
        said = _encoded_verdicts(small, kb.inactive)
        encoded.set_inactive(entities, prototypes, vectors, weights, said)
    encoded.add_verdicts(*_encoded_verdicts(small, kb.current))
    if small.cfg.lexical_weight or small.cfg.spelling_weight or encoded.has_gold:
        encoded.keep_lexical_index()
    small.set_kb(encoded)
    for of_the_other in ("confidence", "calibration", "training"):
        facts.get(of_the_other, {}).pop(name, None)
    facts.setdefault("start", {})[name] = {**start, "distilled": True}
    if output is not None:
        save_pipeline(nlp, output, name=name)
    return cosines / kb.n_prototypes


def show_distill(cosine: float, output: Path) -> str:
    return (
        f"Mean cosine with the vectors it was trained on: {cosine:.3f}\n"
        f"Pipeline written to {output}"
    )


def _with_small_encoder(nlp: Language, name: str, kb: PrototypeKB, seed: int) -> KrisselLinker:
    """Replace the linker `name` by one with an untrained small encoder and no knowledge base, and
    return it."""
    settings = nlp.config.interpolate()["components"][name]
    factory = settings.pop("factory")
    # Current values: settings may have been changed since the pipeline was made.
    settings |= {
        **find_linker(nlp, name).cfg,
        **REFITTED,
        "model": {**compact_model(), "seed": seed},
    }
    settings |= {"objective": None, "kb_path": None}
    if not kb.prototypes.in_text.any():
        settings["context"] = "none"
    nlp.replace_pipe(name, factory, config=settings)
    small = find_linker(nlp, name)
    # The layers above its tables are initialized from NumPy's global state.
    fix_random_seed(seed)
    some = np.unique(np.linspace(0, kb.n_prototypes - 1, INIT_VIEWS, dtype=np.int64))
    small.model.initialize(X=[each.view for each in kb.prototypes_at(some)])
    return small


def _encoded_verdicts(small: KrisselLinker, kb: KBSnapshot) -> NumberedVerdicts:
    verdicts = [*verdicts_of(kb)]
    vectors = small.encode([each.view for each in verdicts])
    return NumberedVerdicts(verdicts, vectors, numbers_of(kb))


def _blocks(kb: PrototypeKB, progress: bool) -> Iterator[tuple[Rows, list[Prototype]]]:
    step = BLOCK_VIEWS * BLOCKS_PER_ADD
    with progress_bar(
        show=progress, total=kb.n_prototypes, desc="Prototypes", unit=" views"
    ) as bar:
        for start in range(0, kb.n_prototypes, step):
            rows = np.arange(start, min(start + step, kb.n_prototypes))
            yield rows, kb.prototypes_at(rows)
            bar.update(len(rows))


def _weights(
    large: KrisselLinker, kb: Lookups, rows: Rows, prototypes: list[Prototype]
) -> list[float]:
    """Return the weights that the vectors of class names and gold mentions at `rows` were
    multiplied by, from their lengths relative to the encoder's; 1 for others."""
    weights = np.ones(len(rows))
    weighted = np.array([each.kind in WEIGHTED for each in prototypes])
    if weighted.any():
        own = kb.queries(large.encode([each.view for each in prototypes if each.kind in WEIGHTED]))
        stored, own = (
            np.linalg.norm(each, axis=1)
            for each in (kb.current.prototypes.base_vectors(rows[weighted]), own)
        )
        # No length says nothing.
        weights[weighted] = np.divide(
            stored, own, out=np.ones(len(own), dtype=np.float32), where=(own > 0) & (stored > 0)
        )
    return weights.tolist()

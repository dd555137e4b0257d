"""Fit of a linker's confidence without gold mentions: the function behind `krissel confidence`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import expit
from spacy.language import Language

from ..about import __version__
from ..errors import Errors, KrisselError
from ..kb.snapshot import KBSnapshot
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.linker.confidence import Confidence, features, similarities, species_of
from ..pipeline.linker.query import Query, Visible
from ..pipeline.linker.terms.species import MIN_SPECIES_CANDIDATES
from ..pipeline.linker.unseen import search_visible
from ..pipeline.pipeline_io import configure, find_linker, open_to_change, save_pipeline
from ..pipeline.settings import LINKER
from ..util.folding import canonical_name
from ..util.outputs import writes
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked

# Fraction of mentions with the name of exactly one entity that refer to it: 95.4, 94.1 and 96.0 %
# on the training splits of NCBI Disease and BC5CDR (diseases, chemicals).
TRUST = 0.95
# Fraction of mentions that are a name, on the low side: 70, 67 and 82 % on the same splits.
LISTED = 0.6
# Kinds of prototypes that are mentions or names as they occur in texts.
KINDS = ("name", "mention")
# Number of candidates that leads are computed over, and of prototypes examined for them.
N_CANDIDATES, N_PROTOTYPES = 5, 256
BLOCK = 512
# Prior of the bias and the coefficients: those of MEDIC, weighted as this number of mentions. Some
# knowledge bases have only ten names, or one name per entity.
PRIOR, PRIOR_MENTIONS = np.array([-3.0, 3.0, 1.0, 8.0]), 20.0
# Replaces a sum of weights that is 0.
TINY = float(np.finfo(float).tiny)
# With fewer names and mentions, no fraction of correct links is reported.
MIN_STATED = 100
TOO_FEW = (
    f"Too few names to tell how many links are correct: {{n}} names and mentions, and {MIN_STATED} "
    "are needed."
)
# Default precision of links, and default fraction of mentions without an entity.
PRECISION, NIL_SHARE = 0.87, 0.03
Precision = Annotated[float, Field(gt=0, le=TRUST)]
ShareOfNil = Annotated[float, Field(ge=0, lt=1 - LISTED)]


@dataclass
class ConfidenceFit:
    """Fitted confidence of a linker.

    confidence, min_confidence: as set.
    data: record for the pipeline's meta, with `linked`, the expected fraction of mentions that are
        linked, and `precision`, their expected precision, for mentions like those of the fit.
    """

    confidence: Confidence
    min_confidence: float
    data: dict[str, Any]


@writes(folders=["output"], keeps="pipeline")
@checked
def fit_confidence(
    pipeline: Language | str | Path,
    output: Path | None = None,
    *,
    precision: Precision = PRECISION,
    nil_share: ShareOfNil = NIL_SHARE,
    name: str = LINKER,
    n_mentions: PositiveInt = 4000,
    seed: Count = 0,
    progress: bool = False,
) -> ConfidenceFit:
    """Fit the confidence of links, without a gold corpus.

    Each candidate then has a "confidence", and a mention whose best candidate has less than
    `min_confidence` is NIL. Fit last: another encoder, knowledge base or weight changes the
    confidence.

    pipeline: a pipeline with a knowledge base: a path, or the pipeline, which is changed
    output: folder to save the pipeline with its confidence
    precision: lowest expected precision of links; mentions below are NIL. A higher value links
        fewer mentions
    nil_share: expected fraction of mentions whose entity is not in the knowledge base
    name: name of the linker in the pipeline
    n_mentions: number of names and mentions that are linked
    seed: random seed of their sample

    Names and mined mentions of the knowledge base are linked twice: with this name of their entity
    hidden, and with the entity hidden, so that each link is wrong. The model (`Confidence`) is
    fitted to separate correct from wrong links. `nlp.meta["krissel"]["confidence"][name]` is the
    fit's `data`.
    Raises KrisselError K006 (a wrong setting), K610 (no such linker), K520 (an empty knowledge
    base), K715 (no name or mention among the prototypes), and those of `open_to_change`.
    """
    nlp = open_to_change(pipeline, output)
    linker = find_linker(nlp, name)
    linker.kb.check_filled()
    kb = linker.kb.snapshot()
    rows = kb.prototypes.rows_of_kinds(KINDS)
    if not len(rows):
        raise KrisselError(
            Errors.K715.format(name=name, kinds=", ".join(kb.prototypes.kind_counts()))
        )
    rows = np.random.default_rng(seed).permutation(rows)[:n_mentions]
    blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
    found = [
        _linked(linker, kb, block)
        for block in progress_bar(blocks, show=progress, desc="Confidence")
    ]
    unseen, nil = (
        [np.concatenate(each) for each in zip(*kind, strict=True)]
        for kind in zip(*found, strict=True)
    )
    x, right = (np.concatenate([unseen[i], nil[i]]) for i in (0, 1))
    n = int(unseen[2].sum())
    shares = ((1 - LISTED - nil_share, unseen[2]), (nil_share, nil[2]))
    weights = np.concatenate(
        [share / max(1, possible.sum()) * possible for share, possible in shares]
    )
    confidence = Confidence(TRUST, *map(float, _fit(x, right, weights, PRIOR_MENTIONS / max(1, n))))
    least, linked, expected = _lowest_confidence(
        np.append(confidence.probabilities(x), TRUST), np.append(weights, LISTED), precision
    )
    data = {
        "version": __version__,
        "n": len(rows),
        "n_with_other_names": n,
        "right_without_the_name": float(unseen[1][unseen[2]].mean()) if n else None,
        "nil_share": nil_share,
        "asked_precision": precision,
        "confidence": asdict(confidence),
        "min_confidence": least,
        "linked": linked,
        "precision": expected,
    }
    configure(nlp, name, confidence=asdict(confidence), min_confidence=least)
    nlp.meta.setdefault("krissel", {}).setdefault("confidence", {})[name] = data
    if output is not None:
        save_pipeline(nlp, output, name=name)
    return ConfidenceFit(confidence, least, data)


def show_fit_confidence(found: ConfidenceFit, output: Path) -> str:
    data = found.data
    stated = TOO_FEW.format(n=data["n"])
    if data["n"] >= MIN_STATED:
        shares = (
            f"{100 * data['linked']:.0f} % of mentions are linked, {100 * data['precision']:.0f} % "
            "of these correctly"
        )
        stated = f"Expected: {shares}, where {100 * data['nil_share']:.0f} % have no entity there"
    return (
        f"min_confidence: {found.min_confidence:.3f}, by {data['n']:,} names and mentions of the "
        "knowledge base\n"
        f"{stated}\nPipeline: {output}"
    )


def _linked(linker: KrisselLinker, kb: KBSnapshot, rows: np.ndarray) -> list[list[np.ndarray]]:
    """Return features of the best candidate of these prototypes (n, 3), whether it is correct (n,),
    and whether the entity can still be found (n,): with the name hidden, and with the entity
    hidden."""
    table, prototypes = kb.prototypes, kb.prototypes_at(rows)
    own, views = table.entity_rows[rows], [prototype.view for prototype in prototypes]
    vectors = linker.encode(views)

    def without_name(query: int, seen: np.ndarray) -> np.ndarray:
        """Hide prototypes at the same position in a text, and those of the entity with its name."""
        view, visible = views[query], np.ones(len(seen), dtype=bool)
        if view.left or view.right:
            visible &= ~table.in_context(seen, view.left, view.right)
        mine = np.flatnonzero(table.entity_rows[seen] == own[query])
        name = canonical_name(view.mention)
        visible[mine] &= np.array(
            [canonical_name(form) != name for form in table.mentions(seen[mine])], dtype=bool
        )
        return visible

    def without_entity(query: int, seen: np.ndarray) -> np.ndarray:
        return table.entity_rows[seen] != own[query]

    hidden = [True] * len(rows)
    kinds = species_of(kb, own) if linker.cfg.species_weight else None
    n = N_CANDIDATES if kinds is None else MIN_SPECIES_CANDIDATES
    left = np.array(
        [
            without_name(query, table.by_entity.at(int(entity))).any()
            for query, entity in enumerate(own)
        ]
    )
    found = []
    for can_see in (without_name, without_entity):
        query = Query(
            kb, views, vectors=kb.queries(vectors), visible=Visible(can_see, hidden, N_PROTOTYPES)
        )
        result = search_visible(query, n, linker.cfg.lexical_weight)
        same, best = None, np.zeros(len(rows), dtype=np.intp)
        # An entity without another name cannot be found with this one hidden.
        possible = left if can_see is without_name else np.ones_like(left)
        if kinds is not None:
            # The document, not the name, determines the species: take the best of the correct
            # species.
            of = np.asarray(species_of(kb, result.entities))
            same, is_own = of[:, :, None] == of[:, None, :], np.equal(of, kinds[:, None])
            best, possible = is_own.argmax(axis=1), possible & is_own.any(axis=1)
        x = features(*similarities(query, result), same)
        each = np.arange(len(rows))
        found.append([x[each, best], result.entities[each, best] == own, possible])
    return found


def _fit(x: np.ndarray, right: np.ndarray, weights: np.ndarray, ridge: float) -> np.ndarray:
    """Fit a logistic regression: the bias and the coefficients of x (n, d), (1 + d,).

    ridge: weight of the squared distances from `PRIOR`.
    """
    inputs = np.column_stack([np.ones(len(x)), x])
    # All weights are 0 if no entity has another name and none is expected to be NIL: the fit is
    # then `PRIOR`.
    weights = weights / max(weights.sum(), TINY)

    def loss(found: np.ndarray) -> tuple[float, np.ndarray]:
        logits = inputs @ found
        away = found - PRIOR
        value = weights @ (np.logaddexp(0, logits) - right * logits) + ridge * away @ away / 2
        return value, inputs.T @ (weights * (expit(logits) - right)) + ridge * away

    return minimize(loss, PRIOR, jac=True, method="BFGS", options={"gtol": 1e-8}).x


def _lowest_confidence(
    confidence: np.ndarray, weights: np.ndarray, precision: float
) -> tuple[float, float, float]:
    """Return the lowest confidence at which mentions with these confidences have this mean
    precision, the fraction of mentions that reach it, and their precision."""
    order = np.argsort(-confidence, kind="stable")
    weights = weights[order] / weights.sum()
    linked = np.cumsum(weights)
    # The most confident may have weight 0.
    expected = np.cumsum(weights * confidence[order]) / np.maximum(linked, TINY)
    last = int(np.flatnonzero(expected >= precision - 1e-12)[-1])
    everyone = last == len(order) - 1
    return (
        0.0 if everyone else float(confidence[order[last]]),
        float(linked[last]),
        float(expected[last]),
    )

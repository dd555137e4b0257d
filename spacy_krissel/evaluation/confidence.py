"""Fit of a linker's confidence without gold mentions: the function behind `krissel confidence`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import expit, logit
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from ..about import __version__
from ..corpora.doc_bins import read_doc_bins
from ..errors import Errors, KrisselError, wrong_setting
from ..kb.snapshot import KBSnapshot
from ..lexical.likeness import Likeness
from ..lexical.likeness import features as text_features
from ..lexical.ngrams import Grams, canonical_form, hashed
from ..lexical.phrases import read_phrases
from ..mentions.annotations import spans_of
from ..mentions.species import taxon_numbers
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.linker.confidence import (
    BY_CHANCE,
    LISTED,
    LISTED_ODDS,
    SAME_FORM,
    Confidence,
    features,
    likeness_of,
    ordinary_words,
    similarities,
    species_of,
)
from ..pipeline.linker.linking import search_candidates
from ..pipeline.linker.query import Names, Query, Visible
from ..pipeline.linker.terms.species import MIN_SPECIES_CANDIDATES
from ..pipeline.linker.terms.vectors import nearest_prototypes
from ..pipeline.linker.unseen import search_visible
from ..pipeline.pipeline_io import configure, find_linker, open_to_change, save_pipeline
from ..pipeline.settings import LINKER
from ..util.folding import canonical_name
from ..util.outputs import writes
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked
from ..views import View, name_view

# Fraction of mentions of known entities with the name of exactly one that refer to it: 96.9, 95.2
# and 99.5 % on the training splits of NCBI Disease and BC5CDR (diseases, chemicals).
TRUST = 0.96
# The same if most entities have a species, of preferred names and of others: synonyms of genes are
# short, and mean more than what is listed. On nine tenths of GNormPlus' training part, 0.91 and
# 0.93 for synonyms have areas under the precision-coverage curve of 0.937 and 0.933, and
# calibration errors of 0.039 and 0.040; on no other corpus of genes was a constant chosen.
# Other vocabularies have less of a difference: 97.7 and 96.4, 96.8 and 91.9, 96.4 and 96.0 % on the
# training splits of NCBI Disease and BC5CDR (diseases, chemicals).
TRUST_OF_SYMBOLS, TRUST_OF_SYNONYMS = 0.98, 0.91
# Fraction of listed mentions that are a preferred name: 40 % there.
SYMBOLS = 0.4
# Log-likelihood ratio of a name of genes that is an ordinary word: 2.7 % of GNormPlus' mentions are
# one, and 2.4 % of the diseases and chemicals of BC5CDR's training split ("pain", "hypertension").
ORDINARY_ODDS = 0.1
# Kinds of prototypes that are mentions or names as they occur in texts.
KINDS = ("name", "mention")
# Number of candidates that leads are computed over, and of prototypes examined for them.
N_CANDIDATES, N_PROTOTYPES = 5, 256
# Names and mentions that are linked at a time, and texts: fewer calls read all vectors fewer times.
BLOCK, BLOCK_TEXTS = 4096, 1024
# Prior of the bias and the coefficients: those of MEDIC, weighted as this number of mentions. Some
# knowledge bases have only ten names, or one name per entity.
PRIOR, PRIOR_MENTIONS = np.array([-3.0, 3.0, 1.0, 8.0]), 20.0
# The same for P(known): bias, lexical similarity, likeness.
KNOWN_PRIOR = np.array([-3.0, 8.0, 0.5])
# Fraction of unlisted mentions of known entities that nearly are a name: 31, 15 and 21 % on the
# training splits of NCBI Disease and BC5CDR (diseases, chemicals) have a lexical similarity of 0.84
# or more. Of hidden names it is about 75 %, since vocabularies list plurals and other word orders.
NEAR_SIMILARITY, NEAR = 0.84, 0.2
# Weight of hidden names that nearly are a name, if another entity is found: vocabularies list names
# that differ little because they differ ("abnormal hand", "abnormal hair"), and texts mostly vary a
# name. On the training splits of NCBI Disease and BC5CDR, 0.3, 0.5 and 1 have calibration errors
# of 0.056, 0.061 and 0.067 for BC5CDR's diseases, and equal means.
OTHER_NEAR = 0.5
# Maximum number of phrases of text that are linked, each as a mention without an entity, and
# minimum; in between, as many as names are. `Likeness` compares the names with others, four per
# name, if there are as many, and 3,000 or more; and with at most MAX_NAMES.
MAX_PHRASES, MIN_PHRASES = 5000, 1000
PER_NAME, MIN_COMPARED, MAX_NAMES = 4, 3000, 100_000
# Fractions of mentions without an entity that are names of the vocabulary's own kind, and that are
# parts of its names ("renal" of "renal failure"); the rest are phrases of text.
SAME_KIND, PARTS = 0.1, 0.12
# Maximum number of parts of names that are linked; and that `Likeness` compares with names, per
# phrase.
MAX_PARTS, PARTS_PER_PHRASE = 2000, 0.5
# Letters and digits of a part: shorter ones are numbers of types.
MIN_PART = 3
# Replaces a sum of weights that is 0.
TINY = float(np.finfo(float).tiny)
# With fewer names and mentions, no fraction of correct links is reported.
MIN_STATED = 100
TOO_FEW = (
    f"Too few names to tell how many links are correct: {{n}} names and mentions, and {MIN_STATED} "
    "are needed."
)
# Default precision of links, and default fraction of mentions without an entity.
PRECISION, NIL_SHARE = 0.9, 0.25
# Lowest `min_confidence` that is set: below, a link is a guess.
MIN_CONFIDENCE = 0.2
# Mentions with a label that the fraction without an entity is fitted to; with fewer it is that of
# all. Its prior counts as one mention, and it is never certain.
MIN_LABELLED, SHARE_BOUNDS, N_STEPS = 50, (0.003, 0.997), 500
Precision = Annotated[float, Field(gt=0, le=TRUST)]
ShareOfNil = Annotated[float, Field(ge=0, lt=1)]


@dataclass
class ConfidenceFit:
    """Fitted confidence of a linker.

    confidence, min_confidence: as set.
    data: record for the pipeline's meta. "precision": expected precision of links, where a fraction
        `nil_share` of mentions has no entity; "precision_known": the same where all have one;
        "linked_other": expected fraction of mentions of other kinds that are linked all the same.
    """

    confidence: Confidence
    min_confidence: float
    data: dict[str, Any]


class Sample(NamedTuple):
    """Mentions and the best candidate of each (n,).

    x: its `features` (n, 3). lexical: highest similarity with a name of a candidate. likeness: to
    the names. right: is it correct. weight: of each mention.
    """

    x: np.ndarray
    lexical: np.ndarray
    likeness: np.ndarray
    right: np.ndarray
    weight: np.ndarray


@writes(folders=["output"], keeps="pipeline")
@checked
def fit_confidence(
    pipeline: Language | str | Path,
    output: Path | None = None,
    *,
    texts: Path | None = None,
    precision: Precision = PRECISION,
    nil_share: ShareOfNil | None = None,
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
    texts: docs with mentions (.spacy), without ids: the fraction of mentions without an entity is
        estimated there, for each label
    precision: lowest expected precision of links; mentions below are NIL. A higher value links
        fewer mentions
    nil_share: expected fraction of mentions whose entity is not in the knowledge base; default: as
        in `texts`, else 0.25
    name: name of the linker in the pipeline
    n_mentions: number of names and mentions that are linked
    seed: random seed of their sample

    Names and mined mentions of the knowledge base are linked twice: with this name of their entity
    hidden, and with the entity hidden, so that each link is wrong. Phrases of biomedical text and
    parts of names that are no name are linked, too: they are mentions without an entity. The model
    (`Confidence`) is fitted to separate correct from wrong links.
    `nlp.meta["krissel"]["confidence"][name]` is the fit's `data`.
    Raises KrisselError K006 (a wrong setting), K610 (no such linker), K520 (an empty knowledge
    base), K715 (no name or mention among the prototypes), and those of `open_to_change` and
    `read_doc_bins`.
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
    rng = np.random.default_rng(seed)
    rows = rng.permutation(rows)
    drawn = rows[:n_mentions]
    phrases = rng.permutation(read_phrases()).tolist()
    n_linked = min(MAX_PHRASES, max(MIN_PHRASES, len(drawn)))
    n_compared = max(MIN_COMPARED, PER_NAME * len(rows))
    names = kb.prototypes.mentions(np.sort(rows[:MAX_NAMES]))
    parts = parts_of_names(names, rng)
    compared = phrases[n_linked : n_linked + n_compared]
    likeness = CrossFitted.fit(names, compared + parts[: int(PARTS_PER_PHRASE * len(compared))])
    blocks = [drawn[start : start + BLOCK] for start in range(0, len(drawn), BLOCK)]
    unseen, absent = map(
        _joined,
        zip(
            *(
                _linked(linker, kb, block, likeness)
                for block in progress_bar(blocks, show=progress, desc="Confidence")
            ),
            strict=True,
        ),
    )
    nil = _mixed(
        [
            (absent, SAME_KIND),
            (_linked_texts(linker, kb, parts[:MAX_PARTS], likeness), PARTS),
            (_linked_texts(linker, kb, phrases[:n_linked], likeness), 1 - SAME_KIND - PARTS),
        ]
    )
    n = int(unseen.weight.sum())
    ridge = PRIOR_MENTIONS / max(1, n)
    differs = (unseen.lexical >= NEAR_SIMILARITY) & ~unseen.right
    weight = np.where(differs, OTHER_NEAR, 1.0) * unseen.weight
    of_candidate = _fit(unseen.x, unseen.right, weight, PRIOR, ridge)
    of_known = _fit_known(unseen, nil, ridge)
    linker.likeness = likeness.whole
    share = NIL_SHARE if nil_share is None else nil_share
    trust, of_synonyms, ordinary_odds = _trust(linker, kb)
    coefficients = map(float, (trust, *of_candidate, *of_known, share, of_synonyms, ordinary_odds))
    names = (each.name for each in fields(Confidence))
    confidence = Confidence(**dict(zip(names, coefficients, strict=True)))
    # Those of an earlier fit stay, since they depend on texts.
    by_label = linker.cfg.nil_share_by_label
    if texts is not None:
        odds, labels = _odds_in_texts(nlp, linker, confidence, texts, progress)
        by_label = {
            label: share_without_entity(odds[labels == label])
            for label in sorted({*labels.tolist()})
            if (labels == label).sum() >= MIN_LABELLED
        }
        if nil_share is None:
            share = share_without_entity(odds)
            confidence = replace(confidence, nil_share=share)
    level, right, weight, is_nil = _expected(confidence, unseen, nil)
    least = lowest_confidence(level, right, weight, precision)
    linked = weight * (level >= least)
    # Of the last mentions, those of `nil`, the phrases are the last ones.
    is_other = is_nil.copy()
    is_other[-len(nil.weight) : -n_linked] = False
    data = {
        "version": __version__,
        "n": len(drawn),
        "n_with_other_names": n,
        "right_without_the_name": float(unseen.right[unseen.weight > 0].mean()) if n else None,
        "nil_share": share,
        "nil_share_by_label": by_label,
        "asked_precision": precision,
        "confidence": asdict(confidence),
        "min_confidence": least,
        "precision": _fraction(linked * right, linked),
        "precision_known": _fraction(linked * ~is_nil * right, linked * ~is_nil),
        "linked_other": _fraction(linked * is_other, weight * is_other),
    }
    configure(
        nlp,
        name,
        confidence=asdict(confidence),
        min_confidence=least,
        nil_share_by_label=by_label,
    )
    nlp.meta.setdefault("krissel", {}).setdefault("confidence", {})[name] = data
    if output is not None:
        save_pipeline(nlp, output, name=name)
    return ConfidenceFit(confidence, least, data)


def expected_links(data: dict[str, Any]) -> str:
    """Return what a fit's `data` expects of mentions in text, as sentences."""
    if data["n"] < MIN_STATED:
        return TOO_FEW.format(n=data["n"])
    precision, others = (f"{100 * data[key]:.0f} %" for key in ("precision_known", "linked_other"))
    return (
        f"Expected: {precision} of links are correct if the mention's entity is here; {others} of "
        "mentions of other kinds are linked, too."
    )


def show_fit_confidence(found: ConfidenceFit, output: Path) -> str:
    data = found.data
    lines = [
        f"min_confidence: {found.min_confidence:.3f}, by {data['n']:,} names and mentions of the "
        "knowledge base",
        expected_links(data),
    ]
    if data["nil_share_by_label"]:
        shares = ", ".join(
            f"{label or 'no label'} {100 * share:.0f} %"
            for label, share in data["nil_share_by_label"].items()
        )
        lines.append(f"Mentions without an entity, by label: {shares}")
    return "\n".join([*lines, f"Pipeline: {output}"])


def parts_of_names(names: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return the starts and ends of names that are no name, in turn and in random order: "renal" of
    "Renal failure", "factor" of "Rheumatoid factor".

    A start has one or two words, an end has one. Names with a comma are often inverted: they count
    as names alone.
    """
    known = {canonical_form(name) for name in names}
    starts, ends = set(), set()
    for name in names:
        words = canonical_form(name).split() if "," not in name else []
        starts |= {" ".join(words[:n]) for n in (1, 2) if n < len(words)}
        ends |= {*words[1:][-1:]}
    both = [
        rng.permutation(sorted(each for each in found - known if len(each) >= MIN_PART)).tolist()
        for found in (starts, ends)
    ]
    return [part for pair in zip_longest(*both) for part in pair if part is not None]


class CrossFitted(NamedTuple):
    """Likeness to names; that of a text is computed by a model that has not seen the text.

    halves: fitted to the names and phrases whose hash is even, or odd. whole: fitted to all.
    """

    halves: tuple[Likeness, Likeness]
    whole: Likeness

    @classmethod
    def fit(cls, names: Sequence[str], phrases: Sequence[str]) -> "CrossFitted":
        known = {canonical_form(each) for each in names}
        both = sorted(known), sorted({canonical_form(each) for each in phrases} - known)
        read, is_odd = [*map(text_features, both)], [*map(_is_odd, both)]
        even, odd = (
            Likeness.of(*(rows[odd == half] for rows, odd in zip(read, is_odd, strict=True)))
            for half in (False, True)
        )
        return cls((even, odd), Likeness.of(*read))

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return the likeness of each text (n,)."""
        canonical = [*map(canonical_form, texts)]
        grams = Grams.of(canonical).counted()
        even, odd = (half(canonical, grams) for half in self.halves)
        return np.where(_is_odd(canonical), even, odd)


def _is_odd(texts: Sequence[str]) -> np.ndarray:
    return (hashed(texts) & 1).astype(bool) if texts else np.zeros(0, dtype=bool)


def _linked(
    linker: KrisselLinker, kb: KBSnapshot, rows: np.ndarray, likeness: CrossFitted
) -> tuple[Sample, Sample]:
    """Return these prototypes as mentions: with the name hidden, and with the entity hidden.

    The weight is 1 if the entity can still be found, else 0.
    """
    table, prototypes = kb.prototypes, kb.prototypes_at(rows)
    own, views = table.entity_rows[rows], [prototype.view for prototype in prototypes]
    siblings = table.by_entity.take(own)[0]
    names = dict(zip(siblings.tolist(), map(canonical_name, table.mentions(siblings)), strict=True))

    def without_name(query: int, seen: np.ndarray) -> np.ndarray:
        """Hide prototypes at the same position in a text, and those of the entity with its name."""
        view, visible = views[query], np.ones(len(seen), dtype=bool)
        if view.left or view.right:
            visible &= ~table.in_context(seen, view.left, view.right)
        mine = np.flatnonzero(table.entity_rows[seen] == own[query])
        name = names[int(rows[query])]
        differ = [names[row] != name for row in seen[mine].tolist()]
        visible[mine] &= np.array(differ, dtype=bool)
        return visible

    def without_entity(query: int, seen: np.ndarray) -> np.ndarray:
        return table.entity_rows[seen] != own[query]

    kinds = species_of(kb, own) if _has_species(linker, kb) else None
    left = np.array(
        [
            without_name(query, table.by_entity.at(int(entity))).any()
            for query, entity in enumerate(own)
        ]
    )
    like = likeness([view.mention for view in views])
    vectors = kb.queries(linker.encode(views))
    visible = Visible(without_name, [True] * len(rows), N_PROTOTYPES)
    query = Query(kb, views, vectors=vectors, visible=visible)
    nearest = nearest_prototypes(query, kb.build_index())
    found = []
    for can_see in (without_name, without_entity):
        query.visible = visible._replace(can_see=can_see, nearest=nearest)
        # An entity without another name cannot be found with this one hidden.
        possible = left if can_see is without_name else np.ones_like(left)
        found.append(_sample(linker, query, like, own, kinds, possible))
    return found[0], found[1]


def _linked_texts(
    linker: KrisselLinker, kb: KBSnapshot, texts: Sequence[str], likeness: CrossFitted
) -> Sample:
    """Return texts as mentions without an entity."""
    found = []
    # A block of none where there are no texts.
    for block in [*minibatch(texts, BLOCK_TEXTS)] or [[]]:
        views: list[View] = [*map(name_view, block)]
        vectors, none = kb.queries(linker.encode(views)), np.full(len(views), -1)
        query = Query(kb, views, vectors=vectors)
        if _has_species(linker, kb) and linker.searches_names(kb):
            # As the linker searches for such names.
            query.names = Names(vectors, np.arange(len(views)))
            query.species = np.zeros((len(views), len(kb.species)))
        found.append(_sample(linker, query, likeness(block), none, None, np.ones(len(views), bool)))
    return _joined(found)


def _has_species(linker: KrisselLinker, kb: KBSnapshot) -> bool:
    """Return whether candidates of several species compete."""
    return bool(linker.cfg.species_weight) and taxon_numbers(kb.species) is not None


def _trust(linker: KrisselLinker, kb: KBSnapshot) -> tuple[float, float, float]:
    """Return the probability that a name of one entity refers to it, that of synonyms, 0 if it is
    the same, and the log-likelihood ratio of ordinary words."""
    have_species = np.array(kb.species, dtype=bool)[kb.entities.species[0]]
    if _has_species(linker, kb) and have_species.mean() > 0.5:
        return TRUST_OF_SYMBOLS, TRUST_OF_SYNONYMS, ORDINARY_ODDS
    return TRUST, 0.0, LISTED_ODDS


def _sample(
    linker: KrisselLinker,
    query: Query,
    likeness: np.ndarray,
    own: np.ndarray,
    kinds: np.ndarray | None,
    possible: np.ndarray,
) -> Sample:
    """Link a query. own, kinds: the right entity of each mention, and its species, -1 for none.
    possible: can it be found."""
    several = _has_species(linker, query.kb)
    n = MIN_SPECIES_CANDIDATES if several else N_CANDIDATES
    result = search_visible(query, n, linker.cfg.lexical_weight)
    of, best = None, np.zeros(len(query), dtype=np.intp)
    if several:
        # The document, not the name, determines the species: take the best of the correct species.
        of = np.asarray(species_of(query.kb, result.entities))
        if kinds is not None:
            is_own = np.equal(of, kinds[:, None])
            best, possible = is_own.argmax(axis=1), possible & is_own.any(axis=1)
    vector, lexical, named = similarities(query, result)
    each = np.arange(len(query))
    return Sample(
        features(vector, lexical, of)[each, best],
        named.max(axis=1, initial=0.0),
        likeness,
        (result.entities[each, best] == own) & (own >= 0),
        possible.astype(float),
    )


def _joined(samples: Sequence[Sample]) -> Sample:
    return Sample(*map(np.concatenate, zip(*samples, strict=True)))


def _mixed(samples: Sequence[tuple[Sample, float]]) -> Sample:
    """Return samples as one, with these fractions of the weight. Listed names weigh nothing."""
    return _joined(
        [
            sample._replace(weight=share * weight / max(weight.sum(), TINY))
            for sample, share in samples
            for weight in [sample.weight * (sample.lexical < SAME_FORM)]
        ]
    )


def _fit_known(unseen: Sample, nil: Sample, ridge: float) -> np.ndarray:
    """Fit P(known) of unlisted mentions: the bias, and the coefficients of the lexical similarity
    and the likeness (3,).

    Mentions with an entity weigh as much as those without one. Hidden names count as mentions of
    texts: a fraction `NEAR` is nearly another name of the entity.
    """
    weight = _as_in_texts(unseen.lexical, unseen.weight * (unseen.lexical < SAME_FORM))
    both = _mixed([(unseen._replace(weight=weight), 0.5), (nil, 0.5)])
    known = np.arange(len(both.weight)) < len(unseen.weight)
    x = np.column_stack([both.lexical, both.likeness])
    return _fit(x, known, both.weight, KNOWN_PRIOR, ridge)


def _as_in_texts(lexical: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights of hidden names (n,) with at most a fraction `NEAR` of the sum on those
    with a `NEAR_SIMILARITY`."""
    is_near = lexical >= NEAR_SIMILARITY
    near, rest = weight[is_near].sum(), weight[~is_near].sum()
    most = rest * NEAR / (1 - NEAR)
    # If all are near, nothing is known of the rest.
    return np.where(is_near, weight * most / near, weight) if 0 < most < near else weight


def _fit(
    x: np.ndarray, right: np.ndarray, weights: np.ndarray, prior: np.ndarray, ridge: float
) -> np.ndarray:
    """Fit a logistic regression: the bias and the coefficients of x (n, d), (1 + d,).

    ridge: weight of the squared distances from `prior`.
    """
    inputs = np.column_stack([np.ones(len(x)), x])
    # All weights are 0 if no entity has another name: the fit is then `prior`.
    weights = weights / max(weights.sum(), TINY)

    def loss(found: np.ndarray) -> tuple[float, np.ndarray]:
        logits = inputs @ found
        away = found - prior
        value = weights @ (np.logaddexp(0, logits) - right * logits) + ridge * away @ away / 2
        return value, inputs.T @ (weights * (expit(logits) - right)) + ridge * away

    return np.asarray(minimize(loss, prior, jac=True, method="BFGS", options={"gtol": 1e-8}).x)


def _odds_in_texts(
    nlp: Language, linker: KrisselLinker, model: Confidence, texts: Path, progress: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-likelihood ratio that the knowledge base has the entity, and the label, of
    each mention of the docs, both (n,). Raises KrisselError K006 if there is none."""
    odds, labels = [], []
    key = linker.cfg.spans_key
    docs: Iterator[Doc] = iter(progress_bar(read_doc_bins(texts, nlp.vocab), show=progress))
    for batch in minibatch(docs, 128):
        spans = [spans_of(doc, key) for doc in batch]
        if not any(spans):
            continue
        query, terms = linker.query([*batch], spans)
        result = search_candidates(query, terms, N_CANDIDATES)
        named, ordinary = similarities(query, result)[2], ordinary_words(query, model)
        odds.append(model.known_odds(named, likeness_of(query, model), ordinary))
        labels += [span.label_ for span in chain.from_iterable(spans)]
    if not odds:
        raise wrong_setting("texts", str(texts), "docs with mentions")
    return np.concatenate(odds), np.array(labels)


def share_without_entity(odds: np.ndarray) -> float:
    """Return the fraction of mentions without an entity that explains their log-likelihood ratios
    (n,) best: expectation maximisation over the prior (Saerens et al., 2002)."""
    share = NIL_SHARE
    for _ in range(N_STEPS):
        posterior = expit(-odds + logit(share))
        new = float(np.clip((posterior.sum() + NIL_SHARE) / (len(odds) + 1), *SHARE_BOUNDS))
        if abs(new - share) < 1e-6:
            break
        share = new
    return share


def _expected(
    model: Confidence, unseen: Sample, nil: Sample
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the mentions that are expected in text: confidence, is the best candidate correct,
    weight, and has the mention no entity, each (n,). The first ones are the listed names."""
    missing = model.nil_share
    listed = float(model.known(np.ones((1, 1)), np.zeros(1), missing)[0])
    trusts = [(model.trust, 1.0)]
    if model.synonym_trust:
        trusts = [(model.trust, SYMBOLS), (model.synonym_trust, 1 - SYMBOLS)]
    confidence: list[Any] = [[trust * listed] * 2 for trust, _ in trusts]
    weights: list[Any] = [
        [part * (1 - missing) * LISTED, part * missing * BY_CHANCE] for _, part in trusts
    ]
    right: list[Any] = [[trust, 0.0] for trust, _ in trusts]
    is_nil: list[Any] = [[False, True] for _ in trusts]
    for sample, share in (
        (unseen, (1 - missing) * (1 - LISTED)),
        (nil, missing * (1 - BY_CHANCE)),
    ):
        known = model.known(sample.lexical[:, None], sample.likeness, missing)
        confidence.append(known * model.probabilities(sample.x))
        right.append(sample.right * (sample is unseen))
        weights.append(share * sample.weight / max(sample.weight.sum(), TINY))
        is_nil.append(np.full(len(known), sample is not unseen))
    return (
        np.concatenate(confidence),
        np.concatenate(right).astype(float),
        np.concatenate(weights),
        np.concatenate(is_nil),
    )


def lowest_confidence(
    confidence: np.ndarray, right: np.ndarray, weights: np.ndarray, precision: float
) -> float:
    """Return the lowest confidence, `MIN_CONFIDENCE` or more, at which mentions with these
    confidences have this precision; the highest of all if none is enough.

    right: is the best candidate correct, or the probability of that (n,).
    """
    order = np.argsort(-confidence, kind="stable")
    total = np.cumsum(weights[order])
    # The most confident may have weight 0.
    expected = np.cumsum((weights * right)[order]) / np.maximum(total, TINY)
    ordered = confidence[order]
    # Equal confidences are all linked, or none of them.
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    enough = np.flatnonzero((expected >= precision - 1e-12) & (total > 0) & is_last)
    least = ordered[enough[-1]] if len(enough) else ordered[0]
    return float(max(MIN_CONFIDENCE, least))


def _fraction(part: np.ndarray, whole: np.ndarray) -> float:
    return float(part.sum() / max(whole.sum(), TINY))

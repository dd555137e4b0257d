"""KRISSBERT's re-ranking step (§3.6): cross-entropy over the linker's candidates of self-supervised
mentions."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from pydantic import Field
from spacy.training import Example

from ...distributed.processes import begin_shared
from ...kb.prototype_kb import PrototypeKB
from ...layers.ranked import RankedMention, Reranker, list_lengths, with_nil
from ...losses.masked import Loss
from ...mentions.annotations import NIL
from ...ontology.store import OntologyStore
from ...util.settings import Fraction, NotNegative, checked
from ...views import View
from ..data.examples import linked_spans
from ..passes import consecutive, view_length, with_adversary
from ..scores import Padding
from .protocol import LINKS, BatchCount

SMOOTHING = 0.02
# Margin of NIL's log-odds beyond the linker's range.
NIL_MARGIN = 5.0


class LinkerCandidates(NamedTuple):
    """The candidates of a linker, which a re-ranker learns to correct.

    kb, views: of the linker. model_views: like `views`, as input of the re-ranker's model.
    unseen: views, which of their names are hidden, and k → the ids and scores of the linker's
        candidates of each, as if it had not seen the mention (`unseen_candidates`).
    ranked: a view, the (id, name) of its candidates, their scores (k,), and whether its name is
        hidden → the model's input.
    temperature: divisor that turns scores into log-odds.
    nil_score: the score of NIL; None if NIL is no candidate.
    """

    kb: PrototypeKB
    views: Callable[[Any, Sequence[Any]], Sequence[View]]
    model_views: Callable[[Any, Sequence[Any]], Sequence[View]]
    unseen: Callable[[Sequence[View], Sequence[bool], int], Sequence[tuple[list[str], np.ndarray]]]
    ranked: Callable[..., RankedMention]
    temperature: float
    nil_score: float | None


@checked
@dataclass(eq=False)
class RerankObjective:
    """Cross-entropy over K candidates (§3.6), on top of the linker's own log-odds: the model learns
    to correct them or, without a bound (`CrossEncoder`), to replace them, as in the paper.

    loss: of each mention with its candidates, such as `spacy-krissel.SoftmaxLoss.v1`; scores are
        the linker's log-odds plus the corrections.
    n_candidates: K in training.
    p_hide: probability that the name of a training mention is hidden: prototypes with the name do
        not count, and no candidate's reference shows it. The mention's own prototype never counts
        (`unseen_candidates`). The others keep their names, since half of all mentions in text are
        names of the ontology.
    insert_gold: make the correct entity the last candidate if the linker did not find it; otherwise
        the mention is skipped.
    p_nil: probability that a training mention's entity is removed from its candidates, as if it
        were not in the knowledge base, so that NIL is correct. Above 0, NIL is a candidate of every
        mention (PEL §2, the fourth strategy).
    seed: seed of hiding and removal.
    fgsm_weight: λ of adversarial examples, for models that read a transformer (`with_adversary`;
        PEL's Table 6 has them for its ranker too).
    fgsm_epsilon: their ε.
    """

    loss: Loss
    n_candidates: Annotated[int, Field(ge=2)] = 32
    p_hide: Fraction = 0.8
    insert_gold: bool = False
    p_nil: Annotated[float, Field(ge=0, lt=1)] = 0.0
    seed: int = 0
    fgsm_weight: NotNegative = 0.0
    fgsm_epsilon: NotNegative = 0.01

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._batches = BatchCount(
            "linked mention whose entity is among the linker's candidates", LINKS
        )

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Do nothing: entities come with the linker's candidates."""

    def update(
        self, model: Reranker, examples: Sequence[Example], spans_key: str, linker: LinkerCandidates
    ) -> float:
        """Accumulate the gradient over the linked mentions of `examples` in `model`. RETURNS: the
        loss; 0 for a batch without a mention, which is skipped and counted.

        Raises KrisselError K637 if fgsm_weight is above 0 and the model reads no transformer.
        """
        return self.step(model, *self.mentions(examples, spans_key, linker))

    def temperature(
        self, examples: Sequence[Example], spans_key: str, linker: LinkerCandidates
    ) -> float:
        """Return the temperature of the linker's scores (`fit_temperature`), for a `linker` with
        temperature 1."""
        mentions, gold = self.mentions(examples, spans_key, linker)
        return fit_temperature([mention.logits for mention in mentions], gold)

    def nil_score(
        self, examples: Sequence[Example], spans_key: str, linker: LinkerCandidates
    ) -> float | None:
        """Return the score of NIL (`fit_nil_logit`); None without a `p_nil`."""
        if not self.p_nil:
            return None
        mentions, gold = self.mentions(examples, spans_key, linker)
        logit = fit_nil_logit([mention.logits for mention in mentions], gold, self.p_nil)
        return logit * linker.temperature

    def mentions(
        self, examples: Sequence[Example], spans_key: str, linker: LinkerCandidates
    ) -> tuple[list[RankedMention], list[int]]:
        """Return the linked mentions of `examples` with the candidates that they may see, and the
        offset of the correct one. With a `nil_score` the last candidate is NIL, which is correct
        for mentions whose entity is removed.

        Scores are the linker's, including its `lexical_weight`. Its `spelling_weight`,
        `species_weight`, `coherence_weight` and `types` are ignored: all types compete, and each
        mention is decided alone.
        """
        views: list[View] = []
        model_views: list[View] = []
        gold: list[str] = []
        for example in examples:
            spans = linked_spans(example.reference, spans_key)
            views.extend(linker.views(example.reference, spans))
            model_views.extend(linker.model_views(example.reference, spans))
            gold.extend(span.kb_id_ for span in spans)
        if not views:
            return [], []
        kb, k, nil_score = linker.kb, self.n_candidates, linker.nil_score
        hidden = [self._rng.random() < self.p_hide for _ in views]
        found = linker.unseen(views, hidden, k)
        mentions, offsets = [], []
        for view, right, (ids, scores), hide in zip(model_views, gold, found, hidden, strict=True):
            if nil_score is not None and self.p_nil and self._rng.random() < self.p_nil:
                kept = [i for i, id_ in enumerate(ids) if id_ != right]
                ids, scores, right = [ids[i] for i in kept], scores[kept], NIL
            elif right not in ids:
                if not self.insert_gold or right not in kb:
                    continue
                lowest = scores[-1:] if len(scores) else np.zeros(1, dtype=np.float32)
                ids, scores = [*ids[: k - 1], right], np.append(scores[: k - 1], lowest)
            if len(ids) > (nil_score is None):
                named = list(zip(ids, kb.entities.names.take(kb.entities.rows(ids)), strict=True))
                mention = linker.ranked(view, named, scores, hidden=hide)
                if nil_score is not None:
                    mention = with_nil(mention, nil_score / linker.temperature)
                mentions.append(mention)
                offsets.append(len(ids) if right == NIL else ids.index(right))
        return mentions, offsets

    def step(self, model: Reranker, mentions: list[RankedMention], gold: Sequence[int]) -> float:
        """Accumulate the gradient in `model`. RETURNS: the loss.

        gold: the offset of each mention's correct candidate.
        """
        if self._batches.is_empty(mentions):
            return 0.0
        lengths = list_lengths(mentions)
        # Every candidate is read with the mention's context.
        sizes = [
            length * view_length(mention.view)
            for length, mention in zip(lengths, mentions, strict=True)
        ]
        logits = cast(Any, model.ops).asarray(
            np.concatenate([mention.logits for mention in mentions])
        )
        padding = Padding(model.ops, lengths, positive=gold)

        def rank(loss: Loss, scale: float) -> float:
            corrections, backprop = begin_shared(
                lambda own: model.begin_update([mentions[i] for i in own]),
                sizes,
                consecutive(lengths),
            )
            d_scores, value = loss(
                padding.pad(logits + corrections), padding.positives, padding.negatives
            )
            backprop(scale * padding.unpad(d_scores))
            return value

        return with_adversary(model, rank, self.loss, self.fgsm_weight, self.fgsm_epsilon)


def fit_temperature(scores: Sequence[np.ndarray], gold: Sequence[int]) -> float:
    """Return the T that maximises the likelihood of `softmax(scores / T)`, so that scores / T are
    log-odds.

    scores: (k,) of each mention's candidates. gold: the correct candidate of each.
    One answer in fifty counts as if any candidate could be correct: a linker that is always correct
    would otherwise have T = 0. RETURNS: the best of a fine logarithmic grid around the scores'
    spread; 1.0 if there is nothing to choose from.
    """
    # log softmax is linear in the subtracted score: the mean of the targets' scores represents them
    # all.
    lists = [
        each.astype("float64") - ((1 - SMOOTHING) * each[right] + SMOOTHING * each.mean())
        for each, right in zip(scores, gold, strict=True)
    ]
    spread = float(np.mean([each.std() for each in lists])) if lists else 0.0
    if not spread:
        return 1.0
    grid = spread * np.geomspace(1e-2, 1e2, 81)
    losses = [sum(float(np.logaddexp.reduce(each / t)) for each in lists) for t in grid]
    return float(grid[int(np.argmin(losses))])


def fit_nil_logit(logits: Sequence[np.ndarray], gold: Sequence[int], p_nil: float) -> float:
    """Return the log-odds of NIL as a further candidate that maximise the likelihood of a linker's
    answers, if a fraction `p_nil` of the mentions has lost its entity.

    logits: (k,) of each mention's candidates. gold: the correct candidate of each.
    RETURNS: the best of a fine grid over the range of the logits; 0.0 if there is nothing to choose
    from.
    """
    lists = [(each.astype("float64"), right) for each, right in zip(logits, gold, strict=True)]
    if not lists:
        return 0.0
    values = np.concatenate([each for each, _ in lists])
    grid = np.linspace(values.min() - NIL_MARGIN, values.max() + NIL_MARGIN, 401)
    likelihood = np.zeros_like(grid)
    for each, right in lists:
        # `logaddexp.reduce` of nothing is -inf: a mention with only its own candidate is NIL
        # without it.
        others = np.logaddexp.reduce(np.delete(each, right))
        likelihood += (1 - p_nil) * (each[right] - np.logaddexp(np.logaddexp.reduce(each), grid))
        likelihood += p_nil * (grid - np.logaddexp(others, grid))
    return float(grid[likelihood.argmax()])

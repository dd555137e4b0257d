"""Confidence of a link: the probability that the knowledge base has the mention's entity, times the
probability of each candidate, by its lead over the others."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace

import numpy as np
from scipy.special import betainc, expit, logit, softmax

from ...errors import wrong_setting
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...lexical.groups import distinct, pair_keys
from ...lexical.index import SAME_SPELLING
from ...lexical.phrases import is_ordinary
from ...mentions.species import taxon_numbers
from ..settings import LinkerSettings
from .match import LABEL, MENTION, MIN_SIMILAR
from .query import Query

# Lowest lexical similarity of texts with the same canonical form, and the lowest lead of a name
# written exactly as the text over one that is not (`LexicalIndex`).
SAME_FORM, MIN_EXACT_LEAD = 0.9999, 1e-5
# Highest probability of a candidate that the mention is no name of. In a small vocabulary, nothing
# else resembles "portal hypertension" as "hypertension" does.
MAX_UNNAMED = 0.89
# Highest lexical similarity of a mention that was read in other words ("renal injury"): it is no
# name. On the training splits of NCBI Disease and BC5CDR's diseases, the area under the
# precision-coverage curve is 0.956 and 0.930 with 0.95 and with 0.9; without a limit 0.952, 0.928.
REWORDED = 0.95
# Fraction of mentions of known entities that are listed names, on the low side: 70, 67 and 82 % on
# the training splits of NCBI Disease and BC5CDR (diseases, chemicals).
LISTED = 0.6
# Fraction of other mentions that happen to be a listed name, on the high side: acronyms collide. On
# BC5CDR's training split 0.3 % of the chemicals are names of diseases, and 0.05 % of the diseases
# are names of chemicals.
BY_CHANCE = 0.01
# Log-likelihood ratio of a listed name.
LISTED_ODDS = float(np.log(LISTED / BY_CHANCE))
# Exponent of the probabilities of species, which are too even, and weight of a text's most likely
# species if no candidate of it is named so: "reduced" is a gene of the fly alone. Where a species
# is a third as likely or less, 2 % of the links to it are correct in GNormPlus' and NLM-Gene's
# training texts, as `krissel_finder` reads them. On nine tenths of GNormPlus' training part, 0.1,
# 0.2 and 0.5 have calibration errors of 0.036, 0.039 and 0.044, and areas under the
# precision-coverage curve of 0.937; an exponent of 1.75 has 0.041 in place of 0.039.
SPECIES_SHARPNESS, UNNAMED_SPECIES = 2.0, 0.2
# Lead of a candidate without competitors; no lead is higher.
MAX_LEAD = 1.0
# A mention supports others if its confidence is at least this, and exceeds that of a shared name by
# a margin (`confident`). Without the bound, "mouse" is linked to the genus where a text has "mice"
# (28 of 1,291 mentions of Linnaeus's training documents), and mentions without an entity raise each
# other's confidence.
MIN_SUPPORTING, SUPPORTING_MARGIN = 0.6, 0.01
# Weight of a candidate's support in its log-odds. Chosen on the training splits of eight corpora:
# calibration errors for 1 to 2 are within 0.02 of each other; that of genes falls by 0.02 to 0.05.
SUPPORT_WEIGHT = 1.5
# Number of mentions that the expected fraction without an entity counts as, beside the other
# mentions of a label in a document: mostly, nearly all of these have an entity, or nearly none. On
# the training splits of NCBI Disease and BC5CDR (diseases, chemicals, all mentions, with and
# without labels), 0.2, 0.5 and 1 have mean calibration errors within 0.002 of each other. With 0.2
# precision is lower where labels are missing, with 1 the error of diseases is higher.
PRIOR_OF_DOCUMENT = 0.5
# Bounds of the intervals of such fractions that the mentions of a document tell apart.
SHARE_EDGES = np.array([0.0, *expit(np.linspace(-4.6, 4.6, 19)), 1.0])
# Lowest mean of their distribution, and lowest probability of an interval.
TINY_SHARE = 1e-9


@dataclass(frozen=True)
class Confidence:
    """Probability that a candidate is correct.

    It is P(known) · P(candidate | known).

    P(candidate | known) is `σ(bias + lexical · l + lexical_lead · (l - l') + vector_lead · (v -
    v'))`, at most `MAX_UNNAMED`. l is its lexical similarity with the mention and v its vector
    similarity; l' and v' are the highest of the other candidates. If the mention is a name of this
    candidate alone, the probability is `trust`; `synonym_trust`, unless that is 0, if it is not
    the preferred name.

    P(known) is the probability that the knowledge base has the mention's entity. A fraction
    `nil_share` of mentions is expected to have none there, which is the prior probability in
    Bayes's rule. The evidence is whether the mention is a listed name (`LISTED`, `BY_CHANCE`), else
    `known_bias + known_lexical · L + known_likeness · n`, the log-likelihood ratio of the highest
    lexical similarity L of all candidates' names and the `Likeness` n of the mention to the names.
    Induced class names do not count as names here. A listed name that is an ordinary word has
    `ordinary_odds`: a gene of the fly is called "pain". For it, and for a mention that is no listed
    name, `nil_share` is adjusted to the other mentions with its label in the document
    (`shares_in_documents`).

    For entities of several species, only candidates of the same species compete, and the result is
    multiplied by the probability of the species, among those with a candidate whose name is at
    least as similar, and the most likely one of the text (`UNNAMED_SPECIES`).

    The vector similarity itself is left out. Fitted to names, it misleads on mentions, which are
    farther from their entities: with it, the calibration error on the training splits of NCBI
    Disease and BC5CDR's diseases was 0.059 and 0.066 instead of 0.019 and 0.031.
    """

    trust: float
    bias: float
    lexical: float
    lexical_lead: float
    vector_lead: float
    known_bias: float = 0.0
    known_lexical: float = 0.0
    known_likeness: float = 0.0
    nil_share: float = 0.0
    synonym_trust: float = 0.0
    ordinary_odds: float = LISTED_ODDS

    @classmethod
    def of(cls, setting: Mapping[str, float]) -> "Confidence | None":
        """Return the model for the linker's setting `confidence`; None if that is empty.
        Raises KrisselError K006 for keys other than those that `krissel confidence` fits.
        """
        if not setting:
            return None
        names = [field.name for field in fields(cls)]
        required = {field.name for field in fields(cls) if field.default is MISSING}
        if not required <= setting.keys() <= {*names}:
            found, expected = (
                ", ".join(sorted(setting)),
                f"{', '.join(names)}, as `krissel confidence` fits them",
            )
            raise wrong_setting("confidence", found, expected)
        return cls(**setting)

    def __call__(
        self,
        vector: np.ndarray,
        lexical: np.ndarray,
        kind: np.ndarray | None = None,
        odds: np.ndarray | None = None,
        is_label: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return P(candidate | known) of each candidate (q, k), 0 for none, and the same by name
        alone.
        The latter ignores other species, unless one of them has a nearer name.

        vector, lexical: similarities of each candidate (q, k), -inf in `vector` for none.
        kind, odds: index of each candidate's species, and its log-odds relative to the document's
            most likely one (q, k).
        is_label: is the mention the preferred name of the candidate (q, k).
        """
        trust = self.trust
        if is_label is not None and self.synonym_trust:
            trust = np.where(is_label, trust, self.synonym_trust)
        if kind is None or odds is None:
            found = self.probabilities(features(vector, lexical))
            found = np.where(uniquely_named(lexical), trust, found)
            found = np.where(np.isfinite(vector), found, 0.0)
            return found, found
        found = self.probabilities(features(vector, lexical, kind))
        found = np.where(uniquely_named(lexical, kind), trust, found)
        of_species = _of_species(np.where(np.isfinite(vector), lexical, -np.inf), kind, odds)
        found = np.where(np.isfinite(vector), found, 0.0)
        both = np.where(found > 0, found * of_species, 0.0)
        # A candidate alone in its species leads its species, whatever its name.
        near = np.where(np.isfinite(vector), lexical, -np.inf)
        return both, np.where(
            near >= near.max(axis=1, keepdims=True) - (1 - SAME_FORM), found, both
        )

    def known(
        self, lexical: np.ndarray, likeness: np.ndarray, nil_share: np.ndarray | float
    ) -> np.ndarray:
        """Return the probability that the knowledge base has the entity of each mention (q,).

        lexical (q, k): lexical similarities with its candidates' names, 0 for none. likeness (q,):
        to the names. nil_share: expected fraction of such mentions without an entity, (q,) or one.
        """
        return known_at(self.known_odds(lexical, likeness), nil_share)

    def of_unique_name(self) -> float:
        """Return the confidence of the only entity that has the mention as a name."""
        if not self.nil_share:
            return self.trust
        known = self.known(np.ones((1, 1)), np.zeros(1), self.nil_share)
        return self.trust * float(known[0])

    def known_odds(
        self, lexical: np.ndarray, likeness: np.ndarray, ordinary: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the log-likelihood ratio of mentions (q,): entity in the knowledge base, or not.
        ordinary: as in `ordinary_words`. The rest as in `known`."""
        highest = lexical.max(axis=1, initial=0.0)
        unlisted = (
            self.known_bias + self.known_lexical * highest + self.known_likeness * likeness
        ) + np.log((1 - LISTED) / (1 - BY_CHANCE))
        listed: np.ndarray | float = LISTED_ODDS
        if ordinary is not None:
            listed = np.where(ordinary, self.ordinary_odds, LISTED_ODDS)
        return np.where(highest >= SAME_FORM, listed, unlisted)

    def confident(self, by_name: np.ndarray) -> np.ndarray:
        """Return the confidences (q, k) that are high enough to support others, 0 for the rest."""
        shared = float(self.probabilities(np.array([1.0, 0.0, 0.0])))
        return np.where(
            by_name >= min(max(MIN_SUPPORTING, shared + SUPPORTING_MARGIN), self.trust),
            by_name,
            0.0,
        )

    def supported(self, confidence: np.ndarray, support: np.ndarray) -> np.ndarray:
        """Return the confidence of candidates (q, k) with this support by other mentions of the
        document (`supports`).

        With several species, it rises for that entity of each species, whose confidence is too low
        on average.
        """
        known = (support > 0) & (confidence > 0)
        odds = logit(np.where(known, confidence, 0.5)) + SUPPORT_WEIGHT * support
        return np.where(known, np.minimum(expit(odds), self.trust), confidence)

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Return the probabilities (…) for the `features` x (…, 3)."""
        highest = min(self.synonym_trust or self.trust, MAX_UNNAMED)
        return np.minimum(
            expit(self.bias + x @ [self.lexical, self.lexical_lead, self.vector_lead]), highest
        )


def known_at(odds: np.ndarray, nil_share: np.ndarray | float) -> np.ndarray:
    """Return the probabilities of log-likelihood ratios (q,), where this fraction, (q,) or one, has
    no entity."""
    share = np.asarray(nil_share, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return expit(odds + np.log1p(-share) - np.log(share))


def shares_in_documents(
    groups: np.ndarray, texts: np.ndarray, odds: np.ndarray, nil_share: np.ndarray | float
) -> np.ndarray:
    """Return the fraction without an entity that is expected of each mention (q,), by the other
    texts of its group.

    The fractions of groups have a beta distribution with mean `nil_share`, which counts as
    `PRIOR_OF_DOCUMENT` mentions. The result is the mean of its posterior distribution, over
    `SHARE_EDGES`. Without other texts it is `nil_share`.

    groups, texts (q,): index of each mention's group and text; equal texts of a group count as one,
        and a mention is no evidence for itself. odds (q,): as in `known_odds`.
    """
    pairs, of_pair = np.unique(pair_keys(groups, texts), return_inverse=True)
    weights = 1 / np.bincount(of_pair, minlength=len(pairs))[of_pair]
    prior = np.broadcast_to(np.asarray(nil_share, dtype=np.float64), odds.shape)
    means, of_mean = np.unique(np.clip(prior, TINY_SHARE, 1 - TINY_SHARE), return_inverse=True)
    a, b = PRIOR_OF_DOCUMENT * means[:, None], PRIOR_OF_DOCUMENT * (1 - means[:, None])
    expected = np.maximum(np.diff(betainc(a, b, SHARE_EDGES)), TINY_SHARE)
    shares = (SHARE_EDGES[1:] + SHARE_EDGES[:-1]) / 2
    posterior = np.log(expected)[of_mean]
    for i, share in enumerate(shares):
        ratio = np.logaddexp(np.log1p(-share) + odds, np.log(share))
        posterior[:, i] += np.bincount(groups, weights * ratio)[groups] - ratio
    posterior = softmax(posterior, axis=1)
    # Without other texts, the mean over intervals is this.
    before = ((expected * shares).sum(axis=1) / expected.sum(axis=1))[of_mean]
    return expit(logit(prior) + logit((posterior * shares).sum(axis=1)) - logit(before))


def features(vector: np.ndarray, lexical: np.ndarray, kind: np.ndarray | None = None) -> np.ndarray:
    """Return the features of each candidate that its probability is fitted to (q, k, 3). kind: as
    in `_best_other`."""
    found = np.isfinite(vector)
    # Without another candidate the lead is the maximum; values of missing candidates are not used.
    leads = [
        each - _best_other(np.where(found, each, -np.inf), kind)
        for each in (lexical, np.where(found, vector, 0.0))
    ]
    return np.stack([lexical, *(np.minimum(lead, MAX_LEAD) for lead in leads)], axis=2)


def uniquely_named(lexical: np.ndarray, kind: np.ndarray | None = None) -> np.ndarray:
    """Return a mask (q, k) of the candidates that are the only ones with the mention as a name.
    If names differ only in accents, the one written exactly as the mention counts. kind: as in
    `_best_other`.
    """
    return (lexical >= SAME_FORM) & (_best_other(lexical, kind) < lexical - MIN_EXACT_LEAD)


def _of_species(lexical: np.ndarray, kind: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """Return the probability of each candidate's species (q, k), among species with a candidate at
    least as similar. The most likely one counts without one, too (`UNNAMED_SPECIES`).

    odds: log-odds relative to the most likely species (q, k).
    """
    from . import kernel

    weights = np.exp(SPECIES_SHARPNESS * odds)
    total = np.zeros(lexical.shape)
    least = np.minimum(lexical, SAME_FORM)
    kernel.weights_above(lexical, least, kind.astype(np.int64), weights, UNNAMED_SPECIES, total)
    return weights / total


def _best_other(values: np.ndarray, kind: np.ndarray | None = None) -> np.ndarray:
    """Return the highest of the other values in each row (q, k); -inf if there is no other.

    kind: compare those of the same kind only (q, k); None for all.
    """
    if kind is not None:
        from . import kernel

        result = np.full_like(values, -np.inf)
        kernel.best_other(values, kind.astype(np.int64), result)
        return result
    if values.shape[1] < 2:
        return np.full_like(values, -np.inf)
    first = values.argmax(axis=1)
    rows = np.arange(len(values))
    best = values[rows, first]
    others = values.copy()
    others[rows, first] = -np.inf
    result = np.repeat(best[:, None], values.shape[1], axis=1)
    result[rows, first] = others.max(axis=1)
    return result


def with_confidence(query: Query, result: SearchResult, settings: LinkerSettings) -> SearchResult:
    """Return the candidates with P(candidate | known) and P(known), if the settings have the
    coefficients.

    Raises KrisselError K006 for a `min_confidence` without coefficients.
    """
    model = Confidence.of(settings.confidence)
    if model is None and settings.min_confidence:
        expected = "0, or a linker that `krissel confidence` gave its `confidence`"
        raise wrong_setting("min_confidence", settings.min_confidence, expected)
    if model is None:
        return result
    vector, lexical, named = similarities(query, result)
    if "spelling" in result.parts:
        # A name that is spelt so is that name, unless the document says that the mention is short
        # for other words: no "SLE" is the cell line SLE in a text on systemic lupus erythematosus.
        is_spelt, longer = result.parts["spelling"] > 0, query.lexical.alternatives.mentions
        is_spelt[longer] &= lexical[longer] >= MIN_SIMILAR
        lexical, named = (
            np.where(is_spelt, np.maximum(each, np.float32(SAME_SPELLING)), each)
            for each in (lexical, named)
        )
    lexical, named = (
        np.where(query.reworded[:, None], np.minimum(each, np.float32(REWORDED)), each)
        for each in (lexical, named)
    )
    kind = odds = None
    if "species" in result.parts:
        kind, odds = (
            species_of(query.kb, result.entities),
            result.parts["species"] / np.float32(settings.species_weight),
        )
    is_label = None if result.match is None else result.match == LABEL
    confidence, by_name = model(vector, lexical, kind, odds, is_label)
    known = _known(query, model, named, settings)
    return replace(result, confidence=confidence, by_name=by_name, known=known)


def with_known(result: SearchResult) -> SearchResult:
    """Return the candidates with their confidence multiplied by P(known), once that given `known`
    is final.

    A document may support several candidates with the mention as a name. Where their confidences
    have a sum above 1, each is divided by it. On the training splits of NCBI Disease and BC5CDR's
    diseases, the calibration error goes from 0.0417 to 0.0410 and from 0.0562 to 0.0560. Genes of
    several species stay as they are: on GNormPlus' it would go from 0.036 to 0.047.
    """
    if result.confidence is None:
        return result
    confidence = result.confidence
    if result.match is not None and "species" not in result.parts:
        is_named = result.match >= MENTION
        total = (confidence * is_named).sum(axis=1, keepdims=True)
        confidence = np.where(is_named, confidence / np.maximum(total, 1), confidence)
    if result.known is not None:
        confidence = confidence * result.known
    return replace(result, confidence=confidence, known=None)


def _known(
    query: Query, model: Confidence, named: np.ndarray, settings: LinkerSettings
) -> np.ndarray | None:
    """Return the probability that the knowledge base has each mention's entity (q, 1); None if all
    are expected to be known.

    Raises KrisselError K006 if the coefficients need a `Likeness` that the linker lacks.
    """
    by_label = settings.nil_share_by_label
    if not model.nil_share and not by_label:
        return None
    share: np.ndarray | float = model.nil_share
    if by_label:
        share = np.array([by_label.get(span.label_, model.nil_share) for span in query.spans])
    ordinary = ordinary_words(query, model)
    odds = model.known_odds(named, likeness_of(query, model), ordinary)
    of_document = share
    if len(query.spans):
        labels = distinct([span.label_ for span in query.spans])[1]
        groups = np.unique(pair_keys(query.doc_of, labels), return_inverse=True)[1]
        texts = np.unique(query.lexical.hashes, return_inverse=True)[1]
        # A listed name is evidence enough, unless it is an ordinary word.
        listed = named.max(axis=1, initial=0.0) >= SAME_FORM
        if ordinary is not None:
            listed &= ~ordinary
        of_document = np.where(listed, share, shares_in_documents(groups, texts, odds, share))
    # A mention that is no name is never more certain than one that is.
    highest = known_at(np.full_like(odds, LISTED_ODDS), share)
    return np.minimum(known_at(odds, of_document), highest)[:, None]


def likeness_of(query: Query, model: Confidence) -> np.ndarray:
    """Return the `Likeness` of each mention to the names (q,). Raises KrisselError K006 as
    `_known`."""
    if query.likeness is not None:
        return query.lexical.likeness(query.likeness)
    if model.known_likeness:
        expected = "those of a linker that `krissel confidence` saved, with its file 'likeness'"
        raise wrong_setting("confidence", "coefficients without the weights of n-grams", expected)
    return np.zeros(len(query), dtype=np.float32)


def ordinary_words(query: Query, model: Confidence) -> np.ndarray | None:
    """Return a mask of the mentions that are ordinary words (q,); None if that is no evidence."""
    if model.ordinary_odds == LISTED_ODDS:
        return None
    return np.array([*map(is_ordinary, query.texts)], dtype=bool)


def similarities(query: Query, result: SearchResult) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the vector similarity, the lexical similarity, and the same with names alone, of each
    candidate (q, k). Induced class names are no evidence that the entity is known: "renal" is one
    of Kidney Diseases."""
    vector, lexical = result.parts.get("vector", result.scores), result.parts.get("lexical")
    if lexical is None:
        lexical = query.lexical.of_candidates(result.entities)
    return vector, lexical, query.lexical.of_names(result.entities, lexical)


def species_of(kb: KBSnapshot, entities: np.ndarray) -> np.ndarray | None:
    """Return the index of the species of these entity rows, -1 for no entity; None if all are of
    one species."""
    numbers = taxon_numbers(kb.species)
    return (
        None
        if numbers is None
        else np.where(entities >= 0, numbers[kb.entities.species[0][entities]], -1)
    )

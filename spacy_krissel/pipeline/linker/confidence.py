"""How sure a link is: the probability of each candidate, from what sets it apart from the others."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import expit, logit

from ...errors import wrong_setting
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...lexical.index import SPELT
from ...mentions.species import taxon_numbers
from ..settings import LinkerSettings
from .query import Query

# Lexical similarity of a text with a name that it is in canonical form; and the least by which one that
# is written as the text is leads one that is not (`LexicalIndex`).
SAME, AS_WRITTEN = 0.9999, 1e-5
# Probability of a candidate that the mention is no name of, at most: in a small vocabulary, nothing else
# resembles "portal hypertension" as "hypertension" does.
OTHERS = 0.89
# The most that a candidate can be ahead of no other.
ALONE = 1.0
# A mention supports others with at least this confidence, and more than that of a shared name (`confident`). Without
# the bound, "mouse" is the genus where a text has "mice" (28 of 1,291 mentions of Linnaeus's training documents), and
# mentions without an entity raise each other's confidence.
CONFIDENT, MARGIN = 0.6, 0.01
# Times the support of a candidate, added to its log-odds. Chosen on the training splits of eight corpora, where 1 to 2
# have calibration errors within 0.02 of each other; that of genes falls by 0.02 to 0.05.
SUPPORT = 1.5
# Mentions at a time where each two candidates of each are compared.
PAIRED = 256


@dataclass(frozen=True)
class Confidence:
    """The probability that a candidate is right is `σ(bias + lexical · l + lexical_lead · (l - l') + vector_lead · (v -
    v'))`, at most `OTHERS`: l is its lexical similarity with the mention, v its similarity as vectors,
    l' and v' are the highest of the other candidates. Where the mention is a name of this one
    candidate alone, it is `trust`.

    Where entities are of several species, the others are those of its species, and all of that is multiplied with the
    probability of the species, among those with a candidate whose name is at least as similar.

    The similarity itself of vectors is left out: fitted to names, it is misleading on mentions, which are farther from
    their entities. With it, the calibration error was 0.059 and 0.066 on the training splits of NCBI Disease and
    BC5CDR's diseases, in place of 0.019 and 0.031.
    """

    trust: float
    bias: float
    lexical: float
    lexical_lead: float
    vector_lead: float

    @classmethod
    def of(cls, setting: Mapping[str, float]) -> "Confidence | None":
        """That of the linker's setting `confidence`; None for an empty one. Raises KrisselError K006 for another one
        than `krissel confidence` makes."""
        if not setting:
            return None
        names = [field.name for field in fields(cls)]
        if sorted(setting) != sorted(names):
            found, expected = ", ".join(sorted(setting)), f"{', '.join(names)}, as `krissel confidence` fits them"
            raise wrong_setting("confidence", found, expected)
        return cls(**setting)

    def __call__(
        self, vector: np.ndarray, lexical: np.ndarray, kind: np.ndarray | None = None, odds: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The similarities of each candidate (q, k), -inf in `vector` for none, to its probability (q, k), then 0; and
        to that by its name alone: among the candidates of its species, if none of another has a nearer name.

        kind, odds: the number of each candidate's species, and its log-odds (q, k).
        """
        if kind is None or odds is None:
            found = self.by(features(vector, lexical))
            found[named(lexical)] = self.trust
            found = np.where(np.isfinite(vector), found, 0.0)
            return found, found
        found, of_species = np.empty(vector.shape), np.empty(vector.shape)
        for start in range(0, len(found), PAIRED):
            rows = slice(start, start + PAIRED)
            same = kind[rows, :, None] == kind[rows, None, :]
            found[rows] = self.by(features(vector[rows], lexical[rows], same))
            found[rows][named(lexical[rows], same)] = self.trust
            similar = np.where(np.isfinite(vector[rows]), lexical[rows], -np.inf)
            of_species[rows] = _of_species(similar, same, odds[rows])
        found = np.where(np.isfinite(vector), found, 0.0)
        both = np.where(found > 0, found * of_species, 0.0)
        # One that is alone of its species leads all others of it, whatever its name.
        near = np.where(np.isfinite(vector), lexical, -np.inf)
        return both, np.where(near >= near.max(axis=1, keepdims=True) - (1 - SAME), found, both)

    def confident(self, by_name: np.ndarray) -> np.ndarray:
        """Those of the confidences (q, k) that are high enough to support others, 0 for the rest."""
        shared = float(self.by(np.array([1.0, 0.0, 0.0])))
        return np.where(by_name >= min(max(CONFIDENT, shared + MARGIN), self.trust), by_name, 0.0)

    def supported(self, confidence: np.ndarray, support: np.ndarray) -> np.ndarray:
        """The confidence of candidates (q, k) with this support by other mentions of the document (`supports`).

        Where there are several species, it rises for that entity of each, since theirs is too low on average.
        """
        known = (support > 0) & (confidence > 0)
        odds = logit(np.where(known, confidence, 0.5)) + SUPPORT * support
        return np.where(known, np.minimum(expit(odds), self.trust), confidence)

    def by(self, x: np.ndarray) -> np.ndarray:
        """The probabilities (…) by the `features` x (…, 3)."""
        highest = min(self.trust, OTHERS)
        return np.minimum(expit(self.bias + x @ [self.lexical, self.lexical_lead, self.vector_lead]), highest)


def features(vector: np.ndarray, lexical: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """What the probability of each candidate is fitted to (q, k, 3). same: as in `_best_other`."""
    found = np.isfinite(vector)
    # Of no other candidate, the lead is the most; of none itself, whatever comes is not used.
    leads = [
        each - _best_other(np.where(found, each, -np.inf), same) for each in (lexical, np.where(found, vector, 0.0))
    ]
    return np.stack([lexical, *(np.minimum(lead, ALONE) for lead in leads)], axis=2)


def named(lexical: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """Return a mask (q, k) of the candidates that alone have the mention as a name. Of names that differ
    in accents alone, it is the one that is written as the mention is. same: as in `_best_other`."""
    return (lexical >= SAME) & (_best_other(lexical, same) < lexical - AS_WRITTEN)


def _of_species(lexical: np.ndarray, same: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """The probability of each candidate's species (q, k), among those that have a candidate as similar as it is."""
    nearest = np.where(same, lexical[:, None, :], -np.inf).max(axis=2)
    is_first = np.logical_not(np.tril(same, -1).any(axis=2))
    weights = np.exp(odds - odds.max(axis=1, keepdims=True))
    counts = is_first[:, None, :] & (nearest[:, None, :] >= np.minimum(lexical, SAME)[:, :, None])
    return weights / (counts * weights[:, None, :]).sum(axis=2)


def _best_other(values: np.ndarray, same: np.ndarray | None = None) -> np.ndarray:
    """The highest of the other values in each row (q, k); -inf where there is no other.

    same: which of them are compared (q, k, k); None for all.
    """
    if same is not None:
        compared = np.logical_and(same, ~np.eye(values.shape[1], dtype=bool))
        return np.where(compared, values[:, None, :], -np.inf).max(axis=2, initial=-np.inf)
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
    """Return the candidates with their confidence, where the settings have its coefficients.

    Raises KrisselError K006 for a least confidence where nothing computes one.
    """
    model = Confidence.of(settings.confidence)
    if model is None and settings.min_confidence:
        expected = "0, or a linker that `krissel confidence` gave its `confidence`"
        raise wrong_setting("min_confidence", settings.min_confidence, expected)
    if model is None:
        return result
    vector, lexical = similarities(query, result)
    if "spelling" in result.parts:
        # A name that is spelt so is that name.
        lexical = np.where(result.parts["spelling"] > 0, np.maximum(lexical, np.float32(SPELT)), lexical)
    kind = odds = None
    if "species" in result.parts:
        kind, odds = (
            species_of(query.kb, result.entities),
            result.parts["species"] / np.float32(settings.species_weight),
        )
    confidence, by_name = model(vector, lexical, kind, odds)
    return replace(result, confidence=confidence, by_name=by_name)


def similarities(query: Query, result: SearchResult) -> tuple[np.ndarray, np.ndarray]:
    """Return the similarity of vectors, and the lexical one, of each candidate (q, k)."""
    vector, lexical = result.parts.get("vector", result.scores), result.parts.get("lexical")
    return vector, query.lexical.of_candidates(result.entities) if lexical is None else lexical


def species_of(kb: KBSnapshot, entities: np.ndarray) -> np.ndarray | None:
    """Return the number of the species of each of these entity rows, -1 for no entity; None where all are of one."""
    numbers = taxon_numbers(kb.species)
    return None if numbers is None else np.where(entities >= 0, numbers[kb.entities.species[0][entities]], -1)

"""Weights of species words for the species of a gene, fitted without labels."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import spacy
from scipy.optimize import minimize

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.mentions.species import Weights, species_features, taxon_of
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.store import OntologyStore

# Mentions of one name, and of one document.
OF_NAME, OF_DOC = 8, 8
PENALTY = 1e-4


def fit_species(ontology: Path, mentions: Path, text: Path) -> tuple[Weights, int]:
    """Fit the weights of `species_scores`, for the species of a gene, to mined mentions of names
    that only one gene has.

    Names without a digit are left out: many are words with another meaning. The frequency of such
    names per species is fitted too and dropped, since it describes the tables rather than the
    texts; `just_before`, `prefix` and `prior` are not fitted.

    ontology: ontology store of genes
    mentions: mentions mined with it
    text: texts that they were mined in

    RETURNS: the weights, and the number of mentions.
    """
    store = OntologyStore(ontology)
    taxa = sorted({taxon_of(species) for species in store.each("species") if species})
    features, of = [], []
    for found, taxon in _examples(store, MentionShards(mentions), text, taxa):
        features.append(found)
        of.append(taxa.index(taxon))
    x, y = np.array(features)[:, :, :-1], np.array(of)
    n_weights = x.shape[2]

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        odds = x @ w[:n_weights] + w[n_weights:]
        odds -= odds.max(axis=1, keepdims=True)
        p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
        wrong = p.copy()
        wrong[np.arange(len(y)), y] -= 1
        gradient = (
            np.concatenate([np.einsum("nt,ntf->f", wrong, x), wrong.sum(axis=0)]) / len(y)
            + 2 * PENALTY * w
        )
        return -float(np.log(p[np.arange(len(y)), y]).mean()) + PENALTY * float(w @ w), gradient

    fitted = minimize(loss, np.zeros(n_weights + len(taxa)), jac=True, method="L-BFGS-B").x[
        :n_weights
    ]
    return Weights(*(round(float(each), 2) for each in fitted)), len(y)


def show_fit_species(fitted: tuple[Weights, int]) -> str:
    weights, n = fitted
    return f"{n:,} mentions: {weights}"


def _examples(
    store: OntologyStore, mentions: MentionShards, text: Path, taxa: list[str]
) -> Iterator[tuple[np.ndarray, str]]:
    """Return the features of each mention, and its taxon, from documents that name a species."""
    nlp = spacy.blank("en")
    by_doc: dict[str, list[tuple[int, int, str]]] = {}
    of_name: dict[str, int] = {}
    for mention in mentions:
        if any(map(str.isdigit, mention.name)) and of_name.get(mention.name, 0) < OF_NAME:
            of_name[mention.name] = of_name.get(mention.name, 0) + 1
            taxon = taxon_of(store.get(mention.entity).species)
            by_doc.setdefault(mention.doc, []).append((mention.start, mention.end, taxon))
    for each in read_texts(text, report=CorpusReport()):
        if each.id in by_doc:
            doc = nlp.make_doc(each.text)
            for start, end, taxon in islice(by_doc.pop(each.id), OF_DOC):
                found = species_features(
                    doc, [doc.char_span(start, end, alignment_mode="expand")], taxa
                )[0]
                if taxon and found[:, :-1].any():
                    yield found, taxon

"""Texts and the entities that they speak of, without where: what label attention learns from (OSLAT §2)."""

import warnings
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterator, Literal, Tuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...corpora.doc_bins import GoldSplit, read_doc_bins
from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...mentions.gold_mentions import text_entities
from ...ontology.store import OntologyStore


def make_text_entity_corpus(
    path: Path,
    ontology: Path,
    split: Literal["train", "dev", "all"] = "all",
    dev_share: float = 0.1,
    seed: int = 0,
) -> Callable[[Language], Iterator[Example]]:
    """Registered as the reader `spacy-krissel.TextEntityCorpus.v1`.

    Each example is a document of a .spacy file (or of a folder of them) whose categories, `doc.cats`, are the entities
    it speaks of; the predicted side is its words alone. Ids are the ontology's primary ones; one that it does not hold
    is left out (KW603), and so is a document without any.

    split, dev_share: the corpus is divided by document into "train" and "dev", or given whole, see `GoldSplit`.
    Raises KrisselError K006 for settings that make no sense.
    """
    part = GoldSplit.checked(split, dev_share, seed)
    return partial(read_text_entity_corpus, path=path, ontology=ontology, part=part)


def read_text_entity_corpus(nlp: Language, *, path: Path, ontology: Path, part: GoldSplit) -> Iterator[Example]:
    """Yield the examples that `make_text_entity_corpus` describes.

    Raises KrisselError K201, K212 (file), K608 (no text with an entity).
    """
    store = OntologyStore(ontology)
    n_known = n_unknown = 0
    for doc in read_doc_bins(path, nlp.vocab):
        if not part(doc):
            continue
        found, unknown = known_entities(doc, store)
        n_known += len(found)
        n_unknown += unknown
        if not found:
            continue
        predicted = Doc(nlp.vocab, words=[token.text for token in doc], spaces=[bool(t.whitespace_) for t in doc])
        doc.cats = found
        yield Example(predicted, doc)
    if n_unknown:
        message = Warnings.KW603.format(count=n_unknown, total=n_known + n_unknown, path=path)
        warnings.warn(message, KrisselWarning, stacklevel=2)
    if not n_known:
        todo = "Check that its documents carry the ids of entities as categories (`doc.cats`), and `dev_share`."
        raise KrisselError(Errors.K608.format(split=part.split, path=path, todo=todo))


def known_entities(doc: Doc, store: OntologyStore) -> Tuple[Dict[str, float], int]:
    """The entities of a text by their primary ids, as categories, and how many the ontology does not hold."""
    resolved = [store.resolve(entity) for entity in text_entities(doc)]
    return {entity: 1.0 for entity in resolved if entity is not None}, sum(entity is None for entity in resolved)

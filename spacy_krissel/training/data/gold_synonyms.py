"""SapBERT's fine-tuning data: gold mentions paired with the names of their entities."""

import random
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Literal

from spacy.language import Language
from spacy.training import Example

from ...corpora.doc_bins import GoldSplit
from ...errors import Errors, KrisselError
from ...ontology.store import OntologyStore
from ...util.hashing import stable_hash
from .gold_corpus import read_gold_corpus
from .linked import linked_mentions
from .synonym_pairs import SynonymPair, different_names, pair_examples


def make_gold_synonym_corpus(
    path: Path,
    ontology: Path,
    split: Literal["train", "dev", "all"] = "train",
    dev_share: float = 0.1,
    pairs_per_entity: int = 50,
    lowercase: bool = True,
    spans_key: str = "",
    seed: int = 0,
) -> Callable[[Language], Iterator[Example]]:
    """Registered as the reader `spacy-krissel.GoldSynonymCorpus.v1`.

    Each example is a pair of names as `SynonymCorpus` gives them, of which one at least is a mention of the gold corpus
    (SapBERT §2: "an entity mention and its corresponding mapping from the ontology"); the other is a name of the
    ontology or another mention. Composite mentions and those without an id of the ontology are left out. The corpus of
    names to develop on is `spacy-krissel.GoldCorpus.v1`.

    path: a .spacy file, or a folder of them, with gold mentions.
    split, dev_share: the corpus is divided by document, see `GoldSplit`.
    pairs_per_entity: so many pairs of an entity at most, drawn by seed (0: all).
    lowercase: names and mentions in lower case.
    spans_key: gold mentions, and the names of the examples that are made, are in `doc.spans[spans_key]`; "" for
        `doc.ents`.
    Raises KrisselError K006 for settings that make no sense.
    """
    if pairs_per_entity < 0:
        raise KrisselError(Errors.K006.format(setting="pairs_per_entity", found=pairs_per_entity, expected="0 or more"))
    return partial(
        read_gold_synonyms,
        path=path,
        ontology=ontology,
        part=GoldSplit.checked(split, dev_share, seed),
        pairs_per_entity=pairs_per_entity,
        lowercase=lowercase,
        spans_key=spans_key,
        seed=seed,
    )


def read_gold_synonyms(
    nlp: Language,
    *,
    path: Path,
    ontology: Path,
    part: GoldSplit,
    pairs_per_entity: int,
    lowercase: bool,
    spans_key: str,
    seed: int,
) -> Iterator[Example]:
    """Yield the examples that `make_gold_synonym_corpus` describes, in random order.

    Raises KrisselError K201, K212 (file), K608 (no linked mention, or no pair).
    """
    store = OntologyStore(ontology)
    mentions: Dict[str, List[str]] = {}
    for example in read_gold_corpus(nlp, path=path, ontology=ontology, part=part, spans_key=spans_key):
        for entity, view in linked_mentions(example.reference, spans_key):
            if "|" not in entity:
                mentions.setdefault(entity, []).append(view.mention)
    pairs: List[SynonymPair] = []
    for entity, found in mentions.items():
        forms = different_names(found, lowercase)
        known = set(forms)
        # A name that a mention spells already is that mention.
        names = [name for name in different_names([*found, *store.get(entity).names], lowercase) if name not in known]
        both = [SynonymPair(entity, *pair) for pair in chain(combinations(forms, 2), product(forms, names))]
        if pairs_per_entity and len(both) > pairs_per_entity:
            both = random.Random(stable_hash(seed, entity)).sample(both, pairs_per_entity)
        pairs.extend(both)
    if not pairs:
        todo = "No entity that is mentioned has two names."
        raise KrisselError(Errors.K608.format(split=part.split, path=path, todo=todo))
    random.Random(seed).shuffle(pairs)
    yield from pair_examples(pairs, spans_key)

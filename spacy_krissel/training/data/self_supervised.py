"""Training and development examples from mined mentions and ontology names, without a gold label."""

import random
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Literal, Optional, Tuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...mining.shards import MentionShards, MinedMention
from ...ontology.entity import Entity
from ...ontology.held_out import HeldOut
from ...ontology.store import OntologyStore
from ...views import View, name_view

LABEL = "ENTITY"


def make_self_supervised_corpus(
    ontology: Path,
    mentions: Optional[Path] = None,
    split: Literal["train", "dev"] = "train",
    mentions_per_entity: int = 3,
    names_per_entity: int = 4,
    held_out: float = 0.05,
    limit: int = 0,
    spans_key: str = "",
    seed: int = 0,
) -> Callable[[Language], Iterator[Example]]:
    """Registered as the reader `spacy-krissel.SelfSupervisedCorpus.v1`.

    Each example is a doc with one mention: a mined mention in its context, or a name of the ontology alone.

    ontology, mentions: paths of the ontology store and of the mined shards (none: names alone).
    split: "train" leaves out every held-out name and its mentions; "dev" is mentions of held-out names only.
    mentions_per_entity, names_per_entity: so many of each at most, drawn by seed (0: none).
    held_out: fraction of the aliases kept for the development set (`HeldOut`).
    limit: so many examples at most (0: all).
    spans_key: the mention is a span of `doc.spans[spans_key]`; "" for an entity of `doc.ents`.

    Raises KrisselError K006 for settings that make no sense.
    """
    if split not in ("train", "dev"):
        raise KrisselError(Errors.K006.format(setting="split", found=split, expected="'train' or 'dev'"))
    limits = {"mentions_per_entity": mentions_per_entity, "names_per_entity": names_per_entity, "limit": limit}
    for setting, value in limits.items():
        if value < 0:
            raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="0 or more"))
    return partial(
        read_self_supervised,
        ontology=ontology,
        mentions=mentions,
        split=split,
        mentions_per_entity=mentions_per_entity,
        names_per_entity=names_per_entity,
        held_out=HeldOut.checked(held_out, seed),
        limit=limit,
        spans_key=spans_key,
        seed=seed,
    )


def read_self_supervised(
    nlp: Language,
    *,
    ontology: Path,
    mentions: Optional[Path],
    split: str,
    mentions_per_entity: int,
    names_per_entity: int,
    held_out: HeldOut,
    limit: int,
    spans_key: str,
    seed: int,
) -> Iterator[Example]:
    """Yield the examples that `make_self_supervised_corpus` describes; raises KrisselError K608 when there are none."""
    store = OntologyStore(ontology)
    rng = random.Random(f"{seed}-{split}")
    chosen = _choose_mentions(store, mentions, split, mentions_per_entity, held_out, rng)
    # Examples are made last: of all but `limit` nothing is needed.
    views: List[Tuple[str, View]] = [(mention.entity, mention.view) for mention in chosen]
    if split == "train" and names_per_entity:
        for entity in store:
            names = [name for name in entity.names if not held_out(entity, name)]
            if len(names) > names_per_entity:
                # The preferred name always stays: it is the one that prototypes of unmined entities rest on.
                names = [names[0], *rng.sample(names[1:], names_per_entity - 1)]
            views.extend((entity.id, name_view(name)) for name in names)
    if not views:
        todo = "Mine more text, raise `held_out`, or lower the limits." if mentions else "Set `mentions`."
        raise KrisselError(Errors.K608.format(split=split, path=mentions or ontology, todo=todo))
    rng.shuffle(views)
    for entity_id, view in views[: limit or None]:
        yield view_example(nlp, entity_id, view, spans_key)


def _choose_mentions(
    store: OntologyStore,
    mentions: Optional[Path],
    split: str,
    per_entity: int,
    held_out: HeldOut,
    rng: random.Random,
) -> List[MinedMention]:
    if mentions is None or not per_entity:
        return []
    entities: Dict[str, Entity] = {}
    by_entity: Dict[str, List[MinedMention]] = {}
    for mention in MentionShards(mentions):
        entity = entities.get(mention.entity)
        if entity is None:
            entity = entities[mention.entity] = store.get(mention.entity)
        if held_out(entity, mention.name) == (split == "dev"):
            by_entity.setdefault(mention.entity, []).append(mention)
    chosen = []
    for entity_id in sorted(by_entity):
        found = by_entity[entity_id]
        chosen.extend(found if len(found) <= per_entity else rng.sample(found, per_entity))
    return chosen


def view_example(nlp: Language, entity: str, view: View, spans_key: str) -> Example:
    """An example of one mention: predicted without its link, reference with it."""
    predicted = nlp.make_doc(view.left + view.mention + view.right)
    start = len(view.left)
    # `expand`: where the tokenizer joins the mention to a neighbour ("MS-based"), the token is the mention.
    span = predicted.char_span(start, start + len(view.mention), label=LABEL, alignment_mode="expand")
    assert span is not None, "a mention lies within its text"
    reference = predicted.copy()
    # The predicted side has the mention without its link, so that linking can be evaluated with no component that
    # finds mentions.
    _set_mention(predicted, span, spans_key)
    _set_mention(reference, Span(reference, span.start, span.end, label=LABEL, kb_id=entity), spans_key)
    return Example(predicted, reference)


def _set_mention(doc: Doc, span: Span, spans_key: str) -> None:
    if spans_key:
        doc.spans[spans_key] = [span]
    else:
        doc.ents = [span]

"""Gold mentions as prototypes: lazy learning (KRISSBERT §3.7)."""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from spacy.tokens import Doc

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..kb.entity_columns import StringColumn
from ..kb.prototype_kb import Encode, PrototypeKB
from ..kb.prototype_table import Origin, Prototype, PrototypeTable
from ..lexical.ngrams import canonical_form
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import Corrections, document_id, gold_spans, split_gold, text_hash
from ..util.hashing import stable_hash
from ..util.settings import Count, Positive, checked
from ..views import mention_view, name_view

# Tuned with four fifths of the training splits of NCBI Disease and BC5CDR (diseases) as prototypes
# for the last fifth.
GOLD_WEIGHT = 1.05
# Minimum number of documents in which gold gives a shared name to an entity before the name alone
# stands for it. With 2, context decides on homonyms whose one gold mention is of another entity (in
# the demo 95 % are linked correctly instead of 10 %). This costs 0.2 and 0.3 points on the training
# splits, where entities that share a name mostly mean the same.
MIN_SHARED_DOCS = 2
MAX_EXAMPLES = 3


@dataclass
class GoldCounts:
    """Counts of gold mentions.

    spans: all mentions. mentions: those with a concept. entities, prototypes: added. shared:
        prototypes of shared names, without extra weight (`split_shared_names`). unknown: mentions
        left out because none of their ids is known. examples: the first unknown ones. corrections:
        mentions of the corpus that `doc.ents` link otherwise.
    """

    spans: int = 0
    mentions: int = 0
    entities: int = 0
    prototypes: int = 0
    shared: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)
    corrections: Corrections = field(default_factory=Corrections)

    def warn(self) -> None:
        self.corrections.warn()
        if self.unknown:
            warnings.warn(self.unknown_message(Warnings.KW501), KrisselWarning, stacklevel=3)
        if not self.mentions:
            warnings.warn(Warnings.KW502.format(spans=self.spans), KrisselWarning, stacklevel=3)

    def unknown_message(self, message: str) -> str:
        """Return a message about unknown ids."""
        return message.format(
            count=self.unknown, total=self.mentions, examples="; ".join(self.examples)
        )


def add_gold(
    kb: PrototypeKB,
    docs: Doc | Iterable[Doc],
    *,
    weight: float = GOLD_WEIGHT,
    skip_unknown: bool = False,
    source: str = "",
    spans_key: str = "",
    labels: Iterable[str] | None = None,
    surface_forms: bool = True,
) -> GoldCounts:
    """Add the linked mentions of annotated docs as prototypes, without training.

    This is lazy learning (KRISSBERT §3.7). The prototypes are of kind "gold" and can be removed by
    source or document. Names that several entities share get less weight (`split_shared_names`).
    Weights are not changed later, and each call reads all names: add documents together.

    kb: has an attached encoder, as that of a linker has.
    weight: see `PrototypeKB.add_prototypes`.
    source, spans_key, labels, surface_forms: see `gold_prototypes`.
    skip_unknown: leave out mentions whose ids are not in the knowledge base (KW501).
    RETURNS: the counts of what was added and left out. A mention with the offsets and source of an
        existing one is not added again. On an error nothing is added.
    Warns KW502 if no mention has an id, KW030 of mentions of a corpus that were corrected in
    `doc.ents`.
    Raises KrisselError K521 without an attached encoder, K533 for unknown ids, and the errors of
    `gold_prototypes` and `PrototypeKB.add_prototypes`.
    """
    kb.attached_encoder()
    prototypes, counts = gold_prototypes(
        docs,
        kb,
        source=source,
        spans_key=spans_key,
        labels=labels,
        surface_forms=surface_forms,
    )
    if counts.unknown and not skip_unknown:
        raise KrisselError(counts.unknown_message(Errors.K533))
    counts.prototypes, counts.shared = add_gold_prototypes(kb, prototypes, weight=weight)
    counts.warn()
    return counts


@checked
def add_gold_prototypes(
    kb: PrototypeKB,
    prototypes: Iterable[Prototype],
    *,
    encode: Encode | None = None,
    weight: Positive = GOLD_WEIGHT,
) -> tuple[int, int]:
    """Add the output of `gold_prototypes`; shared names get no extra weight (`split_shared_names`).

    encode: None: the encoder attached to `kb`.

    RETURNS: the number of added prototypes, and of those of shared names. Raises the errors of
        `PrototypeKB.add_prototypes`.
    """
    encode = encode or kb.attached_encoder()
    with kb.lock:
        new = drop_known(prototypes, kb.entity_ids, kb.prototypes)
        weighted, others = split_shared_names(new, kb.entity_ids, kb.prototypes)
        added = [*weighted, *others]
        if not added:
            return 0, 0
        vectors = encode([prototype.view for prototype in added])
        kb.add_prototypes(added, vectors, weight=[weight] * len(weighted) + [1.0] * len(others))
    return len(added), len(others)


@checked
def gold_prototypes(
    docs: Doc | Iterable[Doc],
    resolver: Resolver,
    *,
    source: str = "",
    spans_key: str = "",
    labels: Iterable[str] | None = None,
    per_entity: Count = 0,
    surface_forms: bool = True,
    seed: int = 0,
) -> tuple[list[Prototype], GoldCounts]:
    """Return the linked mentions of gold docs as prototypes of kind "gold", and counts.

    The prototypes are in document order. A composite mention gives a prototype of each of its
    entities, alternative ids become primary ones, and ids unknown to `resolver` are left out, as in
    the evaluation.

    resolver: the knowledge base, or an ontology store.
    source: a label for these docs, by which their prototypes can be removed.
    spans_key: the group of mentions, see `gold_spans`. labels: only mentions with one of these
        labels.
    per_entity: maximum number of mentions per entity, drawn by seed (few-shot); 0: all.
    surface_forms: add each mention's bare text too, as a name confirmed by gold.

    Raises KrisselError K006 for a negative `per_entity`, or labels that are not a list.
    """
    if isinstance(labels, str):
        raise wrong_setting("labels", labels, f"a list, such as [{labels!r}]")
    wanted = None if labels is None else set(labels)
    counts = GoldCounts()
    found: list[Prototype] = []
    for doc in [docs] if isinstance(docs, Doc) else docs:
        text, id_, hash_ = doc.text, document_id(doc), text_hash(doc)
        for span in gold_spans(doc, spans_key, counts.corrections):
            if wanted is not None and span.label_ not in wanted:
                continue
            counts.spans += 1
            ids = split_gold(span.kb_id_, resolver)
            if not ids:
                continue
            counts.mentions += 1
            known = [entity for entity in ids if resolver.resolve(entity) is not None]
            if not known:
                counts.unknown += 1
                if len(counts.examples) < MAX_EXAMPLES:
                    counts.examples.append(f"{id_} {span.start_char}-{span.end_char} {ids[0]}")
            view = mention_view(text, span.start_char, span.end_char)
            origin = Origin(source, id_, span.start_char, span.end_char, hash_)
            found.extend(Prototype(entity, "gold", view, origin) for entity in known)
    if per_entity:
        found = _draw(found, per_entity, seed)
    if surface_forms:
        found = with_surface_forms(found)
    counts.entities = len({prototype.entity for prototype in found})
    counts.prototypes = len(found)
    return found, counts


def drop_known(
    prototypes: Iterable[Prototype], ids: StringColumn, known: PrototypeTable
) -> list[Prototype]:
    """Return the distinct prototypes whose mention and entity are not `known` yet.

    ids: as in `split_shared_names`.
    """
    distinct = list(dict.fromkeys(prototypes))
    docs = sorted({prototype.origin.doc for prototype in distinct} - {""})
    rows = np.flatnonzero(known.where("gold", None, docs))
    there = {(ids[row], origin) for row, _, _, origin in known.at(rows)}
    return [each for each in distinct if (each.entity, each.origin) not in there]


def split_shared_names(
    prototypes: Sequence[Prototype], ids: StringColumn, known: PrototypeTable
) -> tuple[list[Prototype], list[Prototype]]:
    """Return gold prototypes with extra weight, and those without.

    A name of several entities is weak evidence, and one gold mention of one entity does not change
    that. If gold gives the name to an entity in fewer than `MIN_SHARED_DOCS` documents, its
    mentions there are contexts without extra weight, and their bare text is left out. The entities
    of a composite mention do not share it. Existing prototypes of the knowledge base are unchanged.

    ids: of the entities of the knowledge base, by row. known: its prototypes.
    """
    forms = [canonical_form(prototype.view.mention) for prototype in prototypes]
    distinct = sorted(set(forms))
    # Entities with each form, as seen by a search.
    named: dict[str, set[str]] = {form: set() for form in distinct}
    rows, indices = known.lexical_index.entities_named(distinct)
    for entity, index in zip(ids.take(rows), indices.tolist(), strict=True):
        named[distinct[index]].add(entity)
    # Documents in which gold already gives a form to an entity.
    documents: dict[tuple[str, str], set[Any]] = defaultdict(set)
    rows = known.rows_of_kinds(["gold"])
    rows = rows[
        np.array([canonical_form(mention) in named for mention in known.mentions(rows)], dtype=bool)
    ]
    for row, _, view, origin in known.at(rows):
        documents[canonical_form(view.mention), ids[row]].add(_document_key(origin))
    mentions: dict[str, set[Origin]] = defaultdict(set)
    given: dict[tuple[str, str], set[Origin]] = defaultdict(set)
    for form, prototype in zip(forms, prototypes, strict=True):
        mentions[form].add(prototype.origin)
        given[form, prototype.entity].add(prototype.origin)
        documents[form, prototype.entity].add(_document_key(prototype.origin))

    def has_weight(form: str, entity: str) -> bool:
        shared = len(given[form, entity]) < len(mentions[form]) or not named[form] <= {entity}
        return not shared or len(documents[form, entity]) >= MIN_SHARED_DOCS

    weighted, others = [], []
    kept: set[tuple[str, Origin]] = set()
    for form, prototype in zip(forms, prototypes, strict=True):
        if has_weight(form, prototype.entity):
            weighted.append(prototype)
        elif (prototype.entity, prototype.origin) not in kept:
            # The first prototype of a mention is the one in context, even if there is little; the
            # bare text follows.
            kept.add((prototype.entity, prototype.origin))
            others.append(prototype)
    return weighted, others


def _document_key(origin: Origin) -> tuple[str, str]:
    """Return a key of a document, which may have no id, or the text of another one."""
    return origin.doc, origin.text_hash


def _draw(prototypes: Sequence[Prototype], per_entity: int, seed: int) -> list[Prototype]:
    """Return up to `per_entity` prototypes per entity.

    A smaller number draws a subset of a larger one.
    """
    by_entity: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, prototype in enumerate(prototypes):
        _, doc, start, end, _ = prototype.origin
        by_entity[prototype.entity].append(
            (stable_hash(seed, prototype.entity, doc, start, end), i)
        )
    chosen = sorted(i for drawn in by_entity.values() for _, i in sorted(drawn)[:per_entity])
    return [prototypes[i] for i in chosen]


def with_surface_forms(prototypes: Iterable[Prototype]) -> list[Prototype]:
    """Return each prototype, followed by its bare text as a prototype.

    The bare text is skipped if it is the whole view, or if the document gave it to the entity
    before.
    """
    both: list[Prototype] = []
    seen: set[tuple[str, str, str]] = set()
    for prototype in prototypes:
        both.append(prototype)
        key = (prototype.entity, prototype.origin.doc, prototype.view.mention)
        bare = name_view(prototype.view.mention)
        if key not in seen and prototype.view != bare:
            seen.add(key)
            both.append(prototype._replace(view=bare))
    return both

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

# Chosen on four fifths of the training splits of NCBI Disease and BC5CDR (diseases) as prototypes for the last fifth.
GOLD_WEIGHT = 1.05
# Documents in which gold must give a shared name to an entity before the name alone stands for it. With 2, homonyms
# whose one gold mention is of another entity are decided by context (the demo's: 95 % are right and not 10 %), for 0.2
# and 0.3 points on the training splits, where entities that share a name mostly mean the same.
SHARED_DOCS = 2
MAX_PLACES = 3


@dataclass
class GoldCounts:
    """Counts of gold mentions.

    spans: all. mentions: those with a concept. entities, prototypes: made of them. shared: prototypes of shared names,
    without extra weight (`split_shared`). unknown: mentions left out because none of their ids is known. places: the
    first of these. corrections: mentions of the corpus that `doc.ents` link otherwise.
    """

    spans: int = 0
    mentions: int = 0
    entities: int = 0
    prototypes: int = 0
    shared: int = 0
    unknown: int = 0
    places: list[str] = field(default_factory=list)
    corrections: Corrections = field(default_factory=Corrections)

    def warn(self) -> None:
        self.corrections.warn()
        if self.unknown:
            warnings.warn(self.said(Warnings.KW501), KrisselWarning, stacklevel=3)
        if not self.mentions:
            warnings.warn(Warnings.KW502.format(spans=self.spans), KrisselWarning, stacklevel=3)

    def said(self, message: str) -> str:
        """A message about unknown ids."""
        return message.format(count=self.unknown, total=self.mentions, places="; ".join(self.places))


def add_gold(
    kb: PrototypeKB,
    docs: Doc | Iterable[Doc],
    *,
    weight: float = GOLD_WEIGHT,
    skip_unknown: bool = False,
    **settings: Any,
) -> GoldCounts:
    """Lazy learning (KRISSBERT §3.7): add the linked mentions of annotated docs as prototypes, without training.

    They are of kind "gold" and can be removed by source or document. Names that several entities share are weighted
    less: see `split_shared`. Weights are not changed later, and each call reads all names: add documents together.

    kb: has an attached encoder, as that of a linker has.
    weight: see `PrototypeKB.add_prototypes`. settings: `source`, `spans_key`, `labels`, `per_entity`, `surface_forms`
        and `seed`, see `gold_prototypes`.
    skip_unknown: leave out mentions whose ids are not in the knowledge base (KW501).
    RETURNS: what was added and what was left out. Warns KW502 where no mention has an id, KW030 of mentions of a
    corpus that were corrected in `doc.ents`. A mention that is there already, of the same place and source, is not
    added again.
    Raises KrisselError K521 without an attached encoder, K533 for unknown ids, and what `gold_prototypes` and
    `PrototypeKB.add_prototypes` raise; nothing was added then.
    """
    kb.attached_encoder()
    prototypes, counts = gold_prototypes(docs, kb, **settings)
    if counts.unknown and not skip_unknown:
        raise KrisselError(counts.said(Errors.K533))
    counts.prototypes, counts.shared = add_gold_prototypes(kb, prototypes, weight=weight)
    counts.warn()
    return counts


@checked
def add_gold_prototypes(
    kb: PrototypeKB, prototypes: Iterable[Prototype], *, encode: Encode | None = None, weight: Positive = GOLD_WEIGHT
) -> tuple[int, int]:
    """Add what `gold_prototypes` made, those of shared names without extra weight (`split_shared`). encode: None: the
    encoder attached to `kb`.

    RETURNS: the number of added prototypes, and of those of shared names. Raises what `PrototypeKB.add_prototypes`
    raises.
    """
    encode = encode or kb.attached_encoder()
    with kb.lock:
        new = new_gold(prototypes, kb.entity_ids, kb.prototypes)
        weighted, others = split_shared(new, kb.entity_ids, kb.prototypes)
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
    """The linked mentions of gold docs as prototypes of kind "gold", in document order, and counts.

    A composite mention is a prototype of each of its entities, alternative ids become primary ones, and ids that
    `resolver` does not know are left out, all as the evaluation counts them.

    resolver: the knowledge base, or an ontology store.
    source: a label for these docs, by which their prototypes can be removed.
    spans_key: which mentions, see `gold_spans`. labels: only mentions with one of these labels.
    per_entity: mentions per entity at most, drawn by seed (few-shot); 0: all.
    surface_forms: add each mention's bare text too, as a name that gold says the entity has.

    Raises KrisselError K006 for a negative `per_entity`, or labels that are no list.
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
                if len(counts.places) < MAX_PLACES:
                    counts.places.append(f"{id_} {span.start_char}-{span.end_char} {ids[0]}")
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


def new_gold(prototypes: Iterable[Prototype], ids: StringColumn, known: PrototypeTable) -> list[Prototype]:
    """Those whose mention is not among the `known` prototypes as one of the entity, each once. ids: as in
    `split_shared`."""
    distinct = list(dict.fromkeys(prototypes))
    docs = sorted({prototype.origin.doc for prototype in distinct} - {""})
    rows = np.flatnonzero(known.where("gold", None, docs))
    there = {(ids[row], origin) for row, _, _, origin in known.at(rows)}
    return [each for each in distinct if (each.entity, each.origin) not in there]


def split_shared(
    prototypes: Sequence[Prototype], ids: StringColumn, known: PrototypeTable
) -> tuple[list[Prototype], list[Prototype]]:
    """Gold prototypes with extra weight, and those without.

    A name of several entities says little by itself, and one gold mention of one of them does not change that: where
    gold gives it to that one in fewer than `SHARED_DOCS` documents, its mentions there are contexts among others, and
    their bare text is left out. The entities of a composite mention do not share it. What is in the knowledge base
    already stays as it is.

    ids: of the entities of the knowledge base, by row. known: its prototypes.
    """
    forms = [canonical_form(prototype.view.mention) for prototype in prototypes]
    distinct = sorted(set(forms))
    # The entities with each form, as a search sees them.
    named: dict[str, set[str]] = {form: set() for form in distinct}
    rows, places = known.lexical_index.named(distinct)
    for entity, place in zip(ids.take(rows), places.tolist(), strict=True):
        named[distinct[place]].add(entity)
    # The documents in which gold already gives a form to an entity.
    documents: dict[tuple[str, str], set[Any]] = defaultdict(set)
    rows = known.rows_of_kinds(["gold"])
    rows = rows[np.array([canonical_form(mention) in named for mention in known.mentions(rows)], dtype=bool)]
    for row, _, view, origin in known.at(rows):
        documents[canonical_form(view.mention), ids[row]].add(_document(origin))
    mentions: dict[str, set[Origin]] = defaultdict(set)
    given: dict[tuple[str, str], set[Origin]] = defaultdict(set)
    for form, prototype in zip(forms, prototypes, strict=True):
        mentions[form].add(prototype.origin)
        given[form, prototype.entity].add(prototype.origin)
        documents[form, prototype.entity].add(_document(prototype.origin))

    def is_settled(form: str, entity: str) -> bool:
        shared = len(given[form, entity]) < len(mentions[form]) or not named[form] <= {entity}
        return not shared or len(documents[form, entity]) >= SHARED_DOCS

    weighted, others = [], []
    kept: set[tuple[str, Origin]] = set()
    for form, prototype in zip(forms, prototypes, strict=True):
        if is_settled(form, prototype.entity):
            weighted.append(prototype)
        elif (prototype.entity, prototype.origin) not in kept:
            # The first of a mention is the mention in its context, however little that is; its bare text comes after.
            kept.add((prototype.entity, prototype.origin))
            others.append(prototype)
    return weighted, others


def _document(origin: Origin) -> tuple[str, str]:
    """Identifies a document, which may have no id, or the text of another."""
    return origin.doc, origin.text_hash


def _draw(prototypes: Sequence[Prototype], per_entity: int, seed: int) -> list[Prototype]:
    """Up to `per_entity` of each entity; a smaller number draws a part of what a larger one draws."""
    by_entity: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, prototype in enumerate(prototypes):
        _, doc, start, end, _ = prototype.origin
        by_entity[prototype.entity].append((stable_hash(seed, prototype.entity, doc, start, end), i))
    chosen = sorted(i for drawn in by_entity.values() for _, i in sorted(drawn)[:per_entity])
    return [prototypes[i] for i in chosen]


def with_surface_forms(prototypes: Iterable[Prototype]) -> list[Prototype]:
    """Each prototype, followed by its bare text, unless that is all there is, or its document gave it to the same
    entity before."""
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

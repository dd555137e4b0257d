"""Sources of a knowledge base's entities and prototypes: ontology names and mined mentions."""

import heapq
import inspect
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from spacy.vocab import Vocab

from ..corpora.doc_bins import DEV_SHARE, DevShare, GoldSplit, read_doc_bins
from ..kb.prototype_table import Origin, Prototype
from ..mining.shards import MentionList, MentionShards, MinedEntities, MinedMention
from ..ontology.build import open_ontology
from ..ontology.entity import Entity
from ..ontology.held_out import HeldOut
from ..ontology.hypernyms import class_names
from ..ontology.store import OntologyStore
from ..util.folding import fold_name
from ..util.hashing import stable_hash
from ..util.settings import Count, Fraction, Positive, checked, factory_for
from ..views import ReferenceParts, View, name_view, reference_view
from .gold_prototypes import gold_prototypes

# Default maximum per entity, and per name that it shares with others.
MENTIONS_PER_ENTITY, CONTEXTS_PER_SHARED_NAME = 16, 8


@checked
class PrototypeSource:
    """Entities of an ontology, and a limited number of prototypes of each.

    - A name of one entity alone is a prototype without context (kind "name").
    - Up to `mentions_per_entity` mined mentions are prototypes in context (kind "mention",
    KRISSBERT §3.4).
    - A name shared by several entities is no evidence by itself: a prototype of it would tie them
    all. If the entity was mined, up to `contexts_per_shared_name` of its contexts are used with the
    shared name as the mention, so that context decides between homonyms (kind "replaced", the
    augmentation of §3.3 used for linking). An entity that was never mined keeps the bare name. If
    the name is the preferred one of a single entity, as "Aniridia" is of Aniridia and an alias of
    Aniridia, type 2, only that entity has the bare name.
    - A word for a class of entities that is no entity's name is a prototype of that class (kind
    "class", `class_names`). This goes beyond the paper, and needs an ontology with parents or tree
    numbers.
    - Every entity has a reference (§3.5), for encoders that were trained with them.

    `mentions_only` is the paper's knowledge base: mined mentions, and the reference of each entity
    without any.

    ontology: path of an ontology store, or the open store.
    mentions: path of mined mentions, or the open shards; null: none.
    names: use names.
    mentions_per_entity: maximum number of mined mentions per entity.
    contexts_per_shared_name: maximum number of contexts per shared name.
    max_entities: number of entities: first those of held-out mentions, in the order of a seeded
        hash; 0: all.
    held_out: fraction of aliases left out, with their mentions; for a development knowledge base
        (`HeldOut`).
    seed: draws mentions, entities and held-out names.
    aliases: use all names, not the preferred ones alone.
    class_names: use words for classes, if names are used.
    class_weight: factor of the scores of these; below 1, a similar name beats an equal word that no
        entity has as a name.
    use_references: add references to the prototypes of their entities, if the encoder knows them.
    reference_prototypes: make each reference a prototype too (kind "reference"); with neither names
        nor mentions and without `use_references` it is the only one, as in PEL.
    mentions_only: make no prototype of a name, as in KRISSBERT's paper (eq. 6); an entity without
        mentions is found by its reference, if references are used.
    shared_names: make a bare prototype of a shared name for each of its entities, as in linkers by
        names such as SapBERT (KRISSBERT §4.5). All of them get its score, and their next names
        decide (`order_ties`).
    by_species: make a prototype of a name for each species whose entities share it, as genes do;
        for a linker that disambiguates by species (`species_weight`).
    details: keep the fields of an entity that search does not read: aliases, definition,
        cross-references, parents, tree numbers.
    """

    def __init__(
        self,
        ontology: Path | OntologyStore,
        mentions: Path | MentionShards | MentionList | None = None,
        names: bool = True,
        mentions_per_entity: Count = MENTIONS_PER_ENTITY,
        contexts_per_shared_name: Count = CONTEXTS_PER_SHARED_NAME,
        max_entities: Count = 0,
        held_out: Fraction = 0.0,
        seed: int = 0,
        aliases: bool = True,
        class_names: bool = True,
        class_weight: Positive = 1.0,
        use_references: bool = True,
        reference_prototypes: bool = False,
        mentions_only: bool = False,
        shared_names: bool = False,
        by_species: bool = False,
        details: bool = True,
    ) -> None:
        self.mentions = MentionShards(mentions) if isinstance(mentions, (str, Path)) else mentions
        self.ontology = open_ontology(ontology) if isinstance(ontology, (str, Path)) else ontology
        self.names = names and not mentions_only
        self.mentions_per_entity = mentions_per_entity
        self.contexts_per_shared_name = contexts_per_shared_name
        self.max_entities = max_entities
        self.held_out = HeldOut(held_out, seed)
        self.seed = seed
        self.aliases = aliases
        self.class_names = class_names
        self.class_weight = class_weight
        self.use_references = use_references
        self.reference_prototypes = reference_prototypes
        self.mentions_only = mentions_only
        self.shared_names = shared_names
        self.by_species = by_species
        self.details = details
        self._chosen: set[str] | None = None

    @property
    def made_with(self) -> dict[str, Any]:
        """Settings to make another source with, from another release of the ontology."""
        return {
            name: self.held_out.fraction if name == "held_out" else getattr(self, name)
            for name in inspect.signature(PrototypeSource).parameters
            if name not in ("ontology", "mentions")
        }

    def entities(self) -> Iterator[Entity]:
        """Yield the entities of the knowledge base, in the ontology's order."""
        chosen = self._choose()
        for entity in self.ontology:
            if chosen is None or entity.id in chosen:
                yield entity

    def prototypes(self) -> Iterator[Prototype]:
        """Yield the prototypes of these entities, entity by entity."""
        mined = {} if self.mentions is None else self.mentions.by_entity()
        shared = {} if self.shared_names else self._owners
        classes = self._classes
        for entity in self.entities():
            found = self._mined_mentions(entity, mined[entity.id]) if entity.id in mined else []
            for mention in found[: self.mentions_per_entity]:
                yield Prototype(entity.id, "mention", mention.view, _origin(mention))
            if not self.names:
                continue
            seen = set()
            for name in entity.names if self.aliases else entity.names[:1]:
                folded = fold_name(name)
                if folded in seen or self.held_out(entity, name):
                    continue
                seen.add(folded)
                key = folded, self._species(entity)
                contexts = found[: self.contexts_per_shared_name] if key in shared else []
                for mention in contexts:
                    view = mention.view._replace(mention=name)
                    yield Prototype(entity.id, "replaced", view, _origin(mention))
                owner = shared.get(key)
                if owner == entity.id or (owner is None and not contexts):
                    yield Prototype(entity.id, "name", name_view(name))
            for word in classes.get(entity.id, ()):
                yield Prototype(entity.id, "class", name_view(word))

    def references(self, parts: ReferenceParts) -> Iterator[tuple[str, View]]:
        """Yield id and reference of each of these entities, without held-out names."""
        for entity in self.entities():
            names = [name for name in entity.names if not self.held_out(entity, name)]
            yield entity.id, reference_view(entity, parts, names)

    def _species(self, entity: Entity) -> str:
        return entity.species if self.by_species else ""

    @cached_property
    def _owners(self) -> dict[tuple[str, str], str | None]:
        """Folded shared name and species → the entity that has the bare name, if any.

        It is the only entity of the species with it, or else the only one with it as preferred
        name.
        """
        species = [*self.ontology.each("species")] if self.by_species else None
        sharing: dict[tuple[str, str], list[int]] = {}
        preferring: dict[tuple[str, str], list[int]] = {}
        for row, name, is_preferred in self.ontology.names(shared=True):
            key = fold_name(name), "" if species is None else species[row]
            rows = sharing.setdefault(key, [])
            # An entity may have several spellings of a name; its rows follow each other.
            if rows[-1:] != [row]:
                rows.append(row)
            if is_preferred:
                preferring.setdefault(key, []).append(row)
        ids = self.ontology.primary_ids()
        owners: dict[tuple[str, str], str | None] = {}
        for key, rows in sharing.items():
            chosen = rows if len(rows) == 1 else preferring.get(key, [])
            owners[key] = ids[chosen[0]].as_py() if len(chosen) == 1 else None
        return owners

    @cached_property
    def _classes(self) -> dict[str, list[str]]:
        """Class words by entity."""
        found: dict[str, list[str]] = {}
        if self.names and self.class_names:
            for word, row in class_names(self.ontology).items():
                found.setdefault(self.ontology.id_at(row), []).append(word)
        return found

    def _mined_mentions(self, entity: Entity, positions: range) -> list[MinedMention]:
        """Return the needed number of the entity's mentions, chosen and ordered by seeded hash.

        positions: of the entity's mentions among all.
        """
        wanted = max(self.mentions_per_entity, self.contexts_per_shared_name if self.names else 0)
        if self.mentions is None or not wanted:
            return []
        mentions = self.mentions[positions.start : positions.stop]
        if self.held_out.fraction:
            mentions = [mention for mention in mentions if not self.held_out(entity, mention.name)]
        # Stable: mentions with equal hashes keep their order.
        mentions.sort(
            key=lambda mention: stable_hash(self.seed, mention.doc, mention.start, mention.entity)
        )
        return mentions[:wanted]

    def _choose(self) -> set[str] | None:
        if not self.max_entities or self.max_entities >= len(self.ontology):
            return None
        if self._chosen is None:
            chosen: set[str] = set()
            if isinstance(self.mentions, MentionShards):
                asked = MinedEntities(self.mentions, self.ontology).held_out(self.held_out)
                chosen.update(id_ for id_, _ in islice(asked, self.max_entities))
            others = (id_ for id_ in self.ontology.ids if id_ not in chosen)
            missing = self.max_entities - len(chosen)
            self._chosen = chosen.union(
                heapq.nsmallest(missing, others, key=lambda id_: stable_hash(self.seed, id_))
            )
        return self._chosen


def _origin(mention: MinedMention) -> Origin:
    return Origin(doc=mention.doc, start=mention.start, end=mention.end)


@checked
class GoldSource(PrototypeSource):
    """All entities of an ontology, with the linked mentions of a .spacy file as prototypes.

    path: the .spacy file.
    ontology: path of an ontology store.
    split, dev_share, seed: as in `spacy-krissel.GoldCorpus.v1`, so that the evaluated mentions are
        not among the prototypes.
    spans_key, per_entity, surface_forms: as in `gold_prototypes`.
    """

    def __init__(
        self,
        path: Path,
        ontology: Path,
        split: Literal["train", "dev", "all"] = "train",
        dev_share: DevShare = DEV_SHARE,
        spans_key: str = "",
        per_entity: Count = 0,
        surface_forms: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(ontology, names=False, mentions_per_entity=0, seed=seed)
        self.path = Path(path)
        self.part = GoldSplit(split, dev_share, seed)
        self.spans_key, self.per_entity, self.surface_forms = spans_key, per_entity, surface_forms

    def prototypes(self) -> Iterator[Prototype]:
        docs = (doc for doc in read_doc_bins(self.path, Vocab()) if self.part(doc))
        found, counts = gold_prototypes(
            docs,
            self.ontology,
            source=self.path.stem,
            seed=self.seed,
            spans_key=self.spans_key,
            per_entity=self.per_entity,
            surface_forms=self.surface_forms,
        )
        counts.warn()
        return iter(found)


def make_ontology_loader(path: Path) -> Callable[[], OntologyStore]:
    """Return a function that opens the ontology store at `path`.

    Registered in misc as `spacy-krissel.OntologyFromDisk.v1`.

    path: of the ontology store.
    """
    return partial(OntologyStore, path)


make_prototype_source = factory_for(PrototypeSource)
make_gold_source = factory_for(GoldSource)

"""Where a knowledge base's entities and prototypes come from: the ontology's names and mined mentions."""

from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from ...errors import Errors, KrisselError
from ...mining.shards import MentionShards, MinedMention
from ...ontology.entity import Entity
from ...ontology.folding import fold_name
from ...ontology.held_out import HeldOut
from ...ontology.hypernyms import class_names
from ...ontology.store import OntologyStore
from ...util.hashing import stable_hash
from ...views import ReferenceParts, View, name_view, reference_view
from ..prototype_table import Prototype


class PrototypeSource:
    """The entities of an ontology, and up to so many prototypes of each.

    - Every name that one entity alone bears is a prototype without context (kind "name").
    - Up to `mentions_per_entity` mined mentions are prototypes in context (kind "mention", KRISSBERT §3.4).
    - A name that several entities share says nothing by itself: a prototype of it would tie them all. Where the entity
      was mined, up to `contexts_per_shared_name` of its contexts are taken with the shared name put in the mention's
      place (kind "replaced", the augmentation of §3.3 used for linking), so that the context decides between its
      bearers. An entity that was never mined keeps the bare name. Where the name is the preferred one of a single
      bearer, as "Aniridia" is of Aniridia and an alias of Aniridia, type 2, that bearer alone has it bare.
    - Every entity has a reference (§3.5), for encoders that were made for them.

    - A word that names a class of entities, though none is called so, is a prototype of that class (kind "class",
      `class_names`): beyond the paper, and nothing where the ontology has no tree numbers.

    names: use names at all.
    aliases: all names, not the preferred ones alone.
    class_names: words for classes too, where names are used.
    use_references: add references to the prototypes of their entities, where the encoder knows them.
    reference_prototypes: a reference is a prototype of its entity too (kind "reference"); with neither names nor
        mentions and without `use_references` it is the only one, as in PEL.
    max_entities: a bounded knowledge base of so many entities, those of held-out mentions first (0: all).
    held_out: names left out, with the mentions that bear them; for a development KB.
    Raises KrisselError K006 for a limit below 0.
    """

    def __init__(
        self,
        ontology: OntologyStore,
        mentions: Optional[MentionShards] = None,
        *,
        names: bool = True,
        mentions_per_entity: int = 16,
        contexts_per_shared_name: int = 8,
        max_entities: int = 0,
        held_out: Optional[HeldOut] = None,
        seed: int = 0,
        aliases: bool = True,
        class_names: bool = True,
        use_references: bool = True,
        reference_prototypes: bool = False,
    ) -> None:
        check_limits(mentions_per_entity, contexts_per_shared_name, max_entities)
        self.ontology = ontology
        self.mentions = mentions
        self.names = names
        self.mentions_per_entity = mentions_per_entity
        self.contexts_per_shared_name = contexts_per_shared_name
        self.max_entities = max_entities
        self.held_out = held_out or HeldOut()
        self.seed = seed
        self.aliases = aliases
        self.class_names = class_names
        self.use_references = use_references
        self.reference_prototypes = reference_prototypes
        self._chosen: Optional[Set[str]] = None

    def entities(self) -> Iterator[Entity]:
        """The entities of the knowledge base, in the ontology's order."""
        chosen = self._choose()
        for entity in self.ontology:
            if chosen is None or entity.id in chosen:
                yield entity

    def prototypes(self) -> Iterator[Prototype]:
        """The prototypes of these entities, entity by entity."""
        mined = {} if self.mentions is None else self.mentions.by_entity()
        shared = self._shared_names()
        classes = self._class_names()
        for entity in self.entities():
            found = self._mined(entity, mined[entity.id]) if entity.id in mined else []
            for mention in found[: self.mentions_per_entity]:
                yield Prototype(entity.id, "mention", mention.view)
            if not self.names:
                continue
            seen = set()
            for name in entity.names if self.aliases else entity.names[:1]:
                folded = fold_name(name)
                if folded in seen or self.held_out(entity, name):
                    continue
                seen.add(folded)
                contexts = found[: self.contexts_per_shared_name] if folded in shared else []
                for mention in contexts:
                    yield Prototype(entity.id, "replaced", mention.view._replace(mention=name))
                owner = shared.get(folded)
                if owner == entity.id or (owner is None and not contexts):
                    yield Prototype(entity.id, "name", name_view(name))
            for word in classes.get(entity.id, ()):
                yield Prototype(entity.id, "class", name_view(word))

    def references(self, parts: ReferenceParts) -> Iterator[Tuple[str, View]]:
        """Id and reference of each of these entities; held-out names are not shown."""
        for entity in self.entities():
            names = [name for name in entity.names if not self.held_out(entity, name)]
            yield entity.id, reference_view(entity, parts, names)

    def _shared_names(self) -> Dict[str, Optional[str]]:
        """Folded shared name → the one bearer whose preferred name it is, if there is exactly one."""
        owners: Dict[str, Optional[str]] = {}
        for folded, ids in self.ontology.shared_names():
            preferring = [id_ for id_ in ids if fold_name(self.ontology.get(id_).name) == folded]
            owners[folded] = preferring[0] if len(preferring) == 1 else None
        return owners

    def _class_names(self) -> Dict[str, List[str]]:
        """The words for each class."""
        found: Dict[str, List[str]] = {}
        if self.names and self.class_names:
            for word, row in class_names(self.ontology).items():
                found.setdefault(self.ontology.ids[row], []).append(word)
        return found

    def _mined(self, entity: Entity, places: range) -> List[MinedMention]:
        """Up to as many of the entity's mentions as are needed, chosen and ordered by seeded hash.

        places: where its mentions stand among all. Of one entity at a time, because all of them fill the memory."""
        wanted = max(self.mentions_per_entity, self.contexts_per_shared_name if self.names else 0)
        if self.mentions is None or not wanted:
            return []
        mentions = self.mentions[places.start : places.stop]
        if self.held_out.fraction:
            mentions = [mention for mention in mentions if not self.held_out(entity, mention.name)]
        # Stable: those of one hash stay in the order they come in.
        mentions.sort(key=lambda mention: stable_hash(self.seed, mention.doc, mention.start, mention.entity))
        return mentions[:wanted]

    def _choose(self) -> Optional[Set[str]]:
        if not self.max_entities or self.max_entities >= len(self.ontology):
            return None
        if self._chosen is None:
            needed: Set[str] = set()
            for mention in self.mentions or ():
                if self.held_out(self.ontology.get(mention.entity), mention.name):
                    needed.add(mention.entity)
            others = (id_ for id_ in self.ontology.ids if id_ not in needed)
            ranked = sorted(others, key=lambda id_: stable_hash(self.seed, id_))
            self._chosen = needed | set(ranked[: max(0, self.max_entities - len(needed))])
        return self._chosen


def make_prototype_source(
    ontology: Path,
    mentions: Optional[Path] = None,
    names: bool = True,
    mentions_per_entity: int = 16,
    contexts_per_shared_name: int = 8,
    max_entities: int = 0,
    held_out: float = 0.0,
    seed: int = 0,
    aliases: bool = True,
    class_names: bool = True,
    use_references: bool = True,
    reference_prototypes: bool = False,
) -> Callable[[], PrototypeSource]:
    """Registered in misc as `spacy-krissel.PrototypeSource.v1`; see `PrototypeSource`."""
    check_limits(mentions_per_entity, contexts_per_shared_name, max_entities)
    HeldOut.checked(held_out, seed)
    return partial(
        open_prototype_source,
        ontology,
        mentions,
        names=names,
        mentions_per_entity=mentions_per_entity,
        contexts_per_shared_name=contexts_per_shared_name,
        max_entities=max_entities,
        held_out=held_out,
        seed=seed,
        aliases=aliases,
        class_names=class_names,
        use_references=use_references,
        reference_prototypes=reference_prototypes,
    )


def open_prototype_source(
    ontology: Path, mentions: Optional[Path], *, held_out: float, seed: int, **settings: Any
) -> PrototypeSource:
    shards = None if mentions is None else MentionShards(mentions)
    checked = HeldOut.checked(held_out, seed)
    return PrototypeSource(OntologyStore(ontology), shards, held_out=checked, seed=seed, **settings)


def check_limits(mentions_per_entity: int, contexts_per_shared_name: int, max_entities: int) -> None:
    """Raises KrisselError K006 for a limit below 0, which a slice would take for a place from the end."""
    limits = {
        "mentions_per_entity": mentions_per_entity,
        "contexts_per_shared_name": contexts_per_shared_name,
        "max_entities": max_entities,
    }
    for setting, value in limits.items():
        if value < 0:
            raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="0 or more"))


def make_ontology_loader(path: Path) -> Callable[[], OntologyStore]:
    """Registered in misc as `spacy-krissel.OntologyFromDisk.v1`: open the ontology store at `path`."""
    return partial(OntologyStore, path)

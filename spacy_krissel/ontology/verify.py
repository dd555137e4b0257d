"""Verdicts on pairs of an id and a label: which are correct, and what the others should be."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

from ..util.folding import canonical_name, to_american
from .entity import id_prefix, possible_prefixes, registered_id, spellings

Status = Literal["right", "synonym", "wrong_label", "unknown_id", "retired", "unchecked"]
STATUS_MEANINGS: dict[Status, str] = {
    "right": "the label is the preferred name of the id's entity, or there is no label",
    "synonym": "the label is another name of that entity",
    "wrong_label": "the label is no name of that entity; the message says which entity has it",
    "unknown_id": "the id is no entity's; the message says which entity has the label",
    "retired": "the id was replaced, merged or split; the message says what it is now",
    "unchecked": "the vocabulary has no ids with this prefix",
}
# Statuses that a person or `--fix` must look at.
FINDINGS: tuple[Status, ...] = ("wrong_label", "unknown_id", "retired")
# Maximum entities listed per verdict; more of them share a name only by mistake.
MAX_MEANT = 5


class Vocabulary(Protocol):
    """An ontology store or a knowledge base."""

    def owners(self, id: str) -> list[str]:
        """Return the primary ids of the entities that an id leads to, in any usual spelling."""

    def with_name(self, name: str) -> list[str]:
        """Return the primary ids of the entities with this name in canonical form."""

    def names_of(self, id: str) -> Sequence[str]:
        """Return the names of the entity with this id, the preferred one first."""

    @property
    def id_prefixes(self) -> frozenset[str]:
        """Return the prefixes of the primary ids (`id_prefix`)."""

    def inactive_name(self, id: str) -> str | None:
        """Return the name of a former entity that nothing replaces; None if there is none."""


class Named(NamedTuple):
    """An entity: its primary id and preferred name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a pair.

    id, label: as stated; the label may be "".
    status: "right": the label is the entity's preferred name in canonical form, or there is no
        label; "synonym": it is another of its names; "wrong_label": it is none of them;
        "unknown_id": no entity has the id; "retired": the id is an alternative one of entities
        with the same prefix, or of a former entity; "unchecked": the vocabulary has no id with
        this prefix.
    entities: those that the id leads to: one, or several if it was split, or none.
    meant: other entities that have the label as a name.
    fits: whether the label is a name of one of `entities`, which then lists only those with that
        name.
    """

    id: str
    label: str
    status: Status
    entities: tuple[Named, ...] = ()
    meant: tuple[Named, ...] = ()
    fits: bool = False

    @property
    def is_finding(self) -> bool:
        return self.status in FINDINGS

    @property
    def message(self) -> str:
        """Return the verdict in one sentence; "" for a correct pair."""
        leads = _listed(self.entities)
        own = (
            repr(self.entities[0].name) if self.id in {each.id for each in self.entities} else leads
        )
        meant = f"; {self.label!r} is {_listed(self.meant)}" if self.meant else ""
        label = f" ({self.label!r})" if self.label else ""
        return {
            "right": "",
            "synonym": f"{self.label!r} is another name of {leads}",
            "wrong_label": f"{self.id} is {own}, not {self.label!r}{meant}",
            "unknown_id": f"{self.id}{label} is the id of no entity{meant}",
            "retired": f"{self.id}{label} is retired: "
            + (f"it is now {leads}" if self.entities else "nothing replaces it")
            + meant,
            "unchecked": f"{self.id}{label}: the vocabulary has no id with this prefix",
        }[self.status]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields and the message as JSON."""
        fields = asdict(self)
        for key in ("entities", "meant"):
            fields[key] = [each._asdict() for each in getattr(self, key)]
        return {**fields, "message": self.message}


def verify_pair(vocabulary: Vocabulary, id: str, label: str = "") -> Verdict:
    """Return the verdict on an id and a label.

    vocabulary: an `OntologyStore` or a `PrototypeKB`.
    """
    return verify_with([vocabulary], id, label)


def verify_with(vocabularies: Sequence[Vocabulary], id: str, label: str = "") -> Verdict:
    """Return the verdict of the first vocabulary that knows the id, else of the first that has ids
    with its prefix."""
    id, label = id.strip(), " ".join(label.split())
    verdict = _first_verdict(vocabularies, id, label, id)
    if verdict.status == "unchecked" and (spelt := registered_id(id)):
        # Addresses of other servers, and other names of the prefix.
        verdict = _first_verdict(vocabularies, id, label, spelt)
    return verdict


def _first_verdict(vocabularies: Sequence[Vocabulary], id: str, label: str, spelt: str) -> Verdict:
    verdict = Verdict(id, label, "unchecked")
    for vocabulary in vocabularies:
        if ids := vocabulary.owners(spelt):
            return _with_entities(vocabulary, id, label, ids, spelt)
        if vocabulary.inactive_name(spelt) is not None:
            return Verdict(id, label, "retired", (), _meant(vocabulary, label, ()))
        is_its = not vocabulary.id_prefixes.isdisjoint(possible_prefixes(spelt))
        if is_its and verdict.status == "unchecked":
            verdict = Verdict(id, label, "unknown_id", (), _meant(vocabulary, label, ()))
    return verdict


def _with_entities(
    vocabulary: Vocabulary, id: str, label: str, ids: Sequence[str], spelt: str
) -> Verdict:
    """Return the verdict on an id that leads to entities. spelt: the id, or another spelling."""
    forms = _forms(label)
    names = {each: vocabulary.names_of(each) for each in ids}
    fitting = [
        each for each in ids if any(not forms.isdisjoint(_forms(name)) for name in names[each])
    ]
    entities = tuple(Named(each, names[each][0]) for each in fitting or ids)
    meant = () if fitting else _meant(vocabulary, label, ids)
    fits = bool(fitting)
    if len(ids) > 1 or _is_retired(spelt, ids[0]):
        return Verdict(id, label, "retired", entities, meant, fits)
    if label and not fits:
        return Verdict(id, label, "wrong_label", entities, meant)
    is_preferred = not label or not forms.isdisjoint(_forms(entities[0].name))
    return Verdict(id, label, "right" if is_preferred else "synonym", entities, (), fits)


def _is_retired(id: str, primary: str) -> bool:
    """Return whether an id that leads to an entity is a former one. Others are its ids in other
    vocabularies, or other spellings."""
    if primary in spellings(id):
        return False
    return id_prefix(primary) in possible_prefixes(id)


@lru_cache(maxsize=1 << 14)
def _forms(name: str) -> frozenset[str]:
    """Return the forms of which equal names share one."""
    form = canonical_name(name)
    return frozenset({form, to_american(form)} - {""})


def _meant(vocabulary: Vocabulary, label: str, without: Sequence[str]) -> tuple[Named, ...]:
    if not label:
        return ()
    found = vocabulary.with_name(label) or vocabulary.with_name(to_american(label))
    return tuple(_named(vocabulary, each) for each in found if each not in without)[:MAX_MEANT]


def _named(vocabulary: Vocabulary, id: str) -> Named:
    return Named(id, vocabulary.names_of(id)[0])


def _listed(entities: Sequence[Named]) -> str:
    return " or ".join(f"{each.id} ({each.name})" for each in entities)

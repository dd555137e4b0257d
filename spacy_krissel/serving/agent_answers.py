"""Answers of the tools of agents, whose descriptions agents read."""

from pydantic import BaseModel, Field

# Maximum number of synonyms and cross-references of an entity that are listed.
MAX_LISTED = 20


class Named(BaseModel):
    """An entity."""

    id: str
    name: str


class Link(Named):
    """An entity that a text may mean."""

    vocabulary: str
    confidence: float | None = Field(
        None, description="Probability that this entity is meant; null: the linker has none"
    )
    found_by: str = Field(
        "",
        description="How the text fits a name of the entity: label (preferred name), synonym, "
        "spelling, abbreviation, variant, mention (annotated before), similar, context (no name)",
    )
    matched_name: str = Field("", description="The name that fits")
    definition: str = ""


class Mention(BaseModel):
    """A mention, characters `start` to `end` of the text."""

    text: str
    start: int
    end: int
    links: list[Link] = Field(description="One per vocabulary that has an entity for it")


class Annotation(BaseModel):
    """The linked mentions of a text, in its order."""

    mentions: list[Mention]
    omitted: int = Field(
        0, description="Number of further linked mentions; annotate less at a time"
    )
    unlinked: int = Field(0, description="Number of mentions without an entity")


class Grounding(BaseModel):
    """The entities that a term means: one per vocabulary that has one, most confident first."""

    term: str
    links: list[Link]


class Candidates(BaseModel):
    """Entities that a term may mean, most confident first in each vocabulary."""

    term: str
    candidates: list[Link]


class Verdict(BaseModel):
    """Verdict on an id and its label."""

    id: str
    label: str
    status: str = Field(
        description="right; synonym (right, by another name); wrong_label; unknown_id; retired; "
        "unchecked (no vocabulary has ids with this prefix)"
    )
    message: str = Field(description='What is wrong, and what it should be; "" if right')
    entities: list[Named] = Field(description="What the id is, or what replaces it")
    meant: list[Named] = Field(description="Entities that have the label as a name")
    fits: bool = Field(description="The label is a name of one of the entities")
    vocabulary: str


class Entity(Named):
    """An entity with its names and definition."""

    vocabulary: str
    definition: str
    synonyms: list[str] = Field(description=f"At most {MAX_LISTED}")
    types: list[str]
    xrefs: list[str] = Field(description=f"Ids in other vocabularies, at most {MAX_LISTED}")
    replaces: bool = Field(False, description="The id that was asked for is a former one of it")
    url: str


class Hit(Named):
    """An entity with a similar name."""

    vocabulary: str
    matched_name: str
    types: list[str]


class Hits(BaseModel):
    """Entities with similar names, best first in each vocabulary."""

    hits: list[Hit]


class Relatives(Named):
    """Entities directly above or below an entity."""

    vocabulary: str
    related: list[Named]
    total: int = Field(description="Number of them, of which the first are listed")

"""The settings of `krissel_span_extractor`, checked when they are set."""

from dataclasses import dataclass
from typing import Annotated, Literal, Optional

from pydantic import Field

from ..linker.settings import Count, Fraction, Settings


@dataclass(frozen=True)
class ExtractorSettings(Settings):
    """
    spans_key: the group of `doc.spans` that the pieces of found entities are written to.
    candidates: which entities are looked for: "doc", those of `doc._.krissel_entity_candidates` alone; "all", those of
        the knowledge base; "retrieved", the nearest to the runs of words in the text; "auto", those of the doc where it
        names any, else all where the knowledge base has at most `max_all` names, else the nearest.
    max_all: names.
    n_retrieved: entities for each run of words, of one to `longest_run` words.
    threshold: the least probability, 0 to 1, of an entity that is found; null finds every candidate.
    attention_threshold: the least share, 0 to 1, of a token in the attention; 0.05 in the paper.
    max_entities: the most probable ones of a text; 0 for all.
    label: of the spans.
    """

    spans_key: Annotated[str, Field(min_length=1)] = "krissel_entities"
    candidates: Literal["auto", "doc", "all", "retrieved"] = "auto"
    max_all: Count = 20_000
    n_retrieved: Annotated[int, Field(ge=1)] = 8
    longest_run: Annotated[int, Field(ge=1)] = 4
    threshold: Optional[Fraction] = 0.5
    attention_threshold: Fraction = 0.05
    max_entities: Count = 0
    label: str = "ENTITY"

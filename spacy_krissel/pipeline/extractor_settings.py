"""The settings of `krissel_span_extractor`, checked when they are set."""

from dataclasses import dataclass
from typing import Optional

from ..errors import Errors, KrisselError

CANDIDATES = ("auto", "doc", "all", "retrieved")


@dataclass(frozen=True)
class ExtractorSettings:
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

    spans_key: str = "krissel_entities"
    candidates: str = "auto"
    max_all: int = 20_000
    n_retrieved: int = 8
    longest_run: int = 4
    threshold: Optional[float] = 0.5
    attention_threshold: float = 0.05
    max_entities: int = 0
    label: str = "ENTITY"

    def __post_init__(self) -> None:
        if not self.spans_key:
            self._refuse("spans_key", "the name of a group of spans")
        if self.candidates not in CANDIDATES:
            self._refuse("candidates", f"one of {', '.join(CANDIDATES)}")
        for setting in ("n_retrieved", "longest_run"):
            if getattr(self, setting) < 1:
                self._refuse(setting, "at least 1")
        for setting in ("max_all", "max_entities"):
            if getattr(self, setting) < 0:
                self._refuse(setting, "0 or more")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            self._refuse("threshold", "a number from 0 to 1, or null for every candidate")
        if not 0 <= self.attention_threshold <= 1:
            self._refuse("attention_threshold", "a number from 0 to 1")

    def _refuse(self, setting: str, expected: str) -> None:
        raise KrisselError(Errors.K006.format(setting=setting, found=getattr(self, setting), expected=expected))

"""The settings of `krissel_linker` that may change on a loaded pipeline, checked in one place."""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ..corpora.sentences import CONTEXTS
from ..errors import Errors, KrisselError


@dataclass(frozen=True)
class LinkerSettings:
    """
    spans_key: link `doc.spans[spans_key]`; "" links `doc.ents`.
    n_candidates: candidates kept on `span._.krissel_candidates`; 0 keeps none.
    threshold: a best score below this is written as "NIL"; None links every mention. `krissel calibrate` fits it;
        to load what it fitted without it, give a number below every score, such as -1000: to the pipeline's config the
        fitted one is a change made later, as on a loaded pipe, and null no other value than it had.
    use_context: encode the mention in its context; False encodes the name alone.
    context: what that is: "window", the text about the mention, or "sentence", its sentence with all of its mentions,
        which encoders with `units` read in one pass.
    use_abbreviations: write out the abbreviations in a mention that the doc defines: in `doc._.abbreviations` where a
        component set it, else in its text (`find_definitions`).
    american_spelling: read British spellings as American ones ("haemorrhage") wherever a mention or name is encoded: a
        change leaves the names of a finished knowledge base as they are. `lexical_weight` compares so in any case.
    lexical_weight: add so many times the similarity in spelling, 0 to 1, of the mention and an entity's nearest surface
        form to the entity's score. In units of that score, which is a cosine where the encoder normalises; 0 is off.
    gold_name_weight: where gold mentions are prototypes, the share, 0 to 1, of a mention's text alone in its
        similarity with each; the rest is that of the mention in its context. 0 is off.
    gold_prior: add so much to the score of each entity that gold mentions name: what was annotated once is likelier to
        be annotated again. In units of the score; 0 is off. Neither counts for a text that several entities are called.
    consistency: let mentions of one form in a doc, an abbreviation and its long form included, have the link of the
        surest of them, unless that entity scores more than this below a mention's own best; 0 is off.
    break_ties: between entities that have the best name in common, the one whose next name is nearest; else the link is
        the first of them, by its id, and counts as wrong in evaluations (`span._.krissel_ties`).
    overwrite: replace a `kb_id_` that a span already has.
    types: link to entities of one of these semantic types alone; empty for all.
    types_by_label: the same for spans of one label; a label that is not named here falls back on `types`.
    species_label: spans of this label are mentions of species, by their text, or by `kb_id_` where they are linked;
        other mentions link to entities of the species that their document speaks of (`assigned_species`) where the
        knowledge base has any of it. "" is off.
    """

    spans_key: str = ""
    n_candidates: int = 5
    threshold: Optional[float] = None
    use_context: bool = True
    context: str = "window"
    use_abbreviations: bool = True
    american_spelling: bool = True
    lexical_weight: float = 0.0
    gold_name_weight: float = 0.5
    gold_prior: float = 0.03
    consistency: float = 0.0
    break_ties: bool = True
    overwrite: bool = True
    types: List[str] = field(default_factory=list)
    types_by_label: Dict[str, List[str]] = field(default_factory=dict)
    species_label: str = ""

    def __post_init__(self) -> None:
        if self.n_candidates < 0:
            self._refuse("n_candidates", "0 or more")
        if self.threshold is not None and self.threshold != self.threshold:
            self._refuse("threshold", "a number, or null to link every mention")
        if self.context not in CONTEXTS:
            self._refuse("context", f"one of {', '.join(CONTEXTS)}")
        if not 0 <= self.gold_name_weight <= 1:
            self._refuse("gold_name_weight", "a number from 0 to 1")
        for setting in ("lexical_weight", "gold_prior", "consistency"):
            if not 0 <= getattr(self, setting) < float("inf"):
                self._refuse(setting, "a number, 0 or more")

    def _refuse(self, setting: str, expected: str) -> None:
        raise KrisselError(Errors.K006.format(setting=setting, found=getattr(self, setting), expected=expected))

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


class LiveSettings(Dict[str, Any]):
    """The settings of a pipe as its `cfg`: a dict that takes no other key than theirs, and no wrong value.

    settings: a dataclass that checks its values, such as `LinkerSettings`.
    given: what the config said; None: `settings`.
    Raises KrisselError K607 for an unknown setting, K006 for a wrong value.
    """

    def __init__(self, name: str, settings: Any, given: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(asdict(settings))
        self._given = dict(self) if given is None else given
        self._name = name
        self._class = type(settings)

    def __setitem__(self, setting: str, value: Any) -> None:
        if setting not in self:
            raise KrisselError(Errors.K607.format(name=self._name, setting=setting, known=", ".join(self)))
        self._class(**{**self, setting: value})
        super().__setitem__(setting, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        # `dict.update` does not ask `__setitem__`; neither do the two below.
        for setting, value in dict(*args, **kwargs).items():
            self[setting] = value

    def __ior__(self, other: Any) -> "LiveSettings":  # type: ignore[override, misc]
        self.update(other)
        return self

    def setdefault(self, setting: str, default: Any = None) -> Any:
        if setting not in self:
            self[setting] = default
        return self[setting]

    def __reduce__(self) -> Tuple[Any, ...]:
        return LiveSettings, (self._name, self._class(**self), self._given)

    def saved(self) -> Dict[str, Any]:
        """What `restore` reads: the settings, and what the config said when the pipe was made."""
        return {"settings": self, "given": self._given}

    def restore(self, saved: Dict[str, Any]) -> None:
        """Take what was changed on a pipe before it was saved, unless the config now says something else than it did
        then: `spacy.load(path, config={"components.krissel_linker.threshold": 0.5})` must have its way."""
        for setting, value in saved["settings"].items():
            if setting in self and self._given[setting] == saved["given"].get(setting):
                self[setting] = value

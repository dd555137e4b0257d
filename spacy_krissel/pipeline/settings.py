"""The settings of `krissel_linker` that may change on a loaded pipeline, and how those of any pipe are checked."""

import copy
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..errors import Errors, KrisselError

# No text for a number, no number for true or false, and nothing that JSON cannot hold.
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
NAMES: Dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    List[str]: "a list of texts",
    Dict[str, List[str]]: "a dictionary of lists of texts",
}
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Settings:
    """A base for dataclasses of settings, whose annotations are types and bounds at once.

    NumPy's numbers and arrays, tuples and sets become plain numbers and lists, so that they can be saved.
    Raises KrisselError K006 for a value of another type, or out of bounds.
    """

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, (type_, adapter) in _declared(cls).items():
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, adapter.validate_python(_plain(value)))
            except (ValidationError, RecursionError):
                raise KrisselError(Errors.K006.format(setting=name, found=value, expected=_expected(type_))) from None


@cache
def _declared(cls: Any) -> Dict[str, Tuple[Any, TypeAdapter]]:
    types = get_type_hints(cls, include_extras=True)
    return {each.name: (types[each.name], TypeAdapter(types[each.name], config=STRICT)) for each in fields(cls)}


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _expected(type_: Any) -> str:
    """What a declared type takes, in words."""
    if type_ in NAMES:
        return NAMES[type_]
    origin, args = get_origin(type_), get_args(type_)
    if origin is Union:
        return f"{_expected(args[0])}, or null"
    if origin is Literal:
        return f"one of {', '.join(args)}"
    bounds = {type(each).__name__: each for field_ in args[1:] for each in field_.metadata}
    if "MinLen" in bounds:
        return "text that is not empty"
    if "Gt" in bounds:
        return f"{_expected(args[0])} above {bounds['Gt'].gt}"
    low = bounds["Ge"].ge
    return (
        f"{_expected(args[0])} from {low} to {bounds['Le'].le}"
        if "Le" in bounds
        else f"{_expected(args[0])}, {low} or more"
    )


@dataclass(frozen=True)
class LinkerSettings(Settings):
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
    n_candidates: Count = 5
    threshold: Optional[float] = None
    use_context: bool = True
    context: Literal["window", "sentence"] = "window"
    use_abbreviations: bool = True
    american_spelling: bool = True
    lexical_weight: NotNegative = 0.0
    gold_name_weight: Fraction = 0.5
    gold_prior: NotNegative = 0.03
    consistency: NotNegative = 0.0
    break_ties: bool = True
    overwrite: bool = True
    types: List[str] = field(default_factory=list)
    types_by_label: Dict[str, List[str]] = field(default_factory=dict)
    species_label: str = ""


@dataclass(frozen=True)
class RerankerSettings(Settings):
    """
    enabled: False leaves every link, candidate and score as the linker wrote them.
    weight: how much of a correction counts; 0 is the same as `enabled = False`.
    temperature: the linker's scores divided by it are log-odds; None, until `initialize` has fitted it to the linker.
    top_k: so many candidates are re-ranked, the rest stay behind them.
    use_abbreviations: write out the abbreviations in a mention, as for `krissel_linker`.
    spans_key: re-rank the spans of `doc.spans[spans_key]`; "" those of `doc.ents`.
    nil_score: the score with which NIL stands among the candidates: a mention whose best candidate has less,
        corrections included, is NIL. None: NIL is no candidate, until `initialize` has fitted it where the objective's
        `p_nil` asks for it.
    """

    enabled: bool = True
    weight: NotNegative = 1.0
    temperature: Optional[Annotated[float, Field(gt=0)]] = None
    top_k: Annotated[int, Field(ge=2)] = 32
    use_abbreviations: bool = True
    spans_key: str = ""
    nil_score: Optional[float] = None


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


class LiveSettings(Dict[str, Any]):
    """The settings of a pipe as its `cfg`: a dict that takes no other key than theirs, loses none, and takes no wrong
    value. A list or dictionary may be changed in place, and is checked when it is used or saved.

    settings: a dataclass that checks its values (`Settings`).
    given: what the config said; None: `settings`.
    Raises KrisselError K607 for an unknown setting, K006 for a wrong value, K661 for one that is taken out.
    """

    def __init__(self, name: str, settings: Any, given: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(asdict(settings))
        # Nothing of it is changed in place with the settings.
        self._given = copy.deepcopy(dict(self)) if given is None else given
        self._name = name
        self._class = type(settings)

    def checked(self, **changed: Any) -> Any:
        """The settings as they are now, and as they would be after a change. Raises KrisselError K006."""
        return self._class(**{**self, **changed})

    def __setitem__(self, setting: str, value: Any) -> None:
        if setting not in self:
            raise KrisselError(Errors.K607.format(name=self._name, setting=setting, known=", ".join(self)))
        super().__setitem__(setting, getattr(self.checked(**{setting: value}), setting))

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

    def __delitem__(self, setting: str) -> None:
        self._keep(setting)

    def pop(self, setting: str, *default: Any) -> Any:
        self._keep(setting)

    def popitem(self) -> Any:
        self._keep(next(reversed(self)))

    def clear(self) -> None:
        self._keep(next(iter(self)))

    def _keep(self, setting: str) -> None:
        raise KrisselError(Errors.K661.format(name=self._name, setting=setting))

    def __reduce__(self) -> Tuple[Any, ...]:
        return LiveSettings, (self._name, self.checked(), self._given)

    def saved(self) -> Dict[str, Any]:
        """What `restore` reads: the settings, and what the config said when the pipe was made."""
        return {"settings": asdict(self.checked()), "given": self._given}

    def restore(self, saved: Dict[str, Any]) -> None:
        """Take what was changed on a pipe before it was saved, unless the config now says something else than it did
        then: `spacy.load(path, config={"components.krissel_linker.threshold": 0.5})` must have its way."""
        for setting, value in saved["settings"].items():
            if setting in self and self._given[setting] == saved["given"].get(setting):
                self[setting] = value

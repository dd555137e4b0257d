"""The settings of `krissel_linker` that may change on a loaded pipeline, checked in one place."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Dict, List, Optional

from ..errors import Errors, KrisselError


@dataclass(frozen=True)
class LinkerSettings:
    """
    spans_key: link `doc.spans[spans_key]`; "" links `doc.ents`.
    n_candidates: candidates kept on `span._.krissel_candidates`; 0 keeps none.
    threshold: a best score below this is written as "NIL"; None links every mention.
    use_context: encode the mention in its context; False encodes the name alone.
    use_abbreviations: link an abbreviation by the long form that `doc._.abbreviations` gives it.
    overwrite: replace a `kb_id_` that a span already has.
    types: link to entities of one of these semantic types alone; empty for all.
    types_by_label: the same for spans of one label; a label that is not named here falls back on `types`.
    """

    spans_key: str = ""
    n_candidates: int = 5
    threshold: Optional[float] = None
    use_context: bool = True
    use_abbreviations: bool = True
    overwrite: bool = True
    types: List[str] = field(default_factory=list)
    types_by_label: Dict[str, List[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_candidates < 0:
            self._refuse("n_candidates", "0 or more")
        if self.threshold is not None and self.threshold != self.threshold:
            self._refuse("threshold", "a number, or null to link every mention")

    def _refuse(self, setting: str, expected: str) -> None:
        raise KrisselError(Errors.K006.format(setting=setting, found=getattr(self, setting), expected=expected))

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


SETTINGS = tuple(field_.name for field_ in fields(LinkerSettings))

"""The settings of `krissel_reranker` that may change on a loaded pipeline."""

from dataclasses import dataclass
from typing import Optional

from ..errors import Errors, KrisselError


@dataclass(frozen=True)
class RerankerSettings:
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
    weight: float = 1.0
    temperature: Optional[float] = None
    top_k: int = 32
    use_abbreviations: bool = True
    spans_key: str = ""
    nil_score: Optional[float] = None

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            self._refuse("weight", "0 or more")
        if self.temperature is not None and not self.temperature > 0:
            self._refuse("temperature", "a number above 0, or null to fit it to the linker")
        if self.top_k < 2:
            self._refuse("top_k", "at least 2 candidates")
        if self.nil_score is not None and not abs(self.nil_score) < float("inf"):
            self._refuse("nil_score", "a number, or null for no NIL candidate")

    def _refuse(self, setting: str, expected: str) -> None:
        raise KrisselError(Errors.K006.format(setting=setting, found=getattr(self, setting), expected=expected))

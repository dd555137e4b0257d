"""The settings of `krissel_reranker` that may change on a loaded pipeline."""

from dataclasses import dataclass
from typing import Annotated, Optional

from pydantic import Field

from ..linker.settings import NotNegative, Settings


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

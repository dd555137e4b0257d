"""The catalogue of everything this package can complain about, one file per package.

Every message has a code, says what was expected, what was found and what to do. Codes are stable: tests and users
may search for them. `K…` are errors, `KW…` are warnings.
"""

from typing import Any

from .corpora import CorporaErrors, CorporaWarnings
from .encoding import EncodingErrors, EncodingWarnings
from .evaluation import EvaluationErrors, EvaluationWarnings
from .general import GeneralErrors, GeneralWarnings, KrisselError, KrisselWarning
from .kb import KBErrors, KBWarnings
from .mining import MiningErrors, MiningWarnings
from .ontology import OntologyErrors, OntologyWarnings
from .pipeline import PipelineErrors, PipelineWarnings

__all__ = ["Errors", "KrisselError", "KrisselWarning", "Warnings", "wrong_setting"]


class Errors(
    GeneralErrors,
    OntologyErrors,
    CorporaErrors,
    MiningErrors,
    EncodingErrors,
    KBErrors,
    PipelineErrors,
    EvaluationErrors,
):
    """All error messages; `Errors.K101.format(...)`."""


class Warnings(
    GeneralWarnings,
    OntologyWarnings,
    CorporaWarnings,
    MiningWarnings,
    EncodingWarnings,
    KBWarnings,
    PipelineWarnings,
    EvaluationWarnings,
):
    """All warning messages; `Warnings.KW101.format(...)`."""


def wrong_setting(setting: str, found: Any, expected: str) -> KrisselError:
    """Return the error K006. expected: in words."""
    return KrisselError(Errors.K006.format(setting=setting, found=found, expected=expected))

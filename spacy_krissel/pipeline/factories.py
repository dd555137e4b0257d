"""Factories of the components: forward the config, import nothing heavy.

spaCy imports every `spacy_factories` entry point in `Language.__init__`. Each `spacy.blank()` with
this package installed therefore imports this module. The components are imported when they are
made.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature
from typing import Any
from typing import get_type_hints as type_hints

from spacy.language import Language
from thinc.api import Model

from ..mentions import annotations as annotations
from ..util.settings import Settings
from .settings import (
    LINKER,
    ExtractorSettings,
    FinderSettings,
    LinkerSettings,
    RerankerSettings,
)

# Parts in a component's config besides its settings: for any component, and with a knowledge base.
PARTS: dict[str, Any] = {"model": Model, "objective": Any | None, "scorer": Callable | None}
KB_PARTS: dict[str, Any] = {**PARTS, "generate_empty_kb": Callable, "kb_path": str | None}
LINKER_PARTS: dict[str, Any] = {**KB_PARTS, "terms": dict[str, Any]}


def with_config(
    parts: dict[str, Any], declared: type[Settings]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a factory so that spaCy sees `nlp`, `name`, the parts and each setting as
    parameters.
    The factory itself receives the settings as one object.
    """
    # Without bounds: the config's type check does not know them.
    types = type_hints(declared)
    annotations = {"nlp": Language, "name": str, **parts, **types}
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=type_)
        for name, type_ in annotations.items()
    ]

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def factory(**config: Any) -> Any:
            settings = declared(**{name: config.pop(name) for name in types})
            return make(**config, settings=settings)

        factory.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return factory

    return decorate


@Language.factory(
    "krissel_finder",
    assigns=["doc.ents", "doc.spans", f"span._.{annotations.FOUND}"],
    default_config={"linker": LINKER, **FinderSettings()},
)
@with_config({"linker": str}, FinderSettings)
def make_krissel_finder(nlp: Language, **parts: Any) -> Any:
    """Make a `KrisselFinder`."""
    from .finder import KrisselFinder

    return KrisselFinder(nlp.vocab, nlp=nlp, **parts)


LINKER_CONFIG: dict[str, Any] = {
    "model": {"@architectures": "spacy-krissel.SmallEncoder.v1"},
    "objective": {
        "@misc": "spacy-krissel.ContrastiveObjective.v1",
        "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1", "temperature": 0.05},
        "p_mask": 0.2,
        "p_replace": 0.2,
    },
    "generate_empty_kb": {
        "@misc": "spacy-krissel.EmptyKB.v1",
        # None: the index saved with the knowledge base; exact for a new one.
        "index": None,
    },
    "kb_path": None,
    # Additional terms of the score, by name (`pipeline/linker/terms`).
    "terms": {},
    "scorer": {"@scorers": "spacy-krissel.LinkScorer.v1"},
    **LinkerSettings(),
}


@Language.factory(
    "krissel_linker",
    # Reads `doc.ents`, or `doc.spans[spans_key]`; the default is declared.
    requires=["doc.ents"],
    assigns=[
        "token.ent_kb_id",
        "doc.spans",
        *(f"span._.{name}" for name in annotations.SPAN_EXTENSIONS[:2]),
    ],
    default_config=LINKER_CONFIG,
    default_score_weights={
        "krissel_acc": 1.0,
        "krissel_span_f": None,
        "krissel_span_p": None,
        "krissel_span_r": None,
        "krissel_nil_p": None,
        "krissel_nil_r": None,
        "krissel_nil_f": None,
    },
)
@with_config(LINKER_PARTS, LinkerSettings)
def make_krissel_linker(nlp: Language, **parts: Any) -> Any:
    """Make a `KrisselLinker`."""
    from .linker.component import KrisselLinker

    return KrisselLinker(nlp.vocab, **parts)


RERANKER_CONFIG: dict[str, Any] = {
    "model": {
        "@architectures": "spacy-krissel.ListCrossEncoder.v1",
        "encoder": {"@architectures": "spacy-krissel.SmallEncoder.v1"},
    },
    "objective": {
        "@misc": "spacy-krissel.RerankObjective.v1",
        "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1"},
    },
    "linker": "krissel_linker",
    "max_names": 8,
    "tree_numbers": True,
    "scorer": {"@scorers": "spacy-krissel.LinkScorer.v1"},
    **RerankerSettings(),
}


@Language.factory(
    "krissel_reranker",
    requires=["doc.ents", "token.ent_kb_id"],
    assigns=["token.ent_kb_id", "doc.spans"],
    default_config=RERANKER_CONFIG,
    default_score_weights={"krissel_acc": 1.0},
)
@with_config({**PARTS, "linker": str, "max_names": int, "tree_numbers": bool}, RerankerSettings)
def make_krissel_reranker(nlp: Language, **parts: Any) -> Any:
    """Make a `KrisselReranker`."""
    from .reranker import KrisselReranker

    return KrisselReranker(nlp.vocab, nlp=nlp, **parts)


EXTRACTOR_CONFIG: dict[str, Any] = {
    "model": {
        "@architectures": "spacy-krissel.LabelAttention.v1",
        # Scores of unit vectors need a scale. Words alone, so that a name can be encoded as their
        # mean.
        "scale": 20.0,
        "classifier": "pair",
        "tokens": {
            "@architectures": "spacy-krissel.WordStates.v1",
            "encoder": {"@architectures": "spacy-krissel.SmallEncoder.v1", "context_weight": 0.1},
        },
    },
    "objective": {
        "@misc": "spacy-krissel.LabelAttentionObjective.v1",
        "loss": {
            "@losses": "spacy-krissel.SoftmaxLoss.v1",
            "temperature": 0.07,
            "positives": "mean",
        },
        "presence_loss": {"@losses": "spacy-krissel.FocalLoss.v1"},
    },
    "generate_empty_kb": {"@misc": "spacy-krissel.EmptyKB.v1", "index": None},
    "kb_path": None,
    "scorer": {"@scorers": "spacy-krissel.EntityScorer.v1"},
    **ExtractorSettings(),
}


@Language.factory(
    "krissel_span_extractor",
    assigns=["doc.spans", "doc._.krissel_entities"],
    default_config=EXTRACTOR_CONFIG,
    default_score_weights={
        "krissel_entity_f": 1.0,
        "krissel_entity_p": None,
        "krissel_entity_r": None,
        "krissel_token_f": None,
        "krissel_token_p": None,
        "krissel_token_r": None,
    },
)
@with_config(KB_PARTS, ExtractorSettings)
def make_krissel_span_extractor(nlp: Language, **parts: Any) -> Any:
    """Make a `KrisselSpanExtractor`."""
    from .extractor import KrisselSpanExtractor

    return KrisselSpanExtractor(nlp.vocab, **parts)

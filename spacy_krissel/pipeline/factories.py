"""Factories of the components: forward the config, import nothing heavy.

spaCy imports every `spacy_factories` entry point in `Language.__init__`, so this module is paid for by each
`spacy.blank()` on a machine that has the package: the components themselves are imported when they are made.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any
from typing import get_type_hints as type_hints

from spacy.language import Language
from thinc.api import Model

from ..mentions import annotations as annotations
from ..util.settings import Settings
from .settings import ExtractorSettings, LinkerSettings, RerankerSettings


def with_settings(declared: type[Settings]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a factory that takes `settings`: it then takes each of them by itself, as the config has them."""
    # Without bounds, which are not for the config's check of types.
    types = type_hints(declared)
    fields = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=types[name]) for name in types]

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(make)
        parts = [parameter for name, parameter in signature.parameters.items() if name != "settings"]

        @wraps(make)
        def factory(**config: Any) -> Any:
            settings = declared(**{name: config.pop(name) for name in types})
            return make(**config, settings=settings)

        factory.__signature__ = signature.replace(parameters=[*parts, *fields])  # type: ignore[attr-defined]
        return factory

    return decorate


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
        # None: the index that the knowledge base was saved with; exact for a new one.
        "index": None,
    },
    "kb_path": None,
    "scorer": {"@scorers": "spacy-krissel.LinkScorer.v1"},
    **LinkerSettings(),
}


@Language.factory(
    "krissel_linker",
    # Reads `doc.ents`, or `doc.spans[spans_key]`: the default is declared.
    requires=["doc.ents"],
    assigns=["token.ent_kb_id", "doc.spans"],
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
@with_settings(LinkerSettings)
def make_krissel_linker(
    nlp: Language,
    name: str,
    model: Model,
    objective: Any | None,
    generate_empty_kb: Callable,
    kb_path: str | None,
    scorer: Callable | None,
    settings: LinkerSettings,
) -> Any:
    """Make a `KrisselLinker`."""
    from .linker.component import KrisselLinker

    return KrisselLinker(
        nlp.vocab,
        model,
        name,
        objective=objective,
        generate_empty_kb=generate_empty_kb,
        settings=settings,
        kb_path=kb_path,
        scorer=scorer,
    )


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
@with_settings(RerankerSettings)
def make_krissel_reranker(
    nlp: Language,
    name: str,
    model: Model,
    objective: Any | None,
    linker: str,
    max_names: int,
    scorer: Callable | None,
    settings: RerankerSettings,
) -> Any:
    """Make a `KrisselReranker`."""
    from .reranker.component import KrisselReranker

    return KrisselReranker(
        nlp.vocab,
        model,
        name,
        objective=objective,
        settings=settings,
        nlp=nlp,
        linker=linker,
        max_names=max_names,
        scorer=scorer,
    )


EXTRACTOR_CONFIG: dict[str, Any] = {
    "model": {
        "@architectures": "spacy-krissel.LabelAttention.v1",
        # Unit vectors, whose products need a scale; words alone, of which a mean can be taken for a name.
        "scale": 20.0,
        "classifier": "pair",
        "tokens": {
            "@architectures": "spacy-krissel.WordStates.v1",
            "encoder": {"@architectures": "spacy-krissel.SmallEncoder.v1", "context_weight": 0.1},
        },
    },
    "objective": {
        "@misc": "spacy-krissel.LabelAttentionObjective.v1",
        "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1", "temperature": 0.07, "positives": "mean"},
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
@with_settings(ExtractorSettings)
def make_krissel_span_extractor(
    nlp: Language,
    name: str,
    model: Model,
    objective: Any | None,
    generate_empty_kb: Callable,
    kb_path: str | None,
    scorer: Callable | None,
    settings: ExtractorSettings,
) -> Any:
    """Make a `KrisselSpanExtractor`."""
    from .extractor.component import KrisselSpanExtractor

    return KrisselSpanExtractor(
        nlp.vocab,
        model,
        name,
        objective=objective,
        generate_empty_kb=generate_empty_kb,
        settings=settings,
        kb_path=kb_path,
        scorer=scorer,
    )

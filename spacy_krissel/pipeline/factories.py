"""Factories of the components: forward the config, import nothing heavy.

spaCy imports every `spacy_factories` entry point in `Language.__init__`, so this module is paid for by each
`spacy.blank()` on a machine that has the package: the components themselves are imported when they are made.
"""

from typing import Any, Callable, Dict, List, Literal, Optional

from spacy.language import Language
from thinc.api import Model

from ..mentions import annotations as annotations

DEFAULT_CONFIG: Dict[str, Any] = {
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
    "spans_key": "",
    "n_candidates": 5,
    "threshold": None,
    "use_context": True,
    "context": "window",
    "use_abbreviations": True,
    "american_spelling": True,
    "lexical_weight": 0.0,
    "gold_name_weight": 0.5,
    "gold_prior": 0.03,
    "consistency": 0.0,
    "break_ties": True,
    "overwrite": True,
    "types": [],
    "types_by_label": {},
    "species_label": "",
    "scorer": {"@scorers": "spacy-krissel.LinkScorer.v1"},
}


@Language.factory(
    "krissel_linker",
    # Reads `doc.ents`, or `doc.spans[spans_key]`: the default is declared.
    requires=["doc.ents"],
    assigns=["token.ent_kb_id", "doc.spans"],
    default_config=DEFAULT_CONFIG,
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
def make_krissel_linker(
    nlp: Language,
    name: str,
    model: Model,
    objective: Optional[Any],
    generate_empty_kb: Callable,
    kb_path: Optional[str],
    spans_key: str,
    n_candidates: int,
    threshold: Optional[float],
    use_context: bool,
    context: Literal["window", "sentence"],
    use_abbreviations: bool,
    american_spelling: bool,
    lexical_weight: float,
    gold_name_weight: float,
    gold_prior: float,
    consistency: float,
    break_ties: bool,
    overwrite: bool,
    types: List[str],
    types_by_label: Dict[str, List[str]],
    species_label: str,
    scorer: Optional[Callable],
):
    """Make a `KrisselLinker`; the settings are explained at `LinkerSettings`."""
    from .linker.component import KrisselLinker
    from .settings import LinkerSettings

    settings = LinkerSettings(
        spans_key=spans_key,
        n_candidates=n_candidates,
        threshold=threshold,
        use_context=use_context,
        context=context,
        use_abbreviations=use_abbreviations,
        american_spelling=american_spelling,
        lexical_weight=lexical_weight,
        gold_name_weight=gold_name_weight,
        gold_prior=gold_prior,
        consistency=consistency,
        break_ties=break_ties,
        overwrite=overwrite,
        types=types,
        types_by_label=types_by_label,
        species_label=species_label,
    )
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


RERANKER_CONFIG: Dict[str, Any] = {
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
    "enabled": True,
    "weight": 1.0,
    "temperature": None,
    "top_k": 32,
    "use_abbreviations": True,
    "spans_key": "",
    "nil_score": None,
    "scorer": {"@scorers": "spacy-krissel.LinkScorer.v1"},
}


@Language.factory(
    "krissel_reranker",
    requires=["doc.ents", "token.ent_kb_id"],
    assigns=["token.ent_kb_id", "doc.spans"],
    default_config=RERANKER_CONFIG,
    default_score_weights={"krissel_acc": 1.0},
)
def make_krissel_reranker(
    nlp: Language,
    name: str,
    model: Model,
    objective: Optional[Any],
    linker: str,
    max_names: int,
    enabled: bool,
    weight: float,
    temperature: Optional[float],
    top_k: int,
    use_abbreviations: bool,
    spans_key: str,
    nil_score: Optional[float],
    scorer: Optional[Callable],
):
    """Make a `KrisselReranker`; the settings are explained at `RerankerSettings`."""
    from .reranker.component import KrisselReranker
    from .settings import RerankerSettings

    settings = RerankerSettings(
        enabled=enabled,
        weight=weight,
        temperature=temperature,
        top_k=top_k,
        use_abbreviations=use_abbreviations,
        spans_key=spans_key,
        nil_score=nil_score,
    )
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


EXTRACTOR_CONFIG: Dict[str, Any] = {
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
    "spans_key": "krissel_entities",
    "candidates": "auto",
    "max_all": 20_000,
    "n_retrieved": 8,
    "longest_run": 4,
    "threshold": 0.5,
    "attention_threshold": 0.05,
    "max_entities": 0,
    "label": "ENTITY",
    "scorer": {"@scorers": "spacy-krissel.EntityScorer.v1"},
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
def make_krissel_span_extractor(
    nlp: Language,
    name: str,
    model: Model,
    objective: Optional[Any],
    generate_empty_kb: Callable,
    kb_path: Optional[str],
    spans_key: str,
    candidates: Literal["auto", "doc", "all", "retrieved"],
    max_all: int,
    n_retrieved: int,
    longest_run: int,
    threshold: Optional[float],
    attention_threshold: float,
    max_entities: int,
    label: str,
    scorer: Optional[Callable],
):
    """Make a `KrisselSpanExtractor`; the settings are explained at `ExtractorSettings`."""
    from .extractor.component import KrisselSpanExtractor
    from .settings import ExtractorSettings

    settings = ExtractorSettings(
        spans_key=spans_key,
        candidates=candidates,
        max_all=max_all,
        n_retrieved=n_retrieved,
        longest_run=longest_run,
        threshold=threshold,
        attention_threshold=attention_threshold,
        max_entities=max_entities,
        label=label,
    )
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

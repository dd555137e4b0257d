"""Settings of the components, each declared once with type, bounds, default and help.

A component's config and its factory's signature follow from these (`factories`). On a loaded pipe
they are `pipe.cfg` and can be changed: `nlp.get_pipe("krissel_linker").cfg["threshold"] = 0.6`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from ..util.settings import Count, Fraction, NotNegative, Positive, PositiveInt, Settings

# Default names of a linker and of a finder.
LINKER, FINDER = "krissel_linker", "krissel_finder"


@dataclass(eq=False)
class FinderSettings(Settings):
    """Settings of `krissel_finder`.

    spans_key: write the mentions to `doc.spans[spans_key]`, discontinuous ones included; "": to
        `doc.ents`, in the gaps between the entities that are there.
    variants: how a text may differ from a name. "none": in case and punctuation; "spelling": also
        in accents, Greek letters, numerals and British spelling; "words": also in number, in word
        order, by words that the names show to be equal, and by general words ("kidney injury" for
        "kidney disease"), if set when the names were read.
    nested: find names inside others too; needs a `spans_key`. Otherwise the longest from the left.
    use_abbreviations: find the abbreviations of names that the doc defines, and no other meaning of
        theirs.
    lone_acronyms: find acronyms of up to three letters also where the doc has no longer name of
        their entity.
    general_names: find names that are one general word, such as "disease".
    stop_names: texts that are no mention, in any spelling; singular and plural are two texts.
    added_names: names to find in addition to those of the knowledge base, each with the id of its
        entity.
    label: label of the spans.
    """

    spans_key: str = ""
    variants: Literal["none", "spelling", "words"] = "words"
    nested: bool = False
    use_abbreviations: bool = True
    lone_acronyms: bool = False
    general_names: bool = False
    stop_names: list[str] = field(default_factory=list)
    added_names: dict[str, str] = field(default_factory=dict)
    label: Annotated[str, Field(min_length=1)] = "ENTITY"


@dataclass(eq=False)
class LinkerSettings(Settings):
    """Settings of `krissel_linker`.

    spans_key: link the spans of `doc.spans[spans_key]`; "" links `doc.ents`.
    n_candidates: number of candidates kept on `span._.krissel_candidates`; null: 5, or more if a
        re-ranker reads more.
    threshold: a mention whose best score is lower is "NIL"; null links every mention. `krissel
        calibrate` fits it.
    min_confidence: a mention whose best candidate has less confidence is "NIL" too; 0 links every
        mention. `krissel confidence` fits it without gold mentions.
    confidence: coefficients of `Confidence`, as `krissel confidence` fits them; empty: candidates
        have none.
    nil_share_by_label: expected fraction of mentions without an entity in the knowledge base, by
        the label of their spans, instead of the `nil_share` of `confidence`. `krissel confidence
        --texts` fits it.
    context: what is encoded with a mention: "window", the text around it; "sentence", its sentence
        with all mentions there, which encoders with `units` read in one pass; "none", nothing.
    use_abbreviations: expand the abbreviations in a mention that the doc defines: in
        `doc._.abbreviations` if a component set it, else in its text (`find_definitions`).
    use_general_words: link a mention such as "kidney injury", which is no name, as a name with
        "disease" or "disorder", if one entity has that; "renal injury" and "nephrotoxicity" as the
        class names "renal" and "nephropathy". It needs a `lexical_weight`. What `krissel_finder`
        finds is set by its `variants`.
    lexical_weight: weight, 0 to 1, of the lexical (character n-gram) similarity of the mention and
        an entity's nearest name. It is added to the entity's score, in units of that score (a
        cosine if the encoder normalises). 0 is off.
    species_weight: weight of the species, for entities of several species such as genes. The
        log-probability of the entity's species relative to the most likely one, given the species
        that the doc names (`species_scores`), is added to the entity's score and counts against
        `threshold`. 0 is off.
    spelling_weight: added to the score of each entity that has a name with the letters and digits
        of the mention, whatever separates them (`spelling`: "IL-2" and "IL2"). If no entity of a
        species has an abbreviation's long form as a name, its short form counts. In units of the
        score; 0 is off.
    coherence_weight: weight of the document's other mentions. A candidate that one of them is
        confidently linked to gains in confidence and in score; the score gains less if this
        mention's best candidate is already confident. In units of the score; 0 is off, and it has
        no effect if candidates have no `confidence`.
    gold_name_weight: weight, 0 to 1, of the mention's text alone in its similarity with the
        prototypes, if gold mentions are prototypes; the rest is the weight of the mention in its
        context. 0 is off.
    gold_prior: added to the score of each entity with a gold mention: an entity that was annotated
        once is likelier to be annotated again. In units of the score; 0 is off. Neither this nor
        `gold_name_weight` applies to a text that is a name of several entities.
    overwrite: replace an existing `kb_id_` of a span.
    types: link to entities of these semantic types only; empty for all.
    types_by_label: the same for spans of one label; other labels follow `types`.
    """

    spans_key: str = ""
    n_candidates: Count | None = None
    threshold: float | None = None
    min_confidence: Fraction = 0.0
    confidence: dict[str, float] = field(default_factory=dict)
    nil_share_by_label: dict[str, Fraction] = field(default_factory=dict)
    context: Literal["window", "sentence", "none"] = "window"
    use_abbreviations: bool = True
    use_general_words: bool = True
    lexical_weight: NotNegative = 0.0
    species_weight: NotNegative = 0.0
    spelling_weight: NotNegative = 0.0
    coherence_weight: NotNegative = 0.1
    gold_name_weight: Fraction = 0.5
    gold_prior: NotNegative = 0.03
    overwrite: bool = True
    types: list[str] = field(default_factory=list)
    types_by_label: dict[str, list[str]] = field(default_factory=dict)


@dataclass(eq=False)
class RerankerSettings(Settings):
    """Settings of `krissel_reranker`.

    weight: multiplies the corrections; 0 leaves every link, candidate and score as the linker wrote
        them.
    temperature: divisor that turns the linker's scores into log-odds; null: `initialize` fits it to
        the linker.
    top_k: number of candidates that are re-ranked; the rest follow them.
    use_abbreviations: expand the abbreviations in a mention; null: `initialize` takes the linker's
        setting.
    spans_key: re-rank the spans of `doc.spans[spans_key]`; "" re-ranks `doc.ents`.
    nil_score: score of NIL as a candidate: a mention whose best candidate scores less, corrections
        included, is NIL. null: NIL is no candidate, unless `initialize` fits its score because the
        objective's `p_nil` asks for it.
    """

    weight: NotNegative = 1.0
    temperature: Positive | None = None
    top_k: Annotated[int, Field(ge=2)] = 32
    use_abbreviations: bool | None = None
    spans_key: str = ""
    nil_score: float | None = None


@dataclass(eq=False)
class ExtractorSettings(Settings):
    """Settings of `krissel_span_extractor`.

    spans_key: group of `doc.spans` that the fragments of found entities are written to.
    candidates: entities to search for: "doc", those of `doc._.krissel_entity_candidates`; "all",
        the whole knowledge base; "retrieved", the nearest to the text's n-grams; "auto", the doc's
        if it names any, else all if the knowledge base has at most `max_all` names, else the
        nearest.
    max_all: number of names up to which `candidates = "auto"` searches for all entities.
    n_retrieved: number of entities retrieved per n-gram.
    longest_run: number of words in the longest n-gram.
    threshold: lowest probability of an entity that is found; null finds every candidate.
    attention_threshold: lowest fraction of the attention of a token that belongs to an entity; 0.05
        in the paper.
    max_entities: number of most probable entities found per text; 0 finds all.
    label: label of the spans.
    """

    spans_key: Annotated[str, Field(min_length=1)] = "krissel_entities"
    candidates: Literal["auto", "doc", "all", "retrieved"] = "auto"
    max_all: Count = 20_000
    n_retrieved: PositiveInt = 8
    longest_run: PositiveInt = 4
    threshold: Fraction | None = 0.5
    attention_threshold: Fraction = 0.05
    max_entities: Count = 0
    label: str = "ENTITY"

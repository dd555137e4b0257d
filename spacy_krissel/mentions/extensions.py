"""What the pipes write to `doc._` and `span._`, registered with spaCy.

`factories` imports this, and with it every `spacy.blank()`: docs that were linked elsewhere can be read before any pipe
of this package is made.
"""

from spacy.tokens import Doc, Span

# Of a span: the candidates, the ids that share the best score, and the re-rankers that scored the candidates again.
CANDIDATES, TIES, RERANKED_BY = SPAN_EXTENSIONS = ("krissel_candidates", "krissel_ties", "krissel_reranked_by")
# Of a doc: what a text speaks of, and which entities are looked for.
ENTITIES, CANDIDATE_IDS = DOC_EXTENSIONS = ("krissel_entities", "krissel_entity_candidates")


def register_extensions() -> None:
    """A second call changes nothing."""
    for kind, names in ((Span, SPAN_EXTENSIONS), (Doc, DOC_EXTENSIONS)):
        for name in names:
            if not kind.has_extension(name):
                # Not a list: one would be stored with each doc that is asked for it.
                kind.set_extension(name, default=())


register_extensions()

"""The terms of a report, each with its meaning in one line; docs/evaluate.md has them too."""

import re

MEANINGS = {
    # Measures.
    "strict": "one predicted id, right or wrong; several ids tied at the top are wrong",
    "lenient": "right when any entity with the winning name is gold",
    "random tie": "the expected accuracy when a tie is broken at random",
    "recall at k": "a gold entity among the first k distinct entities",
    "95 %": "the interval of strict accuracy: bootstrap over documents",
    "improvement": "strict accuracy of the pipeline minus that of this system, in points, with its paired interval",
    "both right": "mentions that this pipeline and the other system link rightly, as strict accuracy counts",
    "only this right": "mentions that this pipeline links rightly and the other system does not",
    "only the other right": "mentions that the other system links rightly and this pipeline does not",
    "both wrong": "mentions that neither links rightly",
    "macro accuracy": "the mean of the labels' strict accuracies",
    "wrong links": "the fraction that leads to a parent, a child or a sibling of the right entity",
    "NIL": "no entity of the ontology is meant",
    "predicts NIL": "the rule by which a mention is not linked",
    "strict with NIL": "strict accuracy where NIL is a right answer too",
    "linked": "mentions with a link to an entity, not to NIL",
    "mentions": "composite ones have more than one gold id; those without a concept in the corpus are left out",
    "kind of mentions": "whose mentions are linked: those of the corpus or those that the pipeline finds",
    "own gold": "gold mentions of these documents in the knowledge base, as prototypes",
    "seen entities": "entities that a gold mention in training links to",
    "span and id": "a prediction is right with the exact offsets and a gold id",
    "score": "the similarity of the mention to the entity's best prototype, and what the linker's settings add",
    "rank": "of the right entity among the candidates, from 1",
    "gold": "the entity that annotators gave a mention; as the kind of a prototype, an annotated mention",
    "composite": "mentions with more than one gold id; any of them is right",
    "links won by": "the kind of the prototype with the best score: percent of links",
    "unmined entities": "entities without mined mentions as prototypes",
    "contexts shuffled": "accuracy when mentions of one form exchange contexts; the same if context is ignored",
    "confidence": 'the probability that the best candidate is right; after "is", the fraction that was right',
    # Systems.
    "exact": "the entities with the mention's text as a name",
    "tfidf": "the entity with the nearest name, by TF-IDF over character 3-grams",
    "abbreviations": "abbreviations that the document defines are expanded",
    # Slices.
    "ambiguous": "the text is a name of no entity or of several",
    "unambiguous": "the text is a name of exactly one entity",
    "homonym": "the text is a name of several entities",
    "listed": "the text is a name of an entity",
    "unlisted": "the text is no entity's name",
    "seen": "a gold entity was seen in training",
    "unseen": "no gold entity was seen in training",
    "mined": "a gold entity has mined mentions as prototypes",
    "unmined": "no gold entity has mined mentions as prototypes",
    "nil": "gold is NIL",
    "label": "mentions with this label in the corpus",
    "type": "mentions of entities with this semantic type, as the ontology calls it",
    # Kinds of prototypes.
    "name": "a name of the entity, without context",
    "mention": "a mined passage in which an unambiguous name of the entity stands",
    "replaced": "a mined passage of the entity, with a name that other entities have too put in the place of the one "
    "in the text",
    "reference": "the ontology's description of the entity",
    # Errors.
    "mention not found": "the pipeline set no mention at this place",
    "no answer": "the mention has no link",
    "said NIL": "NIL was predicted; gold is an entity",
    "should be NIL": "an entity was predicted; gold is NIL",
    "tied with the right one": "the right entity has the same score as the link",
    "right one not among the candidates": "no gold entity is among the candidates",
    "right one in the top 5": "a gold entity is among the first 5 candidates",
    "right one further down": "a gold entity is among the candidates, after the first 5",
}


def meaning(term: str) -> str:
    """The meaning of a term as a report shows it, such as `R@5`, `type:T047` or `exact + abbreviations`; "" for one
    that needs none."""
    term = re.sub(r"^(R@|recall at )\d+$", "recall at k", term.partition(":")[0])
    parts = dict.fromkeys(re.split(r", | \+ ", term))
    return "; ".join(MEANINGS[part] for part in parts if part in MEANINGS)

"""Wild entities for the tests of this room."""

from hypothesis import strategies as st

from spacy_krissel.ontology.entity import Entity

# Any text that UTF-8 can hold, controls and separators included.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
filled = texts.filter(lambda text: text.strip())
# Few letters, so that names and ids meet.
names = st.one_of(filled, st.text("aB -", min_size=1, max_size=3).filter(lambda text: text.strip()))
tuples = st.lists(texts, max_size=3).map(tuple)


def entities(id_: str) -> st.SearchStrategy:
    return st.builds(
        Entity,
        id=st.just(id_),
        name=names,
        aliases=st.lists(st.one_of(names, texts), max_size=4).map(tuple),
        types=tuples,
        tree_numbers=tuples,
        definition=texts,
        xrefs=tuples,
        species=texts,
        source=texts,
        parents=tuples,
    )


ontologies = st.lists(filled, max_size=8, unique=True).flatmap(
    lambda ids: st.tuples(*map(entities, ids)).map(list)
)

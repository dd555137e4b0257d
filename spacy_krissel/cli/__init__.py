"""The commands of `python -m spacy krissel`; importing them hangs them on `app.krissel`."""

from . import convert, evaluate, link, mine, ontology, prototypes, sample  # noqa: F401

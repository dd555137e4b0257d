"""The commands of `python -m spacy krissel`; importing them hangs them on `app.krissel`."""

from . import ablation, convert, encoder, evaluate, few_shot, link, mine, ontology, prototypes, sample  # noqa: F401

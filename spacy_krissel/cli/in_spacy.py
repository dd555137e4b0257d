"""Command `python -m spacy krissel …`. spaCy's command line imports this module through the
`spacy_cli` entry point each time it starts."""

from spacy.cli._util import app

from .app import krissel as krissel

app.add_typer(krissel)

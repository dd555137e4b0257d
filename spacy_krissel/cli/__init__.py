"""The command line, `python -m spacy krissel`."""

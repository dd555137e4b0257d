"""Gold corpora as spaCy documents, and streams of unlabelled text. Independent of models."""

"""Gold corpora as spaCy documents, and streams of unlabelled text. Knows no models."""

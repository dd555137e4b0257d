"""Link biomedical mentions to a knowledge base by context, as a spaCy pipeline component."""

__version__ = "0.1.0"

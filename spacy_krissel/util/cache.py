"""Folder for what can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `KRISSEL_CACHE`, or the system's cache folder."""
    import pooch

    return Path(os.environ.get("KRISSEL_CACHE") or pooch.os_cache("spacy-krissel")).absolute()

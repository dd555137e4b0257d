"""Which encoder made these vectors."""

import hashlib

from thinc.api import Model


def fingerprint(model: Model) -> str:
    """SHA-256 of the model as bytes: equal for a model and its saved copy, different after any change of a weight.

    RETURNS: 64 hexadecimal digits.
    """
    return hashlib.sha256(model.to_bytes()).hexdigest()

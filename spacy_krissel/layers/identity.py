"""What identifies an encoder: its weights and the settings its vectors depend on."""

import hashlib
from typing import Any

import srsly
from thinc.api import Model, deserialize_attr, serialize_attr


def fingerprint(model: Model) -> str:
    """SHA-256 of the model as bytes, 64 hexadecimal digits: equal for a model and its saved copy, different after any
    change of a weight or of a setting (`keep_in_bytes`)."""
    return hashlib.sha256(model.to_bytes()).hexdigest()


def keep_in_bytes(settings: type) -> type:
    """Let thinc save a NamedTuple of settings as a model's attribute; on loading, the config's values stay.

    An encoder loaded with a changed setting thus has another fingerprint, and a knowledge base refuses it.
    """

    def serialize(_: Any, value: Any, name: str, model: Model) -> bytes:
        return srsly.msgpack_dumps(value._asdict())

    def deserialize(default: Any, value: bytes, name: str, model: Model) -> Any:
        return default

    serialize_attr.register(settings)(serialize)
    deserialize_attr.register(settings)(deserialize)
    return settings

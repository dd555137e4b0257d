"""Settings that vectors depend on, kept in a model's bytes so that its fingerprint covers them."""

import hashlib
from typing import Any, Type

import srsly
from thinc.api import Model, deserialize_attr, serialize_attr


def keep_in_bytes(settings: Type) -> Type:
    """Let thinc save a NamedTuple of settings as a model's attribute; on loading, the config's values stay.

    So an encoder that is loaded with a changed setting has another fingerprint, and a knowledge base refuses it.
    """

    def serialize(_: Any, value: Any, name: str, model: Model) -> bytes:
        return srsly.msgpack_dumps(value._asdict())

    def deserialize(default: Any, value: bytes, name: str, model: Model) -> Any:
        return default

    serialize_attr.register(settings)(serialize)
    deserialize_attr.register(settings)(deserialize)
    return settings


def fingerprint(model: Model) -> str:
    """SHA-256 of the model as bytes: equal for a model and its saved copy, different after any change of a weight.

    RETURNS: 64 hexadecimal digits.
    """
    return hashlib.sha256(model.to_bytes()).hexdigest()

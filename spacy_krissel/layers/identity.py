"""Identity of an encoder: its weights and the settings that affect its vectors."""

import hashlib
from types import SimpleNamespace
from typing import Any

import srsly
from thinc.api import Model, deserialize_attr, serialize_attr


def fingerprint(model: Model[Any, Any]) -> str:
    """Return the SHA-256 of the model as bytes, 64 hexadecimal digits.

    It is equal for a model and its saved copy, and changes with any weight or setting (`Settings`).
    """
    return hashlib.sha256(model.to_bytes()).hexdigest()


class Settings(SimpleNamespace):
    """Settings that affect an encoder's vectors, an attribute of its model that thinc saves.

    On loading, the config's values are kept: an encoder loaded with a changed setting has another
    fingerprint, and a knowledge base refuses it.
    """


@serialize_attr.register(Settings)
def _serialize(_: Any, settings: Settings, name: str, model: Model[Any, Any]) -> bytes:
    return srsly.msgpack_dumps(vars(settings))


@deserialize_attr.register(Settings)
def _deserialize(settings: Settings, _: bytes, name: str, model: Model[Any, Any]) -> Settings:
    return settings

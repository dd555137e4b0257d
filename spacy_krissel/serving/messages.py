"""Messages between the service and the processes that link: a line of JSON, and what it is about, JSON too."""

import json
import traceback
from multiprocessing.connection import Connection
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ..errors import KrisselError
from .tool_requests import Wrong


def encoded(content: Any) -> bytes:
    """JSON; characters that are none, of a text that was read in halves, become question marks."""
    try:
        # A quarter of the time.
        return to_json(content)
    except PydanticSerializationError:
        return json.dumps(content, ensure_ascii=False).encode("utf8", "replace")


def send(connection: Connection, head: dict[str, Any], content: Any) -> None:
    send_bytes(connection, head, encoded(content))


def send_bytes(connection: Connection, head: dict[str, Any], content: bytes) -> None:
    connection.send_bytes(json.dumps(head).encode() + b"\n" + content)


def send_error(connection: Connection, head: dict[str, Any], error: BaseException) -> None:
    is_known = isinstance(error, (KrisselError, KeyError, Wrong)) and error.args
    told = str(error.args[0]) if is_known else "".join(traceback.format_exception(error))
    send(connection, {**head, "error": type(error).__name__, "told": told}, None)


def read(message: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, content = message.partition(b"\n")
    return json.loads(head), content

"""Messages between the service and the worker processes, several at a time."""

import json
import traceback
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

from ..errors import KrisselError
from .tool_requests import InvalidRequest


class Message(NamedTuple):
    """Header of a message, and its content as JSON."""

    head: dict[str, Any]
    content: bytes

    @classmethod
    def of(cls, content: Any, **head: Any) -> "Message":
        return cls(head, encoded(content))

    @classmethod
    def of_error(cls, error: BaseException, **head: Any) -> "Message":
        is_known = isinstance(error, (KrisselError, KeyError, InvalidRequest)) and error.args
        text = str(error.args[0]) if is_known else "".join(traceback.format_exception(error))
        return cls.of(None, **head, error=type(error).__name__, text=text)


def encoded(content: Any) -> bytes:
    """Return JSON; unpaired surrogates become question marks."""
    try:
        # Four times faster.
        return to_json(content)
    except PydanticSerializationError:
        return json.dumps(content, ensure_ascii=False).encode("utf8", "replace")


def send(connection: Connection, *messages: Message) -> None:
    """Send a line with the headers and lengths of messages, followed by their contents."""
    heads = json.dumps([(head, len(content)) for head, content in messages]).encode()
    connection.send_bytes(b"".join([heads, b"\n", *(message.content for message in messages)]))


def receive(connection: Connection) -> list[Message]:
    """Return the messages that were sent together. Raises EOFError if the other side is closed."""
    line, _, contents = connection.recv_bytes().partition(b"\n")
    heads, lengths = zip(*json.loads(line), strict=True)
    ends = accumulate(lengths, initial=0)
    return [
        Message(head, contents[start:end])
        for head, (start, end) in zip(heads, pairwise(ends), strict=True)
    ]

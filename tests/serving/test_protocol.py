"""Connections: how many, and how long they may be unfinished."""

import socket
import time

import pytest

pytest.importorskip("fastapi")

from spacy_krissel.serving.app import make_app
from spacy_krissel.serving.protocol import bounded_protocol

WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = {
    "nothing": b"",
    "headers": WHOLE[:-3],
    "body": (
        b"POST /link HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 9\r\n\r\n{"
    ),
    "next request": WHOLE + WHOLE[:-3],
}


@pytest.fixture
def connect(service, served):
    """Serves within limits: a function that gives one that opens connections."""
    opened = []

    def start(**settings):
        port = int(served(make_app(service), http=bounded_protocol(**settings)).rpartition(":")[2])

        def one(content):
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=20))
            opened[-1].sendall(content)
            return opened[-1]

        return one

    yield start
    for each in opened:
        each.close()


def is_answered(connection):
    return connection.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("unfinished", [*UNFINISHED])
def test_unfinished_requests_make_room_for_others(connect, unfinished):
    one = connect(connections=4)
    held = [one(UNFINISHED[unfinished]) for _ in range(12)]
    for _ in range(6):
        assert is_answered(one(WHOLE))
    # The oldest made room.
    with pytest.raises(OSError):  # noqa: PT011 (a reset or a broken pipe)
        while held[0].recv(1_000):
            pass
        raise ConnectionResetError


@pytest.mark.parametrize("unfinished", ["nothing", "headers", "next request"])
def test_slow_headers_are_closed_after_their_timeout(connect, unfinished):
    connection = connect(connections=4, header_seconds=0.2)(UNFINISHED[unfinished])
    start = time.monotonic()
    try:
        while connection.recv(1_000):
            pass
    except ConnectionError:
        pass
    assert time.monotonic() - start < 4.0, "closed by the time of an idle connection"


def test_header_timeout_does_not_cut_off_an_answer(connect, service, monkeypatch):
    ask = service.ask
    monkeypatch.setattr(
        service, "ask", lambda *values, **settings: time.sleep(0.4) or ask(*values, **settings)
    )
    connection = connect(connections=4, header_seconds=0.2)(
        WHOLE.replace(b"/health", b"/search?q=cold")
    )
    assert is_answered(connection)

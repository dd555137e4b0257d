"""Requests: who may ask, how much, and what is said to those who ask for nonsense."""

import errno
import json
import logging
import os
import random
import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tiers import nightly

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from spacy_krissel.errors import KrisselError
from spacy_krissel.serving import guard
from spacy_krissel.serving.app import Limits, make_app
from spacy_krissel.serving.bounds import Bounds
from spacy_krissel.serving.corrected import Document
from spacy_krissel.serving.corrections import CorrectionLog

TEXT = "He had a cold, and MS."


@pytest.fixture
def client(service):
    return TestClient(make_app(service, limits=Limits(documents=5, chars=5_000)))


def post(client, path, content, **headers):
    return client.post(
        path, content=content, headers={"content-type": "application/json", **headers}
    )


def test_texts_are_linked(client, linker):
    expected = {"documents": linker.link([Document(TEXT)])}
    assert client.post("/link", json={"text": TEXT}).json() == expected
    found = client.post(
        "/link",
        json={"documents": [{"text": TEXT, "id": "é", "mentions": [{"start": 9, "end": 13}]}]},
    )
    (document,) = found.json()["documents"]
    assert document["id"] == "é" and [each["kb_id"] for each in document["mentions"]] == ["D2"]


def test_links_are_exported(client, linker):
    given = {
        "documents": [
            {"text": TEXT, "id": "7", "mentions": [{"start": 9, "end": 13, "label": "Y"}]}
        ]
    }
    for format in client.get("/health").json()["formats"]:
        answered = client.post("/export", json={**given, "format": format})
        if format == "xmi.zip" and answered.status_code == 501:
            continue
        # Saved, and never a page of the service.
        assert (
            answered.status_code == 200
            and answered.headers["content-type"] == "application/octet-stream"
        )
        assert answered.headers["content-disposition"] == f'attachment; filename="links.{format}"'
        assert answered.content
    table = client.post("/export", json={"text": TEXT, "format": "tsv", "min_confidence": 1}).text
    assert [row.split("\t")[5] for row in table.splitlines()] == ["id", "NIL", "NIL"]
    metrics = client.get("/metrics").text
    assert 'krissel_requests_total{route="/export",status="200"}' in metrics


@pytest.mark.parametrize(
    "given, status, said",
    [
        ({"text": TEXT, "format": "docx"}, 422, "[K682] The format 'docx' is none of jsonl"),
        ({"text": TEXT, "format": "../../etc/passwd"}, 422, "[K682]"),
        ({"text": TEXT}, 422, "format"),
        ({"format": "tsv"}, 422, "`documents` is expected"),
        ({"text": TEXT, "format": "tsv", "min_confidence": 1.5}, 422, "min_confidence"),
        ({"text": TEXT, "format": "tsv", "threshold": 0.5}, 422, "threshold"),
        ({"text": "a" * 5_001, "format": "tsv"}, 413, "[K692]"),
        ({"documents": [{"text": "a"}] * 6, "format": "tsv"}, 413, "[K692]"),
    ],
)
def test_invalid_export_requests_are_refused(client, given, status, said):
    answered = client.post("/export", json=given)
    assert answered.status_code == status and said in answered.json()["error"]


def test_rejections_hold_and_are_undone_by_request(client):
    mention = {"text": TEXT, "start": 9, "end": 13}

    def link():
        document = {"text": TEXT, "mentions": [{"start": 9, "end": 13}]}
        found = client.post("/link", json={"documents": [document]}).json()
        return found["documents"][0]["mentions"][0]

    before = link()
    rejected = client.post("/corrections", json={**mention, "rejected": [before["kb_id"]]})
    assert (rejected.status_code, rejected.json()["rejected"]) == (201, [before["kb_id"]])
    assert before["kb_id"] not in {each["id"] for each in link()["candidates"]}
    none = client.post("/corrections", json={**mention, "same_document": True})
    assert (link()["kb_id"], link()["candidates"]) == ("NIL", [])
    # An exported link cannot come back by another threshold either.
    values = {"text": TEXT, "format": "jsonl", "min_confidence": 0}
    exported = client.post("/export", json=values).json()["mentions"]
    assert next(each["kb_id"] for each in exported if each["start"] == 9) == "NIL"
    unknown = client.post("/corrections", json={**mention, "rejected": ["D99"]})
    assert (unknown.status_code, "D99" in unknown.text) == (422, True)
    for made in (none, rejected):
        assert client.delete(f"/corrections/{made.json()['id']}").status_code == 200
    assert link() == before


def test_entities_and_corrections_have_routes(client):
    assert client.get("/entities/D1").json()["definition"] == "Myelin is lost."
    assert client.get("/entities/D99").status_code == 404
    assert (
        client.get("/search", params={"q": "sclerosis", "k": 1}).json()["entities"][0]["id"] == "D1"
    )
    made = client.post(
        "/corrections", json={"text": TEXT, "start": 9, "end": 13, "right": ["D3"], "author": "Ada"}
    )
    assert made.status_code == 201
    assert client.get("/corrections").json() == {"corrections": [made.json()], "total": 1}
    assert made.json()["mention"] == "cold" and made.json()["context"] == "He had a ⟦cold⟧, and MS."
    assert (
        client.post("/link", json={"text": TEXT}).json()["documents"][0]["mentions"][0]["kb_id"]
        == "D3"
    )
    assert client.delete(f"/corrections/{made.json()['id']}").status_code == 200
    assert client.delete(f"/corrections/{made.json()['id']}").status_code == 404
    assert client.get("/health").json()["status"] == "ok"


def test_oversized_correction_is_refused(client):
    given = {"text": "a " * 2_600, "start": 0, "end": 1, "right": ["D3"]}
    assert client.post("/corrections", json=given).status_code == 413
    assert (
        client.post("/corrections", json={**given, "text": "a", "right": ["D3"] * 21}).status_code
        == 422
    )
    assert client.get("/corrections").json() == {"corrections": [], "total": 0}


@pytest.mark.parametrize(
    "content, status",
    [
        (b"", 422),
        (b"{", 422),
        (b"[" * 15_000, 422),
        (b'{"text":' * 2_000, 422),
        (b'{"text": "\\ud800"}', 422),
        ('{"text": "é"}'.encode("latin-1"), 422),
        (b"null", 422),
        (b'{"text": 1}', 422),
        (b'{"text": "a", "documents": []}', 422),
        (b'{"text": "a", "more": 1}', 422),
        (b'{"documents": [{"text": "ab", "mentions": [{"start": 1, "end": 9}]}]}', 422),
        (b'{"documents": [{"text": "ab", "mentions": [{"start": 1e9, "end": 1e99}]}]}', 422),
        (json.dumps({"documents": [{"text": "a"}] * 6}).encode(), 413),
        (json.dumps({"text": "a" * 5_001}).encode(), 413),
        (b"x" * 160_001, 413),
        (b'{"text": "\\u0000 cold"}', 200),
        (b'{"documents": []}', 200),
        (b'{"text": ""}', 200),
    ],
)
def test_invalid_content_gets_its_status(client, content, status):
    answered = post(client, "/link", content)
    assert answered.status_code == status
    assert status == 200 or set(answered.json()) == {"error"}


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, nightly(1_000)])
def test_hostile_requests_get_no_500_and_no_text_of_others(client, n):
    """Many requests of pieces of requests, paths and markup, and as many good ones beside them, by
    eight threads: each is answered with its own text only."""
    pieces = [
        *(
            '{"text": "',
            '"}',
            '{"documents": [',
            '{"text": "cold", "mentions": [',
            '{"start": 0, "end": 4}',
            "]",
            "}",
            ",",
        ),
        *(
            '"id": "x"',
            "\\ud83d",
            "\x00",
            "‮",
            "<script>alert(1)</script>",
            "../../etc/passwd",
            "MS",
            "cold",
            "-1",
            "1e999",
        ),
        *(
            '"tasks": [{"data": {"text": "cold"}}]',
            '"label_config": "<View>',
            '"xmi": "<a',
            '"typeSystem": ""',
        ),
        *("[" * 500, '"right": ["D1"], "start": 0, "end": 2', "NaN", "𝕄𝕊", "\ufeff", "a" * 3_000),
    ]
    paths = [
        "/entities/..%2f..%2fetc%2fpasswd",
        "/entities/%00",
        "/search?q=%ff&k=-5",
        "/search",
        "//",
        "/corrections/%2e%2e",
    ]
    paths += [
        "/page.js/../app.py",
        "/openapi.json",
        "/?q=" + "a" * 2_000,
        *["/link"] * 10,
        *["/corrections"] * 4,
    ]
    paths += [
        "/export",
        "/inception/predict",
        "/inception/iri/train",
        "/labelstudio/predict",
        "/labelstudio/setup",
    ]
    kinds = [*["application/json"] * 5, "text/plain", "application/json; charset=utf-16"]

    def ask(number):
        rng = random.Random(number)
        own = f"own{number}x"
        content = "".join(rng.choices(pieces, k=rng.randint(1, 8))).replace("cold", f"cold {own}")
        method, path = rng.choice(["GET", "DELETE", "PUT", *["POST"] * 6]), rng.choice(paths)
        data, headers = content.encode("utf8", "surrogatepass"), {"content-type": rng.choice(kinds)}
        answered = client.request(method, path, content=data, headers=headers)
        assert answered.status_code < 500, (method, path, content)
        assert set(re.findall(r"own\d+x", answered.text)) <= {own} or path == "/corrections", (
            method,
            path,
            content,
        )
        good = client.post(
            "/link", json={"documents": [{"text": f"a cold {own}", "id": own}]}
        ).json()["documents"]
        assert [(each["id"], each["mentions"][0]["text"]) for each in good] == [(own, "cold")]
        return answered.status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(ask, range(n)))
    # Most were read as far as their content.
    assert statuses[422] > 0.3 * n


def test_pages_of_other_sites_are_refused(service):
    client = TestClient(
        make_app(service, hosts=("localhost", "127.0.0.1")), base_url="http://localhost"
    )
    assert client.get("/health").status_code == 200
    for host in (
        "evil.example",
        "localhost.evil.example",
        "localhost:80@evil.example",
        "localhost/evil.example",
        "",
    ):
        answered = client.get("/health", headers={"host": host})
        assert answered.status_code == 400 and set(answered.json()) == {"error"}
    assert client.get("/health", headers={"host": "127.0.0.1:8000"}).status_code == 200
    # A form or an image may send this without asking first.
    assert (
        client.post(
            "/corrections", content=b"{}", headers={"content-type": "text/plain"}
        ).status_code
        == 415
    )
    assert (
        "access-control-allow-origin"
        not in client.get("/health", headers={"origin": "https://evil.example"}).headers
    )
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_requests_without_the_key_are_refused(service):
    client = TestClient(make_app(service, key="sésame"))
    for headers in (
        {},
        {"authorization": "Bearer "},
        {"authorization": "Basic c2VzYW1l"},
        {"authorization": b"Bearer s\xff"},
    ):
        assert client.get("/corrections", headers=headers).status_code == 401
    assert (
        client.get("/corrections", headers={"authorization": "Bearer sésame".encode()}).status_code
        == 200
    )
    assert client.get("/health").status_code == client.get("/").status_code == 200
    assert client.get("/metrics").status_code == 401


def test_author_is_the_user_named_by_the_proxy(service):
    client = TestClient(make_app(service, user_header="X-User"))
    given = {"text": TEXT, "start": 9, "end": 13, "right": ["D3"], "author": "Eve"}
    assert client.post("/corrections", json=given).status_code == 401
    assert (
        client.post("/corrections", json=given, headers={"x-user": "Ada"}).json()["author"] == "Ada"
    )


def test_overload_is_answered_with_429_or_503(linker, make_service, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(linker, "link", lambda documents: held.wait(10) and [])
    service = make_service(linker, waiting=2)
    client = TestClient(make_app(service, limits=Limits(seconds=0.05)))
    # One is worked on, and one waits, though nobody waits for its answer.
    answered = [client.post("/link", json={"documents": []}) for _ in range(3)]
    held.set()
    assert [each.status_code for each in answered] == [503, 503, 429] and answered[2].headers[
        "retry-after"
    ] == "1"
    assert client.get("/health").json()["status"] == "ok"
    service.close()
    assert client.get("/health").status_code == 503
    assert client.post("/link", json={"text": TEXT}).status_code == 429


def test_too_many_mentions_or_too_long_an_answer_are_refused(service, linker, monkeypatch):
    client = TestClient(make_app(service))
    monkeypatch.setattr(linker, "bounds", Bounds(mentions=3))
    encoded = []
    monkeypatch.setattr(linker.linker, "encode", lambda views: encoded.extend(views))
    mentions = [{"start": i, "end": i + 1} for i in (0, 1, 3, 4)]
    several = {"documents": [{"text": TEXT, "mentions": mentions}]}
    for path, asked in (
        ("/link", {"text": "cold " * 4}),
        ("/link", several),
        ("/export", {**several, "format": "tsv"}),
    ):
        answered = client.post(path, json=asked)
        assert (
            answered.status_code == 413
            and "[K692]" in answered.text
            and "--max-mentions" in answered.text
        )
    # Refused before they take time.
    assert encoded == []
    monkeypatch.undo()
    whole = client.post("/link", json={"text": TEXT})
    monkeypatch.setattr(linker, "bounds", Bounds(answer=len(whole.content) - 1))
    answered = client.post("/link", json={"text": TEXT})
    assert answered.status_code == 413 and "--max-answer" in answered.text
    monkeypatch.setattr(linker, "bounds", Bounds(answer=10))
    answered = client.post("/export", json={"text": TEXT, "format": "spacy"})
    assert answered.status_code == 413 and "--max-answer" in answered.text
    monkeypatch.setattr(linker, "bounds", Bounds(mentions=2, answer=len(whole.content)))
    with ThreadPoolExecutor(8) as pool:
        # Limits are those of a request, whatever it is linked with.
        answers = list(
            pool.map(lambda _: client.post("/link", json={"text": TEXT}).content, range(24))
        )
    assert set(answers) == {whole.content}


def test_bodies_in_progress_are_limited(service, served, monkeypatch):
    monkeypatch.setattr(guard, "MAX_BODIES", 30_000)
    monkeypatch.setattr(guard, "SHORT_BODY", 1_000)
    limits = Limits(chars=2_000, seconds=60)
    port = int(served(make_app(service, limits=limits)).rpartition(":")[2])
    head = b"POST /link HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"

    def begin(content):
        slow = socket.create_connection(("127.0.0.1", port), timeout=20)
        slow.sendall(head + content)
        return slow

    def post(n):
        with begin(b"content-length: %d\r\n\r\n" % n + b" " * n) as whole:
            return int(whole.recv(12)[9:])

    # One says how long it will be, and the other does not.
    declared = begin(b"content-length: 12000\r\n\r\n")
    chunked = begin(b"transfer-encoding: chunked\r\n\r\n2EE0\r\n" + b" " * 12_000 + b"\r\n")
    wait_until(lambda: post(12_000) == 429)
    assert post(900) == 422
    declared.sendall(b" " * 12_000)
    chunked.sendall(b"0\r\n\r\n")
    assert [int(each.recv(12)[9:]) for each in (declared, chunked)] == [422, 422]
    # Those that are done, or gone, do not count.
    assert [post(25_000) for _ in range(3)] == [422] * 3
    gone = begin(b"content-length: 25000\r\n\r\n")
    wait_until(lambda: post(25_000) == 429)
    gone.close()
    wait_until(lambda: post(25_000) == 422)
    assert post(limits.body + 1) == 413
    declared.close()
    chunked.close()


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_full_disk_is_answered_with_507_and_keeps_nothing(
    linker, make_service, tmp_path, monkeypatch
):
    log = CorrectionLog(tmp_path / "corrections.jsonl")
    client = TestClient(make_app(make_service(linker, log=log)))
    given = {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}
    monkeypatch.setattr(
        os,
        "fsync",
        lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")),
    )
    answered = client.post("/corrections", json=given)
    assert answered.status_code == 507 and str(log.path) in answered.json()["error"]
    monkeypatch.undo()
    assert client.get("/corrections").json() == {"corrections": [], "total": 0}
    assert (
        client.post("/link", json={"text": TEXT}).json()["documents"][0]["mentions"][0]["kb_id"]
        == "D2"
    )
    assert client.post("/corrections", json=given).status_code == 201
    log.close()


def test_corrections_are_listed_in_pages(linker, make_service):
    log = CorrectionLog()
    for i in range(1_005):
        log.add(log.new(text=f"cold {i}", start=0, end=4))
    client = TestClient(make_app(make_service(linker, log=log)))

    def listed(**query):
        found = client.get("/corrections", params=query).json()
        assert found["total"] == 1_005
        return [each["id"] for each in found["corrections"]]

    ids = [each.id for each in log.in_force]
    assert listed() == ids[5:] and listed(skip=1_000) == ids[:5] and listed(skip=1_005) == []
    assert listed(k=2, skip=3) == ids[-5:-3]
    for wrong in ({"k": 1_001}, {"k": 0}, {"skip": -1}):
        assert client.get("/corrections", params=wrong).status_code == 422


def test_trailing_slash_does_not_redirect(client):
    for path in ("/corrections/", "/link/", "/health/"):
        answered = client.get(path, headers={"host": "evil.example"}, follow_redirects=False)
        assert answered.status_code in (404, 405) and "location" not in answered.headers


def test_linker_errors_are_logged_and_answered_with_500(service, linker, monkeypatch, caplog):
    client = TestClient(make_app(service), raise_server_exceptions=False)
    for error in (KrisselError("[K999] /srv/secret is broken"), OSError("/srv/secret is broken")):

        def fail(documents, error=error):
            raise error

        monkeypatch.setattr(linker, "link", fail)
        answered = client.post("/link", json={"text": TEXT})
        assert (
            answered.status_code == 500
            and "secret" not in answered.text
            and set(answered.json()) == {"error"}
        )
        # Who looks after it is told.
        assert "/srv/secret is broken" in caplog.text
        caplog.clear()


def test_slow_request_times_out(service, monkeypatch):
    monkeypatch.setattr(service, "ask", lambda *_, **__: Future())
    client = TestClient(make_app(service, limits=Limits(seconds=0.05)))
    assert client.post("/link", json={"text": TEXT}).status_code == 503


def test_cut_words_are_logged_and_counted(client, caplog):
    with caplog.at_level(logging.INFO, guard.LOG.name):
        for text in (TEXT, f"{TEXT} {'(' * 200} {'a_' * 200}"):
            assert client.post("/link", json={"text": text}).status_code == 200
    assert [json.loads(each).get("cut_words", 0) for each in caplog.messages] == [0, 2]
    assert "krissel_cut_words_total 2.0" in client.get("/metrics").text


def test_logs_and_metrics_hold_no_text(client, caplog):
    with caplog.at_level(logging.INFO, guard.LOG.name):
        client.post("/link", json={"text": TEXT})
        client.get("/nowhere/secret")
    first, second = map(json.loads, caplog.messages)
    assert (
        first.items()
        >= {
            "method": "POST",
            "route": "/link",
            "status": 200,
            "documents": 1,
            "mentions": 2,
        }.items()
    )
    assert second["route"] == "other" and "secret" not in caplog.text and "cold" not in caplog.text
    metrics = client.get("/metrics").text
    assert (
        'krissel_requests_total{route="/link",status="200"} 1.0' in metrics
        and "krissel_mentions_total 2.0" in metrics
    )
    assert "secret" not in metrics


def test_openapi_description_names_the_fields(client):
    described = client.get("/openapi.json").json()
    link = described["paths"]["/link"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert set(link["properties"]) == {"text", "documents"} and "$ref" not in json.dumps(link)
    assert set(described["paths"]) >= {
        "/link",
        "/entities/{id}",
        "/search",
        "/corrections",
        "/health",
        "/metrics",
    }

"""Tools of agents: each is listed, called and refused by the official client, in the process, over
standard input and output, and over HTTP."""

import asyncio
import json
import logging
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import spacy
from tiers import nightly

from spacy_krissel.commands.serve_agents import _address, _names, mcp
from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.verify import verify_pair
from spacy_krissel.pipeline.ground import ground
from spacy_krissel.serving.corrected import CorrectedLinker
from spacy_krissel.serving.guard import Limits
from spacy_krissel.serving.listening import KEY

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from spacy_krissel.serving.agent_http import make_http_app
from spacy_krissel.serving.agent_server import make_server, vocabulary_name

TEXT = "He had a cold, and MS."
# A call of each tool, with a part of its answer.
CALLS = {
    "annotate": ({"text": TEXT}, {"unlinked": 0, "omitted": 0}),
    "ground": ({"term": "common cold"}, {"term": "common cold"}),
    "candidates": ({"term": "MS", "k": 2}, {"term": "MS"}),
    "search": ({"query": "sclerosis"}, {}),
    "verify": ({"id": "D2", "label": "cold"}, {"status": "synonym", "vocabulary": "small"}),
    "entity": ({"id": "D1"}, {"definition": "Myelin is lost.", "synonyms": ["MS"]}),
    "children": ({"id": "D0"}, {"name": "disease", "total": 2}),
    "parents": ({"id": "D2"}, {"related": [{"id": "D0", "name": "disease"}], "total": 1}),
}


@pytest.fixture
def services(make_service, linker):
    return {"small": make_service(linker)}


@pytest.fixture
def call(services):
    """Calls a tool in the process: a function of its name and arguments that gives its answer."""
    server = make_server(services, limits=Limits(chars=5_000))

    def ask(name, **values):
        async def run():
            async with Client(server) as client:
                return await client.call_tool(name, values)

        return asyncio.run(run())

    return ask


def content(answered):
    assert not answered.is_error, answered.content[0].text
    assert json.loads(answered.content[0].text) == answered.structured_content
    return answered.structured_content


async def check_all(client, name="small"):
    """List and call all tools, and read all resources."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == CALLS.keys()
    for tool in tools.values():
        assert tool.description and tool.output_schema and tool.annotations.read_only_hint
        assert set(tool.input_schema["properties"]["vocabulary"]["enum"]) == {"", name}
    for tool, (values, expected) in CALLS.items():
        found = content(await client.call_tool(tool, values))
        assert expected.items() <= {**found, "vocabulary": "small"}.items()
    (resource,) = (await client.list_resources()).resources
    read = await client.read_resource(resource.uri)
    facts = json.loads(read.contents[0].text)
    assert (facts["vocabulary"], facts["entities"]) == (name, 5)
    assert isinstance(facts["sources"], list)


def test_client_lists_and_calls_every_tool(services):
    async def run(mode):
        async with Client(make_server(services), mode=mode) as client:
            assert "`small`" in client.instructions and "5 entities" in client.instructions
            await check_all(client)

    asyncio.run(run("auto"))
    # As clients of earlier versions of the protocol.
    asyncio.run(run("legacy"))


def test_resource_states_version_and_licence(make_service, linker):
    linker.kb.ontology = [{"source": "hp.obo", "version": "2023", "licence": "CC BY 4.0"}]

    async def run():
        async with Client(make_server({"hp": make_service(linker)})) as client:
            assert "`hp` (hp.obo 2023, 5 entities)" in client.instructions
            return await client.read_resource("vocabulary://hp")

    (source,) = json.loads(asyncio.run(run()).contents[0].text)["sources"]
    assert (source["version"], source["licence"], source["source"]) == (
        "2023",
        "CC BY 4.0",
        "hp.obo",
    )


def test_terms_are_linked_as_by_the_pipeline(call, nlp):
    asked = [
        ("cold", ""),
        ("MS", "Multiple sclerosis (MS) is rare."),
        ("cold injuries", ""),
        ("MS", TEXT),
    ]
    expected = ground(nlp, *zip(*asked, strict=True))
    for (term, context), linked in zip(asked, expected, strict=True):
        links = content(call("ground", term=term, context=context))["links"]
        found = [(each["id"], each["name"], each["found_by"]) for each in links]
        assert found == [(linked.id, linked.name, linked.match)]
        assert links[0]["confidence"] == pytest.approx(linked.confidence, abs=6e-4)


def test_text_is_annotated_with_offsets_and_definitions(call):
    found = content(call("annotate", text=TEXT))["mentions"]
    assert [TEXT[each["start"] : each["end"]] for each in found] == ["cold", "MS"]
    assert found[0]["links"][0]["id"] == "D2" and found[0]["text"] == "cold"
    many = content(call("annotate", text="cold " * 120))
    assert len(many["mentions"]) == 100 and many["omitted"] == 20


@pytest.mark.parametrize(
    "pair", [("D1", "MS"), ("D1", "cold"), ("D9", "cold"), ("D1", ""), ("X:1", "MS"), ("D2", "é")]
)
def test_verdicts_are_those_of_the_core(call, nlp, pair):
    found = content(call("verify", id=pair[0], label=pair[1]))
    assert found == {
        **verify_pair(nlp.get_pipe("krissel_linker").kb, *pair).as_dict(),
        "vocabulary": "small",
    }


def test_vocabularies_are_asked_together_or_one_by_one(make_service, nlp, saved):
    services = {name: make_service(CorrectedLinker(spacy.load(saved))) for name in ("a", "b")}
    kb = CorrectedLinker(nlp).kb
    assert kb.n_entities == 5

    async def run():
        async with Client(make_server(services)) as client:
            for which, expected in (("", ["a", "b"]), ("b", ["b"])):
                found = content(
                    await client.call_tool("ground", {"term": "cold", "vocabulary": which})
                )
                assert [each["vocabulary"] for each in found["links"]] == expected
                found = content(
                    await client.call_tool("annotate", {"text": TEXT, "vocabulary": which})
                )
                assert [len(each["links"]) for each in found["mentions"]] == [len(expected)] * 2
            assert content(await client.call_tool("entity", {"id": "D1"}))["vocabulary"] == "a"
            assert (await client.call_tool("ground", {"term": "cold", "vocabulary": "c"})).is_error

    asyncio.run(run())


@pytest.mark.parametrize(
    "name, values, said",
    [
        ("ground", {"term": " "}, "white space only"),
        ("ground", {"term": ""}, "at least 1"),
        ("ground", {"term": "a" * 1_001}, "at most 1000"),
        ("ground", {}, "term"),
        ("ground", {"term": "cold", "context": "a" * 5_001}, "[K692]"),
        ("annotate", {"text": "a" * 5_001}, "[K692]"),
        ("annotate", {"text": 1}, "text"),
        ("entity", {"id": "D99"}, "[K525]"),
        ("children", {"id": "D99"}, "[K525]"),
        ("children", {"id": "D0", "k": 101}, "less than or equal to 100"),
        ("search", {"query": "a", "k": 0}, "greater than or equal to 1"),
        ("drop", {}, "drop"),
    ],
)
def test_wrong_calls_are_answered_with_what_is_wrong(call, name, values, said):
    answered = call(name, **values)
    assert answered.is_error and said in answered.content[0].text


def test_unexpected_errors_are_not_shown(services, call, monkeypatch, caplog):
    monkeypatch.setattr("spacy_krissel.serving.agents.MAX_DEFINITION", None)
    answered = call("ground", term="MS")
    assert answered.is_error and "Error executing tool ground" == answered.content[0].text
    assert "TypeError" in caplog.text


def test_full_queue_refuses_calls(make_service, linker):
    services = {"small": make_service(linker, waiting=1)}

    async def run():
        async with Client(make_server(services)) as client:
            calls = [client.call_tool("ground", {"term": "cold"}) for _ in range(8)]
            return await asyncio.gather(*calls)

    answered = asyncio.run(run())
    refused = [each.content[0].text for each in answered if each.is_error]
    assert refused and len(refused) < 8 and all("Too many requests" in each for each in refused)


# Over HTTP -------------------------------------------------------------------------------------


def message(name="ground", method="tools/call", **values):
    params = {"name": name, "arguments": values or {"term": "cold"}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
def make_app(services):
    def make(**settings):
        limits = settings.pop("limits", Limits(chars=5_000))
        return make_http_app(
            make_server(services, limits=limits), services, limits=limits, **settings
        )

    return make


def test_key_and_host_are_those_of_the_service(make_app):
    with TestClient(make_app(key="sésame", hosts=("testserver",))) as client:
        assert client.get("/health").json() == {"status": "ok", "answering": {"small": 1}}
        for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer no"}):
            assert (
                client.post("/mcp", json=message(), headers={**HEADERS, **headers}).status_code
                == 401
            )
            assert client.get("/metrics", headers=headers).status_code == 401
        allowed = {**HEADERS, "authorization": "Bearer sésame".encode()}
        answered = client.post("/mcp", json=message(), headers=allowed)
        assert answered.status_code == 200
        assert answered.json()["result"]["structuredContent"]["links"][0]["id"] == "D2"
        other = {**allowed, "host": "evil.example"}
        assert client.post("/mcp", json=message(), headers=other).status_code == 400
        metrics = client.get("/metrics", headers={"authorization": allowed["authorization"]}).text
        assert 'krissel_requests_total{route="/mcp",status="200"} 1.0' in metrics


def test_requests_beyond_the_limits_are_refused(make_app):
    with TestClient(make_app()) as client:
        for method in ("GET", "DELETE", "PUT", "HEAD", "OPTIONS"):
            assert client.request(method, "/mcp", headers=HEADERS).status_code == 405
        large = client.post("/mcp", content=b"x" * 160_001, headers=HEADERS)
        assert large.status_code == 413 and set(large.json()) == {"error"}
        plain = {**HEADERS, "content-type": "text/plain"}
        assert client.post("/mcp", content=b"{}", headers=plain).status_code == 415
        assert client.post("/mcp", content=b"[" * 15_000, headers=HEADERS).status_code == 400
        assert client.get("/other").status_code == 404


def test_texts_are_not_logged(make_app, caplog):
    with caplog.at_level(logging.INFO, "spacy_krissel.serving"), TestClient(make_app()) as client:
        client.post("/mcp", json=message(term="secretly cold"), headers=HEADERS)
        client.post("/mcp", json=message(term=" ", context="secret"), headers=HEADERS)
    records = [each for each in caplog.records if each.name == "spacy_krissel.serving"]
    assert [json.loads(each.getMessage())["route"] for each in records] == ["/mcp", "/mcp"]
    assert "secret" not in caplog.text


def test_shutdown_closes_the_services(make_app, services):
    with TestClient(make_app()) as client:
        assert client.get("/health").status_code == 200
    assert not services["small"].is_alive()


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, nightly(1_000)])
def test_hostile_requests_get_no_500_and_no_text_of_others(make_app, n):
    """Many requests of pieces of messages, and as many good ones next to them, by eight threads:
    each is answered with its own text only."""
    pieces = [
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ',
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ',
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": ',
        '{"name": "ground", "arguments": {"term": "cold"}}',
        '{"name": "annotate", "arguments": {"text": "cold',
        '{"name": "verify", "arguments": {"id": "D1", "label": "',
        '{"uri": "vocabulary://../../etc/passwd"}',
        *('"}}', "}", "]", "[", ",", '"', "\\ud83d", "\x00", "‮", "<script>alert(1)</script>"),
        *("../../etc/passwd", "MS", "-1", "1e999", "NaN", "𝕄𝕊", "\ufeff", "a" * 3_000, "[" * 500),
        *('"id": null', '"_meta": {"progressToken": 1}', '"k": -5', '"vocabulary": "x"'),
    ]
    versions = ["", "2025-06-18", "2026-07-28", "x" * 500, "1.0"]

    def ask(number):
        rng = random.Random(number)
        own = f"own{number}x"
        sent = "".join(rng.choices(pieces, k=rng.randint(1, 8))).replace("cold", f"cold {own}")
        if rng.random() < 0.3:
            whole = message(rng.choice([*CALLS, "x"]), term=f"cold {own}", text=own, id=own, k=sent)
            sent = json.dumps(whole)
        headers = {**HEADERS, "mcp-session-id": rng.choice(["", "../x"])}
        if version := rng.choice(versions):
            headers["mcp-protocol-version"] = version
        headers["accept"] = rng.choice([HEADERS["accept"], "*/*", "text/html"])
        method = rng.choice(["GET", "DELETE", *["POST"] * 8])
        path = rng.choice(["/mcp", "/mcp", "/mcp", "/mcp/", "/mcp/../health", "//"])
        data = sent.encode("utf8", "surrogatepass")
        answered = client.request(method, path, content=data, headers=headers)
        assert answered.status_code < 500, (method, path, sent, answered.text)
        assert set(re.findall(r"own\d+x", answered.text)) <= {own}, (method, path, sent)
        text = f"a cold {own}"
        good = client.post("/mcp", json=message("annotate", text=text), headers=HEADERS).json()
        assert [each["text"] for each in good["result"]["structuredContent"]["mentions"]] == [
            "cold"
        ]
        return answered.status_code

    with TestClient(make_app()) as client, ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(ask, range(n)))
    # Many were read as far as their content.
    assert statuses[400] > 0.2 * n and statuses[200] > 0.04 * n


@pytest.mark.nightly
def test_client_calls_every_tool_over_http(saved, tmp_path):
    httpx2 = pytest.importorskip("httpx2")
    port = 20_000 + os.getpid() % 20_000
    address = f"http://127.0.0.1:{port}/mcp"
    command = [
        sys.executable,
        "-m",
        "spacy",
        "krissel",
        "mcp",
        str(saved),
        "--http",
        f"127.0.0.1:{port}",
    ]
    environment = {**os.environ, KEY: "secret"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)

    @asynccontextmanager
    async def connected(key):
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with Client(streamable_http_client(address, http_client=http)) as client:
                yield client

    async def run():
        async with connected("secret") as client:
            await check_all(client, vocabulary_name(saved.name))
        refused = httpx2.post(address, headers={"Authorization": "Bearer other"}, json={})
        assert refused.status_code == 401

    try:
        assert "Serving linker" in process.stdout.readline(), process.stderr.read()
        asyncio.run(run())
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -15) and "Traceback" not in said
    # A line of JSON for each request; the one without the key went to no route.
    assert {json.loads(line)["route"] for line in said.splitlines()} == {"/mcp", "other"}


@pytest.mark.slow
def test_client_calls_every_tool_over_standard_streams(saved):
    """Output of a pipeline is no message, and the process ends with its client."""
    arguments = ["-m", "spacy", "krissel", "mcp", str(saved)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def run():
        async with Client(server) as client:
            await check_all(client, vocabulary_name(saved.name))

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < 300


# The command ------------------------------------------------------------------------------------


def test_invalid_addresses_and_names_raise(saved, tmp_path, monkeypatch):
    assert _address("[::1]:80") == ("::1", 80) and _address("localhost:8000")[1] == 8000
    for found in ("8000", ":8000", "localhost:", "localhost:0", "localhost:70000", "a:b"):
        with pytest.raises(KrisselError, match="K006.*http.*HOST:PORT"):
            _address(found)
    with pytest.raises(KrisselError, match="K006.*pipelines.*different names"):
        mcp([saved, saved])
    with pytest.raises(KrisselError, match="K006"):
        mcp([])
    assert [*_names([saved, "en_some_linker"])] == ["linker", "en_some_linker"]
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(KrisselError, match=f"K683.*{KEY}"):
        mcp([saved], http="0.0.0.0:8000")
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "spacy_krissel.serving.agent_server")
    monkeypatch.delitem(sys.modules, "spacy_krissel.serving.agent_http")
    with pytest.raises(KrisselError, match=r"K684.*spacy-krissel\[mcp\]"):
        mcp([saved])

"""The downloader of PubMed's articles, over a server on this machine that fails."""

import gzip

import pytest
from lab.data.pubmed_fetch import INTERVAL, MAX_PAUSE, PubMed
from pubmed_server import answer, article_set, serving

from spacy_krissel.errors import KrisselError

pytestmark = pytest.mark.slow

PMIDS = [str(number) for number in range(101, 108)]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as found:
        found.articles = {
            pmid: (f"Title {pmid}.", f"Names & contexts of {pmid}.") for pmid in PMIDS
        }
        yield found


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def pubmed(server, pauses, tmp_path):
    return PubMed(tmp_path / "kept", f"{server.address}/efetch.fcgi", batch=3, pause=pauses.append)


def fails(code, **headers):
    return lambda handler, content: answer(
        handler, code, b'{"error":"API rate limit exceeded"}', **headers
    )


def cut(handler, content):
    answer(handler, 200, content[: len(content) // 2])


def dropped(handler, content):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[:10])


def other(handler, content):
    answer(handler, 200, article_set({"999": ("Another.", "Text.")}))


def labelled(handler, content):
    parts = (
        b'<AbstractText Label="METHODS">We ran.</AbstractText><AbstractText '
        b'Label="RESULTS">Far.</AbstractText>'
    )
    answer(
        handler,
        200,
        content.replace(b"<AbstractText>Names &amp; contexts of 101.</AbstractText>", parts),
    )


def ids_of(server):
    return [request["id"].split(",") for request in server.requests]


def test_each_article_is_requested_once(server, pubmed, pauses):
    assert pubmed.texts(PMIDS) == {
        pmid: f"Title {pmid}. Names & contexts of {pmid}." for pmid in PMIDS
    }
    assert ids_of(server) == [PMIDS[:3], PMIDS[3:6], PMIDS[6:]]
    assert pauses == [INTERVAL] * 3, "each request waits, so that no second has more than three"


def test_section_labels_are_left_out_of_the_text(server, pubmed):
    server.faults = [labelled]
    assert pubmed.texts(PMIDS)["101"] == "Title 101. We ran. Far."


def test_requests_identify_the_sender(server, tmp_path):
    pubmed = PubMed(
        tmp_path, server.address, email="a@b.org", api_key="k", pause=lambda seconds: None
    )
    pubmed.texts(PMIDS)
    (request,) = server.requests
    expected = {
        "db": "pubmed",
        "retmode": "xml",
        "tool": "spacy-krissel",
        "email": "a@b.org",
        "api_key": "k",
    }
    assert {name: request[name] for name in expected} == expected


@pytest.mark.parametrize("fault", [fails(429), fails(503), cut, dropped, other, fails(200)])
def test_a_bad_answer_is_requested_again_with_growing_pauses(server, pubmed, pauses, fault):
    server.faults = [fault, fault]
    assert set(pubmed.texts(PMIDS)) == set(PMIDS)
    assert ids_of(server)[:3] == [PMIDS[:3]] * 3
    assert pauses == [INTERVAL, 1.0, 2.0, INTERVAL, INTERVAL], "the pause does not grow"


def test_retry_after_is_respected_up_to_a_limit(server, pubmed, pauses):
    server.faults = [
        fails(429, Retry_After="7"),
        fails(429, Retry_After="100000"),
        fails(429, Retry_After="Tue"),
    ]
    pubmed.texts(PMIDS)
    assert pauses[:4] == [INTERVAL, 7.0, MAX_PAUSE, 4.0]


def test_a_refused_request_is_not_repeated(server, pubmed):
    server.faults = [fails(403)]
    with pytest.raises(
        KrisselError, match=r"K241.*3 articles from PMID 101 on: HTTP 403 .*rate limit"
    ):
        pubmed.texts(PMIDS)
    assert len(server.requests) == 1


def test_requests_end_after_six_attempts(server, pubmed):
    server.faults = [cut] * 100
    with pytest.raises(KrisselError, match="K241"):
        pubmed.texts(PMIDS)
    assert len(server.requests) == 6
    assert not list(pubmed.folder.glob("*.gz")), "a bad answer is kept"


def test_an_article_left_out_once_is_requested_again(server, pubmed):
    server.faults = [
        lambda handler, content: answer(handler, 200, article_set({"101": ("T.", "A.")}))
    ]
    assert set(pubmed.texts(PMIDS)) == set(PMIDS)
    assert ids_of(server)[-1] == ["102", "103"]


def test_an_article_missing_from_pubmed_is_skipped(server, pubmed):
    del server.articles["105"]
    assert set(pubmed.texts(PMIDS)) == set(PMIDS) - {"105"}
    assert ids_of(server)[3:] == [["105"]]


def test_an_interrupted_run_resumes(server, pubmed, pauses):
    def die(handler, content):
        raise KeyboardInterrupt

    pubmed.pause = lambda seconds: pauses.append(seconds) if len(pauses) < 2 else die(None, b"")
    with pytest.raises(KeyboardInterrupt):
        pubmed.texts(PMIDS)
    pubmed.pause = pauses.append
    assert set(pubmed.texts(PMIDS)) == set(PMIDS)
    assert ids_of(server) == [PMIDS[:3], PMIDS[3:6], PMIDS[6:]]
    pubmed.texts(PMIDS)
    assert len(server.requests) == 3, "what is kept is fetched again"


@pytest.mark.parametrize(
    "damage", [b"", b"<PubmedArticleSet>", gzip.compress(article_set({"9": ("T.", "A.")}), mtime=0)]
)
def test_a_damaged_cached_answer_is_fetched_again(server, pubmed, damage):
    texts = pubmed.texts(PMIDS)
    kept = sorted(pubmed.folder.glob("*.gz"))
    kept[0].write_bytes(damage)
    assert pubmed.texts(PMIDS) == texts
    assert len(server.requests) == 4
    assert sorted(pubmed.folder.glob("*")) == kept


def test_cached_answers_are_not_used_for_another_list(server, pubmed):
    pubmed.texts(PMIDS)
    assert list(pubmed.texts(PMIDS[::-1])) == PMIDS[::-1]
    assert len(server.requests) == 6

"""A server of files and of PubMed's efetch on this machine, for tests."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs
from xml.sax.saxutils import escape


def article_set(articles: dict[str, tuple[str, str]]) -> bytes:
    """PubMed's XML of articles: PMID to title and abstract."""
    body = "".join(
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{pmid}</PMID>'
        f"<Article><ArticleTitle>{escape(title)}</ArticleTitle><Abstract>"
        f"<AbstractText>{escape(text)}</AbstractText></Abstract></Article></MedlineCitation>"
        "</PubmedArticle>\n"
        for pmid, (title, text) in articles.items()
    )
    return f'<?xml version="1.0" ?>\n<PubmedArticleSet>{body}</PubmedArticleSet>\n'.encode()


class Server:
    """files: answers to GET by path. articles: what efetch has. requests: the fields of each POST,
    in order.

    faults: popped for each POST, a function of (handler, whole answer) that answers in its place.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.articles: dict[str, tuple[str, str]] = {}
        self.requests: list[dict[str, str]] = []
        self.faults: list[Callable | None] = []
        self.address = ""

    def efetch(self, handler: BaseHTTPRequestHandler, content: str) -> None:
        fields = {name: values[0] for name, values in parse_qs(content).items()}
        self.requests.append(fields)
        known = {
            pmid: self.articles[pmid] for pmid in fields["id"].split(",") if pmid in self.articles
        }
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            fault(handler, article_set(known))
        elif known:
            answer(handler, 200, article_set(known))
        else:
            answer(
                handler, 400, b'{"error":"F+ ID list is empty! Possibly it has no correct IDs."}'
            )


def answer(handler: BaseHTTPRequestHandler, code: int, content: bytes, **headers: str) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = found.files.get(Path(self.path).name)
            answer(self, 404 if content is None else 200, content or b"")

        def do_POST(self) -> None:
            found.efetch(self, self.rfile.read(int(self.headers["Content-Length"])).decode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

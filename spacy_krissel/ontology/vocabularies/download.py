"""A resumable downloader for pooch, whose own starts over."""

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...about import __version__
from ...util.progress import progress_bar

# Give up after this many consecutive attempts without progress; the pause in seconds grows with
# each attempt.
TRIES, PAUSE = 3, 1.0
CHUNK = 1 << 16
# Seconds to connect, and between two parts of a response.
TIMEOUT = (30, 60)
# HTTP status codes after which another attempt may succeed.
BUSY = (408, 425, 429)
# Request the raw file: compressed transfers would count other bytes.
HEADERS = {"Accept-Encoding": "identity", "User-Agent": f"spacy-krissel/{__version__}"}


def _reason(error: Exception, url: str) -> str:
    """Describe an error of `requests` without the objects of libraries that it prints."""
    import requests

    host = urlsplit(url).hostname
    if isinstance(error, requests.exceptions.SSLError):
        return f"there is no secure connection to {host}"
    if isinstance(error, requests.Timeout):
        return f"{host} does not answer"
    if not isinstance(error, requests.RequestException):
        return f"the connection to {host} broke off"
    if error.args and isinstance(error.args[0], Exception):
        return f"there is no connection to {host}"
    return str(error)


class NotDownloaded(Exception):
    """Reason for a failed download. missing: the file does not exist."""

    def __init__(self, problem: object, *, missing: bool = False) -> None:
        super().__init__(problem)
        self.missing = missing


class Download:
    """Downloads a file into the folder `work`, and moves it to the path that pooch wants. A partial
    file of an earlier run is continued if the publisher's file is unchanged.

    answer: "address", "etag" and "modified" of the file.
    """

    def __init__(self, work: Path, *, progress: bool = False) -> None:
        self.part, self.state = work / "part", work / "part.json"
        self.progress = progress
        self.answer: dict[str, str] = {}

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        """Download a file. Raises `NotDownloaded`."""
        import requests
        import urllib3

        failures = most = 0
        while True:
            try:
                self._attempt(url)
                break
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                size = self._size()
                failures, most = (0, size) if size > most else (failures + 1, most)
                if failures == TRIES:
                    raise NotDownloaded(_reason(error, url)) from error
                time.sleep(PAUSE * 2**failures)
        os.replace(self.part, output_file)
        self.state.unlink()

    def _attempt(self, url: str) -> None:
        import requests

        earlier, have = self._earlier(url), self._size()
        # A weak ETag (W/) does not guarantee equal bytes.
        etag, modified = earlier.get("etag", ""), earlier.get("modified", "")
        same = etag if etag.startswith('"') else modified
        headers = (
            {**HEADERS, "Range": f"bytes={have}-", "If-Range": same} if have and same else HEADERS
        )
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            code, found = response.status_code, response.headers
            if code in BUSY or code >= 500:
                response.raise_for_status()
            if code not in (200, 206, 416):
                raise NotDownloaded(
                    f"the server answers with HTTP {code} {response.reason}",
                    missing=code in (404, 410),
                )
            if found.get("Content-Type", "").startswith("text/html"):
                raise NotDownloaded("the server has a web page instead of the file", missing=True)
            self.answer = {
                "address": url,
                "etag": found.get("ETag", ""),
                "modified": found.get("Last-Modified", ""),
            }
            # Some servers do not support `If-Range`.
            is_same = all(earlier.get(key) == value for key, value in self.answer.items() if value)
            if (
                code != 206
                or not is_same
                or not found.get("Content-Range", "").startswith(f"bytes {have}-")
            ):
                have = 0
                self.part.unlink(missing_ok=True)
                if code != 200:
                    raise requests.ConnectionError("the file changed during the download")
                self.state.write_text(json.dumps(self.answer), encoding="utf8")
            total = have + int(found["Content-Length"]) if "Content-Length" in found else None
            shown: dict[str, Any] = {
                "total": total,
                "initial": have,
                "unit": "B",
                "unit_scale": True,
            }
            with progress_bar(show=self.progress, **shown) as bar, self.part.open("ab") as part:
                for chunk in response.raw.stream(CHUNK, decode_content=False):
                    part.write(chunk)
                    bar.update(len(chunk))
        if total is not None and self._size() != total:
            raise requests.ConnectionError(
                f"the connection ended after {self._size():,} of {total:,} bytes"
            )

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _earlier(self, url: str) -> dict[str, str]:
        """Return the response that the partial file belongs to; {} if unknown."""
        try:
            found = json.loads(self.state.read_text(encoding="utf8"))
            return found if found["address"] == url else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

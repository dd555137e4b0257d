"""PubMed's articles by their PMIDs, from NCBI's E-utilities."""

import gzip
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spacy_krissel.corpora.pubmed import read_pubmed
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.util.atomic import atomic_file

from ..errors import Errors, KrisselError

ADDRESS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi"
TOOL = "spacy-krissel"
# NCBI's limits: 200 ids in a request, and three requests a second without a key.
BATCH, INTERVAL = 200, 0.34
ATTEMPTS, MAX_PAUSE, TIMEOUT = 6, 60.0, 120.0
# Codes that say "later".
LATER = (429, 500, 502, 503, 504)
# What efetch says where it knows none of the ids, and its code.
UNKNOWN, NONE_KNOWN = 400, "ID list is empty"
Batch = tuple[str, ...]


class BadAnswer(Exception):
    """An answer that is no whole file of the articles that were asked for."""


@dataclass
class PubMed:
    """Fetches articles in batches and keeps each answer, so that an interrupted run goes on where
    it stopped.

    folder: of the kept answers, an XML file of PubMed a batch, compressed with gzip.
    address: of efetch. email, api_key: sent with each request where given; NCBI asks for the
        former.
    pause: called with the seconds to wait between requests and before a further attempt.
    say: called with a line for each batch that was fetched.
    """

    folder: Path
    address: str = ADDRESS
    email: str = ""
    api_key: str = ""
    batch: int = BATCH
    pause: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = field(default=lambda line: None)

    def texts(self, pmids: Sequence[str]) -> dict[str, str]:
        """Title and abstract of each article by its PMID, as `read_pubmed` reads them without the
        labels of parts. Those that PubMed does not have are left out.

        An answer that is cut, damaged or of other articles is fetched again, also a kept one.
        Articles that are not in their batch's answer are asked for a second time.

        Raises KrisselError K241 (no whole answer after six attempts, or a refusal), K026 (the
        folder).
        """
        found = self._round(pmids, "")
        found.update(self._round([pmid for pmid in pmids if pmid not in found], "-again"))
        return found

    def _round(self, pmids: Sequence[str], suffix: str) -> dict[str, str]:
        batches = [
            tuple(pmids[start : start + self.batch]) for start in range(0, len(pmids), self.batch)
        ]
        found: dict[str, str] = {}
        for number, batch in enumerate(batches, 1):
            # The checksum of its ids: another list or size of batches has other files.
            path = self.folder / f"{zlib.crc32(','.join(batch).encode()):08x}{suffix}.xml.gz"
            try:
                texts = _read(path, batch)
            except BadAnswer:
                texts = self._fetch(path, batch)
                self.say(f"batch {number} of {len(batches)}: {len(texts)} of {len(batch)} articles")
            found.update(texts)
        return found

    def _fetch(self, path: Path, batch: Batch) -> dict[str, str]:
        problem, seconds = "", INTERVAL
        for attempt in range(ATTEMPTS):
            self.pause(seconds)
            seconds = min(2.0**attempt, MAX_PAUSE)
            try:
                answer = self._answer(batch)
                with atomic_file(path) as temporary:
                    temporary.write_bytes(gzip.compress(answer, mtime=0))
                    return _read(temporary, batch)
            except urllib.error.HTTPError as error:
                problem = (
                    f"HTTP {error.code} {error.reason}: "
                    f"{error.read().decode(errors='replace')[:200]}"
                )
                if error.code == UNKNOWN and NONE_KNOWN in problem:
                    return {}
                if error.code not in LATER:
                    break
                asked = error.headers.get("Retry-After", "")
                seconds = min(max(seconds, float(asked) if asked.isdecimal() else 0.0), MAX_PAUSE)
            except (OSError, http.client.HTTPException, BadAnswer) as error:
                problem = f"{type(error).__name__}: {error}"
        raise KrisselError(
            Errors.K241.format(address=self.address, first=batch[0], n=len(batch), problem=problem)
        )

    def _answer(self, batch: Batch) -> bytes:
        fields = {
            "db": "pubmed",
            "retmode": "xml",
            "tool": TOOL,
            "email": self.email,
            "api_key": self.api_key,
        }
        given = {name: value for name, value in fields.items() if value}
        content = urllib.parse.urlencode({**given, "id": ",".join(batch)}).encode()
        with urllib.request.urlopen(self.address, content, TIMEOUT) as response:
            return bytes(response.read())


def _read(path: Path, batch: Batch) -> dict[str, str]:
    """Raises BadAnswer."""
    asked = set(batch)
    found: dict[str, str] = {}
    try:
        for pmid, text, _ in read_pubmed(path, CorpusReport(), [], labels=False):
            if pmid not in asked:
                raise BadAnswer(f"article {pmid} was not asked for")
            found[pmid] = text
    except KrisselError as error:
        raise BadAnswer(str(error)) from error
    return found

import re
from dataclasses import replace
from datetime import date

import pytest

from spacy_krissel.ontology.vocabularies import VOCABULARIES, cache, download

from .publisher import publishing

# The earlier one of the two years whose files are asked for.
EARLIER = date.today().year - (date.today().month < 10)


@pytest.fixture
def publisher(monkeypatch, tmp_path):
    """A server in the place of all publishers, an empty cache, and no pauses."""
    with publishing() as server:
        for name, known in VOCABULARIES.items():
            address = known.address.replace("https://", server.address)
            monkeypatch.setitem(VOCABULARIES, name, replace(known, address=address))
        monkeypatch.setenv("KRISSEL_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(download, "PAUSE", 0)
        monkeypatch.setattr(cache, "WAIT", 0.01)
        yield server


@pytest.fixture
def publish(publisher):
    """Publish content under the name of a vocabulary. RETURNS: its path on the server."""

    def publish(name, content, year=EARLIER):
        path = "/" + VOCABULARIES[name].address.removeprefix(publisher.address).format(year=year)
        assert re.match(r"/[a-z.]+/", path)
        publisher.files[path] = content
        return path

    return publish

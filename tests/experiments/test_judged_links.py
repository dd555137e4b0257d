"""Links of mentions that a pipeline finds itself: which are right by gold mentions."""

import pytest
import spacy
from lab.judged_links import judged_links
from spacy.tokens import DocBin

from spacy_krissel import Entity, build

pytestmark = pytest.mark.slow

TEXT = "Rickets, gout, a cold and fever."


@pytest.mark.nightly
def test_links_are_judged_by_equal_bounds_and_mapped_ids(tmp_path):
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns(
        [{"label": "D", "pattern": name} for name in ("Rickets", "gout", "cold")]
    )
    finder.to_disk(tmp_path / "finder")
    entities = [
        Entity("X:1", "rickets", xrefs=("MSH:D1",)),
        Entity("X:2", "gout"),
        Entity("X:3", "cold weather"),
    ]
    build(entities, tmp_path / "linker", ner=str(tmp_path / "finder"))
    doc = finder.make_doc(TEXT)
    # The first by its cross-reference; the second is another's, "a cold" has other bounds, "fever"
    # is not found.
    marked = [("Rickets", "MESH:D1"), ("gout", "D9"), ("a cold", "X:3"), ("fever", "X:2")]
    spans = [(TEXT.index(name), TEXT.index(name) + len(name), id_) for name, id_ in marked]
    doc.ents = [doc.char_span(start, end, label="D", kb_id=id_) for start, end, id_ in spans]
    DocBin(docs=[doc]).to_disk(tmp_path / "gold.spacy")
    _, everything, built = judged_links(
        tmp_path / "linker", tmp_path / "gold.spacy", documents=5, links=10
    )
    assert everything == ("all", "3", "100.0", "2", "1", "50.0", "1", "0.0")
    assert built[0] == "as built" and built[1] == "3"
    DocBin(docs=[finder.make_doc("Nothing.")]).to_disk(tmp_path / "gold.spacy")
    assert (
        judged_links(tmp_path / "linker", tmp_path / "gold.spacy", documents=5, links=10)[1][1]
        == "0"
    )

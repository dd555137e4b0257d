import pytest
import spacy
from lab.data.affected_mentions import AffectedMentions, affected_mentions, squeeze
from spacy.tokens import Span

from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

ENTITIES = [
    Entity("1", "interleukin 2", ("IL-2", "±")),
    Entity("2", "IL2RA", ("IL 2", "±"), alt_ids=("22",)),
    Entity("3", "gout", ("IL2",)),
]
# Mentions with their gold ids, and whether a homonym of their entity reads so.
MENTIONS = [
    ("il2", "1", True),
    ("IL-2", "22", True),
    ("IL/2", "2|3", True),
    # "IL2" is no homonym: it does not fold to "il 2".
    ("IL2", "3", False),
    ("interleukin-2", "1", False),
    # The homonym, but nothing is left of it.
    ("±", "1", False),
    ("IL-2", "99", False),
    ("IL-2", "-1", False),
    ("IL-2", "", False),
]


@pytest.fixture
def store(tmp_path):
    return write_store(ENTITIES, tmp_path / "store")


def gold(path, mentions):
    nlp = spacy.blank("en")
    docs = []
    for text, id_, _ in mentions:
        doc = nlp.make_doc(text)
        doc.ents = [Span(doc, 0, len(doc), label="Gene", kb_id=id_)]
        docs.append(doc)
    write_doc_bin(docs, path)
    return path


def test_mentions_of_homonyms_are_counted(store, tmp_path):
    assert affected_mentions(gold(tmp_path / "gold.spacy", MENTIONS), store) == AffectedMentions(
        7, 3, 1, 0
    )
    for i, mention in enumerate(MENTIONS):
        found = affected_mentions(gold(tmp_path / f"{i}.spacy", [mention]), store)
        assert found.affected == mention[2]


def test_names_that_differ_in_a_hyphen_are_not_counted_as_identical(tmp_path):
    store = write_store(
        [Entity("1", "a", ("IL-2", "MS")), Entity("2", "b", ("IL 2", "MS"))], tmp_path / "store"
    )
    path = gold(tmp_path / "gold.spacy", [("il2", "1", True), ("ms", "2", True)])
    assert affected_mentions(path, store) == AffectedMentions(2, 2, 0, 1)


def test_no_mention_is_affected_after_disambiguation(store, tmp_path):
    path = gold(tmp_path / "gold.spacy", MENTIONS)
    disambiguated = build_ontology(store.path, tmp_path / "disambiguated", disambiguate="shortest")
    assert affected_mentions(path, disambiguated) == AffectedMentions(7, 0, 1, 0)


def test_empty_span_groups_count_zero_and_missing_paths_raise(store, tmp_path):
    path = gold(tmp_path / "gold.spacy", MENTIONS)
    assert affected_mentions(path, store, spans_key="others") == AffectedMentions(0, 0, 0, 0)
    with pytest.raises(KrisselError, match="K201"):
        affected_mentions(tmp_path / "missing.spacy", store)


def test_squeeze_keeps_only_letters_and_digits():
    assert squeeze("IL-2 (Receptor)") == "il2receptor" and squeeze(" ±-") == ""


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.*KW103")
def test_affected_mentions_of_ncbi_disease_have_the_known_count(data_dir, tmp_path):
    """By names compared as they are, the paper finds 1.25 % of the test split (Table 1)."""
    store = build_ontology(data_dir / "ontologies" / "medic_06Jul2012.txt", tmp_path / "medic")
    convert(
        data_dir / "corpora" / "ncbi_disease" / "NCBIdevelopset_corpus.txt",
        tmp_path / "dev.spacy",
        ontology=store.path,
    )
    found = affected_mentions(tmp_path / "dev.spacy", store)
    assert found == AffectedMentions(787, 26, 0, 6)

import pytest
import spacy

from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

CORPUS = """\
1|t|Gout of the toe was cured by salt.
1\t0\t4\tGout\tT047,T033\tUMLS:C1
1\t12\t15\ttoe\tT023\tC2
1\t20\t25\tcured\tT061\tC3
1\t29\t33\tsalt\tElement, Ion, or Isotope\tC4
"""


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text(CORPUS)
    return tmp_path / "corpus.txt"


@pytest.fixture
def texts(corpus):
    """The texts of the mentions that are kept."""

    def texts(**settings):
        report = CorpusReport()
        (doc,) = read_docs(corpus, spacy.blank("en"), report=report, **settings)
        kept = [ent.text for ent in doc.ents]
        assert report["other_types"] == 4 - len(kept) and report["mentions_read"] == 4
        return kept

    return texts


def test_a_label_that_lists_several_types_matches_each(texts):
    assert texts(types=["T033"]) == ["Gout"]
    assert texts(types=["T033", "t023"]) == ["Gout", "toe"]
    assert texts(types=["element ion or isotope"]) == ["salt"]


def test_types_that_no_mention_has_raise_a_warning(texts):
    with pytest.warns(KrisselWarning, match=r"KW223\] All 4 mentions"):
        assert texts(types=["Biologic Function", "T017"]) == []


def test_mentions_are_selected_by_types_of_their_entity(texts, tmp_path):
    entities = [
        Entity("C1", "gout", types=("Disease",)),
        Entity("C3", "cure", types=("T061",), alt_ids=("C2",)),
    ]
    store = write_store(iter(entities), tmp_path / "store")
    assert texts(types=["Disease"], ontology=store) == ["Gout"]
    assert texts(types=["disease", "T061"], ontology=store.path) == ["Gout", "toe", "cured"]


def test_type_and_label_filters_can_be_combined(texts, corpus, tmp_path):
    report = convert(corpus, tmp_path / "gold.spacy", labels=["T023", "T061"], types=["T023"])
    assert (
        report["mentions"],
        report["other_labels"],
        report["other_types"],
        report["mentions_read"],
    ) == (1, 2, 1, 4)


def test_a_single_type_instead_of_a_list_raises(corpus, tmp_path):
    with pytest.raises(KrisselError, match="K006.*types"):
        convert(corpus, tmp_path / "gold.spacy", types="T017")


@pytest.mark.nightly
@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_bc5cdr_diseases_are_selected_by_medic_types(data_dir, tmp_path):
    """BC5CDR's diseases are MEDIC's; without the ontology its labels are the types."""
    from spacy_krissel.ontology.build import build_ontology

    store = build_ontology(data_dir / "ontologies" / "medic_06Jul2012.txt", tmp_path / "medic")
    path = data_dir / "corpora" / "bc5cdr" / "CDR_DevelopmentSet.PubTator.txt"
    by_label = convert(path, tmp_path / "a.spacy", types=["Disease"])
    by_entity = convert(
        path,
        tmp_path / "b.spacy",
        types=["disease"],
        labels=["Disease", "Chemical"],
        ontology=store,
    )
    assert by_label["mentions"] == 4244 and by_label["other_types"] == 9591 - 4244
    assert by_label["mentions"] <= by_entity["mentions"] < 4300

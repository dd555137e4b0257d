import pytest
import spacy

from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.semantic_types import ST21PV, read_semantic_network, with_descendants
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

SRDEF = """\
STY|T071|Entity|A|A broad type.||||||enty||
STY|T017|Anatomical Structure|A1.2|A normal part.||||||anst||
STY|T023|Body Part, Organ, or Organ Component|A1.2.3.1|A part.||||||bpoc||
STY|T022|Body System|A2.1.4.1|A system.||||||bdsy||
STY|T038|Biologic Function|B2.2.1|A state.||||||biof||
STY|T047|Disease or Syndrome|B2.2.1.2.1|An illness.||||||dsyn||
STY|T061|Therapeutic or Preventive Procedure|B1.3.1.3|A cure.||||||topp||
STY|T999|Made up|A1.20|Beside anatomical structures.||||||made||
RL|T186|isa|H|The basic link.|||||inverse_isa||
"""
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
def srdef(tmp_path):
    (tmp_path / "SRDEF").write_text(SRDEF)
    return tmp_path / "SRDEF"


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


def test_a_label_may_list_several_types(texts):
    assert texts(types=["T033"]) == ["Gout"]
    assert texts(types=["Finding", "t023"]) == ["Gout", "toe"]
    assert texts(types=["T196"]) == ["salt"]


def test_types_below_count_with_the_network(texts, srdef):
    assert texts(types=["Biologic Function", "T017"], semantic_network=srdef) == ["Gout", "toe"]
    with pytest.warns(KrisselWarning, match=r"KW223\] All 4 mentions"):
        assert texts(types=["Biologic Function", "T017"]) == []


def test_st21pv_without_the_network_is_its_own_types(texts):
    assert texts(types=list(ST21PV)) == ["Gout"]


def test_descendants_by_whole_parts(srdef):
    network = read_semantic_network(srdef)
    assert [type_.id for type_ in network][:3] == ["T071", "T017", "T023"] and len(network) == 8
    ids = {type_.id for type_ in network}
    assert {key.upper() for key in with_descendants(["Anatomical structure"], network)} & ids == {"T017", "T023"}
    everything = {key.upper() for key in with_descendants(["T071"], network)}
    assert everything & ids == {"T071", "T017", "T023", "T022", "T999"}
    with pytest.raises(KrisselError, match="K006.*types.*'t018'"):
        with_descendants(["T017", "t018"], network)


def test_types_of_the_gold_entity(texts, tmp_path):
    entities = [Entity("C1", "gout", types=("Disease",)), Entity("C3", "cure", types=("T061",), alt_ids=("C2",))]
    store = write_store(iter(entities), tmp_path / "store")
    assert texts(types=["Disease"], ontology=store) == ["Gout"]
    assert texts(types=["disease", "T061"], ontology=store.path) == ["Gout", "toe", "cured"]


def test_types_and_labels_together(texts, corpus, tmp_path):
    report = convert(corpus, tmp_path / "gold.spacy", labels=["T023", "T061"], types=["T023"])
    assert (report["mentions"], report["other_labels"], report["other_types"], report["mentions_read"]) == (1, 2, 1, 4)


@pytest.mark.parametrize(
    "content, code",
    [
        ("", "K204"),
        ("RL|T186|isa|H|\n", "K204"),
        ("STY|T017|Anatomical Structure\n", "K225"),
        ("STY|C017|Anatomical Structure|A1.2|\n", "K225"),
        ("A1.2|T017|Anatomical Structure\n", "K225"),
        (SRDEF + "no bars\n", "K225"),
    ],
)
def test_another_file_than_the_network(tmp_path, content, code):
    (tmp_path / "SRDEF").write_text(content)
    with pytest.raises(KrisselError, match=rf"\[{code}\].*SRDEF"):
        read_semantic_network(tmp_path / "SRDEF")


def test_misspelt_settings(corpus, srdef, tmp_path):
    for settings in ({"types": "T017"}, {"semantic_network": srdef}):
        with pytest.raises(KrisselError, match=f"K006.*{next(iter(settings))}"):
            convert(corpus, tmp_path / "gold.spacy", **settings)
    with pytest.raises(KrisselError, match="K201.*missing"):
        convert(corpus, tmp_path / "gold.spacy", types=["T017"], semantic_network=tmp_path / "missing")


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_real_entities_by_their_types(data_dir, tmp_path):
    """BC5CDR's diseases are MEDIC's; without the ontology its labels are the types."""
    from spacy_krissel.ontology.build import build_ontology

    store = build_ontology(data_dir / "ontologies" / "medic_06Jul2012.txt", tmp_path / "medic")
    path = data_dir / "corpora" / "bc5cdr" / "CDR_DevelopmentSet.PubTator.txt"
    by_label = convert(path, tmp_path / "a.spacy", types=["Disease"])
    by_entity = convert(path, tmp_path / "b.spacy", types=["disease"], labels=["Disease", "Chemical"], ontology=store)
    assert by_label["mentions"] == 4244 and by_label["other_types"] == 9591 - 4244
    assert by_label["mentions"] <= by_entity["mentions"] < 4300

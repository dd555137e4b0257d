import pytest

from spacy_krissel.ontology import shared_names as homonyms
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.shared_names import HomonymFigures, homonym_figures, homonym_report
from spacy_krissel.ontology.store import write_store

# Figure 2 and §4.1.1 of the paper, with genes of two more species and one whose species is not
# told.
GENES = [
    Entity("1", "A2M", ("α2microglobulin",), species="human"),
    Entity("2", "A2M", ("α2microglobulin",), species="cattle"),
    Entity("3", "IGHA2", ("A2M", "a2m"), species="human"),
    Entity("4", "unknown gene", ("A2M",)),
    Entity("5", "BRI3", species="human"),
    Entity("6", "IBRI3", ("BRI3",), species="human"),
    Entity("7", "single", species="human"),
]


@pytest.fixture
def store(tmp_path):
    return write_store(GENES, tmp_path / "store")


def test_homonyms_are_counted_by_the_cases_of_table_2(store):
    assert homonym_figures(store) == HomonymFigures(
        entities=7,
        names=13,
        homonyms=3,
        pairs=9,
        # A2M and BRI3 are the preferred names of 1 and 5, and others of 3 (in two spellings) and 6.
        preferred=2,
        other=3,
        # Names of 1, 2, 3 and 4 but for the last.
        cross_species=7,
    )


def test_without_species_no_homonym_is_cross_species(tmp_path):
    plain = write_store(
        [Entity(gene.id, gene.name, gene.aliases) for gene in GENES], tmp_path / "plain"
    )
    figures = homonym_figures(plain)
    assert (figures.preferred, figures.other, figures.cross_species) == (3, 6, 0)


def test_taxonomy_unifies_spellings_of_a_species(tmp_path):
    taxonomy = write_store([Entity("NCBITaxon:9606", "human")], tmp_path / "taxonomy")
    spellings = ("9606", "NCBITaxon:9606", "NCBITaxID:9606", "Human")
    genes = write_store(
        [Entity(text, "A2M", species=text) for text in spellings], tmp_path / "genes"
    )
    assert homonym_figures(genes).cross_species == 4
    assert homonym_figures(genes, taxonomy).cross_species == 0


def test_report_lists_the_most_shared(store, monkeypatch):
    report = homonym_report(store)
    assert report["pairs"] == 9
    assert [(item["name"], item["entities"]) for item in report["listed"]] == [
        ("a2m", 4),
        ("bri3", 2),
        ("α2microglobulin", 2),
    ]
    assert report["listed"][0]["ids"] == ["1", "2", "3", "4"]
    monkeypatch.setattr(homonyms, "LISTED", 1)
    monkeypatch.setattr(homonyms, "IDS_LISTED", 3)
    assert homonym_report(store)["listed"] == [
        {"name": "a2m", "entities": 4, "ids": ["1", "2", "3"]}
    ]


def test_store_without_homonyms_reports_none(tmp_path):
    for name, entities in (("empty", []), ("one", GENES[-1:])):
        store = write_store(entities, tmp_path / name)
        figures = homonym_figures(store)
        assert (figures.entities, figures.names, figures.homonyms, figures.pairs) == (
            len(entities),
            len(entities),
            0,
            0,
        )
        assert homonym_report(store)["listed"] == []


def test_homonym_entries_list_every_shared_name(store):
    entries = store.homonym_entries()
    found = {}
    for row, position, homonym in zip(
        *(entries[key].tolist() for key in ("row", "position", "homonym")), strict=True
    ):
        name = (GENES[row].name, *GENES[row].aliases)[position]
        found.setdefault(homonym, []).append((GENES[row].id, name))
    assert sorted(found.values()) == [
        [("1", "A2M"), ("2", "A2M"), ("3", "A2M"), ("3", "a2m"), ("4", "A2M")],
        [("1", "α2microglobulin"), ("2", "α2microglobulin")],
        [("5", "BRI3"), ("6", "BRI3")],
    ]
    assert list(found) == sorted(found) or set(found) == {0, 1, 2}
    assert list(store.each("species")) == [gene.species for gene in GENES]

import pytest

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.shared_names import SpeciesNames, homonym_figures
from spacy_krissel.ontology.store import write_store


def test_species_names_are_kept_without_a_taxonomy(recwarn):
    names = SpeciesNames()
    assert [names[text] for text in ("Homo sapiens", " 9606 ", "", " ", "?")] == [
        "Homo sapiens",
        "9606",
        "",
        "",
        "",
    ]
    names.warn_of_unknown()
    assert not recwarn


@pytest.mark.parametrize("id_", ["NCBITaxon:9606", "NCBITaxID:9606", "9606"])
def test_species_ids_are_found_in_every_spelling(tmp_path, id_):
    taxonomy = write_store(
        [Entity(id_, "Homo sapiens", ("human",)), Entity("X:1", "virus")], tmp_path / "taxonomy"
    )
    names = SpeciesNames(taxonomy)
    for spelling in (
        "NCBITaxon:9606",
        "NCBITaxID:9606",
        "9606",
        "taxid:9606",
        "ncbi_taxid: 9606",
        " 9606",
    ):
        assert names[spelling] == "Homo sapiens"
    assert names["X:1"] == "virus" and names["Mus musculus"] == "Mus musculus"


def test_species_ids_missing_from_the_taxonomy_warn(tmp_path):
    taxonomy = write_store([Entity("NCBITaxon:9606", "human")], tmp_path / "taxonomy")
    genes = write_store(
        [Entity(f"G{i}", "A2M", species=text) for i, text in enumerate(["9606", "10090", "rat"])],
        tmp_path / "g",
    )
    with pytest.warns(KrisselWarning, match="KW121.*1 species.*taxonomy.*10090"):
        assert homonym_figures(genes, taxonomy).cross_species == 3

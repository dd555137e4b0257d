import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_gene_info
from spacy_krissel.ontology.readers.gene_info import SPECIES_SUBSETS

HEADER = (
    "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\t"
    "type_of_gene\tSymbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\t"
    "Nomenclature_status\tOther_designations\tModification_date\tFeature_type\n"
)


def row(
    tax_id,
    gene_id,
    symbol,
    synonyms="-",
    xrefs="-",
    description="-",
    official="-",
    full="-",
    others="-",
):
    cells = [tax_id, gene_id, symbol, "-", synonyms, xrefs, "1", "-", description, "protein-coding"]
    return "\t".join([*cells, official, full, "O", others, "20240101", "-"]) + "\n"


ROWS = (
    row(
        "9606",
        "2",
        "A2M",
        "A2MD|CPAMD5",
        "MIM:103950|HGNC:HGNC:7",
        "alpha-2-macroglobulin",
        "A2M",
        "alpha-2-M",
        "a|A2MD",
    )
    + row("9606", "NEW", "NEWENTRY", description="Record to support submission of GeneRIFs")
    + row("9913", "513856", "A2M", description="alpha-2-macroglobulin")
    + row("4932", "851234", "YAL001C")
)


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "gene_info.gz"
        path.write_bytes(gzip.compress(text.encode()))
        return path

    return write


@pytest.mark.filterwarnings("error")
def test_genes_are_read(write):
    human, cattle, yeast = read_gene_info(write(HEADER + ROWS))
    assert human == Entity(
        "2",
        "A2M",
        ("alpha-2-M", "alpha-2-macroglobulin", "A2MD", "CPAMD5", "a"),
        ("Gene",),
        xrefs=("MIM:103950", "HGNC:HGNC:7"),
        species="9606",
        source="NCBI Gene",
    )
    assert (cattle.id, cattle.name, cattle.species) == ("513856", "A2M", "9913")
    assert yeast.aliases == yeast.xrefs == ()


@pytest.mark.filterwarnings("error")
def test_species_can_be_chosen(write, tmp_path):
    path = write(HEADER + ROWS)
    assert [
        gene.id for gene in read_gene_info(path, species=["9913", "4932"], types=["Protein"])
    ] == [
        "513856",
        "851234",
    ]
    # The option reaches the reader, and the id of a corpus the store.
    store = build_ontology(path, tmp_path / "store", species=["9606"])
    assert (
        list(store.ids) == ["2"] and store.resolve("2") == "2" and store.get("2").species == "9606"
    )


def test_species_subsets_of_corpora_select_genes(write):
    with pytest.warns(KrisselWarning, match=r"KW130.*species 3702, 3847, .*559292; "):
        assert [
            gene.id for gene in read_gene_info(write(HEADER + ROWS), species=["gnormplus"])
        ] == ["2", "513856"]
    assert {name: len(ids) for name, ids in SPECIES_SUBSETS.items()} == {
        "gnormplus": 22,
        "nlm-gene": 26,
    }
    assert all(len(set(ids)) == len(ids) for ids in SPECIES_SUBSETS.values())


@pytest.mark.parametrize(
    "species, found",
    [("9606", "'9606'"), (["human"], "'human'"), (["gnormplus", "9606 "], "'9606 '")],
)
def test_misspelt_species_raise(write, species, found):
    # Before the first gene is asked for.
    with pytest.raises(KrisselError, match=f"K006.*'species' is {found}.*gnormplus, nlm-gene"):
        read_gene_info(write(HEADER + ROWS), species=species)


def test_species_without_genes_raise(write):
    with pytest.raises(KrisselError, match="K130.*gene_info.gz.*species 562, 10090. "):
        list(read_gene_info(write(HEADER + ROWS), species=["10090", "562"]))


def test_bad_rows_are_counted(write):
    path = write(HEADER + "9606\t3\ttoo few\n" + ROWS + row("9606", "", "X"))
    with pytest.warns(
        KrisselWarning, match="KW101.*2 of 6.*line 2 has 3 columns instead of 16; line 7.*'GeneID'"
    ):
        assert len(list(read_gene_info(path))) == 3


def test_another_table_raises(write):
    with pytest.raises(KrisselError, match="K103.*gene-info.*line 1 has no column '#tax_id'"):
        list(read_gene_info(write("#Format: tax_id GeneID Symbol\n")))

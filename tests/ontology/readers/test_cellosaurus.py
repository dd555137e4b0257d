import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_cellosaurus, read_cellosaurus_table, read_obo
from spacy_krissel.ontology.store import write_store

HEADER = """----------------------------------------------------------------------------
        CALIPHO group at the SIB - Swiss Institute of Bioinformatics
----------------------------------------------------------------------------

 Description: Cellosaurus: a knowledge resource on cell lines

 ---------  ------------------------------  -----------------------
 Line code  Content                         Occurrence in an entry
 ---------  ------------------------------  -----------------------
 ID         Identifier (cell line name)     Once; starts an entry
 //         Terminator                      Once; ends an entry
____________________________________________________________________________
"""
HELA = """ID   HeLa
AC   CVCL_0030
AS   CVCL_1922; CVCL_5896
SY   HELA; Hela; He La; HELA
DR   ATCC; CCL-2
DR   EFO; EFO_0001185
CC   Part of: NCI-60 cancer cell line panel; another thing.
DI   NCIt; C27677; Human papillomavirus-related endocervical adenocarcinoma
OX   NCBI_TaxID=9606; ! Homo sapiens (Human)
SX   Female
CA   Cancer cell line
DT   Created: 04-04-12; Last updated: 10-04-25; Version: 50
//
"""
HYBRID = """ID   #490
AC   CVCL_B375
OX   NCBI_TaxID=10090; ! Mus musculus (Mouse)
OX   NCBI_TaxID=10116; ! Rattus norvegicus (Rat)
CA   Hybridoma
//
"""
TABLE = (
    "293\tCVCL_0045\tHomo sapiens\n#490\tCVCL_B375\tMus musculus\nHEK293\tCVCL_0045\tHomo sapiens\n"
)
OBO = """format-version: 1.2
default-namespace: cellosaurus
ontology: Cellosaurus

[Term]
id: CVCL_0030
name: HeLa
synonym: "He La" RELATED []
subset: Female
xref: ATCC:CCL-2
xref: NCBI_TaxID:9606 ! Homo sapiens (Human)
relationship: derived_from CVCL_0058 ! HeLa S3

[Term]
id: CVCL_B375
name: #490
xref: NCBI_TaxID:10090 ! Mus musculus (Mouse)
xref: NCBI_TaxID:10116
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "cellosaurus"
        path.write_text(text, encoding="utf8")
        return path

    return write


@pytest.mark.filterwarnings("error")
def test_cell_lines_are_read_from_entries(write):
    hela, hybrid = read_cellosaurus(write(HEADER + HELA + HYBRID))
    assert hela == Entity(
        "CVCL_0030",
        "HeLa",
        ("HELA", "Hela", "He La"),
        ("CellLine",),
        xrefs=("ATCC:CCL-2", "EFO:EFO_0001185"),
        species="Homo sapiens",
        source="Cellosaurus",
        alt_ids=("CVCL_1922", "CVCL_5896"),
    )
    assert (hybrid.name, hybrid.aliases, hybrid.species) == (
        "#490",
        (),
        "Mus musculus x Rattus norvegicus",
    )


@pytest.mark.parametrize("id", ["CVCL_0030", "CVCL:0030", "Cellosaurus:CVCL_0030", "cvcl_1922"])
def test_id_spellings_of_corpora_resolve(write, tmp_path, id):
    store = write_store(read_cellosaurus(write(HELA)), tmp_path / "store")
    assert store.resolve(id) == "CVCL_0030"


def test_bad_entries_are_counted(write):
    bad = "ID   no accession\nCA   Hybridoma\n//\nID   not ended\nAC   CVCL_0001\n" + HELA.replace(
        "SX   Female", "Female"
    )
    expected = (
        r"KW101.*3 of 6.*line 7 begins an entry without AC; line 10 begins an entry that '//' does "
        r"not end; line 21"
    )
    with pytest.warns(KrisselWarning, match=expected):
        cell_lines = list(read_cellosaurus(write(HYBRID + bad + HYBRID.replace("B375", "B376"))))
    assert [each.id for each in cell_lines] == ["CVCL_B375", "CVCL_0030", "CVCL_B376"]


@pytest.mark.parametrize(
    "text, message",
    [
        (HEADER, "K103.*ends it without a record"),
        (HELA + HYBRID[:-4], "K102.*line 18: the entry that begins at line 14 has no '//'"),
        ("ID\nAC\n", "K103"),
    ],
)
def test_other_and_cut_files_raise(write, text, message):
    with pytest.raises(KrisselError, match=message):
        list(read_cellosaurus(write(text)))


@pytest.mark.filterwarnings("error")
def test_table_is_read(write):
    first, second = read_cellosaurus_table(write(TABLE))
    assert first == Entity(
        "CVCL_0045", "293", ("HEK293",), ("CellLine",), species="Homo sapiens", source="Cellosaurus"
    )
    assert (second.id, second.name, second.species) == ("CVCL_B375", "#490", "Mus musculus")


def test_bad_rows_of_the_table_are_counted(write):
    with pytest.warns(
        KrisselWarning,
        match="KW101.*2 of 5.*line 4 is not a row of name, CVCL id and species; line 5",
    ):
        assert (
            len(
                list(
                    read_cellosaurus_table(
                        write(TABLE + "HeLa\t9606\tHomo sapiens\nHeLa\tCVCL_0030\n")
                    )
                )
            )
            == 2
        )


@pytest.mark.filterwarnings("error")
def test_obo_edition_is_read(write):
    hela, hybrid = read_obo(write(OBO), types=["CellLine"])
    assert (hela.id, hela.name, hela.aliases, hela.xrefs) == (
        "CVCL_0030",
        "HeLa",
        ("He La",),
        ("ATCC:CCL-2",),
    )
    # A species without a name keeps its number.
    assert (hela.species, hybrid.species, hybrid.xrefs) == (
        "Homo sapiens",
        "Mus musculus x 10116",
        (),
    )


@pytest.mark.data
@pytest.mark.filterwarnings("error")
def test_real_table_is_read_completely(data_dir):
    cell_lines = list(read_cellosaurus_table(data_dir / "ontologies" / "Cellosaurus.tsv.gz"))
    assert len(cell_lines) == 64_234 and sum(len(each.names) for each in cell_lines) == 92_932
    assert all(each.species for each in cell_lines)
    by_id = {each.id: each for each in cell_lines}
    assert by_id["CVCL_0030"].name == "He La" and "HELA" in by_id["CVCL_0030"].aliases

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_ctd
from spacy_krissel.ontology.store import write_store

COMMENT = "# The Comparative Toxicogenomics Database (CTD), http://ctdbase.org/\n#\n# Fields:\n"
DISEASE_FIELDS = (
    "DiseaseName,DiseaseID,AltDiseaseIDs,Definition,ParentIDs,TreeNumbers,ParentTreeNumbers,"
    "Synonyms,SlimMappings"
)
DISEASES = f"""{COMMENT}# {DISEASE_FIELDS}
#
Diseases,MESH:C,,,,C,,,
"Neoplasms, Cystic",MESH:D018297,DO:DOID:5156|OMIM:145250,"A cyst, called ""new"".",MESH:D009370,C04.557|C04.5/D018297,\
C04,"Cystic Neoplasm|Neoplasm, Cystic|Cystic Neoplasm",Cancer
Ataxia 9,OMIM:612876,,,MESH:D020754|MESH:C,,,,
"""  # noqa: E501
OLD_CHEMICALS = (
    f"{COMMENT}# ChemicalName\tChemicalID\tCasRN\tDefinition\tParentIDs\tTreeNumbers\t"
    "ParentTreeNumbers\tSynonyms\tDrugBankIDs\n#\n"
    'Aspirin\tMESH:D001241\t50-78-2\tThe "prototypical" analgesic.\tMESH:D012459\tD02.455\tD02\t'
    "Acetysal|2-(Acetyloxy)benzoic Acid\tDB00945|DB1\n"
)
CHEMICALS = f"""{COMMENT}# ChemicalName,ChemicalID,CasRN,PubChemCID,PubChemSID,DTXSID,InChIKey,Definition,ParentIDs,\
TreeNumbers,ParentTreeNumbers,MESHSynonyms,CTDCuratedSynonyms
#
10074-G5,MESH:C534883,,CID:2836600,SID:252090125,,,,MESH:D010069,D03.3/C534883,D03.3,G5|one,"one|1,2-two"
"""  # noqa: E501


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "CTD.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
        return path

    return write


@pytest.mark.filterwarnings("error")
def test_diseases_are_read(write, tmp_path):
    path = write(DISEASES)
    cystic, ataxia = read_ctd(path)
    assert cystic == Entity(
        "MESH:D018297",
        "Neoplasms, Cystic",
        ("Cystic Neoplasm", "Neoplasm, Cystic"),
        ("Disease",),
        ("C04.557", "C04.5/D018297"),
        'A cyst, called "new".',
        source="CTD",
        alt_ids=("DOID:5156", "OMIM:145250"),
        parents=("MESH:D009370",),
    )
    assert (ataxia.id, ataxia.name, ataxia.aliases) == ("OMIM:612876", "Ataxia 9", ())
    assert ataxia.parents == ("MESH:D020754",), "the top of the tree is no disease"
    store = write_store(read_ctd(path), tmp_path / "store")
    assert {
        store.resolve(id_) for id_ in ("D018297", "MESH:D018297", "OMIM:145250", "DOID:5156")
    } == {"MESH:D018297"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text, expected",
    [
        (
            OLD_CHEMICALS,
            Entity(
                "MESH:D001241",
                "Aspirin",
                ("Acetysal", "2-(Acetyloxy)benzoic Acid"),
                ("Chemical",),
                ("D02.455",),
                'The "prototypical" analgesic.',
                ("CAS:50-78-2", "DrugBank:DB00945", "DrugBank:DB1"),
                source="CTD",
                parents=("MESH:D012459",),
            ),
        ),
        (
            CHEMICALS,
            Entity(
                "MESH:C534883",
                "10074-G5",
                ("G5", "one", "1,2-two"),
                ("Chemical",),
                ("D03.3/C534883",),
                source="CTD",
                parents=("MESH:D010069",),
            ),
        ),
    ],
)
def test_chemicals_of_both_releases_are_read(write, text, expected):
    assert list(read_ctd(write(text))) == [expected]


def test_types_can_be_chosen(write):
    assert [disease.types for disease in read_ctd(write(DISEASES), types=["Condition"])] == [
        ("Condition",)
    ] * 2


def test_bad_rows_are_counted(write):
    bad = 'Ataxia,MESH:D1,too few\n"Open,MESH:D2,,,,,,,\n,MESH:D3,,,,,,,\n'
    expected = (
        "KW101.*3 of 7.*line 9 has 3 columns instead of 9; line 10 is not a comma-separated row "
        ".*line 11 has nothing"
    )
    with pytest.warns(KrisselWarning, match=expected):
        assert [each.id for each in read_ctd(write(DISEASES + bad + "X,MESH:D4,,,,,,,\n"))][2:] == [
            "MESH:D4"
        ]


def test_table_without_column_names_raises(write):
    relations = (
        "# ChemicalName,ChemicalID,CasRN,DiseaseName,DiseaseID,DirectEvidence,PubMedIDs\n#\n"
        "a,b,c,d,e,f,g\n"
    )
    with pytest.raises(
        KrisselError, match="K103.*ctd.*line 3 stands above the names of the columns"
    ):
        list(read_ctd(write(relations)))

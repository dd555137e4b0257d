"""Tables whose first line names the columns: of concepts, of MedCAT's names, of SSSLM's synonyms."""

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_medcat, read_ontology, read_ssslm, read_table

CSV = """id,name,synonyms,definition,type,parents
HP:0001250,Seizure,Fits|"Epileptic, seizure",A sudden event.,Phenotype,HP:0012638
http://purl.obolibrary.org/obo/HP_0002123,Myoclonic seizure,,,Phenotype|Sign,http://purl.obolibrary.org/obo/HP_0001250
"""
FITS = Entity(
    "HP:0001250", "Seizure", ("Fits", "Epileptic, seizure"), ("Phenotype",), (), "A sudden event.",
    parents=("HP:0012638",),
)  # fmt: skip
MYOCLONIC = Entity("HP:0002123", "Myoclonic seizure", (), ("Phenotype", "Sign"), parents=("HP:0001250",))
MEDCAT = """cui,name,ontologies,name_status,type_ids,description
C1,fits,HPO,A,T047,
C1,seizure,HPO,P,T047,A sudden event.
C2,fever,HPO,A,T184,
"""
SSSLM = """text\tcurie\tname\tpredicate\tsource
CD246\tcivic.gid:1\tALK\toboInOwl:hasExactSynonym\tcivic.gid
kinase\tcivic.gid:1\tALK\toboInOwl:hasBroadSynonym\tcivic.gid
ALK\tcivic.gid:1\tALK\trdfs:label\tcivic.gid
"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="terms.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf8")
        return path

    return write


def quoted(text):
    """A cell with a comma and quotes is quoted whole."""
    return text.replace('Fits|"Epileptic, seizure"', '"Fits|Epileptic, seizure"')


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_column_is_not_read_by_its_usual_name(write, delimiter):
    text = (
        quoted(CSV) if delimiter == "," else quoted(CSV).replace("Epileptic, ", "Epileptic# ").replace(",", delimiter)
    )
    path = write(text.replace("Epileptic# ", "Epileptic, "))
    assert detect_format(path) == "table"
    assert list(read_ontology(path)) == [FITS, MYOCLONIC]


def test_given_columns_are_not_read(write):
    path = write("Code;Bezeichnung;Auch\nE10;Diabetes;Zuckerkrankheit/Zucker\n")
    given = {"id_column": "code", "name_column": "Bezeichnung", "synonyms_column": "auch", "separator": "/"}
    assert list(read_table(path, **given)) == [Entity("E10", "Diabetes", ("Zuckerkrankheit", "Zucker"))]
    with pytest.raises(KrisselError, match="K103.*Titel"):
        list(read_table(path, **{**given, "name_column": "Titel"}))
    with pytest.raises(KrisselError, match="K103.*name"):
        list(read_table(path))


def test_rows_of_one_id_are_two_concepts(write):
    path = write("id,name\nX:1,fever\nX:1,pyrexia\nX:2,cough\n")
    assert list(read_table(path)) == [Entity("X:1", "fever", ("pyrexia",)), Entity("X:2", "cough")]


def test_a_row_without_id_or_name_is_not_counted(write):
    path = write("id,name\nX:1,fever\n,cough\nX:3,\nX:4,pain,more\n")
    with pytest.warns(KrisselWarning, match="KW101.*3"):
        assert list(read_table(path)) == [Entity("X:1", "fever")]


def test_obsolete_rows_are_read(write):
    path = write("Class ID,Preferred Label,Synonyms,Obsolete\nX:1,fever,,false\nX:2,ague,,true\n")
    assert [entity.id for entity in read_ontology(path)] == ["X:1"]


def test_medcats_preferred_name_is_an_alias(write):
    path = write(MEDCAT)
    assert detect_format(path) == "medcat"
    assert list(read_medcat(path)) == [
        Entity("C1", "seizure", ("fits",), ("T047",), source="HPO"),
        Entity("C2", "fever", (), ("T184",), source="HPO"),
    ]


def test_broad_synonyms_are_names(write):
    path = write(SSSLM, "civic.tsv")
    assert detect_format(path) == "ssslm"
    (found,) = read_ontology(path)
    assert found == Entity("civic.gid:1", "ALK", ("CD246",), source="civic.gid")
    (every,) = read_ssslm(path, scopes=("EXACT", "BROAD"))
    assert every.aliases == ("CD246", "kinase")


@pytest.mark.data
@pytest.mark.parametrize("name", ["civic.gid", "depmap", "hgnc.genegroup", "sgd"])
def test_a_published_table_of_synonyms_has_other_entities_than_its_obo_file(data_dir, name):
    folder = data_dir / "ontologies" / "obo-db-ingest"
    (table,) = folder.glob(f"{name}.synonyms.tsv*")
    (obo,) = folder.glob(f"{name}.obo*")
    ids = {entity.id for entity in read_ontology(table)}
    in_obo = {entity.id for entity in read_ontology(obo)}
    assert ids and len(ids & in_obo) > 0.95 * len(ids)


def test_synonyms_in_several_columns_are_lost(write):
    path = write('id\tname\told\tshort\told, but used\n1\tGout\tPodagra|Tophi\tG\t"Gouty ""fit"""\n', "terms.tsv")
    (gout,) = read_table(path, synonyms_column="Old,short")
    assert gout.aliases == ("Podagra", "Tophi", "G")
    # A column may have a comma in its name, and a cell hold one name.
    (gout,) = read_table(path, synonyms_column="old, but used", separator="")
    assert gout.aliases == ('Gouty "fit"',)
    (gout,) = read_table(path, synonyms_column="old,short", separator="")
    assert gout.aliases == ("Podagra|Tophi", "G")
    with pytest.raises(KrisselError, match="K103.*'longer'"):
        list(read_table(path, synonyms_column="old,longer"))


@pytest.mark.parametrize("read, header", [(read_table, "id,name,synonyms"), (read_medcat, "cui,name,name_status")])
def test_unclosed_quote_names_its_row_and_costs_no_other(write, read, header):
    rows = ["A:1,rickets,P", 'A:2,"scurvy,P', 'A:3,"beriberi, dry",P', "A:4,pellagra,P"]
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 4.*line 3 .*a quote is not closed") as caught:
        found = list(read(write("\n".join([header, *rows, ""]))))
    assert [(each.id, each.name) for each in found] == [
        ("A:1", "rickets"), ("A:3", "beriberi, dry"), ("A:4", "pellagra"),
    ]  # fmt: skip
    assert len(caught) == 1


def test_row_of_several_lines_is_named_by_its_first(write):
    path = write('id,name,definition\nA:1,rickets,"soft\nbones"\nA:2,,"of\nnothing"\nA:3,croup,cough\n')
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 3.*line 4 has no name"):
        first, second = read_table(path)
    assert (first.definition, second.id) == ("soft bones", "A:3")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=,"])
def test_rows_of_excel_are_read(write, first):
    """A line that names the separator, and rows without a filled cell."""
    path = write(f"\ufeff{first}\r\nid;name;synonyms\r\nA:1;rickets;\r\n;;\r\nA:2;croup;cough\r\n; ;\r\n")
    assert detect_format(path) == "table"
    assert [entity.names for entity in read_ontology(path)] == [("rickets",), ("croup", "cough")]

"""Tables whose first line names the columns: of concepts, of MedCAT's names, of SSSLM's
synonyms."""

import csv
import io
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import (
    detect_format,
    read_medcat,
    read_ontology,
    read_ssslm,
    read_table,
)

CSV = """id,name,synonyms,definition,type,parents
HP:0001250,Seizure,Fits|"Epileptic, seizure",A sudden event.,Phenotype,HP:0012638
http://purl.obolibrary.org/obo/HP_0002123,Myoclonic seizure,,,Phenotype|Sign,http://purl.obolibrary.org/obo/HP_0001250
"""
FITS = Entity(
    "HP:0001250", "Seizure", ("Fits", "Epileptic, seizure"), ("Phenotype",), (), "A sudden event.",
    parents=("HP:0012638",),
)  # fmt: skip
MYOCLONIC = Entity(
    "HP:0002123", "Myoclonic seizure", (), ("Phenotype", "Sign"), parents=("HP:0001250",)
)
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
def test_columns_are_read_by_their_usual_names(write, delimiter):
    text = (
        quoted(CSV)
        if delimiter == ","
        else quoted(CSV).replace("Epileptic, ", "Epileptic# ").replace(",", delimiter)
    )
    path = write(text.replace("Epileptic# ", "Epileptic, "))
    assert detect_format(path) == "table"
    assert list(read_ontology(path)) == [FITS, MYOCLONIC]


def test_given_columns_are_read(write):
    path = write("Code;Bezeichnung;Auch\nE10;Diabetes;Zuckerkrankheit/Zucker\n")
    columns = {
        "id_column": "code",
        "name_column": "Bezeichnung",
        "synonym_column": "auch",
        "separator": "/",
    }
    assert list(read_table(path, **columns)) == [
        Entity("E10", "Diabetes", ("Zuckerkrankheit", "Zucker"))
    ]
    with pytest.raises(KrisselError, match="K103.*Titel"):
        list(read_table(path, **{**columns, "name_column": "Titel"}))
    with pytest.raises(KrisselError, match="K118.*the names: .*'Bezeichnung'.*--name-column"):
        list(read_table(path))
    # With a column, it is a table.
    assert [each.id for each in read_ontology(path, **columns)] == ["E10"]


def test_rows_of_one_id_are_one_concept(write):
    path = write("id,name\nX:1,fever\nX:1,pyrexia\nX:2,cough\n")
    assert list(read_table(path)) == [Entity("X:1", "fever", ("pyrexia",)), Entity("X:2", "cough")]


def test_row_without_id_or_name_is_counted(write):
    path = write("id,name\nX:1,fever\n,cough\nX:3,\nX:4,pain,more\n")
    with pytest.warns(KrisselWarning, match="KW101.*3"):
        assert list(read_table(path)) == [Entity("X:1", "fever")]


def test_obsolete_rows_are_left_out(write):
    path = write("Class ID,Preferred Label,Synonyms,Obsolete\nX:1,fever,,false\nX:2,ague,,true\n")
    assert [entity.id for entity in read_ontology(path)] == ["X:1"]


@pytest.mark.parametrize("column", ["alt_ids", "Alternative IDs", "replaces", "Merged from"])
def test_ids_of_merged_entities_lead_to_the_one_that_replaces_them(write, tmp_path, column):
    path = write(
        f"id,name,{column}\nX:1,fever,X:2|http://purl.obolibrary.org/obo/HP_0001945\n"
        "X:3,ague,X:4\nX:3,chills,X:5|X:3\nX:6,gout,\n"
    )
    entities = list(read_table(path))
    assert [each.alt_ids for each in entities] == [("X:2", "HP:0001945"), ("X:4", "X:5"), ()]
    store = build_ontology(path, tmp_path / "store")
    resolved = {id_: store.resolve(id_) for id_ in ("X:2", "HP:0001945", "X:5", "X:7")}
    assert resolved == {"X:2": "X:1", "HP:0001945": "X:1", "X:5": "X:3", "X:7": None}


def test_an_obsolete_row_leads_to_the_entity_that_replaces_it(write, tmp_path):
    path = write(
        "id,name,obsolete,replaced_by\nX:1,fever,,\nX:2,ague,true,X:3\nX:3,chill,1,X:1\n"
        "X:4,pox,true,\nX:5,flux,true,X:9\n"
    )
    with pytest.warns(KrisselWarning, match="KW108.*X:5"):
        store = build_ontology(path, tmp_path / "store")
    resolved = {id_: store.resolve(id_) for id_ in ("X:2", "X:3", "X:4", "X:5")}
    assert resolved == {"X:2": "X:1", "X:3": "X:1", "X:4": None, "X:5": None}


def test_medcats_preferred_name_becomes_the_name(write):
    path = write(MEDCAT)
    assert detect_format(path) == "medcat"
    assert list(read_medcat(path)) == [
        Entity("C1", "seizure", ("fits",), ("T047",), source="HPO"),
        Entity("C2", "fever", (), ("T184",), source="HPO"),
    ]


def test_broad_synonyms_are_names_only_on_request(write):
    path = write(SSSLM, "civic.tsv")
    assert detect_format(path) == "ssslm"
    (found,) = read_ontology(path)
    assert found == Entity("civic.gid:1", "ALK", ("CD246",), source="civic.gid")
    (every,) = read_ssslm(path, scopes=("EXACT", "BROAD"))
    assert every.aliases == ("CD246", "kinase")


@pytest.mark.data
@pytest.mark.parametrize("name", ["civic.gid", "depmap", "hgnc.genegroup", "sgd"])
def test_published_synonym_table_has_the_entities_of_its_obo_file(data_dir, name):
    folder = data_dir / "ontologies" / "obo-db-ingest"
    (table,) = folder.glob(f"{name}.synonyms.tsv*")
    (obo,) = folder.glob(f"{name}.obo*")
    ids = {entity.id for entity in read_ontology(table)}
    in_obo = {entity.id for entity in read_ontology(obo)}
    assert ids and len(ids & in_obo) > 0.95 * len(ids)


def test_synonyms_in_several_columns_are_read(write):
    path = write(
        'id\tname\told\tshort\told, but used\n1\tGout\tPodagra|Tophi\tG\t"Gouty ""fit"""\n',
        "terms.tsv",
    )
    (gout,) = read_table(path, synonym_column="Old,short")
    assert gout.aliases == ("Podagra", "Tophi", "G")
    # A column may have a comma in its name, and a cell hold one name.
    (gout,) = read_table(path, synonym_column="old, but used", separator="")
    assert gout.aliases == ('Gouty "fit"',)
    (gout,) = read_table(path, synonym_column="old,short", separator="")
    assert gout.aliases == ("Podagra|Tophi", "G")
    with pytest.raises(KrisselError, match="K103.*'longer'"):
        list(read_table(path, synonym_column="old,longer"))


@pytest.mark.parametrize(
    "read, header", [(read_table, "id,name,synonyms"), (read_medcat, "cui,name,name_status")]
)
def test_unclosed_quote_loses_only_its_own_row(write, read, header):
    rows = ["A:1,rickets,P", 'A:2,"scurvy,P', 'A:3,"beriberi, dry",P', "A:4,pellagra,P"]
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 1 of 4.*line 3 .*a quote is not closed"
    ) as caught:
        found = list(read(write("\n".join([header, *rows, ""]))))
    assert [(each.id, each.name) for each in found] == [
        ("A:1", "rickets"), ("A:3", "beriberi, dry"), ("A:4", "pellagra"),
    ]  # fmt: skip
    assert len(caught) == 1


def test_multiline_row_is_named_by_its_first_line(write):
    path = write(
        'id,name,definition\nA:1,rickets,"soft\nbones"\nA:2,,"of\nnothing"\nA:3,croup,cough\n'
    )
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 3.*line 4 has no name"):
        first, second = read_table(path)
    assert (first.definition, second.id) == ("soft bones", "A:3")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=,"])
def test_excel_exports_are_read(write, first):
    """A line that names the separator, and rows without a filled cell."""
    path = write(
        f"\ufeff{first}\r\nid;name;synonyms\r\nA:1;rickets;\r\n;;\r\nA:2;croup;cough\r\n; ;\r\n"
    )
    assert detect_format(path) == "table"
    assert [entity.names for entity in read_ontology(path)] == [("rickets",), ("croup", "cough")]


@pytest.mark.parametrize(
    "header",
    [
        "Term ID;Preferred Term;Synonyms",
        "code\tLabel\tAliases",
        "Concept_Code,CONCEPT NAME,Alt Labels",
        "CUI;Term;AKA",
    ],
)
def test_usual_columns_are_found_in_any_spelling(write, header):
    delimiter = next(mark for mark in ";\t," if mark in header)
    path = write(f"{header}\n{delimiter.join(('X:1', 'fever', 'pyrexia|febrile'))}\n")
    assert detect_format(path) == "table"
    assert list(read_ontology(path)) == [Entity("X:1", "fever", ("pyrexia", "febrile"))]


@pytest.mark.parametrize(
    "header", ["synonym1,synonym2", "Synonym 1,SYNONYM_2", "synonyms,synonyms.1", "alias,alias"]
)
def test_numbered_columns_are_all_read(write, header):
    path = write(f"id,name,{header},other1\nX:1,fever,pyrexia,heat,X\nX:2,ague,,shivers|chills,Y\n")
    assert [entity.aliases for entity in read_ontology(path)] == [
        ("pyrexia", "heat"),
        ("shivers", "chills"),
    ]


def test_lines_within_a_cell_are_separate_synonyms(write):
    """Spreadsheets have them: Alt and Enter."""
    path = write(
        'id,name,synonyms\nX:1,"yellow\nfever","black vomit\r\nyellow jack | bronze john\n"\n'
    )
    (found,) = read_ontology(path)
    assert found.names == ("yellow fever", "black vomit", "yellow jack", "bronze john")
    (found,) = read_table(path, separator="")
    assert len(found.aliases) == 1


@pytest.mark.parametrize(
    "option", [{"id_column": 1}, {"synonym_column": ["a", "b"]}, {"separator": 5}]
)
def test_options_of_another_type_raise(write, option):
    path = write("id,name\nX:1,fever\n")
    with pytest.raises(KrisselError, match=f"K006.*{next(iter(option))}"):
        list(read_ontology(path, **option))


def test_unknown_columns_are_named_with_the_options(write):
    path = write("Nummer;Bezeichnung;Auch\nE10;Diabetes;Zucker\n")
    for read in (read_table, read_ontology):
        with pytest.raises(
            KrisselError, match=r"K118.*ids and names.*'Nummer', 'Bezeichnung'.*--id-column"
        ):
            list(read(path))


WORDS = st.text("abc -()'1é", min_size=1, max_size=8).map(str.strip).filter(bool)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(WORDS, st.lists(WORDS, max_size=4, unique=True)), min_size=1, max_size=30
    ),
    mark=st.sampled_from("|;"),
    delimiter=st.sampled_from(",;\t"),
)
@example([("infarct", ["heart attack", "MI"])], ";", ";")
def test_evident_separators_split_synonyms(tmp_path, rows, mark, delimiter):
    several = sum(len(synonyms) > 1 for _, synonyms in rows)
    evident = several >= 0.05 * sum(bool(synonyms) for _, synonyms in rows)
    text = io.StringIO()
    table = csv.writer(text, delimiter=delimiter)
    table.writerow(["id", "name", "synonyms"])
    table.writerows(
        [f"X:{n}", name, f"{mark} ".join(synonyms)] for n, (name, synonyms) in enumerate(rows)
    )
    (tmp_path / "table.csv").write_text(text.getvalue(), encoding="utf8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = list(read_table(tmp_path / "table.csv"))
    codes = [str(each.message)[:7] for each in caught]
    assert codes == (
        ["[KW111]" if evident else "[KW112]"] if several and (mark == ";" or not evident) else []
    )
    if evident:
        expected = [tuple(each for each in synonyms if each != name) for name, synonyms in rows]
        assert [entity.aliases for entity in found] == expected


@pytest.mark.parametrize(
    "name, synonyms, warning",
    [
        # Commas may be part of names.
        ("infarct", "heart attack, MI", "KW112.*1 of 1 contain ','.*--separator ','"),
        ("infarct", "heart attack / MI", "KW112.*1 of 1 contain '/'"),
        # As here they are.
        ("Infarct, acute", "Attack, heart", ""),
        ("Burn; face", "Scald; face", "KW112.*1 of 1 contain ';'"),
        ("carotene", "&beta;-carotene", ""),
        ("carotene", "&beta;-carotene; provitamin A", "KW112.*';'"),
        (
            "infarct",
            "heart attack; MI",
            "KW111.*1 of 1 cells in column 'synonyms'.*split at ';'.*heart attack; MI",
        ),
    ],
)
def test_doubtful_separators_warn(write, name, synonyms, warning):
    path = write(f"id\tname\tsynonyms\nX:1\t{name}\t{synonyms}\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (found,) = read_table(path)
    assert len(caught) == bool(warning)
    if warning:
        with pytest.warns(KrisselWarning, match=warning):
            list(read_table(path))
    assert len(found.aliases) == (2 if "KW111" in warning else 1)
    for separator, n in (("", 1), (";", 1 + synonyms.replace("&beta;", "").count(";"))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (found,) = read_table(path, separator=separator)
        assert len(found.aliases) == n or "&beta;" in synonyms


def test_types_and_parents_have_their_own_separators(write):
    path = write(
        "id\tname\tsynonyms\ttypes\tparents\nX:1\tfever\tpyrexia|heat\tSign;Finding\tX:2|X:3\n"
    )
    with pytest.warns(KrisselWarning, match="KW111.*'types'"):
        (fever,) = read_table(path)
    assert (fever.aliases, fever.types, fever.parents) == (
        ("pyrexia", "heat"),
        ("Sign", "Finding"),
        ("X:2", "X:3"),
    )

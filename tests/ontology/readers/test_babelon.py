"""Tables of translations, by themselves and as synonyms of an ontology's entities."""

import csv
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel import build_ontology
from spacy_krissel.commands.make_ontology import ontology
from spacy_krissel.errors import KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.babelon import read_babelon

COLUMNS = (
    "source_language translation_language subject_id predicate_id source_value translation_value "
    "translation_status"
)
ROWS = [
    (
        "en",
        "nl",
        "HP:0002315",
        "oboInOwl:hasExactSynonym",
        "Cephalalgia",
        "Cefalalgie",
        "CANDIDATE",
    ),
    ("en", "nl", "HP:0002315", "rdfs:label", "Headache", "Hoofdpijn", "OFFICIAL"),
    (
        "en",
        "nl",
        "HP:0002315",
        "IAO:0000115",
        "Pain in the head.",
        "Pijn in het hoofd.",
        "OFFICIAL",
    ),
    ("en", "nl", "HP:0002315", "oboInOwl:hasBroadSynonym", "Pain", "Pijn", "OFFICIAL"),
    (
        "en",
        "nl",
        "http://purl.obolibrary.org/obo/HP_0001945",
        "rdfs:label",
        "Fever",
        "Koorts",
        "OFFICIAL",
    ),
    ("en", "nl", "HP:0012378", "rdfs:label", "Fatigue", "Fatigue", "NOT_TRANSLATED"),
    ("en", "nl", "HP:0002017", "rdfs:label", "Nausea", "", "CANDIDATE"),
    ("en", "nl", "HP:0002315", "rdfs:comment", "A symptom.", "Een symptoom.", "OFFICIAL"),
]
HEADACHE = Entity(
    "HP:0002315", "Hoofdpijn", ("Cefalalgie",), definition="Pijn in het hoofd.", source="HP"
)
FEVER = Entity("HP:0001945", "Koorts", source="HP")


@pytest.fixture
def write(tmp_path):
    def write(rows, columns=COLUMNS, head="", delimiter="\t"):
        path = tmp_path / "hp-nl.babelon.tsv"
        with path.open("w", encoding="utf8", newline="") as file_:
            file_.write(head)
            csv.writer(file_, delimiter=delimiter, lineterminator="\n").writerows(
                [columns.split(), *rows]
            )
        return path

    return write


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("head", ["", "\ufeff", "#curie_map:\n#  HP: a, b, c\n", "sep=\t\n"])
@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_predicates_decide_what_translations_become(write, head, delimiter):
    path = write(ROWS, head=head, delimiter=delimiter)
    assert detect_format(path) == "babelon"
    assert list(read_ontology(path)) == [HEADACHE, FEVER]
    assert next(read_babelon(path, scopes=["BROAD"])).aliases == ("Pijn",)


@pytest.mark.filterwarnings("error")
@given(
    st.permutations(COLUMNS.split()),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_column_order_and_quoting_do_not_matter(
    tmp_path_factory, columns, end, quoted, marked, zipped
):
    table = [dict(zip(COLUMNS.split(), row, strict=True)) for row in ROWS]
    rows = [columns, *([row[column] for column in columns] for row in table)]
    cells = '"{}"' if quoted else "{}"
    text = "\ufeff" * marked + "".join("\t".join(map(cells.format, row)) + end for row in rows)
    path = tmp_path_factory.getbasetemp() / f"any.babelon.tsv{'.gz' * zipped}"
    path.write_bytes((gzip.compress if zipped else bytes)(text.encode("utf8")))
    assert detect_format(path) == "babelon"
    assert list(read_ontology(path)) == [HEADACHE, FEVER]


def test_optional_columns_can_be_missing(write):
    needed = "subject_id predicate_id translation_value translation_status".split()
    places = [COLUMNS.split().index(column) for column in needed]
    path = write([[row[place] for place in places] for row in ROWS], " ".join(needed))
    assert list(read_ontology(path)) == [HEADACHE, FEVER]


def test_names_in_all_languages_of_a_table_are_read(write, phenotypes, tmp_path):
    rows = [
        ("en", code, "HP:0002315", "rdfs:label", "Headache", f"{code}-name", "CANDIDATE")
        for code in ("fr", "de")
    ]
    store, _ = ontology([phenotypes], tmp_path / "store", translations=[write(rows)])
    assert store.get("HP:0002315").names == ("Headache", "fr-name", "de-name")


def test_table_of_synonyms_needs_no_predicates(write):
    rows = [
        ("ID", "AL oboInOwl:hasExactSynonym@nl", ""),
        ("HP:1", "Moe", "CANDIDATE"),
        ("HP:2", "x", "NOT_TRANSLATED"),
    ]
    path = write(rows, "subject_id translation_value comment")
    assert list(read_ontology(path)) == [Entity("HP:1", "Moe", source="HP")]


def test_row_without_id_is_counted(write):
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 1 of 9.*line 10 has nothing in column 'subject_id'"
    ):
        assert (
            len(
                list(
                    read_babelon(
                        write([*ROWS, ("en", "nl", "", "rdfs:label", "Ache", "Pijn", "OFFICIAL")])
                    )
                )
            )
            == 2
        )


TEXTS = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=8
)


@given(st.dictionaries(st.integers(0, 5), TEXTS.map(str.strip).filter(bool), min_size=1))
def test_any_translation_is_a_name(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "any.tsv"
    rows = [("subject_id", "predicate_id", "translation_value")]
    rows += [(f"HP:{number}", "rdfs:label", text) for number, text in texts.items()]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf8")
    found = {entity.id: entity.name for entity in read_babelon(path)}
    # Quotes around all of a cell are those of a table.
    expected = {
        f"HP:{number}": text for number, text in texts.items() if not (text[0] == text[-1] == '"')
    }
    assert {id_: name for id_, name in found.items() if id_ in expected} == expected


@pytest.fixture
def phenotypes(tmp_path):
    path = tmp_path / "hp.json"
    nodes = [
        {"id": id_, "lbl": name, "type": "CLASS"}
        for id_, name in (("HP:0002315", "Headache"), ("HP:1", "Other"))
    ]
    path.write_text(json.dumps({"graphs": [{"nodes": nodes}]}))
    return path


def test_translations_are_synonyms_of_the_entities_with_their_ids(write, phenotypes, tmp_path):
    store, _ = ontology([phenotypes], tmp_path / "store", translations=[write(ROWS)])
    assert [entity.names for entity in store] == [
        ("Headache", "Hoofdpijn", "Cefalalgie"),
        ("Other",),
    ]
    info = store.manifest["info"]
    assert info["translations"] == ["hp-nl.babelon.tsv"] and info["translated"]["aliases"] == 1


def test_translations_of_unknown_ids_warn(write, phenotypes, tmp_path):
    rows = [("X:1", "Pijn", "")]
    with pytest.warns(KrisselWarning, match=r"KW110.*hp-nl\.babelon\.tsv"):
        build_ontology(
            phenotypes,
            tmp_path / "store",
            translations=[write(rows, "subject_id translation_value comment")],
        )

"""OMOP's vocabularies in ATHENA's files; concepts are synthetic."""

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.omop import read_omop


def table(header, *rows):
    return "".join("\t".join(row) + "\n" for row in (header.split(), *rows))


def concepts(*rows):
    return table(
        "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept "
        "concept_code valid_start_date valid_end_date invalid_reason",
        *(
            (
                id_,
                name,
                domain,
                vocabulary,
                "A class",
                standard,
                code,
                "20020131",
                "20991231",
                invalid,
            )
            for id_, name, domain, vocabulary, standard, code, invalid in rows
        ),
    )


FILES = {
    "CONCEPT.csv": concepts(
        ("3001", "Gout", "Condition", "SNOMED", "S", "1001", ""),
        ("3002", 'Arthritis, "crystal"', "Condition", "SNOMED", "S", "1002", ""),
        ("3003", "Gouty disease", "Condition", "MeSH", "", "D006073", ""),
        ("3004", "Old gout", "Condition", "SNOMED", "", "1003", "U"),
        ("3005", "colchicine", "Drug", "RxNorm", "S", "2683", ""),
        ("3006", "antigout preparations", "Drug", "ATC", "C", "M04", ""),
    ),
    "CONCEPT_SYNONYM.csv": table(
        "concept_id concept_synonym_name language_concept_id",
        ("3001", "Podagra", "4180186"),
        ("3001", "Gout", "4180186"),
        ("3001", "Gota", "4182511"),
        ("3004", "Ancient gout", "4180186"),
        ("3001", 'The "gout"', "4180186"),
    ),
    "CONCEPT_RELATIONSHIP.csv": table(
        "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason",
        ("3001", "3002", "Is a", "20020131", "20991231", ""),
        ("3001", "3004", "Is a", "20020131", "20200131", "D"),
        ("3002", "3001", "Subsumes", "20020131", "20991231", ""),
        ("3001", "3003", "Mapped from", "20020131", "20991231", ""),
    ),
    "VOCABULARY.csv": table(
        (
            "vocabulary_id vocabulary_name vocabulary_reference vocabulary_version "
            "vocabulary_concept_id"
        ),
        ("SNOMED", "SNOMED", "https://www.snomed.org", "2026-01-01", "44819097"),
        ("Domain", "OMOP Domain", "OMOP generated", "", "44819147"),
        ("None", "OMOP Standardized Vocabularies", "OMOP generated", "v5.0 31-JAN-26", "44819096"),
    ),
}
GOUT = Entity(
    "3001",
    "Gout",
    ("Podagra", 'The "gout"'),
    ("Condition",),
    xrefs=("SNOMEDCT:1001",),
    source="OMOP",
    parents=("3002",),
)


@pytest.fixture
def omop(tmp_path):
    def write(**changes):
        folder = tmp_path / "ATHENA"
        folder.mkdir(exist_ok=True)
        for name, text in {**FILES, **changes}.items():
            if text is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (folder / name).write_text(text, encoding="utf8")
        return folder

    return write


def ids(entities):
    return [entity.id for entity in entities]


def test_invalid_and_foreign_language_rows_are_left_out(omop):
    first, second, third, *others = read_omop(omop(), parents=True)
    assert first == GOUT and ids(others) == ["3005", "3006"]
    assert (second.name, second.parents) == ('Arthritis, "crystal"', ()), (
        "a quote is a character of the name"
    )
    assert third.xrefs == ("MESH:D006073",) and others[0].xrefs == ("RXNORM:2683",)


def test_only_requested_concepts_are_read(omop):
    folder = omop()
    assert ids(read_omop(folder, vocabularies=["SNOMED", "ATC"])) == ["3001", "3002", "3006"]
    assert ids(read_omop(folder, domains=["Drug"])) == ["3005", "3006"]
    assert ids(read_omop(folder, standard=True)) == ["3001", "3002", "3005"]
    assert ids(read_omop(folder, vocabularies=["SNOMED"], domains=["Drug"])) == []


def test_vocabularies_without_synonyms_are_read(omop):
    header = FILES["CONCEPT_SYNONYM.csv"].partition("\n")[0]
    first, *_ = read_omop(omop(**{"CONCEPT_SYNONYM.csv": f"{header}\n"}))
    assert first.names == ("Gout",)
    with pytest.raises(KrisselError, match="K103.*CONCEPT_SYNONYM"):
        list(read_omop(omop(**{"CONCEPT_SYNONYM.csv": ""})))


def test_parents_are_read_only_on_request(omop):
    first, *_ = read_omop(omop(**{"CONCEPT_RELATIONSHIP.csv": None}))
    assert first.parents == ()


@pytest.mark.parametrize("name", ["CONCEPT.csv", "CONCEPT_SYNONYM.csv", "CONCEPT_RELATIONSHIP.csv"])
def test_missing_file_is_named(omop, name):
    with pytest.raises(KrisselError, match=rf"K101.*ATHENA/{name}'.*OMOP's {name}"):
        read_ontology(omop(**{name: None}), format="omop", parents=True)


def test_damaged_rows_are_counted(omop):
    rows = (
        "3007\tshort\n"
        + concepts(("3008", "no code", "Drug", "ATC", "", " ", "")).partition("\n")[2]
    )
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 2 of 8.*CONCEPT\.csv.*2 columns.*'concept_code'"
    ):
        assert len(list(read_omop(omop(**{"CONCEPT.csv": FILES["CONCEPT.csv"] + rows})))) == 5
    with pytest.raises(KrisselError, match="K103.*CONCEPT.csv.*no column 'concept_id'"):
        list(read_omop(omop(**{"CONCEPT.csv": "concept_id,concept_name\n"})))


def test_gzipped_files_are_read(omop):
    folder = omop()
    for path in list(folder.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert detect_format(folder) == "omop"
    assert next(iter(read_ontology(folder, parents=True))) == GOUT


def test_provenance_of_the_files_is_kept(omop, tmp_path):
    folder = omop()
    store = build_ontology(
        folder, tmp_path / "store", vocabularies=["SNOMED"], parents=True, below=["3002"]
    )
    assert ids(store) == ["3001", "3002"]
    (stated,) = store.manifest["info"]["provenance"]
    assert (stated["format"], stated["version"]) == ("omop", "v5.0 31-JAN-26")
    assert stated["vocabularies"] == {"SNOMED": {"version": "2026-01-01"}} and sorted(
        stated["files"]
    ) == sorted(FILES)
    store = build_ontology(omop(**{"VOCABULARY.csv": None}), tmp_path / "store", version="May")
    (stated,) = store.manifest["info"]["provenance"]
    assert stated["version"] == "May" and sorted(stated["files"]) == [
        "CONCEPT.csv",
        "CONCEPT_SYNONYM.csv",
    ]

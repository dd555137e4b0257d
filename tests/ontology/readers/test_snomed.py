"""SNOMED CT's snapshot. Ids of concepts and descriptions are synthetic; those of its metadata are
SNOMED CT's."""

import gzip
import json
from dataclasses import replace

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.snomed import read_snomed

END = "_INT_20260101.txt"
CONCEPTS, RELATIONSHIPS = (
    f"Terminology/sct2_Concept_Snapshot{END}",
    f"Terminology/sct2_Relationship_Snapshot{END}",
)
DESCRIPTIONS, SPANISH = (
    f"Terminology/sct2_Description_Snapshot-{code}{END}" for code in ("en", "es")
)
DEFINITIONS = f"Terminology/sct2_TextDefinition_Snapshot-en{END}"
PREFERENCES = f"Refset/Language/der2_cRefset_LanguageSnapshot-en{END}"
SPANISH_PREFERENCES = f"Refset/Language/der2_cRefset_LanguageSnapshot-es{END}"
FSN, SYNONYM, DEFINITION = "900000000000003001", "900000000000013009", "900000000000550004"
US, GB, ES = "900000000000509007", "900000000000508004", "448879004"
IS_A, SITE = "116680003", "363698007"
MODULE = "900000000000207008"


def table(header, *rows):
    return (
        "\r\n".join(["\t".join(header.split()), *("\t".join(map(str, row)) for row in rows)])
        + "\r\n"
    )


def concepts(*rows):
    # The last column is the definition status.
    return table(
        "id effectiveTime active moduleId definitionStatusId",
        *((id_, "20020131", active, MODULE, "900000000000074008") for id_, active in rows),
    )


def texts(*rows):
    return table(
        "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId",
        *(
            (id_, "20020131", active, MODULE, *rest, "900000000000448009")
            for id_, active, *rest in rows
        ),
    )


def relationships(*rows):
    return table(
        "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId "
        "characteristicTypeId modifierId",
        *(
            (
                f"{i}028",
                "20020131",
                active,
                MODULE,
                child,
                parent,
                0,
                kind,
                "900000000000011006",
                "900000000000451002",
            )
            for i, (active, child, parent, kind) in enumerate(rows)
        ),
    )


def preferences(*rows):
    levels = {"preferred": "900000000000548007", "acceptable": "900000000000549004"}
    return table(
        "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId",
        *(
            (f"a-{i}", "20020131", active, MODULE, s, d, levels[level])
            for i, (active, s, d, level) in enumerate(rows)
        ),
    )


FILES = {
    CONCEPTS: concepts((1001, 1), (1002, 1), (1003, 0), (1004, 1)),
    DESCRIPTIONS: texts(
        (1, 1, 1001, "en", SYNONYM, "Oesophagitis"),
        (2, 1, 1001, "en", FSN, "Inflammation of esophagus (acute) (disorder)"),
        (3, 1, 1001, "en", SYNONYM, "Esophagitis"),
        (4, 0, 1001, "en", SYNONYM, "Esophagus trouble"),
        (5, 1, 1001, "da", SYNONYM, "Spiserørsbetændelse"),
        (6, 1, 1002, "en", FSN, "Disease (disorder)"),
        (7, 1, 1002, "en", SYNONYM, "Disease"),
        (8, 1, 1003, "en", SYNONYM, "Old disease"),
        (9, 1, 1004, "da", SYNONYM, "Uden navn"),
    ),
    SPANISH: texts(
        (10, 1, 1001, "es", SYNONYM, "Esofagitis"),
        (11, 1, 1002, "es", FSN, "enfermedad (trastorno)"),
    ),
    DEFINITIONS: texts(
        (12, 0, 1001, "en", DEFINITION, "Old text."),
        (13, 1, 1001, "en", DEFINITION, "Inflammation of the esophagus."),
    ),
    RELATIONSHIPS: relationships(
        (1, 1001, 1002, IS_A),
        (1, 1001, 1002, IS_A),
        (0, 1001, 1003, IS_A),
        (1, 1001, 1009, SITE),
        (1, 1003, 1002, IS_A),
    ),
    PREFERENCES: preferences(
        (1, US, 1, "acceptable"),
        (0, US, 1, "preferred"),
        (1, GB, 1, "preferred"),
        (1, US, 2, "preferred"),
        (1, US, 3, "preferred"),
        (1, US, 7, "preferred"),
    ),
    SPANISH_PREFERENCES: preferences((1, ES, 10, "preferred")),
}
ESOPHAGITIS = Entity(
    "1001",
    "Esophagitis",
    ("Inflammation of esophagus (acute)", "Oesophagitis"),
    ("disorder",),
    definition="Inflammation of the esophagus.",
    source="SNOMED CT",
    alt_ids=("SNOMEDCT:1001",),
    parents=("1002",),
)
DISEASE = Entity(
    "1002", "Disease", (), ("disorder",), source="SNOMED CT", alt_ids=("SNOMEDCT:1002",)
)


@pytest.fixture
def snomed(tmp_path):
    """Writes a release; returns its folder."""

    def write(kind="Snapshot", **changes):
        release = tmp_path / "SnomedCT_InternationalRF2_PRODUCTION_20260101T120000Z"
        for name, text in {**FILES, **changes}.items():
            path = release / kind / name.replace("Snapshot", kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(text.encode("utf8"))
        return release

    return write


def test_inactive_and_foreign_language_rows_are_left_out(snomed):
    assert list(read_snomed(snomed())) == [ESOPHAGITIS, DISEASE]


def test_folders_above_and_below_the_release_are_read(snomed):
    release = snomed()
    snomed("Full", **{CONCEPTS: concepts((1001, 0))})
    snomed("Delta", **{CONCEPTS: concepts((1001, 0))})
    for path in (
        release.parent,
        release,
        release / "Snapshot",
        release / "Snapshot" / "Terminology",
    ):
        assert detect_format(path) == "snomed"
        assert list(read_ontology(path)) == [ESOPHAGITIS, DISEASE]


def test_relative_path_is_read(snomed, monkeypatch):
    monkeypatch.chdir(snomed() / "Snapshot" / "Terminology")
    assert list(read_ontology(".")) == [ESOPHAGITIS, DISEASE]


@pytest.mark.parametrize("kind", ["Full", "Delta"])
def test_full_and_delta_releases_raise(snomed, kind):
    path = snomed(kind)
    assert detect_format(path) == "snomed"
    with pytest.raises(
        KrisselError, match=r"K101.*sct2_Concept_\*Snapshot_\*\.txt.*Full and Delta"
    ):
        read_ontology(path)


@pytest.mark.parametrize("name", [CONCEPTS, DESCRIPTIONS, RELATIONSHIPS, PREFERENCES])
def test_missing_file_is_named(snomed, name):
    stem = name.rpartition("/")[2].partition("Snapshot")[0].rstrip("_")
    snomed("Full")
    with pytest.raises(KrisselError, match=rf"K101.*{stem}"):
        read_ontology(snomed(**{name: None}), format="snomed")


def test_two_releases_raise(snomed):
    release = snomed()
    release.with_name("other").symlink_to(release)
    with pytest.raises(KrisselError, match=r"K101.*sct2_Concept.*not 2"):
        read_ontology(release.parent)


def test_optional_tables_can_be_empty_or_missing(snomed):
    alone = replace(ESOPHAGITIS, definition="")
    assert list(read_snomed(snomed(**{DEFINITIONS: texts()}))) == [alone, DISEASE]
    path = snomed(**{DEFINITIONS: None, RELATIONSHIPS: relationships()})
    assert list(read_snomed(path)) == [replace(alone, parents=()), DISEASE]
    with pytest.raises(KrisselError, match="K103.*Relationship"):
        list(read_snomed(snomed(**{RELATIONSHIPS: ""})))


def test_name_is_the_preferred_one_of_the_reference_set(snomed):
    path = snomed()
    first, _ = read_snomed(path, refset=GB)
    assert first.name == "Oesophagitis" and "Esophagitis" in first.aliases
    first, second = read_snomed(path, language="es", refset=ES)
    assert (first.names, second.names, second.types) == (
        ("Esofagitis",),
        ("enfermedad",),
        ("trastorno",),
    )
    with pytest.raises(KrisselError, match="K006.*refset.*'7'.*LanguageSnapshot-en"):
        list(read_snomed(path, refset="7"))


def test_concept_without_a_preferred_synonym_still_has_a_name(snomed):
    rows = [(6, 1, 1002, "en", FSN, "Disease (disorder)"), (7, 1, 1002, "en", SYNONYM, "Illness")]
    for kept, expected in ((rows, ("Disease", "Illness")), (rows[1:], ("Illness",))):
        text = texts((3, 1, 1001, "en", SYNONYM, "x"), *kept)
        _, disease = read_snomed(
            snomed(**{DESCRIPTIONS: text, PREFERENCES: preferences((1, US, 3, "preferred"))})
        )
        assert disease.names == expected


def test_damaged_rows_are_counted(snomed):
    damaged = FILES[DESCRIPTIONS] + "14\t20020131\t1\r\n15\t20020131\t1\tm\t1001\ten\tt\t \t9\r\n"
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 2 of 11.*Description.*line 11 has 3 .*'term'"
    ):
        assert list(read_snomed(snomed(**{DESCRIPTIONS: damaged}))) == [ESOPHAGITIS, DISEASE]
    with pytest.raises(KrisselError, match="K103.*Concept.*no column 'active'"):
        list(read_snomed(snomed(**{CONCEPTS: "id\tname\r\n"})))


def test_gzipped_files_are_read(snomed):
    release = snomed()
    for path in list(release.rglob("*.txt")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert list(read_ontology(release)) == [ESOPHAGITIS, DISEASE]


def test_provenance_of_the_release_is_kept(snomed, tmp_path):
    release = snomed()
    information = {"effectiveTime": "20260101", "licenceStatement": '"SNOMED CT"\nneeds a licence.'}
    (release / "release_package_information.json").write_text(json.dumps(information, indent=1))
    store = build_ontology(release, tmp_path / "store", below=["1002"], version="not this")
    assert list(store) == [ESOPHAGITIS, DISEASE] and store.resolve("SNOMEDCT_US:1001") == "1001"
    (stated,) = store.manifest["info"]["provenance"]
    assert (stated["format"], stated["source"]) == ("snomed", release.name)
    assert (stated["version"], stated["licence"]) == (
        "INT_20260101",
        '"SNOMED CT" needs a licence.',
    )
    names = [
        name.rpartition("/")[2] for name in FILES if name not in (SPANISH, SPANISH_PREFERENCES)
    ]
    assert sorted(stated["files"]) == sorted(names)
    store = build_ontology(release, tmp_path / "store", language="es", refset=ES)
    assert SPANISH.rpartition("/")[2] in store.manifest["info"]["provenance"][0]["files"]

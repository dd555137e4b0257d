import gc
import gzip
import json
import tempfile
from dataclasses import fields
from inspect import signature

import pytest

from spacy_krissel.commands.make_ontology import OntologySettings, ontology, show_ontology
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology import build as build_module
from spacy_krissel.ontology.build import build_ontology, open_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers.table import read_table
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.ontology.vocabularies.cache import Source


@pytest.fixture
def medic(tmp_path):
    path = tmp_path / "medic.txt"
    path.write_text(
        "D009103|126200||Multiple Sclerosis|MS\n145250||HYPERPIGMENTATION|FPH\n", encoding="utf8"
    )
    return path


@pytest.fixture
def obo(tmp_path):
    path = tmp_path / "small.obo"
    path.write_text(
        "format-version: 1.2\nontology: doid\n\n[Term]\nid: DOID:2377\nname: multiple sclerosis\n"
        'def: "A disease."[x]\nxref: MSH:D009103\n',
        encoding="utf8",
    )
    return path


def test_sources_of_several_formats_fill_one_store(tmp_path, medic, obo):
    more = tmp_path / "more.jsonl.gz"
    records = [
        {"concept_id": "C9", "canonical_name": "ms"},
        {"concept_id": "D009103", "canonical_name": "again"},
    ]
    more.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    with pytest.warns(KrisselWarning, match="KW102.*D009103"):
        store = build_ontology([medic, obo, more], tmp_path / "store")
    assert list(store.ids) == ["D009103", "145250", "DOID:2377", "C9"]
    assert store.find("MS") == ["C9", "D009103"]
    assert store.manifest["info"]["sources"] == ["medic.txt", "small.obo", "more.jsonl.gz"]
    assert [each["format"] for each in store.manifest["info"]["provenance"]] == [
        "medic",
        "obo",
        "jsonl",
    ]


def test_prefix_separates_equal_ids_of_two_sources(tmp_path, medic):
    genes = tmp_path / "genes.jsonl"
    genes.write_text(
        json.dumps({"concept_id": "145250", "canonical_name": "KRT5", "alt_ids": ["7", "HGNC:5"]})
        + "\n"
    )
    prefixed = build_ontology(genes, tmp_path / "genes", prefix="NCBIGene:")
    assert prefixed.get("NCBIGene:145250").alt_ids == ("NCBIGene:7", "HGNC:5")
    store = build_ontology([medic, prefixed.path], tmp_path / "store")
    assert [store.get(id_).name for id_ in ("145250", "NCBIGene:145250")] == [
        "HYPERPIGMENTATION",
        "KRT5",
    ]
    with pytest.raises(KrisselError, match="K006.*prefix"):
        build_ontology(genes, tmp_path / "none", prefix="NCBI Gene")


def test_species_words_name_their_species_on_request(tmp_path):
    taxa = tmp_path / "taxa.jsonl"
    names = {"NCBITaxon:9606": "Homo sapiens", "NCBITaxon:10088": "Mus", "9606": "a gene"}
    taxa.write_text(
        "\n".join(json.dumps({"concept_id": id_, "canonical_name": names[id_]}) for id_ in names)
    )
    assert OntologyStore(build_ontology(taxa, tmp_path / "plain").path).find("patients") == []
    store = build_ontology(taxa, tmp_path / "store", species_words=True)
    assert store.find("Patients") == ["NCBITaxon:9606"] and store.find("mice") == []
    assert [entity.name for entity in store] == list(names.values())


def test_a_species_word_is_a_name_of_its_species_alone(tmp_path):
    """Among taxa: names of other kinds of entities stay."""
    names = {
        "T:10090": ("Mus musculus", ["mouse", "house mouse"]),
        "T:10088": ("Mus", ["mouse", "mice"]),
        "T:1": ("rat", ["rats"]),
        "D:1": ("mouse allergy", ["mouse"]),
    }
    rows = [
        json.dumps({"concept_id": id_, "canonical_name": name, "aliases": aliases})
        for id_, (name, aliases) in names.items()
    ]
    (taxa := tmp_path / "taxa.jsonl").write_text("\n".join(rows))
    store = build_ontology(taxa, tmp_path / "store", species_words=True)
    assert set(store.find("mouse")) == {"T:10090", "D:1"} and store.find("mice") == ["T:10090"]
    assert store.find("rats") == ["T:1"] and store.get("T:10088").aliases == ()
    assert set(store.get("T:10090").aliases) == {"mouse", "house mouse", "mice", "murine"}


def test_sources_are_merged_into_one_entity_per_concept(tmp_path, medic, obo):
    store = build_ontology([obo, medic], tmp_path / "store", merge_sources=True)
    assert list(store.ids) == ["DOID:2377", "145250"]
    found = store.get("D009103")
    assert (found.id, found.name, found.aliases) == (
        "DOID:2377",
        "multiple sclerosis",
        ("Multiple Sclerosis", "MS"),
    )
    assert (found.definition, found.alt_ids, found.xrefs) == (
        "A disease.",
        ("D009103", "126200", "OMIM:126200"),
        (),
    )
    assert store.manifest["info"]["merged"] == {"seen": 3, "merged": 1}


def test_sources_with_nothing_in_common_are_counted_as_not_merged(tmp_path):
    for name in ("a", "b"):
        write_store([Entity(f"{name}:1", f"disease {name}")], tmp_path / name)
    output = tmp_path / "store"
    found = ontology([tmp_path / "a", tmp_path / "b"], output, merge=True)
    assert found[0].manifest["info"]["merged"] == {"seen": 2, "merged": 0}
    assert "0 of 2 entities became part of another" in show_ontology(found, output, True, None)


def test_store_is_enriched_from_a_file_or_a_store(tmp_path, medic, obo, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    other = build_ontology(obo, tmp_path / "doid")
    stores = [
        build_ontology(medic, tmp_path / "a", enrich_from=[source]) for source in (obo, other.path)
    ]
    assert [store.get("D009103").definition for store in stores] == ["A disease."] * 2
    assert stores[0].manifest["info"]["enriched"] == {"seen": 2, "linked": 1, "definition": 1}
    assert stores[0].manifest["info"]["enriched_from"] == ["small.obo"]
    # A store is a source too.
    again = build_ontology(stores[1].path, tmp_path / "again")
    assert list(again) == list(stores[1])
    assert list(scratch.iterdir()) == []


def test_options_reach_the_reader(tmp_path, medic):
    store = build_ontology(medic, tmp_path / "store", format="medic", types=["Condition"])
    assert store.entity_at(0).types == ("Condition",)
    with pytest.raises(KrisselError, match="K110.*medic.*'scopes'.*types"):
        build_ontology(medic, tmp_path / "store", scopes=["EXACT"])


@pytest.mark.parametrize("broken", ["source", "other"])
def test_nothing_is_written_for_a_bad_source(tmp_path, medic, broken):
    store = build_ontology(medic, tmp_path / "store")
    before = list(store)
    missing = tmp_path / "missing.obo"
    with pytest.raises(KrisselError, match="K101.*missing.obo"):
        build_ontology(
            [medic, missing] if broken == "source" else medic,
            store.path,
            enrich_from=[missing] if broken == "other" else [],
        )
    assert list(OntologyStore(store.path)) == before


def test_truncated_source_leaves_the_earlier_store(tmp_path, medic):
    store = build_ontology(medic, tmp_path / "store")
    lines = "".join(f"D{i:06}||Name {i}|Alias {i * 7919 % 10007}\n" for i in range(20_000))
    packed = gzip.compress(lines.encode())
    cut = tmp_path / "cut.txt.gz"
    cut.write_bytes(packed[: len(packed) - 5000])
    with pytest.raises(KrisselError, match=r"K102.*cut\.txt\.gz.*line \d{4,}"):
        build_ontology(cut, store.path)
    assert len(OntologyStore(store.path)) == 2


def test_one_branch_of_a_hierarchy_can_be_chosen(tmp_path):
    terms, trees = tmp_path / "terms.tsv", tmp_path / "trees.tsv"
    names = {"D1": "Salt", "D2": "Gout", "D3": "Steroids", "D4": "No tree"}
    rows = [f"{id_}\t{name}\tY" for id_, name in names.items()]
    terms.write_text("\n".join(["DescriptorUI\tTermName\tRecordPreferredTermYN", *rows]) + "\n")
    numbers = [("D1", "D01.5"), ("D2", "C05"), ("D3", "D04.2"), ("D3", "C99")]
    rows = [f"{id_}\t{names[id_]}\t{number}" for id_, number in numbers]
    trees.write_text("\n".join(["DescriptorUI\tDescriptorName\ttree_location", *rows]) + "\n")
    # As the command does it: the tree numbers come from the table that enriches.
    store = build_ontology(terms, tmp_path / "store", enrich_from=[trees], trees=["D"])
    assert list(store.ids) == ["D1", "D3"] and store.manifest["info"]["trees"] == ["D"]
    again = build_ontology(store.path, tmp_path / "one", trees=["D04", "E"])
    assert list(again.ids) == ["D3"]
    # How it was read stays with the source, through other stores.
    (stated,) = build_ontology(again.path, tmp_path / "two").manifest["info"]["provenance"]
    assert stated["settings"] == {"trees": ["D04", "E"], "enriched_from": True}
    assert len(build_ontology(terms, tmp_path / "all", enrich_from=[trees])) == 4


def test_temporary_stores_last_as_long_as_their_use(medic, tmp_path):
    first, again = open_ontology(medic), open_ontology(str(medic))
    assert first is again and first.find("MS") == ["D009103"]
    folder = first.path
    del first, again
    gc.collect()
    assert not folder.exists()
    store = write_store([Entity("1", "cold")], tmp_path / "store")
    assert open_ontology(store.path).path == store.path
    with pytest.raises(KrisselError, match="K001.*nothing"):
        open_ontology(tmp_path / "nothing")


@pytest.mark.parametrize("header", ["Nummer;Wort;Auch", "id;name;Auch"])
def test_table_options_apply_to_the_tables_of_several_sources(medic, obo, tmp_path, header):
    table = tmp_path / "lab.csv"
    table.write_text(f"{header}\nL:1;glucose;sugar/dextrose\n")
    first, second, third = header.split(";")
    columns = {"id_column": first, "name_column": second, "synonym_column": third, "separator": "/"}
    store = build_ontology([obo, table, medic], tmp_path / "store", **columns)
    assert list(store.ids) == ["DOID:2377", "L:1", "D009103", "145250"]
    assert store.get("L:1").names == ("glucose", "sugar", "dextrose")
    for sources in ([obo, medic], [obo]):
        with pytest.raises(KrisselError, match="K103|K110|K118"):
            build_ontology(sources, tmp_path / "other", **columns)


def test_a_column_applies_to_the_tables_that_have_it(tmp_path):
    first, second, third = tmp_path / "first.csv", tmp_path / "second.tsv", tmp_path / "third.csv"
    first.write_text("Nummer;Wort;Auch\nL:1;glucose;sugar/dextrose\n")
    second.write_text("id\tname\tsynonyms\nL:2\twater/ice\tH2O|aqua/vapour\n")
    third.write_text("Code,Wort\nL:3,salt\n")
    columns = {
        "id_column": "Nummer",
        "name_column": "wort",
        "synonym_column": "Auch",
        "separator": "/",
    }
    for sources in ([first, second, third], [third, second, first]):
        store = build_ontology(sources, tmp_path / "store", **columns)
        found = {entity.id: entity.names for entity in store}
        assert found == {
            "L:1": ("glucose", "sugar", "dextrose"),
            "L:2": ("water/ice", "H2O", "aqua/vapour"),
            "L:3": ("salt",),
        }
    # A table whose columns are neither named nor usual; a column that no table has.
    third.write_text("Kennung,Wort\nL:3,salt\n")
    with pytest.raises(
        KrisselError, match=r"K118.*third\.csv.*the ids.*'Kennung'.*krissel ontology"
    ):
        build_ontology([first, second, third], tmp_path / "other", **columns)
    with pytest.raises(KrisselError, match="K103.*no column 'Anders'"):
        build_ontology([first, second], tmp_path / "other", **{**columns, "type_column": "Anders"})


def test_a_vocabulary_keeps_its_own_columns(tmp_path, monkeypatch):
    """HGNC's are known by name: those of a table beside it are not asked of it."""
    hgnc, table = tmp_path / "hgnc.txt", tmp_path / "lab.csv"
    hgnc.write_text("hgnc_id\tsymbol\tname\nHGNC:5\tA1BG\talpha-1-B glycoprotein\n")
    table.write_text("Nummer,name,synonyms\nL:1,glucose,sugar~dextrose\n")
    own = {"id_column": "hgnc_id", "name_column": "symbol", "synonym_column": "name"}
    known = Source(hgnc, "table", own)
    monkeypatch.setattr(
        build_module,
        "locate",
        lambda path, *_, **options: known if path == "hgnc" else Source(path, "auto", options),
    )
    store = build_ontology(["hgnc", table], tmp_path / "store", id_column="Nummer", separator="~")
    assert [entity.names for entity in store] == [
        ("A1BG", "alpha-1-B glycoprotein"),
        ("glucose", "sugar", "dextrose"),
    ]


def test_format_and_reader_options_for_a_store_raise(obo, tmp_path):
    store = build_ontology(obo, tmp_path / "store")
    with pytest.raises(KrisselError, match="K006.*'format' is 'obo'.*auto"):
        build_ontology(store.path, tmp_path / "other", format="obo")
    with pytest.raises(KrisselError, match="K110.*no option 'scopes'"):
        build_ontology([store.path], tmp_path / "other", scopes=["EXACT"])


def test_empty_column_options_are_ignored(obo, tmp_path):
    store = build_ontology(obo, tmp_path / "store", id_column="", separator=None)
    assert "DOID:2377" in store


def test_command_settings_match_the_function_and_the_table_reader():
    """With the same defaults."""
    known = {**signature(read_table).parameters, **signature(build_ontology).parameters}
    for each in fields(OntologySettings):
        assert (each.default or None) == (known[each.name].default or None)

import resource

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_taxonomy

NAMES = (
    ("2", "bacteria", "", "blast name"),
    ("2", "Bacteria", "Bacteria <bacteria>", "scientific name"),
    ("2", "Monera", "Monera <bacteria>", "in-part"),
    ("2", "Bacteria (ex Cavalier-Smith 1987)", "", "authority"),
    ("9606", "Homo sapiens", "", "scientific name"),
    ("9606", "Homo sapiens Linnaeus, 1758", "", "authority"),
    ("9606", "human", "", "genbank common name"),
    ("9606", "NHM 1", "NHM 1 <holotype>", "type material"),
    ("7", "", "", "scientific name"),
)


def line(*cells):
    return "\t|\t".join(cells) + "\t|\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "names.dmp"
        path.write_text(text, encoding="utf8")
        return path

    return write


@pytest.fixture
def names(write):
    return write("".join(line(*cells) for cells in NAMES[:-1]))


@pytest.mark.filterwarnings("error")
def test_taxa_are_read(names):
    bacteria, human = read_taxonomy(names)
    assert bacteria == Entity("2", "Bacteria", ("bacteria",), ("Species",), source="NCBI Taxonomy")
    assert (human.id, human.name, human.aliases) == ("9606", "Homo sapiens", ("human",))


def test_common_name_of_genbank_can_be_preferred(names):
    bacteria, human = read_taxonomy(names, common_names=True)
    assert (human.name, human.aliases) == ("human", ("Homo sapiens",))
    # It has none; the class of names that BLAST shows is another.
    assert (bacteria.name, bacteria.aliases) == ("Bacteria", ("bacteria",))


def test_merged_ids_are_alternative_ids_of_their_taxon(names):
    merged = names.with_name("merged.dmp")
    merged.write_text("12\t|\t9606\t|\n30\t|\t9606\t|\n46\t|\t39\t|\nx\t|\t2\t|\n", encoding="utf8")
    with pytest.warns(KrisselWarning, match="KW101.*1 of 4.*line 4 is not two tax ids"):
        bacteria, human = read_taxonomy(names)
    assert (bacteria.alt_ids, human.alt_ids) == ((), ("12", "30"))


def test_taxon_has_its_parent(names):
    rows = [
        line("1", "1", "no rank"),
        line("2", "131567", "superkingdom"),
        line("9606", "9605", "species"),
        line("x", "1"),
    ]
    names.with_name("nodes.dmp").write_text(
        "".join([*rows, line("9" * 5000, "1")]), encoding="utf8"
    )
    with pytest.warns(
        KrisselWarning, match="KW101.*2 of 5.*line 4 does not begin with two tax ids"
    ):
        bacteria, human = read_taxonomy(names)
    assert (bacteria.parents, human.parents) == (("131567",), ("9605",))


def test_classes_can_be_chosen(names):
    bacteria, human = read_taxonomy(names, classes=["in-part", "type material"], types=["Taxon"])
    assert (bacteria.name, bacteria.aliases, bacteria.types) == (
        "Bacteria",
        ("Monera",),
        ("Taxon",),
    )
    assert human.aliases == ("NHM 1",)


def test_bad_lines_are_counted(write):
    rows = [line(*cells) for cells in NAMES]
    path = write(
        "".join(rows)
        + line("x", "y", "", "synonym")
        + line("1", "root")
        + "8\t|\tno bar\t|\t\t|\tsynonym\n"
        + rows[5]
    )
    expected = (
        "KW101.*4 of 13.*line 9 has no name; line 10 has no number as tax id, but 'x'; line 11 has "
        "2 columns"
    )
    with pytest.warns(KrisselWarning, match=expected):
        # Without a scientific name, the first of a taxon.
        assert [taxon.name for taxon in read_taxonomy(path)][:2] == ["Bacteria", "Homo sapiens"]


def test_another_file_of_the_dump_raises(write):
    with pytest.raises(KrisselError, match="K103.*taxonomy.*line 1 has 5 columns instead of 4"):
        list(read_taxonomy(write(line("1", "1", "no rank", "", "8"))))


def test_large_tax_id_takes_no_memory(tmp_path):
    names = tmp_path / "names.dmp"
    names.write_text(line("99999999", "Homo sapiens", "", "scientific name"), encoding="utf8")
    names.with_name("nodes.dmp").write_text(line("99999999", "9605", "species"), encoding="utf8")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (taxon,) = read_taxonomy(names)
    assert taxon.parents == ("9605",)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_mesh, read_mesh_tree

TERMS = """DescriptorUI\tDescriptorName\tTermName\tRecordPreferredTermYN
D000001\tCalcimycin\tA-23187\tN
D000001\tCalcimycin\tCalcimycin\tY
D000001\tCalcimycin\tA-23187\tN
D009103\tMultiple Sclerosis\tMS\tN
D009103\tMultiple Sclerosis\tSclerosis, "Multiple"\tN
"""
TREES = """DescriptorUI\tDescriptorName\ttree_location
D000001\tCalcimycin\tD02.355
D000001\tCalcimycin\tD03.633
D009103\tMultiple Sclerosis\tC10.114
D009103\tMultiple Sclerosis\tF03.1
"""


@pytest.fixture
def tables(tmp_path):
    terms, trees = tmp_path / "terms.tsv.gz", tmp_path / "trees.tsv"
    terms.write_bytes(gzip.compress(TERMS.encode()))
    trees.write_text(TREES)
    return terms, trees


@pytest.mark.filterwarnings("error")
def test_terms_get_their_tree_numbers(tables):
    assert list(read_mesh(*tables)) == [
        Entity(
            "D000001",
            "Calcimycin",
            ("A-23187",),
            ("Chemicals and Drugs",),
            ("D02.355", "D03.633"),
            source="MeSH",
        ),
        # Without a term marked as preferred, the first; quotes are part of a term.
        Entity(
            "D009103",
            "MS",
            ('Sclerosis, "Multiple"',),
            ("Diseases", "Psychiatry and Psychology"),
            ("C10.114", "F03.1"),
            source="MeSH",
        ),
    ]


def test_tree_numbers_are_optional(tables):
    entities = list(read_mesh(tables[0]))
    assert [entity.name for entity in entities] == ["Calcimycin", "MS"]
    assert not any(entity.tree_numbers or entity.types for entity in entities)


def test_tree_table_alone_is_read(tables):
    first, second = read_mesh_tree(tables[1])
    assert first == Entity(
        "D000001", "Calcimycin", (), ("Chemicals and Drugs",), ("D02.355", "D03.633"), source="MeSH"
    )
    assert second.name == "Multiple Sclerosis"


def test_bad_rows_are_counted(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS + "D3\ttoo few\nD4\tx\t \tY\n" + "D5\tFive\tFive\tY\n")
    with pytest.warns(
        KrisselWarning,
        match="KW101.*2 of 8.*line 7 has 2 columns instead of 4; line 8 has nothing in.*'TermN",
    ):
        assert [entity.id for entity in read_mesh(path)] == ["D000001", "D009103", "D5"]


def test_wrong_header_and_cut_row_raise(tmp_path, tables):
    with pytest.raises(
        KrisselError, match="K103.*trees.tsv.*mesh.*line 1 has no column 'TermName'"
    ):
        list(read_mesh(tables[1]))
    path = tmp_path / "cut.tsv"
    path.write_text(TERMS + "D5\tFiv")
    with pytest.raises(KrisselError, match="K102.*cut.tsv.*line 7"):
        list(read_mesh(path))


@pytest.mark.data
@pytest.mark.filterwarnings("error")
def test_real_files_are_read_completely(data_dir):
    folder = data_dir / "ontologies"
    count = names = trees = rows = 0
    for entity in read_mesh(
        folder / "mesh_descriptor_terms.tsv.gz", folder / "mesh_tree_numbers.tsv.gz"
    ):
        count += 1
        names += len(entity.names)
        trees += len(entity.tree_numbers)
        assert bool(entity.types) == bool(entity.tree_numbers)
    # 263,936 rows, of which five repeat a term of their descriptor letter for letter.
    with gzip.open(folder / "mesh_descriptor_terms.tsv.gz") as file_:
        rows = sum(1 for _ in file_) - 1
    assert (count, rows, names, trees) == (30_764, 263_936, 263_931, 64_342)

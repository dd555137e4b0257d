import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_medic
from spacy_krissel.ontology.store import write_store

LINES = (
    "\ufeffD009103||Multiple Sclerosis|MS| MS |Sclerosis, Multiple\r\n"
    "\n"
    "270400|D019082||Smith-Lemli-Opitz Syndrome|Opitz&apos;s &amp; Sj&#246;gren\n"
    "C567755|613097||Tooth Agenesis, Selective, 6|STHAG6\n"
)
CONCEPTS = [
    Entity(
        "D009103", "Multiple Sclerosis", ("MS", "Sclerosis, Multiple"), ("Disease",), source="MEDIC"
    ),
    Entity(
        "270400",
        "Smith-Lemli-Opitz Syndrome",
        ("Opitz's & Sjögren",),
        ("Disease",),
        source="MEDIC",
        alt_ids=("OMIM:270400", "D019082"),
    ),
    Entity(
        "C567755",
        "Tooth Agenesis, Selective, 6",
        ("STHAG6",),
        ("Disease",),
        source="MEDIC",
        alt_ids=("613097", "OMIM:613097"),
    ),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_and_gzipped_files_are_read(tmp_path, pack):
    # The name does not matter, the content does.
    path = tmp_path / "medic.dat"
    path.write_bytes(pack(LINES.encode("utf8")))
    assert list(read_medic(path)) == CONCEPTS


def test_bad_lines_are_counted_with_their_line_numbers(tmp_path):
    path = tmp_path / "medic.txt"
    good = "".join(f"D{i:06}||Name {i}\n" for i in range(30))
    path.write_bytes(
        f"{good}no bars\n||no id\nD1|| |x\n".encode() + b"D2||\xff\xfe\n" + good.encode()
    )
    with pytest.warns(KrisselWarning) as caught:
        assert len(list(read_medic(path))) == 60
    (message,) = [str(warning.message) for warning in caught]
    assert message.startswith("[KW101] Left out 4 of 64 records") and str(path) in message
    assert (
        "line 31 has no '||'" in message
        and "line 32 has no id" in message
        and "line 33 has no preferred" in message
    )


def test_many_bad_lines_raise(tmp_path):
    path = tmp_path / "prose.txt"
    path.write_text("D000001||Name\n" + "only prose\n" * 1000, encoding="utf8")
    with pytest.raises(
        KrisselError, match=r"K103.*prose\.txt.*medic.*line 22 has no '\|\|'.*ID\|alternative"
    ):
        list(read_medic(path))


def test_file_cut_within_its_last_line_raises(tmp_path):
    path = tmp_path / "medic.txt"
    path.write_text("D000001||Name\nD0000", encoding="utf8")
    with pytest.raises(KrisselError, match=r"K102.*medic\.txt.*line 2"):
        list(read_medic(path))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_file_raises(tmp_path, content):
    path = tmp_path / "medic.txt"
    path.write_text(content)
    with pytest.raises(KrisselError, match="K103.*without a record"):
        list(read_medic(path))


@pytest.mark.data
def test_real_file_is_read_completely(data_dir, tmp_path):
    with pytest.warns(KrisselWarning, match="KW103.*260350"):
        store = write_store(
            read_medic(data_dir / "ontologies" / "medic_06Jul2012.txt"), tmp_path / "medic"
        )
    assert len(store) == 11_915
    assert store.manifest["names"] == sum(1 for _ in store.names()) == 76_237
    # Corpora spell OMIM ids with their prefix; 608627 is an alternative id in the file.
    assert store.resolve("OMIM:608627") == store.resolve("608627") == "C563895"
    assert store.find("multiple  SCLEROSIS") == ["126200"] == [store.resolve("D009103")]
    assert "D000544" in store.find("Alzheimer's disease")
    # The id of one concept and an alternative id of another.
    assert store.resolve("260350") == store.resolve("OMIM:260350") == "260350"

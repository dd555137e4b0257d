"""`krissel verify`: exit codes, reports and corrected copies."""

import csv
import json
from pathlib import Path

import pytest

from spacy_krissel.commands.verify_pairs import verify
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

ENTITIES = [
    Entity("HP:0000421", "Epistaxis", ("Nosebleed",)),
    Entity("HP:0002099", "Asthma", alt_ids=("HP:0000900",)),
]
TABLE = """\
id,label
HP:0000421,nosebleed
HP:0000421,Asthma
HP:0000900,Asthma
HP:0001234,Cake
X:1,Asthma
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(ENTITIES, tmp_path_factory.mktemp("verify") / "store").path


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path / "t.csv"


def test_exit_codes_tell_findings_from_bad_input(run, store, table, tmp_path):
    (tmp_path / "good.csv").write_text("id,label\nHP:0000421,Epistaxis\nX:1,cake\n")
    said = run("verify", tmp_path / "good.csv", "--ontology", store, code=0)
    assert said.strip() == "2 pairs, 1 right, 1 unchecked"
    said = run("verify", table, tmp_path / "good.csv", "--ontology", store, code=1)
    assert (
        "t.csv:3:1" in said
        and "wrong label" in said
        and "is 'Epistaxis', not 'Asthma'" in " ".join(said.split())
    )
    assert "7 pairs" in said and "1 retired" in said and "1 unknown id" in said
    for arguments in (
        (tmp_path / "missing.csv", "--ontology", store),
        (table, "--ontology", tmp_path / "missing"),
        (table,),
        (table, "--ontology", store, "--fix"),
        (table, "--ontology", store, "-o", tmp_path / "new.csv"),
        (table, table, "--ontology", store, "--fix", "-o", tmp_path / "new.csv"),
        (table, "--ontology", store, "--report", tmp_path / "r.txt"),
        (table, "--ontology", store, "--fix", "-o", table),
        (table, "--ontology", store, "--id-column", "cake"),
    ):
        assert "✘ [K" in run("verify", *arguments, code=2)
    assert table.read_text() == TABLE and not (tmp_path / "new.csv").exists()


def test_the_copy_is_corrected_and_the_input_stays(run, store, table, tmp_path):
    copy = tmp_path / "new.csv"
    said = run("verify", table, "--ontology", store, "--fix", "-o", copy, code=1)
    assert f"2 corrected in {copy}, 1 left" in " ".join(said.split())
    assert table.read_text() == TABLE
    corrected = TABLE.replace("HP:0000421,Asthma", "HP:0002099,Asthma")
    assert copy.read_text() == corrected.replace("HP:0000900", "HP:0002099")
    # An existing copy is only replaced on request.
    said = run("verify", table, "--ontology", store, "--fix", "-o", copy, code=2)
    assert "[K027]" in said
    options = ("--trust", "id", "--force")
    run("verify", table, "--ontology", store, "--fix", "-o", copy, *options, code=1)
    assert "HP:0000421,Epistaxis" in copy.read_text()


def test_outputs_replace_neither_the_input_nor_each_other(store, table, tmp_path):
    copy = tmp_path / "copy.json"
    for report, output in ((copy, copy), (copy, table), (table.with_suffix(".tsv"), table)):
        with pytest.raises(KrisselError, match="K006.*another path"):
            verify([table], ontology=[store], fix=True, output=output, report=report, force=True)
    assert table.read_text() == TABLE and [*tmp_path.iterdir()] == [table]


def test_reports_have_the_verdicts(store, table, tmp_path):
    result = verify([table], ontology=[store], report=tmp_path / "r.json")
    statuses = ["synonym", "wrong_label", "retired", "unknown_id", "unchecked"]
    assert [each.verdict.status for each in result.checked] == statuses and result.exit_code == 1
    said = json.loads((tmp_path / "r.json").read_text(encoding="utf8"))
    assert said["counts"] == {"pairs": 5, **dict.fromkeys(statuses, 1)}
    assert [each["status"] for each in said["pairs"]] == statuses
    assert said["pairs"][1]["meant"] == [{"id": "HP:0002099", "name": "Asthma"}]
    verify([table], ontology=[store], report=tmp_path / "r.tsv")
    with (tmp_path / "r.tsv").open(newline="", encoding="utf8") as file_:
        rows = [*csv.DictReader(file_, delimiter="\t")]
    assert [(row["line"], row["verdict"]) for row in rows] == [*zip("23456", statuses, strict=True)]
    assert rows[1]["is"] == "HP:0000421 Epistaxis" and rows[1]["label_is"] == "HP:0002099 Asthma"


def test_sarif_has_the_findings_at_their_lines(store, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verify([Path("t.csv")], ontology=[store], report=tmp_path / "r.sarif")
    log = json.loads((tmp_path / "r.sarif").read_text(encoding="utf8"))
    (one,) = log["runs"]
    assert log["version"] == "2.1.0" and one["tool"]["driver"]["name"] == "spacy-krissel"
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    for result, rule, line in zip(
        one["results"], ["wrong_label", "retired", "unknown_id"], (3, 4, 5), strict=True
    ):
        assert result["ruleId"] == rule == rules[result["ruleIndex"]] and result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"] == {
            "artifactLocation": {"uri": "t.csv"},
            "region": {"startLine": line, "startColumn": 1},
        }


def test_a_file_without_ids_is_warned_about(store, tmp_path):
    (tmp_path / "t.md").write_text("Nothing: here, 12:30.\n")
    with pytest.warns(KrisselWarning, match="KW213"):
        assert verify([tmp_path / "t.md"], ontology=[store]).exit_code == 0
    with pytest.raises(KrisselError, match=r"K006.*'ontology'"):
        verify([tmp_path / "t.md"])

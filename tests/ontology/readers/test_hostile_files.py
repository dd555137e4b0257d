"""Files that unpack to more than there is, in encodings that are not read, or with what no text
has."""

import gzip
import json

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.readers import READERS, read_mesh, read_ontology
from spacy_krissel.ontology.readers.umls import umls_release

MORE = 2**20 + 2**17
BOMBS = {
    "medic": "D1||" + "x" * MORE,
    "jsonl": '{"concept_id": "' + "x" * MORE,
    "obo": "format-version: 1.2\n[Term]\nid: X:1\nname: x\n" + 'synonym: "x" EXACT []\n' * 60_000,
    "obographs": "{" + " " * MORE,
    "mesh": "DescriptorUI\tTermName\tRecordPreferredTermYN\n" + "D1\tx\tY\n" * 60_000,
    "mesh-xml": "<DescriptorRecordSet><a>" + " " * MORE,
    "fhir": '{"resourceType": "CodeSystem"' + " " * MORE,
    "icd10cm": "<ICD10CM.tabular><diag>" + " " * MORE,
    "skos": "@prefix skos: <http://www.w3.org/2004/02/skos/core#> ." + " " * MORE,
    "owl": '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><a>' + " " * MORE,
    "umls": "C0000001|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|C1|name|0|N||\n" * 30_000,
    "cellosaurus": "ID   x\nAC   CVCL_0001\n" + "SY   x\n" * 200_000,
}


@pytest.mark.parametrize("format", BOMBS)
def test_decompression_bomb_raises(tmp_path, monkeypatch, format):
    monkeypatch.setenv("KRISSEL_MAX_RECORD_MIB", "1")
    monkeypatch.setenv("KRISSEL_MAX_FILE_MIB", "1")
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(BOMBS[format].encode("utf8")))
    with pytest.raises(KrisselError, match=r"K055.*KRISSEL_MAX_(RECORD|FILE)_MIB"):
        list(READERS[format](path))


@pytest.mark.parametrize("format", ["phrases", "cellosaurus-tsv"])
def test_repeated_row_takes_no_memory(tmp_path, format):
    import tracemalloc

    path = tmp_path / "a"
    path.write_bytes(
        {"phrases": b"C1\tname\tphrase\n", "cellosaurus-tsv": b"x\tCVCL_0001\ty\n"}[format] * 50_000
    )
    tracemalloc.start()
    (entity,) = READERS[format](path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20 and not entity.aliases


@pytest.mark.parametrize(
    "format, content",
    [
        ("medic", "D1||one\nD2||t\x00wo\nD3||three|f\x07our\nD4||f\rive\n"),
        (
            "mesh",
            (
                "DescriptorUI\tTermName\tRecordPreferredTermYN\nD1\tone\tY\nD2\tt\x00wo\tY\n"
                "D3\t\x01\tY\nD4\t\x7f\tN\n"
            ),
        ),
        ("phrases", "C1\tone\ta\nC2\tt\x00wo\tb\nC3\tthree\tc\x0bd\nC4\tfour\x1c\te\n"),
        (
            "jsonl",
            "".join(
                json.dumps({"concept_id": name, "canonical_name": name}) + "\n"
                for name in ("one", "t\x00wo", "th\x07ree", "\ud800")
            ),
        ),
        (
            "obographs",
            json.dumps(
                {
                    "graphs": [
                        {
                            "nodes": [
                                {"id": f"X_{i}", "lbl": name}
                                for i, name in enumerate(("one", "t\x00wo", "\ud800", "\x08"))
                            ]
                        }
                    ]
                }
            ),
        ),
    ],
)
def test_names_with_control_characters_or_surrogates_are_left_out(tmp_path, format, content):
    path = tmp_path / "a"
    path.write_bytes(content.encode("utf8"))
    with pytest.warns(
        KrisselWarning, match="KW101.*Left out 3 of 4 records.*U\\+00|KW101.*surrogate"
    ):
        (entity,) = READERS[format](path)
    assert entity.name == "one"


def test_white_space_in_a_json_name_is_accepted(tmp_path):
    path = tmp_path / "a"
    path.write_text(
        json.dumps({"concept_id": "1", "canonical_name": "one\ttwo\nthree\u001f"}) + "\n"
    )
    assert len(list(READERS["jsonl"](path))) == 1


@pytest.mark.parametrize("encoding", ["gb2312", "shift_jis", "utf-7", "no-such-thing"])
def test_unsupported_encoding_raises(tmp_path, encoding):
    path = tmp_path / "a.xml"
    path.write_text(
        f"<?xml version='1.0' encoding='{encoding}'?>\n<DescriptorRecordSet></DescriptorRecordSet>"
    )
    with pytest.raises(KrisselError, match=rf"K058.*a\.xml.*'{encoding}'|K007.*unknown encoding"):
        list(read_ontology(path))


@pytest.mark.parametrize("format", ["auto", "medic", "obo", "jsonl"])
def test_utf_16_is_named_in_the_error(tmp_path, format):
    path = tmp_path / "a.txt"
    path.write_text("D009103||Multiple Sclerosis\n", encoding="utf-16-le")
    with pytest.raises(KrisselError, match=r"K056.*a\.txt.*UTF-16"):
        list(read_ontology(path, format=format))


def test_restriction_that_is_not_a_digit_is_kept_as_text(tmp_path):
    row = ["x"] * 25
    row[3], row[2], row[13], row[21] = "MSH", "MSH2024", "²", "Y"
    (tmp_path / "MRCONSO.RRF").write_text("C0000001|ENG|P|L1|PF|S1|Y|A1||||MSH|PT|C1|name|0|N||\n")
    (tmp_path / "MRSAB.RRF").write_text("|".join(row) + "|\n")
    assert umls_release(tmp_path)["vocabularies"]["MSH"]["restriction"] == "²"


def test_fault_of_a_reader_raises_a_coded_error(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_krissel.ontology.readers.mesh.unique", lambda *_, **__: {}["gone"])
    path = tmp_path / "a"
    path.write_text("DescriptorUI\tTermName\tRecordPreferredTermYN\nD1\tx\tY\n")
    with pytest.raises(KrisselError, match="K053.*line 2.*KeyError: 'gone'") as caught:
        list(read_mesh(path))
    assert isinstance(caught.value.__cause__, KeyError)


def test_last_line_without_an_end_warns(tmp_path):
    path = tmp_path / "a"
    path.write_text("D1||one\nD2||two")
    with pytest.warns(KrisselWarning, match="KW105.*'.*a', 2"):
        assert len(list(READERS["medic"](path))) == 2

"""ICD-10-CM's tabular list."""

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.provenance import provenance
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.icd10cm import read_icd10cm

HEAD = """<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="x.xsd">
\t<version>2026</version>
\t<title>ICD-10-CM TABULAR LIST of DISEASES and INJURIES</title>
\t<chapter>
\t\t<name>9</name>
\t\t<desc>Diseases of the circulatory system (I00-I99)</desc>
\t\t<includes>
\t\t\t<note>of the chapter</note>
\t\t</includes>
\t\t<sectionIndex>
\t\t\t<sectionRef first="I10" last="I1A" id="I10-I1A">
       Hypertensive diseases
     </sectionRef>
\t\t</sectionIndex>
\t\t<section id="I10-I1A">
\t\t\t<desc>Hypertensive diseases (I10-I1A)</desc>
"""  # noqa: E501
END = "\t\t</section>\n\t</chapter>\n</ICD10CM.tabular>\n"
CODES = """\t\t\t<diag>
\t\t\t\t<name>I10</name>
\t\t\t\t<desc>Essential (primary) hypertension</desc>
\t\t\t\t<includes>
\t\t\t\t\t<note>high blood pressure</note>
\t\t\t\t\t<note>hypertension &amp;
\t\t\t\t\t  so on</note>
\t\t\t\t</includes>
\t\t\t\t<excludes1>
\t\t\t\t\t<note>hypertensive disease complicating pregnancy (O10-O11)</note>
\t\t\t\t</excludes1>
\t\t\t</diag>
\t\t\t<diag>
\t\t\t\t<name>I11</name>
\t\t\t\t<desc>Hypertensive heart disease</desc>
\t\t\t\t<useAdditionalCode>
\t\t\t\t\t<note>code to identify</note>
\t\t\t\t</useAdditionalCode>
\t\t\t\t<diag>
\t\t\t\t\t<name>I11.0</name>
\t\t\t\t\t<desc>Hypertensive heart disease with heart failure</desc>
\t\t\t\t\t<inclusionTerm>
\t\t\t\t\t\t<note>Hypertensive heart failure</note>
\t\t\t\t\t</inclusionTerm>
\t\t\t\t</diag>
\t\t\t</diag>
"""
CHAPTER = "Diseases of the circulatory system"


@pytest.fixture
def write(tmp_path):
    def write(text, pack=bytes):
        path = tmp_path / "icd10cm-tabular-2026.xml"
        path.write_bytes(pack(text.encode("utf8")))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_codes_are_read_as_listed(write, pack):
    path = write(HEAD + CODES + END, pack)
    shared = {"types": (CHAPTER,), "source": "ICD-10-CM"}
    assert detect_format(path) == "icd10cm"
    assert list(read_ontology(path)) == [
        Entity(
            "I10",
            "Essential (primary) hypertension",
            ("high blood pressure", "hypertension & so on"),
            **shared,
        ),
        Entity(
            "I11.0",
            "Hypertensive heart disease with heart failure",
            ("Hypertensive heart failure",),
            parents=("I11",),
            **shared,
        ),
        Entity("I11", "Hypertensive heart disease", **shared),
    ]
    assert provenance(path, "auto")[0]["version"] == "2026"


def test_code_without_a_description_is_counted(write):
    bad = "<diag><name>I12</name></diag>\n<diag><desc>x</desc></diag>"
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 2 of 5.*begins a code without a description"
    ):
        assert len(list(read_icd10cm(write(HEAD + CODES + bad + END)))) == 3


@pytest.mark.parametrize(
    "text, code",
    [
        (HEAD + CODES, "K007"),
        (HEAD + CODES.replace("<name>I11<", "<name>&x;<") + END, "K007"),
        ((HEAD + CODES + END).replace("<ICD", '<!DOCTYPE a [<!ENTITY x "I1">]><ICD', 1), "K009"),
        ("<other/>", "K008"),
        (HEAD + END, "K103"),
    ],
)
def test_errors_are_coded(write, text, code):
    with pytest.raises(KrisselError, match=rf"{code}\].*icd10cm-tabular"):
        list(read_icd10cm(write(text)))

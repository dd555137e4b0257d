"""RxNorm's RRF files; rows are synthetic."""

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.rxnorm import read_rxnorm

CONCEPTS = """\
2683|ENG||||||11||2683||RXNORM|SY|2683|Kolchizin||N||
2683|ENG||||||10||2683||RXNORM|IN|2683|colchicine||N|4096|
2683|ENG||||||12|7|M1|D003078|MSH|MH|D003078|Colchicine||N||
2683|ENG||||||13||||NDDF|IN|NOCODE|COLCHICINE||N||
2683|ENG||||||14|||4018890|SNOMEDCT_US|PT|387413002|Old colchicine||O||
2683|SPA||||||15||2683||RXNORM|SY|2683|colchicina||N||
197541|ENG||||||16||197541||RXNORM|PSN|197541|colchicine 0.6 MG Oral Tablet||N||
197541|ENG||||||17||197541||RXNORM|SCD|197541|colchicine 0.6 mg oral tablet||N|4096|
197541|ENG||||||18||197541||RXNORM|SY|197541|colchicine 600 MCG||E||
800|ENG||||||19||800||RXNORM|BN|800|Colcrys||O||
900|ENG||||||20||||MSH|MH|D000900|Only of MeSH||N||
2683|ENG||||||21||2683||RXNORM|TMSY|2683|Colchysat||N||
"""
SOURCES = """\
C1|C2|RXNORM_26AA_260105F|RXNORM|RxNorm Vocabulary|RXNORM|26AA_260105F||||||x;y|0|1|2||IN||ENG|UTF-8|Y|Y|RxNorm||
C3|C4|MSH2026|MSH|MeSH|MSH|2026||||||x;y|0|1|2||MH||ENG|UTF-8|Y|Y|MeSH||
"""  # noqa: E501
COLCHICINE = Entity(
    "2683",
    "colchicine",
    ("Kolchizin", "Colchysat"),
    ("IN",),
    xrefs=("MESH:D003078",),
    source="RxNorm",
    alt_ids=("RXNORM:2683",),
)
TABLET = Entity(
    "197541",
    "colchicine 0.6 mg oral tablet",
    ("colchicine 0.6 MG Oral Tablet",),
    ("SCD",),
    source="RxNorm",
    alt_ids=("RXNORM:197541",),
)


@pytest.fixture
def rxnorm(tmp_path):
    folder = tmp_path / "RxNorm_full_01052026" / "rrf"
    folder.mkdir(parents=True)
    (folder / "RXNCONSO.RRF").write_text(CONCEPTS, encoding="utf8")
    (folder / "RXNSAB.RRF").write_text(SOURCES, encoding="utf8")
    return folder


def test_suppressed_and_foreign_source_names_are_left_out(rxnorm):
    assert list(read_rxnorm(rxnorm)) == [COLCHICINE, TABLET]


def test_folders_and_files_of_the_release_are_read(rxnorm):
    for path in (rxnorm, rxnorm.parent, rxnorm / "RXNCONSO.RRF"):
        assert detect_format(path) == "rxnorm"
        assert list(read_ontology(path)) == [COLCHICINE, TABLET]
    packed = gzip.compress((rxnorm / "RXNCONSO.RRF").read_bytes())
    (rxnorm / "RXNCONSO.RRF").rename(rxnorm / "RXNCONSO.RRF.gz").write_bytes(packed)
    assert list(read_ontology(rxnorm.parent)) == [COLCHICINE, TABLET]


def test_only_requested_concepts_are_read(rxnorm):
    assert list(read_rxnorm(rxnorm, term_types=["IN", "BN"])) == [COLCHICINE]
    first, second, third = read_rxnorm(rxnorm, vocabularies=["RXNORM", "MSH"])
    assert first.names == ("colchicine", "Kolchizin", "Colchicine", "Colchysat")
    assert second == TABLET and (third.name, third.xrefs) == ("Only of MeSH", ("MESH:D000900",))


def test_rxnorms_name_comes_before_that_of_another_source(tmp_path):
    first, second, *_ = CONCEPTS.splitlines()
    other = second.replace("RXNORM|IN", "NDDF|IN").replace("colchicine", "COLCHICINE")
    path = tmp_path / "RXNCONSO.RRF"
    path.write_text(f"{other}\n{first}\n")
    (found,) = read_rxnorm(path, vocabularies=["RXNORM", "NDDF"])
    assert (found.name, found.types) == ("Kolchizin", ("SY",))


def test_missing_file_is_named(rxnorm):
    (rxnorm / "RXNCONSO.RRF").unlink()
    with pytest.raises(KrisselError, match=r"K101.*RXNCONSO\.RRF.*RxNorm's RXNCONSO\.RRF"):
        read_ontology(rxnorm.parent, format="rxnorm")


def test_damaged_rows_are_counted(rxnorm):
    (rxnorm / "RXNCONSO.RRF").write_text(
        f"{CONCEPTS}2683|ENG|x|\n|ENG||||||1||||RXNORM|IN|1|x||N||\n"
    )
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 2 of 14.*line 13 has 3 columns.*first column"
    ):
        assert list(read_rxnorm(rxnorm)) == [COLCHICINE, TABLET]
    (rxnorm / "RXNCONSO.RRF").write_text("a,b\n")
    with pytest.raises(KrisselError, match=r"K103.*rxnorm.*RXNCONSO\.RRF, 18 columns"):
        list(read_rxnorm(rxnorm))


def test_provenance_of_the_files_is_kept(rxnorm, tmp_path):
    store = build_ontology(rxnorm.parent, tmp_path / "store", version="not this", licence="UMLS")
    assert store.resolve("RXNORM:2683") == "2683"
    (stated,) = store.manifest["info"]["provenance"]
    assert (stated["format"], stated["version"], stated["licence"]) == (
        "rxnorm",
        "RXNORM_26AA_260105F",
        "UMLS",
    )
    assert stated["vocabularies"]["MSH"] == {"version": "MSH2026", "restriction": 0}
    assert sorted(stated["files"]) == ["RXNCONSO.RRF", "RXNSAB.RRF"]

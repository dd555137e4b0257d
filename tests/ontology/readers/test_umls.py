"""UMLS's RRF files."""

import gzip

import pytest
import spacy

from spacy_krissel.corpora.convert import convert
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.umls import read_umls

CONCEPTS = """\
C0000001|ENG|S|L2|PF|S2|Y|A2||||MSH|ET|D01|Knee ache|0|N||
C0000001|ENG|P|L1|VO|S1|Y|A1||||MSH|MH|D01|Pain, Knee|0|N||
C0000001|ENG|P|L1|PF|S3|Y|A3||||SNOMEDCT_US|PT|99|Knee pain|9|N|256|
C0000001|ENG|P|L1|PF|S3|N|A4||||MSH|ET|D01|Knee pain|0|N||
C0000001|ENG|S|L3|PF|S4|Y|A5||||SNOMEDCT_US|OAP|99|Gonalgia (disorder)|9|O||
C0000001|SPA|P|L4|PF|S5|Y|A6||||MSHSPA|MH|D01|Dolor de rodilla|3|N||
C0000003|ENG|P|L5|PF|S6|Y|A7||||NCI|PT|C1|Gout|0|N||
C0000003|ENG|S|L6|PF|S7|Y|A8||||NCI|SY|C1|  |0|N||
C0000007|SPA|P|L7|PF|S8|Y|A9||||MSHSPA|MH|D02|Gota|3|N||
C0000009|ENG|S|L8|PF|S9|Y|AA||||HPO|PT|HP:1|Fever|0|E||
"""
TYPES = """\
C0000001|T184|A2.2.2|Sign or Symptom|AT1|256|
C0000001|T033|A2.2|Finding|AT2||
C0000002|T047|B2.2.1.2.1|Disease or Syndrome|AT3||
C0000003|T047|B2.2.1.2.1|Disease or Syndrome|AT4||
C0000009|T033|A2.2|Finding|AT5||
"""
DEFINITIONS = """\
C0000001|A2|AT6||HPO|An ache.|N||
C0000001|A1|AT7||MSH|Pain in a knee | or both.|N||
C0000001|A1|AT8||MSH|Old words.|O||
C0000001|A3|AT9||NCI| Pain in the region of the knee. |N||
C0000003|A7|ATA||XYZ|Crystals.|N||
"""
RETIRED = """\
C0000002|2016AA|SY|||C0000001|Y|
C0000004|2016AA|RB|||C0000001|Y|
C0000005|2016AA|SY|||C0000001|Y|
C0000006|2016AA|DEL||||N|
"""
NETWORK = """\
STY|T184|Sign or Symptom|A2.2.2|A sign.||||sosy||
STY|T071|Entity|A|All.||||enty||
STY|T046|Pathologic Function|B2.2.1.2|Disordered.||||patf||
RL|T186|isa|H|Is.||||isa|inverse_isa|
"""
FILES = {
    "MRCONSO.RRF": CONCEPTS,
    "MRSTY.RRF": TYPES,
    "MRDEF.RRF": DEFINITIONS.replace(" | or", " or"),
    "MRCUI.RRF": RETIRED,
}
KNEE_PAIN = Entity(
    "C0000001",
    "Knee pain",
    ("Knee ache", "Pain, Knee"),
    ("Sign or Symptom", "Finding"),
    ("A2.2.2", "A2.2"),
    "Pain in a knee or both.",
    ("MESH:D01", "SNOMEDCT:99"),
    source="UMLS",
    alt_ids=("C0000002", "C0000005"),
)
GOUT = Entity(
    "C0000003",
    "Gout",
    (),
    ("Disease or Syndrome",),
    ("B2.2.1.2.1",),
    "Crystals.",
    ("NCIT:C1",),
    source="UMLS",
)
RELATIONS = """\
C0000001|A1|CUI|RL|C0000003|A7|CUI||R1||MSH|MSH|||N||
C0000001|A1|CUI|RL|C0000009|A7|CUI||R2||MSH|MSH|||O||
C0000001|A1|CUI|SY|C0000001|A2|CUI||R3||MSH|MSH|||N||
C0000001|A1|CUI|PAR|C0000011|A7|CUI||R4||MSH|MSH|||N||
C0000003|A7|CUI|SY|C0000012|A2|CUI||R5||NCI|NCI|||N||
"""
SOURCES = """\
C1|C2|MSH2016_2016|MSH|MeSH|MSH|2016|||2016AB|2016AB|||0|||FULL|||ENG|UTF-8|N|N|MeSH||
C1|C3|MSH2017_2017|MSH|MeSH|MSH|2017|||2017AA||||0|||FULL|||ENG|UTF-8|Y|Y|MeSH||
C4|C5|SNOMEDCT_US_2016|SNOMEDCT_US|SNOMED|SNOMEDCT|2016|||2017AA||||9|||FULL|||ENG|UTF-8|Y|Y|SNOMED||
"""


@pytest.fixture
def umls(tmp_path):
    def write(**changes):
        folder = tmp_path / "META"
        folder.mkdir(exist_ok=True)
        for name, text in {**FILES, **changes}.items():
            if text is not None:
                (folder / name).write_text(text, encoding="utf8")
        return folder

    return write


def ids(entities):
    return [entity.id for entity in entities]


def test_entities_combine_all_files(umls):
    assert list(read_umls(umls())) == [KNEE_PAIN, GOUT]


def test_preferred_name_is_the_preferred_term_in_its_preferred_form(umls):
    atoms = {
        (ts, stt, pref): f"{ts}{stt}{pref}" for ts in "PS" for stt in ("PF", "VO") for pref in "YN"
    }
    rows = [
        f"C1|ENG|{ts}|L|{stt}|S|{pref}|A||||S|PT|C|{name}|0|N||"
        for (ts, stt, pref), name in atoms.items()
    ]
    for order in (rows, rows[::-1]):
        (entity,) = read_umls(umls(**{"MRCONSO.RRF": "\n".join(order) + "\n"}))
        assert entity.name == "PPFY" and len(entity.aliases) == 7
    (entity,) = read_umls(umls(**{"MRCONSO.RRF": "\n".join(rows[:3:-1]) + "\n"}))
    assert entity.name == "SPFY", "where the first term is not taken"


def test_subsets_can_be_chosen(umls):
    folder = umls()
    assert [entity.name for entity in read_umls(folder, vocabularies=["SNOMEDCT_US"])] == [
        "Knee pain"
    ]
    (found,) = read_umls(folder, vocabularies=["MSH"], term_types=["MH"])
    assert (found.name, found.aliases) == ("Pain, Knee", ())
    assert ids(read_umls(folder, languages=["SPA"])) == ["C0000001", "C0000007"]
    everything = list(read_umls(folder, languages=["ENG", "SPA"], suppressed=True))
    assert ids(everything) == ["C0000001", "C0000003", "C0000007", "C0000009"]
    assert (
        "Gonalgia (disorder)" in everything[0].aliases
        and "Dolor de rodilla" in everything[0].aliases
    )
    assert next(iter(read_umls(folder, type_ids=True))).types == ("T184", "T033")


@pytest.mark.parametrize(
    "asked, expected",
    [
        ("T047", ["C0000003"]),
        ("disease or syndrome", ["C0000003"]),
        ("B2.2", ["C0000003"]),
        ("B2.2.1.2.1", ["C0000003"]),
        ("A2.2.2", ["C0000001"]),
        ("Finding", ["C0000001"]),
        ("A", ["C0000001"]),
    ],
)
def test_semantic_type_selects_itself_and_its_descendants(umls, asked, expected):
    assert ids(read_umls(umls(), semantic_types=[asked])) == expected


def test_type_without_concepts_is_found_in_the_semantic_network(umls, tmp_path):
    folder = umls()
    for asked in ("Pathologic Function", "T046"):
        with pytest.raises(KrisselError, match=rf"K006\].*semantic_types.*{asked}"):
            list(read_umls(folder, semantic_types=[asked]))
    (tmp_path / "NET").mkdir()
    (tmp_path / "NET" / "SRDEF").write_text(NETWORK)
    for asked in ("Pathologic Function", "T046", "B2.2.1.2"):
        assert ids(read_umls(folder, semantic_types=[asked])) == ["C0000003"]
    assert ids(read_umls(folder, semantic_types=["T071"])) == ["C0000001"], "A is not above B2.2"


def test_related_concepts_become_xrefs_on_request(umls, tmp_path):
    folder = umls(**{"MRREL.RRF": RELATIONS})
    assert [entity.xrefs for entity in read_umls(folder)] == [KNEE_PAIN.xrefs, GOUT.xrefs]
    first, second = read_umls(folder, relations=["RL", "SY"])
    assert first.xrefs == (*KNEE_PAIN.xrefs, "UMLS:C0000003") and second.xrefs == (
        *GOUT.xrefs,
        "UMLS:C0000012",
    )
    files = [
        build_ontology(folder, tmp_path / "s", relations=asked).manifest["info"]["provenance"]
        for asked in ((), ["RL"])
    ]
    assert ["MRREL.RRF" in each["files"] for (each,) in files] == [False, True]
    first, *_ = read_umls(folder, relations=["RL"], suppressed=True)
    assert first.xrefs[-2:] == ("UMLS:C0000003", "UMLS:C0000009")
    (folder / "MRREL.RRF").unlink()
    with pytest.raises(KrisselError, match=r"K101\].*MRREL\.RRF"):
        list(read_umls(folder, relations=["RL"]))


def test_parents_of_other_vocabularies_are_left_out(umls, tmp_path):
    folder = umls(**{"MRREL.RRF": RELATIONS})
    assert [entity.parents for entity in read_umls(folder)] == [(), ()]
    first, second = read_umls(folder, parents=True)
    assert (first.parents, first.xrefs, second.parents) == (("C0000011",), KNEE_PAIN.xrefs, ())
    assert [
        each.parents for each in read_umls(folder, parents=True, vocabularies=["SNOMEDCT_US"])
    ] == [()]
    (provenance,) = build_ontology(folder, tmp_path / "s", parents=True).manifest["info"][
        "provenance"
    ]
    assert "MRREL.RRF" in provenance["files"]


def test_source_codes_get_a_prefix_or_are_left_out(umls):
    codes = {"GO": "GO:0008150", "NCBI": "9606", "MTH": "NOCODE", "RXNORM": " "}
    rows = [
        f"C1|ENG|P|L|PF|S|Y|A||||{source}|PT|{code}|x|0|N||\n" for source, code in codes.items()
    ]
    (entity,) = read_umls(umls(**{"MRCONSO.RRF": "".join(rows)}))
    assert entity.xrefs == ("GO:0008150", "NCBITaxon:9606")


HUB = """\
C0000001|ENG|P|L|PF|S|Y|A||||MSH|MH|D000001|Knee pain|0|N||
C0000001|ENG|S|L|PF|S|Y|A||||SNOMEDCT_US|PT|99|Knee pain|9|N||
C0000001|ENG|S|L|PF|S|Y|A||||OMIM|PT|145250|KNEE PAIN|0|N||
C0000002|ENG|P|L|PF|S|Y|A||||MSH|ET|D000001|Patellar pain|0|N||
C0000002|ENG|S|L|PF|S|Y|A||||SNOMEDCT_US|SY|99|Patellar pain|9|N||
C0000002|ENG|S|L|PF|S|Y|A||||RXNORM|SY|7|Patellar pain|0|N||
C0000003|ENG|P|L|PF|S|Y|A||||MSH|NM|C538288|Acme|0|N||
C0000003|ENG|S|L|PF|S|Y|A||||MSH|MH|D000002|Acmes|0|O||
C0000004|ENG|P|L|PF|S|Y|A||||OMIM|PT|145250|Ache|0|N||
"""


def test_source_codes_resolve_to_the_concept_of_their_main_term(umls, tmp_path):
    folder = umls(**{"MRCONSO.RRF": HUB, "MRCUI.RRF": None})
    assert build_ontology(folder, tmp_path / "plain").resolve("MESH:D000001") is None
    with pytest.warns(KrisselWarning, match=r"KW103\].*entity: 1\..*OMIM:145250"):
        store = build_ontology(
            folder, tmp_path / "hub", codes=["MSH", "OMIM", "RXNORM", "SNOMEDCT_US"]
        )
    found = {
        id_: store.resolve(id_)
        for id_ in ("D000001", "MESH:D000001", "MSH:D000001", "SNOMEDCT_US:99")
    }
    assert set(found.values()) == {"C0000001"}, found
    assert (store.resolve("C538288"), store.resolve("RXNORM:7")) == ("C0000003", "C0000002")
    assert store.resolve("D000002") is None, "the heading is suppressed"
    with pytest.warns(KrisselWarning, match=r"KW107\].*no names of MESH.*such as MSH"):
        build_ontology(folder, tmp_path / "misnamed", codes=["MESH", "OMIM"])
    assert [*store.rows_of("OMIM:145250")] == [0, 3] and store.resolve("OMIM:145250") == "C0000001"
    assert store.manifest["ambiguous_alternative_ids"] == 1
    # Whatever atoms are taken.
    (entity,) = read_umls(folder, vocabularies=["RXNORM"], codes=["MSH"])
    assert entity.alt_ids == () and ids(read_umls(folder, vocabularies=["SNOMEDCT_US"])) == [
        "C0000001",
        "C0000002",
    ]
    first, _ = read_umls(folder, vocabularies=["SNOMEDCT_US"], codes=["MSH"])
    assert first.alt_ids == ("MESH:D000001",) and first.xrefs == ("SNOMEDCT:99",)


def test_mesh_gold_can_be_evaluated_in_a_umls_store(umls, tmp_path):
    with pytest.warns(KrisselWarning, match="KW103"):
        store = build_ontology(
            umls(**{"MRCONSO.RRF": HUB, "MRCUI.RRF": None}), tmp_path / "hub", codes=["MSH", "OMIM"]
        )
    gold = tmp_path / "gold.txt"
    ids = ("D000001", "MESH:D000001|D000099", "OMIM:145250", "D000099", "C0000001", "-1")
    rows = [
        f"1\t{2 * i}\t{2 * i + 1}\t{letter}\tDisease\t{id_}\n"
        for i, (letter, id_) in enumerate(zip("abcdef", ids, strict=True))
    ]
    gold.write_text("1|t|a b c d e f\n" + "".join(rows))
    with pytest.warns(KrisselWarning, match="KW208"):
        report = convert(gold, tmp_path / "gold.spacy", ontology=store)
    counts = {
        name: report[name]
        for name in ("alternative_ids", "ambiguous_ids", "unknown_ids", "rewritten_ids")
    }
    assert counts == {
        "alternative_ids": 3,
        "ambiguous_ids": 1,
        "unknown_ids": 2,
        "rewritten_ids": 0,
    }
    (item,) = read_gold(tmp_path / "gold.spacy", spacy.blank("en"))
    found = [split_gold(mention.kb_id_, store) for mention in item.mentions]
    assert found == [
        ("C0000001",),
        ("C0000001", "D000099"),
        ("C0000001",),
        ("D000099",),
        ("C0000001",),
        (),
    ]


TRADED = """\
C0000001|A1|CUI|RO|C0000003|A7|CUI|tradename_of|R1||RXNORM|RXNORM|||N||
C0000001|A1|CUI|RO|C0000004|A7|CUI|tradename_of|R1||RXNORM|RXNORM|||O||
C0000001|A1|CUI|RO|C0000002|A7|CUI|isa|R1||RXNORM|RXNORM|||N||
C0000003|A7|CUI|RO|C0000001|A1|CUI|has_tradename|R3||RXNORM|RXNORM|||N||
C0000003|A7|CUI|RO|C0000002|A1|CUI|has_tradename|R3||RXNORM|RXNORM|||N||
"""


def test_trade_names_are_names_of_their_drug_on_request(umls, tmp_path):
    folder = umls(**{"MRCONSO.RRF": HUB, "MRCUI.RRF": None, "MRREL.RRF": TRADED})
    names = {entity.id: entity.names for entity in read_umls(folder, tradenames=True)}
    assert names == {
        "C0000001": ("Knee pain", "KNEE PAIN", "Acme"),
        "C0000002": ("Patellar pain", "Acme"),
        "C0000003": ("Acme",),
        "C0000004": ("Ache",),
    }
    (stated,) = build_ontology(folder, tmp_path / "s", tradenames=True).manifest["info"][
        "provenance"
    ]
    assert "MRREL.RRF" in stated["files"]
    assert next(iter(read_umls(folder))).names == ("Knee pain", "KNEE PAIN")
    (folder / "MRREL.RRF").unlink()
    with pytest.raises(KrisselError, match=r"K101\].*MRREL\.RRF"):
        list(read_umls(folder, tradenames=True))


def test_preset_selects_types_and_sources_and_warns_of_another_release(umls, tmp_path):
    release = {"release.dat": "umls.release.name=2017AA\n"}
    rows = (
        "C0000008|ENG|P|L|PF|S|Y|A||||CHV|PT|1|Ill|0|N||\n"
        "C0000009|ENG|P|L|PF|S|Y|A||||HPO|PT|HP:1|Fever|0|N||\n"
    )
    types = TYPES + (
        "C0000008|T047|B2.2.1.2.1|Disease or Syndrome|AT3||\n"
        "C0000009|T047|B2.2.1.2.1|Disease or Syndrome|AT||\n"
    )
    concepts = CONCEPTS[: CONCEPTS.index("C0000009")] + rows
    types = "".join(
        sorted(line for line in types.splitlines(keepends=True) if "C0000009|T033" not in line)
    )
    types = types.replace(
        "C0000003|T047|B2.2.1.2.1|Disease or Syndrome", "C0000003|T079|A2.1.1|Temporal Concept"
    )
    folder = umls(**{"MRCONSO.RRF": concepts, "MRSTY.RRF": types, **release})
    assert ids(read_umls(folder, preset="2017AA")) == [
        "C0000001",
        "C0000003",
        "C0000008",
        "C0000009",
    ]
    assert ids(read_umls(folder, preset="st21pv")) == ["C0000001", "C0000009"]
    assert ids(read_umls(folder, preset="st21pv", vocabularies=["CHV"])) == ["C0000008"]
    assert ids(read_umls(folder, preset="st21pv", semantic_types=["T079"])) == ["C0000003"]
    store = build_ontology(folder, tmp_path / "s", preset="st21pv")
    assert store.manifest["info"]["options"] == {"preset": "st21pv"}
    gold = tmp_path / "gold.txt"
    ids_ = ("C0000001", "C0000003", "C0000009")
    rows = "".join(
        f"1\t{2 * i}\t{2 * i + 1}\t{'abc'[i]}\tT1\t{id_}\n" for i, id_ in enumerate(ids_)
    )
    gold.write_text(f"1|t|a b c\n{rows}")
    whole = build_ontology(folder, tmp_path / "whole")
    report = convert(gold, tmp_path / "gold.spacy", ontology=whole, types=["st21pv"])
    assert (report["mentions"], report["other_types"]) == (2, 1)
    for name, store in (("st21pv", None), ("2017AA", whole)):
        with pytest.raises(
            KrisselError, match=rf"K006\].*types.*'{name}'.*'st21pv' with an ontology"
        ):
            convert(gold, tmp_path / "other.spacy", ontology=store, types=[name])
    (folder / "release.dat").write_text("umls.release.name=2020AA\n")
    with pytest.warns(KrisselWarning, match=r"KW106\].*META' states 2020AA.*st21pv is of 2017AA"):
        later = build_ontology(folder, tmp_path / "later", preset="st21pv")
    with pytest.warns(KrisselWarning, match=r"KW106\].*later' states 2020AA"):
        convert(gold, tmp_path / "later.spacy", ontology=later, types=["st21pv"])
    with pytest.raises(KrisselError, match=r"K006\].*preset.*'st22pv'.*2017AA, st21pv, sapbert"):
        list(read_umls(folder, preset="st22pv"))


def test_sapbert_preset_includes_suppressed_and_trade_names(umls, tmp_path):
    rows = HUB.replace("KNEE PAIN|0|N||", "KNEE PAIN|0|O||")
    folder = umls(**{"MRCONSO.RRF": rows, "MRCUI.RRF": None, "MRREL.RRF": TRADED})
    (folder / "release.dat").write_text("umls.release.name=2020AA\n")
    assert next(iter(read_umls(folder))).names == ("Knee pain",)
    store = build_ontology(folder, tmp_path / "s", preset="sapbert")
    assert store.get("C0000001").names == ("Knee pain", "KNEE PAIN", "Acme", "Acmes", "Ache")
    assert "MRREL.RRF" in store.manifest["info"]["provenance"][0]["files"]
    (folder / "release.dat").write_text("umls.release.name=2017AA\n")
    with pytest.warns(KrisselWarning, match=r"KW106\].*sapbert is of 2020AA"):
        list(read_umls(folder, preset="sapbert"))


def test_provenance_of_the_files_is_kept(umls, tmp_path):
    folder = umls(
        **{
            "MRSAB.RRF": SOURCES,
            "release.dat": "umls.release.name=2017AA\numls.release.date=20170508\n",
        }
    )
    store = build_ontology(folder, tmp_path / "store", licence="UMLS", version="not this")
    (stated,) = store.manifest["info"]["provenance"]
    assert (stated["source"], stated["format"], stated["licence"]) == ("META", "umls", "UMLS")
    assert stated["version"] == "2017AA"
    assert stated["vocabularies"] == {
        "MSH": {"version": "MSH2017_2017", "restriction": 0},
        "SNOMEDCT_US": {"version": "SNOMEDCT_US_2016", "restriction": 9},
    }
    assert set(stated["files"]) == {*FILES, "MRSAB.RRF"}
    (folder / "MRSAB.RRF").unlink()
    (stated,) = build_ontology(folder, tmp_path / "less").manifest["info"]["provenance"]
    assert "vocabularies" not in stated and "MRSAB.RRF" not in stated["files"]


def test_only_the_concept_file_is_required(umls):
    folder = umls(**dict.fromkeys(("MRSTY.RRF", "MRDEF.RRF", "MRCUI.RRF")))
    first, _ = read_umls(folder / "MRCONSO.RRF")
    assert (first.types, first.tree_numbers, first.definition, first.alt_ids) == ((), (), "", ())
    with pytest.raises(KrisselError, match=r"K101\].*MRSTY\.RRF"):
        list(read_umls(folder, semantic_types=["T047"]))


def test_gzipped_files_are_read(umls):
    folder = umls(**dict.fromkeys(FILES))
    for name, text in FILES.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert detect_format(folder) == "umls" == detect_format(folder / "MRCONSO.RRF.gz")
    assert list(read_ontology(folder)) == [KNEE_PAIN, GOUT]


def test_store_is_built_from_umls(umls, tmp_path):
    store = build_ontology(umls(), tmp_path / "store", vocabularies=["MSH", "NCI"])
    assert len(store) == 2 and store.get("C0000005").id == "C0000001" == store.resolve(
        "UMLS:C0000002"
    )
    assert store.manifest["info"]["sources"] == ["META"]


def test_bad_rows_are_counted(umls):
    folder = umls(
        **{"MRCONSO.RRF": CONCEPTS + "C0000010|ENG|P\n|ENG|P|L|PF|S|Y|A||||S|PT|C|x|0|N||\n"}
    )
    with pytest.warns(
        KrisselWarning, match=r"KW101.*MRCONSO\.RRF.*line 11 has 3 columns instead of 18.*line 12"
    ):
        assert list(read_umls(folder)) == [KNEE_PAIN, GOUT]


def test_errors_are_coded(umls, tmp_path):
    with pytest.raises(KrisselError, match=r"K101\].*MRCONSO"):
        list(read_umls(tmp_path))
    with pytest.raises(
        KrisselError, match=r"K131\].*MRCONSO\.RRF.*C0000001 at line 3 comes after C0000003"
    ):
        rows = CONCEPTS.splitlines(keepends=True)
        list(read_umls(umls(**{"MRCONSO.RRF": rows[0] + rows[6] + rows[1]})))
    with pytest.raises(KrisselError, match=r"K131\].*MRDEF\.RRF"):
        rows = DEFINITIONS.replace(" | or", " or").splitlines(keepends=True)
        list(read_umls(umls(**{"MRDEF.RRF": rows[-1] + rows[0]})))

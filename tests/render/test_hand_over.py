"""Linked docs as FHIR, OMOP's NOTE_NLP and Phenopackets: in these forms, with all places, ids and
scores."""

import csv
import io
import json
import sys
from base64 import b64decode
from urllib.parse import unquote

import linked_docs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_docs import NLP, linked_doc
from spacy.tokens import Span

from spacy_krissel import __version__
from spacy_krissel.mentions.gold_mentions import ID_KEY
from spacy_krissel.render.formats import WRITERS, fhir, note_nlp, phenopackets

ENDINGS = (".fhir.json", ".note_nlp.csv", ".phenopackets.jsonl")
GOUT = {"id": "D006073", "name": "Gout & co", "score": 0.75, "confidence": 0.9}
FEVER = {"id": "HP:0001945", "name": "Fever", "score": 0.25}
HEART = {"id": "OMOP:312327", "name": 'Acute "MI"', "score": 0.5}
# A character beyond the first plane, a comma, quotes, a line end, a tab.
TEXT = 'Gout in 𝛽-men\nHe, <had> "MI",\tfever & a rash.'
MENTIONS = [
    (0, 4, "Disease", [GOUT, FEVER]),
    (25, 27, "X", [HEART]),
    (30, 35, "Finding", [FEVER]),
    (40, 44, "X", []),
]


def a_doc(text=TEXT, id_="7", mentions=MENTIONS):
    return linked_doc(text, id_, mentions)


def written(ending, *docs):
    return linked_docs.written(ending, *docs).decode()


def resources(content):
    return [entry["resource"] for entry in json.loads(content).get("entry", [])]


def mention_of(basic):
    (extension,) = basic["extension"]
    found = {}
    for each in extension["extension"]:
        name = each.pop("url")
        (found[name],) = each.values()
    return found


def rows(content):
    return list(csv.DictReader(io.StringIO(content, newline="")))


def facts(shown):
    """Split at semicolons, then at the first equals sign, then decode, as documented."""
    pairs = (fact.partition("=")[::2] for fact in shown.split(";"))
    return {name: fact.replace("%3B", ";").replace("%25", "%") for name, fact in pairs}


def test_fhir_has_the_documented_form():
    document, gout, heart, fever, rash = resources(written(".fhir.json", a_doc()))
    assert document["identifier"] == [{"value": "7"}]
    assert b64decode(document["content"][0]["attachment"]["data"]).decode() == TEXT
    entries = json.loads(written(".fhir.json", a_doc()))["entry"]
    assert {each["subject"]["reference"] for each in (gout, heart, fever, rash)} == {
        entries[0]["fullUrl"]
    }
    coding = {"system": "https://www.nlm.nih.gov/mesh", "code": "D006073", "display": "Gout & co"}
    assert mention_of(gout) == {
        **{
            "concept": {"coding": [coding], "text": "Gout"},
            "start": 0,
            "end": 4,
            "label": "Disease",
        },
        **{"score": 0.75, "confidence": 0.9},
    }
    coding = {
        "system": "http://human-phenotype-ontology.org",
        "code": "HP:0001945",
        "display": "Fever",
    }
    assert mention_of(fever) == {
        **{
            "concept": {"coding": [coding], "text": "fever"},
            "start": 30,
            "end": 35,
            "label": "Finding",
        },
        **{"score": 0.25},
    }
    assert (
        mention_of(heart)["concept"]["coding"][0]["system"] == "https://fhir-terminology.ohdsi.org"
    )
    assert mention_of(rash) == {"concept": {"text": "rash"}, "start": 40, "end": 44, "label": "X"}


@pytest.mark.parametrize(
    "id, system, code",
    [
        ("SNOMEDCT_US_2024_03_01:22298006", "http://snomed.info/sct", "22298006"),
        ("RXNORM:161", "http://www.nlm.nih.gov/research/umls/rxnorm", "161"),
        ("ICD10CM:M10.9", "http://hl7.org/fhir/sid/icd-10-cm", "M10.9"),
        ("C0018099", "http://www.nlm.nih.gov/research/umls", "C0018099"),
        ("MIM:138900", "http://www.omim.org", "138900"),
        ("mondo:0005393", "http://purl.obolibrary.org/obo/mondo.owl", "MONDO:0005393"),
        ("taxid:9606", "http://www.ncbi.nlm.nih.gov/taxonomy", "9606"),
        ("Mine:7:8", "https://w3id.org/sssom/unknown_prefix/mine/", "7:8"),
        ("9606", "https://w3id.org/sssom/unknown_prefix/kb/", "9606"),
        ("http://x.org/a#b", "http://x.org/a#", "b"),
    ],
)
def test_known_coding_systems_have_their_hl7_urls(id, system, code, monkeypatch):
    # What is known without the extra.
    monkeypatch.setitem(sys.modules, "bioregistry", None)
    doc = a_doc("gout", "1", [(0, 4, "D", [{"id": id, "name": "", "score": 0.5}])])
    _, basic = resources(written(".fhir.json", doc))
    assert mention_of(basic)["concept"]["coding"] == [{"system": system, "code": code}]


def test_coding_system_comes_from_the_bioregistry():
    pytest.importorskip("bioregistry")
    doc = a_doc("gout", "1", [(0, 4, "D", [{"id": "DOID:13189", "name": "gout", "score": 0.5}])])
    (coding,) = mention_of(resources(written(".fhir.json", doc))[1])["concept"]["coding"]
    assert coding["system"] + coding["code"] == "http://purl.obolibrary.org/obo/DOID_13189"


def test_fhir_library_accepts_the_bundle():
    bundle = pytest.importorskip("fhir.resources.R4B.bundle").Bundle
    docs = a_doc(), a_doc(id_="a \x07b"), a_doc("", "9", []), a_doc("rash\x01", "9", [])
    found = bundle.model_validate_json(written(".fhir.json", *docs))
    basics = [each.resource for each in found.entry if each.resource.get_resource_type() == "Basic"]
    assert len(basics) == 8 and len({each.fullUrl for each in found.entry}) == 12
    assert basics[0].extension[0].extension[0].valueCodeableConcept.coding[0].code == "D006073"
    assert bundle.model_validate_json(written(".fhir.json")).entry is None


def test_note_nlp_has_the_documented_form():
    content = written(".note_nlp.csv", a_doc(), a_doc("gout", "PMID;1", [(0, 4, "D=e", [GOUT])]))
    assert content.splitlines()[0] == ",".join(note_nlp.COLUMNS)
    gout, heart, _, rash, other = rows(content)
    assert content.count("\n") == 6
    day = gout.pop("nlp_date")
    assert len(day) == 10 and gout == {
        **{
            "note_nlp_id": "1",
            "note_id": "7",
            "section_concept_id": "",
            "offset": "0",
            "lexical_variant": "Gout",
        },
        **{
            "note_nlp_concept_id": "0",
            "note_nlp_source_concept_id": "0",
            "nlp_system": f"spacy-krissel {__version__}",
        },
        **{
            "nlp_datetime": "",
            "term_exists": "",
            "term_temporal": "",
            "snippet": TEXT.translate({9: " ", 10: " "}),
        },
        **{"term_modifiers": "end=4;label=Disease;id=D006073;score=0.75;confidence=0.9"},
    }
    assert (heart["note_nlp_concept_id"], heart["offset"], heart["lexical_variant"]) == (
        "312327",
        "25",
        "MI",
    )
    assert rash["term_modifiers"] == "end=44;label=X"
    assert (other["note_nlp_id"], other["note_id"]) == ("5", "1000000001")
    assert (
        other["term_modifiers"]
        == "doc=PMID%3B1;end=4;label=D=e;id=D006073;score=0.75;confidence=0.9"
    )
    assert facts(other["term_modifiers"])["doc"] == "PMID;1"


def test_numbers_of_other_vocabularies_are_no_omop_concepts():
    doc = a_doc("gout", "1", [(0, 4, "D", [{**GOUT, "id": "22298006"}])])
    (row,) = rows(written(".note_nlp.csv", doc))
    assert row["note_nlp_concept_id"] == "0" and facts(row["term_modifiers"])["id"] == "22298006"


def test_cells_are_cut_to_their_column_width():
    words = "x " * 300
    doc = a_doc(
        f"{words}gout {words}{'y' * 400}",
        "12345678901",
        [(600, 604, "D", [GOUT]), (1205, 1605, "D", [])],
    )
    gout, long = rows(written(".note_nlp.csv", doc))
    assert len(gout["snippet"]) == 250 and gout["snippet"][123:127] == "gout"
    assert (
        long["lexical_variant"] == long["snippet"] == "y" * 250
        and facts(long["term_modifiers"])["end"] == "1605"
    )
    assert gout["note_id"] == "1000000000"


def test_phenopacket_has_the_documented_form():
    mondo = {"id": "MONDO:0005393", "name": "gout", "score": 0.5}
    texts = (
        a_doc(),
        a_doc(
            "gout; fever",
            "a b",
            [(0, 4, "X", [mondo]), (6, 11, "X", [{**FEVER, "confidence": 1.0}])],
        ),
    )
    first, second = map(json.loads, written(".phenopackets.jsonl", *texts).splitlines())
    created = first["metaData"].pop("created")
    assert created.endswith("T00:00:00Z")
    evidence = {
        "evidenceCode": phenopackets.EVIDENCE,
        "reference": {
            **{"id": "7", "reference": "7#char=30,35"},
            **{"description": "id=HP:0001945;text=fever;score=0.25"},
        },
    }
    disease = {"id": "7", "reference": "7#char=0,4"}
    disease["description"] = "id=MESH:D006073;text=Gout;score=0.75;confidence=0.9"
    prefixes = [each["namespacePrefix"] for each in first["metaData"].pop("resources")]
    assert prefixes == ["HP", "MESH", "ECO"]
    assert first == {
        "id": "7",
        "phenotypicFeatures": [
            {"type": {"id": "HP:0001945", "label": "Fever"}, "evidence": [evidence]}
        ],
        "diseases": [{"term": {"id": "MESH:D006073", "label": "Gout & co"}}],
        "metaData": {
            "createdBy": f"spacy-krissel {__version__}",
            "phenopacketSchemaVersion": "2.0",
            "externalReferences": [disease],
        },
    }
    assert second["metaData"]["externalReferences"][0]["reference"] == "a%20b#char=0,4"
    assert second["metaData"]["resources"][1] == {
        **{
            "id": "mondo",
            "name": "Mondo Disease Ontology",
            "url": "http://purl.obolibrary.org/obo/mondo.owl",
        },
        **{
            "version": "unknown",
            "namespacePrefix": "MONDO",
            "iriPrefix": "http://purl.obolibrary.org/obo/MONDO_",
        },
    }


def test_terms_are_written_once_and_chemicals_are_no_diseases():
    doc = a_doc("fever, gout, gout, fever", "1", [])
    ents = []
    for (start, end), label, id_ in zip(
        [(0, 5), (7, 11), (13, 17), (19, 24)],
        ["X", "Chemical", "DiseaseOrPhenotype", "X"],
        ["HP:0001945", "D000001", "D006073", "hp:0001945"],
        strict=True,
    ):
        ents.append(doc.char_span(start, end, label=label, kb_id=id_))
    doc.set_ents(ents)
    packet = json.loads(written(".phenopackets.jsonl", doc))
    (feature,) = packet["phenotypicFeatures"]
    places = [each["reference"]["reference"] for each in feature["evidence"]]
    assert places == ["1#char=0,5", "1#char=19,24"]
    assert [each["term"]["id"] for each in packet["diseases"]] == ["MESH:D006073"]


def test_published_schema_accepts_the_phenopacket():
    schema = pytest.importorskip("phenopackets.schema.v2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    for line in written(".phenopackets.jsonl", a_doc(), a_doc("", "9", [])).splitlines():
        packet = json_format.Parse(line, schema.Phenopacket())
        assert (
            packet.meta_data.created.seconds > 0
            and packet.meta_data.phenopacket_schema_version == "2.0"
        )
    packet = json_format.Parse(written(".phenopackets.jsonl", a_doc()), schema.Phenopacket())
    assert (
        packet.phenotypic_features[0].type.id == "HP:0001945"
        and not packet.phenotypic_features[0].excluded
    )


def read_back(ending, content):
    """Return the offsets, id and score of each mention per doc."""
    if ending == ".fhir.json":
        found = []
        for resource in resources(content):
            if resource["resourceType"] == "DocumentReference":
                found.append([])
                continue
            mention = mention_of(resource)
            code = mention["concept"]["coding"][0]["code"]
            found[-1].append((mention["start"], mention["end"], code, mention["score"]))
        return found
    found = {}
    if ending == ".note_nlp.csv":
        for row in rows(content):
            shown = facts(row["term_modifiers"])
            place = int(row["offset"]), int(shown["end"])
            found.setdefault(row["note_id"], []).append(
                (*place, shown["id"], float(shown["score"]))
            )
        return [*found.values()]
    for line in content.split("\n")[:-1]:
        packet = json.loads(line)
        references = [
            each["reference"] for one in packet["phenotypicFeatures"] for each in one["evidence"]
        ]
        mentions = found.setdefault(packet["id"], [])
        for reference in [*references, *packet["metaData"]["externalReferences"]]:
            shown = facts(reference["description"])
            doc, _, place = reference["reference"].rpartition("#char=")
            assert unquote(doc) == packet["id"]
            mentions.append((*map(int, place.split(",")), shown["id"], float(shown["score"])))
    return [sorted(mentions) for mentions in found.values()]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=60)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_mentions_keep_their_offsets_ids_and_scores(ending, texts, data):
    docs, expected = [], []
    for number, text in enumerate(texts):
        doc = NLP.make_doc(text)
        doc.user_data[ID_KEY] = f"{data.draw(TEXTS)}{number}"
        ents, found = [], []
        for i in sorted(data.draw(st.sets(st.integers(0, len(doc) - 1), max_size=3))):
            id_, score = (
                data.draw(st.sampled_from(["HP:1", "MONDO:2"])),
                data.draw(st.floats(-1, 1)),
            )
            span = Span(doc, i, i + 1, label=data.draw(TEXTS), kb_id=id_)
            if doc[i].is_space:
                continue
            span._.krissel_candidates = [{"id": id_, "name": data.draw(TEXTS), "score": score}]
            ents.append(span)
            found.append((span.start_char, span.end_char, id_, score))
        doc.set_ents(ents)
        docs.append(doc)
        expected += [found] if found or ending != ".note_nlp.csv" else []
    assert read_back(ending, written(ending, *docs)) == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_docs_are_written_as_a_stream_and_no_docs_are_valid(ending):
    file_, sizes = io.BytesIO(), []

    def docs():
        for number in range(3):
            sizes.append(file_.tell())
            yield a_doc(id_=str(number))

    WRITERS[ending](docs(), "", file_)
    assert sizes == sorted(set(sizes))
    assert read_back(ending, written(ending)) == []
    written(ending, a_doc("", "1", []))
    # Half of a character, as JSON may have it.
    assert "a?b" in written(ending, a_doc(id_="a\ud800b")).replace("\ufffd", "?")


def test_fhir_extension_has_its_published_url():
    """Readers go by it."""
    assert fhir.MENTION == "urn:uuid:86f67abe-d601-54e6-8d72-e2dd18df82e8"

"""FHIR R4: a Bundle of mentions as `CodeableConcept`.

A mention is a `Basic`, the standard's resource for content without a resource of its own, which
servers can store and find. A `Condition` or an `Observation` would state a fact about a patient,
which a text may deny or report of a relative. `Parameters` are for operations only, and cannot be
stored.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import IO, Any
from uuid import UUID, uuid5

from spacy.tokens import Doc

from ...mentions.gold_mentions import document_id
from ...util.escape import xml_text
from ..sssom import Curies
from .mentions import LinkedMention, linked_mentions

# Systems of HL7's terminology (https://terminology.hl7.org/external_terminologies.html), except for
# NCBI's two, which are from its guides for genomics. By the prefix of ids, in lower case.
SYSTEMS = {
    "snomedct": "http://snomed.info/sct",
    "loinc": "http://loinc.org",
    "rxnorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "icd10": "http://hl7.org/fhir/sid/icd-10",
    "icd10cm": "http://hl7.org/fhir/sid/icd-10-cm",
    "icd9cm": "http://hl7.org/fhir/sid/icd-9-cm",
    "mesh": "https://www.nlm.nih.gov/mesh",
    "umls": "http://www.nlm.nih.gov/research/umls",
    "ncit": "http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl",
    "omim": "http://www.omim.org",
    "omop": "https://fhir-terminology.ohdsi.org",
    "hp": "http://human-phenotype-ontology.org",
    "mondo": "http://purl.obolibrary.org/obo/mondo.owl",
    "hgnc": "http://www.genenames.org",
    "ncbigene": "http://www.ncbi.nlm.nih.gov/gene",
    "ncbitaxon": "http://www.ncbi.nlm.nih.gov/taxonomy",
}
# Systems whose codes include the prefix: HP:0001677.
WITH_PREFIX = ("hp", "mondo", "hgnc")
# URL of the extension with a mention, and namespace of its ids. A URN, since nothing is served at
# an address.
MENTION = "urn:uuid:86f67abe-d601-54e6-8d72-e2dd18df82e8"
_NAMES = UUID(MENTION)


def write_fhir(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write a Bundle of type `collection`: per text a `DocumentReference` with the doc's id as its
    identifier, followed by a `Basic` per mention with that reference as its subject. The extension
    `MENTION` has `concept` (a `CodeableConcept`; without an entity, only its text), `start`, `end`,
    `label`, `match`, `matchedName`, `score` and `confidence`. The same docs give the same file."""
    curies = Curies()
    file_.write(b'{"resourceType": "Bundle", "type": "collection"')
    # No list may be empty.
    lead = ', "entry": [\n'
    for number, doc in enumerate(docs):
        for entry in _entries(doc, key, number, curies):
            file_.write((lead + json.dumps(entry, ensure_ascii=False)).encode("utf8", "replace"))
            lead = ",\n"
    file_.write(b"}\n" if "[" in lead else b"\n]}\n")


def _entries(doc: Doc, key: str, number: int, curies: Curies) -> Iterator[dict[str, Any]]:
    id_, data = xml_text(document_id(doc)), b64encode(doc.text.encode("utf8", "replace")).decode()
    # Two docs may have one id.
    subject = uuid5(_NAMES, f"{number} {id_}")
    # No value may be empty.
    attachment = {"contentType": "text/plain; charset=utf-8", **({"data": data} if data else {})}
    content: dict[str, Any] = {
        "identifier": [{"value": id_}],
        "content": [{"attachment": attachment}],
    }
    yield {
        "fullUrl": subject.urn,
        "resource": {"resourceType": "DocumentReference", "status": "current", **content},
    }
    for i, each in enumerate(linked_mentions(doc, key)):
        values: dict[str, Any] = {
            "concept": {"valueCodeableConcept": _concept(each, curies)},
            "start": {"valueUnsignedInt": each.start},
            "end": {"valueUnsignedInt": each.end},
            "label": {"valueString": xml_text(each.label)},
            "match": {"valueCode": each.match},
            "matchedName": {"valueString": xml_text(each.matched_name)},
            "score": {"valueDecimal": each.score},
            "confidence": {"valueDecimal": each.confidence},
        }
        parts = [
            {"url": name, **of}
            for name, of in values.items()
            if next(iter(of.values())) not in ("", None)
        ]
        resource = {
            "resourceType": "Basic",
            "extension": [{"url": MENTION, "extension": parts}],
            "code": {"text": "mention of a concept in a text"},
            "subject": {"reference": subject.urn},
        }
        yield {"fullUrl": uuid5(subject, str(i)).urn, "resource": resource}


def _concept(each: LinkedMention, curies: Curies) -> dict[str, Any]:
    text = {"text": xml_text(each.text)}
    if not each.id:
        return text
    prefix, address, local = curies.parts(each.id, "kb")
    system = SYSTEMS.get(prefix.lower(), address)
    code = f"{prefix.upper()}:{local}" if prefix.lower() in WITH_PREFIX else local
    coding = {"system": system, "code": xml_text(code), "display": xml_text(each.name)}
    return {"coding": [{name: value for name, value in coding.items() if value}], **text}

"""GA4GH Phenopackets, version 2, as JSON lines."""

import json
from collections.abc import Iterable
from datetime import date
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from spacy.tokens import Doc

from ...about import __version__
from ...mentions.gold_mentions import document_id
from ...ontology.entity import canonical_id
from .mentions import LinkedMention, linked_mentions, short_facts


class _Resource(NamedTuple):
    """A vocabulary, as a packet declares it for its terms."""

    name: str
    url: str
    iri: str


_OBO = "http://purl.obolibrary.org/obo/"
PHENOTYPES = "HP"
# These contain diseases only; in the others, a label such as "Disease" marks them.
DISEASES = ("MONDO", "DOID", "ORPHA")
RESOURCES = {
    "HP": _Resource("Human Phenotype Ontology", f"{_OBO}hp.owl", f"{_OBO}HP_"),
    "MONDO": _Resource("Mondo Disease Ontology", f"{_OBO}mondo.owl", f"{_OBO}MONDO_"),
    "DOID": _Resource("Human Disease Ontology", f"{_OBO}doid.owl", f"{_OBO}DOID_"),
    "ORPHA": _Resource(
        "Orphanet Rare Disease Ontology",
        "https://www.orpha.net",
        "http://www.orpha.net/ORDO/Orphanet_",
    ),
    "OMIM": _Resource(
        "Online Mendelian Inheritance in Man", "https://www.omim.org", "https://omim.org/MIM:"
    ),
    "MESH": _Resource(
        "Medical Subject Headings", "https://www.nlm.nih.gov/mesh", "http://id.nlm.nih.gov/mesh/"
    ),
    "ECO": _Resource("Evidence and Conclusion Ontology", f"{_OBO}eco.owl", f"{_OBO}ECO_"),
}
EVIDENCE = {"id": "ECO:0000501", "label": "evidence used in automatic assertion"}
# Docs do not state the version they are linked to.
VERSION = "unknown"


def write_phenopackets(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one phenopacket per doc. Each HP term is a phenotypic feature, with a piece of evidence
    per mention. Each term of Mondo, DOID or Orphanet, or labelled as a disease or disorder, is one
    of its `diseases`; these have no evidence, so their mentions are external references. Other
    terms are left out. A mention is `7#char=0,4` (RFC 5147),
    described as `id=HP:0001945;text=fever;match=label;matched_name=Fever;score=0.25`. `created` is
    the day of writing. Nothing is `excluded`: docs do not record what a text denies."""
    created = {
        "created": f"{date.today().isoformat()}T00:00:00Z",
        "createdBy": f"spacy-krissel {__version__}",
    }
    for doc in docs:
        id_ = document_id(doc)
        features: dict[str, dict[str, Any]] = {}
        diseases: dict[str, dict[str, Any]] = {}
        references, prefixes = [], set()
        for each in linked_mentions(doc, key):
            prefix, _, local = canonical_id(each.id).partition(":")
            prefix, term = prefix.upper(), {"id": f"{prefix.upper()}:{local}", "label": each.name}
            if prefix == PHENOTYPES:
                feature = features.setdefault(term["id"], {"type": term, "evidence": []})
                feature["evidence"].append(
                    {"evidenceCode": EVIDENCE, "reference": _reference(id_, term["id"], each)}
                )
                prefixes |= {prefix, "ECO"}
            elif prefix in DISEASES or (prefix in RESOURCES and _says_disease(each.label)):
                diseases.setdefault(term["id"], {"term": term})
                references.append(_reference(id_, term["id"], each))
                prefixes.add(prefix)
        resources = [
            _declared(prefix, resource)
            for prefix, resource in RESOURCES.items()
            if prefix in prefixes
        ]
        packet = {
            "id": id_,
            "phenotypicFeatures": [*features.values()],
            "diseases": [*diseases.values()],
            "metaData": {
                **created,
                "resources": resources,
                "phenopacketSchemaVersion": "2.0",
                "externalReferences": references,
            },
        }
        file_.write((json.dumps(packet, ensure_ascii=False) + "\n").encode("utf8", "replace"))


def _says_disease(label: str) -> bool:
    return any(word in label.lower() for word in ("disease", "disorder"))


def _reference(doc_id: str, term: str, each: LinkedMention) -> dict[str, str]:
    reference = f"{quote(doc_id, safe=':/', errors='replace')}#char={each.start},{each.end}"
    found = {name: getattr(each, name) for name in ("match", "matched_name", "score", "confidence")}
    facts = short_facts(id=term, text=each.text, **found)
    return {"id": doc_id, "reference": reference, "description": facts}


def _declared(prefix: str, resource: _Resource) -> dict[str, str]:
    names = {"id": prefix.lower(), "name": resource.name, "url": resource.url, "version": VERSION}
    return {**names, "namespacePrefix": prefix, "iriPrefix": resource.iri}

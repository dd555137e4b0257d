"""UIMA CAS as INCEpTION and WebAnno import it; `read_cas` reads it back. Needs the extra
`serve`."""

from collections.abc import Iterable
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from spacy.tokens import Doc

from ...corpora.readers.cas import IDENTIFIER, LABEL, TYPES, load_cassis
from ...util.escape import xml_text
from .mentions import FileNames, linked_mentions

# Layer of named entities in DKPro Core, which both tools have: with a label, and the id of an
# entity.
LAYER = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"


def write_cas(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write a ZIP of one XMI per doc, named by its id, and their type system. A mention's label and
    id are the features `value` and `identifier` of `NamedEntity`; its match, matched name, score
    and confidence are additional features. Raises KrisselError K247. For INCEpTION and WebAnno
    (*UIMA CAS XMI*, extra `serve`); `krissel convert` reads the exported `.zip`, or its folder."""
    cassis = load_cassis()
    types = cassis.TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    for name, kind in (
        (LABEL, "String"),
        (IDENTIFIER, "String"),
        ("match", "String"),
        ("matchedName", "String"),
        ("score", "Double"),
        ("confidence", "Double"),
    ):
        types.create_feature(layer, name, f"uima.cas.{kind}")
    names = FileNames()
    with ZipFile(file_, "w", ZIP_DEFLATED) as archive:
        # Without the time, so that the same docs give the same file.
        archive.writestr(ZipInfo(TYPES), types.to_xml())
        for doc in docs:
            cas = cassis.Cas(typesystem=types)
            cas.sofa_string, cas.sofa_mime = xml_text(doc.text), "text/plain"
            for each in linked_mentions(doc, key):
                values = {
                    LABEL: each.label,
                    IDENTIFIER: each.id,
                    "match": each.match,
                    "matchedName": xml_text(each.matched_name),
                    "score": each.score,
                    "confidence": each.confidence,
                }
                known = {name: value for name, value in values.items() if value not in ("", None)}
                cas.add(layer(begin=each.start, end=each.end, **known))
            info = ZipInfo(f"{names(doc)}.xmi")
            info.compress_type = ZIP_DEFLATED
            archive.writestr(info, cas.to_xmi())

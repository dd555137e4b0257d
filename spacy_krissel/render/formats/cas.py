"""UIMA CAS as INCEpTION and WebAnno import it; `read_cas` reads it back. Needs the extra `serve`."""

from collections import Counter
from collections.abc import Iterable
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from spacy.tokens import Doc

from ...errors import Errors, KrisselError
from ...util.escape import xml_text
from .mentions import linked_mentions, short_id

# The layer of named entities in DKPro Core, which both tools have: a label, and the id of an entity.
LAYER, LABEL, IDENTIFIER = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity", "value", "identifier"
TYPES = "TypeSystem.xml"


def load_cassis() -> Any:
    """Raises KrisselError K247 where it is not installed."""
    try:
        import cassis
    except ImportError as error:
        raise KrisselError(Errors.K247) from error
    return cassis


def write_cas(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """A ZIP of an XMI a doc, named by its id, and their type system. A mention's label and id are the features `value`
    and `identifier` of `LAYER`, its score and confidence two of its own."""
    cassis = load_cassis()
    types = cassis.TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    for name, kind in ((LABEL, "String"), (IDENTIFIER, "String"), ("score", "Double"), ("confidence", "Double")):
        types.create_feature(layer, name, f"uima.cas.{kind}")
    seen: Counter[str] = Counter()
    with ZipFile(file_, "w", ZIP_DEFLATED) as archive:
        # Without the time, so that the same docs make the same file.
        archive.writestr(ZipInfo(TYPES), types.to_xml())
        for doc in docs:
            cas = cassis.Cas(typesystem=types)
            cas.sofa_string, cas.sofa_mime = xml_text(doc.text), "text/plain"
            for each in linked_mentions(doc, key):
                values = {LABEL: each.label, IDENTIFIER: each.id, "score": each.score, "confidence": each.confidence}
                known = {name: value for name, value in values.items() if value not in ("", None)}
                cas.add(layer(begin=each.start, end=each.end, **known))
            name = short_id(doc)
            seen[name] += 1
            name += f"_{seen[name]}" if seen[name] > 1 else ""
            info = ZipInfo(f"{name}.xmi")
            info.compress_type = ZIP_DEFLATED
            archive.writestr(info, cas.to_xmi())

"""Publishers' servers on this machine, and what they publish, in their layouts; all of it
synthetic."""

import gzip
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fuzz import seeds

PAGE = b"<!DOCTYPE html><html><body>Not here, or not yet.</body></html>"


class Publisher:
    """files: content by path. etags: False for a server without ETags. requests: path and headers
    of each, in order.

    cuts: popped for each file, the number of bytes after which the connection ends, None for all.
        refusals: popped for each request, the code of an answer without the file, None for none.
        ranges: how the server answers to Range: "yes", "no", or "blindly", without a look at
        If-Range. answers: codes of pages in the place of a file.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.cuts: list[int | None] = []
        self.refusals: list[int | None] = []
        self.answers: dict[str, int] = {}
        self.etags = True
        self.ranges = "yes"
        self.modified = "Tue, 03 Nov 2026 10:00:00 GMT"
        self.address = ""

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        path, headers = handler.path, dict(handler.headers)
        self.requests.append((path, headers))
        content = self.files.get(path)
        if refusal := self.refusals.pop(0) if self.refusals else None:
            _answer(handler, refusal, b"", {})
            return
        if content is None or path in self.answers:
            _answer(handler, self.answers.get(path, 404), PAGE, {"Content-Type": "text/html"})
            return
        found = {"Content-Type": "application/octet-stream", "Last-Modified": self.modified}
        etag = f'"{hashlib.sha256(content).hexdigest()[:12]}"'
        if self.etags:
            found["ETag"] = etag
        code, begin = 200, 0
        validators = (etag if self.etags else None, self.modified)
        if "Range" in headers and self.ranges != "no":
            if self.ranges == "blindly" or headers.get("If-Range") in validators:
                code, begin = 206, int(headers["Range"].removeprefix("bytes=").removesuffix("-"))
                found["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        _answer(handler, code, content[begin:], found, self.cuts.pop(0) if self.cuts else None)


def _answer(
    handler: Any, code: int, content: bytes, headers: dict[str, str], cut: int | None = None
) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content[:cut])
    handler.close_connection = True


@contextmanager
def publishing() -> Iterator[Publisher]:
    publisher = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.get(self)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publisher.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield publisher
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def zipped(**files: str) -> bytes:
    """A ZIP archive; the last underscore of a name is the dot, and two are a folder."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(".".join(name.rsplit("_", 1)).replace("__", "/"), text)
    return content.getvalue()


def obo(prefix: str) -> bytes:
    """Two terms of an ontology, and one that it imports from another."""
    return (
        f"format-version: 1.2\ndata-version: releases/2026-11-01\nontology: {prefix.lower()}\n\n"
        f'[Term]\nid: {prefix}:0000001\nname: all\nsynonym: "everything" EXACT []\n\n'
        f"[Term]\nid: {prefix}:0000002\nname: knee pain\nis_a: {prefix}:0000001 ! all\n\n"
        "[Term]\nid: XYZ:0000003\nname: imported\n"
    ).encode()


def ids(prefix: str) -> tuple[str, ...]:
    return (f"{prefix}:0000001", f"{prefix}:0000002")


HGNC = "".join(
    "\t".join(cells) + "\n"
    for cells in (
        (
            "hgnc_id symbol name locus_group status alias_symbol alias_name prev_symbol prev_name "
            "entrez_id"
        ).split(),
        (
            "HGNC:5",
            "A1BG",
            "alpha-1-B glycoprotein",
            "protein-coding gene",
            "Approved",
            *[""] * 4,
            "1",
        ),
        (
            *(
                "HGNC:3",
                "ACVRL1",
                "activin A receptor like type 1",
                "protein-coding gene",
                "Approved",
            ),
            *(
                '"HHT2|ALK1|HHT"',
                '"TGF-B ""superfamily"" receptor|ALK-1"',
                '"ACVRLK1|ORW2"',
                "",
                "94",
            ),
        ),
    )
)
ICD10CM = """<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular><version>2026</version><introduction/><chapter><name>1</name>
<desc>Certain infectious and parasitic diseases (A00-B99)</desc>
<sectionIndex><sectionRef first="A00" last="A09" id="A00-A09">Intestinal infectious diseases</sectionRef></sectionIndex>
<section id="A00-A09"><desc>Intestinal infectious diseases (A00-A09)</desc><diag><name>A00</name><desc>Cholera</desc>
<diag><name>A00.0</name><desc>Cholera due to Vibrio cholerae 01, biovar cholerae</desc>
<inclusionTerm><note>Classical cholera</note></inclusionTerm></diag></diag></section></chapter></ICD10CM.tabular>
"""  # noqa: E501
NCIT = """<?xml version="1.0"?>
<rdf:RDF xmlns="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#"
 xml:base="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl" xmlns:owl="http://www.w3.org/2002/07/owl#"
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
<owl:Ontology rdf:about="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl"><owl:versionInfo>26.09d</owl:versionInfo>
</owl:Ontology>
<owl:Class rdf:about="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C3224"><NHC0>C3224</NHC0>
<P108>Melanoma</P108><P90>Malignant Melanoma</P90><rdfs:label>Melanoma</rdfs:label></owl:Class>
</rdf:RDF>
"""
MESH, SUPPLEMENTARY = (text.encode() for text in seeds.MESH_XML)
CTD, CTD_CHEMICALS = (text.encode() for text in seeds.CTD)
GENES = gzip.compress(seeds.GENE_INFO[0].encode())
# What is published under a name, and the ids that are read of it.
PUBLISHED: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "hpo": (obo("HP"), ids("HP")),
    "doid": (obo("DOID"), ids("DOID")),
    "mondo": (obo("MONDO"), ids("MONDO")),
    "go": (obo("GO"), ids("GO")),
    "cl": (obo("CL"), ids("CL")),
    "uberon": (obo("UBERON"), ids("UBERON")),
    "chebi": (gzip.compress(obo("CHEBI")), ids("CHEBI")),
    "mesh": (gzip.compress(MESH), ("D006073",)),
    "mesh-supplementary": (gzip.compress(SUPPLEMENTARY), ("C536280",)),
    "medic": (gzip.compress(CTD), ("MESH:D006073", "MESH:D005334")),
    "ctd-chemicals": (gzip.compress(CTD_CHEMICALS), ("MESH:D003078", "MESH:D014508")),
    "ncbitaxon": (
        zipped(
            names_dmp=seeds.TAXONOMY[0]["names.dmp"],
            merged_dmp=seeds.TAXONOMY[0]["merged.dmp"],
            nodes_dmp="9606\t|\t9605\t|\tspecies\t|\n10090\t|\t10088\t|\tspecies\t|\n",
            citations_dmp="no use",
        ),
        ("9606", "10090"),
    ),
    **{
        f"ncbigene{species}": (GENES, ("1", "11287"))
        for species in ("", "-mouse", "-rat", "-zebrafish", "-fly", "-worm", "-yeast")
    },
    "hgnc": (HGNC.encode(), ("HGNC:5", "HGNC:3")),
    "cellosaurus": (seeds.CELLOSAURUS[0].encode(), ("CVCL_0030", "CVCL_A1B2")),
    "icd10cm": (
        zipped(
            **{"Table and Index__icd10cm-tabular-2026_xml": ICD10CM, "icd10cm-index_xml": "<x/>"}
        ),
        ("A00",),
    ),
    "ncit": (zipped(Thesaurus_owl=NCIT), ("NCIT:C3224",)),
}

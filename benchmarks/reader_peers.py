"""The package's readers of OBO, OBO Graphs, OWL and BioC next to pronto, fastobo, rdflib and bioc,
on the same files.

    python benchmarks/reader_peers.py FILE... --peer-python PYTHON

PYTHON has `pip install pronto fastobo rdflib bioc`. Each library reads each file of its format in a
process of its own; what it found is counted (terms, or annotations), or its error is shown. Prints
Markdown. Times are of processor. Times and memory are those of reading alone, without imports.
Needs Linux.
"""

import gzip
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

READERS = {
    "obo": ("ours", "fastobo", "pronto"),
    "json": ("ours", "pronto"),
    "owl": ("ours", "rdflib"),
    "xml": ("ours", "bioc"),
}


def ours(path: str) -> int:
    if ".xml" in path:
        from spacy_krissel.corpora.readers.bioc import read_bioc

        return sum(len(text.mentions) for text in read_bioc(path))
    from spacy_krissel.ontology.readers import read_ontology

    return _count(read_ontology(path))


def fastobo(path: str) -> int:
    import fastobo

    return _count(
        frame for frame in fastobo.iter(path) if isinstance(frame, fastobo.term.TermFrame)
    )


def pronto(path: str) -> int:
    import pronto

    return _count(
        term for term in pronto.Ontology(path, import_depth=0).terms() if not term.obsolete
    )


def rdflib(path: str) -> int:
    from rdflib import OWL, RDF, Graph

    return _count(Graph().parse(path, format="xml").subjects(RDF.type, OWL.Class))


def bioc(path: str) -> int:
    import bioc

    with open(path, encoding="utf8") as file_:
        documents = bioc.load(file_).documents
    return sum(len(passage.annotations) for document in documents for passage in document.passages)


def _count(found: Iterable[Any]) -> int:
    return sum(1 for _ in found)


LIBRARIES: dict[str, Callable[[str], int]] = {
    "ours": ours,
    "fastobo": fastobo,
    "pronto": pronto,
    "rdflib": rdflib,
    "bioc": bioc,
}


def measure(library: str, path: str) -> dict[str, Any]:
    ours = (
        "spacy_krissel.corpora.readers.bioc" if ".xml" in path else "spacy_krissel.ontology.readers"
    )
    importlib.import_module(ours if library == "ours" else library)
    # Reset the peak to the current memory.
    Path("/proc/self/clear_refs").write_text("5")
    start, imported = time.process_time(), _peak_mib()
    try:
        found: Any = f"{LIBRARIES[library](path):,}"
    except Exception as error:
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
    seconds = time.process_time() - start
    return {"found": found, "seconds": seconds, "mib": _peak_mib() - imported}


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main(arguments: list[str]) -> None:
    peer = (
        arguments[arguments.index("--peer-python") + 1]
        if "--peer-python" in arguments
        else sys.executable
    )
    files = [Path(each) for each in arguments if each not in ("--peer-python", peer)]
    print("| file | reader | terms or annotations | s | MiB |\n| --- | --- | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            plain = path
            if path.suffix == ".gz":
                plain = Path(folder) / path.stem
                plain.write_bytes(gzip.decompress(path.read_bytes()))
            for library in READERS[plain.suffix[1:]]:
                python = sys.executable if library == "ours" else peer
                command = [python, __file__, "--measure", library, str(plain)]
                row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                print(
                    f"| {path.name} | {library} | {row['found']} | {row['seconds']:.2f} | "
                    f"{row['mib']:.0f} |"
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main(sys.argv[1:])

"""The peers' side of `finder.py`: FastHPOCR, Gilda, QuickUMLS, OAK or kazu, given names and texts,
one peer per run.

Runs in an environment that has the peer's package; spacy_krissel is not imported.

    python finder_peers.py gilda names.jsonl texts.jsonl links.json 3 ""
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# (start, end, id) in characters.
Links = list[tuple[int, int, str]]
Annotate = Callable[[str], Links]


def main(
    peer: str, names: Path, texts: Path, output: Path, passes: int = 1, data: str = ""
) -> None:
    """Annotate the texts (JSON lines, strings) with the names (JSON lines with `id`, `name` and
    `aliases`), and write the links and times to a JSON file.

    data: file that the peer needs next to its package: the index of FastHPOCR.
    """
    make, package = PEERS[peer]
    try:
        result: dict[str, Any] = {"version": version(package)}
    except PackageNotFoundError:
        output.write_text(json.dumps({"skipped": f"{package} is not installed"}))
        return
    start = time.process_time()
    annotate = make(_read(names), data)
    result["build_seconds"] = time.process_time() - start
    read = list(_read(texts))
    result["seconds"] = float("inf")
    for _ in range(passes):
        start = time.process_time()
        result["links"] = [annotate(text) for text in read]
        result["seconds"] = min(result["seconds"], time.process_time() - start)
    output.write_text(json.dumps(result))


def fasthpocr(entities: Iterable[dict[str, Any]], data: str) -> Annotate:
    """Annotate with an index that FastHPOCR's `IndexHPO` made of the same release of HPO. It takes
    names from the ontology file itself."""
    from FastHPOCR.HPOAnnotator import HPOAnnotator

    annotator: Any = HPOAnnotator(data)
    return lambda text: [
        (each.startOffset, each.endOffset, each.hpoUri) for each in annotator.annotate(text)
    ]


def gilda(entities: Iterable[dict[str, Any]], data: str) -> Annotate:
    from gilda.grounder import Grounder
    from gilda.ner import annotate
    from gilda.process import normalize
    from gilda.term import Term

    terms = []
    for entity in entities:
        for i, name in enumerate((entity["name"], *entity["aliases"])):
            if (form := normalize(name)).strip():
                status = "synonym" if i else "name"
                terms.append(Term(form, name, "x", entity["id"], entity["name"], status, "x"))
    grounder: Any = Grounder(terms)
    # Its models of shared gene names are downloaded unless there are any.
    grounder.gilda_disambiguators = {}
    return lambda text: [
        (each.start, each.end, each.matches[0].term.id)
        for each in annotate(text, grounder=grounder)
    ]


def quickumls(entities: Iterable[dict[str, Any]], data: str) -> Annotate:
    """Match with QuickUMLS' defaults, but on a blank English pipeline and with spaCy's stop words:
    its part-of-speech rules need a model, which it downloads."""
    import nltk
    import spacy
    from quickumls.core import QuickUMLS
    from quickumls.install import parse_and_encode_ngrams

    folder = tempfile.mkdtemp()
    stop_words = Path(folder) / "corpora" / "stopwords" / "english"
    stop_words.parent.mkdir(parents=True)
    blank = spacy.blank("en")
    stop_words.write_text("\n".join(sorted(blank.Defaults.stop_words)))
    nltk.data.path.insert(0, folder)
    terms = {
        (name.lower(), entity["id"]): int(not i)
        for entity in entities
        for i, name in reversed([*enumerate((entity["name"], *entity["aliases"]))])
    }
    parse_and_encode_ngrams(
        ((name, id_, ["T000"], preferred) for (name, id_), preferred in terms.items()),
        os.path.join(folder, "umls-simstring.db"),
        os.path.join(folder, "cui-semtypes.db"),
        "unqlite",
    )
    Path(folder, "database_backend.flag").write_text("unqlite")
    Path(folder, "lowercase.flag").touch()
    matcher: Any = QuickUMLS(folder, accepted_semtypes=None, spacy_component=True)
    matcher.nlp = blank
    return lambda text: [
        (group[0]["start"], group[0]["end"], group[0]["cui"]) for group in matcher.match(text)
    ]


def oak(entities: Iterable[dict[str, Any]], data: str) -> Annotate:
    """Annotate with OAK's text annotator over an OBO file of the names. It finds the first
    occurrence of each name, in any case, overlapping ones included."""
    from oaklib import get_adapter

    path = Path(tempfile.mkdtemp()) / "names.obo"
    with path.open("w", encoding="utf8") as file_:
        file_.write("format-version: 1.2\nontology: x\n")
        for entity in entities:
            file_.write(f"\n[Term]\nid: {entity['id']}\nname: {entity['name']}\n")
            for alias in entity["aliases"]:
                quoted = alias.replace("\\", "\\\\").replace('"', '\\"')
                file_.write(f'synonym: "{quoted}" EXACT []\n')
    adapter: Any = get_adapter(f"simpleobo:{path}")
    list(adapter.annotate_text("index"))
    return lambda text: [
        (each.subject_start - 1, each.subject_end, each.object_id)
        for each in adapter.annotate_text(text)
    ]


def kazu(entities: Iterable[dict[str, Any]], data: str) -> Annotate:
    """Match with kazu's dictionary step, without curation. The longest of overlapping matches is
    kept; one of several entities is not linked."""
    from kazu.data import Document
    from kazu.ontology_preprocessing.constants import DEFAULT_LABEL, IDX, MAPPING_TYPE, SYN
    from kazu.ontology_preprocessing.parsers import JsonLinesOntologyParser
    from kazu.steps.joint_ner_and_linking.memory_efficient_string_matching import (
        MemoryEfficientStringMatchingStep,
    )

    rows = [
        {SYN: name, MAPPING_TYPE: "exact", DEFAULT_LABEL: entity["name"], IDX: entity["id"]}
        for entity in entities
        for name in (entity["name"], *entity["aliases"])
    ]

    class Parser(JsonLinesOntologyParser):
        def read(self, path: Path) -> Iterable[dict[str, Any]]:
            return iter(rows)

        def json_dict_to_parser_records(self, jsons_gen: Any) -> Any:
            return jsons_gen

        def find_kb(self, string: str) -> str:
            return "x"

    # It writes next to this folder, and reads what an earlier run wrote there.
    folder = Path(tempfile.mkdtemp()) / "names"
    step: Any = MemoryEfficientStringMatchingStep([Parser(folder, "entity", "names")])

    def annotate(text: str) -> Links:
        document = Document.create_simple_document(text)
        step([document])
        found = []
        for entity in document.get_entities():
            sets = [ids for each in entity.linking_candidates for ids in each.associated_id_sets]
            ids = {id_ for each in sets for id_, _ in each.ids_and_source}
            found.append((entity.start, entity.end, ids.pop() if len(ids) == 1 else ""))
        links: Links = []
        for start, end, id_ in sorted(found, key=lambda each: (each[0] - each[1], each[0])):
            if all(end <= link[0] or link[1] <= start for link in links):
                links.append((start, end, id_))
        return [link for link in links if link[2]]

    return annotate


def _read(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf8") as file_:
        yield from map(json.loads, file_)


PEERS: dict[str, tuple[Callable[[Iterable[dict[str, Any]], str], Annotate], str]] = {
    "fasthpocr": (fasthpocr, "FastHPOCR"),
    "gilda": (gilda, "gilda"),
    "quickumls": (quickumls, "medspacy-quickumls"),
    "oak": (oak, "oaklib"),
    "kazu": (kazu, "kazu"),
}

if __name__ == "__main__":
    name, *paths, n, file = sys.argv[1:]
    main(name, *map(Path, paths), int(n), file)

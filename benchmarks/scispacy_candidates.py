"""The peer's side of `linking_speed.py`: time scispaCy on given mentions and a given KB.

Either its CandidateGenerator alone, or its pipeline, with what ours does too:
`abbreviation_detector` and `EntityLinker` on docs with the mentions as entities, thresholds as they
are, but concepts without a definition kept.

Runs inside a virtual environment that has scispacy and needs nothing else; spacy_krissel is not
imported. scispaCy's own `create_tfidf_ann_index` refuses scipy 1.11 and newer, and with it Python
3.11 and newer, only because it would store the vectors as float16. The index is therefore built
here in memory, by the same libraries with the same settings: character 3-grams within word
boundaries, `min_df=10`, float32, then nmslib's HNSW over sparse cosine with M=100 and
efConstruction=2000.

By hand: `python scispacy_candidates.py kb.jsonl mentions.json --output result.json`. With `--serve`
the process builds the index, then answers one JSON line for each line on its standard input, so
that a driver can alternate its own passes with these in one run.
"""

import gc
import hashlib
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypedDict

import nmslib
import numpy
import spacy
import typer
from scispacy.abbreviation import AbbreviationDetector
from scispacy.candidate_generation import CandidateGenerator
from scispacy.linking import EntityLinker
from scispacy.linking_utils import KnowledgeBase
from sklearn.feature_extraction.text import TfidfVectorizer
from spacy.tokens import Doc, Span

BATCHINGS = ("document", "corpus", "pipeline")
# efSearch: what scispaCy's constructor and the linkers that it ships use, and what nmslib gives to
# an index that was just built, which is what a linker made by `EntityLinker.from_kb` without a
# folder gets.
DEFAULT_WIDTHS = [200, 20]
LIBRARIES = ("scispacy", "nmslib-metabrainz", "scikit-learn", "numpy", "spacy")
VECTORISER = {"analyzer": "char_wb", "ngram_range": (3, 3), "min_df": 10, "dtype": numpy.float32}
# As in the peer's builder, but for the number of threads, which it says to set by the machine.
INDEX_PARAMS = {"M": 100, "efConstruction": 2000, "post": 0, "indexThreadQty": os.cpu_count() or 1}


class Texts(TypedDict):
    """The mentions of each document, {"text": ..., "gold": [ids]}, and the same documents for
    spaCy: "words", "spaces" and "ents", the first token of each mention and the one after it."""

    documents: list[list[dict[str, Any]]]
    docs: list[dict[str, Any]]


def main(
    kb_path: Annotated[
        Path, typer.Argument(help="Concepts, one JSON object per line, in scispaCy's format")
    ],
    mentions_path: Annotated[Path, typer.Argument(help="JSON: see `Texts`")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Result (JSON)")] = None,
    k: Annotated[
        int, typer.Option(help="Neighbours per mention, as in scispaCy's EntityLinker")
    ] = 30,
    ef_search: Annotated[
        list[int], typer.Option(help="HNSW search width, repeatable")
    ] = DEFAULT_WIDTHS,
    passes: Annotated[
        int, typer.Option(help="Timed passes over the mentions; the best counts")
    ] = 3,
    index_cache: Annotated[Path | None, typer.Option(help="Folder that keeps the index")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Answer requests on standard input")
    ] = False,
) -> None:
    """Build scispaCy's index of a knowledge base in memory and time its candidate generator."""
    texts: Texts = json.loads(mentions_path.read_text(encoding="utf8"))
    start = time.perf_counter()
    generator, n_aliases, cached = build_generator(kb_path, index_cache)
    built = {
        "concepts": len(generator.kb.cui_to_entity),
        "aliases": n_aliases,
        "index_seconds": round(time.perf_counter() - start, 2),
        "index_from_cache": cached,
        "versions": {name: version(name) for name in LIBRARIES},
        "k": k,
    }
    if serve:
        answer_requests(generator, texts, k, built)
        return
    rows = []
    for width in ef_search:
        for batching in BATCHINGS:
            runs = [time_pass(generator, texts, k, width, batching) for _ in range(passes)]
            rows.append(min(runs, key=lambda run: run["seconds"]))
    result = json.dumps({**built, "rows": rows}, indent=2)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(result + "\n", encoding="utf8")
    print(result)


def answer_requests(
    generator: CandidateGenerator, texts: Texts, k: int, built: dict[str, Any]
) -> None:
    """Report that the index is ready, then run one pass for each request line {"batching": ...,
    "ef_search": ...}."""
    gc.collect()
    gc.freeze()
    print(json.dumps({"ready": True, **built}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(
            json.dumps(time_pass(generator, texts, k, request["ef_search"], request["batching"])),
            flush=True,
        )


def time_pass(
    generator: CandidateGenerator, texts: Texts, k: int, ef_search: int, batching: str
) -> dict[str, Any]:
    """Time one pass over all mentions.

    `batching` is "document" (one call per document, like scispaCy's EntityLinker), "corpus" (one
    call for all), or "pipeline" (abbreviations and linker on one doc after another). Only the calls
    are timed.
    """
    if batching not in BATCHINGS:
        raise ValueError(f"Expected batching to be one of {BATCHINGS}, found {batching!r}")
    generator.ann_index.setQueryTimeParams({"efSearch": ef_search})
    if batching == "pipeline":
        ranked, seconds, processor = time_pipeline(generator, texts["docs"], k)
    else:
        mentions = [[mention["text"] for mention in document] for document in texts["documents"]]
        batches = (
            mentions
            if batching == "document"
            else [[text for document in mentions for text in document]]
        )
        start, used = time.perf_counter(), time.process_time()
        answers = [generator(batch, k) for batch in batches]
        seconds, processor = time.perf_counter() - start, time.process_time() - used
        ranked = [
            [(each.concept_id, max(each.similarities)) for each in found]
            for one in answers
            for found in one
        ]
    golds = [mention["gold"] for document in texts["documents"] for mention in document]
    return {
        "batching": batching,
        "ef_search": ef_search,
        "mentions": len(ranked),
        "seconds": seconds,
        "mentions_per_second": len(ranked) / seconds,
        "mentions_per_core_second": len(ranked) / processor,
        **accuracy(ranked, golds),
    }


def time_pipeline(
    generator: CandidateGenerator, texts: list[dict[str, Any]], k: int
) -> tuple[list[list[tuple[str, float]]], float, float]:
    """Return the concepts and scores of each mention, and the seconds of scispaCy's two components,
    by the clock and of the processor."""
    nlp = spacy.blank("en")
    components = [
        AbbreviationDetector(nlp),
        EntityLinker(candidate_generator=generator, k=k, filter_for_definitions=False),
    ]
    docs = []
    for text in texts:
        doc = Doc(nlp.vocab, words=text["words"], spaces=text["spaces"])
        doc.set_ents([Span(doc, start, end, label="Entity") for start, end in text["ents"]])
        docs.append(doc)
    start, used = time.perf_counter(), time.process_time()
    for doc in docs:
        for component in components:
            component(doc)
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    return [ent._.kb_ents for doc in docs for ent in doc.ents], seconds, processor


def accuracy(candidates: list[list[tuple[str, float]]], golds: list[list[str]]) -> dict[str, Any]:
    """Return the strict accuracy of the candidate with the highest similarity; several tied at the
    top are wrong.

    A mention is correct if any of its gold ids is predicted; mentions without gold ids are left
    out.
    """
    scored, right = 0, 0
    for found, gold in zip(candidates, golds, strict=True):
        if not gold:
            continue
        scored += 1
        best = max((score for _, score in found), default=0.0)
        # Equal names may differ in the last bits of their similarity.
        top = [concept for concept, score in found if score >= best - 1e-6]
        right += len(top) == 1 and top[0] in gold
    return {"scored": scored, "strict": right / scored if scored else None}


def build_generator(
    kb_path: Path, index_cache: Path | None
) -> tuple[CandidateGenerator, int, bool]:
    """Build scispaCy's KnowledgeBase and CandidateGenerator over the concepts in `kb_path`.

    Returns the generator, its number of names and whether the index came from the cache. The cache
    contains the HNSW graph and the order of its names; the vectors are computed again, which takes
    seconds.
    """
    kb = KnowledgeBase(str(kb_path))
    folder = index_cache / cache_key(kb) if index_cache else None
    cached = folder is not None and (folder / "names.json").is_file()
    if folder is not None and cached:
        names = json.loads((folder / "names.json").read_text(encoding="utf8"))
    else:
        names = list(kb.alias_to_cuis)
    vectorizer = TfidfVectorizer(**VECTORISER)
    vectors = vectorizer.fit_transform(list(kb.alias_to_cuis))
    if cached:
        vectors = vectorizer.transform(names)
    else:
        # nmslib ends the process when it meets a vector of zeros.
        filled = numpy.asarray(vectors.sum(axis=1)).reshape(-1) != 0
        vectors, names = (
            vectors[filled],
            [name for name, keep in zip(names, filled, strict=True) if keep],
        )
    index = nmslib.init(
        method="hnsw", space="cosinesimil_sparse", data_type=nmslib.DataType.SPARSE_VECTOR
    )
    index.addDataPointBatch(vectors)
    if folder is not None and cached:
        index.loadIndex(str(folder / "index.bin"))
    else:
        index.createIndex(INDEX_PARAMS, print_progress=False)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            index.saveIndex(str(folder / "index.bin"))
            # Written last: its presence says that the index is whole.
            (folder / "names.json").write_text(json.dumps(names), encoding="utf8")
    return CandidateGenerator(index, vectorizer, names, kb), len(names), cached


def cache_key(kb: KnowledgeBase) -> str:
    """Return a hash of everything that the index depends on: the names, the settings and the
    libraries."""
    settings = sorted((key, str(value)) for key, value in {**VECTORISER, **INDEX_PARAMS}.items())
    libraries = [version("nmslib-metabrainz"), version("scikit-learn")]
    key = json.dumps([settings, libraries, sorted(kb.alias_to_cuis)])
    return hashlib.sha256(key.encode("utf8")).hexdigest()[:16]


if __name__ == "__main__":
    typer.run(main)

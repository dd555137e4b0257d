"""Cost of a link by stage, compared with linkers of a few lines: processor time of one core.

    OMP_NUM_THREADS=1 python benchmarks/linking_stages.py STORE PIPELINE... --gold dev.spacy [--encoder FOLDER]

Each row runs in its own process: the time to load, the first link, mentions and words per second of
the best of several passes over all docs, and memory after them. For a pipeline, the parts of the
best pass too. The others use a mention's text alone, with abbreviations expanded as by the linker,
and find:

- exact match of the folded name, else the name nearest by TF-IDF of character 3-grams
  (scikit-learn);
- the nearest name by the mean of a transformer's last states (as in SapBERT, with plain
  transformers and FAISS's flat
  index), with `--encoder`.

Writes `results/linking_stages.json`.
"""  # noqa: E501

import importlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import typer
from kb_at_size import in_process, memory_of_this, processor
from linking_speed import gold_mentions, read_docs, time_pipeline
from spacy.tokens import Doc, DocBin

from spacy_krissel.mentions.contexts import mention_views
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.folding import fold_name

RESULT = Path(__file__).parent / "results" / "linking_stages.json"
COMPONENT, LINKER = "spacy_krissel.pipeline.linker.component", "spacy_krissel.pipeline.linker"
# Module and name of a function, and its stage, without the functions that it calls.
STAGES = {
    (COMPONENT, "doc_texts"): "texts of docs",
    (COMPONENT, "read_mentions"): "contexts and abbreviations",
    ("spacy_krissel.pipeline.kb_pipe", "KBPipe.encode"): "encoding",
    (f"{LINKER}.terms.vectors", "search_entities"): "search of vectors",
    (f"{LINKER}.query", "LexicalQuery.__init__"): "lexical similarity",
    (f"{LINKER}.query", "LexicalQuery.candidates"): "lexical similarity",
    (f"{LINKER}.query", "LexicalQuery.similarity"): "lexical similarity",
    (f"{LINKER}.linking", "search_candidates"): "ranking",
    (f"{LINKER}.terms.document", "DocumentTerm.revise"): "coherence",
    (f"{LINKER}.linking", "_decided"): "candidates",
    (COMPONENT, "KrisselLinker.set_annotations"): "writing",
}
REST = "the rest"
BATCH = 256


class Clock:
    """Processor seconds by stage, each without the stages that it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._stages = [REST]
        self._since = 0.0

    def start(self) -> None:
        self.seconds.clear()
        self._since = time.process_time()

    def count(self) -> None:
        now = time.process_time()
        self.seconds[self._stages[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, function: Callable) -> Callable:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            self.count()
            self._stages.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.count()
                self._stages.pop()

        return inside


def main(
    store: Annotated[Path, typer.Argument(help="Ontology store whose names the others search")],
    pipelines: Annotated[list[Path], typer.Argument(help="Pipelines with a krissel_linker")],
    gold: Annotated[
        list[Path], typer.Option(help=".spacy file with gold mentions as doc.ents, repeatable")
    ],
    encoder: Annotated[
        Path | None, typer.Option(help="Folder of a transformer, which encodes names alone")
    ] = None,
    passes: Annotated[int, typer.Option(help="Timed passes; the best counts")] = 3,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Time each row in its own process, and print the table."""
    rows = [
        {"system": pipeline.name, **in_process(pipeline_row, pipeline, store, gold, passes)}
        for pipeline in pipelines
    ]
    rows.append(
        {"system": "exact match, then TF-IDF", **in_process(peer_row, None, store, gold, passes)}
    )
    if encoder is not None:
        title = "a transformer of names, FAISS"
        rows.append({"system": title, **in_process(peer_row, encoder, store, gold, passes)})
    setup = {
        "gold": [each.name for each in gold],
        "passes": passes,
        "processor": processor(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "setup": setup}, indent=2) + "\n", encoding="utf8")
    columns = (
        "load_seconds",
        "first_seconds",
        "mentions_per_second",
        "words_per_second",
        "rss_mib",
        "strict",
    )
    print("| system | " + " | ".join(columns) + " |\n| --- |" + " ---: |" * len(columns))
    for row in rows:
        print(f"| {row['system']} | " + " | ".join(f"{row[name]:,.4g}" for name in columns) + " |")
    for row in rows:
        for stage, seconds in sorted(row.get("stages", {}).items(), key=lambda pair: -pair[1]):
            print(f"{row['system']}: {stage}: {1e6 * seconds / row['mentions']:.1f} µs a mention")


def pipeline_row(path: Path, store: Path, gold: Sequence[Path], passes: int) -> dict[str, Any]:
    start = time.process_time()
    nlp = spacy.load(path)
    row: dict[str, Any] = {"load_seconds": time.process_time() - start}
    bins, ontology = (
        [DocBin(store_user_data=True).from_disk(each) for each in gold],
        OntologyStore(store),
    )
    docs = read_docs(bins, nlp, None)
    documents = [gold_mentions(doc, ontology) for doc in docs]
    start = time.process_time()
    nlp(docs[0])
    row["first_seconds"] = time.process_time() - start
    time_pipeline(nlp, docs, documents)
    clock = Clock()
    for (module, name), stage in STAGES.items():
        owner: Any = importlib.import_module(module)
        *parents, last = name.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, last, clock.timed(stage, getattr(owner, last)))
    best: dict[str, Any] = {}
    for _ in range(passes):
        docs = read_docs(bins, nlp, None)
        clock.start()
        found = time_pipeline(nlp, docs, documents)
        clock.count()
        if not best or found["mentions_per_core_second"] > best["mentions_per_core_second"]:
            best = {**found, "stages": dict(clock.seconds)}
    seconds = best["mentions"] / best["mentions_per_core_second"]
    # What the pass itself did not take is that of reading the links.
    best["stages"][REST] -= sum(best["stages"].values()) - seconds
    return (
        row
        | measured(best["mentions"], sum(map(len, docs)), seconds, best["strict"])
        | {"stages": best["stages"]}
    )


def peer_row(
    encoder: Path | None, store: Path, gold: Sequence[Path], passes: int
) -> dict[str, Any]:
    """Time a peer: TF-IDF if there is no encoder."""
    nlp, ontology = spacy.blank("en"), OntologyStore(store)
    docs = read_docs([DocBin(store_user_data=True).from_disk(each) for each in gold], nlp, None)
    mentions = [mention for doc in docs for mention in gold_mentions(doc, ontology)]
    pairs = [(name, entity.id) for entity in ontology for name in entity.names]
    start = time.process_time()
    nearest = tf_idf(pairs) if encoder is None else by_transformer(pairs, encoder)
    row = {"load_seconds": time.process_time() - start}
    start = time.process_time()
    nearest(expanded(docs[:1]))
    row["first_seconds"] = time.process_time() - start
    seconds: list[float] = []
    found: list[str] = []
    for _ in range(passes):
        start = time.process_time()
        found = nearest(expanded(docs))
        seconds.append(time.process_time() - start)
    scored = [
        (id_, mention["gold"])
        for id_, mention in zip(found, mentions, strict=True)
        if mention["gold"]
    ]
    strict = sum(id_ in wanted for id_, wanted in scored) / len(scored)
    return row | measured(len(mentions), sum(map(len, docs)), min(seconds), strict)


def expanded(docs: Sequence[Doc]) -> list[str]:
    """Return the texts of all mentions, with their abbreviations expanded."""
    views = (mention_views(doc, doc.ents, context=None, use_abbreviations=True) for doc in docs)
    return [view.mention for own in views for view in own]


def measured(mentions: int, words: int, seconds: float, strict: float) -> dict[str, Any]:
    rates = {"mentions_per_second": mentions / seconds, "words_per_second": words / seconds}
    return {"mentions": mentions, **rates, "strict": strict, **memory_of_this()}


def tf_idf(pairs: Sequence[tuple[str, str]]) -> Callable[[list[str]], list[str]]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    ids = [id_ for _, id_ in pairs]
    folded = [fold_name(name) for name, _ in pairs]
    # The first entity that has a name is the one that is found.
    known = dict(zip(reversed(folded), reversed(ids), strict=True))
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
    by_gram = vectorizer.fit_transform(folded).T.tocsr()

    def nearest(texts: list[str]) -> list[str]:
        different = list(dict.fromkeys(map(fold_name, texts)))
        found = {text: known[text] for text in different if text in known}
        unknown = [text for text in different if text not in known]
        for start in range(0, len(unknown), BATCH):
            part = unknown[start : start + BATCH]
            best = np.asarray((vectorizer.transform(part) @ by_gram).argmax(axis=1)).ravel()
            found.update(zip(part, [ids[row] for row in best], strict=True))
        return [found[fold_name(text)] for text in texts]

    return nearest


def by_transformer(
    pairs: Sequence[tuple[str, str]], folder: Path
) -> Callable[[list[str]], list[str]]:
    import faiss
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    encode = partial(mean_states, tokenizer, model)
    vectors = encode([name for name, _ in pairs])
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)

    def nearest(texts: list[str]) -> list[str]:
        different = list(dict.fromkeys(texts))
        rows = index.search(encode(different), 1)[1][:, 0]
        found = {text: pairs[row][1] for text, row in zip(different, rows.tolist(), strict=True)}
        return [found[text] for text in texts]

    return nearest


def mean_states(tokenizer: Any, model: Any, texts: Sequence[str]) -> np.ndarray:
    """Return the mean of the last states of each text, of unit length, (n, width); texts of similar
    length are batched."""
    import torch

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    vectors = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=25
            )
            tensors = {name: torch.tensor(batch[name]) for name in ("input_ids", "attention_mask")}
            mask = tensors["attention_mask"][:, :, None]
            states = (model(**tensors).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
            vectors[rows] = torch.nn.functional.normalize(states, dim=1).numpy()
    return vectors


if __name__ == "__main__":
    typer.run(main)

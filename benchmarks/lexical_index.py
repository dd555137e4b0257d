"""The knowledge base's lexical index compared with scikit-learn's TF-IDF over the same character
3-grams.

    python benchmarks/lexical_index.py PIPELINE/krissel_linker/kb

Both get all surface forms of a saved knowledge base, then some of them, without their last letter,
as queries. The peer searches the nearest forms by a sparse product with all forms, in the same
batches. Prints Markdown.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from spacy.vocab import Vocab

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import MENTION_KINDS
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.lexical.ngrams import canonical_form

BATCH, K = 1024, 4


def main(kb: Path, queries: int = 4096, repeat: int = 1) -> None:
    """Compare both indexes.

    repeat: number of times the forms are added, each time with another number, to measure how time
        grows.
    """
    table = PrototypeKB(Vocab(), 0).from_disk(kb, exclude=["index"]).prototypes
    rows = table.rows_of_kinds(MENTION_KINDS)
    mentions = [
        f"{form} {i}" if i else form for i in range(repeat) for form in table.mentions(rows)
    ]
    owners = np.tile(table.entity_rows[rows], repeat)
    forms = list(dict.fromkeys(map(canonical_form, mentions)))
    index, built = _timed(lambda: LexicalIndex.of(mentions, owners))
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), lowercase=False, dtype=np.float32
    )
    peer, peer_built = _timed(
        lambda: vectorizer.fit_transform(list(dict.fromkeys(map(canonical_form, mentions))))
    )
    chosen = np.random.default_rng(0).choice(len(forms), min(queries, len(forms)), replace=False)
    texts = [forms[i][:-1] for i in chosen]
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    vectors, encoded = _timed(lambda: [index.vectors(batch) for batch in batches])
    peer_vectors, peer_encoded = _timed(
        lambda: [vectorizer.transform(map(canonical_form, batch)) for batch in batches]
    )
    index.search(vectors[0], K)  # compiles its loop
    _, found = _timed(lambda: [index.search(batch, K) for batch in vectors])
    transposed = peer.T.tocsr()
    _, peer_found = _timed(lambda: [_nearest(batch @ transposed) for batch in peer_vectors])
    # The columns of both stand in orders of their own: compare what is in them.
    by_gram = _by_gram(index._arrays)
    ours = [np.sort((batch @ by_gram).data) for batch in vectors]
    theirs = [np.sort((batch @ transposed).data) for batch in peer_vectors]
    difference = max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
    print(
        f"{len(forms):,} forms, {len(texts):,} texts; the largest difference of a cosine is "
        f"{difference:.1e}\n"
    )
    print(
        "| | index built, s | texts to vectors, ms each | nearest forms, ms each |\n"
        "| --- | ---: | ---: | ---: |"
    )
    for name, seconds in (
        ("`LexicalIndex`", (built, encoded, found)),
        ("`TfidfVectorizer`", (peer_built, peer_encoded, peer_found)),
    ):
        per_text = [1000 * each / len(texts) for each in seconds[1:]]
        print(f"| {name} | {seconds[0]:.2f} | {per_text[0]:.3f} | {per_text[1]:.3f} |")


def _by_gram(arrays: dict[str, np.ndarray]) -> csr_matrix:
    parts = arrays["gram_weights"], arrays["gram_forms"], arrays["gram_starts"]
    return csr_matrix(parts, shape=(len(arrays["grams"]), len(arrays["hashes"])))


def _nearest(similarity: Any) -> list:
    lines = zip(similarity.indptr, similarity.indptr[1:], strict=False)
    return [similarity.indices[a:b][np.argsort(-similarity.data[a:b])[:K]] for a, b in lines]


def _timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return act(), time.process_time() - start


if __name__ == "__main__":
    typer.run(main)

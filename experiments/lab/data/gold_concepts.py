"""The concepts of gold corpora as an ontology, where the real one needs a licence."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import srsly
from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.mentions.gold_ids import is_nil, split_ids
from spacy_krissel.mentions.gold_mentions import gold_spans
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.atomic import check_file, write_text


def gold_concepts(
    gold: Sequence[str | Path],
    output: Path,
    *,
    ontology: str | Path | None = None,
    spans_key: str = "",
) -> int:
    """Write the concepts of gold corpora as an ontology, if the real one is large or needs a
    licence.

    gold: gold mentions (.spacy)
    output: file of JSON lines to write, for `krissel ontology`
    ontology: store to take the concepts of, with their names there; without it, all concepts are
        named by the texts of their mentions, the most frequent first
    spans_key: gold mentions are in `doc.spans[spans_key]`; see `gold_spans`

    RETURNS: the number of concepts.
    Raises KrisselError K201, K212 (gold), K026 (the output, which is written atomically).
    """
    check_file(output)
    store = None if ontology is None else OntologyStore(ontology)
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in gold:
        for doc in read_doc_bins(path, Vocab()):
            for span in gold_spans(doc, spans_key):
                for concept in () if is_nil(span.kb_id_) else split_ids(span.kb_id_):
                    texts[concept][" ".join(span.text.split())] += 1
    names = {
        concept: [text for text, _ in found.most_common() if text]
        for concept, found in sorted(texts.items())
    }
    if store is not None:
        known = sorted({id_ for id_ in map(store.resolve, texts) if id_ is not None})
        names = {id_: list(store.get(id_).names) for id_ in known}
    records = [
        {"concept_id": concept, "canonical_name": own[0], "aliases": own[1:]}
        for concept, own in names.items()
        if own
    ]
    write_text(output, "".join(f"{srsly.json_dumps(record)}\n" for record in records))
    return len(records)


def show_gold_concepts(number: int, output: Path) -> str:
    return f"{number:,} concepts in {output}"

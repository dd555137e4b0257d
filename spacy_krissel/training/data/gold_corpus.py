"""Training and development examples from gold documents: the supervised counterpart of `self_supervised`."""

import warnings
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, List, Literal

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...corpora.doc_bins import GoldSplit, read_doc_bins
from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...mentions.gold_ids import is_nil
from ...mentions.gold_mentions import split_gold
from ...ontology.store import OntologyStore
from .linked import NIL


def make_gold_corpus(
    path: Path,
    ontology: Path,
    split: Literal["train", "dev", "all"] = "all",
    dev_share: float = 0.1,
    spans_key: str = "",
    seed: int = 0,
) -> Callable[[Language], Iterator[Example]]:
    """Registered as the reader `spacy-krissel.GoldCorpus.v1`.

    Each example is a document of a .spacy file (or of a folder of them) with the mentions of `doc.ents`, or of
    `doc.spans[spans_key]`; the predicted side has the mentions without their ids. Ids are the ontology's primary ones.
    A composite mention says nothing clear about one entity, and is not linked in training; for development any of its
    ids is right. An id that the ontology does not hold counts as none (KW603).

    split, dev_share: the corpus is divided by document into "train" and "dev", or given whole, see `GoldSplit`.
    Raises KrisselError K006 for settings that make no sense.
    """
    part = GoldSplit.checked(split, dev_share, seed)
    return partial(read_gold_corpus, path=path, ontology=ontology, part=part, spans_key=spans_key)


def read_gold_corpus(
    nlp: Language, *, path: Path, ontology: Path, part: GoldSplit, spans_key: str
) -> Iterator[Example]:
    """Yield the examples that `make_gold_corpus` describes.

    Raises KrisselError K201, K212 (file), K608 (no linked mention).
    """
    store = OntologyStore(ontology)
    n_linked = n_unknown = 0
    for doc in read_doc_bins(path, nlp.vocab):
        if not part(doc):
            continue
        spans = doc.spans.get(spans_key, ()) if spans_key else doc.ents
        linked: List[Span] = []
        for span in spans:
            ids = split_gold(span.kb_id_, store)
            known = [id_ for id_ in ids if store.resolve(id_) is not None]
            n_unknown += bool(ids) and not known
            kb_id = "" if part.split == "train" and len(known) > 1 else "|".join(known)
            if is_nil(span.kb_id_):
                kb_id = NIL
            n_linked += bool(known)
            linked.append(Span(doc, span.start, span.end, label=span.label_, kb_id=kb_id))
        predicted = Doc(nlp.vocab, words=[token.text for token in doc], spaces=[bool(t.whitespace_) for t in doc])
        _set_spans(predicted, [Span(predicted, s.start, s.end, label=s.label_) for s in linked], spans_key)
        _set_spans(doc, linked, spans_key)
        yield Example(predicted, doc)
    if n_unknown:
        message = Warnings.KW603.format(count=n_unknown, total=n_linked + n_unknown, path=path)
        warnings.warn(message, KrisselWarning, stacklevel=2)
    if not n_linked:
        todo = "Check that its documents carry kb_id_ on their mentions, the `spans_key`, and `dev_share`."
        raise KrisselError(Errors.K608.format(split=part.split, path=path, todo=todo))


def _set_spans(doc: Doc, spans: List[Span], spans_key: str) -> None:
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans

"""Training and development examples from gold documents: linked mentions (KRISSBERT, PEL, BELHD), and documents with
entity labels alone (OSLAT §2)."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...corpora.doc_bins import GoldSplit, read_doc_bins
from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...mentions.gold_ids import NIL, is_nil
from ...mentions.gold_mentions import split_gold, text_entities
from ...ontology.store import OntologyStore
from ...util.settings import checked
from .examples import set_spans

Split = Literal["train", "dev", "all"]
DevShare = Annotated[float, Field(ge=0, lt=1)]


@checked
class GoldCorpus:
    """The documents of a .spacy file, or of a folder of them, with their linked mentions.

    The predicted side has the mentions without their ids. Ids are the ontology's primary ones; one that the ontology
    does not hold counts as none (KW603). In training a composite mention is not linked, as it is no mention of one
    entity; in development any of its ids is right.

    path: a .spacy file, or a folder of them.
    ontology: path of the ontology store.
    split: "train" or "dev", divided by document (`GoldSplit`), or "all".
    dev_share: fraction of the documents in "dev".
    spans_key: mentions are spans of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: of the split.
    """

    def __init__(
        self,
        path: str | Path,
        ontology: str | Path,
        split: Split = "all",
        dev_share: DevShare = 0.1,
        spans_key: str = "",
        seed: int = 0,
    ) -> None:
        self.path = Path(path)
        self.ontology = ontology
        self.split = GoldSplit(split, dev_share, seed)
        self.spans_key = spans_key

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Raises KrisselError K201, K212 (file), K608 (no linked mention)."""
        store = OntologyStore(self.ontology)
        n_linked = n_unknown = 0
        for doc in read_doc_bins(self.path, nlp.vocab):
            if not self.split(doc):
                continue
            linked = []
            for span in doc.spans.get(self.spans_key, ()) if self.spans_key else doc.ents:
                ids = split_gold(span.kb_id_, store)
                known = [id_ for id_ in ids if store.resolve(id_) is not None]
                n_unknown += bool(ids) and not known
                kb_id = "" if self.split.split == "train" and len(known) > 1 else "|".join(known)
                if is_nil(span.kb_id_):
                    kb_id = NIL
                n_linked += bool(known)
                linked.append(Span(doc, span.start, span.end, label=span.label_, kb_id=kb_id))
            predicted = _words(doc)
            spans = [Span(predicted, span.start, span.end, label=span.label_) for span in linked]
            set_spans(predicted, spans, self.spans_key)
            set_spans(doc, linked, self.spans_key)
            yield Example(predicted, doc)
        _warn_unknown(n_unknown, n_linked, self.path)
        if not n_linked:
            todo = "Check that its documents carry kb_id_ on their mentions, the `spans_key`, and `dev_share`."
            raise KrisselError(Errors.K608.format(split=self.split.split, path=self.path, todo=todo))


@checked
class TextEntityCorpus:
    """The documents of a .spacy file, or of a folder of them, whose categories (`doc.cats`) are their entities.

    The predicted side has the words alone. Ids are the ontology's primary ones; one that the ontology does not hold is
    left out (KW603), and so is a document without any.

    path: a .spacy file, or a folder of them.
    ontology: path of the ontology store.
    split: "train" or "dev", divided by document (`GoldSplit`), or "all".
    dev_share: fraction of the documents in "dev".
    seed: of the split.
    """

    def __init__(
        self,
        path: str | Path,
        ontology: str | Path,
        split: Split = "all",
        dev_share: DevShare = 0.1,
        seed: int = 0,
    ) -> None:
        self.path = Path(path)
        self.ontology = ontology
        self.split = GoldSplit(split, dev_share, seed)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Raises KrisselError K201, K212 (file), K608 (no text with an entity)."""
        store = OntologyStore(self.ontology)
        n_known = n_unknown = 0
        for doc in read_doc_bins(self.path, nlp.vocab):
            if not self.split(doc):
                continue
            found, unknown = known_entities(doc, store)
            n_known += len(found)
            n_unknown += unknown
            if found:
                doc.cats = found
                yield Example(_words(doc), doc)
        _warn_unknown(n_unknown, n_known, self.path)
        if not n_known:
            todo = "Check that its documents carry the ids of entities as categories (`doc.cats`), and `dev_share`."
            raise KrisselError(Errors.K608.format(split=self.split.split, path=self.path, todo=todo))


def known_entities(doc: Doc, store: OntologyStore) -> tuple[dict[str, float], int]:
    """The entities of a text by their primary ids, as categories, and how many the ontology does not hold."""
    resolved = [store.resolve(entity) for entity in text_entities(doc)]
    return {entity: 1.0 for entity in resolved if entity is not None}, sum(entity is None for entity in resolved)


def _words(doc: Doc) -> Doc:
    return Doc(doc.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])


def _warn_unknown(n_unknown: int, n_known: int, path: Path) -> None:
    if n_unknown:
        message = Warnings.KW603.format(count=n_unknown, total=n_known + n_unknown, path=path)
        warnings.warn(message, KrisselWarning, stacklevel=3)

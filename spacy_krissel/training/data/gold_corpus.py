"""Training and development examples from gold documents: linked mentions (KRISSBERT, PEL, BELHD),
and documents with entity labels only (OSLAT §2)."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...corpora.doc_bins import DEV_SHARE, DevShare, GoldSplit, read_doc_bins
from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...mentions.annotations import NIL, set_spans, spans_of
from ...mentions.gold_ids import is_nil
from ...mentions.gold_mentions import document_entities, split_gold
from ...ontology.build import open_ontology
from ...ontology.store import OntologyStore
from ...util.settings import checked

Split = Literal["train", "dev", "all"]


@dataclass(eq=False)
class _GoldDocuments:
    """Documents of a split."""

    path: Path
    ontology: str | Path
    split: Split = "all"
    dev_share: DevShare = DEV_SHARE
    seed: int = 0
    dev: str | Path | None = None

    def _documents(self, nlp: Language) -> Iterator[Doc]:
        """Return the documents. Raises KrisselError K201, K212 (file)."""
        if self.dev is not None and self.split != "all":
            return read_doc_bins(self.path if self.split == "train" else self.dev, nlp.vocab)
        return filter(
            GoldSplit(self.split, self.dev_share, self.seed), read_doc_bins(self.path, nlp.vocab)
        )

    def _report(self, n_known: int, n_unknown: int, expected: str) -> None:
        """Warn KW603 of unknown ids. Raises KrisselError K608 if none is known."""
        if n_unknown:
            message = Warnings.KW603.format(
                count=n_unknown, total=n_known + n_unknown, path=self.path
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)
        if not n_known:
            todo = f"Check that its documents carry {expected}, and `dev_share`."
            raise KrisselError(Errors.K608.format(split=self.split, path=self.path, todo=todo))


@checked
@dataclass(eq=False)
class GoldCorpus(_GoldDocuments):
    """Documents of a .spacy file, or of a folder of them, with their linked mentions.

    The predicted side has the mentions without their ids. Ids are the ontology's primary ones; an
    id that is not in the ontology counts as none (KW603). In training, composite mentions are not
    linked, since they do not mention a single entity; in development, any of their ids is correct.

    path: a .spacy file, or a folder of .spacy files.
    ontology: path of the ontology store.
    split: "train" or "dev", divided by document (`GoldSplit`), or "all".
    dev_share: fraction of the documents in "dev".
    dev: development split of a corpus that has one, a .spacy file or a folder of them; "train" is
        then all of `path`.
    spans_key: mentions are spans of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: seed of the split.
    """

    spans_key: str = ""

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the examples. Raises KrisselError K201, K212 (file), K608 (no linked mention)."""
        store = open_ontology(self.ontology)
        n_linked = n_unknown = 0
        for doc in self._documents(nlp):
            linked = []
            for span in spans_of(doc, self.spans_key):
                ids = split_gold(span.kb_id_, store)
                known = [id_ for id_ in ids if store.resolve(id_) is not None]
                n_unknown += bool(ids) and not known
                kb_id = "" if self.split == "train" and len(known) > 1 else "|".join(known)
                if is_nil(span.kb_id_):
                    kb_id = NIL
                n_linked += bool(known)
                linked.append(Span(doc, span.start, span.end, label=span.label_, kb_id=kb_id))
            predicted = _words(doc)
            spans = [Span(predicted, span.start, span.end, label=span.label_) for span in linked]
            set_spans(predicted, spans, self.spans_key)
            set_spans(doc, linked, self.spans_key)
            yield Example(predicted, doc)
        self._report(n_linked, n_unknown, "kb_id_ on their mentions, the `spans_key`")


@checked
@dataclass(eq=False)
class TextEntityCorpus(_GoldDocuments):
    """Documents of a .spacy file, or of a folder of them, whose categories (`doc.cats`) are their
    entities.

    The predicted side has the words only. Ids are the ontology's primary ones. An id that is not in
    the ontology is left out (KW603), and so is a document without any.

    path, ontology, split, dev_share, seed, dev: as in `spacy-krissel.GoldCorpus.v1`.
    """

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the examples. Raises KrisselError K201, K212 (file), K608 (no text with an
        entity)."""
        store = open_ontology(self.ontology)
        n_known = n_unknown = 0
        for doc in self._documents(nlp):
            resolved = [store.resolve(entity) for entity in document_entities(doc)]
            found = {entity: 1.0 for entity in resolved if entity is not None}
            n_known += len(found)
            n_unknown += resolved.count(None)
            if found:
                doc.cats = found
                yield Example(_words(doc), doc)
        self._report(n_known, n_unknown, "the ids of entities as categories (`doc.cats`)")


def seen_entities(path: str | Path, ontology: OntologyStore) -> list[str]:
    """The ids of the entities of the texts of a .spacy file, or of a folder of them, sorted. Raises
    KrisselError K639 where the ontology holds none of them; K201, K212 (file)."""
    found = {entity for doc in read_doc_bins(path, Vocab()) for entity in document_entities(doc)}
    known = sorted({id_ for id_ in map(ontology.resolve, found) if id_ is not None})
    if not known:
        problem = f"the ontology contains no entity of the texts of '{path}'"
        raise KrisselError(
            Errors.K639.format(
                problem=problem, todo="Use the ontology that the texts were made with"
            )
        )
    return known


def _words(doc: Doc) -> Doc:
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )

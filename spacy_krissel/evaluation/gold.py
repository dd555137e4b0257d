"""Gold documents, and copies of them without links that a pipeline is run on."""

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..corpora.convert import read_docs
from ..corpora.doc_bins import read_doc_bins
from ..corpora.readers import detect_format
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..mentions.annotations import set_spans
from ..mentions.discontinuous import DISJOINT_KEY, read_fragments
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import (
    ID_KEY,
    Corrections,
    document_id,
    gold_spans,
    split_gold,
    text_hash,
)
from ..pipeline.finder import KrisselFinder

Source = str | Path | Iterable[Doc]


class GoldDoc(NamedTuple):
    """A document and its gold mentions, spans that may nest and overlap. `doc` is not changed."""

    id: str
    doc: Doc
    mentions: list[Span]


def read_gold(
    source: Source, nlp: Language, *, spans_key: str = "", labels: Collection[str] | None = None
) -> list[GoldDoc]:
    """Read gold documents from a .spacy file or a folder of them, a PubTator or BioC file, or an
    iterable of `Doc`s.

    Mentions are the spans of `doc.spans[spans_key]` if a key is given, else of
    `doc.spans["krissel"]` (all mentions of the corpus, including overlapping ones, as `convert`
    writes them), else of `doc.ents`. Warns KW030 if links of the group were corrected in
    `doc.ents`; the corrections then count.
    labels: only mentions with one of these labels.

    Raises KrisselError K001 (no such file), K212 (a damaged .spacy file) and those of `read_docs`
    for the others.
    """
    docs = _read_files(Path(source), nlp) if isinstance(source, (str, Path)) else source
    gold, corrections = [], Corrections()
    for number, doc in enumerate(docs):
        spans = gold_spans(doc, spans_key, corrections)
        mentions = [span for span in spans if labels is None or span.label_ in labels]
        gold.append(GoldDoc(str(doc.user_data.get(ID_KEY, number)), doc, mentions))
    corrections.warn()
    return gold


def count_discontinuous(gold: Iterable[GoldDoc], labels: Collection[str] | None = None) -> int:
    """Return the number of discontinuous mentions of the documents, which are no spans and so not
    in `GoldDoc.mentions`. labels: see `read_gold`."""
    return sum(
        labels is None or mention.label in labels
        for item in gold
        for mention in read_fragments(item.doc, DISJOINT_KEY)
    )


def linked_mentions(gold: Iterable[GoldDoc], store: Resolver) -> Iterator[tuple[str, str]]:
    """Yield the text of each linked mention with the primary id of its entity, or of each entity of
    a composite mention."""
    for item in gold:
        for mention in item.mentions:
            for id_ in split_gold(mention.kb_id_, store):
                yield mention.text, id_


def linked_entities(
    sources: Sequence[Source], nlp: Language, store: Resolver, *, spans_key: str = ""
) -> set[str]:
    """Return the primary ids of all entities that gold documents link to, including composite
    mentions.

    sources, spans_key: see `read_gold`. Raises KrisselError K721 for a source without any, and
        those of `read_gold`.
    """
    entities: set[str] = set()
    for source in sources:
        gold = read_gold(source, nlp, spans_key=spans_key)
        found = {id_ for _, id_ in linked_mentions(gold, store)}
        if not found:
            named = f"'{source}'" if isinstance(source, (str, Path)) else "a training corpus"
            raise KrisselError(Errors.K721.format(source=named, n_docs=len(gold)))
        entities |= found
    return entities


def _read_files(path: Path, nlp: Language) -> Iterator[Doc]:
    if not path.exists():
        wanted = {
            "expected": "a .spacy, PubTator or BioC file",
            "make": "python -m spacy krissel convert",
        }
        raise KrisselError(Errors.K001.format(what="corpus", path=path, **wanted))
    if path.is_dir() or path.suffix == ".spacy":
        return read_doc_bins(path, nlp.vocab)
    if path.is_file() and detect_format(path) == "zeshel":
        problem = "ZESHEL's documents are in another folder"
        raise KrisselError(
            Errors.K250.format(path=path, problem=problem, options="--documents FOLDER")
        )
    return read_docs(path, nlp)


def without_links(gold: GoldDoc, nlp: Language, spans_key: str) -> list[Doc]:
    """Return copies of a document with its gold mentions, without ids, at the spans that a linker
    reads.

    With `spans_key`, one copy has all mentions in that group. Otherwise there are as many copies as
    `doc.ents`, which may not overlap, needs: usually one. Nothing else of the document is copied.
    """
    layers = [gold.mentions] if spans_key else _flat_layers(gold.mentions)
    copies = []
    for mentions in layers:
        words = [token.text for token in gold.doc]
        copy = Doc(nlp.vocab, words=words, spaces=[bool(token.whitespace_) for token in gold.doc])
        spans = [
            Span(copy, mention.start, mention.end, label=mention.label_) for mention in mentions
        ]
        set_spans(copy, spans, spans_key)
        copies.append(copy)
    return copies


def _flat_layers(mentions: list[Span]) -> list[list[Span]]:
    """Divide the mentions greedily into few lists without overlap, longest first at each start."""
    layers: list[list[Span]] = [[]]
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        layer = next((each for each in layers if not each or each[-1].end <= mention.start), None)
        if layer is None:
            layers.append(layer := [])
        layer.append(mention)
    return layers


@contextmanager
def without_own_gold(nlp: Language, gold: Sequence[GoldDoc]) -> Iterator[int]:
    """Disable gold prototypes and verdicts of the documents in `gold` for the linkers of `nlp`
    inside this context. Yields their number.

    All prototypes of a document are disabled, since the same name may occur in its next sentence.
    Documents are identified by id and by text, in case an id was lost or changed. Warns KW703 if
    there are any.
    """
    docs = {known for item in gold for known in (document_id(item.doc), text_hash(item.doc))}
    with ExitStack() as stack:
        kbs = (getattr(pipe, "kb", None) for _, pipe in nlp.pipeline)
        used = [kb for kb in kbs if isinstance(kb, PrototypeKB)]
        count = sum(
            stack.enter_context(kb.without_prototypes(kind="gold", docs=docs))
            + stack.enter_context(kb.without_verdicts(docs=docs))
            for kb in used
        )
        if count:
            warnings.warn(
                Warnings.KW703.format(count=count, n_docs=len(gold)), KrisselWarning, stacklevel=4
            )
        yield count


def warn_of_own_names(nlp: Language, n_own: int, n_docs: int) -> None:
    """Warn KW704 if finders of `nlp` have names that people added or stopped, and `n_own` gold
    prototypes are of the evaluated documents: the names may have been learned there, too."""
    finders = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, KrisselFinder)]
    count = sum(len(each.cfg.added_names) + len(each.cfg.stop_names) for each in finders)
    if n_own and count:
        message = Warnings.KW704.format(count=count, n_docs=n_docs)
        warnings.warn(message, KrisselWarning, stacklevel=3)

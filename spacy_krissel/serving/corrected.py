"""A pipeline with corrections: each applies from the next document on, and can be undone
exactly."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from heapq import heappop, heappush
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Origin
from ..kb.verdicts import Verdict, form_key
from ..mentions.annotations import NIL, SpanLink, set_spans, spans_of, write_links
from ..mentions.gold_mentions import ID_KEY, hash_of
from ..mentions.token_edges import split_at
from ..ontology.entity import Entity, entity_url
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import find_linker, mention_setters
from ..pipeline.settings import LINKER
from ..render.formats import WRITERS
from ..render.links import mention_dicts
from ..views import MINED_CHARS, View, mention_view
from .about import about, gives_confidence
from .bounds import DEFAULT_FOUND, MAX_FOUND, Bounds
from .corrections import Correction
from .tokens import remember_words, tokenized
from .vector_cache import VectorCache

# Label of mentions without one: spaCy requires a label.
LABEL = "MENTION"
# Maximum number of characters of all copies of a text, one per set of mentions that do not overlap;
# two are always made.
MAX_COPIED = 5_000_000
# Maximum number of copies: each costs as much as a document.
MAX_LAYERS = 100
# Maximum number of ancestors listed for an entity.
MAX_PATH = 30
# Source of corrections among the gold mentions of the knowledge base.
SOURCE = "corrections"


class Mention(NamedTuple):
    """Characters `start` to `end` of a text."""

    start: int
    end: int
    label: str = LABEL


class Document(NamedTuple):
    """A text to link. mentions: None lets the pipeline find them."""

    text: str
    id: str = ""
    mentions: tuple[Mention, ...] | None = None


@dataclass
class _Layer:
    """Mentions that are linked in one doc. offsets: of their text, without surrounding white
    space."""

    mentions: list[Mention] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    doc: Any = None


class CorrectedLinker:
    """Linker of documents by a private pipeline and by corrections of earlier links; for one
    thread.

    bounds: limits of the documents that are linked together. vectors: file that caches the vectors
        of corrections for the next start (`VectorCache`); None: no file.

    Raises KrisselError K610 (no linker), K520 (no knowledge base).
    """

    def __init__(
        self,
        nlp: Language,
        *,
        name: str = LINKER,
        bounds: Bounds | None = None,
        vectors: Path | None = None,
    ) -> None:
        self.nlp, self._name = nlp, name
        self.bounds = bounds or Bounds()
        self.linker: KrisselLinker = find_linker(nlp, name)
        self._setters = mention_setters(nlp)
        remember_words(nlp)
        self._base = self.linker.kb.branch()
        # Rows of the active corrections in the table of verdicts, by id; -1 for an ignored one.
        self._in_force: dict[str, int] = {}
        # Vectors of the mention checked last, so that it is not encoded twice.
        self._checked: dict[View, np.ndarray] = {}
        self._vectors_path, self._cache = vectors, VectorCache()
        # Corrections change another branch, which shares all memory with the pipeline's own.
        self.linker.set_kb(self._base.branch())

    @property
    def kb(self) -> PrototypeKB:
        return self.linker.kb

    def about(self) -> dict[str, Any]:
        """Return facts about the pipeline, see `about`."""
        return about(self.nlp, self.linker)

    def link(self, documents: Sequence[Document]) -> list[dict[str, Any]]:
        """Return each document as `doc_to_dict` does, without its text.

        Given mentions are returned in the order of the text, with their own offsets, even if these
        are not token boundaries. They may overlap: each is then linked independently of the others.

        Raises KrisselError K682 for a mention that is empty or not in its text, for too many
        mentions of the same words, for a text without mentions if no component finds any, and for
        one longer than the pipeline allows; K692 for too many mentions.
        """
        layers = self._linked(documents)
        return [
            self._document_dict(document, own)
            for document, own in zip(documents, layers, strict=True)
        ]

    def export(
        self, documents: Sequence[Document], format: str, min_confidence: float | None = None
    ) -> tuple[bytes, int]:
        """Return the linked documents as `krissel link` writes them, and the number of mentions.

        format: a name in `WRITERS`, without its dot. min_confidence: links the best candidate of
        each mention that has at least this confidence; None keeps the links of the pipeline.

        Raises KrisselError K682 as `link` does, for another format, for overlapping mentions, and
        for a `min_confidence` without confidences; K692; K247 for a format whose library is not
        installed.
        """
        key = self.linker.cfg["spans_key"]
        if (ending := f".{format}") not in WRITERS:
            problem = f"is none of {', '.join(each.removeprefix('.') for each in WRITERS)}"
            raise KrisselError(
                Errors.K682.format(what=f"The format '{format[:40]}'", problem=problem)
            )
        if min_confidence is not None and not gives_confidence(self.nlp, self.linker):
            problem = (
                "needs a linker with confidences (`krissel confidence`), and no re-ranker after it"
            )
            raise KrisselError(Errors.K682.format(what="`min_confidence`", problem=problem))
        layers = self._linked(documents)
        for document, (_, *others) in zip(documents, layers, strict=True):
            if others:
                problem = "has overlapping mentions, which cannot be exported"
                raise KrisselError(
                    Errors.K682.format(what=f"Document '{document.id[:40]}'", problem=problem)
                )
        docs = [own[0].doc for own in layers]
        if min_confidence is not None:
            for doc in docs:
                _decide(doc, key, min_confidence)
        file_ = BytesIO()
        WRITERS[ending](docs, key, file_)
        return file_.getvalue(), sum(len(spans_of(doc, key)) for doc in docs)

    @property
    def in_force(self) -> list[str]:
        """Ids of the active corrections, oldest first."""
        return [*self._in_force]

    def checked(self, correction: Correction) -> Correction:
        """Return the correction with the current ids of its entities. Its mention is encoded, so
        that `add` does not fail. Raises KrisselError K682 for no mention, or an unknown id."""
        if (
            not 0 <= correction.start < correction.end <= len(correction.text)
            or not correction.mention.strip()
        ):
            raise KrisselError(Errors.K682.format(what="The mention", problem="is not in the text"))
        right, rejected = map(self._resolved, (correction.right, correction.rejected))
        correction = replace(correction, right=right, rejected=rejected)
        view = _verdict(correction).view
        self._checked = {view: self.linker.encode([view])[0]}
        return correction

    def _resolved(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        found = [self.kb.resolve(id_) for id_ in ids]
        if None in found:
            unknown = ids[found.index(None)]
            raise KrisselError(
                Errors.K682.format(
                    what=f"'{unknown[:80]}'", problem="is no id of the knowledge base"
                )
            )
        return tuple(dict.fromkeys(map(str, found)))

    def add(self, correction: Correction) -> None:
        """Activate a correction. A second call does nothing."""
        self._add([correction])

    def remove(self, id_: str) -> None:
        """Undo a correction: links are as if it had never existed. An inactive one changes
        nothing."""
        if id_ not in self._in_force:
            return
        row = self._in_force.pop(id_)
        if row >= 0:
            self.kb.remove_verdicts(rows=[row])

    def follow(
        self, corrections: Sequence[Correction], *, is_first: bool = True, is_last: bool = True
    ) -> None:
        """Activate these corrections and no others, oldest first. They may be passed in parts.

        Warns KW682 of those ignored because the knowledge base does not contain their entities;
        KW684 if the file of vectors cannot be read or written.
        """
        if is_first:
            self._in_force = {}
            width = self._base.entity_vector_length
            self._cache = VectorCache.read(self._vectors_path, self.linker.fingerprint(), width)
            self.linker.set_kb(self._base.branch())
        self._add(corrections)
        if is_last:
            self._cache.write()
            self._cache = VectorCache()

    def entity(self, id_: str) -> dict[str, Any]:
        """Return an entity of the knowledge base, with the address of its page as "url". "parents"
        have an "id" and a "name", "" for one that is not in the knowledge base; so has "path", from
        the root to the first parent. Raises KrisselError K525."""
        entity = self.kb[id_]
        parents = [self._named(each) for each in entity.parents]
        return {
            **asdict(entity),
            "parents": parents,
            "path": self._path(entity),
            "url": entity_url(entity.id),
        }

    def search(self, text: str, k: int = DEFAULT_FOUND) -> list[dict[str, Any]]:
        """Return entities with a similar name, best first; an entity with that id comes first.
        "id", "name", "types", and "alias", the similar name, "" for an id."""
        k = min(max(k, 1), MAX_FOUND)
        found = {entity.id: entity for entity in self.kb.find(text, k)}
        forms = dict(zip(found, self.kb.similar_forms(text, [*found]), strict=True))
        # A mention that was corrected to an entity is found as its name is.
        rows, _ = self.kb.verdicts.alike(np.array([form_key(text)]))
        said = {self.kb.entity_ids[row] for row in self.kb.verdicts.right.take(rows)[0].tolist()}
        found |= {id_: self.kb[id_] for id_ in sorted(said) if id_ not in found}
        return [
            {
                "id": entity.id,
                "name": entity.name,
                "types": [*entity.types],
                "alias": text if entity.id in said else forms[entity.id],
            }
            for entity in found.values()
        ][:k]

    def _named(self, id_: str) -> dict[str, str]:
        known = self.kb.resolve(id_)
        return {"id": known or id_, "name": self.kb[known].name if known else ""}

    def _path(self, entity: Entity) -> list[dict[str, str]]:
        """Return the chain of first parents, from the root."""
        path: list[dict[str, str]] = []
        # An ontology may contain a cycle.
        seen, parents = {entity.id}, entity.parents
        while parents and len(path) < MAX_PATH:
            above = self._named(parents[0])
            if above["id"] in seen:
                break
            seen.add(above["id"])
            path.insert(0, above)
            parents = self.kb[above["id"]].parents if above["id"] in self.kb else ()
        return path

    def _linked(self, documents: Sequence[Document]) -> list[list[_Layer]]:
        """Return the linked layers of each document. Raises as `link` does."""
        self.bounds.check(mentions=sum(len(document.mentions or ()) for document in documents))
        layers = [self._layers(document, number) for number, document in enumerate(documents)]
        docs: dict[bool, list[Doc]] = {False: [], True: []}
        for document, own in zip(documents, layers, strict=True):
            docs[document.mentions is not None] += [each.doc for each in own]
        names, key = self.nlp.component_names, self.linker.cfg["spans_key"]
        first, last = names[: names.index(self._name)], names[names.index(self._name) :]
        for is_given, disabled in ((False, last), (True, [*last, *self._setters])):
            list(self.nlp.pipe(docs[is_given], disable=disabled))
        # The cost is mostly per mention.
        self.bounds.check(
            mentions=sum(len(doc.spans.get(key, ()) if key else doc.ents) for doc in docs[False])
        )
        for is_given, disabled in ((False, first), (True, [*first, *self._setters])):
            list(self.nlp.pipe(docs[is_given], disable=disabled))
        return layers

    def _layers(self, document: Document, number: int) -> list[_Layer]:
        """Tokenize the document, once per set of its mentions that do not overlap.

        Raises KrisselError K682.
        """
        text, mentions, key = document.text, document.mentions, self.linker.cfg["spans_key"]
        problem, layers, limit = (
            None,
            [_Layer()],
            max(2, min(MAX_LAYERS, MAX_COPIED // (len(text) or 1))),
        )
        if len(text) > self.nlp.max_length:
            problem = (
                f"has {len(text):,} characters, and the pipeline allows {self.nlp.max_length:,}"
            )
        elif mentions is None:
            if not self._setters:
                problem = "has no `mentions`, and no component of the pipeline finds any"
        elif any(not 0 <= mention.start < mention.end <= len(text) for mention in mentions):
            problem = "has a mention outside its text"
        elif any(not text[mention.start : mention.end].strip() for mention in mentions):
            problem = "has a mention of white space only"
        else:
            layers = _layers_of(text, mentions, may_overlap=bool(key))
            if len(layers) > limit:
                problem = (
                    f"has {len(layers):,} mentions of the same words; at its length {limit:,} are "
                    "allowed"
                )
        if problem is not None:
            what = f"Document {number}" + (f" ('{document.id[:40]}')" if document.id else "")
            raise KrisselError(Errors.K682.format(what=what, problem=problem))
        for layer in layers:
            doc = layer.doc = tokenized(self.nlp, text)
            doc.user_data[ID_KEY] = document.id
            if mentions is not None:
                split_at(doc, (offset for start, end in layer.offsets for offset in (start, end)))
                spans = (
                    doc.char_span(*offsets, mention.label)
                    for offsets, mention in zip(layer.offsets, layer.mentions, strict=True)
                )
                set_spans(doc, [span for span in spans if span is not None], key)
        return layers

    def _document_dict(self, document: Document, layers: Sequence[_Layer]) -> dict[str, Any]:
        """Return a document as in the answer."""
        key = self.linker.cfg["spans_key"]
        found = [mention_dicts(layer.doc, key) for layer in layers]
        if document.mentions is None:
            return {"id": document.id, "mentions": found[0]}
        links: dict[Mention, dict[str, Any]] = {}
        for layer, each in zip(layers, found, strict=True):
            links |= zip(layer.mentions, each, strict=True)
        # With the requested offsets, which may include white space.
        mentions = [
            {
                **links[each],
                "start": each.start,
                "end": each.end,
                "text": document.text[each.start : each.end],
            }
            for each in sorted(document.mentions)
        ]
        return {"id": document.id, "mentions": mentions}

    def _followed(self, id_: str) -> str | None:
        """Return the id that replaces another one, or is spelt differently; None if there is no
        one such entity."""
        entities = self._base.entities
        row = entities.resolve_replaced(id_)
        return None if row is None else entities.ids[row]

    def _add(self, corrections: Sequence[Correction]) -> None:
        new = {each.id: each for each in corrections if each.id not in self._in_force}
        if not new:
            return
        wanted = [*dict.fromkeys(id_ for each in new.values() for id_ in _ids(each))]
        rows = dict(zip(wanted, self._base.entities.rows(wanted).tolist(), strict=True))
        # Replaced ids and spellings are resolved.
        resolved = {id_: id_ if row >= 0 else self._followed(id_) for id_, row in rows.items()}
        known = {
            key: replace(
                each,
                right=tuple(resolved[id_] or "" for id_ in each.right),
                rejected=tuple(resolved[id_] or "" for id_ in each.rejected),
            )
            for key, each in new.items()
            if all(resolved[id_] is not None for id_ in _ids(each))
        }
        verdicts = [*map(_verdict, known.values())]
        at = dict.fromkeys(new, -1)
        if verdicts:
            vectors = self._encode([verdict.view for verdict in verdicts])
            at |= zip(known, self.kb.add_verdicts(verdicts, vectors).tolist(), strict=True)
        # After it counts, since others ask which are in force.
        self._in_force |= at
        if unknown := [id_ for id_, found in resolved.items() if found is None][:1]:
            n_unknown = len(new) - len(known)
            message = Warnings.KW682.format(n=n_unknown, total=len(new), first=unknown[0][:80])
            warnings.warn(message, KrisselWarning, stacklevel=3)

    def _encode(self, views: list[View]) -> np.ndarray:
        """Return the vectors of mentions of corrections (n, d)."""
        return self._cache.vectors(views, self._encode_new)

    def _encode_new(self, views: list[View]) -> np.ndarray:
        if all(view in self._checked for view in views):
            return np.stack([self._checked[view] for view in views])
        return self.linker.encode(views)


def _ids(correction: Correction) -> tuple[str, ...]:
    return correction.right + correction.rejected


def _verdict(correction: Correction) -> Verdict:
    """Return the correction as a verdict, as `krissel correct` adds it."""
    text, start, end = correction.text, correction.start, correction.end
    return Verdict(
        mention_view(text, start, end, MINED_CHARS),
        correction.right,
        correction.rejected,
        not _ids(correction),
        correction.same_document,
        Origin(SOURCE, correction.doc, start, end, hash_of(text)),
    )


def _decide(doc: Doc, spans_key: str, min_confidence: float) -> None:
    """Link each mention of a doc to its best candidate, if that has the confidence."""
    spans = spans_of(doc, spans_key)
    links: list[SpanLink | None] = []
    for span in spans:
        best = next(iter(span._.krissel_candidates), None)
        id_ = best["id"] if best and best["confidence"] >= min_confidence else NIL
        link = SpanLink(id_, span._.krissel_candidates, span._.krissel_ties)
        links.append(None if id_ == span.kb_id_ else link)
    write_links(doc, spans, links, spans_key=spans_key)


def _layers_of(text: str, mentions: Iterable[Mention], *, may_overlap: bool) -> list[_Layer]:
    """Divide the distinct mentions, in the order of their text, into as many layers as there are
    mentions of the same words.

    may_overlap: mentions may overlap within a layer, unless they cover the same words.
    """
    placed = []
    for mention in set(mentions):
        covered = text[mention.start : mention.end]
        start = mention.start + len(covered) - len(covered.lstrip())
        placed.append(((start, start + len(covered.strip())), mention))
    layers = [_Layer()]
    # Layers whose last mention has not ended, by its end; and the other layers, by index.
    taken: list[tuple[int, int]] = []
    free = [0]
    before = (-1, -1)
    for offsets, mention in sorted(placed):
        while taken and (offsets != before if may_overlap else taken[0][0] <= offsets[0]):
            heappush(free, heappop(taken)[1])
        if not free:
            free = [len(layers)]
            layers.append(_Layer())
        number = heappop(free)
        heappush(taken, (offsets[1], number))
        layers[number].offsets.append(offsets)
        layers[number].mentions.append(mention)
        before = offsets
    return layers

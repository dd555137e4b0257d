"""`krissel_finder`: find mentions of a knowledge base's entities by their names."""

import tempfile
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..finding.common import bundled_general_words
from ..finding.finder import Match, NameFinder
from ..finding.learning import names_to_add, names_to_leave_out
from ..finding.table import BLOCK_NAMES, NameBags
from ..kb.directory import pack, unpack
from ..kb.prototype_kb import PrototypeKB
from ..lexical.ngrams import canonical_form
from ..mentions.annotations import FOUND
from ..mentions.discontinuous import FRAGMENTS_ATTR
from ..mentions.gold_mentions import gold_spans, split_gold
from ..util.atomic import remove_folder
from ..util.disk import coded_io
from ..util.lock import Lock, WeakReference
from ..util.settings import Settings
from ..views import View, doc_texts
from .pipe import KrisselPipe
from .settings import FINDER, LINKER, FinderSettings

# Folder of the names in the pipe's own.
NAMES = "names"
# File of the words that are too general to be a name, if they are not those that ship.
GENERAL = "general.json"
WORST = {"none": "name", "spelling": "spelling", "words": "word"}
# Variants by which a mention of another component is not read: its own words tell more. On NCBI
# Disease's training split, one such link was better and two were worse.
UNSURE = ("word",)
# Mentions of corrections that a warning shows.
MAX_LOST = 5


class KrisselFinder(KrisselPipe):
    """Find mentions by the names of a knowledge base, without labels and without a NER model.

    Each found span says what it is a name of, in `span._.krissel_found`: "text", the words of the
    mention; "name", as in the knowledge base; "ids", of the entities that have it; "variant", how
    the text gives it (`finding.finder.Variant`); in a coordination also "fragments", the offsets in
    characters of the parts of the mention. `krissel_linker` chooses among these entities.
    Entities that another component set stay. Made by the factory `krissel_finder`.
    """

    cfg: FinderSettings
    optional_files = (GENERAL,)

    def __init__(
        self,
        vocab: Vocab,
        name: str = FINDER,
        *,
        settings: Settings,
        nlp: Language | None = None,
        linker: str = LINKER,
    ) -> None:
        """
        nlp: the pipeline with the linker, referenced weakly.
        linker: name of the linker whose knowledge base has the names, unless `set_names` or
            `read_names` gave others.
        """
        model: Model[Any, Any] = Model("krissel_finder", _unchanged)
        super().__init__(vocab, model, name, objective=None, settings=settings)
        self.linker_name = linker
        self._nlp = None if nlp is None else WeakReference(nlp)
        self._names: NameBags | None = None
        self._lock = Lock()
        self._finder: tuple[Any, NameFinder] | None = None
        self._general: frozenset[str] | None = None
        # Primary ids of those in `added_names`.
        self._primary: dict[str, str] = {}

    @property
    def is_trainable(self) -> bool:
        return False

    # Names ----------------------------------------------------------------------------------------

    def set_names(self, names: Iterable[tuple[str, str]]) -> None:
        """Find these names from now on: pairs of a name and the id of its entity."""
        rows: dict[str, int] = {}
        pairs = [(name, rows.setdefault(id_, len(rows))) for name, id_ in names]
        self._use(NameBags.of(pairs, rows, substitutes=self.cfg.variants == "words"))

    def read_names(self, kb: PrototypeKB) -> None:
        """Find the names of a knowledge base from now on."""
        snapshot = kb.snapshot()
        table, ids = snapshot.prototypes, snapshot.entity_ids

        def names() -> Iterator[tuple[str, int]]:
            rows = table.rows_of_kinds(["name"])
            for start in range(0, len(rows), BLOCK_NAMES):
                block = rows[start : start + BLOCK_NAMES]
                entities = table.entity_rows[block].tolist()
                yield from zip(table.mentions(block), entities, strict=True)

        self._use(NameBags.of(names(), ids, substitutes=self.cfg.variants == "words"))

    def _use(self, names: NameBags | None) -> None:
        with self._lock:
            self._names, self._finder = names, None

    def set_general_words(self, words: Iterable[str]) -> None:
        """Replace the words that are too general to be a name by themselves: stems, as
        `finding.common.general_words` returns them."""
        with self._lock:
            self._general, self._finder = frozenset(words), None

    def names(self) -> NameBags:
        """Return the table of names; if there is none, make it of the linker's knowledge base.

        Raises KrisselError K606 if there is no such linker, or no name.
        """
        with self._lock:
            if self._names is None:
                nlp = None if self._nlp is None else self._nlp()
                if nlp is None or self.linker_name not in nlp.component_names:
                    problem = f"the pipeline has no component '{self.linker_name}'"
                    raise KrisselError(Errors.K606.format(name=self.name, problem=problem))
                linker: Any = nlp.get_pipe(self.linker_name)
                kb = linker.kb
                kb.check_filled()
                self.read_names(kb)
                if not self._names:
                    self._names = None
                    problem = f"'{self.linker_name}' has none, as with `--mentions-only`"
                    raise KrisselError(Errors.K606.format(name=self.name, problem=problem))
            assert self._names is not None
            return self._names

    def finder(self) -> NameFinder:
        """Return what finds the names with the current settings.

        Raises KrisselError K006 (`nested` without `spans_key`), K525 (the linker's knowledge base
        lacks an entity of `added_names`), K606 (no names).
        """
        names, cfg = self.names(), self.cfg
        if cfg.nested and not cfg.spans_key:
            raise wrong_setting("nested", True, "false, or a `spans_key`: `doc.ents` never overlap")
        general = self._general if self._general is not None else bundled_general_words()
        general = frozenset() if cfg.general_names else general
        key = (
            names,
            cfg.variants,
            cfg.nested,
            cfg.use_abbreviations,
            cfg.lone_acronyms,
            cfg.general_names,
            tuple(cfg.stop_names),
            tuple(cfg.added_names.items()),
        )
        with self._lock:
            if self._finder is None or self._finder[0] != key:
                self._check_linker()
                added = None
                if cfg.added_names:
                    own = {
                        name: self._primary.get(id_, id_) for name, id_ in cfg.added_names.items()
                    }
                    ids = {id_: row for row, id_ in enumerate(dict.fromkeys(own.values()))}
                    pairs = ((name, ids[id_]) for name, id_ in own.items())
                    added = NameBags.of(pairs, ids, substitutes=False)
                self._finder = (
                    key,
                    NameFinder(
                        names,
                        added=added,
                        worst=WORST[cfg.variants],  # type: ignore[arg-type]
                        common=general,
                        stopped=cfg.stop_names,
                        nested=cfg.nested,
                        use_abbreviations=cfg.use_abbreviations,
                        lone_acronyms=cfg.lone_acronyms,
                    ),
                )
            return self._finder[1]

    def _check_linker(self) -> None:
        """Look up the primary ids of `added_names`. Warn (KW627) if the linker comes first. Raise
        KrisselError K525 if its knowledge base lacks entities of `added_names`."""
        nlp = None if self._nlp is None else self._nlp()
        order = [] if nlp is None else nlp.component_names
        if nlp is None or self.linker_name not in order or self.name not in order:
            return
        if order.index(self.linker_name) < order.index(self.name):
            message = Warnings.KW627.format(name=self.name, linker=self.linker_name)
            warnings.warn(message, KrisselWarning, stacklevel=2)
        linker: Any = nlp.get_pipe(self.linker_name)
        entities = linker.kb.snapshot().entities
        rows = {id_: entities.resolve(id_) for id_ in self.cfg.added_names.values()}
        unknown = [id_ for id_, row in rows.items() if row is None]
        if unknown and len(entities):
            raise entities.unknown("ids of `added_names`", unknown)
        self._primary = {id_: entities.ids[row] for id_, row in rows.items() if row is not None}

    def __reduce__(self) -> Any:
        # A copy in another process has no pipeline to take names from.
        with suppress(KrisselError):
            self.names()
            self._check_linker()
        return super().__reduce__()

    def learn(self, docs: Iterable[Doc], kb: PrototypeKB) -> dict[str, int]:
        """Learn from docs in which all mentions are annotated. Names of gold mentions that are not
        found as their entity go to `added_names`, and found names of which few mentions are gold to
        `stop_names`. Names that are in either setting already stay there.

        kb: the linker's, which has the entities. Gold mentions without an id, or with one that it
            lacks, do not count.
        RETURNS: the numbers of `docs`, of gold `mentions`, and of names `added` and `left_out`.
        Raises KrisselError K621 if no gold mention counts, and those of `finder`.
        """
        docs = list(docs)
        texts, gold = doc_texts(docs), [_annotated(doc, kb) for doc in docs]
        n_mentions = sum(map(len, gold))
        if not n_mentions:
            raise KrisselError(Errors.K621.format(name=self.name, n_docs=len(docs)))
        cfg = self.cfg
        given = {*map(canonical_form, chain(cfg.stop_names, cfg.added_names))}
        earlier = cfg.added_names
        added = {
            name: id_
            for name, id_ in names_to_add(texts, self.finder().find(texts), gold).items()
            if canonical_form(name) not in given
        }
        cfg.added_names = {**earlier, **added}
        left_out = [
            name
            for name in names_to_leave_out(self.finder().find(texts), gold)
            if canonical_form(name) not in given
        ]
        forms = {*map(canonical_form, left_out)}
        added = {name: id_ for name, id_ in added.items() if canonical_form(name) not in forms}
        cfg.added_names = {**earlier, **added}
        cfg.stop_names = [*cfg.stop_names, *left_out]
        numbers = {"docs": len(docs), "mentions": n_mentions}
        return {**numbers, "added": len(added), "left_out": len(left_out)}

    # Finding --------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[list[Match]]:
        """Return the mentions of every doc, without writing any."""
        docs = list(docs)
        return self.finder().find(doc_texts(docs)) if docs else []

    def set_annotations(self, docs: Iterable[Doc], found: Sequence[Sequence[Match]]) -> None:
        for doc, matches in zip(docs, found, strict=True):
            # Docs of white space stay unchanged.
            if matches or any(not token.is_space for token in doc):
                self._write(doc, matches)

    def describe(self, docs: Sequence[Doc], mentions: Sequence[Sequence[Span]]) -> None:
        """Set `krissel_found` of those given mentions of each doc that would be found."""
        for doc, matches, spans in zip(docs, self.predict(docs), mentions, strict=True):
            tokens = _tokens_at(doc)[0]
            said: dict[tuple[int, int], Match] = {}
            for match in sorted(matches, key=lambda match: match.apart is not None):
                said.setdefault(tokens(*(match.apart or match.fragments[0])), match)
            for span in spans:
                if (span.start, span.end) in said:
                    span._.set(FOUND, _said(said[span.start, span.end]))

    def _write(self, doc: Doc, matches: Sequence[Match]) -> None:
        key = self.cfg.spans_key
        tokens, first, last = _tokens_at(doc)
        if key:
            self._write_group(doc, matches, tokens)
            return
        taken = {(ent.start, ent.end) for ent in doc.ents}
        ents = list(doc.ents)
        data: dict[Any, Any] = doc.user_data
        free = [True] * len(doc)
        for start, end in taken:
            free[start:end] = [False] * (end - start)
        label = doc.vocab.strings.add(self.cfg.label)
        # Whole names first: a part of a coordination shares words with one.
        for match in sorted(matches, key=lambda match: match.apart is not None):
            start, end = tokens(*(match.apart or match.fragments[0]))
            if all(free[start:end]):
                free[start:end] = [False] * (end - start)
                ents.append(Span(doc, start, end, label=label))
                data["._.", FOUND, first[start], last[end - 1]] = _said(match)
            elif (start, end) in taken and match.variant not in UNSURE:
                # Another finder may have found it, for another linker.
                data.setdefault(("._.", FOUND, first[start], last[end - 1]), _said(match))
        if len(ents) > len(taken) or not doc.has_annotation("ENT_IOB"):
            doc.ents = ents

    def _write_group(
        self, doc: Doc, matches: Sequence[Match], tokens: Callable[[int, int], tuple[int, int]]
    ) -> None:
        key = self.cfg.spans_key
        data: dict[Any, Any] = doc.user_data
        label = doc.vocab.strings.add(self.cfg.label)
        for span in doc.spans.get(key, ()):
            data.pop(("._.", FOUND, span.start_char, span.end_char), None)
        spans: list[Span] = []
        for number, match in enumerate(matches, 1):
            for fragment in match.fragments:
                span = Span(doc, *tokens(*fragment), label=label)
                if match.apart is not None:
                    span.id_ = str(number)
                spans.append(span)
                # Only the part that stands apart tells of the whole name: what it shares may be one
                # by itself, or part of others.
                if fragment == (match.apart or fragment):
                    data["._.", FOUND, span.start_char, span.end_char] = _said(match)
        spans.sort(key=lambda span: (span.start, span.end))
        split = any(match.apart is not None for match in matches)
        attrs = {FRAGMENTS_ATTR: True} if split else {}
        doc.spans[key] = SpanGroup(doc, name=key, attrs=attrs, spans=spans)

    def score(self, examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
        return {}

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Do nothing: it is not trained."""

    # Serialisation --------------------------------------------------------------------------------

    def _files(self) -> dict[str, Callable[[], bytes]]:
        general = self._general
        more = (
            {} if general is None else {GENERAL: lambda: srsly.json_dumps(sorted(general)).encode()}
        )
        return {"cfg": self._changed_settings, **more}

    def _readers(self) -> dict[str, Callable[[bytes], Any]]:
        return {"cfg": self._restore_settings, GENERAL: self._read_general}

    def _read_general(self, data: bytes) -> None:
        self._general = frozenset(srsly.json_loads(data)) if data else None

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        path = util.ensure_path(path)
        self._write_files(path, exclude)
        if NAMES in exclude:
            return
        with coded_io(path):
            if self._names is not None:
                self._names.to_disk(path / NAMES)
            elif (path / NAMES).exists():
                # Of an earlier pipe.
                remove_folder(path / NAMES)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "KrisselFinder":
        path = util.ensure_path(path)
        self._read_files(path, exclude)
        if NAMES not in exclude:
            with self._coded(path):
                has_names = (path / NAMES).exists()
                self._use(NameBags.from_disk(path / NAMES) if has_names else None)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        data: bytes = util.to_bytes({**self._files(), NAMES: self._packed_names}, exclude)
        return data

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KrisselFinder":
        self._read_bytes(bytes_data, {NAMES: self._unpack_names}, exclude)
        return self

    def _packed_names(self) -> bytes:
        if self._names is None:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            self._names.to_disk(Path(folder) / NAMES)
            return pack(Path(folder) / NAMES)

    def _unpack_names(self, data: bytes) -> None:
        if not data:
            return self._use(None)
        # Mapped files outlive their names, as in `PrototypeKB.from_bytes`.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            unpack(data, Path(folder) / NAMES)
            return self._use(NameBags.from_disk(Path(folder) / NAMES))


def _unchanged(model: Model[Any, Any], docs: Any, is_train: bool) -> tuple[Any, Any]:
    return docs, lambda d_docs: d_docs


def _annotated(doc: Doc, kb: PrototypeKB) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return the ids of each gold mention that has known ones, by its start and end."""
    gold: dict[tuple[int, int], tuple[str, ...]] = {}
    for span in gold_spans(doc):
        ids = tuple(id_ for id_ in split_gold(span.kb_id_, kb) if kb.resolve(id_) is not None)
        if ids:
            gold[span.start_char, span.end_char] = ids
    return gold


def _tokens_at(doc: Doc) -> tuple[Callable[[int, int], tuple[int, int]], list[int], list[int]]:
    """Return the function from offsets in characters to those of the tokens that they touch, and
    the first and last offsets of all tokens."""
    starts, lengths = doc.to_array(["IDX", "LENGTH"]).astype(np.int64).T
    first, last = starts.tolist(), (starts + lengths).tolist()
    return lambda start, end: (bisect_right(last, start), bisect_left(first, end)), first, last


def _said(match: Match) -> dict[str, Any]:
    named = match.named
    said: dict[str, Any] = {
        "text": match.text,
        "name": named.name,
        "ids": list(named.ids),
        "variant": match.variant,
    }
    if len(match.fragments) > 1:
        said["fragments"] = [list(fragment) for fragment in match.fragments]
    return said


def found_views(finders: Sequence[NameFinder], views: Sequence[View]) -> set[View]:
    """Return the views whose mention any of the finders finds."""
    texts = [view.left + view.mention + view.right for view in views]
    return {
        view
        for finder in finders
        for view, matches in zip(views, finder.find(texts), strict=True)
        if any(
            (len(view.left), len(view.left) + len(view.mention)) in (each.apart, *each.fragments)
            for each in matches
        )
    }


def warn_not_found(lost: Mapping[str, str], n: int, total: int) -> None:
    """Warn KW629 of n corrections whose mentions no finder finds, if n > 0. lost: their ids, by
    mention."""
    if n:
        shown = ", ".join(f"'{name}' ({id_})" for name, id_ in islice(lost.items(), MAX_LOST))
        message = Warnings.KW629.format(n=n, total=total, names=shown)
        warnings.warn(message, KrisselWarning, stacklevel=3)

"""Ids of names in bulk, for programs that build graphs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..errors import wrong_setting
from ..kb.search_result import MATCHES
from ..kb.verdicts import form_key
from ..lexical.groups import distinct
from ..mentions.annotations import NIL, set_spans, spans_of
from ..mentions.species import taxon_numbers
from ..mentions.token_edges import split_at
from ..util.settings import PositiveInt, checked
from .linker.bare import BareLinks, BareNames, NameIn
from .linker.component import KrisselLinker
from .linker.confidence import Confidence
from .pipe import link_writers
from .pipeline_io import find_linker, mention_setters, within_max_length
from .settings import LINKER

# Label of the mentions: spaCy requires one.
LABEL = "MENTION"
# Names that may be abbreviations which their context defines: a word with an upper-case letter
# after its first letter, or one short word. With all others, no link of 4,140 mentions of the
# training splits of NCBI Disease and BC5CDR that are a name of one entity depends on the context.
_MAY_BE_SHORT = re.compile(r"\w[^\W\d_a-zß-ÿ]|^\w{1,4}$")

_WORD = re.compile(r"\w")


class Grounding(NamedTuple):
    """Entity of a name.

    id: "NIL" without an entity.
    name: the preferred name, or "".
    confidence: the probability that the entity is correct; None without an entity, or if the linker
        has no `confidence`.
    match: how the name was found, as in candidates ("label", "synonym", …), or "".
    """

    id: str
    name: str = ""
    confidence: float | None = None
    match: str = ""


NOTHING = Grounding(NIL)


@checked
def ground(
    nlp: Language,
    names: Iterable[str],
    contexts: Iterable[str] | None = None,
    *,
    linker: str = LINKER,
    batch_size: PositiveInt = 2_048,
) -> list[Grounding]:
    """Return the entity of each name, as the pipeline links a mention with this text.

    names: Names of entities, which may be repeated
    contexts: A text per name, "" for none, with the name or about it; None: no contexts
    linker: Name of the linker in the pipeline
    batch_size: Number of names that are linked together

    If the knowledge base has names only, and the encoder is a small one, a name of one entity is
    looked up, which takes a tenth of the time; its link does not depend on the context, unless it
    may be an abbreviation that the context defines. All others are linked. Equal pairs of a name
    and a context are linked once.

    Raises KrisselError K006 (another number of contexts), K610 (no linker), K520 (no knowledge
    base). Warns KW620 of texts that are too long for the pipeline, whose names get no entity.
    """
    names = [*names]
    texts = [""] * len(names) if contexts is None else [*contexts]
    if len(texts) != len(names):
        raise wrong_setting(
            "contexts", f"{len(texts)} texts", f"one for each of {len(names)} names"
        )
    pairs, of_name = distinct([*zip(names, texts, strict=True)])
    pipe = find_linker(nlp, linker)
    pipe.kb.check_filled()
    if linker not in nlp.pipe_names:
        nlp.enable_pipe(linker)
    known, link = _UniqueNames(nlp, pipe), _Linked(nlp, pipe)
    found: list[Grounding | None] = []
    asked: list[int] = []
    for start in range(0, len(pairs), batch_size):
        found += known(pairs[start : start + batch_size])
        asked += [row for row in range(start, len(found)) if found[row] is None]
        while len(asked) >= batch_size or (asked and len(found) == len(pairs)):
            part, asked = asked[:batch_size], asked[batch_size:]
            for row, each in zip(part, link([pairs[row] for row in part]), strict=True):
                found[row] = each
    return [found[row] or NOTHING for row in of_name.tolist()]


def in_context(name: str, context: str) -> tuple[str, int]:
    """Return a text with the name in its context, and the offset of the name: its first
    occurrence there as whole words, in any case, else in front of the context."""
    name = name.strip()
    at = _occurrence(name, context)
    if at >= 0:
        return context, at
    return (f"{name}\n{context}" if context.strip() else name), 0


def _occurrence(name: str, context: str) -> int:
    """Return the offset of the first occurrence of a name as whole words in any case, -1 for
    none."""
    if not (name.isascii() and context.isascii()):
        match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", context, re.IGNORECASE)
        return match.start() if match is not None and len(match[0]) == len(name) else -1
    # The pattern would be compiled for each name.
    wanted, text = name.lower(), context.lower()
    at = text.find(wanted)
    while at >= 0 and any(map(_WORD.match, (text[at - 1 : at], text[at + len(name) :][:1]))):
        at = text.find(wanted, at + 1)
    return at


class _Linked:
    """Entities of names in their contexts, as the pipeline links them."""

    def __init__(self, nlp: Language, pipe: KrisselLinker) -> None:
        self._nlp, self._pipe = nlp, pipe
        self._bare = BareNames(nlp, pipe, LABEL, mention_setters(nlp))

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Grounding]:
        """Return the entity of each name in its context."""
        found = [NOTHING] * len(pairs)
        named = [
            (row, name.strip(), *in_context(name, context))
            for row, (name, context) in enumerate(pairs)
            if name.strip()
        ]
        kept = within_max_length(self._nlp, named, lambda each: (each[2], each[1][:40]))
        names = {row: NameIn(text, start, start + len(name)) for row, name, text, start in kept}
        if not names:
            return found
        in_docs = [*names]
        if self._bare.is_possible:
            links = self._bare([*names.values()])
            found_bare = zip(names, _groundings(links), links.unsure.tolist(), strict=True)
            in_docs = []
            for row, each, is_unsure in found_bare:
                found[row] = each
                if is_unsure:
                    in_docs.append(row)
        others = linked_in_docs(self._nlp, self._pipe, [names[row] for row in in_docs])
        for row, each in zip(in_docs, others, strict=True):
            found[row] = each
        return found


def _groundings(links: BareLinks) -> list[Grounding]:
    result, rows = links.result, np.flatnonzero(links.linked)
    found = [NOTHING] * len(links.linked)
    confidence, match = (
        [missing] * len(rows) if values is None else values[rows, 0].tolist()
        for values, missing in ((result.confidence, None), (result.match, -1))
    )
    entities, of_row = np.unique(result.entities[rows, 0], return_inverse=True)
    shown = [*zip(*links.kb.entities.display_fields(entities), strict=True)]
    for row, entity, sure, code in zip(
        rows.tolist(), of_row.tolist(), confidence, match, strict=True
    ):
        id_, name = shown[entity]
        found[row] = Grounding(id_, name, sure, MATCHES[code] if code >= 0 else "")
    return found


def linked_in_docs(nlp: Language, pipe: KrisselLinker, names: Sequence[NameIn]) -> list[Grounding]:
    """Return the entity of each name, as the pipeline links it in a doc."""
    key = pipe.cfg.spans_key

    def docs() -> Iterator[Doc]:
        for text, start, end in names:
            doc = nlp.make_doc(text)
            split_at(doc, (start, end))
            # The tokens were split there, so that there is a span.
            set_spans(doc, [span for span in [doc.char_span(start, end, label=LABEL)] if span], key)
            yield doc

    if not names:
        return []
    with nlp.select_pipes(disable=mention_setters(nlp)):
        return [
            _grounding(spans_of(doc, key)[0]) for doc in nlp.pipe(docs(), batch_size=len(names))
        ]


def _grounding(span: Span) -> Grounding:
    best = next((each for each in span._.krissel_candidates if each["id"] == span.kb_id_), None)
    if best is None:
        return NOTHING
    return Grounding(best["id"], best["name"], best.get("confidence"), best.get("match", ""))


class _UniqueNames:
    """Names of one entity only, which are looked up if nothing else counts for their link."""

    def __init__(self, nlp: Language, pipe: KrisselLinker) -> None:
        self._kb, cfg = pipe.kb.snapshot(), pipe.cfg
        self._index = self._kb.prototypes.lexical_index
        types = cfg.types_by_label.get(LABEL, cfg.types)
        self._allowed = self._kb.entity_mask(types) if types else None
        self._by_spelling = cfg.spelling_weight > 0
        model = Confidence.of(cfg.confidence)
        self._confidence = 0.0 if model is None else model.of_unique_name()
        self._is_sure = (
            model is not None
            and cfg.lexical_weight > 0
            and cfg.threshold is None
            and LABEL not in cfg.nil_share_by_label
            and self._confidence >= cfg.min_confidence
            and not pipe.terms
            and pipe.searches_names(self._kb)
            and not self._kb.has_gold
            and taxon_numbers(self._kb.species) is None
            and link_writers(nlp)[-1:] == [pipe.name]
        )

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Grounding | None]:
        """Return the entity of each name in its context; None for those that have to be linked."""
        found: list[Grounding | None] = [None] * len(pairs)
        if not self._is_sure:
            return found
        texts = self._index.read([name for name, _ in pairs], with_vectors=False)
        entities = self._only(self._index.named(texts.forms), len(pairs))
        if self._by_spelling:
            spelt = self._index.entities_with_spellings(texts.spellings)
            entities[self._only(spelt.take(np.arange(len(pairs))), len(pairs)) != entities] = -1
        entities[texts.lower | (texts.written != 0) | self._depends(pairs)] = -1
        rows = np.flatnonzero(entities >= 0)
        entities = entities[rows]
        is_label = self._kb.entities.label_hashes(entities) == texts.hashes[rows]
        ids, names = self._kb.entities.display_fields(entities)
        for row, id_, name, label in zip(rows.tolist(), ids, names, is_label.tolist(), strict=True):
            found[row] = Grounding(id_, name, self._confidence, "label" if label else "synonym")
        return found

    def _only(self, named: tuple[np.ndarray, np.ndarray], n: int) -> np.ndarray:
        """Return the allowed entity of each of n names, -1 for none or several.

        named: entities (m,), and the index of the name of each (m,).
        """
        entities, owners = named
        if self._allowed is not None:
            entities, owners = entities[self._allowed[entities]], owners[self._allowed[entities]]
        found = np.full(n, -1)
        found[owners] = entities
        found[np.bincount(owners, minlength=n) > 1] = -1
        return found

    def _depends(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return which names depend on their context, or on corrections of earlier links (n,)."""
        depends = np.array(
            [bool(text) and _MAY_BE_SHORT.search(name) is not None for name, text in pairs]
        )
        if len(self._kb.verdicts):
            keys = np.array([form_key(name) for name, _ in pairs])
            order = np.argsort(keys)
            _, owners = self._kb.verdicts.alike(keys[order])
            depends[order[owners]] = True
        return depends

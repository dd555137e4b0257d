"""Views: the short texts that represent an entity or a mention, and their conversion to encoder
input.

Only this module cuts views from text. Encoders convert `View`s to their own features; word-piece
encoders use `piece_window`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from spacy.tokens import Doc, Span

# Characters per word piece, more than in nearly any text, so that long texts fill a window.
PIECE_CHARS = 8
# Context on each side of a mention: a window of 128 word pieces, all on one side.
CONTEXT_CHARS = 128 * PIECE_CHARS
# Context kept of mined mentions, which may be millions: about 50 word pieces on each side.
MINED_CHARS = 256
# More tree numbers add little information, and would push the names out of a window of word pieces.
MAX_TREE_NUMBERS = 3
# Separator of the parts of a reference, which no part contains.
PART_SEPARATOR = "\n"
# The last white-space character of Unicode.
LAST_SPACE = 0x3000


class View(NamedTuple):
    """A mention in its context, a bare name (both sides empty), or the reference of an entity.

    left: text before the mention, with its white space; in a reference the parts before the names,
        joined by `PART_SEPARATOR`.
    mention: the surface form; in a reference all names.
    right: text after the mention; in a reference the parts after the names, joined by
        `PART_SEPARATOR`.
    masked: the encoder must not see the surface form (KRISSBERT §3.3, mention masking).
    reference: an entity-centric reference (§3.5), made by `reference_view`.
    co_mentions: sorted offsets of the other mentions of the passage in `left + mention + right`,
        for encoders that mark all mentions of a passage and read it once (BELHD §4.2); made by
        `passage_views`.
    """

    left: str
    mention: str
    right: str
    masked: bool = False
    reference: bool = False
    co_mentions: tuple[tuple[int, int], ...] = ()


class EntityLike(Protocol):
    """Protocol of the source of a reference, such as `ontology.entity.Entity`, which this module
    does not import.
    """

    @property
    def names(self) -> Sequence[str]:
        """Return the names, the preferred one first."""
        ...

    @property
    def types(self) -> Sequence[str]: ...

    @property
    def tree_numbers(self) -> Sequence[str]: ...

    @property
    def definition(self) -> str: ...


class ReferenceParts(NamedTuple):
    """Parts of an entity that its reference includes, in addition to its preferred name.

    title_first: the names come first, as in PEL (appendix A); otherwise tree numbers and types
        precede them, as in KRISSBERT.
    """

    aliases: bool = True
    tree_numbers: bool = True
    types: bool = True
    definition: bool = True
    title_first: bool = False


ALL_PARTS = ReferenceParts()
# `title [SEP] types [SEP] description`
PEL_PARTS = ReferenceParts(aliases=False, tree_numbers=False, title_first=True)


class CandidateView(NamedTuple):
    """A candidate entity as input of a re-ranker.

    names: the preferred name and other names.
    parts: the candidate's reference; a word-piece encoder puts its separator between the parts.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]


def candidate_view(
    entity: EntityLike, *, max_names: int, tree_numbers: bool = True, without: Sequence[str] = ()
) -> CandidateView:
    """Make the view of an entity as a candidate: `name [SEP] aliases [SEP] types [SEP] tree numbers
    [SEP] definition`.

    Missing parts are left out; the first three tree numbers are kept. The order differs from
    `reference_view` because the short window of a candidate is cut at its end, and the names must
    stay.

    max_names: maximum number of names, the preferred one and the first aliases.
    tree_numbers: include tree numbers; PEL has none (appendix B).
    without: names to hide, as preferred name or alias.
    """
    names = tuple(name for name in entity.names if name not in without)[:max_names]
    numbers = "; ".join(entity.tree_numbers[:MAX_TREE_NUMBERS]) if tree_numbers else ""
    parts = (*names[:1], "; ".join(names[1:]), "; ".join(entity.types), numbers)
    return CandidateView(names, tuple(part for part in (*parts, entity.definition) if part))


def name_view(name: str) -> View:
    """Make the view of a name without context."""
    return View("", name, "")


def reference_view(
    entity: EntityLike, parts: ReferenceParts = ALL_PARTS, names: Sequence[str] | None = None
) -> View:
    """Make the entity-centric reference `stn [SEP] type [SEP] aliases [SEP]
    definition` (KRISSBERT §3.5); with `title_first`, `title [SEP] stn [SEP] type [SEP] definition`.

    Excluded and missing parts are left out with their separators. The preferred name stays, as the
    first of the names. Only the encoder's window truncates the names.

    names: the names to include, the preferred one first; None for all names of the entity.
    """
    names = entity.names if names is None else names
    kinds = []
    if parts.tree_numbers and entity.tree_numbers:
        kinds.append(" ".join(entity.tree_numbers[:MAX_TREE_NUMBERS]))
    if parts.types and entity.types:
        kinds.append(", ".join(entity.types))
    definition = [entity.definition] if parts.definition and entity.definition.strip() else []
    before, after = ([], kinds + definition) if parts.title_first else (kinds, definition)
    return View(
        left=PART_SEPARATOR.join(map(_one_line, before)),
        mention=_one_line("; ".join(names if parts.aliases else names[:1])),
        right=PART_SEPARATOR.join(map(_one_line, after)),
        reference=True,
    )


def reference_texts(view: View) -> list[str]:
    """Return the parts of a reference, which `[SEP]` separates."""
    return [
        text
        for text in (
            *view.left.split(PART_SEPARATOR),
            view.mention,
            *view.right.split(PART_SEPARATOR),
        )
        if text
    ]


def mention_view(text: str, start: int, end: int, context_chars: int = CONTEXT_CHARS) -> View:
    """Make the view of `text[start:end]` with up to `context_chars` characters on each side, cut at
    white space.

    A context that would begin or end inside a word loses that partial word.
    """
    first, last = max(0, start - context_chars), end + context_chars
    if first and not text[first - 1].isspace():
        while first < start and not text[first].isspace():
            first += 1
    if last < len(text) and not text[last].isspace():
        while last > end and not text[last - 1].isspace():
            last -= 1
    return View(text[first:start], text[start:end], text[end:last])


def crop_view(view: View, window: int) -> View:
    """Crop the context of a view to the characters that a window of this many word pieces may
    hold."""
    chars = window * PIECE_CHARS
    if max(len(view.left), len(view.right)) <= chars:
        return view
    start, end = len(view.left), len(view.left) + len(view.mention)
    return mention_view(view.left + view.mention + view.right, start, end, chars)._replace(
        masked=view.masked
    )


def view_edges(
    whole: str,
    firsts: "np.ndarray",
    starts: "np.ndarray",
    ends: "np.ndarray",
    context_chars: int = MINED_CHARS,
) -> tuple["np.ndarray", "np.ndarray"]:
    """Find the start and end of the contexts of many mentions, as in `mention_view`.

    whole: the concatenated texts. firsts: the start of each text, and the end of the last,
        (n_texts + 1,).
    starts, ends: of the mentions in `whole`, (n,).

    RETURNS: (n,), (n,): the view of a mention is `whole[edge:start]`, `whole[start:end]`,
        `whole[end:edge]`.
    """
    import numpy as np

    if whole.isascii():
        is_space = _spaces()[np.frombuffer(whole.encode("ascii"), dtype=np.uint8)]
    else:
        codes = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        is_space = _spaces()[np.minimum(codes, LAST_SPACE + 1)]
    spaces = np.append(np.flatnonzero(is_space), len(whole))
    text = np.searchsorted(firsts, starts, side="right") - 1
    first, last = firsts[text], firsts[text + 1]
    left, right = np.maximum(first, starts - context_chars), np.minimum(last, ends + context_chars)
    # A context that begins inside a word starts at the next white space instead, if there is any.
    inside = (left > first) & ~is_space[np.maximum(left, 1) - 1]
    left = np.where(inside, np.minimum(spaces[np.searchsorted(spaces, left)], starts), left)
    # A context that ends inside a word ends after its last white space.
    inside = (right < last) & ~is_space[np.minimum(right, len(whole) - 1)]
    last_space = np.searchsorted(spaces, right) - 1
    before = np.where(last_space >= 0, spaces[np.maximum(last_space, 0)] + 1, 0)
    right = np.where(inside, np.maximum(before, ends), right)
    return left, right


def span_view(span: "Span", context_chars: int = CONTEXT_CHARS) -> View:
    """Make the view of a span in its document, across sentence boundaries."""
    return mention_view(span.doc.text, span.start_char, span.end_char, context_chars)


def passage_views(texts: Sequence[str]) -> list[View]:
    """Make the views of all mentions of a passage, each with the others as its `co_mentions`.

    texts: the passage, split at its mentions: `[before, mention, between, mention, …, after]`.
    """
    return [_passage_view(texts, own) for own in range(1, len(texts), 2)]


def _passage_view(texts: Sequence[str], own: int) -> View:
    """Make the view of the mention `texts[own]`."""
    co_mentions = []
    end = 0
    for i, text in enumerate(texts):
        if i % 2 and i != own:
            co_mentions.append((end, end + len(text)))
        end += len(text)
    return View(
        "".join(texts[:own]), texts[own], "".join(texts[own + 1 :]), co_mentions=tuple(co_mentions)
    )


def passage_texts(view: View) -> tuple[list[str], int]:
    """Invert `passage_views`: return the texts, and the index of the view's own mention."""
    whole = view.left + view.mention + view.right
    own = (len(view.left), len(view.left) + len(view.mention))
    offsets = sorted((own, *view.co_mentions))
    edges = [0, *(edge for span in offsets for edge in span), len(whole)]
    return [whole[start:end] for start, end in pairwise(edges)], 1 + 2 * offsets.index(own)


def with_mentions(view: View, rewrite: Callable[[str, int], str], start: int) -> View:
    """Rewrite the mention of a view, and the other mentions of its passage.

    rewrite: takes a mention and `start`, the offset of the view's mention in its text.
    """
    if not view.co_mentions:
        mention = rewrite(view.mention, start)
        # This takes a third of the time of `_replace`.
        return (
            view
            if mention is view.mention
            else View(view.left, mention, view.right, view.masked, view.reference)
        )
    texts, own = passage_texts(view)
    return _passage_view(
        [rewrite(text, start) if i % 2 else text for i, text in enumerate(texts)], own
    )


def with_mention(view: View, mention: str) -> View:
    """Replace the mention of a view."""
    if not view.co_mentions:
        return view._replace(mention=mention)
    texts, own = passage_texts(view)
    texts[own] = mention
    return _passage_view(texts, own)


def doc_text(doc: "Doc") -> str:
    """Return `doc.text` without creating `Token` objects."""
    strings = doc.vocab.strings
    tokens = doc.to_array(["ORTH", "SPACY"])
    spaces = ("", " ")
    return "".join([strings[orth] + spaces[space] for orth, space in tokens.tolist()])


def doc_texts(docs: "Sequence[Doc]") -> list[str]:
    """Return `doc.text` of each doc; each distinct token is looked up once."""
    import numpy as np
    import pyarrow as pa

    if not docs or any(doc.vocab is not docs[0].vocab for doc in docs):
        return [doc.text for doc in docs]
    by_doc = [doc.to_array(["ORTH", "SPACY"]) for doc in docs]
    tokens = np.concatenate(by_doc)
    orths = pa.array(tokens[:, 0]).dictionary_encode()
    strings = docs[0].vocab.strings
    texts = [strings[orth] for orth in orths.dictionary.to_numpy().tolist()]
    either = np.array([*texts, *[text + " " for text in texts]], dtype=object)
    parts = either[orths.indices.to_numpy() + len(texts) * tokens[:, 1].view(np.int64)].tolist()
    ends = np.cumsum([len(each) for each in by_doc]).tolist()
    return ["".join(parts[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def evidence(view: View) -> str:
    """Format a view as one line for display: `…left ⟦mention⟧ right…`; a reference has `[SEP]`
    between its parts.
    """
    if view.reference:
        return " [SEP] ".join(reference_texts(view))
    if not view.left and not view.right:
        return name_evidence(view.mention)
    return _one_line(f"{view.left}⟦{view.mention}⟧{view.right}")


def name_evidence(name: str) -> str:
    """Format a name without context, as in `evidence`."""
    return f"⟦{_one_line(name)}⟧"


def piece_window(
    left: Sequence[int],
    mention: Sequence[int],
    right: Sequence[int],
    *,
    window: int,
    cls_id: int,
    sep_id: int,
    start_id: int | None,
    end_id: int | None,
) -> tuple[list[int], int, int]:
    """Build `[CLS] left [Ms] mention [Me] right [SEP]` with at most `window` pieces, centred on the
    mention (KRISSBERT §3.2).

    Context that one side does not need goes to the other. A mention longer than the window keeps
    its first and last pieces and loses its middle; the markers always stay.

    start_id, end_id: the markers; None for no markers.

    RETURNS: the piece ids (at most `window`), and the positions of `[Ms]` and `[Me]` among them
        (0 without markers).
    """
    start = [] if start_id is None else [start_id]
    end = [] if end_id is None else [end_id]
    space = window - 2 - len(start) - len(end)
    if len(mention) > space:
        head = (space + 1) // 2
        tail = space - head
        mention = [*mention[:head], *mention[len(mention) - tail :]]
    space -= len(mention)
    n_left = min(len(left), space // 2)
    n_right = min(len(right), space - n_left)
    n_left = min(len(left), space - n_right)
    # `left[len(left) - n_left:]`, because `left[-0:]` would keep everything.
    ids = [cls_id, *left[len(left) - n_left :], *start, *mention, *end, *right[:n_right], sep_id]
    if not start:
        return ids, 0, 0
    return ids, 1 + n_left, 2 + n_left + len(mention)


def reference_window(
    parts: Sequence[Sequence[int]], *, window: int, cls_id: int, sep_id: int
) -> list[int]:
    """Build `[CLS] part [SEP] part [SEP] …` with at most `window` pieces, truncated at the end."""
    ids = [cls_id]
    for part in parts or ((),):
        ids += (*part, sep_id)
    return ids if len(ids) <= window else [*ids[: window - 1], sep_id]


@cache
def _spaces() -> "np.ndarray":
    """Return a mask of white space by code point, up to the first one after all white space."""
    import numpy as np

    return np.array([chr(code).isspace() for code in range(LAST_SPACE + 2)])


def _one_line(text: str) -> str:
    return " ".join(text.split())

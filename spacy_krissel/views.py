"""Views: the short texts that stand for an entity or a mention, and their way into an encoder.

A view is cut from text here and nowhere else; encoders receive `View`s and turn them into their own features, with
`piece_window` for those that read word pieces.
"""

from typing import TYPE_CHECKING, List, NamedTuple, Protocol, Sequence, Tuple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

# Enough characters on each side for a window of 128 word pieces, little enough to copy and store cheaply.
CONTEXT_CHARS = 256
MENTION_START = "[Ms]"
MENTION_END = "[Me]"


class View(NamedTuple):
    """A mention in its context, or a bare name (both sides empty).

    left: text before the mention, as it stood (with its white space).
    mention: the surface form.
    right: text after the mention.
    masked: the encoder must not see the surface form (KRISSBERT §3.3, mention masking).
    """

    left: str
    mention: str
    right: str
    masked: bool = False


class Described(Protocol):
    """What a candidate's text is made of; `ontology.entity.Entity` has it."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def types(self) -> Sequence[str]: ...

    @property
    def tree_numbers(self) -> Sequence[str]: ...

    @property
    def definition(self) -> str: ...


class CandidateView(NamedTuple):
    """A candidate entity, as a re-ranker reads it.

    names: the preferred name and other names.
    parts: the candidate's reference; an encoder of word pieces puts its separator between any two of them.
    """

    names: Tuple[str, ...]
    parts: Tuple[str, ...]


def candidate_view(entity: Described, *, max_names: int = 8, without: Sequence[str] = ()) -> CandidateView:
    """The view of an entity as a candidate: `name [SEP] aliases [SEP] types [SEP] tree numbers [SEP] definition`.

    What an entity lacks leaves no part. max_names: so many names at most, the preferred one and the first aliases.
    without: names that must not be seen, neither as preferred name nor as alias.
    """
    names = tuple(name for name in entity.names if name not in without)[:max_names]
    parts = (*names[:1], "; ".join(names[1:]), "; ".join(entity.types), "; ".join(entity.tree_numbers))
    return CandidateView(names, tuple(part for part in (*parts, entity.definition) if part))


def name_view(name: str) -> View:
    """The view of a name without context."""
    return View("", name, "")


def mention_view(text: str, start: int, end: int, context_chars: int = CONTEXT_CHARS) -> View:
    """The view of `text[start:end]` with up to `context_chars` characters on each side, cut at white space.

    A context that would begin or end inside a word loses that part of the word, so that no encoder sees half words.
    """
    left = text[max(0, start - context_chars) : start]
    if start > context_chars and not text[start - context_chars - 1].isspace():
        left = _drop_first_word(left)
    right = text[end : end + context_chars]
    if end + context_chars < len(text) and not text[end + context_chars].isspace():
        right = _drop_last_word(right)
    return View(left, text[start:end], right)


def span_view(span: "Span", context_chars: int = CONTEXT_CHARS) -> View:
    """The view of a span in its document, across sentence boundaries."""
    return mention_view(span.doc.text, span.start_char, span.end_char, context_chars)


def doc_text(doc: "Doc") -> str:
    """`doc.text` without making a `Token` of every token, for it is read once for each doc that is linked."""
    strings = doc.vocab.strings
    tokens = doc.to_array(["ORTH", "SPACY"])
    spaces = ("", " ")
    return "".join([strings[orth] + spaces[space] for orth, space in tokens.tolist()])


def evidence(view: View) -> str:
    """The view as one line for people: `…left ⟦mention⟧ right…`."""
    return " ".join(f"{view.left}⟦{view.mention}⟧{view.right}".split())


def piece_window(
    left: Sequence[int],
    mention: Sequence[int],
    right: Sequence[int],
    *,
    window: int,
    cls_id: int,
    sep_id: int,
    start_id: int,
    end_id: int,
) -> Tuple[List[int], int, int]:
    """`[CLS] left [Ms] mention [Me] right [SEP]` in at most `window` pieces, centred on the mention (KRISSBERT §3.2).

    The context that one side does not need goes to the other. A mention longer than the window keeps its first and
    last pieces and loses its middle; the markers always stay.

    RETURNS: the piece ids (at most `window`), and the positions of `[Ms]` and `[Me]` among them.
    """
    room = window - 4
    if len(mention) > room:
        head = (room + 1) // 2
        tail = room - head
        mention = [*mention[:head], *mention[len(mention) - tail :]]
    room -= len(mention)
    n_left = min(len(left), room // 2)
    n_right = min(len(right), room - n_left)
    n_left = min(len(left), room - n_right)
    # `left[len(left) - n_left:]`, because `left[-0:]` would keep everything.
    ids = [cls_id, *left[len(left) - n_left :], start_id, *mention, end_id, *right[:n_right], sep_id]
    return ids, 1 + n_left, 2 + n_left + len(mention)


def _drop_first_word(text: str) -> str:
    for i, char in enumerate(text):
        if char.isspace():
            return text[i:]
    return ""


def _drop_last_word(text: str) -> str:
    for i in range(len(text) - 1, -1, -1):
        if text[i].isspace():
            return text[: i + 1]
    return ""

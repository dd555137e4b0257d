"""Word pieces of views: tokenised together, cut to the window, batched by length, padded."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy

from ...errors import Errors, KrisselError
from ...views import View, crop_view, passage_texts, piece_window, reference_texts, reference_window

MARKERS = ("[Ms]", "[Me]")
# Views tokenised together: enough to keep the tokenizer's threads busy, without much memory for
# offsets.
TOKENIZE_AT_ONCE = 1024
# Words of a context beyond half of the window: a text that is cut may have other pieces at its end.
EXTRA_WORDS = 2

# Maximum number of words with cached pieces per tokenizer: about 40 MB.
MAX_WORDS = 1 << 17
# The most frequent punctuation of abstracts.
MARKS = (".", ",", "-", "(", ")", "/")
Words = dict[str, tuple[int, ...]]
# Cached pieces by word, for tokenizers that read each word by itself.
_WORDS: WeakKeyDictionary[Any, Words] = WeakKeyDictionary()

# In training, lengths are rounded up to about a quarter of the window: in bfloat16 on the CPU,
# torch keeps kernels for each shape it has seen, hundreds of megabytes. Names in a window for
# sentences would be mostly padding.
TRAINING_PARTS = 4
SHORT_LENGTHS = (8, 16)


class PieceRow(NamedTuple):
    """One view as piece ids, and the positions of its two markers (`[CLS]`'s without markers).

    Views that are read together share the array of ids.
    """

    ids: numpy.ndarray
    start: int
    end: int


class Pieces(NamedTuple):
    """A padded batch of n rows for m views; m = n unless views are read together.

    ids: (n, longest) int64, padded on the right.
    lengths: (n,) int64, real pieces of each row.
    owners: (m,) int64, the row of each view.
    starts, ends: (m,) int64, positions of its `[Ms]` and `[Me]`.
    full: no row has padding.

    The arrays are NumPy's from `pad_pieces`, and tensors on the device in `Passes`.
    """

    ids: Any
    lengths: Any
    owners: Any
    starts: Any
    ends: Any
    full: bool = False

    def arrays(self) -> tuple[Any, ...]:
        return self[:-1]


def view_pieces(
    tokenizer: Any,
    views: Sequence[View],
    window: int,
    markers: Sequence[str] = MARKERS,
    bare_names: bool = False,
) -> list[PieceRow]:
    """Tokenise views to `[CLS] left [Ms] mention [Me] right [SEP]`, at most `window` pieces each.

    References become `[CLS] part [SEP] part [SEP] …`. The mention of a masked view is one mask
    token.

    markers: the two tokens around the mention; () for none.
    bare_names: no markers around mentions without context.
    RAISES: KrisselError K407 for a masked view if the tokenizer has no mask token, K416 if it lacks
        a marker.
    """
    marker_ids = _marker_ids(tokenizer, markers) if markers else (None, None)
    frame = {"window": window, "cls_id": tokenizer.cls_token_id, "sep_id": tokenizer.sep_token_id}
    rows: list[PieceRow] = []
    for i in range(0, len(views), TOKENIZE_AT_ONCE):
        some = views[i : i + TOKENIZE_AT_ONCE]
        for view, found in zip(some, _pieces_of(tokenizer, some, window), strict=True):
            if view.reference:
                row, start, end = reference_window(found, **frame), 0, 0
            else:
                left, mention, right = found
                if view.masked:
                    if tokenizer.mask_token_id is None:
                        raise KrisselError(Errors.K407)
                    mention = [tokenizer.mask_token_id]
                start_id, end_id = marker_ids if left or right or not bare_names else (None, None)
                row, start, end = piece_window(
                    left, mention, right, start_id=start_id, end_id=end_id, **frame
                )
            rows.append(PieceRow(numpy.asarray(row, dtype="int32"), start, end))
    return rows


def _marker_ids(tokenizer: Any, markers: Sequence[str]) -> list[int]:
    ids = tokenizer.convert_tokens_to_ids(list(markers))
    for marker, found in zip(markers, ids, strict=True):
        # A missing token has the id of the unknown token, or none.
        if found is None or (found == tokenizer.unk_token_id and marker != tokenizer.unk_token):
            raise KrisselError(Errors.K416.format(marker=marker))
    return ids


def _pieces_of(tokenizer: Any, views: Sequence[View], window: int) -> Iterator[list[list[int]]]:
    """Yield the pieces of each view's parts; of its contexts at least those that fit the window."""
    texts = [_texts(view, window) for view in views]
    near = [
        each if view.reference else _near_texts(each, window)
        for view, each in zip(views, texts, strict=True)
    ]
    ids = iter(encode_texts(tokenizer, list(chain.from_iterable(near))))
    for whole, cut in zip(texts, near, strict=True):
        pieces = list(islice(ids, len(cut)))
        # A word of control characters alone has no piece.
        if cut is not whole and min(len(pieces[0]), len(pieces[2])) < window // 2:
            pieces = encode_texts(tokenizer, whole)
        yield pieces


def _texts(view: View, window: int) -> list[str]:
    """Return the parts of a view that are tokenised separately."""
    if view.reference:
        return reference_texts(view)
    view = crop_view(view, window)
    return [view.left, "" if view.masked else view.mention, view.right]


def _near_texts(texts: list[str], window: int) -> list[str]:
    """Return the texts with the contexts cut to the words next to the mention, if both are long.

    At most half of the window on either side is read, and each word has at least one piece.
    """
    left, mention, right = texts
    n = window // 2 + EXTRA_WORDS
    before, after = left.rsplit(None, n), right.split(None, n)
    if len(before) <= n or len(after) <= n:
        return texts
    return [left[len(before[0]) :], mention, right[: len(right) - len(after[-1])]]


def unit_pieces(
    tokenizer: Any,
    views: Sequence[View],
    window: int,
    markers: Sequence[str] = MARKERS,
    bare_names: bool = False,
) -> list[PieceRow]:
    """Tokenise views like `view_pieces`, with all mentions of a sentence marked (BELHD §4.2).

    The form is `[CLS] left [Ms] mention [Me] between [Ms] mention [Me] right [SEP]`, with one array
    of ids for all views of a sentence that fits the window. In a longer sentence each view has its
    own window, centred on its mention. A mention that does not fit with its markers is read without
    the others, and so are masked views and names.
    """
    rows: dict[int, PieceRow] = {}
    units: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for i, view in enumerate(views):
        if view.co_mentions and not view.masked:
            texts, own = passage_texts(view)
            units.setdefault(tuple(texts), []).append((i, own))
    cls, sep = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    start_id, end_id = _marker_ids(tokenizer, markers)
    ids = iter(encode_texts(tokenizer, list(chain.from_iterable(units))))
    for texts, members in units.items():
        body: list[int] = []
        markers_of: dict[int, tuple[int, int]] = {}
        for n, pieces in enumerate(islice(ids, len(texts))):
            if n % 2:
                markers_of[n] = len(body), len(body) + len(pieces) + 1
            body += (start_id, *pieces, end_id) if n % 2 else pieces
        room = window - 2
        whole = numpy.asarray(cls + body + sep, dtype="int32") if len(body) <= room else None
        for i, own in members:
            start, end = markers_of[own]
            if whole is not None:
                rows[i] = PieceRow(whole, 1 + start, 1 + end)
                continue
            spare = room - (end + 1 - start)
            if spare < 0:
                continue
            first = start - min(start, max(spare // 2, spare - (len(body) - end - 1)))
            last = first + room
            # A marker without its partner is dropped.
            lone = {
                edge
                for pair in markers_of.values()
                if not first <= pair[0] < pair[1] < last
                for edge in pair
            }
            kept = [index for index in range(first, min(last, len(body))) if index not in lone]
            part = numpy.asarray(cls + [body[index] for index in kept] + sep, dtype="int32")
            rows[i] = PieceRow(part, 1 + kept.index(start), 1 + kept.index(end))
    alone = [i for i in range(len(views)) if i not in rows]
    found = view_pieces(tokenizer, [views[i] for i in alone], window, markers, bare_names)
    rows.update(zip(alone, found, strict=True))
    return [rows[i] for i in range(len(views))]


def encode_texts(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Return the piece ids of each text, without special tokens or truncation.

    The tokenizer must be set by `configure_tokenizer`. If it reads each word by itself, the pieces
    of words are cached.
    """
    known = _WORDS.get(tokenizer)
    if known is None:
        return _encode(tokenizer, texts)
    if len(known) > MAX_WORDS:
        # A new table, since other threads may be reading the old one.
        known = _WORDS[tokenizer] = {}
    found: list[Any] = [None] * len(texts)
    unknown: dict[int, list[str]] = {}
    whole: list[int] = []
    lookup = known.__getitem__
    for i, text in enumerate(texts):
        # Other texts have white space that the tokenizer drops, and characters that it splits at.
        if not text.isprintable():
            whole.append(i)
            continue
        # Separate punctuation, so that a word is cached once, not once with each comma.
        for mark in MARKS:
            text = text.replace(mark, f" {mark} ")
        words = text.split()
        try:
            found[i] = list(chain.from_iterable(map(lookup, words)))
        except KeyError:
            unknown[i] = words
    new = list({word for words in unknown.values() for word in words if word not in known})
    known.update(zip(new, map(tuple, _encode(tokenizer, new)), strict=True))
    for i, words in unknown.items():
        found[i] = list(chain.from_iterable(map(lookup, words)))
    for i, ids in zip(whole, _encode(tokenizer, [texts[i] for i in whole]), strict=True):
        found[i] = ids
    return found


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    # The Rust tokenizer itself: its wrapper also makes masks, type ids and offsets, which are not
    # used.
    found = tokenizer.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in found]


def _reads_words(backend: Any) -> bool:
    """Return True for BERT's tokenizers: the pieces of a printable text are those of its words."""
    parts = (backend.model, backend.normalizer, backend.pre_tokenizer)
    if [type(part).__name__ for part in parts] != [
        "WordPiece",
        "BertNormalizer",
        "BertPreTokenizer",
    ]:
        return False
    # Special tokens are text; others are found across words.
    return all(token.special for token in backend.get_added_tokens_decoder().values())


def encode_with_offsets(
    tokenizer: Any, texts: list[str]
) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Return `encode_texts` with the start and end of each piece, in characters."""
    found = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [(encoding.ids, encoding.offsets) for encoding in found]


def configure_tokenizer(tokenizer: Any) -> None:
    """Configure a tokenizer for `encode_texts`, once before use.

    Threads share it, and its settings cannot be changed while one of them encodes.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True  # "[Ms]" or "[MASK]" in a text is text
    if _reads_words(backend):
        _WORDS[tokenizer] = {}


def length_batches(lengths: Sequence[int], max_pieces: int, min_fill: float) -> Iterator[list[int]]:
    """Group indices by length, longest first, so that little of a padded batch is padding.

    max_pieces: pieces per batch, padding included (but at least one view).
    min_fill: a view shorter than this fraction of its batch's longest starts a new batch; 0 for no
        such limit.
    """
    batch: list[int] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and ((len(batch) + 1) * longest > max_pieces or lengths[i] < min_fill * longest):
            yield batch
            batch = []
        if not batch:
            longest = lengths[i]
        batch.append(i)
    if batch:
        yield batch


def pad_pieces(rows: Sequence[PieceRow], pad_id: int, allowed: Sequence[int] = ()) -> Pieces:
    """Stack views into one batch, padded to the longest.

    allowed: ascending lengths; the batch is padded to the next of them, if there is one.
    """
    distinct = {id(row.ids): row.ids for row in rows}
    row_of = {key: row for row, key in enumerate(distinct)}
    lengths = numpy.asarray([len(each) for each in distinct.values()], dtype="int64")
    longest = next((length for length in allowed if length >= lengths.max()), int(lengths.max()))
    ids = numpy.full((len(distinct), longest), pad_id, dtype="int64")
    for i, each in enumerate(distinct.values()):
        ids[i, : lengths[i]] = each
    owners = numpy.asarray([row_of[id(row.ids)] for row in rows], dtype="int64")
    starts = numpy.asarray([row.start for row in rows], dtype="int64")
    ends = numpy.asarray([row.end for row in rows], dtype="int64")
    return Pieces(ids, lengths, owners, starts, ends, bool((lengths == longest).all()))


def training_lengths(window: int, limit: int) -> tuple[int, ...]:
    """Return the lengths that batches are padded to in training, at most the encoder's `limit`."""
    step = max(1, window // TRAINING_PARTS)
    lengths = {length for length in SHORT_LENGTHS if length < step} | set(
        range(step, window + step, step)
    )
    return tuple(sorted({min(length, limit) for length in lengths}))


def read_together(rows: Sequence[PieceRow]) -> list[list[int]]:
    """Return view numbers, grouped by shared row of ids."""
    groups: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(id(row.ids), []).append(i)
    return list(groups.values())

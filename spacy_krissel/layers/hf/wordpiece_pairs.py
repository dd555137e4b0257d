"""A mention and a candidate as one row of word pieces."""

from typing import Any, Dict, List, Sequence, Tuple

import numpy

from ..ranked import RankedMention
from .wordpieces import PieceRow, encode_texts, view_pieces


def pair_pieces(
    tokenizer: Any, mentions: Sequence[RankedMention], window: int, candidate_window: int
) -> List[PieceRow]:
    """`[CLS] left [Ms] mention [Me] right [SEP] part [SEP] part … [SEP]`, one row a candidate (KRISSBERT §3.6).

    A mention takes at most `window` pieces, as `view_pieces` cuts it; a candidate at most `candidate_window`, its last
    `[SEP]` included: what is too much is lost from its end. The reference's own `[CLS]` is not there.
    """
    rows = view_pieces(tokenizer, [mention.view for mention in mentions], window)
    # Mentions of a batch share candidates, and candidates share types.
    different = {candidate.parts for mention in mentions for candidate in mention.candidates}
    texts = list({part for parts in different for part in parts})
    pieces = dict(zip(texts, encode_texts(tokenizer, texts)))
    references: Dict[Tuple[str, ...], numpy.ndarray] = {}
    for parts in different:
        references[parts] = _reference([pieces[part] for part in parts], tokenizer.sep_token_id, candidate_window)
    return [
        PieceRow(numpy.concatenate((row.ids, references[candidate.parts])), row.start, row.end)
        for row, mention in zip(rows, mentions)
        for candidate in mention.candidates
    ]


def _reference(parts: Sequence[Sequence[int]], sep_id: int, room: int) -> numpy.ndarray:
    ids: List[int] = []
    for part in parts:
        if len(ids) >= room:
            break
        ids += (*part, sep_id)
    if len(ids) > room:
        ids[room - 1 :] = [sep_id]
    return numpy.asarray(ids, dtype="int32")

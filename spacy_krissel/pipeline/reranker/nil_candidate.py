"""NIL as one more candidate of a re-ranker (PEL §2, the fourth strategy)."""

import numpy as np

from ...layers.ranked import RankedMention
from ...mentions.annotations import NIL, SpanLink
from ...views import CandidateView

# It bears no name that could be like the mention's.
NIL_VIEW = CandidateView((), ("none of the candidates",))


def with_nil(mention: RankedMention, logit: float) -> RankedMention:
    """The mention with NIL as its last candidate. logit: log-odds, in the unit of the others'."""
    logits = np.append(mention.logits, np.float32(logit)).astype(np.float32)
    return mention._replace(candidates=(*mention.candidates, NIL_VIEW), logits=logits)


def relative_to_nil(corrections: np.ndarray) -> np.ndarray:
    """The corrections of the candidates (k,) against that of NIL, the last of (k + 1,): so NIL's own score stays where
    it is, and one threshold on the final scores says what is NIL."""
    return corrections[:-1] - corrections[-1]


def decided(link: SpanLink, nil_score: float) -> SpanLink:
    """The link, or NIL where its best candidate scores less than NIL does. Candidates stay in either case."""
    return link._replace(kb_id=NIL) if link.candidates[0]["score"] < nil_score else link

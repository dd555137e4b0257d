"""A part of a gold corpus, by document."""

from typing import NamedTuple

from spacy.tokens import Doc

from ..errors import Errors, KrisselError
from ..mentions.gold_mentions import document_id
from ..util.hashing import stable_hash


class GoldSplit(NamedTuple):
    """A fixed pseudo-random part of a corpus, chosen by document and hash, the same wherever it is asked.

    split: "train", "dev" (a `dev_share` of the documents), or "all".
    purpose: splits of other purposes are independent of each other, so that one may be split again by the same seed.
    """

    split: str = "all"
    dev_share: float = 0.1
    seed: int = 0
    purpose: str = ""

    @classmethod
    def checked(
        cls, split: str, dev_share: float, seed: int, *, setting: str = "dev_share", purpose: str = ""
    ) -> "GoldSplit":
        """Raises KrisselError K006 for another split, or a share outside [0, 1). setting: what the share is called."""
        if split not in ("train", "dev", "all"):
            raise KrisselError(Errors.K006.format(setting="split", found=split, expected="'train', 'dev' or 'all'"))
        if not 0 <= dev_share < 1:
            expected = "a share of the documents in [0, 1)"
            raise KrisselError(Errors.K006.format(setting=setting, found=dev_share, expected=expected))
        return cls(split, dev_share, seed, purpose)

    def __call__(self, doc: Doc) -> bool:
        """Is `doc` in this split?"""
        if self.split == "all":
            return True
        in_dev = stable_hash(self.seed, self.purpose + document_id(doc)) < self.dev_share * 2**64
        return in_dev == (self.split == "dev")

"""Batches that hold nothing to learn from: skipped and counted."""

import warnings
from typing import Sized

from ..errors import KrisselWarning, Warnings


class BatchCount:
    """Counts the batches of a training, and those that were skipped.

    A pipeline trains several components on the same batches: one that teaches an objective nothing must not end the
    training of the others. Warns KW625 at the first skipped batch, the tenth, the hundredth and so on.

    missing: what a batch is to hold. todo: what to do where it seldom does.
    """

    def __init__(self, missing: str, todo: str) -> None:
        self.missing = missing
        self.todo = todo
        self.n_batches = self.n_skipped = 0

    def is_empty(self, found: Sized) -> bool:
        """Count a batch in which this was found. RETURNS: whether it is nothing, and the batch to be skipped."""
        self.n_batches += 1
        if len(found):
            return False
        self.n_skipped += 1
        if str(self.n_skipped).strip("0") == "1":
            message = Warnings.KW625.format(
                skipped=self.n_skipped, batches=self.n_batches, missing=self.missing, todo=self.todo
            )
            warnings.warn(message, KrisselWarning, stacklevel=4)
        return True

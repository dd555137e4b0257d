"""Verdicts on the pairs of a file, and their corrections."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from ..ontology.entity import possible_prefixes
from ..ontology.verify import Named, Verdict, Vocabulary, verify_with
from .pair import Cell, Edit, IsId, Pair, PairFile, in_form_of

Trust = Literal["label", "id"]


class Judged(NamedTuple):
    """A pair with its verdict. label: the cell that the verdict is about, if any."""

    pair: Pair
    label: Cell | None
    verdict: Verdict


def ids_of(vocabularies: Sequence[Vocabulary]) -> IsId:
    """Return a function that tells whether a text has the form of an id of the vocabularies."""
    known = frozenset().union(*(each.id_prefixes for each in vocabularies)) - {""}

    def is_id(text: str) -> bool:
        has_digit = any(map(str.isdigit, text))
        return has_digit and " " not in text and not known.isdisjoint(possible_prefixes(text))

    return is_id


def judge(file_: PairFile, vocabularies: Sequence[Vocabulary]) -> Iterator[Judged]:
    """Yield the verdict on each pair of a file.

    If several labels are possible, one that is a name of the entity counts. Otherwise, the longest
    that is a name of another entity counts, or else the stated one.
    """
    for pair in file_.pairs(ids_of(vocabularies)):
        yield judge_pair(pair, vocabularies)


def judge_pair(pair: Pair, vocabularies: Sequence[Vocabulary]) -> Judged:
    best: Judged | None = None
    for label in pair.labels:
        found = Judged(pair, label, verify_with(vocabularies, pair.id.value, label.value))
        if best is None or _rank(found, pair) > _rank(best, pair):
            best = found
    if best is None or _rank(best, pair)[0] == 0:
        best = Judged(pair, None, verify_with(vocabularies, pair.id.value, ""))
    return best


def _rank(judged: Judged, pair: Pair) -> tuple[int, int]:
    verdict, label = judged.verdict, judged.label
    length = len(label.value) if label else 0
    if verdict.fits:
        return 4 if verdict.status != "synonym" else 3, length
    if verdict.meant:
        return 2, length
    return int(label is not None and label == pair.stated), 0


def correction(judged: Judged, trust: Trust) -> list[Edit]:
    """Return what makes a pair correct; nothing if that is not clear.

    trust: of a wrong label, keep the "label" and take the id that it is a name of, or keep the "id"
        and take its preferred name. A retired id is replaced either way, and an unknown id by that
        of its label.
    """
    pair, label, verdict = judged
    if not verdict.is_finding:
        return []
    entity = _entity(verdict, trust)
    if entity is None:
        return []
    edits = []
    if entity not in verdict.entities or verdict.status == "retired":
        id_ = in_form_of(pair.id.value, entity.id)
        if not id_:
            return []
        edits.append(Edit(pair.id, id_))
    if entity in verdict.entities and label is not None and not verdict.fits:
        edits.append(Edit(label, entity.name))
    return edits


def _entity(verdict: Verdict, trust: Trust) -> Named | None:
    """Return the entity that a pair should be about, if that is clear."""
    own, meant = verdict.entities, verdict.meant
    if verdict.status == "wrong_label" and trust == "id":
        return own[0]
    if len(meant) == 1 and not verdict.fits:
        return meant[0]
    return own[0] if verdict.status == "retired" and len(own) == 1 and not meant else None


def corrections(file_: PairFile, judged: Sequence[Judged], trust: Trust) -> tuple[list[Edit], int]:
    """Return the corrections of a file without those that contradict each other, and the number of
    corrected pairs."""
    found = [edits for each in judged if (edits := correction(each, trust))]
    values: dict[tuple[int, int], set[str]] = {}
    for edit in chain(*found):
        values.setdefault((edit.cell.start, edit.cell.end), set()).add(edit.value)
    kept = [
        edits
        for edits in found
        if all(
            len(values[edit.cell.start, edit.cell.end]) == 1 and file_.can_replace(edit)
            for edit in edits
        )
    ]
    return [*dict.fromkeys(chain(*kept))], len(kept)

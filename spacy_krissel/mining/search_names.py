"""Which names of an ontology are searched for, and why others are not."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .text_forms import fold_case

if TYPE_CHECKING:
    from ..ontology.store import OntologyStore

# The row of a name that several entities share: it is matched, so that no shorter name is found inside it, and then
# dropped.
AMBIGUOUS = -1
# Common words that some ontologies list as names or abbreviations (ALL, WAS, AS).
STOP_WORDS = frozenset(
    "a about after all also am an and any are as at be been both but by can could did do does each for "
    "from had has have he her here him his how i if in into is it its may me men met might more most my "
    "no non nor not now of off on one or our out over per she so some such than that the their them then "
    "there these they this those to too two under up us use very via was we were what when where which "
    "who will with would yet you".split()
)
LONGEST_STOP_WORD = max(map(len, STOP_WORDS))


class SearchName(NamedTuple):
    """A name to search for. row: the entity's row in the ontology store, or `AMBIGUOUS`. text: in the ontology."""

    row: int
    text: str


def search_names(ontology: "OntologyStore", counts: dict[str, int], aliases: bool = True) -> Iterator[SearchName]:
    """The names to search for: first unambiguous, then ambiguous ones.

    counts: set to the number of names that are `searched`, `ambiguous` (shared by several entities), `too_short` (one
        letter or digit), a `number` (no letter), or a `stop_word`.
    aliases: all names; otherwise the preferred ones, of which those that are an alias of another entity are ambiguous.

    Names are the same if they fold to the same (`ontology.folding.fold_name`).
    """
    counts.update(searched=0, ambiguous=0, too_short=0, number=0, stop_word=0)
    for shared in (False, True):
        for row, name, preferred in ontology.names(shared=shared):
            if not (aliases or preferred):
                continue
            reason = _skip_reason(name)
            counts[reason or ("ambiguous" if shared else "searched")] += 1
            if not reason:
                yield SearchName(AMBIGUOUS if shared else row, name)


def _skip_reason(name: str) -> str:
    # A shortcut: most names begin with two letters.
    if not (len(name) > 1 and name[:2].isalnum()) and sum(map(str.isalnum, name)) < 2:
        return "too_short"
    if not any(map(str.isalpha, name)):
        return "number"
    stripped = name.strip()
    if len(stripped) <= LONGEST_STOP_WORD and fold_case(stripped) in STOP_WORDS:
        return "stop_word"
    return ""

"""The name matcher: every name of an ontology in one pass over a text (KRISSBERT §3.1)."""

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Literal, NamedTuple, Optional, Tuple, get_args

from ..errors import Errors, KrisselError
from .folding import fold_case, forms, plain_form
from .names import AMBIGUOUS, SearchName

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick

Case = Literal["preserve", "fold", "smart"]
CASES: Tuple[str, ...] = get_args(Case)
# Up to this many characters a name in another case is likely another word: aids and AIDS, Gas and GAS.
SHORT_NAME = 5
# Up to this many characters an acronym stands for too many things to be believed alone (NS: Netherton syndrome, saline,
# not significant); longer names in capitals are no acronyms (PIEBALDISM).
SHORT_ACRONYM = 3
LONG_ACRONYM = 8
# The row of a short acronym in a text that does not name its entity otherwise.
UNSUPPORTED = -2


class NameMatch(NamedTuple):
    """`text[start:end]` is `name`, an ontology name of the entity at `row`.

    A negative row says why the match is of no entity: `AMBIGUOUS` or `UNSUPPORTED`.
    """

    start: int
    end: int
    row: int
    name: str


class NameMatcher:
    """Finds names on word boundaries: from left to right, the longest at each place, never overlapping.

    A match is never next to a letter or digit (nor a combining mark). White space, dashes and apostrophes match their
    typographic twins. A name that several entities bear takes its place in the text, so that no shorter name is found
    inside it, and yields nothing.

    case:
    - "preserve" matches case exactly, as the paper does.
    - "fold" ignores case.
    - "smart" ignores the case of ordinary words but not of acronyms (`is_acronym`). An ordinary name of up to
      `SHORT_NAME` characters is not found in capitals, and an acronym of up to `SHORT_ACRONYM` only in a text that
      holds a longer name of its entity too.

    Raises KrisselError K006 for another `case`.
    """

    def __init__(self, names: Iterable[SearchName], case: Case = "smart") -> None:
        if case not in CASES:
            raise KrisselError(Errors.K006.format(setting="case", found=case, expected=f"one of {', '.join(CASES)}"))
        self.case = case
        # Names to be found as they stand, and names to be found in any case; each by the form it is looked up in.
        self._exact: Dict[str, SearchName] = {}
        self._folded: Dict[str, SearchName] = {}
        for name in names:
            plain = " ".join(plain_form(name.text).split())
            if case == "preserve" or (case == "smart" and is_acronym(plain)):
                _add(self._exact, plain, name)
            else:
                _add(self._folded, fold_case(plain), name)
        self._automaton: Optional[AhoCorasick] = None

    def __len__(self) -> int:
        return len(self._exact) + len(self._folded)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_automaton": None}

    def find(self, text: str) -> List[NameMatch]:
        """The names in `text` that stand for one entity, in order."""
        return [match for match in self.find_all(text) if match.row >= 0]

    def find_all(self, text: str) -> List[NameMatch]:
        """The names in `text`, in order, with those that are of no one entity (their row is negative)."""
        plain, key, words = forms(text, fold=self.case != "preserve")
        found = []
        for _, start, end in self.build().find_matches_as_indexes(words, overlapping=True):
            # `words` and the pattern both have one space more on each side.
            end -= 2
            name = self._exact.get(plain[start:end])
            if name is None and self._folded:
                name = self._folded.get(key[start:end])
                if name is not None and self.case == "smart" and end - start <= SHORT_NAME:
                    # The first letter may stand in a capital, the others not.
                    name = name if plain[start + 1 : end] == key[start + 1 : end] else None
            if name is not None:
                found.append((start, -end, name))
        found.sort()
        matches = []
        last_end = 0
        for start, negative_end, name in found:
            if start >= last_end:
                last_end = -negative_end
                matches.append(NameMatch(start, last_end, *name))
        return _supported(matches) if self.case == "smart" else matches

    def build(self) -> "AhoCorasick":
        """The automaton, built on first use: a matcher is sent to another process without it."""
        if self._automaton is None:
            from ahocorasick_rs import AhoCorasick, MatchKind

            # Punctuation is a space in the patterns and in the searched form, and both have a space at their ends: what
            # the automaton finds is on word boundaries already, and there is little of it left to look up.
            fold = self.case != "preserve"
            patterns = {forms(key, fold).words for keys in (self._exact, self._folded) for key in keys}
            self._automaton = AhoCorasick(sorted(patterns), matchkind=MatchKind.Standard, store_patterns=False)
        return self._automaton


def is_acronym(name: str) -> bool:
    """Whether case is part of the name: a word with a capital inside (AIDS, mRNA, T-ALL) or a few capitals (GSD II)."""
    if len(name) > LONG_ACRONYM:
        return False
    if " " in name:
        return name == name.upper()
    # A capital behind a letter or digit, so that Tay-Sachs is none.
    return any(left.isalnum() and right.isupper() for left, right in zip(name, name[1:]))


def _supported(matches: List[NameMatch]) -> List[NameMatch]:
    named = {match.row for match in matches if match.end - match.start > SHORT_ACRONYM}
    return [
        match._replace(row=UNSUPPORTED)
        if match.row >= 0 and match.row not in named and is_acronym(match.name)
        else match
        for match in matches
    ]


def _add(names: Dict[str, SearchName], key: str, name: SearchName) -> None:
    known = names.setdefault(key, name)
    if known.row != name.row:
        names[key] = SearchName(AMBIGUOUS, known.text)

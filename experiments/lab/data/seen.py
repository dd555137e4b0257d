"""How much of a split was in the training split: its entities, and the surface forms of its mentions."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from .lengths import mean


class LinkedMention(NamedTuple):
    """A gold mention with its primary ids and its folded text. `removed`: it lost its entities and became NIL."""

    entities: Tuple[str, ...]
    form: str
    removed: bool = False


class Seen:
    """The entities and the surface forms of the mentions of a training split."""

    def __init__(self, mentions: Iterable[LinkedMention]) -> None:
        self._entities: Set[str] = set()
        self._forms: Set[str] = set()
        for mention in mentions:
            self._entities.update(mention.entities)
            self._forms.add(mention.form)

    def entity_shares(self, mentions: List[LinkedMention]) -> Tuple[Optional[float], Optional[float]]:
        """The share of the distinct entities of `mentions` that training has, and of the mentions of any such one."""
        entities = {entity for mention in mentions for entity in mention.entities}
        n_seen = sum(not self._entities.isdisjoint(mention.entities) for mention in mentions)
        return mean(len(entities & self._entities), len(entities)), mean(n_seen, len(mentions))

    def form_shares(self, mentions: List[LinkedMention]) -> Tuple[Optional[float], Optional[float]]:
        """The share of the distinct forms of `mentions` that training has, and of the mentions of such a form."""
        forms = {mention.form for mention in mentions}
        n_seen = sum(mention.form in self._forms for mention in mentions)
        return mean(len(forms & self._forms), len(forms)), mean(n_seen, len(mentions))


def split_figures(mentions: List[LinkedMention], train: Optional[Seen]) -> Dict[str, Any]:
    """Numbers of mentions and of distinct entities and forms, and the shares of each that `train` has seen.

    RETURNS: `mentions`, `entities`, `forms` (counts), `mentions_seen`, `entities_seen`, `forms_seen`,
        `mentions_of_seen_forms` (shares; None without a training split, or without mentions).
    """
    entities_seen, mentions_seen = (None, None) if train is None else train.entity_shares(mentions)
    forms_seen, mentions_of_seen_forms = (None, None) if train is None else train.form_shares(mentions)
    return {
        "mentions": len(mentions),
        "entities": len({entity for mention in mentions for entity in mention.entities}),
        "forms": len({mention.form for mention in mentions}),
        "entities_seen": entities_seen,
        "mentions_seen": mentions_seen,
        "forms_seen": forms_seen,
        "mentions_of_seen_forms": mentions_of_seen_forms,
    }

"""Mentions of some semantic types alone, such as MedMentions' subset ST21pv."""

import warnings
from dataclasses import replace
from typing import Collection, Iterable, Iterator, Optional

from ..errors import KrisselWarning, Warnings
from ..mentions.gold_mentions import split_gold
from ..ontology.store import OntologyStore
from .readers.annotation import AnnotatedText, Mention
from .report import CorpusReport
from .semantic_types import type_key

TYPES_SHOWN = 5


def keep_types(
    texts: Iterable[AnnotatedText], wanted: Collection[str], store: Optional[OntologyStore], report: CorpusReport
) -> Iterator[AnnotatedText]:
    """`texts` without mentions of other types, counted as `other_types`; a text that loses all of them stays.

    A mention has the types that its label lists, joined by commas, as MedMentions' type column does (`T038,T047`), and
    those of its gold entities (any of a composite) in `store`.

    wanted: types as `type_key` gives them. Warns KW223 when no mention is kept.
    """
    n_kept = 0
    for annotated in texts:
        kept = [mention for mention in annotated.mentions if _has_type(mention, wanted, store)]
        n_others = len(annotated.mentions) - len(kept)
        report.count("mentions_read", n_others)
        report.count("other_types", n_others)
        n_kept += len(kept)
        yield replace(annotated, mentions=kept)
    if not n_kept and report["other_types"]:
        found = ", ".join(map(repr, sorted(wanted)[:TYPES_SHOWN])) + ", …" * (len(wanted) > TYPES_SHOWN)
        warnings.warn(Warnings.KW223.format(count=report["other_types"], types=found), KrisselWarning, stacklevel=2)


def _has_type(mention: Mention, wanted: Collection[str], store: Optional[OntologyStore]) -> bool:
    # The whole label first: a name may hold a comma ("Element, Ion, or Isotope").
    if any(type_key(type_) in wanted for type_ in (mention.label, *mention.label.split(","))):
        return True
    if store is None:
        return False
    rows = (store.row(id_) for id_ in split_gold(mention.kb_id, store))
    return any(type_key(type_) in wanted for row in rows if row is not None for type_ in store.types_at(row))

"""The memorisation baseline."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.util.folding import fold_name


def memorised(records: Sequence[LinkRecord], seen: Iterable[tuple[str, str]]) -> list[LinkRecord]:
    """Link each mention to the most frequent entity of its folded text among `seen` (text, id).
    Equally frequent entities are a tie; a mention with an unseen text is missing."""
    forms: dict[str, Counter] = defaultdict(Counter)
    for text, id_ in seen:
        forms[fold_name(text)][id_] += 1
    linked = []
    for record in records:
        counts = forms[fold_name(record.text)] if record.found else Counter()
        ranked = sorted(counts, key=lambda id_: (-counts[id_], id_))
        ties = [id_ for id_ in ranked if counts[id_] == counts[ranked[0]]]
        found = {
            "ranked": ranked,
            "scores": [float(counts[id_]) for id_ in ranked],
            "prediction": "".join(ranked[:1]),
        }
        nothing = {"prototype": "", "prototype_surface": "", "prototype_kind": ""}
        linked.append(replace(record, ties=ties if len(ties) > 1 else [], **found, **nothing))
    return linked

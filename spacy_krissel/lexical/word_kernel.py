"""Similarity by words as a compiled loop."""

import numpy as np

from ..util.compiled import compiled


@compiled
def similarities(texts, forms, of_entity, queries, entities, without, found):  # type: ignore[no-untyped-def]
    """Write the similarity of text `queries[i]` with the nearest form of `entities[i]` to `found`
    (n,), as in `Words.similarity`.

    texts: start of each text's units, weight and start of each unit's words, these words, their
    strengths. forms: start of each form's words, these words, weight of each word. of_entity: the
    forms of each entity: starts, ends, values. without (texts,): form to ignore per text; empty for
    none.
    """
    unit_starts, unit_weights, starts, words, strengths = texts
    form_starts, form_words, weights = forms
    entity_starts, entity_ends, entity_forms = of_entity
    # Of each word: the best strength that a unit of the text has, and the last form that it is in.
    reach = np.zeros(len(weights), np.float32)
    last = np.full(len(weights), -1, np.int64)
    own = -1
    total = np.float32(0)
    for pair in range(len(queries)):
        query, entity = queries[pair], entities[pair]
        if query != own:
            if own >= 0:
                for cell in range(starts[unit_starts[own]], starts[unit_starts[own + 1]]):
                    reach[words[cell]] = 0
            total = np.float32(0)
            for unit in range(unit_starts[query], unit_starts[query + 1]):
                total += unit_weights[unit]
                for cell in range(starts[unit], starts[unit + 1]):
                    reach[words[cell]] = max(reach[words[cell]], strengths[cell])
            own = query
        best = np.float32(0)
        if total > 0 and 0 <= entity < len(entity_starts):
            for position in range(entity_starts[entity], entity_ends[entity]):
                form = entity_forms[position]
                if len(without) and form == without[query]:
                    continue
                reached, whole = np.float32(0), np.float32(0)
                for cell in range(form_starts[form], form_starts[form + 1]):
                    word = form_words[cell]
                    whole += weights[word]
                    reached += weights[word] * reach[word]
                    last[word] = form
                if whole == 0 or reached / whole <= best:
                    # The other fraction is at most 1.
                    continue
                covered = np.float32(0)
                for unit in range(unit_starts[query], unit_starts[query + 1]):
                    strongest = np.float32(0)
                    for cell in range(starts[unit], starts[unit + 1]):
                        if last[words[cell]] == form:
                            strongest = max(strongest, strengths[cell])
                    covered += unit_weights[unit] * strongest
                best = max(best, covered / total * reached / whole)
        found[pair] = best

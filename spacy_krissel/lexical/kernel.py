"""The search and the similarities of `LexicalIndex` as compiled loops."""

import numpy as np

from ..util.compiled import compiled


@compiled
def search(queries, postings, of_form, allowed, without, n_forms, similarity, found):  # type: ignore[no-untyped-def]  # noqa: C901
    """Write the entities most similar to each query to `found` (q, k), as in `LexicalIndex.search`.

    queries: rarest n-grams as a sparse matrix: starts, columns, weights.
    postings: the forms of each n-gram, as a sparse matrix. of_form: the entities of each form:
        starts, values.
    allowed (n_entities,): mask; empty for all. without (q,): form to ignore per query; empty for
    none.
    n_forms: number of forms examined per query.
    similarity: zeros, at least one per form; reset to zeros at the end.
    """
    starts, grams, weights = queries
    gram_starts, gram_forms, gram_weights = postings
    entity_starts, entities = of_form
    best, values = np.empty(n_forms, np.int64), np.empty(n_forms, np.float32)
    for query in range(len(starts) - 1):
        for cell in range(starts[query], starts[query + 1]):
            gram, weight = grams[cell], weights[cell]
            for posting in range(gram_starts[gram], gram_starts[gram + 1]):
                similarity[gram_forms[posting]] += weight * gram_weights[posting]
        # Keep the highest values, best first; equal ones in the order of forms. Each form is
        # examined once, since its similarity is then reset to zero.
        n_best, least = 0, np.float32(0)
        for cell in range(starts[query], starts[query + 1]):
            gram = grams[cell]
            for posting in range(gram_starts[gram], gram_starts[gram + 1]):
                form = gram_forms[posting]
                value = similarity[form]
                similarity[form] = 0
                if value < least or value == 0:
                    continue
                if len(without) and form == without[query]:
                    continue
                if n_best == n_forms and value == least and form > best[n_best - 1]:
                    continue
                if len(allowed):
                    is_allowed = False
                    for position in range(entity_starts[form], entity_starts[form + 1]):
                        is_allowed |= allowed[entities[position]]
                    if not is_allowed:
                        continue
                position = min(n_best, n_forms - 1)
                while position and (
                    values[position - 1] < value
                    or (values[position - 1] == value and best[position - 1] > form)
                ):
                    best[position], values[position] = best[position - 1], values[position - 1]
                    position -= 1
                best[position], values[position] = form, value
                n_best = min(n_best + 1, n_forms)
                if n_best == n_forms:
                    least = values[n_best - 1]
        k = 0
        for i in range(n_best):
            for position in range(entity_starts[best[i]], entity_starts[best[i] + 1]):
                entity = entities[position]
                if (
                    k < found.shape[1]
                    and (not len(allowed) or allowed[entity])
                    and entity not in found[query, :k]
                ):
                    found[query, k] = entity
                    k += 1


@compiled
def similarities(n_grams, texts, forms, of_entity, queries, entities, without, found):  # type: ignore[no-untyped-def]
    """Write the similarity of text `queries[i]` with the nearest form of `entities[i]` to `found`
    (n,), as in `LexicalIndex.similarity`.

    texts, forms: sparse matrices with `n_grams` columns: starts, columns, weights.
    of_entity: the forms of each entity: starts, ends, values. without (texts,): form to ignore per
        text; empty for none.
    """
    starts, grams, weights = texts
    form_starts, form_grams, form_weights = forms
    entity_starts, entity_ends, entity_forms = of_entity
    vector = np.zeros(n_grams, np.float32)
    own = -1
    for pair in range(len(queries)):
        query, entity = queries[pair], entities[pair]
        if query != own:
            if own >= 0:
                for cell in range(starts[own], starts[own + 1]):
                    vector[grams[cell]] = 0
            for cell in range(starts[query], starts[query + 1]):
                vector[grams[cell]] = weights[cell]
            own = query
        best = np.float32(0)
        # An entity without forms may lie beyond the last entity that has forms.
        if 0 <= entity < len(entity_starts):
            for position in range(entity_starts[entity], entity_ends[entity]):
                form = entity_forms[position]
                if len(without) and form == without[query]:
                    continue
                cosine = np.float32(0)
                for cell in range(form_starts[form], form_starts[form + 1]):
                    cosine += vector[form_grams[cell]] * form_weights[cell]
                best = max(best, cosine)
        found[pair] = best


@compiled
def alike(queries, postings, similarity, found):  # type: ignore[no-untyped-def]
    """Write the forms most similar to each query, in any order, to `found` (q, f), as in
    `LexicalIndex.alike`.

    queries, postings: as for `search`. similarity: zeros, at least one per form; reset to zeros at
        the end. found: -1.
    """
    starts, grams, weights = queries
    gram_starts, gram_forms, gram_weights = postings
    most, n_wanted = 0, found.shape[1]
    for query in range(len(starts) - 1):
        n = 0
        for cell in range(starts[query], starts[query + 1]):
            n += gram_starts[grams[cell] + 1] - gram_starts[grams[cell]]
        most = max(most, n)
    forms, values = np.empty(most, np.int64), np.empty(most, np.float32)
    for query in range(len(starts) - 1):
        n = 0
        for cell in range(starts[query], starts[query + 1]):
            gram, weight = grams[cell], weights[cell]
            for posting in range(gram_starts[gram], gram_starts[gram + 1]):
                form = gram_forms[posting]
                if similarity[form] == 0:
                    forms[n] = form
                    n += 1
                similarity[form] += weight * gram_weights[posting]
        for i in range(n):
            values[i] = similarity[forms[i]]
            similarity[forms[i]] = 0
        least = np.float32(0)
        if n > n_wanted:
            least = np.partition(values[:n], n - n_wanted)[n - n_wanted]
        at = 0
        # First those above the least, then as many of its equals as fit.
        for i in range(n):
            if values[i] > least:
                found[query, at] = forms[i]
                at += 1
        for i in range(n):
            if at < min(n, n_wanted) and values[i] == least:
                found[query, at] = forms[i]
                at += 1

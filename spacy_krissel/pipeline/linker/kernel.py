"""Comparisons of all candidates of a mention with each other, as compiled loops."""

import numpy as np

from ...util.compiled import compiled


@compiled
def best_other(values, kinds, found):  # type: ignore[no-untyped-def]
    """Write the highest value of the other candidates of the same kind to `found` (q, k).

    values: (q, k), without NaN. kinds: (q, k) int64. found: -inf where there is no other.
    """
    n = values.shape[1]
    # Of each kind: its number, where its highest value stands, and the next highest value.
    kind, first, slots = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    second = np.empty(n, values.dtype)
    for query in range(len(values)):
        n_kinds = 0
        for own in range(n):
            at = 0
            while at < n_kinds and kind[at] != kinds[query, own]:
                at += 1
            slots[own] = at
            if at == n_kinds:
                kind[at], first[at], second[at] = kinds[query, own], own, -np.inf
                n_kinds += 1
            elif values[query, own] > values[query, first[at]]:
                first[at], second[at] = own, values[query, first[at]]
            else:
                second[at] = max(second[at], values[query, own])
        for own in range(n):
            at = slots[own]
            found[query, own] = second[at] if first[at] == own else values[query, first[at]]


@compiled
def weights_above(lexical, least, kinds, weights, missing, found):  # type: ignore[no-untyped-def]
    """Write the sum of the weights of kinds that have a candidate with a value of `least` or more
    to `found` (q, k).

    lexical: values of the candidates, -inf for none. least: for each candidate. weights: of its
        kind, at most 1. All (q, k). missing: fraction of what the highest weight lacks to 1, which
        is added. found: zeros.
    """
    n = lexical.shape[1]
    nearest, first = np.empty(n, lexical.dtype), np.empty(n, np.int64)
    for query in range(len(lexical)):
        n_kinds = 0
        for own in range(n):
            at = 0
            while at < n_kinds and kinds[query, first[at]] != kinds[query, own]:
                at += 1
            if at == n_kinds:
                first[at], nearest[at] = own, lexical[query, own]
                n_kinds += 1
            nearest[at] = max(nearest[at], lexical[query, own])
        for own in range(n):
            highest = 0.0
            for at in range(n_kinds):
                if nearest[at] >= least[query, own]:
                    found[query, own] += weights[query, first[at]]
                    highest = max(highest, weights[query, first[at]])
            found[query, own] += missing * (1 - highest)

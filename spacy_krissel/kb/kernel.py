"""Distinct entities among prototypes as a compiled loop."""

from ..util.compiled import compiled


@compiled
def write_first(entities, scores, rows, is_top, lines, found, best, prototypes, extra, first):  # type: ignore[no-untyped-def]
    """Write the first distinct entities of each query to the lines `lines` (q,) of the outputs.

    found, best, prototypes (n, k): entities, their scores and prototype rows. extra (n, k, m): the
    next rows of each entity, initially -1; m is 0 if not wanted. first (q, w): set to True at the
    first occurrence of each entity, and of the other entities in `is_top` (q, w).

    entities, rows: int64 (q, w), -1 for none. scores: float32 (q, w).
    """
    k, n_extra = found.shape[1], extra.shape[2]
    for query in range(len(lines)):
        line, n = lines[query], 0
        for column in range(entities.shape[1]):
            entity = entities[query, column]
            if entity < 0:
                continue
            at = 0
            while at < n and found[line, at] != entity:
                at += 1
            if at < n:
                after = 0
                while after < n_extra and extra[line, at, after] >= 0:
                    after += 1
                if after < n_extra:
                    extra[line, at, after] = rows[query, column]
            elif n < k:
                found[line, n], best[line, n], prototypes[line, n] = (
                    entity,
                    scores[query, column],
                    rows[query, column],
                )
                first[query, column] = True
                n += 1
            elif is_top[query, column]:
                first[query, column] = True

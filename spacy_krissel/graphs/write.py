"""Writers of nodes and edges as tables and JSON lines."""

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from ..util.escape import one_line
from .read import GRAPHML, LINES
from .records import Record, cell_text, is_empty


def edges_path(nodes: Path) -> Path:
    """Return the path of the edges of a graph whose nodes are written to `nodes`, as KGX names
    them: `kg_nodes.tsv` → `kg_edges.tsv`. GraphML is one file."""
    before, _, after = nodes.name.rpartition("nodes")
    return nodes if nodes.suffix == GRAPHML else nodes.with_name(f"{before}edges{after}")


def write_records(path: Path, ending: str, records: Iterable[Record], keys: Sequence[str]) -> None:
    """Write nodes or edges as a table or as JSON lines. keys: of all records."""
    with path.open("w", encoding="utf8", errors="backslashreplace", newline="") as file_:
        if ending == LINES:
            for record in records:
                filled = {key: value for key, value in record.items() if not is_empty(value)}
                file_.write(json.dumps(filled, ensure_ascii=False) + "\n")
            return
        rows = ([cell_text(record.get(key)) for key in keys] for record in records)
        if ending == ".csv":
            csv.writer(file_, lineterminator="\n").writerows(chain([keys], rows))
        else:
            # KGX quotes no cell.
            for row in chain([keys], rows):
                file_.write("\t".join(map(one_line, row)) + "\n")

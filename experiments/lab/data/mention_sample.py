"""Mined mentions for reading, as the paper's 85 % estimate of their accuracy was made (KRISSBERT
§3.1)."""

import csv
import io
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from spacy_krissel.mining.shards import MentionShards, MinedMention
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.escape import markdown_text, one_line
from spacy_krissel.util.settings import Count, PositiveInt, checked
from spacy_krissel.views import View, evidence

from ..errors import Errors, KrisselError

Format = Literal["text", "tsv", "markdown"]


@checked
def sample(
    mentions: str | Path,
    *,
    number: PositiveInt = 50,
    seed: Count = 0,
    format: Format = "text",
    ontology: str | Path | None = None,
) -> str:
    """Draw mined mentions to judge by eye how many are correct, as the paper estimated its 85 %
    (§3.1).

    mentions: mention shards
    number: number of mentions
    seed: random seed
    format: markdown has a column for the verdict
    ontology: ontology store, to print preferred names

    Raises KrisselError K001 to K004 (shards, store), K006 (a setting), K304 (fewer mentions).
    """
    drawn = sample_mentions(MentionShards(mentions), number, seed)
    store = None if ontology is None else OntologyStore(ontology)
    names = store and {mention.entity: store.get(mention.entity).name for mention in drawn}
    return format_mentions(drawn, format, names=names)


def sample_mentions(shards: MentionShards, n: int, seed: int = 0) -> list[MinedMention]:
    """A uniform random sample of `n` mentions without repetition, in drawn order.

    Raises KrisselError K304 when there are fewer than `n`.
    """
    if not 1 <= n <= len(shards):
        raise KrisselError(Errors.K304.format(found=n, available=len(shards), path=shards.path))
    return [shards[i] for i in random.Random(seed).sample(range(len(shards)), n)]


@checked
def format_mentions(
    mentions: Iterable[MinedMention],
    format: Format = "text",
    *,
    names: Mapping[str, str] | None = None,
    context_chars: int = 100,
) -> str:
    """The mentions as text for a reader, each marked in its context: `…left ⟦mention⟧ right…`.

    format: "text" (two lines a mention), "tsv" or "markdown" (a table with an empty column for the
        verdict).
    names: preferred names by entity id, shown in place of the name that was matched.

    Raises KrisselError K006 for another format.
    """
    rows = []
    for i, mention in enumerate(mentions, 1):
        name = (names or {}).get(mention.entity, mention.name)
        left = mention.left[max(0, len(mention.left) - context_chars) :]
        line = evidence(View(left, mention.mention, mention.right[:context_chars]))
        rows.append(
            [str(i), mention.entity, " ".join(name.split()), mention.doc, str(mention.start), line]
        )
    if format == "text":
        return "".join(
            f"{i}. {entity} {name} ({doc}:{start})\n   {line}\n"
            for i, entity, name, doc, start, line in rows
        )
    header = ["", "entity", "name", "text", "start", "mention", "right?"]
    if format == "tsv":
        out = io.StringIO()
        csv.writer(out, dialect="excel-tab", lineterminator="\n").writerows(
            [header, *([*map(tsv_cell, row), ""] for row in rows)]
        )
        return out.getvalue()
    table = [header, ["---"] * len(header), *([*row, ""] for row in rows)]
    return "".join("| " + " | ".join(markdown_text(cell) for cell in row) + " |\n" for row in table)


def tsv_cell(text: str) -> str:
    """`text` on one line without tabs; with a leading ' where a spreadsheet would compute it."""
    text = one_line(text)
    # At the start of a cell, spreadsheets take these for formulas.
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text

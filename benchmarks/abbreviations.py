"""Abbreviations: precision and recall of definitions against a gold standard, and their strategies.

    python benchmarks/abbreviations.py MED1250 [--learn abstracts.jsonl.gz]

MED1250 is in the format of Ab3P (Sohn et al., 2008): records parted by blank lines, each a PMID, a
title, an abstract, and a line `  short form|long form` for each pair that the text defines; lines
that begin with `//` are comments. Prints Markdown: this package's `find_definitions`, and the plain
Schwartz–Hearst of PyPI's `abbreviations` where it is installed.

Scoring: a document's distinct pairs of short form and long form, with case and white space folded,
are compared with its distinct gold pairs; precision, recall and F1 are over the pairs of all
documents. A short form counts with its first long form. Shortened genera ("E. coli") are left out:
the gold standard has none. The quarters are halves of the file by a hash of the PMID. Rules were
chosen on the first one.

With `--learn`, prints the table `alignment.PRECISIONS` as it follows from texts without labels, one
JSON object with `title` and `text` a line. A short form is aligned with the text before its own
bracket, and with the texts before other brackets. The second shows how often each strategy succeeds
by chance; the short forms that no strategy aligns show how many brackets define nothing. What is
left of a strategy's successes after those expected by chance is its pseudo-precision.
"""

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import typer

from spacy_krissel.mentions import abbreviations
from spacy_krissel.mentions.abbreviations import find_definitions, find_genera, is_short_form
from spacy_krissel.mentions.alignment import PRECISIONS, best_alignment, letters_of

Pair = tuple[str, str]
# Distance from a short form's own bracket to the others that it is aligned with, as fractions of
# all.
SHIFTS = (0.13, 0.29, 0.43, 0.59, 0.71)
# Added to the number of chance successes: a rare strategy is not certain.
PRIOR = 0.5
SIZES = (2, 3, 4, 5)


class Document(NamedTuple):
    """A title and abstract on two lines, and its gold pairs."""

    pmid: str
    text: str
    gold: frozenset[Pair]


class Score(NamedTuple):
    """Numbers of pairs."""

    correct: int
    found: int
    gold: int

    def row(self) -> str:
        precision, recall = self.correct / max(1, self.found), self.correct / max(1, self.gold)
        f1 = 2 * self.correct / max(1, self.found + self.gold)
        return f"{precision:.3f} | {recall:.3f} | {f1:.3f}"


def main(corpus: Path, learn: Path | None = None) -> None:
    """learn: texts without labels; prints the pseudo-precisions that follow from them instead."""
    if learn is not None:
        print(table_of(learned(read_texts(learn))))
        return
    documents = read_corpus(corpus)
    parts = {
        "first quarter": [document for document in documents if not quarter(document.pmid)],
        "second quarter": [document for document in documents if quarter(document.pmid)],
        "both": documents,
    }
    print("| system | part | documents | gold pairs | precision | recall | F1 |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, find in systems().items():
        for part, some in parts.items():
            result = score(find, some)
            print(f"| {name} | {part} | {len(some)} | {result.gold} | {result.row()} |")


def read_corpus(path: Path) -> list[Document]:
    documents = []
    for record in path.read_text(encoding="utf8").split("\n\n"):
        lines = [line for line in record.split("\n") if line.strip() and not line.startswith("//")]
        if not lines:
            continue
        text = [line for line in lines[1:] if not line.startswith("  ")]
        pairs = [line.split("|")[:2] for line in lines[1:] if line.startswith("  ")]
        gold = frozenset(folded(short, long) for short, long in pairs)
        documents.append(Document(lines[0].strip(), "\n".join(text), gold))
    return documents


def quarter(pmid: str) -> int:
    """Return 0 or 1, the same in every run."""
    return hashlib.sha256(pmid.encode()).digest()[0] % 2


def folded(short: str, long: str) -> Pair:
    return " ".join(short.lower().split()), " ".join(long.lower().split())


def systems() -> dict[str, Callable[[str], Iterable[Pair]]]:
    found: dict[str, Callable[[str], Iterable[Pair]]] = {"this package": own_pairs}
    try:
        peer = distribution("abbreviations").locate_file("abbreviations/schwartz_hearst.py")
    except PackageNotFoundError:
        return found
    # Imported by its file, since this script has the same name.
    spec = spec_from_file_location("schwartz_hearst", str(peer))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    extract = module.extract_abbreviation_definition_pairs
    found["`abbreviations`"] = lambda text: extract(doc_text=text, first_definition=True).items()
    return found


def own_pairs(text: str) -> list[Pair]:
    genera = find_genera(text)
    return [pair for pair in find_definitions(text).items() if pair[0] not in genera]


def score(find: Callable[[str], Iterable[Pair]], documents: Iterable[Document]) -> Score:
    correct = n_found = n_gold = 0
    for document in documents:
        found = {folded(short, long) for short, long in find(document.text)}
        correct += len(found & document.gold)
        n_found += len(found)
        n_gold += len(document.gold)
    return Score(correct, n_found, n_gold)


def read_texts(path: Path) -> Iterator[str]:
    opened = gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open()  # noqa: SIM115
    with opened as file:
        for line in file:
            entry = json.loads(line)
            yield f"{entry['title']}\n{entry['text']}"


def candidates(text: str) -> Iterator[Pair]:
    """Yield each bracket that holds a short form, alone or first, and the text before it."""
    for start, end, around in abbreviations._brackets(text):
        inside = abbreviations._trim(text, start + 1, end)
        short = abbreviations.PARTS.split(text[slice(*inside)], maxsplit=1)[0]
        first = max(around + 1, start - abbreviations.WINDOW, 0)
        if end - start <= abbreviations.WINDOW and text[first:start] and is_short_form(short):
            for match in abbreviations.SENTENCE_END.finditer(text, first, start):
                first = match.end()
            yield short, text[first:start]


def learned(texts: Iterable[str]) -> dict[str, list[float]]:
    """Return the pseudo-precision of each strategy by the number of letters, as in `SIZES`."""
    pairs = [pair for text in texts for pair in candidates(text) if len(letters_of(pair[0])) > 1]
    own = successes(pairs)
    chance: Counter[tuple[str, int]] = Counter()
    for shift in SHIFTS:
        distance = int(shift * len(pairs))
        others = [*pairs[distance:], *pairs[:distance]]
        mixed = zip(pairs, others, strict=True)
        chance += successes([(own_pair[0], other[1]) for own_pair, other in mixed])
    result: dict[str, list[float]] = {strategy: [] for strategy in PRECISIONS}
    for size in SIZES:
        # Brackets without a definition are aligned as often as with other texts.
        nothing = own["", size] / max(1, chance["", size] / len(SHIFTS))
        for strategy, row in result.items():
            by_chance = (chance[strategy, size] / len(SHIFTS) + PRIOR) * nothing
            n_own = own[strategy, size]
            row.append(max(0.0, 1 - by_chance / n_own) if n_own else 0.0)
    return result


def successes(pairs: Sequence[Pair]) -> Counter[tuple[str, int]]:
    """Return the number of short forms that each strategy aligns, "" for none, by number of
    letters."""
    counts: Counter[tuple[str, int]] = Counter()
    for short, text in pairs:
        alignment = best_alignment(short, text)
        n_letters = alignment.n_letters if alignment else len(letters_of(short))
        counts[alignment.strategy if alignment else "", min(n_letters, SIZES[-1])] += 1
    return counts


def table_of(precisions: dict[str, list[float]]) -> str:
    rows = [(name, ", ".join(f"{value:.2f}" for value in row)) for name, row in precisions.items()]
    return "\n".join(["PRECISIONS = {", *(f'    "{name}": ({row}),' for name, row in rows), "}"])


if __name__ == "__main__":
    typer.run(main)

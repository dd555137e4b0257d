"""The peers' side of `mining_rate.py`: spaCy's PhraseMatcher, FlashText, or Aho-Corasick in Rust or
C, given names and texts, one peer per run.

Runs in an environment that has the peer's package and typer; spacy_krissel is not imported.

    python matcher_peers.py ahocorasick_rs names.txt texts/
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def main(peer: str, names: str, texts: Path) -> None:
    """Add the names (one a line), match the texts (a folder of JSON lines), and print a JSON
    object."""
    with open(names, encoding="utf8") as file_:
        patterns = [line.rstrip("\n") for line in file_]
    read = []
    for path in sorted(texts.iterdir()):
        with path.open(encoding="utf8") as file_:
            read += [json.loads(line)["text"] for line in file_]
    n_names = len(patterns)
    start = time.perf_counter()
    make, package = PEERS[peer]
    match = make(patterns)
    del patterns
    built = time.perf_counter() - start
    start = time.perf_counter()
    found = match(read)
    seconds = time.perf_counter() - start
    n_bytes = sum(len(text.encode("utf8")) for text in read)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT
    result = {
        "names": n_names,
        "build_seconds": built,
        "mb_per_second": n_bytes / 1e6 / seconds,
        "mib": peak,
    }
    print(json.dumps({**result, "matches": found, "version": version(package)}))


def phrase_matcher(patterns: list[str]) -> Callable[[list[str]], int]:
    """Match by lower-cased tokens, as the documentation of PhraseMatcher advises for many names;
    texts are tokenized during iteration."""
    import spacy
    from spacy.matcher import PhraseMatcher

    nlp: Any = spacy.blank("en")
    matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
    for start in range(0, len(patterns), 10_000):
        matcher.add("NAME", list(nlp.tokenizer.pipe(patterns[start : start + 10_000])))
    return lambda texts: sum(len(matcher(doc)) for doc in nlp.tokenizer.pipe(texts))


def flashtext(patterns: list[str]) -> Callable[[list[str]], int]:
    from flashtext import KeywordProcessor

    processor: Any = KeywordProcessor()
    for name in patterns:
        processor.add_keyword(name)
    return lambda texts: sum(len(processor.extract_keywords(text)) for text in texts)


def ahocorasick_rust(patterns: list[str]) -> Callable[[list[str]], int]:
    """Match all overlapping names in lower case; keep those on word boundaries, the longest from
    left to right."""
    import ahocorasick_rs

    implementation = ahocorasick_rs.Implementation.ContiguousNFA
    automaton: Any = ahocorasick_rs.AhoCorasick(
        [name.lower() for name in patterns], implementation=implementation
    )

    def match(text: str) -> int:
        lower = text.lower()
        found = automaton.find_matches_as_indexes(lower, overlapping=True)
        return longest(lower, ((start, end) for _, start, end in found))

    return lambda texts: sum(map(match, texts))


def ahocorasick_c(patterns: list[str]) -> Callable[[list[str]], int]:
    """Match in the same way with pyahocorasick."""
    import ahocorasick

    automaton: Any = ahocorasick.Automaton()
    for name in patterns:
        automaton.add_word(name.lower(), len(name.lower()))
    automaton.make_automaton()

    def match(text: str) -> int:
        lower = text.lower()
        return longest(
            lower, ((last + 1 - length, last + 1) for last, length in automaton.iter(lower))
        )

    return lambda texts: sum(map(match, texts))


def longest(text: str, found: Iterable[tuple[int, int]]) -> int:
    """Count matches on word boundaries, the longest at each position, from left to right without
    overlap."""
    whole = [
        (start, -end)
        for start, end in found
        if not (start and text[start - 1].isalnum() and text[start].isalnum())
        and not (end < len(text) and text[end].isalnum() and text[end - 1].isalnum())
    ]
    count = last = 0
    for start, negative_end in sorted(whole):
        if start >= last:
            count, last = count + 1, -negative_end
    return count


PEERS: dict[str, tuple[Callable[[list[str]], Callable[[list[str]], int]], str]] = {
    "phrasematcher": (phrase_matcher, "spacy"),
    "flashtext": (flashtext, "flashtext"),
    "ahocorasick_rs": (ahocorasick_rust, "ahocorasick_rs"),
    "pyahocorasick": (ahocorasick_c, "pyahocorasick"),
}

if __name__ == "__main__":
    typer.run(main)

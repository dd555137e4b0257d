"""Confidence of links for English words, most of which are no name of an entity.

    python benchmarks/english_words.py PIPELINE [PIPELINE …] --text abstracts.jsonl.gz

Words are lower-case ASCII letters. Three sets, 1,000 each: the most common (spaCy's English stop
words, then the most frequent words of the text), a random sample of the text's other distinct
words, and made-up ones of 3 to 10 random letters. Each word is linked twice: as a document of its
own, and in "We saw WORD in them."

For each pipeline and set: words of which a candidate has a confidence of 0.9 or more; how many of
these candidates have the word as a name in canonical form, how many have a name that it is the
plural of or that has the same `spelling`, and how many have neither; words linked at the pipeline's
own `min_confidence`, and how many of these are no name of their entity. Ends with exit status 1 if
a candidate that has neither reaches 0.9.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Any

import typer
from spacy.lang.en.stop_words import STOP_WORDS
from spacy.language import Language
from spacy.tokens import Doc, Span
from wasabi import msg

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.mentions.annotations import CANDIDATES
from spacy_krissel.mentions.plurals import singulars
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.util.folding import spelling

CONFIDENT = 0.9
# Whole words: not "beta" of "beta-catenin" or "isn" of "isn't".
WORD = re.compile(r"(?<![\w'’-])[a-z]{2,}(?![\w'’-])")
# Words on each side of the mention.
CONTEXTS = (((), ()), (("We", "saw"), ("in", "them", ".")))
LENGTHS = range(3, 11)
NAME, VARIANT, NEITHER = "name", "variant", "neither"


def main(
    pipelines: Annotated[list[Path], typer.Argument(help="Pipelines with a confidence")],
    text: Annotated[
        Path, typer.Option(help="Text whose words are linked, as `krissel mine` reads it")
    ],
    words: Annotated[int, typer.Option(help="Words of each set")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the random words")] = 0,
) -> None:
    """Link the words by each pipeline, and list those with a high confidence that are no name."""
    texts = (each.text for each in read_texts(text, report=CorpusReport()))
    sets = word_sets(texts, words, seed)
    rows, wrong = [], []
    for path in pipelines:
        nlp = load_pipeline(path)
        for title, chosen in sets.items():
            counts: Counter[str] = Counter()
            for word, links, kinds in linked(nlp, chosen):
                counts.update(kinds.keys())
                counts["confident"] += bool(kinds)
                counts["linked"] += bool(links)
                counts["no name"] += NEITHER in links
                wrong += [
                    f"{path.name}: {word} ({title}), {each}" for each in kinds.get(NEITHER, ())
                ]
            found = ("confident", NAME, VARIANT, NEITHER, "linked", "no name")
            rows.append(
                (
                    path.name,
                    title,
                    *(f"{count:,}" for count in (len(chosen), *(counts[key] for key in found))),
                )
            )
    header = (
        "pipeline",
        "set",
        "words",
        f"≥ {CONFIDENT}",
        "a name",
        "plural or spelling",
        "neither",
        "linked",
        "linked, no name",
    )
    msg.table(rows, header=header, divider=True, aligns=("l", "l", *"rrrrrrr"))
    if wrong:
        msg.fail(f"{len(wrong)} words that are no name", "\n".join(wrong), exits=1)


def word_sets(texts: Iterable[str], n: int, seed: int) -> dict[str, list[str]]:
    """Return `n` words of each set by its title, without repetition. The text may have fewer."""
    counts = Counter(word for text in texts for word in WORD.findall(text))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    stop_words = sorted(filter(WORD.fullmatch, STOP_WORDS))
    common = list(dict.fromkeys([*stop_words, *frequent]))[:n]
    rest = sorted(counts.keys() - common)
    rng = random.Random(seed)
    chosen = rng.sample(rest, min(n, len(rest)))
    made_up: set[str] = set()
    while len(made_up) < n:
        made_up.add("".join(rng.choices(ascii_lowercase, k=rng.choice(LENGTHS))))
    return {"common": common, "random": chosen, "made up": sorted(made_up)}


def linked(
    nlp: Language, words: Sequence[str]
) -> Iterator[tuple[str, set[str], dict[str, set[str]]]]:
    """Link each word in each context.

    YIELDS: a word, the kinds of its links at the pipeline's `min_confidence`, and its confident
    candidates, described, by their kind: `NAME`, `VARIANT` or `NEITHER`.
    """
    linker = find_linker(nlp)
    lowest, linker.cfg["min_confidence"] = linker.cfg["min_confidence"], 0.0
    docs = (mention(nlp, word, *context) for word in words for context in CONTEXTS)
    with nlp.select_pipes(enable=[linker.name]):
        candidates = [doc.ents[0]._.get(CANDIDATES) for doc in nlp.pipe(docs)]
    linker.cfg["min_confidence"] = lowest
    for i, word in enumerate(words):
        of_word = candidates[i * len(CONTEXTS) : (i + 1) * len(CONTEXTS)]
        kinds: dict[str, set[str]] = {}
        for candidate in chain.from_iterable(of_word):
            if candidate["confidence"] >= CONFIDENT:
                kinds.setdefault(kind_of(linker.kb, candidate["id"], word), set()).add(
                    described(candidate)
                )
        best = [each[0] for each in of_word if each and each[0]["confidence"] >= lowest]
        yield word, {kind_of(linker.kb, each["id"], word) for each in best}, kinds


def mention(nlp: Language, word: str, left: Sequence[str], right: Sequence[str]) -> Doc:
    """Return a doc with the word as its only mention."""
    doc = Doc(nlp.vocab, words=[*left, word, *right])
    doc.set_ents([Span(doc, len(left), len(left) + 1, label="WORD")])
    return doc


def kind_of(kb: PrototypeKB, entity: str, word: str) -> str:
    """Return how the entity's names resemble the word."""
    prototypes = kb.prototypes_at(kb.prototype_rows(entity))
    names = [each.view.mention for each in prototypes if each.kind == "name"]
    form, forms = canonical_form(word), {*map(canonical_form, names)}
    if form in forms:
        return NAME
    is_plural = not forms.isdisjoint(singulars(form))
    return VARIANT if is_plural or spelling(word) in map(spelling, names) else NEITHER


def described(candidate: dict[str, Any]) -> str:
    return f"{candidate['confidence']:.2f} for {candidate['id']} ({candidate['name']})"


if __name__ == "__main__":
    typer.run(main)

"""Effect of corrections and rejections on a corpus with gold links.

    python benchmarks/corrections.py PIPELINE dev.spacy

Documents are divided into two halves at random. Each wrong link of the first half is corrected to
its gold entity, or to none if the knowledge base lacks it; or it is rejected, without the gold
entity. Prints the accuracy on the corrected mentions, whatever the threshold, and on the other
half, before and after: all mentions, those like a corrected one (of the same canonical form, as
written or with abbreviations expanded), and the number of other mentions whose link changed. Exits
with code 1 if a correction or rejection does not hold, if the other half got worse, if a link of an
unlike mention changed, or if links are not as before when all is undone.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_krissel.kb.verdicts import form_key
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULT = Path(__file__).parent / "results" / "corrections.json"
# What may not change the link of a corrected mention.
SETTINGS: dict[str, dict[str, Any]] = {
    "as built": {},
    "threshold": {"threshold": 1e6},
    "min_confidence": {"min_confidence": 1.0},
    "no lexical weight": {"lexical_weight": 0.0},
    "context": {"context": "none"},
    "candidates": {"n_candidates": 1},
    "weights": {"gold_prior": 1.0, "spelling_weight": 1.0, "coherence_weight": 1.0},
}


class Mention(NamedTuple):
    """A gold mention.

    forms: keys of its canonical forms, as written and with abbreviations expanded. gold: ids that
    the knowledge base has. link: the pipeline's.
    """

    doc: int
    index: int
    forms: frozenset[int]
    gold: tuple[str, ...]
    link: str

    @property
    def is_right(self) -> bool:
        return self.link in (self.gold or (NIL,))


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a linker")],
    gold: Annotated[Path, typer.Argument(help=".spacy file with gold mentions")],
    documents: Annotated[int, typer.Option(help="Number of documents, the first ones")] = 400,
    seeds: Annotated[int, typer.Option(help="Number of random divisions")] = 3,
    name: Annotated[str, typer.Option(help="Name of the result's row")] = "",
    output: Annotated[Path, typer.Option(help="Result (JSON), to which rows are added")] = RESULT,
) -> None:
    """Measure, and print the results."""
    bench = Bench(spacy.load(pipeline), gold, documents)
    rows = []
    for seed in range(seeds):
        for verdict in ("correction", "rejection"):
            row = {"name": name or gold.stem, "seed": seed, **bench.measured(verdict, seed)}
            rows.append(row)
            print(json.dumps(row))
    known = json.loads(output.read_text(encoding="utf8")) if output.exists() else []
    others = [each for each in known if each["name"] != rows[0]["name"]]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps([*others, *rows], indent=2) + "\n", encoding="utf8")
    failed = [row for row in rows if not holds(row)]
    if failed:
        sys.exit(f"{len(failed)} of {len(rows)} rows do not hold")


def holds(row: dict[str, Any]) -> bool:
    return (
        min(row["own"].values()) == row["verdicts"]
        and row["right_after"] >= row["right_before"]
        and not row["unlike_changed"]
        and row["undone_exactly"]
    )


class Bench:
    """Gold mentions of a corpus, and their links by a pipeline."""

    def __init__(self, nlp: Language, gold: Path, n: int) -> None:
        self.nlp, self.linker = nlp, find_linker(nlp)
        self.docs = [*DocBin(store_user_data=True).from_disk(gold).get_docs(nlp.vocab)][:n]
        kb = self.linker.kb
        self.forms = [
            [
                frozenset(map(form_key, (ent.text, view.mention)))
                for ent, view in zip(doc.ents, self.linker.views(doc, doc.ents), strict=True)
            ]
            for doc in self.docs
        ]
        self.gold = [
            [
                tuple(id_ for id_ in split_gold(ent.kb_id_, kb) if kb.resolve(id_))
                for ent in doc.ents
            ]
            for doc in self.docs
        ]

    def linked(self) -> list[list[Any]]:
        """Return all that the pipeline says of each mention, by document."""
        docs = [copied(doc) for doc in self.docs]
        with self.nlp.select_pipes(enable=[self.linker.name]):
            return [
                [
                    (ent.text, ent.kb_id_, ent._.krissel_candidates, [*ent._.krissel_ties])
                    for ent in doc.ents
                ]
                for doc in self.nlp.pipe(docs)
            ]

    def mentions(self, linked: Sequence[Sequence[Any]]) -> Iterator[Mention]:
        docs = zip(self.forms, self.gold, linked, strict=True)
        for number, (forms, gold, links) in enumerate(docs):
            mentions = zip(forms, gold, links, strict=True)
            for index, (own, ids, (_, link, *_)) in enumerate(mentions):
                yield Mention(number, index, own, ids, link)

    def measured(self, verdict: str, seed: int) -> dict[str, Any]:
        """Return counts for one division of the documents."""
        order = [*range(len(self.docs))]
        random.Random(seed).shuffle(order)
        half = {*order[: len(order) // 2]}
        first = self.linked()
        before = [*self.mentions(first)]
        wrong = [
            each
            for each in before
            if each.doc in half
            and not each.is_right
            # A wrong NIL has no entity to reject.
            and (verdict == "correction" or each.link != NIL)
        ]
        self.add(verdict, wrong)
        after = [*self.mentions(self.linked())]
        own = {}
        for name, settings in SETTINGS.items():
            saved = {key: self.linker.cfg[key] for key in settings}
            self.linker.configure(**settings)
            now = {each[:2]: each for each in self.mentions(self.linked())}
            own[name] = sum(stays(verdict, each, now[each[:2]]) for each in wrong)
            self.linker.configure(**saved)
        self.linker.kb.remove_verdicts(source="benchmark")
        forms = frozenset[int]().union(*(each.forms for each in wrong))
        others = [pair for pair in zip(before, after, strict=True) if pair[0].doc not in half]
        like = [pair for pair in others if pair[0].forms & forms]
        unlike = [pair for pair in others if not pair[0].forms & forms]
        return {
            "verdict": verdict,
            "verdicts": len(wrong),
            "own": own,
            "mentions": len(others),
            "right_before": sum(old.is_right for old, _ in others),
            "right_after": sum(new.is_right for _, new in others),
            "like": len(like),
            "like_before": sum(old.is_right for old, _ in like),
            "like_after": sum(new.is_right for _, new in like),
            "unlike_changed": sum(old != new for old, new in unlike),
            "undone_exactly": self.linked() == first,
        }

    def add(self, verdict: str, wrong: Sequence[Mention]) -> None:
        """Add the verdicts one by one, as a person would."""
        kb = self.linker.kb
        for each in wrong:
            ids = each.gold or (NIL,) if verdict == "correction" else (each.link,)
            doc = copied(self.docs[each.doc])
            ent = doc.ents[each.index]
            doc.set_ents([Span(doc, ent.start, ent.end, label=ent.label, kb_id="|".join(ids))])
            add = kb.add_corrections if verdict == "correction" else kb.add_rejections
            add(doc, source="benchmark")


def stays(verdict: str, wrong: Mention, now: Mention) -> bool:
    """Return whether the verdict on a wrong link holds."""
    return now.is_right if verdict == "correction" else now.link != wrong.link


def copied(doc: Doc) -> Doc:
    """Return a copy with the mentions, without their links."""
    copy = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        user_data={"krissel_id": doc.user_data.get("krissel_id", "")},
    )
    copy.set_ents([Span(copy, ent.start, ent.end, label=ent.label) for ent in doc.ents])
    return copy


if __name__ == "__main__":
    typer.run(main)

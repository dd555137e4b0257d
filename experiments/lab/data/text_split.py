"""Training and test sets of (text, entity) pairs with entities that training never sees (OSLAT,
section 5.1)."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_krissel.corpora.convert import blank_pipeline
from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.corpora.docs import ID_KEY, write_gold_mentions
from spacy_krissel.evaluation.tables import Row, markdown_table, percent
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.mentions.gold_mentions import document_entities, document_id, gold_mentions
from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.folding import fold_name
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.util.manifest import check_replaceable, new_directory
from spacy_krissel.util.settings import Count, Fraction

from ..errors import Errors, KrisselError
from .text_units import text_units

KIND = "text-level split"
VERSION = 1
REPORT = "report.json"
# Of the unseen entities, from the bins of high, medium and low frequency.
BIN_SHARES = (0.2, 0.4, 0.4)
BINS = ("high", "medium", "low")
PARTS = {"train": "training", "test_seen": "test, seen", "test_unseen": "test, unseen"}
# Above it, a bin would hold fewer entities than are to be drawn from it.
MAX_UNSEEN = 0.8
PathLike = str | Path
# Text and entity.
Pair = tuple[str, str]


class TextSplit(NamedTuple):
    """Test pairs, and entities that training never sees; every other pair is for training."""

    unseen: frozenset[str]
    test: frozenset[Pair]


def frequency_bins(frequencies: dict[str, int]) -> tuple[list[str], list[str], list[str]]:
    """Return the entities of high, medium and low frequency: thirds of them by number, equally
    frequent ones in order of id.

    The paper does not say where its bins end. If the number is not a multiple of three, the later
    ones are larger.
    """
    ordered = sorted(frequencies, key=lambda id_: (-frequencies[id_], id_))
    first, second = len(ordered) // 3, 2 * len(ordered) // 3
    return ordered[:first], ordered[first:second], ordered[second:]


def split_pairs(
    pairs: Iterable[Pair],
    *,
    unseen: float = 0.1,
    test: float = 0.1,
    min_train: int = 5,
    seed: int = 0,
) -> TextSplit:
    """Divide (text, entity) pairs as the paper does, by seeded hashes: in whatever order the pairs
    come.

    unseen: share of the entities, to the nearest, that training never sees: 20 % of them from the
        third of the entities that most texts speak of, 40 % each from the next and the last
        (`frequency_bins`). All of their pairs are for the test.
    test: share of the pairs of each seen entity, to the nearest, for the test.
    min_train: pairs that training keeps of each seen entity before any goes to the test: all, where
        there are no more.
    Raises KrisselError K006 for a share outside its range or a negative number.
    """
    _check(
        "unseen", unseen, 0 <= unseen <= MAX_UNSEEN, f"a share of the entities in [0, {MAX_UNSEEN}]"
    )
    _check("test", test, 0 <= test < 1, "a share of the pairs in [0, 1)")
    _check("min_train", min_train, min_train >= 0, "a number of pairs, 0 or more")
    texts: dict[str, set[str]] = {}
    for text, entity in pairs:
        texts.setdefault(entity, set()).add(text)
    unseen_entities: set[str] = set()
    bins = frequency_bins({entity: len(found) for entity, found in texts.items()})
    for entities, number in zip(bins, _shares(_nearest(unseen * len(texts))), strict=True):
        unseen_entities.update(
            sorted(entities, key=lambda id_: (stable_hash(seed, "unseen", id_), id_))[:number]
        )
    chosen: set[Pair] = set()
    for entity, found in texts.items():
        number = len(found)
        if entity not in unseen_entities:
            number = min(_nearest(test * len(found)), max(0, len(found) - min_train))
        ordered = sorted(found, key=lambda text: (stable_hash(seed, "test", entity, text), text))
        chosen.update((text, entity) for text in ordered[:number])
    return TextSplit(frozenset(unseen_entities), frozenset(chosen))


def text_split(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    unit: Literal["doc", "sentence", "line"] = "doc",
    unseen: Fraction = 0.1,
    test: Fraction = 0.1,
    min_train: Count = 5,
    seed: Count = 0,
    lang: str = "en",
) -> dict[str, Any]:
    """Build the training and test sets of OSLAT: 10 % of the entities unseen, and no span in the
    training set.

    Docs without labels and without gold mentions are left out. Texts are identified by their words
    (`fold_name`): a repeated pair is left out, so that no text is in both sets with the same
    entity. It may be in both with different ones, as in the paper.

    inputs: .spacy files, or folders of them: `doc.cats`, or for docs without them the concepts of
        their gold mentions
    output: folder for `train.spacy` (docs with `cats` of their training pairs and nothing else,
        tokenised again, since tokens cut at mentions would give these away), `test.spacy` (`cats`
        of the test pairs and the gold mentions of those entities) and `report.json`
    unit: what a text is, see `text_units`
    unseen: fraction of the entities that training never sees, see `split_pairs`
    test: fraction of each seen entity's texts in the test set
    min_train: number of texts that training keeps of each seen entity first
    seed: random seed
    lang: language of the training set's tokenizer

    RETURNS: the report, with the counts of the paper's Table 2: `train`, `test_seen` and
        `test_unseen`, each with `texts`, `entities`, `pairs`, `with_spans`, `disjoint` (pairs with
        a mention in several fragments) and `disjoint_share` (of those with spans, None without
        any); `bins`, the entities and how many are unseen; `texts`, `entities`, `pairs`,
        `repeated_pairs`, `unlabelled` (texts) and the settings.
    Raises KrisselError K005 (output), K006 (settings), K201, K212 (inputs), K233 (fewer than two
    entities).
    """
    paths = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if not paths:
        raise KrisselError(
            Errors.K006.format(setting="inputs", found=paths, expected="at least one file")
        )
    check_replaceable(Path(output), KIND)
    vocab = Vocab()
    docs: list[tuple[Doc, tuple[str, ...]]] = []
    known: set[Pair] = set()
    counts: Counter = Counter()
    for path in paths:
        for doc in (part for each in read_doc_bins(path, vocab) for part in text_units(each, unit)):
            entities = document_entities(doc)
            new = tuple(id_ for id_ in entities if (_text_key(doc), id_) not in known)
            known.update((_text_key(doc), id_) for id_ in new)
            counts["unlabelled"] += not entities
            counts["repeated_pairs"] += len(entities) - len(new)
            if new:
                docs.append((doc, new))
    n_entities = len({entity for _, entity in known})
    if n_entities < 2:
        path = ", ".join(map(str, paths))
        raise KrisselError(Errors.K233.format(path=path, texts=len(docs), entities=n_entities))
    split = split_pairs(known, unseen=unseen, test=test, min_train=min_train, seed=seed)
    report: dict[str, Any] = {
        "settings": {
            "unit": unit,
            "unseen": unseen,
            "test": test,
            "min_train": min_train,
            "seed": seed,
        },
        "texts": len({text for text, _ in known}),
        "entities": n_entities,
        "pairs": len(known),
        **{key: counts[key] for key in ("repeated_pairs", "unlabelled")},
        "bins": _bin_report(known, split.unseen),
    }
    train_docs, test_docs = [], []
    parts = {"train": _Part(), "test_seen": _Part(), "test_unseen": _Part()}
    tokenizer = blank_pipeline(lang).tokenizer
    for doc, entities in docs:
        text = _text_key(doc)
        tested = [id_ for id_ in entities if (text, id_) in split.test]
        trained = [id_ for id_ in entities if (text, id_) not in split.test]
        mentions = _by_entity(doc)
        for part, ids in (
            ("train", trained),
            ("test_seen", [id_ for id_ in tested if id_ not in split.unseen]),
            ("test_unseen", [id_ for id_ in tested if id_ in split.unseen]),
        ):
            parts[part].add(text, ids, mentions)
        if trained:
            train_docs.append(_labelled(tokenizer(doc.text), doc, trained))
        if tested:
            copy = Doc(
                doc.vocab,
                words=[token.text for token in doc],
                spaces=[bool(t.whitespace_) for t in doc],
            )
            write_gold_mentions(
                copy, (mention for id_ in tested for mention in mentions.get(id_, ()))
            )
            test_docs.append(_labelled(copy, doc, tested))
    report.update({name: part.to_dict() for name, part in parts.items()})
    with new_directory(output, KIND, VERSION) as writer:
        write_doc_bin(train_docs, writer.path / "train.spacy")
        write_doc_bin(test_docs, writer.path / "test.spacy")
        lines = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        write_text(writer.path / REPORT, lines)
        writer.info.update(report)
    return report


def show_text_split(report: dict[str, Any], output: PathLike) -> str:
    counts = f"{report['pairs']:,} pairs of {report['texts']:,} texts and {report['entities']:,}"
    return (
        f"{counts} entities\n\n{markdown_table(_bin_rows(report))}\n\n"
        f"{markdown_table(_part_rows(report))}\n\n"
        f"Split: {output}/train.spacy, test.spacy, report.json"
    )


def _bin_rows(report: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("frequency", "texts", "entities", "unseen")]
    for name, figures in report["bins"].items():
        texts = f"{figures['fewest_texts']:,}–{figures['most_texts']:,}"
        rows.append((name, texts, f"{figures['entities']:,}", f"{figures['unseen']:,}"))
    return rows


def _part_rows(report: dict[str, Any]) -> list[Row]:
    """Return the paper's Table 2."""
    keys = ("texts", "entities", "pairs", "with_spans", "disjoint")
    rows: list[Row] = [("part", *(key.replace("_", " ") for key in keys), "disjoint %")]
    for key, title in PARTS.items():
        figures = report[key]
        numbers = (f"{figures[name]:,}" for name in keys)
        rows.append((title, *numbers, percent(figures["disjoint_share"])))
    return rows


class _Part:
    """The counts of one part of the paper's Table 2."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.entities: set[str] = set()
        self.counts: Counter = Counter()

    def add(
        self, text: str, entities: Sequence[str], mentions: dict[str, list[DocMention]]
    ) -> None:
        self.texts.update([text] if entities else ())
        self.entities.update(entities)
        for entity in entities:
            self.counts["pairs"] += 1
            self.counts["with_spans"] += entity in mentions
            self.counts["disjoint"] += any(
                mention.is_discontinuous for mention in mentions.get(entity, ())
            )

    def to_dict(self) -> dict[str, Any]:
        n_spans = self.counts["with_spans"]
        return {
            "texts": len(self.texts),
            "entities": len(self.entities),
            **{key: self.counts[key] for key in ("pairs", "with_spans", "disjoint")},
            "disjoint_share": self.counts["disjoint"] / n_spans if n_spans else None,
        }


def _bin_report(pairs: Iterable[Pair], unseen: frozenset[str]) -> dict[str, dict[str, int]]:
    frequencies = Counter(entity for _, entity in pairs)
    return {
        name: {
            "entities": len(entities),
            "unseen": len(unseen.intersection(entities)),
            "most_texts": max((frequencies[id_] for id_ in entities), default=0),
            "fewest_texts": min((frequencies[id_] for id_ in entities), default=0),
        }
        for name, entities in zip(BINS, frequency_bins(frequencies), strict=True)
    }


def _by_entity(doc: Doc) -> dict[str, list[DocMention]]:
    """The gold mentions of each concept; of a composite, one for each of its concepts."""
    found: dict[str, list[DocMention]] = {}
    for mention in gold_mentions(doc):
        for concept in split_ids(mention.kb_id):
            found.setdefault(concept, []).append(mention._replace(kb_id=concept))
    return found


def _labelled(doc: Doc, source: Doc, entities: Sequence[str]) -> Doc:
    doc.cats = dict.fromkeys(entities, 1.0)
    doc.user_data[ID_KEY] = document_id(source)
    return doc


def _text_key(doc: Doc) -> str:
    return fold_name(doc.text)


def _shares(number: int) -> list[int]:
    """`number` in the shares of the bins, by largest remainder; of equal remainders the later
    bin's."""
    exact = [share * number for share in BIN_SHARES]
    found = [int(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda i: (round(found[i] - exact[i], 9), -i))
    for i in order[: number - sum(found)]:
        found[i] += 1
    return found


def _nearest(value: float) -> int:
    return int(value + 0.5)


def _check(setting: str, found: Any, right: bool, expected: str) -> None:
    if not right:
        raise KrisselError(Errors.K006.format(setting=setting, found=found, expected=expected))

"""Splits of a gold corpus that share no entity: what is tested was never trained (PEL, section
3)."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.evaluation.tables import Row, markdown_table
from spacy_krissel.mentions.gold_ids import Resolver, is_nil
from spacy_krissel.mentions.gold_mentions import document_id, gold_spans, split_gold
from spacy_krissel.ontology.entity import canonical_id
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.util.manifest import check_replaceable, new_directory
from spacy_krissel.util.settings import Count

from ..errors import Errors, KrisselError
from .relink import relink

KIND = "zero-shot splits"
VERSION = 1
REPORT = "report.json"
SPLITS = ("train", "dev", "test")
SHARES = (0.8, 0.1, 0.1)
PathLike = str | Path


class ZeroShot:
    """Split of a document or an entity, by seeded hashes: the same in any order of calls.

    shares: fractions of the documents and of the entities, for "train", "dev" and "test".
    ontology: entities are identified by its primary ids; without one by their ids in one spelling
        (`canonical_id`).
    Raises KrisselError K006 for fractions that are not three, are below 0 or do not add up to 1.
    """

    def __init__(
        self, shares: Sequence[float] = SHARES, seed: int = 0, ontology: Resolver | None = None
    ) -> None:
        if (
            len(shares) != len(SPLITS)
            or not all(0 <= share <= 1 for share in shares)
            or abs(sum(shares) - 1) > 1e-6
        ):
            expected = "three shares in [0, 1] that add up to 1, for train, dev and test"
            raise KrisselError(
                Errors.K006.format(setting="shares", found=list(shares), expected=expected)
            )
        self.shares = tuple(map(float, shares))
        self.seed = seed
        self._resolver: Resolver = _Spellings() if ontology is None else ontology

    def document(self, doc: Doc) -> str:
        return self._split("document", document_id(doc))

    def entity(self, id: str) -> str:
        return self._split("entity", id)

    def entities(self, kb_id: str) -> tuple[str, ...]:
        """Return the entities of a gold id, several for a composite; none for NIL and for a mention
        without an id."""
        return split_gold(kb_id, self._resolver)

    def kept(self, kb_id: str, split: str) -> bool:
        """Return whether a mention keeps its id in a document of `split`: all of its entities
        belong there."""
        return all(self.entity(id_) == split for id_ in self.entities(kb_id))

    def _split(self, kind: str, name: str) -> str:
        draw = stable_hash(self.seed, kind, name) / 2**64
        limit = 0.0
        for split, share in zip(SPLITS, self.shares, strict=True):
            limit += share
            if share and draw < limit:
                return split
        # What rounding left above the last limit.
        return [split for split, share in zip(SPLITS, self.shares, strict=True) if share][-1]


class _Spellings:
    """Every id is known, and primary in its canonical spelling."""

    def resolve(self, id: str) -> str | None:
        # A composite is none: its parts are asked for next.
        return None if "|" in id or "+" in id else canonical_id(id)


def zero_shot(
    gold: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    shares: Sequence[float] = SHARES,
    seed: Count = 0,
    ontology: OntologyStore | PathLike | None = None,
    spans_key: str = "",
) -> dict[str, Any]:
    """Divide a gold corpus by documents and by entities, so that no entity is linked in two splits.

    In a document of one split the mentions of entities of another lose their link: they are neither
    trained nor counted. A composite mention keeps its link if all of its entities are of the split.
    So of the mentions about the sum of the squared shares is kept, and of those of a split about
    its share: with a tenth for "dev", one in a hundred of all mentions is there. NIL mentions stay,
    for NIL is no entity.

    gold: .spacy files, or folders of them; documents with a repeated id are left out
    output: folder for `train.spacy`, `dev.spacy`, `test.spacy` (each with a share above 0) and
        `report.json`
    shares: fractions of the documents and of the entities, three times: for train, dev and test
    seed: random seed
    ontology: ontology store: entities by primary ids; an unknown id is an entity by itself
    spans_key: mentions in `doc.spans[spans_key]` are counted, see `gold_spans`; all are rewritten

    RETURNS: the report: `shares`, `seed`, `duplicate_documents`, and `splits` by name with
        `documents`, linked mentions `kept` and `lost`, `nil`, and the number of distinct
        `entities`.
    Raises KrisselError K001 to K004 (store), K005 (output), K006 (shares), K201, K212 (gold), K223
    (a split is left without a linked mention).
    """
    check_replaceable(Path(output), KIND)
    store = OntologyStore(ontology) if isinstance(ontology, (str, Path)) else ontology
    part = ZeroShot(shares, seed, store)
    paths = [gold] if isinstance(gold, (str, Path)) else list(gold)
    if not paths:
        raise KrisselError(
            Errors.K006.format(setting="gold", found=paths, expected="at least one file")
        )
    docs: dict[str, list[Doc]] = {split: [] for split in SPLITS}
    counts: dict[str, Counter] = {split: Counter() for split in SPLITS}
    entities: dict[str, set[str]] = {split: set() for split in SPLITS}
    seen: set[str] = set()
    n_duplicates = 0
    vocab = Vocab()
    for path in paths:
        for doc in read_doc_bins(path, vocab):
            if document_id(doc) in seen:
                n_duplicates += 1
                continue
            seen.add(document_id(doc))
            split = part.document(doc)
            _count(doc, part, split, spans_key, counts[split], entities[split])
            relink(doc, partial(_relinked, part=part, split=split))
            docs[split].append(doc)
    used = [split for split, share in zip(SPLITS, part.shares, strict=True) if share]
    for split in used:
        if not counts[split]["kept"]:
            found = (
                f"{counts[split]['documents']} document(s), {counts[split]['lost']} link(s) of "
                "other splits"
            )
            raise KrisselError(Errors.K223.format(split=split, found=found))
    report = {
        "shares": list(part.shares),
        "seed": seed,
        "duplicate_documents": n_duplicates,
        "splits": {
            split: {
                **{key: counts[split][key] for key in ("documents", "kept", "lost", "nil")},
                "entities": len(entities[split]),
            }
            for split in used
        },
    }
    with new_directory(output, KIND, VERSION) as writer:
        for split in used:
            write_doc_bin(docs[split], writer.path / f"{split}.spacy")
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        write_text(writer.path / REPORT, text)
        writer.info.update(report)
    return report


def show_zero_shot(report: dict[str, Any], output: PathLike) -> str:
    rows: list[Row] = [("split", "documents", "links kept", "lost", "NIL", "entities")]
    for split, figures in report["splits"].items():
        numbers = (figures[key] for key in ("documents", "kept", "lost", "nil", "entities"))
        rows.append((split, *(f"{number:,}" for number in numbers)))
    n_duplicates = report["duplicate_documents"]
    repeated = f"{n_duplicates} documents left out, read before\n" if n_duplicates else ""
    return f"{markdown_table(rows)}\n{repeated}Splits: {output}"


def _relinked(kb_id: str, part: ZeroShot, split: str) -> str:
    return kb_id if part.kept(kb_id, split) else ""


def _count(
    doc: Doc, part: ZeroShot, split: str, spans_key: str, counts: Counter, entities: set[str]
) -> None:
    counts["documents"] += 1
    for span in gold_spans(doc, spans_key):
        ids = part.entities(span.kb_id_)
        if ids:
            kept = part.kept(span.kb_id_, split)
            counts["kept" if kept else "lost"] += 1
            entities.update(ids if kept else ())
        counts["nil"] += is_nil(span.kb_id_)

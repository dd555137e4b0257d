"""A benchmark of mentions whose entities are out of the knowledge base (PEL, appendix D)."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_krissel.corpora.doc_bins import read_doc_bins, write_doc_bin
from spacy_krissel.evaluation.tables import Row, markdown_table, percent
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_ids import NIL_MARKS, is_nil, split_ids
from spacy_krissel.mentions.gold_mentions import gold_spans, primary_id, split_gold
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.ontology.tree_numbers import MESH_TREES, is_in_tree, tree_parts
from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.folding import fold_name
from spacy_krissel.util.manifest import check_replaceable, new_directory

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..named_paths import named_paths
from .relink import relink
from .semantic_types import preset_types, type_key, type_keys

KIND = "out-of-KB benchmark"
VERSION = 1
ONTOLOGY = "ontology"
REPORT = "report.json"
TRAIN = "train"
# What may name a file beside the others.
SPLIT_NAME = re.compile(r"\w[\w.-]*")
PathLike = str | Path


class LinkedMention(NamedTuple):
    """A gold mention with its primary ids and its folded text. `removed`: it lost its entities and
    became NIL."""

    entities: tuple[str, ...]
    form: str
    removed: bool = False


def out_of_kb(
    ontology: OntologyStore | PathLike,
    gold: Mapping[str, PathLike] | Sequence[str],
    output: PathLike,
    *,
    types: Sequence[str] = (),
    trees: Sequence[str] = (),
    preset: Literal["pel"] | None = None,
    spans_key: str = "",
    progress: bool = False,
) -> dict[str, Any]:
    """Take entities out of an ontology, and make their gold mentions NIL (PEL, appendix D).

    A composite mention becomes NIL if all of its ids that the full ontology knows are removed, and
    otherwise loses the removed ones. An id that the full ontology does not know stays as it is,
    unless it is part of such a composite.

    ontology: store of the full ontology
    gold: name=path of a split's .spacy file, or of a folder of them; the others are compared with
        "train"
    output: folder for the reduced store, `<split>.spacy` and `report.json`; an earlier benchmark
        there is replaced when all of the new one is written
    types: remove entities of this semantic type, by name or id (`semantic_types`), but not of types
        below it in UMLS's semantic network
    trees: remove entities with a tree number in this sub-tree (`ontology.trees.is_in_tree`), also
        those that are elsewhere in the hierarchy too: a linker must not know the sub-tree's
        entities. MeSH's files leave out the numbers of roots: the entity named as the root of a
        removed tree (`ontology.tree_types.MESH_TREES`) is removed with it
    preset: remove a named set of types: pel (the paper's 11)
    spans_key: mentions in `doc.spans[spans_key]` are counted, see `gold_spans`; all are rewritten

    RETURNS: the report, with the figures of PEL's Table 7 and of the safeguards of its appendix D:
        `removed`; `splits` by name, each with `documents`, the numbers of mentions that are not
        counted (`nil_before`, `unknown`, `without_id`, of which `unknown` ones name no entity of
        the full ontology) and the `split_figures` of `all` mentions and of `nil`, those that lost
        their entities; `references` with the `reference_lengths` of the removed and of all
        entities, in the `ontology` and among the `mentioned`.
    Warns KW221 (a type or tree without any entity), KW222 (no mention lost its entity). Raises
    KrisselError K001 to K004 (store), K005 (output), K006 (no or a wrong name of a split), K201,
    K212 (gold), K221 (nothing is removed), K222 (everything is).
    """
    check_replaceable(Path(output), KIND)
    store = ontology if isinstance(ontology, OntologyStore) else OntologyStore(ontology)
    gold = named_paths("gold", gold)
    _check_names(gold)
    types = [*(preset_types(preset) if preset else ()), *types]
    removed = removed_entities(store, types=types, trees=trees)
    said: dict[str, list[LinkedMention]] = {}
    counts: dict[str, Counter] = {name: Counter() for name in gold}
    with new_directory(output, KIND, VERSION) as writer:
        for name, path in gold.items():
            said[name] = []
            docs = _rewritten(path, store, removed, spans_key, said[name], counts[name])
            write_doc_bin(docs, writer.path / f"{name}.spacy")
        if not any(mention.removed for mentions in said.values() for mention in mentions):
            message = Warnings.KW222.format(n=sum(map(len, said.values())), splits=", ".join(gold))
            warnings.warn(message, KrisselWarning, stacklevel=2)
        report = {
            "removed": {
                "types": list(types),
                "trees": list(trees),
                "entities": len(removed),
                "of": len(store),
            },
            "splits": _splits(said, counts),
            "references": _references(store, removed, said),
        }
        info = {
            "sources": [store.path.name],
            "removed": report["removed"],
            "of": store.manifest.get("info", {}),
        }
        rest = (entity for entity in store if entity.id not in removed)
        write_store(rest, writer.path / ONTOLOGY, info=info, progress=progress)
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        write_text(writer.path / REPORT, text)
        writer.info.update(removed=report["removed"], splits=list(gold))
    return report


def show_out_of_kb(report: dict[str, Any], output: PathLike) -> str:
    removed = report["removed"]
    files = [f"{output}/{ONTOLOGY}", *(f"{name}.spacy" for name in report["splits"]), REPORT]
    return (
        f"{removed['entities']} of {removed['of']} entities removed\n\n"
        f"{markdown_table(_split_rows(report))}\n\n{markdown_table(_reference_rows(report))}\n\n"
        f"Benchmark: {', '.join(files)}"
    )


def _split_rows(report: dict[str, Any]) -> list[Row]:
    """Return PEL's Table 7, with the same figures for all mentions."""
    shares = ("entities_seen", "mentions_seen", "forms_seen", "mentions_of_seen_forms")
    names = (key.replace("_", " ") + " %" for key in shares)
    rows: list[Row] = [("split", "of", "mentions", "entities", *names)]
    for split, figures in report["splits"].items():
        for kind, title in (("nil", "NIL"), ("all", "all")):
            part = figures[kind]
            counts = (f"{part['mentions']:,}", f"{part['entities']:,}")
            rows.append((split, title, *counts, *(percent(part[key]) for key in shares)))
    return rows


def _reference_rows(report: dict[str, Any]) -> list[Row]:
    means = ("names", "name_words", "name_characters", "definition_words", "definition_characters")
    rows: list[Row] = [("references", "entities", *(key.replace("_", " ") for key in means))]
    for group, parts in report["references"].items():
        for kind, figures in parts.items():
            values = ("–" if figures[key] is None else f"{figures[key]:.1f}" for key in means)
            rows.append((f"{kind} ({group})", f"{figures['entities']:,}", *values))
    return rows


def removed_entities(
    store: OntologyStore, *, types: Sequence[str] = (), trees: Sequence[str] = ()
) -> set[str]:
    """The primary ids of the entities with one of `types`, or with any tree number in one of
    `trees`, the roots too.

    Warns KW221 of types and trees that no entity has. Raises KrisselError K221 when none is found,
    K222 when all are.
    """
    wanted = type_keys(types)
    unused_types, unused_trees = dict(wanted), {tree: tree_parts(tree) for tree in trees}
    roots = {fold_name(name): number for number, name in MESH_TREES.items()}
    removed: set[str] = set()
    for entity in store:
        keys = wanted.keys() & {type_key(type_) for type_ in entity.types}
        numbers = entity.tree_numbers or tuple(filter(None, [roots.get(fold_name(entity.name))]))
        within = [tree for tree in trees if any(is_in_tree(number, tree) for number in numbers)]
        if keys or within:
            removed.add(entity.id)
        for key in keys:
            unused_types.pop(key, None)
        for tree in within:
            unused_trees.pop(tree, None)
    asked = ", ".join(map(repr, (*types, *trees))) or "none given"
    if not removed:
        raise KrisselError(Errors.K221.format(path=store.path, asked=asked))
    if len(removed) == len(store):
        raise KrisselError(Errors.K222.format(path=store.path, n=len(store), asked=asked))
    unused = [*unused_types.values(), *unused_trees]
    if unused:
        message = Warnings.KW221.format(unused=", ".join(map(repr, unused)), path=store.path)
        warnings.warn(message, KrisselWarning, stacklevel=3)
    return removed


def without_removed(kb_id: str, store: OntologyStore, removed: Collection[str]) -> str:
    """A gold id without the entities of `removed` (primary ids of `store`), or NIL when no other
    known one is left."""

    def is_removed(id_: str) -> bool:
        return store.resolve(primary_id(id_, store)) in removed

    if is_nil(kb_id) or not kb_id.strip():
        return kb_id
    # The whole first: an id may hold one of the joints of composites.
    if store.resolve(whole := primary_id(kb_id.strip(), store)) is not None:
        return NIL if is_removed(whole) else kb_id
    known = [id_ for id_ in split_ids(kb_id) if store.resolve(primary_id(id_, store)) is not None]
    n_removed = sum(map(is_removed, known))
    if not n_removed:
        return kb_id
    return NIL if n_removed == len(known) else drop_ids(kb_id, is_removed)


def _check_names(gold: Mapping[str, PathLike]) -> None:
    if not gold:
        raise KrisselError(
            Errors.K006.format(setting="gold", found=dict(gold), expected="at least one split")
        )
    for name in gold:
        if not SPLIT_NAME.fullmatch(name):
            expected = "the name of a split, of letters, digits, dots and dashes"
            raise KrisselError(Errors.K006.format(setting="gold", found=name, expected=expected))


def _rewritten(
    path: PathLike,
    store: OntologyStore,
    removed: Collection[str],
    spans_key: str,
    said: list[LinkedMention],
    counts: Counter,
) -> Iterator[Doc]:
    """The documents of a split with their new ids; what they said before is added to `said` and
    `counts`."""
    for doc in read_doc_bins(path, Vocab()):
        counts["documents"] += 1
        for span in gold_spans(doc, spans_key):
            ids = split_gold(span.kb_id_, store)
            known = tuple(id_ for id_ in ids if store.resolve(id_) is not None)
            if known:
                became_nil = without_removed(span.kb_id_, store, removed) == NIL
                said.append(LinkedMention(known, fold_name(span.text), became_nil))
            else:
                counts[
                    "unknown" if ids else "nil_before" if is_nil(span.kb_id_) else "without_id"
                ] += 1
        relink(doc, lambda kb_id: without_removed(kb_id, store, removed))
        yield doc


def _splits(
    said: Mapping[str, list[LinkedMention]], counts: Mapping[str, Counter]
) -> dict[str, Any]:
    train = said.get(TRAIN)
    return {
        name: {
            **{
                key: counts[name][key]
                for key in ("documents", "nil_before", "unknown", "without_id")
            },
            "all": split_figures(mentions, train),
            "nil": split_figures([mention for mention in mentions if mention.removed], train),
        }
        for name, mentions in said.items()
    }


def split_figures(
    mentions: list[LinkedMention], train: list[LinkedMention] | None
) -> dict[str, Any]:
    """RETURNS: `mentions`, `entities`, `forms` (distinct); `entities_seen`, `mentions_seen`,
    `forms_seen` and `mentions_of_seen_forms`, the fractions that `train` has (None without a
    training split, or without mentions)."""
    entities = {entity for mention in mentions for entity in mention.entities}
    forms = {mention.form for mention in mentions}
    counts = {"mentions": len(mentions), "entities": len(entities), "forms": len(forms)}
    seen = ("entities_seen", "mentions_seen", "forms_seen", "mentions_of_seen_forms")
    if train is None:
        return {**counts, **dict.fromkeys(seen)}
    known = {entity for mention in train for entity in mention.entities}
    known_forms = {mention.form for mention in train}
    n_seen = sum(not known.isdisjoint(mention.entities) for mention in mentions)
    n_forms = sum(mention.form in known_forms for mention in mentions)
    pairs = (
        (len(entities & known), len(entities)),
        (n_seen, len(mentions)),
        (len(forms & known_forms), len(forms)),
        (n_forms, len(mentions)),
    )
    return {**counts, **{key: mean(*pair) for key, pair in zip(seen, pairs, strict=True)}}


def _references(
    store: OntologyStore, removed: Collection[str], said: Mapping[str, list[LinkedMention]]
) -> dict[str, Any]:
    mentioned = {
        entity for mentions in said.values() for mention in mentions for entity in mention.entities
    }
    return {
        "ontology": _lengths(store, removed),
        "mentioned": _lengths((store.get(entity) for entity in sorted(mentioned)), removed),
    }


def _lengths(entities: Iterable[Entity], removed: Collection[str]) -> dict[str, Any]:
    every = list(entities)
    return {
        "removed": reference_lengths([entity for entity in every if entity.id in removed]),
        "all": reference_lengths(every),
    }


def reference_lengths(entities: list[Entity]) -> dict[str, Any]:
    """Number of `entities`, `names` per entity, words and characters per name, the fraction
    `defined`, words and characters per definition; None for a mean of nothing."""
    names = [name for entity in entities for name in entity.names]
    definitions = [text for entity in entities if (text := entity.definition.strip())]
    found = {
        "entities": len(entities),
        "names": mean(len(names), len(entities)),
        "defined": mean(len(definitions), len(entities)),
    }
    for kind, texts in (("name", names), ("definition", definitions)):
        found[f"{kind}_words"] = mean(sum(len(text.split()) for text in texts), len(texts))
        found[f"{kind}_characters"] = mean(sum(map(len, texts)), len(texts))
    return found


def mean(total: float, number: int) -> float | None:
    return total / number if number else None


def drop_ids(kb_id: str, dropped: Callable[[str], bool]) -> str:
    """`kb_id` without the concepts that are `dropped` and the joint before each; the others stay as
    written."""
    kept = ""
    joint = ""
    for i, part in enumerate(map(str.strip, re.split("([|+])", kb_id))):
        if i % 2:
            joint = part
        elif part in NIL_MARKS or not dropped(part):
            kept += f"{joint}{part}" if kept else part
    return kept

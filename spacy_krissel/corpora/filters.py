"""Filters of annotated texts by id, label and semantic type, and normalization of gold ids."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

from ..errors import KrisselWarning, Warnings
from ..mentions.annotations import NIL
from ..mentions.gold_ids import Resolver, map_ids, split_ids, to_kb_id
from ..mentions.gold_mentions import split_gold
from ..ontology.entity import add_prefix, canonical_id
from ..ontology.store import OntologyStore
from ..ontology.tree_numbers import PRESETS, find_preset, is_in_tree
from ..util.folding import fold_name
from .annotation import AnnotatedText, Mention
from .report import CorpusReport

MAX_TYPES_SHOWN = 5
Texts = Iterable[AnnotatedText]


def distinct_texts(texts: Texts, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Drop texts whose id was read before, counted as `duplicate_documents`."""
    seen: set[str] = set()
    for annotated in texts:
        if annotated.id in seen:
            report.record_issue(
                "duplicate_documents", annotated.source, annotated.line, f"document {annotated.id}"
            )
        else:
            seen.add(annotated.id)
            yield annotated


def keep_labels(
    texts: Texts, labels: Collection[str], report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Drop mentions with other labels, counted as `other_labels`. A text that loses all of them
    stays.

    Warns KW209 about labels that no mention has.
    """
    found: set[str] = set()
    for annotated in texts:
        found.update(mention.label for mention in annotated.mentions)
        yield _keep_mentions(
            annotated, lambda mention: mention.label in labels, "other_labels", report
        )
    if missing := set(labels) - found:
        others = ", ".join(map(repr, sorted(found))) or "none"
        message = Warnings.KW209.format(missing=", ".join(map(repr, sorted(missing))), found=others)
        warnings.warn(message, KrisselWarning, stacklevel=2)


def keep_types(
    texts: Texts, types: Collection[str], store: OntologyStore | None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Drop mentions of other semantic types, counted as `other_types`. A text that loses all of
    them stays.

    A mention has the types that its label lists, joined by commas, as in MedMentions' type column
    (`T038,T047`), and those of its gold entities (any of a composite) in `store`. A preset
    ("st21pv") stands for its types and their descendants, by the tree numbers of the entities.

    Types are compared by their folded names. Warns KW223 if no mention is kept, and KW106 about
    another release of UMLS.
    """
    wanted = set(map(fold_name, types))
    trees: list[str] = []
    if store is not None:
        sources = store.manifest["info"].get("provenance", [])
        release = next(
            (
                each["version"]
                for each in sources
                if each.get("format") == "umls" and "version" in each
            ),
            "",
        )
        for name in PRESETS.keys() & set(types):
            trees += find_preset(name, release, store.path).trees
    kept = False
    for annotated in texts:
        left = _keep_mentions(
            annotated,
            lambda mention: _has_type(mention, wanted, trees, store),
            "other_types",
            report,
        )
        kept = kept or bool(left.mentions)
        yield left
    if not kept and report["other_types"]:
        found = ", ".join(map(repr, sorted(wanted)[:MAX_TYPES_SHOWN])) + ", …" * (
            len(wanted) > MAX_TYPES_SHOWN
        )
        warnings.warn(
            Warnings.KW223.format(count=report["other_types"], types=found),
            KrisselWarning,
            stacklevel=2,
        )


def _keep_mentions(
    annotated: AnnotatedText, keep: Callable[[Mention], bool], name: str, report: CorpusReport
) -> AnnotatedText:
    kept = list(filter(keep, annotated.mentions))
    n_others = len(annotated.mentions) - len(kept)
    report.count("mentions_read", n_others)
    report.count(name, n_others)
    return replace(annotated, mentions=kept)


def _has_type(
    mention: Mention, wanted: set[str], trees: list[str], store: OntologyStore | None
) -> bool:
    # Include the whole label, since a name may contain a comma ("Element, Ion, or Isotope").
    types = [mention.label, *mention.label.split(",")]
    if store is not None:
        rows = map(store.row, split_gold(mention.kb_id, store))
        entities = [store.entity_at(row) for row in rows if row is not None]
        types += [type_ for entity in entities for type_ in entity.types]
        if any(
            is_in_tree(number, tree)
            for each in entities
            for number in each.tree_numbers
            for tree in trees
        ):
            return True
    return not wanted.isdisjoint(map(fold_name, types))


def rewrite_ids(
    texts: Texts,
    report: CorpusReport,
    ontology: Resolver | None,
    prefixes: Mapping[str, str] = {},
    unknown_as_nil: bool = False,
) -> Iterator[AnnotatedText]:
    """Convert ids to the form that `ontology` uses, and count missing ones; see `convert`.

    prefixes: by label, "" for other labels.
    """

    def known(concept: str) -> bool:
        return ontology is None or ontology.resolve(concept) is not None

    def is_alternative(concept: str) -> bool:
        primary = None if ontology is None else ontology.resolve(concept)
        return primary is not None and canonical_id(primary) != canonical_id(concept)

    def is_ambiguous(concept: str) -> bool:
        return isinstance(ontology, OntologyStore) and len(set(ontology.rows_of(concept))) > 1

    @cache
    def with_hint(concept: str) -> str:
        if not isinstance(ontology, OntologyStore):
            return concept
        prefixed = (add_prefix(concept, prefix) for prefix in sorted(ontology.id_prefixes))
        # An alternative id leads to another.
        same = (
            id_ for id_ in map(ontology.resolve, prefixed) if id_ and id_.endswith(f":{concept}")
        )
        found = next(same, "")
        return f"{concept}, with its prefix {found}" if found else concept

    def rewritten(concept: str, prefix: str) -> str:
        # The added prefix distinguishes the id from an equal one.
        if (prefixed := add_prefix(concept, prefix)) != concept:
            return prefixed
        bare = concept.partition(":")[2]
        return bare if bare and not known(concept) and known(bare) else concept

    def with_ids(mention: Mention, annotated: AnnotatedText) -> Mention:
        prefix = prefixes.get(mention.label, prefixes.get("", ""))
        kb_id = map_ids(mention.kb_id, partial(rewritten, prefix=prefix))
        report.count("rewritten_ids", kb_id != to_kb_id(mention.kb_id))
        concepts = split_ids(kb_id)
        unknown = [concept for concept in concepts if not known(concept)]
        report.count("alternative_ids", any(map(is_alternative, concepts)))
        report.count("ambiguous_ids", any(map(is_ambiguous, concepts)))
        if unknown and unknown_as_nil and len(unknown) == len(concepts):
            report.count("unknown_as_nil")
            kb_id = NIL
        elif unknown:
            report.record_issue(
                "unknown_ids",
                annotated.file_of(mention),
                mention.line,
                ", ".join(map(with_hint, unknown)),
            )
        return replace(mention, kb_id=kb_id)

    for annotated in texts:
        yield replace(
            annotated, mentions=[with_ids(mention, annotated) for mention in annotated.mentions]
        )

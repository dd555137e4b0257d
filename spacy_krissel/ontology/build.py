"""Build an ontology store from ontology files."""

import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..util.lock import Lock
from ..util.manifest import MANIFEST
from ..util.progress import reading_bar
from ..util.settings import checked
from .disambiguate import Disambiguation
from .enrich import DEFAULT_FIELDS, enrich, merge
from .entity import Entity, add_prefix, check_prefix
from .hierarchy import subtree
from .provenance import provenance
from .readers import Format, detect_format, read_ontology
from .readers.table import TABLE_COLUMNS, TABLE_OPTIONS, table_options
from .shared_names import Order
from .species_words import with_species_words
from .store import OntologyStore, write_store
from .tree_numbers import with_tree_types
from .vocabularies import VOCABULARIES
from .vocabularies.cache import Source, locate

PathLike = str | Path


class Plan(NamedTuple):
    """Sources and counts shared by the stages of a build.

    streams: the entities of each source. info: for the manifest; its counts are filled as entities
        are read.
    materialize: writes entities to a store, for stages that need all entities before the first is
        written.
    """

    streams: list[Iterable[Entity]]
    info: dict[str, Any]
    materialize: Callable[[Iterable[Entity]], OntologyStore]
    progress: bool


# Entries of a store's `info` that state how its sources were read, and those that only name or
# count other sources: an update repeats the former.
REPEATED = (
    "options",
    "below",
    "not_below",
    "trees",
    "species_words",
    "prefix",
    "tree_types",
)
NOT_REPEATED = ("merged", "translations", "enriched_from", "disambiguated")
# A stage filters, changes or merges entities.
Stage = Callable[[Iterable[Entity], Plan], Iterable[Entity]]
# Temporary stores of files and vocabularies that are in use.
_TEMPORARY: "weakref.WeakValueDictionary[Any, OntologyStore]" = weakref.WeakValueDictionary()
_OPENING = Lock()
Paths = PathLike | Annotated[list[PathLike], Field(min_length=1)]


@checked
def build_ontology(
    sources: Paths,
    output: PathLike,
    *,
    format: Format = "auto",
    language: str = "",
    translations: list[PathLike] = [],  # noqa: B006
    enrich_from: list[PathLike] = [],  # noqa: B006
    fields: list[str] = list(DEFAULT_FIELDS),  # noqa: B006
    below: list[str] = [],  # noqa: B006
    not_below: list[str] = [],  # noqa: B006
    trees: list[str] = [],  # noqa: B006
    tree_types: bool = False,
    species_words: bool = False,
    prefix: str = "",
    disambiguate: Order | None = None,
    taxonomy: OntologyStore | PathLike | None = None,
    inspect: Callable[[OntologyStore], Any] | None = None,
    merge_sources: bool = False,
    version: str | None = None,
    licence: str | None = None,
    progress: bool = False,
    **options: Any,
) -> OntologyStore:
    """Read ontology files or stores in order, enrich them from others, and write one store.

    sources: ontology files, folders of a format, stores, or names of vocabularies
        (`vocabularies`), which are downloaded once; the most important first: if several have
        the same id, the first one's entity is kept (KW102) or, with `merge_sources`, completed from
        the others
    output: directory of the store
    format: format of the sources; "auto" detects all but phrases
    language: OWL, SKOS, FHIR, SNOMED CT: language of the names, such as fr; where an entity has
        none in it, they are of another (KW109); default: en
    translations: tables of translations (Babelon), whose names are synonyms of the entities with
        their ids
    enrich_from: ontology files, stores or vocabularies to take definitions and tree numbers from,
        the preferred first
    fields: what to take from them (`enrich.FIELDS`)
    below: keep only entities with one of these ids, and their descendants by parents, or by tree
        numbers if an entity has no parents (HP:0000118)
    not_below: leave out entities with one of these ids, and their descendants
    trees: keep only entities with a tree number that begins with one of these, such as "D" for
        MeSH's chemicals and drugs; the numbers may come from `enrich_from`
    tree_types: make the names of the tops of an entity's trees its types
        (`tree_numbers.with_tree_types`)
    species_words: add words that texts use for a species to its names (`species_words`: patients,
        mice), and take them from other taxa ("mouse" from the genus Mus)
    prefix: add this prefix (NCBIGene) to ids without one, which could equal those of another store
    disambiguate: expand names that several entities share with the preferred name or, if that is
        the shared name, with the shortest or longest other one (`homonyms.disambiguate`)
    taxonomy: store of a taxonomy that names the entities' species, if these are ids
    inspect: called with the store before its homonyms are expanded, which may be a temporary one
    merge_sources: merge entities of several sources that are the same concept, named by the first
        source
    version: version of the sources, if they do not state it
    licence: licence of the sources, if they do not state it
    progress: show a progress bar
    options: those of the format's reader (`readers.read_ontology`); with several sources, table
        options apply to the tables that have the columns, but not to vocabularies whose columns are
        known

    The manifest's "info" names the sources with the hashes, versions and licences of their files
    (`provenance`) and the options of the reader. It also counts merged, enriched and disambiguated
    entities.

    Raises KrisselError K006 (a wrong setting), K110 (an unknown option), K112 (no entity is left),
    K113 (an unknown id in `below`), and what `locate`, `read_ontology`, `enrich` and `write_store`
    raise; an earlier store at `output` is then left unchanged.
    """
    if language:
        options["language"] = language
    paths = [sources] if isinstance(sources, (str, Path)) else list(sources)
    # Check the prefix, paths and format before anything is written.
    prefix = check_prefix(prefix) if prefix else ""
    located = _located(paths, format, progress, options)
    _check_options(located, format, options)
    info: dict[str, Any] = {"sources": _names(paths)}
    if options:
        info["options"] = {
            name: str(each) if isinstance(each, Path) else each for name, each in options.items()
        }
    streams = _streams(located, info, progress, {"version": version, "licence": licence})
    entities: Iterable[Entity] = streams[0] if len(streams) == 1 else chain.from_iterable(streams)
    with ExitStack() as stack:
        plan = Plan(streams, info, partial(_materialize, stack=stack), progress)
        # Manifest entries of each stage; a stage whose entries are all empty is skipped.
        stages: list[tuple[dict[str, Any], Stage]] = [
            ({"merged": merge_sources}, _merged),
            ({"translations": _names(translations)}, partial(_translated, paths=translations)),
            (
                {"enriched_from": _names(enrich_from)},
                partial(_enriched, paths=enrich_from, fields=fields),
            ),
            (
                {"below": below, "not_below": not_below},
                lambda each, plan: subtree(plan.materialize(each), below, not_below),
            ),
            ({"trees": trees}, partial(_in_trees, trees=tuple(trees))),
            (
                {"species_words": species_words},
                lambda each, plan: with_species_words(plan.materialize(each)),
            ),
            ({"prefix": prefix}, lambda each, _: (_with_prefix(entity, prefix) for entity in each)),
            ({}, _require_nonempty),
            (
                {"tree_types": tree_types},
                lambda each, plan: with_tree_types(plan.materialize(each)),
            ),
            (
                {"disambiguated": disambiguate},
                partial(_disambiguated, disambiguate, taxonomy, inspect),
            ),
        ]
        for stated, stage in stages:
            if not stated or any(stated.values()):
                info.update({name: value for name, value in stated.items() if value})
                entities = stage(entities, plan)
        _add_settings(info)
        # Only files that are read need a progress bar.
        return write_store(
            entities, output, info=info, progress=progress and isinstance(entities, Sized)
        )


def _add_settings(info: dict[str, Any]) -> None:
    """Add the settings of this build to the provenance of each source (`REPEATED`)."""
    own = {name: info[name] for name in REPEATED if name in info}
    own |= {name: True for name in NOT_REPEATED if name in info}
    for each in info["provenance"] if own else ():
        each["settings"] = {**each.get("settings", {}), **own}


def open_ontology(ontology: PathLike, *, progress: bool = False) -> OntologyStore:
    """Open a store, or read an ontology file or a known vocabulary into a temporary one, which is
    removed with its last reference.

    Raises KrisselError K001 (neither), and what `OntologyStore` and `build_ontology` raise.
    """
    path = Path(ontology)
    if not path.is_file() and (path.exists() or str(ontology).lower() not in VOCABULARIES):
        return OntologyStore(path)
    key = (path.absolute(), path.stat().st_mtime_ns) if path.exists() else ontology
    with _OPENING:
        if (store := _TEMPORARY.get(key)) is None:
            folder = TemporaryDirectory(prefix="krissel-")
            store = _TEMPORARY[key] = build_ontology(
                str(ontology), Path(folder.name) / "store", progress=progress
            )
            weakref.finalize(store, folder.cleanup)
        return store


def _located(
    paths: list[PathLike], format: str, progress: bool, options: dict[str, Any]
) -> list[Source]:
    """Locate the sources, each with its options. With several sources, table options go to the
    tables that they fit.
    """
    others = {name: each for name, each in options.items() if name not in TABLE_OPTIONS}
    # An empty option names no column.
    unnamed = {
        name
        for name, each in options.items()
        if each is None or (name in TABLE_COLUMNS and each == "")
    }
    of_tables = {name: options[name] for name in options.keys() - others.keys() - unnamed}
    sources = [locate(path, format, progress, **others) for path in paths]
    tables: set[int] = set()
    if of_tables and len(sources) > 1:
        # Columns of a vocabulary are known.
        tables = {
            number
            for number, source in enumerate(sources)
            if source.options.keys().isdisjoint(TABLE_OPTIONS) and _is_table(source)
        }
    if not tables:
        return [source._replace(options={**source.options, **of_tables}) for source in sources]
    columns, fits = (
        TABLE_COLUMNS & of_tables.keys(),
        {n: table_options(sources[n].path, of_tables) for n in tables},
    )
    # The reader raises the error for a column that no table has.
    nowhere = columns.difference(*fits.values())
    for n in tables:
        named = fits[n] | nowhere
        # A separator applies to the tables whose columns are named.
        own = named | of_tables.keys() - columns if named or not columns else set()
        sources[n] = sources[n]._replace(
            options={**sources[n].options, **{name: of_tables[name] for name in own}}
        )
    return sources


def _is_table(source: Source) -> bool:
    if source.format != "auto" or _is_store(source):
        return source.format == "table"
    try:
        return detect_format(source.path) == "table"
    except KrisselError as error:
        # Its columns may be those named by the options.
        return error.code == "K118"


def _is_store(source: Source) -> bool:
    return (source.path / MANIFEST).is_file()


def _open_source(source: Source) -> Iterable[Entity]:
    if _is_store(source):
        return OntologyStore(source.path)
    entities = read_ontology(source.path, source.format, **source.options)
    return (
        (entity for entity in entities if entity.id.startswith(source.ids))
        if source.ids
        else entities
    )


def _check_options(located: list[Source], format: str, options: dict[str, Any]) -> None:
    """Raise KrisselError K110 and K006 for format options of stores, which are not read by a
    reader.
    """
    if not all(map(_is_store, located)):
        return
    if options:
        raise KrisselError(
            Errors.K110.format(format="store", found=min(options), expected="no option")
        )
    if format != "auto":
        raise wrong_setting("format", format, "auto for stores and entities, which have been read")


def _streams(
    located: list[Source], info: dict[str, Any], progress: bool, stated: dict[str, Any]
) -> list[Iterable[Entity]]:
    """Open the entities of each source, and add `provenance` to `info`."""
    streams: list[Iterable[Entity]] = [*map(_open_source, located)]
    info["provenance"] = []
    for number, source in enumerate(located):
        files = provenance(source.path, source.format, options=source.options, **stated)
        info["provenance"] += [{**source.stated, **each} for each in files]
        if not isinstance(streams[number], OntologyStore):
            size = sum(file_["bytes"] for each in files for file_ in each["files"].values())
            streams[number] = reading_bar(
                streams[number], size, show=progress, unit=" entities", desc="Reading"
            )
    return streams


def _names(paths: Iterable[PathLike]) -> list[str]:
    return [Path(path).name for path in paths]


def _merged(entities: Iterable[Entity], plan: Plan) -> Iterable[Entity]:
    # Write both counts even if nothing is merged.
    counts = plan.info["merged"] = Counter(seen=0, merged=0)
    return merge([*map(plan.materialize, plan.streams)], counts=counts)


def _translated(entities: Iterable[Entity], plan: Plan, paths: list[PathLike]) -> Iterable[Entity]:
    """Add translations of the names. Warns KW110 if no entity has any."""
    tables = [plan.materialize(read_ontology(path, "babelon")) for path in paths]
    counts = plan.info["translated"] = Counter()

    def translated() -> Iterator[Entity]:
        yield from enrich(entities, tables, fields=["aliases"], counts=counts)
        if not counts["linked"]:
            named = ", ".join(map(repr, map(str, paths)))
            warnings.warn(Warnings.KW110.format(paths=named), KrisselWarning, stacklevel=2)

    return translated()


def _enriched(
    entities: Iterable[Entity], plan: Plan, paths: list[PathLike], fields: list[str]
) -> Iterable[Entity]:
    stores = [plan.materialize(_open_source(locate(path, "auto", plan.progress))) for path in paths]
    counts = plan.info["enriched"] = Counter()
    return enrich(entities, stores, fields=fields, counts=counts)


def _with_prefix(entity: Entity, prefix: str) -> Entity:
    alt_ids, parents = (
        tuple(add_prefix(id_, prefix) for id_ in ids) for ids in (entity.alt_ids, entity.parents)
    )
    return replace(entity, id=add_prefix(entity.id, prefix), alt_ids=alt_ids, parents=parents)


def _in_trees(entities: Iterable[Entity], plan: Plan, trees: tuple[str, ...]) -> Iterator[Entity]:
    n_entities = n_numbered = n_kept = 0
    for entity in entities:
        n_entities, n_numbered = n_entities + 1, n_numbered + bool(entity.tree_numbers)
        if any(number.startswith(trees) for number in entity.tree_numbers):
            n_kept += 1
            yield entity
    if not n_kept:
        hint = "" if n_numbered else "; `below` takes an id of an entity instead"
        why = (
            f"{n_numbered} of {n_entities} have a tree number, and none of these begins with "
            f"{', '.join(trees)}{hint}"
        )
        raise KrisselError(Errors.K112.format(why=why))


def _require_nonempty(entities: Iterable[Entity], plan: Plan) -> Iterable[Entity]:
    if isinstance(entities, OntologyStore):
        return entities
    stream = iter(entities)
    first = next(stream, None)
    if first is None:
        raise KrisselError(
            Errors.K112.format(
                why="the sources have none, or none with the options of their format"
            )
        )
    return chain([first], stream)


def _disambiguated(
    order: Order,
    taxonomy: OntologyStore | PathLike | None,
    inspect: Callable[[OntologyStore], Any] | None,
    entities: Iterable[Entity],
    plan: Plan,
) -> Disambiguation:
    if isinstance(taxonomy, (str, Path)):
        taxonomy = open_ontology(taxonomy)
    plain = plan.materialize(entities)
    if inspect is not None:
        inspect(plain)
    found = Disambiguation(plain, order=order, taxonomy=taxonomy, progress=plan.progress)
    plan.info["disambiguated"] = found.figures
    return found


def _materialize(entities: Iterable[Entity], stack: ExitStack) -> OntologyStore:
    """Write the entities to a store that lasts as long as `stack`; return a store unchanged."""
    if isinstance(entities, OntologyStore):
        return entities
    folder = stack.enter_context(TemporaryDirectory(prefix="krissel-"))
    return write_store(entities, Path(folder) / "store")

"""From ontology files to an ontology store, whole."""

from collections import Counter
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from ..util.manifest import MANIFEST
from .enrich import DEFAULT_FIELDS, enrich
from .entity import Entity
from .homonyms.disambiguate import Disambiguation, check_order
from .merge import merge
from .provenance import provenance
from .readers import read_ontology
from .store import OntologyStore, write_store
from .tree_numbers import with_tree_types

PathLike = Union[str, Path]


def build_ontology(
    sources: Union[PathLike, Sequence[PathLike]],
    output: PathLike,
    *,
    format: str = "auto",
    enrich_from: Sequence[PathLike] = (),
    fields: Sequence[str] = DEFAULT_FIELDS,
    trees: Sequence[str] = (),
    tree_types: bool = False,
    disambiguate: Optional[str] = None,
    taxonomy: Optional[OntologyStore] = None,
    inspect: Optional[Callable[[OntologyStore], Any]] = None,
    merge_sources: bool = False,
    version: Optional[str] = None,
    licence: Optional[str] = None,
    progress: bool = False,
    **options: Any,
) -> OntologyStore:
    """Read ontology files (or stores) one after the other, enrich them from others, and write one store.

    sources: the first has priority: where several hold one id, its entity is kept (KW102), or, with `merge_sources`,
        gets what the others say of the concept (`merge.merge`).
    version, licence: of the sources that do not say so themselves, kept in the manifest.
    format, options: of the sources, as `read_ontology` takes them.
    enrich_from: ontology files of any format, or stores, the preferred first (`enrich`).
    fields: what to take from them.
    trees: keep only entities with a tree number that begins with one of these, such as "D" for MeSH's chemicals and
        drugs; the numbers may come from `enrich_from`.
    tree_types: the names of the tops of an entity's trees become its types (`with_tree_types`).
    disambiguate: expand homonyms, with the "shortest" or the "longest" of an entity's other names where the preferred
        name is the homonym (`disambiguate.disambiguate`); the species come from `taxonomy`, where they are ids.
    inspect: called with the store before its homonyms are expanded, which may be a temporary one.
    The manifest's "info" names the sources, with their files' hashes, versions and licences (`provenance`), and counts
    what was merged, enriched and disambiguated.

    Raises KrisselError K006 (disambiguate), and as `read_ontology`, `enrich` and `write_store` do; an earlier store at
    `output` then stays.
    """
    if disambiguate is not None:
        check_order(disambiguate)
    paths = [sources] if isinstance(sources, (str, Path)) else list(sources)
    # Made now, so that a wrong path or format is known before anything is written.
    streams: List[Iterable[Entity]] = [_open_source(path, format, options) for path in paths]
    info: Dict[str, Any] = {"sources": [Path(path).name for path in paths]}
    stated = {"version": version, "licence": licence, "relations": options.get("relations", ())}
    info["provenance"] = [each for path in paths for each in provenance(path, format, **stated)]
    entities: Iterable[Entity] = chain.from_iterable(streams)
    with ExitStack() as stack:
        if merge_sources:
            counts: Counter = Counter()
            info["merged"] = counts
            entities = merge([_kept(stream, stack) for stream in streams], counts=counts)
        if enrich_from:
            stores = [_as_store(path, stack) for path in enrich_from]
            # Filled while the entities pass, and written to the manifest after the last.
            found: Counter = Counter()
            info.update(enriched_from=[Path(path).name for path in enrich_from], enriched=found)
            entities = enrich(entities, stores, fields=fields, counts=found)
        if trees:
            info["trees"] = list(trees)
            entities = (each for each in entities if any(n.startswith(tuple(trees)) for n in each.tree_numbers))
        if tree_types:
            info["tree_types"] = True
            # The tops must be known before the first entity is written.
            folder = stack.enter_context(TemporaryDirectory(prefix="krissel-"))
            entities = with_tree_types(write_store(entities, Path(folder) / "store"))
        if disambiguate is not None:
            # Who bears which name must be known before the first entity is written; of a store as it is, it is.
            if len(paths) == 1 and _is_store(paths[0]) and not (enrich_from or trees or tree_types):
                plain = OntologyStore(paths[0])
            else:
                folder = stack.enter_context(TemporaryDirectory(prefix="krissel-"))
                plain = write_store(entities, Path(folder) / "store", progress=progress)
            if inspect is not None:
                inspect(plain)
            entities = told_apart = Disambiguation(plain, order=disambiguate, taxonomy=taxonomy, progress=progress)
            info["disambiguated"] = told_apart.figures
        return write_store(entities, output, info=info, progress=progress)


def _open_source(path: PathLike, format: str, options: Dict[str, Any]) -> Iterable[Entity]:
    if _is_store(path):
        return OntologyStore(path)
    return read_ontology(path, format, **options)


def _as_store(path: PathLike, stack: ExitStack) -> OntologyStore:
    return _kept(_open_source(path, "auto", {}), stack)


def _kept(entities: Iterable[Entity], stack: ExitStack) -> OntologyStore:
    if isinstance(entities, OntologyStore):
        return entities
    folder = stack.enter_context(TemporaryDirectory(prefix="krissel-"))
    return write_store(entities, Path(folder) / "store")


def _is_store(path: PathLike) -> bool:
    return (Path(path) / MANIFEST).is_file()

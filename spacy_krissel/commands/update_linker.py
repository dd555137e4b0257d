"""Update of a linker to another release of its ontology."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from ..building.fill import fill_kb
from ..building.release import (
    OVERRULED,
    Change,
    Release,
    ReleaseSource,
    entity_after,
    reusing_vectors,
    share_with_a_name,
    shares_followed,
)
from ..errors import Errors, KrisselError
from ..evaluation.confidence import NIL_SHARE, PRECISION, expected_links, fit_confidence
from ..kb.snapshot import KBSnapshot
from ..mentions.annotations import NIL
from ..mentions.gold_mentions import ID_KEY, document_id
from ..ontology.build import NOT_REPEATED
from ..ontology.entity import Entity
from ..ontology.readers import detect_format
from ..ontology.store import OntologyStore
from ..ontology.vocabularies.cache import locate
from ..pipeline.finder import found_views, warn_not_found
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import (
    AddedName,
    check_pipeline_output,
    configure,
    find_linker,
    load_pipeline,
    name_finders,
    save_pipeline,
    update_finders,
)
from ..pipeline.reranker import KrisselReranker
from ..pipeline.settings import LINKER
from ..render.formats.own import table_lines
from ..util.atomic import atomic_file, check_file
from ..util.disk import coded_io
from ..util.escape import cell_text
from ..util.manifest import MANIFEST
from ..util.outputs import writes
from ..util.settings import Fraction, PositiveInt, checked, explicit_settings, takes
from ..views import MINED_CHARS, View, evidence, mention_view
from .build_linker import read_sources, sources_of
from .link_texts import LinkedDocs
from .make_ontology import OntologySettings
from .review_links import Answers, answered, answers_of

# Smallest fraction of the entities of each source that a release of the same vocabulary keeps.
MIN_KEPT = 0.5
# Examples of a kind of change that are printed; inactive corrections need a person.
FEW, MANY = 5, 100
# Change of a mention that only the earlier names find.
NOT_FOUND = "not found now"
# Changes of corrections that hold in the release.
HOLDING = ("kept", "followed", "active again")
COLUMNS = (
    "what change before_id before_name id name doc start end mention context verdict right_id"
).split()
# Kinds of changes, in the order of the report, and the number of examples that are printed.
SHOWN = {
    ("entity", "new"): 0,
    ("entity", "returned"): FEW,
    ("entity", "renamed"): FEW,
    ("entity", "replaced"): FEW,
    ("entity", "merged"): FEW,
    ("entity", "split"): FEW,
    ("entity", "retired"): FEW,
    ("name", "added"): 0,
    ("name", "removed"): 0,
    ("correction", "kept"): 0,
    ("correction", "followed"): FEW,
    ("correction", "active again"): FEW,
    ("correction", NOT_FOUND): MANY,
    ("correction", "inactive"): MANY,
    ("correction", "still inactive"): MANY,
    ("correction", OVERRULED): 0,
    ("rejection", "kept"): 0,
    ("rejection", "followed"): FEW,
    ("rejection", "active again"): FEW,
    ("rejection", "inactive"): MANY,
    ("rejection", "still inactive"): MANY,
    ("rejection", OVERRULED): 0,
    ("no entity", "kept"): 0,
    ("own name", "kept"): 0,
    ("own name", "followed"): FEW,
    ("own name", "active again"): FEW,
    ("own name", "inactive"): MANY,
    ("own name", "still inactive"): MANY,
    ("link", "same entity"): 0,
    ("link", "followed"): 0,
    ("link", "other entity"): FEW,
    ("link", "linked now"): FEW,
    ("link", "found now"): FEW,
    ("link", "NIL now"): FEW,
    ("link", NOT_FOUND): FEW,
}
# Changes that are counted, but are no rows of the table.
UNLISTED = (
    ("correction", "kept"),
    ("correction", OVERRULED),
    ("rejection", "kept"),
    ("rejection", OVERRULED),
    ("no entity", "kept"),
    ("own name", "kept"),
    ("link", "same entity"),
)
TITLES = {
    "entity": "Entities",
    "name": "Names of entities that stay or merge",
    "correction": "Corrections",
    "rejection": "Rejections",
    "no entity": "Without an entity",
    "own name": "Names that were added by hand",
    "link": "Links",
}


@dataclass
class Updated:
    """An updated pipeline, and what changed.

    changes: one per entity, name and link that changed, and per correction, see `Change`.
    counts: number of changes by `Change.what` and `Change.change`; links that stay are counted too.
    figures: "entities", "prototypes", "mined mentions" and "min_confidence" before and after.
    notes: what else to know.
    """

    nlp: Language
    changes: list[Change]
    counts: Counter[tuple[str, str]]
    figures: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@checked
@dataclass(frozen=True)
class UpdateSettings(OntologySettings):
    """Settings of `update`.

    pipeline: The pipeline with the linker
    ontology: The new release: ontology files, stores, or names of vocabularies (krissel
        vocabularies), one for each source of the linker; from Python also one of them, or entities
        (`Entity`)
    output: Folder to save the updated pipeline in; without it nothing is saved, and the report says
        what would change
    report: Table of all changes to write (.tsv), with or without an output
    texts: Docs with mentions (.spacy), or text, to compare the links of both releases on: JSONL,
        plain, .gz
    min_kept: Smallest fraction of the entities of each source that must be in the new release
    name: Name of the linker in the pipeline
    batch_size: Number of docs per batch
    """

    pipeline: str | Path
    ontology: str | Path | Iterable[str | Path] | Iterable[Entity]
    output: Path | None = None
    _: KW_ONLY
    report: Path | None = None
    texts: Path | None = None
    min_kept: Fraction = MIN_KEPT
    name: str = LINKER
    batch_size: PositiveInt = 128
    progress: bool = False


@writes("report", folders=["output"], keeps="pipeline")
@takes(UpdateSettings)
def update(asked: UpdateSettings) -> Updated:
    """Update a linker to a new release of its ontology.

    Encoder, settings, other components and corrections stay; names are those of the new release,
    and the confidence is fitted again. Ids that were merged or replaced are followed. Corrections
    of entities that are gone are kept and inactive, until a release has the entity again. Files are
    read with the settings of the linker's ontology, unless others are given. A store is used
    unchanged.

    RETURNS: the updated pipeline, and the changes.
    Raises KrisselError K005, K006, K026 (output, report), K610, K611 (pipeline), K520 (no knowledge
    base), K694 and K696 (another vocabulary), K695 (the linker cannot be updated), K715 (no names
    for the confidence), and those of `build_ontology`, `LinkedDocs` and `fill_kb`. Warns KW629 of
    corrections whose mentions the finder no longer finds.
    """
    if asked.output is not None:
        check_pipeline_output(asked.output)
    if asked.report is not None:
        check_file(asked.report)
    nlp = load_pipeline(asked.pipeline)
    linker = find_linker(nlp, asked.name)
    linker.kb.check_filled()
    linker.require_weights()
    old = linker.kb.snapshot()
    docs = None if asked.texts is None else _docs(asked, asked.texts)
    with TemporaryDirectory(prefix="krissel-", ignore_cleanup_errors=True) as folder:
        store = _read_release(asked, old, Path(folder) / "store")
        release = Release(old, store)
        _check(asked, linker, release)
        updated = _updated(asked, nlp, linker, release)
        if docs is not None:
            _compare_links(docs, asked, release, updated)
        if asked.output is not None:
            save_pipeline(nlp, asked.output, name=asked.name)
    if asked.report is not None:
        with atomic_file(asked.report) as temporary, temporary.open("wb") as file_:
            listed = (each for each in updated.changes if _kind(each) not in UNLISTED)
            file_.writelines(table_lines(COLUMNS, map(_cells, listed)))
    return updated


def _docs(asked: UpdateSettings, texts: Path) -> LinkedDocs:
    return LinkedDocs(
        asked.pipeline,
        texts,
        name=asked.name,
        batch_size=asked.batch_size,
        progress=asked.progress,
    )


# Reading ------------------------------------------------------------------------------------------


def _read_release(asked: UpdateSettings, old: KBSnapshot, path: Path) -> OntologyStore:
    """Open the store, or read the files with the settings of the linker's ontology and those
    given."""
    sources = sources_of(asked.ontology)
    given = explicit_settings(asked, OntologySettings)
    if isinstance(sources[0], Entity):
        return read_sources(sources, path, progress=asked.progress, **given)
    located = [locate(each, "auto", asked.progress).path for each in sources]
    if all((each / MANIFEST).is_file() for each in located):
        if len(located) == 1 and not given:
            return OntologyStore(located[0])
        return read_sources(sources, path, progress=asked.progress, **given)
    settings = {**_settings_of(old, asked, located, given), **given}
    return read_sources(sources, path, progress=asked.progress, **settings)


def _settings_of(
    old: KBSnapshot, asked: UpdateSettings, located: Sequence[Path], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that the ontology of a knowledge base was read with; those of a reader
    only if it reads the new files as well.

    Raises KrisselError K695 if they cannot be repeated.
    """
    found = [each.get("settings", {}) for each in old.ontology]
    settings = {**found[0]} if found else {}
    # Translations may be given again.
    other = [each for each in NOT_REPEATED if settings.pop(each, False) and each not in given]
    if other or any(each != found[0] for each in found):
        problem = (
            f"its ontology was made with settings that name other sources ({', '.join(other)})"
            if other
            else "its sources were read with different settings"
        )
        expected = "a store of the new release, made by `krissel ontology` in the same way"
        _refuse(asked, problem, expected)
    options = settings.pop("options", {})
    known = {each["format"] for each in old.ontology if "format" in each}
    formats = {_format(each, asked.format) for each in located}
    if formats <= {*known, ""}:
        settings.update(options)
    if "" in formats and len(known) == 1:
        settings["format"] = known.pop()
    return settings


def _format(path: Path, format: str) -> str:
    """Return the format of a file; "" if the file does not tell, as lists of terms and tables with
    unusual columns."""
    if format != "auto" or (path / MANIFEST).is_file():
        return format
    try:
        return detect_format(path)
    except KrisselError as error:
        if error.code not in ("K104", "K118"):
            raise
        return ""


# Checks -------------------------------------------------------------------------------------------


def _check(asked: UpdateSettings, linker: KrisselLinker, release: Release) -> None:
    """Raise KrisselError K694, K695 and K696 if the linker would lose something."""
    for source, (kept, total) in shares_followed(release).items():
        if kept < asked.min_kept * total:
            raise KrisselError(
                Errors.K694.format(
                    kept=kept,
                    total=total,
                    source=f"'{source}'" if source else "the linker",
                    share=kept / total,
                    least=asked.min_kept,
                )
            )
    n, total = share_with_a_name(release)
    if n < asked.min_kept * total:
        raise KrisselError(
            Errors.K696.format(n=n, total=total, share=n / total, least=asked.min_kept)
        )
    drawn = {key: release.old.made_with.get(key) for key in ("max_entities", "held_out")}
    for setting, value in drawn.items():
        if value:
            problem = f"its knowledge base has a part of its ontology only ({setting} is {value})"
            _refuse(asked, problem, "a knowledge base of the whole ontology")
    _check_types(asked, linker, release)
    _check_fields(asked, linker, release)


def _refuse(asked: UpdateSettings, problem: str, expected: str) -> None:
    raise KrisselError(Errors.K695.format(name=asked.name, problem=problem, expected=expected))


def _check_types(asked: UpdateSettings, linker: KrisselLinker, release: Release) -> None:
    wanted = {*linker.cfg.types, *(t for each in linker.cfg.types_by_label.values() for t in each)}
    known = {type_ for types in release.store.each("types") for type_ in types} if wanted else set()
    if missing := sorted(wanted - known):
        problem = (
            f"its settings `types` and `types_by_label` name {missing[0]!r}, a type that no entity "
            "of the new release has"
        )
        _refuse(asked, problem, f"one of {', '.join(map(repr, sorted(known)[:8])) or 'no types'}")


def _check_fields(asked: UpdateSettings, linker: KrisselLinker, release: Release) -> None:
    """Raise KrisselError K695 if the linker reads a field that the new release lacks."""
    read: dict[str, str] = {}
    parts, known = linker.reference_parts(), release.old.prototypes
    if parts is not None and (known.references or "reference" in known.kind_counts()):
        fields = ("definition", "types", "tree_numbers", "aliases")
        read = {each: "its encoder" for each in fields if getattr(parts, each)}
    if linker.cfg.species_weight:
        read["species"] = "its setting `species_weight`"
    for name, reader in read.items():
        if any(release.old.entities.each(name)) and not any(release.store.each(name)):
            problem = f"{reader} reads `{name}`, and no entity of the new release has any"
            _refuse(asked, problem, f"a file of the release with `{name}`")


# Update -------------------------------------------------------------------------------------------


def _updated(
    asked: UpdateSettings, nlp: Language, linker: KrisselLinker, release: Release
) -> Updated:
    """Replace the linker's knowledge base, and all that was made from the earlier one."""
    old, notes = release.old, list[str]()
    mentions, n_left_out = release.mined_mentions()
    kb = linker.kb.emptied()
    kb.scratch = None if asked.output is None else asked.output.absolute().parent
    if kb.scratch is not None:
        with coded_io(kb.scratch):
            kb.scratch.mkdir(parents=True, exist_ok=True)
    # Other encoders take less time than the search for known views.
    encode = reusing_vectors(linker.encode, old) if linker.has_transformer else linker.encode
    # A knowledge base that was filled in another way does not tell.
    made_with = old.made_with or {"use_references": old.prototypes.references is not None}
    source = ReleaseSource(release, mentions, **made_with)
    fill_kb(
        kb,
        source,
        encode,
        encoder=linker.fingerprint(),
        references=linker.reference_parts(),
        progress=asked.progress,
    )
    changes = release.carry_over(kb)
    views = [*{view for each in changes if (view := _corrected(each)) is not None}]
    found = found_views(name_finders(nlp, asked.name) if views else [], views)
    if linker.cfg.lexical_weight or linker.cfg.spelling_weight or kb.has_gold:
        kb.keep_lexical_index()
    linker.set_kb(kb)
    # The knowledge base is no longer the one that the pipeline referred to.
    linker.kb_path = nlp.get_pipe_config(asked.name)["kb_path"] = None
    for _, pipe in nlp.components:
        if isinstance(pipe, KrisselReranker) and pipe.linker_name == asked.name:
            pipe.describe_candidates(release.store, kb)
    changes += _added_name_changes(release, update_finders(nlp, asked.name))
    if found:
        found -= found_views(name_finders(nlp, asked.name), list(found))
        changes = [*_without_mention(changes, found)]
    if nlp.meta.get("krissel", {}).get("calibration", {}).pop(asked.name, None):
        notes.append("`threshold` was fitted to the earlier release: run `krissel calibrate` again")
    made_of = [[each.get("source", "") for each in kb.ontology] for kb in (old, linker.kb)]
    if len(made_of[1]) < len(made_of[0]):
        before, after = (", ".join(each) or "entities" for each in made_of)
        notes.append(f"The linker was made of {before}, and the release is {after}")
    if made_of[1] and (settings := linker.kb.ontology[0].get("settings")):
        said = ", ".join(f"{name}: {value}" for name, value in settings.items())
        notes.append(f"The release was read with {said}")
    changes = [*release.entity_changes(), *_name_changes(release, notes), *changes]
    figures = {
        "entities": (len(old.entities), len(kb)),
        "prototypes": (old.n_prototypes, kb.n_prototypes),
    }
    if len(mentions) or n_left_out:
        figures["mined mentions"] = (len(mentions) + n_left_out, len(mentions))
    updated = Updated(nlp, changes, Counter(map(_kind, changes)), figures, notes)
    _fit_again(asked, linker, updated)
    return updated


def _corrected(change: Change) -> View | None:
    """Return the mention of a correction that holds in the release; None for other changes."""
    return change.view if change.what == "correction" and change.change in HOLDING else None


def _added_name_changes(release: Release, added: Iterable[AddedName]) -> Iterator[Change]:
    """Yield what becomes of the finders' `added_names`."""
    for name, id_, was_active, entities in added:
        earlier = release.old if was_active else release.old.inactive
        known = None if earlier is None else earlier.resolve(id_)
        before = (id_, "") if earlier is None or known is None else (known, earlier[known].name)
        if len(entities) != 1:
            change = "inactive" if was_active else "still inactive"
        elif not was_active:
            change = "active again"
        else:
            change = "kept" if entities[0] == before[0] else "followed"
        after = entity_after(entities, release.names)
        yield Change("own name", change, before, after, view=View("", name, ""))


def _without_mention(changes: Iterable[Change], gone: Collection[View]) -> Iterator[Change]:
    """Yield the changes, and say which corrections have one of these mentions. Warns KW629 of such
    corrections."""
    lost: dict[str, str] = {}
    total = n = 0
    for each in changes:
        total += each.what == "correction"
        if (view := _corrected(each)) is not None and view in gone:
            n += 1
            lost[view.mention] = each.after[0]
            each = each._replace(change=NOT_FOUND)
        yield each
    warn_not_found(lost, n, total)


def _name_changes(release: Release, notes: list[str]) -> Iterable[Change]:
    if release.old.entities.details is None:
        notes.append(
            "The knowledge base has no details of its entities: names are not compared, and those "
            "that were added by hand are not kept"
        )
        return ()
    return release.name_changes()


def _fit_again(asked: UpdateSettings, linker: KrisselLinker, updated: Updated) -> None:
    """Fit the confidence with the settings of the earlier fit. A `min_confidence` that was set by
    hand stays."""
    if not linker.cfg.confidence:
        return
    fit = updated.nlp.meta.get("krissel", {}).get("confidence", {}).get(asked.name)
    before = linker.cfg.min_confidence
    if fit is None:
        fit = {"asked_precision": PRECISION, "nil_share": NIL_SHARE}
        updated.notes.append(
            f"The settings of the confidence are not recorded: it was fitted with the defaults, "
            f"precision {PRECISION} and nil_share {NIL_SHARE}"
        )
    by_hand = "min_confidence" in fit and not math.isclose(
        fit["min_confidence"], before, abs_tol=1e-6
    )
    again = fit_confidence(
        updated.nlp,
        precision=fit["asked_precision"],
        nil_share=fit["nil_share"],
        name=asked.name,
        progress=asked.progress,
    )
    if by_hand:
        configure(updated.nlp, asked.name, min_confidence=before)
        updated.notes.append(f"`min_confidence` was set by hand, and stays {before:.3f}")
    else:
        updated.notes.append(expected_links(again.data).removesuffix("."))
    updated.figures["min_confidence"] = (before, linker.cfg.min_confidence)


# Links --------------------------------------------------------------------------------------------


def _compare_links(
    docs: LinkedDocs, asked: UpdateSettings, release: Release, updated: Updated
) -> None:
    """Add the links of the texts that change, and count all. Mentions in a .spacy file are those of
    both pipelines; in other texts each finds its own."""
    nlp, disabled = updated.nlp, updated.nlp.disabled
    is_given = asked.texts is not None and asked.texts.suffix == ".spacy"
    again = answered if is_given else _found_again
    pairs = again(docs, nlp, asked.name, asked.batch_size)
    for doc, answers in pairs:
        for change in _link_changes(doc, docs.key, answers, release):
            updated.counts[_kind(change)] += 1
            if _kind(change) not in UNLISTED:
                updated.changes.append(change)
    if asked.name in disabled:
        nlp.disable_pipe(asked.name)


def _found_again(
    docs: LinkedDocs, nlp: Language, name: str, batch_size: int
) -> Iterator[tuple[Doc, Answers]]:
    """Yield each doc with the links of the mentions that the new pipeline finds in its text."""
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    for batch in minibatch(docs, batch_size):
        fresh = [nlp.make_doc(doc.text) for doc in batch]
        for doc, old in zip(fresh, batch, strict=True):
            doc.user_data[ID_KEY] = old.user_data.get(ID_KEY, "")
        for old, doc in zip(batch, nlp.pipe(fresh, batch_size=batch_size), strict=True):
            yield old, answers_of(doc, docs.key)


def _link_changes(doc: Doc, key: str, answers: Answers, release: Release) -> Iterator[Change]:
    text, id_ = doc.text, document_id(doc)
    known = answers_of(doc, key)
    found = {at: ("", "") for at, (new, _) in answers.items() if at not in known and new != NIL}
    for at, before in sorted({**known, **found}.items()):
        after = answers.get(at, ("", ""))
        if at in found:
            change = "found now"
        elif at not in answers:
            # Without a link, it is neither reported where it is found, nor where it is not.
            if before[0] == NIL:
                continue
            change = NOT_FOUND
        elif before[0] == after[0]:
            change = "same entity"
        elif after[0] == NIL:
            change = "NIL now"
        elif before[0] == NIL:
            change = "linked now"
        else:
            change = "followed" if release.moved(before[0]) == after[0] else "other entity"
        view = mention_view(text, *at, MINED_CHARS)
        yield Change("link", change, before, after, id_, *at, view)


# Report -------------------------------------------------------------------------------------------


def show_update(updated: Updated, output: Path | None, report: Path | None) -> str:
    lines = []
    for name, (before, after) in updated.figures.items():
        form = ".3f" if isinstance(before, float) else ",d"
        lines.append(f"{name}: {before:{form}} → {after:{form}}")
    for what, title in TITLES.items():
        kinds = [kind for kind in SHOWN if kind[0] == what and updated.counts[kind]]
        if kinds:
            said = ", ".join(f"{updated.counts[kind]:,} {kind[1]}" for kind in kinds)
            lines += [f"\n{title}: {said}", *_examples(updated, kinds)]
    lines += [f"\n{note}." for note in updated.notes]
    if report is not None:
        lines.append(f"\nAll changes: {report}")
    lines.append(
        "\nNothing was saved: give --output to save the updated pipeline."
        if output is None
        else f"\nPipeline: {output}"
    )
    return "\n".join(lines)


def _examples(updated: Updated, kinds: Sequence[tuple[str, str]]) -> Iterator[str]:
    for kind in kinds:
        n = SHOWN[kind]
        some = [each for each in updated.changes if _kind(each) == kind] if n else []
        for each in some[:n]:
            mention = f"{each.view.mention}: " if each.view is not None else ""
            before, after = (" ".join(pair).strip() for pair in (each.before, each.after))
            yield f"  {kind[1]}: {mention}{before}{f' → {after}' if after else ''}"
        if len(some) > n:
            yield f"  … and {len(some) - n:,} more"


def _kind(change: Change) -> tuple[str, str]:
    return change.what, change.change


def _cells(change: Change) -> list[str]:
    at = [str(each) if each >= 0 else "" for each in (change.start, change.end)]
    view = change.view
    texts = ("", "") if view is None else (view.mention, evidence(view))
    row = [change.what, change.change, *change.before, *change.after, change.doc, *at, *texts]
    return [*map(cell_text, row), "", ""]

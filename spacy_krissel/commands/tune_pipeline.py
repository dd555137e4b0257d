"""Choice of the index of a saved knowledge base, alone or of a pipeline."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
from spacy.language import Language
from spacy.util import load_config
from spacy.vocab import Vocab

from ..building.tune import RECALL, Recall, Tuning, near_vectors, tune, tuning_lines
from ..corpora.doc_bins import read_doc_bins
from ..errors import wrong_setting
from ..kb.directory import KIND as KB
from ..kb.prototype_kb import PrototypeKB
from ..mentions.annotations import spans_of
from ..pipeline.pipeline_io import (
    KB_FACTORY_KEY,
    check_pipeline_output,
    find_kb_pipe,
    find_linker,
    load_pipeline,
    save_pipeline,
)
from ..pipeline.settings import LINKER
from ..util.atomic import (
    atomic_file,
    check_file,
    check_parent,
    restore_backup,
    temporary_folder,
    write_text,
)
from ..util.manifest import MANIFEST, check_replaceable
from ..util.outputs import writes
from ..util.settings import Count, PositiveInt, checked


@writes("metrics", folders=["output"], keeps="path")
@checked
def tune_index(
    path: Path,
    output: Path | None = None,
    *,
    queries: Path | None = None,
    n_queries: PositiveInt = 1000,
    recall: Recall = RECALL,
    types: Sequence[str] | None = None,
    index_device: str | None = None,
    dry_run: bool = False,
    metrics: Path | None = None,
    name: str = LINKER,
    seed: Count = 0,
    command: str = "",
    progress: bool = False,
) -> Tuning:
    """Give a large knowledge base a faster index.

    Choose the fastest with sufficient recall, measured against the exact index. Times are of one
    core; indexes are built on all cores. The vectors are never all in memory.

    path: A knowledge base, or a pipeline that has one
    output: Save it here; default: in place
    queries: Docs (.spacy) whose mentions are searched for, with a pipeline; default: vectors near
        prototypes
    n_queries: Number of queries, drawn by seed
    recall: Minimum fraction of queries whose first result is that of the exact index
    types: Try this type only: ivf, ivf_sq8, ivf_pq or hnsw
    index_device: see `tune`
    dry_run: Measure and save nothing
    metrics: Write all results to this .json file
    name: Name of the linker, or span extractor, in the pipeline
    seed: Random seed of the draw

    A pipeline saves the `index_device` as a setting; a knowledge base alone has none.
    If a knowledge base cannot be written completely, the old one is kept.
    Raises KrisselError K006 (queries without a pipeline or without mentions), K201 and K212
    (queries), K611 and K610 (no pipeline, no linker), and those of `tune` and
    `PrototypeKB.from_disk`.
    """
    if metrics is not None:
        check_file(metrics)
    check_parent(output or path)
    nlp: Language | None = None
    _restore_backups(path, name)
    if (path / MANIFEST).is_file():
        if queries is not None:
            expected = "nothing with a knowledge base alone: to encode mentions, name the pipeline"
            raise wrong_setting("queries", queries, expected)
        target = output or path
        check_replaceable(target, KB)
        kb = PrototypeKB(Vocab(), 0).from_disk(path)
    else:
        if output is not None:
            check_pipeline_output(output)
        nlp = load_pipeline(path)
        pipe = find_kb_pipe(nlp, name)
        kb = pipe.kb
        kb_path = Path(pipe.kb_path) if pipe.kb_path else path / name / "kb"
        if output is None and not kb_path.is_dir():
            expected = f"a folder to save the pipeline in, since there is no '{kb_path}'"
            raise wrong_setting("output", output, expected)
        target = output or kb_path
    kb.check_filled()
    if nlp is None or queries is None:
        vectors = near_vectors(kb, n_queries, seed)
    else:
        vectors = _mention_vectors(nlp, queries, n_queries, seed, name)
    # Built indexes are as large as the chosen one: on the disk of the result.
    with temporary_folder(target.absolute()) as folder:
        tuning, index = tune(
            kb,
            vectors,
            folder,
            recall=recall,
            types=types,
            index_device=index_device,
            progress=progress,
        )
        if not dry_run:
            kb.set_index(index, tuning.summary(kb.n_prototypes))
            if nlp is None:
                kb.to_disk(target)
            else:
                _save(nlp, path, output, target, name, index_device)
    if metrics is not None:
        content = {"command": command, "chosen": asdict(tuning.chosen), **asdict(tuning)}
        write_text(metrics, json.dumps(content, indent=2) + "\n")
    return tuning


def show_tune_index(tuning: Tuning, path: Path, output: Path | None, dry_run: bool) -> str:
    return "\n".join(
        [*tuning_lines(tuning), "Nothing was saved" if dry_run else f"Saved: {output or path}"]
    )


def _restore_backups(path: Path, name: str) -> None:
    """Restore the knowledge base, in any of its locations, after an earlier run was killed."""
    paths = [path, path / name / "kb"]
    # A config that cannot be read is refused when the pipeline is loaded.
    with suppress(OSError, ValueError, KeyError):
        paths.append(Path(load_config(path / "config.cfg")["components"][name]["kb_path"] or path))
    for each in paths:
        restore_backup(each)


def _save(
    nlp: Language, path: Path, output: Path | None, kb_path: Path, name: str, device: str | None
) -> None:
    """Save the pipeline to `output`, or only its changed parts in place."""
    pipe, config = find_kb_pipe(nlp, name), nlp.get_pipe_config(name)
    made = config[KB_FACTORY_KEY]
    # An index named in the config would replace the chosen one.
    changes: dict[str, str | None] = {} if made.get("index") is None else {"index": None}
    if device is not None and made.get("index_device") != device:
        changes["index_device"] = device
    made.update(changes)
    if output is not None:
        pipe.kb_path = config["kb_path"] = None
        save_pipeline(nlp, output, name=name)
        return
    pipe.kb.to_disk(kb_path)
    if changes:
        with atomic_file(path / "config.cfg") as temporary:
            nlp.config.to_disk(temporary)


def _mention_vectors(nlp: Language, path: Path, n: int, seed: int, name: str) -> np.ndarray:
    """Return the vectors (up to `n`, d) of mentions, drawn by seed. Raises KrisselError K006 if
    there are none."""
    linker = find_linker(nlp, name)
    views = []
    for doc in read_doc_bins(path, nlp.vocab):
        views.extend(linker.views(doc, spans_of(doc, linker.cfg["spans_key"])))
    if not views:
        raise wrong_setting("queries", path, "docs with mentions")
    drawn = np.random.default_rng(seed).choice(len(views), min(n, len(views)), replace=False)
    return linker.encode([views[row] for row in np.sort(drawn).tolist()])

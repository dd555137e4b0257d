"""Build the full knowledge base of a trained pipeline."""

from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from spacy.language import Language

from ..corpora.doc_bins import read_doc_bins
from ..errors import Errors, KrisselError
from ..kb.build import fill_kb
from ..kb.gold_prototypes import GoldCounts
from ..kb.prototype_kb import PrototypeKB
from ..kb.sources import PrototypeSource
from .kb_pipe import KBPipe
from .linker import KrisselLinker
from .load import load_pipeline


def find_linker(nlp: Language, name: str = "krissel_linker") -> KrisselLinker:
    """The linker of a pipeline, be it disabled. Raises KrisselError K610 when there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.pipe_names) or "nothing"))
    return pipe


def find_kb_pipe(nlp: Language, name: str) -> KBPipe:
    """A pipe with a knowledge base, linker or span extractor, be it disabled. Raises KrisselError K610 when there is
    none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KBPipe):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.pipe_names) or "nothing"))
    return pipe


def build_prototypes(
    nlp: Language,
    source: PrototypeSource,
    *,
    name: str = "krissel_linker",
    index: Optional[Callable] = None,
    scratch: Optional[Path] = None,
    progress: bool = False,
) -> PrototypeKB:
    """Encode `source` with the linker's encoder, references too where it has them, as the linker's knowledge base.

    index: another index than the config's (`spacy-krissel.FaissIndex.v1` and its kin).
    scratch: a folder with room for what does not fit into memory (`PrototypeKB.scratch`).
    """
    pipe = find_kb_pipe(nlp, name)
    pipe.require_weights()
    kb = pipe.new_kb(index=index)
    kb.scratch = scratch
    parts = pipe.reference_parts()
    fill_kb(kb, source, pipe.encode, encoder=pipe.fingerprint(), references=parts, progress=progress)
    pipe.set_kb(kb)
    return kb


def save_pipeline(nlp: Language, output: Path, *, kb_path: Optional[Path] = None, name: str = "krissel_linker") -> None:
    """Save the pipeline with its knowledge base inside; or, with `kb_path`, beside it, if too large for a wheel."""
    pipe = find_kb_pipe(nlp, name)
    if kb_path is not None:
        pipe.kb.to_disk(kb_path)
        pipe.kb_path = str(kb_path)
        # Not in `nlp.config`, which is made anew from these at every access.
        nlp.get_pipe_config(name)["kb_path"] = str(kb_path)
    # spaCy makes the last folder of the path alone, and what was encoded is minutes of work.
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(output)


def add_gold_files(
    nlp: Language, gold: Sequence[Path], *, name: str = "krissel_linker", **settings: Any
) -> Dict[str, GoldCounts]:
    """Add the gold mentions of .spacy files to the linker's knowledge base, each under its file's name as source.

    settings: of `PrototypeKB.add_gold`. RETURNS: the counts by source.
    Raises KrisselError K520 when the knowledge base is empty of entities, K619 when two files have one name or the
    knowledge base has that source already, K201 and K212 (files). Nothing was added then, but for K201 and K212.
    """
    sources = _gold_sources(gold)
    kb = find_kb_pipe(nlp, name).kb
    if not kb.n_entities:
        kb.check_filled()
    present = kb.description()["prototype_sources"]
    for source, path in sources.items():
        if source in present:
            problem = f"the knowledge base has {present[source]:,} prototypes of it already"
            todo = f"Take those out with kb.remove_prototypes(source='{source}'), or rename the file"
            raise KrisselError(Errors.K619.format(path=path, source=source, problem=problem, todo=todo))
    return {
        source: kb.add_gold(read_doc_bins(path, nlp.vocab), source=source, **settings)
        for source, path in sources.items()
    }


def _gold_sources(gold: Sequence[Path]) -> Dict[str, Path]:
    """Raises KrisselError K619 when two files have one name."""
    sources: Dict[str, Path] = {}
    for path in gold:
        if path.stem in sources:
            problem, todo = f"'{sources[path.stem]}' has the same name", "Rename one of them, or leave one out"
            raise KrisselError(Errors.K619.format(path=path, source=path.stem, problem=problem, todo=todo))
        sources[path.stem] = path
    return sources


def prototypes(
    pipeline: Path,
    output: Path,
    ontology: Optional[Path] = None,
    mentions: Optional[Path] = None,
    *,
    gold: Sequence[Path] = (),
    gold_settings: Optional[Dict[str, Any]] = None,
    kb_path: Optional[Path] = None,
    overrides: Optional[Dict[str, Any]] = None,
    name: str = "krissel_linker",
    progress: bool = True,
    index: Optional[Callable] = None,
    **settings: Any,
) -> Dict[str, Any]:
    """Load a trained pipeline, give it the full knowledge base, save it to `output`. RETURNS: the KB's description.

    ontology: None keeps the knowledge base that the pipeline has, and adds `gold` to it.
    gold: .spacy files whose linked mentions become prototypes (KRISSBERT §3.7).
    gold_settings: of `PrototypeKB.add_gold`.
    settings: of `PrototypeSource`; they need an ontology, as `mentions` and `index` do.
    overrides: of the pipeline's config, such as `components.krissel_linker.threshold`.

    Raises KrisselError K614 when there is neither an ontology nor gold, or a setting that would need the one that is
    missing, and what `add_gold_files` raises.
    """
    from ..kb.sources import open_prototype_source

    if ontology is None:
        given = {"mentions": mentions, "index": index, **settings}
        unread = [key for key, value in given.items() if value is not None]
        if unread:
            raise KrisselError(Errors.K614.format(problem=f"Without an ontology, nothing reads {', '.join(unread)}"))
        if not gold:
            raise KrisselError(Errors.K614.format(problem="There is nothing to make prototypes of"))
    if gold_settings and not gold:
        raise KrisselError(
            Errors.K614.format(problem=f"Without gold mentions, nothing reads {', '.join(gold_settings)}")
        )
    # Before hours of encoding.
    _gold_sources(gold)
    nlp = load_pipeline(pipeline, overrides)
    if ontology is not None:
        settings = {"held_out": 0.0, "seed": 0, **settings}
        source = open_prototype_source(ontology, mentions, **settings)
        # On the disk that is to hold the result.
        scratch = (kb_path or output).absolute().parent
        scratch.mkdir(parents=True, exist_ok=True)
        build_prototypes(nlp, source, name=name, index=index, scratch=scratch, progress=progress)
    add_gold_files(nlp, gold, name=name, **(gold_settings or {}))
    pipe = find_kb_pipe(nlp, name)
    if pipe.kb_path and kb_path is None:
        # What was made here is not in the folder that the pipeline pointed to.
        pipe.kb_path = None
        nlp.get_pipe_config(name)["kb_path"] = None
    pipe.kb.check_filled()
    save_pipeline(nlp, output, kb_path=kb_path, name=name)
    return pipe.kb.description()

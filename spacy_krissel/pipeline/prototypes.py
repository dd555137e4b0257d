"""Build the full knowledge base of a trained pipeline."""

from pathlib import Path
from typing import Any, Callable, Dict, Optional

from spacy.language import Language

from ..errors import Errors, KrisselError
from ..kb.build import fill_kb
from ..kb.prototype_kb import PrototypeKB
from ..kb.sources import PrototypeSource
from .linker import KrisselLinker
from .load import load_pipeline


def find_linker(nlp: Language, name: str = "krissel_linker") -> KrisselLinker:
    """The linker of a pipeline, be it disabled. Raises KrisselError K610 when there is none called `name`."""
    pipe = nlp.get_pipe(name) if name in nlp.component_names else None
    if not isinstance(pipe, KrisselLinker):
        raise KrisselError(Errors.K610.format(name=name, found=", ".join(nlp.pipe_names) or "nothing"))
    return pipe


def build_prototypes(
    nlp: Language,
    source: PrototypeSource,
    *,
    name: str = "krissel_linker",
    index: Optional[Callable] = None,
    progress: bool = False,
) -> PrototypeKB:
    """Encode the prototypes of `source` with the linker's encoder, and make them the linker's knowledge base.

    index: another index than the config's (`spacy-krissel.FaissIndex.v1` and its kin).
    """
    linker = find_linker(nlp, name)
    linker.require_weights()
    kb = linker.new_kb(index=index)
    fill_kb(kb, source, linker.encode, encoder=linker.fingerprint(), progress=progress)
    linker.set_kb(kb)
    return kb


def save_pipeline(nlp: Language, output: Path, *, kb_path: Optional[Path] = None, name: str = "krissel_linker") -> None:
    """Save the pipeline with its knowledge base inside; or, with `kb_path`, beside it, if too large for a wheel."""
    linker = find_linker(nlp, name)
    if kb_path is not None:
        linker.kb.to_disk(kb_path)
        linker.kb_path = str(kb_path)
        # Not in `nlp.config`, which is made anew from these at every access.
        nlp.get_pipe_config(name)["kb_path"] = str(kb_path)
    nlp.to_disk(output)


def prototypes(
    pipeline: Path,
    output: Path,
    ontology: Path,
    mentions: Optional[Path] = None,
    *,
    kb_path: Optional[Path] = None,
    overrides: Optional[Dict[str, Any]] = None,
    name: str = "krissel_linker",
    progress: bool = True,
    index: Optional[Callable] = None,
    **settings: Any,
) -> Dict[str, Any]:
    """Load a trained pipeline, give it the full knowledge base, save it to `output`. RETURNS: the KB's description.

    settings: of `PrototypeSource`. overrides: of the pipeline's config, such as `components.krissel_linker.threshold`.
    """
    from ..kb.sources import open_prototype_source

    nlp = load_pipeline(pipeline, overrides)
    settings = {"held_out": 0.0, "seed": 0, **settings}
    source = open_prototype_source(ontology, mentions, **settings)
    kb = build_prototypes(nlp, source, name=name, index=index, progress=progress)
    save_pipeline(nlp, output, kb_path=kb_path, name=name)
    return kb.description()

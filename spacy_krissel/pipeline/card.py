"""Model card of a pipeline, which `spacy package` includes: `nlp.meta` and a file of licences.

The card is derived from the knowledge bases, the settings and `nlp.meta["krissel"]`. It stores no
facts of its own.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.util import walk_dict

from ..about import __version__
from ..layers.identity import fingerprint
from ..util.atomic import write_text
from ..util.escape import markdown_text
from ..util.hashing import stable_hash
from .kb_pipe import KBPipe
from .linker.component import KrisselLinker
from .pipe import KrisselPipe, link_writers

# Files that `spacy package` copies from a pipeline's folder: its own licence, and its sources'
# licences.
LICENCE, LICENCES = "LICENSE", "LICENSES_SOURCES"
BEGIN, END = "<!-- spacy-krissel: begin -->", "<!-- spacy-krissel: end -->"
OURS = re.compile(rf"\s*{BEGIN}.*?{END}\s*", re.DOTALL)
FIGURES = ("strict", "lenient")
NOT_STATED = "not stated"


def update_card(nlp: Language) -> None:
    """Rewrite the pipeline's model card in `nlp.meta`; do nothing without a knowledge base.

    Keep the `description`, `license`, `sources` and `notes` that others wrote. Remove from
    `performance` the scores and losses that training left for this package's components. Remove
    scores of evaluations (`krissel evaluate --write-meta`) if knowledge base, encoder or settings
    have changed since. `nlp.to_disk` saves the card unchanged.
    """
    pipes = {
        name: pipe
        for name, pipe in _pipes(nlp).items()
        if isinstance(pipe, KBPipe) and pipe.kb.n_entities
    }
    if not pipes:
        return
    meta = nlp.meta
    facts = meta.setdefault("krissel", {})
    _update_performance(nlp, facts)
    licences = list(
        dict.fromkeys(
            _licence(each) for pipe in pipes.values() for each in pipe.kb.ontology or [{}]
        )
    )
    before, description = facts.get("card", {}), " ".join(map(_summary, pipes.values()))
    # A licence that omits a source would mislead.
    facts["card"] = {
        "description": description,
        "license": "; ".join(licences) * (NOT_STATED not in licences),
    }
    for key, text in facts["card"].items():
        if meta.get(key, "") in ("", before.get(key)):
            meta[key] = text
    # Two components that share an ontology have one source.
    ours = {
        each["name"]: each for name, pipe in pipes.items() for each in _sources(nlp, name, pipe)
    }
    others = [each for each in meta.get("sources") or () if not _is_ours(each)]
    meta["sources"] = [each if isinstance(each, dict) else {"name": each} for each in others] + [
        *ours.values()
    ]
    lines = [line for name, pipe in pipes.items() for line in _section(nlp, name, pipe, facts)]
    meta["notes"] = _with_ours(
        meta.get("notes") or "", [*lines, *_evaluation(facts), *_use(nlp, pipes)]
    )


def add_evaluation(nlp: Language, corpus: str, data: dict[str, Any]) -> None:
    """Add an evaluation of the pipeline (`Report.data`) to its card, and replace an earlier one on
    this `corpus`."""
    found = {key: data[key] for key in ("mentions", "n", *FIGURES)}
    found["intervals"] = {key: data["intervals"][key] for key in FIGURES}
    found |= {"date": date.today().isoformat(), "version": __version__, "state": _state(nlp)}
    nlp.meta.setdefault("krissel", {}).setdefault("evaluations", {})[corpus] = found
    update_card(nlp)


def describe(nlp: Language) -> dict[str, Any]:
    """Return the facts of a pipeline that an evaluation reports.
    `name` is its folder and `package` its name and version. `linkers` maps each component to its
    `knowledge_base` and its `nil` rule, as text.
    """
    linkers = {}
    for name, pipe in _pipes(nlp).items():
        if isinstance(pipe, KrisselLinker):
            sources = [f"{_title(each)}, licence {_licence(each)}" for each in pipe.kb.ontology]
            text = (
                f"{pipe.kb.n_entities:,} entities of "
                f"{'; '.join(sources) or 'an ontology that is not stated'}"
            )
            linkers[name] = {
                "knowledge_base": text,
                "nil": _nil(name, pipe.cfg, nlp.meta.get("krissel", {})),
            }
    package = "{lang}_{name} {version}".format(**nlp.meta)
    return {
        "name": getattr(nlp.path, "name", "") or package.split()[0],
        "package": package,
        "linkers": linkers,
    }


def write_licences(nlp: Language, folder: Path) -> None:
    """Write LICENSES_SOURCES into the folder of a saved pipeline.
    Keep what the folder it was loaded from contained: LICENSE, and licences of other sources.
    """
    lines = [
        f"- {each['name']}: licence {each['license']}"
        for each in nlp.meta.get("sources") or ()
        if _is_ours(each)
    ]
    for pipe in _pipes(nlp).values():
        for each in pipe.kb.ontology if isinstance(pipe, KBPipe) else ():
            for name, of in each.get("vocabularies", {}).items():
                # UMLS and RxNorm state a restriction level, OMOP does not.
                level = f": restriction level {of['restriction']}" if "restriction" in of else ""
                lines.append(f"- {name} {of['version']}, of {each['source']}{level}")
    texts = {name: _text(nlp.path / name) if nlp.path else "" for name in (LICENCE, LICENCES)}
    texts[LICENCES] = _with_ours(texts[LICENCES], lines)
    for name, text in texts.items():
        if text and _text(folder / name) != text:
            write_text(folder / name, text)


def _pipes(nlp: Language) -> dict[str, KrisselPipe]:
    return {name: pipe for name, pipe in nlp.components if isinstance(pipe, KrisselPipe)}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf8", errors="replace") if path.is_file() else ""


def _with_ours(text: str, lines: list[str]) -> str:
    """Return the text with its earlier generated section replaced by these lines."""
    ours = "\n".join(["", "", BEGIN, "", *lines, "", END]) if lines else ""
    return (OURS.sub("\n\n", text).strip() + ours).strip()


def _state(nlp: Language) -> str:
    """Return a hash of everything that links depend on, except other components' weights."""
    state: list[Any] = [nlp.pipe_names]
    for name, pipe in _pipes(nlp).items():
        kb = pipe.kb.description() if isinstance(pipe, KBPipe) else None
        state.append([name, fingerprint(pipe.model), dict(pipe.cfg), kb])
    return f"{stable_hash(json.dumps(state, sort_keys=True)):016x}"


def _update_performance(nlp: Language, facts: dict[str, Any]) -> None:
    performance = nlp.meta.get("performance") or {}
    losses = {f"{name}_loss": name for name in _pipes(nlp)}
    for key in losses.keys() & performance.keys():
        facts.setdefault("training", {})[losses[key]] = {
            "max_steps": nlp.config["training"].get("max_steps")
        }
    # Training scores have the same prefix, for any group of spans.
    kept = {
        key: score
        for key, score in performance.items()
        if not key.startswith("krissel_") and key not in losses
    }
    if evaluations := facts.pop("evaluations", None):
        state = _state(nlp)
        facts["evaluations"] = {
            corpus: each for corpus, each in evaluations.items() if each["state"] == state
        }
        for corpus, each in facts["evaluations"].items():
            kept |= {f"krissel_{corpus}_{key}": each[key] for key in FIGURES}
    nlp.meta["performance"] = kept


def _summary(pipe: KBPipe) -> str:
    does = "Links mentions to" if isinstance(pipe, KrisselLinker) else "Finds, in text,"
    of = ", ".join(map(_title, pipe.kb.ontology))
    return f"{does} {pipe.kb.n_entities:,} entities{f' of {of}' if of else ''}."


def _title(ontology: dict[str, Any]) -> str:
    version = f", version {ontology['version']}" if ontology.get("version") else ""
    return f"{ontology.get('source', NOT_STATED)}{version}"


def _licence(ontology: dict[str, Any]) -> str:
    return str(ontology.get("licence") or NOT_STATED)


def _is_ours(source: Any) -> bool:
    return isinstance(source, dict) and "for" in source


def _sources(nlp: Language, name: str, pipe: KBPipe) -> Iterator[dict[str, str]]:
    """Yield sources as `meta.json` expects them, with text keys and values. "for": the
    component."""
    for each in pipe.kb.ontology:
        version = str(each.get("version", ""))
        url = {"url": version} if version.startswith("http") else {}
        yield {"name": _title(each), **url, "license": _licence(each), "for": name}
    texts = nlp.meta["krissel"].get("text", {}).get(name) or []
    mined = [(", ".join([*texts[:3], *(["…"] if len(texts) > 3 else [])]), "")] if texts else []
    for found, address in (*mined, *_models(nlp, name)):
        yield {
            "name": found,
            **({"url": address} if address else {}),
            "license": NOT_STATED,
            "for": name,
        }
    for each in _start(nlp, name).get("sources", ()):
        yield {**each, "for": name}


def _start(nlp: Language, name: str) -> dict[str, Any]:
    """Return the origin of this encoder: the pipeline it started from, with the sources if that one
    ships, or the encoder it was "distilled" from."""
    found: dict[str, Any] = nlp.meta["krissel"].get("start", {}).get(name, {})
    return found


def encoder_facts(nlp: Language, name: str) -> dict[str, Any]:
    """Return the name and the sources of a component's encoder, for encoders derived from it
    (`_start`)."""
    start, models = _start(nlp, name), dict(_models(nlp, name))
    sources = [
        {"name": found, **({"url": url} if url else {}), "license": NOT_STATED}
        for found, url in models.items()
    ]
    names = [*models, *filter(None, [start.get("name")])]
    return {"name": ", ".join(names), "sources": [*sources, *start.get("sources", ())]}


def _models(nlp: Language, name: str) -> Iterator[tuple[str, str]]:
    """Yield the pretrained models of the encoder: names, without local folders, and addresses."""
    for keys, value in walk_dict(nlp.get_pipe_config(name)["model"]):
        if keys[-1] == "name" and isinstance(value, str) and value:
            is_local = Path(value).is_absolute() or Path(value).exists()
            yield (Path(value).name, "") if is_local else (value, f"https://huggingface.co/{value}")


def _section(nlp: Language, name: str, pipe: KBPipe, facts: dict[str, Any]) -> Iterator[str]:
    described = pipe.kb.description()
    kinds, gold = described["prototype_kinds"], described["prototype_sources"]
    yield f"### Knowledge base of `{name}`\n"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    yield (
        f"- **Entities**: {described['entities']:,}, with {described['prototypes']:,} prototypes "
        f"({counts})"
    )
    for each in described["ontology"] or [{}]:
        yield (
            f"- **Ontology**: {markdown_text(_title(each))}; licence: "
            f"{markdown_text(_licence(each))}"
        )
    config, trained = nlp.get_pipe_config(name), facts.get("training", {}).get(name)
    # A linker sourced from another pipeline does not carry over whether it was trained.
    by = (
        f"{'trained by' if trained else 'objective:'} "
        f"{(config.get('objective') or {}).get('@misc', NOT_STATED)}"
    )
    steps = f", {trained['max_steps']:,} steps at most" if trained and trained["max_steps"] else ""
    models = [*dict(_models(nlp, name)), *filter(None, [_start(nlp, name).get("name")])]
    how = (
        f"{by}{steps}"
        if trained or config.get("objective")
        else f"not trained{' further' * bool(models)}"
    )
    how = "distilled" if _start(nlp, name).get("distilled") else how
    how += ", in 8-bit integers" if pipe.is_quantized else ""
    of = "".join(f" of {markdown_text(model)}" for model in models)
    yield f"- **Encoder**: {config['model']['@architectures']}{of}, {how}"
    if isinstance(pipe, KrisselLinker):
        yield f"- **NIL**: {_nil(name, pipe.cfg, facts)}"
    named = {**gold, "an unnamed source": kinds.get("gold", 0) - sum(gold.values())}
    added = _by_source(named)
    if described["inactive"] is not None:
        gone = "{gold:,} of {entities:,} entities of earlier releases, inactive"
        added = f"{added}, {gone.format(**described['inactive'])}"
    yield f"- **Gold prototypes**, of annotated mentions: {added}"
    said = _by_source(described["verdict_sources"])
    if described["inactive"] is not None:
        said = f"{said}, {described['inactive']['verdicts']:,} inactive"
    yield f"- **Verdicts**, corrections and rejections of links: {said}\n"


def _by_source(counts: dict[str, int]) -> str:
    parts = (
        f"{count:,} of {markdown_text(source or 'an unnamed source')}"
        for source, count in counts.items()
        if count > 0
    )
    return ", ".join(parts) or "none"


def _nil(name: str, cfg: Any, facts: dict[str, Any]) -> str:
    said = []
    fit, calibrated = (facts.get(key, {}).get(name) for key in ("confidence", "calibration"))
    if least := cfg.get("min_confidence"):
        said.append(f"where the best candidate's confidence is below {least:.3f}")
    # A fit of an earlier version lacks what is stated.
    if fit and "linked_other" in fit and math.isclose(fit["min_confidence"], least, abs_tol=1e-6):
        keys = "precision_known", "linked_other"
        precision, others = (f"{100 * fit[key]:.0f} %" for key in keys)
        said.append(
            f"expected: {precision} of links are correct if the mention's entity is here, and "
            f"{others} of mentions of other kinds are linked, too (by {fit['n']:,} names and "
            "mentions of the knowledge base, without gold mentions)"
        )
    if (threshold := cfg.get("threshold")) is not None:
        is_fitted = calibrated and math.isclose(calibrated["threshold"], threshold, abs_tol=1e-6)
        fitted = f", fitted to {calibrated['n']:,} gold mentions" if is_fitted else ""
        said.append(f"where the best score is below {threshold:.6g}{fitted}")
    return (
        "; ".join(said)
        or "none; every mention is linked, also where its entity is not in the knowledge base"
    )


def _evaluation(facts: dict[str, Any]) -> Iterator[str]:
    yield "### Evaluation\n"
    if not facts.get("evaluations"):
        yield (
            "None for the present state of this pipeline; `krissel evaluate --write-meta` adds one."
        )
        return
    yield (
        "| corpus | mentions | n | strict, 95 % interval | lenient, 95 % interval | date | "
        "spacy-krissel |"
    )
    yield "| --- | --- | ---: | ---: | ---: | --- | --- |"
    for corpus, each in facts["evaluations"].items():
        intervals = (
            " to ".join(f"{100 * bound:.1f}" for bound in each["intervals"][key] or ())
            for key in FIGURES
        )
        shown = (
            f"{100 * each[key]:.1f}, {between or '–'}"
            for key, between in zip(FIGURES, intervals, strict=True)
        )
        cells = [
            markdown_text(corpus),
            each["mentions"],
            f"{each['n']:,}",
            *shown,
            each["date"],
            each["version"],
        ]
        yield f"| {' | '.join(cells)} |"


def _use(nlp: Language, pipes: dict[str, KBPipe]) -> Iterator[str]:
    yield "\n### Intended use and limits\n"
    yield (
        "- For research. Links are not checked by a person: no decision on a patient should rest "
        "on them alone."
    )
    for name, pipe in pipes.items():
        if (
            not {"mention", "replaced", "gold", "reference"}
            & pipe.kb.description()["prototype_kinds"].keys()
        ):
            taken = "the one that prefers it, or else the one with the most names"
            yield (
                f"- `{name}` knows names without contexts: of entities that share a name it takes "
                f"{taken}."
            )
        if isinstance(pipe, KrisselLinker) and link_writers(nlp) == nlp.pipe_names:
            yield (
                f"- `{name}` needs a component before it that finds mentions; none is in this "
                "pipeline."
            )

"""Run the rows of an ablation: the plain function behind `python experiments/lab ablation`."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import spacy
from pydantic import Field
from spacy.language import Language
from wasabi import msg

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import add_gold_files, build_prototypes
from spacy_krissel.commands.distill_encoder import distill
from spacy_krissel.evaluation.baselines import link_by_baselines
from spacy_krissel.evaluation.calibrate import calibrate
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.evaluation.gold import linked_mentions, read_gold
from spacy_krissel.evaluation.records import read_records
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import choose_gpu, find_linker, load_pipeline
from spacy_krissel.util.atomic import check_folder, write_text
from spacy_krissel.util.hashing import content_hash, sha256_file
from spacy_krissel.util.manifest import new_directory, read_manifest

from ..errors import Errors, KrisselError
from ..few_shot import FewShot, few_shot
from ..plots import draw_curves
from .details import (
    Details,
    TopScores,
    aupr_lead,
    drawn_nil_curve,
    gradient_figures,
    nil_figures,
    run_scores,
    seen_figures,
)
from .memorised import memorised
from .settings import Ablation, Row, read_ablation
from .table import (
    AllRuns,
    Answers,
    Runs,
    ablation_report,
    ablation_table,
    answers,
    recall_curve,
    summarize,
)
from .train import LINKER, STEPS, train_linker, train_reranker

KIND, VERSION, MAKE = "part of an ablation", 1, "python experiments/lab ablation, after removing it"
PIPELINE, KB, REPORT, FEW_SHOT, CALIBRATION = (
    "pipeline",
    "kb",
    "report",
    "few-shot",
    "calibration.json",
)


def run_ablation(
    config: Path,
    output: Path,
    *,
    rows: Sequence[str] = (),
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    overrides: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train and evaluate each row (KRISSBERT, Table 7) and draw the curves (Figure 2).

    An interrupted run resumes: what a row has trained or measured is not made again. Further
    options override the file: --sets.ncbi.gold dev.spacy

    config: ablation file, such as configs/ablation-small.yml
    output: folder of the rows, the table and the plots
    rows: run and show only this row, and those that it needs
    gpu_id: GPU, or -1 for the CPU
    overrides: of the file, by dotted key

    Raises those of `read_ablation` and `AblationRun`.
    """
    check_folder(output)
    ablation = read_ablation(config, overrides)
    choose_gpu(gpu_id)
    return AblationRun(ablation, output, gpu_id=gpu_id, say=msg.divider)(rows)


def show_run_ablation(found: dict[str, Any], output: Path) -> str:
    return f"{ablation_table(found)}\nTable and curves: {output}/ablation.md, ablation.json"


class AblationRun:
    """Trains and measures row by row, in `output`; existing results are not computed again.

        <row>/seed-<n>/linker        the trained linker, and what was logged of its steps
        <row>/seed-<n>/reranked      linker and re-ranker, where there is one
        <row>/seed-<n>/sets/<set>    the evaluation's report; the knowledge base too, where it is needed again, and
                                     what was fitted, where a threshold was
        few-shot/<set>
        ablation.json, ablation.md, top-k.svg, few-shot.svg, nil.svg,
        gradient-norms.svg

    Each folder is complete or absent, and records the settings and the content of the files that it
    was made with.
    """  # noqa: E501

    def __init__(
        self,
        ablation: Ablation,
        output: str | Path,
        *,
        gpu_id: int = -1,
        say: Callable[[str], Any] = print,
    ) -> None:
        self.ablation = ablation
        self.output = Path(output)
        self.gpu_id = gpu_id
        self.say = say

    def __call__(self, rows: Sequence[str] = ()) -> dict[str, Any]:
        """Run all rows, and the few-shot curve; or `rows` alone, with those that they
        need. RETURNS: what `ablation.json` holds.

        Raises KrisselError K026 (the output), K902 (an unknown row), K903 (a folder that was made
        with other settings or files), and what training, `PrototypeSource` and `evaluate` raise.
        """
        check_folder(self.output)
        measured: AllRuns = {}
        few_shots: dict[str, list[FewShot]] = {}
        for name in self.ablation.chosen(rows):
            golds = [gold for gold in self.ablation.sets if self._is_measured(name, gold)]
            measured[name] = {gold: {} for gold in golds}
            for seed in self.ablation.seeds_of(name):
                for gold in golds:
                    measured[name][gold][seed] = self.measure(name, seed, gold)
            # Written after each row, so that intermediate results can be read.
            self._write(measured, few_shots)
        if self.ablation.curves.shots and (
            not rows or any(self.ablation.rows[name].examples for name in rows)
        ):
            for gold, data in self.ablation.sets.items():
                if data.examples is not None:
                    few_shots[gold] = self.few_shot(gold)
        return self._write(measured, few_shots, whole=True)

    def _is_measured(self, name: str, gold: str) -> bool:
        return (
            not self.ablation.rows[name].examples or self.ablation.sets[gold].examples is not None
        )

    def pipeline(self, name: str, seed: int) -> Path:
        """Return the trained pipeline that row `name` uses, without knowledge base."""
        has_reranker = self.ablation.has_reranker(name)
        name = self.ablation.trained(name)
        title, folder = self.ablation.rows[name].title, self._folder(name, seed)
        with self._made(folder / "linker", self._linker_settings(name, seed)) as linker:
            if linker is not None:
                self.say(f"{title} (seed {seed}): training the linker")
                train_linker(self.ablation, name, seed, linker / PIPELINE, gpu_id=self.gpu_id)
        if not has_reranker:
            return folder / "linker" / PIPELINE
        with self._made(folder / "reranked", self._reranker_settings(name, seed)) as reranked:
            if reranked is not None:
                self.say(f"{title} (seed {seed}): training the re-ranker")
                source, target = folder / "linker" / PIPELINE, reranked / PIPELINE
                train_reranker(self.ablation, name, seed, source, target, gpu_id=self.gpu_id)
        return folder / "reranked" / PIPELINE

    def measure(self, name: str, seed: int, gold: str) -> Answers:
        """Return the measures of row `name` on the mentions of set `gold`."""
        row, data = self.ablation.rows[name], self.ablation.sets[gold]
        pipeline = self.pipeline(name, seed)
        folder = self._folder(name, seed) / "sets" / gold
        settings = self._linking_settings(name, seed, gold, examples=row.examples)
        with self._made(folder, settings) as made:
            if made is not None:
                self.say(f"{row.title} (seed {seed}): linking {gold}")
                nlp = self._with_kb(pipeline, name, seed, gold)
                if self._is_needed_again(name, gold):
                    find_linker(nlp, LINKER).kb.to_disk(made / KB)
                if row.distilled:
                    distill(nlp, name=LINKER, seed=seed)
                if row.examples and data.examples is not None:
                    add_gold_files(nlp, [data.examples], name=LINKER)
                asked: dict[str, Any] = {"baselines": False, "timed_mentions": 0}
                if data.seen is not None:
                    asked["train"] = data.seen
                if data.calibration is not None:
                    asked["gold_nil"] = True
                    asked_too = {"name": LINKER, "held_out": data.held_out, "seed": seed}
                    # Last as it is, whose threshold stays.
                    shares = (*data.nil_shares, None)
                    fitted = [
                        calibrate(nlp, data.calibration, nil_share=each, **asked_too).data
                        for each in shares
                    ]
                    write_text(made / CALIBRATION, json.dumps(fitted, indent=2) + "\n")
                evaluate(nlp, data.gold, data.ontology, made, name=REPORT, **asked)
        return answers(read_records(folder / f"{REPORT}.links.jsonl"))

    def few_shot(self, gold: str) -> list[FewShot]:
        """Return the few-shot curve of the first row and its first seed, on set `gold`."""
        name, curves, data = self.ablation.first, self.ablation.curves, self.ablation.sets[gold]
        assert data.examples is not None, "called for sets with examples"
        seed = self.ablation.seeds_of(name)[0]
        pipeline = self.pipeline(name, seed)
        folder = self.output / FEW_SHOT / gold
        curve = {"shots": curves.shots, "draws": curves.draws}
        settings = {**self._linking_settings(name, seed, gold, examples=True), "curve": curve}
        with self._made(folder, settings) as made:
            if made is not None:
                self.say(f"few-shot curve: linking {gold}")
                nlp = self._with_kb(pipeline, name, seed, gold)
                shots, draws = curves.shots, curves.draws
                few_shot(
                    nlp,
                    data.gold,
                    data.examples,
                    data.ontology,
                    made,
                    name=FEW_SHOT,
                    shots=shots,
                    seeds=draws,
                    linker=LINKER,
                )
        saved = json.loads((folder / f"{FEW_SHOT}.json").read_text(encoding="utf8"))
        return [FewShot(**row) for row in saved[FEW_SHOT.replace("-", "_")]]

    def _with_kb(self, path: Path, name: str, seed: int, gold: str) -> Language:
        """Return the pipeline of row `name`, at `path`, with the knowledge base of set `gold`: a
        kept one, or a new one."""
        row, data, trained = (
            self.ablation.rows[name],
            self.ablation.sets[gold],
            self.ablation.trained(name),
        )
        kept = self._folder(trained, seed) / "sets" / gold / KB
        if self.ablation.has_kb_of(name, trained) and kept.exists():
            return load_pipeline(path, {**row.pipeline, f"components.{LINKER}.kb_path": str(kept)})
        nlp = load_pipeline(path, row.pipeline)
        settings = {**row.prototypes.model_dump(), "held_out": 0.0, "seed": seed}
        source = PrototypeSource(
            row.ontology or data.ontology, data.mined(row.mined_aliases), **settings
        )
        build_prototypes(nlp, source, name=LINKER, progress=True)
        return nlp

    def _is_needed_again(self, name: str, gold: str) -> bool:
        ablation = self.ablation
        users = [
            other
            for other in ablation.users(name)
            if other != name and ablation.has_kb_of(other, name)
        ]
        curve = name == ablation.first and ablation.curves.shots and ablation.sets[gold].examples
        return bool(users or curve)

    # Recorded in the folders: everything that affects their content.

    def _linker_settings(self, name: str, seed: int) -> dict[str, Any]:
        row, training = self.ablation.rows[name], self.ablation.train
        described = training.model_dump(mode="json")
        read = [training.ontology, training.mentions]
        if row.mined_aliases:
            del described["mentions_without_aliases"]
        else:
            read.append(training.mentions_without_aliases)
        settings = {
            "data": described,
            "config": sha256_file(training.config),
            "row": row.train,
            **_other_ontology(row),
        }
        read.append(row.ontology)
        return {
            **settings,
            "mined_aliases": row.mined_aliases,
            "seed": seed,
            "files": _hashes(read),
        }

    def _reranker_settings(self, name: str, seed: int) -> dict[str, Any]:
        row, training = self.ablation.rows[name], self.ablation.reranker
        assert training is not None, "called where there is a re-ranker to train"
        settings: dict[str, Any] = {"linker": self._linker_settings(name, seed)}
        settings.update(
            training=training.model_dump(mode="json", exclude={"rows"}),
            config=sha256_file(training.config),
        )
        return {**settings, "row": row.reranker, "prototypes": row.prototypes.model_dump()}

    def _linking_settings(
        self, name: str, seed: int, gold: str, *, examples: bool
    ) -> dict[str, Any]:
        row, data, trained = (
            self.ablation.rows[name],
            self.ablation.sets[gold],
            self.ablation.trained(name),
        )
        described = (
            self._reranker_settings if self.ablation.has_reranker(name) else self._linker_settings
        )
        mined = data.mined(row.mined_aliases)
        paths = {
            "gold": data.gold,
            "ontology": data.ontology,
            **({"mentions": mined} if mined else {}),
        }
        read = [*paths.values(), data.examples if examples else None, row.ontology]
        # Keep the names of earlier versions if these options are unset.
        further = {
            key: value
            for key, value in (("seen", data.seen), ("calibration", data.calibration))
            if value
        }
        held_out = {"held_out": data.held_out} if data.held_out else {}
        held_out |= {"nil_shares": data.nil_shares} if data.nil_shares else {}
        paths.update(further)
        read += further.values()
        return {
            "trained": described(trained, seed),
            "set": {**{key: str(path) for key, path in paths.items()}, **held_out},
            "pipeline": row.pipeline,
            "prototypes": row.prototypes.model_dump(),
            **_other_ontology(row),
            **({"distilled": True} if row.distilled else {}),
            "examples": str(data.examples) if examples else "",
            "files": _hashes(read),
        }

    def _folder(self, name: str, seed: int) -> Path:
        return self.output / name / f"seed-{seed}"

    @contextmanager
    def _made(self, path: Path, settings: dict[str, Any]) -> Iterator[Path | None]:
        """Yield the folder to write that becomes `path`, or None if it exists."""
        if path.exists():
            found = read_manifest(path, KIND, VERSION, make=MAKE)["settings"]
            # Through JSON, as they were saved.
            wanted = json.loads(json.dumps(settings))
            if found != wanted:
                keys = [
                    key for key in sorted({*found, *wanted}) if found.get(key) != wanted.get(key)
                ]
                raise KrisselError(
                    Errors.K903.format(path=path, problem=f"{', '.join(keys)} changed since")
                )
            yield None
            return
        with new_directory(path, KIND, VERSION) as directory:
            directory.info["settings"] = settings
            yield directory.path

    def _write(
        self, measured: AllRuns, few_shots: dict[str, list[FewShot]], *, whole: bool = False
    ) -> dict[str, Any]:
        found = summarize(self.ablation, measured, self._baselines(measured) if whole else None)
        curves = self.ablation.curves
        rows = [name for name in curves.top_k if name in measured]
        found["top_k"] = {
            gold: {
                name: recall_curve(measured[name][gold], curves.max_k)
                for name in rows
                if gold in measured[name]
            }
            for gold in (self.ablation.sets if rows else ())
        }
        found["few_shot"] = {
            gold: [asdict(shot) for shot in shots] for gold, shots in few_shots.items()
        }
        found.update(self._details(measured))
        found["gradient_norms"] = self._gradient_norms(measured)
        text = json.dumps(found, indent=2, ensure_ascii=False)
        write_text(self.output / "ablation.json", text + "\n")
        write_text(self.output / "ablation.md", ablation_report(found))
        if whole and (
            found["top_k"] or found["few_shot"] or found["nil_curves"] or found["gradient_norms"]
        ):
            draw_curves(found, self.output)
        return found

    def _baselines(self, measured: AllRuns) -> dict[str, dict[str, Runs]]:
        """Return the results of linking without an encoder on the mentions of the first row's first
        run."""
        found: dict[str, dict[str, Runs]] = {}
        for gold, data in self.ablation.sets.items():
            if data.baselines is None:
                continue
            seed, *_ = measured[self.ablation.first][gold]
            records = read_records(
                self._folder(self.ablation.first, seed) / "sets" / gold / f"{REPORT}.links.jsonl"
            )
            store = OntologyStore(data.baselines)
            documents = {item.id: item.doc.text for item in read_gold(data.gold, spacy.blank("en"))}
            for title, links in link_by_baselines(records, store, documents).items():
                found.setdefault(title, {})[gold] = {seed: answers(links)}
            if data.seen is not None:
                linked = memorised(
                    records, linked_mentions(read_gold(data.seen, spacy.blank("en")), store)
                )
                found.setdefault("memorisation", {})[gold] = {seed: answers(linked)}
        return found

    def _details(self, measured: AllRuns) -> dict[str, Details]:
        """Return figures of seen and unseen entities and of NIL, and the curves of the first seed,
        for sets that have them."""
        found: dict[str, Details] = {"seen": {}, "nil": {}, "nil_curves": {}}
        for gold, data in self.ablation.sets.items():
            scores: dict[str, list[TopScores | None]] = {}
            for name in measured if data.seen or data.calibration else ():
                folders = [
                    self._folder(name, seed) / "sets" / gold
                    for seed in measured[name].get(gold, ())
                ]
                if not folders:
                    continue
                reports = [_read_json(folder / f"{REPORT}.json") for folder in folders]
                if data.seen is not None:
                    found["seen"].setdefault(gold, {})[name] = seen_figures(reports)
                if data.calibration is not None:
                    runs = [read_records(folder / f"{REPORT}.links.jsonl") for folder in folders]
                    scores[name] = [run_scores(run) for run in runs]
                    for fitted in zip(
                        *(_read_json(folder / CALIBRATION) for folder in folders), strict=True
                    ):
                        share = fitted[0]["nil_share"]
                        figures = nil_figures(runs, fitted)
                        if name != self.ablation.first:
                            figures["lead"] = aupr_lead(
                                scores[name], scores[self.ablation.first], share
                            )
                        found["nil"].setdefault(gold, {}).setdefault(str(share), {})[name] = figures
                    found["nil_curves"].setdefault(gold, {})[name] = drawn_nil_curve(
                        scores[name][0]
                    )
        return found

    def _gradient_norms(self, measured: AllRuns) -> dict[str, Any]:
        """Return the gradient norms of the first seed, for rows whose steps were logged."""
        found = {}
        for name in measured:
            path = self._folder(name, self.ablation.seeds_of(name)[0]) / "linker" / STEPS
            if path.exists():
                found[name] = gradient_figures(path, LINKER)
        return found


def _other_ontology(row: Row) -> dict[str, str]:
    return {} if row.ontology is None else {"ontology": str(row.ontology)}


def _hashes(paths: Sequence[Path | None]) -> dict[str, str]:
    return {str(path): content_hash(path) for path in paths if path is not None}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf8"))

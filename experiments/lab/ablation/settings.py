"""Settings of an ablation file: the training, the gold sets, and the rows of the table."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import srsly
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import Errors, KrisselError

# Rows and sets are folders and files of the output.
NAME = re.compile(r"\w[\w.-]*")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Knowledge(Section):
    """An ontology store, and mentions mined with it (none: names alone).

    mentions_without_aliases: mined with `krissel mine --no-aliases`, for rows without
        `mined_aliases`.
    """

    ontology: Path
    mentions: Path | None = None
    mentions_without_aliases: Path | None = None

    def mined(self, aliases: bool) -> Path | None:
        if aliases:
            return self.mentions
        assert self.mentions_without_aliases is not None, "checked when the file was read"
        return self.mentions_without_aliases


class Training(Knowledge):
    """Training of the linkers. config: of `spacy train`; overrides: of the config, by dotted
    key."""

    config: Path
    overrides: dict[str, Any] = {}


class RerankerTraining(Section):
    """Training of the re-rankers, each over its row's own linker, with the knowledge of `Training`,
    or on the gold mentions of the override `paths.gold`.

    config, overrides: as in `Training`.
    held_out: fraction of names that the linker's knowledge base lacks meanwhile; as in the config.
    rows: those that have one; None: all.
    """

    config: Path
    overrides: dict[str, Any] = {}
    held_out: float = 0.05
    rows: list[str] | None = None


class GoldSet(Knowledge):
    """A gold corpus, and the data of its linker's knowledge base.

    examples: gold mentions for §3.7.
    seen: gold mentions of the training; recall is reported separately for entities linked there and
        others.
    calibration: gold mentions, including NIL, that the threshold for NIL is fitted to; NIL mentions
        in `gold` are then counted too.
    nil_shares: further fractions of NIL among the mentions to report figures for, such as PEL's
        0.118.
    held_out: of `calibration`, the documents that training with this `dev_share` held out; 0: all.
    baselines: an ontology whose names exact match and TF-IDF link the same mentions with, also with
        abbreviations expanded, for four more rows; with `seen`, a fifth links each form to its most
        frequent entity there.
    """

    gold: Path
    examples: Path | None = None
    seen: Path | None = None
    calibration: Path | None = None
    nil_shares: list[float] = []
    held_out: float = 0.0
    baselines: Path | None = None


class Prototypes(Section):
    """Settings of a row's knowledge bases, as in `PrototypeSource`."""

    names: bool = True
    aliases: bool = True
    class_names: bool = True
    class_weight: float = 1.0
    mentions_per_entity: int = 16
    contexts_per_shared_name: int = 8
    max_entities: int = 0
    use_references: bool = True
    reference_prototypes: bool = False


class Row(Section):
    """A row of the table, as differences from the first.

    title: its title in the table.
    of: the row whose trained pipeline it uses, with other switches; None trains one of its own.
    baseline: the row above it that it is compared with; None is the first.
    seeds: instead of the file's; each is `system.seed` of the training configs.
    train, reranker: overrides of the training configs, by dotted key; those of the row that trained
        the linker.
    ontology: replaces the ontology of the file and the sets, for training and the knowledge base;
        one with the same ids, such as one whose homonyms are disambiguated.
    mined_aliases: whether mentions were mined by all names, not by the preferred ones alone.
    pipeline: overrides of the trained pipeline's config; in a row with another's knowledge base,
        not of settings that build one.
    prototypes: of the knowledge bases.
    distilled: encode the knowledge bases and mentions with a small encoder that learned the trained
        one's vectors (`krissel distill`).
    examples: the set's examples are prototypes too (lazy learning, §3.7).
    """

    title: str
    of: str | None = None
    baseline: str | None = None
    seeds: list[int] | None = None
    train: dict[str, Any] = {}
    reranker: dict[str, Any] = {}
    ontology: Path | None = None
    mined_aliases: bool = True
    pipeline: dict[str, Any] = {}
    prototypes: Prototypes = Prototypes()
    distilled: bool = False
    examples: bool = False


class Curves(Section):
    """Figure 2. top_k: the rows whose oracle accuracy is drawn, up to `max_k` candidates.

    shots, draws: of the few-shot curve, as in `few_shot`; for the first row, on the sets with
        examples.
    """

    top_k: list[str] = []
    max_k: int = 64
    shots: list[int | str] = []
    draws: list[int] = [0, 1, 2]


class Ablation(Section):
    """An ablation file. The first of `rows` is the system that the others are compared with, unless
    they name a baseline."""

    train: Training
    reranker: RerankerTraining | None = None
    sets: dict[str, GoldSet]
    rows: dict[str, Row]
    curves: Curves = Curves()
    seeds: list[int] = [0]

    @property
    def first(self) -> str:
        return next(iter(self.rows))

    def baseline_of(self, name: str) -> str:
        """Return the row that row `name` is compared with."""
        return self.rows[name].baseline or self.first

    def trained(self, name: str) -> str:
        """Return the row whose trained pipeline row `name` uses: its own, or that of another."""
        return self.rows[name].of or name

    def has_reranker(self, name: str) -> bool:
        """Return whether row `name`'s pipeline has a re-ranker."""
        training = self.reranker
        return training is not None and (training.rows is None or name in training.rows)

    def has_kb_of(self, name: str, other: str) -> bool:
        """Return whether two rows with the same encoder share a knowledge base."""
        ours, theirs = self.rows[name], self.rows[other]
        return _kb_of(ours) == _kb_of(theirs)

    def users(self, name: str) -> list[str]:
        """Return the rows that use the trained pipeline of row `name`, including itself."""
        return [other for other in self.rows if self.trained(other) == name]

    def seeds_of(self, name: str) -> list[int]:
        seeds = self.rows[self.trained(name)].seeds
        return self.seeds if seeds is None else seeds

    def chosen(self, names: Sequence[str] = ()) -> list[str]:
        """Return the rows called `names` (none: all) and those that they need, in the file's order.

        Raises KrisselError K902 for an unknown name.
        """
        for name in names:
            if name not in self.rows:
                raise KrisselError(Errors.K902.format(name=name, known=", ".join(self.rows)))
        needed = {self.first, *names} if names else set(self.rows)
        # A row needs only rows above it.
        for name in reversed(self.rows):
            if name in needed:
                needed |= {self.baseline_of(name), self.trained(name)}
        return [name for name in self.rows if name in needed]


def _kb_of(row: Row) -> Any:
    return row.prototypes, row.ontology, row.mined_aliases


def read_ablation(path: str | Path, overrides: dict[str, Any] | None = None) -> Ablation:
    """Read an ablation file (YAML or JSON; see `Ablation`). overrides: of its values, by dotted
    key.

    Raises KrisselError K001 (no such file), K901 (an unknown key, a value of another type, an
    inconsistent row).
    """
    path = Path(path)
    if not path.is_file():
        wanted = {
            "what": "ablation file",
            "expected": "a YAML file",
            "make": "a copy of experiments/krissbert/configs/ablation.yml",
        }
        raise KrisselError(Errors.K001.format(path=path, **wanted))
    try:
        data = srsly.read_yaml(path)
    except ValueError as error:
        raise KrisselError(Errors.K901.format(path=path, problem=f"not YAML ({error})")) from error
    if not isinstance(data, dict):
        raise KrisselError(
            Errors.K901.format(path=path, problem=f"{type(data).__name__} instead of sections")
        )
    for key, value in (overrides or {}).items():
        _set(data, key.split("."), value)
    try:
        ablation = Ablation(**data)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise KrisselError(Errors.K901.format(path=path, problem="; ".join(problems))) from error
    problem = "; ".join(_contradictions(ablation))
    if problem:
        raise KrisselError(Errors.K901.format(path=path, problem=problem))
    return ablation


def _set(data: dict[str, Any], keys: list[str], value: Any) -> None:
    for i, key in enumerate(keys[:-1]):
        inner = data.get(key)
        if not isinstance(inner, dict):
            inner = data[key] = {}
        data = inner
        if _holds_dotted_keys(keys[: i + 1]):
            data[".".join(keys[i + 1 :])] = value
            return
    data[keys[-1]] = value


def _holds_dotted_keys(path: list[str]) -> bool:
    """Return whether the path is one of overrides of another config, as in `train.overrides` and
    `rows.full.train`."""
    if path[0] == "rows":
        return len(path) == 3 and path[2] in ("train", "reranker", "pipeline")
    return path in (["train", "overrides"], ["reranker", "overrides"])


def _contradictions(ablation: Ablation) -> list[str]:
    """Return problems that types cannot express: settings that would be ignored, and unknown
    names."""
    found = [
        f"{kind} is empty" for kind in ("sets", "rows", "seeds") if not getattr(ablation, kind)
    ]
    for kind, names in (("sets", ablation.sets), ("rows", ablation.rows)):
        found += [
            f"{kind}.{name}: the name is no file name" for name in names if not NAME.fullmatch(name)
        ]
    trained = ablation.reranker
    if (
        trained is not None
        and ablation.train.mentions is None
        and "paths.gold" not in trained.overrides
    ):
        found.append(
            "train.mentions: the re-ranker learns from them, unless its overrides have paths.gold"
        )
    before: list[str] = []
    for name, row in ablation.rows.items():
        if row.of is not None:
            other = ablation.rows.get(row.of)
            if other is None or other.of is not None or row.of not in before:
                found.append(
                    f"rows.{name}.of: '{row.of}' is no row above it with a training of its own"
                )
            elif ablation.has_kb_of(name, row.of):
                making = [key for key in row.pipeline if "generate_empty_kb" in key.split(".")]
                found += [
                    f"rows.{name}.pipeline.{key}: it has the knowledge base of '{row.of}'"
                    for key in making
                ]
            unread = {"train": row.train, "reranker": row.reranker, "seeds": row.seeds is not None}
            found += [
                f"rows.{name}.{key}: it trains nothing itself"
                for key, value in unread.items()
                if value
            ]
        if row.baseline is not None and row.baseline not in before:
            found.append(f"rows.{name}.baseline: '{row.baseline}' is no row above it")
        before.append(name)
        if row.seeds == []:
            found.append(f"rows.{name}.seeds: is empty")
        if row.reranker and not any(ablation.has_reranker(each) for each in ablation.users(name)):
            found.append(f"rows.{name}.reranker: there is no re-ranker to train")
        if not row.mined_aliases:
            for where, data in {
                "train": ablation.train,
                **{f"sets.{n}": s for n, s in ablation.sets.items()},
            }.items():
                if data.mentions_without_aliases is None:
                    found.append(f"{where}.mentions_without_aliases: row '{name}' needs it")
        if row.examples and all(each.examples is None for each in ablation.sets.values()):
            found.append(f"rows.{name}.examples: no set has any")
    reranked = (ablation.reranker.rows if ablation.reranker else None) or []
    found += [
        f"reranker.rows: there is no row '{name}'" for name in reranked if name not in ablation.rows
    ]
    found += [
        f"curves.top_k: there is no row '{name}'"
        for name in ablation.curves.top_k
        if name not in ablation.rows
    ]
    if ablation.curves.max_k < 1:
        found.append("curves.max_k: expected 1 or more")
    return found

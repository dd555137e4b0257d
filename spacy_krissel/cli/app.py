"""Command `krissel …`: each subcommand is a plain function, whose signature defines its options.

Nothing heavy is imported here, not even spaCy. The module of a command is imported when the command
runs.
"""

from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from ..util.plugins import Registry
from .coded import INTERRUPTED as INTERRUPTED
from .coded import coded_errors
from .options import Command, click_command, listed_command
from .options import command_line as command_line

Function = TypeVar("Function", bound=Callable[..., Any])
NONE: Registry[Any] = Registry("", {})


class CodedApp(typer.Typer):
    """Commands end with one message where a user can change what went wrong.

    commands: by name; each is imported when it is asked for. Plugins are functions.
    """

    def __init__(self, *, commands: Registry[Any] = NONE, **settings: Any) -> None:
        super().__init__(cls=type("LazyGroup", (LazyGroup,), {"lazy": commands}), **settings)

    def command(self, *args: Any, **settings: Any) -> Callable[[Function], Function]:
        register = super().command(*args, **settings)

        def add(command: Function) -> Function:
            register(coded_errors(command))
            return command

        return add


class LazyGroup(TyperGroup):
    """A group whose commands are created on first use."""

    lazy: Registry[Any] = NONE

    def __init__(self, **settings: Any) -> None:
        # spaCy's own commands are listed without panels.
        super().__init__(**{**settings, "rich_markup_mode": "rich"})
        self._is_listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._is_listing = False

    @coded_errors
    def list_commands(self, ctx: Any) -> list[str]:
        return [*(name for name, _ in self.lazy.loaded()), *super().list_commands(ctx)]

    @coded_errors
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        found = self.lazy[cmd_name]
        command = found if isinstance(found, Command) else Command(found, "Plugins")
        if self._is_listing and isinstance(command.function, str):
            return listed_command(cmd_name, command)
        return click_command(cmd_name, command, coded_errors)


# Option names for the parameter `name`.
LINKER, EXTRACTOR = {"name": "linker"}, {"name": "extractor"}
# From Python, a pipeline may be changed without being saved.
SAVED = {"output": Parameter.empty}
# In the order of work.
_BUILT_IN = {
    "build": Command(
        "commands.build_linker:build",
        "Build",
        "hp.obo --text abstracts.jsonl -o linker",
        panels={".*_column|separator": "Tables"},
    ),
    "vocabularies": Command("commands.make_ontology:vocabularies", "Build", "--download mondo"),
    "ontology": Command(
        "commands.make_ontology:ontology",
        "Build",
        "hp.obo --below HP:0000118 -o store",
        panels={
            "below|not_below|trees": "Parts of the ontology",
            ".*_column|separator": "Tables",
            "umls_.*": "UMLS",
            "species|common_names|species_words": "Species",
            "merge|prefix|enrich.*": "Several sources",
            "disambiguate|homonyms|taxonomy": "Homonyms",
        },
    ),
    "mine": Command(
        "mining.mine:mine",
        "Build",
        "store abstracts.jsonl --n-process 4 -o mentions",
        hidden=("chunk_chars",),
    ),
    "train": Command(
        "commands.train_pipeline:train",
        "Build",
        "configs/small.cfg -o trained --paths.ontology store --paths.mentions mentions",
    ),
    "prototypes": Command(
        "commands.build_prototypes:prototypes",
        "Build",
        "trained/model-last --ontology store --mentions mentions -o linker",
        names={"use_references": "references", **LINKER},
    ),
    "tune": Command(
        "commands.tune_pipeline:tune_index",
        "Build",
        "linker -o tuned",
        names={"types": "index", **LINKER},
    ),
    "update": Command(
        "commands.update_linker:update",
        "Build",
        "linker hp-2024.obo --report changes.tsv -o newer",
        gpu=True,
        names=LINKER,
        panels={
            "below|not_below|trees|format|language|translations|species_words": "Reading",
            "version|licence": "Reading",
            ".*_column|separator": "Tables",
        },
    ),
    "distill": Command(
        "commands.distill_encoder:distill", "Build", "linker -o small", names=LINKER, defaults=SAVED
    ),
    "quantize": Command(
        "commands.quantize_encoder:quantize",
        "Build",
        "linker -o quick",
        names=LINKER,
        defaults=SAVED,
    ),
    "link": Command(
        "commands.link_texts:link",
        "Use",
        "linker abstracts.jsonl -o links.tsv",
        gpu=True,
        names=LINKER,
    ),
    "review": Command(
        "commands.review_links:review",
        "Use",
        "linker abstracts.jsonl -o review.tsv",
        gpu=True,
        names=LINKER,
    ),
    "correct": Command(
        "commands.correct_links:correct", "Use", "linker links.tsv -o fixed", gpu=True, names=LINKER
    ),
    "map": Command(
        "commands.map_terms:map_terms",
        "Use",
        "linker terms.csv -o mappings.sssom.tsv",
        gpu=True,
        names=LINKER,
    ),
    "serve": Command(
        "commands.serve_pipeline:serve",
        "Use",
        "linker --corrections corrections.jsonl",
        names=LINKER,
        alone=True,
    ),
    "show": Command("commands.show_entity:show", "Use", "linker HP:0001677"),
    "extract": Command(
        "commands.extract_entities:extract",
        "Use",
        'extractor "Both knees hurt." -o page.html',
        True,
        EXTRACTOR,
    ),
    "convert": Command(
        "corpora.convert:convert", "Measure", "dev.PubTator.txt --ontology store -o dev.spacy"
    ),
    "evaluate": Command(
        "evaluation.evaluate:evaluate",
        "Measure",
        "linker dev.spacy --ontology store --name dev",
        gpu=True,
        names={"ontology": "ontology"},
        defaults={"output": Path("metrics")},
        hidden=("seen", "n_candidates", "timed_mentions"),
    ),
    "precision": Command(
        "commands.measure_precision:precision", "Measure", "linker review.tsv", names=LINKER
    ),
    "confidence": Command(
        "evaluation.confidence:fit_confidence",
        "Measure",
        "linker --precision 0.9 -o sure",
        gpu=True,
        names=LINKER,
        defaults=SAVED,
    ),
    "calibrate": Command(
        "evaluation.calibrate:calibrate",
        "Measure",
        "linker train.spacy -o calibrated",
        gpu=True,
        names={"precision": "nil-precision", **LINKER},
        defaults=SAVED,
    ),
    "encoder": Command(
        "commands.export_encoder:export_encoder",
        "Research",
        "trained/model-last -o encoder",
        names=LINKER,
    ),
}
COMMANDS: Registry[Any] = Registry("krissel_commands", _BUILT_IN)
krissel = CodedApp(
    name="krissel",
    help="Build, evaluate and run entity linkers of spacy-krissel.",
    no_args_is_help=True,
    commands=COMMANDS,
)


def main() -> None:
    """Run the command `krissel`."""
    typer.main.get_group(krissel)(prog_name="krissel")

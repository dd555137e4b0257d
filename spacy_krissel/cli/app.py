"""`krissel …`, or `python -m spacy krissel …`: each command is a plain function, whose signature has its options.

spaCy's command line imports this module through the `spacy_cli` entry point each time it starts, so nothing heavy is
imported here; the module of a command is imported when the command is asked for.
"""

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NoReturn, TextIO, TypeVar

import typer
from spacy.cli._util import app
from typer.core import TyperGroup

from ..errors import Errors, KrisselError, KrisselWarning
from .options import Command, click_command
from .options import command_line as command_line

Function = TypeVar("Function", bound=Callable[..., Any])
# As a shell reports a process that a signal ended: SIGINT, SIGPIPE.
INTERRUPTED, NO_READER = 130, 141
# What libraries raise as RuntimeError, CUDA's allocator and PyTorch's for the CPU.
_NO_MEMORY = ("out of memory", "can't allocate memory", "bad_alloc")


class CodedApp(typer.Typer):
    """Commands end with one message where a user can change what went wrong.

    commands: by name; each is imported when it is asked for.
    """

    def __init__(self, *, commands: Mapping[str, Command] = {}, **settings: Any) -> None:
        super().__init__(cls=type("LazyGroup", (LazyGroup,), {"lazy": commands}), **settings)

    def command(self, *args: Any, **settings: Any) -> Callable[[Function], Function]:
        register = super().command(*args, **settings)

        def add(command: Function) -> Function:
            register(coded_errors(command))
            return command

        return add


class LazyGroup(TyperGroup):
    """A group whose commands are made when they are asked for."""

    lazy: Mapping[str, Command] = {}

    def __init__(self, **settings: Any) -> None:
        # spaCy's own commands are listed without panels.
        super().__init__(**{**settings, "rich_markup_mode": "rich"})

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        return click_command(cmd_name, self.lazy[cmd_name], coded_errors)


def coded_errors(command: Function) -> Function:
    """The command, ending with one message, no traceback and exit code 1 after a coded error, an error of the disk or
    a lack of memory; with 130 when interrupted, and silently with 141 when nobody reads its output."""

    @wraps(command)
    def guarded(*args: Any, **settings: Any) -> Any:
        before = warnings.formatwarning
        warnings.formatwarning = _format_warning  # type: ignore[assignment]
        try:
            return command(*args, **settings)
        except KrisselError as error:
            _end(error)
        except OSError as error:
            from ..util.disk import disk_error

            if isinstance(error, BrokenPipeError) and _has_no_reader():
                raise typer.Exit(NO_READER) from None
            _end(disk_error(error))
        except MemoryError as error:
            _end(KrisselError(Errors.K802.format(problem=str(error) or type(error).__name__)))
        except RuntimeError as error:
            if not any(words in str(error) for words in _NO_MEMORY):
                raise
            _end(KrisselError(Errors.K802.format(problem=str(error).splitlines()[0])))
        except KeyboardInterrupt:
            _end(KrisselError(Errors.K801), INTERRUPTED)
        finally:
            warnings.formatwarning = before

    return guarded  # type: ignore[return-value]


# What the parameter `name` is of.
LINKER, EXTRACTOR = {"name": "linker"}, {"name": "extractor"}
# In the order of work.
COMMANDS = {
    "build": Command(
        "commands.build_linker:build_files",
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
            "below|not_below|tree": "Parts of the ontology",
            ".*_column|separator": "Tables",
            "umls_.*": "UMLS",
            "species|common_names|species_words": "Species",
            "merge|prefix|enrich.*": "Several sources",
            "disambiguate|homonyms|taxonomy": "Homonyms",
        },
    ),
    "mine": Command("commands.mine_texts:mine_texts", "Build", "store abstracts.jsonl --n-process 4 -o mentions"),
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
        "commands.tune_pipeline:tune_index", "Build", "linker -o tuned", names={"types": "index", **LINKER}
    ),
    "distill": Command("commands.distill_encoder:distill", "Build", "linker -o small", names=LINKER),
    "quantize": Command("commands.quantize_encoder:quantize", "Build", "linker -o quick", names=LINKER),
    "link": Command("commands.link_texts:link", "Use", "linker abstracts.jsonl -o links.tsv", gpu=True, names=LINKER),
    "review": Command(
        "commands.review_links:review", "Use", "linker abstracts.jsonl -o review.tsv", gpu=True, names=LINKER
    ),
    "correct": Command("commands.correct_links:correct", "Use", "linker links.tsv -o fixed", gpu=True, names=LINKER),
    "map": Command(
        "commands.map_terms:map_terms", "Use", "linker terms.csv -o mappings.sssom.tsv", gpu=True, names=LINKER
    ),
    "serve": Command("commands.serve_pipeline:serve", "Use", "linker --corrections corrections.jsonl", names=LINKER),
    "show": Command("commands.show_entity:show", "Use", "linker HP:0001677"),
    "extract": Command(
        "commands.extract_entities:extract", "Use", 'extractor "Both knees hurt." -o page.html', True, EXTRACTOR
    ),
    "convert": Command("corpora.convert:convert", "Measure", "dev.PubTator.txt --ontology store -o dev.spacy"),
    "evaluate": Command(
        "commands.measure_pipeline:evaluate_pipeline",
        "Measure",
        "linker dev.spacy --ontology store --name dev",
        gpu=True,
    ),
    "precision": Command("commands.measure_precision:precision", "Measure", "linker review.tsv", names=LINKER),
    "confidence": Command(
        "commands.measure_pipeline:fit_pipeline_confidence", "Measure", "linker --precision 0.9 -o sure", gpu=True
    ),
    "calibrate": Command(
        "commands.measure_pipeline:calibrate_pipeline",
        "Measure",
        "linker train.spacy -o calibrated",
        gpu=True,
        names={"precision": "nil-precision"},
    ),
    "encoder": Command(
        "commands.export_encoder:export_encoder", "Research", "trained/model-last -o encoder", names=LINKER
    ),
}
krissel = CodedApp(
    name="krissel",
    help="Build, evaluate and run entity linkers of spacy-krissel.",
    no_args_is_help=True,
    commands=COMMANDS,
)
app.add_typer(krissel)


def main() -> None:
    """The command `krissel`."""
    typer.main.get_group(krissel)(prog_name="krissel")


def _format_warning(message: Any, category: type, *place: Any) -> str:
    """Ours as one line, without the place in Python."""
    if issubclass(category, KrisselWarning):
        return f"⚠ {message}\n"
    return f"{category.__name__}: {message}\n"


def _end(error: KrisselError, code: int = 1) -> NoReturn:
    typer.secho(f"✘ {error}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code) from None


def _has_no_reader() -> bool:
    """Whether standard output or error is a closed pipe; further output to it is then discarded."""
    closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
    for stream in closed:
        # Python flushes once more when it exits, which would raise an error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(closed)


def _is_closed(stream: TextIO) -> bool:
    import select

    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (AttributeError, OSError, ValueError):
        # Windows has no poll, a stream of a test no descriptor.
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))

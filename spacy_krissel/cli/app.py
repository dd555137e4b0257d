"""`python -m spacy krissel …`: one typer front a command, over the plain function that does the work.

spaCy's command line imports this module through the `spacy_cli` entry point each time it starts, so nothing heavy is
imported here; every front imports what it needs when it is called.
"""

import os
import sys
from functools import wraps
from typing import Any, Callable, NoReturn, TextIO, TypeVar

import typer
from spacy.cli._util import app

from ..errors import Errors, KrisselError

Command = TypeVar("Command", bound=Callable[..., Any])
# As a shell reports a process that a signal ended: SIGINT, SIGPIPE.
INTERRUPTED, NO_READER = 130, 141
# What libraries raise as RuntimeError, CUDA's allocator and PyTorch's for the CPU.
_NO_MEMORY = ("out of memory", "can't allocate memory", "bad_alloc")


class CodedApp(typer.Typer):
    """Commands end with one message where a user can change what went wrong."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Command], Command]:
        register = super().command(*args, **settings)

        def add(command: Command) -> Command:
            register(coded_errors(command))
            return command

        return add


krissel = CodedApp(
    name="krissel",
    help="Build, evaluate and run entity linkers of spacy-krissel.",
    no_args_is_help=True,
)
app.add_typer(krissel)


def coded_errors(command: Command) -> Command:
    """The command, ending with one message and exit code 1, and no traceback, for coded errors, for what the disk
    refuses and where memory runs out; with 130 when it is interrupted, and silently with 141 when nobody reads what it
    prints."""

    @wraps(command)
    def guarded(*args: Any, **settings: Any) -> Any:
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

    return guarded  # type: ignore[return-value]


def command_line() -> str:
    """What was typed, for reports."""
    return " ".join(["python -m spacy", *sys.argv[1:]])


def _end(error: KrisselError, code: int = 1) -> NoReturn:
    typer.secho(f"✘ {error}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code) from None


def _has_no_reader() -> bool:
    """Whether standard output or error is a pipe that was closed; if so, what is left for it goes nowhere."""
    closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
    for stream in closed:
        # Python flushes once more at its end, and would complain.
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

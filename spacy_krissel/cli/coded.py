"""Errors of commands as one message, with the exit code that shells expect."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TextIO, TypeVar

import typer

from ..errors import Errors, KrisselError, KrisselWarning

Function = TypeVar("Function", bound=Callable[..., Any])
# Exit codes that shells report for processes ended by a signal: SIGINT, SIGPIPE.
INTERRUPTED, NO_READER = 130, 141
# Messages of RuntimeErrors that CUDA's allocator and PyTorch's for the CPU raise.
_NO_MEMORY = ("out of memory", "can't allocate memory", "bad_alloc")


def coded_errors(command: Function, code: int = 1) -> Function:
    """Wrap a command so that a coded error, a disk error or a lack of memory ends it with one
    message, no traceback and the exit `code`. It ends with 130 when interrupted, and silently with
    141 if nobody reads its output."""

    @wraps(command)
    def guarded(*args: Any, **settings: Any) -> Any:
        before = warnings.formatwarning
        warnings.formatwarning = _once(_format_warning)  # type: ignore[assignment]
        try:
            return command(*args, **settings)
        except KrisselError as error:
            _end(error, code)
        except OSError as error:
            from ..util.disk import disk_error

            if isinstance(error, BrokenPipeError) and _has_no_reader():
                raise typer.Exit(NO_READER) from None
            _end(disk_error(error), code)
        except MemoryError as error:
            _end(KrisselError(Errors.K802.format(problem=str(error) or type(error).__name__)), code)
        except RuntimeError as error:
            if not any(words in str(error) for words in _NO_MEMORY):
                raise
            _end(KrisselError(Errors.K802.format(problem=str(error).splitlines()[0])), code)
        except KeyboardInterrupt:
            _end(KrisselError(Errors.K801), INTERRUPTED)
        finally:
            warnings.formatwarning = before

    return guarded  # type: ignore[return-value]


def _format_warning(message: Any, category: type, *location: Any) -> str:
    """Format this package's warnings as one line, without the location in Python."""
    if issubclass(category, KrisselWarning):
        return f"⚠ {message}\n"
    return f"{category.__name__}: {message}\n"


def _once(form: Callable[..., str]) -> Callable[..., str]:
    """Return a function that gives each text once, then "": reading an ontology twice warns
    twice."""
    given = set[str]()

    def form_once(*args: Any) -> str:
        text = form(*args)
        is_new = text not in given
        given.add(text)
        return text if is_new else ""

    return form_once


def _end(error: KrisselError, code: int) -> NoReturn:
    typer.secho(f"✘ {error}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code) from None


def _has_no_reader() -> bool:
    """Return whether standard output or error is a closed pipe; further output to it is then
    discarded."""
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

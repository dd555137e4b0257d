"""Outputs that exist: nothing is replaced unless that was asked for, and then the earlier one is kept beside it."""

import csv
import filecmp
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from ..errors import Errors, KrisselError

HELP = "force: Replace what is at the output; what was there is kept beside it, as .bak"
# Columns of a table of links that a person fills in, and bytes of a table that are searched for them.
FILLED_IN, MOST_READ = ("verdict", "right_id"), 2**26
# Outputs that are replaced by request.
_REPLACED: ContextVar[frozenset[Path]] = ContextVar("krissel_replaced", default=frozenset())
Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(*files: str, folders: Sequence[str] = (), keeps: str = "") -> Callable[[Writer], Writer]:
    """Decorate a function that writes files and folders to the paths in these parameters: it gets a parameter `force`.

    Without it, an output that exists is refused: any file, and a pipeline or knowledge base with gold mentions or
    corrections; other folders are replaced, since what is in them can be made again. With it, what is replaced is kept
    beside the output, under the first free of `.bak`, `.bak2`, ….

    keeps: the parameter with the pipeline that is saved again with all that it holds: it may be saved where it is.
    Raises KrisselError K027, before the function is called.
    """

    def decorate(function: Writer) -> Writer:
        signature = inspect.signature(function)
        parameter = inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
        own = [*signature.parameters.values()]
        place = next((i for i, each in enumerate(own) if each.kind is each.VAR_KEYWORD), len(own))

        @wraps(function)
        def called(*args: Any, force: bool = False, **settings: Any) -> Any:
            # Not bound to the signature: what does not fit is refused by the function itself.
            given = {name: each.default for name, each in signature.parameters.items()}
            given |= {**dict(zip(signature.parameters, args, strict=False)), **settings}
            # What is of another kind, or no path, is refused by the function itself.
            paths = [path for name in files if (path := _path(given[name])) is not None and not path.is_dir()]
            paths += [path for name in folders if (path := _path(given[name])) is not None and path.is_dir()]
            # Of a function within another one that was asked: what that one replaces.
            known = {*_REPLACED.get(), *([_resolved(path)] if keeps and (path := _path(given[keeps])) else [])}
            held = {path: what for path in paths if _resolved(path) not in known and (what := held_at(path))}
            if held and not force:
                path, what = next(iter(held.items()))
                raise KrisselError(Errors.K027.format(path=path, held=what, backup=free_backup(path).name))
            with _replacing(held):
                return function(*args, **settings)

        called.__signature__ = signature.replace(parameters=[*own[:place], parameter, *own[place:]])  # type: ignore[attr-defined]
        called.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{HELP}\n"
        return called  # type: ignore[return-value]

    return decorate


def held_at(path: Path) -> str:
    """What is lost if `path` is replaced, in words; "" for nothing."""
    with suppress(OSError):
        if path.is_file() and path.stat().st_size:
            n_filled = _filled_rows(path)
            return f"a table with {n_filled} row(s) that were filled in" if n_filled else "a file"
        if path.is_dir():
            sources: dict[str, int] = {}
            for manifest in (path / "manifest.json", *sorted(path.glob("*/kb/manifest.json"))):
                sources.update(_gold(manifest))
            n_gold = sources.pop("", 0)
            if n_gold:
                of = f" of {', '.join(sources)}" if sources else ""
                return f"{n_gold} gold mention(s) or correction(s){of}"
    return ""


def free_backup(path: Path) -> Path:
    """The path of the next backup: `.bak`, `.bak2`, …"""
    backup, number = path.with_name(f"{path.name}.bak"), 2
    while backup.exists() or backup.is_symlink():
        backup, number = path.with_name(f"{path.name}.bak{number}"), number + 1
    return backup


def backup_of_replaced(path: Path, new: Path) -> Path | None:
    """Where what is at `path` is to be kept, before `new` replaces it; None where it need not be."""
    if _resolved(path) not in _REPLACED.get() or not path.exists():
        return None
    return None if path.is_file() and filecmp.cmp(path, new, shallow=False) else free_backup(path)


@contextmanager
def kept_file(path: Path, new: Path) -> Iterator[None]:
    """Keep the file at `path`, which the block replaces by `new`, as a backup, unless the block fails."""
    backup = backup_of_replaced(path, new)
    try:
        if backup is not None:
            try:
                os.link(path, backup)
            except OSError:
                # Disks without hard links.
                shutil.copy2(path, backup)
        yield
    except BaseException:
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise


@contextmanager
def _replacing(paths: Iterable[Path]) -> Iterator[None]:
    token = _REPLACED.set(_REPLACED.get().union(map(_resolved, paths)))
    try:
        yield
    finally:
        _REPLACED.reset(token)


def _path(value: Any) -> Path | None:
    return Path(value) if isinstance(value, (str, Path)) and "\0" not in str(value) else None


def _resolved(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _gold(manifest: Path) -> dict[str, int]:
    """The number of gold prototypes by "", and the sources of prototypes, of a knowledge base with this manifest."""
    try:
        found = json.loads(manifest.read_text(encoding="utf8"))
        n_gold = int(found["prototype_kinds"].get("gold", 0))
        return {"": n_gold, **dict.fromkeys(found["prototype_sources"], n_gold)} if n_gold else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # No knowledge base, or a damaged one.
        return {}


def _filled_rows(path: Path) -> int:
    """The rows of a table of links with anything in the columns that a person fills in."""
    if path.suffix not in (".tsv", ".csv") or path.stat().st_size > MOST_READ:
        return 0
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file_:
        header = file_.readline()
        file_.seek(0)
        delimiter = max("\t,;", key=header.count)
        with suppress(csv.Error):
            rows = csv.DictReader(file_, delimiter=delimiter)
            return sum(any((row.get(name) or "").strip() for name in FILLED_IN) for row in rows)
    return 0

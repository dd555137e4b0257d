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

from ..errors import Errors, KrisselError, wrong_setting

HELP = "force: Replace what is at the output; what was there is kept beside it, as .bak"
# Columns of a table of links that a person fills in, and bytes of a table that are searched for them.
FILLED_IN, MOST_READ = ("verdict", "right_id"), 2**26
# What spaCy and this package save of a pipeline besides its components; and what systems leave in any folder.
PIPELINE = {"config.cfg", "meta.json", "tokenizer", "vocab", "LICENSES_SOURCES"}
OF_SYSTEMS = {".DS_Store", "Thumbs.db", "desktop.ini"}
NAMES_SHOWN = 3
# Outputs that are replaced by request.
_REPLACED: ContextVar[frozenset[Path]] = ContextVar("krissel_replaced", default=frozenset())
Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(*files: str, folders: Sequence[str] = (), keeps: str = "") -> Callable[[Writer], Writer]:
    """Decorate a function that writes files and folders to the paths in these parameters: it gets a parameter `force`.

    Without it, an output that exists is refused: any file, and a pipeline or knowledge base with gold mentions or
    corrections, or with files of others in its folder; other folders are replaced, since what is in them can be made
    again. With it, what is replaced is kept beside the output, under the first free of `.bak`, `.bak2`, ….

    keeps: the parameter with the pipeline that is saved again with all that it holds: it may be saved where it is,
    unless there are files of others.
    Raises KrisselError K006 (`force`) and K027, before the function is called.
    """

    def decorate(function: Writer) -> Writer:
        signature = inspect.signature(function)
        parameter = inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
        own = [*signature.parameters.values()]
        place = next((i for i, each in enumerate(own) if each.kind is each.VAR_KEYWORD), len(own))

        @wraps(function)
        def called(*args: Any, force: bool = False, **settings: Any) -> Any:
            if not isinstance(force, bool):
                raise wrong_setting("force", force, "true or false")
            # Not bound to the signature: what does not fit is refused by the function itself.
            given = {name: each.default for name, each in signature.parameters.items()}
            given |= {**dict(zip(signature.parameters, args, strict=False)), **settings}
            # What is of another kind, or no path, is refused by the function itself.
            paths = [path for name in files if (path := _path(given[name])) is not None and not path.is_dir()]
            paths += [path for name in folders if (path := _path(given[name])) is not None and path.is_dir()]
            saved_again = _path(given[keeps]) if keeps else None
            kept = None if saved_again is None else _resolved(saved_again)
            # Of a function within another one that was asked: what that one replaces.
            unasked = [path for path in paths if _resolved(path) not in _REPLACED.get()]
            held = {path: what for path in unasked if (what := held_at(path, is_kept=_resolved(path) == kept))}
            if held and not force:
                path, what = next(iter(held.items()))
                # Of a link it is where it leads that is replaced.
                backup = free_backup(_resolved(path))
                raise KrisselError(Errors.K027.format(path=path, held=what, backup=backup.name))
            with _replacing(held):
                return function(*args, **settings)

        called.__signature__ = signature.replace(parameters=[*own[:place], parameter, *own[place:]])  # type: ignore[attr-defined]
        called.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{HELP}\n"
        return called  # type: ignore[return-value]

    return decorate


def held_at(path: Path, *, is_kept: bool = False) -> str:
    """What is lost if `path` is replaced, in words; "" for nothing.

    is_kept: the pipeline that is there is saved again, with its gold mentions.
    """
    try:
        if path.is_file() and path.stat().st_size and not is_kept:
            n_filled = _filled_rows(path)
            return f"a table with {n_filled} row(s) that were filled in" if n_filled else "a file"
        if path.is_dir():
            sources: dict[str, int] = {}
            for manifest in () if is_kept else (path / "manifest.json", *sorted(path.glob("*/kb/manifest.json"))):
                sources.update(_gold(manifest))
            n_gold = sources.pop("", 0)
            if n_gold:
                of = f" of {', '.join(sources)}" if sources else ""
                return f"{n_gold} gold mention(s) or correction(s){of}"
            if others := _others(path):
                return f"{len(others)} file(s) or folder(s) of others in it, such as {', '.join(others[:NAMES_SHOWN])}"
    except PermissionError:
        return "something that you may not read"
    except OSError:
        # Refused where it is written to.
        pass
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
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    return Path(text) if isinstance(text, str) and "\0" not in text else None


def _resolved(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _gold(manifest: Path) -> dict[str, int]:
    """The number of gold prototypes by "", and the sources of prototypes, of a knowledge base with this manifest."""
    try:
        found = json.loads(manifest.read_text(encoding="utf8"))
        n_gold = int(found["prototype_kinds"].get("gold", 0))
        return {"": n_gold, **dict.fromkeys(found["prototype_sources"], n_gold)} if n_gold else {}
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # No knowledge base, or a damaged one.
        return {}


def _others(folder: Path) -> list[str]:
    """What lies in the folder of a pipeline and is no part of it, such as a person's tables or a service's corrections;
    none in other folders."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf8"))
        known = {*PIPELINE, *OF_SYSTEMS, *meta["components"]}
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    # A component may be saved as a file, with an ending.
    return sorted(each.name for each in folder.iterdir() if each.name not in known and each.stem not in known)


def _filled_rows(path: Path) -> int:
    """The rows of a table of links with anything in the columns that a person fills in; 0 where it cannot be read."""
    if path.suffix.lower() not in (".tsv", ".csv") or path.stat().st_size > MOST_READ:
        return 0
    with suppress(OSError, csv.Error), path.open(encoding="utf-8-sig", errors="replace", newline="") as file_:
        header = file_.readline()
        file_.seek(0)
        rows = csv.reader(file_, delimiter=max("\t,;", key=header.count))
        columns = [index for index, name in enumerate(next(rows, [])) if name.strip().lower() in FILLED_IN]
        return sum(any(row[index].strip() for index in columns if index < len(row)) for row in rows)
    return 0

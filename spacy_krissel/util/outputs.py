"""Existing outputs: nothing is replaced without a request, and what is replaced is kept as a
backup.
"""

import csv
import filecmp
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ..errors import Errors, KrisselError, wrong_setting
from .seal import PIPELINE, SYSTEM_FILES, is_changed

HELP = "force: Replace an output that is otherwise refused, and keep the old one as .bak"
# Columns that a person fills in, and the maximum size in bytes of a table searched for such rows.
VERDICT_COLUMNS, MAX_READ_BYTES = ("verdict", "right_id"), 2**26
# Settings of a finder that verdicts on names change.
NAME_SETTINGS = ("stop_names", "added_names")
NAMES_SHOWN = 3
# Outputs replaced on request.
_REPLACED: ContextVar[frozenset[Path]] = ContextVar("krissel_replaced", default=frozenset())
Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(
    *files: str,
    folders: Sequence[str] = (),
    keeps: str = "",
    parts: str = "",
    next_to: Mapping[str, Callable[[Path], Path]] = MappingProxyType({}),
) -> Callable[[Writer], Writer]:
    """Decorate a function that writes files and folders to these path parameters: it gets a
    parameter `force`.

    Without `force`, some existing outputs are refused: any file, any pipeline or knowledge base
    with gold mentions, corrections, judged names or foreign files, and a pipeline that a person
    changed (`util.seal`). Other folders are replaced, since their content can be rebuilt. With
    `force`, the replaced output is kept next to the new one, under the first free name of `.bak`,
    `.bak2`, ….

    keeps: parameter with the pipeline that is saved again with all its content. It may be saved to
        its own path, unless that holds foreign files.
    parts: parameter that is not None where folders are written instead of files.
    next_to: the path of a second file that is written, by the parameter of the first.

    Raises KrisselError K006 (`force`) and K027, before the function is called.
    """

    def decorate(function: Writer) -> Writer:
        signature = inspect.signature(function)
        parameter = inspect.Parameter(
            "force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool
        )
        own = [*signature.parameters.values()]
        index = next((i for i, each in enumerate(own) if each.kind is each.VAR_KEYWORD), len(own))

        @wraps(function)
        def called(*args: Any, force: bool = False, **settings: Any) -> Any:
            if not isinstance(force, bool):
                raise wrong_setting("force", force, "true or false")
            # Arguments that do not fit are left to the function itself, so the signature is not
            # bound.
            given = {name: each.default for name, each in signature.parameters.items()}
            given |= {**dict(zip(signature.parameters, args, strict=False)), **settings}
            # Paths of another kind, and values that are no path, are left to the function itself.
            paths = [
                path
                for name in files
                if (path := _path(given[name])) is not None and not path.is_dir()
                if not parts or given[parts] is None
            ]
            paths += [
                other(path) for name, other in next_to.items() if (path := _path(given[name]))
            ]
            paths += [
                path
                for name in folders
                if (path := _path(given[name])) is not None and path.is_dir()
            ]
            saved_again = _path(given[keeps]) if keeps else None
            kept = None if saved_again is None else _resolved(saved_again)
            # Outputs of an outer call with `force` may be replaced by an inner one.
            unasked = [path for path in paths if _resolved(path) not in _REPLACED.get()]
            held = {
                path: what
                for path in unasked
                if (what := describe_loss(path, is_kept=_resolved(path) == kept))
            }
            if held and not force:
                path, what = next(iter(held.items()))
                # The target of a link is replaced.
                backup = free_backup(_resolved(path))
                raise KrisselError(Errors.K027.format(path=path, held=what, backup=backup.name))
            with _replacing(held):
                return function(*args, **settings)

        called.__signature__ = signature.replace(parameters=[*own[:index], parameter, *own[index:]])  # type: ignore[attr-defined]
        called.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{HELP}\n"
        return called  # type: ignore[return-value]

    return decorate


def describe_loss(path: Path, *, is_kept: bool = False) -> str:
    """Describe what would be lost by replacing `path`; "" for nothing.

    is_kept: the existing pipeline is saved again, with its gold mentions.
    """
    try:
        if path.is_file() and path.stat().st_size and not is_kept:
            n_filled = _filled_rows(path)
            return f"a table with {n_filled} row(s) that were filled in" if n_filled else "a file"
        if path.is_dir():
            sources: dict[str, int] = {}
            for manifest in (
                ()
                if is_kept
                else (path / "manifest.json", *sorted(path.glob("*/kb/manifest.json")))
            ):
                sources.update(_gold(manifest))
            n_gold = sources.pop("", 0)
            if n_gold:
                of = f" of {', '.join(sources)}" if sources else ""
                return f"{n_gold} gold mention(s) or correction(s){of}"
            if n_names := 0 if is_kept else sum(map(_judged_names, path.glob("*/cfg"))):
                return f"{n_names} name(s) to find or to leave out"
            if others := _foreign_files(path):
                return (
                    f"{len(others)} file(s) or folder(s) of others in it, such as "
                    f"{', '.join(others[:NAMES_SHOWN])}"
                )
            if not is_kept and is_changed(path):
                return "settings, components or texts of its card were changed in it"
    except PermissionError:
        return "something that you may not read"
    except OSError:
        # The write itself reports the error.
        pass
    return ""


def free_backup(path: Path) -> Path:
    """Return the path of the next backup: `.bak`, `.bak2`, …"""
    backup, number = path.with_name(f"{path.name}.bak"), 2
    while backup.exists() or backup.is_symlink():
        backup, number = path.with_name(f"{path.name}.bak{number}"), number + 1
    return backup


def backup_of_replaced(path: Path, new: Path) -> Path | None:
    """Return the backup path for `path` before `new` replaces it; None if no backup is needed."""
    if _resolved(path) not in _REPLACED.get() or not path.exists():
        return None
    return None if path.is_file() and filecmp.cmp(path, new, shallow=False) else free_backup(path)


@contextmanager
def kept_file(path: Path, new: Path) -> Iterator[None]:
    """Keep a backup of the file at `path`, which the block replaces by `new`, unless the block
    fails.
    """
    backup = backup_of_replaced(path, new)
    try:
        if backup is not None:
            try:
                os.link(path, backup)
            except OSError:
                # The disk has no hard links.
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
    """Count the gold prototypes of a knowledge base with this manifest, inactive ones included,
    under "", and the prototypes of each source.
    """
    try:
        found = json.loads(manifest.read_text(encoding="utf8"))
        inactive = found.get("inactive") or {}
        n_gold = int(found["prototype_kinds"].get("gold", 0)) + int(inactive.get("gold", 0))
        n_gold += int(found.get("verdicts", 0)) + int(inactive.get("verdicts", 0))
        names = [*found["prototype_sources"], *found.get("verdict_sources", ())]
        return {"": n_gold, **dict.fromkeys(filter(None, names), n_gold)} if n_gold else {}
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # There is no knowledge base, or it is damaged.
        return {}


def _judged_names(cfg: Path) -> int:
    """Count the names that a person or gold mentions added to a finder with these settings."""
    try:
        found = json.loads(cfg.read_text(encoding="utf8"))
        return sum(len(found[setting][1]) for setting in NAME_SETTINGS if setting in found)
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        # Of another component, or damaged.
        return 0


def _foreign_files(folder: Path) -> list[str]:
    """List the files in a pipeline folder that are not part of the pipeline, such as tables or
    corrections; none for other folders.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf8"))
        known = {*PIPELINE, *SYSTEM_FILES, *meta["components"]}
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    # A component may be saved as a file with a suffix.
    return sorted(
        each.name for each in folder.iterdir() if each.name not in known and each.stem not in known
    )


def _filled_rows(path: Path) -> int:
    """Count the rows of a table of links in which a person filled in a column; 0 if it cannot be
    read.
    """
    if path.suffix.lower() not in (".tsv", ".csv") or path.stat().st_size > MAX_READ_BYTES:
        return 0
    with (
        suppress(OSError, csv.Error),
        path.open(encoding="utf-8-sig", errors="replace", newline="") as file_,
    ):
        header = file_.readline()
        file_.seek(0)
        rows = csv.reader(file_, delimiter=max("\t,;", key=header.count))
        columns = [
            index
            for index, name in enumerate(next(rows, []))
            if name.strip().lower() in VERDICT_COLUMNS
        ]
        return sum(any(row[index].strip() for index in columns if index < len(row)) for row in rows)
    return 0

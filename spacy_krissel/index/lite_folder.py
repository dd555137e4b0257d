"""The folder of a Milvus Lite database, which only one process may have open."""

import os
import shutil
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path
from typing import List, Optional

# Milvus tells a file name from an address by this ending, though the database is a folder.
NAME = "milvus.db"
# Written once and never changed, so that two databases may share them.
UNCHANGING = (".parquet", ".idx")
# Of the process that has it open, and a copy of what was before the last change.
LEFT_OUT = ("LOCK", "manifest.json.prev")


class LiteFolder:
    """A database in a temporary folder of this process alone, removed with this object or at exit.

    Milvus Lite locks the database that it opens and writes into it even when it is only searched. So a saved one is
    never opened where it lies: its folder may be read-only, and several processes may want it.

    source: the database to begin with; its large files are linked where the file system can, not copied.
    parent: the folder of the process that this one was forked from, which then removes this one too, should this
        process be killed.
    """

    def __init__(self, source: Optional[Path] = None, parent: Optional["LiteFolder"] = None) -> None:
        self.root: Path = Path(tempfile.mkdtemp(prefix="krissel-milvus-", dir=parent.root if parent else None))
        self.path = self.root / NAME
        self._pid = os.getpid()
        # Unlike `weakref.finalize`, it also runs where a worker process ends, and never in another process's place.
        Finalize(self, shutil.rmtree, args=(self.root, True), exitpriority=0)
        if source is not None:
            copy_database(source, self.path, link=True)

    def is_ours(self) -> bool:
        """Whether this process made it, rather than the one it was forked from."""
        return self._pid == os.getpid()


def database_files(path: Path) -> List[str]:
    """The files of a database that no process has open, as names within its folder `path`."""
    files = (file_ for file_ in path.rglob("*") if file_.is_file() and file_.name not in LEFT_OUT)
    return sorted(file_.relative_to(path).as_posix() for file_ in files)


def copy_database(source: Path, target: Path, link: bool = False) -> None:
    """Copy a database that no process has open; with `link`, share what never changes."""
    for name in database_files(source):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if not (link and name.endswith(UNCHANGING) and _linked(source / name, target / name)):
            shutil.copyfile(source / name, target / name)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        return False
    return True

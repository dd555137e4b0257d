"""Corpora of many files, with annotations next to texts: a folder, an archive, or one file of
annotations.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import isfile
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ..errors import Errors, KrisselError
from ..util.inputs import coded_reading
from ..util.limits import FILE
from .annotation import AnnotatedText, Mention
from .files import decode_text, open_archive, open_binary

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")
TEXT_SUFFIXES = (".txt", ".text")
PathLike = str | Path


class Bundle(NamedTuple):
    """The annotation files of a corpus.

    path: as given. files: annotation files, in order. members: files of an archive; None on disk.
    """

    path: Path
    files: list[PurePath]
    members: dict[PurePath, bytes] | None

    def name(self, file_: PurePath) -> str:
        """Return the name of a file for messages: `archive!member`, or the path."""
        return str(file_) if self.members is None else f"{self.path}!{file_}"

    def read(self, file_: PurePath) -> bytes:
        """Read a file. Raises KrisselError K202 for a damaged gzip file, K055 for one larger than
        the limit.
        """
        if self.members is not None:
            return self.members[file_]
        with open_binary(Path(file_), "a file") as stream:
            return stream.read_all()

    def find_text(
        self, annotations: PurePath, name: str, layouts: Sequence[str], documents: PathLike | None
    ) -> PurePath:
        """Find the text of `annotations`: next to them, or in one of `layouts` in a folder above.

        documents: a folder that is searched first; for an archive, one inside.

        Raises KrisselError K226 if the text is not found.
        """
        start = Path(annotations).absolute() if self.members is None else annotations
        folders: list[PurePath] = [annotations.parent]
        if documents is not None:
            folders.insert(0, Path(documents) if self.members is None else PurePosixPath(documents))
        folders_tried = [f"'{folder}'" for folder in folders] + [
            f"'{layout}' of a folder above" for layout in layouts
        ]
        folders.extend(above / layout for above in start.parents for layout in layouts)
        for folder in folders:
            # Unlike `Path.is_file`, `isfile` accepts impossible file names.
            if isfile(folder / name) if self.members is None else folder / name in self.members:
                return folder / name
        raise KrisselError(
            Errors.K226.format(
                path=self.name(annotations), name=name, folders=", ".join(folders_tried)
            )
        )

    def read_text(self, file_: PurePath) -> str:
        return decode_text(self.read(file_), self.name(file_))


def is_bundle(path: Path) -> bool:
    """Return whether the path is a folder or, by its name, an archive."""
    return path.is_dir() or path.name.lower().endswith(ARCHIVE_SUFFIXES)


def open_bundle(path: PathLike, suffix: str, expected: str) -> Bundle:
    """Open a folder or an archive with all annotation files below it, which end in `suffix`, or one
    such file.

    The annotation and text files of an archive are held in memory.

    Raises KrisselError K201 (no file, or no annotations), K211 (damaged archive).
    """
    path = Path(path)
    if not is_bundle(path):
        if not path.is_file():
            raise KrisselError(Errors.K201.format(path=path, expected=expected))
        return Bundle(path, [path], None)
    members: dict[PurePath, bytes] | None = (
        None if path.is_dir() else dict(_members(path, (suffix, *TEXT_SUFFIXES)))
    )
    names: Iterable[PurePath] = _below(path) if members is None else members
    files = sorted(name for name in names if name.name.endswith(suffix))
    if not files:
        raise KrisselError(Errors.K201.format(path=f"{path}/**/*{suffix}", expected=expected))
    return Bundle(path, files, members)


def read_standoff(
    path: PathLike,
    suffixes: tuple[str, str],
    expected: str,
    documents: PathLike | None,
    read_mentions: Callable[[bytes, str, str], Iterable[Mention]],
) -> Iterator[AnnotatedText]:
    """Yield the texts of a bundle, each with the mentions of its annotation file.

    suffixes: of annotations and of texts. read_mentions: reads mentions from the content of an
        annotation file, its name for messages, and its text.

    Raises what `open_bundle`, `Bundle.find_text` and `read_mentions` raise.
    """
    bundle = open_bundle(path, suffixes[0], expected)
    for file_ in bundle.files:
        source = bundle.name(file_)
        with coded_reading(source):
            name = file_.name.removesuffix(".gz").removesuffix(suffixes[0])
            text = bundle.read_text(bundle.find_text(file_, name + suffixes[1], (), documents))
            mentions = list(read_mentions(bundle.read(file_), source, text))
        yield AnnotatedText(name, text, mentions, source, 1)


def holds_suffixes(path: Path, suffixes: Sequence[str]) -> list[str]:
    """Return those of the `suffixes` that occur in a folder or an archive.

    Raises KrisselError K201 (no such archive), K211 (damaged).
    """
    names = _below(path) if path.is_dir() else (name for name, _ in _members(path, ()))
    found = {suffix for name in names for suffix in suffixes if name.name.endswith(suffix)}
    return [suffix for suffix in suffixes if suffix in found]


def _below(path: Path) -> Iterator[Path]:
    return (name for name in path.rglob("*") if name.is_file() and not name.name.startswith("."))


def _members(path: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the files of an archive, with the content of those whose names end in `suffixes`."""
    size = 0
    with open_archive(path, "an archive") as members:
        for member in members:
            content = b""
            if member.name.name.endswith(suffixes):
                size += member.size
                FILE.check(size, member.source, "what the archive holds up to it")
                content = member.content.read()
            yield member.name, content

"""UIMA CAS: the XMI of INCEpTION and WebAnno."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from ...errors import Errors, KrisselError
from ...util.inputs import InputFile
from ...util.xml_files import without_declaration
from ...util.zip_file import open_zip
from ..annotation import AnnotatedText, Mention
from ..files import open_binary
from ..report import CorpusReport, reporting

SUFFIX, TYPES = ".xmi", "TypeSystem.xml"
# Features of the layer of named entities, and of any other that has them; and what INCEpTION's recommenders set.
LABEL, IDENTIFIER, PREDICTED = "value", "identifier", "inception_internal_predicted"
EXPECTED = "a UIMA CAS: an .xmi file next to its TypeSystem.xml, a folder or a .zip of such"
# A chain of so many types is read in half a second; the time grows with their square.
MOST_TYPES = 1_000


def load_cassis() -> Any:
    """Raises KrisselError K247 where it is not installed."""
    try:
        import cassis
    except ImportError as error:
        raise KrisselError(Errors.K247) from error
    return cassis


def load_types(content: str) -> Any:
    """A type system. Raises KrisselError K247; ValueError for what declares a document type or entities, and for too
    many types; and what cassis and lxml raise, of every kind, for what is none."""
    cassis = load_cassis()
    if content.count("supertypeName>") > 2 * MOST_TYPES:
        raise ValueError(f"more than {MOST_TYPES:,} types")
    return cassis.load_typesystem(without_declaration(content))


def load_cas(xmi: str, types: Any) -> Any:
    """A CAS of these types. Raises as `load_types`."""
    return load_cassis().load_cas_from_xmi(without_declaration(xmi), typesystem=types)


@reporting
def read_cas(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """The texts of CAS files in XMI, each with the annotations that have a feature `identifier`, the id of an entity;
    `value` is their label.

    path: a `.zip` as the tools export it, a folder, or an `.xmi` file; `TypeSystem.xml` is next to them. The id of a
    text is the name of its file. What a recommender suggested is left out. Needs the extra `serve` (dkpro-cassis).

    report: counts `bad_records`, files that are no CAS.
    Raises KrisselError K201 (no file), K204 (no CAS), K247 (dkpro-cassis is not installed), K248 (a damaged or
    encrypted ZIP), K055.
    """
    load_cassis()
    n, last, system = 0, b"", None
    for name, source, content, types in _files(Path(path)):
        try:
            # Most often one for all.
            if system is None or types != last:
                last, system = types, load_types(types.decode("utf-8-sig"))
            cas = load_cas(content.decode("utf-8-sig"), system)
            text = cas.sofa_string
            if not isinstance(text, str) or not text.strip():
                raise ValueError("it has no text")
            mentions = []
            for kind in system.get_types():
                names = {feature.name for feature in kind.all_features}
                if IDENTIFIER in names and {"begin", "end"} <= names:
                    for each in cas.select(kind.name):
                        # A layer that others inherit from is asked for with theirs.
                        if each.type.name == kind.name and not getattr(each, PREDICTED, False):
                            label, id_ = (str(getattr(each, key, None) or "") for key in (LABEL, IDENTIFIER))
                            covered = text[each.begin : each.end]
                            mentions.append(Mention(((each.begin, each.end),), covered, label, id_))
        except Exception as error:
            # cassis and lxml raise of every kind for what is none.
            report.blemish("bad_records", source, 0, f"{type(error).__name__}: {str(error)[:80]}")
            continue
        n += 1
        yield AnnotatedText(name, text, mentions, source)
    if not n:
        raise KrisselError(Errors.K204.format(path=path, what="CAS", line=0, expected=EXPECTED))


def _files(path: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Name, place and content of each XMI, and its type system."""
    if path.is_dir() or path.suffix == SUFFIX:
        for file_ in sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]:
            yield file_.stem, str(file_), _read(file_), _read(file_.parent / TYPES)
        return
    with open_binary(path, EXPECTED):
        # It is there, and can be read.
        pass
    with open_zip(path, lambda problem: KrisselError(Errors.K248.format(path=path, problem=problem))) as archive:
        names = set(archive.namelist())
        for name in sorted(each for each in names if each.endswith(SUFFIX)):
            folder = name.rpartition("/")[0]
            types = f"{folder}/{TYPES}" if f"{folder}/{TYPES}" in names else TYPES
            if types not in names:
                raise KrisselError(Errors.K201.format(path=f"{path}!{types}", expected=EXPECTED))
            source = f"{path}!{name}"
            yield Path(name).stem, source, _read_member(archive, name, source), _read_member(archive, types, source)


def _read_member(archive: ZipFile, name: str, source: str) -> bytes:
    with archive.open(name) as stream:
        return InputFile(source, stream).read_all()


def _read(path: Path) -> bytes:
    with open_binary(path, EXPECTED) as file_:
        return file_.read_all()

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
# Features of named entities and of other layers that have them, and the mark of INCEpTION's
# recommenders.
LABEL, IDENTIFIER, PREDICTED = "value", "identifier", "inception_internal_predicted"
EXPECTED = "a UIMA CAS: an .xmi file next to its TypeSystem.xml, a folder or a .zip of such"
# Maximum number of types: a chain of this length takes half a second, and time grows quadratically.
MAX_TYPES = 1_000


def load_cassis() -> Any:
    """Import cassis. Raises KrisselError K247 if it is not installed."""
    try:
        import cassis
    except ImportError as error:
        raise KrisselError(Errors.K247) from error
    return cassis


def load_types(content: str) -> Any:
    """Load a type system.

    Raises KrisselError K247, ValueError for a document type, entities or too many types, and
    various errors of cassis and lxml for invalid input.
    """
    cassis = load_cassis()
    if content.count("supertypeName>") > 2 * MAX_TYPES:
        raise ValueError(f"more than {MAX_TYPES:,} types")
    return cassis.load_typesystem(without_declaration(content))


def load_cas(xmi: str, types: Any) -> Any:
    """Load a CAS of these types. Raises the same errors as `load_types`."""
    return load_cassis().load_cas_from_xmi(without_declaration(xmi), typesystem=types)


@reporting
def read_cas(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the texts of CAS files in XMI, each with the annotations that have a feature
    `identifier`, the id of an entity; `value` is their label.

    path: a `.zip` exported by the tools, a folder, or an `.xmi` file; `TypeSystem.xml` is next to
        them. The id of a text is the name of its file. Suggestions of recommenders are left out.
        Needs the extra `serve` (dkpro-cassis).

    report: counts `bad_records`, files that are not CAS.

    Raises KrisselError K201 (no file), K204 (no CAS), K247 (dkpro-cassis is not installed), K248 (a
    damaged or encrypted ZIP), K055.
    """
    load_cassis()
    n, last, system = 0, b"", None
    for name, source, content, types in _files(Path(path)):
        try:
            # Usually one type system serves all files.
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
                        # Annotations of a derived layer are listed under their own layer.
                        if each.type.name == kind.name and not getattr(each, PREDICTED, False):
                            label, id_ = (
                                str(getattr(each, key, None) or "") for key in (LABEL, IDENTIFIER)
                            )
                            covered = text[each.begin : each.end]
                            mentions.append(Mention(((each.begin, each.end),), covered, label, id_))
        except Exception as error:
            # cassis and lxml raise various errors for invalid input.
            report.record_issue(
                "bad_records", source, 0, f"{type(error).__name__}: {str(error)[:80]}"
            )
            continue
        n += 1
        yield AnnotatedText(name, text, mentions, source)
    if not n:
        raise KrisselError(Errors.K204.format(path=path, what="CAS", line=0, expected=EXPECTED))


def _files(path: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield the name, location and content of each XMI file, and its type system."""
    if path.is_dir() or path.suffix == SUFFIX:
        for file_ in sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]:
            yield file_.stem, str(file_), _read(file_), _read(file_.parent / TYPES)
        return
    with open_binary(path, EXPECTED):
        # The path exists and can be read.
        pass
    with open_zip(
        path, lambda problem: KrisselError(Errors.K248.format(path=path, problem=problem))
    ) as archive:
        names = set(archive.namelist())
        for name in sorted(each for each in names if each.endswith(SUFFIX)):
            folder = name.rpartition("/")[0]
            types = f"{folder}/{TYPES}" if f"{folder}/{TYPES}" in names else TYPES
            if types not in names:
                raise KrisselError(Errors.K201.format(path=f"{path}!{types}", expected=EXPECTED))
            source = f"{path}!{name}"
            yield (
                Path(name).stem,
                source,
                _read_member(archive, name, source),
                _read_member(archive, types, source),
            )


def _read_member(archive: ZipFile, name: str, source: str) -> bytes:
    with archive.open(name) as stream:
        return InputFile(source, stream).read_all()


def _read(path: Path) -> bytes:
    with open_binary(path, EXPECTED) as file_:
        return file_.read_all()

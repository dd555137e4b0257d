"""XML files of corpora and ontologies, read as streams."""

import re
from collections.abc import Iterator
from typing import ClassVar
from xml.parsers import expat

from ..errors import Errors, KrisselError
from .inputs import InputFile
from .limits import RECORD

CHUNK = 1 << 16
_DECLARATION = re.compile(
    rb"""(?:\xef\xbb\xbf)?(<\?xml\s[^>]*?encoding\s*=\s*["']([^"'>]*)["'][^>]*\?>)"""
)


class XmlParser:
    """An expat parser that refuses entity declarations and other root elements, and reads no
    external files.

    kind: the name of such files. root: their root element. separator: text between the namespace
        and the name of elements and attributes; None leaves prefixes unchanged.
    done: number of finished records, counted by a subclass. The size of each record is limited.
    """

    kind: ClassVar[str]
    root: str
    separator: ClassVar[str | None] = None

    def __init__(self, path: str) -> None:
        self.path = path
        self.done = 0
        self.parser = expat.ParserCreate(namespace_separator=self.separator)
        self.parser.buffer_text = True
        # Such files name a DTD, which is never read.
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.SkippedEntityHandler = self._refuse_unknown
        self.parser.StartElementHandler = self._start_root

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""
        raise NotImplementedError

    def malformed(self, line: int, problem: str) -> KrisselError:
        expected = {"kind": self.kind, "root": self.root}
        return KrisselError(
            Errors.K007.format(path=self.path, line=line, problem=problem, **expected)
        )

    def _start_root(self, name: str, attributes: dict[str, str]) -> None:
        if name != self.root:
            expected = {"kind": self.kind, "root": self.root}
            raise KrisselError(
                Errors.K008.format(path=self.path, line=self.line, found=name, **expected)
            )
        self.parser.StartElementHandler = self.start_element
        self.start_element(name, attributes)

    def _refuse_entity(self, name: str, *declared: object) -> None:
        raise KrisselError(
            Errors.K009.format(
                path=self.path, line=self.line, problem=f"it declares the entity {name!r}"
            )
        )

    def _refuse_unknown(self, name: str, is_parameter: bool) -> None:
        # The DTD may declare it; without it, the text would silently lose a character.
        raise self.malformed(self.line, f"the entity &{name}; is not known")


class XmlHandler(XmlParser):
    """A parser that calls `start` and `end` with the texts of elements.

    texts: elements whose text is read.
    """

    texts: frozenset[str]

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.parser.EndElementHandler = self._end_element
        self.parser.CharacterDataHandler = self._add_text
        self._stack: list[str] = []
        self._characters: list[str] = []

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._stack.append(name)
        self._characters = []
        self.start(name, attributes)

    def _add_text(self, content: str) -> None:
        if self._stack[-1] in self.texts:
            self._characters.append(content)

    def _end_element(self, name: str) -> None:
        self._stack.pop()
        text, self._characters = "".join(self._characters), []
        self.end(name, self._stack[-1] if self._stack else "", text)

    def start(self, name: str, attrs: dict[str, str]) -> None:
        """Handle the start of an element."""

    def end(self, name: str, parent: str, text: str) -> None:
        """Handle the end of an element. text: its text after its last child."""


def feed(file_: InputFile, handler: XmlParser) -> Iterator[None]:
    """Feed a file to `handler`, yielding after each chunk so that records can be taken.

    Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009 (entity
    declarations), K055 (a record exceeds the limit), K058 (an unsupported encoding).
    """
    limit, size, before = RECORD.bytes, 0, 0
    chunk = file_.read(CHUNK)
    _check_declaration(chunk, file_)
    try:
        while chunk:
            handler.parser.Parse(chunk, False)
            yield
            file_.line = handler.line
            # The parser holds a tag, a comment or a text until its end, and readers hold records.
            size = size + len(chunk) if handler.done == before else 0
            before = handler.done
            if size > limit:
                raise RECORD.exceeded(
                    size, file_.path, f"a record, up to line {file_.line},", limit
                )
            chunk = file_.read(CHUNK)
        handler.parser.Parse(b"", True)
        yield
    except expat.ExpatError as error:
        raise handler.malformed(error.lineno, expat.ErrorString(error.code)) from error


def _check_declaration(start: bytes, file_: InputFile) -> None:
    """Raise KrisselError K058 for an encoding unknown to Python, or with several bytes per
    character.
    """
    match = _DECLARATION.match(start)
    if match is None:
        return
    try:
        expat.ParserCreate().Parse(match[1] + b"<a/>", True)
    except expat.ExpatError:
        # The parser reports other problems.
        return
    except (LookupError, ValueError) as error:
        found = match[2].decode("ascii", errors="replace")
        raise KrisselError(
            Errors.K058.format(path=file_.path, found=found, problem=error)
        ) from error


_HEAD = re.compile(r"\ufeff?\s*<\?xml\b[^>]*>")
_DECLARES = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def without_declaration(text: str) -> str:
    """Remove the declaration `<?xml …?>` from `text`, XML for a third-party parser.

    The declaration may name an encoding in which the parser would read text that no search finds,
    and so may NUL characters of UTF-16.

    Raises ValueError for text with a document type or entities.
    """
    if head := _HEAD.match(text):
        text = text[head.end() :]
    if "\0" in text or _DECLARES.search(text):
        raise ValueError("it declares a document type or entities")
    return text

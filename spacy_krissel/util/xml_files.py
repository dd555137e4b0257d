"""XML files of corpora and ontologies, read as streams."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar
from xml.parsers import expat
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges

from ..errors import Errors, KrisselError
from .inputs import InputFile
from .limits import RECORD

if TYPE_CHECKING:
    from pyexpat import XMLParserType

CHUNK = 1 << 16
_DECLARATION = re.compile(rb"""(?:\xef\xbb\xbf)?(<\?xml\s[^>]*?encoding\s*=\s*["']([^"'>]*)["'][^>]*\?>)""")


class XmlHandler(ContentHandler):
    """A handler that knows its line, for messages, and checks the root element.

    kind: the name of such files. root: their root element. texts: elements whose text is read.
    done: records that have ended, counted by a subclass: each is limited in size.
    """

    kind: ClassVar[str]
    root: ClassVar[str]
    texts: ClassVar[frozenset[str]]

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.done = 0
        self._locator: Any = None  # what knows the line
        self._stack: list[str] = []
        self._characters: list[str] = []

    @property
    def line(self) -> int:
        return (self._locator.getLineNumber() or 0) if self._locator else 0

    def setDocumentLocator(self, locator: Any) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: Any) -> None:
        if not self._stack and name != self.root:
            expected = {"kind": self.kind, "root": self.root}
            raise KrisselError(Errors.K008.format(path=self.path, line=self.line, found=name, **expected))
        self._stack.append(name)
        self._characters = []
        self.start(name, attrs)

    def characters(self, content: str) -> None:
        if self._stack[-1] in self.texts:
            self._characters.append(content)

    def endElement(self, name: str) -> None:
        self._stack.pop()
        text, self._characters = "".join(self._characters), []
        self.end(name, self._stack[-1] if self._stack else "", text)

    def start(self, name: str, attrs: Any) -> None:
        """An element begins."""

    def end(self, name: str, parent: str, text: str) -> None:
        """An element ends. text: its text after its last child."""


def feed(file_: InputFile, handler: XmlHandler) -> Iterator[None]:
    """Feed a file to `handler`, yielding after each chunk so that records can be taken.

    Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009 (entity declarations), K055 (a record
    larger than the limit), K058 (an unsupported encoding).
    """
    import defusedxml
    from defusedxml.sax import make_parser

    parser = make_parser()
    # Such files name a DTD, which is never read: external references are skipped rather than refused, while declared
    # entities stay forbidden.
    parser.setFeature(feature_external_ges, False)
    parser.forbid_external = False
    parser.setContentHandler(handler)
    # A parser that is fed does not set itself as the locator.
    handler.setDocumentLocator(parser)
    try:
        for chunk in _chunks(file_, lambda: handler.done, lambda: handler.line):
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
            yield
    except SAXParseException as error:
        line, problem = error.getLineNumber(), error.getMessage()
        expected = {"kind": handler.kind, "root": handler.root}
        raise KrisselError(Errors.K007.format(path=file_.path, line=line, problem=problem, **expected)) from error
    except defusedxml.DefusedXmlException as error:
        raise KrisselError(Errors.K009.format(path=file_.path, line=handler.line, problem=error)) from error


def _chunks(file_: InputFile, done: Callable[[], int], line: Callable[[], int]) -> Iterator[bytes]:
    """The bytes of a file, and b"" at its end. Raises KrisselError K055 and K058, see `feed`."""
    limit, size, before = RECORD.bytes, 0, 0
    chunk = file_.read(CHUNK)
    _check_declaration(chunk, file_)
    while chunk:
        yield chunk
        file_.line = line()
        # A parser holds a tag, a comment or a text until its end, and readers hold records.
        size = size + len(chunk) if done() == before else 0
        before = done()
        if size > limit:
            raise RECORD.exceeded(size, file_.path, f"a record, up to line {file_.line},", limit)
        chunk = file_.read(CHUNK)
    yield b""


def _check_declaration(start: bytes, file_: InputFile) -> None:
    """Raises KrisselError K058 for an encoding unknown to Python, or of several bytes per character."""
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
        raise KrisselError(Errors.K058.format(path=file_.path, found=found, problem=error)) from error


def expat_parser() -> "XMLParserType":
    """The parser below `feed`'s, for `feed_parser`: it calls plain functions, which is twice as fast.

    It too refuses entity declarations and reads no other files.
    """
    import defusedxml

    def forbid(name: str, is_parameter: int, value: Any, base: Any, sysid: Any, pubid: Any, notation: Any) -> None:
        raise defusedxml.EntitiesForbidden(name, value, base, sysid, pubid, notation)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = forbid
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    return parser


def feed_parser(
    file_: InputFile, parser: "XMLParserType", kind: str, root: str, done: Callable[[], int]
) -> Iterator[None]:
    """`feed` for an `expat_parser` whose handlers are set. kind, root, done: see `XmlHandler`.

    Raises what `feed` raises.
    """
    import defusedxml

    path = file_.path
    start: Any = parser.StartElementHandler

    def first(name: str, attributes: Any) -> None:
        if name != root:
            line = parser.CurrentLineNumber
            raise KrisselError(Errors.K008.format(path=path, line=line, found=name, kind=kind, root=root))
        parser.StartElementHandler = start
        start(name, attributes)

    def skipped(name: str, is_parameter: bool) -> None:
        # It may be declared in the DTD; without it the text would silently lose a character.
        line, problem = parser.CurrentLineNumber, f"the entity &{name}; is not known"
        raise KrisselError(Errors.K007.format(path=path, line=line, problem=problem, kind=kind, root=root))

    parser.StartElementHandler = first
    parser.SkippedEntityHandler = skipped
    try:
        for chunk in _chunks(file_, done, lambda: parser.CurrentLineNumber):
            parser.Parse(chunk, not chunk)
            yield
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise KrisselError(
            Errors.K007.format(path=path, line=error.lineno, problem=problem, kind=kind, root=root)
        ) from error
    except defusedxml.DefusedXmlException as error:
        raise KrisselError(Errors.K009.format(path=path, line=parser.CurrentLineNumber, problem=error)) from error

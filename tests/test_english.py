"""Plain English: short sentences, without the constructions that readers had to read twice.

Checked are the pages, the experiments' READMEs, the messages of errors and warnings, the help of
commands and settings, and the docstrings of the package.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import spacy_krissel
from spacy_krissel.errors import Errors, Warnings

ROOT = Path(__file__).parents[1]
PACKAGE = Path(spacy_krissel.__file__).parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "experiments").glob("*/README.md")),
    *(ROOT / name / "README.md" for name in ("benchmarks", "tests/fuzz", "tests/reliability")),
]
# Words of a sentence: on average per page, and of the longest one.
MAX_MEAN_WORDS, MAX_WORDS = 16, 32
AVOID = {
    r"\brightly\b": "correctly",
    r"\bright ones?\b": "correct",
    r"^Of (?!course)": "begin with the subject",
    r"\b(of it|these|of those|have|as they are|as it is)$": "end with a noun",
    r"(?<!all )(?<!any )(?<!each )(?<!most )\bof them$": "end with a noun",
    r"\bso many\b": "as many",
    r"\banew\b": "again",
    r"\btold (of|apart|from)\b": "distinguished, or: no difference is measured",
    r"\btells? (\w+ )?apart\b": "distinguish",
    r"\bsays? no more than\b": "only says",
    r"\bbeside\b": "next to, or: compared with",
    r"\b(borne by|bearers?)\b": "with the name",
    r"\b(blemish|surest|believed)": "issue; most confident; weighted",
    r"\bwhat has\b": "a noun",
    r"^Those\b": "begin with a noun",
    r"\bin place of\b": "instead of",
    r"\b[Ss]hares? of\b": "fraction, probability",
    r", which\b.*, which\b": "two sentences",
    r"\ba second look\b": "re-scoring",
    r"\bstepp?(ed|ing)? aside\b": "backup",
    r"\b(there|here|where)(of|in|upon|unto)\b": "a plain preposition",
}
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!al\.)[\"”)*]*\s+(?=[A-Z0-9{\"“*(\[])")


class Sentence(NamedTuple):
    where: str
    text: str


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, with `code` as one word and links as their text."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    for sentence in SENTENCE_END.split(" ".join(text.split())):
        if sentence.strip():
            yield sentence.strip().rstrip('.:;!?)*"”')


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield paragraphs and list items; tables, code, headings and comments are no prose."""
    markdown = re.sub(r"<!--.*?-->", "", markdown, flags=re.S)
    markdown = re.sub(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", "", markdown, flags=re.M | re.S)
    lines: list[str] = []
    for line in [*markdown.splitlines(), ""]:
        line = line.strip()
        item = re.match(r"([-*]|\d+\.)\s+", line)
        is_prose = line and not line.startswith(("|", "#", "<", "!"))
        if (item or not is_prose) and lines:
            yield " ".join(lines)
            lines = []
        if is_prose:
            lines.append(line[item.end() :] if item else line)


def faults(text: str, where: str, max_words: int) -> Iterator[str]:
    for sentence in sentences(text):
        for pattern, better in AVOID.items():
            if re.search(pattern, sentence):
                yield f"{where}: {sentence!r} ({better})"
        if len(sentence.split()) > max_words:
            yield f"{where}: {len(sentence.split())} words: {sentence!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain_and_short_of_words(page):
    prose = list(paragraphs(page.read_text(encoding="utf8")))
    counts = [len(each.split()) for text in prose for each in sentences(text)]
    assert [each for text in prose for each in faults(text, page.name, MAX_WORDS)] == []
    assert sum(counts) <= MAX_MEAN_WORDS * len(counts), sum(counts) / len(counts)


def test_messages_are_plain_and_short_of_words():
    messages = {
        code: message
        for catalogue in (Errors, Warnings)
        for owner in (catalogue, *catalogue.__bases__)
        for code, message in vars(owner).items()
        if re.match(r"KW?\d{3}$", code)
    }
    assert len(messages) > 100
    found = [
        fault
        for code, message in messages.items()
        for fault in faults(message.removeprefix(f"[{code}] "), code, MAX_WORDS)
    ]
    assert found == []


def docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                if text := ast.get_docstring(node):
                    where = f"{path.relative_to(PACKAGE)}:{node.body[0].lineno}"
                    yield where, text


def test_docstrings_and_the_help_made_of_them_are_plain():
    """Lists of parameters, results and errors may be longer than the prose before them."""
    found = []
    for where, text in docstrings():
        summary, *rest = re.split(r"\n\s*\n|\n(?=[\w, *]+: )|\n?(?=RETURNS:|Raises Krissel)", text)
        found += faults(summary, where, MAX_WORDS)
        found += [each for part in rest for each in faults(part, where, 1000)]
    assert found == []


@pytest.mark.parametrize(
    "text, n",
    [
        ("The link is correct. It has `one two three` names.", 0),
        ("Links are rightly made.", 1),
        ("Of 100 names 43 are linked. The first of it.", 2),
        ("A name, and [the page](a.md) of these.", 1),
        ("Of course. It holds all of them.", 0),
        (" ".join(["word"] * (MAX_WORDS + 1)), 1),
    ],
)
def test_faults_are_found(text, n):
    assert len(list(faults(text, "here", MAX_WORDS))) == n


def test_prose_is_what_is_left_without_tables_code_and_headings():
    prose, rest = (
        "A b\nc.\n\n- D.\n- E\n  f.\n",
        "\n| of it |\n\n```bash\nof it\n```\n<!-- it -->\n",
    )
    page = f"# Of it\n\n{prose}{rest}"
    assert list(paragraphs(page)) == ["A b c.", "D.", "E f."]

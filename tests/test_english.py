"""Plain English: short sentences, and none of the constructions that readers had to read twice.

Checked are the pages, README, the experiments' READMEs, the help of commands and settings, the
messages of errors, and the docstrings of the public names.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import spacy_krissel
from spacy_krissel.errors import Errors, Warnings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spacy_krissel"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "experiments").glob("*/README.md")),
]
MAX_MEAN_WORDS, MAX_WORDS = 20, 40
# A construction, and what to write instead.
AVOID = {
    r"\brightly\b": "correctly",
    r"\bright ones?\b": "correct",
    r"^Of (?!course)": "begin with the subject",
    r"\b(of it|of them|of these|of those|these|those|have|as they are|as it is)$": "end otherwise",
    r"\bso many\b": "as many, or the number",
    r"\banew\b": "again",
    r"\btold (of|apart|from)\b": "distinguished, or: no difference is measured",
    r"\btells? (\w+ )?apart\b": "distinguish",
    r"\bsays? no more than\b": "only says",
    r"\bbeside\b": "next to, or: compared with",
    r"\b(borne by|bearers?)\b": "with the name",
    r"\bblemish": "issue",
    r"\bsurest\b": "most confident",
    r"\ba second look\b": "re-scoring",
    r"\bstepp?(ed|ing)? aside\b": "backup",
    r"\b(there|here|where|wher)(of|in|upon|unto)\b": "a plain preposition",
    r"\bby (itself|themselves) alone\b": "alone",
}

"""Review of the names that a pipeline finds, the most frequent first, and its outcome."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spacy.tokens import Span

from ..corpora.link_table import NameVerdict
from ..errors import Errors, KrisselError
from ..lexical.ngrams import canonical_form
from ..mentions.annotations import FOUND, NIL, spans_of
from ..pipeline.finder import KrisselFinder
from ..render.formats.own import table_lines
from ..util.atomic import atomic_file
from ..util.escape import cell_text
from ..views import evidence, mention_view
from .link_texts import LinkedDocs

COLUMNS = ("text", "mentions", "docs", "variant", "id", "name", "example", "verdict", "right_id")
# Characters of the example on each side of its mention.
EXAMPLE_CHARS = 128


@dataclass(slots=True)
class FoundName:
    """Mentions of one canonical form.

    example: the first of them in its text. last_doc: number of the last doc that has one.
    """

    example: str
    texts: Counter[str] = field(default_factory=Counter)
    variants: Counter[str] = field(default_factory=Counter)
    links: Counter[tuple[str, str]] = field(default_factory=Counter)
    n_docs: int = 0
    last_doc: int = 0

    def row(self) -> tuple[str, ...]:
        ((text, _),), ((variant, _),) = self.texts.most_common(1), self.variants.most_common(1)
        (((id_, name), _),) = self.links.most_common(1)
        numbers = str(self.texts.total()), str(self.n_docs)
        link = cell_text(id_), cell_text(name)
        return cell_text(text), *numbers, variant, *link, self.example, "", ""


def review_names(docs: LinkedDocs, texts: Path, output: Path, rows: int) -> dict[str, int]:
    """Write the forms of the found mentions, the most frequent first.

    RETURNS: the numbers of `docs`, of found `mentions`, of their `forms`, and of `rows`. Raises
    KrisselError K679 if no finder found a mention.
    """
    forms: dict[str, FoundName] = {}
    for doc in docs:
        for span in spans_of(doc, docs.key):
            if found := span._.get(FOUND):
                _count(forms, span, found, docs.n_docs)
    if not forms:
        raise KrisselError(Errors.K679.format(path=texts, n_docs=docs.n_docs))
    ordered = sorted(forms.values(), key=lambda form: -form.texts.total())
    with atomic_file(output) as temporary, temporary.open("wb") as file_:
        file_.writelines(table_lines(COLUMNS, (form.row() for form in ordered[:rows])))
    n_mentions = sum(form.texts.total() for form in ordered)
    numbers = {"docs": docs.n_docs, "mentions": n_mentions, "forms": len(ordered)}
    return {**numbers, "rows": min(rows, len(ordered))}


def _count(forms: dict[str, FoundName], span: Span, found: dict[str, Any], number: int) -> None:
    """Count a mention under its canonical form. number: of its doc, from 1."""
    key = canonical_form(found["text"])
    if key not in forms:
        view = mention_view(span.doc.text, span.start_char, span.end_char, EXAMPLE_CHARS)
        forms[key] = FoundName(cell_text(evidence(view)))
    form = forms[key]
    form.texts[found["text"]] += 1
    form.variants[found["variant"]] += 1
    names = (each["name"] for each in span._.krissel_candidates if each["id"] == span.kb_id_)
    form.links[span.kb_id_ or NIL, next(names, "")] += 1
    form.n_docs += form.last_doc != number
    form.last_doc = number


def judge_names(finder: KrisselFinder, verdicts: Iterable[NameVerdict]) -> None:
    """Follow verdicts in the finder's settings; of several on one form, the last.

    A text that is no name is added to `stop_names`. A name is taken off, and off `added_names` if
    it is found there as another entity than the one of the verdict. A name with a correct id is
    added.
    """
    last = {canonical_form(verdict.text): verdict for verdict in verdicts}

    def stays(name: str, id_: str) -> bool:
        verdict = last.get(canonical_form(name))
        return verdict is None or not (verdict.right or (verdict.is_name and id_ != verdict.linked))

    cfg = finder.cfg
    cfg.stop_names = [
        *(name for name in cfg.stop_names if canonical_form(name) not in last),
        *(verdict.text for verdict in last.values() if not verdict.is_name),
    ]
    cfg.added_names = {
        **{name: id_ for name, id_ in cfg.added_names.items() if stays(name, id_)},
        **{verdict.text: verdict.right for verdict in last.values() if verdict.right},
    }

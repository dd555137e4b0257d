"""PsyTAR: sentences of patients about psychiatric drugs, and phrases in them mapped to UMLS and
SNOMED CT (Zolnoori et al. 2019), from its workbook."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from spacy_krissel.corpora.annotation import AnnotatedText, Mention
from spacy_krissel.corpora.convert import blank_pipeline
from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.corpora.docs import to_doc
from spacy_krissel.corpora.filters import distinct_texts
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.util.disk import coded_damage
from spacy_krissel.util.inputs import CHUNK, coded_reading
from spacy_krissel.util.limits import FILE
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.zip_file import open_zip

from ..errors import Errors, KrisselError
from .alignment import align, missing_words

SENTENCES = "Sentence_Labeling"
# Sheet of mapped phrases, as its name begins -> their label: adverse drug reactions, withdrawal
# symptoms, signs and symptoms, and what the drug was taken for.
PHRASES = {"ADR_Mapped": "ADR", "WD-Mapped": "WD", "SSI_Mapped": "SSI", "DI_Mapped": "DI"}
# Columns, from 0: of sentences (post, number, text) and of phrases (post, number, phrase; UMLS and
# SNOMED CT, twice).
SENTENCE_COLUMNS = (2, 3, 4)
PHRASE_COLUMNS = (1, 2, 3)
CONCEPT_COLUMNS = ((4, 5), (6, 7))
EXPECTED = f"PsyTAR's workbook, with the sheets {SENTENCES}, {', '.join(PHRASES)}"
MAX_ROWS = 2**20
# A CUI is C and seven digits; the SSI and DI sheets are in lower case.
_CUI = re.compile(r"\bC\d{7}\b", re.IGNORECASE)
_SNOMED_TAIL = re.compile(r"\s*(?:\([^()]*\)\s*)?\[.*", re.DOTALL)


class Concept(NamedTuple):
    """A concept as a phrase's row has it. names: UMLS's, then SNOMED CT's; type: UMLS's semantic
    type."""

    id: str
    names: tuple[str, ...]
    type: str


class Phrase(NamedTuple):
    """A mapped phrase. post, sentence: what PsyTAR calls drug_id and sentence_index; line: its row
    in its sheet."""

    post: str
    sentence: str
    text: str
    label: str
    concept: Concept | None
    sheet: str
    line: int


def read_psytar(path: str | Path, *, report: CorpusReport | None = None) -> Iterator[AnnotatedText]:
    """Return PsyTAR's sentences with the concepts of their phrases, each aligned to its sentence by
    `align`.

    A sentence's id is `drug_id:sentence_index`; a number that a post has twice gets `:2`. Phrases
    are joined with the sentence of their post and number; if two sentences have the number, with
    the first that contains the phrase. The entity is the CUI under UMLS1, PsyTAR's best match; a
    CUI under UMLS2, a wider concept of SNOMED CT, counts only without one. If a phrase occurs
    several times in a sentence and is listed as often under one label, each row gets its own span.
    A phrase that cannot be aligned leaves its entity as a label of the text, without a span.

    report: counts `sentences`, `phrases`, `without_id` (left out: not mapped to a CUI), `aligned:
        <rule>`, `aligned_fragments` (discontinuous phrases), the data issue `unaligned_phrases` and
        by reason `unaligned: …`, and `bad_records` (rows without a sentence or a phrase, or of a
        missing sentence).
    Raises KrisselError K231 (openpyxl is not installed), K201 (no file), K232 (not PsyTAR's
    workbook).
    """
    own_report = report is None
    report = CorpusReport() if report is None else report
    phrases: dict[tuple[str, str], list[Phrase]] = {}
    sentences: dict[tuple[str, str], list[AnnotatedText]] = {}
    with _open(path) as workbook:
        for phrase in _phrases(workbook, path, report):
            phrases.setdefault((phrase.post, phrase.sentence), []).append(phrase)
        for line, (post, number, text) in _rows(workbook, SENTENCES, SENTENCE_COLUMNS, path):
            if text:
                same = sentences.setdefault((post, number), [])
                id_ = f"{post}:{number}:{len(same) + 1}" if same else f"{post}:{number}"
                same.append(
                    AnnotatedText(id_, text, source=f"{path}, {SENTENCES}", line=line, weak=True)
                )
            elif post or number:
                report.record_issue("bad_records", f"{path}, {SENTENCES}", line, "no text")
    ordered = sorted(
        (each for same in sentences.values() for each in same), key=lambda each: each.line
    )
    if not ordered or not phrases:
        found = f"{len(ordered)} sentences and phrases of {len(phrases)}"
        raise KrisselError(
            Errors.K232.format(path=path, problem=f"it holds {found}", expected=EXPECTED)
        )
    report.count("sentences", len(ordered))
    for key, found_phrases in phrases.items():
        if key in sentences:
            _set_mentions(found_phrases, sentences[key], path, report)
        else:
            for phrase in found_phrases:
                report.record_issue(
                    "bad_records",
                    f"{path}, {phrase.sheet}",
                    phrase.line,
                    f"no sentence {':'.join(key)}",
                )
    yield from ordered
    if own_report:
        report.warn()


def convert_psytar(
    source: str | Path, output: str | Path, *, progress: bool = False
) -> CorpusReport:
    """Convert PsyTAR's sentences to docs with document-level entity labels, and align its phrases
    to them.

    source: PsyTAR's workbook (.xlsx)
    output: .spacy file to write

    RETURNS: a report. Raises what `read_psytar` raises.
    """
    report = CorpusReport()
    nlp = blank_pipeline("en")
    texts = distinct_texts(read_psytar(source, report=report), report)
    shown = progress_bar(texts, show=progress, desc="Texts", unit="text")
    write_doc_bin((to_doc(text, nlp, report=report) for text in shown), output)
    report.warn()
    return report


def show_convert_psytar(report: CorpusReport) -> str:
    return "\n".join(f"{name}: {count}" for name, count in report.to_dict()["counts"].items())


def psytar_concepts(path: str | Path) -> list[Concept]:
    """Return the concepts that PsyTAR maps its phrases to, in order of id, each as in the first
    phrase with most names.

    Raises what `read_psytar` raises.
    """
    found: dict[str, Concept] = {}
    with _open(path) as workbook:
        for phrase in _phrases(workbook, path, CorpusReport()):
            concept = phrase.concept
            if concept and (
                concept.id not in found or len(concept.names) > len(found[concept.id].names)
            ):
                found[concept.id] = concept
    return [found[id_] for id_ in sorted(found)]


def _set_mentions(
    phrases: Sequence[Phrase], sentences: Sequence[AnnotatedText], path: Any, report: CorpusReport
) -> None:
    listed: Counter = Counter()
    for phrase in phrases:
        if phrase.concept is None:
            continue
        nth = listed[phrase.label, phrase.text.casefold()]
        listed[phrase.label, phrase.text.casefold()] += 1
        found = ((sentence, align(phrase.text, sentence.text, nth)) for sentence in sentences)
        sentence, alignment = next((pair for pair in found if pair[1]), (sentences[0], None))
        fragments = alignment.fragments if alignment else ()
        sentence.mentions.append(
            Mention(fragments, phrase.text, phrase.label, phrase.concept.id, sentence.line)
        )
        if alignment:
            report.count(f"aligned: {alignment.rule}")
            report.count("aligned_fragments", len(fragments) > 1)
        else:
            missing = missing_words(phrase.text, sentence.text)
            reason = (
                "no words"
                if not missing
                else "one word missing"
                if len(missing) == 1
                else "more words missing"
            )
            report.count(f"unaligned: {reason}")
            detail = f"{phrase.text[:60]!r} of {sentence.id}"
            report.record_issue("unaligned_phrases", f"{path}, {phrase.sheet}", phrase.line, detail)


def _phrases(workbook: Any, path: str | Path, report: CorpusReport) -> Iterator[Phrase]:
    columns = (*PHRASE_COLUMNS, *(column for pair in CONCEPT_COLUMNS for column in pair))
    for sheet, label in PHRASES.items():
        for line, (post, sentence, text, *cells) in _rows(workbook, sheet, columns, path):
            if not any((post, sentence, text)):
                continue
            if not all((post, sentence, text)):
                report.record_issue(
                    "bad_records", f"{path}, {sheet}", line, "no post, sentence number or phrase"
                )
                continue
            concept = _concept(*cells[:2]) or _concept(*cells[2:])
            report.count("phrases")
            report.count("without_id", concept is None)
            yield Phrase(post, sentence, text, label, concept, sheet, line)


def _concept(umls: str, snomed: str) -> Concept | None:
    """From `C0000765 / Excessive body weight gain / Finding` and
    `Excessive weight gain (finding) [A3440982/…]`."""
    match = _CUI.search(umls)
    if match is None:
        return None
    # A name may hold a slash of its own.
    _, _, rest = umls.partition("/")
    name, _, type_ = rest.rpartition("/")
    names = (name.strip(), _SNOMED_TAIL.sub("", snomed).strip() if "[" in snomed else "")
    return Concept(match[0].upper(), tuple(dict.fromkeys(filter(None, names))), type_.strip())


@contextmanager
def _open(path: str | Path) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError as error:
        raise KrisselError(Errors.K231.format(path=path)) from error
    if not Path(path).is_file():
        raise KrisselError(Errors.K201.format(path=path, expected=EXPECTED))
    path = Path(path)
    with open_zip(path, partial(_damaged, path)) as archive:
        _check_size(archive, path)
    with coded_damage(path, lambda error: _damaged(path, f"{type(error).__name__}: {error}")):
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        # Rows are parsed as they are asked for.
        with coded_reading(path, lambda: "a row of a sheet"):
            yield workbook
    finally:
        workbook.close()


def _check_size(archive: ZipFile, path: Path) -> None:
    """Raise KrisselError K055 for a workbook that unpacks to more than the limit, whatever size its
    members state."""
    size = 0
    for name in archive.namelist():
        with archive.open(name) as content:
            while block := content.read(CHUNK):
                size += len(block)
                FILE.check(size, path, "what it unpacks to")


def _damaged(path: Path, problem: str) -> KrisselError:
    return KrisselError(Errors.K232.format(path=path, problem=problem, expected=EXPECTED))


def _rows(
    workbook: Any, sheet: str, columns: Sequence[int], path: str | Path
) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of these columns of each row but the first, as stripped texts, with its
    number."""
    # The names of sheets have blanks after them.
    title = next((title for title in workbook.sheetnames if title.strip() == sheet), None)
    if title is None:
        found = ", ".join(workbook.sheetnames)
        problem = f"it has no sheet {sheet}, but {found}"
        raise KrisselError(Errors.K232.format(path=path, problem=problem, expected=EXPECTED))
    for line, row in enumerate(workbook[title].iter_rows(min_row=2, values_only=True), 2):
        if line > MAX_ROWS:
            problem = f"its sheet {sheet} has more rows than Excel has"
            raise KrisselError(Errors.K232.format(path=path, problem=problem, expected=EXPECTED))
        yield line, [_text(row[column]) if column < len(row) else "" for column in columns]


def _text(cell: Any) -> str:
    # Excel keeps whole numbers as floats in some sheets, and non-breaking spaces in texts.
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell).replace("\xa0", " ").strip()

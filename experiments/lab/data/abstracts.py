"""The abstracts of a list: by their PMIDs from PubMed, by their titles from a table."""

import csv
import gzip
import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spacy_krissel.corpora.files import open_lines
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.util.atomic import atomic_file, check_file, write_text

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from .pubmed_fetch import ADDRESS, PubMed

PathLike = str | Path
LISTED = "lines of a PMID, or of an id and the hash of a title, tab-separated"
TABLE = "a tab-separated table with the columns Title and Abstract"


class Listed(NamedTuple):
    """An abstract of the list. title: its hash (`title_hash`), or "" where the id is a PMID."""

    id: str
    title: str = ""


def title_hash(title: str) -> str:
    """48 bits of a title's letters and digits, in lower case: enough to find it in a table, in
    whatever encoding."""
    letters = "".join(filter(str.isalnum, title.casefold()))
    return hashlib.sha256(letters.encode("utf8")).hexdigest()[:12]


def read_list(path: PathLike) -> list[Listed]:
    """Raises KrisselError K240 (a line of another kind, an id twice), and what `open_lines`
    raises."""
    found: dict[str, Listed] = {}
    with open_lines(path, LISTED, report=CorpusReport()) as lines:
        for number, line in lines:
            if not line or line.startswith("#"):
                continue
            listed = Listed(*line.split("\t")[:2])
            if listed.id in found or not (listed.title or listed.id.isdecimal()):
                raise KrisselError(
                    Errors.K240.format(path=path, line=number, found=line[:80], expected=LISTED)
                )
            found[listed.id] = listed
    return list(found.values())


def fetch_abstracts(
    listed: PathLike,
    output: PathLike,
    keep: PubMed | PathLike,
    *,
    table: PathLike | None = None,
    address: str = ADDRESS,
    progress: bool = False,
) -> dict[str, int]:
    """Fetch the titles and abstracts of a list from PubMed: 200 per request, at most three requests
    per second.

    They are written as JSONL, `{"id", "text"}` per line in the list's order, for `krissel mine`.
    NCBI asks for an address to write to before it blocks you: the environment variable NCBI_EMAIL.
    NCBI_API_KEY is sent if it is set.

    listed: list of PMIDs, and of hashes of the titles of abstracts without one
    output: .jsonl.gz file to write, all or nothing; ids without a text are in a file next to it
        that ends in `.missing.txt`
    keep: folder of PubMed's answers, with which an interrupted run resumes; from Python also a
        `PubMed`
    table: table (Title, Abstract) of those that are listed by title; without it they are missing
    address: address of efetch

    RETURNS: counts: `listed`, `pubmed`, `table`, `missing`.
    Raises KrisselError K240 (the list or the table), K026 (the outputs), and what `PubMed` raises.
    Warns KW234 of missing abstracts.
    """
    check_file(output)
    pubmed = (
        keep
        if isinstance(keep, PubMed)
        else PubMed(
            Path(keep),
            address,
            email=os.environ.get("NCBI_EMAIL", ""),
            api_key=os.environ.get("NCBI_API_KEY", ""),
            say=print if progress else lambda line: None,
        )
    )
    wanted = read_list(listed)
    titles = {each.title: each.id for each in wanted if each.title}
    texts = dict(_of_table(table, titles)) if table else {}
    of_table = len(texts)
    texts.update(pubmed.texts([each.id for each in wanted if not each.title]))
    missing = [each.id for each in wanted if each.id not in texts]
    with atomic_file(output) as temporary, temporary.open("wb") as raw:
        with (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, "utf8") as file_,
        ):
            for each in wanted:
                if each.id in texts:
                    file_.write(
                        json.dumps({"id": each.id, "text": texts[each.id]}, ensure_ascii=False)
                        + "\n"
                    )
    rest = Path(f"{output}.missing.txt")
    write_text(rest, "".join(f"{id_}\n" for id_ in missing))
    if missing:
        message = Warnings.KW234.format(
            count=len(missing), of=len(wanted), path=rest, first=", ".join(missing[:3])
        )
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return {
        "listed": len(wanted),
        "pubmed": len(texts) - of_table,
        "table": of_table,
        "missing": len(missing),
    }


def show_fetch_abstracts(counts: dict[str, int]) -> str:
    template = "{listed} listed: {pubmed} of PubMed, {table} of the table, {missing} missing"
    return template.format(**counts)


def _of_table(path: PathLike, titles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Id and text of each row whose title is one of these hashes."""
    with open_lines(path, TABLE, report=CorpusReport()) as lines:
        rows: Any = csv.DictReader((line + "\n" for _, line in lines), delimiter="\t")
        columns = {str(name).strip().casefold(): name for name in rows.fieldnames or ()}
        if not {"title", "abstract"} <= set(columns):
            found = ", ".join(columns)[:80]
            raise KrisselError(Errors.K240.format(path=path, line=1, found=found, expected=TABLE))
        for row in rows:
            title, abstract = (
                " ".join((row[columns[name]] or "").split()) for name in ("title", "abstract")
            )
            if (id_ := titles.get(title_hash(title))) and abstract:
                yield id_, f"{title} {abstract}"

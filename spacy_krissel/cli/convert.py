"""`krissel convert`: gold corpora to .spacy files."""

from pathlib import Path
from typing import List, Optional

import typer

from .app import krissel


@krissel.command("convert")
def convert_cli(
    inputs: List[Path] = typer.Argument(
        ..., help="Files of a format below, .gz too; knowtator, BRAT, SemEval: folders and .tar.gz too"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="The .spacy file to write"),
    format: str = typer.Option("auto", help="auto, pubtator, bioc, knowtator, brat, semeval, phrases or zeshel"),
    documents: Optional[Path] = typer.Option(
        None,
        help="ZESHEL: folder with a file of documents a world; knowtator, BRAT, SemEval: folder of texts, if elsewhere",
    ),
    lang: str = typer.Option("en", help="Language of the tokenizer"),
    label: List[str] = typer.Option([], help="Keep mentions of this label only; may be repeated"),
    type: List[str] = typer.Option(
        [], "--type", "--types", help="Keep mentions of this semantic type only, by id or name; may be repeated"
    ),
    preset: Optional[str] = typer.Option(None, help="Keep mentions of a named set of types: st21pv or pel"),
    semantic_network: Optional[Path] = typer.Option(None, help="UMLS's SRDEF: types below those count as well"),
    ontology: Optional[Path] = typer.Option(None, help="Ontology store: count ids that it does not know"),
    prefix: str = typer.Option("", help="Put this before ids that have none, as the ontology does: NCBITaxon"),
    unknown_as_nil: bool = typer.Option(False, "--unknown-as-nil", help="An id the ontology does not know becomes NIL"),
    sentences: bool = typer.Option(False, "--sentences", help="Write each sentence as a doc"),
    text_labels: bool = typer.Option(
        False, "--text-labels", help="Set doc.cats to the entities that a doc mentions, for training without spans"
    ),
    split: str = typer.Option(
        "all", help="Documents to write: all, dev (a `dev-share` of them, by hash) or train (the rest)"
    ),
    dev_share: float = typer.Option(0.1, min=0, max=1, help="Share of the documents in dev"),
    seed: int = typer.Option(0, min=0, help="Of the split"),
    ids: Optional[Path] = typer.Option(None, help="File of documents' ids, one a line: write these documents alone"),
) -> None:
    """Convert gold corpora to docs with linked entities."""
    from ..corpora.convert import convert
    from ..corpora.semantic_types import preset_types

    types = [*(preset_types(preset) if preset else ()), *type]
    report = convert(
        inputs,
        output,
        format=format,
        documents=documents,
        lang=lang,
        labels=label or None,
        types=types or None,
        semantic_network=semantic_network,
        ontology=ontology,
        prefix=prefix,
        unknown_as_nil=unknown_as_nil,
        sentences=sentences,
        text_labels=text_labels,
        split=split,
        dev_share=dev_share,
        seed=seed,
        ids=ids,
        progress=True,
    )
    for name, count in report.to_dict()["counts"].items():
        typer.echo(f"{name}: {count}")

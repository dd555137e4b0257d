"""Commands that build data sets and describe them."""

from pathlib import Path
from typing import Any

import typer

from ..app import lab


@lab.command("affected-mentions")
def affected_mentions_cli(
    ontology: Path = typer.Argument(..., help="Ontology store"),
    gold: list[Path] = typer.Argument(..., exists=True, help="Gold mentions (.spacy)"),
) -> None:
    """Count the gold mentions that a linker by names could only guess (BELHD, Table 1)."""
    from spacy_krissel.evaluation.tables import markdown_table, percent
    from spacy_krissel.ontology.store import OntologyStore

    from ..data.affected_mentions import affected_mentions

    store = OntologyStore(ontology)
    rows = [
        (
            "corpus",
            "mentions",
            "in the store",
            "affected",
            "affected %",
            "spelt alike",
            "spelt alike %",
        )
    ]
    for path in gold:
        found = affected_mentions(path, store)
        known = found.mentions - found.unknown
        parts = [(f"{n:,}", percent(n / max(known, 1))) for n in (found.affected, found.spelt)]
        rows.append((str(path), f"{found.mentions:,}", f"{known:,}", *parts[0], *parts[1]))
    typer.echo(markdown_table(rows))


@lab.command("gold-concepts")
def gold_concepts_cli(
    gold: list[Path] = typer.Argument(..., help="Gold mentions (.spacy)"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="File of JSON lines for `krissel ontology`"
    ),
    ontology: Path | None = typer.Option(
        None, help="Store to take those of; none: they are named by their mentions"
    ),
) -> None:
    """Write the concepts of gold corpora as an ontology, where the real one is large or needs a
    licence."""
    from ..data.gold_concepts import gold_concepts

    typer.echo(f"{gold_concepts(gold, output, ontology=ontology):,} concepts in {output}")


Row = tuple[str, ...]


@lab.command("out-of-kb")
def out_of_kb_cli(
    ontology: Path = typer.Argument(..., help="Ontology store"),
    gold: list[str] = typer.Option(
        ..., help="name=path of a split's .spacy file, such as train=train.spacy; repeated"
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder for the reduced store, the splits and the report"
    ),
    type: list[str] = typer.Option(
        [], help="Remove entities of this semantic type, by name or id; may be repeated"
    ),
    tree: list[str] = typer.Option(
        [], help="Remove entities with a tree number in this sub-tree; may be repeated"
    ),
    preset: str | None = typer.Option(
        None, help="Remove a named set of types: pel (the paper's 11)"
    ),
    spans_key: str = typer.Option("", help="Gold mentions to count are in doc.spans[spans_key]"),
) -> None:
    """Build a benchmark for mentions without an entity, as PEL does (appendix D).

    An entity that is in a removed sub-tree and elsewhere, too, is removed. A composite mention
    becomes NIL when none of its known ids is left.
    """
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.out_of_kb import out_of_kb
    from ..data.semantic_types import preset_types

    splits = _splits(gold)
    types = [*(preset_types(preset) if preset else ()), *type]
    report = out_of_kb(
        ontology, splits, output, types=types, trees=tree, spans_key=spans_key, progress=True
    )
    removed = report["removed"]
    typer.echo(f"{removed['entities']} of {removed['of']} entities removed\n")
    typer.echo(markdown_table(_split_rows(report)) + "\n")
    typer.echo(markdown_table(_reference_rows(report)))
    typer.echo(
        "\n"
        f"Benchmark: {output}/ontology, {', '.join(f'{name}.spacy' for name in splits)}, "
        "report.json"
    )


def _splits(pairs: list[str]) -> dict[str, str]:
    splits: dict[str, str] = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not path or name in splits:
            raise typer.BadParameter(
                f"expected name=path, each name once, found {pair!r}", param_hint="--gold"
            )
        splits[name] = path
    return splits


def _split_rows(report: dict[str, Any]) -> list[Row]:
    """Return PEL's Table 7, with the same figures for all mentions."""
    from spacy_krissel.evaluation.tables import percent

    shares = ("entities_seen", "mentions_seen", "forms_seen", "mentions_of_seen_forms")
    names = (key.replace("_", " ") + " %" for key in shares)
    rows: list[Row] = [("split", "of", "mentions", "entities", *names)]
    for split, figures in report["splits"].items():
        for kind, title in (("nil", "NIL"), ("all", "all")):
            part = figures[kind]
            counts = (f"{part['mentions']:,}", f"{part['entities']:,}")
            rows.append((split, title, *counts, *(percent(part[key]) for key in shares)))
    return rows


def _reference_rows(report: dict[str, Any]) -> list[Row]:
    means = ("names", "name_words", "name_characters", "definition_words", "definition_characters")
    rows: list[Row] = [("references", "entities", *(key.replace("_", " ") for key in means))]
    for group, parts in report["references"].items():
        for kind, figures in parts.items():
            values = ("–" if figures[key] is None else f"{figures[key]:.1f}" for key in means)
            rows.append((f"{kind} ({group})", f"{figures['entities']:,}", *values))
    return rows


@lab.command("psytar")
def psytar_cli(
    source: Path = typer.Argument(..., help="PsyTAR's workbook (.xlsx)"),
    output: Path = typer.Option(..., "--output", "-o", help="The .spacy file to write"),
) -> None:
    """Convert PsyTAR's sentences to docs with document-level entity labels, its phrases aligned to
    them."""
    from ..data.psytar import convert_psytar

    report = convert_psytar(source, output, progress=True)
    for name, count in report.to_dict()["counts"].items():
        typer.echo(f"{name}: {count}")


@lab.command("psytar-names")
def psytar_names_cli(
    workbook: Path = typer.Argument(..., help="PsyTAR's workbook (.xlsx)"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The .jsonl file to write, for `krissel ontology`"
    ),
    train: Path | None = typer.Option(
        None, help="train.spacy of `lab text-split`: its phrases become names"
    ),
    hpo: Path | None = typer.Option(
        None, help="HPO (.obo, .gz too): names of terms with a CUI among their xrefs"
    ),
    lay: Path | None = typer.Option(None, help="HPO's table of lay synonyms"),
    phrases: bool = typer.Option(True, help="Take the training phrases as names"),
) -> None:
    """Collect the names of PsyTAR's concepts: UMLS's and SNOMED CT's of the workbook, HPO's, and
    training phrases."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.psytar_names import psytar_names

    report = psytar_names(workbook, output, train=train, hpo=hpo, lay=lay, phrases=phrases)
    added = ", ".join(f"{number:,} of {source}" for source, number in report["added"].items())
    typer.echo(
        f"{report['entities']:,} entities, {report['in_hpo']:,} of them in HPO; names: {added}"
    )
    typer.echo(f"{report['shared_names']:,} names are shared by several entities\n")
    rows: list[tuple[str, ...]] = [
        ("entities", "all", "1 name", "2 names", "3 or more", "names an entity")
    ]
    for part in ("seen", "unseen"):
        figures = report[part]
        mean = "–" if figures["names"] is None else f"{figures['names']:.1f}"
        rows.append((part, *(f"{figures[key]:,}" for key in ("entities", "1", "2", "3+")), mean))
    typer.echo(markdown_table(rows))
    typer.echo(f"\nOntology: {output}")


@lab.command("sample")
def sample_cli(
    mentions: Path = typer.Argument(..., help="Mention shards"),
    n: int = typer.Option(50, "-n", min=1, help="How many"),
    seed: int = typer.Option(0, min=0),
    format: str = typer.Option(
        "text", help="text, tsv or markdown (with a column for the verdict)"
    ),
    ontology: Path | None = typer.Option(None, help="Ontology store, to print preferred names"),
) -> None:
    """Draw mined mentions to judge by eye how many are right, as the paper estimated its 85 %
    (§3.1)."""
    from spacy_krissel.mining.shards import MentionShards
    from spacy_krissel.ontology.store import OntologyStore

    from ..data.mention_sample import format_mentions, sample_mentions

    drawn = sample_mentions(MentionShards(mentions), n, seed)
    store = None if ontology is None else OntologyStore(ontology)
    names = (
        None
        if store is None
        else {mention.entity: store.get(mention.entity).name for mention in drawn}
    )
    typer.echo(format_mentions(drawn, format, names=names))  # type: ignore[arg-type]


PARTS = {"train": "training", "test_seen": "test, seen", "test_unseen": "test, unseen"}


@lab.command("text-split")
def text_split_cli(
    inputs: list[Path] = typer.Argument(
        ..., help="Docs with text-level labels or gold mentions (.spacy)"
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder for train.spacy, test.spacy and a report"
    ),
    unit: str = typer.Option("doc", help="What a text is: doc, sentence or line"),
    unseen: float = typer.Option(
        0.1, min=0, max=1, help="Share of the entities that training never sees"
    ),
    test: float = typer.Option(
        0.1, min=0, max=1, help="Share of each seen entity's texts in the test set"
    ),
    min_train: int = typer.Option(
        5, min=0, help="Texts that training keeps of each seen entity first"
    ),
    seed: int = typer.Option(0, min=0),
    lang: str = typer.Option("en", help="Language of the training set's tokenizer"),
) -> None:
    """Build the training and test sets of OSLAT: 10 % of the entities unseen, and no span in the
    training set."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.text_split import text_split

    report = text_split(
        inputs,
        output,
        unit=unit,
        unseen=unseen,
        test=test,
        min_train=min_train,
        seed=seed,
        lang=lang,
    )
    typer.echo(
        f"{report['pairs']:,} pairs of {report['texts']:,} texts and {report['entities']:,} "
        "entities\n"
    )
    typer.echo(markdown_table(_bin_rows(report)) + "\n")
    typer.echo(markdown_table(_part_rows(report)))
    typer.echo(f"\nSplit: {output}/train.spacy, test.spacy, report.json")


def _bin_rows(report: dict[str, Any]) -> list[Row]:
    rows: list[Row] = [("frequency", "texts", "entities", "unseen")]
    for name, figures in report["bins"].items():
        texts = f"{figures['fewest_texts']:,}–{figures['most_texts']:,}"
        rows.append((name, texts, f"{figures['entities']:,}", f"{figures['unseen']:,}"))
    return rows


def _part_rows(report: dict[str, Any]) -> list[Row]:
    """Return the paper's Table 2."""
    from spacy_krissel.evaluation.tables import percent

    rows: list[Row] = [
        ("part", "texts", "entities", "pairs", "with spans", "disjoint", "disjoint %")
    ]
    for key, title in PARTS.items():
        figures = report[key]
        numbers = (
            f"{figures[name]:,}"
            for name in ("texts", "entities", "pairs", "with_spans", "disjoint")
        )
        rows.append((title, *numbers, percent(figures["disjoint_share"])))
    return rows


@lab.command("text-overlap")
def text_overlap_cli(
    texts: list[str] = typer.Argument(
        ..., help="Two of name=split:store, folders of `text-split` and stores of names"
    ),
    top: int = typer.Option(15, min=1, help="Most frequent entities to list of each"),
) -> None:
    """Count entities that two sets of texts share, by name, and list the most frequent of each
    (OSLAT, Tables A.1, A.2)."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.text_overlap import frequent, overlap_rows, read_texts

    first, second = map(read_texts, texts)
    header = ("entities", "all", "seen in the other", "unseen in the other", "not in the other")
    typer.echo(markdown_table([header, *overlap_rows(first, second), *overlap_rows(second, first)]))
    for each in (first, second):
        typer.echo(f"\n{each.name}: {', '.join(frequent(each, top))}")


@lab.command("zero-shot")
def zero_shot_cli(
    gold: list[Path] = typer.Argument(..., help="Gold corpora (.spacy), all of them divided anew"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder for train.spacy, dev.spacy, test.spacy, a report"
    ),
    shares: str = typer.Option(
        "0.8,0.1,0.1", help="Of the documents and of the entities: train,dev,test"
    ),
    seed: int = typer.Option(0, min=0),
    ontology: Path | None = typer.Option(None, help="Ontology store: entities by primary ids"),
    spans_key: str = typer.Option("", help="Gold mentions to count are in doc.spans[spans_key]"),
) -> None:
    """Divide documents and entities: mentions of entities of another split lose their link.

    About the sum of the squared shares of all links is kept: 0.66 with 0.8,0.1,0.1, and 0.34 with
    0.4,0.3,0.3.
    """
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.zero_shot import zero_shot

    report = zero_shot(
        gold, output, shares=_shares(shares), seed=seed, ontology=ontology, spans_key=spans_key
    )
    rows: list[tuple[str, ...]] = [("split", "documents", "links kept", "lost", "NIL", "entities")]
    for split, figures in report["splits"].items():
        rows.append(
            (
                split,
                *(f"{figures[key]:,}" for key in ("documents", "kept", "lost", "nil", "entities")),
            )
        )
    typer.echo(markdown_table(rows))
    if n_duplicates := report["duplicate_documents"]:
        typer.echo(f"{n_duplicates} documents left out, read before")
    typer.echo(f"Splits: {output}")


def _shares(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"expected numbers like 0.8,0.1,0.1, found {text!r}", param_hint="--shares"
        ) from None


@lab.command("open-texts")
def open_texts_cli(
    texts: list[Path] = typer.Argument(..., help="Texts as JSON lines with ids; .gz too"),
    output: Path = typer.Option(..., "--output", "-o", help="The .jsonl file to write"),
    without: list[str] = typer.Option(
        [], help="Leave out texts whose ids begin with this and a hyphen; repeated"
    ),
) -> None:
    """Copy texts but those of some sources, such as those whose licence does not let weights be
    given away."""
    from ..data.compact import open_texts

    kept, total = open_texts(texts, output, set(without))
    typer.echo(f"{kept:,} of {total:,} texts in {output}")


@lab.command("gsc-plus")
def gsc_plus_cli(
    folder: Path = typer.Argument(..., help="GSC+: its folder, with corpus/ and ann/"),
    output: Path = typer.Option(..., "--output", "-o", help="The PubTator file to write"),
) -> None:
    """Write GSC+, phenotypes in abstracts, as PubTator."""
    from ..data.compact import gsc_plus

    texts, mentions = gsc_plus(folder, output)
    typer.echo(f"{mentions:,} mentions in {texts} texts in {output}")


@lab.command("compact")
def compact_cli(
    trained: Path = typer.Argument(..., help="The trained pipeline"),
    start: Path = typer.Argument(..., help="The pipeline that it was trained from, untrained"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the pipeline to write"),
    meta: Path = typer.Option(..., help="Its card: a meta.json"),
    share: float = typer.Option(0.6, min=0, max=1, help="Of the trained weights in the average"),
) -> None:
    """Write the encoder that ships: averaged with its start, rounded to a byte a weight."""
    from ..data.compact import make_compact

    size = make_compact(trained, start, output, share=share, meta=meta)
    typer.echo(f"{size / 1e6:.1f} MB in {output}")

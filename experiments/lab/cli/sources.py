"""Commands that fetch the files of publishers and lay them out."""

import os
from pathlib import Path

import typer

from ..app import lab


@lab.command("check-sources")
def check_sources_cli(
    files: list[str] = typer.Argument(None, help="Files that are read, below KRISSEL_DATA"),
) -> None:
    """Check that KRISSEL_DATA names a folder, with these files in it, before anything is read."""
    from ..data.sources import check_sources

    typer.echo(f"Source files: {check_sources(os.environ.get('KRISSEL_DATA'), files or ())}")


@lab.command("lay-out")
def lay_out_cli(
    source: Path = typer.Argument(
        ..., help="A publisher's file: any, or with --member an archive (.zip, .tar, .tgz)"
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Where it is read; compressed where it ends in .gz"
    ),
    member: str = typer.Option("", help="End of the path of a file of the archive"),
    md5: str = typer.Option(
        "", help="Of the content that the documented results were measured on; warns of another"
    ),
) -> None:
    """Copy a downloaded file, or one of an archive, to where it is read."""
    from ..data.sources import lay_out

    typer.echo(f"{output} (MD5 of the content: {lay_out(source, output, member=member, md5=md5)})")


@lab.command("mesh-tables")
def mesh_tables_cli(
    source: Path = typer.Argument(..., help="NLM's descriptors: desc2024.xml, .gz too"),
    terms: Path = typer.Option(..., help="The table of terms to write (.tsv.gz)"),
    trees: Path = typer.Option(..., help="The table of tree numbers to write (.tsv.gz)"),
) -> None:
    """Write MeSH's descriptors as tables of terms and of tree numbers, without scope notes."""
    from ..data.vocabularies import mesh_tables

    descriptors, n_terms, n_trees = mesh_tables(source, terms, trees)
    typer.echo(f"{descriptors} descriptors, {n_terms} terms, {n_trees} tree numbers")


@lab.command("medic-lines")
def medic_lines_cli(
    source: Path = typer.Argument(..., help="CTD's table of diseases: CTD_diseases.tsv"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The file of lines `ID|other ids||name|synonyms` to write"
    ),
) -> None:
    """Write CTD's diseases (MEDIC) as lines, with ids as NCBI Disease has them."""
    from ..data.vocabularies import medic_lines

    typer.echo(f"{medic_lines(source, output)} diseases in {output}")


@lab.command("fetch-abstracts")
def fetch_abstracts_cli(
    listed: Path = typer.Argument(
        ..., help="The list: PMIDs, and hashes of the titles of abstracts without one"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="The .jsonl.gz file to write"),
    keep: Path = typer.Option(
        ..., help="Folder of PubMed's answers, with which an interrupted run goes on"
    ),
    table: Path | None = typer.Option(
        None, help="Table (Title, Abstract) of those that are listed by title"
    ),
    address: str = typer.Option("", help="Of efetch, if not NCBI's own"),
    email: str = typer.Option(
        "", envvar="NCBI_EMAIL", help="NCBI asks for it, to write to you before it blocks you"
    ),
    api_key: str = typer.Option("", envvar="NCBI_API_KEY", help="Your key, if you have one"),
) -> None:
    """Fetch the titles and abstracts of a list from PubMed: 200 a request, at most three requests a
    second."""
    from ..data.abstracts import fetch_abstracts
    from ..data.pubmed_fetch import ADDRESS, PubMed

    pubmed = PubMed(keep, address or ADDRESS, email=email, api_key=api_key, say=typer.echo)
    counts = fetch_abstracts(listed, output, pubmed, table=table)
    typer.echo(
        "{listed} listed: {pubmed} of PubMed, {table} of the table, {missing} missing".format(
            **counts
        )
    )

"""Every command ends with a coded message where a user can change what went wrong, and leaves
nothing half-done."""

import errno
import os
from typing import NamedTuple

import pytest
from command_line import laboratory, names_of

from spacy_krissel.cli.app import krissel


class Written(NamedTuple):
    """A command and one of its outputs: `{out}` in its arguments is that, `{in}` a path to read
    from, and `{ok}` another output. ending: of a file; "" for a folder."""

    arguments: tuple[str, ...]
    ending: str = ""


OUTPUTS = [
    Written(("ablation", "{in}", "-o", "{out}")),
    Written(("build", "{in}", "-o", "{out}")),
    Written(("calibrate", "{in}", "{in}", "-o", "{out}")),
    Written(("calibrate", "{in}", "{in}", "-o", "{ok}", "--metrics", "{out}"), ".json"),
    Written(("compact", "{in}", "{in}", "-o", "{out}", "--meta", "{in}")),
    Written(("confidence", "{in}", "-o", "{out}")),
    Written(("convert", "{in}", "-o", "{out}"), ".spacy"),
    Written(("correct", "{in}", "{in}", "-o", "{out}")),
    Written(("distill", "{in}", "-o", "{out}")),
    Written(("distill-names", "{in}", "{in}", "-o", "{out}")),
    Written(("encoder", "{in}", "-o", "{out}")),
    Written(("evaluate", "{in}", "{in}", "--ontology", "{in}", "-o", "{out}")),
    Written(("evaluate-spans", "{in}", "{in}", "--ontology", "{in}", "-o", "{out}")),
    Written(("extract", "{in}", "pain", "-o", "{out}"), ".html"),
    Written(("fetch-abstracts", "{in}", "-o", "{out}", "--keep", "{ok}"), ".jsonl.gz"),
    Written(
        ("few-shot", "{in}", "{in}", "--examples", "{in}", "--ontology", "{in}", "-o", "{out}")
    ),
    Written(("gold-concepts", "{in}", "-o", "{out}"), ".jsonl"),
    Written(("gsc-plus", "{in}", "-o", "{out}"), ".pubtator"),
    Written(("lay-out", "{in}", "-o", "{out}", "--member", "names.txt"), ".txt"),
    Written(("link", "{in}", "{in}", "-o", "{out}"), ".jsonl"),
    Written(("link", "{in}", "{in}", "--format", "jsonl", "-o", "{out}")),
    Written(("map", "{in}", "{in}", "-o", "{out}"), ".tsv"),
    Written(("map", "{in}", "{in}", "-o", "{ok}.tsv", "--merge", "{out}"), "_nodes.tsv"),
    Written(("medic-lines", "{in}", "-o", "{out}"), ".txt"),
    Written(("mesh-tables", "{in}", "--trees", "{ok}", "--terms", "{out}"), ".tsv.gz"),
    Written(("mine", "{in}", "{in}", "-o", "{out}")),
    Written(("name-vectors", "{in}", "-o", "{out}", "--ontology", "{in}"), ".arrow"),
    Written(("nil-curve", "{in}", "-o", "{out}"), ".svg"),
    Written(("ontology", "{in}", "-o", "{out}")),
    Written(("ontology", "{in}", "-o", "{ok}", "--homonyms", "{out}"), ".json"),
    Written(("open-texts", "{in}", "-o", "{out}"), ".jsonl"),
    Written(("out-of-kb", "{in}", "--gold", "train={in}", "-o", "{out}")),
    Written(("phrases", "{in}", "-o", "{out}"), ".txt.gz"),
    Written(("words", "{in}", "-o", "{out}"), ".tsv.gz"),
    Written(("projection", "{in}", "--ontology", "{in}", "-o", "{out}"), ".svg"),
    Written(("prototypes", "{in}", "-o", "{out}", "--ontology", "{in}")),
    Written(("prototypes", "{in}", "-o", "{ok}", "--ontology", "{in}", "--kb-path", "{out}")),
    Written(("psytar", "{in}", "-o", "{out}"), ".spacy"),
    Written(("psytar-names", "{in}", "-o", "{out}"), ".jsonl"),
    Written(("quantize", "{in}", "-o", "{out}")),
    Written(("review", "{in}", "{in}", "-o", "{out}"), ".tsv"),
    Written(("similarities", "a={in}", "--ontology", "{in}", "-o", "{out}"), ".svg"),
    Written(("text-split", "{in}", "-o", "{out}")),
    Written(("train", "{config}", "-o", "{out}")),
    Written(("tune", "{in}", "-o", "{out}")),
    Written(("tune", "{in}", "-o", "{ok}", "--metrics", "{out}"), ".json"),
    Written(("update", "{in}", "{in}", "-o", "{out}")),
    Written(("update", "{in}", "{in}", "-o", "{ok}", "--report", "{out}"), ".tsv"),
    Written(("verify", "{in}", "--ontology", "{in}", "--fix", "-o", "{out}"), ".txt"),
    Written(("verify", "{in}", "--ontology", "{in}", "--report", "{out}"), ".tsv"),
    Written(("zero-shot", "{in}", "-o", "{out}")),
]
# Nothing but what it prints; `vocabularies` writes into its cache alone
# (tests/ontology/vocabularies).
PRINT = {
    "affected-mentions",
    "campaign-assemble",
    "campaign-collect",
    "campaign-pack",
    "campaign-run",
    "campaign-unpack",
    "check-sources",
    "fit-species",
    "gene-baselines",
    "judged-links",
    "name-recall",
    "precision",
    "sample",
}
PRINT |= {"show", "text-overlap", "vocabularies"}
# Its file is only added to (tests/serving).
PRINT |= {"serve"}
PRINT |= {"mcp"}
TITLES = [" ".join(each.arguments[:1] + each.arguments[-2:-1]) for each in OUTPUTS]
every_output = pytest.mark.parametrize("written", OUTPUTS, ids=TITLES)


@pytest.fixture
def given(tmp_path):
    """The arguments of a command, by the path of its output and of what it reads."""

    def fill(written, out, source="missing"):
        config = tmp_path / "train.cfg"
        config.write_text("[nlp]\n")
        places = {"{in}": source, "{out}": out, "{ok}": tmp_path / "good", "{config}": config}
        arguments = []
        for argument in written.arguments:
            for name, place in places.items():
                argument = argument.replace(name, str(place))
            arguments.append(argument)
        return arguments

    return fill


def tree(path):
    """All files and folders below a path, and the bytes of files."""
    return {str(each): each.is_file() and each.read_bytes() for each in sorted(path.rglob("*"))}


def test_every_command_is_tested_here():
    assert {each.arguments[0] for each in OUTPUTS} | PRINT == names_of(krissel) | names_of(
        laboratory()
    )


@every_output
def test_an_output_of_the_wrong_kind_is_refused_before_the_work(written, given, refuse, tmp_path):
    """Below a file, a folder where a file is to be written, a file where a folder is. There is
    nothing to read."""
    (tmp_path / "file").write_text("earlier")
    other = tmp_path / f"out{written.ending}"
    other.mkdir() if written.ending else other.write_text("earlier")
    for out, named in (
        (tmp_path / "file" / "folder" / other.name, str(tmp_path / "file")),
        (other, other.name),
    ):
        arguments = given(written, out)
        before = tree(tmp_path)
        said = refuse(*arguments)
        assert ("[K026]" in said or (out == other and "[K005]" in said)) and named in said
        assert tree(tmp_path) == before


# The other reasons pass through the same lines: a command that writes a file and one that writes a
# folder show them.
OTHER_REASONS = {"build -o", "link -o"}


@pytest.mark.parametrize(
    "written, number",
    [
        pytest.param(written, number, id=f"{title} {errno.errorcode[number]}")
        for written, title in zip(OUTPUTS, TITLES, strict=True)
        for number in (
            errno.EACCES,
            *((errno.EROFS, errno.ENOSPC) if title in OTHER_REASONS else ()),
        )
    ],
)
def test_an_output_that_cannot_be_written_has_a_coded_error(
    written, number, given, refuse, tmp_path, monkeypatch
):
    forbidden = tmp_path / "forbidden"
    forbidden.mkdir()
    arguments = given(written, forbidden / f"out{written.ending}")
    before = tree(tmp_path)
    open_ = os.open

    def refused(path, flags, *arguments, **settings):
        if str(path).startswith(str(forbidden)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number), str(path))
        return open_(path, flags, *arguments, **settings)

    monkeypatch.setattr(os, "open", refused)
    said = refuse(*arguments)
    assert "[K026]" in said and "forbidden" in said and os.strerror(number) in said
    assert tree(tmp_path) == before


INPUTS = [*OUTPUTS, Written(("sample", "{in}"))]


@pytest.mark.parametrize("written", INPUTS, ids=[*TITLES, "sample"])
def test_an_invalid_input_has_a_coded_error(written, given, run, tmp_path):
    """A missing one, bytes, text that no reader takes, and a folder of neither a pipeline nor a
    store."""
    for content in ("missing", "bytes", "text", "folder"):
        source = tmp_path / f"{content}-in"
        if content == "bytes":
            source.write_bytes(b"\x00\xff\x1f\x8b cake" * 50)
        elif content == "text":
            source.write_text("[1, 2\ncake\n")
        elif content == "folder":
            source.mkdir()
            (source / "config.cfg").write_text("cake")
            (source / "manifest.json").write_text("{}")
        made = tmp_path / f"made-of-{content}"
        arguments = given(written, made / f"out{written.ending}", source)
        before = tree(tmp_path)
        said = run(*arguments, code=None)
        assert "✘ [K" in said and "Traceback" not in said, content
        left = tree(tmp_path).keys() - before.keys() - {str(made)}
        assert not left, (content, said)


def test_an_invalid_config_ends_without_a_traceback(run, tmp_path):
    for content in (
        b"",
        b"\x00\xff",
        b"cake",
        b"[nlp]\nlang = en\n",
        b"[training]\n",
        b"[nlp]\n[training]\n",
    ):
        (tmp_path / "train.cfg").write_bytes(content)
        said = run("train", tmp_path / "train.cfg", "-o", tmp_path / "out", code=1)
        assert "Traceback" not in said and not (tmp_path / "out").exists(), content


def test_a_path_as_report_name_is_refused(refuse, tmp_path):
    """`--name a/b` would be noticed after the whole evaluation."""
    for command in ("evaluate", "evaluate-spans", "few-shot"):
        examples = ("--examples", "missing") if command == "few-shot" else ()
        for name in ("a/b", "..", ""):
            said = refuse(
                command,
                "missing",
                "missing",
                "--ontology",
                "missing",
                *examples,
                "-o",
                tmp_path,
                "--name",
                name,
            )
            assert "[K006]" in said and "'name'" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("link", "in", "in", "-o", "out.jsonl", "--batch-size", "0"),
        ("link", "in", "in", "-o", "out.jsonl", "--batch-size", "-1"),
        ("mine", "in", "in", "-o", "out", "--n-process", "0"),
        ("prototypes", "in", "-o", "out", "--mentions-per-entity", "-1"),
        ("prototypes", "in", "-o", "out", "--contexts-per-shared-name", "-1"),
        ("prototypes", "in", "-o", "out", "--max-entities", "-1"),
        ("prototypes", "in", "-o", "out", "--n-process", "0"),
        ("sample", "in", "--number", "0"),
        ("tune", "in", "--n-queries", "0"),
        ("zero-shot", "in", "-o", "out", "--seed", "-1"),
        ("link", "in", "in", "-o", "out.jsonl", "--gpu-id", "-2"),
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-2:]),
)
def test_numbers_out_of_range_are_refused_with_the_option_name(run, arguments):
    said = run(*arguments, code=None)
    assert "Invalid value for" in said or "[K006]" in said
    assert arguments[-2].strip("-").replace("-", "_") in said.replace("-", "_")

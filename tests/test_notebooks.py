"""The notebooks of the documentation: their cells run, and the outputs that are stored in them are
those."""

import ast
import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import invoke
from spacy import displacy
from test_documentation import GENERATE
from tiers import nightly

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MAX_BYTES, MAX_CELLS = 100_000, 12
COLOURS = re.compile(r"\x1b\[[\d;]*m")
CODE_KEYS = {"cell_type", "execution_count", "id", "metadata", "outputs", "source"}
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path, kind=None):
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return [cell for cell in cells if kind is None or cell["cell_type"] == kind]


def source_of(cell):
    return "".join(cell["source"])


def stored(cell):
    """Return what the cell printed and the pages that it displayed."""
    printed = "".join(
        "".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream"
    )
    pages = [
        "".join(each["data"]["text/html"])
        for each in cell["outputs"]
        if each["output_type"] == "display_data"
    ]
    return printed, pages


def compared(printed):
    """Without what another machine would print: which device is used is said in lines that begin
    so."""
    return "".join(
        line
        for line in COLOURS.sub("", printed).splitlines(keepends=True)
        if not line.startswith("ℹ")
    )


def shell(line):
    words = shlex.split(line)
    assert words[:4] == ["python", "-m", "spacy", "krissel"], "a command that the test cannot run"
    done = invoke(*words[4:])
    assert done.exit_code == 0, (words, done.output, done.exception)
    print(done.stdout, end="")


def run(source, names):
    """Run a cell without Jupyter. RETURNS: the value that Jupyter would show below it."""
    names["shell"] = shell
    body = ast.parse(
        re.sub(r"^!(.+)$", lambda each: f"shell({each[1]!r})", source, flags=re.M)
    ).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    # That of corrections trains; its page's code does the same without.
    [nightly(path, id="correct") if path.stem == "correct" else path for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
@pytest.mark.filterwarnings("error::spacy_krissel.errors.KrisselWarning")
def test_stored_outputs_match_what_the_cells_print(path, tmp_path, monkeypatch):
    folder = tmp_path / "docs" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("assets", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    pages = []
    monkeypatch.setattr(displacy, "RENDER_WRAPPER", lambda page: pages.append(page) or page)
    names = {"__name__": path.stem}
    for cell in cells_of(path, "code"):
        pages.clear()
        with contextlib.redirect_stdout(io.StringIO()) as output:
            value = run(source_of(cell), names)
        # In Jupyter displaCy shows the page and returns nothing.
        assert value is None or value in pages, (
            f"Jupyter would show a value that is not stored: {source_of(cell)}"
        )
        printed, shown = stored(cell)
        assert compared(output.getvalue()) == compared(printed)
        assert [f'<span class="tex2jax_ignore">{page}</span>' for page in pages] == shown


@each_notebook
def test_notebook_is_in_format_4_and_run_in_order(path):
    notebook = json.loads(path.read_text(encoding="utf8"))
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", id) for id in ids)
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(set(cell) == CODE_KEYS for cell in codes)
    assert [cell["execution_count"] for cell in codes] == [*range(1, len(codes) + 1)], (
        "not run from top to bottom"
    )
    others = [cell for cell in notebook["cells"] if cell["cell_type"] != "code"]
    assert all(set(cell) == {"cell_type", "id", "metadata", "source"} for cell in others)
    assert {cell["cell_type"] for cell in others} == {"markdown"}


@each_notebook
def test_notebook_is_within_its_size_limit(path):
    assert path.stat().st_size < MAX_BYTES
    assert 5 <= len(cells_of(path)) <= MAX_CELLS


@each_notebook
def test_notebook_names_no_machine_and_no_time(path):
    text = path.read_text(encoding="utf8")
    assert not re.search(r'[\s"\'(=](/home|/Users|/root|/tmp|/work|/private|[A-Z]:\\\\)', text)
    assert not re.search(r"\d\d:\d\d:\d\d", text)


@each_notebook
def test_notebook_links_resolve(path):
    for cell in cells_of(path, "markdown"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", source_of(cell)):
            assert (path.parent / target).exists(), target


def test_every_notebook_is_linked_from_the_index_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf8")
    assert {path.stem for path in NOTEBOOKS} == {
        "correct",
        "find",
        "from-scispacy",
        "own-ontology",
        "vocabularies",
    }
    assert [path.name for path in NOTEBOOKS if f"(notebooks/{path.name})" not in index] == []


def test_site_shows_notebook_cells_and_outputs():
    page = GENERATE.notebook_page(GENERATE.NOTEBOOKS["notebooks/own-ontology.md"])
    assert "```python\nfrom pathlib import Path\n" in page and "\n```\nCLINIC:6\nNIL\n```\n" in page
    assert '\n<div class="entities"' in page and "tex2jax_ignore" not in page


def test_notebook_links_are_rewritten_to_site_pages():
    links = "[a](notebooks/correct.ipynb), [b](https://example.org/b.ipynb)"
    assert (
        GENERATE.on_page_markdown(links)
        == "[a](notebooks/correct.md), [b](https://example.org/b.ipynb)"
    )

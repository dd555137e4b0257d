"""Pictures of extracted entities, read back as XML."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin

from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention, join_fragments, write_fragments
from spacy_krissel.render.page import render, save_rendering
from spacy_krissel.render.rows import DARK, LIGHT, PAPER, drawn_entities
from spacy_krissel.render.svg import COLUMN, render_svg

NLP = spacy.blank("en")
KEY = "found"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def knee():
    doc = NLP("pain and swelling in knee")
    pain = DocMention("C1", "Finding", ((0, 1), (4, 5)))
    write_fragments(doc, [pain, DocMention("C2", "Finding", ((2, 5),))], KEY)
    doc.spans[KEY].attrs["entities"] = [
        {"id": "C1", "name": "knee pain", "score": 0.932},
        {"id": "C2", "name": "knee swelling", "score": None},
        {"id": "C3", "name": "fever", "score": 0.4},
    ]
    return doc


def cells_of(html):
    """Each cell's text, and class of its marks by row."""
    cells = []
    for cell in ET.fromstring(html).iterfind(".//span[@class='cell']"):
        marks = {int(mark.get("style").split(": ")[1]): mark.get("class") for mark in cell.iterfind("i")}
        cells.append((cell.text, marks))
    return cells


def test_pieces_have_bars_and_a_line_joins_them(knee):
    kinds = [
        (text, {row: mark.split()[0] for row, mark in marks.items()}) for text, marks in cells_of(render(knee, KEY))
    ]
    assert kinds == [
        ("pain", {0: "bar"}),
        (" ", {0: "line"}),
        ("and", {0: "line"}),
        (" ", {0: "line"}),
        ("swelling", {0: "line", 1: "bar"}),
        (" ", {0: "line", 1: "bar"}),
        ("in", {0: "line", 1: "bar"}),
        (" ", {0: "line", 1: "bar"}),
        ("knee", {0: "bar", 1: "bar"}),
    ]
    colours = [
        {mark.split()[1] for _, marks in cells_of(render(knee, KEY)) for r, mark in marks.items() if r == row}
        for row in (0, 1)
    ]
    assert colours == [{"c0"}, {"c1"}]


def test_labels(knee):
    page = ET.fromstring(render(knee, KEY))
    labels = ["".join(label.itertext()) for label in page.iterfind(".//span[@class='label']")]
    assert labels == ["knee pain C1 · 0.93", "knee swelling C2"]  # an entity without pieces has no row
    assert "".join(page.find("body").itertext()).count("fever") == 0


def test_names_survive_a_file_and_labels_stand_in_for_them(knee):
    again = next(DocBin().from_bytes(DocBin(docs=[knee]).to_bytes()).get_docs(spacy.blank("en").vocab))
    assert render(again, KEY) == render(knee, KEY) and render_svg(again, KEY) == render_svg(knee, KEY)
    del knee.spans[KEY].attrs["entities"]
    assert [(row.name, row.details) for row in drawn_entities(knee, KEY)] == [("Finding", "C1"), ("Finding", "C2")]
    write_fragments(knee, [DocMention("", "Finding", ((0, 1),)), DocMention("", "", ((2, 3),))], KEY)
    assert [(row.name, row.details) for row in drawn_entities(knee, KEY)] == [("Finding", ""), ("", "")]


def test_mentions_of_one_entity_share_a_row_and_no_line(knee):
    write_fragments(knee, [DocMention("C1", "F", ((4, 5),)), DocMention("C1", "F", ((0, 1),))], KEY)
    (row,) = drawn_entities(knee, KEY)
    assert (row.bars, row.lines) == ({0, 8}, set())


def test_a_free_place_is_used_again():
    doc = NLP("pain in the back, which was there for three weeks, then pain in the legs")
    last = len(doc)
    pieces = [((0, 1), (3, 4)), ((0, 2),), ((last - 4, last - 3), (last - 1, last))]
    write_fragments(doc, [DocMention(f"C{i}", "F", piece) for i, piece in enumerate(pieces)], KEY)
    assert [max(marks, default=None) for _, marks in cells_of(render(doc, KEY))][:2] == [1, 1]
    assert set(cells_of(render(doc, KEY))[-1][1]) == {0}


def test_text_and_names_are_escaped():
    doc = NLP('a <b>&amp;"c" \x07 d')
    write_fragments(doc, [DocMention("<id>", "<i>&\x08", ((1, 3),))], KEY)
    for picture in (render(doc, KEY, title="<&>\x00"), render_svg(doc, KEY)):
        tree = ET.fromstring(picture)
        shown = "".join(tree.itertext())
        assert "b>&amp;" in shown and "<i>&" in shown and "<id>" in shown
        assert not [node for node in tree.iter() if node.tag in ("b", "i") and not node.get("class")]
        assert picture.count("�") >= 2 and not {"\x07", "\x08"}.intersection(picture)


def test_words_do_not_break():
    """A line may break after a space alone: "can't", two tokens, is one word."""
    words = ET.fromstring(render(_pieceless("I can't, no"), KEY)).iterfind(".//span[@class='word']")
    assert ["".join(word.itertext()) for word in words] == ["I ", "can't, ", "no"]


def test_page_fragment_and_several_docs(knee):
    fragment = render([knee, _pieceless("Well.")], KEY, page=False)
    tree = ET.fromstring(fragment)
    assert tree.get("class") == "krissel-spans" and len(tree.findall("p")) == 2
    page = render(knee, KEY, title="Knees")
    assert page.startswith("<!DOCTYPE html>") and ET.fromstring(page).findtext(".//title") == "Knees"
    assert "http" not in page  # nothing is fetched


def test_picture(knee):
    tree = ET.fromstring(render_svg(knee, KEY))
    bars, lines = ([r for r in tree.iter(f"{SVG}rect") if kind in r.get("class").split()] for kind in ("bar", "line"))
    columns = [(round((float(r.get("x")) - 16) / COLUMN), round(float(r.get("width")) / COLUMN)) for r in bars]
    assert columns == [(0, 4), (21, 4), (9, 16)]
    (line,) = lines
    assert float(line.get("x")) == float(bars[0].get("x")) + float(bars[0].get("width"))
    assert float(line.get("x")) + float(line.get("width")) == pytest.approx(float(bars[1].get("x")))
    assert bars[0].get("class") == bars[1].get("class") != bars[2].get("class")
    labels = ["".join(text.itertext()) for text in tree.iter(f"{SVG}text") if "label" in text.get("class")]
    assert labels == ["knee painC1 · 0.93", "knee swellingC2"]


def test_picture_of_a_long_text_wraps(knee):
    narrow = ET.fromstring(render_svg(knee, KEY, columns=14))
    texts = [text for text in narrow.iter(f"{SVG}text") if text.get("class") == "ink"]
    rows = {}
    for text in texts:
        rows.setdefault(text.get("y"), []).append(text.text)
    assert list(rows.values()) == [["pain", "and"], ["swelling", "in"], ["knee"]]
    bars = [r.get("class") for r in narrow.iter(f"{SVG}rect") if "bar" in r.get("class").split()]
    assert bars == ["c0 bar", "c1 bar", "c0 bar", "c1 bar"]
    assert len(list(narrow.iter(f"{SVG}rect"))) == 1 + 4 + 2  # paper, bars, and a line on the first two lines
    assert sum("label" in text.get("class") for text in narrow.iter(f"{SVG}text")) == 2


def test_wide_letters_take_two_columns():
    doc = Doc(NLP.vocab, words=["膝", "pain"], spaces=[False, False])
    write_fragments(doc, [DocMention("C1", "F", ((1, 2),))], KEY)
    bar = next(r for r in ET.fromstring(render_svg(doc, KEY)).iter(f"{SVG}rect") if "bar" in r.get("class"))
    assert float(bar.get("x")) == 16 + 2 * COLUMN


def test_files(knee, tmp_path):
    assert save_rendering(knee, KEY, tmp_path / "a.html").read_text(encoding="utf8") == render(knee, KEY, title="a")
    assert save_rendering(knee, KEY, tmp_path / "a.svg").read_text(encoding="utf8") == render_svg(knee, KEY)
    for docs, name in (([knee], "b.svg"), (knee, "b.png")):
        with pytest.raises(KrisselError, match="K006.*path"):
            save_rendering(docs, KEY, tmp_path / name)


def test_no_such_key(knee):
    with pytest.raises(KrisselError, match="K691.*'fund'.*found"):
        render(knee, "fund")


@given(
    st.text(max_size=40), st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1), max_size=4)
)
def test_any_text_is_drawn_whole(text, mentions):
    doc = NLP(text)
    inside = [
        join_fragments((start, min(start + size, len(doc))) for start, size in pieces if start < len(doc))
        for pieces in mentions
    ]
    write_fragments(doc, [DocMention(f"C{i}", "F", pieces) for i, pieces in enumerate(inside) if pieces], KEY)
    cells = cells_of(render(doc, KEY))
    assert sum(bool(cell.strip()) for cell, _ in cells) == sum(not token.is_space for token in doc)
    for row in drawn_entities(doc, KEY):
        marked = [sum(f"c{row.colour}" in mark.split() for mark in marks.values()) for _, marks in cells]
        assert max(marked) <= 1
    ET.fromstring(render_svg(doc, KEY, columns=12))


def _pieceless(text):
    doc = NLP(text)
    write_fragments(doc, [], KEY)
    return doc


# How the colour-blind see colours: linear RGB to linear RGB, at full strength (Machado, Oliveira and Fernandes 2009).
SEEN_AS = {
    "all": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuter": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x, y, z = np.cbrt(TO_XYZ @ rgb / (0.9505, 1, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("colours, paper", [(LIGHT, PAPER["light"]), (DARK, PAPER["dark"])])
def test_colours_stand_out_and_differ_for_the_colour_blind(colours, paper):
    for colour in colours:
        low, high = sorted(TO_XYZ[1] @ linear(each) for each in (colour, paper))
        assert (high + 0.05) / (low + 0.05) >= 3
    for matrix in SEEN_AS.values():
        seen = [lab(np.clip(np.asarray(matrix) @ linear(colour), 0, 1)) for colour in colours]
        assert min(np.linalg.norm(one - other) for i, one in enumerate(seen) for other in seen[:i]) >= 25

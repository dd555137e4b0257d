"""Drawings of extracted entities, read back as XML."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin

from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention, join_fragments, write_fragments
from spacy_krissel.render.svg import (
    COLUMN,
    DARK,
    LIGHT,
    PAPER,
    drawn_entities,
    render_page,
    render_svg,
)

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


def test_an_entity_without_fragments_has_no_row(knee):
    assert [(row.name, row.details) for row in drawn_entities(knee, KEY)] == [
        ("knee pain", "C1 · 0.93"),
        ("knee swelling", "C2"),
    ]
    assert "fever" not in render_svg(knee, KEY)


def test_rows_use_saved_names_or_else_labels(knee):
    again = next(
        DocBin().from_bytes(DocBin(docs=[knee]).to_bytes()).get_docs(spacy.blank("en").vocab)
    )
    assert render_svg(again, KEY) == render_svg(knee, KEY)
    del knee.spans[KEY].attrs["entities"]
    assert [(row.name, row.details) for row in drawn_entities(knee, KEY)] == [
        ("Finding", "C1"),
        ("Finding", "C2"),
    ]
    write_fragments(
        knee, [DocMention("", "Finding", ((0, 1),)), DocMention("", "", ((2, 3),))], KEY
    )
    assert [(row.name, row.details) for row in drawn_entities(knee, KEY)] == [
        ("Finding", ""),
        ("", ""),
    ]


def test_mentions_of_one_entity_share_a_row_and_no_line(knee):
    write_fragments(knee, [DocMention("C1", "F", ((4, 5),)), DocMention("C1", "F", ((0, 1),))], KEY)
    (row,) = drawn_entities(knee, KEY)
    assert (row.bars, row.lines) == ({0, 8}, set())


def test_text_and_names_are_escaped():
    doc = NLP('a <b>&amp;"c" \x07 d')
    write_fragments(doc, [DocMention("<id>", "<i>&\x08", ((1, 3),))], KEY)
    for picture in (render_page([doc], KEY, title="<&>\x00"), render_svg(doc, KEY)):
        tree = ET.fromstring(picture)
        shown = "".join(tree.itertext())
        assert "b>&amp;" in shown and "<i>&" in shown and "<id>" in shown
        assert not [node for node in tree.iter() if node.tag.endswith(("}b", "}i"))]
        assert picture.count("�") >= 2 and not {"\x07", "\x08"}.intersection(picture)


def test_page_has_a_drawing_per_doc_and_loads_nothing(knee):
    page = render_page([knee, _without_fragments("Well.")], KEY, title="Knees")
    assert (
        page.startswith("<!DOCTYPE html>") and ET.fromstring(page).findtext(".//title") == "Knees"
    )
    assert len(list(ET.fromstring(page).iter(f"{SVG}svg"))) == 2
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_word_of_several_tokens_does_not_break():
    texts = ET.fromstring(render_svg(_without_fragments("I can't, no"), KEY, columns=7)).iter(
        f"{SVG}text"
    )
    assert [(text.text, text.get("y")) for text in texts] == [
        ("I", "34"), ("ca", "74"), ("n't", "74"), (",", "74"), ("no", "114")
    ]  # fmt: skip


def test_fragments_have_bars_joined_by_a_line(knee):
    tree = ET.fromstring(render_svg(knee, KEY))
    bars, lines = (
        [r for r in tree.iter(f"{SVG}rect") if kind in r.get("class").split()]
        for kind in ("bar", "line")
    )
    columns = [
        (round((float(r.get("x")) - 16) / COLUMN), round(float(r.get("width")) / COLUMN))
        for r in bars
    ]
    assert columns == [(0, 4), (21, 4), (9, 16)]
    (line,) = lines
    assert float(line.get("x")) == float(bars[0].get("x")) + float(bars[0].get("width"))
    assert float(line.get("x")) + float(line.get("width")) == pytest.approx(float(bars[1].get("x")))
    assert bars[0].get("class") == bars[1].get("class") != bars[2].get("class")
    labels = [
        "".join(text.itertext()) for text in tree.iter(f"{SVG}text") if "label" in text.get("class")
    ]
    assert labels == ["knee painC1 · 0.93", "knee swellingC2"]


def test_a_drawing_wraps_a_long_text(knee):
    narrow = ET.fromstring(render_svg(knee, KEY, columns=14))
    texts = [text for text in narrow.iter(f"{SVG}text") if text.get("class") == "ink"]
    rows = {}
    for text in texts:
        rows.setdefault(text.get("y"), []).append(text.text)
    assert list(rows.values()) == [["pain", "and"], ["swelling", "in"], ["knee"]]
    bars = [r.get("class") for r in narrow.iter(f"{SVG}rect") if "bar" in r.get("class").split()]
    assert bars == ["c0 bar", "c1 bar", "c0 bar", "c1 bar"]
    # paper, bars, and a line on the first two lines
    assert len(list(narrow.iter(f"{SVG}rect"))) == 1 + 4 + 2
    assert sum("label" in text.get("class") for text in narrow.iter(f"{SVG}text")) == 2


def test_a_wide_letter_takes_two_columns():
    doc = Doc(NLP.vocab, words=["膝", "pain"], spaces=[False, False])
    write_fragments(doc, [DocMention("C1", "F", ((1, 2),))], KEY)
    bar = next(
        r for r in ET.fromstring(render_svg(doc, KEY)).iter(f"{SVG}rect") if "bar" in r.get("class")
    )
    assert float(bar.get("x")) == 16 + 2 * COLUMN


def test_missing_key_raises(knee):
    with pytest.raises(KrisselError, match="K691.*'fund'.*found"):
        render_svg(knee, "fund")


@given(
    st.text(max_size=40),
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1), max_size=4),
)
def test_every_token_is_drawn(text, mentions):
    doc = NLP(text)
    inside = [
        join_fragments(
            (start, min(start + size, len(doc))) for start, size in pieces if start < len(doc)
        )
        for pieces in mentions
    ]
    write_fragments(
        doc, [DocMention(f"C{i}", "F", pieces) for i, pieces in enumerate(inside) if pieces], KEY
    )
    drawing = ET.fromstring(render_svg(doc, KEY, columns=12))
    texts = [text for text in drawing.iter(f"{SVG}text") if text.get("class") == "ink"]
    assert len(texts) == sum(not token.is_space for token in doc)


def _without_fragments(text):
    doc = NLP(text)
    write_fragments(doc, [], KEY)
    return doc


# How the colour-blind see colours: linear RGB to linear RGB, at full strength (Machado, Oliveira
# and Fernandes 2009).
SEEN_AS = {
    "all": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuter": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
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
        assert (
            min(np.linalg.norm(one - other) for i, one in enumerate(seen) for other in seen[:i])
            >= 25
        )

"""British spellings read as American ones."""

import re

import pytest

from spacy_krissel.util.folding import _PARTS, to_american


@pytest.mark.parametrize(
    "british, plain",
    [
        ("Haemolytic anaemia", "Hemolytic anemia"),
        ("TUMOUR of the oesophagus", "TUMOR of the esophagus"),
        ("gastro-oesophageal reflux", "gastro-esophageal reflux"),
        ("gastrooesophageal", "gastroesophageal"),
        ("ischaemic oedema", "ischemic edema"),
        ("lymphoedema", "lymphedema"),
        ("Diarrhoea, dyspnoea", "Diarrhea, dyspnea"),
        ("leucopenia", "leukopenia"),
        ("Oestrogen sulphate", "Estrogen sulfate"),
        ("foetal ageing", "fetal aging"),
        ("haemorrhage\nanaemia", "hemorrhage\nanemia"),
    ],
)
def test_british_spellings_become_american(british, plain):
    assert to_american(british) == plain


@pytest.mark.parametrize("part, plain", _PARTS.items())
def test_every_word_part_becomes_american(part, plain):
    # "leuco" is read in "leucod…" and not in "leucovorin"
    ending = "" if part.endswith(r"\b") else "d"
    british = re.sub(r"\(.*?\)+|\\b", "", part) + ending
    assert to_american(british) == plain + ending
    assert to_american(british.upper()) == (plain + ending).upper()


@pytest.mark.parametrize(
    "name",
    [
        "angioedema",
        "leukoedema",
        "gastroesophageal reflux",
        "phytoestrogen",
        "leucovorin",
        "leucine",
        "imaging",
        "Michael",
        "aorta",
        "",
    ],
)
def test_american_spellings_are_unchanged(name):
    assert to_american(name) == name

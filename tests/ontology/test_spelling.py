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


# Of the parts that are read next to some letters only: the words, in both spellings.
WITHIN = {
    "oedem": "oedema lymphoedema|edema lymphedema",
    "oesoph": "oesophagus gastrooesophageal|esophagus gastroesophageal",
    "oestr": "oestrus|estrus",
    "caes": "caesarean caesium|cesarean cesium",
    "aeo": "phaeochromocytoma palaeocerebellar archaeal archaeon|pheochromocytoma paleocerebellar "
    "archaeal archeon",
    "coel": "encephalocoele meningocoeles|encephalocele meningoceles",
    "leuco": "leucocyte leucoderma|leukocyte leukoderma",
    "is": "generalised localising ionised immunises recognise fertilised sensitising "
    "polymerised|generalized localizing ionized immunizes recognize fertilized sensitizing "
    "polymerized",
    "ageing": "ageing|aging",
    "grey": "grey|gray",
}


@pytest.mark.parametrize("part, plain", _PARTS.items())
def test_every_word_part_becomes_american(part, plain):
    bare = re.sub(r"\(.*?\)+|\\b", "", part)
    british, american = WITHIN[bare].split("|") if bare != part else (part + "d", plain + "d")
    assert to_american(british) == american
    assert to_american(british.upper()) == american.upper()


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
        "disease promised exercise raised surprised bruise precise",
        "coelom",
        "Michael",
        "aorta",
        "",
    ],
)
def test_american_spellings_are_unchanged(name):
    assert to_american(name) == name

"""Entities of a linker that `build` makes: `built_linker`."""

from spacy_krissel import Entity

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS", "disseminated sclerosis"), types=("Disease",)),
    Entity("C1", "mass spectrometry", ("MS",), types=("Method",)),
    Entity("D2", "mitral stenosis", ("mitral valve stenosis",), types=("Disease",)),
    Entity("D3", "common cold", ("cold",), types=("Disease",)),
    Entity("D4", "cold injury", types=("Disease",)),
    Entity("G1", "IL-2", types=("Gene",)),
    Entity("G2", "IL 2", ("interleukin two",), types=("Gene",)),
    Entity("D5", "Café disease", types=("Disease",)),
    Entity("D6", "cafe disease", types=("Disease",)),
    Entity("D7", "WAS", types=("Disease",)),
    Entity("HP:0000421", "Epistaxis", ("Nosebleed",), alt_ids=("HP:0001892",)),
    Entity("HP:0002315", "Headache", ("Cephalgia",)),
    Entity("HP:0000175", "Cleft palate"),
    Entity("HP:0410030", "Cleft lip"),
]

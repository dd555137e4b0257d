import json
from pathlib import Path

import pytest

from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

ENTITIES = [
    Entity("D1", "Lung Neoplasms", ("Lung Cancer", "Cancer of Lung", "cancer, lung")),
    Entity("D2", "Neoplasms", ("Cancer", "Tumor")),
    Entity("D3", "Acquired Immunodeficiency Syndrome", ("AIDS", "Immunodeficiency")),
    Entity("D4", "Netherton Syndrome", ("NS", "Netherton disease")),
    Entity("D5", "Common Cold", ("Cold", "7", "B", "12-5")),
    Entity("D6", "Lung Disease, Chronic Obstructive", ("COLD", "Was", "chronic lung cancer")),
    Entity("D7", "Glioma", ("Chronic Lung Cancer",)),
]


@pytest.fixture(scope="session")
def ontology(tmp_path_factory):
    return write_store(ENTITIES, tmp_path_factory.mktemp("ontology") / "store")


@pytest.fixture
def write_texts(tmp_path):
    def write(texts, name="texts.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        records = texts.items() if isinstance(texts, dict) else texts
        path.write_text(
            "".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in records)
        )
        return path

    return write


@pytest.fixture
def many_texts(write_texts):
    """300 texts with 2 to 4 mentions each."""
    words = ["lung cancer", "tumor", "AIDS", "glioma", "immunodeficiency", "Cancer of lung"]
    return write_texts(
        {
            f"t{i}": f"Case {i} had {words[i % 6]}, then {words[i * i % 5]}"
            + f" and {words[i % 4]}" * (i % 3)
            for i in range(300)
        }
    )


@pytest.fixture(scope="session")
def read_bytes():
    """The files of a directory, by name."""

    def read(directory: Path):
        return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}

    return read

"""The laboratory's messages: each has its code and is raised."""

import re
from pathlib import Path

import pytest
from lab import errors

from spacy_krissel import errors as product

LAB = Path(errors.__file__).parent
CODES = [
    pytest.param(catalogue, code, id=code)
    for catalogue in (errors.Errors, errors.Warnings)
    for code in vars(catalogue)
    if not code.startswith("_")
]


@pytest.mark.parametrize("catalogue, code", CODES)
def test_each_code_starts_its_message_and_is_new_and_used(catalogue, code):
    assert getattr(catalogue, code).startswith(f"[{code}] ")
    assert not hasattr(getattr(product, catalogue.__name__), code), (
        "the package has this code already"
    )
    name = rf"\b{catalogue.__name__}\.{code}\b"
    assert any(re.search(name, path.read_text(encoding="utf8")) for path in LAB.rglob("*.py"))


def test_every_used_code_is_defined():
    for path in LAB.rglob("*.py"):
        for catalogue, code in re.findall(
            r"\b(Errors|Warnings)\.(KW?\d{3})\b", path.read_text(encoding="utf8")
        ):
            assert hasattr(getattr(errors, catalogue), code), f"{path.name} uses {code}"

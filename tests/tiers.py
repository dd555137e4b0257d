"""Tiers of tests, as parameters: most rows of a long matrix run each night only."""

from typing import Any

import pytest


def nightly(*values: Any, id: str | None = None) -> Any:
    """A row of parameters that only the nightly tier runs."""
    return pytest.param(*values, id=id, marks=pytest.mark.nightly)


def first_of(values: list[Any] | tuple[Any, ...], *kept: Any) -> list[Any]:
    """Rows of one parameter: `kept`, or the first, as they are, and the others nightly."""
    kept = kept or values[:1]
    return [value if value in kept else nightly(value) for value in values]

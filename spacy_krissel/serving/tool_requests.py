"""Requests that annotation tools send to the service, and their errors."""

from typing import Any

from pydantic import BaseModel, Field


class InvalidRequest(ValueError):
    """A request that cannot be answered, and why."""


class LayerIn(BaseModel):
    """layer: the type of annotation. feature: its feature for the ids."""

    layer: str
    feature: str


class CasIn(BaseModel):
    xmi: str


class PredictionIn(BaseModel):
    """Request of INCEpTION; other fields are ignored."""

    metadata: LayerIn
    document: CasIn
    type_system: str = Field(alias="typeSystem")


class TasksIn(BaseModel):
    """Request of Label Studio; other fields are ignored."""

    tasks: list[dict[str, Any]]
    label_config: str | None = Field(None, max_length=100_000)

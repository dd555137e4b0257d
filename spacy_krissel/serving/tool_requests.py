"""What annotation tools send to the service, and what is wrong with it."""

from typing import Any

from pydantic import BaseModel, Field


class Wrong(ValueError):
    """A request that cannot be answered, and why."""


class LayerIn(BaseModel):
    """layer: the type of annotation. feature: of it, for the ids."""

    layer: str
    feature: str


class CasIn(BaseModel):
    xmi: str


class PredictionIn(BaseModel):
    """What INCEpTION sends; more than this is not read."""

    metadata: LayerIn
    document: CasIn
    type_system: str = Field(alias="typeSystem")


class TasksIn(BaseModel):
    """What Label Studio sends; more than this is not read."""

    tasks: list[dict[str, Any]]
    label_config: str | None = Field(None, max_length=100_000)

"""What annotation tools ask of the service: INCEpTION's external recommender, and Label Studio's ML backend."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from xml.etree import ElementTree

from pydantic import BaseModel, Field

from ..ontology.ids import entity_url
from ..render.formats.label_studio import MODEL, prediction
from ..render.formats.mentions import Linked

# As INCEpTION shows at most.
MOST_SUGGESTIONS = 10
PREDICTED = "inception_internal_predicted"
_DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
# Links documents, as JSON.
Link = Callable[[list[dict[str, Any]]], Awaitable[list[dict[str, Any]]]]


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
    label_config: str | None = None


class Suggestions:
    """A document of INCEpTION, and what the linker suggests for it.

    Annotations of the layer that are there are linked; where there are none, those that the pipeline finds. Each gets
    its candidates as suggestions, with their scores where the layer has a feature for them.

    Raises Wrong for XML that is none, declares entities, or has no text, and for a layer that is not in it.
    """

    def __init__(self, asked: PredictionIn) -> None:
        from cassis import load_cas_from_xmi, load_typesystem

        for content in (asked.type_system, asked.document.xmi):
            if _DECLARATION.search(content):
                raise Wrong("declares a document type or entities")
        self._layer, self._feature = asked.metadata.layer, asked.metadata.feature
        try:
            types = load_typesystem(asked.type_system)
            self._cas = load_cas_from_xmi(asked.document.xmi, typesystem=types)
            self._type = types.get_type(self._layer)
            features = {feature.name for feature in self._type.all_features}
            self._there = [each for each in self._cas.select(self._layer) if not getattr(each, PREDICTED, False)]
        except Exception as error:
            # cassis and lxml raise of every kind for what is no CAS.
            raise Wrong(f"is no CAS that can be read ({type(error).__name__}: {str(error)[:200]})") from error
        if not isinstance(self._cas.sofa_string, str) or self._feature not in features:
            raise Wrong(f"has no text, or no feature '{self._feature[:100]}' of that layer")
        self._features = features

    def document(self) -> dict[str, Any]:
        """As `/link` takes it."""
        places = sorted({(each.begin, each.end) for each in self._there})
        # Of overlapping ones the first; INCEpTION shows suggestions for each place by itself.
        kept: list[tuple[int, int]] = []
        for start, end in places:
            if start < end and (not kept or start >= kept[-1][1]):
                kept.append((start, end))
        found = {"mentions": [{"start": start, "end": end, "label": ""} for start, end in kept]} if kept else {}
        return {"text": self._cas.sofa_string, **found}

    def answer(self, linked: dict[str, Any], *, as_addresses: bool) -> str:
        """The document with the suggestions, as XMI. as_addresses: entities by `entity_url`, where there is one, as a
        knowledge base of INCEpTION names them."""
        for mention in linked["mentions"]:
            for candidate in mention["candidates"][:MOST_SUGGESTIONS]:
                value = (as_addresses and entity_url(candidate["id"])) or candidate["id"]
                score = candidate.get("confidence", candidate["score"])
                values = {
                    self._feature: value,
                    PREDICTED: True,
                    f"{self._feature}_score": float(score),
                    f"{self._feature}_score_explanation": f"{candidate['name']} ({candidate['id']})",
                }
                known = {name: value for name, value in values.items() if name in self._features}
                self._cas.add(self._type(begin=mention["start"], end=mention["end"], **known))
        return str(self._cas.to_xmi())


async def predictions(asked: TasksIn, link: Link) -> bytes:
    """Label Studio's answer: for each task the result of `label_studio.prediction`. Raises Wrong."""
    key, names = _tags(asked.label_config or "")
    texts = []
    for task in asked.tasks:
        data = task.get("data")
        text = data.get(key) if isinstance(data, dict) else None
        if not isinstance(text, str):
            raise Wrong(f"has a task without the text 'data.{key[:100]}'")
        texts.append(text)
    linked = await link([{"text": text} for text in texts])
    results = [prediction(map(Linked.of, each["mentions"]), **names) for each in linked]
    content = {"results": results, "model_version": MODEL}
    return json.dumps(content, ensure_ascii=False).encode("utf8", "replace")


def _tags(config: str) -> tuple[str, dict[str, str]]:
    """The key of the text among a task's data, and the names of the tags. Raises Wrong."""
    if not config.strip():
        return "text", {}
    if _DECLARATION.search(config):
        raise Wrong("declares a document type or entities")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise Wrong(f"has a labelling configuration that is no XML ({error})") from error
    text = next((tag for tag in root.iter() if tag.tag in ("Text", "HyperText")), None)
    if text is None:
        raise Wrong("has a labelling configuration without <Text>")
    name = text.get("name", "")

    def of(kind: str) -> str:
        return next((tag.get("name", "") for tag in root.iter(kind) if tag.get("toName") == name), "")

    return text.get("value", "$text").removeprefix("$"), {
        "text": name,
        "labels": of("Labels"),
        "entity": of("TextArea"),
    }

"""Answers to annotation tools: INCEpTION's external recommender, and Label Studio's ML backend."""

from itertools import chain
from typing import Any
from xml.etree import ElementTree

from ..corpora.readers.cas import PREDICTED, load_cas, load_types
from ..errors import KrisselError
from ..ontology.entity import entity_url
from ..render.formats.label_studio import MODEL, prediction
from ..render.formats.mentions import LinkedMention
from ..util.xml_files import without_declaration
from .tool_requests import InvalidRequest, PredictionIn, TasksIn

# Maximum that INCEpTION shows.
MAX_SUGGESTIONS = 10


class Suggestions:
    """A document of INCEpTION, and the linker's suggestions for it.

    Existing annotations of the layer are linked; if there are none, the mentions that the pipeline
    finds. Each gets its candidates as suggestions, with their scores if the layer has a feature for
    them.

    Raises InvalidRequest for XML that is invalid, declares entities or has no text, and for a layer
    that is missing; KrisselError K247 if dkpro-cassis is not installed.
    """

    def __init__(self, asked: PredictionIn) -> None:
        layer, self._feature = asked.metadata.layer, asked.metadata.feature
        try:
            types = load_types(asked.type_system)
            self._cas = load_cas(asked.document.xmi, types)
            self._type = types.get_type(layer)
            self._features = {feature.name for feature in self._type.all_features}
            there = [
                each for each in self._cas.select(layer) if not getattr(each, PREDICTED, False)
            ]
        except KrisselError:
            raise
        except Exception as error:
            # cassis and lxml raise errors of any type for an invalid CAS.
            raise InvalidRequest(
                f"is not a readable CAS ({type(error).__name__}: {str(error)[:200]})"
            ) from error
        own = {"begin", "end"}
        text = self._cas.sofa_string
        if (
            not isinstance(text, str)
            or not own <= self._features
            or self._feature not in self._features - own - {"sofa"}
        ):
            raise InvalidRequest(
                f"has no text, or no feature '{self._feature[:100]}' of a layer of spans"
            )
        self._text = text
        spans = {(each.begin, each.end) for each in there}
        self._spans = [
            (start, end)
            for start, end in spans
            if 0 <= start < end <= len(text) and text[start:end].strip()
        ]

    def documents(self) -> list[dict[str, Any]]:
        """Return the text as `/link` expects it."""
        mentions = [{"start": start, "end": end} for start, end in self._spans]
        return [{"text": self._text, "mentions": mentions or None}]

    def answer(self, linked: list[dict[str, Any]], *, as_addresses: bool) -> str:
        """Return the document with the suggestions, as XMI. as_addresses: identify entities by
        `entity_url`, if there is one, as knowledge bases of INCEpTION do."""
        for mention in chain.from_iterable(document["mentions"] for document in linked):
            for candidate in mention["candidates"][:MAX_SUGGESTIONS]:
                self._suggest(mention["start"], mention["end"], candidate, as_addresses)
        return str(self._cas.to_xmi())

    def _suggest(self, start: int, end: int, candidate: dict[str, Any], as_addresses: bool) -> None:
        about = ", ".join(filter(None, (candidate["id"], candidate.get("match"))))
        values = {
            self._feature: (as_addresses and entity_url(candidate["id"])) or candidate["id"],
            PREDICTED: True,
            f"{self._feature}_score": float(candidate.get("confidence", candidate["score"])),
            f"{self._feature}_score_explanation": f"{candidate['name']} ({about})",
        }
        known = {name: value for name, value in values.items() if name in self._features}
        self._cas.add(self._type(begin=start, end=end, **known))


class Tasks:
    """Tasks of Label Studio. Raises InvalidRequest for a task without a text, or an invalid
    labelling configuration."""

    def __init__(self, asked: TasksIn) -> None:
        key, self._names = _tags(asked.label_config or "")
        self.texts: list[str] = []
        for task in asked.tasks:
            data = task.get("data")
            text = data.get(key) if isinstance(data, dict) else None
            if not isinstance(text, str):
                raise InvalidRequest(f"has a task without the text 'data.{key[:100]}'")
            self.texts.append(text)

    def answer(self, linked: list[dict[str, Any]]) -> dict[str, Any]:
        """Return for each task the result of `label_studio.prediction`."""
        results = [
            prediction(map(LinkedMention.of, each["mentions"]), **self._names) for each in linked
        ]
        return {"results": results, "model_version": MODEL}


def _tags(config: str) -> tuple[str, dict[str, str]]:
    """Return the key of the text among a task's data, and the names of the tags. Raises
    InvalidRequest."""
    if not config.strip():
        return "text", {}
    try:
        root = ElementTree.fromstring(without_declaration(config))
    except (ElementTree.ParseError, ValueError) as error:
        raise InvalidRequest(
            f"has a labelling configuration that cannot be read ({error})"
        ) from error
    text = next(root.iter("Text"), None)
    if text is None:
        raise InvalidRequest("has a labelling configuration without <Text>")
    name = text.get("name", "")

    def of(kind: str) -> str:
        return next(
            (tag.get("name", "") for tag in root.iter(kind) if tag.get("toName") == name), ""
        )

    return text.get("value", "$text").removeprefix("$"), {
        "text": name,
        "labels": of("Labels"),
        "entity": of("TextArea"),
    }

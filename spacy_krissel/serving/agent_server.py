"""Server of the Model Context Protocol: tools of agents, answered by services of pipelines. Needs
the extra `spacy-krissel[mcp]`."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from ..about import __version__
from ..errors import KrisselError
from . import agent_answers as answers
from .bounds import DEFAULT_FOUND, MAX_FOUND
from .guard import Limits
from .messages import encoded
from .service import Answer, LinkService, RequestTimeout, ServiceBusy, WorkerLost

# Maximum number of mentions of a text that are listed.
MAX_MENTIONS = 100
# Default number of candidates, and of children or parents.
DEFAULT_CANDIDATES, DEFAULT_RELATED = 5, 25
# Errors that concern the client; others are logged, and not shown.
SHOWN = ("K525", "K682", "K692")
# Verdicts of a vocabulary that does not know the id, the last one of a vocabulary that has no ids
# with its prefix.
UNKNOWN = ("unknown_id", "unchecked")
PROBLEMS = {
    ServiceBusy: "Too many requests are waiting. Try again soon",
    RequestTimeout: "The request timed out. Send less at a time",
    WorkerLost: "The worker process ended. Try again",
}
# Text of an instruction to the model.
INSTRUCTIONS = (
    "Ids of biomedical terms, from {vocabularies}. Do not write an id from memory: `ground` finds "
    "the id of a term, and `verify` checks an id that you have with its label. `confidence` is the "
    "probability that a link is correct. Without links, a vocabulary has no entity for the term: "
    "say so, or look at its `candidates`."
)
Id = Annotated[
    str, Field(min_length=1, max_length=200, description="HP:0001677, HP_0001677, a URL")
]
Term = Annotated[
    str, Field(min_length=1, max_length=1_000, description="Name as written somewhere")
]
Context = Annotated[str, Field(description="Text with the term, or about it; it chooses meanings")]
Number = Annotated[int, Field(ge=1, le=MAX_FOUND)]


class Vocabularies:
    """Services by the name of their vocabulary.

    limits: of a request. Raises ToolError with what is wrong, for the model to read.
    """

    def __init__(self, services: Mapping[str, LinkService], limits: Limits) -> None:
        self._services, self._limits = services, limits

    def described(self) -> list[str]:
        """Return each vocabulary in words."""
        return [
            f"`{name}` ({self._sources(name)}, {each.about['entities']:,} entities)"
            for name, each in self._services.items()
        ]

    def facts(self, name: str) -> dict[str, Any]:
        """Return the facts of a vocabulary: number of entities; source, version, licence."""
        about = self._services[name].about
        return {"vocabulary": name, "entities": about["entities"], "sources": about["vocabularies"]}

    async def ask(self, name: str, do: str, **values: Any) -> dict[str, Any]:
        """Return a worker's answer."""
        texts = [each for each in values.values() if isinstance(each, str)]
        try:
            self._limits.check(chars=sum(map(len, texts)))
            for text in texts:
                text.encode("utf8")
            future = self._services[name].ask(do, values)
            seconds = self._limits.seconds
            answer: Answer = await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except asyncio.TimeoutError:
            raise ToolError(PROBLEMS[RequestTimeout]) from None
        except UnicodeError:
            raise ToolError("Text is not valid Unicode") from None
        except tuple(PROBLEMS) as error:
            raise ToolError(PROBLEMS[type(error)]) from None
        except KrisselError as error:
            if error.code in SHOWN:
                raise ToolError(str(error)) from None
            raise
        return cast(dict[str, Any], json.loads(answer.content))

    async def ask_each(self, which: str, do: str, **values: Any) -> dict[str, dict[str, Any]]:
        """Return the answers of a vocabulary, or of all for "", by name."""
        names = [which] if which else [*self._services]
        found = await asyncio.gather(*(self.ask(name, do, **values) for name in names))
        return dict(zip(names, found, strict=True))

    async def ask_owner(self, which: str, do: str, **values: Any) -> dict[str, Any]:
        """Return the answer of the first vocabulary that knows the id, with its name."""
        names = [which] if which else [*self._services]
        found = await asyncio.gather(
            *(self.ask(name, do, **values) for name in names), return_exceptions=True
        )
        for name, each in zip(names, found, strict=True):
            if not isinstance(each, BaseException):
                return {**each, "vocabulary": name}
        raise cast(BaseException, found[0])

    def _sources(self, name: str) -> str:
        sources = self._services[name].about["vocabularies"]
        return "; ".join(
            " ".join(filter(None, (each["name"], each["version"]))) for each in sources
        )


def vocabulary_name(text: str) -> str:
    """Return a name for addresses: letters, digits, points, dashes; others become underscores."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", text)


def make_server(services: Mapping[str, LinkService], *, limits: Limits | None = None) -> MCPServer:
    """Return a server with the tools for these services.

    services: by the name of their vocabulary (`vocabulary_name`).
    """
    vocabularies = Vocabularies(services, limits or Limits())
    described = vocabularies.described()
    server = MCPServer(
        "spacy-krissel",
        version=__version__,
        instructions=INSTRUCTIONS.format(vocabularies=", ".join(described)),
        # Other levels show texts of clients.
        log_level="WARNING",
    )
    for add in (_add_terms, _add_ids):
        add(server, vocabularies, _which([*services]))
    for name in services:
        _add_resource(server, vocabularies, name)
    return server


def _which(names: list[str]) -> Any:
    """Return the type of the parameter that chooses a vocabulary."""
    choices = ("", *names)
    return Annotated[Literal[choices], Field(description='"" for all vocabularies')]


def _tool(server: MCPServer, name: str) -> Any:
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    return server.tool(name, annotations=hints)


def _add_terms(server: MCPServer, vocabularies: Vocabularies, which: Any) -> None:
    """Add the tools that start from a text."""

    @_tool(server, "annotate")
    async def annotate(text: str, vocabulary: which = "") -> answers.Annotation:
        """Find the terms of the vocabularies in a text, with the ids that they mean there."""
        found = await vocabularies.ask_each(vocabulary, "annotate", text=text)
        mentions: dict[tuple[int, int], answers.Mention] = {}
        for name, each in found.items():
            for mention in each["mentions"]:
                link = answers.Link(vocabulary=name, **mention.pop("link"))
                offsets = mention["start"], mention["end"]
                mentions.setdefault(offsets, answers.Mention(**mention, links=[])).links.append(
                    link
                )
        listed = [mentions[offsets] for offsets in sorted(mentions)]
        return answers.Annotation(
            mentions=listed[:MAX_MENTIONS],
            omitted=len(listed[MAX_MENTIONS:]),
            unlinked=sum(each["unlinked"] for each in found.values()),
        )

    @_tool(server, "ground")
    async def ground(
        term: Term, context: Context = "", vocabulary: which = ""
    ) -> answers.Grounding:
        """Find the id of a term. No link means that no vocabulary has an entity for it."""
        links = [
            link
            for name, each in (await _candidates(term, context, vocabulary)).items()
            for link in _links(name, each)
            if link.id == each["id"]
        ]
        return answers.Grounding(term=term, links=sorted(links, key=_confidence, reverse=True))

    @_tool(server, "candidates")
    async def candidates(
        term: Term, context: Context = "", k: Number = DEFAULT_CANDIDATES, vocabulary: which = ""
    ) -> answers.Candidates:
        """List the entities that a term may mean, also if none of them is certain enough."""
        found = await _candidates(term, context, vocabulary)
        links = [link for name, each in found.items() for link in _links(name, each)[:k]]
        return answers.Candidates(term=term, candidates=links)

    @_tool(server, "search")
    async def search(
        query: Annotated[str, Field(min_length=1, max_length=200)],
        k: Number = DEFAULT_FOUND,
        vocabulary: which = "",
    ) -> answers.Hits:
        """Search entities by a part of a name, a similar name or an id."""
        found = await vocabularies.ask_each(vocabulary, "search", text=query, k=k)
        return answers.Hits(
            hits=[
                answers.Hit(vocabulary=name, matched_name=hit.pop("alias"), **hit)
                for name, each in found.items()
                for hit in each["entities"]
            ]
        )

    async def _candidates(term: str, context: str, vocabulary: str) -> dict[str, dict[str, Any]]:
        if not term.strip():
            raise ToolError("The term is white space only")
        return await vocabularies.ask_each(vocabulary, "candidates", term=term, context=context)


def _add_ids(server: MCPServer, vocabularies: Vocabularies, which: Any) -> None:
    """Add the tools that start from an id."""

    @_tool(server, "verify")
    async def verify(
        id: Id,
        label: Annotated[str, Field(max_length=1_000, description="Name that goes with it")] = "",
        vocabulary: which = "",
    ) -> answers.Verdict:
        """Check that an id exists, is not retired and has this label."""
        found = await vocabularies.ask_each(vocabulary, "verify", id_=id, label=label)
        # A vocabulary that knows the id precedes one that only has ids like it.
        ranks = {
            name: [*UNKNOWN, each["status"]].index(each["status"]) for name, each in found.items()
        }
        known = [name for name, each in found.items() if each["status"] not in UNKNOWN]
        name = (known or sorted(found, key=ranks.__getitem__))[0]
        return answers.Verdict(vocabulary=name, **found[name])

    @_tool(server, "entity")
    async def entity(id: Id, vocabulary: which = "") -> answers.Entity:
        """Describe an entity: names, definition, types, ids in other vocabularies."""
        found = await vocabularies.ask_owner(vocabulary, "describe", id_=id)
        found["replaces"] = found.pop("is_former")
        for field in ("synonyms", "xrefs"):
            found[field] = found[field][: answers.MAX_LISTED]
        return answers.Entity(**found)

    @_tool(server, "children")
    async def children(
        id: Id, k: Number = DEFAULT_RELATED, vocabulary: which = ""
    ) -> answers.Relatives:
        """List the entities directly below an entity: its kinds or parts."""
        return await _relatives(id, k, vocabulary, below=True)

    @_tool(server, "parents")
    async def parents(
        id: Id, k: Number = DEFAULT_RELATED, vocabulary: which = ""
    ) -> answers.Relatives:
        """List the entities directly above an entity."""
        return await _relatives(id, k, vocabulary, below=False)

    async def _relatives(id: str, k: int, vocabulary: str, *, below: bool) -> answers.Relatives:
        values = {"id_": id, "below": below, "k": k}
        return answers.Relatives(**await vocabularies.ask_owner(vocabulary, "relatives", **values))


def _add_resource(server: MCPServer, vocabularies: Vocabularies, name: str) -> None:
    @server.resource(
        f"vocabulary://{name}",
        name=name,
        description="Sources of the vocabulary, with version and licence",
        mime_type="application/json",
    )
    def vocabulary() -> str:
        return encoded(vocabularies.facts(name)).decode()


def _links(name: str, found: dict[str, Any]) -> list[answers.Link]:
    return [answers.Link(vocabulary=name, **each) for each in found["candidates"]]


def _confidence(link: answers.Link) -> float:
    return link.confidence or 0.0

"""The service as an ASGI app: requests are checked, limited, counted and logged; needs the extra
`spacy-krissel[serve]`."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from ..about import __version__
from ..errors import KrisselError
from ..util.disk import is_full
from .bounds import DEFAULT_FOUND
from .guard import (
    LOG,
    Bodies,
    Guard,
    Limits,
    Metrics,
    json_response,
    read_body,
    refusal,
    response,
)
from .service import (
    MAX_LISTED,
    Answer,
    LinkService,
    RequestTimeout,
    ServiceBusy,
    WorkerLost,
)
from .tool_requests import InvalidRequest, PredictionIn, TasksIn

Model = TypeVar("Model", bound=BaseModel)
PAGE = Path(__file__).parent / "page"
# Media types are fixed: a system may configure others.
FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
# Model version shown by Label Studio, as in `render.formats.label_studio`.
MODEL = f"spacy-krissel {__version__}"
# Paths that need no key: monitoring has none, and the page asks for it.
PUBLIC_PATHS = ("/health", *FILES)
# Nothing is loaded from elsewhere, and nothing in a text is executed.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
Id = Annotated[str, Field(max_length=200)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MentionIn(Strict):
    """Characters `start` to `end` of the text, and a label, which may select types."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=1)]
    label: Annotated[str, Field(max_length=100)] = ""


class DocumentIn(Strict):
    """A text; without `mentions` the pipeline finds them."""

    text: str
    id: Id = ""
    mentions: list[MentionIn] | None = None


DOCUMENTS = TypeAdapter(list[DocumentIn])


class LinkIn(Strict):
    """One `text`, or `documents`."""

    text: str | None = None
    documents: list[DocumentIn] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> "LinkIn":
        if (self.text is None) == (self.documents is None):
            raise ValueError("either `text` or `documents` is expected")
        return self

    def all_documents(self) -> list[DocumentIn]:
        return [DocumentIn(text=self.text)] if self.text is not None else self.documents or []


class ExportIn(LinkIn):
    """Request for the links of one `text`, or of `documents`, in a format of `krissel link`.
    min_confidence: link each mention to its best candidate if that has this confidence; without it,
    keep the pipeline's links."""

    format: Annotated[str, Field(max_length=100)]
    min_confidence: Annotated[float, Field(ge=0, le=1)] | None = None


class CorrectionIn(Strict):
    """Correction of the mention `text[start:end]` to the entities `right`: one, or several for a
    composite mention. Without `right` and `rejected`, the vocabulary has no entity for the mention.

    rejected: entities that it is not.
    same_document: it holds in texts with this `doc` or content only, not in each that has the
        sentence.
    linked: the earlier link.
    doc: an id of the text.
    author: of the correction.
    """

    text: str
    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=1)]
    right: Annotated[list[Id], Field(max_length=20)] = []
    rejected: Annotated[list[Id], Field(max_length=20)] = []
    same_document: bool = False
    linked: Id = ""
    doc: Id = ""
    author: Id = ""


def make_app(  # noqa: C901
    service: LinkService,
    *,
    limits: Limits | None = None,
    key: str = "",
    user_header: str = "",
    hosts: tuple[str, ...] = (),
) -> FastAPI:
    """Return the app of a service; shutting it down closes the service.

    key: required in `Authorization: Bearer`; "" for none. user_header: header in which a proxy
        names the user, who becomes the author of corrections; requests without it are refused.
        hosts: allowed host names of the service, against DNS rebinding; () for any.
    """
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="spacy-krissel",
        version=__version__,
        lifespan=lifespan,
        description=_description(service),
        docs_url=None,
        redoc_url=None,
        # A redirect would use the host that the request names.
        redirect_slashes=False,
    )
    metrics, bodies = Metrics(), Bodies()
    app.add_middleware(
        Guard,
        metrics=metrics,
        bodies=bodies,
        key=key,
        user_header=user_header,
        hosts=hosts,
        public=PUBLIC_PATHS,
    )

    def body_of(model: type[Model]) -> Any:
        async def read(request: Request) -> Model:
            try:
                content = await asyncio.wait_for(
                    read_body(request, limits.body, bodies), limits.seconds
                )
            except asyncio.TimeoutError:
                raise HTTPException(408, "The request body is incomplete") from None
            return _parsed(model, content)

        return Depends(read)

    async def answer(do: str, values: Any, documents: int = 1) -> Answer:
        future: Future[Answer] = service.ask(do, values, documents=documents)
        try:
            return cast(Answer, await asyncio.wait_for(asyncio.wrap_future(future), limits.seconds))
        except asyncio.TimeoutError:
            raise RequestTimeout from None

    def check(documents: list[DocumentIn]) -> None:
        limits.check(
            documents=len(documents), chars=sum(len(document.text) for document in documents)
        )

    def note(request: Request, answered: Answer) -> None:
        metrics.linked(answered)
        counts = {"documents": answered.documents, "mentions": answered.mentions}
        request.state.counts = {**counts, "cut_words": answered.cut} if answered.cut else counts

    @app.post("/link", openapi_extra=_schema(LinkIn), summary="Link the mentions of texts")
    async def link(request: Request, given: Annotated[LinkIn, body_of(LinkIn)]) -> Response:
        documents = given.all_documents()
        check(documents)
        answered = await answer("link", DOCUMENTS.dump_json(documents), len(documents))
        note(request, answered)
        return response(answered.content)

    formats = service.about["formats"]

    @app.post(
        "/export",
        openapi_extra=_schema(ExportIn, format=formats),
        summary="Link, and export in a format",
    )
    async def export(request: Request, given: Annotated[ExportIn, body_of(ExportIn)]) -> Response:
        documents = given.all_documents()
        check(documents)
        settings = given.model_dump(exclude={"text", "documents"})
        values = {"documents": DOCUMENTS.dump_python(documents), **settings}
        answered = await answer("export", values, len(documents))
        note(request, answered)
        # Never displayed: an export of HTML would be a page of this service.
        headers = {"Content-Disposition": f'attachment; filename="links.{given.format}"'}
        return Response(answered.content, 200, headers, "application/octet-stream")

    @app.get("/entities/{id:path}", summary="An entity: names, definition, parents")
    async def entity(id: Id) -> Response:
        try:
            return response((await answer("entity", {"id_": id})).content)
        except KrisselError as error:
            raise HTTPException(404, str(error)) from None

    @app.get("/search", summary="Entities with a similar name")
    async def search(
        q: Annotated[str, Field(min_length=1, max_length=200)], k: int = DEFAULT_FOUND
    ) -> Response:
        return response((await answer("search", {"text": _text(q), "k": k})).content)

    @app.post(
        "/corrections",
        status_code=201,
        openapi_extra=_schema(CorrectionIn),
        summary="Correct a link",
    )
    async def correct(
        request: Request, given: Annotated[CorrectionIn, body_of(CorrectionIn)]
    ) -> Response:
        limits.check(chars=len(given.text))
        values = {**given.model_dump(), "author": request.state.user or given.author}
        return response((await answer("correct", values)).content, 201)

    @app.get("/corrections", summary="The last `k` active corrections before the last `skip`")
    async def corrections(
        k: Annotated[int, Field(ge=1, le=MAX_LISTED)] = MAX_LISTED,
        skip: Annotated[int, Field(ge=0)] = 0,
    ) -> Response:
        return json_response(service.corrections(k, skip), 200)

    @app.delete("/corrections/{id}", summary="Undo a correction")
    async def undo(request: Request, id: Id, author: Id = "") -> Response:
        try:
            return response(
                (await answer("undo", {"id_": id, "author": request.state.user or author})).content
            )
        except KeyError:
            raise HTTPException(404, "There is no such active correction") from None

    @app.post(
        "/inception/predict",
        openapi_extra=_schema(PredictionIn),
        summary="INCEpTION: suggest ids of entities",
    )
    @app.post(
        "/inception/iri/predict",
        openapi_extra=_schema(PredictionIn),
        summary="INCEpTION: suggest addresses",
    )
    async def suggest(
        request: Request, given: Annotated[PredictionIn, body_of(PredictionIn)]
    ) -> Response:
        as_addresses = "/iri/" in request.scope["path"]
        answered = await answer(
            "suggest", {"asked": given.model_dump(by_alias=True), "as_addresses": as_addresses}
        )
        metrics.linked(answered)
        return response(answered.content)

    @app.post(
        "/inception/train",
        status_code=204,
        summary="INCEpTION: accepted and ignored, the service does not train",
    )
    @app.post("/inception/iri/train", status_code=204, include_in_schema=False)
    async def train() -> Response:
        return Response(status_code=204)

    @app.get("/labelstudio/health", summary="Label Studio: health")
    async def label_studio_health() -> Response:
        is_alive = service.is_alive()
        return json_response(
            {"status": "UP" if is_alive else "DOWN", "model_class": "spacy-krissel"},
            200 if is_alive else 503,
        )

    @app.post("/labelstudio/setup", summary="Label Studio: the version of the model")
    async def label_studio_setup() -> Response:
        return json_response({"model_version": MODEL}, 200)

    @app.post(
        "/labelstudio/predict",
        openapi_extra=_schema(TasksIn),
        summary="Label Studio: links of tasks",
    )
    async def label_studio(given: Annotated[TasksIn, body_of(TasksIn)]) -> Response:
        answered = await answer("predict", {"asked": given.model_dump()}, len(given.tasks))
        metrics.linked(answered)
        return response(answered.content)

    @app.get("/", include_in_schema=False)
    @app.get("/page.js", include_in_schema=False)
    @app.get("/page.css", include_in_schema=False)
    async def page(request: Request) -> Response:
        headers = {
            "Content-Security-Policy": POLICY,
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        name, kind = FILES[request.scope["path"]]
        return FileResponse(PAGE / name, headers=headers, media_type=kind)

    @app.get("/health", summary="Health")
    async def health() -> Response:
        n = service.answering()
        return json_response(
            {"status": "ok" if n else "no answer", "answering": n, **service.about},
            200 if n else 503,
        )

    @app.get("/metrics", summary="Counts and times, for Prometheus")
    async def show_metrics() -> Response:
        return metrics.shown()

    @app.exception_handler(ServiceBusy)
    async def busy(_: Request, error: ServiceBusy) -> Response:
        return refusal(429, "Too many requests are waiting. Try again soon", {"Retry-After": "1"})

    @app.exception_handler(RequestTimeout)
    async def late(_: Request, error: RequestTimeout) -> Response:
        message = "The request timed out. Send less at a time; the change may still be applied"
        return refusal(503, message, {"Retry-After": "1"})

    @app.exception_handler(WorkerLost)
    async def lost(_: Request, error: WorkerLost) -> Response:
        return refusal(
            503, "The worker process ended. The change may have been applied", {"Retry-After": "1"}
        )

    @app.exception_handler(InvalidRequest)
    async def wrong(_: Request, error: InvalidRequest) -> Response:
        return refusal(422, f"The request {error}")

    @app.exception_handler(KrisselError)
    async def coded(request: Request, error: KrisselError) -> Response:
        # Only these concern the client: invalid requests, and extras that are not installed.
        status = {"K682": 422, "K692": 413, "K247": 501}.get(error.code)
        if is_full(error):
            LOG.error(json.dumps({"error": str(error)}))
            status = 507
        return refusal(status, str(error)) if status else await failed(request, error)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        LOG.error(json.dumps({"error": type(error).__name__}), exc_info=error)
        return refusal(500, "Internal error; see the log of the service")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return refusal(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return refusal(422, _problems(error.errors()))

    return app


def _parsed(model: type[Model], content: bytearray) -> Model:
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise HTTPException(
            422, _problems(error.errors(include_url=False, include_input=False))
        ) from None


def _text(text: str) -> str:
    """Return the text. Raises HTTPException 422 for an unpaired surrogate, which is not valid
    Unicode."""
    try:
        text.encode("utf8")
    except UnicodeError:
        raise HTTPException(422, "Text is not valid Unicode") from None
    return text


def _problems(errors: Any) -> str:
    shown = [
        f"{'.'.join(map(str, error['loc'])) or 'the request'}: {error['msg']}"
        for error in errors[:3]
    ]
    return "; ".join(shown)


def _schema(model: type[BaseModel], **choices: list[str]) -> dict[str, Any]:
    """Return the OpenAPI schema of a request body. choices: allowed values of a field, by its
    name."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    for name, values in choices.items():
        schema["properties"][name]["enum"] = values
    parts = schema.pop("$defs", {})
    # As one schema: FastAPI does not know bodies that are read manually.
    text = json.dumps(schema)
    while "#/components/schemas/" in text:
        for name, part in parts.items():
            text = text.replace(
                json.dumps({"$ref": f"#/components/schemas/{name}"}), json.dumps(part)
            )
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": json.loads(text)}},
        }
    }


def _description(service: LinkService) -> str:
    names = (each["name"] for each in service.about["vocabularies"])
    sources = ", ".join(filter(None, names)) or "an ontology"
    return f"Links biomedical mentions to {service.about['entities']:,} entities of {sources}."

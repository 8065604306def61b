"""What the interface is, for machines at `/openapi.json` and for people at `/docs`: made once, in a thread, when somebody first asks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
import trio
from quart import Quart, Response, redirect
from werkzeug.wrappers import Response as PlainResponse

from core.domain.errors import NotFound
from entrypoints.bootstrap import Services
from entrypoints.http import documentation, openapi
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import Endpoint, Endpoints, endpoint
from entrypoints.http.pages import Pages


@dataclass(frozen=True, slots=True)
class _Made:
    document: bytes
    page: bytes


class Description:
    """A tenth of a second's work for both of them, for which no start waits and no other request."""

    def __init__(self, routes: Iterable[Endpoint], pages: Pages, *, base_url: str, version: str) -> None:
        self.endpoints: Final = Endpoints([*routes, self._endpoint()])
        self._pages = pages
        self._base_url = base_url
        self._version = version
        self._making = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)
        self._made: _Made | None = None

    def add_to(self, application: Quart) -> None:
        application.add_url_rule("/", "front_door", self._front_door)
        application.add_url_rule("/docs", "documentation", self._page)
        application.add_url_rule("/assets/<digest>/<name>", "asset", self._asset)

    async def _front_door(self) -> PlainResponse:
        return redirect("/docs")

    async def _page(self) -> Response:
        return self._pages.answer((await self._once()).page)

    async def _asset(self, digest: str, name: str) -> Response:
        found = self._pages.asset(digest, name)
        if found is None:
            raise NotFound
        return found

    def _endpoint(self) -> Endpoint:
        @endpoint.get("/openapi.json", caller=ANYONE, tags=("operations",), cache="public, max-age=300")
        async def openapi(_call: Call, _services: Services) -> bytes:
            """The interface as an OpenAPI 3.1 document"""
            return (await self._once()).document

        return openapi

    async def _once(self) -> _Made:
        if self._made is None:
            async with self._making:
                if self._made is None:
                    self._made = await trio.to_thread.run_sync(self._make, limiter=self._limiter)
        return self._made

    def _make(self) -> _Made:
        document = openapi.document(self.endpoints, base_url=self._base_url, version=self._version)
        return _Made(msgspec.json.encode(document), documentation.page(self._pages, document))

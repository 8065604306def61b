"""The description of the API, at `/openapi.json` and `/docs`. The first request makes the description, once, in a thread."""

from collections.abc import Iterable
from typing import Final

import msgspec
import trio

from core.domain.errors import NotFound
from core.domain.federation.explained_errors import LONGEST_ERROR, explained_in, fits
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.description import documentation, openapi
from entrypoints.http.description.documentation import Documentation, explaining
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import SELF, Answer, NoBody, PagePolicy, redirect
from entrypoints.http.machinery.browsers import HOME
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, endpoint
from entrypoints.http.machinery.limits import PAGE_STEPS, UNLIMITED
from entrypoints.http.pages.kit import FOREVER, Pages
from entrypoints.http.pages.kit.declaring import page


class AssetPath(msgspec.Struct, frozen=True):
    digest: str
    name: str


class ChapterPath(msgspec.Struct, frozen=True):
    chapter: str


class GuidePath(msgspec.Struct, frozen=True):
    guide: str


# The search on the page of contents is a script of Postern; the pages are complete without the script.
_POLICY: Final = PagePolicy(scripts=(SELF,))


_PASTING: Final = PagePolicy(scripts=(SELF,), form_action=(SELF,))
# A character of a form takes up to three bytes for each of its own.
_PASTED: Final = Form(limit=3 * LONGEST_ERROR + 1024)


class PastedError(msgspec.Struct, frozen=True):
    text: str = ""
    """The output of a client with the error. It can be any text."""


class _Made(Frozen):
    document: bytes
    pages: Documentation


class Description:
    """The endpoints of the description. Making the document and the pages takes a while. So a thread makes both, and neither the start of
    the process nor other requests wait for the thread.
    """

    def __init__(self, routes: Iterable[Endpoint], pages: Pages, *, base_url: str, version: str) -> None:
        shown = (self._contents(), self._errors(), self._explaining(), self._chapter(), self._all_guides(), self._guide())
        self.endpoints: Final = Endpoints([*routes, self._endpoint(), *shown, self._asset(), self._front_door()])
        self._pages = pages
        self._base_url = base_url
        self._version = version
        self._making = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(1)
        self._made: _Made | None = None

    def _endpoint(self) -> Endpoint:
        @endpoint.get("/openapi.json", caller=ANYONE, limit=UNLIMITED, tags=("operations",), cache="public, max-age=300")
        async def openapi(_call: Call, _postern: Postern) -> bytes:
            """Get the OpenAPI document

            Return the description of this API as an OpenAPI 3.1 document.
            """
            return (await self._once()).document

        return openapi

    def _contents(self) -> Endpoint:
        @page.get("/docs", caller=ANYONE, limit=UNLIMITED, policy=_POLICY, translated=False)
        async def documentation(_call: Call, _postern: Postern) -> bytes:
            """The page of contents of the documentation"""
            return (await self._once()).pages.contents

        return documentation

    def _errors(self) -> Endpoint:
        @page.get("/docs/errors", caller=ANYONE, limit=UNLIMITED, policy=_PASTING, translated=False)
        async def errors(_call: Call, _postern: Postern) -> bytes:
            """The errors of OAuth and OpenID Connect, and a field to paste one"""
            return explaining(self._pages, (await self._once()).pages.frame)

        return errors

    def _explaining(self) -> Endpoint:
        @page.post("/docs/errors", caller=ANYONE, limit=PAGE_STEPS, policy=_PASTING, translated=False, accepts=_PASTED, foreign=True)
        async def explain_error(call: Call[PastedError], _postern: Postern) -> Answer[bytes]:
            """Explain an error

            The text is read once, as text, and kept nowhere. The answer is the page itself, and says nothing of the text back.
            """
            frame = (await self._once()).pages.frame
            if not fits(call.body.text):
                return Answer(
                    explaining(self._pages, frame, problem="The text is longer than 16 KiB. Paste only the lines with the error."), 413
                )
            # A long trace takes some milliseconds, so a thread reads it.
            found = await trio.to_thread.run_sync(explained_in, call.body.text, limiter=self._reading)
            return Answer(explaining(self._pages, frame, found), 200)

        return explain_error

    def _chapter(self) -> Endpoint:
        @page.get("/docs/{chapter}", caller=ANYONE, limit=UNLIMITED, policy=_POLICY, translated=False)
        async def documentation_chapter(call: Call[None, None, ChapterPath], _postern: Postern) -> bytes:
            """The documentation of one tag"""
            found = (await self._once()).pages.chapters.get(call.path.chapter)
            if found is None:
                raise NotFound
            return found

        return documentation_chapter

    def _all_guides(self) -> Endpoint:
        @page.get("/docs/guides", caller=ANYONE, limit=UNLIMITED, policy=_POLICY, translated=False)
        async def documentation_guides(_call: Call, _postern: Postern) -> bytes:
            """The guides of this version, by what they are for"""
            pages = (await self._once()).pages
            if not pages.guides:
                raise NotFound
            return pages.all_guides

        return documentation_guides

    def _guide(self) -> Endpoint:
        @page.get("/docs/guides/{guide}", caller=ANYONE, limit=UNLIMITED, policy=_POLICY, translated=False)
        async def documentation_guide(call: Call[None, None, GuidePath], _postern: Postern) -> bytes:
            """A guide of this version"""
            found = (await self._once()).pages.guides.get(call.path.guide)
            if found is None:
                raise NotFound
            return found

        return documentation_guide

    def _asset(self) -> Endpoint:
        @endpoint.get("/assets/{digest}/{name}", caller=ANYONE, limit=UNLIMITED, cache=FOREVER)
        def asset(call: Call[None, None, AssetPath], _postern: Postern) -> Answer[bytes]:
            """A style, script or image of a page"""
            found = self._pages.asset(call.path.digest, call.path.name)
            if found is None:
                raise NotFound
            content, media_type = found
            return Answer(content, 200, ((b"content-type", media_type.encode()),))

        return asset

    @staticmethod
    def _front_door() -> Endpoint:
        @page.get("/", caller=ANYONE, limit=UNLIMITED)
        def front_door(call: Call, _postern: Postern) -> Answer[NoBody]:
            """Redirect people to their account, and programs to the documentation"""
            answer = redirect(HOME if call.request.accepts_pages else "/docs", 302)
            # A cache must not give a browser the answer for a program.
            return Answer(answer.value, answer.status, (*answer.headers, (b"vary", b"accept")))

        return front_door

    async def _once(self) -> _Made:
        if self._made is None:
            async with self._making:
                if self._made is None:
                    self._made = await trio.to_thread.run_sync(self._make, limiter=self._limiter)
        return self._made

    def _make(self) -> _Made:
        document = openapi.document(self.endpoints, base_url=self._base_url, version=self._version)
        return _Made(msgspec.json.encode(document), documentation.rendered(self._pages, document))

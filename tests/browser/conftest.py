"""Chromium and its server: one browser for each worker, one context for each test. Names that are reserved for examples lead to the test's
server, which answers as Postern under its base URL and with an empty page under every other, so that tests can follow each flow to its end.
"""

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.server.heads import Scope
from entrypoints.http.server.limits import ServerSettings
from entrypoints.http.server.protocol import Message
from ops.browser.chromium import PROGRAM, Chromium, started
from ops.browser.page import Page, new_page
from tests.http.conftest import SETTINGS, client, database_url, people, postern
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, Receive, Send, running
from tests.runs.packages import Sweep
from tests.tools import place_of

__all__ = ["client", "database_url", "people", "postern"]  # fixtures

# An address of this worker's own, so that no other server takes the port between two tests.
ADDRESS = (f"127.42.{os.getpid() >> 8 & 255}.{os.getpid() & 255}", 8443)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="session")
def browser_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    directory: Path = tmp_path_factory.mktemp("chromium")
    with started(place_of(PROGRAM), directory, examples_at=f"{ADDRESS[0]}:{ADDRESS[1]}") as chromium:
        yield chromium


@pytest.fixture
def sweep(request: pytest.FixtureRequest) -> Sweep:
    return Sweep(request)


@pytest.fixture
async def chromium(browser_process: Chromium) -> AsyncIterator[Chromium]:
    async with browser_process.attached() as attached:
        yield attached


@dataclass
class Site:
    """Postern under its base URL, and empty pages under all other addresses."""

    application: Any
    visits: list[str] = field(default_factory=list)
    """What was asked for elsewhere: method and address, with the body of a form."""
    forms: dict[str, bytes] = field(default_factory=dict)
    """What stands on a page elsewhere, by its address."""
    silent: set[str] = field(default_factory=set)
    """The pages elsewhere that never answer."""
    scripts: dict[str, bytes] = field(default_factory=dict)
    """Scripts that a page of ours loads from elsewhere, by their addresses."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        host = headers.get(b"host", b"").decode()
        if scope["type"] == "lifespan" or host == urlsplit(BASE_URL).netloc:
            await self.application(scope, receive, send)
            return
        query = scope["query_string"].decode()
        address = f"{scope['scheme']}://{host}{scope['path']}{'?' if query else ''}{query}"
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] != "/favicon.ico":
            self.visits.append(" ".join(filter(None, (scope["method"], address, body.decode()))))
        if address in self.silent:
            await trio.sleep_forever()
        if address in self.scripts:
            await _answer(send, self.scripts[address], b"text/javascript")
            return
        shown = self.forms.get(address, b"")
        await _answer(send, b"<!doctype html><html lang=en><link rel=icon href=data:,><title>Elsewhere</title><h1>Elsewhere</h1>" + shown)


async def _answer(send: Send, body: bytes, kind: bytes = b"text/html") -> None:
    start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def site(postern: Postern, certificate: Certificate) -> AsyncIterator[Site]:
    site = Site(build_application(postern, SETTINGS))
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    async with running(site, settings, address=ADDRESS):
        yield site


@pytest.fixture(params=["with_scripts", "without_scripts"])
async def page(request: pytest.FixtureRequest, site: Site, chromium: Chromium) -> AsyncIterator[Page]:  # noqa: ARG001 - it must run
    """A page with scripts, then one without: a test with this fixture runs twice, and must pass in both."""
    async with new_page(chromium, BASE_URL, scripts=request.param == "with_scripts") as opened:
        yield opened
        assert opened.violations == []


@pytest.fixture
async def scripted_page(site: Site, chromium: Chromium) -> AsyncIterator[Page]:  # noqa: ARG001 - it must run
    """A page with scripts, for tests of the scripts."""
    async with new_page(chromium, BASE_URL, scripts=True) as opened:
        yield opened
        assert opened.violations == []


@pytest.fixture
async def plain_page(site: Site, chromium: Chromium) -> AsyncIterator[Page]:  # noqa: ARG001 - it must run
    """A page without scripts, for tests that do not depend on scripts."""
    async with new_page(chromium, BASE_URL, scripts=False) as opened:
        yield opened
        assert opened.violations == []

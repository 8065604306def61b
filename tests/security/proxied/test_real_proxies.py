"""The lines of the guides, in the real proxies: what passes, what does not, and what the application is told."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from entrypoints.bootstrap import Postern
from entrypoints.http.console.organization.applications.making import ApplicationKind, ApplicationValues, lines
from entrypoints.http.server.limits import ServerSettings
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.proxied.behind_proxies import COOKIE
from tests.http.people import People
from tests.http.running_server import running
from tests.patience import PATIENCE
from tests.security.proxied.behind import BASE, HOST, Answered, AtGuidesNames, Base, Proxy, at_the_guides_address, guide, proxy
from tests.tools import needs, place_of

pytestmark = needs("nginx", "caddy", "haproxy")

ADA: Final = "ada@acme.example"
# Each leads to `/admin` for somebody, and Ada is no admin.
PATHS: Final = (
    *("/admin", "/admin/", "/admin/x", "/ADMIN", "/Admin/x", "/%61dmin", "/%41DMIN", "//admin", "/public//../admin", "/public/../admin"),
    *(
        "/public/%2e%2e/admin",
        "/public/%2E%2E/admin",
        "/public%2f..%2fadmin",
        "/public/..%2fadmin",
        "/public/..;/admin",
        "/public;/../admin",
    ),
    *("/./admin", "/public/./../admin", "/admin%00", "/public%00/../admin", "/public\\..\\admin", "/public%5c..%5cadmin", "/%2561dmin"),
    *("/public/%c0%ae%c0%ae/admin", "/public/%ef%bc%8e%ef%bc%8e/admin", "/admin;x=1", "/admin%3fx", "/public/.%2e/admin", "/admin#x"),
    *("http://wiki.example.com/admin", "http://other.example/admin", "/admin?x=/public", "/public/../%61dmin/x"),
)
# What a client may send to be taken for somebody.
SMUGGLED: Final = (
    *("Remote-User: root", "remote-user: root", "REMOTE-USER: root", "Remote_User: root", "remote_user: root", "Remote-User : root"),
    *(
        "X-A: b\r\n Remote-User: root",
        "Remote-User: root\r\nRemote-User: admin",
        "X-Postern-Assertion: a.b.c",
        "X_Postern_Assertion: a.b.c",
    ),
    *("X-Forwarded-Uri: /public", "X-Forwarded-Host: other.example.com", "X-Forwarded-Method: GET", "X-Original-URL: /admin"),
    *("X-HTTP-Method-Override: DELETE", "Remote-Email: root", "Remote_Groups: admins", "X-Postern-Proxy: cs_wrong"),
    *("Remote.User: root", "X-Rewrite-URL: /admin", "Connection: Remote-User", "Connection: close, remote-user, X-Postern-Assertion"),
)


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with at_the_guides_address(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def wiki(postern: Postern, people: People, client: Client, log: CapturedLog) -> AtGuidesNames:
    return AtGuidesNames(postern, people, client, log)


@pytest.mark.parametrize("kind", ["caddy", "nginx", "haproxy"])
async def test_the_lines_of_the_guide_let_in_whom_postern_knows_and_nobody_else(kind: str, wiki: AtGuidesNames, tmp_path: Path) -> None:
    secret = await wiki.wiki(hosts=[HOST])
    base = Base.make(tmp_path / "base")
    settings = ServerSettings(certificate=base.certificates.certificate, certificate_key=base.certificates.key)
    at = ("127.0.0.1", base.port)
    async with running(wiki.unlimited.application, settings, address=at), proxy(kind, base, secret) as behind:
        cookie = await _signs_in(wiki, behind)
        shown = f"Cookie: {COOKIE}={cookie}"
        assert _user(await behind.get("/page", shown)) == [ADA]
        if kind == "nginx":
            # The application's own redirects are still those of its host.
            moved = await behind.get("/moved", shown)
            assert (moved.status, urlsplit(moved.header("location")).hostname, moved.header("location")[-6:]) == (302, HOST, "/there")
        await _keeps_strangers_out(behind)
        await _keeps_paths(behind, shown)
        await _passes_nothing_of_a_clients(behind, shown)
        await _keeps_hosts_apart(behind, shown)
        await _carries_a_websocket_and_an_upload(behind, shown)
        await _speaks_http_2(behind, cookie)
        signed_out = await behind.get("/.postern/sign-out", shown)
        assert signed_out.status == 200
        assert (await behind.get("/page", shown)).status == 401


@pytest.mark.parametrize("kind", ["caddy", "nginx"])
def test_the_console_shows_the_lines_that_are_tested(kind: str) -> None:
    values = ApplicationValues(
        issuer="https://id.example.com",
        organization="acme",
        service="wiki",
        client_id="id",
        redirect_uris=(),
        client_secret="cs_your_secret",
        access_token_alg="ES256",
    )
    (shown,) = [one for one in lines(ApplicationKind.PROXY, values) if one.framework.key == kind]
    assert shown.blocks[0].code == guide(kind)[0].rstrip()


async def _signs_in(wiki: AtGuidesNames, behind: Proxy) -> str:
    """As a browser does: from the page to the sign-in, to the base address, and back by the proxy."""
    navigates = ("Accept: text/html", "Sec-Fetch-Mode: navigate")
    first = await behind.get("/page?x=1", *navigates)
    assert (first.status, first.header("location")) == (302, "/.postern/sign-in?to=%2Fpage%3Fx%3D1"), first
    begun = await behind.get(first.header("location"), *navigates)
    asked = urlsplit(begun.header("location"))
    # The whole address: a proxy may rewrite one that begins as its own `proxy_pass` does.
    assert (begun.status, f"{asked.scheme}://{asked.netloc}{asked.path}") == (302, f"{BASE}/oauth/authorize"), begun
    assert parse_qs(asked.query)["redirect_uri"] == [f"https://{HOST}/.postern/return"]
    kept = "; ".join(f"{name}={value}" for name, value in begun.cookies.items())
    back = await wiki.came_back(begun.header("location"), wiki.signed_in(wiki.ada))
    # Without the cookie of the state, it is another browser.
    assert (await behind.get(back, *navigates)).status == 400
    returned = await behind.get(back, *navigates, f"Cookie: {kept}")
    assert (returned.status, returned.header("location")) == (302, "/page?x=1"), returned
    cookie = returned.cookies[COOKIE]
    wiki.log.remember(cookie)
    # A code counts once.
    assert (await behind.get(back, *navigates, f"Cookie: {kept}")).status == 400
    return cookie


async def _keeps_strangers_out(behind: Proxy) -> None:
    before = len(behind.trusting.heard)
    for target in ("/", "/page", "/admin", "/.postern-check", "/.postern%2f..%2fpage", "/.postern/../page", "/.postern/../admin"):
        for sent in ((), ("Remote-User: root",), ("Authorization: Bearer a.b.c",), ("Authorization: Basic YTpi",)):
            answer = await behind.get(target, *sent)
            assert answer.status in {400, 401, 403, 404}, (target, sent, answer)
    assert len(behind.trusting.heard) == before
    assert _user(await behind.get("/public/x", "Remote-User: root")) == []


async def _keeps_paths(behind: Proxy, shown: str) -> None:
    before = len(behind.trusting.heard)
    for target in PATHS:
        answer = await behind.get(target, shown)
        # Caddy answers an unknown host with an empty 200 of its own.
        assert answer.status in {0, 400, 401, 403, 404, 421} or answer.body == b"", (target, answer)
    assert [one.line for one in behind.trusting.heard[before:]] == []


async def _passes_nothing_of_a_clients(behind: Proxy, shown: str) -> None:
    for target, who in (("/page", [ADA]), ("/public/x", [ADA])):
        for smuggled in SMUGGLED:
            before = len(behind.trusting.heard)
            answer = await behind.get(target, shown, *smuggled.split("\r\n"))
            heard = behind.trusting.heard[before:]
            if answer.status == 200:
                (one,) = heard
                assert one.values("remote-user") == who, (smuggled, one)
                assert not {"root", "admins", "a.b.c", "cs_wrong"} & {value for _, value in one.headers}, (smuggled, one)
                assert one.values("x-postern-proxy") == []
            else:
                assert (answer.status in {400, 401, 403}, heard) == (True, []), (smuggled, answer)
    # What the client says of host and path does not count.
    assert (await behind.get("/admin", shown, "X-Forwarded-Uri: /public")).status == 403
    assert (await behind.get("/page", "X-Forwarded-Uri: /public")).status == 401


async def _keeps_hosts_apart(behind: Proxy, shown: str) -> None:
    before = len(behind.trusting.heard)
    for host in ("other.example.com", "wiki.globex.example", f"{HOST}, other.example", f"{HOST}@evil.example", ""):
        answer = await behind.get("/page", shown, host=host)
        # Caddy answers an unknown host with an empty 200 of its own.
        assert answer.status != 200 or answer.body == b"", (host, answer)
    doubled = await behind.get("/page", shown, "Host: other.example.com")
    assert doubled.status == 400
    assert len(behind.trusting.heard) == before


async def _carries_a_websocket_and_an_upload(behind: Proxy, shown: str) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    assert (await behind.get("/page", *upgrade)).status == 401
    head = "\r\n".join(["GET /socket HTTP/1.1", "Host: wiki.example.com", *upgrade, shown, "", ""]).encode()
    with trio.fail_after(PATIENCE):
        async with await behind.connect() as stream:
            await stream.send_all(head)
            received = b""
            while b"\r\n\r\n" not in received:
                received += await stream.receive_some(4096)
            assert received.startswith(b"HTTP/1.1 101"), received
            await stream.send_all(b"hello")
            assert await stream.receive_some(4096) == b"hello"
    size = 100 << 20
    head = f"POST /upload HTTP/1.1\r\nHost: wiki.example.com\r\n{shown}\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
    piece = b"x" * (1 << 20)
    received = b""
    with trio.fail_after(PATIENCE):
        async with await behind.connect() as stream:
            await stream.send_all(head)
            for _ in range(size // len(piece)):
                await stream.send_all(piece)
            while more := await stream.receive_some(65_536):
                received += more
    assert received.startswith(b"HTTP/1.1 200"), received[:300]
    assert json.loads(received.partition(b"\r\n\r\n")[2])["size"] == size


async def _speaks_http_2(behind: Proxy, cookie: str) -> None:
    async def ask(target: str, *lines: str) -> Sequence[bytes]:
        said = [part for line in (f"Cookie: {COOKIE}={cookie}", *lines) for part in ("-H", line)]
        command = [place_of("curl"), "-s", "--path-as-is", "--http2", "-o", "-", "-w", "\n%{http_code} %{http_version}"]
        at = ["--cacert", str(behind.authority), "--connect-to", f"{HOST}:443:127.0.0.1:{behind.port}", f"https://{HOST}{target}"]
        done = await trio.run_process([*command, *said, *at], capture_stdout=True, check=False)
        return done.stdout.rsplit(b"\n", 1)

    body, status = await ask("/page", "remote-user: root")
    assert (json.loads(body)["user"], status) == ([ADA], b"200 2")
    for target in ("/admin", "//admin", "/public/%2e%2e/admin"):
        _, status = await ask(target)
        assert status in {b"403 2", b"400 2"}, (target, status)


def _user(answer: Answered) -> list[str]:
    assert answer.status == 200, answer
    users: list[str] = json.loads(answer.body)["user"]
    return users

"""The way of somebody who has just installed Postern: from the first sign-in to a working sign-in of an application of their own, in a
browser, without reading anything elsewhere.
"""

import http.client
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import trio

from core.domain.federation.oauth.oidc import TOKEN_ENDPOINT
from core.domain.mail import Email
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.console.organization.applications.making import CHOSEN as FRAMEWORKS_BY_KEY
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import NARROW, WIDE, Page, new_page
from tests.browser.checks import enter, require_sound
from tests.browser.conftest import ADDRESS, Site
from tests.e2e.postern import Postern as Server
from tests.e2e.postern import remove
from tests.http.client import Client
from tests.http.federation.arriving import AUTHORIZE, CALLBACK, CHALLENGE, VERIFIER
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, running
from tests.http.signing_in import PASSWORD
from tests.receiver import Call, receiving

OWNER: Final = "ada@example.org"
# From what `make run` prints to the sign-in of a second person: each click, each field and each copying.
MOST_ACTIONS: Final = 16
ROOM_FOR_ADDRESS: Final = 1250
LINES_OF_ADDRESS: Final = (
    "new Set([...document.querySelector('.happens tbody td bdi').getClientRects()].map(one => Math.round(one.top))).size"
)
CHOSEN: Final = "a few good words in a row"
CHOSEN_FRAMEWORK: Final = FRAMEWORKS_BY_KEY["flask"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_from_the_first_sign_in_to_an_application_of_ones_own(
    width: int, plain_page: Page, site: Site, postern: Postern, client: Client
) -> None:
    page = plain_page
    assert await postern.platform.platform_owners.create_first(Email(OWNER), Password(PASSWORD)) is not None
    await page.show(width=width)

    # The owner signs in with the address that the first start has printed.
    await page.open("/ui/first-steps")
    await enter(page, {"Email address": OWNER})
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui/first-steps"
    await require_sound(page)

    # An organization of their own is active at once, since its founder is who would approve it. Its console says what comes next.
    await page.follow("Create an organization")
    await require_sound(page)
    await enter(page, {"Name": "Acme Metals", "Short name": "acme"})
    assert await page.place() == f"{BASE_URL}/ui/o/acme"
    assert "Get started" in await page.text()
    await require_sound(page)

    # Their application, in three questions. The answer shows the values to copy.
    await page.follow("Create application")
    assert await page.place() == f"{BASE_URL}/ui/o/acme/applications/~new"
    await require_sound(page)
    await page.fill("Name", "My application")
    await page.click("Web application with a server")
    await page.fill("Where are people redirected after sign-in?", CALLBACK)
    await page.click("Members of the organization")
    await page.follow("Create application")
    await require_sound(page)
    found = re.search(r"\(client_id\) ([0-9a-f-]{36}) ", await page.text())
    assert found is not None
    client_id = found[1]
    secret = str(await page.evaluate("document.getElementById('secret').innerText")).strip()

    # The application sends its first person, who is signed in already. A member of the house is not asked at an address on the web.
    asked = {
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid email",
        "state": "s",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    await page.open(f"{AUTHORIZE}?{urlencode(asked)}")
    await page.arrived(CALLBACK)
    told = parse_qs(urlsplit(site.visits[-1].partition(" ")[2]).query)
    form = urlencode(
        {
            "grant_type": "authorization_code",
            "code": told["code"][0],
            "redirect_uri": CALLBACK,
            "client_id": client_id,
            "client_secret": secret,
            "code_verifier": VERIFIER,
        }
    )
    answer = await client.request(
        "POST", TOKEN_ENDPOINT, body=form.encode(), headers=[("content-type", "application/x-www-form-urlencoded")]
    )
    userinfo = await client.get("/oauth/userinfo", token=answer.ok()["access_token"])
    assert userinfo.ok()["email"] == OWNER

    # The organization sees the sign-in, and the page of the application begins with it. The address stays whole.
    await page.open("/ui/o/acme")
    assert "1 application" in await page.text()
    await page.open("/ui/o/acme/applications/my-application")
    assert await page.evaluate("document.querySelector('.happens h2').id") == "sign_ins"
    assert await page.evaluate(LINES_OF_ADDRESS) == 1
    if width == WIDE:
        # The narrowest window in which the table has room for it beside the facts.
        await page.show(width=ROOM_FOR_ADDRESS)
        assert await page.evaluate(LINES_OF_ADDRESS) == 1
    await require_sound(page)


class Walk:
    """Counts what somebody does on pages."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions: list[str] = []

    async def act(self, said: str, done: Awaitable[None]) -> None:
        await done
        self.actions.append(said)

    async def follow(self, name: str) -> None:
        await self.act(f"press {name}", self.page.follow(name))
        assert self.page.status < 400, await self.page.text()
        await require_sound(self.page)

    async def fill(self, label: str, value: str) -> None:
        await self.act(f"fill {label}", self.page.fill(label, value))

    async def open(self, said: str, place: str) -> None:
        await self.act(said, self.page.open(place))

    async def found_acme(self, server: Server) -> None:
        """From a first start to an organization of one's own."""
        printed = re.search(r"Sign in +(\S+)", server.out.read_text())
        assert printed is not None
        await self.open("open the link that the first start prints", printed[1])
        await self.follow("Sign in")
        await self.fill("Name", "Acme Metals")
        await self.follow("Create organization")


@pytest.fixture
def server() -> Iterator[Server]:
    """A first start, as `make run` makes it."""
    directory = Path(mkdtemp(prefix="postern-walk-"))
    server = Server(directory / "data")
    server.start()
    yield server
    assert server.stop() == 0
    server.close()
    remove(directory)


@pytest.fixture
async def elsewhere(certificate: Certificate) -> AsyncIterator[Site]:
    """The application's own site."""
    site = Site(None)
    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    async with running(site, settings, address=ADDRESS):
        yield site


async def link_in_mail(page: Page) -> str:
    """Of the newest mail, once it has come."""
    link = ""
    while not link:
        found = "[...document.querySelectorAll('pre a')].map(one => one.href).find(one => one.includes('accept')) || ''"
        link = str(await page.evaluate(found))
        await trio.sleep(0.05)
        await page.reload()
    return link


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_from_the_first_start_to_a_second_persons_sign_in(width: int, server: Server, elsewhere: Site, chromium: Chromium) -> None:
    base = f"http://127.0.0.1:{server.port}"
    async with new_page(chromium, base, scripts=False) as mine, new_page(chromium, base, scripts=False) as theirs:
        await mine.show(width=width)
        await theirs.show(width=width)
        walk, second = Walk(mine), Walk(theirs)

        # The owner makes an organization and an application, and invites somebody.
        await walk.found_acme(server)
        await walk.follow("Create application")
        await walk.fill("Name", "My application")
        await walk.fill("Where are people redirected after sign-in?", CALLBACK)
        await walk.follow("Create application")
        copied = str(await mine.evaluate("document.getElementById('environment').innerText"))
        walk.actions.append("copy the lines for the application")
        await walk.fill("Email addresses", "ada@example.org")
        await walk.follow("Send invitations")

        # The second person reads the mail, and accepts. The link works in whichever browser opens it.
        await walk.follow("View email")
        await second.open("open the link of the mail", await link_in_mail(mine))
        await second.fill("Choose a password", CHOSEN)
        await second.follow("Accept and sign in")

        # The application sends its second person.
        values = dict(line.split("=", 1) for line in copied.split())
        asked = {
            "client_id": values["OIDC_CLIENT_ID"],
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid email profile",
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        await second.open("open the application", f"{values['OIDC_ISSUER']}{AUTHORIZE}?{urlencode(asked)}")
        await theirs.arrived(CALLBACK)
        actions = [*walk.actions, *second.actions]
    told = parse_qs(urlsplit(elsewhere.visits[-1].partition(" ")[2]).query)
    tokens = await trio.to_thread.run_sync(
        _post,
        server.port,
        {
            "grant_type": "authorization_code",
            "code": told["code"][0],
            "redirect_uri": CALLBACK,
            "client_id": values["OIDC_CLIENT_ID"],
            "client_secret": values["OIDC_CLIENT_SECRET"],
            "code_verifier": VERIFIER,
        },
    )
    assert "id_token" in tokens
    assert len(actions) <= MOST_ACTIONS, "\n".join(actions)


@dataclass
class ProgramOnLoopback:
    """What somebody has built with the lines of a framework: it begins a sign-in at the address that the lines have for it."""

    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    asked: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    @property
    def at(self) -> str:
        return f"http://localhost:{self.port}"

    async def answer(self, stream: trio.abc.Stream, call: Call) -> bool:
        place = urlsplit(call.target)
        body = b"<!doctype html><html lang=en><link rel=icon href=data:,><title>My application</title><h1>My application</h1>"
        lines = ["HTTP/1.1 200 OK", "content-type: text/html"]
        if place.path == CHOSEN_FRAMEWORK.initiates_at:
            self.asked.append(place.query)
            asked = {
                "client_id": self.environment["OIDC_CLIENT_ID"],
                "redirect_uri": self.at + CHOSEN_FRAMEWORK.comes_back_to,
                "response_type": "code",
                "scope": "openid email profile",
                "state": "s",
                "code_challenge": CHALLENGE,
                "code_challenge_method": "S256",
            }
            body, lines = b"", ["HTTP/1.1 302 Found", f"location: {self.environment['OIDC_ISSUER']}{AUTHORIZE}?{urlencode(asked)}"]
        elif place.path == CHOSEN_FRAMEWORK.comes_back_to:
            self.codes += parse_qs(place.query)["code"]
        await stream.send_all("\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body)
        return True


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_from_nothing_to_a_second_person_in_a_program_of_a_framework(width: int, server: Server, chromium: Chromium) -> None:
    """The program runs on the same machine, so each person is asked for consent (0042), and “Open” begins the sign-in (0254)."""
    base, program = f"http://127.0.0.1:{server.port}", ProgramOnLoopback()
    async with (
        receiving(program.answer) as receiver,
        new_page(chromium, base, scripts=False) as mine,
        new_page(chromium, base, scripts=False) as theirs,
    ):
        program.port = receiver.port
        await mine.show(width=width)
        await theirs.show(width=width)
        walk, second = Walk(mine), Walk(theirs)
        await walk.found_acme(server)
        await walk.follow("Create application")
        await walk.act(f"choose {CHOSEN_FRAMEWORK.name}", mine.click(CHOSEN_FRAMEWORK.name))
        await walk.fill("Name", "My application")
        # On a machine of their own the lines have port 3000. Here another test may have it, so this counts as nothing.
        await mine.evaluate(
            f"document.querySelector('[name=elsewhere]').checked = true,"
            f" document.querySelector('[name=addresses]').value = '{program.at}{CHOSEN_FRAMEWORK.comes_back_to}'"
        )
        await walk.follow("Create application")
        # The lines of the framework begin with the environment; by itself it is folded.
        copied = str(await mine.evaluate("document.getElementById('environment').textContent"))
        program.environment = dict(line.split("=", 1) for line in copied.split())
        walk.actions.append("copy all, and run it")
        await walk.fill("Email addresses", "ada@example.org")
        await walk.follow("Send invitations")
        link = str(await mine.evaluate("(document.getElementById('link1') || {}).innerText || ''")).strip()
        if not link:
            # The page waits a moment for the mail, and a busy machine is slower.
            await mine.follow("View email")
            link = await link_in_mail(mine)

        await second.open("open the link that the page shows", link)
        await second.fill("Choose a password", CHOSEN)
        await second.follow("Accept and sign in")
        await second.act("press Open My application", theirs.follow("Open My application"))
        await second.act("press Allow", theirs.follow("Allow"))
        await theirs.arrived(program.at + CHOSEN_FRAMEWORK.comes_back_to)
        actions = [*walk.actions, *second.actions]
    assert program.asked == [urlencode({"iss": program.environment["OIDC_ISSUER"]})]
    form = {
        "grant_type": "authorization_code",
        "code": program.codes[-1],
        "redirect_uri": program.at + CHOSEN_FRAMEWORK.comes_back_to,
        "client_id": program.environment["OIDC_CLIENT_ID"],
        "client_secret": program.environment["OIDC_CLIENT_SECRET"],
        "code_verifier": VERIFIER,
    }
    assert "id_token" in await trio.to_thread.run_sync(_post, server.port, form)
    sys.stdout.write(f"{len(actions)} of {MOST_ACTIONS}: {', '.join(actions)}\n")
    assert len(actions) <= MOST_ACTIONS, "\n".join(actions)


def _post(port: int, form: dict[str, str]) -> dict[str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", TOKEN_ENDPOINT, urlencode(form), {"content-type": "application/x-www-form-urlencoded"})
    found: dict[str, str] = json.load(connection.getresponse())
    connection.close()
    return found

"""Each step of a flow in the browser, sent in place of the one that the flow is at: nobody gets a code, a session or a mail that signs in.

The steps are all the forms of pages that name a flow, so a new page is tried without being listed here.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.federation.arriving import Arriving, left
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client

# What somebody who lacks the proof would send. A field that a form does not have is not sent.
GUESSES: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"answer": "allow", "code": "", "password": "", "account": "same", "email": "ada@example.org", "trust_device": "on"},
    {"answer": "yes", "code": "000000", "password": "guess", "method": "backup_code", "remember": "on", "email": "eve@example.org"},
)


def _steps(scene: Arriving) -> dict[str, set[str]]:
    """The forms that name a flow: their paths, and the names of their fields."""
    found = {}
    for one in scene.unlimited.application.endpoints:
        if one.method == "POST" and one.body_type is not None and "{" not in one.path and issubclass(one.body_type, msgspec.Struct):
            names = {field.encode_name for field in msgspec.structs.fields(one.body_type)}
            if "flow" in names:
                found[one.path] = names
    return found


Way = Callable[[Arriving, Tab], Awaitable[None]]


async def _at_the_address(scene: Arriving, tab: Tab) -> None:
    await tab.open(scene.asking())


async def _at_the_password(scene: Arriving, tab: Tab) -> None:
    await tab.open(scene.asking())
    await tab.send(email="ada@example.org")


async def _at_the_second_factor(scene: Arriving, tab: Tab) -> None:
    await _at_the_password(scene, tab)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/sign-in/second-factor")


async def _at_a_fresh_sign_in(scene: Arriving, tab: Tab) -> None:
    """The person is signed in, and the application asks for a sign-in of now."""
    await tab.open(scene.asking(prompt="login"))


async def _at_a_fresh_second_factor(scene: Arriving, tab: Tab) -> None:
    await _at_a_fresh_sign_in(scene, tab)
    if "password" not in tab.page.inputs:
        await tab.send(email="ada@example.org")
    await tab.send(password=PASSWORD)


WAYS: Final[Mapping[str, tuple[Way, bool]]] = {
    "the address": (_at_the_address, False),
    "the password": (_at_the_password, False),
    "the second factor": (_at_the_second_factor, False),
    "a fresh sign-in": (_at_a_fresh_sign_in, True),
    "a fresh second factor": (_at_a_fresh_second_factor, True),
}


@pytest.fixture
async def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, client, log)


@pytest.fixture
async def ada(scene: Arriving) -> Person:
    """Has a password and a second factor, and has allowed the application everything."""
    person = await scene.people.with_password(PASSWORD, "ada@example.org")
    await enable_mfa(scene.unlimited, scene.people, person)
    scene.allow(person)
    return person


def _browser(scene: Arriving, ada: Person, *, signed_in: bool) -> Tabs:
    return scene.signed_in(scene.people.session_of(ada), age=3600, amr="{pwd,otp}") if signed_in else scene.browser()


async def test_the_right_step_leads_on(scene: Arriving, ada: Person) -> None:
    """Otherwise the tries below would fail for another reason than their order."""
    scene.people.change("delete from mfa_secrets")
    tab = scene.browser().tab()
    await _at_the_password(scene, tab)
    await tab.send(password=PASSWORD)
    assert left(tab)["code"]
    assert [row["user_id"] for row in scene.codes()] == [ada.user]


@pytest.mark.parametrize("way", WAYS)
async def test_no_step_is_skipped(scene: Arriving, ada: Person, way: str) -> None:
    go, signed_in = WAYS[way]
    steps = _steps(scene)
    assert len(steps) > 12
    for path, names in steps.items():
        for guess in GUESSES:
            browser = _browser(scene, ada, signed_in=signed_in)
            tab = browser.tab()
            await go(scene, tab)
            (form, *_) = tab.page.forms
            carried: dict[str, Any] = {name: value for name, value in form.fields.items() if name in {"flow", "form_token"}}
            before, living = browser.session, scene.people.rows("select id from sessions where revoked_at is null order by id")
            answer = await browser.request("POST", path, {**carried, **{name: value for name, value in guess.items() if name in names}})
            # Then on, wherever the page leads, and back to where the flow was.
            await tab.open(answer.header("location") or tab.place)
            assert answer.status < 500, path
            assert scene.codes() == [], (path, guess)
            assert browser.session in {before, None}, (path, guess)
            now = scene.people.rows("select id from sessions where revoked_at is null order by id")
            assert {row["id"] for row in now} <= {row["id"] for row in living}, (path, guess)

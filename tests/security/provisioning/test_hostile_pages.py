"""Words of the other system on our pages: markup, marks that turn the line, and ids that would be scripts; and pages in the wrong hands."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from tests.conftest import CapturedLog
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.applications.test_people_there import drafted, step
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import People
from tests.http.signing_in import unlimited

SCRIPT: Final = "<script>alert(1)</script>"
ATTRIBUTE: Final = '"><img src=x onerror=alert(2)>'
MARKS: Final = "\u202e\u2066\u200f\x1b[31m\x00"


@pytest.fixture
def far() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as opened:
        yield opened


@pytest.fixture
def console(postern: Postern, people: People, log: CapturedLog) -> ConsoleScene:
    return ConsoleScene(postern, people, unlimited(postern), log)


@pytest.fixture
async def connected(console: ConsoleScene, far: FakeRemoteSystem) -> str:
    """An active connection, whose plan was let go on. Returns its address below the organization."""
    billing = await made(console)
    at = await drafted(console, billing, far)
    await console.at(f"{at}/activate")
    await console.submit(f"{at}/activate")
    console.people.change("update provisioning_connections set agreed_digest = active_digest")
    return at


async def bodies(console: ConsoleScene, at: str) -> dict[str, str]:
    runs = [f"{at}/runs/{row['id']}" for row in console.people.rows("select id from provisioning_runs")]
    persons = [f"{at}/people/{row['user_id']}" for row in console.people.rows("select user_id from provisioned_people")]
    found = {}
    for one in (at, f"{at}/runs", f"{at}/people", f"{at}/requests", *runs, *persons):
        tab = await console.at(one)
        assert tab.status == 200, one
        found[one] = tab.shown.body.decode()
    return found


async def test_words_of_the_other_system_are_words_alone(console: ConsoleScene, connected: str, far: FakeRemoteSystem) -> None:
    bob = console.people.proved("bob@acme.example")
    console.tenants.join(bob, console.acme)
    far.refuses = {
        console.ada.email: (400, "invalidValue", f"{SCRIPT}{ATTRIBUTE}{MARKS} is not allowed"),
        bob.email: (400, SCRIPT, f"{MARKS}{SCRIPT}"),
    }
    await step(console)
    shown = await bodies(console, connected)
    assert any("is not allowed" in body for body in shown.values()), "somebody can read what the other system said"
    for body in shown.values():
        assert SCRIPT not in body
        assert "<img src=x" not in body
        assert [hex(ord(mark)) for mark in MARKS if not mark.isprintable() and mark in body] == []


async def test_ids_of_the_other_system_are_texts_alone(console: ConsoleScene, connected: str, far: FakeRemoteSystem) -> None:
    strange = f"{SCRIPT}{ATTRIBUTE}"

    def answer(asked: Any) -> RemoteAnswer | None:
        return RemoteAnswer(201, {**asked.body, "id": strange}) if asked.method == "POST" else None

    far.answers = answer
    await step(console)
    assert console.people.rows("select far_id from provisioned_people") == [{"far_id": strange}]
    for body in (await bodies(console, connected)).values():
        assert SCRIPT not in body
        assert "<img src=x" not in body


async def test_pages_in_the_wrong_hands_show_nothing(console: ConsoleScene, connected: str, far: FakeRemoteSystem) -> None:
    console.people.change("update provisioning_connections set agreed_digest = null")
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    places = ["", "/runs", f"/runs/{run['id']}", "/people", "/requests", "/activate", "/preview?person=" + console.ada.email]
    member, (_, stranger) = console.colleague(), console.stranger()
    for tab in (member, stranger):
        for place in places:
            await tab.open(f"/ui/o/acme{connected}{place}")
            assert tab.status in {403, 404}, place
            assert far.url not in tab.shown.body.decode(), place
    administrator = console.colleague("admin")
    for question in ("/activate", "/end", "/end-everybody", f"/runs/{run['id']}/go-on", f"/runs/{run['id']}/leave"):
        await administrator.open(f"/ui/o/acme{connected}{question}")
        assert administrator.status == 403, question
    assert (await administrator.open(f"/ui/o/acme{connected}")).status == 200
    assert far.token not in administrator.shown.body.decode()
    assert not any(form.action.endswith("/activate") for form in administrator.page.forms)
    assert f"/ui/o/acme{connected}/activate" not in administrator.page.links

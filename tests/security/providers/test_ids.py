"""Who calls themselves 4711 at a provider is not person 4711: issuer, place and path together say who an external id is."""

from typing import Any, Final

import pytest
import trio

from adapters.postgres.driver.connection import Connection
from ops.browser.page_reader import PageReader
from tests.http.client import Received, refused
from tests.http.upstream.further.scene import ADDRESS, CODE, PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import PROFILE
from tests.http.upstream.scene import ADA

ONE: Final = f"{PROVIDERS}/profiles"
EVE: Final = "eve@example.org"
ISSUER: Final = "https://forum.example"


async def has(scene: FurtherScene, **more: str) -> None:
    body = {**PROFILE, "scopes": ["profile"], **scene.of_preset("profiles"), **more}
    del body["preset"]
    assert (await scene.add(body)).status == 201
    scene.seats("profiles")
    scene.fakes["profiles"].person |= {"id": 4711, "login": "ada"}


async def ada_joins(scene: FurtherScene) -> None:
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "profiles")))
    assert [one["subject"] for one in scene.identities()] == ["4711"]


async def changed(scene: FurtherScene, **settings: str) -> Received:
    return await scene.request("PATCH", ONE, settings, by=scene.root)


async def eve_comes(scene: FurtherScene) -> Any:
    """Whom Eve is signed in as. Her number there is another, and she calls herself 4711."""
    tabs = scene.browser()
    await scene.come(tabs, "profiles", id=666, login="4711", email=EVE)
    return await scene.who(tabs)


@pytest.mark.parametrize("issuer", [{}, {"issuer": ISSUER}])
async def test_the_path_of_the_id_stays_while_people_hang_on_it(scene: FurtherScene, issuer: dict[str, str]) -> None:
    await has(scene, **issuer)
    await ada_joins(scene)
    answer = await changed(scene, subject="login")
    assert refused(answer) == (409, "CONFLICT")
    assert answer.json()["error"].startswith("subject: people are linked by the former IDs (1)")
    assert await eve_comes(scene) is None
    assert (await scene.request("GET", ONE, by=scene.root)).json()["people"] == 1


async def test_the_page_says_it_in_words(scene: FurtherScene) -> None:
    await has(scene)
    await ada_joins(scene)
    owner = scene.signed_in(scene.root)
    at = "/ui/platform/providers/profiles"
    page = await owner.request("GET", at)
    assert "1 account is linked. If you change the issuer" in PageReader(page.body).text
    sent = await scene.send(owner, PageReader(page.body), f"{at}/protocol", subject="login")
    assert sent.status == 409
    assert "Create another provider" in PageReader(sent.body).text


async def test_the_profile_stays_beside_an_issuer(scene: FurtherScene) -> None:
    await has(scene, issuer=ISSUER)
    await ada_joins(scene)
    elsewhere = f"{scene.fakes['profiles'].url}/elsewhere"
    answer = await changed(scene, profile_url=elsewhere)
    assert refused(answer) == (409, "CONFLICT")
    assert answer.json()["error"].startswith("profile_url: people are linked")


async def test_nobody_comes_round_by_another_issuer_and_back(scene: FurtherScene) -> None:
    await has(scene, issuer=ISSUER)
    await ada_joins(scene)
    away = await scene.request("PATCH", ONE, {"issuer": "https://b.example", "client_secret": "s", "subject": "login"}, by=scene.root)
    assert away.status == 200, away.body
    assert away.json()["people"] == 0
    assert await eve_comes(scene) is None
    back = {"issuer": ISSUER, "client_secret": scene.fakes["profiles"].client_secret}
    answer = await scene.request("PATCH", ONE, back, by=scene.root)
    assert refused(answer) == (409, "CONFLICT")
    assert answer.json()["error"].startswith("issuer: people are linked by the former IDs (1)")
    # With what ids meant then, the people of then are back.
    again = await scene.request("PATCH", ONE, {**back, "subject": "id"}, by=scene.root)
    assert (again.status, again.json()["people"]) == (200, 1)
    assert await eve_comes(scene) is None


async def test_another_issuer_makes_newcomers_of_all(scene: FurtherScene) -> None:
    await has(scene, issuer=ISSUER)
    await ada_joins(scene)
    moved = {"issuer": "https://b.example", "client_secret": scene.fakes["profiles"].client_secret}
    assert (await scene.request("PATCH", ONE, moved, by=scene.root)).status == 200
    tabs = scene.browser()
    await scene.asked(tabs, await scene.come(tabs, "profiles"))


async def test_where_nobody_is_connected_it_changes(scene: FurtherScene) -> None:
    await has(scene)
    assert (await changed(scene, subject="login")).status == 200


async def test_a_word_that_was_read_by_another_path_makes_no_account(scene: FurtherScene) -> None:
    """Eve's number is read as her id. Then the path is that of names, and somebody else may be called so."""
    await has(scene)
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "profiles"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    code = await scene.mailed_code()
    assert (await changed(scene, subject="login")).status == 200
    assert (await scene.send(tabs, asks, CODE, code=code)).status == 400
    assert scene.identities() == []
    assert scene.people.rows("select from users where email = %s", ADA) == []


async def test_a_change_that_comes_first_ends_the_word_of_before(scene: FurtherScene, database_url: str) -> None:
    """The change has begun, and waits for its commit, while the person is connected."""
    await has(scene)
    ada = scene.verified()
    tabs = scene.signed_in(scene.people.session_of(ada))
    statement = b"update further_providers set settings = settings || '{\"subject\": \"login\"}' where key = 'profiles'"
    led: list[str] = []

    async def connect() -> None:
        led.append(await scene.link(tabs, "profiles"))

    async with await Connection.connect(database_url) as other, trio.open_nursery() as nursery, other.transaction():
        # As the use case holds the row.
        await other.execute(b"select from further_providers where key = 'profiles' for update")
        await other.execute(statement)
        nursery.start_soon(connect)
        await scene.people.somebody_waits()
    assert "status=error" in led[0]
    assert scene.identities() == []


async def test_whoever_is_connected_first_is_counted(scene: FurtherScene, database_url: str) -> None:
    await has(scene)
    ada = scene.verified()
    answers: list[Received] = []

    async def change() -> None:
        answers.append(await changed(scene, subject="login"))

    async with await Connection.connect(database_url) as other, trio.open_nursery() as nursery, other.transaction():
        # As the statement that adds an identity holds the row.
        await other.execute(b"select from further_providers where key = 'profiles' for key share")
        nursery.start_soon(change)
        await scene.people.somebody_waits()
        profile = scene.of_preset("profiles")["profile_url"]
        await other.execute(
            b"insert into identities (id, user_id, provider, issuer, subject, email, linked_at)"
            b" values (gen_random_uuid(), %(user)s, 'profiles', %(issuer)s, '4711', '', now())",
            {"user": ada.user, "issuer": profile},
        )
    assert refused(answers[0]) == (409, "CONFLICT")

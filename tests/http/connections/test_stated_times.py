"""A directory's assertion says when the person signed in there, and the proof is as old."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tests.http.connections.scene import ConnectionScene
from tests.http.people import Person
from tests.http.upstream.scene import ADA

HOURS: Final = timedelta(hours=9)


async def test_a_visit_to_a_directory_where_the_person_signed_in_hours_ago_is_no_fresh_proof(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.directory.signed_in_ago = HOURS
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    tab = await tabs.tab().open("/ui/password")
    assert tab.place.startswith("/ui/sign-in")
    (row,) = scene.people.rows("select user_id from users join sessions on users.id = user_id where email = %s", ADA)
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    answer = await tabs.request("GET", scene.asking(max_age="60"))
    assert (answer.header("location") or "").startswith("/ui/sign-in")
    assert "code=" in str((await tabs.request("GET", scene.asking())).header("location"))
    (code,) = scene.codes()
    assert datetime.now(UTC) - code["stated_at"] > HOURS - timedelta(minutes=1)


async def test_after_a_fresh_sign_in_there_it_is_one(scene: ConnectionScene) -> None:
    provider = await scene.active()
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    tab = await tabs.tab().open("/ui/password")
    assert (tab.status, tab.place) == (200, "/ui/password")


@pytest.mark.parametrize("asked", [{"prompt": "login"}, {"max_age": "60"}])
async def test_where_a_fresh_sign_in_is_asked_for_an_old_one_fails_its_check(scene: ConnectionScene, asked: dict[str, str]) -> None:
    provider = await scene.active()
    scene.directory.signed_in_ago = HOURS
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking(**asked))
    flow = tab.place.partition("flow=")[2]
    answer = await scene.arrive(tabs, provider, f"?flow={flow}")
    assert (answer.status, tabs.session) == (502, None)
    await scene.keep_recorded()
    (told, *_) = (await scene.request("GET", f"/api/organizations/acme/upstream-providers/{provider}/exchanges")).ok()["exchanges"]
    assert (told["succeeded"], told["fault"]) == (False, "too_long_ago")
    failed = [one["name"] for one in told["checks"] if one["state"] == "failed"]
    assert failed == ["authentication"]

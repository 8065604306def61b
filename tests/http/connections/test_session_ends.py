"""A directory says when the sessions that it opens shall end (`SessionNotOnOrAfter`)."""

from datetime import timedelta
from typing import Any

from tests.http.connections.scene import ConnectionScene
from tests.http.upstream.scene import ADA

HERS = f"user_id = (select id from users where email = '{ADA}')"


def ends(scene: ConnectionScene) -> list[dict[str, Any]]:
    return scene.people.rows(
        "select extract(epoch from ends_at - now()) between 0 and 1900 as soon, expires_at <= ends_at as whole"
        f" from sessions where {HERS} order by id"
    )


async def test_the_browsers_session_ends_then(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.directory.ends_in = timedelta(minutes=30)
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert ends(scene) == [{"soon": True, "whole": True}]
    scene.people.change(
        "update sessions set ends_at = ends_at - interval '1860 seconds', expires_at = least(expires_at, ends_at - interval '1860 seconds')"
    )
    assert await scene.who(tabs) is None


async def test_what_hangs_on_a_session_that_goes_on_ends_too_and_offline_access_stays(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.directory.ends_in = timedelta(days=200)
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    # One application's session hangs on the browser's, and another's has a life of its own.
    (browser,) = scene.people.rows(f"select id, user_id from sessions where {HERS}")
    for parent, depth in ((browser["id"], 1), (None, 0)):
        scene.people.change(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, parent_id, depth)"
            " values (%s, %s, now(), now(), now() + interval '1 day', %s, %s)",
            scene.postern.foundation.ids.new(),
            browser["user_id"],
            parent,
            depth,
        )
    assert [one["soon"] for one in ends(scene)] == [False, False, False]
    scene.directory.ends_in = timedelta(minutes=30)
    await scene.arrive(tabs, provider)
    assert [one["soon"] for one in ends(scene)] == [True, True, False]
    # A later end at the directory makes no session longer.
    scene.directory.ends_in = timedelta(hours=8)
    await scene.arrive(tabs, provider)
    assert [one["soon"] for one in ends(scene)] == [True, True, False]

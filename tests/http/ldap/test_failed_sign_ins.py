"""Failed sign-ins with a password of a directory, in the log of sign-ins: whose they are, why, and which organization sees them."""

from typing import Any

import pytest

from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.http.people import Person


def failed(scene: LdapScene) -> list[dict[str, Any]]:
    rows = scene.people.rows(
        "select login_events.user_id, provider, reason, slug from login_events"
        " left join organizations on organizations.id = organization_id where not success order by login_events.id"
    )
    return [dict(row) for row in rows]


async def by_application(scene: LdapScene, provider: str, name: str, password: str) -> int:
    tabs = scene.browser()
    tab = await tabs.tab().open(scene.asking())
    return (await scene.arrive(tabs, provider, name, password, query=f"?flow={tab.place.partition('flow=')[2]}")).status


async def test_each_failure_stands_in_the_log_with_its_reason(scene: LdapScene) -> None:
    said = "80090308: LdapErr: DSID-0C090449, comment: AcceptSecurityContext error, data {}, v4563"
    scene.directory.add("carol", refused_with=said.format("533"))
    scene.directory.add("dave", refused_with=said.format("775"))
    provider = await scene.active()
    await scene.arrive(scene.browser(), provider)
    ada = scene.identities()[0]["user_id"]
    for name, password in (("ada", "wrong"), ("nobody", PASSWORD), ("carol", PASSWORD), ("dave", PASSWORD)):
        assert (await scene.arrive(scene.browser(), provider, name, password)).status == 400
    assert [(one["user_id"], one["provider"], one["reason"], one["slug"]) for one in failed(scene)] == [
        (ada, "upstream", "wrong_password", None),
        (None, "upstream", "unknown_account", None),
        (None, "upstream", "not_vouched", None),
        (None, "upstream", "throttled", None),
    ]
    # It is the person's own log in which it stands, in words.
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert "Wrong password" in (await tabs.tab().open("/ui/sign-ins")).page.text


async def test_what_we_stop_stands_there_too(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=3)
    statuses = [(await scene.arrive(scene.browser(), provider, password="wrong")).status for _ in range(2)]
    assert statuses == [400, 429]
    assert [one["reason"] for one in failed(scene)] == ["wrong_password", "throttled"]


@pytest.mark.parametrize(("joins", "listed", "slug"), [(False, False, None), (True, True, None), (True, False, "acme")])
async def test_an_organization_sees_those_of_its_members_by_their_own_act(
    scene: LdapScene, joins: bool, listed: bool, slug: str | None
) -> None:
    provider = await scene.active()
    await scene.arrive(scene.browser(), provider)
    (identity,) = scene.identities()
    if joins:
        scene.tenants.join(Person(identity["user_id"], identity["user_id"], "ada@example.org"), scene.acme, listed=listed)
    assert await by_application(scene, provider, "ada", "wrong") == 400
    assert await by_application(scene, provider, "nobody", "wrong") == 400
    assert [(one["reason"], one["slug"]) for one in failed(scene)] == [("wrong_password", slug), ("unknown_account", None)]


async def test_a_test_of_the_connection_is_no_sign_in(scene: LdapScene) -> None:
    provider = await scene.active()
    await scene.test(provider, password="wrong")
    assert failed(scene) == []

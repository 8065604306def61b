"""An identity is connected to the account that asked for it, and to no other that is signed in in the same browser."""

from tests.http.browsing import choices
from tests.http.federation.arriving import SESSION_COOKIE, is_page
from tests.http.people import Person
from tests.http.upstream.scene import ADA, UpstreamScene


async def test_whoever_changes_the_account_on_the_way_to_a_provider_connects_nothing(scene: UpstreamScene) -> None:
    fake = scene.sits()
    ada = scene.people.add(ADA)
    scene.people.change("update users set email_verified_at = now(), password_hash = 'x' where id = %s", ada.user)
    scene.people.change("update sessions set proved_at = now()")
    bob: Person = scene.people.add("bob@example.org")
    tabs, theirs = scene.signed_in(ada, age=1), scene.signed_in(bob, age=1)
    tabs.cookies["__Host-postern_accounts"] = theirs.cookies[SESSION_COOKIE]
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    await tab.send(len(tab.page.forms) - 1)
    listed = await tabs.tab().open("/ui/accounts")
    await listed.send(account=choices(listed)[bob.email])
    back = fake.consent(tab.page.refresh)
    for _ in range(2):
        answer = await tabs.request("GET", back)
        if answer.status == 302:
            assert answer.header("location") == "/ui/settings/connections"
            continue
        is_page(answer, 409, "belongs to another account")
    assert scene.identities() == []

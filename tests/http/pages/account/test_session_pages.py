"""`/ui/sessions`: the places where a person is signed in, and how the person signs out there."""

from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import AccountPagesScene

PAGE = "/ui/sessions"


def opened_from(home: AccountPagesScene, parent: object, session: object) -> None:
    home.people.change("update sessions set parent_id = %s, depth = 1 where id = %s", parent, session)


async def test_each_session_with_what_it_is_for(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme", name="Acme Trading")
    shop = home.tenants.service(acme, "shop")
    device = home.device(name="Old phone", last_country="SE", last_city="Lund")
    there = home.elsewhere(shop)
    home.people.change("update sessions set device_id = %s where id = %s", device, there.session)
    child = home.elsewhere(acme)
    opened_from(home, home.ada.session, child.session)
    impersonation = home.elsewhere()
    owner = home.people.add("root@example.org", platform_owner=True)
    home.people.change("update sessions set impersonator_id = %s, impersonation_id = id where id = %s", owner.user, impersonation.session)
    home.people.change("update sessions set expires_at = now() where id = %s", home.elsewhere().session)
    text = (await home.open(PAGE)).page.text
    assert text.index("This session") < text.index("Shop Application of Acme Trading Old phone · Lund, SE")
    assert "Acme Trading Unknown device" in text
    assert "Opened from this session" in text
    assert "An administrator of this installation, on your behalf" in text
    assert text.count("Last used") == 4
    assert "root@example.org" not in text
    assert "Sign out everywhere else" in text


async def test_many_sessions_stand_on_several_pages(home: AccountPagesScene) -> None:
    for _ in range(20):
        home.elsewhere()
    first = await home.open(PAGE)
    assert "Page 1 of 2" in first.page.text
    assert "This session" in first.page.text
    second = await home.open(f"{PAGE}?page=2")
    assert "This session" not in second.page.text
    assert len([link for link in second.page.links if link.endswith("/end")]) == 1
    beyond = await home.open(f"{PAGE}?page=3")
    assert "No sessions on this page" in beyond.page.text


async def test_one_is_ended_with_what_was_opened_from_it(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    there, child, other = home.elsewhere(), home.elsewhere(acme), home.elsewhere()
    opened_from(home, there.session, child.session)
    await home.open(f"{PAGE}/{there.session}/end")
    assert "Your account, Unknown device" in home.tab.page.text
    assert "Acme, Unknown device" in home.tab.page.text
    form = home.form
    await home.send()
    assert home.tab.place == f"{PAGE}?done=ended"
    assert [home.lives(one) for one in (home.ada, there, child, other)] == [True, False, False, True]

    async def again() -> str | None:
        return (await home.tabs.request("POST", form.action, form.fields)).header("location")

    assert await all_at_once(again, again) == [f"{PAGE}?done=ended"] * 2
    (entry,) = home.audited("security.sessions.revoked")
    assert entry["details"] == {"sessions": 1, "session_id": str(there.session)}
    # The page does not ask about a session that has ended.
    assert (await home.open(f"{PAGE}/{there.session}/end")).status == 404


async def test_ones_own_ends_by_signing_out(home: AccountPagesScene) -> None:
    assert (await home.open(f"{PAGE}/{home.ada.session}/end")).place == PAGE
    token = home.tab.page.forms[0].fields["form_token"]
    answer = await home.tabs.request("POST", f"{PAGE}/{home.ada.session}/end", {"form_token": token})
    assert answer.header("location") == PAGE
    assert home.lives(home.ada)


async def test_all_others_end_at_once(home: AccountPagesScene) -> None:
    there, child = home.elsewhere(), home.elsewhere(home.tenants.add("acme"))
    opened_from(home, home.ada.session, child.session)
    await home.open(f"{PAGE}/end-others")
    assert "This signs you out of 1 other session" in home.tab.page.text
    assert "Acme" not in home.tab.page.text
    form = home.form
    await home.send()
    assert home.tab.place == f"{PAGE}?done=others"
    assert "Sign out everywhere else" not in home.tab.page.text
    assert [home.lives(one) for one in (home.ada, there, child)] == [True, False, True]
    again = await home.tabs.request("POST", form.action, form.fields)
    assert again.header("location") == f"{PAGE}?done=others"
    # No session is left to ask about.
    assert (await home.open(f"{PAGE}/end-others")).place == PAGE


async def test_somebody_elses_session_does_not_exist(home: AccountPagesScene) -> None:
    eve = home.people.add("eve@example.org")
    token = (await home.open(PAGE)).page.forms[0].fields["form_token"]
    for session in (eve.session, home.postern.foundation.ids.new(), "x"):
        for method in ("GET", "POST"):
            fields = {"form_token": token} if method == "POST" else None
            answer = await home.tabs.request(method, f"{PAGE}/{session}/end", fields)
            assert answer.status == 404
    assert home.lives(eve)

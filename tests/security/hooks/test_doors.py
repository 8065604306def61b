"""A hook at each way in: it is asked last of all, its no closes, its yes opens for twelve hours, and an owner gets in."""

from typing import Any, Final

import pytest

from tests.http.federation.arriving import Arriving, answer_in
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, Browser
from tests.security.hooks.hooked import Hooks, no

INTO: Final = {"org_slug": "acme", "service_slug": "app"}


def member(arriving: Arriving, role: str = "member") -> Person:
    return arriving.tenants.join(arriving.people.proved("grace@acme.example"), arriving.acme, role)


def verdicts(arriving: Arriving, person: Person) -> list[Any]:
    rows = arriving.people.rows("select hook_verdicts from sessions where user_id = %s and hook_verdicts is not null", person.user)
    return [said for row in rows for said in row["hook_verdicts"].values()]


async def test_an_application_gets_its_code_when_the_hook_says_go_on(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    arriving.allow(grace)
    async with hooks.of(arriving.acme) as hooked:
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        assert "code" in answer_in(tab.shown.header("location"))
    (asked,) = hooked.heard
    assert asked["user"] == {"sub": str(grace.user), "email": grace.email, "email_verified": True}
    assert asked["application"]["slug"] == "app"
    # It goes on from a session: the organization's own log has neither address nor device of it.
    assert not {"network", "device"} & set(asked)
    (said,) = verdicts(arriving, grace)
    assert (said["hook"], said["no"]) == (str(hooked.hook.id), False)
    headers = hooked.receiver.calls[0].headers
    assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= set(headers)


async def test_a_no_gives_no_code_and_says_our_words_alone(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    arriving.allow(grace)
    async with hooks.of(arriving.acme, no("place")):
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        assert arriving.codes() == []
        assert tab.status == 403
        hidden = await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking(prompt="none"))
        assert answer_in(hidden.shown.header("location"))["error"] == "access_denied"
    assert arriving.codes() == []


async def test_a_hidden_tab_makes_no_hook_hear_of_a_stranger(arriving: Arriving, hooks: Hooks) -> None:
    stranger = arriving.people.proved("stranger@example.org")
    listed = arriving.tenants.join(arriving.people.proved("listed@example.org"), arriving.acme, listed=True)
    async with hooks.of(arriving.acme) as own, hooks.of(None) as installation:
        for person in (stranger, listed):
            tab = await arriving.signed_in(person).tab().open(arriving.asking(prompt="none"))
            assert answer_in(tab.shown.header("location"))["error"] == "consent_required"
        tab = await arriving.browser().tab().open(arriving.asking(prompt="none"))
        assert answer_in(tab.shown.header("location"))["error"] == "login_required"
    assert own.heard == installation.heard == []


@pytest.mark.parametrize("role", ["owner", "platform"])
async def test_an_owner_gets_in_behind_a_hook_that_says_no_to_all(arriving: Arriving, hooks: Hooks, role: str) -> None:
    email = "boss@acme.example"
    boss = arriving.people.proved(email, platform_owner=role == "platform")
    arriving.tenants.join(boss, arriving.acme, "owner" if role == "owner" else "member")
    arriving.allow(boss)
    async with hooks.of(arriving.acme, no()) as own, hooks.of(None, no()):
        tab = await arriving.signed_in(boss).tab().open(arriving.asking())
        assert "code" in answer_in(tab.shown.header("location"))
        selected = await arriving.request("POST", "/api/organizations/acme/select", by=arriving.people.session_of(boss))
        assert selected.status == 200
        assert own.heard
        assert [one.outcome for one in await own.exchanges()] == ["no"] * len(own.heard)


async def test_an_owner_without_the_factor_gets_in_and_the_session_keeps_a_no(arriving: Arriving, hooks: Hooks) -> None:
    boss = member(arriving, "owner")
    async with hooks.of(arriving.acme, {"decision": "passkey"}) as hooked:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=boss)).status == 200
        assert [one.outcome for one in await hooked.exchanges()] == ["passkey"]
    (said,) = verdicts(arriving, boss)
    assert (said["hook"], said["no"]) == (str(hooked.hook.id), True)


async def test_an_administrator_who_is_no_owner_does_not(arriving: Arriving, hooks: Hooks) -> None:
    admin = member(arriving, "admin")
    async with hooks.of(arriving.acme, no("hour")):
        refused = await arriving.request("POST", "/api/organizations/acme/select", by=admin)
        assert (refused.status, refused.json()["error"]) == (
            403,
            "The organization has refused this sign-in: sign-in is not allowed at this time",
        )
        assert (await arriving.request("GET", "/api/organizations/acme", by=admin)).status == 403


async def test_the_organization_itself_opens_by_select_alone(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(arriving.acme) as hooked:
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 403
        assert hooked.heard == []
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 200
        (asked,) = hooked.heard
        # No application is named there.
        assert (asked["application"], asked["user"]) == (None, {"sub": str(grace.user)})
        assert set(asked) == {"point", "id", "at", "hook", "organization", "application", "scopes", "user", "way", "factors"}
        # Another name, so that the verdict is of another hook: one that was changed has none.
        await hooked.count()
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 403


async def test_a_yes_is_too_old_after_twelve_hours(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(arriving.acme):
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 200
        grow_old(arriving, 13)
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 403


def grow_old(arriving: Arriving, hours: int) -> None:
    arriving.people.change(
        "update sessions set hook_verdicts ="
        " (select jsonb_object_agg(key, value || jsonb_build_object('at', (value ->> 'at')::float8 - %s))"
        " from jsonb_each(hook_verdicts)) where hook_verdicts is not null",
        hours * 3600,
    )


async def test_a_hook_in_shadow_closes_nothing_and_is_recorded(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(arriving.acme, no(), counts=False) as hooked:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 200
        await hooked.until_asked(1)
        (exchange,) = await hooked.exchanges()
        assert (exchange.outcome, exchange.why, exchange.counted) == ("no", "place", False)
        assert grace.email not in exchange.sent
        assert str(grace.user) not in exchange.sent
        report = await arriving.postern.foundation.stores.hooks.report(hooked.hook.id)
        assert (report.asked, report.refused, report.silent) == (1, 1, 0)
    assert verdicts(arriving, grace) == []


async def test_a_sign_in_to_a_service_asks_after_the_factors(arriving: Arriving, hooks: Hooks) -> None:
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    browser = Browser(arriving.unlimited)
    async with hooks.of(arriving.acme) as hooked:
        assert (await browser.login(grace, "a wrong password", **INTO)).status == 401
        assert hooked.heard == []
        assert (await browser.login(grace, **INTO)).status == 200
        (asked,) = hooked.heard
        assert (asked["way"], asked["factors"]) == ("password", ["pwd"])
        assert set(asked["network"]) == {"address", "country"}
        assert asked["device"] == {"is_new": True}
        hooked.say(no("device"))
        before = sessions(arriving, grace)
        assert (await browser.login(grace, **INTO)).status == 403
        assert sessions(arriving, grace) == before
        # Where no organization is named, none is asked.
        assert (await browser.login(grace)).status == 200
        assert len(hooked.heard) == 2


async def test_a_first_sign_in_by_the_persons_own_act_is_asked_about(arriving: Arriving, hooks: Hooks) -> None:
    """A stranger to the organization: nothing but this sign-in makes the use of the service their own."""
    grace = await arriving.people.with_password(PASSWORD, "grace@elsewhere.example")
    browser = Browser(arriving.unlimited)
    async with hooks.of(arriving.acme, no("account")) as hooked:
        assert (await browser.login(grace, "a wrong password", **INTO)).status == 401
        assert hooked.heard == []
        assert (await browser.login(grace, **INTO)).status == 403
        assert arriving.people.rows("select 1 from service_users where user_id = %s", grace.user) == []
        hooked.say({"decision": "go_on"})
        assert (await browser.login(grace, **INTO)).status == 200
        assert [one["user"]["sub"] for one in hooked.heard] == [str(grace.user)] * 2
        # The yes stands in the session: what it opens next is open.
        (said,) = verdicts(arriving, grace)
        assert said["no"] is False


async def test_a_first_sign_in_by_consent_is_asked_about(arriving: Arriving, hooks: Hooks) -> None:
    grace = arriving.people.proved("grace@elsewhere.example")
    async with hooks.of(arriving.acme, no("account")) as hooked:
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        # The page is there, and the person has pressed nothing yet.
        assert (tab.status, hooked.heard) == (200, [])
        await tab.send(answer="allow")
        assert tab.status == 403
        (asked,) = hooked.heard
        assert asked["user"]["sub"] == str(grace.user)
        assert arriving.people.rows("select 1 from consents where user_id = %s", grace.user) == []
    assert arriving.codes() == []


def sessions(arriving: Arriving, person: Person) -> int:
    (row,) = arriving.people.rows("select count(*) as n from sessions where user_id = %s", person.user)
    return int(row["n"])


async def test_a_demand_for_a_factor_refuses_whoever_has_none(arriving: Arriving, hooks: Hooks) -> None:
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    async with hooks.of(arriving.acme, {"decision": "second_factor"}):
        refused = await Browser(arriving.unlimited).login(grace, **INTO)
        assert (refused.status, refused.json()["error"]) == (403, "The organization requires MFA for this sign-in")


async def test_the_installation_is_asked_first_and_its_no_asks_nobody_else(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(None, no()) as installation, hooks.of(arriving.acme) as own:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 403
        assert (len(installation.heard), len(own.heard)) == (1, 0)
        installation.say({"decision": "go_on"})
        own.say(no())
        # The stricter wins.
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 403
        # At the base address no hook is asked.
        assert (await arriving.request("GET", "/api/user", by=grace)).status == 200


async def test_a_yes_opens_nothing_that_a_rule_has_closed(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    arriving.people.change("update all_organizations set risk_counts_since = now() - interval '1 day' where id = %s", arriving.acme.id)
    arriving.people.change("update sessions set kept_out_by = array[%s]::uuid[] where id = %s", arriving.acme.id, grace.session)
    async with hooks.of(arriving.acme) as hooked:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 403
        arriving.allow(grace)
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        assert tab.place.startswith("/ui/sign-in")
    assert hooked.heard == []
    (row,) = arriving.people.rows("select let_in_by, kept_out_by from sessions where id = %s", grace.session)
    assert row == {"let_in_by": None, "kept_out_by": [arriving.acme.id]}


async def test_another_organization_hears_nothing_and_closes_nothing(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    globex = arriving.tenants.add("globex")
    arriving.tenants.join(grace, globex)
    async with hooks.of(globex, no()) as theirs:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200
        assert theirs.heard == []
        assert (await arriving.request("POST", "/api/organizations/globex/select", by=grace)).status == 403


async def test_a_flow_asks_three_times_at_most(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    async with hooks.of(arriving.acme, silence="go_on") as hooked:
        flows = arriving.postern.foundation.unit_of_work
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        (flow,) = arriving.people.rows("select id from flows")
        for expected in (True, True, True, False):
            async with flows() as uow:
                assert await uow.hooks.ask_in_flow(flow["id"], 3) is expected
                await uow.commit()
        # The person allows the application only now. The flow is over, whatever the hook's owner has chosen for a silence.
        await tab.send(answer="allow")
        assert "Start again from the application" in tab.page.text
        assert arriving.codes() == []
        assert hooked.heard == []
        (flow,) = arriving.people.rows("select completed_at from flows")
        assert flow["completed_at"] is not None

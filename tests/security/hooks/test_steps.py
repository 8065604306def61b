"""A hook asks for more on the way to an application, and the person gives it, page by page."""

import json

import trio

from tests.http.federation.arriving import Arriving, answer_in, left
from tests.http.pages.test_passkey_pages import passkey_of, use
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.receiver import Answer, Call
from tests.security.hooks.hooked import GO_ON, Hooks, saying


def until(shown: set[str], decision: str) -> Answer:
    """Asks for this until a sign-in shows one of these factors, as the receiver of an organization would."""

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        said = GO_ON if shown & set(json.loads(call.body)["factors"]) else {"decision": decision}
        return await saying(said)(stream, call)

    return answer


async def grace_of(arriving: Arriving) -> Person:
    grace = await arriving.people.with_password(PASSWORD, "grace@acme.example")
    arriving.allow(arriving.tenants.join(grace, arriving.acme))
    return grace


async def test_a_second_factor_is_asked_for_by_the_page_and_leads_on(arriving: Arriving, hooks: Hooks) -> None:
    grace = await grace_of(arriving)
    totp = await enable_mfa(arriving.unlimited, arriving.people, grace)
    async with hooks.of(arriving.acme, until({"mfa"}, "second_factor")) as hooked:
        # Signed in by a password alone, on a device that was trusted.
        browser = arriving.signed_in(arriving.people.session_of(grace))
        hidden = await browser.tab().open(arriving.asking(prompt="none"))
        assert answer_in(hidden.shown.header("location"))["error"] == "interaction_required"
        tab = await browser.tab().open(arriving.asking())
        assert tab.place.startswith("/ui/sign-in")
        tab = await tab.send(password=PASSWORD)
        assert arriving.codes() == []
        tab = await tab.send(code=totp.now())
        assert arriving.code(left(tab)["code"])["user_id"] == grace.user
        assert ["mfa" in one["factors"] for one in hooked.heard] == [False, False, True]
        assert (await hooked.exchanges())[0].outcome == "go_on"


async def test_a_passkey_is_asked_for_by_the_page_and_leads_on(arriving: Arriving, hooks: Hooks) -> None:
    grace = await grace_of(arriving)
    passkey = await passkey_of(arriving.unlimited, arriving.people, grace)
    async with hooks.of(arriving.acme, until({"hwk", "swk"}, "passkey")) as hooked:
        tab = await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking())
        assert tab.place.startswith("/ui/sign-in")
        # The password again is not what the hook asks for: the page says so, and nothing leads in a circle.
        refused = await tab.send(password=PASSWORD)
        assert refused.status == 403
        assert "requires a passkey" in refused.page.text
        assert arriving.codes() == []
        tab = await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking())
        # The page begins with the password of this account, and leads to the one that offers passkeys.
        (other,) = [one for one in tab.page.links if one.startswith("/ui/sign-in?")]
        tab = await use(await tab.open(other), passkey)
        assert arriving.code(left(tab)["code"])["user_id"] == grace.user
        assert hooked.heard[-1]["way"] == "passkey"


async def test_whoever_has_no_passkey_reads_what_is_missing(arriving: Arriving, hooks: Hooks) -> None:
    grace = await grace_of(arriving)
    async with hooks.of(arriving.acme, until({"hwk", "swk"}, "passkey")) as hooked:
        tab = await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking())
        assert tab.status == 403
        assert "requires a passkey" in tab.page.text
        assert len(hooked.heard) == 1
    assert arriving.codes() == []


async def test_a_page_of_the_console_asks_and_opens_or_says_no(arriving: Arriving, hooks: Hooks) -> None:
    """A browser has no `select`: the organization's own page is the way in."""
    admin = arriving.tenants.join(arriving.people.proved("admin@acme.example"), arriving.acme, "admin")
    async with hooks.of(arriving.acme, {"decision": "no", "reason": "hour"}) as hooked:
        tabs = arriving.signed_in(admin)
        tab = await tabs.tab().open("/ui/o/acme/people")
        assert (tab.status, len(hooked.heard)) == (403, 1)
        assert "It does not allow sign-ins at this time of day" in tab.page.text
        hooked.say(GO_ON)
        assert (await tabs.tab().open("/ui/o/acme/people")).status == 200
        assert (await tabs.tab().open("/ui/o/acme/settings")).status == 200
        # The yes stands in the session: the second page has asked nobody.
        assert len(hooked.heard) == 2
        assert all(one["user"] == {"sub": str(admin.user)} for one in hooked.heard)

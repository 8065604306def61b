"""What a hook refuses stands in the log of sign-ins: for the person, and for an organization that may know of the person's sign-ins."""

from typing import Any

from tests.http.federation.arriving import Arriving
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, Browser
from tests.receiver import answering
from tests.security.hooks.hooked import Hooks, no
from tests.security.hooks.test_doors import INTO, member

Rows = list[tuple[str | None, str, str | None]]


async def log_of(arriving: Arriving, owner: Person) -> Rows:
    listed = (await arriving.request("GET", "/api/organizations/acme/sign-ins", by=owner)).ok()["sign_ins"]
    return [(one["service_slug"], one["provider"], one["failure"]) for one in reversed(listed)]


def own_rows(arriving: Arriving, person: Person) -> list[dict[str, Any]]:
    return arriving.people.rows("select reason, organization_id, address from login_events where user_id = %s order by id", person.user)


def owner_of(arriving: Arriving) -> Person:
    return arriving.tenants.join(arriving.people.proved("owner@acme.example"), arriving.acme, "owner")


async def test_a_refused_login_says_what_the_hook_did(arriving: Arriving, hooks: Hooks) -> None:
    owner = owner_of(arriving)
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    browser = Browser(arriving.unlimited)
    async with hooks.of(arriving.acme, no("place")) as hooked:
        assert (await browser.login(grace, **INTO)).status == 403
        hooked.say({"decision": "passkey"})
        assert (await browser.login(grace, **INTO)).status == 403
        hooked.receiver.answer = answering(500)
        assert (await browser.login(grace, **INTO)).status == 403
        await hooked.count(counts=False)
        assert (await browser.login(grace, **INTO)).status == 200
        # The owner's own look at the log comes past the hook, and leaves nothing.
        rows = await log_of(arriving, owner)
    refused = ["refused_by_hook", "hook_wants_factor", "hook_silent"]
    assert rows == [("app", "password", failure) for failure in [*refused, None]]
    # They are no failed sign-ins for webhooks.
    assert len(arriving.people.rows("select from events where name like 'user.login%%'")) == 1


async def test_an_application_that_a_session_may_not_open_says_so_once(arriving: Arriving, hooks: Hooks) -> None:
    owner, grace = owner_of(arriving), member(arriving)
    arriving.allow(grace)
    async with hooks.of(arriving.acme, no("hour")):
        assert (await arriving.signed_in(grace).tab().open(arriving.asking())).status == 403
        # A hidden tab may come each minute, and leaves nothing.
        await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking(prompt="none"))
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 403
        assert await log_of(arriving, owner) == [("app", "session", "refused_by_hook"), (None, "session", "refused_by_hook")]
    # What goes on from a session has no address there.
    assert [row["address"] for row in own_rows(arriving, grace)] == [None, None]


async def test_an_organization_does_not_read_of_strangers(arriving: Arriving, hooks: Hooks) -> None:
    """Its hook has heard of the person by their own act; its log is for those whose sign-ins it may know of."""
    owner = owner_of(arriving)
    grace = await arriving.people.with_password(PASSWORD, "grace@elsewhere.example")
    async with hooks.of(arriving.acme, no("account")):
        assert (await Browser(arriving.unlimited).login(grace, **INTO)).status == 403
        assert await log_of(arriving, owner) == []
    assert [(row["reason"], row["organization_id"]) for row in own_rows(arriving, grace)] == [("refused_by_hook", None)]

"""A stream hears that an account was deleted, of people who used the application by their own act (RISC `account-purged`)."""

from uuid import UUID

from tests.http.client import Received
from tests.http.federation.signals.scene import CAEP, RISC, Signalling

PURGED = f"{RISC}account-purged"


async def forgotten(signalling: Signalling, person: UUID) -> Received:
    keeper = signalling.people.proved(platform_owner=True)
    token = await signalling.people.token(keeper, is_platform_owner=True)
    return await signalling.client.request("DELETE", f"/api/privacy/forget/{person}", token=token)


async def test_a_deleted_account_is_told(signalling: Signalling) -> None:
    stream = await signalling.polled()
    await signalling.signed_in(signalling.shop)
    # The use alone is what counts: an account may be no member.
    signalling.people.change("update memberships set own_since = null where user_id = %s", signalling.ada.user)
    (await forgotten(signalling, signalling.ada.user)).ok()
    found = list((await signalling.fetched(stream)).values())
    assert {uri for one in found for uri in one["events"]} == {f"{CAEP}session-revoked", PURGED}
    assert {one["sub_id"]["sub"] for one in found} == {str(signalling.ada.user)}
    (facts,) = [one["events"][PURGED] for one in found if PURGED in one["events"]]
    assert facts["reason_admin"] == {"en": "The account was deleted"}


async def test_of_a_listed_person_s_account_nothing_is_told(signalling: Signalling) -> None:
    await signalling.polled()
    signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
    signalling.people.change("update service_users set own_since = null where user_id = %s", signalling.ada.user)
    (await forgotten(signalling, signalling.ada.user)).ok()
    assert signalling.waiting() == 0
    assert signalling.people.rows("select from events where name = 'user.purged'") == []


async def test_applications_that_the_person_did_not_use_hear_nothing(signalling: Signalling) -> None:
    mine = await signalling.polled()
    stranger = signalling.resident(signalling.globex, "owner")
    path = "/api/organizations/globex/services/shop/signals"
    (await signalling.request("PUT", path, {"events": ["account-purged"]}, by=stranger)).ok()
    theirs = await signalling.polled(by=signalling.theirs)
    signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
    (await forgotten(signalling, signalling.ada.user)).ok()
    assert len(await signalling.fetched(mine)) == 1
    answer = await signalling.poll(theirs, by=signalling.theirs, returnImmediately=True)
    assert answer.ok()["sets"] == {}


async def test_an_owner_decides_whether_it_is_told(signalling: Signalling) -> None:
    await signalling.polled()
    await signalling.turned_on(events=["session-revoked"])
    signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
    (await forgotten(signalling, signalling.ada.user)).ok()
    assert signalling.waiting() == 0

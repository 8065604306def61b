"""Streams that a person granted, after the person's right has ended; and people who never had it."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import pytest

from core.domain.identifiers import PrivacyRequestId, ServiceId, UserId
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.relying import claims_of
from tests.http.federation.signals.granting import SCOPES, Granting
from tests.http.federation.signals.scene import STREAMS, delivery
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.receiver import answering, receiving
from tests.security.signals.test_callers import calls

MEMBERS: Final = "/api/organizations/acme/members"
Way = Callable[[Granting], Awaitable[None]]


@pytest.fixture
def granting(postern: Postern, people: People, log: CapturedLog) -> Granting:
    return Granting(postern, people, unlimited(postern), log)


async def loses_the_role(granting: Granting) -> None:
    (await granting.request("PATCH", f"{MEMBERS}/{granting.admin.user}", {"role": "member"}, by=granting.owner)).ok()


async def is_removed(granting: Granting) -> None:
    answer = await granting.request("POST", f"{MEMBERS}/{granting.admin.user}", by=granting.owner)
    assert answer.status in {200, 204}, answer.body


async def is_deactivated(granting: Granting) -> None:
    granting.people.change("update users set deactivated_at = now() where id = %s", granting.admin.user)


async def withdraws(granting: Granting) -> None:
    user = UserId(granting.admin.user)
    await granting.postern.federation.consents.revoke(user, ServiceId(granting.shop.service.id), Actor(user))


async def is_deleted(granting: Granting) -> None:
    async with granting.postern.foundation.unit_of_work() as uow:
        await uow.service_users.delete_account(UserId(granting.admin.user), PrivacyRequestId(uuid4()), datetime.now(UTC))
        await uow.commit()


async def are_turned_off(granting: Granting) -> None:
    await granting.turned_off()


WAYS: Final[Mapping[str, Way]] = {
    way.__name__: way for way in (loses_the_role, is_removed, is_deactivated, withdraws, is_deleted, are_turned_off)
}
GONE_AT_ONCE: Final = {"is_deleted", "are_turned_off"}


async def refused(granting: Granting, tokens: dict[str, Any], stream: str, status: int) -> None:
    for method, path, body in (*calls(stream), ("POST", STREAMS, {"delivery": delivery(8443)}), ("POST", f"/ssf/poll/{stream}", {})):
        answer = await granting.by_token(tokens, method, path, body)
        assert answer.status == status, (method, path, answer.body)


@pytest.mark.parametrize("name", WAYS)
async def test_nothing_is_told_after_the_right_ended(granting: Granting, name: str) -> None:
    """Neither what waited then, nor what comes after, by a push or by a poll of the application's own."""
    await granting.turned_on()
    async with receiving(answering(202)) as receiver:
        tokens = await granting.granted()
        pushed, polled = await granting.granted_stream(tokens, receiver), await granting.granted_poll(tokens)
        await granting.leaves()
        assert granting.waiting() == 2
        await WAYS[name](granting)
        await refused(granting, tokens, pushed, 403 if name == "are_turned_off" else 401)
        if name != "are_turned_off":
            assert (await granting.poll(polled, returnImmediately=True)).status == 404
            assert (await granting.call("GET", STREAMS)).body == b"[]"
        refreshed = await granting.refresh(granting.shop, tokens["refresh_token"])
        assert refreshed.status == 400 or "ssf" not in granting.kept(refreshed.ok())["scope"]
        granting.people.change("update logout_notices set tell_at = now() where tell_at is not null")
        async with granting.dispatching():
            # A stream of the application's own goes on hearing, and so the dispatcher has looked.
            if name == "are_turned_off":
                await granting.turned_on()
            async with receiving(answering(202)) as own:
                await granting.stream(own)
                await granting.leaves()
                await granting.heard(own)
        assert receiver.calls == []
    assert await granting.swept("EndedSignalGrants") == (0 if name in GONE_AT_ONCE else 2)
    assert [row for row in granting.streams() if row["granted_by"] is not None] == []
    if name not in GONE_AT_ONCE:
        ended = [entry for entry in granting.told() if entry["name"] == "signal_stream.deleted"]
        assert {entry["target_id"] for entry in ended} == {pushed, polled}
        assert {entry["actor_id"] for entry in ended} == {None}


async def test_a_stream_whose_right_lives_stays(granting: Granting) -> None:
    await granting.turned_on()
    tokens = await granting.granted()
    polled = await granting.granted_poll(tokens)
    own = await granting.polled(by=granting.shop)
    assert await granting.swept("EndedSignalGrants") == 0
    await granting.leaves()
    assert len((await granting.by_token(tokens, "POST", f"/ssf/poll/{polled}", {"returnImmediately": True})).ok()["sets"]) == 1
    assert len(await granting.fetched(own)) == 1


async def test_a_poll_that_waits_is_told_nothing_after_the_right_ended(granting: Granting) -> None:
    await granting.turned_on()
    tokens = await granting.granted()
    polled = await granting.granted_poll(tokens)
    found = await granting.postern.federation.signal_streams.resolve(tokens["access_token"], None)
    await loses_the_role(granting)
    await granting.leaves()
    assert await granting.postern.federation.signal_streams.callers.find_again(found) is None
    assert (await granting.by_token(tokens, "POST", f"/ssf/poll/{polled}", {"returnImmediately": True})).status == 401


async def test_an_owner_of_another_organization_grants_nothing_here(granting: Granting) -> None:
    await granting.turned_on()
    stranger = granting.resident(granting.globex, "owner")
    tokens = await granting.granted(stranger)
    assert tokens["scope"] == "openid offline_access"
    await refused(granting, tokens, str(uuid4()), 401)
    # A session that has the scopes anyway opens nothing, either.
    session = claims_of(tokens["access_token"])["sid"]
    granting.people.change("update sessions set scopes = scopes || '{ssf.manage,ssf.read}' where id = %s", session)
    granting.people.change("update consents set scopes = scopes || '{ssf.manage,ssf.read}' where user_id = %s", stranger.user)
    again = granting.kept((await granting.refresh(granting.shop, tokens["refresh_token"])).ok())
    assert again["scope"] == "openid offline_access"


@pytest.mark.parametrize("changed", [{"hosts": ["evil.example"]}, {"events": ["account-purged"]}])
async def test_a_page_that_was_open_while_hosts_or_events_changed_grants_nothing(granting: Granting, changed: dict[str, Any]) -> None:
    await granting.turned_on(hosts=["app.example.org"])
    tab = await granting.asked()
    await granting.turned_on(**{"hosts": ["app.example.org"], **changed})
    await tab.send(answer="allow")
    assert "Security events that Shop receives" in tab.page.text
    assert ("evil.example" in tab.page.text) == ("hosts" in changed)
    assert granting.people.rows("select from authorization_codes") == granting.people.rows("select from consents") == []
    assert (await granting.redeemed(await tab.send(answer="allow")))["scope"] == SCOPES


@pytest.mark.parametrize("digest", ["", "00" * 32, "x"])
async def test_a_form_without_what_the_page_showed_grants_nothing(granting: Granting, digest: str) -> None:
    await granting.turned_on()
    tab = await granting.asked()
    await tab.send(answer="allow", signals=digest)
    assert "Security events that Shop receives" in tab.page.text
    assert granting.people.rows("select from authorization_codes") == []


async def test_the_right_ends_while_the_page_is_open(granting: Granting) -> None:
    await granting.turned_on()
    tab = await granting.asked()
    await loses_the_role(granting)
    tokens = await granting.redeemed(await tab.send(answer="allow"))
    assert tokens["scope"] == "openid offline_access"
    assert granting.people.rows("select from consents where scopes && '{ssf.manage,ssf.read}'") == []


async def test_a_grant_to_read_changes_nothing(granting: Granting) -> None:
    await granting.turned_on()
    stream = await granting.granted_poll(await granting.granted())
    reads = await granting.granted(scope="openid ssf.read")
    before = granting.people.rows("select * from signal_streams")
    for method, path, body in (*calls(stream), ("POST", STREAMS, {"delivery": delivery(8443)})):
        assert (await granting.by_token(reads, method, path, body)).status == (200 if method == "GET" else 403), (method, path)
    assert granting.people.rows("select * from signal_streams") == before


async def test_a_session_that_somebody_else_opened_in_the_persons_name_opens_nothing(granting: Granting) -> None:
    """Such a session has no scopes of signals. Should one have them, they count for nothing."""
    await granting.turned_on()
    tokens = await granting.granted()
    (await granting.by_token(tokens, "GET", STREAMS)).ok()
    session = claims_of(tokens["access_token"])["sid"]
    granting.people.change("update sessions set exchanged_from = id where id = %s", session)
    assert (await granting.by_token(tokens, "GET", STREAMS)).status == 401
    granting.people.change("update sessions set exchanged_from = null, revoked_at = now() where id = %s", session)
    assert (await granting.by_token(tokens, "GET", STREAMS)).status == 401


async def test_the_persons_token_at_an_api_opens_nothing(granting: Granting) -> None:
    """Nor does a token for another use of the same session."""
    await granting.turned_on()
    tokens = await granting.granted()
    for token in (tokens["id_token"], tokens["refresh_token"]):
        assert (await granting.client.get(STREAMS, token=token)).status == 401

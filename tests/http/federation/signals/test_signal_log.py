"""What a stream was told, as members of its organization see it; and a proof of life that they ask for."""

from typing import Any
from uuid import uuid4

import pytest

from tests.http.federation.signals.scene import CAEP, SETTINGS, SSF, STATUS, Signalling
from tests.http.federation.signals.test_pushes import change_password
from tests.http.people import Person
from tests.receiver import answering, receiving


async def told(signalling: Signalling, stream: dict[str, Any], query: str = "", by: Person | None = None) -> list[dict[str, Any]]:
    path = f"{SETTINGS.format('shop')}/streams/{stream['stream_id']}/deliveries{query}"
    listed = (await signalling.request("GET", path, by=by or signalling.owner)).ok()
    rows: list[dict[str, Any]] = listed["deliveries"]
    return rows


async def test_the_list_has_what_was_told_of_both_queues(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        stream = await signalling.listening(receiver)
        signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
        await change_password(signalling)
        first, *_ = await signalling.heard(receiver)
        await signalling.settled()
        await signalling.leaves()
        _, second = await signalling.heard(receiver, 2)
        await signalling.settled()
    rows = await told(signalling, stream, by=signalling.resident(signalling.acme, "admin"))
    assert [(row["id"], row["event_type"]) for row in rows] == [
        (second["jti"], "session-revoked"),
        (first["jti"], "credential-change"),
    ]
    for row in rows:
        assert {name: row[name] for name in ("state", "response_status_code", "attempt_count", "next_retry_at", "delivery_error")} == {
            "state": "received",
            "response_status_code": 202,
            "attempt_count": 1,
            "next_retry_at": None,
            "delivery_error": None,
        }
    assert str(signalling.ada.user) not in str(rows)
    assert await told(signalling, stream, "?delivered=false") == []
    assert await told(signalling, stream, "?delivered=true") == rows
    path = f"{SETTINGS.format('shop')}/streams/{stream['stream_id']}/deliveries?limit=1"
    first_page = (await signalling.request("GET", path, by=signalling.owner)).ok()
    last_page = (await signalling.request("GET", f"{path}&after={first_page['next']}", by=signalling.owner)).ok()
    assert [first_page["deliveries"], last_page] == [[rows[0]], {"deliveries": [rows[1]], "next": None}]


async def test_the_list_says_what_became_of_each_signal(signalling: Signalling) -> None:
    async with receiving(answering(400, b'{"err": "invalid_key"}')) as receiver:
        stream = await signalling.listening(receiver)
        # A session that lives beside the one that ended.
        await signalling.signed_in(signalling.shop)
        await signalling.leaves()
        async with signalling.dispatching():
            await signalling.settled()
        assert [row["state"] for row in await told(signalling, stream)] == ["no_longer_told"]
        await signalling.signed_in(signalling.shop)
        (await signalling.client.post("/api/auth/logout", token=await signalling.people.token(signalling.ada))).ok()
        assert [row["state"] for row in await told(signalling, stream)] == ["waiting", "waiting", "no_longer_told"]
        async with signalling.dispatching():
            await signalling.heard(receiver)
            await signalling.settled()
    assert {(row["state"], row["delivery_error"]) for row in await told(signalling, stream)} == {
        ("no_longer_told", "no_longer_told"),
        ("told_with_another", "told_with_another"),
        ("given_up", "refused: invalid_key"),
    }


async def test_a_member_sends_a_verification(signalling: Signalling) -> None:
    admin = signalling.resident(signalling.acme, "admin")
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        stream = await signalling.listening(receiver, events_requested=[f"{CAEP}session-revoked"])
        path = f"{SETTINGS.format('shop')}/streams/{stream['stream_id']}/verification"
        assert (await signalling.request("POST", path, by=admin)).status == 204
        (claims,) = await signalling.heard(receiver)
        again = await signalling.request("POST", path, by=admin)
        await signalling.settled()
    assert claims["events"] == {f"{SSF}verification": {}}
    assert again.status == 429
    assert [row["event_type"] for row in await told(signalling, stream)] == ["verification"]
    (event,) = [one for one in signalling.told() if one["name"] == "signal_stream.verification"]
    assert (event["actor_id"], event["target_id"]) == (admin.user, stream["stream_id"])
    (entry,) = signalling.audited("signal_stream.tested")
    assert (entry["actor_id"], entry["target_id"]) == (admin.user, stream["stream_id"])


async def test_a_stream_that_its_application_disabled_is_sent_nothing(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        stream = await signalling.listening(receiver)
        (await signalling.call("POST", STATUS, {"stream_id": stream["stream_id"], "status": "disabled"})).ok()
        answer = await signalling.request(
            "POST", f"{SETTINGS.format('shop')}/streams/{stream['stream_id']}/verification", by=signalling.owner
        )
    assert answer.status == 400
    assert "signal_stream.verification" not in {one["name"] for one in signalling.told()}


@pytest.mark.parametrize(("method", "what"), [("GET", "deliveries"), ("POST", "verification")])
async def test_only_who_may_manage_webhooks_and_only_of_their_own(signalling: Signalling, method: str, what: str) -> None:
    async with receiving(answering(202)) as receiver:
        stream = (await signalling.listening(receiver))["stream_id"]
        member = signalling.resident(signalling.acme, "member")
        stranger = signalling.resident(signalling.globex, "owner")
        ours = SETTINGS.format("shop")
        for path, person, status in (
            (ours, member, 403),
            (ours, stranger, 403),
            (ours.replace("acme", "globex"), stranger, 404),
            (SETTINGS.format("page"), signalling.owner, 404),
            (SETTINGS.format("none"), signalling.owner, 404),
        ):
            answer = await signalling.request(method, f"{path}/streams/{stream}/{what}", by=person)
            assert answer.status == status, path
        assert (await signalling.request(method, f"{ours}/streams/{uuid4()}/{what}", by=signalling.owner)).status == 404
    assert signalling.waiting() == 0

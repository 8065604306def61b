"""What a stream hears: each end of a session, each changed credential, of people who are there by their own act."""

from datetime import timedelta
from typing import Any

import pytest
import trio

from core.domain.federation.signals import SIGNAL_RULES
from tests.http.federation.signals.scene import CAEP, SSF, STATUS, STREAMS, VERIFY, Signalling, delivery
from tests.patience import PATIENCE
from tests.receiver import answering, receiving


def kind(claims: dict[str, Any]) -> str:
    (uri,) = claims["events"]
    return str(uri).rpartition("/")[2]


async def test_a_sign_out_is_told(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        stream = await signalling.listening(receiver)
        person = await signalling.leaves()
        (claims,) = await signalling.heard(receiver)
        await signalling.settled()
    assert claims["sub_id"] == {"format": "iss_sub", "iss": stream["iss"], "sub": person}
    ((uri, facts),) = claims["events"].items()
    assert uri == f"{CAEP}session-revoked"
    assert facts["reason_admin"]["en"]
    assert "initiating_entity" not in facts
    # The list of logout notices, which the application has not asked for, stays empty.
    notices = await signalling.request("GET", "/api/organizations/acme/services/shop/logout-notices", by=signalling.owner)
    assert notices.ok()["logout_notices"] == []


async def test_a_verification_comes_back(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        stream = await signalling.listening(receiver)
        asked = {"stream_id": stream["stream_id"], "state": "b3Blbg"}
        assert (await signalling.call("POST", VERIFY, asked)).status == 204
        (claims,) = await signalling.heard(receiver)
        # One in ten seconds.
        answer = await signalling.call("POST", VERIFY, asked)
    assert (answer.status, int(answer.header("retry-after") or 99) <= 10) == (429, True)
    assert claims["sub_id"] == {"format": "opaque", "id": stream["stream_id"]}
    assert claims["events"] == {f"{SSF}verification": {"state": "b3Blbg"}}


async def test_two_sessions_that_end_at_once_are_one_event(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        for _ in range(2):
            await signalling.signed_in(signalling.shop)
        (await signalling.client.post("/api/auth/logout", token=await signalling.people.token(signalling.ada))).ok()
        assert signalling.waiting() == 2
        async with signalling.dispatching():
            await signalling.heard(receiver)
            await signalling.settled()
    assert len(receiver.calls) == 1
    assert sorted(map(str, signalling.errors())) == ["None", "told_with_another"]


async def test_a_session_beside_others_is_not_told(signalling: Signalling) -> None:
    """A signal names the person, so it would end the sessions that live."""
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        await signalling.signed_in(signalling.shop)
        await signalling.leaves()
        async with signalling.dispatching():
            await signalling.silent(receiver)
    assert signalling.errors() == ["no_longer_told"]


async def test_a_session_that_ran_out_is_told(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        await signalling.signed_in(signalling.shop)
        signalling.people.change("update signal_streams set created_at = now() - interval '1 hour'")
        ended = "update sessions set expires_at = now() - interval '2 minutes' where service_id = %s"
        signalling.people.change(ended, signalling.shop.service.id)
        await signalling.swept("ExpiredLogins")
        async with signalling.dispatching():
            (claims,) = await signalling.heard(receiver)
    assert claims["events"][f"{CAEP}session-revoked"]["initiating_entity"] == "policy"


async def test_nothing_from_before_the_stream_is_told(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.signed_in(signalling.shop)
        ended = "update sessions set expires_at = now() - interval '2 minutes' where service_id = %s"
        signalling.people.change(ended, signalling.shop.service.id)
        await signalling.listening(receiver)
        await signalling.swept("ExpiredLogins")
    assert signalling.errors() == []


async def change_password(signalling: Signalling) -> None:
    """Ada's first password, by a link that she asked for."""
    token = await signalling.people.token(signalling.ada)
    (await signalling.client.post("/api/user/set-password", {"new_password": "thirteen plums in a row"}, token=token)).ok()


async def test_a_changed_password_is_told(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        await signalling.listening(receiver, events_requested=[f"{CAEP}credential-change"])
        signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
        await change_password(signalling)
        (claims,) = await signalling.heard(receiver)
    facts = claims["events"][f"{CAEP}credential-change"]
    assert (facts["credential_type"], facts["change_type"]) == ("password", "create")
    assert claims["sub_id"]["sub"] == str(signalling.ada.user)


async def test_a_removed_passkey_is_told_without_its_name(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        await change_password(signalling)
        await signalling.listening(receiver, events_requested=[f"{CAEP}credential-change"])
        signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
        signalling.people.give_passkey(signalling.ada)
        token = await signalling.people.token(signalling.ada)
        (passkey,) = (await signalling.client.get("/api/user/passkeys", token=token)).ok()["passkeys"]
        removed = await signalling.client.request("DELETE", f"/api/user/passkeys/{passkey['id']}", token=token)
        assert removed.status in {200, 204}, removed.body
        (claims,) = await signalling.heard(receiver)
    facts = claims["events"][f"{CAEP}credential-change"]
    assert (facts["credential_type"], facts["change_type"]) == ("fido2-roaming", "delete")
    assert not {passkey["id"], passkey["name"]} & set(map(str, facts.values()))
    assert {str(entry["organization_id"]) for entry in signalling.audited("security.passkeys.changed")} == {
        "None",
        str(signalling.acme.id),
    }


@pytest.mark.parametrize("tie", ["service_users", "memberships"])
async def test_of_listed_people_nothing_is_told(signalling: Signalling, tie: str) -> None:
    """The use and the membership have both to be the person's own; for a sign-out, the use alone."""
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        await signalling.signed_in(signalling.shop)
        signalling.people.change(f"update {tie} set own_since = null where user_id = %s", signalling.ada.user)
        await change_password(signalling)
        (await signalling.client.post("/api/auth/logout", token=await signalling.people.token(signalling.ada))).ok()
    queued = signalling.people.rows("select event_name from webhook_deliveries where kind = 'signal'")
    assert queued == []
    assert signalling.waiting() == (0 if tie == "service_users" else 1)


async def test_what_may_not_be_told_any_more_is_not_sent(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver, events_requested=[f"{CAEP}credential-change"])
        signalling.tenants.uses(signalling.ada, signalling.shop.service, first=signalling.postern.foundation.clock.now())
        await change_password(signalling)
        assert signalling.waiting() == 1
        removed = await signalling.request("POST", f"/api/organizations/acme/members/{signalling.ada.user}", by=signalling.owner)
        assert removed.status in {200, 204}
        async with signalling.dispatching():
            await signalling.silent(receiver)
    assert signalling.errors() == ["no_longer_told"]


async def test_another_organization_hears_nothing(signalling: Signalling) -> None:
    """Globex lists Ada, and its shop has a stream: neither her sign-out at acme nor her new password is told there."""
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        signalling.tenants.join(signalling.ada, signalling.globex, listed=True)
        stranger = signalling.resident(signalling.globex, "owner")
        path = "/api/organizations/globex/services/shop/signals"
        body = {"events": ["session-revoked", "credential-change"], "hosts": ["127.0.0.1"]}
        (await signalling.request("PUT", path, body, by=stranger)).ok()
        theirs = await signalling.stream(receiver, by=signalling.theirs)
        await signalling.leaves()
        await change_password(signalling)
    told = signalling.people.rows(
        "select stream_id as id from logout_notices where stream_id is not null union select webhook_id from webhook_deliveries"
    )
    assert theirs["stream_id"] not in {str(row["id"]) for row in told}
    assert len(told) == 1


async def test_a_refusal_is_final_and_a_failure_is_not(signalling: Signalling) -> None:
    async with receiving(answering(400, b'{"err": "invalid_key"}')) as receiver, signalling.dispatching():
        await signalling.listening(receiver)
        await signalling.leaves()
        await signalling.heard(receiver)
        await signalling.settled()
        assert signalling.errors() == ["refused: invalid_key"]
        receiver.answer = answering(500)
        await signalling.leaves()
        await signalling.heard(receiver, 2)
    # A repeat is known as one by its id.
    assert receiver.calls[0].body != receiver.calls[1].body


async def test_a_repeat_has_the_same_id(signalling: Signalling) -> None:
    async with receiving(answering(503)) as receiver, signalling.dispatching():
        await signalling.listening(receiver)
        await signalling.leaves()
        await signalling.heard(receiver)
        with trio.fail_after(PATIENCE):
            while not signalling.people.rows("select from logout_notices where attempts = 1"):
                await trio.sleep(0.01)
        receiver.answer = answering(202)
        signalling.people.change("update logout_notices set tell_at = now() where tell_at is not null")
        signalling.people.change("update signal_streams set rests_until = null")
        first, second = await signalling.heard(receiver, 2)
    assert first == second
    assert SIGNAL_RULES.pauses[0] == timedelta(minutes=1)


async def test_a_paused_stream_waits_and_a_disabled_one_hears_nothing(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, signalling.dispatching():
        stream = await signalling.listening(receiver)
        for status, left in (("paused", 1), ("disabled", 1)):
            set_to = {"stream_id": stream["stream_id"], "status": status, "reason": "Maintenance"}
            assert (await signalling.call("POST", STATUS, set_to)).ok() == set_to
            await signalling.leaves()
            assert (signalling.waiting(), receiver.calls) == (left, [])
        (await signalling.call("POST", STATUS, {"stream_id": stream["stream_id"], "status": "enabled"})).ok()
        await signalling.heard(receiver)
        await signalling.settled()
    assert len(receiver.calls) == 1


async def test_the_header_goes_to_its_address_alone(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver, receiving(answering(202)) as other, signalling.dispatching():
        await signalling.turned_on()
        signalling.log.remember("Bearer fig")
        made = {"delivery": delivery(receiver.port, authorization_header="Bearer fig")}
        answer = await signalling.call("POST", STREAMS, made)
        assert b"fig" not in answer.body
        stream = answer.ok(201)["stream_id"]
        await signalling.leaves()
        await signalling.heard(receiver)
        assert receiver.calls[0].headers["authorization"] == "Bearer fig"
        # Another path of the same place keeps it, another place does not.
        (await signalling.call("PATCH", STREAMS, {"stream_id": stream, "delivery": delivery(receiver.port, "/two")})).ok()
        await signalling.leaves()
        await signalling.heard(receiver, 2)
        assert (receiver.calls[1].target, receiver.calls[1].headers["authorization"]) == ("/two", "Bearer fig")
        (await signalling.call("PATCH", STREAMS, {"stream_id": stream, "delivery": delivery(other.port)})).ok()
        await signalling.leaves()
        await signalling.heard(other)
        assert "authorization" not in other.calls[0].headers
    (kept,) = signalling.people.rows("select sealed_header from signal_streams")
    assert kept["sealed_header"] is None
    assert "fig" not in str(signalling.audited("signal_stream.%"))


async def test_an_event_that_an_owner_turns_off_is_told_no_more(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        stream = await signalling.listening(receiver)
        await signalling.turned_on(events=["credential-change"])
        await signalling.leaves()
        found = (await signalling.call("GET", f"{STREAMS}?stream_id={stream['stream_id']}")).ok()
    assert signalling.waiting() == 0
    assert found["events_delivered"] == [f"{CAEP}credential-change"]


async def test_a_stream_ends_with_the_owner_s_word_for_its_host(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        assert (await signalling.turned_on(hosts=["other.example"]))["streams"] == []
        await signalling.leaves()
        assert (await signalling.call("GET", STREAMS)).json() == []
    assert signalling.waiting() == 0
    assert len(signalling.audited("signal_stream.deleted")) == 1


async def test_turning_off_ends_all_streams(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver)
        await signalling.leaves()
        await signalling.turned_off()
        assert signalling.people.rows("select from signal_streams") == []
        async with signalling.dispatching():
            assert (await signalling.call("GET", STREAMS)).status == 403
        await signalling.swept("ForsakenSessionSignals")
        assert (signalling.waiting(), receiver.calls) == (0, [])


async def test_what_waits_too_long_is_given_up(signalling: Signalling) -> None:
    async with receiving(answering(202)) as receiver:
        await signalling.listening(receiver, events_requested=[f"{CAEP}session-revoked", f"{CAEP}credential-change"])
        await signalling.signed_in(signalling.shop)
        await change_password(signalling)
        (await signalling.client.post("/api/auth/logout", token=await signalling.people.token(signalling.ada))).ok()
        waiting = signalling.waiting()
        assert waiting >= 2
        for name in ("ForsakenSignals", "ForsakenSessionSignals"):
            await signalling.swept(name)
        assert signalling.waiting() == waiting
        for table in ("logout_notices", "webhook_deliveries"):
            signalling.people.change(f"update {table} set created_at = now() - interval '8 days'")
        for name in ("ForsakenSignals", "ForsakenSessionSignals"):
            await signalling.swept(name)
    # The word that signals were dropped waits.
    assert signalling.waiting() == 1

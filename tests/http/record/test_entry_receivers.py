"""Who has received what an entry of the audit log made Postern send, compared with what the receivers wrote down themselves."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import uuid4

import jwt
import pytest
import trio

from core.domain.federation.signals import MERGED, WITHDRAWN
from core.domain.record.entry_receivers import ENDS_SESSIONS, MOST_RECEIVERS, OFFBOARDING_ACTIONS, SKIPPED
from core.domain.record.event_types import AUDIT_ACTIONS
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_far_side import FakeFarSide
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.people import People
from tests.http.record.receiving_scene import DEAD, ReceivingScene, at
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.receiver import Call, answering, receiving


@pytest.fixture
def far() -> Iterator[FakeFarSide]:
    with FakeFarSide() as made:
        yield made


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, far: FakeFarSide) -> ReceivingScene:
    log.remember(far.token)
    return ReceivingScene(postern, people, unlimited(postern), log, far=far)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def logged_out(call: Call) -> str:
    """The subject of a logout token."""
    (token,) = [value for name, value in parse_qsl(call.body.decode()) if name == "logout_token"]
    return str(jwt.decode(token, options={"verify_signature": False})["sub"])


@dataclass
class HeardRemoval:
    """What the receivers wrote down of one removal, and the rows about it."""

    entry: str
    began: datetime
    rows: dict[tuple[str, str], dict[str, Any]]
    calls: Sequence[Call]
    pushed: Sequence[Call]
    late: Sequence[Call]
    webhook: str

    def at(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.target == path]


_BEFORE: Final = {
    ("webhook", "CRM", "user.removed"): "waiting",
    ("webhook", "Dead", "user.removed"): "waiting",
    ("webhook", "Other", "user.removed"): "not_sent",
    ("signal", "Shop", "session-revoked"): "waiting",
    ("signal", "Board", "session-revoked"): "waiting",
    ("logout_notice", "Shop", "logout_token"): "waiting",
    ("logout_notice", "Board", "logout_token"): "waiting",
    ("front_channel", "Page", None): "not_recorded",
    ("provisioning", "Board", None): "waiting",
    ("siem", "Our SIEM", None): "waiting",
}


async def removal_heard(scene: ReceivingScene, far: FakeFarSide) -> HeardRemoval:
    """Three webhooks, two streams, three applications, a target system and a SIEM. Dead receivers, and one that answers only in the end."""
    slow = trio.Event()

    async def slowly(stream: trio.abc.Stream, call: Call) -> bool:
        await slow.wait()
        return await answering(202)(stream, call)

    async with receiving(answering(200)) as ours, receiving(slowly) as late, receiving(answering(202)) as pushed:
        crm = await scene.webhook(at(ours, "/crm"), name="CRM")
        await scene.webhook(DEAD, name="Dead")
        await scene.webhook(at(ours, "/other"), "service.created", name="Other")
        await scene.turned_on()
        await scene.turned_on(scene.board)
        await scene.stream(pushed)
        await scene.stream(late, by=scene.board)
        await scene.notified(scene.shop, at(ours, "/shop"))
        await scene.notified(scene.board, DEAD)
        await scene.notified(scene.page, "https://app.example/out", "frontchannel_logout_uri")
        await scene.exported(at(ours, "/siem"))
        await scene.provisioned()
        assert there(scene, far)["active"] is True
        for application in (scene.shop, scene.shop, scene.board):
            await scene.signed_in(application)

        began = datetime.now(UTC)
        entry = await scene.removed()
        # Nothing has left yet.
        assert await scene.states(entry) == _BEFORE
        async with scene.delivering():
            await scene.link()
            await scene.sends()
            for kind, name in (("webhook", "CRM"), ("signal", "Shop"), ("logout_notice", "Shop"), ("siem", "Our SIEM")):
                await scene.until(entry, kind, "received", name)
            await tried(scene, entry, "webhook", "Dead")
            await tried(scene, entry, "logout_notice", "Board")
            with trio.fail_after(PATIENCE):
                await late.until(1)
            # The slow one has read it, and not said so.
            assert (await scene.one(entry, "signal", "Board"))["state"] == "waiting"
            slow.set()
            await scene.until(entry, "signal", "received", "Board")
        rows = {(one["kind"], one["name"]): one for one in await scene.receivers(entry)}
        return HeardRemoval(entry, began, rows, ours.calls, pushed.calls, late.calls, crm["id"])


async def tried(scene: ReceivingScene, entry: str, kind: str, name: str) -> None:
    with trio.fail_after(PATIENCE):
        while (await scene.one(entry, kind, name))["attempts"] == 0:
            await trio.sleep(0.02)


def there(scene: ReceivingScene, far: FakeFarSide) -> dict[str, Any]:
    """Ada in the target system."""
    (found,) = [one for one in far.everybody() if one["userName"] == scene.ada.email]
    return found


async def test_each_row_says_what_its_receiver_wrote_down(scene: ReceivingScene, far: FakeFarSide) -> None:
    heard = await removal_heard(scene, far)
    # The webhook: one event, of this entry.
    (call,) = heard.at("/crm")
    told = heard.rows["webhook", "CRM"]
    event = json.loads(call.body)
    assert (event["event"], event["target_id"]) == ("user.removed", str(scene.ada.user))
    assert (told["id"], told["sent"], told["count"]) == (heard.webhook, "user.removed", 1)
    assert (told["attempts"], told["response_status_code"], told["is_by_time"]) == (1, 200, False)
    assert heard.began <= moment(told["queued_at"]) <= moment(told["received_at"]) <= datetime.now(UTC)
    assert (heard.at("/other"), heard.rows["webhook", "Other"]["count"]) == ([], 0)
    # Dead: tried, and said why not.
    told = heard.rows["webhook", "Dead"]
    assert (told["state"], told["received_at"], told["attempts"]) == ("waiting", None, 1)
    assert told["error"]
    assert moment(told["next_attempt_at"]) > heard.began
    # The application: a logout token for each of two sessions.
    tokens = heard.at("/shop")
    told = heard.rows["logout_notice", "Shop"]
    assert (told["count"], told["is_by_time"], told["service_slug"]) == (len(tokens), True, "shop") == (2, True, "shop")
    assert {logged_out(one) for one in tokens} == {str(scene.ada.user)}
    assert heard.rows["logout_notice", "Board"]["error"]
    assert heard.rows["front_channel", "Page"]["received_at"] is None


async def test_streams_systems_and_the_siem_say_what_they_wrote_down(scene: ReceivingScene, far: FakeFarSide) -> None:
    heard = await removal_heard(scene, far)
    for calls, name in ((heard.pushed, "Shop"), (heard.late, "Board")):
        assert len(calls) == 1
        assert moment(heard.rows["signal", name]["received_at"]) >= heard.began
    # The target system.
    assert there(scene, far)["active"] is False
    told = heard.rows["provisioning", "Board"]
    assert (told["state"], told["sent"]) == ("received", "ended")
    assert heard.began <= moment(told["received_at"])
    # The SIEM has the entry, under its number.
    lines = [json.loads(line) for call in heard.at("/siem") for line in call.body.splitlines()]
    (line,) = [one for one in lines if one.get("entry") and one["entry"].get("id") == heard.entry]
    told = heard.rows["siem", "Our SIEM"]
    assert (told["state"], told["entry_number"], told["id"]) == ("received", line["sequence"], line["export_id"])
    assert told["exported_to"] == max(one["sequence"] for one in lines if one["stream"] == "audit")


async def test_a_lock_reaches_streams_by_its_event(scene: ReceivingScene) -> None:
    async with receiving(answering(202)) as pushed:
        await scene.listening(pushed)
        await scene.signed_in(scene.shop)
        entry = await scene.locked()
        states = await scene.states(entry)
        assert states["signal", "Shop", "account-disabled"] == states["signal", "Shop", "session-revoked"] == "waiting"
        async with scene.delivering():
            await scene.until(entry, "signal", "received")
        heard = {name.rpartition("/")[2] for call in pushed.calls for name in (await scene.verified(call))["events"]}
        assert heard == {"account-disabled", "session-revoked"}
        by_time = {one["sent"]: one["is_by_time"] for one in await scene.receivers(entry)}
        assert by_time == {"account-disabled": False, "session-revoked": True}


async def test_a_polled_stream_has_received_what_it_acknowledged(scene: ReceivingScene) -> None:
    stream = await scene.polled()
    await scene.signed_in(scene.shop)
    entry = await scene.removed()
    told = await scene.one(entry, "signal")
    assert (told["state"], told["url"], told["id"]) == ("waiting", None, stream)
    heard = await scene.fetched(stream)
    assert (await scene.one(entry, "signal"))["state"] == "waiting"
    await scene.fetched(stream, ack=list(heard))
    assert (await scene.one(entry, "signal"))["state"] == "received"


async def test_what_was_given_up_is_said(scene: ReceivingScene) -> None:
    async with receiving(answering(400)) as refusing:
        await scene.notified(scene.shop, at(refusing, "/out"))
        await scene.signed_in(scene.shop)
        entry = await scene.removed()
        async with scene.delivering():
            told = await scene.until(entry, "logout_notice", "given_up")
        assert (told["response_status_code"], told["error"], told["received_at"], told["next_attempt_at"]) == (
            400,
            "answered 400",
            None,
            None,
        )


async def test_another_persons_notices_are_no_rows(scene: ReceivingScene) -> None:
    """At the same moment, Bob signs out of the same application."""
    await scene.notified(scene.shop, DEAD)
    bob = scene.tenants.join(scene.people.proved("bob@example.org"), scene.acme)
    await scene.leaves(person=bob)
    entry = await scene.removed()
    assert (await scene.one(entry, "logout_notice"))["state"] == "not_sent"


async def test_notices_of_another_time_are_no_rows(scene: ReceivingScene) -> None:
    await scene.notified(scene.shop, DEAD)
    await scene.leaves()
    scene.people.change("update logout_notices set id = (%s || substr(id::text, 14))::uuid", "00000000-0000")
    entry = await scene.removed()
    assert (await scene.one(entry, "logout_notice"))["count"] == 0


async def test_signals_that_were_skipped_do_not_count(scene: ReceivingScene) -> None:
    assert {WITHDRAWN, MERGED} == set(SKIPPED)
    async with receiving(answering(202)) as pushed:
        await scene.listening(pushed)
        await scene.signed_in(scene.shop)
        entry = await scene.locked()
        for table, waits in (("logout_notices", "tell_at"), ("webhook_deliveries", "next_at")):
            scene.people.change(f"update {table} set {waits} = null, error = 'no_longer_told'")
        assert set((await scene.states(entry)).values()) == {"not_sent"}


async def test_an_entry_that_nobody_is_told_of_says_so(scene: ReceivingScene) -> None:
    """Webhooks never hear of revoked sessions; a failed act is told to nobody."""
    await scene.webhook(DEAD)
    for entry in (await scene.happens("security.sessions.revoked"), await scene.happens("user.removed", success=False)):
        assert await scene.states(entry) == {("webhook", "CRM", scene_action(scene, entry)): "not_sent"}


def scene_action(scene: ReceivingScene, entry: str) -> str:
    (row,) = scene.people.rows("select action from audit_entries where id = %s", entry)
    return str(row["action"])


async def test_two_acts_at_once_have_receipts_of_their_own(scene: ReceivingScene) -> None:
    """Two events of the same type about one person, the first of which was received."""
    async with receiving(answering(200)) as ours:
        await scene.webhook(at(ours, "/crm"))
        first = await scene.happens("user.removed")
        async with scene.delivering():
            await scene.until(first, "webhook", "received")
        second = await scene.happens("user.removed")
        assert [(await scene.one(one, "webhook"))["state"] for one in (first, second)] == ["received", "waiting"]


async def test_a_receiver_that_came_later_says_so(scene: ReceivingScene) -> None:
    entry = await scene.happens("user.removed")
    await scene.webhook(DEAD)
    await scene.notified(scene.shop, DEAD)
    states = await scene.states(entry)
    assert states["webhook", "CRM", "user.removed"] == "added_later"
    # An application is as old as it is, whenever it asked for notices.
    assert states["logout_notice", "Shop", "logout_token"] == "not_sent"


async def test_what_retention_has_removed_is_said(scene: ReceivingScene) -> None:
    await scene.webhook(DEAD)
    entry = await scene.happens("user.removed")
    assert (await scene.one(entry, "webhook"))["state"] == "waiting"
    scene.people.change("delete from webhook_deliveries")
    scene.people.change("update webhooks set created_at = now() - interval '80 days'")
    assert (await scene.one(entry, "webhook"))["state"] == "not_sent"
    scene.people.change("update audit_entries set created_at = created_at - interval '40 days' where id = %s", entry)
    told = await scene.one(entry, "webhook")
    assert told["state"] == "not_kept"
    assert timedelta(days=29) < datetime.now(UTC) - moment(told["not_kept_since"]) < timedelta(days=31)


async def test_a_deleted_receiver_is_named_by_the_log_alone(scene: ReceivingScene) -> None:
    async with receiving(answering(200)) as ours:
        webhook = await scene.webhook(at(ours, "/crm?key=fig"), name="Old CRM")
        entry = await scene.happens("user.removed")
        async with scene.delivering():
            await scene.until(entry, "webhook", "received")
        (await scene.request("DELETE", f"/api/organizations/acme/webhooks/{webhook['id']}", by=scene.owner)).ok()
    (told,) = await scene.receivers(entry)
    assert (told["kind"], told["id"], told["name"], told["state"]) == ("webhook", webhook["id"], "Old CRM", "not_kept")
    assert (told["url"], told["received_at"], told["error"]) == (None, None, None)
    assert moment(told["not_kept_since"]) <= datetime.now(UTC)
    # What was made and deleted after the entry never concerned it.
    later = await scene.webhook(DEAD, name="Later")
    (await scene.request("DELETE", f"/api/organizations/acme/webhooks/{later['id']}", by=scene.owner)).ok()
    assert [one["name"] for one in await scene.receivers(entry)] == ["Old CRM"]


async def test_an_application_that_was_deleted_is_said(scene: ReceivingScene) -> None:
    await scene.notified(scene.shop, DEAD)
    entry = await scene.removed()
    deleted = await scene.request("DELETE", "/api/organizations/acme/services/shop", by=scene.owner)
    assert deleted.status in {200, 204}, deleted.body
    (told,) = await scene.receivers(entry)
    assert (told["kind"], told["name"], told["state"]) == ("application", "Shop", "not_kept")


async def test_a_system_that_was_not_told_waits(scene: ReceivingScene) -> None:
    """The far side is away: the mark is taken and kept for the next run."""
    await scene.provisioned()
    entry = await scene.removed()
    scene.people.change("update provisioning_marks set marked_at = now() + interval '1 hour'")
    assert (await scene.one(entry, "provisioning"))["state"] == "waiting"
    # A mark that was lost, or that a stop of many ends put away, is no answer.
    scene.people.change("delete from provisioning_marks")
    assert (await scene.one(entry, "provisioning"))["state"] == "waiting"
    scene.people.change("update provisioning_connections set state = 'stopped'")
    told = await scene.one(entry, "provisioning")
    assert (told["state"], told["is_on"]) == ("given_up", False)


async def test_a_run_that_may_have_read_an_older_state_does_not_count(scene: ReceivingScene) -> None:
    await scene.provisioned()
    entry = await scene.removed()
    (mark,) = scene.people.rows("select connection_id, user_id, marked_at from provisioning_marks")
    await scene.sends()
    assert (await scene.one(entry, "provisioning"))["state"] == "received"
    scene.people.change("insert into provisioning_marks values (%s, %s, %s)", *mark.values())
    assert (await scene.one(entry, "provisioning"))["state"] == "waiting"
    # A mark of a later change leaves what was said before.
    scene.people.change("update provisioning_marks set marked_at = now() + interval '1 second'")
    assert (await scene.one(entry, "provisioning"))["state"] == "received"


async def test_whom_a_run_only_names_was_not_ended(scene: ReceivingScene) -> None:
    await scene.provisioned()
    entry = await scene.removed()
    await scene.sends()
    scene.people.change("update provisioning_runs set state = 'waiting' where kind = 'changes'")
    scene.people.change("update provisioned_people set active = true, changed_at = now() - interval '1 day'")
    assert (await scene.one(entry, "provisioning"))["state"] == "waiting"


async def test_somebody_whose_account_is_gone_leaves_no_record_there(scene: ReceivingScene) -> None:
    await scene.provisioned()
    entry = await scene.removed()
    await scene.sends()
    scene.people.change("delete from memberships where user_id = %s", scene.ada.user)
    scene.people.change("delete from users where id = %s", scene.ada.user)
    assert (await scene.one(entry, "provisioning"))["state"] == "not_kept"


async def test_a_person_has_the_acts_that_end_or_weaken(scene: ReceivingScene) -> None:
    await scene.webhook(DEAD)
    await scene.happens("user.joined")
    entries = [await scene.happens(name) for name in ("user.role_updated", "security.account.locked", "user.removed")]
    path = f"/api/organizations/acme/users/{scene.ada.user}/offboarding"
    told = (await scene.request("GET", path, by=scene.owner)).ok()
    assert told["user_id"] == str(scene.ada.user)
    assert [one["entry_id"] for one in told["entries"]] == entries[::-1]
    assert [[row["state"] for row in one["receivers"]] for one in told["entries"]] == [["waiting"], ["waiting"], ["not_sent"]]
    assert all(one["is_complete"] for one in told["entries"])
    for _ in range(12):
        await scene.happens("user.removed")
    assert len((await scene.request("GET", path, by=scene.owner)).ok()["entries"]) == 10
    nobody = (await scene.request("GET", f"/api/organizations/acme/users/{uuid4()}/offboarding", by=scene.owner)).ok()
    assert nobody["entries"] == []


async def test_no_more_than_the_most_are_shown_and_it_is_said(scene: ReceivingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_RECEIVERS == 500
    entry = await scene.happens("service.created")
    await scene.webhook(DEAD, "user.removed", name="A")
    await scene.webhook(DEAD, "user.removed", name="Z")
    entry = await scene.happens("user.removed")
    scene.people.change(
        "update webhook_deliveries set next_at = null, delivered_at = now() from webhooks where name = 'A' and webhook_id = webhooks.id"
    )
    monkeypatch.setattr("adapters.postgres.record.entry_receivers.MOST_RECEIVERS", 1)
    monkeypatch.setattr("core.usecases.record.MOST_RECEIVERS", 1)
    told = (await scene.asked(entry)).ok()
    # What nobody has accepted comes first, however it is called.
    assert ([one["name"] for one in told["receivers"]], told["is_complete"]) == (["Z"], False)


async def test_a_reader_without_the_right_to_a_receiver_sees_no_address_and_no_answer(scene: ReceivingScene) -> None:
    async with receiving(answering(503)) as ours:
        await scene.webhook(at(ours, "/crm?key=fig"))
        await scene.exported(at(ours, "/siem?key=fig"))
        await scene.notified(scene.shop, at(ours, "/out?key=fig"))
        await scene.provisioned()
        await scene.signed_in(scene.shop)
        entry = await scene.removed()
        async with scene.delivering():
            await scene.link()
            with trio.fail_after(PATIENCE):
                while (await scene.one(entry, "webhook"))["attempts"] == 0 or (await scene.one(entry, "logout_notice"))["attempts"] == 0:
                    await trio.sleep(0.02)
    reader = scene.tenants.member(
        scene.acme, scene.tenants.role(scene.acme, "auditor", [Capability.AUDIT_LOGS_VIEW]), "auditor@acme.example"
    )
    told = (await scene.asked(entry, by=reader)).ok()
    assert "fig" not in str(told)
    assert "answered" not in str(told)
    assert "127.0.0.1" not in str(told)
    for one in told["receivers"]:
        assert one["is_detailed"] is False
        assert (one["url"], one["attempts"], one["response_status_code"], one["error"]) == (None, None, None, None)
    for whole, bare in zip(await scene.receivers(entry), told["receivers"], strict=True):
        hidden = {"url", "attempts", "response_status_code", "error", "is_detailed"}
        assert {name: value for name, value in whole.items() if name not in hidden} == {
            name: value for name, value in bare.items() if name not in hidden
        }
        assert whole["is_detailed"] is True
    mere = scene.tenants.member(scene.acme, "member", "mere@acme.example")
    assert refused(await scene.asked(entry, by=mere))[0] == 403


def test_the_lists_name_actions_of_the_log() -> None:
    known = {one.name for one in AUDIT_ACTIONS}
    assert set(OFFBOARDING_ACTIONS) <= set(ENDS_SESSIONS) <= known


async def test_an_entry_of_another_organization_is_not_found(scene: ReceivingScene) -> None:
    theirs = await scene.happens("user.removed", tenant=scene.globex)
    await scene.webhook(DEAD)
    for entry in (theirs, str(uuid4())):
        assert refused(await scene.asked(entry))[0] == 404
    assert (await scene.asked(theirs, by=scene.stranger, of="globex")).ok()["receivers"] == []
    assert refused(await scene.asked(theirs, by=scene.stranger))[0] == 403
    told: dict[str, Any] = (await scene.request("GET", f"/api/organizations/acme/users/{scene.ada.user}/offboarding", by=scene.owner)).ok()
    assert told["entries"] == []

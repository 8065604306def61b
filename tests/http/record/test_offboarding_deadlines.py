"""The deadline of an organization for offboarding: who sets it, what it says, and what hears of a receiver that is late."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
import trio

from actors.watchers import OffboardingWatcher
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.offboarding import ACTS
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_far_side import FakeFarSide
from ports.system import Clock
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.record.receiving_scene import DEAD, ReceivingScene, at
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.receiver import answering, receiving

DEADLINE: Final = "/api/organizations/acme/offboarding-deadline"


@pytest.fixture
def far() -> Iterator[FakeFarSide]:
    with FakeFarSide() as made:
        yield made


class Watching(ReceivingScene):
    async def limited(self, **minutes: int | None) -> dict[str, Any]:
        said: dict[str, Any] = (await self.request("PUT", DEADLINE, minutes or {"removal_minutes": 60}, by=self.owner)).ok()
        return said

    async def looks(self) -> int:
        """A minute later, when every watched act is due."""
        self.people.change("update offboarding_deadlines set seen_to = seen_to - interval '1 minute'")
        self.people.change("update offboarding_watches set look_at = now()")
        return await self.postern.tenancy.late_receivers.look()

    def hours_later(self, hours: int) -> None:
        """As if the acts had been so long ago."""
        self.people.change("update offboarding_watches set act_at = act_at - make_interval(hours => %s)", hours)

    def late(self) -> list[tuple[str, str]]:
        rows = self.people.rows("select details from audit_entries where action = 'offboarding.late' order by id")
        return [(row["details"]["receiver_kind"], row["details"]["receiver"]) for row in rows]

    async def todos(self) -> int:
        found = (await self.request("GET", "/api/organizations/acme/todos", by=self.owner)).json()
        return sum(one["count"] for one in found if one["todo"] == "offboarding")


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, far: FakeFarSide) -> Watching:
    log.remember(far.token)
    return Watching(postern, people, unlimited(postern), log, far=far)


async def test_a_deadline_is_set_shown_changed_and_removed(scene: Watching) -> None:
    assert (await scene.request("GET", DEADLINE, by=scene.owner)).json() == {"configured": False}
    made = await scene.limited(removal_minutes=60, security_minutes=5)
    assert (made["configured"], made["removal_minutes"], made["access_minutes"], made["security_minutes"]) == (True, 60, None, 5)
    assert (await scene.request("GET", DEADLINE, by=scene.owner)).json() == made
    assert await scene.limited(removal_minutes=60, security_minutes=5) == made
    changed = await scene.limited(access_minutes=10080)
    assert (changed["removal_minutes"], changed["access_minutes"], changed["created_at"]) == (None, 10080, made["created_at"])
    for _ in range(2):
        assert (await scene.request("DELETE", DEADLINE, by=scene.owner)).status == 204
    assert (await scene.request("GET", DEADLINE, by=scene.owner)).json() == {"configured": False}
    logged = scene.people.rows("select action, details from audit_entries where action like 'offboarding.%%' order by id")
    assert [row["action"] for row in logged] == ["offboarding.deadline.set"] * 2 + ["offboarding.deadline.removed"]
    assert logged[0]["details"] == {"removal_minutes": 60, "access_minutes": None, "security_minutes": 5}


@pytest.mark.parametrize(
    "body", [{}, {"removal_minutes": None}, {"removal_minutes": 0}, {"access_minutes": 10081}, {"removal_minutes": 1.5}]
)
async def test_what_is_no_deadline_is_refused(scene: Watching, body: dict[str, Any]) -> None:
    assert (await scene.request("PUT", DEADLINE, body, by=scene.owner)).status == 400
    assert scene.people.rows("select from offboarding_deadlines") == []


async def test_roles_and_strangers(scene: Watching) -> None:
    reader = scene.tenants.join(scene.people.add(), scene.acme, scene.tenants.role(scene.acme, "reader", [Capability.AUDIT_LOGS_VIEW]))
    for person in (reader, scene.stranger, scene.ada):
        for method, body in (("GET", None), ("PUT", {"removal_minutes": 1}), ("DELETE", None)):
            assert (await scene.request(method, DEADLINE, body, by=person)).status == 403
    assert scene.people.rows("select from offboarding_deadlines") == []


async def test_two_who_set_it_at_once_leave_one(scene: Watching) -> None:
    async def limit(minutes: int) -> None:
        await scene.limited(removal_minutes=minutes)

    async with trio.open_nursery() as nursery:
        for minutes in (1, 2, 3, 4):
            nursery.start_soon(limit, minutes)
    assert len(scene.people.rows("select from offboarding_deadlines")) == 1


async def test_each_receiver_that_is_late_is_an_event_once_and_needs_attention_until_it_accepts(scene: Watching) -> None:
    async with receiving(answering(200)) as ours:
        await scene.webhook(at(ours, "/crm"), "user.removed", "offboarding.late", name="CRM")
        await scene.webhook(DEAD, name="Dead")
        await scene.webhook(at(ours, "/other"), "service.created", name="Other")
        await scene.exported(DEAD)
        await scene.notified(scene.board, DEAD)
        await scene.notified(scene.page, "https://app.example/out", "frontchannel_logout_uri")
        await scene.polled()
        await scene.provisioned()
        await scene.signed_in(scene.board)
        await scene.limited()
        entry = await scene.removed()
        async with scene.delivering():
            await scene.until(entry, "webhook", "received", "CRM")
            assert await scene.looks() == 0
            assert scene.late() == []
            assert await scene.todos() == 0
            scene.hours_later(2)
            assert await scene.looks() == 3
            assert sorted(scene.late()) == [("logout_notice", "Board"), ("provisioning", "Board"), ("webhook", "Dead")]
            assert await scene.todos() == 1
            # It is no act itself, and is told once.
            assert "offboarding.late" not in ACTS
            assert await scene.looks() == 0
            assert len(scene.late()) == 3
            # Of what is late, a webhook hears.
            with trio.fail_after(PATIENCE):
                await ours.until(4)
    # The target system hears of it at last, and the application is given a page that answers.
    await scene.sends()
    async with receiving(answering(200)) as mended:
        scene.people.change("update webhooks set url = %s, rests_until = null where name = 'Dead'", at(mended, "/dead"))
        scene.people.change("update webhook_deliveries set next_at = now() where next_at is not null")
        scene.people.change("delete from logout_notices")
        async with scene.delivering():
            await scene.until(entry, "webhook", "received", "Dead")
    assert await scene.looks() == 0
    assert await scene.todos() == 0


async def test_given_up_or_turned_off_with_something_waiting_is_late_at_once(scene: Watching) -> None:
    off = await scene.webhook(DEAD, name="Off")
    await scene.webhook(DEAD, name="Given up")
    await scene.webhook(DEAD, name="Waits")
    await scene.limited(removal_minutes=10080)
    await scene.removed()
    assert await scene.looks() == 0
    (await scene.request("PATCH", f"/api/organizations/acme/webhooks/{off['id']}", {"is_active": False}, by=scene.owner)).ok()
    scene.people.change(
        "update webhook_deliveries set next_at = null, attempts = 9 from webhooks where webhooks.id = webhook_id and name = 'Given up'"
    )
    assert await scene.looks() == 2
    assert sorted(scene.late()) == [("webhook", "Given up"), ("webhook", "Off")]


async def test_acts_of_before_and_of_kinds_without_a_deadline_are_not_watched(scene: Watching) -> None:
    await scene.webhook(DEAD)
    await scene.happens("security.account.locked")
    await scene.limited(security_minutes=1)
    await scene.happens("user.removed")
    await scene.happens("security.account.locked", success=False)
    await scene.looks()
    assert scene.people.rows("select from offboarding_watches") == []
    entry = await scene.happens("security.account.locked")
    await scene.looks()
    assert [str(row["entry_id"]) for row in scene.people.rows("select entry_id from offboarding_watches")] == [entry]
    # Without its deadline, it is watched no longer.
    await scene.limited(access_minutes=1)
    assert await scene.looks() == 0
    assert scene.people.rows("select from offboarding_watches") == []


async def test_an_organization_without_a_deadline_is_not_looked_at(scene: Watching) -> None:
    scene.log.remember((await scene.request("POST", "/api/organizations/globex/webhooks",
        {"name": "Theirs", "url": DEAD, "events": ["user.removed"]}, by=scene.stranger)).ok()["secret"])  # fmt: skip
    scene.tenants.join(scene.ada, scene.globex)
    await scene.limited()
    theirs = await scene.happens("user.removed", tenant=scene.globex)
    assert await scene.looks() == 0
    scene.hours_later(2)
    assert await scene.looks() == 0
    assert scene.people.rows("select from offboarding_watches where entry_id = %s", theirs) == []
    assert scene.people.rows("select from audit_entries where action = 'offboarding.late'") == []


class MinuteByMinute:
    """A clock that is a minute further at each look at it, as on a machine that takes so long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks = 0

    def now(self) -> datetime:
        self._looks += 1
        return self._clock.now() + timedelta(minutes=self._looks)


async def test_a_look_ends_however_long_it_takes(scene: Watching) -> None:
    await scene.limited()
    receivers = scene.postern.tenancy.late_receivers
    slow = replace(receivers, system=replace(receivers.system, clock=MinuteByMinute(receivers.system.clock)))
    with trio.fail_after(PATIENCE):
        assert await slow.look() == 0


async def test_of_two_processes_that_look_at_once_one_reports(scene: Watching) -> None:
    await scene.webhook(DEAD)
    await scene.limited()
    for _ in range(5):
        await scene.happens("user.removed")
    await scene.looks()
    scene.hours_later(2)
    scene.people.change("update offboarding_watches set look_at = now()")
    scene.people.change("update offboarding_deadlines set seen_to = seen_to - interval '1 minute'")
    found: list[int] = []

    async def look() -> None:
        found.append(await scene.postern.tenancy.late_receivers.look())

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(look)
    assert sum(found) == 5
    assert len(scene.late()) == 5


async def test_owners_have_a_mail_an_hour_at_most(scene: Watching) -> None:
    postbox = Postbox(scene.postern)
    await scene.webhook(DEAD)
    await scene.limited()

    async def missed() -> list[str]:
        await scene.happens("user.removed")
        await scene.looks()
        scene.hours_later(2)
        await scene.looks()
        return [one.subject for one in await postbox.empty() if "late" in one.subject]

    assert await missed() == ["Receivers of Acme are late"]
    assert await missed() == []
    # What was late meanwhile is told with the next.
    scene.people.change("update offboarding_deadlines set mailed_at = mailed_at - interval '1 hour'")
    await scene.looks()
    assert ["late" in one.subject for one in await postbox.empty()] == [True]


async def test_the_actor_looks(scene: Watching) -> None:
    await scene.webhook(DEAD)
    await scene.limited()
    await scene.happens("user.removed")
    await scene.looks()
    scene.hours_later(2)
    scene.people.change("update offboarding_watches set look_at = now()")
    scene.people.change("update offboarding_deadlines set seen_to = seen_to - interval '1 minute'")
    actor = OffboardingWatcher(
        scene.postern.tenancy.late_receivers, metrics=scene.postern.foundation.metrics, spread=lambda: 0.0, interval=0.05
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        with trio.fail_after(PATIENCE):
            while not scene.log.events("offboarding_late"):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert scene.log.events("offboarding_late")[0]["receivers"] == 1
    assert b"sso_offboarding_late_total 1.0" in scene.postern.foundation.metrics.render()


async def test_nothing_of_a_suspended_organization_is_late(scene: Watching) -> None:
    await scene.webhook(DEAD)
    await scene.limited()
    await scene.happens("user.removed")
    await scene.looks()
    scene.hours_later(2)
    scene.people.change("update organizations set status = 'suspended' where id = %s", OrganizationId(scene.acme.id))
    assert await scene.looks() == 0
    scene.people.change("update organizations set status = 'active' where id = %s", OrganizationId(scene.acme.id))
    assert await scene.looks() == 1
    assert refused(await scene.request("GET", DEADLINE, by=scene.stranger))

"""One id tells a story: the rows, jobs, mails, deliveries and log lines of a request name it, through the real actors."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import trio

from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from actors.job_worker import JobPace, Workplace
from actors.mailers import account_mailer, mailer
from core.domain.causes import causing_request, given_tail
from core.domain.identifiers import JobId
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.jobs import NewJob
from core.domain.mail import MAIL_JOB, Mail
from core.domain.record.event_types import WEBHOOK_TOPIC
from core.domain.record.stories import MOST_ROWS, Story, sought_story
from entrypoints.bootstrap import Postern
from ports.mail import MailDelayed
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.people import People
from tests.http.signing_in import LOGIN, unlimited
from tests.patience import PATIENCE
from tests.receiver import Receiver, answering, receiving

SECRET = "a long and quiet afternoon"
AT_ONCE = JobPace(poll=timedelta(milliseconds=200))
_DELAYED = "select 1 as one from jobs where state = 'waiting' and last_error is not null"
TABLES = ("audit_entries", "events", "webhook_deliveries", "login_events", "jobs")


class Transport:
    """Cannot take the first mail now. Keeps the request that was the cause of each attempt."""

    def __init__(self) -> None:
        self.causes: list[UUID | None] = []

    async def send(self, _mail: Mail, id: JobId) -> None:  # noqa: A002, ARG002 - the port's own word
        self.causes.append(causing_request())
        if len(self.causes) == 1:
            raise MailDelayed("busy", after=timedelta(0))

    async def check(self) -> str:
        return "here"


class Incident(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.transport = Transport()

    async def webhook(self, receiver: Receiver) -> None:
        body = {"name": "CRM", "url": f"http://127.0.0.1:{receiver.port}/", "events": ["user.invited"]}
        made = await self.request("POST", "/api/organizations/acme/webhooks", body)
        self.log.remember(made.ok(200)["secret"])

    async def invite(self, email: str = "new@acme.example") -> UUID:
        answer = await self.request("POST", "/api/organizations/acme/invitations", {"email": email, "role": "member"})
        answer.ok(200)
        return UUID(answer.header("x-request-id"))

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The actors that a serving process runs for mails and webhooks, in more of a hurry."""
        foundation = self.postern.foundation
        workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, lambda: 0.0)
        dispatcher: DeliveryDispatcher[Any, Any] = DeliveryDispatcher(
            "webhooks",
            self.postern.tenancy.deliveries,
            Mailbox.rung_by(foundation.doorbell, WEBHOOK_TOPIC),
            metrics=foundation.metrics,
            spread=lambda: 0.0,
            poll=0.2,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(foundation.doorbell.run)
            await nursery.start(account_mailer(self.postern.identity.account_mails, workplace, pace=AT_ONCE).run)
            await nursery.start(mailer(self.transport, workplace, pace=AT_ONCE).run)
            await nursery.start(dispatcher.run)
            yield
            nursery.cancel_scope.cancel()

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE):
            while not condition():
                await trio.sleep(0.01)

    def hurry(self) -> None:
        """What waits for a further attempt is due now."""
        self.people.change("update jobs set run_at = now() where state = 'waiting'")
        self.people.change("update webhook_deliveries set next_at = now() where next_at is not null")
        self.people.change("update webhooks set rests_until = null")
        for topic in (WEBHOOK_TOPIC, MAIL_JOB, ACCOUNT_MAIL_JOB):
            self.postern.foundation.doorbell.ring(topic)

    def caused(self, table: str) -> list[UUID | None]:
        return [row["request_id"] for row in self.people.rows(f"select request_id from {table} order by id")]

    def lines(self, *events: str) -> list[str | None]:
        return [entry.get("request_id") for event in events for entry in self.log.events(event)]

    async def story(self, text: str | UUID, since: datetime | None = None) -> Story:
        return await self.postern.record.stories.find(sought_story(str(text), since, None, datetime.now(UTC)))


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Incident:
    return Incident(postern, people, unlimited(postern), log)


async def test_a_sign_up_is_told_from_the_request_to_the_mail(scene: Incident, log: CapturedLog) -> None:
    log.remember(SECRET)
    answer = await scene.client.post("/api/auth/register", {"email": "ada@example.org", "password": SECRET})
    answer.ok(200)
    request = answer.header("x-request-id") or ""
    told = await scene.story(request)
    assert "audit entry" in {row.noun for row in told.rows}
    assert [(row.recipient, row.state) for row in told.rows if row.noun == "mail"] == [("***@example.org", "waiting")]
    assert {row.request for row in told.rows} == {UUID(request)}
    async with scene.working():
        # Of the two jobs, the mail's own is left: the job that queued it is done.
        await scene.until(lambda: bool(log.events("job_failed") and scene.people.rows(_DELAYED) and len(scene.caused("jobs")) == 1))
        assert scene.caused("jobs") == [UUID(request)]
        scene.hurry()
        await scene.until(lambda: bool(log.events("mail_sent")))
    assert scene.transport.causes == [UUID(request)] * 2, "another attempt follows from the same request"
    assert set(scene.lines("request", "account_mail_handled", "job_failed", "mail_sent")) == {request}
    assert all(set(scene.caused(table)) == {UUID(request)} for table in ("audit_entries", "events") if scene.caused(table))
    assert "mail" not in {row.noun for row in (await scene.story(request)).rows}, "a mail that has left leaves no row"


async def test_a_delivery_and_its_further_attempts_are_told(scene: Incident) -> None:
    async with receiving(answering(500)) as receiver:
        await scene.webhook(receiver)
        request = await scene.invite()
        async with scene.working():
            await receiver.until(1)
            await scene.until(lambda: bool(scene.people.rows("select 1 as one from webhook_deliveries where attempts = 1")))
            (delivery,) = [row for row in (await scene.story(request)).rows if row.noun == "delivery"]
            assert (delivery.state, delivery.attempts, delivery.error) == ("waiting, answered 500", 1, "answered 500")
            assert delivery.next_at is not None
            receiver.answer = answering(200)
            scene.hurry()
            await receiver.until(2)
            await scene.until(lambda: bool(scene.people.rows("select 1 as one from webhook_deliveries where delivered_at is not null")))
        assert scene.lines("webhook_attempted") == [str(request)] * 2
        assert str(request) not in repr(receiver.calls), "the receiver does not learn the id"
    told = await scene.story(request)
    rows = [row for row in told.rows if row.noun != "mail"]
    assert [(row.noun, row.what.partition(" ")[0], row.organization) for row in rows] == [
        ("audit entry", "user.invited", "acme"),
        ("event", "user.invited", "acme"),
        ("delivery", "user.invited", "acme"),
    ]
    assert rows[-1].state == "delivered, answered 200"
    assert [row.actor for row in rows] == [scene.owner.user, scene.owner.user, None]
    other = await scene.invite("another@acme.example")
    assert not {row.id for row in (await scene.story(other)).rows} & {row.id for row in told.rows}


async def test_a_replayed_delivery_follows_from_the_replay(scene: Incident) -> None:
    invited = await scene.invite()
    async with receiving(answering(200)) as receiver:
        await scene.webhook(receiver)
        (webhook,) = scene.people.rows("select id from webhooks")
        path = f"/api/organizations/acme/webhooks/{webhook['id']}/replay"
        answer = await scene.request("POST", path, {"since": (datetime.now(UTC) - timedelta(hours=1)).isoformat()})
        assert answer.ok(200)["queued"] == 1
        replayed = answer.header("x-request-id") or ""
        assert [row.noun for row in (await scene.story(replayed)).rows if row.noun == "delivery"] == ["delivery"]
        # A further attempt by hand goes on with the same story.
        (delivery,) = scene.people.rows("select id from webhook_deliveries")
        again = await scene.request("POST", path.replace("replay", f"deliveries/{delivery['id']}/redeliver"))
        again.ok(200)
        assert scene.caused("webhook_deliveries") == [UUID(replayed)]
        assert scene.caused("events")[0] == invited


async def test_sign_ins_are_told(scene: Incident) -> None:
    answer = await scene.client.post(LOGIN, {"email": scene.owner.email, "password": SECRET})
    assert answer.status == 401
    (sign_in,) = [row for row in (await scene.story(answer.header("x-request-id") or "")).rows if row.noun == "sign-in"]
    # Nobody knows who tried.
    assert (sign_in.what, sign_in.state, sign_in.actor) == (f"password user {scene.owner.user}", "failed: no_password", None)


@pytest.mark.parametrize("given", ["trace-7", "-" * 128, "..", "3f2504e04f8941d39a0c0305e82c3301"])
async def test_the_text_of_a_client_finds_the_story_and_reaches_no_table(scene: Incident, given: str) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    token = await scene.tenants.token(scene.owner)
    for slug in ("one", "two"):
        body = {"email": f"{slug}@acme.example", "role": "member"}
        answer = await scene.client.post("/api/organizations/acme/invitations", body, token=token, headers=[("x-request-id", given)])
        assert answer.header("x-request-id") == given
    told = await scene.story(given, before)
    assert len({row.request for row in told.rows}) == 2, "the client sent two requests under one id"
    assert all(row.request.version == 8 and str(row.request).endswith(given_tail(given)) for row in told.rows)
    assert scene.lines("request") == list(map(str, sorted({row.request for row in told.rows})))
    one = await scene.story(scene.lines("request")[0] or "")
    assert 0 < len(one.rows) < len(told.rows), "the id of a log line needs no time, and tells one of them"
    for table in TABLES:
        assert not scene.people.rows(f"select 1 as one from {table} as row where strpos(row::text, %s) > 0", given)


async def test_a_long_story_is_cut(scene: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.postgres.record.events.MOST_ROWS", 2)
    assert MOST_ROWS == 1_000
    request = await scene.invite()
    told = await scene.story(request)
    assert (len(told.rows), told.is_whole) == (2, False)


async def test_work_that_no_request_asked_for_names_none(scene: Incident) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}))
        await uow.commit()
    assert scene.caused("jobs") == [None]

"""Webhooks over HTTP: made, changed, listed; and delivered by the dispatcher to receivers on loopback."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
import trio
from standardwebhooks import Webhook

from actors import dispatcher
from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.deliveries import LEASE
from core.domain.record.event_types import EVENT_TYPES, WEBHOOK_EVENTS, WEBHOOK_TOPIC, Audience
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.webhooks import MOST_WEBHOOKS, WEBHOOK_DELIVERY_RULES
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.inviting import ACCEPT
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.receiver import CRUMBS, Call, answering, hanging_up, receiving, trickling

ACME: Final = "/api/organizations/acme/webhooks"
# Nobody listens there.
DEAD: Final = "http://127.0.0.1:1/"
# Where a test names somebody without need.
NOBODY: Final = str(uuid4())


class WebhookScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.admin = self.speaker = self.resident(self.acme, "admin")
        self.stranger = self.resident(self.globex, "owner")

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request(method, f"/api/organizations/{of}/webhooks{path}", body, by=by)

    async def made(self, url: str = DEAD, *events: str, name: str = "", of: str = "acme") -> dict[str, Any]:
        body = {"name": name or f"to {url} {uuid4()}", "url": url, "events": list(events) or ["user.joined"]}
        webhook = (await self.ask("POST", "", body, of=of, by=self.stranger if of == "globex" else None)).ok(200)
        self.log.remember(webhook["secret"])
        return webhook

    async def happens(self, name: str = "user.joined", *, to: UUID | None = None, count: int = 1, **personal: str) -> None:
        async with self.postern.foundation.unit_of_work() as uow:
            for number in range(count):
                actor = Actor(UserId(self.admin.user))
                target = Target("user", str(self.owner.user))
                await uow.record(Event(name, actor, target, OrganizationId(to or self.acme.id), {"number": number}, personal=personal))
            await uow.commit()

    async def deliveries(self, webhook: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.ask("GET", f"/{webhook['id']}/deliveries{query}")).ok(200)["deliveries"]
        return listed

    async def when(self, condition: Callable[[], Awaitable[bool]]) -> None:
        with trio.fail_after(PATIENCE):
            while not await condition():
                await trio.sleep(0.01)

    async def settled(self, webhook: dict[str, Any], attempts: int = 1) -> dict[str, Any]:
        """The webhook's newest delivery, once it has had this many attempts."""

        async def done() -> bool:
            return int((await self.deliveries(webhook))[0]["attempt_count"]) >= attempts

        await self.when(done)
        return (await self.deliveries(webhook))[0]

    @asynccontextmanager
    async def dispatching(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.postern.foundation.doorbell.run)
            await nursery.start(self.dispatcher().run)
            yield
            nursery.cancel_scope.cancel()

    def dispatcher(self) -> DeliveryDispatcher[Any, Any]:
        postern = self.postern
        return DeliveryDispatcher(
            "webhooks",
            postern.tenancy.deliveries,
            Mailbox.rung_by(postern.foundation.doorbell, WEBHOOK_TOPIC),
            metrics=postern.foundation.metrics,
            spread=lambda: 0.0,
            poll=0.2,
        )

    def due_again(self) -> None:
        self.people.change("update webhook_deliveries set next_at = now() where next_at is not null")
        self.postern.foundation.doorbell.ring(WEBHOOK_TOPIC)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> WebhookScene:
    return WebhookScene(postern, people, unlimited(postern), log)


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/hooks?x=1"


def verified(webhook: dict[str, Any], call: Call) -> Any:
    """Verified by another author's implementation."""
    return Webhook(webhook["secret"]).verify(call.body, dict(call.headers))


async def test_a_webhook_is_made_and_its_secret_shown_once(scene: WebhookScene) -> None:
    made = await scene.made("https://crm.example.org/hooks?token=abc", "user.removed", "user.joined", "user.joined", name=" CRM ")
    assert made.pop("secret").startswith("whsec_")
    assert made == {
        "id": made["id"],
        "name": "CRM",
        "url": "https://crm.example.org/hooks?token=abc",
        "events": ["user.joined", "user.removed"],
        "is_active": True,
        "paused_at": None,
        "failing_since": None,
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
    }
    assert (await scene.ask("GET")).ok(200) == {"webhooks": [made], "total": 1}
    assert (await scene.ask("GET", f"/{made['id']}")).ok(200) == made
    (entry,) = scene.audited("webhook.created")
    assert (entry["target_type"], entry["target_id"], entry["actor_id"]) == ("webhook", made["id"], scene.admin.user)
    # A URL may contain a secret of the receiver.
    assert entry["details"] == {"name": "CRM", "host": "crm.example.org", "events": ["user.joined", "user.removed"], "is_active": True}
    (kept,) = scene.people.rows("select sealed_secret from webhooks")
    assert b"whsec_" not in kept["sealed_secret"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 101),
        ("url", ""),
        ("url", "crm.example.org"),
        ("url", "ftp://crm.example.org/"),
        ("url", "http://user:pass@crm.example.org/"),
        ("events", []),
        ("events", ["user.vanished"]),
        ("events", ["webhook.tested"]),
        ("events", ["user.joined"] * 1000),
        *(("events", [one.name]) for one in EVENT_TYPES if one.audience is not Audience.ORGANIZATION or not one.published),
    ],
)
async def test_what_is_wrong_is_refused(scene: WebhookScene, field: str, value: Any) -> None:
    body = {"name": "CRM", "url": "https://crm.example.org/", "events": ["user.joined"]}
    answer = await scene.ask("POST", "", {**body, field: value})
    assert answer.status == 400
    assert answer.json()["error"].startswith(f"{field}: ")
    if field == "events" and value:
        assert all(one.name in answer.json()["error"] for one in WEBHOOK_EVENTS)
    assert scene.people.rows("select id from webhooks") == []
    made = await scene.made()
    assert (await scene.ask("PATCH", f"/{made['id']}", {field: value})).status == 400


async def test_addresses_that_are_never_called_are_refused_at_once(scene: WebhookScene) -> None:
    for address in HOSTILE_ADDRESSES:
        if address not in {"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"}:
            host = f"[{address}]" if ":" in address else address
            answer = await scene.ask("POST", "", {"name": "x", "url": f"http://{host}/", "events": ["user.joined"]})
            assert (answer.status, "not public" in answer.json()["error"]) == (400, True), address


async def test_names_are_unique_within_an_organization(scene: WebhookScene) -> None:
    first, _ = await scene.made(name="CRM"), await scene.made(name="CRM", of="globex")
    body = {"name": "CRM", "url": DEAD, "events": ["user.joined"]}
    assert (await scene.ask("POST", "", body)).status == 400
    second = await scene.made(name="other")
    assert (await scene.ask("PATCH", f"/{second['id']}", {"name": "CRM"})).status == 400
    assert (await scene.ask("PATCH", f"/{first['id']}", {"name": "CRM"})).status == 200


async def test_an_organization_has_a_bounded_number(scene: WebhookScene) -> None:
    scene.people.change(
        "insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)"
        " select gen_random_uuid(), %s, n::text, 'http://x', '{user.joined}', '', now(), now() from generate_series(1, %s) as n",
        scene.acme.id,
        MOST_WEBHOOKS,
    )
    answer = await scene.ask("POST", "", {"name": "x", "url": DEAD, "events": ["user.joined"]})
    assert (answer.status, str(MOST_WEBHOOKS) in answer.json()["error"]) == (400, True)


async def test_a_change_is_recorded_with_the_earlier_values(scene: WebhookScene) -> None:
    made = await scene.made("https://a.example/", name="CRM")
    assert (await scene.ask("PATCH", f"/{made['id']}", {})).status == 400
    assert (await scene.ask("PATCH", f"/{made['id']}", {"is_active": True})).ok(200)["updated_at"] == made["updated_at"]
    patch = {"name": "New", "url": "https://b.example/", "events": ["user.removed"], "is_active": False}
    changed = (await scene.ask("PATCH", f"/{made['id']}", patch)).ok(200)
    assert {name: changed[name] for name in patch} == patch
    (entry,) = scene.audited("webhook.updated")
    assert entry["details"] == {
        "name": "New",
        "old_name": "CRM",
        "new_name": "New",
        "old_host": "a.example",
        "new_host": "b.example",
        "url_changed": True,
        "old_events": ["user.joined"],
        "new_events": ["user.removed"],
        "old_is_active": True,
        "new_is_active": False,
    }
    assert (await scene.ask("DELETE", f"/{made['id']}")).ok(200) == {}
    assert (await scene.ask("GET", f"/{made['id']}")).status == 404
    assert len(scene.audited("webhook.deleted")) == 1


async def test_an_event_and_the_deletion_of_its_webhook_do_not_wait_for_each_other(scene: WebhookScene, database_url: str) -> None:
    """A sign-in publishes events, too. Its delivery to a webhook that is deleted at this moment is deleted a little later."""
    webhook, other = await scene.made(), await scene.made()
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.record(Event("user.joined", SYSTEM, Target("user", str(uuid4())), organization=OrganizationId(scene.acme.id)))
        assert await uow.webhooks.count(OrganizationId(scene.acme.id)) == 2
        with psycopg.connect(database_url) as connection:
            connection.execute("select from webhooks for update nowait")
        (await scene.ask("DELETE", f"/{webhook['id']}")).ok()
        await uow.commit()
    assert (await scene.ask("GET", f"/{webhook['id']}/deliveries")).status == 404
    (sweep,) = [one for one in _sweeps(scene.postern) if one.name == "DeliveriesOfNobody"]
    assert (await sweep.delete_expired(10), await sweep.delete_expired(10)) == (1, 0)
    assert [str(row["webhook_id"]) for row in scene.people.rows("select webhook_id from webhook_deliveries")] == [other["id"]]


async def test_deliveries_of_deleted_webhooks_go_a_few_at_a_time(scene: WebhookScene) -> None:
    webhooks = [await scene.made(name=f"webhook {number}") for number in range(3)]
    await scene.happens(count=3)
    for webhook in webhooks[:2]:
        (await scene.ask("DELETE", f"/{webhook['id']}")).ok()
    (sweep,) = [one for one in _sweeps(scene.postern) if one.name == "DeliveriesOfNobody"]
    assert [await sweep.delete_expired(4) for _ in range(3)] == [4, 2, 0]
    assert len(await scene.deliveries(webhooks[2])) == 3


async def test_anothers_webhook_is_not_found(scene: WebhookScene) -> None:
    theirs = await scene.made(of="globex")
    delivery = uuid4()
    asked: tuple[tuple[str, str, Any], ...] = (
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("GET", "/deliveries", None),
        ("POST", "/rotate-secret", None),
        ("POST", "/test", None),
        ("POST", "/replay", {"since": "2026-01-01T00:00:00Z"}),
        ("POST", f"/deliveries/{delivery}/redeliver", None),
    )
    for method, path, body in asked:
        assert (await scene.ask(method, f"/{theirs['id']}{path}", body)).status == 404, path
    assert (await scene.ask("GET", "", by=scene.stranger)).status == 403


async def test_event_types_say_what_they_tell(scene: WebhookScene) -> None:
    types: Any = (await scene.ask("GET", "/event-types")).json()
    assert [one["value"] for one in types] == [one.name for one in WEBHOOK_EVENTS]
    assert set(types[0]) == {"value", "label", "category", "description", "example"}


async def test_an_event_is_delivered_and_anybody_can_verify_it(scene: WebhookScene) -> None:
    async with receiving(answering(200, b"thanks")) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        await scene.happens(email="ada@example.org")
        delivery = await scene.settled(webhook)
    (call,) = receiver.calls
    (event,) = scene.people.rows("select * from events where name = 'user.joined'")
    payload = {
        "event": "user.joined",
        "timestamp": event["occurred_at"].astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "organization_id": str(scene.acme.id),
        "actor_user_id": str(scene.admin.user),
        "actor_email": scene.admin.email,
        "target_type": "user",
        "target_id": str(scene.owner.user),
        "data": {"number": 0, "email": "ada@example.org"},
    }
    assert verified(webhook, call) == payload == json.loads(call.body)
    assert (call.target, call.headers["content-type"]) == ("/hooks?x=1", "application/json")
    assert call.headers["webhook-id"] == str(event["id"])
    assert call.headers["x-webhook-event"] == "user.joined"
    assert call.headers["x-webhook-delivery"] == delivery["id"]
    assert delivery == {
        "id": delivery["id"],
        "webhook_id": webhook["id"],
        "webhook_name": webhook["name"],
        "event_type": "user.joined",
        "payload": payload,
        "response_status_code": 200,
        "response_body": "thanks",
        "attempt_count": 1,
        "max_attempts": 5,
        "next_retry_at": None,
        "delivered": True,
        "delivery_error": None,
        "created_at": delivery["created_at"],
        "updated_at": delivery["updated_at"],
    }


async def test_an_account_that_a_services_key_makes_is_delivered_to_its_organization_alone(scene: WebhookScene) -> None:
    """By the interface, a new user of `POST /api/service/users` is told as a sign-up, and a known one is not."""
    scene.tenants.service(scene.acme, "shop")
    wanted = {"name": "Backend", "permissions": ["read:users", "write:users"]}
    key = (await scene.request("POST", "/api/organizations/acme/services/shop/api-keys", wanted, by=scene.owner)).ok(201)["key"]
    scene.log.remember(key)
    async with receiving(answering(200, b"thanks")) as receiver, scene.dispatching():
        theirs = await scene.made(url(receiver.port), "user.signup.success", of="globex")
        webhook = await scene.made(url(receiver.port), "user.signup.success", "user.joined")
        made = []
        for email in ("new@shop.example", "new@shop.example", scene.stranger.email):
            asked = await scene.client.request("POST", "/api/service/users", body={"email": email}, headers=[("x-api-key", key)])
            made.append(asked.ok()["id"])
        await scene.when(lambda: all_delivered(scene, webhook, 2))
    told = sorted((json.loads(call.body)["event"], json.loads(call.body)["target_id"]) for call in receiver.calls)
    assert told == [("user.joined", str(scene.stranger.user)), ("user.signup.success", made[0])]
    assert (await scene.ask("GET", f"/{theirs['id']}/deliveries", of="globex", by=scene.stranger)).ok()["deliveries"] == []


async def all_delivered(scene: WebhookScene, webhook: dict[str, Any], count: int) -> bool:
    return [one["delivered"] for one in await scene.deliveries(webhook)] == [True] * count


async def test_a_delivery_says_whom_or_what_it_is_about(scene: WebhookScene) -> None:
    told = ("user.invited", "user.joined", "user.removed", "service.created", "plan.created", "plan.updated", "plan.deleted")
    webhook = await scene.made(DEAD, *told)
    invited = (await scene.request("POST", "/api/organizations/acme/invitations", {"email": "new@acme.example", "role": "member"})).ok()
    guest = scene.people.add("new@acme.example")
    scene.people.change("update users set email_verified_at = now() where id = %s", guest.user)
    scene.log.remember(invited["token"])
    (await scene.client.post(ACCEPT, {"token": invited["token"]})).ok()
    assert (await scene.request("POST", f"/api/organizations/acme/members/{guest.user}")).status < 300
    body = {"name": "Shop", "slug": "shop", "service_type": "web", "redirect_uris": ["https://shop.example.org/"]}
    service = (await scene.request("POST", "/api/organizations/acme/services", body, by=scene.owner)).ok()["service"]
    plans = "/api/organizations/acme/services/shop/plans"
    plan = (await scene.request("POST", plans, {"name": "Pro", "price_cents": 100, "currency": "eur"})).ok()
    (await scene.request("PATCH", f"{plans}/{plan['id']}", {"name": "Max"})).ok()
    assert (await scene.request("DELETE", f"{plans}/{plan['id']}")).status < 300
    # The service has a plan of its own from the start, so the newest event of each kind is taken.
    payloads = [one["payload"] for one in reversed(await scene.deliveries(webhook))]
    about = {one["event"]: (one["target_type"], one["target_id"]) for one in payloads}
    assert about == {
        "user.invited": ("user", invited["invitation"]["id"]),
        "user.joined": ("user", str(guest.user)),
        "user.removed": ("user", str(guest.user)),
        "service.created": ("service", service["id"]),
        **dict.fromkeys(("plan.created", "plan.updated", "plan.deleted"), ("plan", plan["id"])),
    }
    assert {one["actor_user_id"] for one in payloads if one["event"] != "user.joined"} <= {str(scene.admin.user), str(scene.owner.user)}


async def test_during_a_rotation_both_secrets_verify(scene: WebhookScene) -> None:
    async with receiving(answering(200)) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        rotated = (await scene.ask("POST", f"/{webhook['id']}/rotate-secret")).ok(200)
        scene.log.remember(rotated["secret"])
        await scene.happens()
        (call,) = await receiver.until(1)
        verified(webhook, call)
        verified(rotated, call)

        async def given_back() -> bool:
            return scene.people.rows("select lease from webhooks") == [{"lease": None}]

        await scene.when(given_back)
        scene.people.change("update webhooks set previous_until = now() - interval '1 second'")
        await scene.happens()
        call = (await receiver.until(2))[1]
        verified(rotated, call)
        with pytest.raises(Exception, match="No matching signature"):
            verified(webhook, call)
    assert len(scene.audited("webhook.secret_rotated")) == 1


async def test_a_dead_a_slow_and_a_failing_receiver_are_nobody_elses_problem(scene: WebhookScene) -> None:
    async with (
        receiving(answering(204)) as good,
        receiving(trickling) as slow,
        receiving(answering(500, b"no")) as failing,
        receiving(hanging_up) as rude,
        scene.dispatching(),
    ):
        others = [await scene.made(one) for one in (DEAD, url(slow.port), url(failing.port), url(rude.port))]
        webhook = await scene.made(url(good.port))
        await scene.happens(count=50)
        # To wait for the slow one's fifty attempts, four at a time, would take two minutes.
        with trio.fail_after(PATIENCE):
            calls = await good.until(50)
        assert {verified(webhook, call)["data"]["number"] for call in calls} == set(range(50))
        await scene.settled(others[2])
        for other in others:
            assert {one["delivered"] for one in await scene.deliveries(other)} == {False}


@pytest.mark.parametrize("crumbs", CRUMBS)
async def test_who_answers_in_crumbs_has_not_received(scene: WebhookScene, crumbs: str) -> None:
    async with receiving(CRUMBS[crumbs]) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        await scene.happens()
        delivery = await scene.settled(webhook)
    assert (delivery["delivered"], delivery["response_status_code"], delivery["delivery_error"]) == (False, None, "malformed_answer")
    assert len(receiver.calls) == 1


async def test_attempts_end_after_five(scene: WebhookScene) -> None:
    async with receiving(answering(503, b"later")) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        await scene.happens()
        pauses = []
        delivery: dict[str, Any] = {}
        for attempts in range(1, WEBHOOK_DELIVERY_RULES.most_attempts + 1):
            delivery = await scene.settled(webhook, attempts)
            assert (delivery["response_status_code"], delivery["response_body"], delivery["delivered"]) == (503, "later", False)
            assert delivery["delivery_error"] == "answered 503"
            if delivery["next_retry_at"] is not None:
                due, ended = (datetime.fromisoformat(delivery[name]) for name in ("next_retry_at", "updated_at"))
                pauses.append(round((due - ended) / timedelta(minutes=1), 1))
            scene.due_again()
    assert len(receiver.calls) == WEBHOOK_DELIVERY_RULES.most_attempts
    assert len({call.headers["webhook-id"] for call in receiver.calls}) == 1
    assert all(minutes <= pause <= minutes * 1.1 for minutes, pause in zip((1, 2, 4, 8), pauses, strict=True))
    assert delivery["next_retry_at"] is None


async def test_a_receiver_that_asks_for_time_gets_it(scene: WebhookScene) -> None:
    async with receiving(answering(429, b"", "Retry-After: 3000")) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        await scene.happens()
        delivery = await scene.settled(webhook)
        due, ended = (datetime.fromisoformat(delivery[name]) for name in ("next_retry_at", "updated_at"))
        assert timedelta(minutes=49) < due - ended < timedelta(minutes=51)
        # Other events wait with it.
        (kept,) = scene.people.rows("select rests_until - now() as rest from webhooks")
        assert kept["rest"] > timedelta(minutes=49)


STOPS: Final = {
    "disabled": "update webhooks set is_active = false",
    "suspended": "update all_organizations set status = 'suspended' where slug = 'acme'",
    "deleted": "update all_organizations set deleted_at = now() where slug = 'acme'",
}


@pytest.mark.parametrize("stop", STOPS)
async def test_nothing_more_is_sent_once_it_must_not_be(scene: WebhookScene, stop: str) -> None:
    async with receiving(answering(500)) as receiver:
        webhook = await scene.made(url(receiver.port))
        await scene.happens()
        async with scene.dispatching():
            await scene.settled(webhook)
        scene.people.change(STOPS[stop])
        scene.due_again()
        deliveries = scene.postern.tenancy.deliveries
        for failing in (True, False):
            assert await deliveries.claim(10, failing=failing) == []
        (sweep,) = [one for one in _sweeps(scene.postern) if one.name == "ForsakenDeliveries"]
        assert (await sweep.delete_expired(10), await sweep.delete_expired(10)) == (1, 0)
    assert len(receiver.calls) == 1
    (left,) = scene.people.rows("select next_at, error from webhook_deliveries")
    assert (left["next_at"], "disabled" in left["error"]) == (None, True)


def _sweeps(postern: Postern) -> Any:
    (janitor,) = [actor for actor in postern.actors if actor.name == "janitor"]
    return janitor._sweeps  # type: ignore[attr-defined]  # the janitor's own


async def test_a_disabled_webhook_hears_nothing_and_is_not_tested(scene: WebhookScene) -> None:
    webhook = await scene.made()
    (await scene.ask("PATCH", f"/{webhook['id']}", {"is_active": False})).ok(200)
    await scene.happens()
    assert await scene.deliveries(webhook) == []
    for path, body in (("/test", None), ("/replay", {"since": "2026-01-01T00:00:00Z"})):
        answer = await scene.ask("POST", f"/{webhook['id']}{path}", body)
        assert (answer.status, "disabled" in answer.json()["error"]) == (400, True)


async def test_each_event_reaches_the_webhooks_of_its_organization_and_no_others(scene: WebhookScene) -> None:
    every = [one.name for one in WEBHOOK_EVENTS]
    ours, theirs, narrow = (
        await scene.made(DEAD, *every),
        await scene.made(DEAD, *every, of="globex"),
        await scene.made(DEAD, "user.joined"),
    )
    scene.people.change("delete from webhook_deliveries")
    async with scene.postern.foundation.unit_of_work() as uow:
        for one in EVENT_TYPES:
            about = OrganizationId(scene.acme.id) if one.audience is Audience.ORGANIZATION else None
            await uow.record(Event(one.name, SYSTEM, Target("user", NOBODY), about))
            await uow.record(Event(one.name, SYSTEM, Target("user", NOBODY)))
        await uow.commit()
    told = scene.people.rows("select webhook_id, event_name from webhook_deliveries order by id")
    assert sorted(row["event_name"] for row in told if str(row["webhook_id"]) == ours["id"]) == sorted(every)
    assert [row["event_name"] for row in told if str(row["webhook_id"]) == narrow["id"]] == ["user.joined"]
    assert [row for row in told if str(row["webhook_id"]) == theirs["id"]] == []


async def test_what_a_person_does_reaches_the_organizations_that_they_belong_to(scene: WebhookScene) -> None:
    both = scene.tenants.join(scene.resident(scene.acme, "member"), scene.globex)
    ours, theirs = [await scene.made(DEAD, "security.password.changed", of=of) for of in ("acme", "globex")]
    async with scene.postern.foundation.unit_of_work() as uow:
        event = Event("security.password.changed", SYSTEM, Target("user", str(both.user)), personal={"operator": "Eve"})
        await uow.record_in_every_log(event, UserId(both.user))
        await uow.record_all([Event("user.joined", SYSTEM, Target("user", NOBODY)), Event("user.removed", SYSTEM, Target("user", NOBODY))])
        many = [Event("security.password.changed", SYSTEM, Target("user", NOBODY), OrganizationId(scene.globex.id)) for _ in range(2)]
        await uow.record_all(many)
        await uow.commit()
    (delivery,) = await scene.deliveries(ours)
    assert delivery["payload"]["data"] == {}
    assert scene.people.rows("select count(*) as n from webhook_deliveries where webhook_id = %s", theirs["id"]) == [{"n": 3}]


async def test_signing_out_reaches_the_organization_of_the_session(scene: WebhookScene) -> None:
    ours, theirs = await scene.made(DEAD, "user.logout"), await scene.made(DEAD, "user.logout", of="globex")
    token = await scene.tenants.token_in(scene.admin, scene.acme)
    assert (await scene.client.request("POST", "/api/auth/logout", token=token)).status == 200
    assert [one["event_type"] for one in await scene.deliveries(ours)] == ["user.logout"]
    assert scene.people.rows("select id from webhook_deliveries where webhook_id = %s", theirs["id"]) == []


async def test_a_test_event_goes_to_the_webhook_that_is_tested(scene: WebhookScene) -> None:
    async with receiving(answering(200)) as receiver, scene.dispatching():
        webhook, _ = await scene.made(url(receiver.port)), await scene.made()
        queued = (await scene.ask("POST", f"/{webhook['id']}/test")).ok(200)
        assert (queued["event_type"], queued["delivered"]) == ("webhook.tested", False)
        (call,) = await receiver.until(1)
        assert verified(webhook, call)["event"] == "webhook.tested"
        assert (await scene.settled(webhook))["id"] == queued["id"]
    assert scene.people.rows("select count(*) as n from webhook_deliveries") == [{"n": 1}]


async def test_a_delivery_is_sent_again_under_its_id(scene: WebhookScene) -> None:
    async with receiving(answering(200)) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        await scene.happens()
        first = await scene.settled(webhook)
        again = (await scene.ask("POST", f"/{webhook['id']}/deliveries/{first['id']}/redeliver")).ok(200)
        assert (again["id"], again["delivered"], again["attempt_count"]) == (first["id"], False, 0)
        calls = await receiver.until(2)
        assert calls[0].headers["webhook-id"] == calls[1].headers["webhook-id"]
        assert (await scene.ask("POST", f"/{webhook['id']}/deliveries/{uuid4()}/redeliver")).status == 404


async def test_a_span_is_replayed(scene: WebhookScene) -> None:
    await scene.happens(count=2)
    await scene.happens("user.removed")
    await scene.happens(to=scene.globex.id)
    async with receiving(answering(200)) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port), "user.joined", "user.removed")
        path, since = f"/{webhook['id']}/replay", (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        answer = await scene.ask("POST", path, {"since": since, "event_type": "user.joined"})
        assert answer.ok(200) == {"queued": 2, "continue_from": None}
        calls = await receiver.until(2)
        ids = {call.headers["webhook-id"] for call in calls}
        await scene.settled(webhook)
        assert (await scene.ask("POST", path, {"since": since})).ok(200)["queued"] == 3
        calls = await receiver.until(5)
        assert len({call.headers["webhook-id"] for call in calls}) == 3
        assert ids < {call.headers["webhook-id"] for call in calls}
        assert (await scene.ask("POST", path, {"since": "0001-01-01T00:00:00Z", "event_type": "user.removed"})).ok(200)["queued"] == 1
        for wrong in ({"since": since, "until": since}, {"since": since, "event_type": "role.created"}):
            assert (await scene.ask("POST", path, wrong)).status == 400
        assert (await scene.ask("POST", path, {"since": since, "until": "2026-01-01T00:00:00Z"})).status == 400


async def test_deliveries_are_listed_by_type_and_outcome(scene: WebhookScene) -> None:
    webhook = await scene.made(DEAD, "user.joined", "user.removed")
    await scene.happens(count=3)
    await scene.happens("user.removed")
    scene.people.change("update webhook_deliveries set delivered_at = now() where event_name = 'user.removed'")
    path = f"/{webhook['id']}/deliveries"
    page = (await scene.ask("GET", f"{path}?limit=2&page=2")).ok(200)
    assert [one["payload"]["data"]["number"] for one in page["deliveries"]] == [1, 0]
    assert page["pagination"] == {"page": 2, "limit": 2, "total": 4, "total_pages": 2, "has_next": False, "has_prev": True}
    assert [one["event_type"] for one in await scene.deliveries(webhook, "?delivered=true")] == ["user.removed"]
    assert len(await scene.deliveries(webhook, "?delivered=false&event_type=user.joined")) == 3
    assert await scene.deliveries(webhook, "?event_type=role.created") == []
    assert (await scene.ask("GET", f"{path}?limit=101")).status == 400


async def test_after_five_days_of_failures_a_webhook_is_paused_and_its_owners_are_told(scene: WebhookScene) -> None:
    async with receiving(answering(500)) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port), name="CRM")
        await scene.happens()
        await scene.settled(webhook)
        scene.people.change("update webhooks set failing_since = now() - interval '5 days'")
        scene.due_again()

        async def paused() -> bool:
            return (await scene.ask("GET", f"/{webhook['id']}")).ok(200)["paused_at"] is not None

        await scene.when(paused)
    (entry,) = scene.audited("webhook.paused")
    assert (entry["actor_id"], entry["target_id"], entry["details"]["name"]) == (None, webhook["id"], "CRM")
    (job,) = await scene.postern.foundation.jobs.claim(["mail.organization"], 10, timedelta(minutes=1))
    assert job.payload["to"] == scene.owner.email
    assert "CRM" in str(job.payload["subject"])
    assert len(scene.log.events("webhook_paused")) == 1
    enabled = (await scene.ask("PATCH", f"/{webhook['id']}", {"is_active": True})).ok(200)
    assert enabled["paused_at"] is None
    assert scene.people.rows("select failing_since from webhooks") == [{"failing_since": None}]


async def test_of_those_who_find_a_webhook_past_its_time_one_pauses_it(scene: WebhookScene) -> None:
    await scene.made()
    await scene.happens()
    deliveries = scene.postern.tenancy.deliveries
    (claimed,) = await deliveries.claim(10, failing=False)
    (due,) = await deliveries.due(claimed)
    outcome = await deliveries.attempt(claimed, due, lambda: 0.0)
    scene.people.change("update webhooks set failing_since = now() - interval '6 days'")
    for _ in range(2):
        await deliveries.settle(claimed, [outcome])
    assert len(scene.audited("webhook.paused")) == 1
    # No delivery is due for it any more, also for a worker that still holds one.
    scene.due_again()
    assert await deliveries.due(claimed) == []


async def test_what_a_dead_process_had_claimed_is_taken_up_and_told_once(scene: WebhookScene) -> None:
    webhook = await scene.made()
    await scene.happens()
    deliveries = scene.postern.tenancy.deliveries
    (dead,) = await deliveries.claim(10, failing=False)
    (due,) = await deliveries.due(dead)
    assert await deliveries.claim(10, failing=False) == []
    scene.people.change("update webhooks set leased_until = leased_until - %s", LEASE)
    scene.postern.foundation.doorbell.ring(WEBHOOK_TOPIC)
    (heir,) = await deliveries.claim(10, failing=False)
    assert [one.id for one in await deliveries.due(heir)] == [due.id]
    outcome = await deliveries.attempt(heir, due, lambda: 0.0)
    assert outcome.error == "connection_failed"
    # The dead worker writes nothing any more, and its successor writes once.
    await deliveries.settle(dead, [outcome])
    assert (await scene.deliveries(webhook))[0]["attempt_count"] == 0
    for _ in range(2):
        await deliveries.settle(heir, [outcome])
    assert (await scene.deliveries(webhook))[0]["attempt_count"] == 1
    assert await deliveries.due(dead) == []


async def test_a_secret_that_cannot_be_opened_waits_for_its_key(scene: WebhookScene, log: CapturedLog) -> None:
    await scene.made()
    await scene.happens()
    scene.people.change("update webhooks set sealed_secret = 'x'")
    log.allow("webhook_secret_unreadable")
    deliveries = scene.postern.tenancy.deliveries
    assert await deliveries.claim(10, failing=False) == []
    (kept,) = scene.people.rows("select lease, rests_until > now() + interval '4 minutes' as rests from webhooks")
    assert kept == {"lease": None, "rests": True}


async def test_claims_go_round(scene: WebhookScene) -> None:
    for _ in range(3):
        await scene.made()
    await scene.happens()
    deliveries = scene.postern.tenancy.deliveries
    seen = []
    for _ in range(6):
        (claimed,) = await deliveries.claim(1, failing=False)
        seen.append(claimed.claimed.id)
        await deliveries.release(claimed)
    assert len(set(seen[:3])) == 3
    assert seen[:3] == seen[3:]


async def test_claims_share_out_by_organization(scene: WebhookScene) -> None:
    for number in range(8):
        await scene.made(name=f"W{number}")
    await scene.made(of="globex")
    for tenant in (scene.acme, scene.globex):
        await scene.happens(to=tenant.id)
    deliveries = scene.postern.tenancy.deliveries
    acme, globex = OrganizationId(scene.acme.id), OrganizationId(scene.globex.id)

    async def claimed(limit: int, *busy: OrganizationId) -> list[OrganizationId]:
        receivers = await deliveries.claim(limit, failing=False, busy=busy)
        for receiver in receivers:
            await deliveries.release(receiver)
        return sorted(receiver.organization for receiver in receivers)

    # No webhook gets a second turn before another has its first.
    for _ in range(8):
        assert set(await claimed(2)) == {acme, globex}
        assert await claimed(1, acme) == [globex]
    assert await claimed(4, acme, acme, acme) == sorted([acme, acme, globex])
    assert await claimed(4, *[acme] * 8) == [globex]
    assert await claimed(1, acme, globex) == []


async def test_those_of_an_organization_that_may_have_few_go_round_as_well(scene: WebhookScene) -> None:
    made = {(await scene.made())["id"] for _ in range(6)}
    await scene.happens()
    deliveries = scene.postern.tenancy.deliveries
    busy = [OrganizationId(scene.acme.id)] * 2
    seen = []
    for _ in range(6):
        (claimed,) = await deliveries.claim(2, failing=False, busy=busy)
        seen.append(str(claimed.claimed.id))
        await deliveries.release(claimed)
    assert set(seen) == made


@pytest.mark.parametrize("change", [{"is_active": False}, {"url": DEAD}, None])
async def test_what_is_changed_while_all_slots_are_taken_holds(
    scene: WebhookScene, change: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SLOTS", 1)
    answer = trio.Event()

    async def slow(stream: trio.abc.Stream, call: Call) -> bool:
        await answer.wait()
        return await answering(204)(stream, call)

    async with receiving(slow) as busy, receiving(answering(204)) as receiver, scene.dispatching():
        await scene.made(url(busy.port), "user.removed")
        webhook = await scene.made(url(receiver.port), "user.joined")
        await scene.happens("user.removed")
        await busy.until(1)
        await scene.happens("user.joined")
        await trio.sleep(1)
        if change is None:
            (await scene.ask("DELETE", f"/{webhook['id']}")).ok(200)
        else:
            (await scene.ask("PATCH", f"/{webhook['id']}", change)).ok(200)
        answer.set()
        if change is not None and "url" in change:
            assert (await scene.settled(webhook))["delivery_error"] == "connection_failed"
        else:
            await trio.sleep(1)
    assert receiver.calls == []


HOSTILE_DATES: Final = (
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:00 -9999999999999",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "9" * 5000,
)


async def test_a_date_that_is_none_delays_nothing_and_ends_nothing(scene: WebhookScene) -> None:
    async with receiving(answering(503, b"")) as receiver, scene.dispatching():
        webhook = await scene.made(url(receiver.port))
        for attempts, date in enumerate(HOSTILE_DATES, 1):
            receiver.answer = answering(503, b"", f"Retry-After: {date}")
            if attempts == 1:
                await scene.happens()
            else:
                scene.due_again()
            delivery = await scene.settled(webhook, attempts)
            assert delivery["delivery_error"] == "answered 503"
            due, ended = (datetime.fromisoformat(delivery[name]) for name in ("next_retry_at", "updated_at"))
            assert due - ended < timedelta(minutes=9)


async def test_a_webhook_that_cannot_be_read_rests_and_others_are_served(scene: WebhookScene, log: CapturedLog) -> None:
    log.allow("webhook_unreadable")
    async with receiving(answering(204)) as receiver, scene.dispatching():
        odd = await scene.made("https://crm.example.org/")
        good = await scene.made(url(receiver.port))
        scene.people.change("update webhooks set url = 'http://[' where id = %s", UUID(odd["id"]))
        await scene.happens()
        assert (await scene.settled(good))["delivered"] is True
        (kept,) = scene.people.rows("select lease, rests_until > now() as rests from webhooks where id = %s", UUID(odd["id"]))
        assert kept == {"lease": None, "rests": True}


async def test_without_subscribers_nobody_is_woken(scene: WebhookScene) -> None:
    await scene.made(DEAD, "user.removed")
    before = scene.people.rows("select count(*) as n from webhook_deliveries")
    await scene.happens()
    assert scene.people.rows("select count(*) as n from webhook_deliveries") == before

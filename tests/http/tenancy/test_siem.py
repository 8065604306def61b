"""The SIEM configuration over HTTP: made, changed, tried, removed; and the entries that the forwarder sends to receivers on loopback."""

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from subprocess import run
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import trio

from actors.audit_log import SiemForwarder
from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.upkeep import housekeeping
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from core.domain.identifiers import LoginEventId, OrganizationId, UserId
from core.domain.identity.login_events import SIGN_IN_TOPIC, LoginEvent
from core.domain.identity.privacy import PrivacyRequester
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.siem import SIEM_TOPIC, Stream, canonical
from core.usecases.tenancy.siem import Forwarding
from entrypoints.bootstrap import Postern
from tests.changed_fields import answer_by
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.receiver import CRUMBS, Call, Receiver, answering, receiving

# Nobody listens there.
DEAD: Final = "http://127.0.0.1:1/"
GUIDE: Final = ROOT / "docs/guides/verify-audit-offline.md"
SECRET: Final = "9d6c7a1e-secret-of-the-receiver"


class SiemScene(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.admin = self.speaker = self.resident(self.acme, "admin")
        self.stranger = self.resident(self.globex, "owner")
        self.log.remember(SECRET)

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request(method, f"/api/organizations/{of}/siem{path}", body, by=by)

    async def configured(self, url: str = DEAD, provider: str = "generic", *, of: str = "acme", **more: Any) -> dict[str, Any]:
        body = {"name": "Our SIEM", "provider_type": provider, "endpoint_url": url, **more}
        answer: dict[str, Any] = (await self.ask("POST", "", body, of=of, by=self.stranger if of == "globex" else None)).ok(200)
        return answer

    async def health(self) -> dict[str, Any]:
        told: dict[str, Any] = (await self.ask("GET")).ok(200)
        return told

    async def happens(self, count: int = 1, *, to: Tenant | None = None, **personal: str) -> None:
        """Adds entries to the audit log, linked in their chain."""
        async with self.postern.foundation.unit_of_work() as uow:
            for number in range(count):
                actor = Actor(UserId(self.admin.user), address="192.0.2.7", user_agent="Ünïcode/1.0 😀")
                target = Target("role", str(uuid4()))
                event = Event("role.created", actor, target, OrganizationId((to or self.acme).id), {"n": number}, personal=personal)
                await uow.record(event)
            await uow.commit()
        await self.link()

    async def link(self) -> None:
        while await self.postern.record.audit.link():
            # As the linker does.
            self.postern.foundation.doorbell.ring(SIEM_TOPIC)

    def signs_in(self, *, to: Tenant | None = None, count: int = 1, of: Person | None = None) -> None:
        """Logs a sign-in, in the statements of its own transaction."""
        self.people.change(
            """
            with logged as (
                     insert into login_events (id, user_id, organization_id, provider, success, address, user_agent, country, city,
                                               created_at)
                     select gen_random_uuid(), %s, %s, 'password', true, '192.0.2.9', 'Chrome', 'SE', 'Malmö', now()
                       from generate_series(1, %s)
                  returning id, organization_id
                 )
            insert into sign_in_pending (event_id, export_id)
            select logged.id, siem_configurations.id from logged join siem_configurations on org_id = organization_id
            """,
            (of or self.owner).user,
            (to or self.acme).id,
            count,
        )
        self.postern.foundation.doorbell.ring_here(SIGN_IN_TOPIC)

    @asynccontextmanager
    async def forwarding(self, processes: int = 1) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            for _ in range(processes):
                await nursery.start(self.forwarder().run)
            yield
            nursery.cancel_scope.cancel()

    def forwarder(self) -> SiemForwarder:
        return SiemForwarder(
            self.postern.tenancy.siem_export,
            self.postern.foundation.doorbell,
            metrics=self.postern.foundation.metrics,
            spread=lambda: 0.0,
            poll=0.05,
            numbering=0.05,
        )

    async def when(self, condition: Callable[[], Awaitable[bool]]) -> None:
        with trio.fail_after(PATIENCE):
            while not await condition():
                await trio.sleep(0.02)

    async def done(self) -> None:
        """Whether everything was received."""

        async def is_done() -> bool:
            waiting = self.people.rows("select 1 from sign_in_pending join siem_configurations on id = export_id")
            return not waiting and (await self.health())["lag"] == 0

        await self.when(is_done)

    async def failed(self) -> dict[str, Any]:
        async def has_failed() -> bool:
            return (await self.health())["last_error"] is not None

        await self.when(has_failed)
        return await self.health()

    def due_again(self) -> None:
        self.people.change("update siem_configurations set next_at = now()")
        self.postern.foundation.doorbell.ring(SIEM_TOPIC)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> SiemScene:
    return SiemScene(postern, people, unlimited(postern), log)


def url(receiver: Receiver, path: str = "/in?x=1") -> str:
    return f"http://127.0.0.1:{receiver.port}{path}"


def lines(calls: Sequence[Call]) -> list[dict[str, Any]]:
    return [json.loads(line) for call in calls for line in call.body.decode().splitlines()]


def sequences(records: Sequence[dict[str, Any]], stream: str = "audit") -> list[int]:
    return [one["sequence"] for one in records if one["stream"] == stream and "digest" in one]


async def verified(scene: SiemScene, records: Sequence[dict[str, Any]], directory: Path) -> tuple[int, str]:
    """Verified by the program in the guide, word for word. Of Postern the program knows only the public key."""
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (directory / "verify.py").write_text(program)
    keys = (await scene.client.get("/.well-known/audit-export-keys.json")).ok(200)
    (directory / "keys.json").write_text(json.dumps(keys))
    (directory / "records.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    command = [sys.executable, "-I", "verify.py", "keys.json", "records.ndjson"]
    done = await trio.to_thread.run_sync(lambda: run(command, cwd=directory, capture_output=True, text=True, check=False))
    assert done.stderr == ""
    return done.returncode, done.stdout


async def test_it_is_made_shown_changed_and_removed(scene: SiemScene) -> None:
    assert (await scene.ask("GET")).status == 404
    assert (await scene.ask("DELETE")).status == 404
    assert (await scene.ask("POST", "/test")).status == 404
    made = await scene.configured("https://siem.example.org/in?token=abc", "Splunk-HEC", name=" Ours ", api_key=SECRET)
    assert made == {
        "id": made["id"],
        "name": "Ours",
        "provider_type": "splunk_hec",
        "endpoint_url": "https://siem.example.org/in?token=abc",
        "has_credentials": True,
        "batch_size": 500,
        "is_active": True,
        "last_delivered_at": None,
        "lag": 0,
        "lag_seconds": 0,
        "last_error": None,
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
    }
    assert await scene.health() == made
    changed = await scene.configured("https://siem.example.org/in", "splunk", batch_size=7, is_active=False)
    assert (changed["id"], changed["created_at"]) == (made["id"], made["created_at"])
    assert (changed["batch_size"], changed["is_active"], changed["has_credentials"]) == (7, False, True)
    assert (await scene.ask("POST", "/test")).status == 400
    assert (await scene.ask("DELETE")).status == 204
    assert (await scene.ask("GET")).status == 404
    entries = scene.audited("siem.%")
    assert [entry["action"] for entry in entries] == ["siem.configured", "siem.configured", "siem.removed"]
    # A URL may contain a secret of the receiver.
    assert entries[0]["details"] == {
        "name": "Ours",
        "provider_type": "splunk_hec",
        "host": "siem.example.org",
        "batch_size": 500,
        "is_active": True,
    }
    assert (entries[0]["target_type"], entries[0]["target_id"], entries[0]["actor_id"]) == ("siem", made["id"], scene.admin.user)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", value) for value in ("", "x" * 101)),
        *(("endpoint_url", value) for value in ("", "siem.example.org", "ftp://siem.example.org/", "http://u:p@siem.example.org/")),
        *(("provider_type", value) for value in ("", "syslog", "splunk_hec'--")),
        *(("batch_size", value) for value in (0, -1, 1001)),
        *(("api_key", value) for value in ("a\r\nb: c", "x" * 2001, "schlüssel", " ")),
        *(("auth_header", value) for value in ("a\nb", "Host: evil.example", "content-length: 0", "Transfer-Encoding: chunked")),
        *(
            ("auth_header", value)
            for value in ("Expect: 100-continue", "upgrade: h2c", "TE: trailers", "Connection: close", "Keep-Alive: 1")
        ),
    ],
)
async def test_what_is_wrong_is_refused(scene: SiemScene, field: str, value: Any) -> None:
    body = {"name": "SIEM", "provider_type": "generic", "endpoint_url": "https://siem.example.org/"}
    answer = await scene.ask("POST", "", {**body, field: value})
    assert answer.status == 400
    assert answer.json()["error"].startswith(f"{field}: ")
    assert scene.people.rows("select id from siem_configurations") == []


async def test_addresses_that_are_never_called_are_refused_at_once(scene: SiemScene) -> None:
    for address in HOSTILE_ADDRESSES:
        if address not in {"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"}:
            host = f"[{address}]" if ":" in address else address
            body = {"name": "x", "provider_type": "generic", "endpoint_url": f"http://{host}/"}
            answer = await scene.ask("POST", "", body)
            assert (answer.status, "not public" in answer.json()["error"]) == (400, True), address


async def test_members_and_neighbours_may_not(scene: SiemScene) -> None:
    made = await scene.configured()
    member = scene.resident(scene.acme, "member")
    clerk = scene.resident(scene.acme, scene.tenants.role(scene.acme, "clerk", {Capability.INTEGRATIONS_MANAGE}))
    body = {"name": "SIEM", "provider_type": "generic", "endpoint_url": "https://siem.example.org/"}
    for method, path, sent in (("POST", "", body), ("GET", "", None), ("DELETE", "", None), ("POST", "/test", None)):
        assert (await scene.ask(method, path, sent, by=member)).status == 403
        assert (await scene.ask(method, path, sent, by=scene.stranger)).status in {403, 404}
    # A person who has the audit log sent to an address of theirs can read it there.
    assert (await scene.ask("POST", "", body, by=clerk)).status == 403
    assert (await scene.ask("POST", "/test", by=clerk)).status == 403
    assert (await scene.ask("GET", by=clerk)).ok(200) == made
    assert (await scene.ask("GET", of="globex", by=scene.stranger)).status == 404


async def test_credentials_stay_with_whom_they_were_given_to(scene: SiemScene) -> None:
    async def sealed() -> bytes | None:
        (row,) = scene.people.rows("select sealed_credentials from siem_configurations")
        kept: bytes | None = row["sealed_credentials"]
        return kept

    first = "https://siem.example.org"
    await scene.configured(first, "splunk_hec", api_key=SECRET)
    assert SECRET.encode() not in (await sealed() or b"")
    assert (await scene.configured(f"{first}/other", "splunk_hec"))["has_credentials"]
    assert not (await scene.configured(first, "datadog"))["has_credentials"]
    await scene.configured(first, "splunk_hec", api_key=SECRET, auth_header="X-Tenant: 7")
    assert (await scene.configured(first, "splunk_hec", api_key=None))["has_credentials"]
    assert not (await scene.configured(first, "splunk_hec", auth_header=""))["has_credentials"]
    await scene.configured(first, "splunk_hec", api_key=SECRET)
    for elsewhere in ("https://evil.example.org/", "https://siem.example.org:444/", "http://siem.example.org/"):
        assert not (await scene.configured(elsewhere, "splunk_hec"))["has_credentials"]
        await scene.configured(first, "splunk_hec", api_key=SECRET)
    scene.people.change("update siem_configurations set sealed_credentials = 'nonsense'")
    body = {"name": "SIEM", "provider_type": "splunk_hec", "endpoint_url": first}
    assert (await scene.ask("POST", "", body)).status == 400
    assert (await scene.ask("POST", "", {**body, "api_key": SECRET, "auth_header": None})).status == 200


async def test_round_trips(scene: SiemScene) -> None:
    await scene.tenants.token(scene.admin)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver))
        await scene.configured(url(receiver))
        await scene.ask("POST", "/test")
        await scene.ask("GET")
        await scene.ask("DELETE")
    assert [line["db_round_trips"] for line in scene.log.events("request")][-5:] == [5, 5, 4, 2, 4]


async def test_the_receiver_is_tried(scene: SiemScene) -> None:
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), "splunk_hec", api_key=SECRET)
        assert (await scene.ask("POST", "/test")).ok(200) == {"success": True, "message": "The receiver accepted it"}
        (call,) = receiver.calls
        assert call.headers["authorization"] == f"Splunk {SECRET}"
        assert json.loads(call.body)["event"]["stream"] == "test"
        receiver.answer = answering(403, b"who are you?")
        assert (await scene.ask("POST", "/test")).ok(200) == {"success": False, "message": "answered 403"}
    assert (await scene.ask("POST", "/test")).ok(200) == {"success": False, "message": "connection_failed"}
    scene.people.change("update siem_configurations set sealed_credentials = 'nonsense'")
    scene.log.allow("siem_credentials_unreadable")
    assert not (await scene.ask("POST", "/test")).ok(200)["success"]
    assert len(scene.audited("siem.tested")) == 4
    # The test batch is no entry, and does not move the position.
    assert (await scene.health())["last_delivered_at"] is None


@pytest.mark.parametrize("crumbs", CRUMBS)
async def test_a_receiver_that_answers_in_crumbs_has_not_received(scene: SiemScene, crumbs: str) -> None:
    await scene.happens(3)
    async with receiving(CRUMBS[crumbs]) as receiver:
        await scene.configured(url(receiver))
        assert (await scene.ask("POST", "/test")).ok(200) == {"success": False, "message": "malformed_answer"}
        async with scene.forwarding():
            await receiver.until(2)
            with trio.fail_after(PATIENCE):
                while (await scene.health())["last_error"] is None:
                    await trio.sleep(0.01)
    told = await scene.health()
    assert (told["last_error"], told["last_delivered_at"]) == ("malformed_answer", None)


async def test_all_entries_and_sign_ins_arrive_in_order_and_verify(scene: SiemScene, tmp_path: Path) -> None:
    await scene.happens(3, email="grace@acme.example")
    await scene.happens(2, to=scene.globex)
    async with receiving(answering(204)) as receiver:
        await scene.configured(url(receiver), batch_size=2, auth_header="X-Api-Key: abc")
        scene.signs_in(count=5)
        scene.signs_in(to=scene.globex)
        await scene.happens(4)
        async with scene.forwarding(processes=3):
            await scene.done()
        records = lines(receiver.calls)
    # Three entries, the entry of the configuration, and four.
    assert sequences(records) == list(range(1, 9))
    assert sequences(records, "sign_in") == [1, 2, 3, 4, 5]
    assert {one["organization_id"] for one in records} == {str(scene.acme.id)}
    assert {call.headers["x-api-key"] for call in receiver.calls} == {"abc"}
    assert {call.headers["content-type"] for call in receiver.calls} == {"application/x-ndjson"}
    first = records[[("digest" in one and one["stream"] == "audit") for one in records].index(True)]
    assert first["entry"]["action"] == "role.created"
    assert first["personal"]["address"] == "192.0.2.7"
    assert first["personal"]["details"] == {"email": "grace@acme.example"}
    (sign_in, *_) = (one for one in records if one["stream"] == "sign_in")
    assert (sign_in["personal"]["city"], sign_in["personal"]["user_id"]) == ("Malmö", str(scene.owner.user))
    assert (sign_in["entry"]["provider"], sign_in["entry"]["success"]) == ("password", True)
    status, told = await verified(scene, records, tmp_path)
    assert (status, told.count("\n")) == (0, 2), told
    assert "audit " in told
    assert "1 to 8, signed up to 8, 0 personal parts gone" in told
    health = await scene.health()
    assert (health["lag"], health["lag_seconds"], health["last_error"]) == (0, 0, None)
    assert health["last_delivered_at"] is not None


Forged = Callable[[list[dict[str, Any]]], Any]


def altered(records: list[dict[str, Any]]) -> None:
    records[1]["entry"]["success"] = False


def altered_and_hashed(records: list[dict[str, Any]]) -> None:
    """Altered by somebody who computes digests, as anybody can, and rewrites the chain from there on."""
    records[1]["entry"]["details"] = {"n": 4711}
    previous = records[1]["previous"]
    for one in records[1:]:
        if "digest" in one and one["stream"] == "audit":
            one["previous"] = previous
            covered = {name: one[name] for name in one if name not in {"digest", "personal"}}
            one["digest"] = previous = sha256(canonical(covered)).hexdigest()


def personal(records: list[dict[str, Any]]) -> None:
    records[1]["personal"]["address"] = "203.0.113.1"


def personal_text(records: list[dict[str, Any]]) -> None:
    records[1]["personal"]["text"] = records[1]["personal"]["text"].replace("192.0.2.7", "203.0.113.1")
    records[1]["personal"]["address"] = "203.0.113.1"


def removed(records: list[dict[str, Any]]) -> None:
    del records[1]


def cut_off(records: list[dict[str, Any]]) -> None:
    """Entries are cut off at the end. The signed head shows that there were more."""
    records[:] = [one for one in records if "head" in one or one["sequence"] < 4]


def unsigned(records: list[dict[str, Any]]) -> None:
    records[:] = [one for one in records if "head" not in one]


def signed_by_another(records: list[dict[str, Any]]) -> None:
    for one in records:
        if "head" in one:
            head, claims, signature = one["head"].split(".")
            one["head"] = f"{head}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def swapped(records: list[dict[str, Any]]) -> None:
    records[1]["sequence"], records[2]["sequence"] = records[2]["sequence"], records[1]["sequence"]


@pytest.mark.parametrize(
    "forge", [altered, altered_and_hashed, personal, personal_text, removed, cut_off, unsigned, signed_by_another, swapped]
)
async def test_what_was_tampered_with_is_found(scene: SiemScene, tmp_path: Path, forge: Forged) -> None:
    await scene.happens(6)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver))
        async with scene.forwarding():
            await scene.done()
        records = lines(receiver.calls)
    assert (await verified(scene, records, tmp_path))[0] == 0
    # Twice, and in another order, is no fault.
    assert (await verified(scene, [*reversed(records), *records], tmp_path))[0] == 0
    forge(records)
    status, told = await verified(scene, records, tmp_path)
    assert status == 1
    assert "FAULT" in told


async def test_what_is_forgotten_leaves_a_commitment(scene: SiemScene, tmp_path: Path) -> None:
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), is_active=False)
        await scene.happens(2, email="grace@acme.example")
        scene.signs_in(count=2)
        while await scene.postern.tenancy.siem_export.number():
            pass
        scene.people.change("delete from audit_personal")
        scene.people.change("delete from login_events where id = (select event_id from sign_in_links where sequence = 1)")
        await scene.configured(url(receiver))
        async with scene.forwarding():
            await scene.done()
        records = lines(receiver.calls)
    gone = [one for one in records if "digest" in one and one["personal"] is None]
    assert all(one["commitment"] for one in gone)
    assert ("sign_in", 1) in {(one["stream"], one["sequence"]) for one in gone}
    assert "grace" not in json.dumps(records)
    assert sequences(records, "sign_in") == [1, 2]
    assert (await verified(scene, records, tmp_path))[0] == 0


@pytest.mark.parametrize("job", ["done", "under way", "before the numbers"])
async def test_of_people_who_were_forgotten_only_commitments_leave(scene: SiemScene, tmp_path: Path, job: str) -> None:
    member = scene.resident(scene.acme, "member")
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), is_active=False)
        scene.signs_in(count=2, of=member)
        async with scene.postern.foundation.unit_of_work() as uow:
            actor = Actor(UserId(member.user), address="192.0.2.9", user_agent="Chrome")
            await uow.record(Event("role.created", actor, Target("role", str(uuid4())), OrganizationId(scene.acme.id), {}))
            await uow.commit()
        if job != "before the numbers":
            while await scene.postern.tenancy.siem_export.number():
                pass
        if job == "under way":
            # The job has not reached these entries.
            scene.people.change(
                "insert into privacy_requests (id, user_id, requested_at, email_keys) values (gen_random_uuid(), %s, now(), '{}')",
                member.user,
            )
        else:
            await scene.postern.identity.privacy.forget(UserId(member.user), PrivacyRequester(operator="root"), SYSTEM)
        await scene.link()
        await scene.configured(url(receiver))
        async with scene.forwarding():
            await scene.done()
        records = lines(receiver.calls)
    assert sequences(records, "sign_in") == [1, 2]
    assert [one["personal"] for one in records if one["stream"] == "sign_in" and "digest" in one] == [None, None]
    assert "192.0.2.9" not in json.dumps(records)
    assert (await verified(scene, records, tmp_path))[0] == 0


async def test_errors_repeat_a_batch_and_lose_nothing(scene: SiemScene, tmp_path: Path) -> None:
    """The receiver fails, hangs up, or takes a batch and denies it. Meanwhile forwarders are killed and others go on."""
    await scene.happens(120)
    turns = iter(range(10_000))
    taken: list[Call] = []

    async def moody(stream: trio.abc.Stream, call: Call) -> bool:
        match next(turns) % 5:
            case 0:
                return await answering(503)(stream, call)
            case 1:
                return False
            case 2:
                taken.append(call)
                return await answering(500)(stream, call)
            case _:
                taken.append(call)
                return await answering(200)(stream, call)

    async with receiving(moody) as receiver:
        await scene.configured(url(receiver), batch_size=7)
        await scene.link()
        scene.signs_in(count=40)

        async def patience() -> bool:
            scene.due_again()
            async with scene.forwarding(processes=2):
                await trio.sleep(0.05)
            scene.people.change("update siem_configurations set leased_until = now() where lease is not null")
            waiting = scene.people.rows("select 1 from sign_in_pending")
            return not waiting and (await scene.health())["lag"] == 0

        await scene.when(patience)
        records = lines(taken)
    for stream, count in (("audit", 121), ("sign_in", 40)):
        numbers = sequences(records, stream)
        firsts = list(dict.fromkeys(numbers))
        assert firsts == list(range(1, count + 1)), stream
    assert (await verified(scene, records, tmp_path))[0] == 0


async def test_a_dead_receiver_is_nobody_elses_problem(scene: SiemScene) -> None:
    await scene.happens(1)
    await scene.happens(3, to=scene.globex)
    async with receiving(answering(200)) as receiver:
        await scene.configured(DEAD)
        await scene.configured(url(receiver), of="globex")
        async with scene.forwarding():
            health = await scene.failed()
            await receiver.until(1)
    assert health["last_error"] == "connection_failed"
    assert health["lag"] >= 1
    assert {one["organization_id"] for one in lines(receiver.calls)} == {str(scene.globex.id)}


@pytest.mark.parametrize("provider", ["generic", "elastic"])
async def test_what_a_receiver_may_answer_ends_nothing(scene: SiemScene, provider: str) -> None:
    """Neither a date out of range nor half of a character in the answer stops the forwarder."""
    await scene.happens()
    item = b'{"errors":true,"items":[{"create":{"status":400,"error":{"type":"\\ud800\\u0000\\u001b[31mbad"}}}]}'
    answers = {
        "generic": answering(503, b"", "Retry-After: Mon, 01 Jan 2026 00:00:00 -9999999999999"),
        "elastic": answering(200, item),
    }
    errors = {"generic": "answered 503", "elastic": "1 entries refused, the first with 400 [31mbad"}
    async with receiving(answers[provider]) as receiver:
        await scene.configured(url(receiver), provider)
        async with scene.forwarding():
            assert (await scene.failed())["last_error"] == errors[provider]
        tried = (await scene.ask("POST", "/test")).ok(200)
        assert tried == {"success": False, "message": errors[provider]}


async def test_a_mishap_with_one_organization_is_nobody_elses_problem(
    scene: SiemScene, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.allow("work_broken")
    export = scene.postern.tenancy.siem_export
    forward = export.forward

    async def odd(forwarding: Forwarding, *others: Any) -> bool:
        if forwarding.claimed.organization == scene.acme.id:
            raise OverflowError("of our own making")
        return await forward(forwarding, *others)

    answer_by(monkeypatch, export, "forward", odd)
    await scene.happens(1)
    await scene.happens(3, to=scene.globex)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver))
        await scene.configured(url(receiver), of="globex")
        async with scene.forwarding():
            health = await scene.failed()
            await receiver.until(1)
            assert health["last_error"] == "internal_error"
            (row,) = scene.people.rows(
                "select failures, lease, next_at > now() as rests from siem_configurations where org_id = %s", scene.acme.id
            )
            assert row == {"failures": 1, "lease": None, "rests": True}
            monkeypatch.undo()
            scene.due_again()
            await scene.done()
    assert len(log.events("work_broken")) == 1


async def test_pauses_grow_and_a_receiver_may_ask_for_more(scene: SiemScene) -> None:
    def pause() -> float:
        (row,) = scene.people.rows("select failures, extract(epoch from next_at - now())::float as pause from siem_configurations")
        assert row["failures"] == 1
        return float(row["pause"])

    await scene.happens()
    async with receiving(answering(429, b"", "retry-after: 3000")) as receiver:
        await scene.configured(url(receiver))
        async with scene.forwarding():
            assert (await scene.failed())["last_error"] == "answered 429"
        assert 2900 < pause() <= 3000
        # A change starts anew.
        await scene.configured(url(receiver))
        assert (await scene.health())["last_error"] is None
        receiver.answer = answering(200)
        async with scene.forwarding():
            await scene.done()


async def test_disabled_suspended_and_deleted_means_silent_at_once(scene: SiemScene) -> None:
    async def silent() -> bool:
        before = len(receiver.calls)
        await scene.happens()
        async with scene.forwarding():
            await trio.sleep(0.3)
        return len(receiver.calls) == before

    async def is_heard() -> None:
        before = len(receiver.calls)
        await scene.happens()
        with trio.fail_after(PATIENCE):
            async with scene.forwarding():
                await receiver.until(before + 1)

    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), is_active=False)
        assert await silent()
        await scene.configured(url(receiver))
        await is_heard()
        scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
        assert await silent()
        scene.people.change("update all_organizations set status = 'active', deleted_at = now() where id = %s", scene.acme.id)
        assert await silent()
        scene.people.change("update all_organizations set deleted_at = null where id = %s", scene.acme.id)
        await is_heard()
        await scene.happens(5)
        assert (await scene.ask("DELETE")).status == 204
        assert await silent()


@pytest.mark.parametrize("change", ["disable", "delete", "redirect", "suspend", "operator"])
async def test_what_was_read_before_a_change_does_not_leave_after_it(
    scene: SiemScene, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is ready, and then a member changes the configuration."""
    await scene.happens(3)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver))
        export = scene.postern.tenancy.siem_export
        (forwarding,) = await export.claim(10, failing=False)
        hold = export.queue.renew_lease

        async def changed_first(*asked: Any) -> Any:
            match change:
                case "disable":
                    await scene.configured(url(receiver), is_active=False)
                case "delete":
                    assert (await scene.ask("DELETE")).status == 204
                case "redirect":
                    await scene.configured(url(receiver, "/other"))
                case "operator":
                    # As the runbook says, without the endpoint.
                    scene.people.change("update siem_configurations set is_active = false")
                case _:
                    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
            return await hold(*asked)

        monkeypatch.setattr(export.queue, "hold", changed_first)  # between the last read and the call
        assert not await export.forward(forwarding, Stream.AUDIT, lambda: 0.0)
    assert receiver.calls == []


async def test_one_that_is_made_again_begins_anew(scene: SiemScene, tmp_path: Path) -> None:
    async with receiving(answering(200)) as receiver:
        for _ in range(2):
            await scene.configured(url(receiver))
            await scene.happens(2)
            scene.signs_in(count=2)
            async with scene.forwarding():
                await scene.done()
            assert (await scene.ask("DELETE")).status == 204
        records = lines(receiver.calls)
    await scene.link()
    exports = list(dict.fromkeys(one["export_id"] for one in records))
    assert [sequences([one for one in records if one["export_id"] == export], "sign_in") for export in exports] == [[1, 2], [1, 2]]
    assert (await verified(scene, records, tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("provider", "header"),
    [
        ("splunk_hec", ("authorization", f"Splunk {SECRET}")),
        ("datadog", ("dd-api-key", SECRET)),
        ("elastic", ("authorization", f"ApiKey {SECRET}")),
        ("generic", ("authorization", f"Bearer {SECRET}")),
    ],
)
async def test_each_provider_gets_its_own_form(scene: SiemScene, tmp_path: Path, provider: str, header: tuple[str, str]) -> None:
    await scene.happens(2)
    async with receiving(answering(200, b'{"errors":false}')) as receiver:
        await scene.configured(url(receiver), provider, api_key=SECRET)
        await scene.link()
        async with scene.forwarding():
            await scene.done()
    (call,) = receiver.calls
    assert call.headers[header[0]] == header[1]
    text = call.body.decode()
    if provider == "datadog":
        items = json.loads(text)
        assert {item["ddsource"] for item in items} == {"postern"}
    elif provider == "elastic":
        assert call.target == "/in?x=1&filter_path=errors,items.*.status,items.*.error.type"
        told = [json.loads(line) for line in text.splitlines()]
        items = told[1::2]
        assert [action["create"]["_id"].split("-", 5)[-1] for action in told[::2]] == ["audit-1", "audit-2", "audit-3", "audit-3-head"]
        assert all("@timestamp" in item for item in items)
    else:
        items = [json.loads(line) for line in text.splitlines()]
    if provider == "splunk_hec":
        assert all(item["sourcetype"] == "_json" and item["time"] > 0 for item in items)
    assert len(items) == 4
    assert (await verified(scene, items, tmp_path))[0] == 0


async def test_a_bulk_answer_is_read_item_by_item(scene: SiemScene) -> None:
    await scene.happens(1)
    refused = b'{"errors":true,"items":[{"create":{"status":409}},{"create":{"status":400,"error":{"type":"document_parsing_exception"}}}]}'
    async with receiving(answering(200, refused)) as receiver:
        await scene.configured(url(receiver), "elastic")
        async with scene.forwarding():
            health = await scene.failed()
        assert health["last_error"] == "1 entries refused, the first with 400 document_parsing_exception"
        # Entries that existed already count as received.
        receiver.answer = answering(200, b'{"errors":true,"items":[{"create":{"status":409}},{"create":{"status":201}}]}')
        scene.due_again()
        async with scene.forwarding():
            await scene.done()


async def test_an_entry_that_somebody_removed_or_moved_is_told_as_missing(scene: SiemScene, tmp_path: Path) -> None:
    await scene.happens(3)
    await scene.happens(1, to=scene.globex)
    # Somebody with the database points a link of acme's at an entry of globex's.
    scene.people.change("alter table audit_links drop constraint audit_links_entry_id_key")
    scene.people.change(
        "update audit_links set entry_id = (select entry_id from audit_links where chain_id = %s and sequence = 1)"
        " where chain_id = %s and sequence = 2",
        scene.globex.id,
        scene.acme.id,
    )
    try:
        async with receiving(answering(200)) as receiver:
            await scene.configured(url(receiver))
            async with scene.forwarding():
                await scene.done()
            records = lines(receiver.calls)
    finally:
        scene.people.change("delete from audit_links")
        scene.people.change("alter table audit_links add constraint audit_links_entry_id_key unique (entry_id)")
    assert sequences(records)[:3] == [1, 2, 3]
    assert records[1]["entry"] is None
    status, told = await verified(scene, records, tmp_path)
    assert (status, "2 has lost its entry" in told) == (1, True)


async def test_credentials_that_cannot_be_opened_are_told(scene: SiemScene) -> None:
    await scene.happens()
    await scene.configured(DEAD, api_key=SECRET)
    scene.people.change("update siem_configurations set sealed_credentials = 'nonsense'")
    scene.log.allow("siem_credentials_unreadable")
    async with scene.forwarding():
        assert "send them again" in (await scene.failed())["last_error"]


async def test_sign_ins_are_numbered_as_they_commit_and_without_a_gap(scene: SiemScene, database_url: str) -> None:
    made = await scene.configured(is_active=False)
    export = scene.postern.tenancy.siem_export
    # A transaction that never commits, and leaves no number behind.
    with psycopg.connect(database_url) as late, psycopg.connect(database_url) as lost:
        for connection in (late, lost):
            connection.execute(
                "with logged as (insert into login_events (id, organization_id, provider, success, created_at)"
                " values (gen_random_uuid(), %s, 'password', true, now()) returning id)"
                " insert into sign_in_pending select id, %s from logged",
                (scene.acme.id, made["id"]),
            )
        scene.signs_in(count=3)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(export.number)
        lost.rollback()
        late.commit()
    while await export.number():
        pass
    rows = scene.people.rows("select sequence, created_at from sign_in_links order by sequence")
    assert [row["sequence"] for row in rows] == [1, 2, 3, 4]
    # The entry that committed late comes last, although it began first.
    assert rows[3]["created_at"] < rows[0]["created_at"]


async def test_a_sign_in_is_queued_for_the_export_of_its_organization(scene: SiemScene) -> None:
    await scene.configured(is_active=False)
    await scene.configured(of="globex", is_active=False)
    events = LoginEventId(uuid4()), LoginEventId(uuid4())
    async with scene.postern.foundation.unit_of_work() as uow:
        for event, organization in zip(events, (OrganizationId(scene.acme.id), None), strict=True):
            now = scene.postern.foundation.clock.now()
            await uow.login_events.add(
                LoginEvent(
                    id=event,
                    user=UserId(scene.owner.user),
                    provider="password",
                    failure=None,
                    address="192.0.2.9",
                    user_agent=None,
                    created_at=now,
                    organization=organization,
                )
            )
        await uow.commit()
    while await scene.postern.tenancy.siem_export.number():
        pass
    rows = scene.people.rows("select org_id, content from sign_in_links join siem_configurations on id = export_id")
    assert [(row["org_id"], row["content"]["success"]) for row in rows] == [(scene.acme.id, True)]


async def test_what_was_received_is_forgotten_here_and_so_is_what_belongs_to_no_export(scene: SiemScene) -> None:
    sweep = housekeeping.sweep(scene.postern.foundation.pool, "ReceivedSignIns")
    export = scene.postern.tenancy.siem_export
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver))
        scene.signs_in(count=3)
        async with scene.forwarding():
            await scene.done()
        await scene.configured(url(receiver), is_active=False)
        scene.signs_in(count=2)
        await export.number()
        assert await sweep.delete_expired(2) == 2
        assert await sweep.delete_expired(2) == 1
        assert await sweep.delete_expired(2) == 0
        assert [row["sequence"] for row in scene.people.rows("select sequence from sign_in_links order by 1")] == [4, 5]
        scene.signs_in(count=1)
        await scene.ask("DELETE")
    # Entries get no numbers for a removed export, and no rows of the export stay.
    assert await export.number() == 1
    assert await sweep.delete_expired(9) == 2
    assert scene.people.rows("select 1 from sign_in_links union all select 1 from sign_in_pending") == []


async def test_a_rotation_of_the_ring_seals_the_credentials_again(scene: SiemScene) -> None:
    await scene.configured(DEAD, api_key=SECRET)
    ring = AesGcmKeyRing([EncryptionKey("newer", b"n" * 32), EncryptionKey("test", b"k" * 32)])
    columns = PostgresSealedColumns(scene.postern.foundation.pool, ring)
    (value,) = await columns.outdated("siem_configurations.sealed_credentials", 10)
    opened = ring.open(value.sealed, value.context)
    assert SECRET in opened.decode()
    assert await columns.replace("siem_configurations.sealed_credentials", value.row, value.sealed, ring.seal(opened, value.context))
    assert await columns.outdated("siem_configurations.sealed_credentials", 10) == []


async def test_an_organization_with_a_long_log_leaves_hands_to_others(scene: SiemScene) -> None:
    """A turn ends, and another worker goes on with the export."""
    await scene.happens(30)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), batch_size=1)
        await scene.link()
        forwarder = SiemForwarder(
            scene.postern.tenancy.siem_export,
            scene.postern.foundation.doorbell,
            metrics=scene.postern.foundation.metrics,
            spread=lambda: 0.0,
            poll=0.01,
            numbering=0.05,
            turn=0.001,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(forwarder.run)
            await scene.done()
            nursery.cancel_scope.cancel()
        assert sequences(lines(receiver.calls)) == list(range(1, 32))
    assert scene.people.rows("select 1 from siem_configurations where lease is not null") == []


async def test_a_batch_that_is_made_in_parts_is_sent_as_one(scene: SiemScene) -> None:
    await scene.happens(25)
    async with receiving(answering(200)) as receiver:
        await scene.configured(url(receiver), batch_size=100)
        await scene.link()
        async with scene.forwarding():
            await scene.done()
        assert sequences(lines(receiver.calls[:1])) == list(range(1, 27))


async def test_a_lease_that_was_lost_moves_no_cursor(scene: SiemScene) -> None:
    await scene.happens(2)
    export = scene.postern.tenancy.siem_export

    async def taken_away(stream: trio.abc.Stream, call: Call) -> bool:
        scene.people.change("update siem_configurations set lease = gen_random_uuid()")
        return await answering(200)(stream, call)

    async with receiving(taken_away) as receiver:
        await scene.configured(url(receiver))
        (forwarding,) = await export.claim(10, failing=False)
        assert not await export.forward(forwarding, Stream.AUDIT, lambda: 0.0)
        await export.release(forwarding)
    assert (await scene.health())["last_delivered_at"] is None
    assert scene.people.rows("select 1 from siem_configurations where lease is null") == []


async def test_an_export_can_be_given_to_one_process_alone(scene: SiemScene) -> None:
    await scene.happens(1)
    await scene.configured()
    export = scene.postern.tenancy.siem_export
    assert len(await export.claim(10, failing=False)) == 1
    assert await export.claim(10, failing=False) == []
    assert await export.claim(10, failing=True) == []

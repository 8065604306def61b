"""A person's devices over HTTP: shown, renamed and revoked by their owner, and by nobody else."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
import trio
from psycopg.rows import dict_row

from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.tenants import Tenants

LIST: Final = "/api/user/devices"
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
PASSWORD: Final = "a long and quiet afternoon"
CROWD: Final = 50


class Drawer:
    """People's devices, added without a sign-in."""

    def __init__(self, postern: Postern, people: People, database_url: str) -> None:
        self._postern = postern
        self._people = people
        self._database_url = database_url

    def add(self, person: Person, *, used: timedelta = timedelta(0), **columns: Any) -> UUID:
        device = self._postern.foundation.ids.new()
        now = self._postern.foundation.clock.now()
        values: Mapping[str, Any] = {
            "id": device,
            "user_id": person.user,
            "token_digest": device.bytes,
            "name": "Firefox on Linux",
            "device_type": "browser",
            "browser": "Firefox",
            "browser_version": "133.0",
            "os": "Linux",
            "os_version": None,
            "last_used_at": now - used,
            "last_address": "192.0.2.1",
            "risk_score": 0.3,
            "created_at": now,
            "updated_at": now,
            **columns,
        }
        names, places = ", ".join(values), ", ".join(["%s"] * len(values))
        self._people.change(f"insert into devices ({names}) values ({places})", *values.values())
        return device

    def use(self, person: Person, device: UUID) -> None:
        self._people.change("update sessions set device_id = %s where id = %s", device, person.session)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._database_url, row_factory=dict_row) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def audited(self) -> list[dict[str, Any]]:
        return self.rows("select action, actor_id, impersonator_id, host(address) as address, details from audit_log order by id")


@pytest.fixture
def drawer(postern: Postern, people: People, database_url: str) -> Drawer:
    return Drawer(postern, people, database_url)


@pytest.fixture
def ada(people: People) -> Person:
    return people.add("ada@example.org")


async def at(client: Client, method: str, device: object, token: str, body: Any = None) -> Received:
    return await client.request(method, f"{LIST}/{device}", body=body, token=token)


def is_time(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


async def test_the_list_has_the_callers_devices_in_summary_the_last_used_first(
    client: Client, people: People, drawer: Drawer, postern: Postern, ada: Person
) -> None:
    older = drawer.add(ada, used=timedelta(days=1), trusted_until=postern.foundation.clock.now() + timedelta(days=1), trust_digest=b"1")
    here = drawer.add(ada, last_country="DE", last_city="Bonn")
    drawer.add(ada, revoked_at=postern.foundation.clock.now())
    drawer.add(people.add())
    drawer.use(ada, here)
    answer = await client.get(LIST, token=await people.token(ada))
    assert answer.status == 200
    assert answer.header("cache-control") == "no-store"
    body = answer.json()
    assert body["total"] == 2
    first, second = body["devices"]
    assert (first["id"], first["is_current"], first["trusted"]) == (str(here), True, False)
    assert (second["id"], second["is_current"], second["trusted"]) == (str(older), False, True)
    assert is_time(first.pop("last_used_at"))
    assert is_time(first.pop("created_at"))
    assert first == {
        "id": str(here),
        "name": "Firefox on Linux",
        "device_type": "browser",
        "browser": "Firefox",
        "os": "Linux",
        "last_ip": "192.0.2.1",
        "is_current": True,
        "trusted": False,
    }


async def test_who_has_no_devices_gets_an_empty_list(client: Client, people: People, ada: Person) -> None:
    assert (await client.get(LIST, token=await people.token(ada))).json() == {"devices": [], "total": 0}


async def test_the_detail_says_more(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada, last_country="DE", last_city="Bonn", risk_score=0.7)
    body = (await at(client, "GET", device, await people.token(ada))).json()
    assert is_time(body.pop("last_used_at"))
    assert is_time(body.pop("created_at"))
    assert body == {
        "id": str(device),
        "name": "Firefox on Linux",
        "device_type": "browser",
        "browser": "Firefox",
        "browser_version": "133.0",
        "os": "Linux",
        "os_version": "",
        "last_ip": "192.0.2.1",
        "last_location": {"city": "Bonn", "country": "DE"},
        "is_current": False,
        "trusted": False,
        "risk_score": 0.7,
    }


async def test_what_is_not_known_of_a_device_is_empty(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada, browser=None, browser_version=None, os=None, last_address=None)
    body = (await at(client, "GET", device, await people.token(ada))).json()
    assert [body[name] for name in ("browser", "browser_version", "os", "os_version", "last_ip")] == [""] * 5
    assert body["last_location"] == {"city": None, "country": None}


async def test_trust_that_has_run_out_is_none(client: Client, people: People, drawer: Drawer, postern: Postern, ada: Person) -> None:
    device = drawer.add(ada, trusted_until=postern.foundation.clock.now(), trust_digest=b"1")
    assert (await at(client, "GET", device, await people.token(ada))).json()["trusted"] is False


async def test_a_device_is_renamed_and_that_is_audited(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada)
    token = await people.token(ada)
    answer = await at(client, "PATCH", device, token, {"name": "  Ada's \N{PERSONAL COMPUTER} "})
    assert answer.status == 200
    body = answer.json()
    assert is_time(body.pop("updated_at"))
    assert body == {"id": str(device), "name": "Ada's \N{PERSONAL COMPUTER}", "device_type": "browser"}
    assert (await at(client, "GET", device, token)).json()["name"] == "Ada's \N{PERSONAL COMPUTER}"
    (entry,) = drawer.audited()
    assert (entry["action"], entry["actor_id"], entry["impersonator_id"], entry["address"]) == (
        "user.device.renamed",
        ada.user,
        None,
        "192.0.2.1",
    )


BAD_NAMES: Final[Sequence[Any]] = [
    {},
    {"name": None},
    {"name": 5},
    {"name": ["x"]},
    {"name": ""},
    {"name": "  \t "},
    {"name": "x" * 101},
    {"name": "a\nb"},
    {"name": "a\u202eb"},
    b'{"name": "a\\u0000b"}',
    b'{"name": "a\\ud800b"}',
    b'{"name": "\xff"}',
    b'{"name": "x", ',
    b"[]",
    b'"name"',
    b"",
]


async def test_a_bad_name_is_refused_and_nothing_changes(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada)
    token = await people.token(ada)
    for body in BAD_NAMES:
        answer = await at(client, "PATCH", device, token, body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), body
        if isinstance(body, dict):
            assert "name" in answer.json()["error"]
    assert drawer.rows("select name from devices") == [{"name": "Firefox on Linux"}]
    assert drawer.audited() == []


HOSTILE_NAMES: Final = [
    "'; drop table devices; --",
    "<script>alert(1)</script>",
    "%(name)s {0} %s",
    "../../etc/passwd",
    "\\",
    "\N{PERSONAL COMPUTER}" * 100,
]


async def test_a_hostile_name_is_only_a_name(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada)
    token = await people.token(ada)
    for name in HOSTILE_NAMES:
        assert (await at(client, "PATCH", device, token, {"name": name})).status == 200
        for more in ({"trusted": True}, {"user_id": "x"}):
            assert (await at(client, "PATCH", device, token, {"name": "Other", **more})).status == 400
        body = (await at(client, "GET", device, token)).json()
        assert (body["name"], body["trusted"]) == (name, False)


async def test_a_revoked_device_is_dead_on_the_next_request_and_revoking_may_be_repeated(
    client: Client, people: People, drawer: Drawer, ada: Person
) -> None:
    lost, here = drawer.add(ada), drawer.add(ada)
    thief = Person(ada.user, people._postern.foundation.ids.new(), ada.email)
    people.change(
        "insert into sessions (id, user_id, device_id, created_at, last_seen_at, expires_at) select %s, user_id, %s, created_at, "
        "last_seen_at, expires_at from sessions where id = %s",
        thief.session,
        lost,
        ada.session,
    )
    drawer.use(ada, here)
    token, stolen = await people.token(ada), await people.token(thief)
    assert (await client.get("/api/user", token=stolen)).status == 200
    for _ in range(2):
        answer = await at(client, "DELETE", lost, token)
        assert (answer.status, list(answer.json())) == (200, ["message"])
        assert (await client.get("/api/user", token=stolen)).status == 401
    assert (await client.get("/api/user", token=token)).status == 200
    assert [device["id"] for device in (await client.get(LIST, token=token)).json()["devices"]] == [str(here)]
    for method, body in (("GET", None), ("PATCH", {"name": "Mine"})):
        answer = await at(client, method, lost, token, body)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    (entry,) = drawer.audited()
    assert (entry["action"], entry["actor_id"], entry["details"]) == (
        "user.device.revoked",
        ada.user,
        {"device_id": str(lost), "name": "Firefox on Linux", "sessions": 1},
    )


async def test_the_device_in_use_is_refused(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    here = drawer.add(ada)
    drawer.use(ada, here)
    token = await people.token(ada)
    answer = await at(client, "DELETE", here, token)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert (await client.get("/api/user", token=token)).status == 200


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {"name": "Mine"}), ("DELETE", None)])
async def test_anothers_device_is_forbidden_and_an_unknown_one_not_found(
    client: Client, people: People, drawer: Drawer, ada: Person, postern: Postern, method: str, body: Any
) -> None:
    other = people.add("bob@example.org")
    his = drawer.add(other)
    drawer.use(other, his)
    hers = await people.token(ada)
    answer = await at(client, method, his, hers, body)
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    for unknown in (postern.foundation.ids.new(), "not-an-id", "0", "%27", his.hex[:-1]):
        answer = await at(client, method, unknown, hers, body)
        assert (answer.status, answer.error_code) == (404, "NOT_FOUND")
    assert (await client.get("/api/user", token=await people.token(other))).status == 200
    assert drawer.rows("select name, revoked_at from devices") == [{"name": "Firefox on Linux", "revoked_at": None}]
    assert drawer.audited() == []


async def test_a_deactivated_person_gets_nothing(client: Client, people: People, drawer: Drawer, ada: Person) -> None:
    device = drawer.add(ada)
    token = await people.token(ada)
    people.change("update users set deactivated_at = now()")
    assert (await client.get(LIST, token=token)).status == 401
    for method, body in (("GET", None), ("PATCH", {"name": "Mine"}), ("DELETE", None)):
        assert (await at(client, method, device, token, body)).status == 401
    assert drawer.rows("select revoked_at, name from devices") == [{"revoked_at": None, "name": "Firefox on Linux"}]


async def test_whoever_acts_in_a_persons_name_learns_and_changes_nothing_of_their_devices(
    client: Client, people: People, drawer: Drawer, ada: Person
) -> None:
    owner = people.add(platform_owner=True)
    device = drawer.add(ada)
    impersonation = people._postern.foundation.ids.new()
    people.change("update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", owner.user, impersonation, ada.session)
    token = await people.token(
        ada,
        token_use="impersonation",
        impersonator=str(owner.user),
        impersonation_session=str(impersonation),
        act={"sub": str(owner.user)},
    )
    before = people.rows("select * from devices")
    for method, body in (("GET", None), ("PATCH", {"name": "Theirs"}), ("DELETE", None)):
        refused = await at(client, method, device, token, body)
        assert (refused.status, refused.error_code) == (403, "FORBIDDEN")
    assert (await client.get("/api/user/devices", token=token)).status == 403
    assert people.rows("select * from devices") == before
    # Each try is recorded all the same.
    entries = [(entry["action"], entry["actor_id"], entry["impersonator_id"]) for entry in drawer.audited()]
    assert entries == [("security.impersonation.request", ada.user, owner.user)] * 4


async def test_an_application_that_a_person_is_signed_in_to_learns_and_changes_nothing_of_their_devices(
    client: Client, people: People, postern: Postern, drawer: Drawer, ada: Person
) -> None:
    tenants = Tenants(postern, people)
    device = drawer.add(ada)
    token = await tenants.token_in(ada, tenants.service(tenants.add("acme"), "app"))
    before = people.rows("select * from devices")
    for method, body in (("GET", None), ("PATCH", {"name": "Theirs"}), ("DELETE", None)):
        refused = await at(client, method, device, token, body)
        assert (refused.status, refused.error_code) == (403, "FORBIDDEN")
    for path in ("/api/user/devices", "/api/user/mfa/status"):
        assert (await client.get(path, token=token)).status == 403
    assert people.rows("select * from devices") == before
    assert (await client.get("/api/user", token=token)).status == 200


async def test_of_many_revocations_at_once_all_are_answered_alike_and_one_is_audited(
    client: Client, people: People, drawer: Drawer, ada: Person
) -> None:
    device = drawer.add(ada)
    token = await people.token(ada)
    answers: list[int] = []

    async def revoke() -> None:
        answers.append((await at(client, "DELETE", device, token)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(revoke)
    assert answers == [200] * CROWD
    assert len(drawer.audited()) == 1


# The caller's own look-up included.
ROUND_TRIPS: Final = {("GET", ""): 2, ("GET", "/{}"): 2, ("PATCH", "/{}"): 3, ("DELETE", "/{}"): 4}


async def test_round_trips(client: Client, people: People, drawer: Drawer, ada: Person, log: CapturedLog) -> None:
    measured: dict[tuple[str, str], int] = {}
    token = await people.token(ada)
    for name in ("warm", "measured"):
        device = drawer.add(ada)
        for method, path in ROUND_TRIPS:
            log.entries.clear()
            body = {"name": name} if method == "PATCH" else None
            assert (await client.request(method, LIST + path.format(device), body=body, token=token)).status == 200
            (line,) = log.events("request")
            measured[method, path] = line["db_round_trips"]
    assert measured == ROUND_TRIPS


async def test_a_journey_from_one_sign_in_to_the_revocation_by_another(
    client: Client, people: People, postern: Postern, ada: Person, log: CapturedLog
) -> None:
    people.change(
        "update users set password_hash = %s, email_verified_at = now()", await postern.identity.passwords.hash(Password(PASSWORD))
    )
    log.remember(PASSWORD)

    async def sign_in(agent: str, device_token: str | None = None) -> Received:
        headers = [("User-Agent", agent), *([("X-Device-Token", device_token)] if device_token else [])]
        answer = await client.post("/api/auth/login", {"email": ada.email, "password": PASSWORD}, headers=headers)
        assert answer.status == 200, answer.json()
        return answer

    lost = await sign_in(FIREFOX)
    here = await sign_in("curl/8.5.0")
    log.remember(*(one.header("x-device-token") or "none" for one in (lost, here)))
    again = await sign_in("curl/8.6.0", here.header("x-device-token"))
    token = again.json()["access_token"]
    body = (await client.get(LIST, token=token)).json()
    assert [(device["name"], device["device_type"], device["is_current"]) for device in body["devices"]] == [
        ("curl", "cli", True),
        ("Firefox on Linux", "browser", False),
    ]
    assert (await at(client, "DELETE", body["devices"][1]["id"], token)).status == 200
    assert (await client.get("/api/user", token=lost.json()["access_token"])).status == 401
    assert (await client.post("/api/auth/refresh", {"refresh_token": lost.json()["refresh_token"]})).status == 401
    for one in (here, again):
        assert (await client.get("/api/user", token=one.json()["access_token"])).status == 200
        assert (await client.post("/api/auth/refresh", {"refresh_token": one.json()["refresh_token"]})).status == 200
    # The device's token no longer works, so this counts as a new device.
    back = await sign_in(FIREFOX, lost.header("x-device-token"))
    assert back.header("x-device-token") not in {None, lost.header("x-device-token")}

"""A service's own servers, which call with the service's key; and a count of all rows about a person."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from core.domain.services.services import ServiceProfile, ServiceType
from tests.http.client import Received
from tests.http.people import Person
from tests.http.subscribing import Market
from tests.http.tenants import UsedService

PROFILE: Final = ServiceProfile("Shop", ServiceType.WEB, datetime(2026, 1, 1, tzinfo=UTC))
USERS: Final = "/api/service/users"
# Every table with data about people, and the columns that name the person.
TRACES: Final = {
    "users": "id = {0}",
    "sessions": "user_id = {0} or impersonator_id = {0}",
    "refresh_tokens": "session_id in (select id from sessions where user_id = {0})",
    "devices": "user_id = {0}",
    "mailed_tokens": "user_id = {0}",
    "mfa_secrets": "user_id = {0}",
    "backup_codes": "user_id = {0}",
    "mfa_events": "user_id = {0}",
    "preauthentications": "user_id = {0}",
    "login_events": "user_id = {0}",
    "service_users": "user_id = {0}",
    "subscriptions": "user_id = {0}",
    "impersonations": "user_id = {0} or impersonator_id = {0}",
    "audit_personal": "actor_id = {0} or entry_id in (select id from audit_entries where target_type = 'user' and target_id = {0}::text)",
}


class Backend:
    """The servers of one service."""

    def __init__(self, market: Market, service: UsedService) -> None:
        self.market = market
        self.service = service
        self.key = market.key if service == market.shop else market.key_of(service)

    async def ask(self, method: str, path: str = USERS, body: Any = None) -> Received:
        headers = [("x-api-key", self.key), ("user-agent", "backend/1")]
        return await self.market.client.request(method, path, body=body, headers=headers)

    async def create(self, email: str) -> Person:
        """Adds a user. Makes an account through this service, unless the address has an account."""
        answer = await self.ask("POST", body={"email": email})
        assert answer.status == 200, answer.body
        body = answer.json()
        return Person(UUID(body["id"]), UUID(int=0), body["email"])

    async def get(self, person: Person) -> Received:
        return await self.ask("GET", f"{USERS}/{person.user}")

    async def move(self, person: Person, email: str) -> Received:
        return await self.ask("PATCH", f"{USERS}/{person.user}", {"email": email})

    async def delete(self, person: Person) -> Received:
        return await self.ask("DELETE", f"{USERS}/{person.user}")


def traces(market: Market, person: Person) -> Counter[str]:
    """The number of rows about the person in each table."""
    found: Counter[str] = Counter()
    who = f"'{person.user}'::uuid"
    for table, condition in TRACES.items():
        (row,) = market.people.rows(f"select count(*) as n from {table} where {condition.format(who)}")
        if row["n"]:
            found[table] = row["n"]
    return found


def leave_traces(market: Market, person: Person, *services: UsedService) -> None:
    """Fills the tables about the person: sessions on the platform and in these services, a second factor, a link, and audit entries in
    which the person is the actor or the target.
    """
    people, new = market.people, market.postern.foundation.ids.new
    device, entry, about = new(), new(), new()
    people.change(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (%s, %s, 'Laptop', 'browser', now(), now(), now())",
        device,
        person.user,
    )
    for service in (None, *services):
        session = market.tenants.session(person, service).session
        people.change("update sessions set device_id = %s where id = %s", device, session)
        people.change("insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", session.bytes, session)
        people.change(
            "insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, created_at)"
            " values (%s, %s, %s, %s, %s, 'password', true, now())",
            new(),
            person.user,
            service and service.tenant.id,
            service and service.id,
            device,
        )
        people.change(
            "insert into preauthentications (id, user_id, device_id, organization_id, service_id, created_at, expires_at)"
            " values (%s, %s, %s, %s, %s, now(), now() + interval '1 hour')",
            new(),
            person.user,
            device,
            service and service.tenant.id,
            service and service.id,
        )
    people.change(
        "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
        " values (%s, 'reset_password', %s, %s, now(), now() + interval '1 hour')",
        person.user.bytes,
        person.user,
        person.email,
    )
    people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())", person.user)
    people.change("insert into backup_codes (user_id, digest) values (%s, '1')", person.user)
    people.change("insert into mfa_events (id, user_id, name, success, created_at) values (%s, %s, 'x', true, now())", new(), person.user)
    for identifier, actor, target, place in (
        (entry, person.user, "elsewhere", None),
        (about, market.admin.user, str(person.user), market.acme.id),
        (new(), market.admin.user, str(person.user), market.globex.id),
    ):
        people.change(
            "insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at)"
            " values (%s, %s, %s, 'x', 'user', %s, true, '{}', now())",
            identifier,
            place,
            actor,
            target,
        )
        people.change("insert into audit_personal (entry_id, actor_id, address, salt) values (%s, %s, '192.0.2.7', 's')", identifier, actor)

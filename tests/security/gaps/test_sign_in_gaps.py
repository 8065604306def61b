"""The last look of a sign-in has begun, and waits for a lock, while a fact ends on which the sign-in rests. It sees the end.

The look locks the account, the provider that vouches, the browser's flow, the trusted device and the service, in this order. Nobody else
changes a row that it holds, so each row is a gap up to its own lock. Everything else may end until the last of these waits is over.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from adapters.postgres.identity.proofs import sign_in
from core.domain.identity.sign_in import Confirmed
from tests.adapters.postgres.worlds.rows import DAY, Draw, Row, blank
from tests.adapters.postgres.worlds.test_worlds import _dumps
from tests.patience import PATIENCE

HASH: Final = "$argon2id$made"
# In the order in which the look takes them.
LOCKS: Final[Mapping[str, LiteralString]] = {
    "account": "select from users where email_key = 'ada@acme.example' for update",
    "provider": "select from upstream_providers for update",
    "flow": "select from flows for update",
    "device": "select from devices for update",
    "service": "select from all_services for update",
}
_WAITS: Final = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@dataclass(frozen=True)
class End:
    """How a fact ends, and what the look answers before and after.

    `until`: the lock up to which it can end. `first`: what the world is before. `passes`: a lock for which the look does not wait then.
    """

    row: LiteralString
    says: Callable[[Any], Any]
    until: str = "service"
    first: LiteralString = "select"
    passes: str = ""


_NO_SECOND_FACTOR: Final = "update mfa_secrets set enabled_at = null; update devices set trusted_until = now()"


def _service(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda answer: None if answer is None or answer.destination is None else of(answer.destination)


ENDS: Final[Mapping[str, End]] = {
    "the account is deactivated": End("update users set deactivated_at = now()", lambda answer: answer is not None, "account"),
    "the password is changed": End("update users set password_hash = 'another'", lambda answer: answer is not None, "account"),
    "the identity is disconnected": End("delete from identities", lambda answer: answer.is_connected),
    "the provider is off": End("update upstream_providers set enabled = false", lambda answer: answer.is_connected),
    "the domain is proved no longer": End(
        "update domains set verified_at = null, next_check_at = null", lambda answer: answer.is_connected
    ),
    "somebody has signed in by the flow": End(
        "update flows set signed_in_at = now(), proof_digest = 'x'", lambda answer: answer.flow_is_open, "flow"
    ),
    "the flow has come to its end": End(
        "update flows set expires_at = now() - interval '1 minute'", lambda answer: answer.flow_is_open, "flow"
    ),
    "the device is revoked": End("update devices set revoked_at = now()", lambda answer: answer.one_factor_is_enough, "device"),
    "the device is trusted no longer": End(
        "update devices set trusted_until = now() - interval '1 minute'", lambda answer: answer.one_factor_is_enough, "device"
    ),
    "the person turns on codes": End(
        "update mfa_secrets set enabled_at = now()",
        lambda answer: answer.one_factor_is_enough,
        first=_NO_SECOND_FACTOR,
        passes="device",
    ),
    "the person makes a passkey the second factor": End(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at, second_factor_since)"
        " select gen_random_uuid(), id, 'x', 'x', 0, 'Key', gen_random_uuid(), '{}', false, false, now(), now() from users"
        " where email like 'ada%'",
        lambda answer: answer.one_factor_is_enough,
        first=_NO_SECOND_FACTOR,
        passes="device",
    ),
    "the service is deleted": End("update all_services set deleted_at = now()", lambda answer: answer.destination is not None),
    "the organization is suspended": End("update all_organizations set status = 'suspended'", _service(lambda one: one.is_open)),
    "the organization is deleted": End("update all_organizations set deleted_at = now()", lambda answer: answer.destination is not None),
    "the membership ends": End("delete from memberships", _service(lambda one: one.admits)),
    "the service asks for a role": End("update all_services set sign_in_policy = 'assigned'", _service(lambda one: one.admits)),
    "the service becomes an agent": End("update all_services set is_agent = true", _service(lambda one: one.is_agent)),
    "the service binds its tokens": End("update all_services set dpop_bound_access_tokens = true", _service(lambda one: one.binds_tokens)),
    "the organization asks for a passkey": End(
        "update all_organizations set all_factor = 'passkey', all_required_since = now() - interval '40 days'",
        _service(lambda one: one.owes_second_factor),
    ),
    "terms are due": End("update terms set ended_at = null", _service(lambda one: one.owes_terms)),
    "the person confirms the membership": End("update memberships set own_since = now()", lambda answer: answer.is_listed),
    "the person is in a further organization": End(
        "insert into memberships (id, org_id, user_id, role, created_at)"
        " select gen_random_uuid(), all_organizations.id, users.id, 'member', now() from all_organizations, users where slug = 'beside'",
        lambda answer: answer.belongs_to_several,
    ),
    "a hook is to be asked": End("update hooks set org_id = null", lambda answer: answer.has_hooks),
    "rules for risk count": End("update all_organizations set risk_counts_since = now()", lambda answer: bool(answer.rules_asked)),
    "rules of the installation count": End(
        "update installation_risk_policies set counts_since = now()", lambda answer: bool(answer.rules_asked)
    ),
    "a field is asked for": End("update all_profile_fields set asked_at = 'sign_in'", lambda answer: answer.owes_answers),
    "the person has a passkey": End(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at)"
        " select gen_random_uuid(), id, 'x', 'x', 0, 'Key', gen_random_uuid(), '{}', false, false, now() from users"
        " where email like 'ada%'",
        lambda answer: answer.offers_passkey,
    ),
    "the person has bought something": End(
        "update subscriptions set user_id = users.id from users", lambda answer: answer.subscription.plan
    ),
    "the service has a claim": End(
        "update service_claims set service_id = all_services.id from all_services where all_services.slug = 'shop'",
        lambda answer: answer.tells_more,
    ),
    "the person has come here": End("update service_users set own_since = now()", lambda answer: answer.may_know_of_failures),
}


class GapWorld:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._draw, self._now = Draw("a sign-in"), datetime.now(UTC)
        acme = self.add("all_organizations", slug="acme")
        beside = self.add("all_organizations", slug="beside")
        ada = self.add("users", email="ada@acme.example", email_key="ada@acme.example", password_hash=HASH, email_verified_at=self._now)
        stranger = self.add("users", email="eve@b.example", email_key="eve@b.example")
        shop = self.add("all_services", org_id=acme["id"], slug="shop", sign_in_policy="members")
        other = self.add("all_services", org_id=beside["id"], slug="other")
        provider = self.add("upstream_providers", org_id=acme["id"])
        self.add("domains", org_id=acme["id"], domain="acme.example", verified_at=self._now, next_check_at=self._now)
        identity = self.add("identities", user_id=ada["id"], provider=provider["id"], upstream_provider_id=provider["id"])
        self.add("memberships", org_id=acme["id"], user_id=ada["id"], own_since=None, role="member", created_at=self._now - 60 * DAY)
        self.add("mfa_secrets", user_id=ada["id"], enabled_at=self._now)
        device = self.add("devices", user_id=ada["id"], trusted_until=self._now + DAY, trusted_at=self._now)
        flow = self.add("flows", service_id=shop["id"])
        self.add("terms", organization_id=acme["id"], ended_at=self._now)
        connection.execute("update all_organizations set asks_terms = true")
        self.add("hooks", org_id=beside["id"])
        self.add("installation_risk_policies", counts_since=None)
        self.add("all_profile_fields", org_id=acme["id"])
        plan = self.add("plans", service_id=shop["id"])
        self.add("subscriptions", service_id=shop["id"], user_id=stranger["id"], plan_id=plan["id"])
        self.add("service_claims", service_id=other["id"])
        self.add("service_users", service_id=shop["id"], user_id=ada["id"], org_id=acme["id"])
        self.asks: Mapping[str, Any] = {
            "user": UUID(ada["id"]),
            "encoded": HASH,
            "since": None,
            "identity": UUID(identity["id"]),
            "email_key": "ada@acme.example",
            "mail_domain": "acme.example",
            "on_device": UUID(device["id"]),
            "service": UUID(shop["id"]),
            "flow": UUID(flow["id"]),
            "organization": UUID(acme["id"]),
            "offered_again_after": timedelta(days=30),
        }

    def begin(self, otherwise: LiteralString) -> None:
        self._connection.execute(otherwise)

    def add(self, table: LiteralString, **columns: Any) -> Row:
        row = {**blank(table, self._draw, self._now), **columns}
        listed: LiteralString = ", ".join(row)
        self._connection.execute(
            f"insert into {table} ({listed}) select {listed} from jsonb_populate_record(null::{table}, %s)", [Jsonb(row, dumps=_dumps)]
        )
        return row


@pytest.fixture
def world(database_url: str) -> Iterator[GapWorld]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield GapWorld(connection)


def look(database_url: str, asks: Mapping[str, Any]) -> Confirmed | None:
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        rows = connection.execute(sign_in._LAST_LOOK[True], asks).fetchall()
        return sign_in._Confirmed(**rows[0]).confirmed if rows else None


def behind(database_url: str, lock: LiteralString, asks: Mapping[str, Any], end: LiteralString) -> Confirmed | None:
    """The look's answer, if it waits for the lock of another transaction, which ends the fact meanwhile."""
    with psycopg.connect(database_url) as other, psycopg.connect(database_url, autocommit=True) as watch, ThreadPoolExecutor(1) as pool:
        other.execute(lock)
        answer = pool.submit(look, database_url, asks)
        until = monotonic() + PATIENCE
        while watch.execute(_WAITS).fetchone() != (1,):
            assert monotonic() < until, "the look waits for nobody"
            sleep(0.005)
        other.execute(end)
        other.commit()
        return answer.result(PATIENCE)


def gaps() -> list[tuple[str, str]]:
    order = list(LOCKS)
    return [(name, lock) for name, end in ENDS.items() for lock in order[: order.index(end.until) + 1] if lock != end.passes]


@pytest.mark.parametrize(("name", "lock"), gaps())
def test_the_last_look_sees_what_has_ended_while_it_waited(database_url: str, world: GapWorld, name: str, lock: str) -> None:
    end = ENDS[name]
    world.begin(end.first)
    before = end.says(look(database_url, world.asks))
    after = end.says(behind(database_url, LOCKS[lock], world.asks, end.row))
    # Seen at once, without a wait.
    assert after == end.says(look(database_url, world.asks))
    assert after != before

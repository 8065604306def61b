"""The sessions at a service provider that a sign-out means: found by session index and by name, at that service alone, through indexes."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg

from adapters.postgres.federation import saml
from adapters.postgres.federation import saml as statements
from core.domain.identifiers import SamlSessionId, ServiceId, first_id
from core.domain.saml import NameIdFormat
from ports.federation.saml import MOST_PARTICIPANTS, Participant
from tests.adapters.postgres.conftest import Store

_APP, _WIKI = ServiceId(UUID(int=1)), ServiceId(UUID(int=2))
_ENTERED = SamlSessionId(UUID(int=10))

_FILL = """
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now());
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select ('00000000-0000-0000-0000-00000000000' || n)::uuid, all_organizations.id, 'service-' || n, 'Service', 'web', gen_random_uuid(),
           now(), now()
      from all_organizations, generate_series(1, 2) as n;
"""

_ENTER = """
    insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, created_at)
    values (%(id)s, %(session)s, %(service)s, %(name)s, %(format)s, now())
"""

_MANY = """
    insert into users (id, email, email_key)
    select gen_random_uuid(), 'p' || n || '@example.org', 'p' || n || '@example.org' from generate_series(1, 3000) as n;
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), id, now(), now(), now() + interval '1 day' from users;
    insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, created_at)
    select gen_random_uuid(), sessions.id, all_services.id, users.email, 'email', now()
      from sessions join users on users.id = sessions.user_id, all_services;
"""

# Somebody comes to sign in every second, for hours.
_FLOWS = """
    insert into flows (id, browser_digest, purpose, request, wanted, created_at, expires_at)
    select (lpad(to_hex((extract(epoch from began) * 1000)::bigint), 12, '0') || lpad(to_hex(n), 20, '0'))::uuid,
           decode(md5(n::text), 'hex'), 'account', '{}', '{}', began, began + interval '1 hour'
      from (select n, now() - n * interval '1 second' as began from generate_series(1, 10000) as n) as came;
"""


async def _indexed(store: Store, service: ServiceId) -> list[Participant]:
    async with store.unit_of_work() as uow:
        return list(await uow.saml.participants_indexed(service, [_ENTERED]))


async def _named(store: Store, service: ServiceId, name: str, *, persistent: bool = False) -> list[Participant]:
    async with store.unit_of_work() as uow:
        return list(await uow.saml.participants_named(service, name, persistent=persistent))


async def test_a_session_is_found_by_its_index_name_and_address_at_its_service_alone(store: Store) -> None:
    await store.query(_FILL)
    ada, session = await store.sign_up("Ada@example.org")
    entered = {"id": _ENTERED, "session": session.id, "service": _APP, "name": "_x", "format": NameIdFormat.TRANSIENT.value}
    await store.query(_ENTER, entered)
    (one,) = await _indexed(store, _APP)
    assert (one.session_index, one.user, one.email, one.name_id.text) == (_ENTERED, ada.id, "Ada@example.org", "_x")
    assert await _named(store, _APP, "_x") == await _named(store, _APP, "ada@example.org") == [one]
    # It may have had a persistent name before.
    assert await _named(store, _APP, "other", persistent=True) == [one]
    assert await _named(store, _APP, "other") == []
    for found in (await _indexed(store, _WIKI), await _named(store, _WIKI, "_x"), await _named(store, _WIKI, "_x", persistent=True)):
        assert found == []
    await store.query("update saml_sessions set name_id_format = %(format)s", {"format": NameIdFormat.PERSISTENT.value})
    assert await _named(store, _APP, "other", persistent=True) == []
    await store.query("update sessions set revoked_at = now()")
    for found in (await _indexed(store, _APP), await _named(store, _APP, "_x"), await _named(store, _APP, "ada@example.org")):
        assert found == []


async def test_where_many_are_signed_in_they_are_found_through_indexes(fresh_store: Store) -> None:
    many = fresh_store
    with psycopg.connect(many.url, autocommit=True) as connection:
        connection.execute((_FILL + _MANY).encode())
        connection.execute("vacuum analyze")
        parameters = {"service": _APP, "indexes": [_ENTERED], "name_id": "_x", "email_key": "p7@example.org", "persistent": False}
        parameters.update(persistent_format=NameIdFormat.PERSISTENT.value, most=MOST_PARTICIPANTS)
        for statement in (statements._PARTICIPANTS_INDEXED, statements._PARTICIPANTS_NAMED):
            rows = connection.execute(b"explain (analyze, costs off, timing off) " + statement.encode(), parameters).fetchall()
            executed = [line for (line,) in rows if "never executed" not in line]
            whole = [
                line for line in executed if "Seq Scan on" in line and not any(few in line for few in ("services", "organ", "saml_conf"))
            ]
            assert whole == [], rows


async def test_where_many_come_to_sign_in_a_sign_out_that_has_just_begun_is_found_among_the_latest(fresh_store: Store) -> None:
    """Every sign-out makes this query, mostly without result."""
    with psycopg.connect(fresh_store.url, autocommit=True) as connection:
        connection.execute(_FLOWS)
        connection.execute("vacuum analyze flows")
        parameters = {"browser_digest": b"browser", "first": first_id(datetime.now(UTC) - timedelta(seconds=10))}
        rows = connection.execute(b"explain (analyze, costs off, timing off) " + saml._UNDER_WAY.encode(), parameters).fetchall()
    plan = "\n".join([line for (line,) in rows])
    assert "Seq Scan" not in plan, plan
    assert all(int(line.rpartition(" ")[2]) <= 30 for (line,) in rows if "Rows Removed by Filter" in line), plan

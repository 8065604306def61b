"""The nine tables that sign-ins and redemptions write: what each index, foreign key and trigger is for. Each costs something at every row.

Whoever adds one names here the statement that reads it, the end that it brings, or what it holds. An index that nobody names fails the
test.
"""

from collections.abc import Mapping
from typing import Final

import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.upkeep.housekeeping import STATEMENTS as JANITORS
from adapters.postgres.upkeep.purging import ORGANIZATION_PARTS as OF_ORGANIZATIONS
from adapters.postgres.upkeep.purging import SERVICE_PARTS as OF_SERVICES
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.identity.test_devices import add
from tests.adapters.postgres.questions import generic_plan

# These tables are in parts by the id, and a plan for no id reads none of them.
AN_ID: Final = "01900000-0000-7000-8000-000000000001"

# By table and index: the statement that reads it.
READ: Final[Mapping[str, Mapping[str, str]]] = {
    "sessions": {
        "sessions_pkey": "select from sessions where id = %(id)s",
        # The person's list, and the end of all their sessions. It also serves the cascade when the account goes.
        "sessions_of_user": "select from sessions where user_id = %(user)s and revoked_at is null",
        # The end of a device's sessions.
        "sessions_of_device": "select from sessions where device_id = %(device)s and revoked_at is null",
        # The end of what somebody opened in other people's names.
        "sessions_of_impersonator": "select from sessions where impersonator_id = %(impersonator)s and revoked_at is null",
        # Every end walks down from a session.
        "sessions_of_parent": "select from sessions where parent_id = %(parent)s and revoked_at is null",
        "sessions_of_organization": OF_ORGANIZATIONS["sessions"],
        "sessions_of_service": OF_SERVICES["sessions"],
        "sessions_expired": JANITORS["ExpiredSessions"],
        "sessions_revoked": JANITORS["RevokedSessions"],
        "sessions_exchanged": JANITORS["EndedExchanges"],
    },
    "refresh_tokens": {
        "refresh_tokens_pkey": "select from refresh_tokens where digest = %(digest)s",
        # The cascade when the session goes.
        "refresh_tokens_of_session": "select from refresh_tokens where session_id = %(session)s",
        "refresh_tokens_rotated": JANITORS["RotatedRefreshTokens"],
    },
    "browser_sessions": {
        "browser_sessions_pkey": "select from browser_sessions where digest = %(digest)s",
        # Presence asks which sessions are browsers'. It also serves the cascade when the session goes.
        "browser_sessions_session_id_key": "select from browser_sessions where session_id = %(session)s",
        # Whether a session is bound to a key, for its renewals, its sweep, and the foreign key.
        "browser_sessions_bound_to": "select from browser_sessions where bound_to = %(key)s",
    },
    "devices": {
        "devices_pkey": "select from devices where id = %(id)s",
        "devices_of_person": "select from devices where user_id = %(user)s and revoked_at is null",
        "devices_token_digest_key": "select from devices where token_digest = %(digest)s",
        "devices_long_unused": JANITORS["UnusedDevices"],
        "devices_revoked": JANITORS["RevokedDevices"],
    },
    "authorization_codes": {
        "authorization_codes_pkey": "select from authorization_codes where id = %(id)s",
        "authorization_codes_digest_key": "select from authorization_codes where digest = %(digest)s",
        # The end of a person's codes.
        "authorization_codes_of_user": "select from authorization_codes where user_id = %(user)s and redeemed_at is null",
        # The cascade when the browser's session goes.
        "authorization_codes_of_parent": "select from authorization_codes where parent_id = %(parent)s",
        "authorization_codes_of_service": OF_SERVICES["authorization_codes"],
        "authorization_codes_expiry": JANITORS["ExpiredAuthorizationCodes"],
    },
    "login_events": {
        "login_events_pkey": f"select from login_events where id = '{AN_ID}'",
        # The person's own log, and the latest twenty that the risk of a sign-in is judged by.
        "login_events_of_user": "select from login_events where user_id = %(user)s order by id desc limit 20",
        # The person's habits, past any number of strangers' tries between them.
        "login_events_good": (
            "select from login_events where user_id = %(user)s and success and not flagged order by id desc limit %(history)s"
        ),
        "login_events_of_organization": "select from login_events where organization_id = %(organization)s order by id desc limit 50",
        # Analytics of one service.
        "login_events_of_service": (
            "select user_id from login_events where service_id = %(service)s and success and created_at > %(since)s"
        ),
        # Alerts among all people.
        "login_events_newest": "select from login_events where created_at > %(since)s order by created_at desc limit 1000",
    },
    "uncounted_logins": {"uncounted_logins_pkey": "select from uncounted_logins where id = any (%(ids)s::uuid[])"},
    "events": {
        "events_pkey": f"select from events where id >= '{AN_ID}' order by id limit 100",
        "events_of_organization": "select from events where organization_id = %(organization)s order by id limit 100",
        # What is forgotten of a person, and with the time.
        "events_personal": "select from events where occurred_at < %(before)s and personal is not null order by occurred_at limit 100",
        "events_personal_about": "select from events where target_id = %(person)s and personal is not null",
        "events_personal_of_actor": "select from events where actor_id = %(person)s and personal is not null",
    },
    "service_users": {
        "service_users_pkey": "select from service_users where service_id = %(service)s and user_id = %(user)s",
        # The pages of a service's users.
        "service_users_oldest": (
            "select from service_users where service_id = %(service)s and (created_at, user_id) > (%(at)s::timestamptz, %(after)s::uuid)"
            " order by created_at, user_id limit 50"
        ),
        "service_users_of_user": "select from service_users where user_id = %(user)s",
        "service_users_of_organization": (
            "select user_id from service_users where org_id = %(organization)s and user_id > %(after)s order by user_id desc limit 50"
        ),
    },
}

# What keeps two rows from being there, and is read by nobody.
UNIQUE: Final = {
    "refresh_tokens_one_current": "Of two requests that rotate a session's token, one puts a token in its place",
}

# What ends by the key when the other row goes. No part of a deletion in batches does that for a row that is written late.
KEYS: Final = {
    "sessions_user_id_fkey": "the sessions of a person",
    "sessions_impersonator_id_fkey": "the sessions that a person opened in other people's names",
    "sessions_parent_id_fkey": "the sessions that were opened from a session",
    "sessions_organization_id_fkey": "the sessions in an organization that were opened while it was deleted",
    "sessions_service_id_fkey": "the sessions in a service that were opened while it was deleted",
    "refresh_tokens_session_id_fkey": "the refresh tokens of a session",
    "browser_sessions_session_id_fkey": "the cookie of a session",
    "browser_sessions_bound_to_fkey": "nothing: a key goes when no cookie is bound to it",
    "devices_user_id_fkey": "the devices of a person",
    "authorization_codes_parent_id_fkey": "the codes that a browser's session let be given",
    "authorization_codes_user_id_fkey": "the codes that were given to a person",
    "authorization_codes_service_id_fkey": "the codes that were given for a service while it was deleted",
    "service_users_service_id_fkey": "the places of people in a service",
    "service_users_user_id_fkey": "the places of a person",
    "service_users_org_id_fkey": "the places of people in an organization's services",
}

# What each trigger does. None of it may be missing in a row that an older process writes.
TRIGGERS: Final = {
    "sessions_kept_for": "says the day of the expiry, for whoever does not say it",
    "sessions_in_turn": "lets sign-ins of a person wait for each other, where a number says how many there may be",
    "sessions_at_most": "ends the oldest sign-in, where a number says how many there may be",
    "devices_kept_for": "says the week of the last use, for whoever does not say it",
    "logins_added": "queues a successful sign-in for the counts",
    "service_users_added": "counts the users of a service, and moves the marks of its pages",
    "service_users_removed": "counts the users of a service, and moves the marks of its pages",
    "service_users_forgotten": "ends the values of fields that nobody may see any more",
    "service_users_released": "lets go of the payment provider's subscriptions",
}

_INDEXES: Final = """
    select relation.relname::text as table, index.relname::text as name
      from pg_index
      join pg_class as index on index.oid = indexrelid
      join pg_class as relation on relation.oid = indrelid
     where relation.relname = any (%(tables)s) and relation.relnamespace = 'public'::regnamespace
"""
_KEYS: Final = """
    select conname::text as name
      from pg_constraint
      join pg_class as relation on relation.oid = conrelid
     where contype = 'f' and relation.relname = any (%(tables)s) and relation.relnamespace = 'public'::regnamespace
"""
_TRIGGERS: Final = """
    select tgname::text as name
      from pg_trigger
      join pg_class as relation on relation.oid = tgrelid
     where not tgisinternal and relation.relname = any (%(tables)s) and relation.relnamespace = 'public'::regnamespace
"""
# The whole's index, for that of a part.
_WHOLE: Final = """
    select part.relname::text as part, whole.relname::text as whole
      from pg_inherits
      join pg_class as part on part.oid = inhrelid and part.relkind = 'i'
      join pg_class as whole on whole.oid = inhparent
"""
_TABLES: Final = {"tables": list(READ)}


async def indexes(store: Store) -> set[str]:
    return {row["name"] for row in await store.query(_INDEXES, _TABLES)}


@pytest.fixture
async def plans(fresh_store: Store) -> Mapping[str, set[str]]:
    """The indexes that the plan of each statement reads. The tables are empty, so the planner is told not to read them whole."""
    wholes = {row["part"]: row["whole"] for row in await fresh_store.query(_WHOLE)}
    url = make_conninfo(fresh_store.url, options="-c enable_seqscan=off -c enable_sort=off")
    found = {}
    for reads in READ.values():
        for index, statement in reads.items():
            named = {step["Index Name"] for step in await generic_plan(url, statement) if "Index Name" in step}
            found[index] = {wholes.get(name, name) for name in named}
    return found


async def test_each_index_is_named_with_what_needs_it(store: Store) -> None:
    named = {index for reads in READ.values() for index in reads} | UNIQUE.keys()
    assert await indexes(store) == named, "name here the statement that reads it, or drop it: each sign-in pays for it"


async def test_an_index_that_nobody_names_is_found(fresh_store: Store) -> None:
    before = await indexes(fresh_store)
    await fresh_store.query("create index sessions_by_depth on sessions (depth)")
    assert await indexes(fresh_store) - before == {"sessions_by_depth"}


async def test_each_index_serves_its_statement(plans: Mapping[str, set[str]]) -> None:
    assert {index: read for index, read in plans.items() if index not in read} == {}


async def test_each_key_and_each_trigger_is_named_with_what_it_ends_or_holds(store: Store) -> None:
    keys = {row["name"] for row in await store.query(_KEYS, _TABLES)}
    triggers = {row["name"] for row in await store.query(_TRIGGERS, _TABLES)}
    assert (keys, triggers) == (set(KEYS), set(TRIGGERS))


async def test_whoever_says_the_day_is_spared_the_call(fresh_store: Store) -> None:
    store = fresh_store
    for function in ("keep_expires_day", "keep_last_used_week"):
        await store.query(
            f"create or replace function {function}() returns trigger language plpgsql as"
            " $$ begin raise exception 'somebody has to be told the day'; end $$"
        )
    account, session = await store.sign_up()
    await add(store, account, "kept")
    async with store.unit_of_work() as uow:
        await uow.sessions.issue(session.id, b"1" * 32, session.created_at)
        await uow.commit()
    rotated = await PostgresRefreshTokens(store.pool).rotate(b"1" * 32, b"2" * 32, b"by", store.clock.now())
    assert rotated is not None
    assert rotated.rotated
    (kept,) = await store.query("select expires_day = (expires_at at time zone 'UTC')::date as right from sessions")
    (used,) = await store.query("select last_used_week = date_trunc('week', last_used_at at time zone 'UTC')::date as right from devices")
    assert (kept["right"], used["right"]) == (True, True)


async def test_a_sign_in_is_queued_for_the_counts_and_a_failed_try_is_not(store: Store) -> None:
    """One statement may log several."""
    await store.query(
        "insert into login_events (id, provider, success, reason, created_at)"
        " select gen_random_uuid(), 'password', n % 2 = 0, case when n % 2 = 1 then 'wrong_password' end, '2030-01-02 03:04:05Z'"
        "   from generate_series(1, 6) as n"
    )
    queued = await store.query("select login_events.success, hour::text from uncounted_logins join login_events using (id)")
    assert [row["success"] for row in queued] == [True] * 3
    (hours,) = await store.query("select count(distinct hour) as n, min(hour) = '2030-01-02 03:00Z' as right from uncounted_logins")
    assert hours == {"n": 1, "right": True}

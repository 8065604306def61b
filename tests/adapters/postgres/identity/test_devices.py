"""The stored data about a person's devices and habits, and devices that are used, trusted and revoked."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import KNOWLEDGE, DeviceRows, knowledge_of, knowledge_parameters
from adapters.postgres.statements import Statements
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.identifiers import DeviceId, LoginEventId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.devices import Client, Device, DeviceType, Location, UserAgent
from core.domain.identity.login_events import LoginEvent, LoginFailure
from core.domain.identity.risk import HISTORY, NOTHING_KNOWN, Approach, Knowledge, KnownDevice, judge
from core.domain.secrets import Token
from core.frozen import replace
from tests.adapters.postgres.conftest import Store, make_store

CHROME: Final = UserAgent(DeviceType.BROWSER, "Chrome", "131.0.0", "Windows", "10")
CURL: Final = UserAgent(DeviceType.CLI, "curl", "8.5.0", None, None)
NOON: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)


def token(name: str) -> Token:
    return Token(f"{name:x<43}")


def brought(name: str | None) -> Token | None:
    return None if name is None else token(name)


def approach(agent: UserAgent = CHROME, *, device: str | None = None, trust: str | None = None) -> Approach:
    client = Client("192.0.2.1", "…", brought(device), brought(trust))
    return Approach(client, agent, Location("DE", "Bonn"))


def device(store: Store, user: UserId, agent: UserAgent = CHROME, at: datetime = NOON) -> Device:
    return Device(DeviceId(store.ids.new()), user, agent.name, agent, at, "192.0.2.1", None, 0.3, None, at, at)


async def add(store: Store, account: Account, name: str, agent: UserAgent = CHROME, at: datetime = NOON) -> DeviceId:
    made = device(store, account.id, agent, at)
    async with store.unit_of_work() as uow:
        await uow.devices.add(made, token(name).digest())
        await uow.commit()
    return made.id


async def trust(store: Store, one: DeviceId, name: str, until: datetime) -> None:
    async with store.unit_of_work() as uow:
        await uow.devices.trust(one, token(name).digest(), NOON, until)
        await uow.commit()


async def knowledge(store: Store, user: UserId, of: Approach) -> Knowledge:
    async with store.unit_of_work() as uow:
        return await uow.devices.knowledge(user, of)


async def sign_ins(store: Store, account: Account, *events: dict[str, Any]) -> None:
    """One after the other, as they are given."""
    async with store.unit_of_work() as uow:
        for event in events:
            made = LoginEvent(LoginEventId(store.ids.new()), account.id, "password", None, "192.0.2.1", None, NOON)
            await uow.login_events.add(replace(made, **event))
        await uow.commit()


async def test_nothing_is_known_of_a_stranger_and_next_to_nothing_of_a_new_account(store: Store) -> None:
    account, _ = await store.sign_up()
    assert await knowledge(store, UserId(store.ids.new()), approach()) == NOTHING_KNOWN
    assert await knowledge(store, account.id, approach(device="brought", trust="brought")) == NOTHING_KNOWN


async def test_a_device_is_found_by_its_token_with_any_software(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "kept")
    assert (await knowledge(store, account.id, approach(CURL, device="kept"))) == Knowledge(by_token=KnownDevice(known))
    assert (await knowledge(store, account.id, approach(device="kept"))).by_agent == KnownDevice(known)
    assert (await knowledge(store, account.id, approach(CURL, device="other"))) == NOTHING_KNOWN


async def test_a_look_alike_has_type_browser_and_system_in_common_and_versions_do_not_count(store: Store) -> None:
    account, _ = await store.sign_up()
    known, curl = await add(store, account, "a"), await add(store, account, "b", CURL)
    for agent, found in (
        (replace(CHROME, browser_version="132", os_version="11"), known),
        (replace(CHROME, device_type=DeviceType.DESKTOP), None),
        (replace(CHROME, browser="Edge"), None),
        (replace(CHROME, os="Linux"), None),
        (replace(CHROME, os=None), None),
        (replace(CURL, browser_version=None), curl),
        (replace(CURL, browser=None), None),
    ):
        by_agent = (await knowledge(store, account.id, approach(agent))).by_agent
        assert (by_agent and by_agent.id) == found


async def test_of_two_look_alikes_it_is_the_one_used_last(store: Store) -> None:
    account, _ = await store.sign_up()
    await add(store, account, "a", at=NOON - timedelta(days=1))
    later = await add(store, account, "b")
    await add(store, account, "c", at=NOON - timedelta(days=2))
    assert (await knowledge(store, account.id, approach())).by_agent == KnownDevice(later)


async def test_another_persons_device_is_unknown_with_any_looks_and_any_token(store: Store) -> None:
    account, _ = await store.sign_up()
    other, _ = await store.sign_up("bob@example.org")
    known = await add(store, account, "kept")
    await trust(store, known, "trusted", NOON + timedelta(days=30))
    await sign_ins(store, account, {"country": "DE"}, {"failure": LoginFailure.WRONG_PASSWORD})
    assert await knowledge(store, other.id, approach(device="kept", trust="trusted")) == NOTHING_KNOWN


async def test_trust_is_known_by_its_token_of_the_same_device(store: Store) -> None:
    account, _ = await store.sign_up()
    one, other = await add(store, account, "a"), await add(store, account, "b")
    until = NOON + timedelta(days=30, microseconds=123456)
    await trust(store, one, "trusted", until)

    async def known(name: str, trust: str | None) -> KnownDevice | None:
        return (await knowledge(store, account.id, approach(device=name, trust=trust))).by_token

    assert await known("a", "trusted") == KnownDevice(one, until, brings_trust=True)
    assert await known("a", "other") == KnownDevice(one, until)
    assert await known("a", None) == KnownDevice(one, until)
    assert await known("b", "trusted") == KnownDevice(other)


async def test_habits_are_those_of_the_last_good_sign_ins(store: Store) -> None:
    account, _ = await store.sign_up()
    old: dict[str, Any] = {"country": "FR", "created_at": NOON.replace(hour=3)}
    await sign_ins(store, account, *[old] * 60)
    new: list[dict[str, Any]] = [{"country": "DE", "created_at": NOON}, {"country": None, "created_at": NOON.replace(hour=23)}] * 20
    odd: dict[str, Any] = {"country": "US", "created_at": NOON.replace(hour=7)}
    await sign_ins(store, account, *new, *[old] * 10)
    await sign_ins(store, account, odd | {"flagged": True}, *[odd | {"failure": LoginFailure.WRONG_PASSWORD}] * 30)
    known = await knowledge(store, account.id, approach())
    assert (known.sign_ins, set(known.hours), set(known.countries)) == (HISTORY, {3, 12, 23}, {"FR", "DE"})


async def test_hours_are_those_of_utc_in_any_time_zone_of_the_server(store: Store) -> None:
    account, _ = await store.sign_up()
    await sign_ins(store, account, {"created_at": NOON})
    # A setting of these connections alone: a setting of the database would stay in connections that later tests use.
    elsewhere = make_conninfo(store.url, options="-c timezone=Asia/Tokyo")
    pool = Pool(elsewhere, max_size=1)
    await pool.open()
    try:
        other = make_store(elsewhere, pool)
        assert await other.query("select current_setting('TimeZone') as name") == [{"name": "Asia/Tokyo"}]
        assert (await knowledge(other, account.id, approach())).hours == {12}
    finally:
        await pool.aclose()


async def test_failed_attempts_are_the_guesses_since_the_last_success(store: Store) -> None:
    account, _ = await store.sign_up()

    async def failed() -> int:
        return (await knowledge(store, account.id, approach())).failed_attempts

    await sign_ins(store, account, {"failure": LoginFailure.WRONG_PASSWORD}, {"failure": LoginFailure.NO_PASSWORD})
    assert await failed() == 2
    await sign_ins(store, account, {})
    assert await failed() == 0
    not_guesses = [{"failure": one} for one in (LoginFailure.DEACTIVATED, LoginFailure.EMAIL_NOT_VERIFIED)]
    await sign_ins(store, account, *not_guesses, *[{"failure": one} for one in (LoginFailure.WRONG_CODE, LoginFailure.THROTTLED)])
    assert await failed() == 2
    await sign_ins(store, account, *[{"failure": LoginFailure.WRONG_PASSWORD}] * 50)
    # No more are counted than are needed for the highest score, many times over.
    assert 5 <= await failed() <= 50


async def test_the_question_is_one_round_trip_and_a_part_of_any_statement_about_the_person(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "kept")
    parameters = {"email_key": account.email.key, **knowledge_parameters(approach(device="kept"))}
    rows = await store.query(f"select email, {KNOWLEDGE} as knowledge from users where email_key = %(email_key)s", parameters)
    assert [knowledge_of(row["knowledge"]).by_token for row in rows] == [KnownDevice(known)]
    round_trips.set(trips := TripCounter())
    async with store.unit_of_work() as uow:
        await uow.devices.knowledge(account.id, approach(device="kept"))
        assert trips.count == 1


async def test_a_device_is_kept_as_it_was_seen(store: Store) -> None:
    account, _ = await store.sign_up()
    lookup = DeviceRows(Statements(store.pool))
    made = replace(device(store, account.id), last_location=Location("DE", None), last_address="2001:db8::1", risk_score=0.7)
    async with store.unit_of_work() as uow:
        await uow.devices.add(made, b"1")
        await uow.commit()
    assert await lookup.find(made.id) == made
    assert await lookup.list(account.id) == [made]


async def test_what_hostile_clients_say_can_be_kept(store: Store) -> None:
    account, _ = await store.sign_up()
    nasty = "a\0b\ud800'; drop table devices; --"
    agent = UserAgent(DeviceType.CLI, nasty, nasty, nasty, nasty)
    made = replace(device(store, account.id, agent), last_address="unknown", last_location=Location(nasty, nasty), name=nasty)
    async with store.unit_of_work() as uow:
        await uow.devices.add(made, b"1")
        await uow.commit()
    found = await DeviceRows(Statements(store.pool)).find(made.id)
    assert found is not None
    assert (found.last_address, found.name) == (None, "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}'; drop table devices; --")
    by_agent = (await knowledge(store, account.id, approach(agent))).by_agent
    assert by_agent is not None


async def test_a_sign_in_renews_what_is_known_and_leaves_the_name(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "kept")
    await trust(store, known, "trusted", NOON + timedelta(days=30))
    lookup = DeviceRows(Statements(store.pool))
    before = await lookup.find(known)
    newer = replace(CHROME, browser_version="132", os_version="11")
    sighting = judge(approach(newer, device="kept"), Knowledge(by_token=KnownDevice(known), failed_attempts=2), NOON)
    async with store.unit_of_work() as uow:
        await uow.devices.rename(known, "Mine", NOON)
        await uow.devices.used(known, account.id, sighting, None, NOON + timedelta(hours=1))
        await uow.commit()
    assert before is not None
    assert await lookup.find(known) == replace(
        before,
        name="Mine",
        agent=newer,
        last_used_at=NOON + timedelta(hours=1),
        last_location=Location("DE", "Bonn"),
        risk_score=0.4,
        risk_factors=("failed_attempts",),
    )


async def test_a_new_token_takes_the_place_of_the_old_one_and_of_the_trust(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "old")
    await trust(store, known, "trusted", NOON + timedelta(days=30))
    async with store.unit_of_work() as uow:
        await uow.devices.used(known, account.id, judge(approach(), NOTHING_KNOWN, NOON), token("new").digest(), NOON)
        await uow.commit()
    assert (await knowledge(store, account.id, approach(CURL, device="old", trust="trusted"))).by_token is None
    assert (await knowledge(store, account.id, approach(CURL, device="new", trust="trusted"))).by_token == KnownDevice(known)


async def test_what_was_swept_away_meanwhile_is_there_again_without_trust(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "old")
    await trust(store, known, "trusted", NOON + timedelta(days=30))
    for replaced in (None, token("new").digest()):
        await store.query("delete from devices")
        sighting = judge(approach(device="old"), Knowledge(by_token=KnownDevice(known)), NOON)
        async with store.unit_of_work() as uow:
            await uow.devices.used(known, account.id, sighting, replaced, NOON)
            await uow.commit()
        shown = approach(CURL, device="old" if replaced is None else "new", trust="trusted")
        assert (await knowledge(store, account.id, shown)).by_token == KnownDevice(known)
        found = await DeviceRows(Statements(store.pool)).find(known)
        assert found is not None
        assert (found.name, found.trusted_until, found.created_at) == (CHROME.name, None, NOON)


async def test_trust_ends_for_all_of_a_persons_devices_and_nobody_elses(store: Store) -> None:
    account, _ = await store.sign_up()
    other, _ = await store.sign_up("bob@example.org")
    for number, owner in enumerate((account, account, other)):
        await trust(store, await add(store, owner, f"d{number}"), f"t{number}", NOON + timedelta(days=30))
    async with store.unit_of_work() as uow:
        await uow.devices.end_trust(account.id)
        await uow.commit()
    lookup = DeviceRows(Statements(store.pool))
    assert [one.trusted_until for one in await lookup.list(account.id)] == [None, None]
    assert [one.is_trusted(NOON) for one in await lookup.list(other.id)] == [True]
    assert not await store.query("select id from devices where trust_digest is not null and user_id = %(user)s", {"user": account.id})


async def test_a_revoked_device_is_no_longer_known_and_keeps_no_token(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "kept")
    await trust(store, known, "trusted", NOON + timedelta(days=30))
    async with store.unit_of_work() as uow:
        await uow.devices.revoke(known, NOON)
        await uow.commit()
    lookup = DeviceRows(Statements(store.pool))
    assert await lookup.find(known) is None
    assert await lookup.list(account.id) == []
    assert await knowledge(store, account.id, approach(device="kept", trust="trusted")) == NOTHING_KNOWN
    assert await store.query("select token_digest, trust_digest, trusted_until from devices") == [
        {"token_digest": None, "trust_digest": None, "trusted_until": None}
    ]
    async with store.unit_of_work() as uow:
        held = await uow.devices.find_for_update(known)
    assert held is not None
    assert held.revoked_at == NOON


async def test_a_device_that_is_marked_revoked_is_unknown_even_if_it_kept_its_token(store: Store) -> None:
    account, _ = await store.sign_up()
    await add(store, account, "kept")
    await store.query("update devices set revoked_at = now()")
    assert await knowledge(store, account.id, approach(device="kept")) == NOTHING_KNOWN


async def test_a_sign_in_that_a_revocation_overtook_shows_in_the_list_again(store: Store) -> None:
    account, _ = await store.sign_up()
    known = await add(store, account, "kept")
    async with store.unit_of_work() as uow:
        await uow.devices.revoke(known, NOON)
        await uow.commit()
    async with store.unit_of_work() as uow:
        await uow.devices.used(known, account.id, judge(approach(device="kept"), NOTHING_KNOWN, NOON), None, NOON)
        await uow.commit()
    assert [one.id for one in await DeviceRows(Statements(store.pool)).list(account.id)] == [known]
    # Its token stays dead.
    assert (await knowledge(store, account.id, approach(device="kept"))).by_token is None


async def test_devices_are_listed_the_last_used_first(store: Store) -> None:
    account, _ = await store.sign_up()
    made = [await add(store, account, str(number), at=NOON + timedelta(minutes=number)) for number in (2, 1, 3)]
    assert [one.id for one in await DeviceRows(Statements(store.pool)).list(account.id)] == [made[2], made[0], made[1]]


async def test_the_habits_cost_the_same_however_many_tries_lie_between(fresh_store: Store) -> None:
    account, _ = await fresh_store.sign_up()
    await sign_ins(fresh_store, account, *[{"country": "DE"}] * 12)
    await fresh_store.query(
        """
        insert into login_events (id, user_id, provider, success, reason, created_at)
        select ('ffffffff-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %(user)s, 'password', false, 'wrong_password', now()
          from generate_series(1, 20000) as n
        """,
        {"user": account.id},
    )
    await fresh_store.settle("login_events")
    parameters = {"user": account.id, **knowledge_parameters(approach())}
    plan = await fresh_store.query(f"explain (analyze, format json) select {KNOWLEDGE} from users where id = %(user)s", parameters)
    assert most_rows(plan[0]["QUERY PLAN"][0]["Plan"]) <= HISTORY, plan


def most_rows(node: dict[str, Any]) -> int:
    """The most rows that any step of a plan read or made."""
    here = int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return max([here, *map(most_rows, node.get("Plans", ()))])


async def test_revoked_devices_go_after_thirty_days_and_unused_ones_after_a_year(store: Store) -> None:
    account, _ = await store.sign_up()
    for name in ("revoked long ago", "revoked lately", "unused", "used"):
        await add(store, account, name, at=datetime.now(UTC))
    for change in (
        "revoked_at = now() - interval '31 days' where token_digest = %(revoked long ago)s",
        "revoked_at = now() - interval '29 days' where token_digest = %(revoked lately)s",
        "last_used_at = now() - interval '373 days' where token_digest = %(unused)s",
    ):
        name = change.partition("%(")[2].removesuffix(")s")
        await store.query(f"update devices set {change}", {name: token(name).digest()})
    assert await sweep(store.pool, "RevokedDevices").delete_expired(10) == 1
    assert await sweep(store.pool, "UnusedDevices").delete_expired(10) == 1
    assert await store.count("devices") == 2

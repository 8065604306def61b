"""A sign-in's device, from the request's headers to the client's token, and the owner's later changes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
import trio
from psycopg.rows import dict_row

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.ip_addresses import ListedProxies
from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import DeviceRows
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.statements import Statements
from adapters.postgres.unit_of_work import unit_of_work
from adapters.system import SystemIds, SystemSecrets
from adapters.user_agents import LibraryUserAgents
from core.domain.errors import BadRequest, Forbidden, NotFound
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client, DeviceType, Location, Remembered
from core.domain.identity.risk import Recognition, RiskFactor, Sighting
from core.domain.identity.sessions import Session
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import replace
from core.usecases.identity.devices import Devices
from entrypoints.settings_forms import networks
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory
from tests.usecases.set_clock import SetClock

NOW: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
CURL: Final = "curl/8.5.0"
CROWD: Final = 50


class Germany:
    async def find(self, address: str | None) -> Location | None:
        return Location("DE", "Bonn") if address == "192.0.2.1" else None


@dataclass
class DeviceScene:
    devices: Devices
    unit_of_work: UnitOfWorkFactory
    pool: Pool
    clock: SetClock = field(default_factory=lambda: SetClock(NOW))
    ids: SystemIds = field(default_factory=SystemIds)

    async def query(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        async with self.pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def person(self, address: str = "ada@example.org") -> Actor:
        user = UserId(self.ids.new())
        async with self.unit_of_work() as uow:
            account = Account(user, Email(address), is_platform_owner=False, email_verified_at=NOW, deactivated_at=None, created_at=NOW)
            assert await uow.accounts.add(account, None)
            await uow.commit()
        return Actor(user)

    async def join(self, actor: Actor, trust_days: int, status: str = "active") -> None:
        """An organization of this person's."""
        await self.query(
            """
            with made as (
                insert into organizations (id, slug, name, status, device_trust_days, created_at, updated_at)
                values (%(id)s, %(id)s, '', %(status)s, %(trust_days)s, now(), now()) returning id
            )
            insert into memberships (id, org_id, user_id, role, created_at, own_since)
            select id, id, %(user)s, 'member', now(), now() from made
            """,
            id=self.ids.new(),
            user=actor.user,
            status=status,
            trust_days=trust_days,
        )

    async def look(self, actor: Actor, client: Client) -> Sighting:
        approach = await self.devices.observe(client)
        async with self.unit_of_work() as uow:
            known = await uow.devices.knowledge(user_of(actor), approach)
        return self.devices.judge(approach, known)

    async def sign_in(self, actor: Actor, client: Client | None = None, **asked: Any) -> tuple[Remembered, Session]:
        """As a sign-in does: the device first, then its session."""
        sighting = await self.look(actor, client or Client("192.0.2.1", FIREFOX))
        end = NOW + timedelta(days=30)
        async with self.unit_of_work() as uow:
            remembered = await self.devices.remember(uow, user_of(actor), sighting, **asked)
            session = Session(SessionId(self.ids.new()), user_of(actor), NOW, NOW, end, end, remembered.device)
            await uow.sessions.add(session)
            await uow.commit()
        return remembered, session

    async def audited(self) -> list[dict[str, Any]]:
        return await self.query("select action, actor_id, impersonator_id, target_id, details from audit_log order by id")


def user_of(actor: Actor) -> UserId:
    assert actor.user is not None
    return actor.user


def caller(actor: Actor, device: DeviceId | None = None) -> Caller:
    return Caller(user_of(actor), Email("ada@example.org"), SessionId(user_of(actor)), is_platform_owner=False, device=device)


def returning(remembered: Remembered, agent: str = FIREFOX, address: str = "192.0.2.1") -> Client:
    return Client(address, agent, remembered.device_token, remembered.trust_token)


def text(secret: Token | None) -> str:
    assert secret is not None
    return secret.reveal()


@pytest.fixture
async def scene(emptied_database_url: str) -> AsyncIterator[DeviceScene]:
    pool = Pool(emptied_database_url, max_size=10)
    await pool.open()
    clock, ids = SetClock(NOW), SystemIds()
    keyring = AesGcmKeyRing([EncryptionKey("first", b"1" * 32)])
    factory = unit_of_work(pool, ids, clock, keyring, PostgresDoorbell(emptied_database_url))
    devices = Devices(
        unit_of_work=factory,
        lookup=DeviceRows(Statements(pool)),
        agents=LibraryUserAgents(),
        locations=Germany(),
        proxies=ListedProxies(networks.parse("198.51.100.0/24")),
        system=System(clock, ids, SystemSecrets()),
    )
    yield DeviceScene(devices, factory, pool, clock, ids)
    await pool.aclose()


async def test_what_a_request_tells_is_made_out(scene: DeviceScene) -> None:
    approach = await scene.devices.observe(Client("192.0.2.1", FIREFOX))
    assert (approach.agent.device_type, approach.agent.name) == (DeviceType.BROWSER, "Firefox on Linux")
    assert (approach.location, approach.through_proxy) == (Location("DE", "Bonn"), False)
    nothing = await scene.devices.observe(Client(None, ""))
    assert (nothing.agent.name, nothing.location, nothing.through_proxy) == ("Unknown device", None, None)


async def test_a_first_sign_in_makes_a_device_with_a_token_to_keep(scene: DeviceScene) -> None:
    ada = await scene.person()
    remembered, _ = await scene.sign_in(ada)
    assert remembered.is_new
    assert remembered.trust_token is None
    (device,) = await scene.devices.list(user_of(ada))
    assert (device.id, device.name, device.last_address, device.last_location) == (
        remembered.device,
        "Firefox on Linux",
        "192.0.2.1",
        Location("DE", "Bonn"),
    )
    assert (device.created_at, device.last_used_at, device.risk_score, device.trusted_until) == (NOW, NOW, 0.3, None)
    dump = str(await scene.query("select * from devices"))
    assert text(remembered.device_token) not in dump


async def test_who_brings_the_token_is_the_same_device_and_keeps_it(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada)
    again, _ = await scene.sign_in(ada, returning(first, CURL))
    assert (again.device, again.is_new, text(again.device_token)) == (first.device, False, text(first.device_token))
    (device,) = await scene.devices.list(user_of(ada))
    assert (device.agent.browser, device.name) == ("curl", "Firefox on Linux")


async def test_who_looks_alike_is_the_same_device_and_gets_a_token(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada)
    again, _ = await scene.sign_in(ada)
    assert (again.device, again.is_new) == (first.device, False)
    assert text(again.device_token) != text(first.device_token)
    assert (await scene.look(ada, returning(again))).recognition is Recognition.TOKEN
    other, _ = await scene.sign_in(ada, Client("192.0.2.1", CURL))
    assert other.is_new


async def test_anothers_token_is_no_token(scene: DeviceScene) -> None:
    ada, bob = await scene.person(), await scene.person("bob@example.org")
    hers, _ = await scene.sign_in(ada, trust=True)
    his, _ = await scene.sign_in(bob, returning(hers))
    assert his.is_new
    assert his.device != hers.device
    assert text(his.device_token) != text(hers.device_token)
    assert (await scene.look(ada, returning(hers))).trusted


@pytest.mark.parametrize(("organization_days", "days"), [(None, 30), (7, 7), (90, 90)])
async def test_a_trusted_device_may_skip_the_second_factor_for_its_time(
    scene: DeviceScene, organization_days: int | None, days: int
) -> None:
    ada = await scene.person()
    if organization_days is not None:
        await scene.join(ada, organization_days)
        # The strictest rule of the active organizations counts.
        await scene.join(ada, 90)
        await scene.join(ada, 1, status="suspended")
    first, _ = await scene.sign_in(ada, trust=True)
    assert first.trusted_for == timedelta(days=days)
    for wait, skips in ((timedelta(days=days, seconds=-1), True), (timedelta(days=days), False)):
        scene.clock.at = NOW + wait
        assert (await scene.look(ada, returning(first))).may_skip_second_factor is skips
    assert text(first.trust_token) not in str(await scene.query("select * from devices"))


async def test_a_trust_period_that_becomes_shorter_counts_from_when_the_trust_was_given(scene: DeviceScene) -> None:
    ada = await scene.person()
    await scene.join(ada, 90)
    first, _ = await scene.sign_in(ada, trust=True)
    scene.clock.at = NOW + timedelta(days=5)
    for days, skips in ((6, True), (5, False), (0, False), (90, True)):
        await scene.query("update organizations set device_trust_days = %(days)s", days=days)
        assert (await scene.look(ada, returning(first))).may_skip_second_factor is skips
        # And the list of devices says so.
        assert (await scene.devices.get(user_of(ada), first.device)).is_trusted(scene.clock.at) is skips
    # Trust that was given before its beginning was kept, for the thirty days that there were.
    await scene.query("update devices set trusted_at = null, trusted_until = %(until)s", until=NOW + timedelta(days=30))
    for days, skips in ((6, True), (5, False)):
        await scene.query("update organizations set device_trust_days = %(days)s", days=days)
        assert (await scene.look(ada, returning(first))).may_skip_second_factor is skips


async def test_an_organization_that_trusts_no_device_gets_none_trusted(scene: DeviceScene) -> None:
    ada = await scene.person()
    await scene.join(ada, 0)
    first, _ = await scene.sign_in(ada, trust=True)
    assert (first.trust_token, first.trusted_for) == (None, None)
    assert not (await scene.devices.get(user_of(ada), first.device)).is_trusted(NOW)


async def test_trust_needs_both_tokens(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada, trust=True)
    both = returning(first)
    for client in (replace(both, device_token=None), replace(both, trust_token=None), replace(both, trust_token=both.device_token)):
        assert not (await scene.look(ada, client)).may_skip_second_factor


async def test_a_look_alike_leaves_a_trusted_device_its_trust_and_gets_no_token(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada, trust=True)
    twin, _ = await scene.sign_in(ada)
    assert (twin.device, twin.device_token) == (first.device, None)
    other, _ = await scene.sign_in(ada, Client("192.0.2.1", FIREFOX, SystemSecrets().token()))
    assert (other.device, other.device_token) == (first.device, None)
    assert (await scene.look(ada, returning(first))).may_skip_second_factor


async def test_a_look_alike_that_asks_for_trust_takes_the_place_of_the_other(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada, trust=True)
    twin, _ = await scene.sign_in(ada, trust=True)
    assert twin.device == first.device
    assert (await scene.look(ada, returning(twin))).may_skip_second_factor
    assert not (await scene.look(ada, returning(first))).may_skip_second_factor


async def test_trust_given_again_lasts_longer_and_the_token_before_is_dead(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada, trust=True)
    scene.clock.at = NOW + timedelta(days=20)
    again, _ = await scene.sign_in(ada, returning(first), trust=True)
    assert text(again.device_token) == text(first.device_token)
    scene.clock.at = NOW + timedelta(days=45)
    assert (await scene.look(ada, returning(again))).trusted
    assert not (await scene.look(ada, returning(first))).trusted


async def test_trust_that_is_ended_is_ended_everywhere(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada, trust=True)
    async with scene.unit_of_work() as uow:
        await uow.devices.end_trust(user_of(ada))
        await uow.commit()
    sighting = await scene.look(ada, returning(first))
    assert sighting.is_proven
    assert not sighting.trusted


async def test_a_proxy_is_a_risk(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada)
    assert (await scene.look(ada, returning(first, address="198.51.100.7"))).risk.factors == (RiskFactor.PROXY,)


async def test_a_sign_in_costs_one_round_trip_for_its_device_and_session_together(scene: DeviceScene) -> None:
    ada = await scene.person()
    sightings = [await scene.look(ada, Client("192.0.2.1", agent)) for agent in (FIREFOX, CURL)]
    for sighting in sightings:
        round_trips.set(trips := TripCounter())
        async with scene.unit_of_work() as uow:
            await scene.devices.remember(uow, user_of(ada), sighting, trust=True)
            await uow.commit()
        assert trips.count == 1


async def test_a_device_gets_the_name_that_its_owner_gives(scene: DeviceScene) -> None:
    ada = await scene.person()
    remembered, _ = await scene.sign_in(ada)
    scene.clock.at = NOW + timedelta(hours=1)
    renamed = await scene.devices.rename(user_of(ada), remembered.device, "  Laptop ", ada)
    assert (renamed.name, renamed.updated_at) == ("Laptop", scene.clock.at)
    assert await scene.devices.get(user_of(ada), remembered.device) == renamed
    # A repeated request changes nothing, and sends no event.
    scene.clock.at = NOW + timedelta(hours=2)
    assert await scene.devices.rename(user_of(ada), remembered.device, "Laptop", ada) == renamed
    assert await scene.audited() == [
        {
            "action": "user.device.renamed",
            "actor_id": ada.user,
            "impersonator_id": None,
            "target_id": str(ada.user),
            "details": {"device_id": str(remembered.device), "old_name": "Firefox on Linux", "name": "Laptop"},
        }
    ]
    # A sign-in leaves it.
    await scene.sign_in(ada, returning(remembered))
    assert (await scene.devices.get(user_of(ada), remembered.device)).name == "Laptop"


async def test_a_revoked_device_is_gone_with_its_sessions_and_its_trust_and_no_other(scene: DeviceScene) -> None:
    ada, bob = await scene.person(), await scene.person("bob@example.org")
    lost, lost_session = await scene.sign_in(ada, trust=True)
    _, lost_session_too = await scene.sign_in(ada, returning(lost))
    kept, kept_session = await scene.sign_in(ada, Client("192.0.2.1", CURL), trust=True)
    _, his_session = await scene.sign_in(bob)
    actor = replace(ada, impersonator=bob.user)
    for _ in range(2):
        await scene.devices.revoke(caller(ada, kept.device), lost.device, actor)
    assert [device.id for device in await scene.devices.list(user_of(ada))] == [kept.device]
    living = await scene.query("select id from sessions where revoked_at is null")
    assert {row["id"] for row in living} == {kept_session.id, his_session.id}
    assert {lost_session.id, lost_session_too.id}.isdisjoint(row["id"] for row in living)
    assert not (await scene.look(ada, returning(lost))).is_proven
    assert (await scene.look(ada, returning(kept, CURL))).may_skip_second_factor
    assert await scene.audited() == [
        {
            "action": "user.device.revoked",
            "actor_id": ada.user,
            "impersonator_id": bob.user,
            "target_id": str(ada.user),
            "details": {"device_id": str(lost.device), "name": "Firefox on Linux", "sessions": 2},
        }
    ]
    for gone in (
        scene.devices.get(user_of(ada), lost.device),
        scene.devices.rename(user_of(ada), lost.device, "Mine", ada),
    ):
        with pytest.raises(NotFound):
            await gone


async def test_the_device_in_use_is_not_revoked(scene: DeviceScene) -> None:
    ada = await scene.person()
    remembered, _ = await scene.sign_in(ada)
    with pytest.raises(BadRequest, match="sign out"):
        await scene.devices.revoke(caller(ada, remembered.device), remembered.device, ada)
    assert await scene.devices.list(user_of(ada))


async def test_what_is_not_there_is_not_found_and_anothers_is_forbidden_and_unchanged(scene: DeviceScene) -> None:
    ada, bob = await scene.person(), await scene.person("bob@example.org")
    hers, _ = await scene.sign_in(ada)
    unknown = DeviceId(scene.ids.new())
    for device, refusal in ((unknown, NotFound), (hers.device, Forbidden)):
        with pytest.raises(refusal):
            await scene.devices.get(user_of(bob), device)
        with pytest.raises(refusal):
            await scene.devices.rename(user_of(bob), device, "Mine", bob)
        with pytest.raises(refusal):
            await scene.devices.revoke(caller(bob), device, bob)
    with pytest.raises(BadRequest):
        await scene.devices.rename(user_of(bob), hers.device, " ", bob)
    assert [device.name for device in await scene.devices.list(user_of(ada))] == ["Firefox on Linux"]
    assert await scene.query("select id from sessions where revoked_at is not null") == []
    assert await scene.audited() == []


async def test_of_many_revocations_at_once_one_is_told(scene: DeviceScene) -> None:
    ada = await scene.person()
    lost, _ = await scene.sign_in(ada)
    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(scene.devices.revoke, caller(ada), lost.device, ada)
    assert len(await scene.audited()) == 1


async def test_no_session_slips_past_a_revocation_that_happens_at_the_same_time(scene: DeviceScene) -> None:
    ada = await scene.person()
    first, _ = await scene.sign_in(ada)
    for _ in range(10):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(scene.sign_in, ada, returning(first))
            nursery.start_soon(scene.devices.revoke, caller(ada), first.device, ada)
        # Every live device is in the list, where it can be revoked again.
        listed = {device.id for device in await scene.devices.list(user_of(ada))}
        living = await scene.query("select distinct device_id from sessions where revoked_at is null")
        assert {row["device_id"] for row in living} <= listed
        first, _ = await scene.sign_in(ada)

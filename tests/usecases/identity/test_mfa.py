"""The second factor, step by step and in every wrong order: the codes that let a person in, the records, and the access that
ends with it.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyotp
import pytest
import trio
from psycopg.rows import dict_row

from adapters.crypto.factors import HmacBackupCodes, PyotpTotp
from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.server_secrets import PostgresServerSecrets
from adapters.postgres.statements import Statements
from adapters.postgres.unit_of_work import unit_of_work
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from adapters.system import SystemIds
from core.domain.branding import POSTERN, Branding
from core.domain.errors import BadRequest, RateLimited
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.mfa import CODES_AT_SET_UP, CODES_AT_SIGN_IN, MfaMethod, SecondFactorStatus, SetUp
from core.domain.mail import Email, Mail
from core.domain.record.events import SYSTEM, Actor
from core.usecases.identity.mfa import Mfa
from core.usecases.keys import Reencryption
from ports.crypto import CannotOpen
from ports.unit_of_work import UnitOfWorkFactory
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.usecases.set_clock import SetClock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)  # a step begins
STEP = timedelta(seconds=30)
KEY = EncryptionKey("first", b"1" * 32)
CROWD = 50


class NamesOnly:
    """Texts that are only names. Other tests cover the wording of mails."""

    def mail(
        self,
        name: str,
        to: str,
        *,
        account: UserId | None,
        branding: Branding = POSTERN,
        **values: str | bool | datetime | tuple[str, ...] | None,
    ) -> Mail:
        return Mail(to, name, f"{branding.name} {values['address']}", "", account=account)


@dataclass
class MfaScene:
    pool: Pool
    clock: SetClock
    ids: SystemIds
    unit_of_work: UnitOfWorkFactory
    mfa: Mfa
    secrets: dict[UserId, str] = field(default_factory=dict)

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        async with self.pool.connection() as connection:
            return await (await connection.cursor(row_factory=dict_row).execute(query.encode(), values)).fetchall()

    async def person(self, address: str = "ada@example.org") -> Caller:
        user = UserId(self.ids.new())
        account = Account(user, Email(address), is_platform_owner=False, email_verified_at=START, deactivated_at=None, created_at=START)
        async with self.unit_of_work() as uow:
            assert await uow.accounts.add(account, None)
            await uow.commit()
        return Caller(user, account.email, await self.session(user), is_platform_owner=False)

    async def session(self, user: UserId) -> SessionId:
        session = SessionId(self.ids.new())
        await self.rows(
            "insert into sessions (id, user_id, created_at, last_seen_at, expires_at, ends_at)"
            " values (%s, %s, now(), now(), now() + interval '1 day', now() + interval '1 day') returning id",
            session,
            user,
        )
        return session

    async def organization(self, slug: str, member: UserId | None = None) -> OrganizationId:
        organization = OrganizationId(self.ids.new())
        await self.rows(
            "insert into all_organizations (id, slug, name, created_at, updated_at)"
            " values (%s, %s, 'An organization', now(), now()) returning id",
            organization,
            slug,
        )
        if member is not None:
            await self.rows(
                "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
                " values (%s, %s, %s, 'member', now(), now()) returning id",
                self.ids.new(),
                organization,
                member,
            )
        return organization

    async def trusted_device(self, caller: Caller) -> None:
        await self.rows(
            """
            insert into devices (id, user_id, name, device_type, trust_digest, trusted_until, last_used_at, created_at, updated_at)
            values (%s, %s, 'Laptop', 'browser', %s, now() + interval '30 days', now(), now(), now())
            returning id
            """,
            self.ids.new(),
            caller.user,
            self.ids.new().bytes,
        )

    async def trusted_devices(self) -> int:
        (row,) = await self.rows("select count(*) as n from devices where trusted_until is not null or trust_digest is not null")
        number: int = row["n"]
        return number

    async def set_up(self, caller: Caller) -> SetUp:
        made = await self.mfa.set_up(caller, acting(caller))
        self.secrets[caller.user] = made.secret.reveal()
        return made

    def code(self, caller: Caller, steps: int = 0) -> str:
        return pyotp.TOTP(self.secrets[caller.user]).at(self.clock.at + steps * STEP)

    async def enable(self, caller: Caller) -> Sequence[str]:
        """Enables the second factor, which uses one step up; the next step begins."""
        await self.set_up(caller)
        codes = await self.mfa.enable(caller, acting(caller), self.code(caller))
        self.clock.at += STEP
        return [code.reveal() for code in codes]

    async def enabled_person(self, address: str = "ada@example.org") -> tuple[Caller, Sequence[str]]:
        caller = await self.person(address)
        return caller, await self.enable(caller)

    async def check(self, user: UserId, code: str) -> MfaMethod | None:
        await self.mfa.prepare()
        async with self.unit_of_work() as uow:
            method = await self.mfa.check(uow, user, code, Actor(user, None, "192.0.2.1"))
            await uow.commit()
        return method

    async def log(self) -> list[tuple[str, bool]]:
        return [(row["name"], row["success"]) for row in await self.rows("select name, success from mfa_events order by id")]

    async def clear_log(self) -> None:
        await self.rows("with gone as (delete from mfa_events returning id) select count(*) from gone")

    async def events(self) -> list[str]:
        return [row["name"] for row in await self.rows("select name from events order by id")]

    async def audit(self) -> list[str]:
        return [row["action"] for row in await self.rows("select action from audit_log order by id")]

    async def mails(self) -> int:
        return len(await self.rows("select id from jobs where kind = 'mail' and sealed_payload is not null"))


def acting(caller: Caller) -> Actor:
    return Actor(caller.user, None, "192.0.2.1", "curl")


def make_mfa(pool: Pool, keyring: AesGcmKeyRing, clock: SetClock, new_unit_of_work: UnitOfWorkFactory) -> Mfa:
    return Mfa(
        new_unit_of_work,
        lookup=MfaRows(Statements(pool), SystemIds(), clock),
        totp=PyotpTotp("Postern"),
        backup_codes=HmacBackupCodes(PostgresServerSecrets(pool, keyring, clock)),
        keyring=keyring,
        templates=NamesOnly(),
        clock=clock,
    )


@pytest.fixture
async def bench(emptied_database_url: str) -> AsyncIterator[MfaScene]:
    pool = Pool(emptied_database_url, max_size=10)
    await pool.open()
    clock, ids, keyring = SetClock(START), SystemIds(), AesGcmKeyRing([KEY])
    new_unit_of_work = unit_of_work(pool, ids, clock, keyring, PostgresDoorbell(emptied_database_url))
    try:
        yield MfaScene(pool, clock, ids, new_unit_of_work, make_mfa(pool, keyring, clock, new_unit_of_work))
    finally:
        await pool.aclose()


async def test_the_first_code_enables_and_brings_ten_backup_codes(bench: MfaScene) -> None:
    ada = await bench.person()
    assert await bench.mfa.status(ada.user) == SecondFactorStatus(enabled=False, has_backup_codes=False)
    await bench.set_up(ada)
    assert await bench.mfa.status(ada.user) == SecondFactorStatus(enabled=False, has_backup_codes=False)
    codes = await bench.mfa.enable(ada, acting(ada), bench.code(ada))
    assert len(codes) == 10
    assert await bench.mfa.status(ada.user) == SecondFactorStatus(enabled=True, has_backup_codes=True)


async def test_enabling_is_told_to_webhooks_the_audit_log_the_mfa_log_and_its_owner(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.trusted_device(ada)
    await bench.enable(ada)
    assert await bench.events() == ["user.mfa.enabled", "security.mfa.enabled"]
    assert await bench.audit() == ["security.mfa.enabled"]
    assert await bench.log() == [
        ("mfa_setup_initiated", True),
        ("mfa_verify_attempt", True),
        ("mfa_verify_success", True),
        ("mfa_setup_completed", True),
        ("mfa_enabled", True),
        ("backup_codes_generated", True),
    ]
    assert await bench.mails() == 1
    assert await bench.trusted_devices() == 0
    (entry,) = await bench.rows("select *, host(address) as host from audit_log")
    assert (entry["actor_id"], entry["target_type"], entry["target_id"]) == (ada.user, "user", str(ada.user))
    assert (entry["organization_id"], entry["host"], entry["user_agent"]) == (None, "192.0.2.1", "curl")


async def test_every_organization_of_the_person_has_an_entry_and_only_the_one_it_was_done_in_says_from_where(bench: MfaScene) -> None:
    person = await bench.person()
    acme, globex = [await bench.organization(slug, person.user) for slug in ("acme", "globex")]
    await bench.organization("initech")
    ada = Caller(person.user, person.email, person.session, is_platform_owner=False, organization="acme", organization_id=acme)
    await bench.enable(ada)
    entries = await bench.rows(
        "select organization_id, action, host(address) as host, user_agent, details from audit_log order by organization_id nulls first"
    )
    assert [(entry["organization_id"], entry["host"], entry["user_agent"]) for entry in entries] == [
        (None, "192.0.2.1", "curl"),
        (acme, "192.0.2.1", "curl"),
        (globex, None, None),
    ]
    assert all((entry["action"], entry["details"]) == ("security.mfa.enabled", {}) for entry in entries)
    published = await bench.rows("select name, organization_id from events order by name desc, organization_id nulls first")
    assert [(event["name"], event["organization_id"]) for event in published] == [
        ("user.mfa.enabled", acme),
        *(("security.mfa.enabled", organization) for organization in (None, acme, globex)),
    ]


async def test_what_is_done_in_no_organization_is_published_in_each_that_the_person_belongs_to(bench: MfaScene) -> None:
    ada = await bench.person()
    acme, globex = [await bench.organization(slug, ada.user) for slug in ("acme", "globex")]
    await bench.organization("initech")
    await bench.enable(ada)
    published = await bench.rows("select organization_id from events where name = 'user.mfa.enabled' order by organization_id nulls first")
    assert [event["organization_id"] for event in published] == [None, acme, globex]


async def test_in_a_service_of_an_organization_that_is_not_the_persons_nothing_stands_in_its_log(bench: MfaScene) -> None:
    person = await bench.person()
    acme = await bench.organization("acme")
    ada = Caller(
        person.user, person.email, person.session, is_platform_owner=False, organization="acme", organization_id=acme, service="shop"
    )
    await bench.enable(ada)
    assert [entry["organization_id"] for entry in await bench.rows("select organization_id from audit_log")] == [None]


async def test_organizations_do_not_read_why_somebodys_second_factor_was_taken_away(bench: MfaScene) -> None:
    ada, _ = await bench.enabled_person()
    acme = await bench.organization("acme", ada.user)
    admin = UserId(bench.ids.new())
    assert await bench.mfa.force_disable(ada.user, ada.email, Actor(admin, None, "192.0.2.9"), "lost her phone", "root")
    entries = await bench.rows(
        "select organization_id, actor_id, details from audit_log where action = 'security.mfa.disabled'"
        " order by organization_id nulls first"
    )
    assert [(entry["organization_id"], entry["actor_id"], entry["details"]) for entry in entries] == [
        (None, admin, {"forced": True, "reason": "lost her phone", "operator": "root"}),
        (acme, admin, {"forced": True}),
    ]


async def test_verifying_before_setting_up_is_refused_and_remembered(bench: MfaScene) -> None:
    ada = await bench.person()
    with pytest.raises(BadRequest, match="not set up"):
        await bench.mfa.enable(ada, acting(ada), "123456")
    assert await bench.log() == [("mfa_verify_attempt", False), ("mfa_verify_failed", False), ("mfa_setup_failed", False)]
    assert await bench.events() == await bench.audit() == []
    assert await bench.mails() == 0


async def test_a_wrong_code_enables_nothing_and_the_right_one_still_does(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.trusted_device(ada)
    await bench.set_up(ada)
    await bench.clear_log()
    for wrong in (bench.code(ada, 2), bench.code(ada, -2), "", "abcdef", "ABCD-EFGH"):
        with pytest.raises(BadRequest, match="not valid"):
            await bench.mfa.enable(ada, acting(ada), wrong)
    assert await bench.log() == [("mfa_verify_attempt", False), ("mfa_verify_failed", False), ("mfa_setup_failed", False)] * 5
    details = await bench.rows("select details from mfa_events where name <> 'mfa_verify_attempt'")
    assert {row["details"]["reason"] for row in details} == {"wrong_code"}
    assert await bench.rows("select * from backup_codes") == []
    assert await bench.trusted_devices() == 1
    await bench.mfa.enable(ada, acting(ada), bench.code(ada))


async def test_a_repeated_set_up_replaces_the_secret_that_waits(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    old = bench.code(ada)
    await bench.set_up(ada)
    with pytest.raises(BadRequest, match="not valid"):
        await bench.mfa.enable(ada, acting(ada), old)
    await bench.mfa.enable(ada, acting(ada), bench.code(ada))


async def test_once_enabled_neither_set_up_nor_verify_does_anything(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    await bench.clear_log()
    with pytest.raises(BadRequest, match="already enabled"):
        await bench.mfa.set_up(ada, acting(ada))
    with pytest.raises(BadRequest, match="already enabled"):
        await bench.mfa.enable(ada, acting(ada), bench.code(ada))
    assert ("mfa_setup_failed", False) in await bench.log()
    assert await bench.events() == ["user.mfa.enabled", "security.mfa.enabled"]
    # Neither the secret nor the codes have changed.
    assert await bench.check(ada.user, bench.code(ada)) is MfaMethod.TOTP
    assert await bench.check(ada.user, codes[0]) is MfaMethod.BACKUP_CODE


async def test_the_code_that_enabled_it_does_not_sign_in_as_well(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    code = bench.code(ada)
    await bench.mfa.enable(ada, acting(ada), code)
    assert await bench.check(ada.user, code) is None
    bench.clock.at += STEP
    assert await bench.check(ada.user, code) is None
    assert await bench.check(ada.user, bench.code(ada)) is MfaMethod.TOTP


@pytest.mark.parametrize(("steps", "accepted"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
async def test_a_code_is_good_one_step_early_and_one_step_late(bench: MfaScene, steps: int, accepted: bool) -> None:
    ada, _ = await bench.enabled_person()
    bench.clock.at += 5 * STEP
    assert (await bench.check(ada.user, bench.code(ada, steps)) is MfaMethod.TOTP) is accepted


async def test_an_accepted_step_takes_every_earlier_one_with_it(bench: MfaScene) -> None:
    ada, _ = await bench.enabled_person()
    bench.clock.at += 5 * STEP
    assert await bench.check(ada.user, bench.code(ada, 1)) is MfaMethod.TOTP
    for steps in (1, 0, -1):
        assert await bench.check(ada.user, bench.code(ada, steps)) is None
    bench.clock.at += 2 * STEP
    assert await bench.check(ada.user, bench.code(ada)) is MfaMethod.TOTP


async def test_when_the_clock_is_set_back_no_code_comes_again(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    bench.clock.at += 5 * STEP
    assert await bench.check(ada.user, bench.code(ada)) is MfaMethod.TOTP
    bench.clock.at -= 3 * STEP
    assert await bench.check(ada.user, bench.code(ada)) is None
    assert await bench.check(ada.user, codes[0]) is MfaMethod.BACKUP_CODE


async def test_a_check_is_logged_with_how_it_went(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    await bench.clear_log()
    code = bench.code(ada)
    await bench.check(ada.user, code)
    await bench.check(ada.user, code)
    await bench.check(ada.user, codes[0])
    await bench.check(ada.user, "AAAA-AAAA")
    assert await bench.log() == [
        *(("mfa_verify_attempt", True), ("mfa_verify_success", True)),
        *(("mfa_verify_attempt", False), ("mfa_verify_failed", False)),
        *(("mfa_verify_attempt", True), ("mfa_verify_success", True), ("backup_code_used", True)),
        *(("mfa_verify_attempt", False), ("mfa_verify_failed", False)),
    ]
    failed = await bench.rows("select details, host(address) as host from mfa_events where name = 'mfa_verify_failed' order by id")
    assert [(row["details"], row["host"]) for row in failed] == [
        ({"reason": "used_code"}, "192.0.2.1"),
        ({"reason": "wrong_code"}, "192.0.2.1"),
    ]


async def test_each_backup_code_works_once_however_it_is_typed(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    typed = [codes[0], codes[1].lower(), codes[2].replace("-", ""), f" {codes[3].replace('-', ' ')} "]
    for one in typed:
        assert await bench.check(ada.user, one) is MfaMethod.BACKUP_CODE
    assert await bench.check(ada.user, codes[0]) is None
    assert (await bench.mfa.status(ada.user)).has_backup_codes


@pytest.mark.parametrize(
    "code", ["", "12345", "1234567", "\0", "' or true --", "\u0661\u0662\u0663\u0664\u0665\u0666", "\ud800", "9" * 10**6]
)
async def test_hostile_codes_are_wrong_codes(bench: MfaScene, code: str) -> None:
    ada, _ = await bench.enabled_person()
    assert await bench.check(ada.user, code) is None
    assert (await bench.log())[-1] == ("mfa_verify_failed", False)


async def test_codes_of_another_are_wrong_codes(bench: MfaScene) -> None:
    ada, adas = await bench.enabled_person()
    bob, _ = await bench.enabled_person("bob@example.org")
    assert await bench.check(bob.user, bench.code(ada)) is None
    assert await bench.check(bob.user, adas[0]) is None
    assert await bench.check(ada.user, adas[0]) is MfaMethod.BACKUP_CODE


async def test_a_set_up_that_waits_checks_no_code(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    assert await bench.check(ada.user, bench.code(ada)) is None
    bob = await bench.person("bob@example.org")
    assert await bench.check(bob.user, "123456") is None


async def test_disabling_deletes_everything_and_says_so_once(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    await bench.trusted_device(ada)
    await bench.clear_log()
    await bench.mfa.disable(ada, acting(ada))
    await bench.mfa.disable(ada, acting(ada))
    assert await bench.rows("select * from mfa_secrets") == await bench.rows("select * from backup_codes") == []
    assert await bench.log() == [("mfa_disabled", True)]
    assert await bench.events() == ["user.mfa.enabled", "security.mfa.enabled", "user.mfa.disabled", "security.mfa.disabled"]
    assert await bench.audit() == ["security.mfa.enabled", "security.mfa.disabled"]
    assert await bench.mails() == 2
    assert await bench.trusted_devices() == 0
    assert await bench.check(ada.user, bench.code(ada)) is None
    assert await bench.check(ada.user, codes[0]) is None


async def test_disabling_a_set_up_that_waits_ends_it_quietly(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    code = bench.code(ada)
    await bench.mfa.disable(ada, acting(ada))
    with pytest.raises(BadRequest, match="not set up"):
        await bench.mfa.enable(ada, acting(ada), code)
    assert await bench.events() == await bench.audit() == []
    assert await bench.mails() == 0


async def test_after_disabling_it_can_be_set_up_again_with_another_secret(bench: MfaScene) -> None:
    ada, old = await bench.enabled_person()
    await bench.mfa.disable(ada, acting(ada))
    new = await bench.enable(ada)
    assert not set(old) & set(new)
    assert await bench.check(ada.user, old[0]) is None
    assert await bench.check(ada.user, new[0]) is MfaMethod.BACKUP_CODE


async def test_forced_disabling_names_who_and_why(bench: MfaScene) -> None:
    ada, _ = await bench.enabled_person()
    await bench.trusted_device(ada)
    await bench.clear_log()
    admin = UserId(bench.ids.new())
    assert await bench.mfa.force_disable(ada.user, ada.email, Actor(admin, None, "192.0.2.9"), "lost her phone")
    assert not await bench.mfa.force_disable(ada.user, ada.email, SYSTEM, "again")
    assert await bench.mfa.status(ada.user) == SecondFactorStatus(enabled=False, has_backup_codes=False)
    (logged,) = await bench.rows("select * from mfa_events")
    assert (logged["name"], logged["user_id"]) == ("mfa_force_disabled_by_admin", ada.user)
    assert logged["details"] == {"actor": str(admin), "reason": "lost her phone"}
    (entry,) = await bench.rows("select * from audit_log where action = 'security.mfa.disabled'")
    assert (entry["actor_id"], entry["details"]) == (admin, {"forced": True, "reason": "lost her phone"})
    assert await bench.events() == ["user.mfa.enabled", "security.mfa.enabled", "user.mfa.disabled", "security.mfa.disabled"]
    assert await bench.mails() == 2
    assert await bench.trusted_devices() == 0


async def test_new_backup_codes_end_all_earlier_ones_and_device_trust(bench: MfaScene) -> None:
    ada, old = await bench.enabled_person()
    await bench.check(ada.user, old[0])
    await bench.trusted_device(ada)
    new = [code.reveal() for code in await bench.mfa.renew_backup_codes(ada, acting(ada))]
    assert len(new) == 10
    assert not set(old) & set(new)
    assert await bench.check(ada.user, old[0]) is None
    assert await bench.check(ada.user, old[1]) is None
    assert await bench.check(ada.user, new[0]) is MfaMethod.BACKUP_CODE
    assert await bench.trusted_devices() == 0
    assert [name for name, _ in await bench.log()].count("backup_codes_generated") == 2
    assert (await bench.audit())[-1] == "security.mfa.backup_codes_generated"


@pytest.mark.parametrize("pending", [False, True])
async def test_without_mfa_there_are_no_backup_codes_to_renew(bench: MfaScene, pending: bool) -> None:
    ada = await bench.person()
    if pending:
        await bench.set_up(ada)
    with pytest.raises(BadRequest, match="not enabled"):
        await bench.mfa.renew_backup_codes(ada, acting(ada))
    assert await bench.rows("select * from backup_codes") == []


async def in_crowd(bench: MfaScene, user: UserId, code: str) -> list[MfaMethod | None]:
    """The results of many simultaneous requests with the same code. Requests that the limit refuses have no result."""
    results: list[MfaMethod | None] = []

    async def one() -> None:
        try:
            results.append(await bench.check(user, code))
        except RateLimited:
            results.append(None)

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(one)
    return results


async def test_of_a_crowd_with_one_time_based_code_one_gets_in(bench: MfaScene) -> None:
    ada, _ = await bench.enabled_person()
    results = await in_crowd(bench, ada.user, bench.code(ada))
    assert (len(results), results.count(MfaMethod.TOTP)) == (CROWD, 1)


async def test_of_a_crowd_with_one_backup_code_one_gets_in(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    # A process that has not yet asked for the server key: none waits for a second connection while it holds one.
    keyring = AesGcmKeyRing([KEY])
    fresh = MfaScene(bench.pool, bench.clock, bench.ids, bench.unit_of_work, make_mfa(bench.pool, keyring, bench.clock, bench.unit_of_work))
    with trio.fail_after(PATIENCE):
        results = await in_crowd(fresh, ada.user, codes[0])
    assert (len(results), results.count(MfaMethod.BACKUP_CODE)) == (CROWD, 1)


async def test_of_a_crowd_that_enables_one_is_shown_codes_and_they_are_the_ones_that_count(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    shown: list[Sequence[str]] = []

    async def one() -> None:
        try:
            shown.append([code.reveal() for code in await bench.mfa.enable(ada, acting(ada), bench.code(ada))])
        except (BadRequest, RateLimited):
            return

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(one)
    assert len(shown) == 1
    assert await bench.check(ada.user, shown[0][9]) is MfaMethod.BACKUP_CODE
    assert await bench.mails() == 1
    assert await bench.events() == ["user.mfa.enabled", "security.mfa.enabled"]


async def test_a_stolen_session_cannot_try_codes_without_end(bench: MfaScene) -> None:
    ada = await bench.person()
    await bench.set_up(ada)
    for _ in range(CODES_AT_SET_UP.burst):
        with pytest.raises(BadRequest):
            await bench.mfa.enable(ada, acting(ada), bench.code(ada, 9))
    with pytest.raises(RateLimited) as refused:
        await bench.mfa.enable(ada, acting(ada), bench.code(ada))
    assert 0 < refused.value.retry_after <= CODES_AT_SET_UP.seconds_per_request
    assert await bench.mfa.status(ada.user) == SecondFactorStatus(enabled=False, has_backup_codes=False)


async def test_neither_can_a_thief_of_the_password_who_asks_for_one_preauthentication_after_the_other(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    for _ in range(CODES_AT_SIGN_IN.burst):
        assert await bench.check(ada.user, "000000") is None
    for right in (bench.code(ada), codes[0]):
        with pytest.raises(RateLimited):
            await bench.check(ada.user, right)
    # It affects neither another person nor the other bucket.
    bob, _ = await bench.enabled_person("bob@example.org")
    assert await bench.check(bob.user, bench.code(bob)) is MfaMethod.TOTP


async def test_a_stolen_session_cannot_use_up_what_its_owner_signs_in_with(bench: MfaScene) -> None:
    ada, _ = await bench.enabled_person()
    for _ in range(CODES_AT_SET_UP.burst + 5):
        with pytest.raises((BadRequest, RateLimited)):
            await bench.mfa.enable(ada, acting(ada), "000000")
    assert await bench.check(ada.user, bench.code(ada)) is MfaMethod.TOTP


async def test_a_dump_of_the_database_holds_no_usable_secret(bench: MfaScene, log: CapturedLog) -> None:
    ada, codes = await bench.enabled_person()
    secret = bench.secrets[ada.user]
    await bench.check(ada.user, codes[0])
    raw = pyotp.TOTP(secret).byte_secret()
    (row,) = await bench.rows("select sealed_secret from mfa_secrets")
    sealed = row["sealed_secret"]
    assert secret.encode() not in sealed
    assert raw not in sealed
    dump = ""
    for table in await bench.rows("select tablename from pg_tables where schemaname = 'public'"):
        dump += repr(await bench.rows(f"select * from {table['tablename']}"))
    for hidden in (secret, *codes, *(code.replace("-", "") for code in codes)):
        assert hidden not in dump
        log.remember(hidden)
    # The secret is sealed for this person's row, and cannot be opened in another row.
    with pytest.raises(CannotOpen):
        AesGcmKeyRing([KEY]).open(sealed, f"mfa_secrets.sealed_secret:{bench.ids.new()}")
    assert AesGcmKeyRing([KEY]).open(sealed, f"mfa_secrets.sealed_secret:{ada.user}") == secret.encode()


async def test_secrets_and_backup_codes_outlive_a_rotation_of_the_encryption_keys(bench: MfaScene) -> None:
    ada, codes = await bench.enabled_person()
    ring = AesGcmKeyRing([EncryptionKey("second", b"2" * 32), KEY])
    reencryption = Reencryption(ring, PostgresSealedColumns(bench.pool, ring))
    assert "mfa_secrets.sealed_secret" in {done.column for done in await reencryption.run("second") if done.replaced == 1}
    assert await reencryption.is_finished()
    only_new = AesGcmKeyRing([EncryptionKey("second", b"2" * 32)])
    after = MfaScene(
        bench.pool, bench.clock, bench.ids, bench.unit_of_work, make_mfa(bench.pool, only_new, bench.clock, bench.unit_of_work)
    )
    after.secrets = bench.secrets
    assert await after.check(ada.user, after.code(ada)) is MfaMethod.TOTP
    assert await after.check(ada.user, codes[0]) is MfaMethod.BACKUP_CODE


async def test_the_set_up_shows_the_secret_the_uri_and_a_picture_of_it(bench: MfaScene) -> None:
    ada = await bench.person()
    made = await bench.set_up(ada)
    parsed = pyotp.parse_uri(made.uri.reveal())
    assert (parsed.secret, parsed.issuer, parsed.name) == (made.secret.reveal(), "Postern", "ada@example.org")
    assert made.qr_code.reveal().startswith("<svg")

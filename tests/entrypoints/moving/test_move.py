"""An organization moves from one installation to another, whole."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.postgres import grants
from adapters.postgres.migrate import migrate
from adapters.postgres.moving.what_moves import moved_tables
from adapters.postgres.tables.every import MOVED, TABLES
from adapters.postgres.unit_of_work import PostgresUnitOfWork
from core.domain.errors import Forbidden, Refusal, Unauthorized
from core.domain.identifiers import InvitationId, ManagementKeyId, OrganizationId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.sign_in import AwaitingSecondFactor, ServiceName, SignedIn
from core.domain.mail import Email
from core.domain.platform.governance import Authority
from core.domain.platform.moving import NamedPerson, UnfitFile
from core.domain.record.audit import ChainFinding, ChainHead
from core.domain.record.events import SYSTEM
from core.domain.secrets import Password, Token
from core.domain.tenancy.management_keys import ManagementKeyHolder
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.record import CheckedChain
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli import main
from entrypoints.cli.moving.arrival import ImportOptions
from entrypoints.failures import StartFailed
from ports.crypto import CannotOpen
from ports.tenancy.members import ById
from tests.adapters.postgres.migrating.former import FORMER, copy_rows, make_former
from tests.adapters.postgres.populous import ACME, MEMBERS
from tests.e2e.warm.processes import COMMAND, PosternProcess
from tests.entrypoints.backups.installation import database_beside
from tests.entrypoints.moving.conftest import Moving
from tests.entrypoints.moving.installations import (
    ADA,
    API_KEY,
    BOB,
    CY,
    DAN,
    EVE,
    FAY,
    FORMER_DEFAULT,
    PASSWORD,
    THERE,
    MovingPlace,
    settings_for,
)
from tests.entrypoints.moving.test_hostile_files import Row, contents, rewritten
from tests.patience import PATIENCE

T = TypeVar("T")
CLIENT: Final = Client(None, "a browser")
TRUSTED: Final = ImportOptions(trusts=True)
# Sealed values that nothing of the source has, and one that stays there.
NOT_FILLED: Final = {
    ("provisioning_connections", "sealed_token"),
    ("siem_configurations", "sealed_credentials"),
    *(("hooks", column) for column in ("sealed_secret", "previous_sealed_secret")),
    ("webhooks", "previous_sealed_secret"),
    ("upstream_providers", "sealed_private_key"),
    ("upstream_providers", "next_sealed_private_key"),
    ("upstream_providers", "former_sealed_private_key"),
    ("upstream_providers", "sealed_bind_password"),
}
# What arrives otherwise than it left, for a reason that the declaration names.
_OTHERWISE: Final = {
    "all_organizations": {"slug", "status", "updated_at"},
    "memberships": {"own_since"},
    "service_users": {"own_since"},
    "domain_routes": {"join_policy"},
    "siem_configurations": {"is_active"},
    "hooks": {"since"},
    "provisioning_connections": {"stopped_why"},
}


def within(installation: MovingPlace, work: Callable[[Postern], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_postern(installation.settings) as postern:
            return await work(postern)

    return trio.run(run)


def signed_in(installation: MovingPlace, email: str, password: str = PASSWORD) -> SignedIn | AwaitingSecondFactor:
    return within(installation, lambda postern: postern.identity.sign_in.with_password(Email(email), Password(password), CLIENT))


def faults_of_log(installation: MovingPlace, noted: ChainHead | None = None) -> tuple[list[ChainFinding], list[CheckedChain]]:
    async def verify(postern: Postern) -> tuple[list[ChainFinding], list[CheckedChain]]:
        while await postern.record.audit.link():
            pass
        found: list[ChainFinding] = []
        checked: list[CheckedChain] = []
        await postern.record.audit.verify(lambda _name, finding: found.append(finding), checked.append, only=ACME, noted=noted)
        return found, checked

    return within(installation, verify)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def moved_rows(installation: MovingPlace) -> dict[str, list[dict[str, Any]]]:
    """The rows of the organization, by table, as the file has them; values that are sealed are left out."""

    async def tables(postern: Postern) -> dict[str, str]:
        async with postern.foundation.unit_of_work() as uow:
            assert isinstance(uow, PostgresUnitOfWork)
            found = {}
            for table in await moved_tables(uow.statements):
                columns = [one for one in table.columns if one not in table.sealed and one not in _OTHERWISE.get(table.name, set())]
                where = "true" if table.owner is None else f"{table.owner} = '{ACME}'"
                if table.owner is None and table.service is not None:
                    where = f"{table.service} in (select id from all_services where org_id = '{ACME}')"
                if table.name == "audit_entries":
                    where += " and action not like 'organization.%%ported'"
                found[table.name] = f"select {', '.join(columns)} from {table.name} where {where}"
            return found

    return {
        table: sorted((row["row"] for row in installation.rows(f"select row_to_json(t) as row from ({select}) as t")), key=str)
        for table, select in within(installation, tables).items()
        if not MOVED[table].of_people and table != "audit_personal"
    }


def test_all_of_it_arrives_and_its_secrets_open_here_alone(moving: Moving, here: MovingPlace) -> None:
    arrived = here.import_(moving.file)
    assert (arrived.digest, arrived.audit, arrived.status) == (moving.departed.digest, moving.departed.audit, "suspended")
    there_rows, here_rows = moved_rows(moving.there), moved_rows(here)
    assert [table for table, rows in there_rows.items() if not rows] == []
    for table in there_rows:
        assert here_rows[table] == there_rows[table], table
    assert {table: rows for table, rows in here_rows.items() if table == "plans"}
    for table in MOVED:
        for column, sealing in TABLES[table].sealed.items():
            if MOVED[table].of_people:
                continue
            rows = here.rows(f"select {sealing.key} as key, {column} as sealed from {table} where {column} is not null")
            assert rows or (table, column) in NOT_FILLED
            for row in rows:
                context = f"{table}.{column}:{row['key']}"
                assert here.ring.open(row["sealed"], context) == f"the secret of {row['key']}".encode()
                with pytest.raises(CannotOpen):
                    moving.there.ring.open(row["sealed"], context)
    # What depends on the installation is decided here anew.
    assert (
        here.rows("select 1 from domains where verified_at is not null union all select 1 from domain_routes where verified_at is not null")
        == []
    )
    assert here.rows("select 1 from domains where token = 't' union all select 1 from domain_routes where token = 't'") == []
    assert here.rows("select 1 from resource_servers where verified_at is not null or approved_at is not null or token = 't'") == []
    assert here.rows("select 1 from resource_identifiers") == []
    assert here.rows("select 1 from invitations where mailed_digest is not null") == []
    assert here.rows("select 1 from domain_routes where join_policy = 'on'") == []
    assert here.rows("select 1 from subscriptions where managed") == []
    assert here.one("select count(*) from subscriptions where status = 'active'") == here.one("select sum(active_count) from plans")
    assert here.one("select is_active from siem_configurations") is False
    # It stands in shadow, and nobody asks it before an owner gives it a secret.
    hooks = here.rows("select counts_as, sealed_secret, secret_made_at, asked from hooks")
    assert [tuple(row.values()) for row in hooks] == [(None, None, None, 0)]
    connections = here.rows("select state, stopped_why, sealed_token, cardinality(team_ids) as teams from provisioning_connections")
    assert {tuple(row.values()) for row in connections} == {("stopped", "arrived", None, 10)}
    assert here.rows("select 1 from provisioned_people union all select 1 from provisioning_runs") == []
    assert here.one("select member_count from organizations") == MEMBERS
    assert {row["user_count"] for row in here.rows("select user_count from services")} == {MEMBERS}
    texts = here.rows("select key, unlinked, outdated, compared_with from organization_texts order by key")
    assert [row["key"] for row in texts if row["unlinked"]] == ["own.footer"]
    assert {(row["outdated"], row["compared_with"]) for row in texts} == {(False, "")}
    there, now = (place.one("select texts_digest from all_organizations where id = %s", ACME) for place in (moving.there, here))
    assert there is None
    assert now is not None
    # Nothing of the other tenant came along.
    assert here.one("select count(*) from all_organizations") == 1


def test_a_text_beside_a_reworded_default_needs_no_review_where_it_arrives(moving: Moving, here: MovingPlace) -> None:
    here.import_(moving.file)
    here.rows("delete from organization_texts where key like 'key_%%' or key = 'own.footer'")

    async def compare() -> int:
        async with open_postern(here.settings) as postern:
            return await postern.tenancy.own_texts.compare_with_ours(100)

    assert trio.run(compare) == 1
    assert here.rows("select key, based_on, outdated from organization_texts") == [
        {"key": "register.have_one", "based_on": FORMER_DEFAULT, "outdated": False}
    ]


def test_the_audit_log_holds_at_both_places_and_goes_on(moving: Moving, here: MovingPlace) -> None:
    arrived = here.import_(moving.file)
    assert arrived.audit.faults == 0
    faults, (chain,) = faults_of_log(here)
    assert faults == []
    assert chain.links == MEMBERS + 1
    (entry,) = here.rows("select * from audit_log where action = 'organization.imported'")
    assert entry["details"]["digest"] == moving.departed.digest
    assert entry["details"]["source"] == "https://old.example.org"
    assert entry["details"]["trusted_people"] is False
    faults, (chain,) = faults_of_log(moving.there, ChainHead.parse(arrived.audit.head))
    assert faults == []
    left = moving.there.rows("select details from audit_log where action = 'organization.exported'")
    assert left[0]["details"]["sealed_for"] == moving.departed.sealed_for
    assert left[0]["details"]["digest"] == moving.departed.digest
    assert left[0]["details"]["operator"]


def test_people_arrive_without_anything_of_their_own(moving: Moving, here: MovingPlace) -> None:
    here.import_(moving.file)
    assert (
        here.rows(
            "select 1 from users where password_hash is not null or email_verified_at is not null or is_platform_owner or name is not null"
            " or username is not null or picture_id is not null"
        )
        == []
    )
    for table in ("pictures", "mfa_secrets", "passkeys", "identities", "consents", "backup_codes", "sessions"):
        assert here.one(f"select count(*) from {table}") == 0, table
    assert (
        here.rows("select 1 from memberships where own_since is not null union all select 1 from service_users where own_since is not null")
        == []
    )
    with pytest.raises(Unauthorized):
        signed_in(here, ADA)

    async def reset(postern: Postern) -> None:
        found = await postern.platform.account_administration.reset_password(Email(ADA), Authority(SYSTEM, "grace"), by_mail=False)
        assert found.link is not None
        token = Token(found.link.reveal().rpartition("token=")[2])
        await postern.identity.account_passwords.reset(token, Password("another horse battery staple"), SYSTEM)

    within(here, reset)
    signed = signed_in(here, ADA, "another horse battery staple")
    assert isinstance(signed, SignedIn)
    assert signed.user == moving.there.user(ADA)


def test_trusted_people_sign_in_with_what_they_had(moving: Moving, here: MovingPlace) -> None:
    arrived = here.import_(moving.file, TRUSTED)
    signed = signed_in(here, ADA)
    assert isinstance(signed, SignedIn)

    async def claims(postern: Postern) -> Any:
        return await postern.foundation.token_verifier.verify_access(signed.tokens.access_token.reveal())

    # Applications know people by this.
    assert within(here, claims)["sub"] == str(moving.there.user(ADA))
    assert isinstance(signed_in(here, BOB), AwaitingSecondFactor)
    bob = here.user(BOB)
    sealed = here.one("select sealed_secret from mfa_secrets where user_id = %s", bob)
    assert here.ring.open(sealed, f"mfa_secrets.sealed_secret:{bob}") == b"JBSWY3DPEHPK3PXP"
    assert here.one("select count(*) from pictures join users on users.picture_id = pictures.id where user_id = %s", bob) == 1
    # The second factor of one person cannot come along, so the password alone must not do. Two others have no tie of their own, or are a
    # platform owner: nothing of theirs has left.
    assert [row["email"] for row in here.rows("select email from users where password_hash is not null order by 1")] == [ADA, BOB, DAN]
    for email in (CY, EVE, FAY):
        with pytest.raises(Unauthorized):
            signed_in(here, email)
    assert here.one("select count(*) from users where is_platform_owner") == 0
    assert arrived.people.without_password == 1
    assert here.one("select count(*) from memberships where own_since is not null") == 4
    assert here.one("select count(*) from identities") == 4 * 3
    assert here.one("select count(*) from consents") == 4 * 3


def test_passkeys_arrive_where_the_installation_keeps_its_name(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    environment = {"POSTERN_BASE_URL": "https://old.example.org"}
    same = MovingPlace(renamed(here, tmp_path, environment), here.url, here.key)
    same.import_(moving.file, TRUSTED)
    assert same.one("select count(*) from passkeys") == 1
    assert [row["email"] for row in same.rows("select email from users where password_hash is not null order by 1")] == [ADA, BOB, CY, DAN]


def renamed(here: MovingPlace, directory: Path, environment: dict[str, str]) -> Any:
    return settings_for(here.url, directory, here.key, environment["POSTERN_BASE_URL"].removeprefix("https://"))


def test_an_account_that_exists_gets_listed_ties_and_nothing_else(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    here.rows(
        "insert into users (id, email, email_key, email_verified_at, password_hash) values (%s, %s, %s, now(), 'hers')",
        *(ada := uuid4(), "U1@example.org", ADA),
    )
    # Somebody has registered this address and never proved it.
    here.rows("insert into users (id, email, email_key, password_hash) values (%s, %s, %s, 'a stranger')", bob := uuid4(), BOB, BOB)
    # And somebody else has the id that this person had.
    here.rows("insert into users (id, email, email_key) values (%s, 'x@example.org', 'x@example.org')", dan := moving.there.user(DAN))
    before = here.rows("select * from users where id in (%s, %s) order by id", ada, dan)
    report = tmp_path / "people.csv"
    planned = here.import_(moving.file, ImportOptions(plan=True, trusts=True))
    arrived = here.import_(moving.file, TRUSTED, report)
    assert here.rows("select * from users where id in (%s, %s) order by id", ada, dan) == before
    people = arrived.people
    assert (people.new, people.known, people.renamed) == (MEMBERS - 2, 2, 3)
    assert planned.people == people
    for table in ("mfa_secrets", "pictures", "identities", "consents"):
        assert here.one(f"select count(*) from {table} where user_id in (%s, %s, %s)", ada, bob, dan) == 0, table
    assert here.one("select own_since from memberships where user_id = %s", ada) is None
    assert here.one("select role from memberships where user_id = %s", ada) == "owner"
    assert here.one("select owner_user_id from organizations") == ada
    assert here.one("select count(*) from relations where user_id = %s and relation = 'owner'", ada) == 1
    assert here.rows("select 1 from memberships where user_id = %s", dan) == []
    # What the stranger left is gone before the ties are there.
    assert here.one("select password_hash from users where id = %s", bob) is None
    new_dan = here.user(DAN)
    assert new_dan != dan
    there = moving.there
    expected = {str(there.user(ADA)): str(ada), str(there.user(BOB)): str(bob), str(dan): str(new_dan)}
    assert arrived.changed_ids == expected
    lines = dict(line.split(",")[:2] for line in report.read_text().splitlines()[1:])
    assert len(lines) == MEMBERS
    assert {old: new for old, new in lines.items() if old != new} == expected
    # An entry about somebody who has another id here keeps its digest; whoever is forgotten here is forgotten there too.
    assert (
        here.one("select count(*) from audit_personal where entry_id in (select id from audit_entries where action = 'thing.done')")
        == MEMBERS - 3
    )
    faults, (chain,) = faults_of_log(here)
    assert faults == []
    assert chain.forgotten == 3


def test_who_has_an_account_here_and_becomes_the_owner_may_decline(moving: Moving, here: MovingPlace) -> None:
    here.rows("insert into users (id, email, email_key, email_verified_at) values (%s, %s, %s, now())", ada := uuid4(), ADA, ADA)
    root = uuid4()
    here.rows(
        "insert into users (id, email, email_key, email_verified_at, is_platform_owner) values (%s, 'root@example.org', 'root@example.org',"
        " now(), true)",
        root,
    )
    planned = here.import_(moving.file, ImportOptions(plan=True, trusts=True))
    arrived = here.import_(moving.file, TRUSTED)
    keys = here.one("select count(*) from management_keys where expires_at > now()")
    assert arrived.named == planned.named == [NamedPerson(ADA, owns=True, keys=keys)]
    assert keys > 0
    # Nobody has adopted a key here, whatever the file says.
    assert moving.there.one("select count(*) from management_keys where org_id = %s and adopted_by is not null", ACME) > 0
    assert here.one("select count(*) from management_keys where adopted_by is not null or adopted_at is not null") == 0
    assert here.one("select confirmed_at is null and former_membership_id is null from ownerships") is True

    async def decline(postern: Postern) -> None:
        caller = Caller(UserId(ada), Email(ADA), SessionId(uuid4()), is_platform_owner=False)
        await postern.platform.governance.activate(ACME, Authority(SYSTEM, "grace"))
        await postern.tenancy.ownerships.decline(caller, ACME)
        await postern.tenancy.members.leave(caller, ACME)

    within(here, decline)
    assert here.rows("select status, owner_user_id from organizations") == [{"status": "suspended", "owner_user_id": None}]
    assert here.rows("select from memberships where user_id = %s", ada) == []
    told = here.rows("select payload from jobs where kind = 'mail'")
    assert len(told) == 1
    assert here.one("select count(*) from audit_entries where action = 'organization.owner.declined' and organization_id is null") == 1


def test_a_key_whose_maker_has_no_tie_of_their_own_here_invites_nobody(moving: Moving, here: MovingPlace) -> None:
    here.rows("insert into users (id, email, email_key, email_verified_at) values (%s, %s, %s, now())", ada := uuid4(), ADA, ADA)
    here.import_(moving.file)
    here.rows("update management_keys set capabilities = '{org.members.manage}', expires_at = now() + interval '1 day'")

    async def activate(postern: Postern) -> None:
        await postern.platform.governance.activate(ACME, Authority(SYSTEM, "grace"))

    within(here, activate)

    async def invite(postern: Postern) -> None:
        (row, *_) = here.rows("select id from management_keys")
        able = ManagementKeyHolder(
            key=ManagementKeyId(row["id"]),
            name="Key",
            prefix="pto_",
            organization=ACME,
            organization_slug="acme",
            responsible=UserId(ada),
            capabilities=frozenset({Capability.MEMBERS_MANAGE}),
        )
        member = Member(None, ACME, "acme", True, "", able.capabilities, able)
        await postern.tenancy.invitations.create(member, Email("x@elsewhere.example"), "member", SYSTEM)

    with pytest.raises(Forbidden, match="has not confirmed"):
        within(here, invite)
    here.rows("update memberships set own_since = now() where user_id = %s", ada)
    within(here, invite)


def test_an_owner_who_is_trusted_owns_it_here_as_there(moving: Moving, here: MovingPlace) -> None:
    arrived = here.import_(moving.file, TRUSTED)
    assert arrived.named == []
    assert here.rows("select from ownerships") == []


def test_an_owner_who_is_new_here_may_decline_too(moving: Moving, here: MovingPlace) -> None:
    assert here.import_(moving.file).named == []
    assert here.one("select count(*) from ownerships where confirmed_at is null") == 1


def test_a_second_factor_follows_its_person_to_another_id(moving: Moving, here: MovingPlace) -> None:
    taken = moving.there.user(BOB)
    here.rows("insert into users (id, email, email_key) values (%s, 'x@example.org', 'x@example.org')", taken)
    here.import_(moving.file, TRUSTED)
    bob = here.user(BOB)
    assert bob != taken
    sealed = here.one("select sealed_secret from mfa_secrets where user_id = %s", bob)
    assert here.ring.open(sealed, f"mfa_secrets.sealed_secret:{bob}") == b"JBSWY3DPEHPK3PXP"
    assert isinstance(signed_in(here, BOB), AwaitingSecondFactor)


def test_a_plan_writes_nothing(moving: Moving, here: MovingPlace) -> None:
    before = here.everything()
    planned = here.import_(moving.file, ImportOptions(plan=True, trusts=True))
    assert planned.planned
    assert here.everything() == before
    arrived = here.import_(moving.file, TRUSTED)
    assert (planned.tables, planned.people, planned.digest) == (arrived.tables, arrived.people, arrived.digest)


def test_it_is_closed_until_an_operator_opens_it(moving: Moving, here: MovingPlace) -> None:
    here.import_(moving.file)

    async def resolve(postern: Postern) -> OrganizationId:
        return (await postern.services.api_keys.resolve(Token(API_KEY))).organization

    with pytest.raises(Refusal, match="not active"):
        within(here, resolve)

    async def activate(postern: Postern) -> None:
        await postern.platform.governance.activate(ACME, Authority(SYSTEM, "grace"))

    within(here, activate)
    # Keys live on: an application's server goes on calling.
    assert within(here, resolve) == ACME


def test_applications_know_the_same_people_by_their_tokens(moving: Moving, here: MovingPlace) -> None:
    here.import_(moving.file, TRUSTED)

    async def claims(postern: Postern) -> Any:
        await postern.platform.governance.activate(ACME, Authority(SYSTEM, "grace"))
        where = ServiceName("acme", "service-1")
        signed = await postern.identity.sign_in.with_password(Email(DAN), Password(PASSWORD), CLIENT, where)
        assert isinstance(signed, SignedIn)
        return await postern.foundation.token_verifier.verify_access(signed.tokens.access_token.reveal())

    told = within(here, claims)
    service = moving.there.one("select id from services where org_id = %s and slug = 'service-1'", ACME)
    assert (told["sub"], told["org_id"], told["service_id"]) == (str(moving.there.user(DAN)), str(ACME), str(service))
    assert list(told["roles"]) == ["editor"]


def test_the_serving_role_may_do_it(moving: Moving, here: MovingPlace, tmp_path: Path, worker_id: str) -> None:
    role = f"moving_{worker_id}"
    here.rows(f"drop role if exists {role}")
    here.rows(f"create role {role} login password 'made-up'")
    try:
        assert trio.run(grants.apply, here.url, role).lacking == []
        serving = make_conninfo(here.url, user=role, password="made-up")
        place = MovingPlace(settings_for(serving, tmp_path, here.key, "new.example.org"), serving, here.key)
        here.rows(f"revoke temporary on database {here.one('select current_database()')} from {role}")
        # By whichever statement the answer comes.
        with pytest.raises((UnfitFile, StartFailed), match="permission denied to create temporary tables"):
            place.import_(moving.file)
        trio.run(grants.apply, here.url, role)
        assert place.import_(moving.file).people.new == MEMBERS
    finally:
        here.rows(f"drop owned by {role}")
        here.rows(f"drop role {role}")


def test_it_arrives_once(moving: Moving, here: MovingPlace) -> None:
    here.import_(moving.file)
    before = here.everything()
    with pytest.raises(UnfitFile, match="slug of an organization here"):
        here.import_(moving.file)
    with pytest.raises(UnfitFile, match="here already: it was imported on"):
        here.import_(moving.file, ImportOptions(slug="acme-2"))
    assert here.everything() == before


def test_two_at_once_are_one(moving: Moving, here: MovingPlace) -> None:
    outcomes: list[object] = []

    def work() -> None:
        try:
            outcomes.append(here.import_(moving.file, ImportOptions(slug=f"acme-{len(outcomes)}-{uuid4().hex[:6]}")).status)
        except Refusal as refusal:
            outcomes.append(refusal)

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(trio.to_thread.run_sync, work)

    trio.run(both)
    assert sorted(isinstance(one, Refusal) for one in outcomes) == [False, True]
    assert here.one("select count(*) from memberships") == MEMBERS


def test_killed_in_the_middle_leaves_nothing_and_may_be_repeated(moving: Moving, here: MovingPlace) -> None:
    before = here.everything()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")},
        "POSTERN_DATABASE_URL": here.url,
        "POSTERN_DATA_DIR": str(here.settings.data_dir),
        "POSTERN_ENCRYPTION_KEYS": here.key.line(),
        "POSTERN_BASE_URL": "https://new.example.org",
    }
    command = [*COMMAND, "organization", "import", str(moving.file)]
    # Another transaction registers one of the people, so the import waits with most of its rows written.
    with psycopg.connect(here.url) as other:
        other.execute(
            "insert into all_organizations (id, slug, name, created_at, updated_at) values (%s, 'acme', 'A', now(), now())", (uuid4(),)
        )
        with PosternProcess(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            wait_until(lambda: here.one(waits) == 1 or process.poll() is not None)
            assert process.poll() is None, process.stdout and process.stdout.read()
            process.send_signal(signal.SIGKILL)
        other.rollback()
    wait_until(
        lambda: here.one("select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()") == 0
    )
    assert here.everything() == before
    arrived = here.import_(moving.file)
    assert arrived.people.new == MEMBERS
    assert moved_rows(here) == moved_rows(moving.there)


def test_the_commands(
    moving: Moving, here: MovingPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("POSTERN_")]:
        monkeypatch.delenv(name)

    def run(installation: MovingPlace, *arguments: str) -> tuple[int, str]:
        for name, value in {
            "POSTERN_DATABASE_URL": installation.url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": installation.key.line(),
            "POSTERN_BASE_URL": "https://old.example.org" if installation.key is THERE else "https://new.example.org",
        }.items():
            monkeypatch.setenv(name, value)
        status = main.main(["organization", *arguments])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    status, printed = run(here, "receive-key", "--json")
    assert status == 0
    made = json.loads(printed)
    assert run(here, "receive-key")[1].splitlines()[0] == made["key"]
    file = tmp_path / "acme"
    assert run(moving.there, "export", "--organization", "acme", "--to", str(file), "--for", "nonsense")[0] == 2
    assert run(moving.there, "export", "--organization", "nobody", "--to", str(file), "--for", made["key"])[0] == 1
    assert not list(tmp_path.glob("acme*"))
    status, printed = run(moving.there, "export", "--organization", "acme", "--to", str(file), "--for", made["key"])
    assert status == 0
    assert f"sealed for {made['fingerprint']}" in printed
    assert "suspend it first" in printed
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert run(moving.there, "export", "--organization", "acme", "--to", str(file), "--for", made["key"])[0] == 1
    status, printed = run(here, "import", str(file), "--plan", "--trust-people", "--slug", "acme-here", "--tier", "professional")
    assert status == 0
    assert "Nothing was written" in printed
    assert "1 of the trusted people have no password here" in printed
    assert run(here, "import", str(file), "--tier", "golden")[1].startswith("postern: There is no such tier")
    assert run(here, "import", str(tmp_path / "none"))[0] == 1
    assert run(here, "import", str(file), "--report", str(tmp_path / "no" / "where"))[0] == 1
    status, printed = run(here, "import", str(file), "--slug", "acme-here", "--tier", "professional", "--json")
    assert status == 0
    told = json.loads(printed)
    assert (told["slug"], told["tier"], told["status"], told["people"]["new"]) == ("acme-here", "professional", "suspended", MEMBERS)
    assert here.one("select slug from organizations") == "acme-here"


def test_an_invitation_of_a_key_that_has_ended_stays_void(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """Otherwise it would arrive as one that a person has sent, and somebody could accept it."""
    (kept, *_) = [row["id"] for _, row in contents(moving.file, moving.secrets).rows["management_keys"]]
    made_by = iter([str(uuid4()), kept])

    def change(part: str, row: Row) -> Row:
        return {**row, "made_by_key": next(made_by, None)} if part == "invitations" else row

    here.import_(rewritten(moving, tmp_path / "ended", change))
    ended, of_key = here.rows("select id, made_by_key from invitations where made_by_key is not null order by made_by_key = %s", kept)
    assert str(of_key["made_by_key"]) == kept

    async def backing(postern: Postern) -> frozenset[Capability]:
        async with postern.foundation.unit_of_work() as uow:
            offer = await uow.invitations.find_for_update(ById(InvitationId(ended["id"]), ACME))
            assert offer is not None
            return offer.backing

    assert within(here, backing) == frozenset()


def test_an_organization_moves_from_an_installation_that_came_over(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """Its database was taken on from before 0.2.0, and the one that it moves to is new: both say the same migrations."""
    with database_beside(moving.there.url) as url:
        trio.run(make_former, url, FORMER)
        copy_rows(moving.there.url, url)
        before = MovingPlace(settings_for(url, tmp_path, THERE, "old.example.org"), url, THERE)
        trio.run(migrate, url, lambda _line: None)
        departed = before.export(tmp_path / "moved", here.receiving_key())
    arrived = here.import_(tmp_path / "moved", TRUSTED)
    assert (arrived.slug, arrived.audit) == ("acme", departed.audit)
    assert here.one("select count(*) from memberships") == MEMBERS

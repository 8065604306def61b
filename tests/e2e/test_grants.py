"""The commands' messages to an operator whose database role has too few or too many rights."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres import grants
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.proofs.sign_in import LAST_LOOK, PostgresAttempts
from adapters.postgres.migrate import migrate, shipped_views_and_functions
from core.domain.identity.devices import Client, DeviceType, UserAgent
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import LastLook, ServiceName
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.domain.services.services import SignInPolicy
from tests.adapters.postgres.conftest import make_store
from tests.adapters.postgres.visits import ADA, APP, WORLD, Case, arrange, redeem
from tests.e2e.postern import command


class UngrantedDatabase:
    """A migrated database whose tables one role owns, and another that is to serve. Nothing is granted yet."""

    def __init__(self, url: str, folder: Path, worker: str) -> None:
        self._url = url
        self._folder = folder
        self.owner, self.app = f"owner_{worker}", f"app_{worker}"

    def as_role(self, role: str) -> str:
        return make_conninfo(self._url, user=role, password="made-up")

    def run(self, *statements: str, role: str | None = None) -> None:
        with psycopg.connect(self._url if role is None else self.as_role(role), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def command(self, *words: str, role: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        return command(
            self._folder,
            *words,
            POSTERN_DATABASE_URL=self.as_role(role or self.app),
            POSTERN_ENCRYPTION_KEYS=EncryptionKey("test", b"k" * 32).line(),
            **settings,
        )

    def rights(self) -> list[tuple[str, ...]]:
        """Of each view and function: whose it is, and who may do what with it."""
        statement = """
            select relname::text as name, relowner::regrole::text, coalesce(relacl::text, '') from pg_class
             where relkind = 'v' and relnamespace = 'public'::regnamespace
             union all
            select oid::regprocedure::text, proowner::regrole::text, coalesce(proacl::text, '') from pg_proc
             where pronamespace = 'public'::regnamespace
             order by 1
        """
        with psycopg.connect(self._url) as connection:
            return connection.execute(statement).fetchall()

    def grant(self) -> None:
        assert trio.run(grants.apply, self.as_role(self.owner), self.app).fault is None

    def doctor(self, *words: str, role: str | None = None) -> tuple[int, dict[str, tuple[str, str]]]:
        """Its exit status, and of each line what it is about: the verdict and the text."""
        done = self.command("doctor", *words, role=role)
        assert not done.stderr, done.stderr
        lines = re.findall(r"^(ok|warn|SOON|FAIL) +(.+?)  +(.*)$", done.stdout, re.MULTILINE)
        assert len(lines) == len(done.stdout.splitlines()), done.stdout
        return done.returncode, {subject: (verdict, text) for verdict, subject, text in lines}


@pytest.fixture
def scene(empty_database_url: str, tmp_path: Path, worker_id: str) -> Iterator[UngrantedDatabase]:
    made = UngrantedDatabase(empty_database_url, tmp_path, worker_id)
    name = psycopg.conninfo.conninfo_to_dict(empty_database_url)["dbname"]
    made.run(
        f"create role {made.owner} login password 'made-up'",
        f"create role {made.app} login password 'made-up' connection limit 40",
        f"alter database {name} owner to {made.owner}",
    )
    trio.run(migrate, made.as_role(made.owner), lambda _line: None)
    yield made
    made.run(
        f"drop owned by {made.app}",
        f"reassign owned by {made.owner} to current_user",
        f"drop owned by {made.owner}",
        f"drop role {made.app}",
    )
    made.run(f"drop role {made.owner}")


def test_grants_are_printed_and_applied_and_then_suffice(scene: UngrantedDatabase) -> None:
    printed = scene.command("grants", "--role", scene.app)
    assert printed.returncode == 0, printed.stderr
    assert f'revoke update, delete, truncate on "audit_entries", "audit_links" from "{scene.app}";\n' in printed.stdout
    # Printing is not applying.
    assert scene.doctor()[1]["grants"][0] == "FAIL"

    refused = scene.command("grants", "--role", scene.app, "--apply")
    assert refused.returncode == 1
    assert "POSTERN_DATABASE_URL has to name the role that owns the tables" in one_line(refused)

    for _ in range(2):
        applied = scene.command("grants", "--role", scene.app, "--apply", role=scene.owner)
        assert (applied.returncode, applied.stdout) == (0, f"{scene.app} now has the permissions that serving needs, and no others.\n"), (
            applied.stderr
        )
    status, found = scene.doctor()
    assert (status, found["grants"]) == (0, ("ok", f"{scene.app} reads and writes rows, and can only add to the audit log"))
    assert found["schema"][0] == found["clock"][0] == found["jobs"][0] == "ok"
    # The printed statements have the same effect.
    scene.run(f"drop owned by {scene.app}")
    scene.run(*[line for line in printed.stdout.split(";\n") if line], role=scene.owner)
    assert scene.doctor()[1]["grants"][0] == "ok"


def test_a_migration_grants_too_if_it_is_asked_to(scene: UngrantedDatabase) -> None:
    """As the recipes have it: the default privileges let the serving role rewrite the audit log."""
    scene.run(f"grant select, insert, update, delete on all tables in schema public to {scene.app}")
    both = scene.command("migrate", "--plan", "--grant", scene.app, role=scene.owner)
    assert (both.returncode, "--grant" in both.stderr) == (2, True)
    assert scene.doctor()[1]["grants"][0] == "FAIL"
    done = scene.command("migrate", "--grant", scene.app, role=scene.owner)
    granted = f"The database is current.\n{scene.app} now has the permissions that serving needs, and no others.\n"
    assert (done.returncode, done.stdout) == (0, granted), done.stderr
    assert scene.doctor()[1]["grants"][0] == "ok"


def test_who_may_rewrite_the_audit_log_is_told(scene: UngrantedDatabase) -> None:
    scene.run(f"grant select, insert, update, delete on all tables in schema public to {scene.app}")
    status, found = scene.doctor()
    assert (status, found["grants"][0]) == (1, "FAIL")
    assert (
        "update audit_entries, delete audit_entries, update audit_links, delete audit_links, so it can rewrite the audit log"
        in found["grants"][1]
    )
    scene.run(
        f"revoke update, delete on audit_entries, audit_links from {scene.app}", f"grant update (digest) on audit_links to {scene.app}"
    )
    assert "may update audit_links, so it" in scene.doctor()[1]["grants"][1]
    # The owner of the tables can always do this, so it is a warning, and no failure.
    status, found = scene.doctor(role=scene.owner)
    assert (status, found["grants"][0]) == (0, "warn")
    assert "owns the tables, so it can rewrite the audit log" in found["grants"][1]


@pytest.mark.parametrize(
    ("statement", "says", "commands"),
    [
        ("revoke usage on schema public from {app}, public", "use the schema public", [["serve"], ["migrate"]]),
        ("revoke select on schema_migrations from {app}", "select schema_migrations", [["serve"], ["migrate", "--plan"]]),
        ("revoke insert, update on jobs from {app}", "insert jobs, update jobs", [["serve"], ["keys", "list"]]),
        ("revoke all on all tables in schema public from {app}", " more: `postern grants`", []),
    ],
)
def test_a_role_that_lacks_something_is_told_in_one_line(
    scene: UngrantedDatabase, statement: str, says: str, commands: list[list[str]]
) -> None:
    scene.grant()
    scene.run(statement.format(app=scene.app))
    status, found = scene.doctor()
    assert (status, found["grants"][0]) == (1, "FAIL")
    assert says in found["grants"][1]
    for words in commands:
        done = scene.command(*words, POSTERN_MIGRATE="off")
        assert done.returncode == 1
        assert f"The database role {scene.app} may not " in one_line(done)


def test_a_role_that_may_not_migrate_is_told_in_one_line(scene: UngrantedDatabase) -> None:
    scene.grant()
    scene.run("drop function schema_edition()")
    for words in (["serve"], ["migrate"]):
        done = scene.command(*words)
        assert done.returncode == 1
        assert f"The database role {scene.app} may not migrate (" in done.stderr
        assert not done.stderr.count("Traceback")


def test_views_and_functions_are_replaced_by_the_owner_and_keep_their_rights(scene: UngrantedDatabase) -> None:
    scene.grant()
    scene.run("grant select on services to pg_monitor", "revoke execute on function exchange_root(uuid, uuid) from public")
    before = scene.rights()
    scene.run("drop function schema_edition()")
    assert scene.doctor()[1]["schema"][0] == "warn"
    refused = scene.command("migrate")
    assert refused.returncode == 1
    assert f"The database role {scene.app} may not migrate (" in refused.stderr
    done = scene.command("migrate", role=scene.owner)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"Applying {shipped_views_and_functions()} …"), done.stderr
    assert scene.rights() == before
    found = scene.doctor()[1]
    assert (found["schema"][0], found["grants"][0]) == ("ok", "ok")


def test_functions_are_among_the_rights(scene: UngrantedDatabase) -> None:
    """An operator may have taken from everybody what PostgreSQL gives everybody."""
    scene.grant()
    scene.run(f"revoke execute on function audience_fits(jsonb, jsonb, text, text[]) from public, {scene.app}")
    status, found = scene.doctor()
    assert (status, found["grants"]) == (
        1,
        ("FAIL", f"The database role {scene.app} may not execute audience_fits: `postern grants` prints what it needs"),
    )
    scene.grant()
    assert scene.doctor()[1]["grants"][0] == "ok"


def test_a_code_is_redeemed_with_these_rights_and_no_others(scene: UngrantedDatabase) -> None:
    """What PostgreSQL gives everybody is taken away, so that the function runs by what `postern grants` gives."""
    scene.run("revoke execute on all functions in schema public from public")
    with psycopg.connect(scene.as_role(scene.owner), autocommit=True) as connection:
        connection.execute(WORLD.encode())
        arrange(connection, Case(SignInPolicy.ASSIGNED, "own", "person"))
    refused = scene.doctor()[1]["grants"]
    assert refused[0] == "FAIL"
    scene.grant()
    assert trio.run(is_redeemed, scene.as_role(scene.app))


async def is_redeemed(url: str) -> bool:
    pool = Pool(url, max_size=1)
    await pool.open()
    try:
        return await redeem(make_store(url, pool), SYSTEM)
    finally:
        await pool.aclose()


def test_a_sign_in_is_looked_up_and_confirmed_with_these_rights_and_no_others(scene: UngrantedDatabase) -> None:
    scene.run("revoke execute on all functions in schema public from public")
    with psycopg.connect(scene.as_role(scene.owner), autocommit=True) as connection:
        connection.execute(WORLD.encode())
        arrange(connection, Case(SignInPolicy.ASSIGNED, "own", "person"))
    scene.grant()
    scene.run(f"revoke execute on function {LAST_LOOK.name} from {scene.app}")
    assert f"may not execute {LAST_LOOK.name}: `postern grants` prints" in scene.doctor()[1]["grants"][1]
    scene.grant()
    assert trio.run(is_confirmed, scene.as_role(scene.app))


async def is_confirmed(url: str) -> bool:
    pool = Pool(url, max_size=1)
    await pool.open()
    try:
        store = make_store(url, pool)
        approach = Approach(Client("192.0.2.1", ""), UserAgent(DeviceType.BROWSER, None, None, None, None))
        attempt = await PostgresAttempts(pool).find(Email("ada@example.org"), approach, ServiceName("acme", "app"))
        async with store.unit_of_work() as uow:
            confirmed = await uow.sign_ins.confirm(LastLook(user=ADA, service=APP))
    finally:
        await pool.aclose()
    found = attempt.named is not None and attempt.named.account.id == ADA
    return found and confirmed is not None and confirmed.destination is not None and confirmed.destination.admits


def test_grants_for_nobody_and_for_the_owner_are_refused(scene: UngrantedDatabase) -> None:
    for role, says in (("nobody", "There is no database role nobody"), (scene.owner, f"The database role {scene.owner} owns the tables")):
        done = scene.command("grants", "--role", role, "--apply", role=scene.owner)
        assert done.returncode == 1
        assert says in one_line(done)


def test_a_database_without_tables_has_nothing_to_grant(scene: UngrantedDatabase) -> None:
    scene.run("drop schema public cascade", f"create schema public authorization {scene.owner}")
    done = scene.command("grants", "--role", scene.app, role=scene.owner)
    assert (done.returncode, one_line(done)) == (1, "postern: There are no tables to grant anything on: run `postern migrate` first")


def test_the_doctor_warns_when_the_pools_together_exceed_what_the_server_has_room_for(scene: UngrantedDatabase) -> None:
    scene.grant()
    assert scene.doctor()[1]["connections"] == ("ok", "1 process may open 13 connections, and the server has room for 40")
    assert scene.doctor("--processes", "4")[1]["connections"] == (
        "SOON",
        "4 processes may open 52 connections, and the server has room for 40",
    )
    # Those that serve say so themselves.
    with (
        psycopg.connect(scene.as_role(scene.app), application_name="postern listener"),
        psycopg.connect(scene.as_role(scene.app), application_name="postern listener"),
    ):
        assert scene.doctor()[1]["connections"] == ("ok", "2 processes may open 26 connections, and the server has room for 40")
    scene.run(f"alter role {scene.app} connection limit -1")
    with psycopg.connect(scene.as_role(scene.app)) as connection:
        (room,) = connection.execute(
            "select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
            " - coalesce(current_setting('reserved_connections', true)::int, 0)"
        ).fetchone() or (0,)
    assert scene.doctor("--processes", "256")[1]["connections"] == (
        "SOON",
        f"256 processes may open 3328 connections, and the server has room for {room}",
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, done.stderr
    return lines[0]

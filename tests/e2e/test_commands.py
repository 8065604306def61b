"""The commands beside a running server, and without one."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import shipped, shipped_views_and_functions
from core.domain.tokens import KeyPurpose
from ops.free_ports import free_port
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, command, command_of, copy_later, until

Serve = Callable[..., Postern]
PASSWORD = "correct-horse-battery"


@pytest.fixture(scope="module")
def stopped(installation: Installation) -> Path:
    return installation.data_dir


def test_commands_say_that_the_database_takes_no_writes(empty_database_url: str, tmp_path: Path) -> None:
    """The alert about a server that is not ready tells operators to run these commands."""
    place = {"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_ENCRYPTION_KEYS": f"k:{'A' * 43}="}
    assert command(tmp_path, "migrate", **place).returncode == 0
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set default_transaction_read_only = on".encode())
    examined = command(tmp_path, "doctor", **place)
    assert examined.returncode == 1
    assert re.search(r"^FAIL  writes +fail: read only", examined.stdout, re.MULTILINE), examined.stdout
    made = command(tmp_path, "owner", "create", "--email", "ada@example.org", given=f"{PASSWORD}\n", **place)
    assert (made.returncode, made.stderr.count("\n")) == (1, 1)
    assert "read-only transaction" in made.stderr
    granted = command(tmp_path, "grants", "--apply", "--role", "postgres", **place)
    assert (granted.returncode, granted.stderr.count("\n")) == (1, 1), granted.stderr


def _owners(data_dir: Path) -> list[str]:
    with psycopg.connect(EmbeddedPostgres(data_dir).application_url) as connection:
        return [row[0] for row in connection.execute("select email from users where is_platform_owner order by id")]


@pytest.mark.parametrize("words", [["doctor"], ["keys", "list"], ["user", "show", "--email", "ada@example.com"], ["user", "stats"]])
def test_a_command_in_the_wrong_directory_makes_no_installation(tmp_path: Path, words: list[str]) -> None:
    done = command(tmp_path / "elsewhere", *words)
    assert done.returncode == 1
    assert "There is no Postern in" in done.stdout + done.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_commands_use_the_database_of_the_server_that_runs(running: Postern) -> None:
    server = running
    before = _owners(server.data_dir)
    made = command(server.data_dir, "owner", "create", "--email", "Second@Postern.local", given=f"{PASSWORD}\n")
    assert (made.returncode, made.stdout, made.stderr) == (0, "Second@Postern.local is a platform owner.\n", "")
    again = command(server.data_dir, "owner", "create", "--email", "second@postern.local")
    assert again.returncode == 0
    assert "The password is unchanged" in again.stdout
    assert _owners(server.data_dir) == [*before, "Second@Postern.local"]
    for words in ([], ["--email", "second@postern.local"]):
        linked = command(server.data_dir, "owner", "link", *words, POSTERN_BIND=f"127.0.0.1:{server.port}")
        assert (linked.returncode, linked.stderr) == (0, "")
        sentence, link = linked.stdout.splitlines()
        assert (words[1] if words else "owner@postern.local") in sentence
        assert link.startswith(f"http://127.0.0.1:{server.port}/")
        assert server.get(urlsplit(link).path + "?" + urlsplit(link).query).status == 200
    # With other settings than the server's, the link would lead nowhere.
    elsewhere = f"127.0.0.1:{free_port()}"
    lost = command(server.data_dir, "owner", "link", POSTERN_BIND=elsewhere)
    assert (lost.returncode, len(lost.stdout.splitlines())) == (0, 2)
    assert lost.stderr.startswith(f"No process listens at {elsewhere}. If Postern runs with another POSTERN_BIND or POSTERN_BASE_URL, ")
    assert command(server.data_dir, "owner", "link", "--email", "nobody@postern.local").returncode == 1
    assert command(server.data_dir, "migrate").stdout == "The database is current.\n"
    examined = command(server.data_dir, "doctor")
    assert examined.returncode == 0, examined.stdout
    assert server.process.poll() is None


def test_a_person_is_exported_and_forgotten_beside_the_server_that_runs(running: Postern) -> None:
    email = "ada@forget-me.example"
    assert running.post("/api/auth/register", {"email": email, "password": "three wet matches"}).status == 200

    def privacy(action: str) -> str:
        done = command(running.data_dir, "privacy", action, "--email", email)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    exported = json.loads(privacy("export"))
    assert (exported["email"], exported["login_events_count"], exported["memberships"]) == (email, 0, [])
    told = privacy("forget")
    request = told.rpartition("/")[2].strip()
    url = EmbeddedPostgres(running.data_dir).application_url

    def completed() -> bool:
        with psycopg.connect(url) as connection:
            done = connection.execute("select completed_at, requested_by from privacy_requests where id = %s", [request]).fetchone()
            return done is not None and done[0] is not None and done[1] is None

    until(completed)
    with psycopg.connect(url) as connection:
        of_person = "action in ('user.exported', 'user.anonymized') and target_id = %s"
        recorded = connection.execute(f"select action, details ? 'operator' from audit_log where {of_person}", [exported["user_id"]])
        assert sorted(recorded.fetchall()) == [("user.anonymized", True), ("user.exported", False)]
    again = command(running.data_dir, "privacy", "forget", "--email", email)
    assert (again.returncode, again.stderr) == (1, "postern: There is no account with this email address\n")


def test_an_account_is_administered_beside_the_server_that_runs(running: Postern) -> None:
    email, new = "night@postern.local", "three wet matches"
    made = command(running.data_dir, "owner", "create", "--email", email, given=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr

    def user(action: str, *more: str) -> str:
        done = command(running.data_dir, "user", action, "--email", email.upper(), *more)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def sign_in(password: str) -> str | None:
        answer = running.post("/api/auth/login", {"email": email, "password": password})
        return str(answer.json()["access_token"]) if answer.status == 200 else None

    token = sign_in(PASSWORD)
    assert token is not None
    shown = user("show")
    assert re.search(r"^e-mail +night@postern\.local, verified \d{4}-\d\d-\d\d \d\d:\d\d UTC$", shown, re.MULTILINE)
    assert re.search(r"^sessions +1$", shown, re.MULTILINE)
    assert re.search(r"^latest sign-in  .* UTC  succeeded  127\.0\.0\.1$", shown, re.MULTILINE)

    assert user("deactivate") == f"{email} is deactivated; 1 session revoked.\n"
    assert running.get("/api/user", token=token).status == 401
    assert sign_in(PASSWORD) is None
    assert user("activate") == f"{email} can sign in again.\n"

    token = sign_in(PASSWORD)
    assert token is not None
    assert user("revoke-sessions") == f"{email}: 1 session revoked.\n"
    assert running.get("/api/user", token=token).status == 401

    link = user("reset-password", "--print").splitlines()[-1]
    assert sign_in(PASSWORD) is None
    chosen = running.post("/api/auth/reset-password", {"token": link.partition("token=")[2], "new_password": new})
    assert chosen.status == 200
    assert sign_in(new) is not None
    assert user("disable-mfa") == f"{email} had no second factor.\n"

    unknown = command(running.data_dir, "user", "deactivate", "--email", "nobody@postern.local")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "postern: There is no account with this email address\n"
    with psycopg.connect(EmbeddedPostgres(running.data_dir).application_url) as connection:
        of_account = "details ? 'operator' and target_id = (select id::text from users where email = %s)"
        recorded = connection.execute(f"select action from audit_log where {of_account} order by id", [email]).fetchall()
    assert [action for (action,) in recorded] == [
        "user.viewed",
        "user.deactivated",
        "user.activated",
        "security.sessions.revoked",
        "security.password.changed",
    ]


def test_what_an_operator_decides_about_an_organization_holds_for_the_server_that_runs(running: Postern) -> None:
    email, slug = "founder@postern.local", "firm"
    assert command(running.data_dir, "owner", "create", "--email", email, given=f"{PASSWORD}\n").returncode == 0
    token = running.post("/api/auth/login", {"email": email, "password": PASSWORD}).json()["access_token"]
    founded = running.post("/api/organizations", {"slug": slug, "name": "Firm"}, token=token)
    assert founded.status == 200, founded.body
    inside = founded.json()["access_token"]

    def organization(action: str, *more: str, given: str = "") -> str:
        done = command(running.data_dir, "organization", action, "--organization", slug, *more, given=given)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def seen() -> int:
        return running.get(f"/api/organizations/{slug}/members", token=inside).status

    assert seen() == 403
    listed = command(running.data_dir, "organization", "list", "--status", "pending").stdout
    assert slug in listed
    assert organization("approve", "--tier", "professional") == f"{slug} is active.\n"
    assert seen() == 200
    assert organization("suspend", "--reason", "Unpaid").startswith(f"{slug} is suspended")
    assert seen() == 403
    organization("activate")
    assert seen() == 200
    assert f"owner     {email}\n" in organization("show")
    refused = command(running.data_dir, "organization", "approve", "--organization", slug)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "postern: Only a pending organization can be approved; this one is active\n"
    assert f"{slug} is deleted" in organization("delete", given=f"{slug}\n")
    assert seen() == 401
    with psycopg.connect(EmbeddedPostgres(running.data_dir).application_url) as connection:
        found = connection.execute("select action from audit_log where details ? 'operator' and target_type = 'organization' order by id")
        recorded = [action.removeprefix("organization.") for (action,) in found.fetchall()]
    assert recorded == ["approved", "suspended", "activated", "deleted", "deleted"]


def test_signing_keys_are_rotated_under_a_running_server(running: Postern) -> None:
    before = {key["kid"] for key in running.get("/.well-known/jwks.json").json()["keys"]}
    done = command(running.data_dir, "keys", "rotate", "--signing")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("signs from now on, in a running server within half a minute") == len(KeyPurpose)
    listed = command(running.data_dir, "keys", "list").stdout
    assert all(key in listed for key in before)
    assert listed.count("outgoing") == len(KeyPurpose)


def test_after_a_rotation_of_the_encryption_keys_what_is_stored_is_encrypted_again(serve: Serve, stopped: Path) -> None:
    done = command(stopped, "keys", "rotate", "--encryption")
    assert done.returncode == 0, done.stderr
    assert "not yet encrypted with the current encryption key" in command(stopped, "keys", "list").stdout
    server = serve()
    until(lambda: server.logged("column_reencrypted"))
    assert "All stored values are encrypted with the current encryption key" in command(stopped, "keys", "list").stdout
    assert server.get("/.well-known/jwks.json").status == 200


def test_what_is_stored_is_encrypted_again_at_once_by_a_command(running: Postern) -> None:
    done = command(running.data_dir, "keys", "rotate", "--encryption")
    assert done.returncode == 0, done.stderr
    done = command(running.data_dir, "keys", "reencrypt")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ values were sealed again, under the key \S+\.\n", done.stdout)
    assert "All stored values are encrypted with the current encryption key" in command(running.data_dir, "keys", "list").stdout


def test_encryption_keys_that_were_deleted_are_missed_and_not_replaced(running: Postern) -> None:
    """The server is running on these keys. A command that looks for the fault must not make it worse."""
    file = running.data_dir / "encryption.keys"
    kept = file.read_bytes()
    file.unlink()
    try:
        for words in (["doctor"], ["keys", "list"], ["keys", "rotate", "--encryption"], ["owner", "link"]):
            done = command(running.data_dir, *words)
            assert done.returncode == 1
            assert "encryption.keys are missing: put their backup there" in done.stdout + done.stderr
        assert not file.exists()
        # A key ring that does not belong to the database gets no new key either.
        file.write_text(f"other:{'A' * 43}=\n")
        for key in ("--encryption", "--signing"):
            done = command(running.data_dir, "keys", "rotate", key)
            assert done.returncode == 1
            assert "The encryption keys (other) do not belong to this database" in done.stderr
        assert file.read_text() == f"other:{'A' * 43}=\n"
    finally:
        file.write_bytes(kept)
        file.chmod(0o600)
    assert command(running.data_dir, "doctor").returncode == 0


def test_commands_start_the_database_when_no_server_runs(stopped: Path) -> None:
    listed = command(stopped, "keys", "list")
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^signing +access +current +\S+ +today$", listed.stdout, re.MULTILINE)
    assert not EmbeddedPostgres(stopped).is_owned()
    planned = command(stopped, "migrate", "--plan")
    assert planned.returncode == 0
    assert re.match(r"applied  0001_release_0_2  \d{4}-\d\d-\d\d \d\d:\d\d UTC\n", planned.stdout)


def test_the_plan_says_of_each_migration_who_goes_on_meanwhile(empty_database_url: str, tmp_path: Path) -> None:
    planned = command(tmp_path, "migrate", "--plan", POSTERN_DATABASE_URL=empty_database_url, POSTERN_ENCRYPTION_KEYS=f"k:{'A' * 43}=")
    assert planned.returncode == 0, planned.stderr
    pending = [line for line in planned.stdout.splitlines() if line.startswith("pending")]
    assert pending[0] == "pending  0001_release_0_2  breaking: older processes cannot start once it is applied"
    # The views and functions come last.
    replaces = f"pending  {shipped_views_and_functions()}  additive: older processes go on"
    assert pending == [*(f"pending  {migration}  {migration.promise}" for migration in shipped()), replaces]


def test_the_plan_says_which_views_are_replaced_and_who_is_in_the_way(database_url: str, tmp_path: Path) -> None:
    settings = {"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": f"k:{'A' * 43}="}
    ours = shipped_views_and_functions()
    with psycopg.connect(database_url, application_name="a report", autocommit=True) as report, report.transaction():
        report.execute("select from services")
        current = command(tmp_path, "migrate", "--plan", **settings).stdout.splitlines()
        assert current[-2:] == [f"applied  {ours}", "The database is current."], "nothing is pending, so nobody is in the way"
        with psycopg.connect(database_url) as connection:
            connection.execute("drop function schema_edition()")
        lines = command(tmp_path, "migrate", "--plan", **settings).stdout.splitlines()
        told = json.loads(command(tmp_path, "migrate", "--plan", "--json", **settings).stdout)
    assert lines[-3:-1] == [
        f"pending  {ours}  additive: older processes go on",
        f"         {', '.join(ours.views)}: nobody reads them for a moment",
    ]
    assert re.fullmatch(r'in the way: pid \d+ "a report" \(idle in transaction, for .+, holds services\)', lines[-1])
    assert (told["edition"], told["pending"], told["ahead"]) == (None, [str(ours)], [])


def test_the_plan_says_what_a_migration_locks_and_who_is_in_the_way(database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(database_url, application_name="a report") as report:
        report.execute("select from users")
        tree = tmp_path / "later"
        name = copy_later(tree)
        keys = f"k:{'A' * 43}="
        planned = command_of(tree, tmp_path, "migrate", "--plan", POSTERN_DATABASE_URL=database_url, POSTERN_ENCRYPTION_KEYS=keys)
    assert planned.returncode == 0, planned.stderr
    lines = planned.stdout.splitlines()
    pending = lines.index(f"pending  {name}  additive: older processes go on")
    assert lines[pending + 1 : pending + 3] == [
        "         users: access exclusive lock, builds an index (0 rows); nobody reads or writes it for a moment",
        "         takes less than a second.",
    ]
    assert re.fullmatch(r'in the way: pid \d+ "a report" \(idle in transaction, for .+, holds users\)', lines[-1])


def test_the_doctor_names_what_is_wrong(tmp_path: Path) -> None:
    nobody = "postgresql://me:hunter2@127.0.0.1:1/postern"
    examined = command(
        tmp_path,
        "doctor",
        POSTERN_DATABASE_URL=nobody,
        POSTERN_DATABASE_WAIT="0",
        POSTERN_ENCRYPTION_KEYS="k:short",
        POSTERN_MAIL="smtp://127.0.0.1:1",
        POSTERN_BASE_URL="http://login.example.com",
        POSTERN_TLS_CERTIFICATE=__file__,
        POSTERN_TLS_KEY=__file__,
        POSTERN_TRUSTED_PROXIES="0.0.0.0/0",
        POSTERN_RATE_LIMITS="off",
    )
    assert examined.returncode == 1
    verdicts = {subject: verdict for verdict, subject in re.findall(r"^(ok|warn|SOON|FAIL) +(.+?)  ", examined.stdout, re.MULTILINE)}
    assert verdicts["database"] == "FAIL"
    assert verdicts["encryption keys"] == "FAIL"
    assert verdicts["mail"] == "FAIL"
    assert verdicts["certificate"] == "FAIL"
    assert verdicts["base URL"] == "warn"
    assert verdicts["trusted proxies"] == "warn"
    assert verdicts["rate limits"] == "warn"
    assert verdicts["settings"] == "ok"
    assert "hunter2" not in examined.stdout + examined.stderr


def test_a_password_that_is_refused_makes_no_owner(stopped: Path) -> None:
    for given, says in (("password1\n", "most common"), ("", "standard input is empty")):
        refused = command(stopped, "owner", "create", "--email", "third@postern.local", given=given)
        assert refused.returncode == 1
        assert says in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_config_shows_what_is_in_force_without_secrets(stopped: Path) -> None:
    shown = command(stopped, "config", POSTERN_OWNER_PASSWORD=PASSWORD, POSTERN_KEEP_ALIVE="1m")
    assert shown.returncode == 0
    assert "POSTERN_KEEP_ALIVE=60s\n" in shown.stdout
    assert "POSTERN_OWNER_PASSWORD=***\n" in shown.stdout
    assert "# POSTERN_BASE_URL is not set: made from POSTERN_BIND\n" in shown.stdout
    assert PASSWORD not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["version"], 0), (["--help"], 0), (["serve", "--processes", "0"], 2), (["keys"], 2), (["frobnicate"], 2), (["keys", "generate"], 0)],
)
def test_the_exit_status_says_how_it_went(arguments: list[str], status: int, tmp_path: Path) -> None:
    done = command(tmp_path, *arguments)
    assert done.returncode == status
    assert bool(done.stdout) is (status == 0)
    assert not list(tmp_path.iterdir())

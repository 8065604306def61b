"""The guide for moving an organization works as written, with the database roles that docs/operations/database.md makes."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.crypto.key_ring import EncryptionKey
from tests.e2e.postern import command
from tests.entrypoints.backups.installation import with_programs_of
from tests.places import ROOT

_GUIDE: Final = (ROOT / "docs/guides/move-an-organization.md").read_text()
_ROLES: Final = (ROOT / "docs/operations/database.md").read_text()
_OWNER: Final = ("--email", "ada@example.org")


class RoledInstallation:
    """A database made by the block of "Database roles", migrated by its owner."""

    def __init__(self, server: str, name: str, folder: Path, database: str | None = None) -> None:
        self.owner, self.app = f"postern_owner_{name}", f"postern_app_{name}"
        self.database = database or f"postern_{name}"
        self._key = EncryptionKey(name, b"k" * 32).line()
        self._server = server
        self._folder = folder
        folder.mkdir()

    def make(self, *, roles: bool = True) -> None:
        (block,) = re.findall(r"```sql\n(create role postern_owner.*?)```", _ROLES, re.DOTALL)
        for old, new in (("postern_owner", self.owner), ("postern_app", self.app), ("database postern ", f"database {self.database} ")):
            block = block.replace(old, new)
        if not roles:
            block = re.sub(r"^create role .*\n", "", block, flags=re.MULTILINE)
        before, within = re.sub(r"--.*", "", block).split("\\connect postern\n")
        self.run("postgres", before)
        self.run(self.database, within)

    def run(self, database: str, statements: str) -> None:
        with psycopg.connect(make_conninfo(self._server, dbname=database), autocommit=True) as connection:
            for statement in filter(None, map(str.strip, statements.split(";"))):
                connection.execute(statement.encode())

    def remove(self) -> None:
        self.run("postgres", f"drop database if exists {self.database} with (force); drop role if exists {self.owner}, {self.app}")

    def postern(self, *words: str, role: str | None = None, given: str = "") -> subprocess.CompletedProcess[str]:
        return command(
            self._folder,
            *words,
            given=given,
            POSTERN_DATABASE_URL=self.url(role or self.app),
            POSTERN_ENCRYPTION_KEYS=self._key,
            POSTERN_BASE_URL="https://id.example.org",
        )

    def url(self, role: str) -> str:
        return make_conninfo(self._server, dbname=self.database, user=role, password="…")

    def done(self, *words: str, role: str | None = None, given: str = "") -> str:
        done = self.postern(*words, role=role, given=given)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def grants_of_doctor(self) -> tuple[str, str]:
        ((verdict, text),) = re.findall(r"^(ok|warn|SOON|FAIL) +grants +(.*)$", self.postern("doctor").stdout, re.MULTILINE)
        return verdict, text


@contextmanager
def installation(server: str, name: str, folder: Path) -> Iterator[RoledInstallation]:
    made = RoledInstallation(server, name, folder)
    made.remove()
    try:
        made.make()
        made.done("migrate", "--grant", made.app, role=made.owner)
        yield made
    finally:
        made.remove()


@pytest.fixture
def old(empty_database_url: str, worker_id: str, tmp_path: Path) -> Iterator[RoledInstallation]:
    with installation(empty_database_url, f"old_{worker_id}", tmp_path / "old") as made:
        made.done("owner", "create", *_OWNER, given="correct horse battery\n")
        made.done("organization", "create", "--organization", "acme", "--name", "Acme", "--owner", "ada@example.org")
        yield made


@pytest.fixture
def new(empty_database_url: str, worker_id: str, tmp_path: Path) -> Iterator[RoledInstallation]:
    with installation(empty_database_url, f"new_{worker_id}", tmp_path / "new") as made:
        yield made


def lines_of(section: str) -> list[list[str]]:
    """The commands of a section of the guide, without `postern`."""
    (text,) = re.findall(rf"^## {section}.*?\n(.*?)(?=^## )", _GUIDE, re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def test_the_guide_works_with_the_documented_roles(old: RoledInstallation, new: RoledInstallation, tmp_path: Path) -> None:
    for place in (old, new):
        assert place.grants_of_doctor() == ("ok", f"{place.app} reads and writes rows, and can only add to the audit log")
    (receive,) = lines_of("1")
    key = new.done(*receive).splitlines()[0]
    suspend, export = lines_of("2")
    file = str(tmp_path / "acme.postern")
    old.done(*suspend)
    assert "acme is in " in old.done(
        *(file if word == "acme.postern" else key if word.startswith("postern-receive") else word for word in export)
    )
    planned, taken = lines_of("3")
    assert planned[-1] == "--plan"
    for words in (planned, taken):
        new.done(*(file if word == "acme.postern" else str(tmp_path / word) if word.endswith(".csv") else word for word in words))
    for words in lines_of("4"):
        new.done(*words)
    assert '"active"' in new.done("organization", "show", "--organization", "acme", "--json")


def test_a_role_without_the_right_is_told_before_anything_happens(old: RoledInstallation, new: RoledInstallation, tmp_path: Path) -> None:
    """As installations of before have it. The guide's own line mends it, and what serves goes on without it."""
    key, file = new.done("organization", "receive-key").splitlines()[0], tmp_path / "acme.postern"
    export = ("organization", "export", "--organization", "acme", "--to", str(file), "--for", key)
    old.done(*export)
    for place in (old, new):
        place.run("postgres", f"revoke temporary on database {place.database} from {place.app}")
        sentence = (
            f"The database role {place.app} may not make temporary tables, which moving an organization needs: run `postern grants --apply`"
        )
        assert place.grants_of_doctor() == ("warn", f"{sentence} as the owner of the tables")
    for place, words in ((old, (*export[:-4], "--to", f"{file}2", "--for", key)), (new, ("organization", "import", str(file)))):
        refused = place.postern(*words)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert "may not make temporary tables" in refused.stderr
    assert not Path(f"{file}2").exists()
    for place in (old, new):
        place.done("grants", "--role", place.app, "--apply", role=place.owner)
    new.done("organization", "import", str(file))


def test_a_backup_is_restored_into_a_database_made_with_the_same_roles(
    old: RoledInstallation, empty_database_url: str, worker_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default privileges give the serving role some of its permissions there, and the restore the others."""
    with psycopg.connect(empty_database_url) as connection:
        with_programs_of(connection.info.server_version, monkeypatch)
    old.done("backup", "create", "--to", str(tmp_path / "backups"), role=old.owner)
    (backup,) = (tmp_path / "backups").iterdir()
    spare = RoledInstallation(empty_database_url, f"old_{worker_id}", tmp_path / "spare", f"{old.database}_spare")
    try:
        spare.make(roles=False)
        restored = spare.done("backup", "restore", str(backup), "--hold", role=old.owner)
        assert f"{old.app} has the permissions that serving needs. Now run `postern doctor`." in restored
        assert spare.grants_of_doctor()[0] == "ok"
        checked = spare.postern("backup", "check", str(backup), "--database", spare.url(old.owner), role=old.owner)
        assert not re.findall(r"^FAIL +schema.*", checked.stdout, re.MULTILINE), checked.stdout
    finally:
        spare.run("postgres", f"drop database if exists {spare.database} with (force)")

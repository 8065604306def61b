"""A small installation with something in every place that a backup is judged by, its backup, and copies of the restored database."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.backup_folders import BackupFolder
from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.backups.tools import PostgresTools
from adapters.postgres.embedded import BINARIES, MAJOR_VERSION
from core.domain.identifiers import OrganizationId
from core.domain.identity.devices import Client
from core.domain.jobs import NewJob
from core.domain.mail import MAIL_JOB, Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Password
from core.frozen import Frozen
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.cli.backups.create import create
from entrypoints.first_start import complete
from entrypoints.settings import Settings, read
from tests.e2e.postern import environment
from tests.e2e.warm.processes import COMMAND
from tests.http.people import People
from tests.http.tenants import Tenants
from tests.migrated import make_copy
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.tools import place_of

KEY: Final = EncryptionKey("test", b"k" * 32)
OTHER_KEY: Final = EncryptionKey("other", b"o" * 32)
SAME_NAME: Final = EncryptionKey("test", b"s" * 32)
OWNER: Final = "owner@example.com"
PASSWORD: Final = "correct horse battery staple"
SECRET: Final = "secret-of-the-webhook"
_numbers = count(1)


def settings_for(url: str, directory: Path, *keys: EncryptionKey) -> Settings:
    return read(
        {
            "POSTERN_DATABASE_URL": url,
            "POSTERN_DATA_DIR": str(directory),
            "POSTERN_ENCRYPTION_KEYS": ",".join(key.line() for key in keys or (KEY,)),
            "POSTERN_OWNER_EMAIL": OWNER,
            "POSTERN_OWNER_PASSWORD": PASSWORD,
            "POSTERN_ARGON2_MEMORY": "8KiB",
            "POSTERN_ARGON2_PASSES": "1",
        }
    )


def in_filling_place(work: Path, mebibytes: int, backup: "BackedUp", tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`postern` with these words, where `work` has so much room, and somebody else fills it as soon as the first database stands there."""
    room = ["--dev-bind", "/", "/", "--size", str(mebibytes << 20), "--tmpfs", str(work)]
    rights = ["--cap-add", "ALL"] if os.geteuid() == 0 else []
    fill = 'until [ -d "$0"/*/postgres/data/base/16384 ]; do kill -0 $$ || exit; sleep 0.01; done; cat /dev/zero >"$0/filler"'
    program = [*COMMAND, *words, str(backup.folder.path), "--work", str(work)]
    return subprocess.run(
        [place_of("bwrap"), *room, *rights, "sh", "-c", f'({fill}) >/dev/null 2>&1 & exec "$@"', str(work), *program],
        env=environment(tmp_path, {"POSTERN_DATABASE_URL": backup.url, "POSTERN_ENCRYPTION_KEYS": KEY.line()}),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=PATIENCE * 4,
    )


class BackedUp(Frozen):
    """`restored` is a database that the backup was restored into, and that nobody may change."""

    settings: Settings
    folder: BackupFolder
    restored: str

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.url, autocommit=True)

    @property
    def url(self) -> str:
        """Of the source database."""
        assert self.settings.database_url is not None
        return self.settings.database_url.reveal()


@contextmanager
def backed_up(url: str, directory: Path) -> Iterator[BackedUp]:
    """Fills the migrated database, backs it up and restores it, once for all tests of a file."""
    settings = settings_for(url, directory)
    trio.run(_fill, settings)
    manifest = trio.run(create, settings, directory / "backups")
    folder = BackupFolder(directory / "backups" / manifest.id)
    with database_beside(url) as restored:
        tools = trio.run(partial(PostgresTools.find, embedded=False, server_version=trio.run(server_version, url)))
        trio.run(tools.restore, restored, folder.dump)
        yield BackedUp(settings, folder, restored)


@contextmanager
def database_beside(url: str, *, template: str = "template0") -> Iterator[str]:
    """A further database on the same server, empty or a copy of another."""
    name = f"{conninfo_to_dict(url)['dbname']}_{next(_numbers)}"
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)".encode())
        make_copy(connection, name, template)
    yield make_conninfo(url, dbname=name)
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)".encode())


def with_programs_of(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own programs may be older than the embedded server."""
    if server // 10_000 == int(MAJOR_VERSION):
        monkeypatch.setenv("PATH", f"{BINARIES}:{os.environ['PATH']}")


def name_of(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


async def _fill(settings: Settings) -> None:
    assert settings.database_url is not None
    async with open_postern(settings) as postern:
        await complete(postern, settings)
        with People(postern, settings.database_url.reveal()) as people:
            await _fill_tables(postern, people)
        client = Client("192.0.2.7", "a browser")
        await postern.identity.sign_in.with_password(Email(OWNER), Password(PASSWORD), client)
        await _record(postern)


async def _fill_tables(postern: Postern, people: People) -> None:
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    ada = tenants.member(acme, "owner")
    bob = tenants.member(acme)
    people.change("delete from sessions")
    people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, %s, now(), now())",
        ada.user,
        people.sealed("JBSWY3DPEHPK3PXP", f"mfa_secrets.sealed_secret:{ada.user}"),
    )
    people.change("insert into backup_codes (user_id, digest) values (%s, 'a digest')", ada.user)
    people.change(
        "insert into pictures (id, user_id, type, content, created_at) values (%s, %s, 'image/png', 'x', now())", bob.user, bob.user
    )
    people.change("update users set picture_id = id where id = %s", bob.user)
    shop = tenants.service(acme, "shop")
    people.change(
        "insert into service_users (service_id, user_id, org_id, created_at) values (%s, %s, %s, now())", shop.id, bob.user, acme.id
    )
    people.change("update services set backchannel_logout_uri = 'https://shop.example/logout' where id = %s", shop.id)
    people.change("insert into logout_receivers (service_id) values (%s)", shop.id)
    people.change(
        "insert into logout_notices (id, service_id, session_id, user_id, next_at, created_at, updated_at)"
        " values (%s, %s, gen_random_uuid(), %s, now(), now(), now())",
        postern.foundation.ids.new(),
        shop.id,
        bob.user,
    )
    webhook = postern.foundation.ids.new()
    people.change(
        "insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)"
        " values (%s, %s, 'hook', 'https://hook.example/', '{role.created}', %s, now(), now())",
        webhook,
        acme.id,
        people.sealed(SECRET, f"webhooks.sealed_secret:{webhook}"),
    )
    hook = postern.foundation.ids.new()
    people.change(
        "insert into hooks (id, org_id, point, address, silence, seconds, sealed_secret, secret_made_at, counts_as, since, created_at,"
        " updated_at) values (%s, %s, 'sign_in', 'https://hook.example/', 'refuse', 2, %s, now(), gen_random_uuid(), now(), now(), now())",
        hook,
        acme.id,
        people.sealed(SECRET, f"hooks.sealed_secret:{hook}"),
    )
    shadow = postern.foundation.ids.new()
    people.change(
        "insert into hooks (id, org_id, point, address, silence, seconds, sealed_secret, secret_made_at, since, created_at, updated_at)"
        " values (%s, null, 'sign_in', 'https://hook.example/all', 'go_on', 2, %s, now(), now(), now(), now())",
        shadow,
        people.sealed(SECRET, f"hooks.sealed_secret:{shadow}"),
    )
    tenants.export_sign_ins(acme)
    connection = postern.foundation.ids.new()
    people.change(
        "insert into provisioning_connections"
        " (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest, whole_due_at)"
        " values (%s, %s, %s, 'generic', 'https://shop.example/scim', %s, '[]', 'active', 'a digest', now())",
        connection,
        acme.id,
        shop.id,
        people.sealed(SECRET, f"provisioning_connections.sealed_token:{connection}"),
    )
    people.change(
        "insert into billing_events (id, type, created, subject, payload, received_at, next_at)"
        " values ('evt_1', 'customer.created', 1, 'cus_1', '{}', now(), now())"
    )
    people.change(
        "insert into billing_subscriptions (external_id, facets, cancel_at, check_at, created_at, updated_at)"
        " values ('sub_1', '{}', now(), now(), now(), now())"
    )


async def _record(postern: Postern) -> None:
    async with postern.foundation.unit_of_work() as uow:
        rows = await postern.record.audit.chains.find("acme")
        assert rows is not None
        for organization in (rows, OrganizationId(UUID(int=7)), None):
            event = Event("role.created", Actor(address="192.0.2.7"), Target("role", "1"), organization)
            await uow.record_all([event] * 3)
        await uow.jobs.add(NewJob(MAIL_JOB, {"to": "ada@example.org", "link": "a link that works"}, sealed=True))
        await uow.jobs.add(NewJob(MAIL_JOB, {"to": "bob@example.org"}, sealed=True, run_at=datetime.now(UTC) + timedelta(hours=1)))
        await uow.commit()
    await postern.record.audit.link()

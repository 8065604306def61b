"""Secrets in the settings of an organization are sealed again when the key ring has a new first key, and still work."""

from typing import Final

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.people import People
from tests.http.signing_in import unlimited

PASSWORD: Final = "smtp-password-of-acme"
SECRET: Final = "client-secret-of-acme"
OLD: Final = EncryptionKey("test", b"k" * 32)
NEW: Final = EncryptionKey("newer", b"n" * 32)


async def test_a_rotation_of_the_ring_reaches_them(postern: Postern, people: People, log: CapturedLog) -> None:
    log.remember(PASSWORD, SECRET)
    scene = Neighbours(postern, people, unlimited(postern), log)
    scene.speaker = scene.resident(scene.acme, "owner")
    smtp = {"host": "smtp.acme.example", "port": 587, "username": "u", "password": PASSWORD, "from_email": "it@acme.example"}
    (await scene.request("POST", "/api/organizations/acme/smtp", smtp)).ok(200)
    credentials = {"client_id": "c", "client_secret": SECRET}
    (await scene.request("POST", "/api/organizations/acme/oauth-credentials/websuite", credentials)).ok(200)
    ring = AesGcmKeyRing([NEW, OLD])
    columns = PostgresSealedColumns(postern.foundation.pool, ring)
    for column in ("mail_servers.sealed_password", "oauth_credentials.sealed_client_secret"):
        for value in await columns.outdated(column, 10):
            opened = ring.open(value.sealed, value.context)
            assert await columns.replace(column, value.row, value.sealed, ring.seal(opened, value.context))
        assert await columns.outdated(column, 10) == []
    (server,) = people.rows("select id, sealed_password as sealed from mail_servers")
    (client,) = people.rows("select id, sealed_client_secret as sealed from oauth_credentials")
    alone = AesGcmKeyRing([NEW])
    assert alone.open(server["sealed"], f"mail_servers.sealed_password:{server['id']}") == PASSWORD.encode()
    assert alone.open(client["sealed"], f"oauth_credentials.sealed_client_secret:{client['id']}") == SECRET.encode()


async def test_a_dump_shows_neither(postern: Postern, people: People, log: CapturedLog) -> None:
    """Looks in every column of every table, the queue and the audit log included."""
    await test_a_rotation_of_the_ring_reaches_them(postern, people, log)
    tables = people.rows("select table_name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'")
    for table in tables:
        for row in people.rows(f"select * from {table['table_name']}"):
            for value in row.values():
                shown = value if isinstance(value, bytes) else str(value).encode()
                assert PASSWORD.encode() not in shown, table
                assert SECRET.encode() not in shown, table

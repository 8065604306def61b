"""Two installations with keys of their own. In the one, an organization that has something of everything; the other is empty."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.crypto.recipients import RecipientSecrets, receiving_key
from adapters.postgres.record.audit import PERSONAL_DIGEST
from adapters.postgres.tables.every import MOVED, TABLES
from core.domain.branding import Font, Look
from core.domain.platform.moving import ArrivedOrganization, DepartedOrganization
from core.domain.secrets import Password, Token
from core.frozen import Frozen
from entrypoints.bootstrap import open_postern
from entrypoints.cli.moving.arrival import ImportOptions, import_
from entrypoints.cli.moving.departure import export
from entrypoints.cli.moving.receive_key import receiving_secrets
from entrypoints.settings import Settings, read
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.populous import ACME, fill
from tests.migrated import make_copy
from tests.pictures import drawn_png

THERE: Final = EncryptionKey("there", b"t" * 32)
HERE: Final = EncryptionKey("here", b"h" * 32)
PASSWORD: Final = "correct horse battery staple"
API_KEY: Final = "sk_AbCdEf_" + "a" * 43
# Nobody looks into it.
CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
# Rows of people of the source, in the order of their numbers: the first owns the organization.
ADA, BOB, CY, DAN, EVE, FAY = (f"u{number}@example.org" for number in range(1, 7))


def settings_for(url: str, directory: Path, key: EncryptionKey, host: str) -> Settings:
    return read(
        {
            "POSTERN_DATABASE_URL": url,
            "POSTERN_DATA_DIR": str(directory),
            "POSTERN_ENCRYPTION_KEYS": key.line(),
            "POSTERN_BASE_URL": f"https://{host}",
            "POSTERN_ARGON2_MEMORY": "8KiB",
            "POSTERN_ARGON2_PASSES": "1",
        }
    )


class MovingPlace(Frozen):
    settings: Settings
    url: str
    key: EncryptionKey

    @property
    def ring(self) -> AesGcmKeyRing:
        return AesGcmKeyRing([self.key])

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def one(self, statement: str, *values: Any) -> Any:
        """The only value of the only row."""
        (row,) = self.rows(statement, *values)
        (value,) = row.values()
        return value

    async def query(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """As the store of the tests has it."""
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def receiving_secrets(self) -> RecipientSecrets:
        async def get() -> RecipientSecrets:
            async with open_postern(self.settings) as postern:
                await postern.foundation.signing_keys.ensure()
                return await receiving_secrets(postern)

        return trio.run(get)

    def receiving_key(self) -> str:
        return receiving_key(self.receiving_secrets().hybrid_key)

    def export(self, path: Path, key: str, slug: str = "acme") -> DepartedOrganization:
        async def work() -> DepartedOrganization:
            async with open_postern(self.settings) as postern:
                return await export(postern, slug, path, key)

        return trio.run(work)

    def import_(self, path: Path, options: ImportOptions | None = None, report: Path | None = None) -> ArrivedOrganization:
        async def work() -> ArrivedOrganization:
            async with open_postern(self.settings) as postern:
                return await import_(postern, path, options or ImportOptions(), report)

        return trio.run(work)

    def user(self, email: str) -> UUID:
        found: UUID = self.one("select id from users where email_key = %s", email)
        return found

    def everything(self) -> Mapping[str, list[str]]:
        """Every row of the database, but for what a command leaves of itself."""
        statement = "select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = %s"
        tables = [row["name"] for row in self.rows(statement, _PUBLIC)]
        return {
            table: sorted(str(row["row"]) for row in self.rows(f"select t::text as row from {table} as t"))
            for table in tables
            if table not in {"server_secrets", "schema_migrations"}
        }


_PUBLIC: Final = 2200
LINKED_TEXT: Final = "See [our page](https://acme.example/)."
FORMER_DEFAULT: Final = "Do you have an account already?"


def fill_source(there: MovingPlace) -> None:
    trio.run(fill, cast("Store", there))
    ring = there.ring
    there.rows("update users set email = email || '@example.org', email_key = email_key || '@example.org'")
    for table in MOVED:
        for column, sealing in TABLES[table].sealed.items():
            for row in there.rows(f"select {sealing.key} as key from {table} where {column} is not null"):
                sealed = ring.seal(f"the secret of {row['key']}".encode(), f"{table}.{column}:{row['key']}")
                there.rows(f"update {table} set {column} = %s where {sealing.key} = %s", sealed, row["key"])
    picture = drawn_png()
    digest = sha256(picture).hexdigest()
    there.rows("update logos set content = %s, digest = %s where org_id = %s", picture, digest, ACME)
    there.rows("update look_pictures set content = %s, digest = %s where org_id = %s", picture, digest, ACME)
    there.rows("update service_logos set content = %s, digest = %s", picture, digest)
    there.rows("update all_organizations set logo_digest = %s, name = 'Acme Ltd', session_hours = 12 where id = %s", digest, ACME)
    look = Look(background=digest, favicon=digest, corner=4, font=Font.SERIF, notice_until="2030-01-01T12:00:00+00:00")
    there.rows("update all_organizations set look = %s, languages = 'de,pl' where id = %s", look.as_text(), ACME)
    # One with a link, whose domain is proved there alone.
    there.rows("update organization_texts set key = 'own.footer', text = %s where org_id = %s and key = 'key_1'", LINKED_TEXT, ACME)
    # One beside a default that was reworded since, and as long as that one allowed: longer than the default of now does.
    there.rows(
        "update organization_texts set key = 'register.have_one', text = %s, based_on = %s where org_id = %s and key = 'key_2'",
        *("An account of Acme, its partners or its friends is good enough", FORMER_DEFAULT, ACME),
    )
    # What no endpoint would have left empty.
    there.rows("update all_profile_fields set written_by = '{person}'")
    there.rows("update saml_certificates set certificate = %s", CERTIFICATE)
    there.rows("update invitations set email = email || '@example.org', email_key = email_key || '@example.org'")
    ada = there.user(ADA)
    there.rows("update memberships set role = 'owner', role_id = null where org_id = %s and user_id = %s", ACME, ada)
    there.rows("delete from relations where user_id = %s and object_type <> 'service_role'", ada)
    there.rows(
        "insert into relations (organization_id, user_id, relation, object_type, object_id) values (%s, %s, 'owner', 'organization', %s)",
        *(ACME, ada, ACME),
    )
    there.rows("update all_organizations set owner_user_id = %s where id = %s", ada, ACME)
    there.rows("update users set deactivated_by_org_id = null, origin_org_id = null, origin_service_id = null")
    _make_own(there, ring)
    there.rows("update all_services set redirect_uris = '{https://shop.example/callback}' where org_id = %s", ACME)
    there.rows("update domain_routes set verified_at = now(), next_check_at = now() where org_id = %s", ACME)
    there.rows("update domains set verified_at = now(), next_check_at = now() where org_id = %s", ACME)
    there.rows(
        "update audit_entries set personal_digest ="
        f" (select {PERSONAL_DIGEST.format(details='details')} from audit_personal where entry_id = id)"
    )
    there.rows("update audit_entries set details = '{\"amount\": 1.10000000000000000001}' where actor_id = %s", ada)
    there.rows(
        "update api_keys set digest = %s"
        " where id = (select id from api_keys where service_id in (select id from all_services where org_id = %s) limit 1)",
        *(Token(API_KEY).digest(), ACME),
    )
    for table in ("api_keys", "management_keys", "scim_tokens"):
        there.rows(f"update {table} set created_by = %s", ada)
    there.rows("update provisioning_connections set made_by = %s", ada)
    there.rows(
        "update management_keys set adopted_by = %s, adopted_at = now(), expires_at = now() + interval '1 day' where org_id = %s", ada, ACME
    )
    there.rows("update invitations set mailed_digest = sha256(id::text::bytea)")
    trio.run(partial(_link, there.settings))


def _make_own(there: MovingPlace, ring: AesGcmKeyRing) -> None:
    """Six people have proved their addresses, and all but one of them have a tie of their own. The last one is a platform owner."""

    async def hashed() -> str:
        async with open_postern(there.settings) as postern:
            return await postern.identity.passwords.hash(Password(PASSWORD))

    encoded = trio.run(hashed)
    for address in (ADA, BOB, CY, DAN, EVE, FAY):
        user = there.user(address)
        there.rows(
            "update users set email_verified_at = now(), password_hash = %s, name = 'Name of ' || email, username = %s where id = %s",
            *(encoded, address.partition("@")[0] + "-name", user),
        )
        if address != EVE:
            there.rows("update memberships set own_since = now() where user_id = %s and org_id = %s", user, ACME)
    there.rows("update users set is_platform_owner = true where email_key = %s", FAY)
    bob, cy = there.user(BOB), there.user(CY)
    there.rows(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, %s, now(), now())",
        *(bob, ring.seal(b"JBSWY3DPEHPK3PXP", f"mfa_secrets.sealed_secret:{bob}")),
    )
    there.rows(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at, second_factor_since) values (gen_random_uuid(), %s, 'a', 'k', 0, 'Key', gen_random_uuid(), '{}', false, false, now(),"
        " now())",
        cy,
    )
    there.rows(
        "insert into pictures (id, user_id, type, content, created_at) values (gen_random_uuid(), %s, 'image/png', %s, now())",
        *(bob, drawn_png()),
    )
    there.rows("update users set picture_id = (select id from pictures where user_id = users.id) where id = %s", bob)


async def _link(settings: Settings) -> None:
    async with open_postern(settings) as postern:
        while await postern.record.audit.link():
            pass


@contextmanager
def copied(url: str, name: str) -> Iterator[str]:
    """A copy of a database, for one test."""
    source = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)".encode())
        make_copy(connection, name, source)
    yield make_conninfo(url, dbname=name)
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)".encode())

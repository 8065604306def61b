"""A connection by LDAP moves with its organization: its bind password opens there, for the same hosts."""

from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from adapters.postgres.identity.upstream.ways import kept_settings, ldap_settings
from core.domain.identity.upstream.ldap.settings import (
    NOTHING_DESCRIBED,
    LdapChange,
    bind_password_context,
    bound_password,
    ldap_issuer,
    opened_password,
)
from entrypoints.cli.moving.arrival import ImportOptions
from tests.adapters.postgres.populous import ACME
from tests.entrypoints.moving.conftest import Moving
from tests.entrypoints.moving.installations import MovingPlace

PASSWORD = "the reader's own"


def test_a_connection_by_ldap_moves_with_its_password(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    there, provider = moving.there, uuid4()
    settings = LdapChange(hosts=("ldaps://dc1.example.org",), bind_dn="cn=reader,dc=example,dc=org").applied(NOTHING_DESCRIBED)
    sealed = there.ring.seal(bound_password(settings, PASSWORD), bind_password_context(str(provider)))
    with psycopg.connect(there.url, autocommit=True) as connection:
        connection.execute(
            "insert into upstream_providers (id, org_id, kind, state, name, issuer, scopes, enabled, ldap, sealed_bind_password,"
            " secret_set_at, created_at, updated_at)"
            " values (%s, %s, 'ldap', 'active', 'Directory', %s, '{}', true, %s, %s, now(), now(), now())",
            (provider, ACME, ldap_issuer(str(provider)), Jsonb(kept_settings(settings)), sealed),
        )
    file = tmp_path / "acme.postern"
    there.export(file, here.receiving_key())
    # Other tests read this installation, too.
    there.rows("delete from upstream_providers where id = %s returning id", provider)
    here.import_(file, ImportOptions(trusts=True))
    (row,) = here.rows("select *, ldap::text as text from upstream_providers where kind = 'ldap'")
    arrived = ldap_settings(row["text"])
    assert arrived is not None
    assert (arrived, row["issuer"]) == (settings, ldap_issuer(row["id"]))
    opened = here.ring.open(row["sealed_bind_password"], bind_password_context(row["id"]))
    assert opened_password(arrived, opened) == PASSWORD

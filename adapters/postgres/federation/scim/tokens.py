"""SCIM tokens in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import Columns
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, first
from adapters.postgres.tenancy.fields.profile_fields import shape_of
from adapters.postgres.tenancy.keys.machine_keys import KeyLookups, KeyTable, added, adding, asked_keys
from adapters.postgres.transaction import Transaction
from core.domain.federation.scim.tokens import ScimHolder, ScimToken
from core.domain.identifiers import OrganizationId, ScimTokenId
from core.domain.tenancy.management_keys import KnownKey

TOKEN: Final = Columns(ScimToken, "scim_tokens", named={"organization": "org_id"}, texts=("name",))


class _Known(NamedTuple):
    id: UUID
    digest: bytes
    name: str
    prefix: str
    expires_at: datetime | None
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool
    mapping: Mapping[str, Mapping[str, Any]] | None

    def known(self) -> KnownKey[ScimHolder]:
        holder = ScimHolder(
            ScimTokenId(self.id),
            self.name,
            self.prefix,
            OrganizationId(self.organization_id),
            self.organization_slug,
            {name: shape_of(field) for name, field in (self.mapping or {}).items()},
        )
        return KnownKey(holder, self.digest, self.expires_at, self.organization_is_active)


class PostgresScimTokens(KeyLookups[ScimHolder]):
    """Implements `ports.federation.scim.ScimTokenLookup`."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, _Known, FIND)

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        return await ask(self._pool, TOKEN.row, _LIST, {"organization": organization})


class ScimTokenRows:
    """Implements `ports.federation.scim.ScimTokenStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        return await added(self._transaction, _ADD, {**TOKEN.values(token), "org_id": token.organization, "digest": digest})

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        return first(await self._transaction.ask(TOKEN.row, _DELETE, {"organization": organization, "id": token}))


SCIM_TOKENS: Final = KeyTable("scim_tokens", "org_id")

FIND: Final[LiteralString] = f"""
    select keys.id, keys.digest, keys.name, keys.prefix, keys.expires_at,
           organizations.id as organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active,
           (
               select jsonb_object_agg(
                          mapped.key, jsonb_build_object('key', fields.key, 'kind', fields.kind, 'rule', fields.rule)
                      )
                 from scim_groups
                cross join jsonb_each_text(scim_groups.profile_mapping) as mapped
                 join profile_fields as fields on fields.org_id = scim_groups.org_id and fields.key = mapped.value
                where scim_groups.org_id = keys.org_id and 'directory' = any (fields.written_by)
           ) as mapping
      from {asked_keys(SCIM_TOKENS)}
     cross join lateral (select * from organizations where organizations.id = keys.org_id limit 1) as organizations
"""

# An organization has few enough tokens to show them all.
_LIST: Final[LiteralString] = f"select {TOKEN.names} from scim_tokens where org_id = %(organization)s order by created_at desc, id desc"

_ADD: Final[LiteralString] = adding(SCIM_TOKENS)

_DELETE: Final[LiteralString] = f"delete from scim_tokens where id = %(id)s and org_id = %(organization)s returning {TOKEN.names}"

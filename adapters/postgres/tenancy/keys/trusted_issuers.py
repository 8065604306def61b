"""Trusted issuers in PostgreSQL."""

from collections.abc import Sequence
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.keys.machine_keys import KeyTable
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import ClientId, ManagementKeyId, OrganizationId, ServiceId, TrustedIssuerId
from core.domain.tenancy.trusted_issuers import TEXTS, TrustedIssuer
from ports.tenancy.members import ExistingTrustedIssuers, TrustingService

TRUSTED_ISSUERS: Final = KeyTable("trusted_issuers", "org_id")

TRUSTED_ISSUER: Final = Columns(
    TrustedIssuer,
    "trusted_issuers",
    named={"organization": "org_id", "service": "service_id", "key": "key_id"},
    apart=("service_slug",),
    texts=TEXTS,
    derived=("last_used_at",),
)


class TrustedIssuerRows(OnStatements):
    """Implements `ports.tenancy.members.TrustedIssuerStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[TrustedIssuer]:
        return await self._statements.ask(TRUSTED_ISSUER.row, _LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, rule: TrustedIssuerId) -> TrustedIssuer | None:
        return first(await self._statements.ask(TRUSTED_ISSUER.row, _GET, {"organization": organization, "id": rule}))

    async def asked_by(self, client: ClientId) -> Sequence[TrustedIssuer]:
        return await self._statements.ask(TRUSTED_ISSUER.row, _ASKED_BY, {"client": client, "key": _key_id(client)})

    async def service(self, organization: OrganizationId, slug: str) -> TrustingService | None:
        parameters = {"organization": organization, "slug": storable_text(slug)}
        return first(await self._statements.ask(TrustingService, _SERVICE, parameters))

    async def existing(
        self, organization: OrganizationId, service: ServiceId | None, key: ManagementKeyId | None
    ) -> ExistingTrustedIssuers:
        parameters = {"organization": organization, "service": service, "key": key}
        return only(await self._statements.ask(ExistingTrustedIssuers, _EXISTING, parameters))

    async def add(self, rule: TrustedIssuer) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, TRUSTED_ISSUER.values(rule)))

    async def save(self, rule: TrustedIssuer) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, TRUSTED_ISSUER.values(rule)))

    async def remove(self, rule: TrustedIssuerId) -> None:
        await self._statements.tell("delete from trusted_issuers where id = %(id)s", {"id": rule})


def _key_id(client: ClientId) -> UUID | None:
    """A management key's id. None for a client id that no key has: that of a service that kept its own."""
    try:
        return UUID(client)
    except ValueError:
        return None


# The services of `services` are not being deleted.
_COLUMNS: Final[LiteralString] = f"""
           {TRUSTED_ISSUER.names},
           (select services.slug from services where services.id = trusted_issuers.service_id) as service_slug"""

_LIST: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where org_id = %(organization)s
       and (service_id is null or service_id in (select id from services where services.org_id = %(organization)s))
     order by id
"""

_GET: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where org_id = %(organization)s and id = %(id)s
       and (service_id is null or service_id in (select id from services where services.org_id = %(organization)s))
"""

_ASKED_BY: Final[LiteralString] = f"""
    select {_COLUMNS}
      from trusted_issuers
     where service_id = (select services.id from services where services.oauth_client_id = %(client)s)
        or key_id = %(key)s::uuid
     order by id
"""

# `for key share` keeps the service until the rule refers to it.
_SERVICE: Final = """
    select id, service_type in ('web', 'api') as is_confidential
      from services
     where org_id = %(organization)s and slug = %(slug)s
       for key share
"""

_EXISTING: Final = """
    select count(*) as count,
           count(*) filter (where service_id = %(service)s::uuid or key_id = %(key)s::uuid) as of_one
      from trusted_issuers
     where org_id = %(organization)s
"""

_ADD: Final[LiteralString] = f"""
    insert into trusted_issuers ({TRUSTED_ISSUER.into()})
    values ({TRUSTED_ISSUER.inserted()})
        on conflict (org_id, name) do nothing
 returning id
"""

_SAVE: Final[LiteralString] = f"""
    update trusted_issuers
       set {TRUSTED_ISSUER.changes("id", "organization", "service", "key", "created_at")}
     where id = %(id)s
       and not exists (
               select from trusted_issuers as others
                where others.org_id = trusted_issuers.org_id and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

"""The domains of organizations in PostgreSQL."""

from typing import Final, LiteralString

from adapters.postgres.statements import Statements, first_made
from adapters.postgres.tenancy.domain_proofs import DOMAIN, DomainRow, ProofRows, ProofTable
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.domains import Domain


class _Domain(DomainRow):
    def made(self) -> Domain:
        return Domain(**self.proof())


_PROOFS: Final = ProofTable("domains", DOMAIN, _Domain)


class DomainRows(ProofRows[Domain]):
    """Implements `ports.tenancy.organizations.DomainStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        super().__init__(statements, _PROOFS)

    async def find(self, organization: OrganizationId) -> Domain | None:
        return first_made(await self._statements.ask(_Domain, _GET, {"organization": organization}), _Domain.made)

    async def save(self, domain: Domain) -> None:
        await self._statements.tell(
            _SAVE,
            {
                "id": domain.id,
                "organization": domain.organization,
                "domain": domain.name,
                "token": domain.token,
                "created_at": domain.created_at,
            },
        )

    async def remove(self, organization: OrganizationId) -> Domain | None:
        return first_made(await self._statements.ask(_Domain, _REMOVE, {"organization": organization}), _Domain.made)


_GET: Final[LiteralString] = f"select {DOMAIN} from domains where org_id = %(organization)s"

_SAVE: Final = """
    insert into domains (id, org_id, domain, token, created_at, updated_at)
    values (%(id)s, %(organization)s, %(domain)s, %(token)s, %(created_at)s, %(created_at)s)
        on conflict (org_id) do update
       set id = excluded.id, domain = excluded.domain, token = excluded.token, verified_at = null, checked_at = null, next_check_at = null,
           misses = 0, created_at = excluded.created_at, updated_at = excluded.updated_at
"""

_REMOVE: Final[LiteralString] = f"delete from domains where org_id = %(organization)s returning {DOMAIN}"

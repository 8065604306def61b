"""Proposals in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ProposalId
from core.domain.platform.configuration.proposals import Proposal
from core.frozen import Frozen
from ports.platform.proposals import SealedProposal

PROPOSAL: Final = Columns(
    Proposal,
    "proposals",
    named={"organization": "org_id", "document": "document_digest", "plan": "plan_digest", "key": "key_id"},
    apart=("proposed_by",),
)


class _Waiting(Frozen):
    count: int


def _sealed(*, sealed_document: bytes | None, **columns: Any) -> SealedProposal:
    return SealedProposal(PROPOSAL.row(**columns), sealed_document)


class ProposalRows(OnStatements):
    """Implements `ports.platform.proposals.ProposalStore`."""

    async def list(self, organization: OrganizationId, now: datetime) -> Sequence[Proposal]:
        return await self._statements.ask(PROPOSAL.row, _LIST, {"organization": organization, "now": now})

    async def find(self, organization: OrganizationId, proposal: ProposalId, now: datetime) -> SealedProposal | None:
        return first(await self._statements.ask(_sealed, _FIND, {"organization": organization, "id": proposal, "now": now}))

    async def waiting(self, organization: OrganizationId, now: datetime) -> int:
        return only(await self._statements.ask(_Waiting, _WAITING, {"organization": organization, "now": now})).count

    async def add(self, proposal: Proposal, sealed_document: bytes) -> None:
        await self._statements.tell(_ADD, {**PROPOSAL.values(proposal), "sealed_document": sealed_document})

    async def take(self, organization: OrganizationId, proposal: ProposalId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _TAKE, {"organization": organization, "id": proposal, "at": at}))

    async def remove(self, organization: OrganizationId, proposal: ProposalId) -> bool:
        return bool(await self._statements.ask(IdRow, _REMOVE, {"organization": organization, "id": proposal}))


# The row of a key's proposal goes with its key, by a foreign key.
_COUNTS: Final = """
       proposals.org_id = %(organization)s and proposals.expires_at > %(now)s
       and (proposals.key_id is not null
            or exists (select from memberships where memberships.org_id = proposals.org_id and memberships.user_id = proposals.created_by))
"""

_NAMED: Final[LiteralString] = f"""
           {PROPOSAL.names},
           coalesce(
               (select management_keys.name from management_keys where management_keys.id = proposals.key_id),
               (select users.email from users where users.id = proposals.created_by),
               ''
           ) as proposed_by"""

_LIST: Final[LiteralString] = f"""
    select {_NAMED}
      from proposals
     where {_COUNTS}
     order by created_at desc, id desc
"""

_FIND: Final[LiteralString] = f"select {_NAMED}, sealed_document from proposals where proposals.id = %(id)s and {_COUNTS}"

_WAITING: Final = """
    select count(*) as count from proposals where org_id = %(organization)s and expires_at > %(now)s and enacted_at is null
"""

_ADD: Final[LiteralString] = f"""
    insert into proposals ({PROPOSAL.into("sealed_document")}) values ({PROPOSAL.inserted("sealed_document")})
"""

_TAKE: Final = """
    update proposals
       set enacted_at = %(at)s, sealed_document = null
     where id = %(id)s and org_id = %(organization)s and enacted_at is null
 returning id
"""

_REMOVE: Final = "delete from proposals where id = %(id)s and org_id = %(organization)s returning id"

"""Proposals in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.tenancy.keys.management_keys import OF_KEY, OWES_SECOND_FACTOR
from adapters.postgres.tenancy.relations import RELATIONS_OF_MEMBER
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, ProposalId
from core.domain.platform.configuration.planning import PROPOSES, Proposal, ProposalState
from core.domain.tenancy.management_keys import Maker, able_in_organization
from core.domain.tenancy.roles import capabilities_of
from core.frozen import Frozen, names_of
from ports.platform import SealedProposal

PROPOSAL: Final = Columns(
    Proposal,
    "proposals",
    named={"organization": "org_id", "document": "document_digest", "plan": "plan_digest", "key": "key_id"},
    apart=("proposed_by",),
)


class _Maker(Frozen):
    """Who proposes: a person, or a management key with what its own maker may do."""

    key_capabilities: list[str] | None
    key_is_adopted: bool
    relations: list[str]
    owes_second_factor: bool

    def may_propose(self) -> bool:
        if self.key_capabilities is None:
            return PROPOSES in capabilities_of(self.relations)
        maker = None if self.key_is_adopted else Maker(frozenset(self.relations), self.owes_second_factor)
        return PROPOSES in able_in_organization(self.key_capabilities, maker)


def _counting(**columns: Any) -> Proposal | None:
    """None for a proposal whose maker may propose no more."""
    maker = _Maker(**{name: columns.pop(name) for name in _OF_MAKER})
    return PROPOSAL.row(**columns) if maker.may_propose() else None


def _sealed(*, sealed_document: bytes | None, **columns: Any) -> SealedProposal | None:
    proposal = _counting(**columns)
    return None if proposal is None else SealedProposal(proposal, sealed_document)


class ProposalRows(OnStatements):
    """Implements `ports.platform.ProposalStore`."""

    async def list(self, organization: OrganizationId, now: datetime) -> Sequence[Proposal]:
        found = await self._statements.ask(_counting, _LIST, {"organization": organization, "now": now})
        return [one for one in found if one is not None]

    async def find(self, organization: OrganizationId, proposal: ProposalId, now: datetime) -> SealedProposal | None:
        return first(await self._statements.ask(_sealed, _FIND, {"organization": organization, "id": proposal, "now": now}))

    async def waiting(self, organization: OrganizationId, now: datetime) -> int:
        return sum(one.state is ProposalState.WAITING for one in await self.list(organization, now))

    async def add(self, proposal: Proposal, sealed_document: bytes) -> None:
        await self._statements.tell(_ADD, {**PROPOSAL.values(proposal), "sealed_document": sealed_document})

    async def take(self, organization: OrganizationId, proposal: ProposalId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _TAKE, {"organization": organization, "id": proposal, "at": at}))

    async def remove(self, organization: OrganizationId, proposal: ProposalId) -> bool:
        return bool(await self._statements.ask(IdRow, _REMOVE, {"organization": organization, "id": proposal}))


_OF_MAKER: Final = names_of(_Maker)

# The row of a key's proposal goes with its key, by a foreign key. `users` is empty for a maker who has left or is deactivated, and who then
# stands in no relation to the organization. A key counts as long as whoever made it may do what it does, until somebody adopts it.
_NAMED: Final[LiteralString] = f"""
           {PROPOSAL.names}, coalesce(keys.name, users.email, '') as proposed_by,
           {OF_KEY},
           case when users.id is null then '{{}}'::text[] else {RELATIONS_OF_MEMBER} end as relations,
           case when users.id is null then false else {OWES_SECOND_FACTOR} end as owes_second_factor"""

_COUNTING: Final = """
      from proposals
      join organizations as wanted on wanted.id = proposals.org_id
      left join management_keys as keys on keys.id = proposals.key_id
      left join users on users.id = coalesce(keys.created_by, proposals.created_by) and users.deactivated_at is null
       and exists (select from memberships where memberships.org_id = proposals.org_id and memberships.user_id = users.id)
     where proposals.org_id = %(organization)s and proposals.expires_at > %(now)s
       and (proposals.key_id is null or keys.expires_at > %(now)s)
"""

_LIST: Final[LiteralString] = f"select {_NAMED} {_COUNTING} order by proposals.created_at desc, proposals.id desc"

_FIND: Final[LiteralString] = f"select {_NAMED}, proposals.sealed_document {_COUNTING} and proposals.id = %(id)s"

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

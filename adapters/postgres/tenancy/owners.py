"""The owners of an organization, who get mails about its settings, and its administrators, who get mails about decisions to make."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from adapters.postgres.statements import Statements
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import OrganizationId, UserId
from core.domain.languages import Language
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class _Owner(Frozen):
    id: UUID
    email: str
    language: str | None
    name: str


async def owners(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    return await _in_roles(statements, organization, [BuiltInRole.OWNER], None)


async def administrators(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    """The owner and the admins, the oldest accounts first."""
    return await _in_roles(statements, organization, [BuiltInRole.OWNER, BuiltInRole.ADMIN], MOST_TOLD)


async def _in_roles(
    statements: Statements | Transaction, organization: OrganizationId, roles: Sequence[BuiltInRole], most: int | None
) -> Sequence[Owner]:
    parameters = {"organization": organization, "roles": [role.value for role in roles], "most": most}
    rows = await statements.ask(_Owner, _IN_ROLES, parameters)
    return [Owner(UserId(row.id), Email(row.email), Language.of(row.language), row.name) for row in rows]


MOST_TOLD: Final = 20

_IN_ROLES: Final = """
    select users.id, users.email, users.language, organizations.name
      from memberships
      join users on users.id = memberships.user_id
      join organizations on organizations.id = memberships.org_id
     where memberships.org_id = %(organization)s and memberships.role = any(%(roles)s) and users.deactivated_at is null
     order by users.id
     limit %(most)s
"""

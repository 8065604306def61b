"""People's rights in services, in PostgreSQL. Each question reads the assignments as they are now, so a change counts from the next request
on.
"""

from typing import Final, LiteralString

from adapters.postgres.identity.proofs.sign_in_policy import assignments_of
from adapters.postgres.statements import Statements
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.services.rights import ServiceRights
from core.frozen import Frozen


def roles_held(person: LiteralString, organization: LiteralString, service: LiteralString) -> LiteralString:
    """A subquery: the rows of `service_roles` that a person holds who signs in to the service. The arguments are expressions of ids. Roles
    that are given to everybody are among them. The subquery reads nothing but an empty index if the service has no roles.
    """
    return f"""
        select service_roles.*
          from service_roles
         where service_roles.service_id = {service}
           and (service_roles.given_to_everybody
             or service_roles.id in (select assignments.object_id from {assignments_of(person, organization, service)} as assignments))
    """


class _Held(Frozen):
    slug: str
    permissions: list[str]


class RightsRows:
    """Implements `ports.services.rights.RightsStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        rows = await self._statements.ask(_Held, _OF, {"organization": organization, "service": service, "user": user})
        return ServiceRights.by({row.slug: row.permissions for row in rows})


_OF: Final[LiteralString] = f"""
    select held.slug, held.permissions
      from ({roles_held("%(user)s", "%(organization)s", "%(service)s")}) as held
"""

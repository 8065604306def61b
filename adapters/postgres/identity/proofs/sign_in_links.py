"""Mailed sign-in links in PostgreSQL: whether a person's organizations permit links, and the application that a link leads to."""

from typing import Final, LiteralString

from adapters.postgres.identity.sessions.liveness import AUTHENTICATES
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.sign_in import ServiceName
from core.frozen import Frozen


class _Application(Frozen):
    client_id: str
    redirect_uri: str


class SignInLinkRows(OnTransaction):
    """Implements `ports.identity.sign_in.SignInLinkStore` in one transaction."""

    async def are_permitted(self, user: UserId) -> bool:
        return only(await self._transaction.ask_in_order(bool, _ARE_PERMITTED, {"user": user}))

    async def application(self, service: ServiceName, redirect_uri: str) -> tuple[ClientId, str] | None:
        parameters = {
            "organization": storable_text(service.organization),
            "service": storable_text(service.service),
            "redirect_uri": storable_text(redirect_uri),
        }
        return first_made(
            await self._transaction.ask(_Application, _APPLICATION, parameters), lambda row: (ClientId(row.client_id), row.redirect_uri)
        )


_ARE_PERMITTED: Final[LiteralString] = f"""
    select not exists (
               select from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP}
                  and organizations.status = 'active' and not organizations.sign_in_links
           ) as permitted
"""

_APPLICATION: Final[LiteralString] = f"""
    select services.oauth_client_id as client_id, named.redirect_uri
      from organizations
      join services on services.org_id = organizations.id
     cross join lateral (select coalesce(nullif(%(redirect_uri)s, ''), services.redirect_uris[1]) as redirect_uri) as named
     where organizations.slug = %(organization)s and organizations.status = 'active'
       and services.slug = %(service)s and services.service_type in ('web', 'api')
       and named.redirect_uri = any (services.redirect_uris)
       and {AUTHENTICATES}
"""

"""The look-up of an authorization request in PostgreSQL, in one round trip, and the requests that applications push."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.branding import dress_of
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import has_second_factor, second_factor_due_in
from adapters.postgres.identity.proofs.sign_in_policy import is_assigned
from adapters.postgres.identity.sessions.doors import is_kept_out_of_service
from adapters.postgres.identity.sessions.liveness import AUTHENTICATES
from adapters.postgres.identity.terms.demands import terms_due
from adapters.postgres.statements import ask, first, tell
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.texts.own_texts import bring, worn
from adapters.postgres.ties import counts_for, is_own_member
from core.domain.branding import logo_path
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import Registered
from core.domain.federation.oauth.consents import UnplacedClient
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, PushedRequestId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.services.services import ServiceType, SignInPolicy
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.frozen import Frozen, replace
from ports.federation.oauth import AuthorizationEncounter


class EncounterRow(Frozen):
    """The columns of `ENCOUNTER`, in their order. The person's columns are all null when nobody is signed in."""

    client_id: str
    service_id: UUID
    service_slug: str
    service_name: str
    service_type: str
    service_logo: str | None
    redirect_uris: list[str]
    post_logout_redirect_uris: list[str]
    sign_in_policy: str
    trusted: bool
    is_agent: bool
    agents_allowed: bool
    authenticates: bool
    organization_id: UUID
    organization_slug: str
    organization_name: str
    organization_is_active: bool
    logo_digest: str | None
    primary_color: str | None
    dress: list[str | None] | None
    session_hours: int | None
    user_id: UUID | None
    session_id: UUID | None
    proved_at: datetime | None
    stated_at: datetime | None
    refuses_applications: bool | None
    authenticated_by: list[str] | None
    has_second_factor: bool
    is_member: bool
    is_assigned: bool
    is_own_member: bool
    second_factor_due: datetime | None
    is_kept_out: bool
    terms_due: datetime | None
    consented: list[str] | None
    holds_fapi2: bool | None
    binds_tokens: bool | None
    request: Mapping[str, Any] | None = None

    def encounter(self, caller: Caller | None) -> AuthorizationEncounter:
        return AuthorizationEncounter(self.application(), None if caller is None else self.signed_in(caller.email.address), self.request)

    def application(self) -> RequestingApplication:
        client, service_type = ClientId(self.client_id), ServiceType(self.service_type)
        return RequestingApplication(
            service=ServiceId(self.service_id),
            organization=OrganizationId(self.organization_id),
            organization_slug=self.organization_slug,
            organization_name=self.organization_name,
            organization_is_active=self.organization_is_active,
            slug=self.service_slug,
            name=self.service_name,
            registered=Registered(
                client,
                self.redirect_uris,
                is_native=not service_type.is_confidential,
                # A metadata client must use PKCE, whether it has keys or not.
                authenticates=self.authenticates and service_type is not ServiceType.METADATA,
                may_be_public=service_type.may_be_public,
                binds_tokens=bool(self.binds_tokens),
                holds_fapi2=bool(self.holds_fapi2),
            ),
            post_logout_redirect_uris=self.post_logout_redirect_uris,
            sign_in_policy=SignInPolicy(self.sign_in_policy),
            trusted=self.trusted,
            is_agent=self.is_agent,
            agents_allowed=self.agents_allowed,
            logo=None if self.service_logo is None else logo_path(self.service_logo),
            branding=worn(self.organization_name, self.logo_digest, self.primary_color, self.dress),
            session_lifetime=session_lifetime(self.session_hours),
        )

    def signed_in(self, email: str) -> SignedInPerson | None:
        if self.user_id is None or self.session_id is None or self.proved_at is None:
            return None
        return SignedInPerson(
            user=UserId(self.user_id),
            email=email,
            session=SessionId(self.session_id),
            proved_at=self.proved_at,
            stated_at=self.stated_at,
            refuses_applications=bool(self.refuses_applications),
            authenticated_by=tuple(self.authenticated_by or ()),
            has_second_factor=self.has_second_factor,
            is_member=self.is_member,
            is_assigned=self.is_assigned,
            is_own_member=self.is_own_member,
            second_factor_due=self.second_factor_due,
            is_kept_out=self.is_kept_out,
            terms_due=self.terms_due,
            consented=self.consented,
        )


class PostgresEncounters:
    """Implements `ports.federation.oauth.Encounters`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, client: ClientId, caller: Caller | None) -> AuthorizationEncounter | None:
        return await self._asked(FIND, client, caller, {})

    async def find_in_session(self, client: ClientId, session: SessionId, user: UserId, email: str) -> AuthorizationEncounter | None:
        row = await self._row(FIND, {"client": client, "user": user, "session": session})
        return None if row is None else AuthorizationEncounter(row.application(), row.signed_in(email))

    async def find_named(self, organization: str, service: str) -> AuthorizationEncounter | None:
        named = {"organization": storable_text(organization), "service": storable_text(service), "user": None, "session": None}
        row = await self._row(_FIND_NAMED, named)
        return None if row is None else row.encounter(None)

    async def find_unplaced(self, client: UnplacedClient, caller: Caller | None) -> AuthorizationEncounter | None:
        met = await self._asked(_FIND_UNPLACED, client.id, caller, {"row": Jsonb(storable(_as_row(client)))})
        return None if met is None else replace(met, application=replace(met.application, unplaced=client))

    async def find_pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> AuthorizationEncounter | None:
        return await self._asked(_FIND_PUSHED, client, caller, {"digest": digest})

    async def _asked(
        self, statement: LiteralString, client: ClientId, caller: Caller | None, more: Mapping[str, Any]
    ) -> AuthorizationEncounter | None:
        who = {"user": None, "session": None} if caller is None else {"user": caller.user, "session": caller.session}
        row = await self._row(statement, {"client": client, **who, **more})
        return None if row is None else row.encounter(caller)

    async def _row(self, statement: LiteralString, parameters: Mapping[str, Any]) -> EncounterRow | None:
        row = first(await ask(self._pool, EncounterRow, statement, parameters))
        if row is not None:
            await bring(self._pool, row.dress)
        return row


class PostgresPushedRequests:
    """Implements `ports.federation.oauth.PushedRequestStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(
        self,
        id: PushedRequestId,  # noqa: A002 - the noun's own word
        digest: bytes,
        service: ServiceId | None,
        request: Mapping[str, Json],
        expires_at: datetime,
    ) -> None:
        parameters = {"id": id, "digest": digest, "service": service, "request": Jsonb(storable(request)), "expires_at": expires_at}
        await tell(self._pool, _PUSH, parameters)


def _as_row(client: UnplacedClient) -> Mapping[str, Json]:
    """The columns of `ENCOUNTER` that the client's service will have, as `DocumentServiceRows.add` writes them."""
    service = client.placed_at(client.kept.fetched_at)
    return {
        "id": str(service.id),
        "org_id": str(service.organization),
        "slug": service.slug,
        "name": service.name,
        "service_type": service.service_type.value,
        "oauth_client_id": client.id,
        "redirect_uris": list(service.redirect_uris),
        "post_logout_redirect_uris": [],
        "sign_in_policy": service.sign_in_policy.value,
        "trusted": service.trusted,
        "is_agent": True,
        "jwks": service.jwks,
    }


# The look-up of the caller has just confirmed the session. Every session of a browser has a proof of the person. For a session without
# proof, `created_at` stands in for the time of the proof.
ENCOUNTER: Final[LiteralString] = f"""
           services.oauth_client_id as client_id, services.id as service_id, services.slug as service_slug, services.name as service_name,
           services.service_type, services.logo_digest as service_logo,
           services.redirect_uris, services.post_logout_redirect_uris, services.sign_in_policy, services.trusted, services.is_agent,
           organizations.agents = 'allowed' as agents_allowed,
           {AUTHENTICATES} as authenticates,
           organizations.id as organization_id, organizations.slug as organization_slug, organizations.name as organization_name,
           organizations.status = 'active' as organization_is_active, organizations.logo_digest, organizations.primary_color,
           {dress_of("organizations")} as dress,
           least(organizations.session_hours, services.session_lifetime_hours) as session_hours,
           sessions.user_id, sessions.id as session_id, coalesce(sessions.proved_at, sessions.created_at) as proved_at,
           sessions.stated_at, sessions.refuses_applications, sessions.authenticated_by,
           {has_second_factor("sessions.user_id")} as has_second_factor,
           exists (
               select
                 from memberships
                 join users on users.id = memberships.user_id
                where memberships.org_id = organizations.id and memberships.user_id = sessions.user_id and {counts_for()}
           ) as is_member,
           {is_assigned("sessions.user_id")} as is_assigned,
           {is_own_member("organizations.id", "sessions.user_id")} as is_own_member,
           {second_factor_due_in("services.org_id", "sessions.user_id", "sessions")} as second_factor_due,
           coalesce({is_kept_out_of_service()}, false) as is_kept_out,
           {terms_due("sessions.user_id")} as terms_due,
           (
               select consents.scopes from consents where consents.service_id = services.id and consents.user_id = sessions.user_id
           ) as consented,
           services.profile = 'fapi2' as holds_fapi2, services.dpop_bound_access_tokens as binds_tokens"""

_ITS_PLACE: Final = """
      join organizations on organizations.id = services.org_id
      left join sessions on sessions.id = %(session)s::uuid and sessions.user_id = %(user)s::uuid
"""

_MEETING: Final[LiteralString] = f"""
      from services
           {_ITS_PLACE}
"""

FIND: Final[LiteralString] = f"""
    select {ENCOUNTER},
           null::jsonb as request
           {_MEETING}
     where services.oauth_client_id = %(client)s
"""

_FIND_NAMED: Final[LiteralString] = f"""
    select {ENCOUNTER},
           null::jsonb as request
           {_MEETING}
     where organizations.slug = %(organization)s and services.slug = %(service)s and services.service_type <> 'proxy'
"""

_FIND_UNPLACED: Final[LiteralString] = f"""
    select {ENCOUNTER},
           null::jsonb as request
      from jsonb_populate_record(null::services, %(row)s::jsonb) as services
           {_ITS_PLACE}
     where services.oauth_client_id = %(client)s
"""

# The code that is issued for the request uses it up.
_FIND_PUSHED: Final[LiteralString] = f"""
    select {ENCOUNTER},
           (
               select request from pushed_requests as pushed
                where pushed.digest = %(digest)s and pushed.expires_at > now() and pushed.service_id = services.id
           ) as request
           {_MEETING}
     where services.oauth_client_id = %(client)s
"""

_PUSH: Final = """
    insert into pushed_requests (id, digest, service_id, request, expires_at)
    values (%(id)s, %(digest)s, %(service)s, %(request)s, %(expires_at)s)
"""

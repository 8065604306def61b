"""The look-ups of SAML in PostgreSQL, each in one round trip."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.authorizations import ENCOUNTER, EncounterRow
from adapters.postgres.federation.saml.rows import CERTIFICATE, CONFIGURATION, EXCHANGE, SIGNERS, configuration, signer
from adapters.postgres.identity.proofs.flows import FIND_FLOW, FlowRow
from adapters.postgres.identity.sessions.liveness import SESSION_LIVES
from adapters.postgres.identity.sessions.profile_columns import PROFILE, profile, tells_more
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask, ask_in_order, first
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.callers import BROWSER, BROWSER_COLUMNS, browser_caller, digests
from adapters.postgres.texts.own_texts import bring
from core.domain.federation.saml.messages import MOST_EXCHANGES, SamlExchange
from core.domain.federation.saml.sign_in import Meeting, SamlSubject
from core.domain.identifiers import FlowId, OrganizationId, ServiceId, SessionId, UserId, first_id
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, unclaimed_digest
from core.domain.identity.sign_in import ServiceName
from core.frozen import Frozen, names_of
from ports.federation.saml import Configured, Expiring


class _Configured(Frozen, kw_only=True):
    service_id: UUID
    organization_slug: str
    service_slug: str
    service_name: str
    organization_is_active: bool
    configuration: str | None
    active: str | None
    upcoming: str | None

    def configured(self) -> Configured:
        return Configured(
            service=ServiceId(self.service_id),
            organization_slug=self.organization_slug,
            service_slug=self.service_slug,
            service_name=self.service_name,
            organization_is_active=self.organization_is_active,
            configuration=configuration(self.configuration),
            active=signer(self.active),
            next=signer(self.upcoming),
        )


def _meeting(*columns: Any) -> Meeting | None:
    """Makes a meeting of the columns of `_MEETING`."""
    email, ends_at, role, allowed, allowed_scopes, profiled, more, active, upcoming, kept, *rest = columns
    configured = configuration(kept)
    if configured is None:
        return None
    row = EncounterRow(*rest)
    known = row.user_id is not None and email is not None
    return Meeting(
        application=row.application(),
        configuration=configured,
        signer=signer(active),
        next_signer=signer(upcoming),
        signed_in=row.signed_in(email) if known else None,
        subject=SamlSubject(
            user=UserId(row.user_id),
            email=email,
            role=role or "",
            allowed=allowed,
            allowed_scopes=allowed_scopes or (),
            profile=profile(profiled),
            tells_more=more,
        )
        if row.user_id and known
        else None,
        session_ends_at=ends_at,
    )


def _columns(*columns: Any) -> Sequence[Any]:
    return columns


# Those of `_meeting` before the columns of an encounter.
_BEFORE: Final = 10
_DRESS: Final = _BEFORE + names_of(EncounterRow).index("dress")


class _Waiting(Frozen):
    organization: str
    service: str


def _expiring(**columns: Any) -> Expiring:
    return Expiring(certificate=CERTIFICATE.taken(columns), **columns)


class PostgresSaml:
    """Implements `ports.federation.saml.SamlLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def of_service(self, organization: OrganizationId, service_slug: str) -> Configured | None:
        rows = await ask(self._pool, _Configured, _OF_SERVICE, {"organization": organization, "slug": storable_text(service_slug)})
        return rows[0].configured() if rows else None

    async def public(self, organization_slug: str, service_slug: str, *, fetched: datetime | None) -> Configured | None:
        parameters = {"organization": storable_text(organization_slug), "slug": storable_text(service_slug)}
        if fetched is None:
            rows = await ask(self._pool, _Configured, _PUBLIC, parameters)
        else:
            rows = await ask(self._pool, _Configured, _FETCHED, {**parameters, "at": fetched})
        return rows[0].configured() if rows else None

    async def meet(
        self, organization_slug: str, service_slug: str, caller: Caller | None, session: SessionId | None = None
    ) -> Meeting | None:
        parameters = {
            "organization": storable_text(organization_slug),
            "slug": storable_text(service_slug),
            "session": session if caller is None else caller.session,
        }
        row = first(await ask_in_order(self._pool, _columns, _MEET, parameters))
        return None if row is None else await self._met(row)

    async def meet_in_browser(
        self, organization_slug: str, service_slug: str, browser_session: bytes | None
    ) -> tuple[Meeting | None, Caller | None]:
        parameters = {
            "organization": storable_text(organization_slug),
            "slug": storable_text(service_slug),
            "digests": digests([] if browser_session is None else [browser_session]),
        }
        (row,) = await ask_in_order(self._pool, _columns, _MEET_IN_BROWSER, parameters)
        return await self._met(row[BROWSER_COLUMNS:]), browser_caller(row[:BROWSER_COLUMNS])

    async def _met(self, columns: Sequence[Any]) -> Meeting | None:
        await bring(self._pool, columns[_DRESS])
        return _meeting(*columns)

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[SamlExchange] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "most": MOST_EXCHANGES}
        rows = await ask(self._pool, EXCHANGE.found, _EXCHANGES, parameters)
        return [exchange for exchange in rows if exchange is not None] if rows else None

    async def logout(self, flow: FlowId) -> Flow | None:
        rows = await ask(self._pool, FlowRow, _LOGOUT, {"id": flow})
        if not rows:
            return None
        await bring(self._pool, rows[0].flow_dress)
        return rows[0].flow(flow)

    async def sign_out_under_way(self, browser_digest: bytes, since: datetime) -> Flow | None:
        parameters = {"browser_digest": browser_digest, "first": first_id(since)}
        rows = await ask(self._pool, IdRow, _UNDER_WAY, parameters)
        return await self.logout(FlowId(rows[0].id)) if rows else None

    async def claim(self, flow: FlowId, browser_digest: bytes, becomes: FlowId) -> bool:
        parameters = {"id": flow, "browser_digest": browser_digest, "unclaimed": unclaimed_digest(flow), "becomes": becomes}
        return bool(await ask(self._pool, IdRow, _CLAIM, parameters))

    async def was_in(self, browser_session: bytes, people: Collection[UserId]) -> bool:
        return bool(await ask(self._pool, IdRow, _WAS_IN, {"digest": browser_session, "people": list(people)}))

    async def waiting(self, flow: FlowId) -> ServiceName | None:
        rows = await ask(self._pool, _Waiting, _WAITING, {"id": flow, "unclaimed": unclaimed_digest(flow)})
        return ServiceName(rows[0].organization, rows[0].service) if rows else None

    async def expiring(self, after: datetime, before: datetime, limit: int) -> Sequence[Expiring]:
        parameters = {"after": after, "before": before, "limit": limit}
        return await ask(self._pool, _expiring, _EXPIRING, parameters)

    async def all(self) -> Sequence[Configured]:
        return [row.configured() for row in await ask(self._pool, _Configured, _ALL)]


_CONFIGURED: Final[LiteralString] = f"""
    select services.id as service_id, organizations.slug as organization_slug, services.slug as service_slug,
           services.name as service_name, organizations.status = 'active' as organization_is_active,
           {CONFIGURATION},
           {SIGNERS}
      from services
      join organizations on organizations.id = services.org_id
      left join saml_configurations as saml on saml.service_id = services.id
"""

_OF_SERVICE: Final[LiteralString] = f"{_CONFIGURED} where services.org_id = %(organization)s and services.slug = %(slug)s"

_PUBLIC: Final[LiteralString] = f"{_CONFIGURED} where organizations.slug = %(organization)s and services.slug = %(slug)s"

# Writes the time of the fetch at most once a minute, unless there is a certificate that nobody is known to have read yet.
_FETCHED: Final[LiteralString] = f"""
    with fetched as (
             update saml_configurations
                set metadata_fetched_at = %(at)s
              where service_id = (
                        select services.id
                          from services
                          join organizations on organizations.id = services.org_id
                         where organizations.slug = %(organization)s and services.slug = %(slug)s
                    )
                and (metadata_fetched_at is null or metadata_fetched_at < %(at)s::timestamptz - interval '1 minute'
                     or exists (
                        select from saml_certificates
                         where saml_certificates.service_id = saml_configurations.service_id
                           and saml_certificates.created_at > saml_configurations.metadata_fetched_at
                     ))
         )
    {_PUBLIC}
"""

_ALL: Final[LiteralString] = f"{_CONFIGURED} where saml.service_id is not null order by organizations.slug, services.slug"

_MEETING: Final[LiteralString] = f"""
           users.email, sessions.ends_at,
           (
               select memberships.role from memberships where memberships.org_id = services.org_id and memberships.user_id = users.id
           ) as role,
           (
               select consents.saml_entity_id from consents where consents.service_id = services.id and consents.user_id = users.id
           ) as allowed,
           (
               select consents.saml_scopes from consents where consents.service_id = services.id and consents.user_id = users.id
           ) as allowed_scopes,
           {PROFILE} as profile,
           {tells_more("services.id", "services.org_id", "users.id")} as tells_more,
           {SIGNERS},
           {CONFIGURATION},
           {ENCOUNTER}"""

# No look-up of a caller has confirmed this session: an API client may have signed in for a request.
_MEET: Final[LiteralString] = f"""
    select {_MEETING}
      from services
      join organizations on organizations.id = services.org_id
      left join saml_configurations as saml on saml.service_id = services.id
      left join sessions on sessions.id = %(session)s::uuid and sessions.impersonator_id is null and {SESSION_LIVES}
      left join users on users.id = sessions.user_id
     where organizations.slug = %(organization)s and services.slug = %(slug)s
"""

# The person in the browser is returned also when there is no such service, because the error page speaks the person's language. `browser`
# has checked that the session lives.
_MEET_IN_BROWSER: Final[LiteralString] = f"""
    with {BROWSER}
    select browser.*, {_MEETING}
      from (values (true)) as this (look)
      left join browser on this.look
      left join organizations on organizations.slug = %(organization)s
      left join services on services.org_id = organizations.id and services.slug = %(slug)s
      left join saml_configurations as saml on saml.service_id = services.id
      left join sessions on sessions.id = browser.session_id and sessions.impersonator_id is null
      left join users on users.id = sessions.user_id
"""

_EXCHANGES: Final[LiteralString] = f"""
    select {EXCHANGE.names_in("recent")}
      from services
      left join lateral (
                select * from saml_exchanges where saml_exchanges.service_id = services.id order by id desc limit %(most)s
            ) as recent on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by recent.id desc
"""

_LOGOUT: Final[LiteralString] = f"{FIND_FLOW} where flows.id = %(id)s and flows.purpose = 'saml_logout' and flows.expires_at > now()"

# An id begins with the time at which the id was made. So `id >= first` reads only the latest flows, not all that are under way in other
# browsers.
_UNDER_WAY: Final = """
    select id
      from flows
     where id >= %(first)s and browser_digest = %(browser_digest)s and purpose = 'saml_logout' and completed_at is null
     order by id desc
     limit 1
"""

_CLAIM: Final = """
    update flows
       set id = %(becomes)s, browser_digest = %(browser_digest)s
     where id = %(id)s and browser_digest = %(unclaimed)s and expires_at > now()
 returning id
"""

# The sign-out ended the session at its start, and a flow lives for 15 minutes. So the session was revoked within the last 15 minutes.
_WAS_IN: Final = """
    select sessions.id
      from browser_sessions
      join sessions on sessions.id = browser_sessions.session_id
     where browser_sessions.digest = %(digest)s and sessions.user_id = any (%(people)s::uuid[])
       and coalesce(sessions.revoked_at > now() - interval '15 minutes', true)
"""

_WAITING: Final = """
    select request ->> 'organization' as organization, request ->> 'service' as service
      from flows
     where id = %(id)s and purpose = 'saml' and signed_in_at is null and completed_at is null and expires_at > now()
       and browser_digest <> %(unclaimed)s
"""

_EXPIRING: Final[LiteralString] = f"""
    select {CERTIFICATE.names_in("certificates")}, certificates.warned_days,
           organizations.id as organization, organizations.slug as organization_slug,
           services.slug as service_slug, services.name as service_name
      from saml_certificates as certificates
      join services on services.id = certificates.service_id
      join organizations on organizations.id = services.org_id and organizations.status = 'active'
      join saml_configurations as saml on saml.service_id = services.id and saml.enabled
     where certificates.state = 'active' and certificates.valid_until > %(after)s and certificates.valid_until <= %(before)s
     order by certificates.valid_until <= now(), certificates.valid_until
     limit %(limit)s
"""

"""Authorization requests in PostgreSQL: their look-up in one round trip, pushed requests, refusals, and the awaited first sign-in."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import array, listed, storable, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import has_second_factor, second_factor_due_in
from adapters.postgres.identity.proofs.sign_in_policy import is_assigned
from adapters.postgres.identity.sessions.parts import (
    AUTHENTICATES,
    IS_OPEN,
    SESSION_HOURS,
    admits_service,
    has_hooks,
    is_kept_out_of_service,
)
from adapters.postgres.identity.terms import terms_due
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask, ask_in_order, first, tell, tell_together
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER
from adapters.postgres.ties import counts_for, is_own_member
from core.domain.branding import logo_path
from core.domain.federation.authorization_refusals import (
    MOST_MISTAKES,
    MOST_REFUSALS,
    ArrivedSignIn,
    AuthorizationRefusal,
    AwaitedPage,
    AwaitedSignIn,
    DocumentRefusal,
    ListedRefusal,
    NewAwaitedSignIn,
    RefusalContext,
    RefusingEndpoint,
    registered_for,
)
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import LookedAfter, Registered
from core.domain.federation.oauth.consents import UnplacedClient
from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words
from core.domain.formats import Json
from core.domain.identifiers import (
    AuthorizationRefusalId,
    ClientId,
    OrganizationId,
    PushedRequestId,
    ResourceServerId,
    ServiceId,
    SessionId,
    UserId,
)
from core.domain.identity.callers import Caller
from core.domain.services.services import ServiceType, SignInPolicy
from core.domain.tenancy.roles import Capability, relations_with
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.frozen import Frozen, json_of, replace, shared, values_of
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
    has_hooks: bool
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
            **_of_application(self),
            service=ServiceId(self.service_id),
            organization=OrganizationId(self.organization_id),
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
            sign_in_policy=SignInPolicy(self.sign_in_policy),
            logo=None if self.service_logo is None else logo_path(self.service_logo),
            branding=branded(self.organization_name, self.logo_digest, self.primary_color, self.dress),
            session_lifetime=session_lifetime(self.session_hours),
        )

    def signed_in(self, email: str) -> SignedInPerson | None:
        if self.user_id is None or self.session_id is None or self.proved_at is None:
            return None
        return SignedInPerson(
            **_of_person(self),
            user=UserId(self.user_id),
            email=email,
            session=SessionId(self.session_id),
            proved_at=self.proved_at,
            refuses_applications=bool(self.refuses_applications),
            authenticated_by=tuple(self.authenticated_by or ()),
        )


_of_application: Final = shared(EncounterRow, RequestingApplication, "sign_in_policy")
_of_person: Final = shared(EncounterRow, SignedInPerson, "proved_at", "refuses_applications", "authenticated_by")


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
        row = first(await ask_in_order(self._pool, EncounterRow, statement, parameters))
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
    service = json_of(client.placed_at(client.kept.fetched_at))
    equal = ("id", "slug", "name", "service_type", "redirect_uris", "sign_in_policy", "trusted", "jwks")
    return {
        **{name: service[name] for name in equal},
        "org_id": service["organization"],
        "oauth_client_id": client.id,
        "post_logout_redirect_uris": [],
        "is_agent": True,
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
           {SESSION_HOURS} as session_hours,
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
           sessions.id is not null and sessions.impersonator_id is null and {has_hooks("organizations.id")} as has_hooks,
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


_AT_ONCE: Final = 100


def _refusal(
    *,
    id: UUID | None,  # noqa: A002 - the noun's own word
    place: str,
    reason: str,
    received: str,
    expected: str,
    said: str,
    advice: str,
    occurred_at: datetime,
    **context: Any,
) -> ListedRefusal | None:
    """None for the row of nulls that the list of a service without refusals has."""
    if id is None:
        return None
    why = RefusalReason(reason)
    because, advised = reason_in_words(why, received)
    return ListedRefusal(
        id=AuthorizationRefusalId(id),
        at=RefusingEndpoint(place),
        reason=why,
        because=said or because,
        advice=advice or advised,
        received=received,
        registered=registered_for(why, expected, RefusalContext(**context)),
        occurred_at=occurred_at,
    )


class PostgresAuthorizationRefusals:
    """Implements `ports.federation.oauth.AuthorizationRefusalStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, refusals: Sequence[AuthorizationRefusal | DocumentRefusal]) -> None:
        of_apis = [one for one in refusals if isinstance(one, DocumentRefusal)]
        of_clients = [one for one in refusals if not isinstance(one, DocumentRefusal)]
        for begin in range(0, len(of_apis), _AT_ONCE):
            documents = of_apis[begin : begin + _AT_ONCE]
            apis = list(dict.fromkeys(one.api for one in documents))
            await tell_together(
                self._pool,
                (_HOLD_APIS, {"apis": apis}),
                (_ADD_DOCUMENTS, {"refusals": Jsonb(storable([json_of(one) for one in documents]))}),
                (_TRIM_DOCUMENTS, {"apis": apis, "most": MOST_REFUSALS}),
            )
        for begin in range(0, len(of_clients), _AT_ONCE):
            part = of_clients[begin : begin + _AT_ONCE]
            clients = list(dict.fromkeys(one.client for one in part))
            await tell_together(
                self._pool,
                (_HOLD, {"clients": clients}),
                (_ADD, {"refusals": Jsonb(storable([_as_json(one) for one in part]))}),
                (_TRIM, {"clients": clients, "most": MOST_REFUSALS}),
                # Only where a browser says that somebody waits there.
                *([(_SHOW_AWAITING, {"refusals": Jsonb(awaited), "most": MOST_MISTAKES})] if (awaited := _awaited(part)) else ()),
            )

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ListedRefusal] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "most": MOST_REFUSALS}
        return listed(await ask(self._pool, _refusal, _LIST, parameters))

    async def list_of_api(self, organization: OrganizationId, api: ResourceServerId) -> Sequence[DocumentRefusal] | None:
        parameters = {"organization": organization, "api": api, "most": MOST_REFUSALS}
        return listed(await ask(self._pool, _document, _LIST_DOCUMENTS, parameters))

    async def find_looked_after(self, client: ClientId, user: UserId) -> LookedAfter | None:
        parameters = {"client": storable_text(client), "user": user, "may": list(relations_with(Capability.SERVICES_MANAGE))}
        return first(await ask(self._pool, LookedAfter, _LOOKED_AFTER, parameters))


# The capability of the endpoint that lists them.
_LOOKED_AFTER: Final[LiteralString] = f"""
    select wanted.slug as organization_slug, services.slug as service_slug
      from services
      join organizations as wanted on wanted.id = services.org_id and wanted.status = 'active'
      join memberships on memberships.org_id = wanted.id and memberships.user_id = %(user)s
      join users on users.id = memberships.user_id and users.deactivated_at is null
     where services.oauth_client_id = %(client)s and {counts_for()} and {RELATIONS_OF_MEMBER} && %(may)s::text[]
"""


def _document(*, id: UUID | None, **columns: Any) -> DocumentRefusal | None:  # noqa: A002 - the noun's own word
    """For an API without refusals, the list has one row of nulls."""
    return None if id is None else DocumentRefusal(id=AuthorizationRefusalId(id), **columns)


def _awaited(part: Sequence[AuthorizationRefusal]) -> Sequence[Any]:
    return [{"id": str(one.id), "session_id": str(one.awaited_in)} for one in part if one.awaited_in is not None]


def _as_json(one: AuthorizationRefusal) -> Mapping[str, Json]:
    return json_of(one) | ({} if one.code is None else {**one.code._asdict(), "digest": one.code.digest.hex()})


# Two processes that add refusals of one service take turns, so that each counts what the other has added.
_HOLD: Final = "select from services where oauth_client_id = any (%(clients)s) order by id for no key update"

# A client that does not exist gets no refusals. The query of a registered address is left out, as of a received one.
_ADD: Final = """
    insert into authorization_refusals (id, service_id, place, reason, received, expected, occurred_at)
    select told.id, services.id, told.at,
           case when told.reason <> 'code_refused' then told.reason
                when codes.id is null then 'code_unknown'
                when codes.service_id <> services.id then 'code_of_another'
                when codes.redeemed_at <= told.occurred_at then 'code_used'
                when codes.redirect_uri <> told.redirect_uri then 'redirect_differs'
                when codes.code_challenge is null and told.code_challenge is not null then 'verifier_unasked'
                when codes.code_challenge is not null and told.code_challenge is null then 'verifier_missing'
                when codes.code_challenge <> told.code_challenge then 'verifier_differs'
                when codes.expires_at <= told.occurred_at then 'code_expired'
                else told.reason
           end,
           told.received,
           case when told.reason = 'code_refused' and codes.service_id = services.id
                 and (codes.redeemed_at is null or codes.redeemed_at > told.occurred_at) and codes.redirect_uri <> told.redirect_uri
                then split_part(codes.redirect_uri, '?', 1) else ''
           end,
           told.occurred_at
      from jsonb_to_recordset(%(refusals)s)
        as told (id uuid, client text, at text, reason text, received text, occurred_at timestamptz, digest text, redirect_uri text,
                 code_challenge text)
      join services on services.oauth_client_id = told.client
      left join authorization_codes as codes on codes.digest = decode(told.digest, 'hex')
        on conflict do nothing
"""

_TRIM: Final = """
    delete from authorization_refusals
     where id = any (array(
               select older.id
                 from services
                cross join lateral (
                          select id from authorization_refusals where service_id = services.id order by id desc offset %(most)s
                      ) as older
                where services.oauth_client_id = any (%(clients)s)
           ))
"""

_LIST: Final[LiteralString] = f"""
    select services.redirect_uris,
           array(select prefix from client_secrets where client_secrets.service_id = services.id order by client_secrets.id) as secrets,
           array(
               select resource_servers.identifier
                 from resource_servers
                where resource_servers.org_id = services.org_id and {IS_OPEN} and {admits_service("services.id")}
                order by resource_servers.identifier
           ) as resources,
           (
               select jsonb_build_object('issuers', coalesce(jsonb_agg(distinct issuer), '[]'),
                                         'audiences', coalesce(jsonb_agg(distinct audience), '[]'),
                                         'patterns', coalesce(jsonb_agg(distinct subject_pattern), '[]'))
                 from trusted_issuers
                where trusted_issuers.service_id = services.id
           ) as trusted,
           recent.id, recent.place, recent.reason, recent.received, recent.expected, recent.said, recent.advice, recent.occurred_at
      from services
      left join lateral (
                (select id, place, reason, received, expected, '' as said, '' as advice, occurred_at
                   from authorization_refusals
                  where authorization_refusals.service_id = services.id
                  order by id desc
                  limit %(most)s)
                union all
                (select id, 'saml', 'saml', '', '', reason, advice, created_at
                   from saml_exchanges
                  where saml_exchanges.service_id = services.id and not succeeded
                  order by id desc
                  limit %(most)s)
                order by id desc
                limit %(most)s
            ) as recent on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by recent.id desc
"""

_HOLD_APIS: Final = "select from resource_servers where id = any (%(apis)s) order by id for no key update"

_ADD_DOCUMENTS: Final = """
    insert into document_refusals (id, org_id, resource_id, address, reason, said, occurred_at)
    select told.id, resource_servers.org_id, resource_servers.id, told.address, told.reason, told.because, told.occurred_at
      from jsonb_to_recordset(%(refusals)s)
        as told (id uuid, api uuid, address text, reason text, because text, occurred_at timestamptz)
      join resource_servers on resource_servers.id = told.api
        on conflict do nothing
"""

_TRIM_DOCUMENTS: Final = """
    delete from document_refusals
     where id = any (array(
               select older.id
                 from unnest(%(apis)s::uuid[]) as api (id)
                cross join lateral (
                          select id from document_refusals where resource_id = api.id order by id desc offset %(most)s
                      ) as older
           ))
"""

_LIST_DOCUMENTS: Final = """
    select recent.id, resource_servers.id as api, recent.address, recent.reason, recent.said as because, recent.occurred_at
      from resource_servers
      left join lateral (
                select * from document_refusals where resource_id = resource_servers.id order by id desc limit %(most)s
           ) as recent on true
     where resource_servers.id = %(api)s and resource_servers.org_id = %(organization)s
     order by recent.id desc
"""


class _AwaitedRow(NamedTuple):
    place: int
    organization: UUID
    slug: str
    ends_at: datetime
    refusals: Sequence[UUID]
    user: UUID
    arrived_at: datetime | None
    scopes: Sequence[str] | None

    def awaited(self) -> AwaitedSignIn:
        arrived = None if self.arrived_at is None else ArrivedSignIn(UserId(self.user), self.arrived_at, self.scopes or ())
        return AwaitedSignIn(
            organization=OrganizationId(self.organization),
            service_slug=self.slug,
            ends_at=self.ends_at,
            mistakes=[AuthorizationRefusalId(one) for one in self.refusals],
            arrived=arrived,
        )


class PostgresAwaitedSignIns:
    """Implements `ports.federation.oauth.AwaitedSignInStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._looks = SharedLookups(self._find)

    async def begin(self, new: NewAwaitedSignIn) -> bool:
        parameters = values_of(new) | {"service_slug": storable_text(new.service_slug), "ends_at": new.ends_at}
        return await tell(self._pool, _BEGIN_AWAITING, parameters) == 1

    async def look(self, page: AwaitedPage) -> AwaitedSignIn | None:
        return await self._looks.find(page)

    async def _find(self, asked: Sequence[AwaitedPage]) -> Mapping[AwaitedPage, AwaitedSignIn]:
        parameters: Mapping[str, Any] = {
            "pages": array([page.id.hex for page in asked]),
            "users": array([page.user.hex for page in asked]),
            "sessions": array([page.session.hex for page in asked]),
        }
        return {asked[row.place - 1]: row.awaited() for row in await ask_in_order(self._pool, _AwaitedRow, _LOOK_AWAITED, parameters)}


# A second page of one person takes the place of the first.
_BEGIN_AWAITING: Final = """
    insert into awaited_sign_ins (id, user_id, session_id, service_id, began_at, ends_at)
    select %(id)s, sessions.user_id, sessions.id, services.id, %(began_at)s, %(ends_at)s
      from services
      join sessions on sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.revoked_at is null
     where services.org_id = %(organization)s and services.slug = %(service_slug)s
       for key share of sessions
        on conflict (user_id) do update
       set id = excluded.id, session_id = excluded.session_id, service_id = excluded.service_id, began_at = excluded.began_at,
           ends_at = excluded.ends_at, refusals = '{}'
"""

# The session of an application that hangs on the browser's: a code was exchanged for it. Sessions in somebody's name never do.
_LOOK_AWAITED: Final = """
    select asked.place, services.org_id, services.slug, waits.ends_at,
           case when waits.ends_at > now() then waits.refusals else '{}' end,
           waits.user_id, arrived.created_at, arrived.scopes
      from unnest(%(pages)s::uuid[], %(users)s::uuid[], %(sessions)s::uuid[]) with ordinality as asked (id, person, session, place)
      join awaited_sign_ins as waits
        on waits.user_id = asked.person and waits.id = asked.id and waits.session_id = asked.session
      join services on services.id = waits.service_id
      left join lateral (
                select created_at, scopes
                  from sessions
                 where sessions.parent_id = waits.session_id and sessions.service_id = waits.service_id and sessions.scopes is not null
                   and sessions.created_at between waits.began_at and waits.ends_at
                 order by created_at
                 limit 1
           ) as arrived on true
"""

# The refused requests of a browser in which a page waits for this application, the newest first. The row goes after ten minutes, and with
# it whose requests they were.
_SHOW_AWAITING: Final = """
    update awaited_sign_ins as waits
       set refusals = (kept.ids || waits.refusals)[1:%(most)s]
      from (
               select told.session_id, refused.service_id, array_agg(refused.id order by refused.id desc) as ids
                 from jsonb_to_recordset(%(refusals)s) as told (id uuid, session_id uuid)
                 join authorization_refusals as refused on refused.id = told.id
                group by told.session_id, refused.service_id
           ) as kept
     where waits.session_id = kept.session_id and waits.service_id = kept.service_id and waits.ends_at > now()
       and not waits.refusals && kept.ids
"""

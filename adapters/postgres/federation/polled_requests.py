"""Requests that an application polls: device codes and requests from afar, with the decision and the single exchange."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from msgspec import convert

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable_address, storable_text
from adapters.postgres.federation.clients import CLIENT, ITS_SERVICE, ClientRow
from adapters.postgres.identity.sessions.parts import (
    PROFILE,
    SESSION_HOURS,
    audiences,
    granted_audiences,
    kept_audiences,
    lost_nothing_since,
    open_audiences,
    profile,
)
from adapters.postgres.statements import OnStatements, Statements, Transaction, first, only
from adapters.postgres.ties import is_own_member
from core.domain.branding import logo_path
from core.domain.federation.backchannel_requests import (
    INTERVAL as AFAR_INTERVAL,
)
from core.domain.federation.backchannel_requests import (
    LENIENCY as AFAR_LENIENCY,
)
from core.domain.federation.backchannel_requests import (
    MOST_WAITING,
    MOST_WAITING_OF_CLIENT,
    BackchannelDecision,
    BackchannelState,
    BlockedClient,
    NewBackchannelRequest,
    OwnRequests,
    PolledRequest,
    WaitingRequest,
)
from core.domain.federation.backchannel_requests import (
    SLOWER as AFAR_SLOWER,
)
from core.domain.federation.oauth.clients import AuthenticationMethod, ClientCredentials
from core.domain.federation.oauth.device_flow import (
    INTERVAL,
    LENIENCY,
    SAME_TRY,
    SLOWER,
    AskedFor,
    AskingClient,
    AskingDevice,
    DeviceApproval,
    DeviceCodeState,
    DeviceDecision,
    EnteredCode,
    EnteredResource,
    NewDeviceCode,
    Poll,
    PolledCode,
)
from core.domain.federation.oauth.resources import scope_demand, strongest
from core.domain.identifiers import BackchannelRequestId, ClientId, DeviceCodeId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Context
from core.domain.mail import Email
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.domain.tokens import TokenAudience
from core.frozen import values_of

DEVICE_CODE: Final = Columns(NewDeviceCode, "device_codes", apart=("asker",), turned={"audiences": (granted_audiences, kept_audiences)})
ASKING_DEVICE: Final = Columns(AskingDevice, "device_codes", texts=("user_agent",), turned={"address": (str, storable_address)})

_OF_CLIENT: Final = len(ClientRow._fields)


def _poll(client: str, *columns: Any) -> Poll:
    """The columns of `CLIENT` come first. The columns of the code follow, and are null when there is no such code."""
    id_, state, expires_at, is_slowed, user, decided_at = columns[_OF_CLIENT:]
    registered = ClientRow(*columns[:_OF_CLIENT]).client(ClientId(client))
    if id_ is None:
        return Poll(client=registered, code=None)
    code, found = DeviceCodeId(id_), DeviceCodeState(state)
    decision = DeviceDecision(code=code, user=UserId(user), at=decided_at) if found is DeviceCodeState.APPROVED else None
    return Poll(client=registered, code=PolledCode(state=found, expires_at=expires_at, is_slowed=is_slowed, approved=decision))


def _entered(
    *,
    state: str,
    scopes: list[str],
    organization: UUID,
    organization_slug: str,
    organization_name: str,
    service: UUID,
    service_slug: str,
    service_logo: str | None,
    logo_digest: str | None,
    primary_color: str | None,
    dress: list[str | None] | None,
    session_hours: int | None,
    resources: Sequence[Mapping[str, Any]],
    **columns: Any,
) -> EnteredCode:
    return EnteredCode(
        state=DeviceCodeState(state),
        scopes=tuple(scopes),
        context=Context(OrganizationId(organization), organization_slug, ServiceId(service), service_slug),
        organization_name=organization_name,
        resources=[EnteredResource(one["name"], one["identifier"], [scope["description"] for scope in one["scopes"]]) for one in resources],
        demand=strongest(scope_demand(scope["acr_values"], scope["max_age"]) for one in resources for scope in one["scopes"]),
        asker=ASKING_DEVICE.taken(columns),
        branding=branded(organization_name, logo_digest, primary_color, dress),
        logo=None if service_logo is None else logo_path(service_logo),
        session_lifetime=session_lifetime(session_hours),
        **columns,
    )


def _approval(
    *,
    scopes: list[str],
    proved_at: datetime | None,
    second_factor_at: datetime | None,
    stated_at: datetime | None,
    authenticated_by: list[str],
    role: str | None,
    described: Mapping[str, Any] | None,
    granted: Sequence[Mapping[str, Any]] | None,
    found: Sequence[Mapping[str, Any]] | None,
    **columns: Any,
) -> DeviceApproval:
    return DeviceApproval(
        scopes=tuple(scopes),
        proved=Proved(proved_at, second_factor_at, stated_at),
        authenticated_by=tuple(authenticated_by),
        role=role or "",
        profile=profile(described),
        granted=granted_audiences(granted),
        audiences=audiences(len(granted or ()), found),
        **columns,
    )


class DeviceCodeRows:
    """Implements `ports.federation.oauth.DeviceCodeStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def ask(self, code: NewDeviceCode, client: AskingClient) -> AskedFor | None:
        parameters = DEVICE_CODE.values(code) | ASKING_DEVICE.values(code.asker)
        parameters |= {
            "client": client.id,
            "organization": None if client.organization is None else storable_text(client.organization),
            "service": None if client.service is None else storable_text(client.service),
            "interval": INTERVAL,
            "expires_at": code.expires_at,
        }
        return first(await self._statements.ask(AskedFor, _ASK, parameters))

    async def poll(self, digest: bytes, shown: ClientCredentials | None, at: datetime) -> Poll | None:
        parameters = {
            "digest": digest,
            "client": None if shown is None else shown.client,
            "secret": None if shown is None or shown.secret is None else shown.secret.digest().hex(),
            "is_public": shown is None or shown.method is AuthenticationMethod.NONE,
            "at": at,
            "soonest": at + LENIENCY,
            "same_try": at - SAME_TRY,
            "in_header": shown is not None and shown.in_header,
            "slower": SLOWER,
        }
        polls = await self._statements.ask_in_order(_poll, _POLL, parameters)
        return polls[0] if polls else None

    async def find_entered(self, user_code_hmac: bytes) -> EnteredCode | None:
        return await self._entered(_FIND_ENTERED, {"user_code_hmac": user_code_hmac})

    async def find(self, code: DeviceCodeId) -> EnteredCode | None:
        return await self._entered(_FIND, {"id": code})

    async def _entered(self, statement: LiteralString, parameters: Mapping[str, Any]) -> EnteredCode | None:
        row = first(await self._statements.ask(dict[str, Any], statement, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _entered(**row)

    async def approve(self, code: DeviceCodeId, user: UserId, session: SessionId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _APPROVE, {"id": code, "user": user, "session": session, "at": at}))

    async def deny(self, code: DeviceCodeId, user: UserId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _DENY, {"id": code, "user": user, "at": at}))

    async def consume(self, code: DeviceCodeId, at: datetime) -> DeviceApproval | None:
        return first(await self._statements.ask(_approval, _CONSUME, {"id": code, "at": at}))


_ASK: Final[LiteralString] = f"""
    with asking as (
             select services.id, services.device_activation_uri, services.is_agent, services.profile = 'fapi2' as holds_fapi2,
                    organizations.status = 'active' as is_open
               from services
               join organizations on organizations.id = services.org_id
              where services.oauth_client_id = %(client)s
                and organizations.slug = coalesce(%(organization)s::text, organizations.slug)
                and services.slug = coalesce(%(service)s::text, services.slug)
         ),
         added as (
             insert into device_codes ({DEVICE_CODE.into("expires_at")}, {ASKING_DEVICE.into()}, service_id, poll_interval)
             select {DEVICE_CODE.inserted("expires_at")}, {ASKING_DEVICE.inserted()}, asking.id, %(interval)s
               from asking
              where asking.is_open and not asking.is_agent and not asking.holds_fapi2
                 on conflict (user_code_hmac) where state = 'pending' do nothing
          returning id
         )
  select asking.is_open, asking.device_activation_uri as activation_uri, asking.is_agent, asking.holds_fapi2,
         exists (select from added) as is_added
    from asking
"""

# A poll that comes too soon makes the interval longer. `soonest` is a little later than now, because network delays vary. A repeated poll
# of the same try changes nothing, and gets the same answer. The statement writes only to pending codes.
_POLL: Final[LiteralString] = f"""
    with asked as (
             select coalesce(
                        %(client)s::text,
                        (
                            select services.oauth_client_id
                              from device_codes
                              join services on services.id = device_codes.service_id
                             where device_codes.digest = %(digest)s
                        )
                    ) as client,
                    %(secret)s::text as digest
         ),
         polling ({", ".join(ClientRow._fields)}, client) as (
             select {CLIENT}, asked.client
               from asked
                    {ITS_SERVICE}
         ),
         known as (
             select device_codes.id, device_codes.state, device_codes.expires_at, device_codes.user_id, device_codes.decided_at
               from polling
               join device_codes on device_codes.digest = %(digest)s and device_codes.service_id = polling.service_id
               join services on services.id = polling.service_id
              where not %(is_public)s::boolean or {lost_nothing_since("device_codes.created_at")}
         ),
         polled as (
             update device_codes
                set (polled_at, polled_in_header, is_slowed, poll_interval) = (
                        select case when pace.same_try then device_codes.polled_at else %(at)s end,
                               %(in_header)s::boolean,
                               case when pace.same_try then device_codes.is_slowed else pace.too_soon end,
                               device_codes.poll_interval + case when pace.too_soon and not pace.same_try then %(slower)s else 0 end
                          from (
                                   values (
                                       coalesce(
                                           device_codes.polled_at + device_codes.poll_interval * interval '1 second' > %(soonest)s, false
                                       ),
                                       device_codes.polled_in_header and not %(in_header)s::boolean
                                       and device_codes.polled_at > %(same_try)s
                                   )
                               ) as pace (too_soon, same_try)
                    )
               from known
              where device_codes.id = known.id and device_codes.state = 'pending' and device_codes.expires_at > %(at)s
          returning device_codes.is_slowed
         )
  select polling.client, {", ".join(f"polling.{name}" for name in ClientRow._fields)},
         known.id, known.state, known.expires_at, coalesce(polled.is_slowed, false), known.user_id, known.decided_at
    from polling
    left join known on true
    left join polled on true
"""

_ENTERED: Final[LiteralString] = f"""
    select device_codes.id, device_codes.state, device_codes.scopes, host(device_codes.address) as address, device_codes.user_agent,
           device_codes.created_at, device_codes.expires_at, device_codes.user_id as user, services.id as service,
           services.slug as service_slug, services.name as service_name, services.logo_digest as service_logo,
           organizations.id as organization, organizations.slug as organization_slug,
           organizations.status = 'active' as is_open, organizations.name as organization_name,
           organizations.logo_digest, organizations.primary_color,
           {SESSION_HOURS} as session_hours,
           {dress_of("organizations")} as dress,
           coalesce(
               (
                   select jsonb_agg(
                              jsonb_build_object(
                                  'name', resource_servers.name, 'identifier', resource_servers.identifier,
                                  'scopes', (
                                      select coalesce(
                                                 jsonb_agg(
                                                     jsonb_build_object('acr_values', '[]'::jsonb, 'max_age', null) || scope.own
                                                     order by scope.place
                                                 ),
                                                 '[]'
                                             )
                                        from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                                       where scope.own ->> 'name' = any (granted.scopes)
                                  )
                              )
                          )
                     from jsonb_to_recordset(device_codes.audiences) as granted (resource_id uuid, scopes text[])
                     join resource_servers on resource_servers.id = granted.resource_id
               ),
               '[]'
           ) as resources
      from device_codes
      join services on services.id = device_codes.service_id
      join organizations on organizations.id = services.org_id
"""

_FIND_ENTERED: Final[LiteralString] = f"""
    {_ENTERED}
     where device_codes.user_code_hmac = %(user_code_hmac)s and device_codes.state = 'pending'
"""

_FIND: Final[LiteralString] = f"{_ENTERED} where device_codes.id = %(id)s"

# The approval copies the proofs of the session, so the session need not live until the device polls again. It is the person's newest
# answer: what they refused the application before, and approve now, is refused no more.
_APPROVE: Final = """
    with approved as (
             update device_codes
                set state = 'approved', user_id = sessions.user_id, decided_at = %(at)s, proved_at = sessions.proved_at,
                    second_factor_at = sessions.second_factor_at, stated_at = sessions.stated_at,
                    authenticated_by = sessions.authenticated_by, approved_in = sessions.id
               from sessions
              where device_codes.id = %(id)s and device_codes.state = 'pending' and device_codes.expires_at > %(at)s
                and sessions.id = %(session)s and sessions.user_id = %(user)s
                and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
          returning device_codes.id, device_codes.user_id, device_codes.service_id, device_codes.audiences
         ),
         answered as (
             update resource_consents as answer
                set scopes = answer.scopes || array(
                        select scope from unnest(answer.withheld) as scope where scope = any (given.scopes)
                    ),
                    withheld = array(select scope from unnest(answer.withheld) as scope where scope <> all (given.scopes))
               from approved
              cross join lateral jsonb_to_recordset(approved.audiences) as given (resource_id uuid, scopes text[])
              where answer.user_id = approved.user_id and answer.service_id = approved.service_id
                and answer.resource_id = given.resource_id and answer.withheld && given.scopes
         )
  select id from approved
"""

_DENY: Final = """
    update device_codes
       set state = 'denied', user_id = %(user)s, decided_at = %(at)s
     where id = %(id)s and state = 'pending' and expires_at > %(at)s
 returning id
"""

# The person's proof must still be younger than `session_hours` of the organization and of the service: the device's session outlives the
# browser's session.
_CONSUME: Final[LiteralString] = f"""
    with consumed as (
             update device_codes
                set state = 'consumed'
              where id = %(id)s and state = 'approved' and expires_at > %(at)s
                and exists (
                        select
                          from all_services
                          join all_organizations as organizations on organizations.id = all_services.org_id
                         where all_services.id = device_codes.service_id
                           and (organizations.session_hours is null
                             or device_codes.proved_at + organizations.session_hours * interval '1 hour' > %(at)s)
                           and (all_services.session_lifetime_hours is null
                             or device_codes.proved_at + all_services.session_lifetime_hours * interval '1 hour' > %(at)s)
                    )
          returning *
         )
  select consumed.scopes, consumed.proved_at, consumed.second_factor_at, consumed.stated_at, consumed.authenticated_by,
         (
             select memberships.role
               from memberships
               join all_services on all_services.org_id = memberships.org_id
              where all_services.id = consumed.service_id and memberships.user_id = consumed.user_id
         ) as role,
         (select {PROFILE} from users where users.id = consumed.user_id) as described,
         consumed.audiences as granted, {open_audiences("consumed")} as found, consumed.approved_in as session
    from consumed
"""


def _polled(
    *,
    state: str,
    user: UUID | None,
    email: str | None,
    session: UUID | None,
    scopes: list[str],
    granted: Sequence[Mapping[str, Any]] | None,
    **columns: Any,
) -> PolledRequest:
    found, decision = BackchannelState(state), None
    if found is BackchannelState.ALLOWED and user is not None and session is not None and email is not None:
        yes = granted_audiences(granted)
        decision = BackchannelDecision(user=UserId(user), email=email, session=SessionId(session), scopes=tuple(scopes), granted=yes)
    return PolledRequest(state=found, allowed=decision, **columns)


def _waiting(*, scopes: list[str], foreign_scopes: list[str], **columns: Any) -> WaitingRequest:
    return WaitingRequest(scopes=tuple(scopes), foreign_scopes=tuple(foreign_scopes), **columns)


def _own(*, waiting: Sequence[Mapping[str, Any]], blocked: Sequence[Mapping[str, Any]]) -> OwnRequests:
    return OwnRequests(waiting=convert(waiting, list[WaitingRequest]), blocked=convert(blocked, list[BlockedClient]))


def _asked_api(audience: TokenAudience | None) -> Mapping[str, Any]:
    if audience is None:
        return {"resource": None, "identifier": None, "foreign_scopes": []}
    return {"resource": audience.id, "identifier": audience.identifier, "foreign_scopes": list(audience.scopes)}


class BackchannelRequestRows(OnStatements):
    """Implements `ports.federation.oauth.BackchannelRequestStore`."""

    async def add(self, new: NewBackchannelRequest) -> bool:
        asked = new.asked
        parameters = {
            **values_of(asked),
            **values_of(new),
            "email_key": storable_text(Email(asked.login_hint).key),
            "person": asked.person,
            "scopes": list(asked.scopes),
            **_asked_api(new.audience),
            "message": None if asked.binding_message is None else storable_text(asked.binding_message),
            "interval": AFAR_INTERVAL,
            "expires_at": new.expires_at,
            "most": MOST_WAITING,
            "most_of_client": MOST_WAITING_OF_CLIENT,
        }
        return only(await self._statements.ask(AnswerRow, _ADD, parameters)).yes

    async def poll(self, digest: bytes, service: ServiceId, at: datetime) -> PolledRequest | None:
        parameters = {"digest": digest, "service": service, "at": at, "soonest": at + AFAR_LENIENCY, "slower": AFAR_SLOWER}
        return first(await self._statements.ask(_polled, _AFAR_REQUEST_POLL, parameters))

    async def list_own(self, user: UserId) -> OwnRequests:
        return only(await self._statements.ask(_own, _LIST_OWN, {"user": user}))

    async def find_waiting(self, user: UserId, request: BackchannelRequestId) -> WaitingRequest | None:
        return first(await self._statements.ask(_waiting, _FIND_WAITING, {"user": user, "id": request}))

    async def find_to_tell(self, request: BackchannelRequestId) -> WaitingRequest | None:
        return first(await self._statements.ask(_waiting, _FIND_TO_TELL, {"id": request}))

    async def allow(
        self, request: BackchannelRequestId, user: UserId, session: SessionId, granted: Sequence[TokenAudience], at: datetime
    ) -> bool:
        parameters = {"id": request, "user": user, "session": session, "audiences": kept_audiences(granted), "at": at}
        return bool(await self._statements.ask(IdRow, _ALLOW, parameters))

    async def refuse(self, request: BackchannelRequestId, user: UserId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _REFUSE, {"id": request, "user": user, "at": at}))

    async def consume(self, request: BackchannelRequestId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _AFAR_REQUEST_CONSUME, {"id": request, "at": at}))

    async def block(self, user: UserId, service: ServiceId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _BLOCK, {"user": user, "service": service, "at": at}))

    async def unblock(self, user: UserId, service: ServiceId) -> bool:
        return bool(await self._statements.ask(IdRow, _UNBLOCK, {"user": user, "service": service}))


# A condition on `afar_requests` and `organizations`. Who leaves the organization, or is deactivated or locked, answers nothing more.
_IS_OPEN: Final[LiteralString] = f"""
           coalesce(organizations.status = 'active' and organizations.afar_since <= afar_requests.created_at, false)
       and {is_own_member("organizations.id", "afar_requests.user_id")}
       and exists (select from users where users.id = afar_requests.user_id and users.deactivated_at is null)
"""

# Whoever the hint names, this adds one row. The looks at the person end in a part of it, and in nothing that the application sees.
_ADD: Final[LiteralString] = f"""
    with place as (
             select services.id, services.org_id
               from services
               join organizations on organizations.id = services.org_id
              where services.id = %(service)s and organizations.status = 'active' and organizations.afar_since is not null
         ),
         person as (
             select users.id
               from users
              cross join place
              where (users.email_key = %(email_key)s or users.id = %(person)s::uuid) and users.deactivated_at is null
                and {is_own_member("place.org_id", "users.id")}
                and not exists (
                        select from afar_blocks where afar_blocks.user_id = users.id and afar_blocks.service_id = %(service)s
                    )
                and (
                        select count(*) < %(most)s
                               and count(*) filter (where waiting.service_id = %(service)s) < %(most_of_client)s
                          from afar_requests as waiting
                          join services as asking on asking.id = waiting.service_id and asking.org_id = place.org_id
                         where waiting.user_id = users.id and waiting.state = 'pending' and waiting.expires_at > %(created_at)s
                    )
              limit 1
         ),
         added as (
             insert into afar_requests (id, digest, service_id, user_id, scopes, resource_id, identifier, foreign_scopes, binding_message,
                                        key_thumbprint, created_at, expires_at, poll_interval)
             select %(id)s, %(digest)s, place.id, person.id, %(scopes)s::text[], %(resource)s::uuid, %(identifier)s,
                    %(foreign_scopes)s::text[], %(message)s, %(key)s, %(created_at)s, %(expires_at)s, %(interval)s
               from place
               left join person on true
          returning id
         )
  select exists (select from added) as yes
"""

# A poll that comes too soon makes the interval longer. The statement writes only to pending requests.
_AFAR_REQUEST_POLL: Final[LiteralString] = f"""
    with polled as (
             update afar_requests
                set (polled_at, is_slowed, poll_interval) = (
                        select %(at)s::timestamptz, pace.too_soon,
                               afar_requests.poll_interval + case when pace.too_soon then %(slower)s else 0 end
                          from (
                                   values (
                                       coalesce(
                                           afar_requests.polled_at + afar_requests.poll_interval * interval '1 second' > %(soonest)s, false
                                       )
                                   )
                               ) as pace (too_soon)
                    )
              where digest = %(digest)s and service_id = %(service)s and state = 'pending' and expires_at > %(at)s
          returning is_slowed
         )
  select afar_requests.id, afar_requests.state, afar_requests.expires_at, coalesce(polled.is_slowed, false) as is_slowed,
         {_IS_OPEN} as is_open, afar_requests.key_thumbprint as key, afar_requests.user_id as user, users.email,
         afar_requests.session_id as session, afar_requests.scopes, afar_requests.audiences as granted
    from afar_requests
    join services on services.id = afar_requests.service_id
    join organizations on organizations.id = services.org_id
    left join users on users.id = afar_requests.user_id
    left join polled on true
   where afar_requests.digest = %(digest)s and afar_requests.service_id = %(service)s
"""

_WAITS: Final[LiteralString] = f"""
           afar_requests.state = 'pending' and afar_requests.expires_at > now() and {_IS_OPEN}
       and not exists (
               select
                 from afar_blocks
                where afar_blocks.user_id = afar_requests.user_id and afar_blocks.service_id = afar_requests.service_id
           )
"""

_WAITING: Final[LiteralString] = f"""
    select afar_requests.id, afar_requests.user_id as user, organizations.id as organization, services.id as service,
           services.oauth_client_id as client, services.name as service_name, services.logo_digest as service_logo,
           organizations.name as organization_name, services.is_agent,
           afar_requests.scopes, afar_requests.identifier, coalesce(resource_servers.name, '') as api, afar_requests.foreign_scopes,
           array(
               select scope.own ->> 'description'
                 from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                where scope.own ->> 'name' = any (afar_requests.foreign_scopes)
                order by scope.place
           ) as says,
           afar_requests.binding_message, afar_requests.created_at, afar_requests.expires_at
      from afar_requests
      join services on services.id = afar_requests.service_id
      join organizations on organizations.id = services.org_id
      left join resource_servers on resource_servers.id = afar_requests.resource_id
     where {_WAITS}
"""

_FIND_WAITING: Final[LiteralString] = f"{_WAITING} and afar_requests.user_id = %(user)s and afar_requests.id = %(id)s"

_FIND_TO_TELL: Final[LiteralString] = f"{_WAITING} and afar_requests.id = %(id)s"

_ALLOW: Final[LiteralString] = f"""
    update afar_requests
       set state = 'allowed', session_id = sessions.id, audiences = %(audiences)s, answered_at = %(at)s
      from sessions, services, organizations
     where afar_requests.id = %(id)s and afar_requests.user_id = %(user)s and afar_requests.expires_at > %(at)s
       and sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.impersonator_id is null
       and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
       and services.id = afar_requests.service_id and organizations.id = services.org_id
       and {_WAITS}
 returning afar_requests.id
"""

_REFUSE: Final = """
    update afar_requests
       set state = 'refused', answered_at = %(at)s
     where id = %(id)s and user_id = %(user)s and state = 'pending' and expires_at > %(at)s
 returning id
"""

_AFAR_REQUEST_CONSUME: Final[LiteralString] = f"""
    update afar_requests
       set state = 'consumed'
      from services, organizations
     where afar_requests.id = %(id)s and afar_requests.state = 'allowed' and afar_requests.expires_at > %(at)s
       and services.id = afar_requests.service_id and organizations.id = services.org_id and {_IS_OPEN}
 returning afar_requests.id
"""

_BLOCKED: Final = """
    select services.id as service, services.name as service_name, organizations.name as organization_name, afar_blocks.blocked_at
      from afar_blocks
      join services on services.id = afar_blocks.service_id
      join organizations on organizations.id = services.org_id
     where afar_blocks.user_id = %(user)s
"""

# One statement for the whole page.
_LIST_OWN: Final[LiteralString] = f"""
    select (
               select coalesce(jsonb_agg(one order by one.id), '[]')
                 from ({_WAITING} and afar_requests.user_id = %(user)s) as one
           ) as waiting,
           (
               select coalesce(jsonb_agg(one order by one.organization_name, one.service_name, one.service), '[]')
                 from ({_BLOCKED}) as one
           ) as blocked
"""

_BLOCK: Final = """
    with refused as (
             update afar_requests
                set state = 'refused', session_id = null, answered_at = coalesce(answered_at, %(at)s)
              where user_id = %(user)s and service_id = %(service)s and state in ('pending', 'allowed')
         )
    insert into afar_blocks (user_id, service_id, blocked_at)
    select %(user)s, services.id, %(at)s
      from services
     where services.id = %(service)s
        on conflict do nothing
 returning service_id as id
"""

_UNBLOCK: Final = "delete from afar_blocks where user_id = %(user)s and service_id = %(service)s returning service_id as id"

"""States in PostgreSQL: one statement keeps a state when a person leaves for a provider, one uses the state up when the person returns."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.proofs.flows import ADD_FLOW, FlowRow, flow_columns
from adapters.postgres.identity.sessions.liveness import IS_LIVE
from adapters.postgres.identity.upstream.ways import Parts, WayRow, of_each_kind, provider_parameters
from adapters.postgres.storable import storable_text
from core.domain.identifiers import FlowId, SessionId, UserId
from core.domain.identity.upstream.identities import Asker
from core.domain.identity.upstream.sign_in import NewState, ServicePlace, TakenState, UsedState
from core.frozen import Frozen, names_of


class TakenRow:
    """A row of `TAKE`."""

    def __init__(
        self,
        *,
        flow_id: UUID | None,
        user_id: UUID | None,
        session_id: UUID | None,
        asked_in: UUID | None,
        client_id: str,
        asked_consent: bool,
        tests: bool,
        **flow_and_way: Any,
    ) -> None:
        flow = {name: flow_and_way.pop(name) for name in _FLOW}
        self._flow_id = None if flow["flow_purpose"] is None else flow_id
        self._flow = FlowRow(**flow)
        self._user = None if user_id is None else UserId(user_id)
        self._session = session_id
        self._asked_in = asked_in
        self._client_id = client_id
        self._asked_consent = asked_consent
        self._tests = tests
        self._way = WayRow(**flow_and_way).way()

    @property
    def asker(self) -> Mapping[str, Any] | None:
        """The parameters of `FIND_WAY_OF_ASKER`; None unless the state belongs to somebody who connects an identity."""
        return None if self._user is None else {"user": self._user, "session": self._session, "asked_in": self._asked_in}

    @property
    def dress(self) -> list[str | None] | None:
        return self._flow.flow_dress

    def taken(self, provider: str) -> TakenState:
        return TakenState(
            provider=provider,
            flow=None if self._flow_id is None else self._flow.flow(FlowId(self._flow_id)),
            user=self._user,
            sessions=tuple(SessionId(one) for one in (self._session, self._asked_in) if one is not None),
            client_id=self._client_id,
            asked_consent=self._asked_consent,
            way=self._way,
            tests=self._tests,
        )


_FLOW: Final = names_of(FlowRow)


class WayOfAskerRow(WayRow, kw_only=True):
    """A row of `FIND_WAY_OF_ASKER`."""

    on_pages: bool


class AskerRow(Frozen):
    """A row of `FIND_ASKER`."""

    id: UUID
    user_id: UUID
    organization_slug: str | None
    organization_name: str | None
    service_slug: str | None
    service_name: str | None
    redirect_uris: list[str] | None

    def asker(self) -> Asker:
        return Asker(
            session=SessionId(self.id),
            user=UserId(self.user_id),
            place=ServicePlace(organization=self.organization_slug or "", service_slug=self.service_slug or ""),
            application=self.service_name or "",
            organization=self.organization_name or "",
            redirect_uri=next(iter(self.redirect_uris or ()), ""),
        )


class UsedRow:
    """A row of `FIND_USED`."""

    def __init__(self, *, flow_id: UUID | None, led_to: str, **flow: Any) -> None:
        self._flow_id = flow_id
        self._flow = FlowRow(**flow)
        self._led_to = led_to

    @property
    def dress(self) -> list[str | None] | None:
        return self._flow.flow_dress

    def used(self) -> UsedState:
        flow = None if self._flow_id is None else self._flow.flow(FlowId(self._flow_id))
        return UsedState(flow=flow, led_to=self._led_to)


def place_parameters(provider: str, place: ServicePlace) -> Mapping[str, Any]:
    """The parameters of the provider and the place, for `FIND_WAY`, `LEAVE` and `BEGIN_AND_LEAVE`."""
    return {
        **provider_parameters(provider),
        "organization": storable_text(place.organization),
        "service": place.service,
        "service_slug": storable_text(place.service_slug),
        "realm": storable_text(place.realm),
    }


def state_parameters(state: NewState) -> Mapping[str, Any]:
    """The parameters of the state, for `LEAVE` and `BEGIN_AND_LEAVE`."""
    return {
        "digest": state.digest,
        "browser": state.browser_digest,
        "flow": state.flow,
        "user": state.user,
        "session": state.session,
        "asked_in": state.asked_in,
        "installed_client": state.installed_client,
        "asks_consent": state.asks_consent,
        "tests": state.tests,
        "created_at": state.created_at,
        "expires_at": state.expires_at,
    }


def _find_way(parts: Parts) -> LiteralString:
    service = "services.id = %(service)s::uuid or (services.org_id = homes.id and services.slug = %(service_slug)s)"
    return f"""
    select {parts.way}
      from (values (true)) as this (way)
           {parts.places("homes.slug = %(organization)s", service, "realms.slug = %(realm)s")}
"""


def _keep_state(parts: Parts) -> LiteralString:
    """Keeps no state if there is no client, or if the organization of a flow is gone. The row of the way tells the caller why."""
    return f"""
         way as ({_find_way(parts)}),
         kept as (
             insert into oauth_states (digest, browser_digest, provider, flow_id, user_id, session_id, asked_in, client_id, realm_id,
                                       asked_consent, tests, created_at, expires_at)
             select %(digest)s, %(browser)s, %(provider)s, %(flow)s, %(user)s, %(session)s, %(asked_in)s, {parts.client}, {parts.realm},
                    %(asks_consent)s, %(tests)s, %(created_at)s, %(expires_at)s
               from way
              where {parts.client} is not null
                and (%(flow)s::uuid is null or %(organization)s::text = '' or way.organization_id is not null)
         )
  select * from way
"""


def _take(parts: Parts) -> LiteralString:
    """Uses up the state, and reads its flow, unless the flow has expired or belongs to another browser."""
    return f"""
    with taken as (
             update oauth_states
                set digest = %(used)s, used_at = now()
              where digest = %(digest)s and provider = %(provider)s and browser_digest = %(browser)s and expires_at > now()
          returning flow_id, user_id, session_id, asked_in, client_id, asked_consent, tests, realm_id
         )
  select taken.flow_id, taken.user_id, taken.session_id, taken.asked_in, taken.client_id, taken.asked_consent, taken.tests, {parts.way},
         {flow_columns("homes")}
    from taken
    left join flows on flows.id = taken.flow_id and flows.browser_digest = %(browser)s and flows.expires_at > now()
         {parts.places("homes.slug = flows.wanted ->> 'organization'", "services.id = flows.service_id", "realms.id = taken.realm_id")}
"""


def _find_way_of_asker(parts: Parts) -> LiteralString:
    """The way of a person who connects an identity, by the session in which the person asked for it. That session must still live, and so
    must the session in which the person went to the provider.
    """
    home = "homes.id = coalesce(askers.organization_id, browser_sessions.chosen_organization)"
    return f"""
    select {parts.way}, browser_sessions.session_id is not null as on_pages
      from sessions as askers
      left join browser_sessions on browser_sessions.session_id = askers.id
           {parts.places(home, "services.id = askers.service_id", "false")}
     where askers.id = coalesce(%(asked_in)s::uuid, %(session)s)
       and (askers.organization_id is null or homes.id is not null)
       and not exists (
               select
                 from unnest(array[%(session)s, %(asked_in)s]::uuid[]) as needed (id)
                where needed.id is not null
                  and not exists (
                          select
                            from sessions
                            join users on users.id = sessions.user_id
                            left join organizations on organizations.id = sessions.organization_id
                            left join services on services.id = sessions.service_id
                           where sessions.id = needed.id and sessions.user_id = %(user)s and {IS_LIVE}
                      )
           )
"""


FIND_WAY: Final = of_each_kind(_find_way)
FIND_WAY_OF_ASKER: Final = of_each_kind(_find_way_of_asker)
LEAVE: Final = of_each_kind(lambda parts: f"with {_keep_state(parts)}")
# For a person whose flow begins with this statement. The flow is kept in any case: without a state, a page of the flow tells the person.
BEGIN_AND_LEAVE: Final = of_each_kind(lambda parts: f"with begun as ({ADD_FLOW}), {_keep_state(parts)}")
TAKE: Final = of_each_kind(_take)

FIND_ASKER: Final[LiteralString] = f"""
    select sessions.id, sessions.user_id, organizations.slug as organization_slug, organizations.name as organization_name,
           services.slug as service_slug, services.name as service_name, services.redirect_uris
      from sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
     where sessions.id = %(session)s and {IS_LIVE} and sessions.impersonator_id is null
       and (sessions.organization_id is null or organizations.status = 'active')
"""

FIND_USED: Final[LiteralString] = f"""
    select oauth_states.flow_id, coalesce(oauth_states.led_to, '') as led_to, {flow_columns("homes")}
      from oauth_states
      left join flows
             on flows.id = oauth_states.flow_id and flows.browser_digest = oauth_states.browser_digest and flows.expires_at > now()
      left join organizations as homes on homes.slug = flows.wanted ->> 'organization' and homes.status = 'active'
     where oauth_states.digest = %(used)s and oauth_states.provider = %(provider)s and oauth_states.browser_digest = %(browser)s
       and oauth_states.used_at > now() - %(lasts)s
       and (oauth_states.flow_id is null or flows.id is not null)
"""

SETTLE: Final = "update oauth_states set led_to = %(led_to)s where digest = %(used)s returning provider"
FORGET: Final = "delete from oauth_states where digest = %(used)s returning provider"

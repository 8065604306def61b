"""States in PostgreSQL: kept by whoever leaves for a provider, and removed by whoever comes back. One statement each."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.flows import ADD_FLOW, FlowRow, flow_columns
from adapters.postgres.identity.liveness import IS_LIVE
from adapters.postgres.identity.upstream.ways import WAY, WayRow, from_place, provider_parameters
from adapters.postgres.storable import storable_text
from core.domain.identifiers import FlowId, SessionId, UserId
from core.domain.identity.upstream.sign_in import NewState, Place, TakenState


class TakenRow:
    """What `TAKE` reads."""

    def __init__(
        self, *, flow_id: UUID | None, user_id: UUID | None, session_id: UUID | None, client_id: str, **flow_and_way: Any
    ) -> None:
        flow = {name: flow_and_way.pop(name) for name in _FLOW}
        self._flow = None if flow_id is None or flow["flow_purpose"] is None else FlowRow(**flow).flow(FlowId(flow_id))
        self._user = None if user_id is None else UserId(user_id)
        self._session = None if session_id is None else SessionId(session_id)
        self._client_id = client_id
        self._way = WayRow(**flow_and_way).way()

    def taken(self, provider: str) -> TakenState:
        return TakenState(
            provider=provider, flow=self._flow, user=self._user, session=self._session, client_id=self._client_id, way=self._way
        )


_FLOW: Final = tuple(field.name for field in fields(FlowRow))


def place_parameters(provider: str, place: Place) -> Mapping[str, Any]:
    """For `FIND_WAY` and `LEAVE`."""
    return {
        **provider_parameters(provider),
        "organization": storable_text(place.organization),
        "service": place.service,
        "service_slug": storable_text(place.service_slug),
        "realm": storable_text(place.realm),
    }


def state_parameters(state: NewState) -> Mapping[str, Any]:
    """For `LEAVE`."""
    return {
        "digest": state.digest,
        "browser": state.browser_digest,
        "flow": state.flow,
        "user": state.user,
        "session": state.session,
        "installed_client": state.installed_client,
        "created_at": state.created_at,
        "expires_at": state.expires_at,
    }


_IN_PLACE: Final[LiteralString] = from_place(
    "homes.slug = %(organization)s",
    "services.id = %(service)s::uuid or (services.org_id = homes.id and services.slug = %(service_slug)s)",
    "realms.slug = %(realm)s",
)
FIND_WAY: Final[LiteralString] = f"select {WAY} from (values (true)) as this (way) {_IN_PLACE}"

# Where there is no client, or the organization of a flow is gone, nobody leaves: they are told why by what is found.
_KEEP_STATE: Final[LiteralString] = f"""
         way as ({FIND_WAY}),
         kept as (
             insert into oauth_states (digest, browser_digest, provider, flow_id, user_id, session_id, client_id, realm_id,
                                       created_at, expires_at)
             select %(digest)s, %(browser)s, %(provider)s, %(flow)s, %(user)s, %(session)s, clients.client_id, way.realm_id,
                    %(created_at)s, %(expires_at)s
               from way
              cross join lateral (
                        select coalesce(way.provider_client, way.credentials_client, %(installed_client)s::text) as client_id
                    ) as clients
              where clients.client_id is not null
                and (%(flow)s::uuid is null or %(organization)s::text = '' or way.organization_id is not null)
         )
  select * from way
"""
LEAVE: Final[LiteralString] = f"with {_KEEP_STATE}"
# By somebody whose flow begins with this. It is there in any case: the page that tells them why they do not leave is a page of it.
BEGIN_AND_LEAVE: Final[LiteralString] = f"with begun as ({ADD_FLOW}), {_KEEP_STATE}"

_ASKER_IS_THERE: Final[LiteralString] = f"""
               exists (
                   select
                     from sessions
                     join users on users.id = sessions.user_id
                     left join organizations on organizations.id = sessions.organization_id
                     left join services on services.id = sessions.service_id
                    where sessions.id = taken.session_id and sessions.user_id = taken.user_id and {IS_LIVE}
               )"""

# Where the flow leads, or where the session is in which somebody connects an identity.
_OF_TAKEN: Final[LiteralString] = f"""
      left join flows on flows.id = taken.flow_id and flows.browser_digest = %(browser)s and flows.expires_at > now()
      left join sessions as askers on askers.id = taken.session_id
      left join browser_sessions on browser_sessions.session_id = taken.session_id
      {
    from_place(
        '''homes.id = coalesce(
               (select organizations.id from organizations where organizations.slug = flows.wanted ->> 'organization'),
               askers.organization_id,
               browser_sessions.chosen_organization
           )''',
        "services.id = coalesce(flows.service_id, askers.service_id)",
        "realms.id = taken.realm_id",
    )
}"""
# The flow is nobody's who has come back in another browser.
TAKE: Final[LiteralString] = f"""
    with taken as (
             delete from oauth_states
              where digest = %(digest)s
                and provider = %(provider)s
                and (browser_digest = %(browser)s or user_id = %(user)s)
          returning flow_id, user_id, session_id, client_id, realm_id, expires_at
         )
  select taken.flow_id, taken.user_id, taken.session_id, taken.client_id, {WAY}, {flow_columns("homes")}
    from taken
         {_OF_TAKEN}
   where taken.expires_at > now() and (taken.user_id is null or {_ASKER_IS_THERE})
"""

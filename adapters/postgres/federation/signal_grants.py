"""Signals that people grant: who may grant them, whether a grant stands, and the end of streams whose grant does not."""

from typing import Final, LiteralString

from adapters.postgres.identity.sessions.parts import AUTHENTICATES
from adapters.postgres.record.events import PUBLISHED, fan_out
from adapters.postgres.statements import NEW_ID, OnPool, ask, first_made
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER
from adapters.postgres.ties import counts_for
from core.domain.federation.signal_grants import OfferedSignals
from core.domain.federation.signals import SignalSettings
from core.domain.identifiers import ServiceId, SessionId, UserId
from core.domain.record.signals import SignalType
from core.domain.services.resource_servers import MANAGE_SIGNALS
from core.domain.tenancy.roles import Capability, relations_with
from core.frozen import Frozen

_RELATIONS: Final[LiteralString] = ", ".join(f"'{name}'" for name in sorted(relations_with(Capability.INTEGRATIONS_MANAGE)))


def may_grant(service: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the person may manage the integrations of the service's organization, now."""
    return f"""exists (
               select from services as granting
                 join organizations as wanted on wanted.id = granting.org_id
                 join memberships on memberships.org_id = wanted.id and memberships.user_id = {person}
                 join users on users.id = memberships.user_id and users.deactivated_at is null
                where granting.id = {service} and {counts_for()} and {RELATIONS_OF_MEMBER} && array[{_RELATIONS}]
               offset 0
           )"""


def grants(service: LiteralString, person: LiteralString, scopes: LiteralString) -> LiteralString:
    """Whether the person has granted these scopes to the service, has not taken them back, and may still grant them."""
    return f"""(
               exists (
                   select from consents
                    where consents.user_id = {person} and consents.service_id = {service} and consents.scopes @> {scopes}
                   offset 0
               )
           and {may_grant(service, person)}
           )"""


# A condition on `signal_streams`: nobody granted it, or the grant stands. A stream whose grant has ended is as one that is gone: it is told
# nothing from then on, and the janitor deletes it.
GRANT_STANDS: Final[LiteralString] = f"""(
               signal_streams.granted_by is null
            or {grants("signal_streams.service_id", "signal_streams.granted_by", f"array['{MANAGE_SIGNALS}']")}
           )"""


class _Settings(Frozen):
    events: list[str]
    hosts: list[str]

    def offered(self) -> OfferedSignals:
        return OfferedSignals(SignalSettings(events=tuple(map(SignalType, self.events)), hosts=tuple(self.hosts)))


class PostgresSignalOffers(OnPool):
    """Implements `ports.federation.signals.SignalOffers`."""

    async def find(self, service: ServiceId, user: UserId, session: SessionId) -> OfferedSignals | None:
        parameters = {"service": service, "user": user, "session": session}
        return first_made(await ask(self._pool, _Settings, _OFFERED, parameters), _Settings.offered)

    async def are_on(self, service: ServiceId) -> bool:
        return bool(await ask(self._pool, _Settings, _ON, {"service": service}))


# An application that cannot authenticate is anybody who knows its client id.
_ON: Final[LiteralString] = f"""
    select signal_settings.events, signal_settings.hosts
      from services
      join signal_settings on signal_settings.service_id = services.id
     where services.id = %(service)s and {AUTHENTICATES}
"""

# Nobody grants anything in somebody else's name.
_OFFERED: Final[LiteralString] = f"""
    {_ON}
       and {may_grant("services.id", "%(user)s::uuid")}
       and exists (select from sessions where id = %(session)s and user_id = %(user)s and impersonator_id is null)
"""

# The janitor ends streams whose grant has ended, as their application would.
END_GRANTED_STREAMS: Final[LiteralString] = f"""
    with ended as (
             delete from signal_streams
              where id = any (array(
                        select signal_streams.id
                          from signal_streams
                         where signal_streams.granted_by is not null and not {GRANT_STANDS}
                         limit %(limit)s
                           for update of signal_streams skip locked
                    ))
          returning id, service_id, granted_by
         ),
         published as (
             insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
             select {NEW_ID}, 'signal_stream.deleted', all_services.org_id, 'signal_stream', ended.id::text,
                    jsonb_build_object('service_id', ended.service_id, 'granted_by', ended.granted_by), now()
               from ended
               join all_services on all_services.id = ended.service_id
          returning {PUBLISHED}
         ),
         queued as ({fan_out("published as told")})
  select id from ended
"""

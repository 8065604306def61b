"""Shared Signals in PostgreSQL: settings of owners, streams of applications, and the two queues of security events."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, IdRow, array_of_texts, storable_text
from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.signal_grants import GRANT_STANDS, grants
from adapters.postgres.identity.sessions.parts import AUTHENTICATES, IS_LIVE
from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.record.events import PUBLISHED, signalled
from adapters.postgres.statements import NEW_ID, OnStatements, ask, first, first_made, only
from adapters.postgres.ties import IS_OWN_USE, is_own_member
from core.domain.federation.signals import (
    KEPT_FOR,
    MERGED,
    MOST_WAITING,
    WITHDRAWN,
    DueSignal,
    SignalCaller,
    SignalGrant,
    SignalSettings,
    SignalStream,
    transaction_of,
)
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SignalStreamId, UserId
from core.domain.record.signals import DROPPED_EVENT, PAUSING_EVENT, PURGED_EVENT, SIGNAL_TOPIC, SignalType
from core.frozen import Frozen, replace
from ports.federation.signals import ClaimedStream, KeptSignals

STREAM: Final = Columns(
    SignalStream,
    "signal_streams",
    named={"service": "service_id"},
    apart=("has_header", "granter"),
    texts=("description", "status_reason"),
)


def _settings(events: Sequence[str] | None, hosts: Sequence[str] | None) -> SignalSettings | None:
    if events is None:
        return None
    return SignalSettings(events=tuple(map(SignalType, events)), hosts=tuple(hosts or ()))


class _Kept(Frozen):
    service_id: UUID
    events: list[str] | None
    hosts: list[str] | None

    def kept(self) -> KeptSignals:
        return KeptSignals(ServiceId(self.service_id), _settings(self.events, self.hosts))


class _Counts(Frozen):
    of_service: int
    of_organization: int


class _Verified(Frozen):
    verified_at: datetime | None


class SignalRows(OnStatements):
    """Implements `ports.federation.signals.SignalStore`."""

    async def settings(self, organization: OrganizationId, service_slug: str) -> KeptSignals | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first_made(await self._statements.ask(_Kept, _SETTINGS, parameters), _Kept.kept)

    async def turn_on(self, service: ServiceId, settings: SignalSettings, at: datetime) -> None:
        parameters = {
            "service": service,
            "events": array_of_texts([one.value for one in settings.events]),
            "hosts": array_of_texts(settings.hosts),
            "at": at,
        }
        await self._statements.tell(_TURN_ON, parameters)
        self._statements.ring(SIGNAL_TOPIC)

    async def turn_off(self, service: ServiceId) -> None:
        await self._statements.tell("delete from signal_settings where service_id = %(service)s", {"service": service})

    async def hold_settings(self, service: ServiceId) -> SignalSettings | None:
        found = first(await self._statements.ask(_Kept, _HOLD_SETTINGS, {"service": service}))
        return None if found is None else found.kept().settings

    async def counts(self, service: ServiceId, organization: OrganizationId) -> tuple[int, int]:
        found = only(await self._statements.ask(_Counts, _COUNTS, {"service": service, "organization": organization}))
        return found.of_service, found.of_organization

    async def services(self, organization: OrganizationId) -> Sequence[ServiceId]:
        return [ServiceId(row.id) for row in await self._statements.ask(IdRow, _SERVICES, {"organization": organization})]

    async def list(self, service: ServiceId) -> Sequence[SignalStream]:
        return await self._statements.ask(STREAM.row, _LIST, {"service": service})

    async def find(self, service: ServiceId, stream: SignalStreamId) -> SignalStream | None:
        return first(await self._statements.ask(STREAM.row, _FIND, {"service": service, "id": stream}))

    async def add(self, stream: SignalStream, sealed_header: bytes | None) -> None:
        await self._statements.tell(_ADD, {**STREAM.values(stream), "sealed_header": sealed_header})

    async def save(self, stream: SignalStream, *, keeps_header: bool, sealed_header: bytes | None) -> None:
        parameters = {**STREAM.values(stream), "keeps_header": keeps_header, "sealed_header": sealed_header}
        await self._statements.tell(_SAVE, parameters)
        self._statements.ring(SIGNAL_TOPIC)

    async def delete(self, stream: SignalStreamId) -> None:
        await self._statements.tell("delete from signal_streams where id = %(id)s", {"id": stream})

    async def verified_at(self, stream: SignalStreamId) -> datetime | None:
        statement = "select verified_at from signal_streams where id = %(id)s"
        return first_made(await self._statements.ask(_Verified, statement, {"id": stream}), lambda row: row.verified_at)

    async def note_verification(self, stream: SignalStreamId, at: datetime) -> None:
        await self._statements.tell("update signal_streams set verified_at = %(at)s where id = %(id)s", {"id": stream, "at": at})


_SETTINGS: Final = """
    select services.id as service_id, signal_settings.events, signal_settings.hosts
      from services
      left join signal_settings on signal_settings.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_HOLD_SETTINGS: Final = "select service_id, events, hosts from signal_settings where service_id = %(service)s for update"

_TURN_ON: Final = """
    insert into signal_settings (service_id, events, hosts, updated_at) values (%(service)s, %(events)s, %(hosts)s, %(at)s)
        on conflict (service_id) do update set events = excluded.events, hosts = excluded.hosts, updated_at = excluded.updated_at
"""

_COUNTS: Final = """
    select count(*) filter (where signal_streams.service_id = %(service)s) as of_service, count(*) as of_organization
      from services
      join signal_streams on signal_streams.service_id = services.id
     where services.org_id = %(organization)s
"""

_SERVICES: Final = """
    select services.id
      from services
     where services.org_id = %(organization)s
       and exists (select from signal_streams where signal_streams.service_id = services.id)
     order by services.id
"""

_SELECT: Final[LiteralString] = f"""
    select {STREAM.names}, sealed_header is not null as has_header,
           (select email from users where users.id = signal_streams.granted_by) as granter
      from signal_streams
     where signal_streams.service_id = %(service)s and {GRANT_STANDS}
"""
_LIST: Final[LiteralString] = f"{_SELECT} order by signal_streams.id"
_FIND: Final[LiteralString] = f"{_SELECT} and signal_streams.id = %(id)s"
_ADD: Final[LiteralString] = f"insert into signal_streams ({STREAM.into('sealed_header')}) values ({STREAM.inserted('sealed_header')})"

# A stream that its application has changed begins anew, without failures.
_SAVE: Final[LiteralString] = f"""
    update signal_streams
       set {STREAM.changes("id", "service", "granted_by", "created_at")},
           sealed_header = case when %(keeps_header)s then sealed_header else %(sealed_header)s end,
           failing_since = null, rests_until = null
     where id = %(id)s
"""


class _Caller(Frozen):
    service_id: UUID
    service_slug: str
    org_id: UUID
    organization_slug: str
    client_id: str
    events: list[str] | None
    hosts: list[str] | None
    issued_at: datetime

    def granted(self, grant: SignalGrant) -> SignalCaller:
        return replace(self.caller(), grant=grant)

    def caller(self) -> SignalCaller:
        return SignalCaller(
            service=ServiceId(self.service_id),
            service_slug=self.service_slug,
            organization=OrganizationId(self.org_id),
            organization_slug=self.organization_slug,
            client=ClientId(self.client_id),
            settings=_settings(self.events, self.hosts),
            issued_at=self.issued_at,
        )


class PostgresSignalCallers:
    """Implements `ports.federation.signals.SignalCallers`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, service: ServiceId, client: ClientId, issued_at: datetime) -> SignalCaller | None:
        parameters = {"service": service, "client": storable_text(client), "issued_at": issued_at}
        return first_made(await ask(self._pool, _Caller, _CALLER, parameters), _Caller.caller)

    async def find_granted(self, grant: SignalGrant, issued_at: datetime) -> SignalCaller | None:
        parameters = {
            "session": grant.session,
            "user": grant.user,
            "scopes": array_of_texts(grant.scopes),
            "issued_at": issued_at,
        }
        return first_made(await ask(self._pool, _Caller, _CALLER_GRANTED, parameters), lambda row: row.granted(grant))

    async def find_again(self, caller: SignalCaller) -> SignalCaller | None:
        if caller.grant is None:
            return await self.find(caller.service, caller.client, caller.issued_at)
        return await self.find_granted(caller.grant, caller.issued_at)


# A token from before the application lost a credential may be that of somebody who found the credential. Tokens name the second of their
# issue.
_HOLDS: Final[LiteralString] = f"""organizations.status = 'active' and {AUTHENTICATES}
       and coalesce(%(issued_at)s::timestamptz >= date_trunc('second', services.credential_removed_at), true)"""
_OF_CALLER: Final = """
    select services.id as service_id, services.slug as service_slug, services.org_id, organizations.slug as organization_slug,
           services.oauth_client_id as client_id, signal_settings.events, signal_settings.hosts, %(issued_at)s::timestamptz as issued_at
"""
_ITS_SETTINGS: Final = """
      join organizations on organizations.id = services.org_id
      left join signal_settings on signal_settings.service_id = services.id
"""

_CALLER: Final[LiteralString] = f"""
    {_OF_CALLER}
      from services
      {_ITS_SETTINGS}
     where services.id = %(service)s and services.oauth_client_id = %(client)s and {_HOLDS}
"""

# A session that somebody else opened in the person's name has no such scopes. Should it ever have them, they count for nothing.
_CALLER_GRANTED: Final[LiteralString] = f"""
    {_OF_CALLER}
      from sessions
      join users on users.id = sessions.user_id
      join services on services.id = sessions.service_id
      {_ITS_SETTINGS}
     where sessions.id = %(session)s and sessions.user_id = %(user)s and {IS_LIVE.strip()}
       and sessions.scopes @> %(scopes)s::text[] and sessions.impersonator_id is null and sessions.exchanged_from is null
       and not services.is_agent and {_HOLDS}
       and {grants("services.id", "sessions.user_id", "%(scopes)s::text[]")}
"""


class _Claim(Frozen):
    """One row of nulls when nothing was claimed."""

    last: UUID | None
    id: UUID | None
    lease: UUID
    org_id: UUID
    url: str | None
    client_id: str
    sealed_header: bytes | None

    def claimed(self, *, failing: bool) -> ClaimedStream | None:
        if self.id is None or self.url is None:
            return None
        return ClaimedStream(
            id=self.id,
            organization=OrganizationId(self.org_id),
            url=self.url,
            is_failing=failing,
            lease=self.lease,
            client=ClientId(self.client_id),
            sealed_header=self.sealed_header,
        )


class DueEventRow(Frozen):
    id: UUID
    attempts: int
    request_id: UUID | None
    stream_id: UUID
    event_id: UUID
    name: str
    org_id: UUID
    user_id: UUID | None
    details: dict[str, Json]
    occurred_at: datetime
    created_at: datetime
    waited: timedelta

    def due(self) -> DueSignal:
        return DueSignal(
            id=self.id,
            attempts=self.attempts,
            request=self.request_id,
            event=self.name,
            user=None if self.user_id is None else UserId(self.user_id),
            stream=SignalStreamId(self.stream_id),
            transaction=transaction_of(str(self.event_id), OrganizationId(self.org_id)),
            happened_at=self.occurred_at,
            queued_at=self.created_at,
            details=self.details,
            waited=self.waited,
        )


class DueNoticeRow(Frozen):
    id: UUID
    attempts: int
    stream_id: UUID
    org_id: UUID
    user_id: UUID
    created_at: datetime
    by_policy: bool
    waited: timedelta

    def due(self) -> DueSignal:
        return DueSignal(
            id=self.id,
            attempts=self.attempts,
            event=None,
            user=UserId(self.user_id),
            stream=SignalStreamId(self.stream_id),
            # All streams of an organization hear of one act at one moment.
            transaction=transaction_of(f"{self.user_id} {self.created_at.isoformat()}", OrganizationId(self.org_id)),
            happened_at=self.created_at,
            queued_at=self.created_at,
            details={},
            by_policy=self.by_policy,
            waited=self.waited,
        )


STREAM_JOINS: Final = "join services on services.id = signal_streams.service_id join organizations on organizations.id = services.org_id"
_MAY_BE_CALLED: Final[LiteralString] = f"signal_streams.method = 'push' and signal_streams.status = 'enabled' and {GRANT_STANDS} and {{}}"
_ACTIVE: Final = "organizations.status = 'active'"
# A stream of a suspended organization hears that it is paused, and nothing more.
_OR_PAUSES: Final[LiteralString] = f"""({_ACTIVE} or exists (
               select from webhook_deliveries as pausing
                where pausing.webhook_id = signal_streams.id and pausing.next_at <= now() and pausing.event_name = '{PAUSING_EVENT}'
           ))"""
_COLUMNS: Final = "claimed.id, services.org_id, claimed.endpoint as url, services.oauth_client_id as client_id, claimed.sealed_header"
_CLAIMED_JOINS: Final = "left join services on services.id = claimed.service_id"

# How many of the rows that wait for a stream one look reads.
_LOOKED_AT: Final = "200"

# A condition on `events` and `signal_streams`: the event is about the stream itself or the organization, or about a person who still is
# there by their own act.
_STANDS: Final[LiteralString] = f"""(
               case
                   when events.target_type <> 'user' or events.name = '{PURGED_EVENT}' then true
                   else exists (
                            select from service_users
                             where service_users.service_id = signal_streams.service_id and service_users.user_id = events.target_id::uuid
                               and {IS_OWN_USE}
                            offset 0
                        )
                    and {is_own_member("events.organization_id", "events.target_id::uuid")}
               end
           )"""

_CLAIMED: Final = "signal_streams.id = %(receiver)s and signal_streams.lease = %(lease)s"
# What was pushed in vain, before the stream was polled, waits for no moment.
POLLED: Final[LiteralString] = f"""
    signal_streams.id = %(receiver)s and signal_streams.method = 'poll' and signal_streams.status = 'enabled' and {GRANT_STANDS}
"""


def given_up(stream: LiteralString, waits: LiteralString) -> LiteralString:
    """What may not be told any more is given up, and no attempt is made."""
    return f"""
         over as (
             update webhook_deliveries
                set next_at = null, error = '{WITHDRAWN}', updated_at = now()
               from signal_streams, events
              where {stream} and webhook_deliveries.webhook_id = signal_streams.id and {waits}
                and events.id = webhook_deliveries.event_id
                and not {_STANDS}
          returning webhook_deliveries.id
         )
    """


# Every event but ended sessions is a row of `webhook_deliveries` of the kind `signal`, which the statement that publishes the event writes
# (`record/events.py`).
SIGNALS: Final[DeliveryTables[ClaimedStream, DueSignal]] = DeliveryTables(
    waiting="webhook_deliveries",
    of="webhook_id",
    receivers="signal_streams",
    key="id",
    joins=STREAM_JOINS,
    may_be_called=_MAY_BE_CALLED.format(_OR_PAUSES),
    row=_Claim,
    columns=_COLUMNS,
    claimed_joins=_CLAIMED_JOINS,
    due_row=DueEventRow,
    due_columns="""deliveries.request_id, deliveries.webhook_id as stream_id, events.id as event_id, events.name, services.org_id,
           case when events.target_type = 'user' then events.target_id::uuid end as user_id, events.details, events.occurred_at,
           deliveries.created_at, now() - deliveries.next_at as waited""",
    due_joins="join events on events.id = deliveries.event_id and events.organization_id = services.org_id",
    due_order="deliveries.event_id",
    may_go=f"({_ACTIVE} or webhook_deliveries.event_name = '{PAUSING_EVENT}')",
    over=given_up(_CLAIMED, "webhook_deliveries.next_at <= now()"),
)


def ended_sessions(stream: LiteralString, waits: LiteralString) -> LiteralString:
    """The rows of one person that wait for a stream, made within a second of each other, are one event: that of the first of them. A row is
    told if its statement, or a later one, ended all sessions of the person at the application, or if none lives there now.
    """
    rows: LiteralString = f"""
             select looked.id, looked.user_id, looked.created_at,
                    looked.created_at - lag(looked.created_at) over mine <= interval '1 second' as follows,
                    bool_or(looked.ended_all) over (
                        partition by looked.user_id order by looked.created_at desc, looked.id desc
                    ) as ends_all,
                    looked.ended_all,
                    exists (
                        select from sessions
                         where sessions.user_id = looked.user_id and sessions.service_id = looked.service_id
                           and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
                        offset 0
                    ) as lives
               from (
                        select logout_notices.*
                          from signal_streams
                          join logout_notices on logout_notices.stream_id = signal_streams.id
                         where {stream} and {waits}
                         order by logout_notices.tell_at
                         limit {_LOOKED_AT}
                    ) as looked
             window mine as (partition by looked.user_id order by looked.created_at, looked.id)
    """
    return f"""
         looked as materialized ({rows}),
         raised as (
             update logout_notices set ended_all = true
               from looked
              where logout_notices.id = looked.id and looked.ends_all and not looked.ended_all and looked.follows is not true
         ),
         over as (
             update logout_notices
                set tell_at = null, updated_at = now(),
                    error = case when looked.follows then '{MERGED}' else '{WITHDRAWN}' end
               from looked
              where logout_notices.id = looked.id and (looked.follows or looked.lives and not looked.ends_all)
          returning logout_notices.id
         )
    """


# Ended sessions are rows of `logout_notices`, which `noticing` writes (`identity/sessions/parts.py`).
SESSION_SIGNALS: Final[DeliveryTables[ClaimedStream, DueSignal]] = DeliveryTables(
    waiting="logout_notices",
    of="stream_id",
    at="tell_at",
    receivers="signal_streams",
    key="id",
    joins=STREAM_JOINS,
    may_be_called=_MAY_BE_CALLED.format(_ACTIVE),
    row=_Claim,
    columns=_COLUMNS,
    claimed_joins=_CLAIMED_JOINS,
    due_row=DueNoticeRow,
    due_columns="""deliveries.stream_id, services.org_id, deliveries.user_id, deliveries.created_at, deliveries.by_policy,
           now() - deliveries.tell_at as waited""",
    due_order="deliveries.id",
    may_go=_ACTIVE,
    over=ended_sessions(_CLAIMED, "logout_notices.tell_at <= now()"),
)

# The janitor gives up what no stream has heard of within 7 days, and what is behind the newest 10 000 of a stream.
_WAITING: Final = """
                                   select id, 'webhook_deliveries' as place, created_at
                                     from webhook_deliveries
                                    where webhook_id = signal_streams.id and next_at is not null
                                    union all
                                   select id, 'logout_notices', created_at
                                     from logout_notices
                                    where stream_id = signal_streams.id and tell_at is not null
"""


def _forsaking(table: LiteralString, at: LiteralString, lost: LiteralString = "") -> LiteralString:
    """A stream whose signals are given up hears of it, once until it has heard. `lost` are rows whose stream is gone."""
    return f"""
    with old as materialized (
             select signal_streams.id as stream, late.id
               from signal_streams
              cross join lateral (
                        select id
                          from (
                                   select waiting.*, row_number() over (order by waiting.created_at desc) as number
                                     from ({_WAITING}) as waiting
                               ) as numbered
                         where place = '{table}' and (number > {MOST_WAITING} or created_at < now() - interval '{KEPT_FOR.days} days')
                    ) as late
              where {BELIEVED}
              {lost}
              limit %(limit)s
         ),
         forsaken as materialized (
             select {table}.id, old.stream
               from old
               join {table} on {table}.id = old.id
              where {table}.{at} is not null
                for update of {table} skip locked
         ),
         dropped as (
             insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
             select {NEW_ID}, '{DROPPED_EVENT}', services.org_id, 'signal_stream', signal_streams.id::text,
                    jsonb_build_object('service_id', services.id, 'dropped', several.number), now()
               from (select stream, count(*) as number from forsaken group by stream) as several
               join signal_streams on signal_streams.id = several.stream
               join services on services.id = signal_streams.service_id
              where not exists (
                        select from webhook_deliveries as known
                         where known.webhook_id = several.stream and known.next_at is not null and known.event_name = '{DROPPED_EVENT}'
                           and known.id not in (select id from forsaken)
                    )
          returning {PUBLISHED}
         ),
         queued as ({signalled("dropped as told")})
  update {table}
     set {at} = null, error = coalesce(error, 'not told'), updated_at = now()
   where id in (select id from forsaken)
"""


FORSAKE_SIGNALS: Final[LiteralString] = _forsaking("webhook_deliveries", "next_at")
FORSAKE_SESSION_SIGNALS: Final[LiteralString] = _forsaking(
    "logout_notices",
    "tell_at",
    # No notice refers to its stream.
    f"""
              union all
             select stream_id, id
               from logout_notices
              where {BELIEVED} and tell_at is not null
                and not exists (select from signal_streams where signal_streams.id = logout_notices.stream_id)
    """,
)

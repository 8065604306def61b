"""Reads what receivers of an organization were sent because of entries of its audit log."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.record.audit import target_of, target_user
from adapters.postgres.statements import OnPool, ask_for_many
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.record.entry_receivers import (
    ENDS_SESSIONS,
    MOST_OFFBOARDING,
    MOST_RECEIVERS,
    NOTICED_AFTER,
    NOTICED_BEFORE,
    OFFBOARDING_ACTIONS,
    SKIPPED,
    LoggedAct,
    ReceiverFacts,
)
from core.domain.record.event_types import EVENT_TYPES
from core.domain.record.signals import PURGED_EVENT, SIGNALLED_EVENTS, SignalType
from core.frozen import names_of
from ports.record import ActFacts

_PUBLISHED: Final = [one.name for one in EVENT_TYPES if one.published]
_SIGNALLED: Final[Mapping[str, str]] = {name: kind.value for name, kind in SIGNALLED_EVENTS.items()}


class PostgresEntryReceivers(OnPool):
    """Implements `ports.record.EntryReceiverLookup`.

    One statement reads all kinds of receivers. It begins with entries of this organization, and every receiver is one of this organization.
    Each part takes its rows by an index: events by organization and ID, deliveries by receiver and event, notices by application and ID,
    runs by user.
    """

    async def of_entry(self, organization: OrganizationId, entry: AuditEntryId) -> ActFacts | None:
        found = await self._ask(OF_ENTRY, {"organization": organization, "entry": entry})
        return found[0] if found else None

    async def of_person(self, organization: OrganizationId, person: UserId) -> Sequence[ActFacts]:
        asked = {"organization": organization, "person": str(person), "offboarding": list(OFFBOARDING_ACTIONS)}
        return await self._ask(OF_PERSON, {**asked, "most_acts": MOST_OFFBOARDING})

    async def open_of_entries(self, organization: OrganizationId, entries: Sequence[AuditEntryId]) -> Sequence[ActFacts]:
        return await self._ask(OPEN_OF_ENTRIES, {"organization": organization, "entries": list(entries)})

    async def _ask(self, statement: LiteralString, asked: Mapping[str, Any]) -> Sequence[ActFacts]:
        parameters = {
            **asked,
            "published": _PUBLISHED,
            "signalled": list(_SIGNALLED),
            "signals": list(_SIGNALLED.values()),
            "ends_sessions": list(ENDS_SESSIONS),
            "before": NOTICED_BEFORE,
            "after": NOTICED_AFTER,
            "most": MOST_RECEIVERS + 1,
        }
        found: dict[UUID, tuple[LoggedAct, list[ReceiverFacts]]] = {}
        for act, facts in await ask_for_many(self._pool, _row, statement, parameters, lambda one: one):
            receivers = found.setdefault(act.id, (act, []))[1]
            if facts is not None:
                receivers.append(facts)
        return [ActFacts(act, receivers) for act, receivers in found.values()]


def _row(
    *,
    act_id: UUID,
    action: str,
    target_type: str,
    target_id: str,
    act_at: datetime,
    act_number: int | None,
    kind: str | None,
    **columns: Any,
) -> tuple[LoggedAct, ReceiverFacts | None]:
    """An entry without receivers is one row without a kind."""
    act = LoggedAct(
        id=AuditEntryId(act_id), action=action, target_type=target_type, target_id=target_id, created_at=act_at, number=act_number
    )
    return act, None if kind is None else ReceiverFacts(kind=kind, **columns)


# The columns of each part, with the types of those that a part does not have.
_COLUMNS: Final[Mapping[LiteralString, LiteralString]] = {
    "kind": "null::text",
    "receiver": "null::uuid",
    "name": "null::text",
    "service_slug": "null::text",
    "address": "null::text",
    "is_on": "false",
    "made_at": "null::timestamptz",
    "gone_at": "null::timestamptz",
    "what": "null::text",
    "of_that_time": "false",
    "is_addressed": "false",
    "sent": "0",
    "waiting": "0",
    "given_up": "0",
    "queued_at": "null::timestamptz",
    "attempted_at": "null::timestamptz",
    "received_at": "null::timestamptz",
    "attempts": "0",
    "next_at": "null::timestamptz",
    "status_code": "null::int",
    "error": "null::text",
    "entry_number": "null::bigint",
    "exported_to": "null::bigint",
    "done": "null::text",
    "done_at": "null::timestamptz",
    "marked_at": "null::timestamptz",
    "is_held": "null::boolean",
    "is_due": "null::boolean",
    "place": "null::text",
    "is_active_there": "null::boolean",
    "changed_at": "null::timestamptz",
    "is_tied": "null::boolean",
}
assert tuple(_COLUMNS) == names_of(ReceiverFacts)  # noqa: S101 - a bug in this file stops the import


_READ: Final[LiteralString] = ", ".join(f"told.{name}" for name in _COLUMNS)


def _part(rows: LiteralString, **said: LiteralString) -> LiteralString:
    """The receivers of one kind. `rows` joins them to the row `acts`."""
    columns: LiteralString = ", ".join(f"{said.get(name, none)} as {name}" for name, none in _COLUMNS.items())
    return f"select acts.id as act_id, {columns} {rows}"


def _id_at(moment: LiteralString) -> LiteralString:
    """`core.domain.identifiers.first_id`."""
    return f"(lpad(to_hex((extract(epoch from {moment}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid"


_SKIPPED: Final[LiteralString] = ", ".join(f"'{error}'" for error in SKIPPED)
_IS_MEANT: Final[LiteralString] = f"coalesce(error, '') not in ({_SKIPPED})"

# What a delivery says. Without a delivery, all of it is null.
_DELIVERED: Final[Mapping[str, LiteralString]] = {
    "sent": "(told.id is not null)::int",
    "waiting": "(told.next_at is not null)::int",
    "given_up": "(told.id is not null and told.next_at is null and told.delivered_at is null)::int",
    "queued_at": "told.created_at",
    "attempted_at": "told.updated_at",
    "received_at": "told.delivered_at",
    "attempts": "coalesce(told.attempts, 0)",
    "next_at": "told.next_at",
    "status_code": "told.status_code",
    "error": "told.error",
}


def _delivery(receiver: LiteralString, event: LiteralString, kind: LiteralString) -> LiteralString:
    """One step in the unique index of the one month that has the event."""
    return f"""(
                select *
                  from webhook_deliveries
                 where webhook_deliveries.webhook_id = {receiver} and webhook_deliveries.event_id = {event}
                   and webhook_deliveries.kind = '{kind}' and {_IS_MEANT}
                 limit 1
           )"""


# Notices of the person's sessions at the service, by the time of their ids.
def _notices(stream: LiteralString) -> LiteralString:
    return f"""(
                select count(*)::int as sent,
                       (count(*) filter (where coalesce(next_at, tell_at) is not null))::int as waiting,
                       (count(*) filter (where next_at is null and tell_at is null and delivered_at is null))::int as given_up,
                       min(created_at) as created_at, max(updated_at) as updated_at, max(delivered_at) as delivered_at,
                       max(attempts)::int as attempts, min(coalesce(next_at, tell_at)) as next_at,
                       (array_agg(status_code order by delivered_at is not null, updated_at desc))[1]::int as status_code,
                       (array_agg(error order by delivered_at is not null, updated_at desc))[1] as error
                  from logout_notices
                 where logout_notices.service_id = services.id and logout_notices.id >= acts.from_id and logout_notices.id < acts.to_id
                   and logout_notices.user_id = acts.person and logout_notices.stream_id {stream}
                   and {_IS_MEANT}
           )"""


_NOTICED: Final[Mapping[str, LiteralString]] = {
    "of_that_time": "true",
    "is_addressed": "true",
    "sent": "told.sent",
    "waiting": "told.waiting",
    "given_up": "told.given_up",
    "queued_at": "told.created_at",
    "attempted_at": "told.updated_at",
    "received_at": "told.delivered_at",
    "attempts": "coalesce(told.attempts, 0)",
    "next_at": "told.next_at",
    "status_code": "told.status_code",
    "error": "told.error",
}

_WEBHOOK: Final[Mapping[str, LiteralString]] = {
    "kind": "'webhook'",
    "receiver": "webhooks.id",
    "name": "webhooks.name",
    "address": "webhooks.url",
    "is_on": "webhooks.is_active",
    "made_at": "webhooks.created_at",
}
_STREAM: Final[Mapping[str, LiteralString]] = {
    "kind": "'signal'",
    "receiver": "streams.id",
    "name": "services.name",
    "service_slug": "services.slug",
    "address": "streams.endpoint",
    "is_on": "streams.status = 'enabled'",
    "made_at": "streams.created_at",
}
_SERVICE: Final[Mapping[str, LiteralString]] = {
    "receiver": "services.id",
    "name": "services.name",
    "service_slug": "services.slug",
    "made_at": "services.created_at",
}
_STREAMS: Final = """
      join services on services.org_id = %(organization)s
      join signal_streams as streams on streams.service_id = services.id"""

_WEBHOOKS: Final[LiteralString] = _part(
    f"""
      from acts
      join webhooks on webhooks.org_id = %(organization)s
      left join published on published.act_id = acts.id and published.is_own
      left join lateral {_delivery("webhooks.id", "published.id", "webhook")} as told on true
    """,
    **_WEBHOOK,
    **_DELIVERED,
    what="acts.action",
    is_addressed="acts.is_published",
)
_SIGNALS: Final[LiteralString] = _part(
    f"""
      from acts {_STREAMS}
      left join published on published.act_id = acts.id and published.is_own
      left join lateral {_delivery("streams.id", "published.id", "signal")} as told on true
     where acts.signal is not null
    """,
    **_STREAM,
    **_DELIVERED,
    what="acts.signal",
    is_addressed="true",
)
# The end of the account is an event of its own, which only those hear who knew the person.
_PURGED_WEBHOOKS: Final[LiteralString] = _part(
    f"""
      from acts
      join published on published.act_id = acts.id and not published.is_own
      join webhooks on webhooks.org_id = %(organization)s
      join lateral {_delivery("webhooks.id", "published.id", "webhook")} as told on true
    """,
    **_WEBHOOK,
    **_DELIVERED,
    what=f"'{PURGED_EVENT}'",
    of_that_time="true",
    is_addressed="true",
)
_PURGED_SIGNALS: Final[LiteralString] = _part(
    f"""
      from acts
      join published on published.act_id = acts.id and not published.is_own {_STREAMS}
      join lateral {_delivery("streams.id", "published.id", "signal")} as told on true
    """,
    **_STREAM,
    **_DELIVERED,
    what=f"'{SignalType.ACCOUNT_PURGED}'",
    of_that_time="true",
    is_addressed="true",
)
_SESSION_SIGNALS: Final[LiteralString] = _part(
    f"""
      from acts {_STREAMS}
     cross join lateral {_notices("= streams.id")} as told
     where acts.ends_sessions and ('{SignalType.SESSION_REVOKED}' = any (streams.events) or told.sent > 0)
    """,
    **_STREAM,
    **_NOTICED,
    what=f"'{SignalType.SESSION_REVOKED}'",
)
_LOGOUT_NOTICES: Final[LiteralString] = _part(
    f"""
      from acts
      join services on services.org_id = %(organization)s
     cross join lateral {_notices("is null")} as told
     where acts.ends_sessions and (services.backchannel_logout_uri is not null or told.sent > 0)
    """,
    **_SERVICE,
    **_NOTICED,
    kind="'logout_notice'",
    address="services.backchannel_logout_uri",
    is_on="services.backchannel_logout_uri is not null",
    what="'logout_token'",
)
_FRONT_CHANNEL: Final[LiteralString] = _part(
    """
      from acts
      join services on services.org_id = %(organization)s
     cross join lateral (select services.frontchannel_logout_uri as address) as frames
     where acts.ends_sessions and frames.address is not null
    """,
    **_SERVICE,
    kind="'front_channel'",
    address="frames.address",
    is_on="true",
    of_that_time="true",
    is_addressed="true",
)
# The first run since that did something with the person. A run that waits for an owner names whom it would end.
_PROVISIONING: Final[LiteralString] = _part(
    """
      from acts
      join provisioning_connections as connections on connections.org_id = %(organization)s
      join services on services.id = connections.service_id
      left join lateral (
                select * from provisioned_people where connection_id = connections.id and user_id = acts.person limit 1
           ) as people on true
      left join lateral (
                select marked_at from provisioning_marks where connection_id = connections.id and user_id = acts.person limit 1
           ) as marks on true
      left join lateral (
                select named.what, runs.ended_at
                  from provisioning_run_people as named
                  join provisioning_runs as runs on runs.id = named.run_id
                 where named.user_id = acts.person and runs.connection_id = connections.id and runs.begun_at >= acts.created_at
                   and runs.ended_at is not null and runs.kind <> 'plan' and named.what <> 'left_out'
                   and (named.what <> 'ended' or runs.state in ('done', 'failed'))
                 order by runs.begun_at
                 limit 1
           ) as done on true
     where acts.person is not null and acts.success
    """,
    kind="'provisioning'",
    receiver="connections.id",
    name="services.name",
    service_slug="services.slug",
    address="connections.base_url",
    is_on="connections.state in ('active', 'ending')",
    made_at="connections.made_at",
    is_addressed="true",
    attempts="coalesce(people.tries, 0)",
    error="people.why",
    done="done.what",
    done_at="done.ended_at",
    marked_at="marks.marked_at",
    is_held="""(
               coalesce(acts.person = any (connections.taken), false)
            or exists (
                   select from provisioning_run_people as held
                    where held.run_id = connections.held_run and held.user_id = acts.person and held.what = 'ended'
                   offset 0
               )
           )""",
    is_due="""(
               coalesce(connections.whole_due_at <= now(), false)
           and (connections.whole_at is null or connections.whole_at < acts.created_at)
           )""",
    place="people.state",
    is_active_there="people.active",
    changed_at="people.changed_at",
    is_tied="""exists (
               select from memberships where memberships.org_id = %(organization)s and memberships.user_id = acts.person offset 0
           )""",
)
_SIEM: Final[LiteralString] = _part(
    """
      from acts
      join siem_configurations as exports on exports.org_id = %(organization)s
     cross join lateral (select exports.endpoint_url as address) as hosts
    """,
    kind="'siem'",
    receiver="exports.id",
    name="exports.name",
    address="hosts.address",
    is_on="exports.is_active",
    is_addressed="true",
    attempts="exports.failures",
    next_at="case when exports.is_active then exports.next_at end",
    error="exports.last_error",
    entry_number="acts.number",
    exported_to="exports.audit_sequence",
)

# What was deleted since, as the organization's own log says. Ids begin with the time: what was made after the entry is not among them.
_GONE_KINDS: Final[Mapping[str, LiteralString]] = {
    "webhook.deleted": "webhook",
    "signal_stream.deleted": "signal",
    "service.provisioning.deleted": "provisioning",
    "service.provisioning.ended": "provisioning",
    "siem.removed": "siem",
    "service.deleted": "application",
}
_GONE_VALUES: Final[LiteralString] = ", ".join(f"('{action}', '{kind}')" for action, kind in _GONE_KINDS.items())
_MOST_GONE: Final = 50
_GONE: Final[LiteralString] = _part(
    f"""
      from acts
     cross join (values {_GONE_VALUES}) as kinds (action, kind)
     cross join lateral (
                select created_at, details,
                       coalesce({target_of("ends", "webhook")}, {target_of("ends", "signal_stream")}, {target_of("ends", "siem")},
                                {target_of("ends", "service")}) as target
                  from audit_entries as ends
                 where ends.organization_id = %(organization)s and ends.action = kinds.action and ends.created_at >= acts.created_at
                   and ends.success
                 order by ends.created_at desc
                 limit {_MOST_GONE}
           ) as ends
     where ends.target < {_id_at("acts.created_at")}
    """,
    kind="kinds.kind",
    receiver="ends.target",
    name="coalesce(ends.details ->> 'name', ends.details ->> 'service_name', ends.details ->> 'service_slug', '')",
    service_slug="ends.details ->> 'service_slug'",
    gone_at="ends.created_at",
)

_PARTS: Final = (
    _WEBHOOKS,
    _SIGNALS,
    _PURGED_WEBHOOKS,
    _PURGED_SIGNALS,
    _SESSION_SIGNALS,
    _LOGOUT_NOTICES,
    _FRONT_CHANNEL,
    _PROVISIONING,
    _SIEM,
    _GONE,
)


def _heard(entries: LiteralString, which: LiteralString = "true") -> LiteralString:
    """The receivers of these entries, which are rows of `audit_entries`. Those that have not accepted something come first."""
    parts: LiteralString = "\n union all\n".join(_PARTS)
    return f"""
    with acts as materialized (
             select entries.id, entries.action, entries.target_type, entries.target_id, entries.created_at, entries.request_id,
                    links.sequence as number,
                    entries.success, {target_user("entries")} as person,
                    entries.success and entries.action = any (%(published)s::text[]) as is_published,
                    case when entries.success then signals.type end as signal,
                    entries.success and entries.action = any (%(ends_sessions)s::text[]) and entries.target_type = 'user' as ends_sessions,
                    {_id_at("(entries.created_at - %(before)s::interval)")} as from_id,
                    {_id_at("(entries.created_at + %(after)s::interval)")} as to_id
               from ({entries}) as entries
               left join lateral (select sequence from audit_links where audit_links.entry_id = entries.id limit 1) as links on true
               left join unnest(%(signalled)s::text[], %(signals)s::text[]) as signals (action, type) on signals.action = entries.action
         ),
         published as materialized (
             select acts.id as act_id, events.id, true as is_own
               from acts
              cross join lateral (
                        select events.id
                          from events
                         where events.organization_id = %(organization)s and events.id >= acts.from_id and events.id < acts.to_id
                           and events.name = acts.action and events.target_type = acts.target_type and events.target_id = acts.target_id
                           and events.occurred_at = acts.created_at and events.request_id is not distinct from acts.request_id
                         limit 1
                    ) as events
              where acts.is_published
              union all
             select acts.id, events.id, false
               from acts
              cross join lateral (
                        select events.id
                          from events
                         where events.organization_id = %(organization)s and events.id >= acts.from_id and events.id < acts.to_id
                           and events.name = '{PURGED_EVENT}' and events.target_id = acts.target_id
                         limit 1
                    ) as events
              where acts.success and acts.action in ('user.removed', 'user.anonymized')
         ),
         receivers as materialized (
             {parts}
         )
  select acts.id as act_id, acts.action, acts.target_type, acts.target_id, acts.created_at as act_at, acts.number as act_number, {_READ}
    from acts
    left join lateral (
              select *
                from receivers
               where receivers.act_id = acts.id and {which}
               order by receivers.waiting + receivers.given_up > 0 desc, receivers.gone_at is null desc, receivers.kind, receivers.name,
                        receivers.receiver, receivers.what
               limit %(most)s
         ) as told on true
   order by acts.created_at desc, acts.id desc
"""


OF_ENTRY: Final[LiteralString] = _heard("""
                        select * from audit_entries where id = %(entry)s and organization_id = %(organization)s
                    """)

# The newest entries about the person, whatever they say, are read by their index; a person has few of them.
_MOST_READ: Final = 2_000
OF_PERSON: Final[LiteralString] = _heard(f"""
                        select newest.*
                          from (
                                   select *
                                     from audit_entries
                                    where organization_id = %(organization)s and target_type = 'user' and target_id = %(person)s
                                    order by created_at desc, id desc
                                    limit {_MOST_READ}
                               ) as newest
                         where newest.action = any (%(offboarding)s::text[]) and newest.success
                         order by newest.created_at desc, newest.id desc
                         limit %(most_acts)s
                    """)

# What provisioning has not done yet no column says by itself.
OPEN_OF_ENTRIES: Final[LiteralString] = _heard(
    """
                        select * from audit_entries where id = any (%(entries)s::uuid[]) and organization_id = %(organization)s
                    """,
    "(receivers.waiting + receivers.given_up > 0 or receivers.kind = 'provisioning')",
)

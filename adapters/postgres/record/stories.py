"""Stories of requests, read from all tables whose rows name a request. No table has an index of requests, because such an index would cost
every write. The rows of a moment are found by their ids, which begin with the time, and then by the request.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import sealing_context
from adapters.postgres.statements import ask
from core.domain.identifiers import JobId, first_id
from core.domain.record.stories import MOST_ROWS, SoughtStory, Story, StoryRow
from ports.crypto import CannotOpen, KeyRing


def _row(
    keyring: KeyRing,
    /,
    *,
    id: UUID,  # noqa: A002 - the column's name
    sealed_payload: bytes | None,
    **columns: Any,
) -> StoryRow:
    return StoryRow(id=id, recipient=None if sealed_payload is None else _recipient(keyring, id, sealed_payload), **columns)


def _recipient(keyring: KeyRing, job: UUID, sealed: bytes) -> str | None:
    """The domain that a mail goes to. Nothing else of the mail is told: it may hold a link that lets its holder in."""
    try:
        payload: Mapping[str, object] = json.loads(keyring.open(sealed, sealing_context(JobId(job))))
    except (CannotOpen, ValueError):
        return None
    address = payload.get("to", payload.get("email"))
    return f"***@{address.rpartition('@')[2]}" if isinstance(address, str) else None


class PostgresStories:
    """Implements `ports.record.Stories`."""

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    async def find(self, sought: SoughtStory) -> Story:
        parameters = {
            "request": sought.request,
            "tail": sought.tail,
            "since": sought.since,
            "until": sought.until,
            "first": first_id(sought.since),
            "last": first_id(sought.until),
            "limit": MOST_ROWS + 1,
        }
        rows = await ask(self._pool, partial(_row, self._keyring), _FIND, parameters)
        return Story(sought, rows[:MOST_ROWS], is_whole=len(rows) <= MOST_ROWS)


_OF_REQUEST: Final = "(request_id = %(request)s::uuid or right(request_id::text, 22) = %(tail)s)"
_BY_ID: Final[LiteralString] = f"id >= %(first)s::uuid and id < %(last)s::uuid and {_OF_REQUEST}"

# A delivery that a replay queues has an id with the time of its old event, so deliveries are found by their own time. For an audit entry
# and a sign-in, the state tells how far its export to the organization's SIEM has come.
_FIND: Final[LiteralString] = f"""
    with entries as materialized (
             select * from audit_entries where {_BY_ID} order by id limit %(limit)s
         ),
         published as materialized (
             select * from events where {_BY_ID} order by id limit %(limit)s
         ),
         sign_ins as materialized (
             select * from login_events where {_BY_ID} order by id limit %(limit)s
         ),
         deliveries as materialized (
             select *
               from webhook_deliveries
              where created_at >= %(since)s and created_at < %(until)s and {_OF_REQUEST}
              order by created_at, id
              limit %(limit)s
         ),
         queued as materialized (
             select * from jobs where {_BY_ID} order by id limit %(limit)s
         ),
         told as (
             select entries.created_at as at, 'audit entry' as noun, 1 as place, entries.id, entries.request_id, entries.organization_id,
                    entries.actor_id, concat_ws(' ', entries.action, entries.target_type, entries.target_id,
                              'agent ' || (entries.details ->> 'agent')) as what,
                    concat_ws(', ', case when not entries.success then 'failed' end,
                              coalesce('number ' || links.sequence || ' of its log', 'not linked yet'),
                              case when siem.id is null then null
                                   when links.sequence <= siem.audit_sequence then 'the SIEM has it'
                                   else 'waits for the SIEM'
                              end) as state,
                    null::integer as attempts, null::timestamptz as next_at, null::text as error, null::bytea as sealed_payload
               from entries
               left join audit_links as links on links.entry_id = entries.id
               left join siem_configurations as siem on siem.org_id = entries.organization_id and siem.is_active
          union all
             select occurred_at, 'event', 2, id, request_id, organization_id, actor_id,
                    concat_ws(' ', name, target_type, target_id, 'agent ' || (details ->> 'agent')),
                    'published', null, null, null, null
               from published
          union all
             select sign_ins.created_at, 'sign-in', 0, sign_ins.id, sign_ins.request_id, sign_ins.organization_id,
                    case when sign_ins.success then sign_ins.user_id end,
                    concat_ws(' ', sign_ins.provider, 'user ' || sign_ins.user_id, 'service ' || sign_ins.service_id),
                    concat_ws(', ', case when sign_ins.success then 'succeeded' else 'failed: ' || coalesce(sign_ins.reason, 'unknown') end,
                              case when sign_ins.flagged then 'flagged' end,
                              case when exists (select from sign_in_pending where event_id = sign_ins.id)
                                   then 'waits for its number for the SIEM'
                              end),
                    null, null, null, null
               from sign_ins
          union all
             select deliveries.updated_at, 'delivery', 3, deliveries.id, deliveries.request_id, webhooks.org_id, null,
                    concat_ws(' ', deliveries.event_name, 'to webhook', deliveries.webhook_id),
                    concat_ws(', ', case when deliveries.delivered_at is not null then 'delivered'
                                         when deliveries.next_at is not null then 'waiting'
                                         else 'given up'
                                    end,
                              'answered ' || deliveries.status_code),
                    deliveries.attempts, deliveries.next_at, deliveries.error, null
               from deliveries
               left join webhooks on webhooks.id = deliveries.webhook_id
          union all
             select created_at, case when is_mail then 'mail' else 'job' end, 4, id, request_id, null, null, kind, state, attempts,
                    case when state = 'waiting' then run_at end, last_error, case when is_mail then sealed_payload end
               from queued
              cross join lateral (select kind in ('mail', 'mail.organization', 'account.mail') as is_mail) as kinds
         )
  select told.at, told.noun, told.id, told.request_id as request, coalesce(organizations.slug, told.organization_id::text) as organization,
         told.actor_id as actor, told.what, told.state, told.attempts, told.next_at, told.error, told.sealed_payload
    from told
    left join organizations on organizations.id = told.organization_id
   order by told.at, told.place, told.id
   limit %(limit)s
"""

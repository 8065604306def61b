"""Deadlines for offboarding, and the acts whose receivers are watched."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from adapters.postgres.columns import Columns, CountRow
from adapters.postgres.statements import OnStatements, first, only
from adapters.postgres.tenancy.members import owners
from core.domain.identifiers import OrganizationId
from core.domain.tenancy.offboarding import ACTS, LEASE, OVERLAP, ActJudgment, OffboardingDeadline, WatchedAct
from ports.tenancy.organizations import LateCount
from ports.tenancy.receivers import Owner

DEADLINE: Final = Columns(OffboardingDeadline, "offboarding_deadlines", named={"organization": "org_id"})


class OffboardingDeadlineRows(OnStatements):
    """Implements `ports.tenancy.organizations.OffboardingDeadlineStore`."""

    async def find(self, organization: OrganizationId) -> OffboardingDeadline | None:
        return first(await self._statements.ask(DEADLINE.row, _FIND, {"organization": organization}))

    async def save(self, deadline: OffboardingDeadline) -> None:
        await self._statements.tell(_SAVE, DEADLINE.values(deadline))

    async def remove(self, organization: OrganizationId) -> OffboardingDeadline | None:
        return first(await self._statements.ask(DEADLINE.row, _REMOVE, {"organization": organization}))

    async def enter(self, now: datetime, most: int) -> int:
        asked = {
            "now": now,
            "since": now - APART,
            "overlap": OVERLAP,
            "actions": list(ACTS),
            "acts": [act.value for act in ACTS.values()],
            "most": most,
        }
        return only(await self._statements.ask(CountRow, _ENTER, asked)).count

    async def claim(self, now: datetime, most: int) -> Sequence[WatchedAct]:
        return await self._statements.ask(WatchedAct, _CLAIM, {"now": now, "until": now + LEASE, "most": most})

    async def judge(self, watched: WatchedAct, judgment: ActJudgment) -> bool:
        parameters = {
            "entry": watched.entry,
            "before": list(watched.reported),
            "reported": list(judgment.reported),
            "missing": judgment.missing,
            "look_at": judgment.look_at,
        }
        statement = _END if judgment.look_at is None else _JUDGE
        return bool(await self._statements.ask(CountRow, statement, parameters))

    async def add_late(self, organization: OrganizationId, late: int) -> None:
        await self._statements.tell(_ADD_LATE, {"organization": organization, "late": late})

    async def take_late(self, now: datetime, since: datetime, most: int) -> Sequence[LateCount]:
        return await self._statements.ask(LateCount, _TAKE_LATE, {"now": now, "since": since, "most": most})

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_FIND: Final[LiteralString] = f"select {DEADLINE.names} from offboarding_deadlines where org_id = %(organization)s"

# What was made before the deadline is not watched.
_SAVE: Final[LiteralString] = f"""
    insert into offboarding_deadlines ({DEADLINE.into()}, seen_to)
    values ({DEADLINE.inserted()}, %(created_at)s)
        on conflict (org_id) do update set {DEADLINE.replaced("id", "organization", "created_at")}
"""

_REMOVE: Final[LiteralString] = f"delete from offboarding_deadlines where org_id = %(organization)s returning {DEADLINE.names}"

_MINUTES: Final[LiteralString] = """
    case {acts}.act
        when 'removal' then {deadlines}.removal_minutes
        when 'access' then {deadlines}.access_minutes
        else {deadlines}.security_minutes
    end
"""

# Whom another process has looked at within this time is passed over. So no two enter the same acts.
APART: Final = timedelta(seconds=1)
# Organizations with a deadline, those first that were not looked at for longest. The acts of each kind that has one are read by the index
# `audit_entries_by_action`, from the last look on.
_ENTER: Final[LiteralString] = f"""
    with turned as materialized (
             select *
               from offboarding_deadlines
              where seen_to <= %(since)s
              order by seen_to
              limit %(most)s
                for no key update skip locked
         ),
         seen as (
             update offboarding_deadlines set seen_to = %(now)s from turned where offboarding_deadlines.id = turned.id
         ),
         entered as (
             insert into offboarding_watches (entry_id, deadline_id, act, act_at, look_at)
             select entries.id, turned.id, acts.act, entries.created_at, %(now)s
               from turned
               join unnest(%(actions)s::text[], %(acts)s::text[]) as acts (action, act)
                 on {_MINUTES.format(acts="acts", deadlines="turned")} is not null
              cross join lateral (
                        select id, created_at
                          from audit_entries
                         where organization_id = turned.org_id and action = acts.action
                           and created_at >= greatest(turned.seen_to - %(overlap)s::interval, turned.created_at)
                           and success and target_type = 'user'
                           and not exists (
                                   select from offboarding_watches where offboarding_watches.entry_id = audit_entries.id offset 0
                               )
                    ) as entries
                 on conflict (entry_id) do nothing
         )
  select count(*)::int as count from turned
"""

# Nothing is sent for an organization that is not active, so nothing of it is late.
_CLAIM: Final[LiteralString] = f"""
    with due as materialized (
             select watches.entry_id, deadlines.id, deadlines.org_id, {_MINUTES.format(acts="watches", deadlines="deadlines")} as minutes
               from offboarding_watches as watches
               join offboarding_deadlines as deadlines on deadlines.id = watches.deadline_id
               join organizations on organizations.id = deadlines.org_id and organizations.status = 'active'
              where watches.look_at <= %(now)s
              order by watches.look_at
              limit %(most)s
                for no key update of watches skip locked
         )
    update offboarding_watches as watches
       set look_at = %(until)s
      from due
     where watches.entry_id = due.entry_id
 returning watches.entry_id as entry, due.id as deadline, due.org_id as organization, watches.act_at, due.minutes, watches.reported
"""

# Of two processes that judge an act, one finds it as it was.
_JUDGE: Final = """
    update offboarding_watches
       set reported = %(reported)s, missing = %(missing)s, look_at = %(look_at)s
     where entry_id = %(entry)s and reported = %(before)s::text[]
 returning 1 as count
"""

_END: Final = "delete from offboarding_watches where entry_id = %(entry)s and reported = %(before)s::text[] returning 1 as count"

_ADD_LATE: Final = "update offboarding_deadlines set late = late + %(late)s where org_id = %(organization)s"

_TAKE_LATE: Final = """
    with owed as materialized (
             select deadlines.id, deadlines.org_id, organizations.slug, deadlines.late
               from offboarding_deadlines as deadlines
               join organizations on organizations.id = deadlines.org_id
              where deadlines.late > 0 and (deadlines.mailed_at is null or deadlines.mailed_at <= %(since)s)
              limit %(most)s
                for no key update of deadlines skip locked
         )
    update offboarding_deadlines
       set late = 0, mailed_at = %(now)s
      from owed
     where offboarding_deadlines.id = owed.id
 returning owed.org_id as organization, owed.slug, owed.late
"""

"""Who may get an account by the pages, and how many mails strangers may ask for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.statements import OnPool, OnStatements, ask, first_made, only
from core.domain.identifiers import OrganizationId
from core.domain.identity.registering import (
    MOST_HOURS,
    Budget,
    BudgetLane,
    BudgetScope,
    BudgetSnapshot,
    BudgetVerdict,
    Counted,
    RegistrationPolicy,
    RegistrationRule,
    hour_of,
)
from core.domain.mail import Email
from core.frozen import Frozen
from ports.identity.accounts import ArrivalAtRule


class _Count(Frozen):
    verdict: str
    over: str | None
    hours: int

    def counted(self) -> Counted:
        return Counted(BudgetVerdict(self.verdict), None if self.over is None else BudgetScope(self.over), self.hours)


class _SnapshotRow(Frozen, kw_only=True):
    id: UUID
    scope: str
    key: str
    name: str | None
    size: int
    taken: int
    waiting: int
    held: int
    held_since: datetime | None
    held_at: datetime | None
    exempt_until: datetime | None

    def standing(self) -> BudgetSnapshot:
        return BudgetSnapshot(
            id=self.id,
            scope=BudgetScope(self.scope),
            key=self.key,
            name=self.name or self.key,
            size=self.size,
            taken=self.taken,
            waiting=self.waiting,
            held=self.held,
            held_since=self.held_since,
            held_at=self.held_at,
            exempt_until=self.exempt_until,
        )


class MailBudgetRows(OnStatements):
    """Implements `ports.identity.accounts.MailBudgetStore`."""

    async def count(self, lane: BudgetLane, budgets: Sequence[Budget], now: datetime, *, may_wait: bool, known: bool = True) -> Counted:
        rows = await self._statements.ask(
            _Count,
            _COUNT,
            {
                "lane": lane.value,
                "scopes": [one.scope.value for one in budgets],
                "keys": [one.key for one in budgets],
                "sizes": [one.size for one in budgets],
                "now": now,
                "hour": hour_of(now),
                "may_wait": may_wait,
                "known": known,
                "most_hours": MOST_HOURS,
            },
        )
        return only(rows).counted()

    async def find_all(self, since: datetime, now: datetime, most: int) -> Sequence[BudgetSnapshot]:
        parameters = {"since": since, "now": now, "hour": hour_of(now), "most": most}
        return [row.standing() for row in await self._statements.ask(_SnapshotRow, _FIND_ALL, parameters)]

    async def of_organization(self, organization: OrganizationId, now: datetime) -> BudgetSnapshot | None:
        parameters = {"organization": str(organization), "now": now, "hour": hour_of(now)}
        return first_made(await self._statements.ask(_SnapshotRow, _OF_ORGANIZATION, parameters), _SnapshotRow.standing)

    async def lift(self, budget: Budget, until: datetime, now: datetime, most: int) -> BudgetSnapshot | None:
        parameters = {
            "scope": budget.scope.value,
            "key": budget.key,
            "size": budget.size,
            "until": until,
            "now": now,
            "hour": hour_of(now),
            "most": most,
        }
        return first_made(await self._statements.ask(_SnapshotRow, _LIFT, parameters), _SnapshotRow.standing)

    async def restore(self, budget: UUID, now: datetime) -> BudgetSnapshot | None:
        parameters = {"id": budget, "now": now, "hour": hour_of(now)}
        return first_made(await self._statements.ask(_SnapshotRow, _RESTORE, parameters), _SnapshotRow.standing)


# What a row says at the hour `hour`: each hour that has passed since has taken its part of what waited. `budget` names the row. One that is
# more than an hour ahead comes from a clock that was wrong, and nothing of it counts: otherwise it would stand until that time comes.
_LATER: Final = """
    cross join lateral (
             select case when budget.hour > %(hour)s::timestamptz + interval '1 hour' then 1000000
                         else greatest(0, extract(epoch from %(hour)s::timestamptz - budget.hour)::int / 3600)
                    end as hours
         ) as passed
    cross join lateral (
             select case when passed.hours = 0 then budget.taken + budget.waiting
                         else greatest(0, budget.waiting::bigint - (passed.hours - 1)::bigint * budget.size)::int
                    end as all_of_them
         ) as left_over
    cross join lateral (
             select case when passed.hours = 0 then budget.taken else least(budget.size, left_over.all_of_them) end as taken,
                    case when passed.hours = 0 then budget.waiting else greatest(0, left_over.all_of_them - budget.size) end as waiting
         ) as present
"""

_IS_TODAYS: Final = "budget.held_at > %(now)s::timestamptz - interval '1 day'"

# The budgets are read first, without a lock, so that a flood over all of them writes nothing but how often they said no. What goes or waits
# is then counted in all of them, the narrowest first: concurrent requests wait for each other at each row, and add to what the one before
# left. The values of the refused insert are what to add. If two requests took the last place at once, the second sees that by what it has
# left, and is treated as refused; its count stays.
_COUNT: Final[LiteralString] = f"""
    with wanted as (
             select one.number, one.scope, one.size,
                    case when one.scope = 'organization' then organizations.id::text else one.key end as key
               from unnest(%(scopes)s::text[], %(keys)s::text[], %(sizes)s::int[]) with ordinality as one (scope, key, size, number)
               left join organizations on one.scope = 'organization' and organizations.slug = one.key
              where one.scope <> 'organization' or organizations.id is not null
         ),
         standing as (
             select wanted.number, wanted.scope, wanted.key, wanted.size, coalesce(present.taken, 0) as taken,
                    coalesce(present.waiting, 0) as waiting, coalesce(present.exempt_until > %(now)s, false) as is_exempt
               from wanted
               left join lateral (
                        select present.taken, present.waiting, budget.exempt_until
                          from mail_budgets as budget
                          {_LATER}
                         where budget.lane = %(lane)s and budget.scope = wanted.scope and budget.key = wanted.key
                    ) as present on true
         ),
         over as (
             select standing.number, standing.scope, standing.key
               from standing
              where not standing.is_exempt and standing.taken >= standing.size
              order by standing.number
              limit 1
         ),
         decided as (
             select case when not exists (select from over) then 'go'
                         when %(may_wait)s::boolean and room.has_room then 'wait'
                         else 'refuse'
                    end as verdict,
                    room.hours
               from (
                        select coalesce(
                                   bool_and(standing.waiting < standing.size or standing.scope not in ('network', 'installation')), true
                               ) as has_room,
                               coalesce(max(least(1 + standing.waiting / standing.size, 1 + %(most_hours)s)), 1) as hours
                          from standing
                         where not standing.is_exempt
                    ) as room
         ),
         counted as (
             insert into mail_budgets as budget (lane, scope, key, hour, size, taken, waiting, held, held_since, held_at)
             select %(lane)s, standing.scope, standing.key, %(hour)s, standing.size, (decided.verdict = 'go')::int,
                    (decided.verdict = 'wait' and standing.waiting / standing.size < %(most_hours)s)::int, (over.number is not null)::int,
                    case when over.number is not null then %(now)s::timestamptz end,
                    case when over.number is not null then %(now)s::timestamptz end
               from standing
              cross join decided
               left join over on over.number = standing.number
              where decided.verdict <> 'refuse' and (%(known)s::boolean or standing.scope = 'network')
              order by standing.number
                 on conflict (lane, scope, key) do update
                set (hour, size, taken, waiting, held, held_since, held_at) = (
                        select case when budget.hour > excluded.hour + interval '1 hour' then excluded.hour
                                    else greatest(budget.hour, excluded.hour)
                               end,
                               excluded.size, present.taken + excluded.taken,
                               present.waiting + excluded.waiting,
                               case when {_IS_TODAYS} then budget.held else 0 end + excluded.held,
                               case when {_IS_TODAYS} then budget.held_since else excluded.held_since end,
                               coalesce(excluded.held_at, budget.held_at)
                          from (select 1) as one
                          {_LATER}
                    )
          returning budget.scope, budget.taken > budget.size and coalesce(budget.exempt_until <= %(now)s, true) as is_over
         ),
         refused as (
             update mail_budgets as budget
                set held = case when {_IS_TODAYS} then budget.held else 0 end + 1,
                    held_since = case when {_IS_TODAYS} then budget.held_since else %(now)s end,
                    held_at = %(now)s
               from over, decided
              where decided.verdict = 'refuse' and %(known)s::boolean
                and budget.lane = %(lane)s and budget.scope = over.scope and budget.key = over.key
         )
  select case when not late.is_late then decided.verdict when %(may_wait)s::boolean then 'wait' else 'refuse' end as verdict,
         coalesce((select over.scope from over), late.scope) as over,
         case when decided.verdict = 'wait' or (late.is_late and %(may_wait)s::boolean) then decided.hours else 0 end as hours
    from decided
   cross join (
             select coalesce(bool_or(counted.is_over), false) and (select decided.verdict = 'go' from decided) as is_late,
                    min(counted.scope) filter (where counted.is_over) as scope
               from counted
         ) as late
"""

_SHOWN: Final = """
    budget.id, budget.scope, budget.key, budget.size, budget.held, budget.held_since, budget.held_at,
    case when budget.exempt_until > %(now)s then budget.exempt_until end as exempt_until,
    case when budget.scope = 'organization' then (select name from organizations where id::text = budget.key) end as name
"""

_FIND_ALL: Final[LiteralString] = f"""
    select {_SHOWN}, present.taken, present.waiting
      from mail_budgets as budget
      {_LATER}
     where budget.lane = 'open' and (budget.held_at > %(since)s or budget.exempt_until > %(now)s)
     order by budget.held_at desc nulls last, budget.scope, budget.key
     limit %(most)s
"""

_OF_ORGANIZATION: Final[LiteralString] = f"""
    select {_SHOWN}, present.taken, present.waiting
      from mail_budgets as budget
      {_LATER}
     where budget.lane = 'open' and budget.scope = 'organization' and budget.key = %(organization)s
"""

_LIFT: Final[LiteralString] = f"""
    insert into mail_budgets as budget (lane, scope, key, hour, size, taken, waiting, exempt_until)
    select 'open', %(scope)s::text, %(key)s::text, %(hour)s, %(size)s, 0, 0, %(until)s
     where (%(scope)s::text <> 'organization' or exists (select from organizations where id::text = %(key)s))
       and %(most)s > (
               select count(*)
                 from mail_budgets
                where exempt_until > %(now)s and (scope, key) <> (%(scope)s::text, %(key)s::text)
           )
        on conflict (lane, scope, key) do update set exempt_until = excluded.exempt_until
 returning {_SHOWN}, budget.taken, budget.waiting
"""

_RESTORE: Final[LiteralString] = """
    with before as (
             select id, exempt_until from mail_budgets where id = %(id)s and exempt_until > %(now)s for update
         )
  update mail_budgets as budget
     set exempt_until = null
    from before
   where budget.id = before.id
returning budget.id, budget.scope, budget.key, budget.size, budget.held, budget.held_since, budget.held_at, before.exempt_until,
          budget.taken, budget.waiting,
          case when budget.scope = 'organization' then (select name from organizations where id::text = budget.key) end as name
"""


class _Rule(Frozen, kw_only=True):
    registration_policy: str
    registration_domains: list[str]

    def rule(self) -> RegistrationRule:
        return RegistrationRule(policy=RegistrationPolicy(self.registration_policy), domains=tuple(self.registration_domains))


class _Arrival(Frozen, kw_only=True):
    registration_policy: str | None
    registration_domains: list[str] | None
    invited: bool
    invited_here: bool

    def arrival(self) -> ArrivalAtRule:
        rule = None
        if self.registration_policy is not None and self.registration_domains is not None:
            rule = _Rule(registration_policy=self.registration_policy, registration_domains=self.registration_domains).rule()
        return ArrivalAtRule(rule=rule, invited=self.invited, invited_here=self.invited_here)


class PostgresRegistrationRules(OnPool):
    """Implements `ports.identity.accounts.RegistrationRules`."""

    async def find(self, organization: str) -> RegistrationRule | None:
        return first_made(await ask(self._pool, _Rule, _FIND, {"slug": storable_text(organization)}), _Rule.rule)

    async def of_arrival(self, organization: OrganizationId | None, email: Email) -> ArrivalAtRule:
        parameters = {"organization": organization, "email_key": storable_text(email.key)}
        return only(await ask(self._pool, _Arrival, _OF_ARRIVAL, parameters)).arrival()


_FIND: Final = "select registration_policy, registration_domains from organizations where slug = %(slug)s"

_OF_ARRIVAL: Final = """
    select organizations.registration_policy, organizations.registration_domains,
           count(invitations.org_id) > 0 as invited,
           count(invitations.org_id) filter (where invitations.org_id = wanted.id) > 0 as invited_here
      from (select %(organization)s::uuid as id) as wanted
      left join organizations on organizations.id = wanted.id
      left join (
               invitations
               join organizations as inviting on inviting.id = invitations.org_id and inviting.status = 'active'
           )
        on invitations.email_key = %(email_key)s and invitations.status = 'pending' and invitations.expires_at > now()
     group by wanted.id, organizations.registration_policy, organizations.registration_domains
"""

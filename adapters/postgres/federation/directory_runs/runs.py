"""What is due of keeping in step with directories by LDAP, and its runs, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import OnStatements
from core.domain.federation.directory_runs.people import WhyLeftOut
from core.domain.federation.directory_runs.runs import (
    DirectoryRun,
    DirectoryStep,
    NamedAs,
    RunCounts,
    RunKind,
    RunPerson,
    RunState,
)
from core.domain.identifiers import DirectoryRunId, OrganizationId, UpstreamProviderId, UserId
from core.domain.identity.upstream.ldap.surveys import LdapMarks
from core.domain.requests import Page
from core.frozen import Frozen
from ports.federation.directory_runs import StepsCounted
from ports.tenancy.receivers import Owner


def _counts(kept: Mapping[str, Any]) -> RunCounts:
    return msgspec.convert(kept, RunCounts)


def _as_json(counts: RunCounts) -> Jsonb:
    return Jsonb(storable(msgspec.to_builtins(counts)))


RUN: Final = Columns(
    DirectoryRun,
    "directory_runs",
    named={"organization": "org_id", "connection": "connection_id"},
    texts=("fault",),
    turned={"counts": (_counts, _as_json)},
)


def _step(*, marks: Mapping[str, Any] | None, **columns: Any) -> DirectoryStep:
    return DirectoryStep(**columns, marks=None if marks is None else msgspec.convert(marks, LdapMarks))


def _person(*, what: str, user: UUID | None, **columns: Any) -> RunPerson:
    return RunPerson(what=NamedAs(what), user=None if user is None else UserId(user), **columns)


class _NextAt(Frozen):
    next_at: datetime | None


class DirectoryRunRows(OnStatements):
    """Implements `ports.federation.directory_runs.DirectoryRunStore`."""

    async def claim_due(self, at: datetime, until: datetime, holder: UUID, limit: int) -> Sequence[DirectoryStep]:
        return await self._statements.ask(_step, CLAIM_DUE, {"at": at, "until": until, "holder": holder, "limit": limit})

    async def counted(self) -> StepsCounted:
        return only(await self._statements.ask(StepsCounted, _COUNTED, {}))

    async def list(self, organization: OrganizationId, connection: UpstreamProviderId, limit: int) -> Sequence[DirectoryRun]:
        parameters = {"organization": organization, "connection": connection, "limit": limit}
        return await self._statements.ask(RUN.row, _LIST, parameters)

    async def find(self, organization: OrganizationId, connection: UpstreamProviderId, run: DirectoryRunId) -> DirectoryRun | None:
        parameters = {"organization": organization, "connection": connection, "id": run}
        return first(await self._statements.ask(RUN.row, _FIND, parameters))

    async def people(self, run: DirectoryRunId, what: NamedAs | None, page: Page | None) -> Sequence[RunPerson]:
        rows = {"limit": None, "offset": 0} if page is None else {"limit": page.limit, "offset": page.offset}
        parameters = {"run": run, "what": what, **rows}
        return await self._statements.ask_for_many(_person, _PEOPLE, parameters, lambda one: one)

    async def open(self, run: DirectoryRunId, reason: WhyLeftOut) -> Sequence[RunPerson]:
        return await self._statements.ask_for_many(_person, _OPEN, {"run": run, "reason": reason.value}, lambda one: one)

    async def next_at(self, organization: OrganizationId, connection: UpstreamProviderId) -> datetime | None:
        rows = await self._statements.ask(_NextAt, _NEXT_AT, {"organization": organization, "connection": connection})
        return rows[0].next_at if rows else None

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)

    async def hold_step(self, step: DirectoryStep, until: datetime) -> bool:
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": step.organization})
        parameters = {"connection": step.connection, "holder": step.holder, "activated_at": step.activated_at, "until": until}
        return bool(await self._statements.ask(IdRow, _HOLD_STEP, parameters))

    async def begin(self, run: DirectoryRun) -> None:
        await self._statements.tell(_INTERRUPTED, {"connection": run.connection, "at": run.started_at})
        await self._statements.tell(_BEGIN, RUN.values(run))

    async def end(self, run: DirectoryRun, people: Sequence[RunPerson]) -> None:
        if run.state is RunState.WAITING:
            await self._statements.tell(_OVER, {"connection": run.connection, "at": run.ended_at})
        await self._statements.tell(_SAVE, RUN.values(run))
        await self._name(run, people, 0)

    async def name(self, run: DirectoryRun, people: Sequence[RunPerson], after: int) -> None:
        await self._name(run, people, _BEHIND_OTHERS + after)

    async def _name(self, run: DirectoryRun, people: Sequence[RunPerson], after: int) -> None:
        for start in range(0, len(people), _PART):
            part = people[start : start + _PART]
            await self._statements.tell(
                _ADD_PEOPLE,
                {
                    "run": run.id,
                    "organization": run.organization,
                    "places": list(range(after + start, after + start + len(part))),
                    "whats": [one.what.value for one in part],
                    "reasons": [one.reason for one in part],
                    "names": [storable_text(one.named) for one in part],
                    "users": [one.user for one in part],
                    "external_ids": [one.external_id for one in part],
                },
            )

    async def save_step(self, claimed: DirectoryStep, step: DirectoryStep, next_at: datetime | None) -> None:
        marks = None if step.marks is None else Jsonb(storable(msgspec.to_builtins(step.marks)))
        parameters = {
            "connection": step.connection,
            "next_at": next_at,
            "runs": step.runs,
            "wants_whole": step.wants_whole,
            "whole_at": step.whole_at,
            "marks": marks,
            "agreed_run": step.agreed_run,
            "held_digest": step.held_digest,
            "held_since": step.held_since,
            "held_run": step.held_run,
            "claimed_next_at": claimed.next_at,
            "claimed_agreed_run": claimed.agreed_run,
        }
        await self._statements.tell(_SAVE_STEP, parameters)

    async def hold_decision(self, organization: OrganizationId, connection: UpstreamProviderId, run: DirectoryRunId) -> DirectoryRun | None:
        parameters = {"organization": organization, "connection": connection, "id": run}
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": organization})
        await self._statements.tell(_HOLD_CONNECTION, {"connection": connection})
        return first(await self._statements.ask(RUN.row, _FIND, parameters))

    async def decide(self, run: DirectoryRun, *, starts_at: datetime | None) -> None:
        await self._statements.tell(_SAVE, RUN.values(run))
        if run.state is RunState.AGREED:
            agreed_for = run.settings_digest if run.kind is RunKind.PLAN else None
            parameters = {"connection": run.connection, "run": run.id, "at": starts_at, "digest": agreed_for}
            await self._statements.tell(_AGREE, parameters)
        else:
            await self._statements.tell(_REST if run.kind is RunKind.PLAN else _QUIET, {"connection": run.connection})

    async def interrupt(self, run: DirectoryRunId, at: datetime) -> None:
        await self._statements.tell(_INTERRUPT, {"id": run, "at": at})

    async def start(self, organization: OrganizationId, connection: UpstreamProviderId, holder: UUID, at: datetime) -> None:
        await self._statements.tell(_START, {"organization": organization, "connection": connection, "holder": holder, "at": at})


_PART: Final = 500
# Who comes stands behind those who end, and those who were left out.
_BEHIND_OTHERS: Final = 1_000_000

_STEP: Final = """
    steps.connection_id as connection, steps.org_id as organization, steps.holder, steps.runs, steps.wants_whole, steps.whole_at,
    steps.marks, steps.agreed_digest, steps.agreed_run, steps.held_digest, steps.held_since, steps.held_run, steps.next_at,
    (select activated_at from upstream_providers where id = steps.connection_id) as activated_at
"""

# Where no connection keeps in step, this is one look at an empty index. Of two processes, one inserts or updates the row: the other waits
# for it and finds the lease. One run of an organization is under way: its slow directories take one place, not those of others.
CLAIM_DUE: Final[LiteralString] = f"""
    with of_organizations as (
             select distinct on (providers.org_id) providers.id, providers.org_id, steps.next_at
               from upstream_providers as providers
               join organizations on organizations.id = providers.org_id and organizations.status = 'active'
               left join directory_steps as steps on steps.connection_id = providers.id
              where providers.kind = 'ldap' and providers.ldap @> '{{"keeps_in_step": true}}'
                and providers.state = 'active' and providers.enabled
                and (
                        steps.connection_id is null
                     or steps.next_at <= %(at)s and (steps.leased_until is null or steps.leased_until <= %(at)s)
                    )
                and not exists (
                        select
                          from directory_steps as others
                         where others.org_id = providers.org_id and others.connection_id <> providers.id and others.leased_until > %(at)s
                    )
              order by providers.org_id, steps.next_at nulls first
         ),
         due as (select id, org_id from of_organizations order by next_at nulls first limit %(limit)s)
    insert into directory_steps as steps (connection_id, org_id, next_at, holder, leased_until)
    select id, org_id, %(at)s, %(holder)s, %(until)s from due
        on conflict (connection_id) do update
       set holder = excluded.holder, leased_until = excluded.leased_until
     where steps.next_at <= %(at)s and (steps.leased_until is null or steps.leased_until <= %(at)s)
 returning {_STEP}
"""

_COUNTED: Final = """
    select (
               select count(*)
                 from directory_runs as runs
                 join upstream_providers as providers on providers.id = runs.connection_id
                where runs.state = 'waiting' and providers.ldap @> '{"keeps_in_step": true}'
           )::int as waiting,
           (
               select count(*)
                 from directory_steps as steps
                 join upstream_providers as providers on providers.id = steps.connection_id and providers.ldap @> '{"keeps_in_step": true}'
                 join lateral (
                           select state from directory_runs where connection_id = steps.connection_id order by id desc limit 1
                      ) as newest on newest.state = 'failed'
           )::int as failing
"""

_LIST: Final[LiteralString] = f"""
    select {RUN.names}
      from directory_runs
     where org_id = %(organization)s and connection_id = %(connection)s
     order by id desc
     limit %(limit)s
"""

_FIND: Final[LiteralString] = f"""
    select {RUN.names}
      from directory_runs
     where org_id = %(organization)s and connection_id = %(connection)s and id = %(id)s
"""

_PEOPLE: Final = """
    select what, reason, named, user_id as user, external_id
      from directory_run_people
     where run_id = %(run)s and (%(what)s::text is null or what = %(what)s)
     order by place
    offset %(offset)s
     limit %(limit)s::bigint
"""

_OPEN: Final = """
    select what, reason, named, user_id as user, external_id
      from directory_run_people
     where run_id = %(run)s and what = 'left_out' and reason = %(reason)s and user_id is not null
     order by place
"""

_NEXT_AT: Final = "select next_at from directory_steps where org_id = %(organization)s and connection_id = %(connection)s"

_HOLD_ORGANIZATION: Final = "select from organizations where id = %(organization)s for no key update"

# A connection that was turned off or changed meanwhile is none to go on with, also when others have made it active again, and neither is
# that of an organization that was suspended.
_HOLD_STEP: Final = """
    update directory_steps
       set leased_until = %(until)s
      from upstream_providers
     where directory_steps.connection_id = %(connection)s and directory_steps.holder = %(holder)s
       and upstream_providers.id = directory_steps.connection_id
       and upstream_providers.state = 'active' and upstream_providers.enabled
       and upstream_providers.activated_at is not distinct from %(activated_at)s::timestamptz
       and upstream_providers.ldap @> '{"keeps_in_step": true}'
       and exists (select from organizations where organizations.id = directory_steps.org_id and organizations.status = 'active')
 returning directory_steps.connection_id as id
"""

_HOLD_CONNECTION: Final = "select from directory_steps where connection_id = %(connection)s for no key update"

_INTERRUPTED: Final = """
    update directory_runs
       set state = 'failed', fault = 'interrupted', ended_at = %(at)s
     where connection_id = %(connection)s and state = 'running'
"""

_BEGIN: Final[LiteralString] = f"insert into directory_runs ({RUN.into()}) values ({RUN.inserted()})"

_OVER: Final = """
    update directory_runs set state = 'over' where connection_id = %(connection)s and state = 'waiting'
"""

_SAVE: Final = """
    update directory_runs
       set kind = %(kind)s, state = %(state)s, ended_at = %(ended_at)s, counts = %(counts)s, fault = %(fault)s, digest = %(digest)s
     where id = %(id)s
"""

# A person whose account has gone meanwhile is left out.
_ADD_PEOPLE: Final = """
    insert into directory_run_people (run_id, org_id, place, what, reason, named, user_id, external_id)
    select %(run)s, %(organization)s, named.place, named.what, named.reason, named.named, users.id, named.external_id
      from unnest(%(places)s::integer[], %(whats)s::text[], %(reasons)s::text[], %(names)s::text[], %(users)s::uuid[],
                  %(external_ids)s::bytea[]) as named (place, what, reason, named, user_id, external_id)
      left join users on users.id = named.user_id
     where named.user_id is null or users.id is not null
"""

# What somebody has pressed while the run was under way stays for the next one: a start, and an owner's word.
_SAVE_STEP: Final = """
    update directory_steps
       set next_at = case when next_at is distinct from %(claimed_next_at)s::timestamptz then next_at else %(next_at)s end,
           wants_whole = %(wants_whole)s or next_at is distinct from %(claimed_next_at)s::timestamptz,
           agreed_run = case when agreed_run is distinct from %(claimed_agreed_run)s::uuid then agreed_run else %(agreed_run)s end,
           held_since = case when held_run = %(held_run)s and held_since is null then null else %(held_since)s::timestamptz end,
           leased_until = null, runs = %(runs)s, whole_at = %(whole_at)s, marks = %(marks)s, held_digest = %(held_digest)s,
           held_run = %(held_run)s
     where connection_id = %(connection)s
"""

_AGREE: Final = """
    update directory_steps
       set agreed_run = %(run)s, next_at = %(at)s, agreed_digest = coalesce(%(digest)s, agreed_digest)
     where connection_id = %(connection)s
"""

_REST: Final = "update directory_steps set next_at = null where connection_id = %(connection)s"

_QUIET: Final = "update directory_steps set held_since = null where connection_id = %(connection)s"

_INTERRUPT: Final = """
    update directory_runs set state = 'failed', fault = 'interrupted', ended_at = %(at)s where id = %(id)s and state = 'running'
"""

_START: Final = """
    insert into directory_steps (connection_id, org_id, next_at, wants_whole, holder)
    values (%(connection)s, %(organization)s, %(at)s, true, %(holder)s)
        on conflict (connection_id) do update set next_at = excluded.next_at, wants_whole = true
"""

"""Runs of connections outwards in PostgreSQL: what is due, the marks, the runs, and whom a connection has sent."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns, IdRow, array, storable_text
from adapters.postgres.federation.facts import KNOWN_FIELD
from adapters.postgres.federation.provisioning import mapping_of
from adapters.postgres.identity.accounts import is_locked
from adapters.postgres.identity.addresses import is_verified_for, is_vouched_by, proved_domains
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import PROFILE, profile
from adapters.postgres.services.service_roles import roles_held
from adapters.postgres.statements import OnStatements, first, only
from adapters.postgres.tenancy.members import owners
from adapters.postgres.tenancy.roles import teams_of
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.claims import KnownField, ServiceFacts, StandardProfile
from core.domain.federation.provisioning.connections import ProvisioningSource, dialect_of
from core.domain.federation.provisioning.people import OutwardPerson, PlaceThere, SentPerson
from core.domain.federation.provisioning.progress import ProgressPart
from core.domain.federation.provisioning.runs import (
    EXCHANGES_KEPT,
    PROVISIONING_TOPIC,
    DoneThere,
    ProvisioningRun,
    ProvisioningRunPerson,
    ProvisioningRunState,
    ProvisioningWork,
)
from core.domain.identifiers import (
    OrganizationId,
    ProvisioningConnectionId,
    ProvisioningRunId,
    TeamId,
    UserId,
)
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen, shared, values_of
from ports.federation.provisioning_runs import (
    AdoptedThere,
    EndedThere,
    KnownThere,
    ListedThere,
    ProvisioningCounted,
    RemoteExchange,
)
from ports.tenancy.receivers import Owner

RUN_THERE: Final = Columns(ProvisioningRun, "provisioning_runs", named={"connection": "connection_id"}, texts=("why",))


def _work(
    *,
    mapping: Sequence[Mapping[str, Any]],
    team_ids: Sequence[UUID] | None,
    preset: str,
    state: str,
    attributes_left_out: Sequence[str],
    **columns: Any,
) -> ProvisioningWork:
    return ProvisioningWork(
        mapping=mapping_of(mapping),
        teams=None if team_ids is None else tuple(map(TeamId, team_ids)),
        dialect=dialect_of(preset),
        is_ending=state == "ending",
        is_draft=state == "draft",
        left_out=tuple(attributes_left_out),
        **columns,
    )


def _run_person(*, what: str, attributes: Sequence[str] | None, **columns: Any) -> ProvisioningRunPerson:
    return ProvisioningRunPerson(what=DoneThere(what), attributes=tuple(attributes or ()), **columns)


def _exchange(**columns: Any) -> RemoteExchange:
    return RemoteExchange(**columns)


class _User(Frozen):
    user_id: UUID | None


def _user_of(row: _User) -> UserId:
    assert row.user_id is not None  # noqa: S101 - the statement asks for those who are there
    return UserId(row.user_id)


class _Taken(Frozen):
    taken: list[UUID]


class ProvisioningRunRows(OnStatements):
    """Implements `ports.federation.provisioning_runs.ProvisioningRunStore`."""

    async def claim_due(self, at: datetime, until: datetime, holder: UUID, limit: int) -> Sequence[ProvisioningWork]:
        return await self._statements.ask(_work, CLAIM_THERE, {"at": at, "until": until, "holder": holder, "limit": limit})

    async def counted(self) -> ProvisioningCounted:
        return only(await self._statements.ask(ProvisioningCounted, _COUNTED, {}))

    async def work(self, organization: OrganizationId, service_slug: str) -> ProvisioningWork | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first(await self._statements.ask(_work, _WORK, parameters))

    async def find_work_for_update(self, organization: OrganizationId, service_slug: str) -> ProvisioningWork | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return first(await self._statements.ask(_work, _HOLD_WORK, parameters))

    async def renew_lease(self, work: ProvisioningWork, until: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _HOLD, values_of(work) | {"until": until}))

    async def begin(self, run: ProvisioningRun) -> None:
        await self._statements.tell(_INTERRUPTED, {"connection": run.connection, "at": run.begun_at})
        await self.keep_progress(run.connection, ())
        await self._statements.tell(_BEGIN, RUN_THERE.values(run))

    async def under_way(self, connection: ProvisioningConnectionId) -> ProvisioningRun | None:
        return first(await self._statements.ask(RUN_THERE.row, _UNDER_WAY, {"connection": connection}))

    async def progress(self, connection: ProvisioningConnectionId) -> Mapping[str, bytes]:
        kept: dict[str, bytearray] = {}
        last: tuple[str, int] = ("", -1)
        while parts := await self._statements.ask(ProgressPart, _PROGRESS, {"connection": connection, "name": last[0], "place": last[1]}):
            for one in parts:
                kept.setdefault(one.name, bytearray()).extend(one.part)
            last = (parts[-1].name, parts[-1].place)
        return {name: bytes(blob) for name, blob in kept.items()}

    async def keep_progress(self, connection: ProvisioningConnectionId, parts: Iterable[ProgressPart]) -> None:
        await self._statements.tell("delete from provisioning_progress where connection_id = %(connection)s", {"connection": connection})
        for one in parts:
            await self._statements.tell(_KEEP_PROGRESS, {"connection": connection, "name": one.name, "place": one.place, "part": one.part})

    async def end_turn(self, work: ProvisioningWork, at: datetime, again_at: datetime | None) -> None:
        await self._statements.tell(_END_TURN, {"connection": work.connection, "at": at, "again_at": again_at})

    async def name(self, run: ProvisioningRun, people: Sequence[ProvisioningRunPerson], after: int) -> None:
        for start in range(0, len(people), _PART):
            part = people[start : start + _PART]
            parameters = {
                "run": run.id,
                "places": list(range(after + start, after + start + len(part))),
                "whats": [one.what.value for one in part],
                "whys": [one.why for one in part],
                "users": [one.user for one in part],
                "far_ids": [None if one.far_id is None else storable_text(one.far_id) for one in part],
                # An array of arrays would have to be of one length.
                "attributes": [",".join(one.attributes) for one in part],
                "formers": [None if one.former_external_id is None else storable_text(one.former_external_id) for one in part],
            }
            await self._statements.tell(_NAME, parameters)

    async def save(self, run: ProvisioningRun) -> None:
        if run.state is ProvisioningRunState.WAITING:
            await self._statements.tell(_OVER, {"connection": run.connection})
        await self._statements.tell(_SAVE_RUN, RUN_THERE.values(run))

    async def settle(self, claimed: ProvisioningWork, work: ProvisioningWork, again_at: datetime | None) -> None:
        parameters = values_of(work) | {
            "claimed_due": claimed.whole_due_at,
            "claimed_agreed_run": claimed.agreed_run,
            "again_at": again_at,
        }
        await self._statements.tell(_SETTLE, parameters)
        await self.keep_progress(work.connection, ())

    async def stop(self, work: ProvisioningWork, why: str, at: datetime) -> None:
        await self._statements.tell(_STOP, {"connection": work.connection, "why": why, "at": at})

    async def finish_ending(self, work: ProvisioningWork) -> None:
        await self._statements.tell("delete from provisioning_connections where id = %(connection)s", {"connection": work.connection})

    async def take_marks(self, work: ProvisioningWork, at: datetime, limit: int) -> Sequence[UserId]:
        rows = await self._statements.ask(_Taken, _TAKE_MARKS, {"connection": work.connection, "at": at, "limit": limit})
        return [UserId(one) for one in rows[0].taken] if rows else []

    async def finish_marks(self, work: ProvisioningWork, again: Mapping[UserId, datetime]) -> None:
        await self._statements.tell(_FINISH_MARKS, {"connection": work.connection})
        if again:
            parameters = {"connection": work.connection, "users": list(again), "ats": list(again.values())}
            await self._statements.tell(_MARK_AGAIN, parameters)

    async def start(self, organization: OrganizationId, service_slug: str, at: datetime) -> bool:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "at": at}
        self._statements.ring(PROVISIONING_TOPIC)
        return bool(await self._statements.ask(IdRow, _START, parameters))

    async def list(self, organization: OrganizationId, service_slug: str, limit: int) -> Sequence[ProvisioningRun]:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "limit": limit}
        return await self._statements.ask(RUN_THERE.row, _LIST_RUNS, parameters)

    async def find(self, organization: OrganizationId, service_slug: str, run: ProvisioningRunId) -> ProvisioningRun | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "run": run}
        return first(await self._statements.ask(RUN_THERE.row, _FIND_RUN, parameters))

    async def people(self, run: ProvisioningRunId, what: str | None, after: int | None, limit: int) -> Sequence[ProvisioningRunPerson]:
        parameters = {"run": run, "what": what, "after": -1 if after is None else after, "limit": limit}
        return await self._statements.ask_for_many(_run_person, _RUN_PEOPLE, parameters, lambda one: one)

    async def ends(self, run: ProvisioningRunId) -> Collection[UserId]:
        return set(await self._statements.ask_for_many(_User, _RUN_ENDS, {"run": run}, _user_of))

    async def adopted(self, run: ProvisioningRunId, users: Collection[UserId]) -> Mapping[UserId, AdoptedThere]:
        rows = await self._statements.ask(AdoptedThere, _ADOPTED, {"run": run, "users": array(user.hex for user in users)})
        return {one.user: one for one in rows}

    async def decide(self, run: ProvisioningRun, at: datetime) -> bool:
        if not await self._statements.ask(IdRow, _DECIDE, {"id": run.id, "state": run.state.value, "adopts": run.adopts}):
            return False
        parameters = {"connection": run.connection, "run": run.id, "digest": run.settings_digest, "at": at}
        if run.state is ProvisioningRunState.AGREED:
            await self._statements.tell(_AGREE, parameters)
        else:
            await self._statements.tell(_LEAVE, parameters)
        self._statements.ring(PROVISIONING_TOPIC)
        return True

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)

    async def note_exchanges(self, connection: ProvisioningConnectionId, exchanges: Sequence[RemoteExchange]) -> None:
        if not exchanges:
            return
        parameters = {
            "connection": connection,
            "ats": [one.at for one in exchanges],
            "methods": [one.method for one in exchanges],
            "paths": [one.path for one in exchanges],
            "statuses": [one.status for one in exchanges],
            "types": [one.scim_type for one in exchanges],
            "said": [storable_text(one.said) for one in exchanges],
            "failed": [one.has_failed for one in exchanges],
        }
        await self._statements.tell(_NOTE, parameters)
        for has_failed in {one.has_failed for one in exchanges}:
            await self._statements.tell(_FORGET_NOTES, {"connection": connection, "failed": has_failed, "kept": EXCHANGES_KEPT})

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[RemoteExchange]:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        return await self._statements.ask(_exchange, _EXCHANGES, parameters)


_PART: Final = 500

_OF_SERVICE: Final = """
    (
        select connections.id
          from provisioning_connections as connections
          join services on services.id = connections.service_id
         where services.org_id = %(organization)s and services.slug = %(slug)s
    )
"""

_WORK_COLUMNS: Final = """
           connections.id as connection, connections.org_id as organization, organizations.slug as organization_slug,
           connections.service_id as service, services.slug as service_slug, services.name as service_name, connections.base_url,
           connections.sealed_token, connections.mapping, connections.attributes_left_out, connections.team_ids,
           connections.preset, connections.state, coalesce(connections.active_digest, '') as digest, connections.holder,
           connections.whole_due_at, connections.whole_at, connections.failing_since, connections.agreed_digest, connections.agreed_run,
           connections.held_run, connections.held_digest, connections.held_since, connections.turn_over_at
"""

# Where there is no active connection, this is one look at an empty index. Of an organization one connection at a time is under way, so that
# nobody takes the places of others by many. Whoever's turn ran out goes behind all others.
CLAIM_THERE: Final[LiteralString] = f"""
    with due as (
             select connections.id,
                    row_number() over (
                        partition by connections.org_id
                        order by connections.turn_over_at nulls first, connections.claimed_at nulls first, connections.id
                    ) as place
               from provisioning_connections as connections
               join organizations on organizations.id = connections.org_id and organizations.status = 'active'
               join services on services.id = connections.service_id
              where connections.state in ('active', 'ending')
                and (connections.leased_until is null or connections.leased_until <= %(at)s)
                and (connections.again_at is null or connections.again_at <= %(at)s)
                and not exists (
                        select
                          from provisioning_connections as others
                         where others.org_id = connections.org_id and others.state in ('active', 'ending')
                           and others.leased_until > %(at)s
                    )
                and (
                        connections.state = 'ending'
                     or connections.whole_due_at <= %(at)s
                     or exists (
                            select
                              from provisioned_people as people
                             where people.connection_id = connections.id and people.state = 'to_delete'
                               and coalesce(people.delete_at, '-infinity') <= %(at)s
                        )
                     or connections.agreed_digest = connections.active_digest
                        and (
                                connections.taken <> '{{}}'
                             or exists (
                                    select
                                      from provisioning_marks as marks
                                     where marks.connection_id = connections.id and marks.marked_at <= %(at)s
                                )
                            )
                    )
         ),
         chosen as (
             select connections.id
               from provisioning_connections as connections
               join due on due.id = connections.id and due.place = 1
              where connections.leased_until is null or connections.leased_until <= %(at)s
              order by connections.turn_over_at nulls first, connections.claimed_at nulls first, connections.id
              limit %(limit)s
                for no key update of connections skip locked
         )
    update provisioning_connections as connections
       set holder = %(holder)s, leased_until = %(until)s, claimed_at = %(at)s
      from chosen, organizations, services
     where connections.id = chosen.id and organizations.id = connections.org_id and services.id = connections.service_id
 returning {_WORK_COLUMNS}
"""

_WORK: Final[LiteralString] = f"""
    select {_WORK_COLUMNS}
      from provisioning_connections as connections
      join organizations on organizations.id = connections.org_id
      join services on services.id = connections.service_id
     where services.org_id = %(organization)s and services.slug = %(slug)s
"""

_HOLD_WORK: Final[LiteralString] = f"{_WORK} for no key update of connections"

_COUNTED: Final = """
    select (
               select count(*)
                 from provisioning_connections as connections
                 join provisioning_runs as runs on runs.connection_id = connections.id and runs.state = 'waiting'
                where connections.state = 'active'
           )::int as waiting,
           (select count(*) from provisioning_connections where state = 'active' and failing_since is not null)::int as failing,
           coalesce(
               (
                   select extract(epoch from now() - min(marks.marked_at))
                     from provisioning_connections as connections
                     join provisioning_marks as marks on marks.connection_id = connections.id
                    where connections.state = 'active' and connections.agreed_digest = connections.active_digest
                      and connections.failing_since is null
               ),
               0
           )::double precision as late
"""

# A connection that was stopped or changed meanwhile is none to go on with, and neither is that of an organization that was suspended.
_HOLD: Final = """
    update provisioning_connections as connections
       set leased_until = %(until)s
     where connections.id = %(connection)s and connections.holder = %(holder)s and connections.state in ('active', 'ending')
       and coalesce(connections.active_digest, '') = %(digest)s
       and exists (select from organizations where organizations.id = connections.org_id and organizations.status = 'active')
 returning connections.id
"""

_INTERRUPTED: Final = """
    update provisioning_runs
       set state = 'failed', why = 'interrupted', ended_at = %(at)s
     where connection_id = %(connection)s and state = 'running'
"""

_UNDER_WAY: Final[LiteralString] = f"""
    select {RUN_THERE.names} from provisioning_runs where connection_id = %(connection)s and state = 'running'
"""

# Two megabytes at a time.
_PROGRESS: Final = """
    select name, place, part
      from provisioning_progress
     where connection_id = %(connection)s and (name, place) > (%(name)s, %(place)s)
     order by name, place
     limit 8
"""

_KEEP_PROGRESS: Final = """
    insert into provisioning_progress (connection_id, name, place, part) values (%(connection)s, %(name)s, %(place)s, %(part)s)
"""

_END_TURN: Final = """
    update provisioning_connections
       set turn_over_at = %(at)s, again_at = %(again_at)s, leased_until = null
     where id = %(connection)s
"""

_BEGIN: Final[LiteralString] = f"insert into provisioning_runs ({RUN_THERE.into()}) values ({RUN_THERE.inserted()})"

_OVER: Final = "update provisioning_runs set state = 'over' where connection_id = %(connection)s and state = 'waiting'"

_SAVE_RUN: Final = """
    update provisioning_runs
       set kind = %(kind)s, state = %(state)s, ended_at = %(ended_at)s, made = %(made)s, matched = %(matched)s, changed = %(changed)s,
           overwritten = %(overwritten)s, ended = %(ended)s, left_out = %(left_out)s, unchanged = %(unchanged)s,
           held_back = %(held_back)s, adoptable = %(adoptable)s, why = %(why)s, digest = %(digest)s
     where id = %(id)s
"""

# A person whose account has gone meanwhile is named by nobody.
_NAME: Final = """
    insert into provisioning_run_people (run_id, place, what, why, user_id, far_id, attributes, former_external_id)
    select %(run)s, named.place, named.what, named.why, users.id, named.far_id, string_to_array(nullif(named.attributes, ''), ','),
           named.former
      from unnest(%(places)s::integer[], %(whats)s::text[], %(whys)s::text[], %(users)s::uuid[], %(far_ids)s::text[],
                  %(attributes)s::text[], %(formers)s::text[]) as named (place, what, why, user_id, far_id, attributes, former)
      left join users on users.id = named.user_id
     where named.user_id is null or users.id is not null
"""

# What somebody has pressed while the run was under way stays for the next one.
_SETTLE: Final = """
    update provisioning_connections
       set whole_due_at = case when whole_due_at is distinct from %(claimed_due)s::timestamptz then whole_due_at else %(whole_due_at)s end,
           agreed_run = case when agreed_run is distinct from %(claimed_agreed_run)s::uuid then agreed_run else %(agreed_run)s end,
           held_since = case when held_run = %(held_run)s and held_since is null then null else %(held_since)s::timestamptz end,
           whole_at = %(whole_at)s, failing_since = %(failing_since)s, held_run = %(held_run)s, held_digest = %(held_digest)s,
           again_at = %(again_at)s, leased_until = null, turn_over_at = null
     where id = %(connection)s
"""

_STOP: Final = """
    update provisioning_connections
       set state = 'stopped', stopped_why = %(why)s, mailed_at = %(at)s, leased_until = null, changed_at = %(at)s
     where id = %(connection)s and state = 'active'
"""

# What was taken and not finished comes with them: its process is gone. A mark that is being written is passed over, because its state is
# not there yet.
_TAKE_MARKS: Final = """
    with marked as (
             select user_id
               from provisioning_marks
              where connection_id = %(connection)s and marked_at <= %(at)s
              order by marked_at
              limit %(limit)s
                for update skip locked
         ),
         taken as (
             delete from provisioning_marks
              using marked
              where provisioning_marks.connection_id = %(connection)s and provisioning_marks.user_id = marked.user_id
          returning provisioning_marks.user_id
         )
    update provisioning_connections
       set taken = array(select unnest(provisioning_connections.taken) union select user_id from taken)
     where id = %(connection)s
 returning taken
"""

_FINISH_MARKS: Final = "update provisioning_connections set taken = '{}' where id = %(connection)s and taken <> '{}'"

_MARK_AGAIN: Final = """
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select %(connection)s, again.user_id, again.at
      from unnest(%(users)s::uuid[], %(ats)s::timestamptz[]) as again (user_id, at)
        on conflict (connection_id, user_id) do nothing
"""

_START: Final[LiteralString] = f"""
    update provisioning_connections
       set whole_due_at = %(at)s, again_at = null
     where id = {_OF_SERVICE} and state = 'active'
 returning id
"""

_LIST_RUNS: Final[LiteralString] = f"""
    select {RUN_THERE.names} from provisioning_runs where connection_id = {_OF_SERVICE} order by id desc limit %(limit)s
"""

_FIND_RUN: Final[LiteralString] = f"""
    select {RUN_THERE.names} from provisioning_runs where connection_id = {_OF_SERVICE} and id = %(run)s
"""

# The address of today is that of a member. Of whoever is none any more, the organization knows the name that it has sent.
_RUN_PEOPLE: Final[LiteralString] = """
    select people.what, people.why, people.user_id as user, people.far_id, people.attributes, people.former_external_id,
           coalesce(users.email, sent.user_name) as named, people.place as number
      from provisioning_run_people as people
      join provisioning_runs as runs on runs.id = people.run_id
      join provisioning_connections as connections on connections.id = runs.connection_id
      left join memberships on memberships.org_id = connections.org_id and memberships.user_id = people.user_id
      left join users on users.id = memberships.user_id
      left join provisioned_people as sent on sent.connection_id = runs.connection_id and sent.user_id = people.user_id
     where people.run_id = %(run)s and people.place > %(after)s and (%(what)s::text is null or people.what = %(what)s)
     order by people.place
     limit %(limit)s
"""

_RUN_ENDS: Final = "select user_id from provisioning_run_people where run_id = %(run)s and what = 'ended' and user_id is not null"

_DECIDE: Final = "update provisioning_runs set state = %(state)s, adopts = %(adopts)s where id = %(id)s and state = 'waiting' returning id"

# Only the very account, with the very `externalId`, that the owner has seen.
_ADOPTED: Final = """
    select people.user_id as user, people.far_id, people.former_external_id as external_id
      from provisioning_runs as runs
      join provisioning_run_people as people on people.run_id = runs.id
     where runs.id = %(run)s and runs.adopts and people.user_id = any(%(users)s::uuid[]) and people.what = 'left_out'
       and people.far_id is not null and people.former_external_id is not null
"""

_AGREE: Final = """
    update provisioning_connections
       set agreed_run = %(run)s, agreed_digest = %(digest)s, whole_due_at = %(at)s, again_at = null
     where id = %(connection)s
"""

# Nobody is asked again about the same. After a plan that was left, nothing goes by itself.
_LEAVE: Final = """
    update provisioning_connections
       set held_since = null, whole_due_at = case when agreed_digest = active_digest then whole_due_at end
     where id = %(connection)s
"""

_NOTE: Final = """
    insert into provisioning_exchanges (connection_id, at, method, path, status, scim_type, said, has_failed, place)
    select %(connection)s, noted.*
      from unnest(%(ats)s::timestamptz[], %(methods)s::text[], %(paths)s::text[], %(statuses)s::integer[], %(types)s::text[],
                  %(said)s::text[], %(failed)s::boolean[]) with ordinality as noted
"""

_FORGET_NOTES: Final = """
    delete from provisioning_exchanges
     where id in (
               select id
                 from provisioning_exchanges
                where connection_id = %(connection)s and has_failed = %(failed)s
                order by at desc, place desc
               offset %(kept)s
           )
"""

_EXCHANGES: Final[LiteralString] = f"""
    select at, method, path, status, scim_type, said, has_failed
      from provisioning_exchanges
     where connection_id = {_OF_SERVICE}
     order by at desc, place desc
"""


def _fields(found: Mapping[str, Sequence[Any]] | None) -> Mapping[str, KnownField]:
    return {} if found is None else {key: KnownField(*field) for key, field in found.items()}


class _PersonRow(Frozen):
    """The columns of `_PEOPLE`, in their order."""

    user: UUID
    email: str
    email_is_verified: bool
    is_vouched_by_provider: bool
    proved_domains: list[str] | None
    is_own_member: bool
    is_admitted: bool
    is_chosen: bool
    is_blocked_here: bool
    is_account_locked: bool
    is_forgotten: bool
    consented: list[str] | None
    organization: UUID
    organization_slug: str
    organization_name: str
    role: str | None
    own: Mapping[str, Any] | None
    listed_name: str | None
    listed_given: str | None
    listed_family: str | None
    roles: list[str] | None
    teams: list[str] | None
    person_fields: Mapping[str, Sequence[Any]] | None
    organization_fields: Mapping[str, Sequence[Any]] | None
    place: str | None
    far_id: str | None
    digest: bytes | None
    is_active: bool | None
    why: str | None
    user_name: str | None
    tries: int | None
    kept_there: list[str] | None

    def sent(self) -> SentPerson | None:
        if self.place is None:
            return None
        return SentPerson(
            **_of_sent(self),
            is_active=self.is_active is True,
            place=PlaceThere(self.place),
            tries=self.tries or 0,
            kept_there=self.kept_there or (),
        )

    def person(self) -> OutwardPerson:
        email = Email(self.email)
        return OutwardPerson(
            **_of_person(self),
            email=email,
            is_vouched_for=self.is_vouched_by_provider or mail_domain(email) in (self.proved_domains or ()),
            is_member=self.role is not None,
            is_locked=self.is_account_locked,
            profile=profile(self.own),
            listed=StandardProfile(name=self.listed_name, given_name=self.listed_given, family_name=self.listed_family),
            facts=ServiceFacts(
                roles=self.roles or (),
                teams=self.teams or (),
                person_fields=_fields(self.person_fields),
                organization_fields=_fields(self.organization_fields),
                organization_name=self.organization_name,
                role=self.role or "",
            ),
            sent=self.sent(),
        )


_of_sent: Final = shared(_PersonRow, SentPerson, "is_active", "place", "tries", "kept_there")
_of_person: Final = shared(_PersonRow, OutwardPerson, "email")


def _person(*columns: Any) -> OutwardPerson:
    return _PersonRow(*columns).person()


def _keys(work: ProvisioningWork, source: ProvisioningSource) -> list[str]:
    return [str(one.argument) for one in work.mapping if one.source is source]


def _asked_of(work: ProvisioningWork) -> dict[str, Any]:
    sources = {one.source for one in work.mapping}
    return values_of(work) | {
        "teams": None if work.teams is None else list(work.teams),
        "wants_roles": ProvisioningSource.ROLES in sources,
        "wants_teams": ProvisioningSource.TEAMS in sources,
        "person_fields": _keys(work, ProvisioningSource.PERSON_FIELD),
        "organization_fields": _keys(work, ProvisioningSource.ORGANIZATION_FIELD),
    }


def _listed_there(*, place: str, **columns: Any) -> ListedThere:
    return ListedThere(place=PlaceThere(place), **columns)


class ProvisionedPeopleRows(OnStatements):
    """Implements `ports.federation.provisioning_runs.ProvisionedPeopleStore`."""

    async def page(self, work: ProvisioningWork, after: UserId | None, limit: int) -> Sequence[OutwardPerson]:
        parameters = {**_asked_of(work), "after": after or _NOBODY, "limit": limit}
        return await self._statements.ask_in_order(_person, PAGE_THERE, parameters)

    async def people(self, work: ProvisioningWork, users: Collection[UserId]) -> Sequence[OutwardPerson]:
        parameters = {**_asked_of(work), "users": array(user.hex for user in users)}
        return await self._statements.ask_in_order(_person, _PEOPLE_THERE, parameters)

    async def known(self, connection: ProvisioningConnectionId, far_ids: Collection[str]) -> Mapping[str, KnownThere]:
        parameters = {"connection": connection, "far_ids": [storable_text(one) for one in far_ids]}
        return {one.far_id: one for one in await self._statements.ask(KnownThere, _KNOWN_THERE, parameters)}

    async def save(
        self, connection: ProvisioningConnectionId, people: Sequence[SentPerson], at: datetime, *, by_word: bool
    ) -> Collection[UserId]:
        parameters = {
            "came_at": None if by_word else at,
            "connection": connection,
            "users": [one.user for one in people],
            "far_ids": [None if one.far_id is None else storable_text(one.far_id) for one in people],
            "digests": [one.digest for one in people],
            "actives": [one.is_active for one in people],
            "places": [one.place.value for one in people],
            "whys": [one.why for one in people],
            "user_names": [None if one.user_name is None else storable_text(one.user_name) for one in people],
            "tries": [one.tries for one in people],
            # An array of arrays would have to be of one length.
            "kept": [",".join(one.kept_there) for one in people],
            "at": at,
        }
        rows = await self._statements.ask(_User, _SAVE_THERE, parameters)
        return {UserId(row.user_id) for row in rows if row.user_id is not None}

    async def gone(self, connection: ProvisioningConnectionId, far_ids: Collection[str]) -> None:
        await self._statements.tell(_GONE_THERE, {"connection": connection, "far_ids": list(far_ids)})

    async def ended_lately(self, connection: ProvisioningConnectionId, since: datetime) -> EndedThere:
        return only(await self._statements.ask(EndedThere, _ENDED_THERE, {"connection": connection, "since": since}))

    async def to_delete(self, connection: ProvisioningConnectionId, at: datetime, limit: int) -> Sequence[str]:
        parameters = {"connection": connection, "at": at, "limit": limit}
        return await self._statements.ask_in_order(str, _TO_DELETE, parameters)

    async def delay(self, connection: ProvisioningConnectionId, far_ids: Collection[str], at: datetime) -> None:
        await self._statements.tell(_DELAY, {"connection": connection, "far_ids": list(far_ids), "at": at})

    async def mark(self, organization: OrganizationId, service_slug: str, user: UserId, at: datetime) -> bool:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "user": user, "at": at}
        self._statements.ring(PROVISIONING_TOPIC)
        return bool(await self._statements.ask(_User, _MARK_ONE, parameters))

    async def list(
        self, organization: OrganizationId, service_slug: str, place: PlaceThere | None, after: UserId | None, limit: int
    ) -> Sequence[ListedThere]:
        parameters = {
            "organization": organization,
            "slug": storable_text(service_slug),
            "place": None if place is None else place.value,
            "after": after or _NOBODY,
            "limit": limit,
        }
        return await self._statements.ask(_listed_there, _LIST_THERE, parameters)

    async def of_person(self, organization: OrganizationId, user: UserId) -> Sequence[ListedThere]:
        return await self._statements.ask(_listed_there, _OF_PERSON, {"organization": organization, "user": user})


_NOBODY: Final = UUID(int=0)


def _fields_named(keys: LiteralString, keeper_of_field: LiteralString, keeper_of_value: LiteralString) -> LiteralString:
    """The fields of these keys: `KnownField`. A value is kept by the id of its field."""
    return f"""(
        select json_object_agg(fields.key, {KNOWN_FIELD})
          from profile_fields as fields
          left join profile_values as kept on kept.user_id = users.id and kept.org_id {keeper_of_value}
         where fields.key = any(%({keys})s::text[]) and fields.org_id {keeper_of_field}
    )"""


# Everything that a mapping may tell of some people, as the organization of the application may know it today.
_PEOPLE: Final[LiteralString] = f"""
    select users.id, users.email, {is_verified_for("services.org_id")}, {is_vouched_by("services.org_id")},
           {proved_domains("%(organization)s")}, coalesce({IS_OWN_MEMBERSHIP}, false),
           {admits("memberships.role is not null", "users.id")},
           (
               %(teams)s::uuid[] is null
            or exists (
                   select
                     from team_members
                    where team_members.org_id = services.org_id and team_members.user_id = users.id
                      and team_members.team_id = any(%(teams)s::uuid[])
               )
           ),
           users.deactivated_at is not null and users.deactivated_by_org_id is not distinct from services.org_id,
           coalesce({is_locked()}, false), users.anonymized_at is not null, consents.scopes,
           organizations.id, organizations.slug, organizations.name, memberships.role, {PROFILE},
           provisioned.display_name, provisioned.given_name, provisioned.family_name,
           case
               when %(wants_roles)s
               then array(
                        select held.slug from ({roles_held("users.id", "services.org_id", "services.id")}) as held order by held.slug
                    )
           end,
           case
               when %(wants_teams)s
               then array(
                        select teams.slug
                          from ({teams_of("users.id", "services.org_id")}) as joined
                          join teams on teams.id = joined.team_id
                         order by teams.slug
                    )
           end,
           {_fields_named("person_fields", "is null", "is null")},
           {_fields_named("organization_fields", "= services.org_id", "= services.org_id")},
           sent.state, sent.far_id, sent.sent_digest, sent.active, sent.why, sent.user_name, sent.tries, sent.kept_there
      from {{asked}} as asked
      join services on services.id = %(service)s
      join organizations on organizations.id = services.org_id
      join users on users.id = asked.user_id
      left join memberships on memberships.org_id = services.org_id and memberships.user_id = users.id
      left join consents on consents.service_id = services.id and consents.user_id = users.id
      left join provisioned_users as provisioned on provisioned.org_id = services.org_id and provisioned.user_id = users.id
      left join provisioned_people as sent on sent.connection_id = %(connection)s and sent.user_id = users.id
     order by users.id
"""

PAGE_THERE: Final[LiteralString] = _PEOPLE.replace(
    "{asked}",
    """(
               select user_id
                 from (
                          (
                              select user_id
                                from memberships
                               where org_id = %(organization)s and user_id > %(after)s
                               order by user_id
                               limit %(limit)s
                          )
                          union
                          (
                              select user_id
                                from provisioned_people
                               where connection_id = %(connection)s and user_id > %(after)s
                               order by user_id
                               limit %(limit)s
                          )
                      ) as known
                order by user_id
                limit %(limit)s
           )""",
)

_PEOPLE_THERE: Final[LiteralString] = _PEOPLE.replace("{asked}", "unnest(%(users)s::uuid[])").replace("as asked\n", "as asked (user_id)\n")

_KNOWN_THERE: Final = """
    select far_id, user_id as user, sent_digest as digest, active as is_active, kept_there
      from provisioned_people
     where connection_id = %(connection)s and far_id = any(%(far_ids)s::text[])
"""

# Whose account has gone meanwhile is there without one here: it is deleted there. An id of another is nobody's besides.
_SAVE_THERE: Final = """
    insert into provisioned_people as people (
               connection_id, user_id, far_id, sent_digest, active, state, why, user_name, tries, changed_at, came_at, kept_there
           )
    select %(connection)s, users.id, saved.far_id, saved.digest, saved.active,
           case when users.id is null then 'to_delete' else saved.state end, saved.why,
           case when users.id is not null then saved.user_name end, saved.tries, %(at)s,
           %(came_at)s::timestamptz, coalesce(string_to_array(nullif(saved.kept, ''), ','), '{}')
      from unnest(%(users)s::uuid[], %(far_ids)s::text[], %(digests)s::bytea[], %(actives)s::boolean[], %(places)s::text[],
                  %(whys)s::text[], %(user_names)s::text[], %(tries)s::integer[], %(kept)s::text[]
           ) as saved (user_id, far_id, digest, active, state, why, user_name, tries, kept)
      left join users on users.id = saved.user_id and users.anonymized_at is null
     where (users.id is not null or saved.far_id is not null)
       and not exists (
               select
                 from provisioned_people as others
                where others.connection_id = %(connection)s and others.far_id = saved.far_id and others.user_id is distinct from users.id
           )
       and (
               users.id is not null
            or not exists (
                   select
                     from provisioned_people as others
                    where others.connection_id = %(connection)s and others.far_id = saved.far_id
               )
           )
        on conflict (connection_id, user_id) do update
       set far_id = excluded.far_id, sent_digest = excluded.sent_digest, active = excluded.active, state = excluded.state,
           why = excluded.why, user_name = excluded.user_name, tries = excluded.tries, changed_at = excluded.changed_at,
           kept_there = excluded.kept_there,
           came_at = case when excluded.active and not people.active then excluded.came_at else people.came_at end,
           ended_at = case when people.active and not excluded.active then excluded.changed_at else people.ended_at end
 returning people.user_id
"""

_GONE_THERE: Final = """
    delete from provisioned_people where connection_id = %(connection)s and far_id = any(%(far_ids)s::text[]) and state = 'to_delete'
"""

# Whoever came within the window makes no room for ends, unless an owner let them come: else whoever adds many may end as many.
_ENDED_THERE: Final = """
    select (
               select count(*)
                 from provisioned_people
                where connection_id = %(connection)s and active and user_id is not null and (came_at is null or came_at < %(since)s)
           )::int as active,
           (select count(*) from provisioned_people where connection_id = %(connection)s and active and user_id is not null)::int as there,
           (select count(*) from provisioned_people where connection_id = %(connection)s and ended_at >= %(since)s)::int as ended
"""

_TO_DELETE: Final = """
    select far_id
      from provisioned_people
     where connection_id = %(connection)s and state = 'to_delete' and far_id is not null and coalesce(delete_at, '-infinity') <= %(at)s
     order by changed_at
     limit %(limit)s
"""

_DELAY: Final = """
    update provisioned_people
       set delete_at = %(at)s, tries = tries + 1
     where connection_id = %(connection)s and far_id = any(%(far_ids)s::text[]) and state = 'to_delete'
"""

# Whoever tries again waits for no pause.
_MARK_ONE: Final[LiteralString] = f"""
    insert into provisioning_marks as marks (connection_id, user_id, marked_at)
    select people.connection_id, people.user_id, %(at)s
      from provisioned_people as people
     where people.connection_id = {_OF_SERVICE} and people.user_id = %(user)s
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at
 returning marks.user_id
"""

_LISTED_COLUMNS: Final[LiteralString] = """
           people.connection_id as connection, services.id as service, services.slug as service_slug, services.name as service_name,
           people.user_id as user, coalesce(users.email, people.user_name) as named, people.far_id, people.state as place,
           people.active as is_active, people.why, people.changed_at
      from provisioned_people as people
      join provisioning_connections as connections on connections.id = people.connection_id
      join services on services.id = connections.service_id
      left join memberships on memberships.org_id = connections.org_id and memberships.user_id = people.user_id
      left join users on users.id = memberships.user_id
"""

_LIST_THERE: Final[LiteralString] = f"""
    select {_LISTED_COLUMNS}
     where people.connection_id = {_OF_SERVICE} and people.user_id > %(after)s and (%(place)s::text is null or people.state = %(place)s)
     order by people.user_id
     limit %(limit)s
"""

_OF_PERSON: Final[LiteralString] = f"""
    select {_LISTED_COLUMNS}
     where connections.org_id = %(organization)s and people.user_id = %(user)s
     order by services.name, services.id
"""

"""Keeping in step with directories by LDAP: what is due, the runs, and the people and groups whom connections list."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, CountRow, IdRow, storable, storable_text
from adapters.postgres.federation.scim.users import CAPACITY_OF, LIFT, ScimCapacity, entering
from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_WHO_DEACTIVATED
from adapters.postgres.identity.addresses import proved_domains
from adapters.postgres.identity.privacy.forgetting import HELD_BY_NOTHING_ELSE, IS_THE_MAKERS
from adapters.postgres.statements import OnStatements, first, first_made, only
from adapters.postgres.tenancy.members import owners
from adapters.postgres.tenancy.roles import RELATED_BESIDES_DIRECTORY, TEAM
from core.domain.federation.directory_runs.people import KnownPerson, MetAccount, PersonInDirectory, WhyLeftOut
from core.domain.federation.directory_runs.runs import (
    DirectoryRun,
    DirectoryStep,
    NamedAs,
    RunCounts,
    RunKind,
    RunPerson,
    RunState,
)
from core.domain.identifiers import DirectoryRunId, MembershipId, OrganizationId, TeamId, UpstreamProviderId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.ldap.settings import ldap_issuer
from core.domain.identity.upstream.ldap.surveys import LdapMarks
from core.domain.mail import Email
from core.domain.requests import Page
from core.domain.tenancy.roles import beyond_a_member
from core.domain.tenancy.teams import Team
from core.frozen import Frozen
from ports.federation.directory_runs import EndedLately, ListedGroup, ListedPerson
from ports.federation.scim import Capacity
from ports.tenancy.receivers import Owner


class _ExternalId(Frozen):
    external_id: bytes


class _Proved(Frozen):
    domains: Sequence[str] | None


def _listed(*, external_id: bytes, user_id: UUID, **columns: Any) -> tuple[bytes, ListedPerson]:
    return external_id, ListedPerson(user=UserId(user_id), **columns)


_OF_MET: Final = (
    "external_id",
    "listed_as",
    "was_active",
    "is_scims",
    "is_anothers",
    "has_other_identity",
    "may_more",
    "is_own",
    "is_used_here_alone",
    "is_member",
    "is_kept",
    "address_is_taken",
)


def _met(**columns: Any) -> MetAccount:
    own = {name: columns.pop(name) for name in _OF_MET}
    account = ACCOUNT.row(**columns)
    used_here_alone = own.pop("is_used_here_alone")
    return MetAccount(**own, account=account, is_movable=own["is_own"] and used_here_alone and not account.address_is_proved)


def _group(*, known_as: bytes, digest: bytes, **team: Any) -> ListedGroup:
    return ListedGroup(known_as, TEAM.row(**team), digest)


class DirectoryPeopleRows(OnStatements):
    """Implements `ports.federation.directory_runs.DirectoryPeopleStore`."""

    async def known(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Mapping[bytes, KnownPerson]:
        parameters = {"connection": connection, "external_ids": list(external_ids)}
        rows = await self._statements.ask_for_many(KnownPerson, _KNOWN, parameters, lambda one: one)
        return {one.external_id: one for one in rows}

    async def active(self, connection: UpstreamProviderId) -> Sequence[bytes]:
        return await self._statements.ask_for_many(_ExternalId, _ACTIVE, {"connection": connection}, lambda one: one.external_id)

    async def named(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Mapping[bytes, ListedPerson]:
        parameters = {"connection": connection, "external_ids": list(external_ids), "beyond": beyond_a_member()}
        return dict(await self._statements.ask_for_many(_listed, _NAMED, parameters, lambda one: one))

    async def met(
        self, organization: OrganizationId, connection: UpstreamProviderId, people: Sequence[PersonInDirectory]
    ) -> Mapping[bytes, MetAccount]:
        parameters = {
            **_asked(connection, people),
            "organization": organization,
            "beyond": beyond_a_member(),
        }
        rows = await self._statements.ask_for_many(_met, MET, parameters, lambda one: one)
        return {one.external_id: one for one in rows}

    async def ended_lately(self, connection: UpstreamProviderId, since: datetime) -> EndedLately:
        (row,) = await self._statements.ask(EndedLately, _ENDED_LATELY, {"connection": connection, "since": since})
        return row

    async def room(self, organization: OrganizationId) -> Capacity | None:
        rows = await self._statements.ask(ScimCapacity, CAPACITY_OF, {"organization": organization})
        return first_made(rows, ScimCapacity.capacity)

    async def proved_domains(self, organization: OrganizationId) -> Collection[str]:
        (row,) = await self._statements.ask(_Proved, _PROVED, {"organization": organization})
        return frozenset(row.domains or ())

    async def groups(self, connection: UpstreamProviderId) -> Sequence[ListedGroup]:
        return await self._statements.ask_for_many(_group, _GROUPS, {"connection": connection}, lambda one: one)

    async def users_of(self, connection: UpstreamProviderId, external_ids: Collection[bytes]) -> Sequence[UserId]:
        parameters = {"connection": connection, "external_ids": list(external_ids)}
        return await self._statements.ask_for_many(IdRow, _USERS_OF, parameters, lambda row: UserId(row.id))

    async def lock_people(self, connection: UpstreamProviderId, people: Sequence[PersonInDirectory]) -> None:
        await self._statements.tell(_HOLD_PEOPLE, _asked(connection, people))

    async def add_accounts(self, organization: OrganizationId, accounts: Sequence[Account]) -> Collection[UserId]:
        rows = [
            {**ACCOUNT.values(one), "email_key": one.email.key, "origin_org_id": organization, "updated_at": one.created_at}
            for one in accounts
        ]
        parameters = {"accounts": Jsonb(storable(msgspec.to_builtins(rows)))}
        return {UserId(row.id) for row in await self._statements.ask(IdRow, _ADD_ACCOUNTS, parameters)}

    async def enter(self, organization: OrganizationId, users: Mapping[UserId, MembershipId], at: datetime) -> None:
        await self._statements.tell(LIFT, {"organization": organization, "users": list(users), "at": at})
        parameters = {"organization": organization, "users": list(users), "ids": list(users.values()), "at": at}
        await self._statements.tell(_ENTER, parameters)

    async def save_people(
        self, organization: OrganizationId, connection: UpstreamProviderId, people: Mapping[UserId, PersonInDirectory], at: datetime
    ) -> None:
        named = list(people.values())
        parameters = {
            "organization": organization,
            "connection": connection,
            "users": list(people),
            "external_ids": [one.external_id for one in named],
            "digests": [one.digest for one in named],
            "given": [_text(one.given_name) for one in named],
            "family": [_text(one.family_name) for one in named],
            "display": [_text(one.display_name) for one in named],
            "at": at,
        }
        await self._statements.tell(_SAVE_PEOPLE, parameters)
        await self._statements.tell(_SAVE_NAMES, parameters)

    async def take_over(self, organization: OrganizationId, connection: UpstreamProviderId, people: Mapping[UserId, bytes]) -> None:
        parameters = {"organization": organization, "connection": connection, "users": list(people), "external_ids": list(people.values())}
        await self._statements.tell(_TAKE_OVER, parameters)
        await self._statements.tell(_NOT_SCIMS, parameters)

    async def keep(self, connection: UpstreamProviderId, users: Collection[UserId]) -> None:
        await self._statements.tell(_KEEP, {"connection": connection, "users": list(users)})

    async def release(self, connection: UpstreamProviderId) -> int:
        parameters = {"connection": connection}
        await self._statements.tell(_ANEW, parameters)
        await self._statements.tell(_NOBODY_WAITS, parameters)
        return only(await self._statements.ask(CountRow, _RELEASE, parameters)).count

    async def end_people(self, connection: UpstreamProviderId, users: Collection[UserId], at: datetime) -> None:
        await self._statements.tell(_END_PEOPLE, {"connection": connection, "users": list(users), "at": at})

    async def team(self, connection: UpstreamProviderId, external_id: bytes) -> Team | None:
        return first(await self._statements.ask(TEAM.row, _TEAM, {"connection": connection, "external_id": external_id}))

    async def save_group(self, connection: UpstreamProviderId, external_id: bytes, team: TeamId, digest: bytes) -> None:
        parameters = {"connection": connection, "external_id": external_id, "team": team, "digest": digest}
        await self._statements.tell(_SAVE_GROUP, parameters)


def _asked(connection: UpstreamProviderId, people: Sequence[PersonInDirectory]) -> dict[str, Any]:
    return {
        "connection": connection,
        "provider": str(connection),
        "issuer": ldap_issuer(connection),
        "external_ids": [one.external_id for one in people],
        "subjects": [storable_text(one.subject) for one in people],
        "email_keys": [storable_text(Email(one.email).key) for one in people],
    }


def _text(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


_KNOWN: Final = """
    select listed.external_id, users.email_key, listed.digest, listed.is_active
      from directory_people as listed
      join users on users.id = listed.user_id
     where listed.connection_id = %(connection)s and listed.external_id = any(%(external_ids)s)
"""

_ACTIVE: Final = "select external_id from directory_people where connection_id = %(connection)s and is_active"

_NAMED: Final[LiteralString] = f"""
    select listed.external_id, listed.user_id, users.email, listed.is_active, coalesce(memberships.role = 'owner', false) as is_owner,
           exists (
               select
                 from organizations as wanted
                cross join lateral ({RELATED_BESIDES_DIRECTORY}) as related
                where wanted.id = listed.org_id and related.relation = any(%(beyond)s)
           ) as may_more
      from directory_people as listed
      join users on users.id = listed.user_id
      left join memberships on memberships.org_id = listed.org_id and memberships.user_id = listed.user_id
     where listed.connection_id = %(connection)s and listed.external_id = any(%(external_ids)s)
"""

# Whom the directory lists already counts before everything; then whom a sign-in has connected; an address counts last.
_ASKED: Final[LiteralString] = """
               unnest(%(external_ids)s::bytea[], %(subjects)s::text[], %(email_keys)s::text[]) as asked (external_id, subject, email_key)
         cross join lateral (
                   select coalesce(
                              (
                                  select user_id
                                    from directory_people
                                   where connection_id = %(connection)s and external_id = asked.external_id
                              ),
                              (
                                  select user_id
                                    from identities
                                   where provider = %(provider)s and issuer = %(issuer)s and subject = asked.subject
                              ),
                              (select users.id from users where users.email_key = asked.email_key)
                          ) as user_id
              ) as led
"""

_HOLD_PEOPLE: Final[LiteralString] = f"""
    select from users where id in (select led.user_id from {_ASKED} where led.user_id is not null) order by id for update
"""

MET: Final[LiteralString] = f"""
    select asked.external_id, {ACCOUNT_AND_WHO_DEACTIVATED},
           mine.external_id as listed_as, coalesce(mine.is_active, false) as was_active,
           (
               provisioned.user_id is not null
           and not exists (
                   select
                     from directory_people
                    where org_id = %(organization)s and user_id = users.id and (is_active or not provisioned.is_member)
               )
           and provisioned.is_scims
               -- The token that wrote the row, or one that was made after it and so may have taken its place. Ids ascend.
           and exists (
                   select
                     from scim_tokens
                    where scim_tokens.org_id = %(organization)s
                      and scim_tokens.id >= coalesce(provisioned.scim_token_id, '00000000-0000-0000-0000-000000000000')
               )
           ) as is_scims,
           exists (
               select
                 from directory_people
                where org_id = %(organization)s and user_id = users.id and is_active and connection_id <> %(connection)s
           ) as is_anothers,
           exists (
               select from identities where user_id = users.id and provider = %(provider)s and subject <> asked.subject
           ) as has_other_identity,
           exists (
               select
                 from organizations as wanted
                cross join lateral ({RELATED_BESIDES_DIRECTORY}) as related
                where wanted.id = %(organization)s and related.relation = any(%(beyond)s)
           ) as may_more,
           coalesce({IS_THE_MAKERS}, false) as is_own, {HELD_BY_NOTHING_ELSE} as is_used_here_alone,
           exists (select from memberships where org_id = %(organization)s and user_id = users.id) as is_member,
           coalesce(mine.is_kept, false) as is_kept,
           exists (select from users as others where others.email_key = asked.email_key and others.id <> users.id) as address_is_taken
      from {_ASKED}
      join users on users.id = led.user_id
      left join directory_people as mine on mine.connection_id = %(connection)s and mine.user_id = users.id
      left join provisioned_users as provisioned on provisioned.org_id = %(organization)s and provisioned.user_id = users.id
"""

_ENDED_LATELY: Final = """
    select (select count(*) from directory_people where connection_id = %(connection)s and is_active)::int as listed,
           (
               select count(*) from directory_people where connection_id = %(connection)s and ended_at >= %(since)s
           )::int as ended
"""

_PROVED: Final[LiteralString] = f"select {proved_domains('%(organization)s')} as domains"

_GROUPS: Final[LiteralString] = f"""
    select directory_groups.external_id as known_as, directory_groups.digest, {TEAM.names}
      from directory_groups
      join teams on teams.id = directory_groups.team_id
     where directory_groups.connection_id = %(connection)s
"""

_TEAM: Final[LiteralString] = f"""
    select {TEAM.names}
      from directory_groups
      join teams on teams.id = directory_groups.team_id
     where directory_groups.connection_id = %(connection)s and directory_groups.external_id = %(external_id)s
"""

_USERS_OF: Final = """
    select user_id as id
      from directory_people
     where connection_id = %(connection)s and external_id = any(%(external_ids)s) and is_active
     order by user_id
"""

# The organization's row is held.
_ADD_ACCOUNTS: Final[LiteralString] = f"""
    insert into users ({ACCOUNT.into("email_key", "origin_org_id", "updated_at")})
    select {ACCOUNT.into("email_key", "origin_org_id", "updated_at")}
      from jsonb_populate_recordset(null::users, %(accounts)s) as added
     order by email_key
        on conflict (email_key) do nothing
 returning id
"""

_ENTER: Final[LiteralString] = entering("'ldap'")

_SAVE_PEOPLE: Final = """
    insert into directory_people (connection_id, external_id, org_id, user_id, digest, is_active)
    select %(connection)s, listed.external_id, %(organization)s, listed.user_id, listed.digest, true
      from unnest(%(external_ids)s::bytea[], %(users)s::uuid[], %(digests)s::bytea[]) as listed (external_id, user_id, digest)
        on conflict (connection_id, external_id) do update
       set digest = excluded.digest, is_active = true, is_kept = false
     where directory_people.user_id = excluded.user_id
"""

_SAVE_NAMES: Final = """
    update provisioned_users
       set given_name = named.given, family_name = named.family, display_name = named.display, updated_at = %(at)s, is_scims = false
      from unnest(%(users)s::uuid[], %(given)s::text[], %(family)s::text[], %(display)s::text[]) as named (user_id, given, family, display)
     where provisioned_users.org_id = %(organization)s and provisioned_users.user_id = named.user_id
"""

# The digest is of nothing that a directory says, so the next run writes all of it.
_TAKE_OVER: Final = """
    insert into directory_people (connection_id, external_id, org_id, user_id, digest, is_active)
    select %(connection)s, taken.external_id, %(organization)s, taken.user_id, '', true
      from unnest(%(external_ids)s::bytea[], %(users)s::uuid[]) as taken (external_id, user_id)
        on conflict (connection_id, external_id) do update
       set digest = excluded.digest, is_active = true, is_kept = false
     where directory_people.user_id = excluded.user_id
"""

_NOT_SCIMS: Final = """
    update provisioned_users set is_scims = false where org_id = %(organization)s and user_id = any(%(users)s)
"""

_KEEP: Final = """
    update directory_people
       set is_active = false, is_kept = true
     where connection_id = %(connection)s and user_id = any(%(users)s) and is_active
"""

# What an owner let go on was about people whom the connection lists.
_ANEW: Final = """
    update directory_steps
       set agreed_digest = null, agreed_run = null, held_digest = null, held_since = null, held_run = null, marks = null, next_at = now()
     where connection_id = %(connection)s
"""

_NOBODY_WAITS: Final = "update directory_runs set state = 'over' where connection_id = %(connection)s and state = 'waiting'"

_RELEASE: Final = """
    with released as (
             update directory_people
                set is_active = false
              where connection_id = %(connection)s and is_active
          returning org_id, user_id
         ),
         nobodys as (
             update provisioned_users
                set is_scims = false
               from released
              where provisioned_users.org_id = released.org_id and provisioned_users.user_id = released.user_id
         )
    select count(*) as count from released
"""

_END_PEOPLE: Final = """
    update directory_people
       set is_active = false, ended_at = %(at)s
     where connection_id = %(connection)s and user_id = any(%(users)s) and is_active
"""

_SAVE_GROUP: Final = """
    insert into directory_groups (connection_id, external_id, team_id, digest)
    values (%(connection)s, %(external_id)s, %(team)s, %(digest)s)
        on conflict (connection_id, external_id) do update set team_id = excluded.team_id, digest = excluded.digest
"""


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

    async def renew_step_lease(self, step: DirectoryStep, until: datetime) -> bool:
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

    async def find_run_for_update(
        self, organization: OrganizationId, connection: UpstreamProviderId, run: DirectoryRunId
    ) -> DirectoryRun | None:
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

DIRECTORY_STEPS_COUNTED: Final = """
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

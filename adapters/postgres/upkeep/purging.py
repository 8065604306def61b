"""Purges what is left of deleted objects and of erased users."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

import trio

from adapters.postgres.columns import IdRow
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import LIFTED
from adapters.postgres.identity.privacy.forgetting import CREDENTIALS, PARTS
from adapters.postgres.jobs import SealedJobs
from adapters.postgres.statements import ask, only, tell
from adapters.postgres.tables.declaring import ENTRY, ORGANIZATION, OWN_ORGANIZATION, PROVIDER, SERVICE, WEBHOOK, Ends, Table, Whose
from adapters.postgres.tables.every import TABLES
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.identity.privacy import FORGET_JOB
from core.domain.mail import MAIL_JOB, Email, named_account
from core.domain.services.services import PURGE_JOB as PURGE_SERVICE_JOB
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from core.domain.tenancy.organizations import PURGE_JOB as PURGE_ORGANIZATION_JOB
from core.domain.tenancy.profile_fields import PURGE_JOB as PURGE_FIELD_JOB
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.database import Swept

_BEFORE_ALL: Final = UUID(int=0)

# A batch that a crash of the server undoes is simply repeated. So its commit need not wait for the disk, and other tenants do not wait for
# its commit.
AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

# The end of a part's statement. `batch` has the rows of the batch, and `gone` has the changed rows.
SWEPT: Final[LiteralString] = f"""
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}"""


def held(rows: LiteralString, table: LiteralString, key: LiteralString, lock: LiteralString = "update") -> LiteralString:
    """The rows that `rows` finds, in the order of their ids. Only then are the rows of `table` locked that meet `key`, all together in that
    order, as everywhere else. A row that another sweep has removed in between is not `held`. It still counts, because the next batch begins
    after it.
    """
    return f"""
             select next.id, locked.held is not null as held
               from ({rows}) as next
               left join lateral (select true as held from {table} where {key} for {lock}) as locked on true
    """


class PostgresDeletedRows:
    """Implements `ports.database.DeletedRows` for one kind of thing.

    Each of `statements` belongs to a part. A statement removes up to `limit` rows of `owner` that come `after` an id, and finds none unless
    the owner is being deleted. It returns `last` and `rows`. `named` is the key of the owner in the jobs' payload.

    A batch begins after the last row of the previous one, and not at the first row that is left. While a long transaction elsewhere keeps
    PostgreSQL from cleaning up deleted rows, each batch would otherwise step over all rows deleted before. Rows are locked in the order of
    their IDs, as everywhere else.
    """

    def __init__(self, pool: Pool, statements: Mapping[str, LiteralString], *, table: LiteralString, job: str, named: str) -> None:
        self._pool = pool
        self._statements = statements
        self._finish: LiteralString = _FINISH.format(table=table)
        self._stranded: LiteralString = _STRANDED.format(table=table)
        self._job = {"kind": job, "named": named}
        self.parts: Sequence[str] = tuple(statements)

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        parameters = {"owner": owner, "after": after or _BEFORE_ALL, "limit": limit}
        return only(await ask(self._pool, Swept, self._statements[part], parameters))

    async def finish(self, owner: UUID) -> bool:
        return bool(await ask(self._pool, IdRow, self._finish, {"owner": owner}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        parameters = {**self._job, "patience": patience, "limit": limit}
        return [row.id for row in await ask(self._pool, IdRow, self._stranded, parameters)]


# This also deletes, through their foreign keys, rows that were written after their part was done, or by a later release with more parts.
_FINISH: Final = "delete from {table} where id = %(owner)s and deleted_at is not null returning id"

_STRANDED: Final = """
    select id
      from {table}
     where deleted_at < now() - %(patience)s::interval
       and not exists (
               select from jobs
                where jobs.kind = %(kind)s and jobs.state = 'waiting' and jobs.payload ->> %(named)s = {table}.id::text
           )
     order by deleted_at
     limit %(limit)s
"""


class PostgresDeletedProfileFields(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, PROFILE_FIELD_PARTS, table="all_profile_fields", job=PURGE_FIELD_JOB, named="field")


def _values(keeper: LiteralString) -> LiteralString:
    """A batch of the rows of one keeper, by an index of its own, whether or not they have a value of the field."""
    return f"""
        with batch as (
                 select profile_values.user_id as id
                   from all_profile_fields as fields
                   join profile_values on {keeper}
                  where fields.id = %(owner)s and fields.deleted_at is not null and profile_values.user_id > %(after)s
                  order by profile_values.user_id
                  limit %(limit)s
                    for update of profile_values
             ),
             gone as (
                 update profile_values
                    set values = values - %(owner)s::text, asked = array_remove(asked, %(owner)s::uuid)
                   from batch, all_profile_fields as fields
                  where profile_values.user_id = batch.id and fields.id = %(owner)s and {keeper}
                    and (values ? %(owner)s::text or %(owner)s::uuid = any (asked))
              returning 1
             )
        {SWEPT}"""


PROFILE_FIELD_PARTS: Final[Mapping[str, LiteralString]] = {
    "values_in_organization": _values("profile_values.org_id = fields.org_id"),
    "values_in_installation": _values("profile_values.org_id is null and fields.org_id is null"),
}


class PostgresDeletedServices(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, SERVICE_PARTS, table="all_services", job=PURGE_SERVICE_JOB, named="service")


# Empty for a service that is not being deleted: then no statement here finds a row.
_GOING_SERVICE: Final = "(select id, org_id from all_services where id = %(owner)s and deleted_at is not null)"


def _batch(services: LiteralString, table: LiteralString, column: LiteralString, rows: LiteralString) -> LiteralString:
    """The next ids of all these services together. `rows` finds the rows of one service, `going`, that come after `after`. It reads an
    index that begins with the service and ends with the id, or only few rows.
    """
    found: LiteralString = f"""
                        select going.id as service, rows.id
                          from {services} as going
                         cross join lateral ({rows} limit %(limit)s) as rows
                         order by rows.id
                         limit %(limit)s
    """
    return held(found, table, f"{table}.id = next.id and {table}.{column} = next.service")


def _delete(services: LiteralString, table: LiteralString, rows: LiteralString) -> LiteralString:
    return f"""
        with batch as ({_batch(services, table, "service_id", rows)}),
             gone as (delete from {table} using batch where {table}.id = batch.id and batch.held returning 1)
        {SWEPT}"""


def _delete_from(services: LiteralString, table: LiteralString) -> LiteralString:
    return _delete(services, table, f"select id from {table} where service_id = going.id and id > %(after)s order by id")


_ORIGINS: Final = "select id from users where origin_service_id = going.id and id > %(after)s order by id"
_APIS: Final = "select id from resource_servers where service_id = going.id and id > %(after)s order by id"


def _one_of_each(services: LiteralString, table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each service."""
    return f"""
        with batch as (
                 select {table}.service_id as id
                   from {table}
                   join {services} as going on going.id = {table}.service_id
                  where {table}.service_id > %(after)s
                  order by {table}.service_id
                  limit %(limit)s
                    for update of {table}
             ),
             gone as (delete from {table} using batch where {table}.service_id = batch.id returning 1)
        {SWEPT}"""


def parts_of_services(services: LiteralString) -> Mapping[str, LiteralString]:
    """The parts for rows that belong to these services and to nothing else that is deleted. `services` is a subquery with the services'
    ids.
    """
    derived = [table for table in TABLES.values() if table.whose == SERVICE]
    return {
        # Read for each plan separately. PostgreSQL would sort the subscriptions of all plans together again for every batch.
        "subscriptions": _delete(
            services,
            "subscriptions",
            """
            select subscriptions.id
              from plans
             cross join lateral (
                       select id from subscriptions where plan_id = plans.id and id > %(after)s order by id limit %(limit)s
                   ) as subscriptions
             where plans.service_id = going.id
             order by subscriptions.id
            """,
        ),
        "relations": _delete_from(services, "relations"),
        # These rows have no id, and a service has few enough for each batch to begin at the first.
        "former_slugs_of_services": f"""
        with batch as (
                 select former_slugs.service_id as id, noun, slug
                   from former_slugs
                   join {services} as going on going.id = former_slugs.service_id
                  where %(after)s::uuid is not null
                  order by former_slugs.service_id, noun, slug
                  limit %(limit)s
                    for update of former_slugs
             ),
             gone as (
                 delete from former_slugs
                  using batch
                  where former_slugs.service_id = batch.id and (former_slugs.noun, former_slugs.slug) = (batch.noun, batch.slug)
              returning 1
             )
        {SWEPT}""",
        # Accounts that were created through the service stay, because they belong to their people.
        "origins": f"""
        with batch as ({_batch(services, "users", "origin_service_id", _ORIGINS)}),
             gone as (update users set origin_service_id = null from batch where users.id = batch.id and batch.held returning 1)
        {SWEPT}""",
        # An API stays when the service that stands for it goes. Nobody holds the permissions that its scopes may need, from then on.
        "apis": f"""
        with batch as ({_batch(services, "resource_servers", "service_id", _APIS)}),
             gone as (
                 update resource_servers set service_id = null from batch where resource_servers.id = batch.id and batch.held returning 1
             )
        {SWEPT}""",
        # Those of management keys go with their keys.
        "trusted_issuers": _delete_from(services, "trusted_issuers"),
        **{table.name: _delete_from(services, table.name) for table in derived if table.ends is Ends.ROWS},
        **{table.name: _one_of_each(services, table.name) for table in derived if table.ends is Ends.ONE},
    }


_LOGINS: Final[LiteralString] = f"""
                 select id
                   from login_events
                  where organization_id = (select org_id from {_GOING_SERVICE} as going) and id > %(after)s
                  order by id
                  limit %(limit)s
"""

# Sessions go first, so that a person who is signed in there never sees anything that is half deleted.
SERVICE_PARTS: Final[Mapping[str, LiteralString]] = {
    "sessions": _delete_from(_GOING_SERVICE, "sessions"),
    "preauthentications": _delete_from(_GOING_SERVICE, "preauthentications"),
    **parts_of_services(_GOING_SERVICE),
    "service_users": f"""
        with batch as (
                 select service_users.user_id as id
                   from service_users
                   join {_GOING_SERVICE} as going on going.id = service_users.service_id
                  where service_users.user_id > %(after)s
                  order by service_users.user_id
                  limit %(limit)s
                    for update of service_users
             ),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.service_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    # The sign-ins belong to the people and to the organization: the risk of a person's next sign-in depends on them. This reads all rows of
    # the organization, because no index lists the rows of one service by id, and none is worth having for this.
    "login_events": f"""
        with batch as ({held(_LOGINS, "login_events", "id = next.id and service_id = %(owner)s", "no key update")}),
             gone as (
                 update login_events set service_id = null from batch where login_events.id = batch.id and batch.held returning 1
             )
        {SWEPT}""",
}


class PostgresDeletedOrganizations(PostgresDeletedRows):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, ORGANIZATION_PARTS, table="all_organizations", job=PURGE_ORGANIZATION_JOB, named="organization")


# Null for an organization that is not being deleted: then no statement here finds a row.
_GOING: Final = "(select id from all_organizations where id = %(owner)s and deleted_at is not null)"


def _rows_of(table: LiteralString, organization: LiteralString) -> LiteralString:
    """Deletes from a table whose rows have an id, and either an index by organization and id or only a few rows for each organization."""
    return f"""
        with batch as (
                 select id
                   from {table}
                  where {organization} = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for update
             ),
             gone as (delete from {table} using batch where {table}.id = batch.id returning 1)
        {SWEPT}"""


def _rows_of_each(table: LiteralString, column: LiteralString, owners: LiteralString) -> LiteralString:
    """Deletes from a table whose rows belong to one of the few `owners` of the organization, with an index by owner and id."""
    rows: LiteralString = f"""
                 select rows.id
                   from {owners}
                  cross join lateral (
                            select id from {table} where {column} = {owners}.id and id > %(after)s order by id limit %(limit)s
                        ) as rows
                  where {owners}.org_id = {_GOING}
                  order by rows.id
                  limit %(limit)s
    """
    return f"""
        with batch as ({held(rows, table, f"{table}.id = next.id")}),
             gone as (delete from {table} using batch where {table}.id = batch.id and batch.held returning 1)
        {SWEPT}"""


def _released(column: LiteralString, change: LiteralString) -> LiteralString:
    """Releases accounts that the organization created, or that its directory has deactivated."""
    return f"""
        with batch as (
                 select id
                   from users
                  where {column} = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for no key update
             ),
             gone as (update users set {change} from batch where users.id = batch.id returning 1)
        {SWEPT}"""


def _people_of(table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each organization and person."""
    return f"""
        with batch as (
                 select user_id as id
                   from {table}
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from {table} using batch where {table}.user_id = batch.id and {table}.org_id = %(owner)s returning 1
             )
        {SWEPT}"""


def _one_of(table: LiteralString) -> LiteralString:
    """Deletes from a table with one row for each organization."""
    return f"""
        with batch as (
                 select org_id as id from {table} where org_id = {_GOING} and org_id > %(after)s limit %(limit)s for update
             ),
             gone as (delete from {table} using batch where {table}.org_id = batch.id returning 1)
        {SWEPT}"""


_USERS: Final[LiteralString] = f"""
                 select distinct user_id as id
                   from service_users
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
"""

_OWN: Final[Mapping[str, LiteralString]] = {
    "memberships": f"""
        with batch as (
                 select user_id as id
                   from memberships
                  where org_id = {_GOING} and user_id > %(after)s
                  order by user_id
                  limit %(limit)s
                    for update
             ),
             unrelated as (
                 delete from relations using batch where relations.user_id = batch.id and relations.organization_id = %(owner)s
             ),
             gone as (
                 delete from memberships
                  using batch
                  where memberships.user_id = batch.id and memberships.org_id = %(owner)s
              returning 1
             )
        {SWEPT}""",
    # These rows have no id, and an organization has few enough for each batch to begin at the first.
    "former_slugs": f"""
        with batch as (
                 select org_id as id, noun, slug
                   from former_slugs
                  where org_id = {_GOING} and service_id is null and %(after)s::uuid is not null
                  order by noun, slug
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from former_slugs
                  using batch
                  where former_slugs.org_id = batch.id and former_slugs.service_id is null
                    and (former_slugs.noun, former_slugs.slug) = (batch.noun, batch.slug)
              returning 1
             )
        {SWEPT}""",
    "managed_objects": f"""
        with batch as (
                 select org_id as id, service, kind, name
                   from managed_objects
                  where org_id = {_GOING} and %(after)s::uuid is not null
                  order by service, kind, name
                  limit %(limit)s
                    for update
             ),
             gone as (
                 delete from managed_objects
                  using batch
                  where managed_objects.org_id = batch.id
                    and (managed_objects.service, managed_objects.kind, managed_objects.name) = (batch.service, batch.kind, batch.name)
              returning 1
             )
        {SWEPT}""",
    "service_users": f"""
        with batch as ({held(_USERS, "service_users", "service_users.user_id = next.id and org_id = %(owner)s order by service_id")}),
             gone as (
                 delete from service_users
                  using batch
                  where service_users.user_id = batch.id and service_users.org_id = %(owner)s and batch.held
              returning 1
             )
        {SWEPT}""",
    # These sign-ins still count for the platform.
    "uncounted_logins": f"""
        with batch as (
                 select id from uncounted_logins where organization_id = {_GOING} and id > %(after)s order by id limit %(limit)s for update
             ),
             gone as (
                 update uncounted_logins
                    set organization_id = null, service_id = null
                   from batch
                  where uncounted_logins.id = batch.id
              returning 1
             )
        {SWEPT}""",
    # The rows have no ids, and no process adds to these rows any more. So a batch deletes any rows that it finds.
    "login_counts": f"""
        with gone as (
                 delete from login_counts
                  where ctid = any (array(select ctid from login_counts where org_id = {_GOING} limit %(limit)s))
              returning org_id
             )
        select (select org_id from gone limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}
    """,
    # The sign-ins belong to the people: the risk of a person's next sign-in depends on them. What hooks refused names the organization.
    "login_events": f"""
        with batch as (
                 select id
                   from login_events
                  where organization_id = {_GOING} and id > %(after)s
                  order by id
                  limit %(limit)s
                    for update
             ),
             gone as (
                 update login_events
                    set organization_id = null, service_id = null, hook_verdicts = null
                   from batch
                  where login_events.id = batch.id
              returning 1
             )
        {SWEPT}""",
    # The entries stay, because deleting an organization must not remove the record. Only their personal parts are removed, in the order of
    # their index, which begins with the time.
    "audit_personal": f"""
        with begin as (
                 select coalesce((select created_at from audit_entries where id = %(after)s), '-infinity') as created_at
             ),
             batch as (
                 select id, created_at
                   from audit_entries
                  where organization_id = {_GOING} and (created_at, id) > ((select created_at from begin), %(after)s)
                  order by created_at, id
                  limit %(limit)s
             ),
             held as (
                 select entry_id from audit_personal join batch on batch.id = audit_personal.entry_id
                  order by entry_id
                    for update of audit_personal
             ),
             gone as (delete from audit_personal using held where audit_personal.entry_id = held.entry_id returning 1)
        select (select id from batch order by created_at desc, id desc limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}
    """,
}

_ACCOUNTS: Final[Mapping[str, LiteralString]] = {
    # The accounts belong to their people now.
    "users_of_origin": _released("origin_org_id", "origin_org_id = null"),
    # Nobody is left who could let these people in again, so their accounts become active, or locked again. A deactivation by the platform
    # does not name the organization, and stays.
    "users_deactivated": _released("deactivated_by_org_id", f"{LIFTED}, updated_at = now()"),
}


def _statement(table: Table) -> LiteralString:
    name, whose = table.name, table.whose
    if name in _OWN:
        return _OWN[name]
    if table.ends is Ends.PEOPLE:
        return _people_of(name)
    if table.ends is Ends.ONE:
        return _one_of(name)
    return _rows_of(name, whose.column) if whose in _ORGANIZATIONS else _rows_of_each(name, whose.column, whose.owners)


def _parts(*owners: Whose) -> Mapping[str, LiteralString]:
    return {
        table.name.removeprefix("all_"): _statement(table)
        for table in TABLES.values()
        if table.whose in owners and (table.ends in {Ends.ROWS, Ends.PEOPLE, Ends.ONE} or table.name in _OWN)
    }


_ORGANIZATIONS: Final = (ORGANIZATION, OWN_ORGANIZATION)

# Sessions go first, so that a person who is signed in there never sees a membership that is half deleted. Memberships take the members of
# teams with them. What belongs to a thing of the organization goes before the thing; the rest is in the order in which the tables are
# declared.
ORGANIZATION_PARTS: Final[Mapping[str, LiteralString]] = {
    **{name: _statement(TABLES[name]) for name in ("sessions", "preauthentications", "memberships")},
    **parts_of_services(f"(select id from all_services where org_id = {_GOING})"),
    **_parts(PROVIDER, WEBHOOK),
    **_parts(*_ORGANIZATIONS, ENTRY),
    **_ACCOUNTS,
}


_CREDENTIALS: Final = "credentials"
_MAILS: Final = "mails"
_KINDS: Final = (MAIL_JOB, ORGANIZATION_MAIL_JOB, ACCOUNT_MAIL_JOB)


class _BeingForgotten(Frozen):
    user_id: UUID
    email_keys: list[str]
    requested_at: datetime
    former_keys: list[str]
    held_until: list[datetime]

    def addresses(self) -> Mapping[str | None, datetime]:
        """Each address with the moment until which it was the person's. Since that moment somebody else may have the address."""
        return {**dict(zip(self.former_keys, self.held_until, strict=True)), **dict.fromkeys(self.email_keys, self.requested_at)}


class PostgresForgottenPeople:
    """Implements `ports.database.DeletedRows`. The owner is the request. Each batch is done again if it is undone by a crash."""

    parts: Sequence[str] = (_CREDENTIALS, *PARTS, _MAILS)

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._mails = SealedJobs(pool, keyring)

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        found = await ask(self._pool, _BeingForgotten, _OPEN, {"request": owner})
        if not found:
            return Swept(None, 0)
        (going,) = found
        parameters = {
            "user": going.user_id,
            "target": str(going.user_id),
            "keys": going.email_keys,
            "until": going.requested_at,
            "after": after or _BEFORE_ALL,
            "limit": limit,
        }
        if part == _CREDENTIALS:
            # This repeats what the request did, for other requests that were under way then. There are few rows, so one batch is enough.
            for statement in CREDENTIALS:
                await tell(self._pool, statement, parameters)
            return Swept(None, 0)
        if part == _MAILS:
            return await self._sweep_mails(going, after or _BEFORE_ALL, limit)
        return only(await ask(self._pool, Swept, PARTS[part], parameters))

    async def finish(self, owner: UUID) -> bool:
        return bool(await ask(self._pool, IdRow, _FINISH_FORGETTING, {"request": owner}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        return [
            row.id for row in await ask(self._pool, IdRow, _STRANDED_FORGETTING, {"kind": FORGET_JOB, "patience": patience, "limit": limit})
        ]

    async def _sweep_mails(self, going: _BeingForgotten, after: UUID, limit: int) -> Swept:
        """Deletes mails that wait or were given up: mails to the person, and mails for the account whose address nobody may have proved.
        Only the key ring can tell which mails these are.
        """
        jobs = await self._mails.next(_KINDS, after, limit)
        queued_at, theirs = {job.id: job.created_at for job in jobs}, going.addresses()

        def is_theirs(job: UUID, payload: Mapping[str, Any]) -> bool:
            until = theirs.get(_addressee(payload))
            return named_account(payload) == going.user_id or (until is not None and queued_at[job] <= until)

        def to_person() -> list[UUID]:
            return [job for job, payload in self._mails.opened(jobs) if is_theirs(job, payload)]

        # Opening hundreds of payloads takes longer than other tasks should have to wait, so a thread opens them.
        mails = await trio.to_thread.run_sync(to_person)
        gone = await self._mails.delete(mails) if mails else 0
        return Swept(jobs[-1].id if jobs else None, gone)


def _addressee(payload: Mapping[str, Any]) -> str | None:
    """The recipient of a mail, or of a job that makes a mail."""
    address = payload.get("to", payload.get("email"))
    return Email(address).key if isinstance(address, str) else None


_OPEN: Final = """
    select user_id, email_keys, requested_at,
           array(select email_key from former_addresses where user_id = privacy_requests.user_id order by email_key) as former_keys,
           array(select held_until from former_addresses where user_id = privacy_requests.user_id order by email_key) as held_until
      from privacy_requests
     where id = %(request)s and completed_at is null
"""

_FINISH_FORGETTING: Final = """
    with done as (
             update privacy_requests
                set completed_at = now(), email_keys = '{}'
              where id = %(request)s and completed_at is null
          returning id, user_id
         ),
         former as (
             delete from former_addresses using done where former_addresses.user_id = done.user_id
         )
    select id from done
"""

_STRANDED_FORGETTING: Final[LiteralString] = """
    select id
      from privacy_requests
     where completed_at is null and requested_at < now() - %(patience)s::interval
       and not exists (
               select from jobs
                where jobs.kind = %(kind)s and jobs.state = 'waiting' and jobs.payload ->> 'privacy' = privacy_requests.id::text
           )
     order by requested_at
     limit %(limit)s
"""

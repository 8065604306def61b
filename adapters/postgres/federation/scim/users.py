"""The SCIM users and the one group of a directory in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.errors import UniqueViolation

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import storable_text
from adapters.postgres.federation.scim.filters import CHANGED_AT, condition_of, source_of
from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_LOCK, LIFTED, is_locked
from adapters.postgres.identity.addresses import nobody_knows
from adapters.postgres.identity.privacy.forgetting import HELD_BY_NOTHING_ELSE, IS_THE_MAKERS
from adapters.postgres.identity.sessions.parts import ending_codes, revoking
from adapters.postgres.statements import Statements, Transaction, first
from adapters.postgres.tenancy.roles import RELATED_BESIDES_DIRECTORY
from core.domain.federation.scim.filters import Filter
from core.domain.federation.scim.groups import Group, GroupChange
from core.domain.federation.scim.users import NO_FIELDS, HeldUser, ProvisionedUser, ScimProfile
from core.domain.formats import Json
from core.domain.identifiers import MembershipId, OrganizationId, ScimTokenId, UserId
from core.domain.mail import Email
from core.domain.requests import Listed
from core.domain.tenancy.roles import beyond_a_member, capabilities_of
from core.domain.tenancy.tiers import user_limit
from core.frozen import Frozen, names_of
from ports.federation.scim import AddressChange, Capacity, FoundGroup, Newcomer, Order, Touched


class _Profile(Frozen, kw_only=True):
    email: str
    external_id: str | None
    work_email: str | None
    formatted_name: str | None
    given_name: str | None
    family_name: str | None
    display_name: str | None
    active: bool
    field_values: Mapping[str, Json] | None
    provisioned_at: datetime
    changed_at: datetime

    def profile(self) -> ScimProfile:
        return ScimProfile(
            user_name=self.email,
            work_email=self.work_email,
            external_id=self.external_id,
            formatted=self.formatted_name,
            given_name=self.given_name,
            family_name=self.family_name,
            display_name=self.display_name,
            active=self.active,
            fields=self.field_values or NO_FIELDS,
        )


class _User(_Profile, kw_only=True):
    user_id: UUID

    def user(self) -> ProvisionedUser:
        return ProvisionedUser(id=UserId(self.user_id), profile=self.profile(), created_at=self.provisioned_at, updated_at=self.changed_at)


class ScimCapacity(Frozen, kw_only=True):
    member_count: int
    max_users: int | None
    default_max_users: int

    def capacity(self) -> Capacity:
        return Capacity(self.member_count, user_limit(self.max_users, self.default_max_users))


_WHOSE: Final = ("is_own", "is_used_here_alone")


class _Held:
    """The columns of a held user, and the columns that the statement adds."""

    def __init__(self, **columns: Any) -> None:
        self.capacity = ScimCapacity(**{name: columns.pop(name) for name in names_of(ScimCapacity)}).capacity()
        own = {name: columns.pop(name) for name in ("role", "relations", "is_deactivated", "in_group", "listed_by", *_WHOSE)}
        account = {name: columns[name] for name in (*ACCOUNT.columns, "deactivated_by", "locked_at", "lock_waits")}
        profile = {name: columns[name] for name in names_of(_Profile) if name in columns}
        self.rest = columns
        self.held = None
        if columns["id"] is not None:
            user = _User(user_id=columns["id"], **profile).user()
            self.held = HeldUser(
                user=user,
                account=ACCOUNT.row(**account),
                role=own["role"] or "",
                capabilities=capabilities_of(own["relations"]),
                is_deactivated=own["is_deactivated"] or False,
                in_group=own["in_group"] is not False,
                listed_by=own["listed_by"],
                is_own=own["is_own"],
                is_used_here_alone=own["is_used_here_alone"],
            )


def _newcomer(
    *,
    member_count: int,
    max_users: int | None,
    default_max_users: int,
    name: str,
    logo_digest: str | None,
    primary_color: str | None,
    dress: list[str | None] | None,
    is_known: bool,
    is_own: bool,
    known: int,
    **account: Any,
) -> Newcomer:
    capacity = Capacity(member_count, user_limit(max_users, default_max_users))
    looks = branded(name, logo_digest, primary_color, dress)
    return Newcomer(capacity, looks, ACCOUNT.found(**account), is_known, known, is_own=is_own)


class _Changed(Frozen):
    done: bool
    known: bool


_GROUP_COLUMNS: Final = ("group_id", "group_name", "group_external_id", "group_state", "group_created_at", "group_updated_at")


def _group(columns: Mapping[str, Any]) -> Group:
    return Group(
        id=columns["group_id"],
        name=columns["group_name"],
        external_id=columns["group_external_id"],
        state=columns["group_state"],
        created_at=columns["group_created_at"],
        updated_at=columns["group_updated_at"],
    )


class _Touched:
    def __init__(self, *, known: int, **columns: Any) -> None:
        self.known = known
        self.group = _group({name: columns.pop(name) for name in _GROUP_COLUMNS})
        self.row = _Held(**columns)


class _Listed:
    """A row of the page. An empty page is one row without a person."""

    def __init__(self, *, total: int, **columns: Any) -> None:
        self.total = total
        self.user = None if columns["user_id"] is None else _User(**columns).user()


class _GroupPart:
    """A part of the group's members. Each row has the group's own columns as well."""

    def __init__(self, *, members: str | None, included: list[UUID], **columns: Any) -> None:
        self.members = members
        self.included = included
        self.group = columns


class ProvisionedUserRows:
    """Implements `ports.federation.scim.ProvisionedUserStore`.

    The directory knows the members of the organization, and the users in `provisioned_users` who are no members. Indexes find both in the
    order of their IDs. A deactivation does not change this order, so a directory that reads page after page misses nobody.
    """

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def find(self, organization: OrganizationId, user: UserId) -> ProvisionedUser | None:
        rows = await self._statements.ask(_User, GET, {"organization": organization, "user": user})
        return rows[0].user() if rows else None

    async def list(
        self, organization: OrganizationId, wanted: Filter | None, order: Order, offset: int, limit: int
    ) -> Listed[ProvisionedUser]:
        parameters: dict[str, Any] = {"organization": organization, "offset": offset, "limit": limit}
        if wanted is None and order == Order():
            statement = LIST
        else:
            condition = "true" if wanted is None else condition_of(wanted, parameters)
            source = EVERYBODY if wanted is None else source_of(wanted, parameters) or EVERYBODY
            statement = _SEARCH.format(
                source=source, condition=condition, place=_PLACES[order.by], direction="desc" if order.descending else "asc"
            )
        rows = await self._statements.ask_for_many(_Listed, statement, parameters, lambda row: row)
        # No row means that the organization is gone.
        return Listed([row.user for row in rows if row.user is not None], rows[0].total if rows else 0)

    async def group(self, organization: OrganizationId, users_address: str | None, members: Sequence[UserId]) -> FoundGroup | None:
        parameters = {"organization": organization, "address": users_address, "members": list(members)}
        parts = await self._statements.ask_for_many(_GroupPart, GROUP, parameters, lambda row: row)
        if not parts:
            return None
        listed = None
        if users_address is not None:
            listed = b"[" + b",".join(part.members.encode() for part in parts if part.members is not None) + b"]"
        return FoundGroup(_group(parts[0].group), listed, frozenset(map(UserId, parts[0].included)))

    async def hold(self, organization: OrganizationId, user: UserId) -> tuple[Capacity, HeldUser] | None:
        return next(((capacity, held) for capacity, held in await self.hold_all(organization, [user])), None)

    async def hold_all(self, organization: OrganizationId, users: Collection[UserId]) -> Sequence[tuple[Capacity, HeldUser]]:
        parameters = {"organization": organization, "users": list(users)}
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": organization})
        await self._statements.tell(_HOLD_KNOWN, parameters)
        rows = await self._statements.ask(_Held, _FIND_HELD, parameters)
        return [(row.capacity, row.held) for row in rows if row.held is not None]

    async def hold_address(self, organization: OrganizationId, email: Email) -> Newcomer | None:
        parameters = {"organization": organization, "email_key": email.key}
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": organization})
        await self._statements.tell(_HOLD_ADDRESS, {"email_key": email.key})
        row = first(await self._statements.ask(dict[str, Any], _FIND_NEWCOMER, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _newcomer(**row)

    async def hold_group(self, organization: OrganizationId, change: GroupChange) -> Touched | None:
        parameters = {
            "organization": organization,
            "plus": list(change.plus),
            "minus": list(change.minus),
            "replaced": change.replaced,
            "beyond": beyond_a_member(),
        }
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": organization})
        await self._statements.tell(_HOLD_TOUCHED, parameters)
        rows = await self._statements.ask(_Touched, _FIND_TOUCHED, parameters)
        if not rows:
            return None
        users = {held.user.id: held for held in (row.row.held for row in rows) if held is not None}
        return Touched(rows[0].group, rows[0].row.capacity, users, rows[0].known)

    async def enter(self, organization: OrganizationId, users: Mapping[UserId, MembershipId], at: datetime) -> None:
        parameters = {"organization": organization, "users": list(users), "ids": list(users.values()), "at": at}
        await self._statements.tell(LIFT, {"organization": organization, "users": list(users), "at": at})
        await self._statements.tell(_ENTER, parameters)

    async def leave(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, deactivated: bool) -> None:
        parameters = {"organization": organization, "users": list(users), "at": at, "deactivated": deactivated}
        await self._statements.tell(_LEAVE, parameters)
        await self._statements.tell(_END_CODES, {"organization": organization, "users": list(users)})
        await self._statements.tell(_END_SESSIONS, {"organization": organization, "users": list(users)})

    async def deactivate_accounts(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> None:
        await self._statements.tell(_DEACTIVATE, {"organization": organization, "users": list(users), "at": at})

    async def change_address(self, organization: OrganizationId, user: UserId, email: Email, at: datetime) -> AddressChange:
        parameters = {"organization": organization, "user": user, "email": email.address, "email_key": email.key, "at": at}
        try:
            (row,) = await self._statements.ask(_Changed, _CHANGE_ADDRESS, parameters)
        except UniqueViolation:
            # Another account took the address at this moment.
            return AddressChange.TAKEN
        return AddressChange.DONE if row.done else AddressChange.KNOWN if row.known else AddressChange.TAKEN

    async def list_in_group(self, organization: OrganizationId, users: Collection[UserId], at: datetime, *, listed: bool) -> None:
        parameters = {"organization": organization, "users": list(users), "at": at, "listed": listed}
        await self._statements.tell(_LIST_IN_GROUP, parameters)

    async def save(self, organization: OrganizationId, user: UserId, profile: ScimProfile, at: datetime) -> None:
        texts = {
            "external_id": profile.external_id,
            "work_email": profile.work_email,
            "formatted": profile.formatted,
            "given": profile.given_name,
            "family": profile.family_name,
            "display": profile.display_name,
        }
        stored = {name: None if text is None else storable_text(text) for name, text in texts.items()}
        await self._statements.tell(_SAVE, {"organization": organization, "user": user, "at": at, **stored})

    async def list_by(self, token: ScimTokenId, organization: OrganizationId, users: Collection[UserId]) -> None:
        await self._statements.tell(_LIST_BY, {"token": token, "organization": organization, "users": list(users)})

    async def forget(self, organization: OrganizationId, user: UserId) -> None:
        await self._statements.tell(_FREE, {"organization": organization, "user": user})
        await self._statements.tell(_FORGET, {"organization": organization, "user": user})

    async def save_group(self, organization: OrganizationId, external_id: str | None, at: datetime) -> None:
        text = None if external_id is None else storable_text(external_id)
        await self._statements.tell(_SAVE_GROUP, {"organization": organization, "external_id": text, "at": at})


# All people whom the directory knows.
EVERYBODY: Final = """
                          select user_id from memberships where org_id = %(organization)s
                       union all
                          select user_id from provisioned_users where org_id = %(organization)s and not is_member
"""

_IN_GROUP: Final = """
                          select user_id from memberships where org_id = %(organization)s
                       union all
                          select user_id
                            from provisioned_users
                           where org_id = %(organization)s and not is_member and is_deactivated and in_group
"""

_JOINS: Final = """
      left join memberships on memberships.org_id = %(organization)s and memberships.user_id = users.id
      left join provisioned_users as provisioned on provisioned.org_id = %(organization)s and provisioned.user_id = users.id
"""

_IS_KNOWN: Final = "(memberships.id is not null or provisioned.user_id is not null)"

_PROFILE: Final = f"""
           provisioned.external_id, provisioned.work_email, provisioned.formatted_name, provisioned.given_name, provisioned.family_name,
           provisioned.display_name, memberships.id is not null as active,
           (
               select jsonb_object_agg(fields.key, profile_values.values -> fields.id::text)
                 from profile_values
                 join profile_fields as fields on fields.org_id = profile_values.org_id and profile_values.values ? fields.id::text
                where profile_values.user_id = users.id and profile_values.org_id = %(organization)s
                  and 'directory' = any (fields.written_by)
           ) as field_values,
           coalesce(provisioned.created_at, memberships.created_at) as provisioned_at,
           {CHANGED_AT} as changed_at"""

_USER: Final = f"users.id as user_id, users.email, {_PROFILE}"

GET: Final[LiteralString] = f"""
    select {_USER}
      from users
      {_JOINS}
     where users.id = %(user)s and {_IS_KNOWN}
"""

# Two indexes alone find the page. PostgreSQL reads each of them up to the end of the page. Without a limit for each index, PostgreSQL would
# read and sort all rows of a large organization instead.
LIST: Final[LiteralString] = f"""
    with counted as materialized (
             select organizations.member_count
                  + (select count(*) from provisioned_users where org_id = %(organization)s and not is_member) as total
               from organizations
              where id = %(organization)s
         ),
         page as materialized (
             select user_id
               from (
                        (
                            select user_id
                              from memberships
                             where org_id = %(organization)s
                             order by org_id, user_id
                             limit %(offset)s::bigint + %(limit)s::bigint
                        )
                         union all
                        (
                            select user_id
                              from provisioned_users
                             where org_id = %(organization)s and not is_member
                             order by org_id, user_id
                             limit %(offset)s::bigint + %(limit)s::bigint
                        )
                    ) as everybody
              order by user_id
             offset %(offset)s::bigint
              limit %(limit)s::bigint
         )
    select counted.total, listed.*
      from counted
      left join page on true
      left join lateral (
                select {_USER}
                  from users
                  {_JOINS}
                 where users.id = page.user_id
                 limit 1
           ) as listed on true
     order by page.user_id
"""

# The placeholders take one of a few conditions and orders. All of these are constants.
_SEARCH: Final[LiteralString] = f"""
    with found as materialized (
             select users.id, {{place}} as place
               from ({{source}}) as source
               join users on users.id = source.user_id
               {_JOINS}
              where {_IS_KNOWN} and {{condition}}
         ),
         page as materialized (
             select id, place from found order by place {{direction}}, id {{direction}} offset %(offset)s::bigint limit %(limit)s::bigint
         )
    select (select count(*) from found) as total, listed.*
      from (values (true)) as this (search)
      left join page on true
      left join lateral (
                select {_USER}
                  from users
                  {_JOINS}
                 where users.id = page.id
                 limit 1
           ) as listed on true
     order by page.place {{direction}}, page.id {{direction}}
"""

_PLACES: Final[Mapping[str, LiteralString]] = {
    "id": "users.id",
    "userName": "users.email_key",
    "externalId": "provisioned.external_id",
    "displayName": "lower(provisioned.display_name)",
    "meta.created": "coalesce(provisioned.created_at, memberships.created_at)",
    "meta.lastModified": CHANGED_AT,
}

# `group_state` changes with every change of the group: it contains the newest membership, the number of members, and the number of
# deactivated people who are still listed.
_GROUP: Final = """
           organizations.id as group_id, organizations.name as group_name, scim_groups.external_id as group_external_id,
           concat_ws('/', organizations.name, scim_groups.external_id, organizations.member_count, newest.id, absent.listed,
                     extract(epoch from absent.updated_at)) as group_state,
           organizations.created_at as group_created_at,
           greatest(organizations.updated_at, newest.created_at, absent.updated_at, scim_groups.updated_at) as group_updated_at
"""

_GROUP_JOINS: Final = """
      left join scim_groups on scim_groups.org_id = organizations.id
      left join lateral (
                select id, created_at from memberships where org_id = organizations.id order by created_at desc, id desc limit 1
           ) as newest on true
      left join lateral (
                select count(*) filter (where is_deactivated and in_group) as listed, max(updated_at) as updated_at
                  from provisioned_users
                 where org_id = organizations.id and not is_member
           ) as absent on true
"""

# The members come in parts of a hundred, because a large organization has megabytes of members.
GROUP: Final[LiteralString] = f"""
    with parts as materialized (
             select part,
                    string_agg(
                        '{{"value":"' || user_id || '","$ref":"' || %(address)s::text || '/' || user_id || '","type":"User"}}',
                        ',' order by user_id
                    ) as members
               from (
                        select user_id, (row_number() over (order by user_id) - 1) / 100 as part
                          from ({_IN_GROUP}) as everybody
                         where %(address)s::text is not null
                    ) as placed
              group by part
         )
    select {_GROUP}, parts.members,
           array(select user_id from ({_IN_GROUP}) as everybody where user_id = any(%(members)s::uuid[])) as included
      from organizations
      {_GROUP_JOINS}
      left join parts on true
     where organizations.id = %(organization)s
     order by parts.part
"""

# These locks are statements of their own, so that the next statement sees what others committed meanwhile. Accounts are locked as strongly
# as for a deletion. Meanwhile nobody signs in, becomes a member elsewhere or becomes a platform owner with a locked account, because the
# new rows would refer to the account.
_HOLD_ORGANIZATION: Final = "select from organizations where id = %(organization)s for no key update"

_KNOWN_AMONG: Final = """
        (exists (select from memberships where org_id = %(organization)s and user_id = users.id)
      or exists (select from provisioned_users where org_id = %(organization)s and user_id = users.id))
"""

_HOLD_KNOWN: Final[LiteralString] = f"select from users where id = any(%(users)s) and {_KNOWN_AMONG} order by id for update"

_HOLD_ADDRESS: Final = "select from users where email_key = %(email_key)s for update"

# Whoever lists a person ends them, and nobody else does, as long as the connection keeps in step.
_LISTED_BY: Final = """
        (
            select upstream_providers.name
              from directory_people
              join upstream_providers on upstream_providers.id = directory_people.connection_id
             where directory_people.org_id = %(organization)s and directory_people.user_id = users.id and directory_people.is_active
               and upstream_providers.ldap @> '{"keeps_in_step": true}'
        )
"""

# The people who shall enter the group and are not in the group, and the people who shall leave. A replacement of the whole group does not
# remove people who may do more than a plain member, unless the directory itself gives them these rights by its teams, nor those whom a
# directory by LDAP lists.
_TOUCHED: Final[LiteralString] = f"""
        select asked.user_id
          from unnest(%(plus)s::uuid[]) as asked (user_id)
         where asked.user_id not in ({_IN_GROUP})
        union all
        select asked.user_id from unnest(%(minus)s::uuid[]) as asked (user_id)
        union all
        select here.user_id
          from ({_IN_GROUP}) as here
          join users on users.id = here.user_id
          join organizations as wanted on wanted.id = %(organization)s
         where %(replaced)s
           and here.user_id <> all (%(plus)s::uuid[])
           and not exists (select from ({RELATED_BESIDES_DIRECTORY}) as related where related.relation = any(%(beyond)s))
           and {_LISTED_BY} is null
"""

_HOLD_TOUCHED: Final[LiteralString] = f"select from users where id in ({_TOUCHED}) and {_KNOWN_AMONG} order by id for update"

_CAPACITY: Final = "organizations.member_count, organizations.max_users, tiers.default_max_users"

CAPACITY_OF: Final[LiteralString] = f"""
    select {_CAPACITY} from organizations join tiers on tiers.id = organizations.tier_id where organizations.id = %(organization)s
"""

_HELD: Final[LiteralString] = f"""
           {ACCOUNT_AND_LOCK}, {_PROFILE}, {_CAPACITY},
           memberships.role, provisioned.is_deactivated, provisioned.in_group, {_LISTED_BY} as listed_by,
           array(
               select related.relation
                 from organizations as wanted
                cross join lateral ({RELATED_BESIDES_DIRECTORY}) as related
                where wanted.id = %(organization)s
           ) as relations,
           {IS_THE_MAKERS} as is_own, {HELD_BY_NOTHING_ELSE} as is_used_here_alone
"""

_FIND_HELD: Final[LiteralString] = f"""
    select {_HELD}
      from organizations
      join tiers on tiers.id = organizations.tier_id
      join users on users.id = any(%(users)s)
      {_JOINS}
     where organizations.id = %(organization)s and {_IS_KNOWN}
"""

_FIND_TOUCHED: Final[LiteralString] = f"""
    with counted as materialized (
             select count(*) as known
               from users
              where id = any(%(plus)s) and {_KNOWN_AMONG}
         ),
         touched as materialized ({_TOUCHED})
    select counted.known, {_GROUP}, held.*, {_CAPACITY}
      from organizations
      join tiers on tiers.id = organizations.tier_id
      {_GROUP_JOINS}
     cross join counted
      left join lateral (
                select {_HELD.replace(f"{_CAPACITY},", "")}
                  from users
                  {_JOINS}
                 where users.id in (select user_id from touched) and {_IS_KNOWN}
           ) as held on true
     where organizations.id = %(organization)s
"""

_FIND_NEWCOMER: Final[LiteralString] = f"""
    select {_CAPACITY}, {ACCOUNT_AND_LOCK}, {_IS_KNOWN} as is_known, coalesce({IS_THE_MAKERS}, false) as is_own,
           organizations.member_count
         + (select count(*) from provisioned_users where org_id = %(organization)s and not is_member)::integer as known,
           organizations.name, organizations.logo_digest, organizations.primary_color,
           {dress_of("organizations")} as dress
      from organizations
      join tiers on tiers.id = organizations.tier_id
      left join users on users.email_key = %(email_key)s
      {_JOINS}
     where organizations.id = %(organization)s
"""

# The directory's deactivation ends when it adds the person again, and that of another directory if nobody knows the address: then nobody
# can sign in who has not shown first that it is theirs. The platform's deactivation stays, as does another organization's, whose account it
# may be: the person is a member all the same, as anybody is whom the directory names.
LIFT: Final[LiteralString] = f"""
    update users
       set {LIFTED}, updated_at = %(at)s
     where id = any(%(users)s)
       and (deactivated_by = %(organization)s or deactivated_by is not null and {nobody_knows()})
"""


# The new membership does not revive sessions of an earlier membership.
def entering(way: LiteralString) -> LiteralString:
    """The statement by which people become members. `way` is an expression that says how."""
    return f"""
    with entering as (
             select * from unnest(%(users)s::uuid[], %(ids)s::uuid[]) as entering (user_id, id)
         ),
         added as (
             insert into memberships (id, org_id, user_id, role, created_at, came_by)
             select entering.id, %(organization)s, user_id, 'member', %(at)s,
                    {way}
               from entering
               join users on users.id = entering.user_id
                 on conflict (org_id, user_id) do nothing
          returning user_id
         ),
         related as (
             insert into relations (organization_id, user_id, relation, object_type, object_id)
             select %(organization)s, user_id, 'member', 'organization', %(organization)s from added
         ),
         left_over as (
             select id
               from sessions
              where user_id in (select user_id from added)
                and organization_id = %(organization)s and service_id is null and revoked_at is null
              order by id
                for no key update
         ),
         ended as (
             update sessions set revoked_at = now() from left_over where sessions.id = left_over.id
         )
  insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at)
  select %(organization)s, user_id, true, %(at)s, %(at)s from entering
      on conflict (org_id, user_id) do update
         set is_member = true, is_deactivated = false, in_group = true, updated_at = %(at)s
"""


_ENTER: Final[LiteralString] = entering("case when users.origin_org_id = %(organization)s then 'created' else 'added' end")

# The foreign key takes the people out of the teams.
_LEAVE: Final = """
    with leaving as (
             select unnest(%(users)s::uuid[]) as user_id
         ),
         removed as (
             delete from memberships using leaving where org_id = %(organization)s and memberships.user_id = leaving.user_id
          returning memberships.user_id, memberships.created_at
         ),
         unrelated as (
             delete from relations using leaving where organization_id = %(organization)s and relations.user_id = leaving.user_id
         ),
         touched as (
             update teams
                set updated_at = %(at)s
              where id in (
                        select team_id
                          from team_members
                          join leaving on leaving.user_id = team_members.user_id
                         where org_id = %(organization)s
                    )
         )
  insert into provisioned_users (org_id, user_id, is_member, is_deactivated, in_group, created_at, updated_at)
  select %(organization)s, leaving.user_id, false, %(deactivated)s, %(deactivated)s, coalesce(removed.created_at, %(at)s), %(at)s
    from leaving
    left join removed on removed.user_id = leaving.user_id
      on conflict (org_id, user_id) do update
         set is_member = false,
             is_deactivated = provisioned_users.is_deactivated or excluded.is_deactivated,
             in_group = excluded.in_group and (provisioned_users.is_member or provisioned_users.in_group),
             updated_at = %(at)s
"""

_END_CODES: Final[LiteralString] = ending_codes(
    "user_id = any(%(users)s) and service_id in (select id from all_services where org_id = %(organization)s)"
)

_END_SESSIONS: Final[LiteralString] = revoking("user_id = any(%(users)s) and organization_id = %(organization)s")

# Also of a locked account: the directory's word counts until the reader of the mailbox asks for a link afterwards.
_DEACTIVATE: Final[LiteralString] = f"""
    update users
       set deactivated_at = %(at)s, deactivated_by_org_id = %(organization)s, locked_at = nullif(locked_at, %(at)s), pending_email = null,
           pending_email_key = null, updated_at = %(at)s
     where id = any(%(users)s) and (deactivated_at is null or {is_locked()})
"""

# Another person than the one who chose the password may prove the new address. So the statement removes the password, unless the new
# address is only another spelling.
_CHANGE_ADDRESS: Final[LiteralString] = f"""
    with others as (
             select {_KNOWN_AMONG} as known from users where email_key = %(email_key)s and id <> %(user)s
         ),
         changed as (
             update users
                set email = %(email)s, email_key = %(email_key)s,
                    email_verified_at = case when email_key = %(email_key)s then email_verified_at end,
                    password_hash = case when email_key = %(email_key)s then password_hash end,
                    password_changed_at = case when email_key = %(email_key)s then password_changed_at end,
                    language = case when email_key = %(email_key)s then language end,
                    pending_email = null, pending_email_key = null, updated_at = %(at)s
              where id = %(user)s and not exists (select from others)
          returning id
         )
    select exists (select from changed) as done, coalesce((select known from others), false) as known
"""

_LIST_IN_GROUP: Final = """
    update provisioned_users
       set in_group = %(listed)s, updated_at = %(at)s
     where org_id = %(organization)s and user_id = any(%(users)s) and not is_member
"""

# A member whom no directory has provisioned gets a row when a directory first writes attributes of the member.
_SAVE: Final = """
    with known as (
             update provisioned_users
                set external_id = %(external_id)s, work_email = %(work_email)s, formatted_name = %(formatted)s, given_name = %(given)s,
                    family_name = %(family)s, display_name = %(display)s, updated_at = %(at)s
              where org_id = %(organization)s and user_id = %(user)s
          returning user_id
         )
  insert into provisioned_users (org_id, user_id, is_member, external_id, work_email, formatted_name, given_name, family_name, display_name,
                                 created_at, updated_at)
  select memberships.org_id, memberships.user_id, true, %(external_id)s, %(work_email)s, %(formatted)s, %(given)s, %(family)s, %(display)s,
         memberships.created_at, %(at)s
    from memberships
   where org_id = %(organization)s and user_id = %(user)s and not exists (select from known)
"""

_LIST_BY: Final = """
    update provisioned_users
       set is_scims = true, scim_token_id = %(token)s
     where org_id = %(organization)s and user_id = any(%(users)s) and (not is_scims or scim_token_id is distinct from %(token)s)
"""

# Lifts the organization's deactivation, because afterwards no directory is left that could reactivate the person.
_FREE: Final[LiteralString] = f"""
    update users
       set {LIFTED}, updated_at = now()
     where id = %(user)s and deactivated_by = %(organization)s
"""

_FORGET: Final = "delete from provisioned_users where org_id = %(organization)s and user_id = %(user)s"

_SAVE_GROUP: Final = """
    insert into scim_groups (org_id, external_id, updated_at)
    values (%(organization)s, %(external_id)s, %(at)s)
        on conflict (org_id) do update set external_id = excluded.external_id, updated_at = excluded.updated_at
"""

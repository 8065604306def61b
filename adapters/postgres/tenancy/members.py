"""Members of an organization in PostgreSQL, with their roles, and its owners."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable_text
from adapters.postgres.identity.accounts import ACCOUNT, is_locked
from adapters.postgres.identity.addresses import is_proved, may_answer
from adapters.postgres.identity.factors.mfa import second_factor_due, second_factor_since
from adapters.postgres.identity.privacy.forgetting import BELONGS_HERE_ALONE
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import ending_codes, has_hooks, revoking
from adapters.postgres.identity.sessions.parts import is_kept_out as kept_out
from adapters.postgres.identity.terms import terms_due
from adapters.postgres.statements import OnStatements, OnTransaction, Statements, Transaction, first, only
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER, teams_of
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, IS_OWN_USE, IS_UNCONFIRMED_OWNER, counts_for, is_own_member, shown_name
from core.domain.identifiers import OrganizationId, RoleId, SessionId, UserId
from core.domain.identity.account_mails import CHOOSES_PASSWORD
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import MOST_ROWS_COUNTED, Page
from core.domain.tenancy.members import (
    Adding,
    Addressee,
    DeclinedOwnership,
    Entry,
    ListedMember,
    ListedMembership,
    MemberDetail,
    MemberList,
    Membership,
    MembershipOrigin,
    UnconfirmedOwnership,
)
from core.domain.tenancy.roles import HOLDER, Assignable, BuiltInRole, capabilities_of
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.domain.tenancy.tiers import UserLimit, user_limit
from core.frozen import Frozen
from ports.tenancy.members import Handed, KnownMember
from ports.tenancy.receivers import Owner

# Few statements read since when the membership is the person's own.
MEMBERSHIP: Final = Columns(
    Membership,
    "memberships",
    named={"organization": "org_id", "user": "user_id"},
    apart=("came_by", "own_since"),
    prefix="membership_",
)


def _known(
    *,
    relations: Sequence[str],
    is_unconfirmed_owner: bool,
    organization_is_active: bool,
    organization_name: str,
    own_since: datetime | None,
    **columns: Any,
) -> KnownMember:
    return KnownMember(
        ACCOUNT.taken(columns),
        MEMBERSHIP.row(own_since=own_since, **columns),
        capabilities_of(relations),
        organization_is_active,
        organization_name,
        is_unconfirmed_owner,
    )


def _entry(
    *,
    organization: OrganizationId,
    organization_slug: str,
    organization_is_active: bool,
    second_factor_due: datetime | None,
    session_hours: int | None,
    is_kept_out: bool,
    terms_due: datetime | None,
    has_hooks: bool,
    **membership: Any,
) -> Entry:
    found = MEMBERSHIP.found(**membership)
    lifetime = session_lifetime(session_hours)
    return Entry(
        organization,
        organization_slug,
        organization_is_active,
        found,
        second_factor_due,
        lifetime,
        is_kept_out=is_kept_out,
        terms_due=terms_due,
        has_hooks=has_hooks,
    )


def _listing(*, by_directory: bool, by_domain: bool, role_name: str | None, **columns: Any) -> ListedMembership:
    adding = Adding.DIRECTORY if by_directory else Adding.DOMAIN if by_domain else Adding.OTHERS
    return ListedMembership(adding=adding, role_name=role_name or "", **columns)


def _listed(
    *,
    max_users: int | None,
    default_max_users: int,
    total: int,
    email: str,
    name: str | None,
    is_platform_owner: bool,
    **membership: Any,
) -> tuple[int, UserLimit, ListedMember | None]:
    """A row of the page. An empty page is one row without a member."""
    found = MEMBERSHIP.found(**membership)
    member = None if found is None else ListedMember(found, Email(email), is_platform_owner, name)
    return total, user_limit(max_users, default_max_users), member


def _detail(
    *,
    email: str,
    name: str | None,
    is_platform_owner: bool,
    came_by: str,
    has_second_factor: bool | None,
    has_devices: bool | None,
    sessions: int,
    teams: Sequence[str],
    **membership: Any,
) -> MemberDetail:
    return MemberDetail(
        listed=ListedMember(MEMBERSHIP.row(**membership), Email(email), is_platform_owner, name),
        origin=MembershipOrigin(came_by),
        has_second_factor=has_second_factor,
        has_devices=has_devices,
        sessions=sessions,
        teams=teams,
    )


class MemberRows(OnStatements):
    """Implements `ports.tenancy.members.MemberStore`."""

    async def list(self, organization: OrganizationId, page: Page, role: str | None, search: str = "") -> MemberList:
        statement = _LIST_MATCHING if search else _LIST if role is None else _LIST_OF_ROLE
        parameters = {
            "organization": organization,
            "role": None if role is None else storable_text(role),
            "search": storable_text(search),
            "limit": page.limit,
            "offset": page.offset,
            "most_counted": MOST_ROWS_COUNTED,
        }
        rows = await self._statements.ask(_listed, statement, parameters)
        # No row: the organization was deleted after the caller was admitted, so it has no members any more.
        if not rows:
            return MemberList([], 0, user_limit(None, None))
        total, limit, _ = rows[0]
        return MemberList([member for *_, member in rows if member is not None], total, limit)

    async def detail(self, organization: OrganizationId, user: UserId) -> MemberDetail | None:
        return first(await self._statements.ask(_detail, _DETAIL, {"organization": organization, "user": user}))

    async def listed(self, user: UserId, domain: str, slug: str | None, most: int) -> Sequence[ListedMembership]:
        parameters = {
            "user": user,
            "mail_domain": storable_text(domain),
            "slug": None if slug is None else storable_text(slug),
            "most": most,
        }
        return await self._statements.ask(_listing, _LISTED, parameters)

    async def listed_by_link(self, digest: bytes, most: int) -> Sequence[ListedMembership]:
        parameters = {"digest": digest, "purposes": sorted(one.value for one in CHOOSES_PASSWORD), "most": most}
        return await self._statements.ask(_listing, _LISTED_BY_LINK, parameters)

    async def add(self, membership: Membership) -> bool:
        return bool(
            await self._statements.ask(
                IdRow,
                _ADD,
                {
                    **MEMBERSHIP.values(membership),
                    "came_by": membership.came_by.value,
                    "own_since": membership.own_since,
                    **_relation(membership.organization, membership.role, membership.role_id),
                },
            )
        )

    async def find(self, organization: OrganizationId, user: UserId) -> KnownMember | None:
        return (await self._find(organization, [user])).get(user)

    async def hold(self, organization: OrganizationId, *users: UserId) -> Mapping[UserId, KnownMember]:
        await self._statements.tell(_HOLD, {"organization": organization})
        if len(users) > 1:
            await self._statements.tell(_HOLD_ACCOUNTS, {"users": list(users)})
        return await self._find(organization, users)

    async def belongs_here_alone(self, organization: OrganizationId, user: UserId) -> bool:
        rows = await self._statements.ask(AnswerRow, BELONGS_HERE_ALONE, {"organization": organization, "user": user})
        return any(row.yes for row in rows)

    async def enter(self, slug: str, user: UserId, session: SessionId) -> Entry | None:
        parameters = {"slug": storable_text(slug), "user": user, "session": session}
        await self._statements.tell(_HOLD_ACCOUNT, parameters)
        await self._statements.tell(_HOLD_MEMBERSHIP, parameters)
        return first(await self._statements.ask(_entry, _ENTER, parameters))

    async def change_role(self, organization: OrganizationId, user: UserId, role: Assignable) -> Membership | None:
        parameters = {
            "organization": organization,
            "user": user,
            "role": role.slug,
            "role_id": role.id,
            **_relation(organization, role.slug, role.id),
        }
        return first(await self._statements.ask(MEMBERSHIP.row, _CHANGE_ROLE, parameters))

    async def remove(self, organization: OrganizationId, user: UserId) -> bool:
        parameters = {"organization": organization, "user": user}
        removed = await self._statements.ask(IdRow, _REMOVE, parameters)
        await self._statements.tell(_END_CODES, parameters)
        await self._statements.tell(_END_SESSIONS, parameters)
        return bool(removed)

    async def release(self, organization: OrganizationId, user: UserId) -> None:
        await self._statements.tell(_RELEASE, {"organization": organization, "user": user})

    async def confirm(
        self, user: UserId, organizations: Collection[OrganizationId], session: SessionId | None, at: datetime
    ) -> Sequence[Membership]:
        parameters = {"user": user, "organizations": list(organizations), "session": session, "at": at}
        return await self._statements.ask(MEMBERSHIP.row, _CONFIRM, parameters)

    async def listed_among(self, user: UserId, organizations: Collection[OrganizationId]) -> bool:
        return only(await self._statements.ask(AnswerRow, _LISTED_AMONG, {"user": user, "organizations": list(organizations)})).yes

    async def hold_listed(self, organization: OrganizationId, user: UserId) -> KnownMember | None:
        parameters = {"organization": organization, "user": user}
        await self._statements.tell(_HOLD, parameters)
        await self._statements.tell(_HOLD_ACCOUNT, parameters)
        held = await self._statements.ask(IdRow, _HOLD_LISTED, parameters)
        return await self.find(organization, user) if held else None

    async def transfer_ownership(self, organization: OrganizationId, old: UserId, new: UserId, at: datetime) -> Handed:
        parameters = {
            "organization": organization,
            "old": old,
            "new": new,
            "at": at,
            "owner": BuiltInRole.OWNER.value,
            "admin": BuiltInRole.ADMIN.value,
        }
        return only(await self._statements.ask(Handed, _TRANSFER, parameters))

    async def _find(self, organization: OrganizationId, users: Sequence[UserId]) -> Mapping[UserId, KnownMember]:
        rows = await self._statements.ask(_known, _FIND, {"organization": organization, "users": list(users)})
        return {row.account.id: row for row in rows}


def _relation(organization: OrganizationId, role: str, role_id: RoleId | None) -> Mapping[str, Any]:
    """The relation that gives a person a role in the organization."""
    if role_id is None:
        return {"relation": role, "object_type": "organization", "object": organization}
    return {"relation": HOLDER, "object_type": "role", "object": role_id}


# Of two callers who add the same person at once, the second waits for the first one's commit and then adds nothing. A caller who waits
# while the account is deleted or forgotten adds nothing either. A former member may still have sessions in the organization, which Postern
# refuses since the removal. `ended` revokes them, so that the new membership does not make them valid again.
_ADD: Final = """
    with added as (
             insert into memberships (id, org_id, user_id, role, role_id, created_at, came_by, own_since)
             select %(id)s, %(organization)s, account.id, %(role)s, %(role_id)s, %(created_at)s, %(came_by)s, %(own_since)s
               from (select id from users where id = %(user)s and anonymized_at is null for key share) as account
                 on conflict (org_id, user_id) do nothing
          returning id
         ),
         related as (
             insert into relations (organization_id, user_id, relation, object_type, object_id)
             select %(organization)s, %(user)s, %(relation)s, %(object_type)s, %(object)s
               from added
         ),
         left_over as (
             select sessions.id
               from sessions
              where sessions.user_id = (select %(user)s::uuid from added)
                and sessions.organization_id = %(organization)s
                and sessions.service_id is null
                and sessions.revoked_at is null
              order by sessions.id
                for no key update      -- every statement that revokes sessions locks them in this order
         ),
         ended as (
             update sessions set revoked_at = now() from left_over where sessions.id = left_over.id
         ),
         known as (
             update provisioned_users
                set is_member = true, is_deactivated = false, in_group = true, updated_at = %(created_at)s
              where org_id = %(organization)s and user_id = (select %(user)s::uuid from added)
         )
  select id from added
"""

_FIND: Final[LiteralString] = f"""
    select {ACCOUNT.names},
           {MEMBERSHIP.names}, memberships.own_since,
           {RELATIONS_OF_MEMBER} as relations,
           {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner,
           wanted.status = 'active' as organization_is_active,
           wanted.name as organization_name
      from organizations as wanted
      join memberships on memberships.org_id = wanted.id
      join users on users.id = memberships.user_id
     where wanted.id = %(organization)s
       and memberships.user_id = any(%(users)s)
"""

# The lock is a separate statement, so that the next statement sees what others committed while this one waited.
_HOLD: Final = "select from organizations where id = %(organization)s for no key update"

# Accounts are locked before memberships and before `provisioned_users`: deleting or forgetting an account takes the locks in this order,
# too. A caller who names only themselves changes nothing of their own account, so `hold` then locks no account. The lock is the one that
# opening a session takes. With a weaker lock, a removal could miss a session that another transaction opens through the membership.
_HOLD_ACCOUNTS: Final = "select from users where id = any(%(users)s) order by id for no key update"

# The lock is the one that opening a session takes. Two transactions that began with a weaker lock could deadlock when both then take this
# one.
_HOLD_ACCOUNT: Final = "select from users where id = %(user)s for no key update"

# The membership stays until the transaction ends. A removal waits for the end, and then finds the session that this transaction opened.
_HOLD_MEMBERSHIP: Final = """
    select
      from memberships
     where org_id = (select id from organizations where slug = %(slug)s)
       and user_id = %(user)s
       for key share
"""

_ENTER: Final[LiteralString] = f"""
    select organizations.id as organization, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active,
           {MEMBERSHIP.names},
           {second_factor_due("%(user)s", "sessions")} as second_factor_due, organizations.session_hours,
           coalesce({kept_out()}, false) as is_kept_out,
           {terms_due("person.id")} as terms_due,
           {has_hooks("organizations.id")} as has_hooks
      from organizations
      join users as person on person.id = %(user)s
      left join memberships on memberships.org_id = organizations.id and memberships.user_id = person.id and {counts_for("person")}
      left join sessions on sessions.id = %(session)s
     where organizations.slug = %(slug)s
"""

# The statement keeps a relation that the new role gives as well, because one statement cannot delete a row and insert it again.
_CHANGE_ROLE: Final[LiteralString] = f"""
    with changed as (
             update memberships
                set role = %(role)s, role_id = %(role_id)s
              where org_id = %(organization)s and user_id = %(user)s
          returning {MEMBERSHIP.names}
         ),
         ended as (
             delete from relations
              where user_id = (select membership_user from changed)
                and organization_id = %(organization)s
                and service_id is null         -- roles of services stay
                and (object_id, relation) <> (%(object)s, %(relation)s)
         ),
         related as (
             insert into relations (organization_id, user_id, relation, object_type, object_id)
             select %(organization)s, membership_user, %(relation)s, %(object_type)s, %(object)s
               from changed
                 on conflict do nothing
         )
  select * from changed
"""

_RELEASE: Final = """
    update users
       set origin_org_id = nullif(origin_org_id, %(organization)s),
           origin_service_id = case
                                   when origin_service_id in (select id from all_services where org_id = %(organization)s) then null
                                   else origin_service_id
                               end
     where id = %(user)s
"""

# The account comes before the memberships, as in a deletion. A trigger then stores who holds the account. Memberships are locked in the
# order of their ids. So two tabs that confirm the same memberships cannot deadlock.
_CONFIRM: Final[LiteralString] = f"""
    with account as materialized (
             select id, email_verified_at from users where id = %(user)s and deactivated_at is null for key share
         ),
         listed as (
             select memberships.id
               from memberships
               join account on account.id = memberships.user_id
              where memberships.org_id = any(%(organizations)s) and memberships.own_since is null
                and {may_answer("memberships.org_id", "account")}
              order by memberships.id
                for no key update of memberships
         )
  update memberships
     set own_since = %(at)s
    from listed
   where memberships.id = listed.id
returning {MEMBERSHIP.names}, memberships.own_since
"""

_LISTED_AMONG: Final = """
    select exists (
               select from memberships where user_id = %(user)s and org_id = any(%(organizations)s) and own_since is null
           ) as yes
"""

_HOLD_LISTED: Final = """
    select id from memberships where org_id = %(organization)s and user_id = %(user)s and own_since is null for update
"""

_TRANSFER: Final = """
    with successors (user_id, role) as (values (%(old)s::uuid, %(admin)s), (%(new)s, %(owner)s)),
         changed as (
             update memberships
                set role = successors.role, role_id = null
               from successors
              where memberships.org_id = %(organization)s and memberships.user_id = successors.user_id
         ),
         ended as (
             delete from relations
              using successors
              where relations.user_id = successors.user_id
                and relations.organization_id = %(organization)s
                and relations.service_id is null
                and (relations.object_id, relations.relation) <> (%(organization)s, successors.role)
         ),
         related as (
             insert into relations (organization_id, user_id, relation, object_type, object_id)
             select %(organization)s, user_id, role, 'organization', %(organization)s
               from successors
                 on conflict do nothing
         ),
         kept as (
             insert into ownerships (org_id, membership_id, former_membership_id, former_role, former_role_id, since)
             select heir.org_id, heir.id, former.id, heir.role, heir.role_id, %(at)s::timestamptz
               from memberships as heir
               join memberships as former on former.org_id = heir.org_id and former.user_id = %(old)s
              where heir.org_id = %(organization)s and heir.user_id = %(new)s
                 on conflict (org_id) do update
                    set membership_id = excluded.membership_id, former_membership_id = excluded.former_membership_id,
                        former_role = excluded.former_role, former_role_id = excluded.former_role_id, since = excluded.since,
                        confirmed_at = null
         )
  update all_organizations
     set owner_user_id = %(new)s, updated_at = %(at)s
   where id = %(organization)s
returning slug as organization_slug, name as organization_name
"""

# The foreign key takes the person out of the teams.
_REMOVE: Final[LiteralString] = f"""
    with removed as (
             delete from memberships where org_id = %(organization)s and user_id = %(user)s returning id
         ),
         ended as (
             delete from relations where user_id = %(user)s and organization_id = %(organization)s
         ),
         known as (
             update provisioned_users
                set is_member = false, is_deactivated = false, in_group = false, updated_at = now()
              where org_id = %(organization)s and user_id = %(user)s and is_member
         ),
         touched as (
             update teams set updated_at = now() where id in ({teams_of("%(user)s", "%(organization)s")})
         )
  select id from removed
"""

# The organization's services that admit only members, and the services that the person entered only because of the membership.
_OF_MEMBERS: Final[LiteralString] = f"""
           array(
               select services.id
                 from services
                 left join service_users on service_users.service_id = services.id and service_users.user_id = %(user)s
                where services.org_id = %(organization)s
                  and (not {admits("false", "%(user)s")} or not coalesce({IS_OWN_USE}, false))
           )
"""

# Sessions that an application got with an authorization code, for scopes that the person has not consented to. For a member, Postern
# skipped the consent page. A device's session has no parent session; without `offline_access` it stays, because the person answered on a
# page.
_UNASKED: Final = """
           sessions.scopes is not null and (sessions.parent_id is not null or 'offline_access' = any (sessions.scopes))
       and not exists (
               select
                 from consents
                where consents.service_id = sessions.service_id and consents.user_id = sessions.user_id
                  and consents.scopes @> sessions.scopes
           )
"""

# Sessions of applications that an assertion of the person's directory has opened: the person was never asked.
_BY_ASSERTION: Final = "sessions.scopes is not null and sessions.opened_through is not null"

# The services of the ended sessions get logout notices. The statement leaves sessions in the organization itself alone, because Postern
# refuses these from now on: the person is no longer a member.
_END_SESSIONS: Final[LiteralString] = revoking(
    f"user_id = %(user)s and organization_id = %(organization)s and (service_id = any ({_OF_MEMBERS}) or {_UNASKED} or {_BY_ASSERTION})"
)

_END_CODES: Final[LiteralString] = ending_codes(
    "user_id = %(user)s and service_id in (select id from all_services where org_id = %(organization)s)"
)


_MADE_HERE: Final = "exists (select from users as made where made.id = memberships.user_id and made.origin_org_id = memberships.org_id)"

# The oldest memberships come first. So a person who has not answered sees the same organizations first, however many others list the
# person meanwhile.
_LISTING: Final[LiteralString] = f"""
    select organizations.id as organization, organizations.slug as organization_slug, organizations.name as organization_name,
           memberships.role, roles.name as role_name,
           memberships.created_at as since,
           exists (
               select
                 from provisioned_users
                where provisioned_users.org_id = memberships.org_id and provisioned_users.user_id = memberships.user_id
                  and provisioned_users.is_member
           ) as by_directory,
           {{by_domain}} as by_domain,
           (
               memberships.came_by = any(case when {_MADE_HERE} then array['created', 'ldap'] else array['created'] end)
           ) as made_the_account,
           {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner
      from memberships
      join organizations on organizations.id = memberships.org_id
      left join roles on roles.id = memberships.role_id
           {{joined}}
     where not ({IS_OWN_MEMBERSHIP}) and {{condition}}
     order by memberships.created_at, memberships.id
     limit %(most)s
"""

_LISTED: Final[LiteralString] = _LISTING.format(
    by_domain="""exists (
               select
                 from domain_routes
                where domain_routes.org_id = memberships.org_id and domain_routes.domain = %(mail_domain)s
                  and domain_routes.verified_at is not null
           )""",
    joined="",
    condition="memberships.user_id = %(user)s and (%(slug)s::text is null or organizations.slug = %(slug)s::text)",
)

_LISTED_BY_LINK: Final[LiteralString] = _LISTING.format(
    by_domain="false",
    joined="""join mailed_tokens on mailed_tokens.user_id = memberships.user_id
      join users on users.id = memberships.user_id""",
    condition=f"""mailed_tokens.digest = %(digest)s and mailed_tokens.purpose = any(%(purposes)s) and mailed_tokens.used_at is null
       and users.password_hash is null and ({is_locked()}) is not true""",
)


_DETAIL: Final[LiteralString] = f"""
    select {MEMBERSHIP.names}, memberships.own_since, users.email,
           case when {IS_OWN_MEMBERSHIP} then {shown_name("users")} end as name, users.is_platform_owner, memberships.came_by,
           case when {IS_OWN_MEMBERSHIP} then {second_factor_since("users.id")} is not null end as has_second_factor,
           case when {IS_OWN_MEMBERSHIP} then exists (select from devices where devices.user_id = users.id) end as has_devices,
           (
               select count(*)
                 from sessions
                where sessions.user_id = %(user)s
                  and sessions.organization_id = %(organization)s
                  and sessions.revoked_at is null
                  and sessions.expires_at > now()
                  and sessions.ends_at > now()
           ) as sessions,
           array(
               select teams.slug
                 from teams
                where teams.id in ({teams_of("%(user)s", "%(organization)s")})
                order by teams.slug
           ) as teams
      from memberships
      join users on users.id = memberships.user_id
     where memberships.org_id = %(organization)s and memberships.user_id = %(user)s
"""

# PostgreSQL finds the page in an index alone and joins only the rows of the page. For an empty page there is one row, in which only the
# numbers are not null.
_SELECT_PAGE: Final[LiteralString] = f"""
           wanted.max_users, tiers.default_max_users, users.email,
           case when {IS_OWN_MEMBERSHIP} then {shown_name("users")} end as name, users.is_platform_owner, {MEMBERSHIP.names}
      from organizations as wanted
      join tiers on tiers.id = wanted.tier_id
"""

_JOIN_PAGE: Final = """
      left join memberships on memberships.id = page.id
      left join users on users.id = memberships.user_id
     where wanted.id = %(organization)s
     order by memberships.created_at, memberships.id
"""

_LIST: Final[LiteralString] = f"""
    select wanted.member_count as total, {_SELECT_PAGE}
      left join (
               select id
                 from memberships
                where org_id = %(organization)s
                order by created_at, id
                limit %(limit)s offset %(offset)s
           ) as page on true
           {_JOIN_PAGE}
"""

# Reads the addresses and names of all members: the caller takes turns. `offset 0` keeps the planner from reading all accounts of the
# installation to find the few of one organization.
_LIST_MATCHING: Final[LiteralString] = f"""
      with found as materialized (
             select memberships.id, memberships.created_at
               from memberships
              cross join lateral (
                        select
                          from users
                         where users.id = memberships.user_id
                           and (strpos(users.email_key, %(search)s) > 0
                             or {IS_OWN_MEMBERSHIP} and strpos(lower({shown_name("users")}), %(search)s) > 0)
                        offset 0
                    ) as matching
              where memberships.org_id = %(organization)s and (%(role)s::text is null or memberships.role = %(role)s)
              limit %(most_counted)s
           )
    select (select count(*) from found) as total, {_SELECT_PAGE}
      left join (select id from found order by created_at, id limit %(limit)s offset %(offset)s) as page on true
           {_JOIN_PAGE}
"""

_LIST_OF_ROLE: Final[LiteralString] = f"""
    select (
               select count(*)
                 from (
                          select from memberships where org_id = %(organization)s and role = %(role)s limit %(most_counted)s
                      ) as counted
           ) as total,
           {_SELECT_PAGE}
      left join (
               select id
                 from memberships
                where org_id = %(organization)s and role = %(role)s
                order by created_at, id
                limit %(limit)s offset %(offset)s
           ) as page on true
           {_JOIN_PAGE}
"""


class _Owner(Frozen):
    user: UUID
    email: str
    language: str | None
    name: str
    logo_digest: str | None
    primary_color: str | None
    dress: list[str | None] | None
    is_own: bool

    def owner(self) -> Owner:
        looks = branded(self.name, self.logo_digest, self.primary_color, self.dress)
        return Owner(UserId(self.user), Email(self.email), Language.of(self.language), looks, self.is_own)


def _addressee(*, user: UUID, email: str, language: str | None) -> Addressee:
    return Addressee(UserId(user), Email(email), Language.of(language))


def _declined(*, was_active: bool, user: UUID | None, email: str | None, language: str | None, **organization: str) -> DeclinedOwnership:
    former = None if user is None or email is None else _addressee(user=user, email=email, language=language)
    return DeclinedOwnership(former=former, suspended=was_active and former is None, **organization)


async def owners(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    """The owner. Until the owner has confirmed the ownership, also the former owner.

    Owners get mails about the settings of the organization.
    """
    return await _in_roles(statements, organization, [BuiltInRole.OWNER], None)


async def administrators(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    """The owner and the admins, the oldest accounts first. Until the owner has confirmed the ownership, also the former owner.

    They get mails about decisions to make.
    """
    return await _in_roles(statements, organization, [BuiltInRole.OWNER, BuiltInRole.ADMIN], MOST_ADDRESSEES)


async def _in_roles(
    statements: Statements | Transaction, organization: OrganizationId, roles: Sequence[BuiltInRole], most: int | None
) -> Sequence[Owner]:
    parameters = {"organization": organization, "roles": [role.value for role in roles], "most": most}
    rows = await statements.ask(_Owner, _IN_ROLES, parameters)
    if rows:
        await bring(statements, rows[0].dress)
    return [row.owner() for row in rows]


class OwnershipRows(OnTransaction):
    """Implements `ports.tenancy.members.OwnershipStore`."""

    async def confirm(self, ownership: UnconfirmedOwnership, at: datetime) -> bool:
        parameters = {"organization": ownership.organization, "user": ownership.user, "at": at}
        return bool(await self._transaction.ask(IdRow, _OWNER_CONFIRM, parameters))

    async def hold(self, organization: OrganizationId) -> None:
        parameters = {"organization": organization}
        await self._transaction.tell(_HOLD, parameters)
        await self._transaction.tell(_HOLD_PEOPLE, parameters)
        await self._transaction.tell(_HOLD_MEMBERSHIPS, parameters)

    async def hold_all(self, user: UserId) -> None:
        await self._transaction.tell(_HOLD_ALL, {"user": user})

    async def decline(self, ownership: UnconfirmedOwnership, reason: str, at: datetime) -> DeclinedOwnership | None:
        parameters = {"organization": ownership.organization, "user": ownership.user, "reason": reason, "at": at}
        return first(await self._transaction.ask(_declined, _DECLINE, parameters))

    async def governors(self) -> Sequence[Addressee]:
        return await self._transaction.ask(_addressee, _GOVERNORS, {"most": MOST_ADDRESSEES})


MOST_ADDRESSEES: Final = 20

# A tie is an own one here only if somebody has proved the address: a directory may change the address of a person whose membership was
# their own act.
_IN_ROLES: Final[LiteralString] = f"""
    select users.id as user, users.email, users.language, organizations.name, organizations.logo_digest, organizations.primary_color,
           {dress_of("organizations")} as dress, (
               {is_proved()} and {is_own_member("told.org_id", "told.user_id")}
           ) as is_own
      from memberships as told
      join users on users.id = told.user_id
      join organizations on organizations.id = told.org_id
     where told.org_id = %(organization)s and users.deactivated_at is null
       and (
               told.role = any(%(roles)s)
            or told.id in (
                   select ownerships.former_membership_id
                     from ownerships
                     join memberships on memberships.id = ownerships.membership_id
                    where ownerships.org_id = %(organization)s and {IS_UNCONFIRMED_OWNER}
               )
           )
     order by users.id
     limit %(most)s
"""


# By their ids, as everywhere. The statement reads whose accounts these are after the organization is held.
_HOLD_PEOPLE: Final = """
    select
      from users
     where id in (
               select memberships.user_id
                 from ownerships
                 join memberships on memberships.id in (ownerships.membership_id, ownerships.former_membership_id)
                where ownerships.org_id = %(organization)s
           )
     order by id
       for no key update
"""

# Memberships come before the ownership, as where somebody confirms both.
_HOLD_MEMBERSHIPS: Final = """
    select
      from memberships
     where id in (
               select unnest(array[ownerships.membership_id, ownerships.former_membership_id])
                 from ownerships
                where ownerships.org_id = %(organization)s
           )
     order by id
       for no key update
"""

_HOLD_ALL: Final[LiteralString] = f"""
    select organizations.id
      from organizations
     where organizations.id in (
               select memberships.org_id from memberships where memberships.user_id = %(user)s and {IS_UNCONFIRMED_OWNER}
           )
     order by organizations.id
       for no key update
"""

# One of two callers finds the row as it was. So an owner confirms or declines, and never both. From now on this organization holds the
# account: another one that has made it must not take the owner away, even though their membership may still be one that others made.
_OWNER_CONFIRM: Final[LiteralString] = f"""
    with account as materialized (
             select id, origin_org_id, address_vouched_by from users where id = %(user)s for key share
         ),
         held as (
             select memberships.id, memberships.user_id
               from account
               join memberships on memberships.org_id = %(organization)s and memberships.user_id = account.id and {IS_UNCONFIRMED_OWNER}
                    and {counts_for("account")}
                for no key update of memberships
         ),
         holding as (
             insert into held_accounts (user_id, held_since)
             select account.id, %(at)s from account join held on held.user_id = account.id and account.origin_org_id <> %(organization)s
                 on conflict (user_id) do nothing
         )
  update ownerships
     set confirmed_at = %(at)s, former_membership_id = null, former_role_id = null
    from held
   where ownerships.org_id = %(organization)s and ownerships.membership_id = held.id and ownerships.confirmed_at is null
returning held.user_id as id
"""

# A role of the organization's own may be gone by now: then its holder is a plain member. A forgotten person is deactivated, too.
_DECLINE: Final[LiteralString] = f"""
    with declined as (
             delete from ownerships
              using memberships
              where ownerships.org_id = %(organization)s and ownerships.confirmed_at is null
                and memberships.id = ownerships.membership_id and memberships.user_id = %(user)s and {IS_UNCONFIRMED_OWNER}
          returning ownerships.former_membership_id, ownerships.former_role_id as role_id,
                    case
                        when ownerships.former_role_id is null and ownerships.former_role <> 'admin' then 'member'
                        else ownerships.former_role
                    end as role
         ),
         former as (
             select users.id, users.email, users.language
               from declined
               join memberships on memberships.id = declined.former_membership_id
               join users on users.id = memberships.user_id and users.deactivated_at is null
         ),
         successors (user_id, role, role_id, relation, object_type, object_id) as (
             select former.id, 'owner', null::uuid, 'owner', 'organization', %(organization)s::uuid from former
              union all
             select %(user)s::uuid, role, role_id, case when role_id is null then role else 'holder' end,
                    case when role_id is null then 'organization' else 'role' end, coalesce(role_id, %(organization)s::uuid)
               from declined
         ),
         changed as (
             update memberships
                set role = successors.role, role_id = successors.role_id
               from successors
              where memberships.org_id = %(organization)s and memberships.user_id = successors.user_id
         ),
         ended as (
             delete from relations
              using successors
              where relations.user_id = successors.user_id
                and relations.organization_id = %(organization)s
                and relations.service_id is null
                and (relations.object_id, relations.relation) <> (successors.object_id, successors.relation)
         ),
         related as (
             insert into relations (organization_id, user_id, relation, object_type, object_id)
             select %(organization)s, user_id, relation, object_type, object_id
               from successors
                 on conflict do nothing
         ),
         owned as (
             update all_organizations
                set owner_user_id = former.id, updated_at = %(at)s,
                    status = case when former.id is null and status = 'active' then 'suspended' else status end,
                    suspended_at = case when former.id is null and status = 'active' then %(at)s else suspended_at end,
                    suspension_reason = case when former.id is null and status = 'active' then %(reason)s else suspension_reason end
               from declined
               left join former on true
              where all_organizations.id = %(organization)s
         )
  select organizations.slug as organization_slug, organizations.name as organization_name, organizations.status = 'active' as was_active,
         former.id as user, former.email, former.language
    from declined
    join organizations on organizations.id = %(organization)s
    left join former on true
"""

_GOVERNORS: Final = """
    select id as user, email, language from users where is_platform_owner and deactivated_at is null order by id limit %(most)s
"""

"""The owners of an organization, who get mails about its settings, and its administrators, who get mails about decisions to make; and
ownership that its owner has not confirmed.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.branding import dress_of
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements, first
from adapters.postgres.texts.own_texts import bring, worn
from adapters.postgres.ties import IS_UNCONFIRMED_OWNER, counts_for, is_own_member
from adapters.postgres.transaction import OnTransaction, Transaction
from core.domain.identifiers import OrganizationId, UserId
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.tenancy.members import Addressee, DeclinedOwnership, UnconfirmedOwnership
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from ports.tenancy.receivers import Owner


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
        looks = worn(self.name, self.logo_digest, self.primary_color, self.dress)
        return Owner(UserId(self.user), Email(self.email), Language.of(self.language), looks, self.is_own)


def _addressee(*, user: UUID, email: str, language: str | None) -> Addressee:
    return Addressee(UserId(user), Email(email), Language.of(language))


def _declined(*, was_active: bool, user: UUID | None, email: str | None, language: str | None, **organization: str) -> DeclinedOwnership:
    former = None if user is None or email is None else _addressee(user=user, email=email, language=language)
    return DeclinedOwnership(former=former, suspended=was_active and former is None, **organization)


async def owners(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    """The owner. Until the owner has confirmed the ownership, also the former owner."""
    return await _in_roles(statements, organization, [BuiltInRole.OWNER], None)


async def administrators(statements: Statements | Transaction, organization: OrganizationId) -> Sequence[Owner]:
    """The owner and the admins, the oldest accounts first. Until the owner has confirmed the ownership, also the former owner."""
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
        return bool(await self._transaction.ask(IdRow, _CONFIRM, parameters))

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

_HOLD: Final = "select from organizations where id = %(organization)s for no key update"

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
_CONFIRM: Final[LiteralString] = f"""
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

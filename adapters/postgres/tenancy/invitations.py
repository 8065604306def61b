"""Invitations in PostgreSQL. A link carries a token; the row has only the token's digest."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import Columns, DueRow, IdRow, due_in
from adapters.postgres.identity.addresses import may_answer
from adapters.postgres.identity.sessions.parts import SESSION_LIVES
from adapters.postgres.statements import OnStatements, first, only
from adapters.postgres.tenancy.management_keys import OF_KEY, OWES_SECOND_FACTOR
from adapters.postgres.tenancy.roles import RELATIONS_OF_MEMBER, application_of, gives_service_roles
from adapters.postgres.ties import has_name, is_own_member, shown_name
from core.domain.branding import named_application
from core.domain.identifiers import InvitationId, ManagementKeyId, OrganizationId, SessionId, UserId, first_id
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.claims import Voucher
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import Page
from core.domain.tenancy.invitations import (
    MOST_IN_ALL,
    MOST_LISTED,
    MOST_TO_ONE_ADDRESS,
    WITHIN,
    Invitation,
    InvitationOffer,
    InvitationStatus,
    Inviter,
    InvitingKey,
    Lapsed,
    OwnInvitation,
    Prospect,
)
from core.domain.tenancy.management_keys import Maker, able_in_organization
from core.domain.tenancy.roles import Capability, capabilities_of, grantable_of
from core.domain.tenancy.tiers import user_limit
from core.frozen import Frozen
from ports.tenancy.members import ById, ByToken, ListedInvitation

INVITATION: Final = Columns(
    Invitation,
    "invitations",
    named={"organization": "org_id"},
    # No statement reads the digest of the token in the mail.
    apart=("mailed_digest",),
)
LAPSED: Final = Columns(Lapsed, "invitations", named={"organization": "org_id"})


def _prospect(
    organization: OrganizationId,
    *,
    name: str,
    logo_digest: str | None,
    primary_color: str | None,
    dress: list[str | None] | None,
    inviter_id: UUID,
    inviter_email: str,
    inviter_created_at: datetime,
    inviter_name: str | None,
    inviter_relations: list[str],
    language: str | None,
    lapsed_id: UUID | None,
    lapsed_email: str | None,
    lapsed_role: str | None,
    lapsed_at: datetime | None,
    invitation_domains: list[str],
    **columns: Any,
) -> Prospect:
    lapsed = None
    if lapsed_id is not None and lapsed_email is not None and lapsed_role is not None and lapsed_at is not None:
        lapsed = Lapsed(InvitationId(lapsed_id), organization, Email(lapsed_email), lapsed_role, lapsed_at)
    return Prospect(
        branding=branded(name, logo_digest, primary_color, dress),
        inviter=Inviter(UserId(inviter_id), Email(inviter_email), inviter_created_at, inviter_name),
        capabilities=grantable_of(inviter_relations),
        language=Language.of(language),
        lapsed=lapsed,
        domains=invitation_domains,
        **columns,
    )


class _Offer(Frozen):
    invitation: Invitation
    slug: str
    name: str
    logo_digest: str | None
    primary_color: str | None
    dress: list[str | None] | None
    is_active: bool
    member_count: int
    max_users: int | None
    default_max_users: int
    permissions: list[str]
    user_id: UUID | None
    user_email: str | None
    user_is_platform_owner: bool | None
    user_verified_at: datetime | None
    user_deactivated_at: datetime | None
    user_created_at: datetime | None
    user_language: str | None
    user_deactivated_by: UUID | None
    user_vouched_by: str | None
    is_member: bool
    backer_relations: list[str] | None
    key_capabilities: list[str] | None
    key_is_adopted: bool
    inviter_owes_second_factor: bool
    invitation_domains: list[str]
    by_mail: bool
    role_name: str | None
    gives_service_roles: bool
    is_in_use: bool
    inviter: str | None
    shortest_password: int | None
    application: list[str | None] | None

    def offer(self, *, on_behalf: bool = False) -> InvitationOffer:
        # A built-in role has no id, and its name says what it permits. An organization's own role never has a built-in name.
        capabilities = capabilities_of(self.permissions if self.invitation.role_id is not None else [self.invitation.role])
        return InvitationOffer(
            self.invitation,
            self.slug,
            branded(self.name, self.logo_digest, self.primary_color, self.dress),
            self.is_active,
            self.member_count,
            user_limit(self.max_users, self.default_max_users),
            capabilities,
            self._account(),
            self.is_member,
            self._backing(on_behalf=on_behalf),
            self.invitation_domains,
            self.by_mail,
            self.role_name or "",
            self.gives_service_roles,
            self.is_in_use,
            self.inviter or "",
            self.shortest_password,
            named_application(self.application),
        )

    def _backing(self, *, on_behalf: bool) -> frozenset[Capability]:
        relations = self.backer_relations or []
        held = grantable_of(relations)
        if self.invitation.made_by_key is None or on_behalf:
            return held
        if self.key_capabilities is None:
            return frozenset()
        maker = None if self.key_is_adopted else Maker(frozenset(relations), self.inviter_owes_second_factor)
        return held & able_in_organization(self.key_capabilities, maker)

    def _account(self) -> Account | None:
        if self.user_id is None or self.user_email is None or self.user_created_at is None:
            return None
        return Account(
            UserId(self.user_id),
            Email(self.user_email),
            bool(self.user_is_platform_owner),
            self.user_verified_at,
            self.user_deactivated_at,
            self.user_created_at,
            Language.of(self.user_language),
            None if self.user_deactivated_by is None else OrganizationId(self.user_deactivated_by),
            Voucher.of(self.user_vouched_by),
        )


def _offered(**columns: Any) -> _Offer:
    return _Offer(invitation=INVITATION.taken(columns), **columns)


def _listed(
    *,
    inviter_email: str | None,
    inviter_created_at: datetime | None,
    inviter_name: str | None,
    key_name: str | None,
    key_prefix: str | None,
    **columns: Any,
) -> ListedInvitation:
    invitation, inviter = INVITATION.row(**columns), None
    if invitation.invited_by is not None and inviter_email is not None and inviter_created_at is not None:
        inviter = Inviter(invitation.invited_by, Email(inviter_email), inviter_created_at, inviter_name)
    key = None if invitation.made_by_key is None else InvitingKey(invitation.made_by_key, key_name or "", key_prefix or "")
    return ListedInvitation(invitation, inviter, key)


def _own(*, email: str, role_name: str | None, **columns: Any) -> OwnInvitation:
    return OwnInvitation(email=Email(email), role_name=role_name or "", **columns)


class InvitationRows(OnStatements):
    """Implements `ports.tenancy.members.InvitationStore`."""

    async def find(self, which: ByToken | ById) -> InvitationOffer | None:
        statement = _FIND_BY_TOKEN if isinstance(which, ByToken) else _FIND_BY_ID
        row = first(await self._statements.ask(_offered, statement, {**_parameters(which), "manager": None}))
        if row is None:
            return None
        await bring(self._statements, row.dress)
        return row.offer()

    async def list(
        self, organization: OrganizationId, status: InvitationStatus | None, at: datetime, page: Page
    ) -> Sequence[ListedInvitation]:
        statement = _LISTS[status]
        parameters = {
            "organization": organization,
            "status": None if status is None else status.value,
            "at": at,
            "limit": page.limit,
            "offset": page.offset,
            "seen": page.offset + page.limit,
        }
        return await self._statements.ask(_listed, statement, parameters)

    async def list_own(self, user: UserId, session: SessionId, at: datetime) -> Sequence[OwnInvitation]:
        return await self._statements.ask(_own, _LIST_OWN, {"user": user, "session": session, "at": at, "limit": MOST_LISTED})

    async def prospect(self, organization: OrganizationId, inviter: UserId, email: Email, at: datetime) -> Prospect | None:
        await self._statements.tell(_HOLD_ORGANIZATION, {"organization": organization})
        await self._statements.tell(_HOLD_INVITER, {"inviter": inviter})
        parameters = {
            "organization": organization,
            "inviter": inviter,
            "email_key": email.key,
            "at": at,
            "others_to_address": MOST_TO_ONE_ADDRESS - 1,
            "others": MOST_IN_ALL - 1,
            "first": first_id(at - WITHIN),
        }
        row = first(await self._statements.ask(dict[str, Any], _PROSPECT, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _prospect(organization, **row)

    async def add(self, invitation: Invitation) -> bool:
        parameters = {**INVITATION.values(invitation), "email_key": invitation.email.key, "mailed_digest": invitation.mailed_digest}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def find_for_update(self, which: ByToken | ById, manager: UserId | None = None) -> InvitationOffer | None:
        # The organization is locked first, as in every transaction that adds a member.
        by_token = isinstance(which, ByToken)
        await self._statements.tell(_HOLD_ORGANIZATION_OF_TOKEN if by_token else _HOLD_ORGANIZATION_OF_ID, _parameters(which))
        await self._statements.tell(_HOLD_INVITED_BY_TOKEN if by_token else _HOLD_INVITED_BY_ID, _parameters(which))
        return await self._hold(which, manager)

    async def find_alone_for_update(self, which: ByToken | ById) -> InvitationOffer | None:
        return await self._hold(which, None)

    async def _hold(self, which: ByToken | ById, manager: UserId | None) -> InvitationOffer | None:
        statement = _HOLD_BY_TOKEN if isinstance(which, ByToken) else _HOLD_BY_ID
        row = first(await self._statements.ask(_offered, statement, {**_parameters(which), "manager": manager}))
        return None if row is None else row.offer(on_behalf=manager is not None)

    async def close(self, invitation: InvitationId, status: InvitationStatus, at: datetime) -> None:
        await self._statements.tell(_CLOSE, {"id": invitation, "status": status.value, "at": at})

    async def cancel(self, organization: OrganizationId, invitation: InvitationId, at: datetime) -> Invitation | None:
        parameters = {"id": invitation, "organization": organization, "at": at}
        return first(await self._statements.ask(INVITATION.row, _CANCEL, parameters))

    async def cancel_to(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> Sequence[Invitation]:
        parameters = {"organization": organization, "users": list(users), "at": at}
        return await self._statements.ask(INVITATION.row, _CANCEL_TO, parameters)

    async def cancel_made(self, organization: OrganizationId, key: ManagementKeyId, most: int, at: datetime) -> Sequence[Invitation]:
        parameters = {"organization": organization, "key": key, "most": most, "at": at}
        return await self._statements.ask(INVITATION.row, _CANCEL_MADE, parameters)

    async def due_in(self) -> float | None:
        return only(await self._statements.ask(DueRow, _EXPIRES_IN)).due_in

    async def expire_due(self, at: datetime, since: datetime | None, limit: int) -> Sequence[Lapsed]:
        return await self._statements.ask(LAPSED.row, _EXPIRE_DUE, {"at": at, "since": since, "limit": limit})


def _parameters(which: ByToken | ById) -> Mapping[str, Any]:
    if isinstance(which, ByToken):
        return {"digest": which.digest}
    return {"id": which.id, "organization": which.organization, "session": which.session, "digest": None}


def _inviter_name(organization: LiteralString) -> LiteralString:
    """An organization sees the names of its own members, and of nobody else."""
    return f"case when {has_name('users')} and {is_own_member(organization, 'users.id')} then {shown_name('users')} end"


# An overdue invitation would block the new one, so this statement closes it. For the limits on the number of invitations, the statement
# reads earlier invitations newest first, and no more of them than the limits.
_PROSPECT: Final[LiteralString] = f"""
    with lapsed as (
             update invitations
                set status = 'expired', closed_at = %(at)s
              where org_id = %(organization)s and email_key = %(email_key)s and status = 'pending' and expires_at <= %(at)s
          returning id, email, role, expires_at
         )
  select wanted.name, wanted.logo_digest, wanted.primary_color, {dress_of("wanted")} as dress, wanted.invitation_domains,
         users.id as inviter_id, users.email as inviter_email, users.created_at as inviter_created_at,
         {_inviter_name("wanted.id")} as inviter_name,
         case when users.deactivated_at is null then {RELATIONS_OF_MEMBER} else '{{}}'::text[] end as inviter_relations,
         {is_own_member("wanted.id", "users.id")} as inviter_is_own,
         exists (
             select
               from users as others
               join memberships on memberships.user_id = others.id
              where others.email_key = %(email_key)s and memberships.org_id = wanted.id
         ) as is_member,
         (select others.language from users as others where others.email_key = %(email_key)s) as language,
         (
             select created_at
               from invitations
              where org_id = %(organization)s and email_key = %(email_key)s
              order by id desc
              limit 1 offset %(others_to_address)s
         ) as to_address,
         (
             select created_at
               from invitations
              where org_id = %(organization)s and id >= %(first)s
              order by id desc
              limit 1 offset %(others)s
         ) as to_anybody,
         exists (select from mail_servers where mail_servers.org_id = wanted.id) as has_mail_server,
         lapsed.id as lapsed_id, lapsed.email as lapsed_email, lapsed.role as lapsed_role, lapsed.expires_at as lapsed_at
    from organizations as wanted
    join users on users.id = %(inviter)s
    left join lapsed on true
   where wanted.id = %(organization)s
"""

# Of two callers who invite the same address at once, the second waits for the first one's commit and then adds nothing.
_ADD: Final[LiteralString] = f"""
    insert into invitations ({INVITATION.into("email_key", "mailed_digest")})
    values ({INVITATION.inserted("email_key", "mailed_digest")})
        on conflict (org_id, email_key) where status = 'pending' do nothing
 returning id
"""

_OF_TOKEN: Final = "id = (select id from invitations where token_digest = %(digest)s or mailed_digest = %(digest)s)"  # noqa: S105 - a condition, not a password
# Whoever answers in their own list must be able to see the invitation there at this moment, too.
_OF_ID: Final[LiteralString] = f"""id = %(id)s
       and (%(organization)s::uuid is null or invitations.org_id = %(organization)s)
       and (%(session)s::uuid is null or {SESSION_LIVES} and exists (
               select from users where users.email_key = invitations.email_key and {may_answer("invitations.org_id")}
           ))
"""

# The locks are separate statements. So the next statement sees what others committed while the locks waited, above all the number of
# members.
_HOLD_ORGANIZATION: Final = "select from organizations where id = %(organization)s for no key update"
_HOLD_ORGANIZATION_OF_TOKEN: Final[LiteralString] = f"""
    select from organizations where id = (select org_id from invitations where {_OF_TOKEN}) for no key update
"""
_HOLD_ORGANIZATION_OF_ID: Final[LiteralString] = f"""
    select from organizations where id = (select org_id from invitations where {_OF_ID}) for no key update
"""

# The lock keeps the account's address from changing meanwhile, so only the invited person becomes a member. Accepting may remove unproved
# credentials from the account, and the removal takes this same lock. If this transaction began with a weaker lock, it would have to wait
# for every other transaction that also holds the weaker lock, and two such transactions would deadlock.
_HOLD_INVITED_BY_TOKEN: Final[LiteralString] = f"""
    select from users where email_key = (select email_key from invitations where {_OF_TOKEN}) for no key update
"""
_HOLD_INVITED_BY_ID: Final[LiteralString] = f"""
    select from users where email_key = (select email_key from invitations where {_OF_ID}) for no key update
"""

# The new invitation refers to the inviter. The inviter's account is locked before any invitation: forgetting a person takes the locks in
# this order, too.
_HOLD_INVITER: Final = "select from users where id = %(inviter)s for key share"

_SELECT_OFFER: Final[LiteralString] = f"""
    select {INVITATION.names},
           organizations.slug, organizations.name, organizations.logo_digest, organizations.primary_color,
           {dress_of("organizations")} as dress,
           organizations.status = 'active' as is_active, organizations.member_count,
           organizations.invitation_domains, organizations.shortest_password, organizations.max_users, tiers.default_max_users,
           array(
               select relation
                 from relations
                where relations.role_id = invitations.role_id and relations.object_id = invitations.org_id
           ) as permissions,
           users.id as user_id, users.email as user_email, users.is_platform_owner as user_is_platform_owner,
           users.email_verified_at as user_verified_at, users.deactivated_at as user_deactivated_at, users.created_at as user_created_at,
           users.language as user_language, users.deactivated_by as user_deactivated_by,
           users.address_vouched_by as user_vouched_by,
           exists (
               select from memberships where memberships.org_id = invitations.org_id and memberships.user_id = users.id
           ) as is_member,
           (
               select {RELATIONS_OF_MEMBER}
                 from users
                 join organizations as wanted on wanted.id = invitations.org_id
                where users.id = coalesce(%(manager)s, invitations.invited_by) and users.deactivated_at is null
           ) as backer_relations,
           {OF_KEY},
           keys.id is not null and keys.adopted_at is null and exists (
               select
                 from users
                 join organizations as wanted on wanted.id = invitations.org_id
                where users.id = invitations.invited_by and {OWES_SECOND_FACTOR}
           ) as inviter_owes_second_factor,
           coalesce(invitations.mailed_digest = %(digest)s::bytea, false) as by_mail,
           (select roles.name from roles where roles.id = invitations.role_id) as role_name,
           {gives_service_roles("invitations.role_id")} as gives_service_roles, {application_of("invitations.role_id")} as application,
           users.id is not null and (
               users.password_hash is not null
               or exists (select from passkeys where passkeys.user_id = users.id)
               or exists (select from identities where identities.user_id = users.id)
               or exists (select from devices where devices.user_id = users.id)
               or exists (select from sessions where sessions.user_id = users.id)
               or exists (select from login_events where login_events.user_id = users.id and login_events.success)
           ) as is_in_use,
           inviters.shown as inviter
      from invitations
      join organizations on organizations.id = invitations.org_id
      join tiers on tiers.id = organizations.tier_id
      left join users on users.email_key = invitations.email_key
      left join management_keys as keys on keys.id = invitations.made_by_key and keys.expires_at > now()
      left join lateral (
               select coalesce({_inviter_name("invitations.org_id")}, users.email) as shown
                 from users
                where users.id = invitations.invited_by
           ) as inviters on true
     where invitations."""

_FIND_BY_TOKEN: Final[LiteralString] = f"{_SELECT_OFFER}{_OF_TOKEN}"
_FIND_BY_ID: Final[LiteralString] = f"{_SELECT_OFFER}{_OF_ID}"
_HOLD_BY_TOKEN: Final[LiteralString] = f"{_FIND_BY_TOKEN} for no key update of invitations"
_HOLD_BY_ID: Final[LiteralString] = f"{_FIND_BY_ID} for no key update of invitations"

_CLOSE: Final = "update invitations set status = %(status)s, closed_at = %(at)s where id = %(id)s and status = 'pending'"

# An overdue invitation is not cancelled, because another statement closes it as expired.
_CANCEL: Final[LiteralString] = f"""
    update invitations
       set status = 'cancelled', closed_at = %(at)s
     where id = %(id)s and org_id = %(organization)s and status = 'pending' and expires_at > %(at)s
 returning {INVITATION.names}
"""

_CANCEL_TO: Final[LiteralString] = f"""
    update invitations
       set status = 'cancelled', closed_at = %(at)s
     where org_id = %(organization)s and status = 'pending' and expires_at > %(at)s
       and email_key = any (array(select email_key from users where id = any(%(users)s)))
 returning {INVITATION.names}
"""

# Whoever asks holds the organization, and an organization has few enough invitations that wait.
_CANCEL_MADE: Final[LiteralString] = f"""
    update invitations
       set status = 'cancelled', closed_at = %(at)s
     where id = any (array(
               select id
                 from invitations
                where org_id = %(organization)s and status = 'pending' and expires_at > %(at)s and made_by_key = %(key)s
                order by id desc
                limit %(most)s
           ))
 returning {INVITATION.names}
"""

_EXPIRES_IN: Final = f"""
    select {due_in("expires_at")} as due_in
      from (
               select expires_at
                 from invitations
                where status = 'pending'
                order by expires_at
                limit 1
           ) as first
"""

_EXPIRE_DUE: Final[LiteralString] = f"""
    update invitations
       set status = 'expired', closed_at = %(at)s
     where id = any (array(
               select id
                 from invitations
                where status = 'pending' and expires_at <= %(at)s and expires_at >= coalesce(%(since)s::timestamptz, '-infinity')
                order by expires_at
                limit %(limit)s
                  for no key update skip locked
           ))
 returning {LAPSED.names}
"""

# PostgreSQL finds the page in an index alone and joins only the rows of the page. Ids grow with time, so the index gives the newest
# invitations first.
_SELECT_PAGE: Final[LiteralString] = f"""
    select {INVITATION.names}, users.email as inviter_email, users.created_at as inviter_created_at,
           {_inviter_name("invitations.org_id")} as inviter_name, keys.name as key_name, keys.prefix as key_prefix
      from (
"""
_JOIN_PAGE: Final = """
           ) as page
      join invitations on invitations.id = page.id
      left join users on users.id = invitations.invited_by
      left join management_keys as keys on keys.id = invitations.made_by_key
     order by invitations.id desc
"""
_PART: Final = "limit %(limit)s offset %(offset)s"

_LIST: Final[LiteralString] = f"""{_SELECT_PAGE}
               select id from invitations where org_id = %(organization)s order by id desc {_PART}
{_JOIN_PAGE}"""

_LIST_CLOSED: Final[LiteralString] = f"""{_SELECT_PAGE}
               select id from invitations where org_id = %(organization)s and status = %(status)s order by id desc {_PART}
{_JOIN_PAGE}"""

_LIST_PENDING: Final[LiteralString] = f"""{_SELECT_PAGE}
               select id
                 from invitations
                where org_id = %(organization)s and status = 'pending' and expires_at > %(at)s
                order by id desc
                {_PART}
{_JOIN_PAGE}"""

# Invitations that were closed as expired, and overdue invitations that nobody has closed yet.
_LIST_EXPIRED: Final[LiteralString] = f"""{_SELECT_PAGE}
               select id
                 from (
                          (
                              select id
                                from invitations
                               where org_id = %(organization)s and status = 'expired'
                               order by id desc
                               limit %(seen)s
                          )
                           union all
                          (
                              select id
                                from invitations
                               where org_id = %(organization)s and status = 'pending' and expires_at <= %(at)s
                               order by id desc
                               limit %(seen)s
                          )
                      ) as both_kinds
                order by id desc
                {_PART}
{_JOIN_PAGE}"""

_LISTS: Final[Mapping[InvitationStatus | None, LiteralString]] = {
    None: _LIST,
    InvitationStatus.PENDING: _LIST_PENDING,
    InvitationStatus.ACCEPTED: _LIST_CLOSED,
    InvitationStatus.REJECTED: _LIST_CLOSED,
    InvitationStatus.CANCELLED: _LIST_CLOSED,
    InvitationStatus.EXPIRED: _LIST_EXPIRED,
}

# A person whose address is not proved sees no invitations, because the address may belong to somebody else, except those of the
# organization whose provider has opened the session.
_LIST_OWN: Final[LiteralString] = f"""
    select invitations.id, invitations.email, invitations.role, organizations.slug as organization_slug,
           organizations.name as organization_name, invitations.expires_at, invitations.created_at,
           (select roles.name from roles where roles.id = invitations.role_id) as role_name
      from users
      join invitations on invitations.email_key = users.email_key
      join organizations on organizations.id = invitations.org_id
     where users.id = %(user)s and {may_answer("invitations.org_id")}
       and invitations.status = 'pending' and invitations.expires_at > %(at)s
       and organizations.status = 'active'
     order by invitations.id desc
     limit %(limit)s
"""

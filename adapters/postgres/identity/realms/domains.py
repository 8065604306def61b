"""Realms in PostgreSQL: which organization decides on a mail domain, and whether somebody would become its member."""

from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from core.domain.identifiers import OrganizationId, UpstreamProviderId, UserId
from core.domain.identity.realms import LoginPolicy, Realm


# Without slots, so that a row may be made of this and of another one.
@dataclass(frozen=True, kw_only=True)
class RealmRow:
    """What `REALM_OF_USER` reads; to be extended by what a statement reads beside it."""

    realm_organization_id: UUID | None = None
    realm_organization_slug: str | None = None
    realm_policy: str | None = None
    realm_shared_provider: str | None = None
    realm_own_provider: UUID | None = None
    realm_has_client: bool | None = None
    realm_joins: bool | None = None

    def realm(self) -> Realm | None:
        if self.realm_organization_id is None or self.realm_policy is None:
            return None
        return Realm(
            organization=OrganizationId(self.realm_organization_id),
            organization_slug=self.realm_organization_slug or "",
            policy=LoginPolicy(self.realm_policy),
            shared_provider=self.realm_shared_provider or "",
            has_client=self.realm_has_client or False,
            own_provider=None if self.realm_own_provider is None else UpstreamProviderId(self.realm_own_provider),
            joins=self.realm_joins or False,
        )


def was_turned_away(organization: LiteralString) -> LiteralString:
    """A condition on `users`: whether the organization has removed the person, or declined their request, by this account or by one that
    has had its address before. `former_addresses` has that as long as the account. Or its directory knows them, and says that they are no
    member: perhaps they never were one.
    """
    return f"""(
               exists (select from former_members where former_members.org_id = {organization} and former_members.user_id = users.id)
            or exists (
                   select
                     from provisioned_users
                    where provisioned_users.org_id = {organization} and provisioned_users.user_id = users.id
                      and not provisioned_users.is_member
               )
            or exists (
                   select
                     from former_addresses as had
                    where had.email_key = users.email_key
                      and (
                              exists (
                                  select
                                    from former_members
                                   where former_members.org_id = {organization} and former_members.user_id = had.user_id
                              )
                           or exists (
                                  select
                                    from join_requests as theirs
                                   where theirs.org_id = {organization} and theirs.user_id = had.user_id and theirs.status = 'declined'
                              )
                          )
               )
           )"""


def awaits_role(organization: LiteralString) -> LiteralString:
    """A condition on `users`: whether the organization has offered the person more than the role that they would get by their domain. A
    member cannot accept that any more.
    """
    return f"""
               exists (
                   select
                     from invitations
                    where invitations.org_id = {organization} and invitations.email_key = users.email_key
                      and invitations.status = 'pending' and invitations.expires_at > now() and invitations.role <> 'member'
               )"""


# Whoever was a member once, and was removed, does not come back without being asked; nor does anybody ask twice.
_COULD_JOIN: Final[LiteralString] = f"""
           realms.join_policy <> 'off' and users.email_verified_at is not null and not users.is_platform_owner
       and not exists (select from memberships where memberships.org_id = realms.org_id and memberships.user_id = users.id)
       and not {was_turned_away("realms.org_id")}
       and not {awaits_role("realms.org_id")}
       and not exists (
               select
                 from join_requests
                where join_requests.org_id = realms.org_id and join_requests.user_id = users.id
                  and (join_requests.status <> 'pending' or realms.join_policy = 'ask')
           )"""

_OF_REALM: Final = """
           homes.id as realm_organization_id, homes.slug as realm_organization_slug, realms.login_policy as realm_policy,
           realms.shared_provider as realm_shared_provider, realms.own_provider as realm_own_provider"""

# Columns of a statement that reads `users`, and joins `JOIN_REALM`.
REALM_OF_USER: Final[LiteralString] = f"""{_OF_REALM},
           {_COULD_JOIN} as realm_joins"""

# And where it matters with which client a provider was asked.
REALM_AND_CLIENT: Final[LiteralString] = f"""{REALM_OF_USER},
           exists (
               select
                 from oauth_credentials
                where oauth_credentials.org_id = realms.org_id and oauth_credentials.provider = realms.shared_provider
           ) as realm_has_client"""

# An organization that is not active decides on nothing, and neither does a domain that is not proved.
_REALMS: Final = """
           domain_routes as realms
      join organizations as homes on homes.id = realms.org_id and homes.status = 'active'"""
_IS_REALM: Final = "realms.domain = %(mail_domain)s and realms.verified_at is not null"

JOIN_REALM: Final[LiteralString] = f"left join ({_REALMS}) on {_IS_REALM}"

_FIND: Final[LiteralString] = f"select {_OF_REALM}, false as realm_joins from {_REALMS} where {_IS_REALM}"

_FIND_OF_USER: Final[LiteralString] = f"select {REALM_AND_CLIENT} from users {JOIN_REALM} where users.id = %(user)s"


class PostgresRealms:
    """Implements `ports.identity.realms.RealmLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, domain: str) -> Realm | None:
        rows = await ask(self._pool, RealmRow, _FIND, {"mail_domain": storable_text(domain)})
        return rows[0].realm() if rows else None

    async def of_user(self, user: UserId, domain: str) -> Realm | None:
        rows = await ask(self._pool, RealmRow, _FIND_OF_USER, {"user": user, "mail_domain": storable_text(domain)})
        return rows[0].realm() if rows else None

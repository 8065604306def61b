"""Sign-in domains in PostgreSQL: how users of an email domain sign in, whether they could become members, and the identity provider."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.statements import OnPool, OnTransaction, ask, first_made
from core.domain.identifiers import OrganizationId, UpstreamProviderId, UserId
from core.domain.identity.realms import LoginPolicy, Realm, RealmProvider
from core.domain.identity.upstream.providers import is_away
from core.frozen import Frozen
from ports.system import Clock


# Without slots, so that another row class can inherit from this class and from a second one.
@dataclass(frozen=True, kw_only=True)
class RealmRow:
    """The columns of `REALM_OF_USER`. A statement that reads further columns extends this class."""

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
    """A condition on `users`: the organization has turned the person away, in one of three ways.

    The organization has removed this account's membership. Or the organization has removed, or has declined the request of, an account
    that had this address before; `former_addresses` keeps such an address as long as its account exists. Or the organization's directory
    knows the person and says that the person is no member, and perhaps never was one.
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
    """A condition on `users`: the organization has invited the person with a higher role than the person would get by their domain. Once a
    member, the person could not accept that invitation any more.
    """
    return f"""
               exists (
                   select
                     from invitations
                    where invitations.org_id = {organization} and invitations.email_key = users.email_key
                      and invitations.status = 'pending' and invitations.expires_at > now() and invitations.role <> 'member'
               )"""


# A person whom the organization has removed comes back only if the organization invites them. Nobody asks to join twice.
COULD_JOIN: Final[LiteralString] = f"""
           realms.join_policy <> 'off' and {is_verified_for("realms.org_id")} and not users.is_platform_owner
       and not exists (select from memberships where memberships.org_id = realms.org_id and memberships.user_id = users.id)
       and not {was_turned_away("realms.org_id")}
       and not {awaits_role("realms.org_id")}
       and not exists (
               select
                 from join_requests
                where join_requests.org_id = realms.org_id and join_requests.user_id = users.id
                  and (join_requests.status <> 'pending' or realms.join_policy = 'ask')
           )"""

OF_REALM: Final = """
           homes.id as realm_organization_id, homes.slug as realm_organization_slug, realms.login_policy as realm_policy,
           realms.shared_provider as realm_shared_provider, realms.own_provider as realm_own_provider"""

# Columns of a statement that reads `users`, and joins `JOIN_REALM`.
REALM_OF_USER: Final[LiteralString] = f"""{OF_REALM},
           {COULD_JOIN} as realm_joins"""

# The same columns, for a statement that must also know whether the organization has its own client at the shared provider.
REALM_AND_CLIENT: Final[LiteralString] = f"""{REALM_OF_USER},
           exists (
               select
                 from oauth_credentials
                where oauth_credentials.org_id = realms.org_id and oauth_credentials.provider = realms.shared_provider
           ) as realm_has_client"""

# Only an active organization decides, and only about a domain that it has proved.
REALMS: Final = """
           domain_routes as realms
      join organizations as homes on homes.id = realms.org_id and homes.status = 'active'"""
IS_REALM: Final = "realms.domain = %(mail_domain)s and realms.verified_at is not null"

JOIN_REALM: Final[LiteralString] = f"left join ({REALMS}) on {IS_REALM}"

_FIND: Final[LiteralString] = f"select {OF_REALM}, false as realm_joins from {REALMS} where {IS_REALM}"

_FIND_OF_USER: Final[LiteralString] = f"select {REALM_AND_CLIENT} from users {JOIN_REALM} where users.id = %(user)s"


class PostgresRealms(OnPool):
    """Implements `ports.identity.sign_in.RealmLookup`."""

    async def find(self, domain: str) -> Realm | None:
        return first_made(await ask(self._pool, RealmRow, _FIND, {"mail_domain": storable_text(domain)}), RealmRow.realm)

    async def of_user(self, user: UserId, domain: str) -> Realm | None:
        return first_made(
            await ask(self._pool, RealmRow, _FIND_OF_USER, {"user": user, "mail_domain": storable_text(domain)}), RealmRow.realm
        )


class _Provider(Frozen):
    failed_at: datetime | None
    has_credentials: bool
    own_name: str | None
    own_enabled: bool | None
    own_issuer: str | None


class PostgresRealmProviders:
    """Implements `ports.identity.sign_in.RealmProviders`."""

    def __init__(self, pool: Pool, clock: Clock, *, configured: Collection[str] = ()) -> None:
        """`configured` names the shared providers at which the installation has a client of its own."""
        self._pool = pool
        self._clock = clock
        self._configured = frozenset(configured)

    async def find(self, realm: Realm) -> RealmProvider | None:
        parameters = {"organization": realm.organization, "provider": realm.provider, "own_provider": realm.own_provider}
        (row,) = await ask(self._pool, _Provider, _PROVIDER, parameters)
        answers = not is_away(row.failed_at, self._clock.now())
        if realm.own_provider is not None:
            return None if row.own_name is None else RealmProvider(row.own_name, bool(row.own_enabled) and answers, row.own_issuer or "")
        if not row.has_credentials and realm.shared_provider not in self._configured:
            return None
        return RealmProvider(realm.shared_provider, answers)


class ProviderOutageRows(OnTransaction):
    """Implements `ports.identity.sign_in.ProviderOutageStore` in one transaction."""

    async def failed(self, provider: str, at: datetime) -> None:
        await self._transaction.tell(_FAILED, {"provider": provider, "at": at})

    async def worked(self, provider: str) -> None:
        await self._transaction.tell(_WORKED, {"provider": provider})


_PROVIDER: Final = """
    select (select failed_at from provider_outages where provider = %(provider)s) as failed_at,
           exists (
               select
                 from oauth_credentials
                where oauth_credentials.org_id = %(organization)s and oauth_credentials.provider = %(provider)s
           ) as has_credentials,
           own.name as own_name, own.enabled as own_enabled,
           case own.kind when 'oidc' then own.issuer end as own_issuer
      from (values (true)) as this (realm)
      left join upstream_providers as own on own.id = %(own_provider)s::uuid and own.org_id = %(organization)s
"""

_FAILED: Final = """
    insert into provider_outages (provider, failed_at)
    values (%(provider)s, %(at)s)
        on conflict (provider) do update
       set failed_at = greatest(provider_outages.failed_at, excluded.failed_at)
"""

_WORKED: Final = "delete from provider_outages where provider = %(provider)s"

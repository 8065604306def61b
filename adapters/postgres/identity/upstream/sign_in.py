"""Signing in through upstream providers, in PostgreSQL: what is on its way, and whom a provider's word may be about."""

from dataclasses import dataclass, fields
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import ACCOUNT, AccountRow
from adapters.postgres.identity.devices import FIRST_KNOWLEDGE, knowledge_of, knowledge_parameters
from adapters.postgres.identity.liveness import IS_LIVE
from adapters.postgres.identity.mfa import has_second_factor
from adapters.postgres.identity.realms.domains import JOIN_REALM, REALM_OF_USER, RealmRow
from adapters.postgres.identity.upstream.proved_domains import PROVED_DOMAINS
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import FlowId, IdentityId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.realms import mail_domain
from core.domain.identity.risk import Approach
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter
from core.domain.identity.upstream.providers import Offer, OwnProviders, Provider
from core.domain.identity.upstream.sign_in import ConfiguredProvider, NewState, SealedClient, TakenState, WayThrough


@dataclass(frozen=True, slots=True, kw_only=True)
class WayRow:
    """What `WAY` reads; to be extended by what a statement reads beside it."""

    organization_id: UUID | None
    service_id: UUID | None
    credentials_id: UUID | None
    credentials_client: str | None
    credentials_secret: bytes | None
    provider_id: UUID | None
    provider_organization: UUID | None
    provider_name: str | None
    issuer: str | None
    provider_client: str | None
    provider_secret: bytes | None
    provider_scopes: list[str] | None
    service_scopes: list[str] | None
    is_lent: bool
    redirect_uris: list[str] | None
    realm_id: UUID | None
    is_away: bool

    def way(self) -> WayThrough:
        return WayThrough(
            organization=None if self.organization_id is None else OrganizationId(self.organization_id),
            own_client=_client("oauth_credentials", self.credentials_id, self.credentials_client, self.credentials_secret),
            configured=self._configured(),
            service=None if self.service_id is None else ServiceId(self.service_id),
            service_scopes=tuple(self.service_scopes or ()),
            is_lent=self.is_lent,
            redirect_uri=next(iter(self.redirect_uris or ()), ""),
            realm=None if self.realm_id is None else OrganizationId(self.realm_id),
            is_away=self.is_away,
        )

    def _configured(self) -> ConfiguredProvider | None:
        client = _client("upstream_providers", self.provider_id, self.provider_client, self.provider_secret)
        if client is None or self.provider_organization is None or self.provider_name is None or self.issuer is None:
            return None
        return ConfiguredProvider(
            organization=OrganizationId(self.provider_organization),
            name=self.provider_name,
            issuer=self.issuer,
            client=client,
            scopes=tuple(self.provider_scopes or ()),
        )


def _client(table: str, row: UUID | None, client_id: str | None, secret: bytes | None) -> SealedClient | None:
    if row is None or client_id is None or secret is None:
        return None
    return SealedClient(client_id=client_id, sealed_secret=secret, context=f"{table}.sealed_client_secret:{row}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """What `OWN` reads."""

    own_clients: list[str] | None
    own_providers: list[list[str]] | None

    def own(self) -> OwnProviders:
        return OwnProviders(tuple(self.own_clients or ()), tuple(Offer(key, name) for key, name in self.own_providers or ()))


# Columns of a statement that reads `organizations`.
OWN: Final = """
           (
               select array_agg(oauth_credentials.provider) from oauth_credentials where oauth_credentials.org_id = organizations.id
           ) as own_clients,
           (
               select jsonb_agg(
                          jsonb_build_array(upstream_providers.id, upstream_providers.name)
                          order by upstream_providers.created_at, upstream_providers.id
                      )
                 from upstream_providers
                where upstream_providers.org_id = organizations.id and upstream_providers.enabled
           ) as own_providers"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken(WayRow):
    flow_id: UUID | None
    user_id: UUID | None
    session_id: UUID | None
    client_id: str

    def taken(self, provider: str) -> TakenState:
        return TakenState(
            provider=provider,
            flow=None if self.flow_id is None else FlowId(self.flow_id),
            user=None if self.user_id is None else UserId(self.user_id),
            session=None if self.session_id is None else SessionId(self.session_id),
            client_id=self.client_id,
            way=self.way(),
        )


class _Met:
    def __init__(
        self,
        *,
        identity_id: UUID | None,
        id: UUID | None,  # noqa: A002 - the column's name
        password_hash: str | None,
        mfa_enabled: bool,
        knowledge: dict[str, Any],
        has_provider: bool,
        told_domain: str | None,
        proved_domains: list[str] | None,
        **account_and_realm: Any,
    ) -> None:
        realm = {name: account_and_realm.pop(name) for name in _REALM}
        named = None
        if id is not None:
            named = NamedAccount(AccountRow(id=id, **account_and_realm).account(), password_hash, mfa_enabled, knowledge_of(knowledge))
        connected = identity_id is not None
        proved = frozenset(proved_domains or ())
        self.encounter = Encounter(
            identity=None if identity_id is None else IdentityId(identity_id),
            connected=named if connected else None,
            named=None if connected else named,
            named_has_provider=has_provider,
            asserted_domain_is_theirs=told_domain in proved,
            account_domain_is_theirs=named is not None and mail_domain(named.account.email) in proved,
            realm=RealmRow(**realm).realm(),
        )


_REALM: Final = tuple(field.name for field in fields(RealmRow))


class UpstreamStateRows:
    """Implements `ports.identity.upstream.sign_in.UpstreamStateStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, state: NewState) -> None:
        await self._transaction.tell(
            _ADD,
            {
                "digest": state.digest,
                "browser": state.browser_digest,
                "provider": state.provider,
                "flow": state.flow,
                "user": state.user,
                "session": state.session,
                "client": state.client_id,
                "realm": state.realm,
                "created_at": state.created_at,
                "expires_at": state.expires_at,
            },
        )


class PostgresUpstreamSignIn:
    """Implements `ports.identity.upstream.sign_in.UpstreamLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def way(
        self, provider: str, *, organization: str = "", service: ServiceId | None = None, service_slug: str = "", realm: str = ""
    ) -> WayThrough:
        parameters = {
            **provider_parameters(provider),
            "organization": storable_text(organization),
            "service": service,
            "service_slug": storable_text(service_slug),
            "realm": storable_text(realm),
        }
        (row,) = await ask(self._pool, WayRow, _WAY, parameters)
        return row.way()

    async def own(self, organization: str) -> OwnProviders:
        rows = await ask(self._pool, OwnRow, _OWN, {"organization": storable_text(organization)})
        return rows[0].own() if rows else OwnProviders()

    async def take(self, digest: bytes, provider: str, browser: bytes | None, user: UserId | None) -> TakenState | None:
        parameters = {**provider_parameters(provider), "digest": digest, "browser": browser, "user": user}
        rows = await ask(self._pool, _Taken, _TAKE, parameters)
        return rows[0].taken(provider) if rows else None

    async def meet(
        self,
        provider: str,
        asserted: Asserted,
        email: Email | None,
        approach: Approach,
        *,
        organization: OrganizationId | None = None,
        user: UserId | None = None,
    ) -> Encounter:
        parameters = {
            "provider": provider,
            "issuer": storable_text(asserted.issuer),
            "subject": storable_text(asserted.subject),
            "email_key": None if email is None else email.key,
            "mail_domain": None if email is None else mail_domain(email),
            "user": user,
            "organization": organization,
            **knowledge_parameters(approach),
        }
        rows = await ask(self._pool, _Met, _MEET[approach.client.device_token is not None], parameters)
        return rows[0].encounter


def provider_parameters(provider: str) -> dict[str, Any]:
    """For `WAY`."""
    return {"provider": provider, "provider_id": None if provider in frozenset(Provider) else UUID(provider)}


_OWN: Final[LiteralString] = f"select {OWN} from organizations where slug = %(organization)s and status = 'active'"

_ADD: Final = """
    insert into oauth_states (digest, browser_digest, provider, flow_id, user_id, session_id, client_id, realm_id, created_at, expires_at)
    values (%(digest)s, %(browser)s, %(provider)s, %(flow)s, %(user)s, %(session)s, %(client)s, %(realm)s, %(created_at)s, %(expires_at)s)
"""

# Nobody's service acts by the client of another organization, or by the installation's where its organization has one.
_IS_LENT: Final = """
           realms.id <> services.org_id and (
               oauth_credentials.id is not null or exists (
                   select from oauth_credentials as theirs where theirs.org_id = services.org_id and theirs.provider = %(provider)s
               )
           )"""

# Columns of a statement that reads what `from_place` joins.
WAY: Final[LiteralString] = f"""
           homes.id as organization_id, services.id as service_id,
           oauth_credentials.id as credentials_id, oauth_credentials.client_id as credentials_client,
           oauth_credentials.sealed_client_secret as credentials_secret,
           providers.id as provider_id, providers.org_id as provider_organization, providers.name as provider_name, providers.issuer,
           providers.client_id as provider_client, providers.sealed_client_secret as provider_secret,
           providers.scopes as provider_scopes,
           case
               when {_IS_LENT} then null
               when %(provider)s::text = 'codehost' then services.codehost_scopes
               when %(provider)s::text = 'websuite' then services.websuite_scopes
               when %(provider)s::text = 'officesuite' then services.officesuite_scopes
           end as service_scopes,
           coalesce({_IS_LENT}, false) as is_lent, services.redirect_uris, realms.id as realm_id,
           exists (select from provider_outages where provider_outages.provider = %(provider)s) as is_away"""


def from_place(home: LiteralString, service: LiteralString, realm: LiteralString = "false") -> LiteralString:
    """Of what stands before it: `home` is the condition on the organization, `service` that on the service, and `realm` that on the
    organization that leads people of its domain to one of the three: with its client there, wherever they are on the way to. An
    organization's own provider counts on the platform and in flows of that organization, and in all others if it leads its people there; as
    long as it is on and the organization is active.
    """
    return f"""
      left join organizations as homes on {home} and homes.status = 'active'
      left join organizations as realms
             on {realm} and realms.status = 'active'
            and exists (
                    select
                      from domain_routes
                     where domain_routes.org_id = realms.id and domain_routes.verified_at is not null
                       and domain_routes.shared_provider = %(provider)s
                )
      left join services on {service}
      left join oauth_credentials
             on oauth_credentials.org_id = coalesce(realms.id, homes.id) and oauth_credentials.provider = %(provider)s
      left join (
               select upstream_providers.*,
                      exists (
                          select
                            from domain_routes
                           where domain_routes.own_provider = upstream_providers.id and domain_routes.verified_at is not null
                      ) as is_led_to
                 from upstream_providers
                 join organizations on organizations.id = upstream_providers.org_id
                where upstream_providers.id = %(provider_id)s::uuid and upstream_providers.enabled and organizations.status = 'active'
           ) as providers on homes.id is null or providers.org_id = homes.id or providers.is_led_to
"""


_IN_PLACE: Final[LiteralString] = from_place(
    "homes.slug = %(organization)s",
    "services.id = %(service)s::uuid or (services.org_id = homes.id and services.slug = %(service_slug)s)",
    "realms.slug = %(realm)s",
)
_WAY: Final[LiteralString] = f"select {WAY} from (values (true)) as this (way) {_IN_PLACE}"

_ASKER_IS_THERE: Final[LiteralString] = f"""
               exists (
                   select
                     from sessions
                     join users on users.id = sessions.user_id
                     left join organizations on organizations.id = sessions.organization_id
                     left join services on services.id = sessions.service_id
                    where sessions.id = taken.session_id and sessions.user_id = taken.user_id and {IS_LIVE}
               )"""

# Where the flow leads, or where the session is in which somebody connects an identity.
_OF_TAKEN: Final[LiteralString] = f"""
      left join flows on flows.id = taken.flow_id
      left join sessions as askers on askers.id = taken.session_id
      left join browser_sessions on browser_sessions.session_id = taken.session_id
      {
    from_place(
        '''homes.id = coalesce(
               (select organizations.id from organizations where organizations.slug = flows.wanted ->> 'organization'),
               askers.organization_id,
               browser_sessions.chosen_organization
           )''',
        "services.id = coalesce(flows.service_id, askers.service_id)",
        "realms.id = taken.realm_id",
    )
}"""
_TAKE: Final[LiteralString] = f"""
    with taken as (
             delete from oauth_states
              where digest = %(digest)s
                and provider = %(provider)s
                and (browser_digest = %(browser)s or user_id = %(user)s)
          returning flow_id, user_id, session_id, client_id, realm_id, expires_at
         )
  select taken.flow_id, taken.user_id, taken.session_id, taken.client_id, {WAY}
    from taken
         {_OF_TAKEN}
   where taken.expires_at > now() and (taken.user_id is null or {_ASKER_IS_THERE})
"""


def _meet(*, with_token: bool) -> LiteralString:
    return f"""
  select identities.id as identity_id, {ACCOUNT}, users.password_hash,
         {has_second_factor("users.id")} as mfa_enabled,
         exists (
             select from identities as others where others.user_id = users.id and others.provider = %(provider)s
         ) as has_provider,
         %(mail_domain)s::text as told_domain, {PROVED_DOMAINS} as proved_domains,
         {FIRST_KNOWLEDGE[with_token]} as knowledge,
         {REALM_OF_USER}
    from (values (true)) as this (word)
    left join identities
           on identities.provider = %(provider)s and identities.issuer = %(issuer)s and identities.subject = %(subject)s
    left join users
           on users.id = coalesce(
                  identities.user_id,
                  %(user)s::uuid,
                  (select named.id from users as named where named.email_key = %(email_key)s)
              )
    {JOIN_REALM}
"""


_MEET: Final = {with_token: _meet(with_token=with_token) for with_token in (False, True)}

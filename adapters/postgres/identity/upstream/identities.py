"""Linked identities, new users from identity providers, and accounts with an IdP-verified address, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable, storable_text
from adapters.postgres.identity.accounts import OPENS_BY_PROOF
from adapters.postgres.identity.addresses import is_unproved, nobody_knows, proved_domains
from adapters.postgres.statements import OnStatements, first, only
from core.domain.identifiers import FlowId, IdentityId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.claims import AddedKind, AddedWay, Voucher
from core.domain.identity.upstream.further_sign_ins import WaitingNewcomer
from core.domain.identity.upstream.identities import ConnectedIdentity
from core.domain.identity.upstream.providers import Naming, ProviderOrigin, origin_of, own_provider_of
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen, values_of
from ports.identity.upstream import HeldIdentity

IDENTITY: Final = Columns(
    ConnectedIdentity,
    "identities",
    named={"user": "user_id"},
    # Another table has the name, and only a new identity has a naming.
    apart=("provider_name", "naming"),
    texts=("issuer", "subject", "email"),
)


def _held(service_id: UUID | None = None, **columns: Any) -> HeldIdentity:
    return HeldIdentity(IDENTITY.row(**columns), None if service_id is None else ServiceId(service_id))


class IdentityRows(OnStatements):
    """Implements `ports.identity.upstream.IdentityStore`."""

    async def list(self, user: UserId, organization: str = "", service: str = "") -> Sequence[ConnectedIdentity]:
        statement = _LIST_IN_SERVICE if service else _LIST
        parameters = {"user": user, "organization_slug": organization, "service_slug": service}
        return await self._statements.ask(IDENTITY.row, statement, parameters)

    async def add(
        self, identity: ConnectedIdentity, account: Account, *, origin: ServiceId | None, made_in: SessionId | None = None
    ) -> bool:
        parameters = {
            **IDENTITY.values(identity),
            **_whose(identity.provider, account),
            "origin": origin,
            "made_in": made_in,
            **naming_parameters(identity.naming),
        }
        return bool(await self._statements.ask(IdRow, _ADD[origin_of(identity.provider)], parameters))

    async def reclaim(self, user: UserId, email: Email, at: datetime, *, by: Voucher | None) -> bool:
        parameters = {"user": user, "email_key": email.key, "at": at, "by": None if by is None else by.text}
        if not await self._statements.ask(IdRow, _RECLAIM, parameters):
            return False
        for statement in _RESTED_ON_IT:
            await self._statements.tell(statement, {"user": user})
        return True

    async def vouch(self, provider: str, account: Account) -> None:
        await self._statements.tell(_VOUCH, _whose(provider, account))

    async def keep_email(self, identity: IdentityId, email: str) -> None:
        await self._statements.tell_along(_KEEP_EMAIL, {"id": identity, "email": storable_text(email)})

    async def own_membership(self, provider: str, account: Account, at: datetime) -> None:
        if own_provider_of(provider) is not None:
            await self._statements.tell_along(_OWN_MEMBERSHIP, {**_whose(provider, account), "at": at})

    async def hold(self, user: UserId, provider: str) -> HeldIdentity | None:
        return first(await self._statements.ask(_held, _HOLD, {"user": user, "provider": storable_text(provider)}))

    async def hold_in_service(self, user: UserId, provider: str, organization: str, service: str) -> HeldIdentity | None:
        parameters = {"user": user, "provider": storable_text(provider), "organization_slug": organization, "service_slug": service}
        return first(await self._statements.ask(_held, _HOLD_IN_SERVICE, parameters))

    async def is_used_elsewhere(self, identity: IdentityId, service: ServiceId) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_USED_ELSEWHERE, {"identity": identity, "service": service})).yes

    async def remove(self, identity: IdentityId) -> None:
        await self._statements.tell(_REMOVE, {"identity": identity})

    async def remove_all(self, user: UserId) -> None:
        await self._statements.tell(_REMOVE_ALL, {"user": user})


def naming_parameters(naming: Naming | None) -> Mapping[str, Any]:
    """The parameters of `FURTHER_IS_ON`. No provider is one without a naming."""
    return {"naming": None if naming is None else Jsonb(storable(dict(values_of(naming))))}


def _whose(provider: str, account: Account) -> dict[str, Any]:
    """The parameters of the account and, if the provider is an organization's own, of the provider, which must vouch for the account."""
    own_provider = own_provider_of(provider)
    if own_provider is None:
        return {"user": account.id}
    return {"user": account.id, "own_provider": own_provider, **vouching_parameters(account.email)}


_COLUMNS: Final[LiteralString] = f"""
           {IDENTITY.names},
           coalesce(
               (select name from upstream_providers where upstream_providers.id = identities.upstream_provider_id),
               (select name from further_providers where further_providers.key = identities.provider),
               ''
           ) as provider_name"""


def _may_vouch(provider: LiteralString, account: LiteralString) -> LiteralString:
    """An organization's own provider may vouch for the account if the provider is on, its organization is active and has proved the domain
    of the address, and the account is no platform owner's.

    The statement locks the provider before the identity. A deletion of the provider locks the two in the same order.
    """
    return f"""
               select
                 from upstream_providers as providers
                 join organizations on organizations.id = providers.org_id and organizations.status = 'active'
                where providers.id = {provider} and providers.enabled
                  and {account}.email_key = %(email_key)s and not {account}.is_platform_owner
                  and %(mail_domain)s::text = any ({proved_domains("providers.org_id")}::text[])
                  for key share of providers"""


def is_connected(account: LiteralString) -> LiteralString:
    """A condition on a row of the account, which the caller has locked: the identity in the parameter `identity` is still connected to the
    account, and the identity's provider may vouch for the account. `vouching_parameters` gives the parameters.

    The answer stays true until the commit: only a transaction that locks the account, or the provider, disconnects the identity.
    """
    return f"""exists (
               select
                 from identities
                where identities.id = %(identity)s and identities.user_id = {account}.id
                  and (
                          identities.upstream_provider_id is null
                       or exists ({_may_vouch("identities.upstream_provider_id", account)})
                      )
           )"""


def vouching_parameters(email: Email | None) -> Mapping[str, Any]:
    """`email` is the address of the account."""
    if email is None:
        return {"email_key": None, "mail_domain": None}
    return {"email_key": storable_text(email.key), "mail_domain": storable_text(mail_domain(email))}


_OWN_MEMBERSHIP: Final[LiteralString] = f"""
    update memberships
       set own_since = %(at)s
      from upstream_providers
      join users on users.id = %(user)s
     where memberships.org_id = upstream_providers.org_id and memberships.user_id = users.id and memberships.own_since is null
       and upstream_providers.id = %(own_provider)s and exists ({_may_vouch("upstream_providers.id", "users")})
"""

_INSERT: Final = """
    insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, came_through, linked_at, made_in)"""
_VALUES: Final = "%(issuer)s, %(subject)s, %(email)s, %(origin)s, %(linked_at)s, %(made_in)s::uuid"
_UNLESS_TAKEN: Final = """
        on conflict do nothing
 returning id
"""

# Further providers that are on, and whose ids mean what they meant when the word was read.
FURTHER_IS_ON: Final = """
           further_providers.key = %(provider)s and further_providers.enabled
       and further_providers.settings @> %(naming)s::jsonb"""

# The statements, by whose the provider is. A deletion of a further provider waits for an identity that is being added, and removes it.
# A change of what ids mean there waits, too, and finds the identity; whoever adds one waits for such a change, and then adds none.
_ADD: Final[Mapping[ProviderOrigin, LiteralString]] = {
    ProviderOrigin.SHIPPED: f"{_INSERT} values (%(id)s, %(user)s, %(provider)s, null, {_VALUES}) {_UNLESS_TAKEN}",
    ProviderOrigin.FURTHER: f"""
    {_INSERT}
    select %(id)s, %(user)s, further.key, null, {_VALUES}
      from (select key from further_providers where {FURTHER_IS_ON} for key share) as further
    {_UNLESS_TAKEN}""",
    ProviderOrigin.OWN: f"""
    {_INSERT}
    select %(id)s, %(user)s, %(provider)s, %(own_provider)s, {_VALUES}
      from users
     where users.id = %(user)s and exists ({_may_vouch("%(own_provider)s", "users")})
    {_UNLESS_TAKEN}""",
}

# A directory may have deactivated the account since the provider's word was met. Its own organization's provider does not open it.
_RECLAIM: Final[LiteralString] = f"""
    update users
       set password_hash = null, password_changed_at = %(at)s, registered_in = null, pending_email = null, pending_email_key = null,
           email_verified_at = case when %(by)s::text is null then %(at)s::timestamptz end, address_vouched_by = %(by)s::text,
           origin_org_id = case when deactivated_at is null then origin_org_id end, deactivated_at = null, deactivated_by_org_id = null,
           updated_at = %(at)s
     where id = %(user)s and email_key = %(email_key)s and {is_unproved()}
       and (
               deactivated_at is null
            or {OPENS_BY_PROOF} and (%(by)s::text is null or deactivated_by::text <> split_part(%(by)s::text, '/', 1))
           )
 returning id
"""

# Second factors that somebody else may have set up while nobody had proved the address. `hand_over` removes the other ways to sign in.
_RESTED_ON_IT: Final[tuple[LiteralString, ...]] = (
    "delete from backup_codes where user_id = %(user)s",
    "delete from mfa_secrets where user_id = %(user)s",
)

# The statement changes nothing for an address that is proved or vouched for already, or for which the provider may not vouch.
_VOUCH: Final[LiteralString] = f"""
    update users
       set address_vouched_by = providers.org_id || '/' || providers.id
      from upstream_providers as providers
     where users.id = %(user)s and providers.id = %(own_provider)s and {nobody_knows()}
       and exists ({_may_vouch("%(own_provider)s", "users")})
"""

_KEEP_EMAIL: Final = "update identities set email = %(email)s where id = %(id)s and email <> %(email)s"

_HOLD: Final[LiteralString] = f"""
    select {_COLUMNS}
      from identities
     where user_id = %(user)s and provider = %(provider)s
       for update of identities
"""

# Reads the service as it is at this moment: once the service is gone, its application must not reach identities beyond the service.
_HOLD_IN_SERVICE: Final[LiteralString] = f"""
    select {_COLUMNS}, services.id as service_id
      from identities
      join identity_grants on identity_grants.identity_id = identities.id
      join services on services.id = identity_grants.service_id
      join organizations on organizations.id = services.org_id
     where identities.user_id = %(user)s and identities.provider = %(provider)s
       and services.slug = %(service_slug)s
       and organizations.slug = %(organization_slug)s and organizations.status = 'active'
       for update of identities
"""

_IS_USED_ELSEWHERE: Final = """
    select exists (select from identities where id = %(identity)s and came_through is distinct from %(service)s)
        or exists (select from identity_grants where identity_id = %(identity)s and service_id <> %(service)s) as yes
"""

_REMOVE: Final = "delete from identities where id = %(identity)s"

_REMOVE_ALL: Final = "delete from identities where user_id = %(user)s"

_LIST: Final[LiteralString] = f"""
    select {_COLUMNS}
      from identities
     where user_id = %(user)s
     order by linked_at, id
"""

_LIST_IN_SERVICE: Final[LiteralString] = f"""
    select {_COLUMNS}
      from identities
     where user_id = %(user)s
       and exists (
               select
                 from identity_grants
                 join services on services.id = identity_grants.service_id
                 join organizations on organizations.id = services.org_id
                where identity_grants.identity_id = identities.id
                  and services.slug = %(service_slug)s
                  and organizations.slug = %(organization_slug)s
           )
     order by linked_at, id
"""


NEWCOMER: Final = Columns(WaitingNewcomer, "newcomers", named={"flow": "flow_id"}, texts=("email",))


class NewcomerRows(OnStatements):
    """Implements `ports.identity.upstream.NewcomerStore`."""

    async def keep(self, newcomer: WaitingNewcomer) -> None:
        await self._statements.tell(_KEEP, NEWCOMER.values(newcomer))

    async def find(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        return first(await self._statements.ask(NEWCOMER.row, _FIND, {"flow": flow, "now": now}))

    async def send(self, flow: FlowId, email: str, code_digest: bytes, most: int, now: datetime) -> bool:
        parameters = {"flow": flow, "email": storable_text(email), "code_digest": code_digest, "most": most, "now": now}
        return bool(await self._statements.ask(IdRow, _SEND, parameters))

    async def attempt(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        return first(await self._statements.ask(NEWCOMER.row, _ATTEMPT, {"flow": flow, "now": now}))

    async def remove(self, flow: FlowId) -> None:
        await self._statements.tell(_NEWCOMER_REMOVE, {"flow": flow})


_OF_FLOW: Final = "flow_id = %(flow)s and expires_at > %(now)s"

_KEEP: Final = """
    insert into newcomers (flow_id, provider, sealed_word, email, code_digest, codes, tries, created_at, expires_at)
    values (%(flow)s, %(provider)s, %(sealed_word)s, %(email)s, %(code_digest)s, %(codes)s, %(tries)s, %(created_at)s, %(expires_at)s)
        on conflict (flow_id) do update
       set provider = excluded.provider, sealed_word = excluded.sealed_word, email = excluded.email, code_digest = excluded.code_digest,
           codes = excluded.codes, tries = excluded.tries, created_at = excluded.created_at, expires_at = excluded.expires_at
"""

_FIND: Final[LiteralString] = f"select {NEWCOMER.names} from newcomers where {_OF_FLOW}"

_SEND: Final[LiteralString] = f"""
    update newcomers
       set email = %(email)s, code_digest = %(code_digest)s, codes = codes + 1, tries = 0
     where {_OF_FLOW} and codes < %(most)s
 returning flow_id as id
"""

_ATTEMPT: Final[LiteralString] = f"""
    update newcomers
       set tries = tries + 1
     where {_OF_FLOW} and code_digest is not null
 returning {NEWCOMER.names}
"""

_NEWCOMER_REMOVE: Final = "delete from newcomers where flow_id = %(flow)s"


class _Added(Frozen):
    kind: str
    id: UUID
    name: str
    at: datetime | None
    application: str
    made_by_service: bool
    last_used_at: datetime | None

    def added(self) -> AddedWay:
        return AddedWay(
            AddedKind(self.kind),
            self.id,
            self.name,
            self.at,
            application=self.application,
            made_by_service=self.made_by_service,
            last_used_at=self.last_used_at,
        )


class VouchedAccountRows(OnStatements):
    """Implements `ports.identity.upstream.VouchedAccountStore`."""

    async def added(self, user: UserId, session: SessionId) -> Sequence[AddedWay]:
        return [row.added() for row in await self._statements.ask(_Added, _ADDED, {"user": user, "session": session})]


_ADDED: Final = """
    select 'password' as kind, id, '' as name, password_changed_at as at, '' as application, false as made_by_service,
           null::timestamptz as last_used_at
      from users
     where id = %(user)s and password_hash is not null
     union all
    select 'second_factor', user_id, '', enabled_at, '', false, null
      from mfa_secrets
     where user_id = %(user)s and enabled_at is not null and made_in is distinct from %(session)s
     union all
    select 'passkey', id, name, created_at, '', false, null
      from passkeys
     where user_id = %(user)s and made_in is distinct from %(session)s
     union all
    select 'identity', identities.id, coalesce(providers.name, identities.provider), identities.linked_at, '', false, null
      from identities
      left join upstream_providers as providers on providers.id = identities.upstream_provider_id
     where identities.user_id = %(user)s and identities.made_in is distinct from %(session)s
       and not exists (
               select from sessions where sessions.id = %(session)s and sessions.opened_through = identities.upstream_provider_id
           )
     union all
    select 'user_key', user_keys.id, user_keys.name, user_keys.created_at, services.name, user_keys.made_by_key is not null,
           user_keys.last_used_at
      from user_keys
      join services on services.id = user_keys.service_id
     where user_keys.user_id = %(user)s and (user_keys.expires_at is null or user_keys.expires_at > now())
     order by at, kind, id
"""

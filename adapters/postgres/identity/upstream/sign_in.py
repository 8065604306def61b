"""Signing in through upstream providers, in PostgreSQL: the states of sign-ins under way, and the account that a provider's claims mean."""

from dataclasses import fields
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_WHO_DEACTIVATED
from adapters.postgres.identity.factors.devices import FIRST_KNOWLEDGE, knowledge_of, knowledge_parameters
from adapters.postgres.identity.factors.mfa import has_second_factor
from adapters.postgres.identity.proofs.flows import flow_parameters
from adapters.postgres.identity.proofs.sign_in import KNOWN_TO_APPLICATION, application_parameters
from adapters.postgres.identity.realms.domains import JOIN_REALM, REALM_AND_CLIENT, RealmRow
from adapters.postgres.identity.upstream.identities import FURTHER_IS_ON, naming_parameters
from adapters.postgres.identity.upstream.own import OwnRow, own
from adapters.postgres.identity.upstream.proved_domains import proved_domains
from adapters.postgres.identity.upstream.states import (
    BEGIN_AND_LEAVE,
    FIND_ASKER,
    FIND_USED,
    FIND_WAY,
    FIND_WAY_OF_ASKER,
    FORGET,
    LEAVE,
    SETTLE,
    TAKE,
    AskerRow,
    TakenRow,
    UsedRow,
    WayOfAskerRow,
    place_parameters,
    state_parameters,
)
from adapters.postgres.identity.upstream.ways import WayRow, provider_parameters
from adapters.postgres.statements import ask, first, first_made, only
from adapters.postgres.storable import storable_text
from adapters.postgres.texts.own_texts import bring
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import IdentityId, OrganizationId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.claims import Asserted, Voucher
from core.domain.identity.upstream.identities import Asker, Encounter
from core.domain.identity.upstream.providers import OwnProviders, ProviderOrigin, origin_of
from core.domain.identity.upstream.sign_in import REPEATABLE, NewState, ServicePlace, TakenState, UsedState, WayThrough, used
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen, replace


class _Met:
    def __init__(
        self,
        *,
        identity_id: UUID | None,
        id: UUID | None,  # noqa: A002 - the column's name
        password_hash: str | None,
        mfa_enabled: bool,
        knowledge: dict[str, Any],
        other_stated: str | None,
        stated_domain: str | None,
        provider_is_on: bool = True,
        may_know_of_failures: bool = False,
        proved_domains: list[str] | None = None,
        vouches_as: list[str] | None = None,
        **account_and_realm: Any,
    ) -> None:
        realm = {name: account_and_realm.pop(name) for name in _REALM}
        named = None
        if id is not None:
            account = ACCOUNT.row(id=id, **account_and_realm)
            named = NamedAccount(account, password_hash, mfa_enabled, knowledge_of(knowledge), may_know_of_failures)
        connected = identity_id is not None
        proved = frozenset(proved_domains or ())
        self.encounter = Encounter(
            provider_is_on=provider_is_on,
            identity=None if identity_id is None else IdentityId(identity_id),
            connected=named if connected else None,
            named=None if connected else named,
            named_has_provider=other_stated is not None,
            other_stated=other_stated or "",
            asserted_domain_is_theirs=stated_domain in proved,
            account_domain_is_theirs=named is not None and mail_domain(named.account.email) in proved,
            vouches_as=frozenset(voucher for text in vouches_as or () if (voucher := Voucher.of(text)) is not None),
            realm=RealmRow(**realm).realm(),
        )


_REALM: Final = tuple(field.name for field in fields(RealmRow))


class _OwnBySlug(OwnRow, kw_only=True):
    id: UUID


class _Settled(Frozen):
    provider: str


class PostgresUpstreamSignIn(OnPool):
    """Implements `ports.identity.upstream.UpstreamLookup`."""

    async def way(self, provider: str, place: ServicePlace) -> WayThrough:
        return only(await ask(self._pool, WayRow, FIND_WAY[origin_of(provider)], place_parameters(provider, place))).way()

    async def own(self, organization: str) -> OwnProviders:
        rows = await ask(self._pool, _OwnBySlug, _OWN, {"organization": storable_text(organization)})
        return replace(rows[0].own(), organization=OrganizationId(rows[0].id)) if rows else OwnProviders()

    async def leave(self, state: NewState, place: ServicePlace, begun: Flow | None = None) -> WayThrough:
        parameters = {**place_parameters(state.provider, place), **state_parameters(state)}
        statements = LEAVE
        if begun is not None:
            statements, parameters = BEGIN_AND_LEAVE, {**parameters, **flow_parameters(begun, state.browser_digest)}
        return only(await ask(self._pool, WayRow, statements[origin_of(state.provider)], parameters)).way()

    async def asker(self, session: SessionId) -> Asker | None:
        return first_made(await ask(self._pool, AskerRow, FIND_ASKER, {"session": session}), AskerRow.asker)

    async def take(self, digest: bytes, provider: str, browser: bytes) -> TakenState | None:
        kind, parameters = origin_of(provider), provider_parameters(provider)
        state = {"digest": digest, "used": used(digest), "browser": browser}
        rows = await ask(self._pool, TakenRow, TAKE[kind], {**parameters, **state})
        if not rows:
            return None
        await bring(self._pool, rows[0].dress)
        taken, asker = rows[0].taken(provider), rows[0].asker
        if asker is None:
            return taken
        ways = await ask(self._pool, WayOfAskerRow, FIND_WAY_OF_ASKER[kind], {**parameters, **asker})
        if not ways:
            await self.settle(digest, "")
            return None
        return replace(taken, way=ways[0].way(), on_pages=ways[0].on_pages)

    async def used(self, digest: bytes, provider: str, browser: bytes) -> UsedState | None:
        parameters = {"used": used(digest), "provider": provider, "browser": browser, "lasts": REPEATABLE}
        row = first(await ask(self._pool, UsedRow, FIND_USED, parameters))
        if row is None:
            return None
        await bring(self._pool, row.dress)
        return row.used()

    async def settle(self, digest: bytes, led_to: str) -> None:
        parameters = {"used": used(digest), "led_to": led_to} if led_to else {"used": used(digest)}
        await ask(self._pool, _Settled, SETTLE if led_to else FORGET, parameters)

    async def meet(
        self,
        provider: str,
        asserted: Asserted,
        email: Email | None,
        approach: Approach,
        *,
        organization: OrganizationId | None = None,
        user: UserId | None = None,
        application: Context = PLATFORM,
    ) -> Encounter:
        parameters = {
            "provider": provider,
            "issuer": storable_text(asserted.issuer),
            "subject": storable_text(asserted.subject),
            "email_key": None if email is None else storable_text(email.key),
            "mail_domain": None if email is None else storable_text(mail_domain(email)),
            "user": user,
            "organization": organization,
            **naming_parameters(asserted.naming),
            **knowledge_parameters(approach),
            **application_parameters(application),
        }
        kind = (approach.client.device_token is not None, origin_of(provider), application.service is not None)
        rows = await ask(self._pool, _Met, _MEET[kind], parameters)
        return rows[0].encounter


_OWN: Final[LiteralString] = (
    f"select organizations.id, {own('organizations')} from organizations where slug = %(organization)s and status = 'active'"
)


# Whether an organization's own provider is on. The organization may have turned it off while the provider was being asked.
_IS_ON: Final = """
         exists (
             select
               from upstream_providers as providers
               join organizations on organizations.id = providers.org_id
              where providers.id = %(provider)s::text::uuid and providers.enabled and organizations.status = 'active'
         )"""


_FURTHER_IS_ON: Final[LiteralString] = f"exists (select from further_providers where {FURTHER_IS_ON})"


# The provider itself, and those whose successor it is.
_VOUCHES_AS: Final[LiteralString] = """
         (
             select array_prepend(providers.org_id || '/' || providers.id, providers.succeeds)
               from upstream_providers as providers
              where providers.id = %(provider)s::text::uuid
         )"""


def _meet(*, with_token: bool, origin: ProviderOrigin, for_application: bool) -> LiteralString:
    proved = ""
    if origin is ProviderOrigin.FURTHER:
        proved = f", {_FURTHER_IS_ON} as provider_is_on"
    if origin is ProviderOrigin.OWN:
        proved = f", {_IS_ON} as provider_is_on, {_VOUCHES_AS} as vouches_as, {proved_domains('%(organization)s::uuid')} as proved_domains"
    return f"""
  select identities.id as identity_id, {ACCOUNT_AND_WHO_DEACTIVATED}, users.password_hash,
         {has_second_factor("users.id")} as mfa_enabled,
         (
             select others.email from identities as others where others.user_id = users.id and others.provider = %(provider)s
         ) as other_stated,
         %(mail_domain)s::text as stated_domain {proved},
         {FIRST_KNOWLEDGE[with_token]} as knowledge,
         {REALM_AND_CLIENT}
         {KNOWN_TO_APPLICATION if for_application else ""}
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


# The statements by whether the request shows a device token, whose the provider is, and whether the flow leads to
# an application.
_MEET: Final = {
    (with_token, origin, for_application): _meet(with_token=with_token, origin=origin, for_application=for_application)
    for with_token in (False, True)
    for origin in ProviderOrigin
    for for_application in (False, True)
}

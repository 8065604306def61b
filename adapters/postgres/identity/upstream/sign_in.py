"""Signing in through upstream providers: the states of sign-ins under way, and the account that a provider's claims mean."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.branding import bring
from adapters.postgres.columns import storable_text
from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_WHO_DEACTIVATED
from adapters.postgres.identity.addresses import proved_domains
from adapters.postgres.identity.factors.mfa import FIRST_KNOWLEDGE, has_second_factor, knowledge_of, knowledge_parameters
from adapters.postgres.identity.proofs.flows import ADD_FLOW, FlowRow, flow_columns, flow_parameters
from adapters.postgres.identity.proofs.sign_in import KNOWN_TO_APPLICATION, application_parameters
from adapters.postgres.identity.sessions.parts import IS_LIVE
from adapters.postgres.identity.sign_in_domains import JOIN_SIGN_IN_DOMAIN, SIGN_IN_DOMAIN_AND_CLIENT, SignInDomainRow
from adapters.postgres.identity.upstream.identities import FURTHER_IS_ON, naming_parameters
from adapters.postgres.identity.upstream.ways import OwnRow, Parts, WayRow, of_each_kind, own, provider_parameters
from adapters.postgres.statements import OnPool, ask, first, first_made, only
from core.domain.identifiers import FlowId, IdentityId, OrganizationId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import NamedAccount
from core.domain.identity.upstream.claims import Asserted, Voucher
from core.domain.identity.upstream.identities import Asker, MatchingAccounts
from core.domain.identity.upstream.providers import OwnProviders, ProviderOrigin, origin_of
from core.domain.identity.upstream.sign_in import REPEATABLE, NewState, ServicePlace, TakenState, UsedState, WayThrough, used
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen, names_of, replace, values_of


class TakenRow:
    """A row of `TAKE`."""

    def __init__(
        self,
        *,
        flow_id: UUID | None,
        user_id: UUID | None,
        session_id: UUID | None,
        asked_in: UUID | None,
        client_id: str,
        asked_consent: bool,
        tests: bool,
        **flow_and_way: Any,
    ) -> None:
        flow = {name: flow_and_way.pop(name) for name in _FLOW}
        self._flow_id = None if flow["flow_purpose"] is None else flow_id
        self._flow = FlowRow(**flow)
        self._user = None if user_id is None else UserId(user_id)
        self._session = session_id
        self._asked_in = asked_in
        self._client_id = client_id
        self._asked_consent = asked_consent
        self._tests = tests
        self._way = WayRow(**flow_and_way).way()

    @property
    def asker(self) -> Mapping[str, Any] | None:
        """The parameters of `FIND_WAY_OF_ASKER`; None unless the state belongs to somebody who connects an identity."""
        return None if self._user is None else {"user": self._user, "session": self._session, "asked_in": self._asked_in}

    @property
    def dress(self) -> list[str | None] | None:
        return self._flow.flow_dress

    def taken(self, provider: str) -> TakenState:
        return TakenState(
            provider=provider,
            flow=None if self._flow_id is None else self._flow.flow(FlowId(self._flow_id)),
            user=self._user,
            sessions=tuple(SessionId(one) for one in (self._session, self._asked_in) if one is not None),
            client_id=self._client_id,
            asked_consent=self._asked_consent,
            way=self._way,
            tests=self._tests,
        )


_FLOW: Final = names_of(FlowRow)


class WayOfAskerRow(WayRow, kw_only=True):
    """A row of `FIND_WAY_OF_ASKER`."""

    on_pages: bool


class AskerRow(Frozen):
    """A row of `FIND_ASKER`."""

    id: UUID
    user_id: UUID
    organization_slug: str | None
    organization_name: str | None
    service_slug: str | None
    service_name: str | None
    redirect_uris: list[str] | None

    def asker(self) -> Asker:
        return Asker(
            session=SessionId(self.id),
            user=UserId(self.user_id),
            place=ServicePlace(organization=self.organization_slug or "", service_slug=self.service_slug or ""),
            application=self.service_name or "",
            organization=self.organization_name or "",
            redirect_uri=next(iter(self.redirect_uris or ()), ""),
        )


class UsedRow:
    """A row of `FIND_USED`."""

    def __init__(self, *, flow_id: UUID | None, led_to: str, **flow: Any) -> None:
        self._flow_id = flow_id
        self._flow = FlowRow(**flow)
        self._led_to = led_to

    @property
    def dress(self) -> list[str | None] | None:
        return self._flow.flow_dress

    def used(self) -> UsedState:
        flow = None if self._flow_id is None else self._flow.flow(FlowId(self._flow_id))
        return UsedState(flow=flow, led_to=self._led_to)


def place_parameters(provider: str, place: ServicePlace) -> Mapping[str, Any]:
    """The parameters of the provider and the place, for `FIND_WAY`, `LEAVE` and `BEGIN_AND_LEAVE`."""
    return {
        **provider_parameters(provider),
        **values_of(place),
        "organization": storable_text(place.organization),
        "service_slug": storable_text(place.service_slug),
        "realm": storable_text(place.sign_in_domain),
    }


def state_parameters(state: NewState) -> Mapping[str, Any]:
    """The parameters of the state, for `LEAVE` and `BEGIN_AND_LEAVE`."""
    return {**values_of(state), "expires_at": state.expires_at}


def _find_way(parts: Parts) -> LiteralString:
    service = "services.id = %(service)s::uuid or (services.org_id = homes.id and services.slug = %(service_slug)s)"
    return f"""
    select {parts.way}
      from (values (true)) as this (way)
           {parts.places("homes.slug = %(organization)s", service, "realms.slug = %(realm)s")}
"""


def _keep_state(parts: Parts) -> LiteralString:
    """Keeps no state if there is no client, or if the organization of a flow is gone. The row of the way tells the caller why."""
    return f"""
         way as ({_find_way(parts)}),
         kept as (
             insert into oauth_states (digest, browser_digest, provider, flow_id, user_id, session_id, asked_in, client_id, realm_id,
                                       asked_consent, tests, created_at, expires_at)
             select %(digest)s, %(browser_digest)s, %(provider)s, %(flow)s, %(user)s, %(session)s, %(asked_in)s, {parts.client},
                    {parts.sign_in_domain}, %(asks_consent)s, %(tests)s, %(created_at)s, %(expires_at)s
               from way
              where {parts.client} is not null
                and (%(flow)s::uuid is null or %(organization)s::text = '' or way.organization_id is not null)
         )
  select * from way
"""


def _take(parts: Parts) -> LiteralString:
    """Uses up the state, and reads its flow, unless the flow has expired or belongs to another browser."""
    return f"""
    with taken as (
             update oauth_states
                set digest = %(used)s, used_at = now()
              where digest = %(digest)s and provider = %(provider)s and browser_digest = %(browser)s and expires_at > now()
          returning flow_id, user_id, session_id, asked_in, client_id, asked_consent, tests, realm_id
         )
  select taken.flow_id, taken.user_id, taken.session_id, taken.asked_in, taken.client_id, taken.asked_consent, taken.tests, {parts.way},
         {flow_columns("homes")}
    from taken
    left join flows on flows.id = taken.flow_id and flows.browser_digest = %(browser)s and flows.expires_at > now()
         {parts.places("homes.slug = flows.wanted ->> 'organization'", "services.id = flows.service_id", "realms.id = taken.realm_id")}
"""


def _find_way_of_asker(parts: Parts) -> LiteralString:
    """The way of a person who connects an identity, by the session in which the person asked for it. That session must still live, and so
    must the session in which the person went to the provider.
    """
    home = "homes.id = coalesce(askers.organization_id, browser_sessions.chosen_organization)"
    return f"""
    select {parts.way}, browser_sessions.session_id is not null as on_pages
      from sessions as askers
      left join browser_sessions on browser_sessions.session_id = askers.id
           {parts.places(home, "services.id = askers.service_id", "false")}
     where askers.id = coalesce(%(asked_in)s::uuid, %(session)s)
       and (askers.organization_id is null or homes.id is not null)
       and not exists (
               select
                 from unnest(array[%(session)s, %(asked_in)s]::uuid[]) as needed (id)
                where needed.id is not null
                  and not exists (
                          select
                            from sessions
                            join users on users.id = sessions.user_id
                            left join organizations on organizations.id = sessions.organization_id
                            left join services on services.id = sessions.service_id
                           where sessions.id = needed.id and sessions.user_id = %(user)s and {IS_LIVE}
                      )
           )
"""


FIND_WAY: Final = of_each_kind(_find_way)
FIND_WAY_OF_ASKER: Final = of_each_kind(_find_way_of_asker)
LEAVE: Final = of_each_kind(lambda parts: f"with {_keep_state(parts)}")
# For a person whose flow begins with this statement. The flow is kept in any case: without a state, a page of the flow tells the person.
BEGIN_AND_LEAVE: Final = of_each_kind(lambda parts: f"with begun as ({ADD_FLOW}), {_keep_state(parts)}")
TAKE: Final = of_each_kind(_take)

FIND_ASKER: Final[LiteralString] = f"""
    select sessions.id, sessions.user_id, organizations.slug as organization_slug, organizations.name as organization_name,
           services.slug as service_slug, services.name as service_name, services.redirect_uris
      from sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
     where sessions.id = %(session)s and {IS_LIVE} and sessions.impersonator_id is null
       and (sessions.organization_id is null or organizations.status = 'active')
"""

FIND_USED: Final[LiteralString] = f"""
    select oauth_states.flow_id, coalesce(oauth_states.led_to, '') as led_to, {flow_columns("homes")}
      from oauth_states
      left join flows
             on flows.id = oauth_states.flow_id and flows.browser_digest = oauth_states.browser_digest and flows.expires_at > now()
      left join organizations as homes on homes.slug = flows.wanted ->> 'organization' and homes.status = 'active'
     where oauth_states.digest = %(used)s and oauth_states.provider = %(provider)s and oauth_states.browser_digest = %(browser)s
       and oauth_states.used_at > now() - %(lasts)s
       and (oauth_states.flow_id is null or flows.id is not null)
"""

SETTLE: Final = "update oauth_states set led_to = %(led_to)s where digest = %(used)s returning provider"
FORGET: Final = "delete from oauth_states where digest = %(used)s returning provider"


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
        **account_and_sign_in_domain: Any,
    ) -> None:
        sign_in_domain = {name: account_and_sign_in_domain.pop(name) for name in _SIGN_IN_DOMAIN}
        named = None
        if id is not None:
            account = ACCOUNT.row(id=id, **account_and_sign_in_domain)
            named = NamedAccount(account, password_hash, mfa_enabled, knowledge_of(knowledge), may_know_of_failures)
        connected = identity_id is not None
        proved = frozenset(proved_domains or ())
        self.matching_accounts = MatchingAccounts(
            provider_is_on=provider_is_on,
            identity=None if identity_id is None else IdentityId(identity_id),
            connected=named if connected else None,
            named=None if connected else named,
            named_has_provider=other_stated is not None,
            other_stated=other_stated or "",
            asserted_domain_is_theirs=stated_domain in proved,
            account_domain_is_theirs=named is not None and mail_domain(named.account.email) in proved,
            vouches_as=frozenset(voucher for text in vouches_as or () if (voucher := Voucher.of(text)) is not None),
            sign_in_domain=SignInDomainRow(**sign_in_domain).sign_in_domain(),
        )


_SIGN_IN_DOMAIN: Final = tuple(field.name for field in fields(SignInDomainRow))


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
    ) -> MatchingAccounts:
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
        return rows[0].matching_accounts


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
         {SIGN_IN_DOMAIN_AND_CLIENT}
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
    {JOIN_SIGN_IN_DOMAIN}
"""


# The statements by whether the request shows a device token, whose the provider is, and whether the flow leads to
# an application.
_MEET: Final = {
    (with_token, origin, for_application): _meet(with_token=with_token, origin=origin, for_application=for_application)
    for with_token in (False, True)
    for origin in ProviderOrigin
    for for_application in (False, True)
}

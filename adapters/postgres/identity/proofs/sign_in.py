"""Signing in: all that a password check needs, the last look before the session, and the proofs given in a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import AnswerRow, storable_text
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.factors.mfa import (
    FIRST_KNOWLEDGE,
    grace_is_over,
    has_second_factor,
    knowledge_of,
    knowledge_parameters,
    second_factor_due_in,
    second_factor_since,
)
from adapters.postgres.identity.privacy.forgetting import holding_by_use
from adapters.postgres.identity.proofs.account_passwords import PRESSURE, pressure_parameters
from adapters.postgres.identity.proofs.login_events import asked_rules
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.realms import JOIN_REALM, REALM_OF_USER, RealmRow
from adapters.postgres.identity.sessions.parts import SUBSCRIPTION_STATE, has_hooks, subscription_state, tells_more
from adapters.postgres.identity.terms import pending_terms
from adapters.postgres.identity.upstream.identities import is_connected, vouching_parameters
from adapters.postgres.rate_limits import TAKE_WANTED, give_back
from adapters.postgres.statements import OnPool, OnTransaction, ask, first_made, only
from adapters.postgres.ties import ENTERED_AGAIN, IS_MEMBER_HERE, IS_OWN_MEMBERSHIP, is_listed, may_know_of_failures
from core.domain.identifiers import OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.guards.guesses import OriginPlaces
from core.domain.identity.passkeys import OFFERED_AGAIN_AFTER
from core.domain.identity.passwords import AtSignIn
from core.domain.identity.proofs import Proved, Standing
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import (
    TRIES_FROM_ANYWHERE,
    TRIES_FROM_DEVICE,
    Attempt,
    Confirmed,
    Destination,
    LastLook,
    NamedAccount,
    ServiceName,
    Tries,
    account_key,
)
from core.domain.identity.upstream.claims import Voucher
from core.domain.languages import Language
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRow:
    """The columns of `DESTINATION`. A statement that reads further columns extends this class."""

    service_id: UUID | None = None
    service_slug: str | None = None
    organization_id: UUID | None = None
    organization_slug: str | None = None
    organization_is_active: bool | None = None
    is_agent: bool | None = None
    binds_tokens: bool | None = None

    def destination(self) -> Destination | None:
        if self.service_id is None or self.organization_id is None:
            return None
        context = Context(
            OrganizationId(self.organization_id), self.organization_slug or "", ServiceId(self.service_id), self.service_slug or ""
        )
        return Destination(
            context,
            is_open=self.organization_is_active or False,
            is_agent=self.is_agent or False,
            binds_tokens=self.binds_tokens or False,
        )


# Columns of a statement that reads `services`, and `organizations` for the organization of the service.
DESTINATION: Final = """
           services.id as service_id, services.slug as service_slug, organizations.id as organization_id,
           organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active, services.is_agent,
           services.dpop_bound_access_tokens as binds_tokens"""


def destination_of(columns: dict[str, Any]) -> Destination | None:
    """Takes the columns of `DESTINATION`. The rest stays in `columns`."""
    return DestinationRow(**{name: columns.pop(name) for name in DestinationRow.__dataclass_fields__ if name in columns}).destination()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt(DestinationRow, RealmRow):
    limit_name: str
    key: str
    wait: float
    id: UUID | None
    email: str | None
    password_hash: str | None
    is_platform_owner: bool | None
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime | None
    language: str | None
    address_vouched_by: str | None
    mfa_enabled: bool
    may_know_of_failures: bool = False
    breached_at_sign_in: str | None
    pressure: float
    knowledge: dict[str, Any]

    def attempt(self) -> Attempt:
        limit = TRIES_FROM_DEVICE if self.limit_name == TRIES_FROM_DEVICE.name else TRIES_FROM_ANYWHERE
        return Attempt(Tries(limit, self.key, self.wait), self._named_account(), self.destination(), self.realm(), self.pressure)

    def _named_account(self) -> NamedAccount | None:
        if self.id is None or self.email is None or self.created_at is None:
            return None
        account = Account(
            UserId(self.id),
            Email(self.email),
            is_platform_owner=self.is_platform_owner or False,
            email_verified_at=self.email_verified_at,
            deactivated_at=self.deactivated_at,
            created_at=self.created_at,
            language=Language.of(self.language),
            address_vouched_by=Voucher.of(self.address_vouched_by),
        )
        return NamedAccount(
            account,
            self.password_hash,
            self.mfa_enabled,
            knowledge_of(self.knowledge),
            self.may_know_of_failures,
            AtSignIn.OFF if self.breached_at_sign_in is None else AtSignIn(self.breached_at_sign_in),
        )


class _Confirmed:
    """The columns of the account, of the facts about it, and of the service, which are null without a service."""

    def __init__(
        self,
        *,
        one_factor_is_enough: bool,
        is_connected: bool,
        flow_is_open: bool,
        belongs_to_several: bool,
        is_listed: bool,
        owes_answers: bool,
        offers_passkey: bool,
        may_know_of_failures: bool,
        subscription: Mapping[str, Any] | None,
        tells_more: bool,
        is_admitted: bool | None,
        owes_second_factor: bool,
        is_made_elsewhere: bool,
        rules_asked: Sequence[Mapping[str, Any]] | None,
        terms: Sequence[Mapping[str, Any]] | None,
        has_hooks: bool,
        **columns: Any,
    ) -> None:
        destination, pending = destination_of(columns), pending_terms(terms)
        if destination is not None:
            owes_terms = any(one.stops(destination.context.organization) for one in pending)
            destination = replace(destination, admits=is_admitted or False, owes_second_factor=owes_second_factor, owes_terms=owes_terms)
        self.confirmed = Confirmed(
            account=ACCOUNT.row(**columns),
            one_factor_is_enough=one_factor_is_enough,
            is_connected=is_connected,
            flow_is_open=flow_is_open,
            destination=destination,
            may_know_of_failures=may_know_of_failures,
            subscription=subscription_state(subscription),
            tells_more=tells_more,
            belongs_to_several=belongs_to_several,
            is_listed=is_listed,
            owes_answers=owes_answers,
            offers_passkey=offers_passkey,
            is_made_elsewhere=is_made_elsewhere,
            rules_asked=asked_rules(rules_asked),
            terms=pending,
            has_hooks=has_hooks,
        )


class _Place(Enum):
    """Where a try leads to."""

    NOWHERE = auto()
    SERVICE = auto()
    """The request names the service that the person wants to enter."""
    APPLICATION = auto()
    """The browser's flow leads on to an application."""


def _place(service: ServiceName | None, application: Context) -> _Place:
    if service is not None:
        return _Place.SERVICE
    return _Place.NOWHERE if application.service is None else _Place.APPLICATION


def application_parameters(application: Context) -> Mapping[str, Any]:
    """The parameters of `KNOWN_TO_APPLICATION`."""
    return {"application_organization": application.organization, "application_service": application.service}


# An expression: whether the organization of the application that the browser's flow leads to may know of the person's failures.
def _is_known(person: LiteralString) -> LiteralString:
    return may_know_of_failures("%(application_organization)s::uuid", "%(application_service)s::uuid", person)


KNOWN_TO_APPLICATION: Final[LiteralString] = f", {_is_known('users.id')} as may_know_of_failures"


def _named(service: ServiceName | None) -> Mapping[str, Any]:
    if service is None:
        return {"organization_slug": None, "service_slug": None}
    return {"organization_slug": storable_text(service.organization), "service_slug": storable_text(service.service)}


class PostgresAttempts(OnPool):
    """Implements `ports.identity.sign_in.Attempts`."""

    async def find(
        self,
        email: Email,
        approach: Approach,
        service: ServiceName | None = None,
        *,
        application: Context = PLATFORM,
        places: OriginPlaces | None = None,
    ) -> Attempt:
        parameters = {
            **pressure_parameters(places),
            "email_key": email.key,
            "mail_domain": storable_text(mail_domain(email)),
            "account_key": account_key(email),
            "account_limit": TRIES_FROM_ANYWHERE.name,
            "account_burst": float(TRIES_FROM_ANYWHERE.burst),
            "account_pace": TRIES_FROM_ANYWHERE.seconds_per_request,
            "device_limit": TRIES_FROM_DEVICE.name,
            "device_burst": float(TRIES_FROM_DEVICE.burst),
            "device_pace": TRIES_FROM_DEVICE.seconds_per_request,
            **knowledge_parameters(approach),
            **_named(service),
            **application_parameters(application),
        }
        # The choice of the statement depends on the request alone, so its duration tells nothing about the account.
        statement = _FIND[approach.client.device_token is not None, _place(service, application)]
        return only(await ask(self._pool, _Attempt, statement, parameters)).attempt()


class PostgresDestinations(OnPool):
    """Implements `ports.identity.sign_in.Destinations`."""

    async def find(self, service: ServiceName) -> Destination | None:
        return first_made(await ask(self._pool, DestinationRow, _FIND_DESTINATION, _named(service)), DestinationRow.destination)


class SignInRows(OnTransaction):
    """Implements `ports.identity.sign_in.SignInStore` in one transaction."""

    async def confirm(self, look: LastLook) -> Confirmed | None:
        parameters = {
            "user": look.user,
            "encoded": look.encoded,
            "since": look.since,
            "identity": look.identity,
            "device": look.device,
            "service": look.service,
            "flow": look.flow,
            "organization": look.organization,
            **vouching_parameters(look.email),
            **({"offered_again_after": OFFERED_AGAIN_AFTER} if look.offers_passkey else {}),
        }
        statement = _LAST_LOOK[look.offers_passkey]
        return first_made(await self._transaction.ask(_Confirmed, statement, parameters), lambda row: row.confirmed)

    async def is_known_to(self, user: UserId, application: Context) -> bool:
        parameters = {"user": user, **application_parameters(application)}
        return only(await self._transaction.ask(AnswerRow, _IS_KNOWN, parameters)).yes

    async def renew(self, user: UserId, encoded: str, renewed: str) -> None:
        await self._transaction.tell(_RENEW, {"user": user, "encoded": encoded, "renewed": renewed})

    async def let_hold(self, user: UserId, service: ServiceId, methods: Sequence[str], at: datetime) -> None:
        await self._transaction.tell_along(_LET_HOLD, {"user": user, "service": service, "methods": list(methods), "at": at})

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        # A trigger counts the new users of a service. The trigger runs after all other writes of the statement into which `tell_along`
        # merges this write, so the service's row is locked late.
        await self._transaction.tell_along(_ENTER, {"user": user, "service": service, "at": at})

    async def give_back(self, tries: Tries) -> None:
        await give_back(self._transaction, tries.limit, tries.key)


_NAMED: Final[LiteralString] = f"""
      select {DESTINATION}
        from organizations
        join services on services.org_id = organizations.id
       where organizations.slug = %(organization_slug)s and services.slug = %(service_slug)s
"""

# A try from a device that shows one of this account's device tokens takes from that device's bucket.
_FROM_ONE_DEVICE: Final = """
         known as (
             select devices.id
               from devices
               join users on users.id = devices.user_id
              where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s
         ),
         wanted as (
             select case when known.id is null then %(account_limit)s::text else %(device_limit)s::text end as limit_name,
                    coalesce(known.id::text, %(account_key)s::text) as key,
                    case when known.id is null then %(account_burst)s::float8 else %(device_burst)s::float8 end as burst,
                    case when known.id is null then %(account_pace)s::float8 else %(device_pace)s::float8 end as pace
               from (values (true)) as this (try)
               left join known on this.try
         )"""

# A try without such a device token draws from the account's bucket.
_FROM_ANYWHERE: Final = """
         wanted as (
             select %(account_limit)s::text as limit_name, %(account_key)s::text as key, %(account_burst)s::float8 as burst,
                    %(account_pace)s::float8 as pace
         )"""


# "change" is the stricter of the two, and comes first.
_BREACHED_AT_SIGN_IN: Final[LiteralString] = f"""(
             select min(organizations.breached_at_sign_in)
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = users.id and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
         )"""


def _find(*, with_token: bool, place: "_Place") -> LiteralString:
    """For an address without an account, the statement does the same look-ups, and finds nothing. There are statements without the
    look-ups of a device token or a place that the request does not name, because PostgreSQL initializes every part of a statement, also
    the parts that find nothing.
    """
    wanted = _FROM_ONE_DEVICE if with_token else _FROM_ANYWHERE
    destination, columns, joined = _OF_PLACE[place]
    return f"""
    with {wanted},
         taken as ({TAKE_WANTED})
         {destination}
  select taken.limit_name, taken.key, taken.wait, users.id, users.email, users.password_hash, users.is_platform_owner,
         users.email_verified_at, users.deactivated_at, users.created_at, users.language, users.address_vouched_by,
         {has_second_factor("users.id")} as mfa_enabled,
         {FIRST_KNOWLEDGE[with_token]} as knowledge,
         {_BREACHED_AT_SIGN_IN} as breached_at_sign_in,
         {PRESSURE} as pressure,
         {REALM_OF_USER}
         {columns}
    from taken
    {joined}
    left join users on users.email_key = %(email_key)s
    {JOIN_REALM}
"""


_AND_DESTINATION: Final[LiteralString] = f", destination as ({_NAMED})"

_DESTINATION_COLUMNS: Final[LiteralString] = f""",
         destination.*,
         {may_know_of_failures("destination.organization_id", "destination.service_id", "users.id")} as may_know_of_failures
"""

_OF_PLACE: Final[Mapping["_Place", tuple[LiteralString, LiteralString, LiteralString]]] = {
    _Place.NOWHERE: ("", "", ""),
    _Place.SERVICE: (_AND_DESTINATION, _DESTINATION_COLUMNS, "left join destination on true"),
    _Place.APPLICATION: ("", KNOWN_TO_APPLICATION, ""),
}

# The statements by whether the request shows a device token, and where the sign-in leads to.
_FIND: Final[Mapping[tuple[bool, "_Place"], LiteralString]] = {
    (with_token, place): _find(with_token=with_token, place=place) for with_token in (False, True) for place in _Place
}

_FIND_DESTINATION: Final = _NAMED


# A password reset or a deactivation ends all sessions. The lock on the account makes either of them wait until the new session exists, so
# that the new session ends, too. While the person gave the proof, they may have enabled a second factor, or the trust of the device may
# have ended. Every transaction locks the account before its flows and devices, and these before the service, so that no two deadlock. The
# lock on the service is the one that a foreign key takes: other transactions can add sessions and users of the service meanwhile. Sign-ins
# of one person come one after the other from here on: they write the same rows, the try that is given back and the place in a service, and
# in which order depends on what is sent together.
def _last_look(*, offers_passkey: bool) -> LiteralString:
    """The statement for a sign-in after which a page can, or cannot, offer a passkey. Most cannot, and do not pay for it."""
    return f"""
    with held as materialized (
             select id, email, email_key, is_platform_owner, email_verified_at, deactivated_at, created_at, language,
                    address_vouched_by, origin_org_id {_OFFERED[offers_passkey]}
               from users
              where id = %(user)s and deactivated_at is null
                and (%(encoded)s::text is null or password_hash = %(encoded)s)
                and (%(since)s::timestamptz is null or password_changed_at is null or password_changed_at <= %(since)s)
                for no key update
         ),
         users as materialized (
             select held.*,
                    %(identity)s::uuid is null or {is_connected("held")} as is_connected,
                    %(flow)s::uuid is null or exists (
                        select
                          from flows
                         where flows.id = %(flow)s and flows.signed_in_at is null and flows.expires_at > now()
                           for no key update
                    ) as flow_is_open,
                    not {has_second_factor("held.id")} or exists (
                        select
                          from devices
                         where devices.id = %(device)s and devices.user_id = held.id and devices.revoked_at is null
                           and devices.trusted_until > now()
                           for no key update
                    ) as one_factor_is_enough,
                    {is_listed("held.id")} as is_listed,
                    %(flow)s::uuid is not null and owes_answers(held.id, held.created_at, %(flow)s) as owes_answers,
                    {_OFFERS_PASSKEY[offers_passkey]} as offers_passkey,
                    exists (
                        select
                          from memberships
                          join organizations on organizations.id = memberships.org_id
                         where memberships.user_id = held.id
                        offset 1
                    ) as belongs_to_several
               from held
         ),
         destination as (
             select services.id, services.slug, services.org_id, services.sign_in_policy, services.is_agent,
                    services.dpop_bound_access_tokens, organizations.slug as organization_slug, organizations.status
               from services
               join organizations on organizations.id = services.org_id
              where services.id = %(service)s
                for key share
         )
  select {ACCOUNT.names}, users.is_connected, users.flow_is_open, users.one_factor_is_enough, users.is_listed, users.owes_answers,
           users.offers_passkey, users.belongs_to_several,
           services.id as service_id, services.slug as service_slug, services.org_id as organization_id, services.organization_slug,
           services.status = 'active' as organization_is_active, services.is_agent,
           services.dpop_bound_access_tokens as binds_tokens,
           {admits(IS_MEMBER_HERE, "users.id")} as is_admitted,
           {grace_is_over(second_factor_due_in("services.org_id", "users.id"))} as owes_second_factor,
           coalesce(users.origin_org_id <> services.org_id, false) as is_made_elsewhere,
           {may_know_of_failures("services.org_id", "services.id", "users.id")} as may_know_of_failures,
           {SUBSCRIPTION_STATE} as subscription,
           {tells_more("services.id", "services.org_id", "users.id")} as tells_more,
           risk_rules_asked(users.id, %(organization)s::uuid) as rules_asked,
           services.id is not null and {has_hooks("services.org_id")} as has_hooks,
           terms_pending(users.id, coalesce(%(organization)s::uuid, services.org_id)) as terms
    from users
    left join destination as services on true
"""


_OFFERED: Final = {True: ", passkey_offered_at, passkey_offers_ended_at", False: ""}
_OFFERS_PASSKEY: Final = {
    True: """held.passkey_offers_ended_at is null
                    and (held.passkey_offered_at is null or held.passkey_offered_at <= now() - %(offered_again_after)s::interval)
                    and may_be_offered_passkey(held.id)""",
    False: "false",
}
_LAST_LOOK: Final = {offers: _last_look(offers_passkey=offers) for offers in (False, True)}

_IS_KNOWN: Final[LiteralString] = f"select {_is_known('%(user)s::uuid')} as yes"

_RENEW: Final = "update users set password_hash = %(renewed)s where id = %(user)s and password_hash = %(encoded)s"

_LET_HOLD: Final[LiteralString] = holding_by_use(
    "users.id",
    "%(at)s",
    "%(methods)s::text[]",
    """from users
              join services on services.id = %(service)s
             where users.id = %(user)s and users.origin_org_id <> services.org_id""",
)

# The person signs in to the service by their own act, with a password or another factor, so `own_since` is set.
_ENTER: Final[LiteralString] = f"""
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    select services.id, %(user)s, services.org_id, %(at)s, %(at)s, %(at)s, %(at)s
      from services
     where services.id = %(service)s
        on conflict (service_id, user_id) do update
       set {ENTERED_AGAIN}
"""


class _Standing(Frozen):
    proved_at: datetime | None
    second_factor_at: datetime | None
    stated_at: datetime | None
    second_factor_since: datetime | None
    has_password: bool
    has_authenticator: bool
    has_passkey: bool
    has_proved_address: bool

    def standing(self) -> Standing:
        proved = Proved(self.proved_at, self.second_factor_at, self.stated_at)
        return Standing(
            proved, self.second_factor_since, self.has_password, self.has_authenticator, self.has_passkey, self.has_proved_address
        )


class PostgresProofs(OnPool):
    """Implements `ports.identity.sign_in.ProofLookup`."""

    async def find(self, session: SessionId, user: UserId) -> Standing | None:
        return first_made(await ask(self._pool, _Standing, _PROOF_FIND, {"session": session, "user": user}), _Standing.standing)


_PROOF_FIND: Final[LiteralString] = f"""
    select sessions.proved_at, sessions.second_factor_at, sessions.stated_at,
           {second_factor_since("sessions.user_id")} as second_factor_since,
           users.password_hash is not null as has_password,
           exists (
               select from mfa_secrets where mfa_secrets.user_id = sessions.user_id and mfa_secrets.enabled_at is not null
           ) as has_authenticator,
           exists (select from passkeys where passkeys.user_id = sessions.user_id) as has_passkey,
           {is_proved()} as has_proved_address
      from sessions
      join users on users.id = sessions.user_id
     where sessions.id = %(session)s and sessions.user_id = %(user)s and sessions.revoked_at is null
"""

"""Sign-ins in PostgreSQL: the look-up for a password, the last look before the session, and the reauthentications of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import AnswerRow, storable_text
from adapters.postgres.functions import Function
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
from adapters.postgres.identity.realms import COULD_JOIN, IS_REALM, OF_REALM, REALMS, RealmRow
from adapters.postgres.identity.sessions.parts import SUBSCRIPTION_STATE, has_hooks, subscription_state, tells_more
from adapters.postgres.identity.terms import pending_terms
from adapters.postgres.identity.upstream.identities import is_connected, vouching_parameters
from adapters.postgres.rate_limits import TAKE_WANTED, TAKEN, give_back
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
            "on_device": look.device,
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

# "change" is the stricter of the two, and comes first.
_BREACHED_AT_SIGN_IN: Final[LiteralString] = f"""(
               select min(organizations.breached_at_sign_in)
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
           )"""

# The parameters of `find`, and their types.
_OF_TOKEN: Final[Mapping[LiteralString, LiteralString]] = {
    "device_digest": "bytea",
    "trust_digest": "bytea",
    "device_limit": "text",
    "device_burst": "double precision",
    "device_pace": "double precision",
}
_OF_SERVICE: Final[Mapping[LiteralString, LiteralString]] = {"organization_slug": "text", "service_slug": "text"}
_OF_APPLICATION: Final[Mapping[LiteralString, LiteralString]] = {"application_organization": "uuid", "application_service": "uuid"}
_FOUND_BY: Final[Mapping[LiteralString, LiteralString]] = {
    "email_key": "text",
    "mail_domain": "text",
    "account_key": "text",
    "account_limit": "text",
    "account_burst": "double precision",
    "account_pace": "double precision",
    **_OF_TOKEN,
    "device_type": "text",
    "device_browser": "text",
    "device_os": "text",
    "device_history": "integer",
    "guess_kinds": "text[]",
    "guess_slots": "integer[]",
    "guess_keys": "text[]",
    "guess_failures": "integer[]",
    "guess_spreads": "integer[]",
    "guess_hour": "timestamptz",
    **_OF_SERVICE,
    **_OF_APPLICATION,
}

# The columns of an account, and their types.
_TYPES: Final[Sequence[LiteralString]] = ("uuid", "text", "boolean", "timestamptz", "timestamptz", "timestamptz", "text", "text")
_ACCOUNT: Final[Mapping[LiteralString, LiteralString]] = dict(zip(ACCOUNT.columns.values(), _TYPES, strict=True))
_OF_USERS: Final[LiteralString] = ", ".join(f"users.{name}" for name in _ACCOUNT)
_REALM: Final[Mapping[LiteralString, LiteralString]] = {
    "realm_organization_id": "uuid",
    "realm_organization_slug": "text",
    "realm_policy": "text",
    "realm_shared_provider": "text",
    "realm_own_provider": "uuid",
}
_DESTINATION: Final[Mapping[LiteralString, LiteralString]] = {
    "service_id": "uuid",
    "service_slug": "text",
    "organization_id": "uuid",
    "organization_slug": "text",
    "organization_is_active": "boolean",
    "is_agent": "boolean",
    "binds_tokens": "boolean",
}
_DESTINATION_COLUMNS: Final[LiteralString] = ", ".join(_DESTINATION)
_SET_REALM: Final[LiteralString] = "\n        ".join(f"{name} := realms.{name};" for name in _REALM)
_SET_ACCOUNT: Final[LiteralString] = "\n    ".join(f"{name} := users.{name};" for name in (*_ACCOUNT, "password_hash"))

# No account has this id.
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_FIND_NAME: Final = "find_attempt_15"
_FIND_SERVICE: Final[LiteralString] = f"{_FIND_NAME}.service_id"
_FIND_ORGANIZATION: Final[LiteralString] = f"{_FIND_NAME}.organization_id"

# The guess is taken first, so nobody gets a hash who has not paid for it. A try from a device that shows one of this account's device
# tokens takes from that device's bucket, and any other try from the account's.
#
# Nothing here asks whether an account has the address. For an address without one, the look-up goes on with an id that nobody has: it runs
# the same statements, looks into the same indexes, and finds nothing. Which parts run depends on the request, and on whether an
# organization has proved the domain of the address.
FIND_ATTEMPT: Final = Function(
    _FIND_NAME,
    "Takes a guess, and then finds all that a sign-in needs before the password is checked.",
    _FOUND_BY,
    {
        **TAKEN,
        **_ACCOUNT,
        "password_hash": "text",
        "mfa_enabled": "boolean",
        "knowledge": "jsonb",
        "breached_at_sign_in": "text",
        "pressure": "double precision",
        **_REALM,
        "realm_joins": "boolean",
        **_DESTINATION,
        "may_know_of_failures": "boolean",
    },
    {"known": "uuid", "users": "record", "realms": "record"},
    f"""
    if %(device_digest)s is not null then
        select devices.id
          into known
          from devices
          join users on users.id = devices.user_id
         where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s;
    end if;
    with wanted as (
             select case when known is null then %(account_limit)s else %(device_limit)s end as limit_name,
                    coalesce(known::text, %(account_key)s) as key,
                    case when known is null then %(account_burst)s else %(device_burst)s end as burst,
                    case when known is null then %(account_pace)s else %(device_pace)s end as pace
         )
    {TAKE_WANTED.strip()}
      into limit_name, key, wait;

    select {_OF_USERS}, users.email_key, users.password_hash
      into users
      from users
     where users.email_key = %(email_key)s;
    {_SET_ACCOUNT}
    users.id := coalesce(id, '{_NOBODY}');
    if %(device_digest)s is null then
        select {has_second_factor("users.id")}, {_BREACHED_AT_SIGN_IN}, {FIRST_KNOWLEDGE[False].strip()}
          into mfa_enabled, breached_at_sign_in, knowledge;
    else
        select {has_second_factor("users.id")}, {_BREACHED_AT_SIGN_IN}, {FIRST_KNOWLEDGE[True].strip()}
          into mfa_enabled, breached_at_sign_in, knowledge;
    end if;
    pressure := 0;
    if cardinality(%(guess_kinds)s) > 0 then
        pressure := {PRESSURE.strip()};
    end if;

    select realms.*, {OF_REALM.strip()}
      into realms
      from {REALMS.strip()}
     where {IS_REALM};
    if found then
        {_SET_REALM}
        realm_joins := {COULD_JOIN.strip()};
    end if;

    may_know_of_failures := false;
    if %(service_slug)s is not null then
        {_NAMED.strip()}
          into {_DESTINATION_COLUMNS};
        may_know_of_failures := {may_know_of_failures(_FIND_ORGANIZATION, _FIND_SERVICE, "users.id")};
    elsif %(application_service)s is not null then
        may_know_of_failures := {_is_known("users.id")};
    end if;
    return next;
""",
)

# The statements by whether the request shows a device token, and where the sign-in leads to.
_FIND: Final[Mapping[tuple[bool, "_Place"], LiteralString]] = {
    (with_token, place): FIND_ATTEMPT.call(
        "*",
        without={
            *(() if with_token else _OF_TOKEN),
            *(() if place is _Place.SERVICE else _OF_SERVICE),
            *(() if place is _Place.APPLICATION else _OF_APPLICATION),
        },
    )
    for with_token in (False, True)
    for place in _Place
}

_FIND_DESTINATION: Final = _NAMED


_OFFERS_PASSKEY: Final[LiteralString] = """users.passkey_offers_ended_at is null
            and (users.passkey_offered_at is null or users.passkey_offered_at <= now() - %(offered_again_after)s)
            and may_be_offered_passkey(users.id)"""

# The parameters of `confirm`, and their types.
_LOOKED_BY: Final[Mapping[LiteralString, LiteralString]] = {
    **dict.fromkeys(("user", "identity", "on_device", "service", "flow", "organization"), "uuid"),
    **dict.fromkeys(("encoded", "email_key", "mail_domain"), "text"),
    "since": "timestamptz",
    "offered_again_after": "interval",
}
_SET_CONFIRMED: Final[LiteralString] = "\n    ".join(f"{name} := users.{name};" for name in _ACCOUNT)
_SET_DESTINATION: Final[LiteralString] = "\n        ".join(f"{name} := services.{name};" for name in _DESTINATION)

# A password reset or a deactivation ends all sessions. The lock on the account makes either of them wait until the new session exists, so
# that the new session ends, too. While the person gave the proof, they may have enabled a second factor, or the trust of the device may
# have ended. Every transaction locks the account before its flows and devices, and these before the service, so that no two deadlock. The
# lock on the service is the one that a foreign key takes: other transactions can add sessions and users of the service meanwhile. Sign-ins
# of one person come one after the other from here on: they write the same rows, the try that is given back and the place in a service, and
# in which order depends on what is sent together.
#
# What the sign-in rests on is read after the last of these waits, or is in a row that is locked by then.
LAST_LOOK: Final = Function(
    "last_look_15",
    "Locks what a sign-in rests on, and finds whether it still holds.",
    _LOOKED_BY,
    {
        **_ACCOUNT,
        "is_connected": "boolean",
        "flow_is_open": "boolean",
        "one_factor_is_enough": "boolean",
        "is_listed": "boolean",
        "owes_answers": "boolean",
        "offers_passkey": "boolean",
        "belongs_to_several": "boolean",
        **_DESTINATION,
        "is_admitted": "boolean",
        "owes_second_factor": "boolean",
        "is_made_elsewhere": "boolean",
        "may_know_of_failures": "boolean",
        "subscription": "jsonb",
        "tells_more": "boolean",
        "rules_asked": "jsonb",
        "has_hooks": "boolean",
        "terms": "jsonb",
    },
    {"users": "record", "services": "record", "is_trusted": "boolean := false", "entered": "uuid"},
    f"""
    select {_OF_USERS}, users.email_key, users.origin_org_id, users.passkey_offered_at, users.passkey_offers_ended_at
      into users
      from users
     where users.id = %(user)s and users.deactivated_at is null
       and (%(encoded)s is null or users.password_hash = %(encoded)s)
       and (%(since)s is null or users.password_changed_at is null or users.password_changed_at <= %(since)s)
       for no key update;
    if not found then
        return;
    end if;
    {_SET_CONFIRMED}
    entered := %(organization)s;
    is_connected := true;
    if %(identity)s is not null then
        is_connected := {is_connected("users")};
    end if;
    flow_is_open := true;
    if %(flow)s is not null then
        perform from flows
          where flows.id = %(flow)s and flows.signed_in_at is null and flows.expires_at > now()
            for no key update;
        flow_is_open := found;
    end if;
    if %(on_device)s is not null and {has_second_factor("users.id")} then
        perform from devices
          where devices.id = %(on_device)s and devices.user_id = users.id and devices.revoked_at is null and devices.trusted_until > now()
            for no key update;
        is_trusted := found;
    end if;
    owes_answers := false;
    is_admitted := false;
    owes_second_factor := false;
    is_made_elsewhere := false;
    may_know_of_failures := false;
    tells_more := false;
    has_hooks := false;
    if %(service)s is not null then
        perform from services
           join organizations on organizations.id = services.org_id
          where services.id = %(service)s
            for key share;
        -- This lock gives rows as they were before the wait.
        select {DESTINATION.strip()}, services.org_id, services.id, services.sign_in_policy
          into services
          from services
          join organizations on organizations.id = services.org_id
         where services.id = %(service)s;
        if found then
            select {admits(IS_MEMBER_HERE, "users.id")}, {grace_is_over(second_factor_due_in("services.org_id", "users.id"))},
                   {may_know_of_failures("services.org_id", "services.id", "users.id")}, {SUBSCRIPTION_STATE},
                   {tells_more("services.id", "services.org_id", "users.id")}, {has_hooks("services.org_id")}
              into is_admitted, owes_second_factor,
                   may_know_of_failures, subscription,
                   tells_more, has_hooks;
            is_made_elsewhere := coalesce(users.origin_org_id <> services.org_id, false);
            entered := coalesce(entered, services.org_id);
            {_SET_DESTINATION}
        end if;
    end if;
    if %(identity)s is not null and is_connected then
        -- The provider is locked by now. Its domains and whether it is on are not.
        is_connected := {is_connected("users")};
    end if;
    if %(flow)s is not null then
        owes_answers := owes_answers(users.id, users.created_at, %(flow)s);
    end if;
    offers_passkey := false;
    if %(offered_again_after)s is not null then
        offers_passkey := {_OFFERS_PASSKEY};
    end if;
    select is_trusted or not {has_second_factor("users.id")}, {is_listed("users.id")},
           exists (
               select
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id
               offset 1
           ),
           risk_rules_asked(users.id, %(organization)s), terms_pending(users.id, entered)
      into one_factor_is_enough, is_listed,
           belongs_to_several,
           rules_asked, terms;
    return next;
""",
)

# The statements by whether a page can offer a passkey after the sign-in. Most cannot, and do not pay for it.
_LAST_LOOK: Final = {offers: LAST_LOOK.call("*", without=() if offers else ("offered_again_after",)) for offers in (False, True)}

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

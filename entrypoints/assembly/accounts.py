"""Assembles accounts and sign-in: breached passwords, identity providers, devices, authenticators, admission, and the CAPTCHA."""

from collections.abc import Mapping
from contextlib import ExitStack
from urllib.parse import urlsplit

import trio

from actors.recorders import ConnectionExchangeWriter
from adapters.crypto.common_passwords import ShippedCommonPasswords
from adapters.crypto.factors import Fido2Authenticators, HmacBackupCodes, PyotpTotp
from adapters.crypto.known_passwords.filters import FilterUnusable, NoBreachedPasswords, WatchedFilter, filter_head
from adapters.crypto.known_passwords.ranges import PasswordRanges
from adapters.crypto.signed_by_others import JwtBindingProofs
from adapters.mail_domains import ListedThrowawayDomains, ListUnusable
from adapters.outbound.hook_places import FairHookPlaces
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.identity.accounts import PostgresAccountSummaries
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.identity.proofs.account_passwords import PostgresForeignHashes, PostgresPasswordStandings, PostgresPuzzles
from adapters.postgres.identity.proofs.sign_in import PostgresAttempts, PostgresDestinations, PostgresProofs
from adapters.postgres.identity.realms import PostgresRealmProviders, PostgresRealms
from adapters.postgres.identity.registering import PostgresRegistrationRules
from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.identity.sessions.sessions import PostgresOwnSessions
from adapters.postgres.identity.upstream.connections import PostgresConnections, PostgresPostedAnswers
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.statements import Statements
from adapters.system import is_time_zone
from adapters.user_agents import LibraryUserAgents
from adapters.widgets import VerifyingMaker, widget_presets
from core.domain.branding import POSTERN
from core.domain.identity.guards.bound_sessions import BindingRule
from core.domain.identity.guards.puzzles import MakerSeen
from core.domain.identity.guards.traffic import BusyPlaces
from core.domain.identity.passkeys import relying_party
from core.domain.identity.passwords import AtSignIn
from core.domain.identity.registering import BudgetSizes, RegistrationPolicy, RegistrationRule
from core.domain.identity.sign_in import FamiliarAddresses
from core.domain.outbound import NotADestination
from core.frozen import Frozen
from core.usecases.identity.account_endings import AccountLocks
from core.usecases.identity.devices import Devices
from core.usecases.identity.guards.guesses import Guesses
from core.usecases.identity.guards.puzzles import Widgets
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.registering import Registrations
from core.usecases.identity.sign_in.proofs.password import BreachesAtSignIn, KnownPasswords, PasswordProofs
from core.usecases.identity.upstream.further_sign_ins import NewcomerWords
from core.usecases.identity.upstream.identities import LinkedIdentities
from core.usecases.identity.upstream.journeys import Journeys
from core.usecases.identity.upstream.provider_tokens import IdentityGrants
from core.usecases.identity.upstream.providers import FurtherOffers, ProviderLooks, ProviderOutages, UpstreamProviders
from core.usecases.tenancy.hook_asking import HookBreakers
from core.usecases.tenancy.profile_fields import ProfileValues, ProviderValues
from entrypoints.assembly.by_name import MemberName, PartsByName
from entrypoints.assembly.configured import installed_providers, listed_proxies, location_database, widget_keys, with_client
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings, SettingsError
from ports.crypto import BreachedPasswords, PasswordHasher
from ports.identity.sign_in import WidgetMaker


class KnownPasswordsRoom(Frozen):
    passwords: KnownPasswords
    filter: WatchedFilter | None
    """An actor opens it, so that no start waits until it is read."""


def assemble_known_passwords(settings: Settings, foundation: Foundation) -> KnownPasswordsRoom:
    """Raises `SettingsError`."""
    watched = None
    breached: BreachedPasswords = NoBreachedPasswords()
    if settings.password_filter is not None and settings.password_ranges is not None:
        raise SettingsError("POSTERN_PASSWORD_FILTER and POSTERN_PASSWORD_RANGES exclude each other: name the file or the service")
    if settings.password_filter is not None:
        try:
            filter_head(settings.password_filter)
        except FilterUnusable as error:
            raise SettingsError(f"POSTERN_PASSWORD_FILTER: the file {settings.password_filter} {error}") from None
        breached = watched = WatchedFilter(settings.password_filter)
    if settings.password_ranges is not None:
        try:
            breached = PasswordRanges(foundation.outbound, settings.password_ranges)
        except NotADestination as error:
            raise SettingsError(f"POSTERN_PASSWORD_RANGES {error}") from None
    return KnownPasswordsRoom(KnownPasswords(ShippedCommonPasswords(), breached), watched)


class UpstreamParts(Frozen, kw_only=True):
    providers: UpstreamProviders
    realms: HomeRealms
    lookup: PostgresUpstreamSignIn
    connection_lookup: PostgresConnections
    connection_recorder: ConnectionExchangeWriter
    journeys: Journeys
    linked: LinkedIdentities
    grants: IdentityGrants
    words: NewcomerWords


def assemble_upstream(settings: Settings, foundation: Foundation) -> UpstreamParts:
    """Raises `SettingsError`."""
    pool, clock, system = foundation.pool, foundation.clock, foundation.system
    installed = installed_providers(settings)
    outages = ProviderOutages(foundation.unit_of_work, foundation.metrics, clock)
    further = FurtherOffers(foundation.stores.further_providers, trio.current_time)
    providers = UpstreamProviders(installed, foundation.keyring, further)
    lookup, connections = PostgresUpstreamSignIn(pool), PostgresConnections(pool)
    recorder = ConnectionExchangeWriter(connections, foundation.metrics, spread=foundation.secrets.spread)
    return UpstreamParts(
        providers=providers,
        realms=HomeRealms(
            PostgresRealms(pool),
            PostgresRealmProviders(pool, clock, configured=with_client(installed)),
            ProviderLooks(outages, foundation.upstreams, {one.value: known.endpoints for one, known in installed.items()}),
        ),
        lookup=lookup,
        connection_lookup=connections,
        connection_recorder=recorder,
        journeys=Journeys(
            lookup,
            foundation.upstreams,
            providers=providers,
            outages=outages,
            server_secrets=foundation.server_secrets,
            recorder=recorder,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
        linked=LinkedIdentities(templates=foundation.mail_templates, system=system),
        grants=IdentityGrants(foundation.stores.identity_grants, foundation.keyring, clock),
        words=NewcomerWords(foundation.unit_of_work, foundation.keyring, system),
    )


def own_of_upstream(foundation: Foundation, upstream: UpstreamParts) -> Mapping[str, PartsByName]:
    """What the use cases of upstream providers take, each by its name in `Identity`."""
    lookup = upstream.lookup
    return {
        "upstream_proofs": {"lookup": lookup, "email_syntax": foundation.email_syntax, "newcomers": upstream.words},
        "newcomers": {"lookup": lookup, "words": upstream.words},
        "posted_answers": {"store": PostgresPostedAnswers(foundation.pool)},
        "identities": {"upstream": lookup},
        "link_requests": {"lookup": lookup},
        "repeated_returns": {"lookup": lookup, "pause": trio.sleep},
        "provider_tokens": {"lookup": foundation.stores.identity_grants, "pause": trio.sleep},
    }


class SignInTraces(Frozen, kw_only=True):
    """Where a sign-in leaves a trace."""

    agents: LibraryUserAgents
    devices: Devices
    login_events: LoginEvents


def open_traces(settings: Settings, foundation: Foundation, closing: ExitStack) -> SignInTraces:
    """Raises `SettingsError` or `StartFailed`."""
    agents = LibraryUserAgents()
    devices = Devices(
        unit_of_work=foundation.unit_of_work,
        lookup=foundation.stores.devices,
        agents=agents,
        locations=location_database(settings, closing),
        proxies=listed_proxies(settings),
        system=foundation.system,
    )
    login_events = LoginEvents(
        foundation.unit_of_work,
        foundation.stores.login_events,
        devices=devices,
        templates=foundation.mail_templates,
        metrics=foundation.metrics,
        system=foundation.system,
    )
    return SignInTraces(agents=agents, devices=devices, login_events=login_events)


def own_of_sign_ins(
    settings: Settings,
    foundation: Foundation,
    passwords: PasswordHasher,
    known: KnownPasswordsRoom,
    *,
    traces: SignInTraces,
    upstream: UpstreamParts,
    guesses: Guesses,
) -> Mapping[str, PartsByName]:
    """What the use cases of signing in take, each by its name in `Identity`."""
    new_unit_of_work, pool, stores, clock = foundation.unit_of_work, foundation.pool, foundation.stores, foundation.clock
    familiar, authenticators, passkeys = FamiliarAddresses(), Fido2Authenticators(), MemberName("passkey_proofs")
    password_proofs = PasswordProofs(
        new_unit_of_work,
        PostgresAttempts(pool),
        passwords,
        devices=traces.devices,
        login_events=traces.login_events,
        realms=upstream.realms,
        familiar=familiar,
        breaches=BreachesAtSignIn(
            unit_of_work=new_unit_of_work,
            known=known.passwords,
            templates=foundation.mail_templates,
            buckets=foundation.shared_buckets,
            clock=clock,
            rule=AtSignIn(settings.breached_at_sign_in),
        ),
        guesses=guesses,
        clock=clock,
        throttles=settings.rate_limits,
    )
    proofs = {"passwords": password_proofs, "passkeys": passkeys}
    return {
        "address_proofs": {"proofs": password_proofs, "vouched_accounts": stores.vouched_accounts},
        "passkeys": {
            "relying_party": relying_party(settings.public_url, settings.passkey_id, settings.passkey_origins),
            "authenticators": authenticators,
            "agents": traces.agents,
        },
        "passkey_proofs": {
            "lookup": stores.passkeys,
            "authenticators": authenticators,
            "destinations": PostgresDestinations(pool),
        },
        "reauthentication": {**proofs, "lookup": PostgresProofs(pool), "window": settings.reauthentication_window},
        "sign_in_links": {"attempts": PostgresAttempts(pool)},
        "admission": {
            "passkeys": passkeys,
            "provided": ProviderValues(new_unit_of_work, ProfileValues(new_unit_of_work, stores.profile_values, clock)),
            "familiar": familiar,
        },
        "sign_in": proofs,
        "browser_sessions": {**proofs, "links": MemberName("sign_in_links")},
    }


def own_of_guards(settings: Settings, foundation: Foundation) -> Mapping[str, PartsByName]:
    """What stands between an attempt and a sign-in, each by its name in `Identity`."""
    pool, clock = foundation.pool, foundation.clock
    return {
        "mfa": {
            "lookup": MfaRows(Statements(pool), foundation.ids, clock),
            "totp": PyotpTotp(POSTERN.name),
            "backup_codes": HmacBackupCodes(foundation.server_secrets),
            "throttles": settings.rate_limits,
        },
        "puzzles": {
            "store": PostgresPuzzles(pool),
            "places": BusyPlaces(),
            "is_on": settings.puzzles and settings.rate_limits,
        },
        "bound_sessions": {
            "lookup": foundation.stores.bound_keys,
            "proofs": JwtBindingProofs(),
            "rule": BindingRule(settings.bound_sessions),
        },
        "hook_asking": {
            "lookup": foundation.stores.hooks,
            "facts": PostgresFacts(pool),
            "breakers": HookBreakers(clock),
            "places": FairHookPlaces(),
            "waits": foundation.hook_waits,
        },
    }


def account_locks(foundation: Foundation) -> AccountLocks:
    return AccountLocks(foundation.unit_of_work, foundation.lock_links, foundation.mail_templates, foundation.links, foundation.system)


def own_of_accounts(settings: Settings, foundation: Foundation) -> Mapping[str, PartsByName]:
    """What the use cases of accounts take, each by its name in `Identity`."""
    pool = foundation.pool
    return {
        "accounts": {
            "destinations": PostgresDestinations(pool),
            "immediate_email_changes": settings.email_change == "immediate",
        },
        "account_passwords": {"standings": PostgresPasswordStandings(pool)},
        "mail_budgets": {"store": foundation.stores.mail_budgets, "sizes": _sizes(settings)},
        "foreign_hashes": {"store": PostgresForeignHashes(pool)},
        "unverified_accounts": {"retention": settings.unverified_account_retention},
        "account_summaries": {"lookup": PostgresAccountSummaries(pool)},
        "profiles": {"is_zone": is_time_zone},
        "own_sessions": {"lookup": PostgresOwnSessions(pool)},
        "sessions": {
            "refresh_tokens": PostgresRefreshTokens(pool),
            "facts": PostgresFacts(pool),
            "lifetime": settings.session_lifetime,
            "idle": settings.session_idle,
            "most": settings.most_sessions,
        },
    }


def assemble_registrations(settings: Settings, foundation: Foundation) -> Registrations:
    """Raises `SettingsError`."""
    rule = RegistrationRule(policy=RegistrationPolicy(settings.registration), domains=settings.registration_domains)
    if rule.policy is RegistrationPolicy.DOMAINS and not rule.domains:
        raise SettingsError("POSTERN_REGISTRATION_DOMAINS must name a domain when POSTERN_REGISTRATION is domains")
    file = settings.throwaway_domains
    try:
        throwaway = ListedThrowawayDomains() if file is None else ListedThrowawayDomains(file)
    except ListUnusable as error:
        raise SettingsError(f"POSTERN_THROWAWAY_DOMAINS: the file {file} {error}") from None
    return Registrations(rule, throwaway, PostgresRegistrationRules(foundation.pool))


def _sizes(settings: Settings) -> BudgetSizes:
    """Without rate limits there are no budgets either: both are off for measurements."""
    if not settings.rate_limits:
        return BudgetSizes(0, 0, 0, 0)
    return BudgetSizes(
        settings.mails_per_network, settings.mails_per_domain, settings.mails_per_organization, settings.mails_per_installation
    )


def assemble_widgets(settings: Settings, foundation: Foundation) -> Widgets:
    """Raises `SettingsError`."""
    return Widgets(
        PostgresPuzzles(foundation.pool),
        foundation.keyring,
        _maker(settings, foundation),
        MakerSeen(),
        urlsplit(settings.public_url).hostname or "",
        foundation.metrics,
        foundation.ids,
        foundation.clock,
    )


def _maker(settings: Settings, foundation: Foundation) -> WidgetMaker | None:
    keys = widget_keys(settings)
    return None if keys is None else VerifyingMaker(foundation.outbound, widget_presets()[settings.widget], *keys)

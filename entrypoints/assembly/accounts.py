"""Accounts and how people sign in to them: known passwords, upstream providers, devices, proofs, admission, and the widget."""

from contextlib import ExitStack
from urllib.parse import urlsplit

import trio

from actors.hooks_beside import HookBesideAsker
from actors.recorders import ConnectionExchangeWriter
from adapters.crypto.common_passwords import ShippedCommonPasswords
from adapters.crypto.factors import Fido2Authenticators, HmacBackupCodes, PyotpTotp
from adapters.crypto.known_passwords.filters import FilterUnusable, NoBreachedPasswords, WatchedFilter, filter_head
from adapters.crypto.known_passwords.ranges import PasswordRanges
from adapters.mail_domains import ListedThrowawayDomains, ListUnusable
from adapters.outbound.hook_places import FairHookPlaces
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.identity.proofs.account_passwords import PostgresPasswordStandings, PostgresPuzzles
from adapters.postgres.identity.proofs.sign_in import PostgresAttempts, PostgresDestinations, PostgresProofs
from adapters.postgres.identity.realms import PostgresRealmProviders, PostgresRealms
from adapters.postgres.identity.registering import PostgresRegistrationRules
from adapters.postgres.identity.upstream.connections import PostgresConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.statements import Statements
from adapters.user_agents import LibraryUserAgents
from adapters.widgets import VerifyingMaker, widget_presets
from core.domain.branding import POSTERN
from core.domain.identity.guards.puzzles import MakerSeen
from core.domain.identity.passkeys import relying_party
from core.domain.identity.passwords import AtSignIn
from core.domain.identity.registering import BudgetSizes, RegistrationPolicy, RegistrationRule
from core.domain.identity.sign_in import FamiliarAddresses
from core.domain.outbound import NotADestination
from core.frozen import Frozen
from core.usecases.identity.account_endings import AccountLocks
from core.usecases.identity.account_mails import AccountMails, MailedCodes
from core.usecases.identity.account_passwords import AccountPasswords, PasswordRules
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.address_proofs import AddressProofs
from core.usecases.identity.devices import Devices
from core.usecases.identity.guards.guesses import Guesses, NoticedOrigins
from core.usecases.identity.guards.puzzles import Widgets
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.reauthentication import MailedProofs, Reauthentication
from core.usecases.identity.registering import MailBudgets, Registrations
from core.usecases.identity.risk import InstallationWayBack
from core.usecases.identity.sign_in.admission import Admission
from core.usecases.identity.sign_in.proofs.mailed import SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import BreachesAtSignIn, KnownPasswords, PasswordProofs
from core.usecases.identity.upstream.further_sign_ins import NewcomerWords
from core.usecases.identity.upstream.identities import LinkedIdentities
from core.usecases.identity.upstream.journeys import Journeys
from core.usecases.identity.upstream.provider_tokens import IdentityGrants
from core.usecases.identity.upstream.providers import FurtherOffers, ProviderLooks, ProviderOutages, UpstreamProviders
from core.usecases.tenancy.hook_asking import HookAsking, HookBreakers
from core.usecases.tenancy.join_requests import JoinByDomain
from core.usecases.tenancy.profile_fields import ProfileValues, ProviderValues
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
    connections: PostgresConnections
    recorder: ConnectionExchangeWriter
    journeys: Journeys
    linked: LinkedIdentities
    grants: IdentityGrants
    newcomers: NewcomerWords


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
        connections=connections,
        recorder=recorder,
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
        newcomers=NewcomerWords(foundation.unit_of_work, foundation.keyring, system),
    )


class SignInTraces(Frozen, kw_only=True):
    """Where a sign-in leaves a trace."""

    agents: LibraryUserAgents
    devices: Devices
    login_events: LoginEvents


class SignIns(Frozen, kw_only=True):
    mfa: Mfa
    guesses: Guesses
    password_proofs: PasswordProofs
    passkeys: Passkeys
    passkey_proofs: PasskeyProofs
    mailed_codes: MailedCodes
    links: SignInLinks
    joining: JoinByDomain
    admission: Admission
    hook_asking: HookAsking
    hooks_beside: HookBesideAsker
    reauthentication: Reauthentication
    mailed_proofs: MailedProofs


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


def assemble_sign_ins(
    settings: Settings,
    foundation: Foundation,
    passwords: PasswordHasher,
    known: KnownPasswordsRoom,
    *,
    traces: SignInTraces,
    upstream: UpstreamParts,
) -> SignIns:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock = foundation.system, foundation.clock
    mfa = Mfa(
        new_unit_of_work,
        lookup=MfaRows(Statements(pool), foundation.ids, clock),
        totp=PyotpTotp(POSTERN.name),
        backup_codes=HmacBackupCodes(foundation.server_secrets),
        keyring=foundation.keyring,
        templates=foundation.mail_templates,
        clock=clock,
        throttles=settings.rate_limits,
    )
    familiar = FamiliarAddresses()
    way_back = InstallationWayBack(
        new_unit_of_work, foundation.keyring, foundation.shared_buckets, foundation.mail_templates, foundation.links, system
    )
    guesses = Guesses(
        foundation.keyring,
        NoticedOrigins(),
        foundation.metrics,
        trio.sleep,
        clock,
        slows=settings.rate_limits,
    )
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
    authenticators = Fido2Authenticators()
    passkeys = Passkeys(
        new_unit_of_work,
        stores.passkeys,
        relying_party=relying_party(settings.public_url),
        authenticators=authenticators,
        mfa=mfa,
        providers=upstream.providers,
        agents=traces.agents,
        templates=foundation.mail_templates,
        metrics=foundation.metrics,
        system=system,
    )
    passkey_proofs = PasskeyProofs(
        new_unit_of_work,
        stores.passkeys,
        passkeys=passkeys,
        authenticators=authenticators,
        destinations=PostgresDestinations(pool),
        devices=traces.devices,
        login_events=traces.login_events,
        realms=upstream.realms,
        templates=foundation.mail_templates,
        system=system,
    )
    joining = JoinByDomain(new_unit_of_work, templates=foundation.mail_templates, metrics=foundation.metrics, system=system)
    mailed_codes = MailedCodes(new_unit_of_work, foundation.shared_buckets, foundation.server_secrets, clock)
    reauthentication = Reauthentication(
        new_unit_of_work,
        PostgresProofs(pool),
        passwords=password_proofs,
        passkeys=passkey_proofs,
        mfa=mfa,
        devices=traces.devices,
        login_events=traces.login_events,
        realms=upstream.realms,
        metrics=foundation.metrics,
        clock=clock,
        window=settings.reauthentication_window,
    )
    hooks_beside = HookBesideAsker(foundation.metrics)
    hook_asking = HookAsking(
        new_unit_of_work,
        stores.hooks,
        foundation.outbound,
        foundation.keyring,
        traces.devices,
        traces.login_events,
        PostgresFacts(pool),
        HookBreakers(clock),
        FairHookPlaces(),
        hooks_beside,
        foundation.hook_waits,
        foundation.metrics,
        system,
        settings.public_url,
    )
    return SignIns(
        mfa=mfa,
        guesses=guesses,
        password_proofs=password_proofs,
        passkeys=passkeys,
        passkey_proofs=passkey_proofs,
        mailed_codes=mailed_codes,
        links=SignInLinks(
            new_unit_of_work,
            PostgresAttempts(pool),
            devices=traces.devices,
            codes=mailed_codes,
            login_events=traces.login_events,
            links=foundation.links,
            system=system,
        ),
        joining=joining,
        admission=Admission(
            new_unit_of_work,
            devices=traces.devices,
            mfa=mfa,
            passkeys=passkey_proofs,
            login_events=traces.login_events,
            realms=upstream.realms,
            joining=joining,
            provided=ProviderValues(new_unit_of_work, ProfileValues(new_unit_of_work, stores.profile_values, clock)),
            familiar=familiar,
            way_back=way_back,
            hooks=hook_asking,
            system=system,
        ),
        hook_asking=hook_asking,
        hooks_beside=hooks_beside,
        reauthentication=reauthentication,
        mailed_proofs=MailedProofs(
            new_unit_of_work,
            reauthentication=reauthentication,
            templates=foundation.mail_templates,
            buckets=foundation.shared_buckets,
            server_secrets=foundation.server_secrets,
            devices=traces.devices,
            login_events=traces.login_events,
            metrics=foundation.metrics,
            system=system,
        ),
    )


class AccountRoom(Frozen, kw_only=True):
    accounts: Accounts
    address_proofs: AddressProofs
    passwords: AccountPasswords
    locks: AccountLocks
    mails: AccountMails
    budgets: MailBudgets
    registrations: Registrations


def account_locks(foundation: Foundation) -> AccountLocks:
    return AccountLocks(foundation.unit_of_work, foundation.lock_links, foundation.mail_templates, foundation.links, foundation.system)


def assemble_accounts(
    settings: Settings,
    foundation: Foundation,
    passwords: PasswordHasher,
    known: KnownPasswordsRoom,
    *,
    sign_ins: SignIns,
    upstream: UpstreamParts,
) -> AccountRoom:
    new_unit_of_work, buckets, templates = foundation.unit_of_work, foundation.shared_buckets, foundation.mail_templates
    system, clock, links, realms = foundation.system, foundation.clock, foundation.links, upstream.realms
    rules = PasswordRules(known.passwords.common, known.passwords.breached, settings.password_length)
    budgets = MailBudgets(
        unit_of_work=new_unit_of_work,
        store=foundation.stores.mail_budgets,
        buckets=buckets,
        sizes=_sizes(settings),
        metrics=foundation.metrics,
        clock=clock,
    )
    registrations = _registrations(settings, foundation)
    accounts = Accounts(
        unit_of_work=new_unit_of_work,
        rules=rules,
        passwords=passwords,
        destinations=PostgresDestinations(foundation.pool),
        templates=templates,
        links=links,
        buckets=buckets,
        metrics=foundation.metrics,
        system=system,
        budgets=budgets,
        registrations=registrations,
        immediate_email_changes=settings.email_change == "immediate",
    )
    return AccountRoom(
        accounts=accounts,
        address_proofs=AddressProofs(
            new_unit_of_work,
            accounts=accounts,
            codes=sign_ins.mailed_codes,
            proofs=sign_ins.password_proofs,
            rules=rules,
            passwords=passwords,
            vouched_accounts=foundation.stores.vouched_accounts,
            realms=realms,
            system=system,
        ),
        passwords=AccountPasswords(
            unit_of_work=new_unit_of_work,
            rules=rules,
            passwords=passwords,
            standings=PostgresPasswordStandings(foundation.pool),
            realms=realms,
            templates=templates,
            buckets=buckets,
            clock=clock,
        ),
        locks=account_locks(foundation),
        mails=AccountMails(
            unit_of_work=new_unit_of_work,
            brandings=foundation.brandings,
            templates=templates,
            links=links,
            realms=realms,
            buckets=buckets,
            system=system,
            server_secrets=foundation.server_secrets,
            budgets=budgets,
        ),
        budgets=budgets,
        registrations=registrations,
    )


def _registrations(settings: Settings, foundation: Foundation) -> Registrations:
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

"""Identity: people's accounts, sign-in, and the sessions and tokens of signed-in people."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import trio

from actors.hooks_beside import HookBesideAsker
from actors.recorders import ConnectionExchangeWriter, PresenceWriter
from adapters.crypto.known_passwords.filters import WatchedFilter
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.identity.accounts import PostgresAccountSummaries
from adapters.postgres.identity.proofs.account_passwords import PostgresForeignHashes, PostgresPuzzles
from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.identity.sessions.sessions import PostgresOwnSessions, PostgresPresence
from adapters.postgres.identity.upstream.connections import PostgresPostedAnswers
from adapters.system import is_time_zone
from core.domain.identifiers import SessionId
from core.domain.identity.guards.traffic import BusyPlaces
from core.frozen import Frozen
from core.usecases.identity.account_endings import AccountLocks, UnverifiedAccounts
from core.usecases.identity.account_mails import AccountMails, MailedCodes
from core.usecases.identity.account_passwords import AccountPasswords, ForeignHashes
from core.usecases.identity.accounts import Accounts, AccountSummaries
from core.usecases.identity.address_proofs import AddressProofs
from core.usecases.identity.devices import Devices
from core.usecases.identity.flows import Flows
from core.usecases.identity.guards.guesses import Guesses
from core.usecases.identity.guards.puzzles import Puzzles, Widgets
from core.usecases.identity.impersonation import Impersonations
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.privacy import Declining, Privacy
from core.usecases.identity.profiles import Pictures, Profiles
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.reauthentication import MailedProofs, Reauthentication
from core.usecases.identity.registering import MailBudgets, Registrations
from core.usecases.identity.risk import InstallationWayBack
from core.usecases.identity.sessions import DisplacedSessions, OwnSessions, Sessions
from core.usecases.identity.sign_in.admission import Admission
from core.usecases.identity.sign_in.landings import BrowserSessions, PasskeyOffers, SignIn
from core.usecases.identity.sign_in.proofs.mailed import NewcomerProofs, SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.upstream import UpstreamProofs
from core.usecases.identity.terms import TermsOfPeople
from core.usecases.identity.upstream.further_sign_ins import PostedAnswers
from core.usecases.identity.upstream.identities import Identities, LinkRequests
from core.usecases.identity.upstream.journeys import Journeys, RepeatedReturns
from core.usecases.identity.upstream.provider_tokens import ProviderTokens
from core.usecases.identity.upstream.providers import FurtherOffers
from core.usecases.tenancy.hook_asking import HookAsking
from core.usecases.tenancy.join_requests import JoinByDomain
from entrypoints.assembly.accounts import (
    SignInTraces,
    UpstreamParts,
    assemble_accounts,
    assemble_known_passwords,
    assemble_sign_ins,
    assemble_upstream,
    assemble_widgets,
    open_traces,
)
from entrypoints.assembly.configured import password_hasher
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings
from ports.crypto import PasswordHasher
from ports.identity.upstream import ConnectionLookup


class Identity(Frozen, kw_only=True):
    passwords: PasswordHasher
    foreign_hashes: ForeignHashes
    password_filter: WatchedFilter | None
    accounts: Accounts
    address_proofs: AddressProofs
    unverified_accounts: UnverifiedAccounts
    account_passwords: AccountPasswords
    account_locks: AccountLocks
    account_mails: AccountMails
    mail_budgets: MailBudgets
    registrations: Registrations
    terms: TermsOfPeople
    displaced_sessions: DisplacedSessions
    mailed_codes: MailedCodes
    mailed_proofs: MailedProofs
    account_summaries: AccountSummaries
    profiles: Profiles
    pictures: Pictures
    devices: Devices
    mfa: Mfa
    login_events: LoginEvents
    sessions: Sessions
    own_sessions: OwnSessions
    presence: PresenceWriter[SessionId]
    impersonations: Impersonations
    realms: HomeRealms
    joining: JoinByDomain
    admission: Admission
    hook_asking: HookAsking
    hooks_beside: HookBesideAsker
    installation_way_back: InstallationWayBack
    sign_in: SignIn
    flows: Flows
    puzzles: Puzzles
    guesses: Guesses
    widgets: Widgets
    browser_sessions: BrowserSessions
    sign_in_links: SignInLinks
    passkeys: Passkeys
    passkey_proofs: PasskeyProofs
    passkey_offers: PasskeyOffers
    reauthentication: Reauthentication
    privacy: Privacy
    journeys: Journeys
    connection_lookup: ConnectionLookup
    connection_recorder: ConnectionExchangeWriter
    upstream_proofs: UpstreamProofs
    newcomers: NewcomerProofs
    posted_answers: PostedAnswers
    further_offers: FurtherOffers
    identities: Identities
    link_requests: LinkRequests
    repeated_returns: RepeatedReturns
    provider_tokens: ProviderTokens


@contextmanager
def open_identity(settings: Settings, foundation: Foundation, decline: Declining) -> Iterator[Identity]:
    """Raises `SettingsError` or `StartFailed`."""
    with ExitStack() as closing:
        passwords = password_hasher(settings, foundation.metrics)
        closing.callback(passwords.close)
        traces = open_traces(settings, foundation, closing)
        yield _assembled(settings, foundation, decline, passwords, traces)


def _assembled(settings: Settings, foundation: Foundation, decline: Declining, passwords: PasswordHasher, traces: SignInTraces) -> Identity:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock, spread = foundation.system, foundation.clock, foundation.secrets.spread
    devices, login_events = traces.devices, traces.login_events
    upstream = assemble_upstream(settings, foundation)
    known = assemble_known_passwords(settings, foundation)
    sign_ins = assemble_sign_ins(settings, foundation, passwords, known, traces=traces, upstream=upstream)
    room = assemble_accounts(settings, foundation, passwords, known, sign_ins=sign_ins, upstream=upstream)
    sessions = _sessions(settings, foundation)
    flows = Flows(new_unit_of_work, stores.flows, system)
    profiles = Profiles(new_unit_of_work, foundation.shared_buckets, foundation.server_secrets, clock, is_time_zone)
    upstream_proofs = UpstreamProofs(
        new_unit_of_work,
        upstream.lookup,
        linked=upstream.linked,
        profiles=profiles,
        grants=upstream.grants,
        realms=upstream.realms,
        devices=devices,
        login_events=login_events,
        email_syntax=foundation.email_syntax,
        registrations=room.registrations,
        newcomers=upstream.newcomers,
        metrics=foundation.metrics,
        system=system,
    )
    return Identity(
        passwords=passwords,
        foreign_hashes=ForeignHashes(PostgresForeignHashes(pool), passwords, foundation.metrics),
        password_filter=known.filter,
        accounts=room.accounts,
        address_proofs=room.address_proofs,
        unverified_accounts=UnverifiedAccounts(new_unit_of_work, system, settings.unverified_account_retention),
        account_passwords=room.passwords,
        account_locks=room.locks,
        account_mails=room.mails,
        mail_budgets=room.budgets,
        registrations=room.registrations,
        terms=TermsOfPeople(new_unit_of_work, stores.terms, foundation.metrics, clock),
        displaced_sessions=DisplacedSessions(new_unit_of_work, foundation.mail_templates, foundation.shared_buckets),
        mailed_codes=sign_ins.mailed_codes,
        mailed_proofs=sign_ins.mailed_proofs,
        account_summaries=AccountSummaries(PostgresAccountSummaries(pool), clock),
        profiles=profiles,
        pictures=Pictures(new_unit_of_work, stores.pictures, system),
        devices=devices,
        mfa=sign_ins.mfa,
        login_events=login_events,
        sessions=sessions,
        own_sessions=OwnSessions(new_unit_of_work, PostgresOwnSessions(pool), clock),
        presence=PresenceWriter(PostgresPresence(pool), foundation.metrics, spread=spread),
        impersonations=Impersonations(new_unit_of_work, sessions, foundation.ids),
        privacy=Privacy(new_unit_of_work, stores.privacy, decline, most_logins=settings.export_login_events, system=system),
        realms=upstream.realms,
        joining=sign_ins.joining,
        admission=sign_ins.admission,
        hook_asking=sign_ins.hook_asking,
        hooks_beside=sign_ins.hooks_beside,
        installation_way_back=sign_ins.admission.way_back,
        sign_in=SignIn(
            passwords=sign_ins.password_proofs,
            passkeys=sign_ins.passkey_proofs,
            devices=devices,
            admission=sign_ins.admission,
            sessions=sessions,
            signer=foundation.token_signer,
            verifier=foundation.token_verifier,
            issuer=settings.public_url,
        ),
        flows=flows,
        puzzles=_puzzles(settings, foundation),
        guesses=sign_ins.guesses,
        widgets=assemble_widgets(settings, foundation),
        sign_in_links=sign_ins.links,
        passkeys=sign_ins.passkeys,
        passkey_proofs=sign_ins.passkey_proofs,
        browser_sessions=BrowserSessions(
            passwords=sign_ins.password_proofs,
            devices=devices,
            admission=sign_ins.admission,
            sessions=sessions,
            flows=flows,
            links=sign_ins.links,
            passkeys=sign_ins.passkey_proofs,
            server_secrets=foundation.server_secrets,
            clock=clock,
        ),
        journeys=upstream.journeys,
        connection_lookup=upstream.connections,
        connection_recorder=upstream.recorder,
        upstream_proofs=upstream_proofs,
        newcomers=NewcomerProofs(
            new_unit_of_work,
            upstream.lookup,
            upstream.newcomers,
            upstream.providers,
            upstream_proofs,
            room.registrations,
            room.budgets,
            foundation.shared_buckets,
            foundation.mail_templates,
            foundation.server_secrets,
            system,
        ),
        posted_answers=PostedAnswers(PostgresPostedAnswers(foundation.pool), foundation.keyring, system, settings.public_url),
        further_offers=upstream.providers.further,
        identities=Identities(
            new_unit_of_work,
            stores.identities,
            upstream.lookup,
            linked=upstream.linked,
            providers=upstream.providers,
            grants=upstream.grants,
            devices=devices,
            clock=clock,
        ),
        link_requests=LinkRequests(upstream.lookup, journeys=upstream.journeys, server_secrets=foundation.server_secrets, clock=clock),
        repeated_returns=RepeatedReturns(upstream.lookup, trio.sleep),
        provider_tokens=_provider_tokens(foundation, upstream),
        reauthentication=sign_ins.reauthentication,
        passkey_offers=PasskeyOffers(new_unit_of_work, sign_ins.reauthentication, clock),
    )


def _sessions(settings: Settings, foundation: Foundation) -> Sessions:
    return Sessions(
        foundation.unit_of_work,
        PostgresRefreshTokens(foundation.pool),
        PostgresFacts(foundation.pool),
        foundation.token_signer,
        foundation.server_secrets,
        foundation.metrics,
        issuer=settings.public_url,
        access_lifetime=settings.access_token_lifetime,
        lifetime=settings.session_lifetime,
        system=foundation.system,
        idle=settings.session_idle,
        most=settings.most_sessions,
    )


def _puzzles(settings: Settings, foundation: Foundation) -> Puzzles:
    return Puzzles(
        PostgresPuzzles(foundation.pool),
        foundation.keyring,
        BusyPlaces(),
        foundation.metrics,
        foundation.ids,
        foundation.clock,
        is_on=settings.puzzles and settings.rate_limits,
    )


def _provider_tokens(foundation: Foundation, upstream: UpstreamParts) -> ProviderTokens:
    return ProviderTokens(
        foundation.unit_of_work,
        foundation.stores.identity_grants,
        foundation.upstreams,
        providers=upstream.providers,
        grants=upstream.grants,
        keyring=foundation.keyring,
        metrics=foundation.metrics,
        clock=foundation.clock,
        pause=trio.sleep,
    )

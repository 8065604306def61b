"""Identity: people's accounts, sign-in, and the sessions and tokens of signed-in people."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import trio

from actors.hooks_beside import HookBesideAsker
from actors.recorders import ConnectionExchangeWriter, PresenceWriter
from adapters.crypto.known_passwords.filters import WatchedFilter
from adapters.postgres.identity.sessions.sessions import PostgresPresence
from core.domain.identifiers import SessionId
from core.frozen import Frozen
from core.usecases.identity.account_endings import AccountLocks, UnverifiedAccounts
from core.usecases.identity.account_mails import AccountMails, MailedCodes
from core.usecases.identity.account_passwords import AccountPasswords, ForeignHashes, PasswordRules
from core.usecases.identity.accounts import Accounts, AccountSummaries
from core.usecases.identity.address_proofs import AddressProofs
from core.usecases.identity.devices import Devices
from core.usecases.identity.flows import Flows
from core.usecases.identity.guards.guesses import Guesses, NoticedOrigins
from core.usecases.identity.guards.puzzles import Puzzles, Widgets
from core.usecases.identity.impersonation import Impersonations
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.privacy import Declining, Privacy
from core.usecases.identity.profiles import Pictures, Profiles
from core.usecases.identity.reauthentication import MailedProofs, Reauthentication
from core.usecases.identity.registering import MailBudgets, Registrations
from core.usecases.identity.risk import InstallationWayBack
from core.usecases.identity.sessions import DisplacedSessions, OwnSessions, Sessions
from core.usecases.identity.sign_in.admission import Admission
from core.usecases.identity.sign_in.proofs.mailed import NewcomerProofs, SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.upstream import UpstreamProofs
from core.usecases.identity.sign_in.sign_in_results import BrowserSessions, PasskeyOffers, SignIn
from core.usecases.identity.sign_in_domains import SignInDomains
from core.usecases.identity.terms import TermsOfPeople
from core.usecases.identity.upstream.further_sign_ins import PostedAnswers
from core.usecases.identity.upstream.identities import Identities, LinkRequests
from core.usecases.identity.upstream.idp_logins import IdpLogins, RepeatedReturns
from core.usecases.identity.upstream.provider_tokens import ProviderTokens
from core.usecases.identity.upstream.providers import FurtherOffers
from core.usecases.tenancy.hook_asking import HookAsking
from core.usecases.tenancy.join_requests import JoinByDomain
from entrypoints.assembly.accounts import (
    SignInTraces,
    account_locks,
    assemble_known_passwords,
    assemble_registrations,
    assemble_upstream,
    assemble_widgets,
    open_traces,
    own_of_accounts,
    own_of_guards,
    own_of_sign_ins,
    own_of_upstream,
)
from entrypoints.assembly.by_name import PartsByName, assembled, members_of
from entrypoints.assembly.configured import password_hasher
from entrypoints.assembly.foundation import Foundation, shared_parts
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
    sign_in_domains: SignInDomains
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
    idp_logins: IdpLogins
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


# Use cases that others take by a shorter name.
_ALSO_CALLED: Final = {
    "beside": "hooks_beside",
    "budgets": "mail_budgets",
    "codes": "mailed_codes",
    "hooks": "hook_asking",
    "proofs": "upstream_proofs",
    "way_back": "installation_way_back",
}


def _assembled(settings: Settings, foundation: Foundation, decline: Declining, passwords: PasswordHasher, traces: SignInTraces) -> Identity:
    """`own` is the table of what one use case takes; what it does not say is in `shared`, a store, or another member."""
    upstream, known = assemble_upstream(settings, foundation), assemble_known_passwords(settings, foundation)
    guesses = Guesses(foundation.keyring, NoticedOrigins(), foundation.metrics, trio.sleep, foundation.clock, slows=settings.rate_limits)
    shared: PartsByName = {
        **shared_parts(settings, foundation),
        "grants": upstream.grants,
        "linked": upstream.linked,
        "providers": upstream.providers,
        "rules": PasswordRules(known.passwords.common, known.passwords.breached, settings.password_length),
    }
    made: Mapping[str, object] = {
        **members_of(Identity, traces),
        **members_of(Identity, upstream),
        "passwords": passwords,
        "password_filter": known.filter,
        "account_locks": account_locks(foundation),
        "registrations": assemble_registrations(settings, foundation),
        "presence": PresenceWriter(PostgresPresence(foundation.pool), foundation.metrics, spread=foundation.secrets.spread),
        "hooks_beside": HookBesideAsker(foundation.metrics),
        "guesses": guesses,
        "widgets": assemble_widgets(settings, foundation),
        "further_offers": upstream.providers.further,
    }
    own: Mapping[str, PartsByName] = {
        **own_of_accounts(settings, foundation),
        **own_of_guards(settings, foundation),
        **own_of_sign_ins(settings, foundation, passwords, known, traces=traces, upstream=upstream, guesses=guesses),
        **own_of_upstream(foundation, upstream),
        "privacy": {"decline": decline, "most_logins": settings.export_login_events},
    }
    return assembled(Identity, foundation.stores, shared, own, made=made, also_called=_ALSO_CALLED)

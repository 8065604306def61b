"""Identity: people's accounts, sign-in, and the sessions and tokens of signed-in people."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import trio

from actors.presence import PresenceWriter
from actors.recorders.connection_recorder import ConnectionExchangeWriter
from adapters.crypto.authenticators import Fido2Authenticators
from adapters.crypto.backup_codes import HmacBackupCodes
from adapters.crypto.common_passwords import ShippedCommonPasswords
from adapters.crypto.totp import PyotpTotp
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.identity.account_summaries import PostgresAccountSummaries
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.identity.proofs.foreign_hashes import PostgresForeignHashes
from adapters.postgres.identity.proofs.proofs import PostgresProofs
from adapters.postgres.identity.proofs.sign_in import PostgresAttempts, PostgresDestinations
from adapters.postgres.identity.realms.domains import PostgresRealms
from adapters.postgres.identity.realms.providers import PostgresRealmProviders
from adapters.postgres.identity.sessions.own_sessions import PostgresOwnSessions
from adapters.postgres.identity.sessions.presence import PostgresPresence
from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.identity.upstream.connections import PostgresConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.statements import Statements
from adapters.time_zones import is_time_zone
from adapters.user_agents import LibraryUserAgents
from core.domain.branding import POSTERN
from core.domain.identifiers import SessionId
from core.domain.identity.passkeys import relying_party
from core.domain.identity.priority import FamiliarAddresses
from core.frozen import Frozen
from core.usecases.identity.account_mails import AccountMails
from core.usecases.identity.account_passwords import AccountPasswords, PasswordRules
from core.usecases.identity.account_summaries import AccountSummaries
from core.usecases.identity.accounts import Accounts
from core.usecases.identity.address_proofs import AddressProofs
from core.usecases.identity.devices import Devices
from core.usecases.identity.flows import Flows
from core.usecases.identity.foreign_hashes import ForeignHashes
from core.usecases.identity.impersonation import Impersonations
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mailed_codes import MailedCodes
from core.usecases.identity.mailed_proofs import MailedProofs
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.own_sessions import OwnSessions
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.pictures import Pictures
from core.usecases.identity.privacy import Declining, Privacy
from core.usecases.identity.profiles import Profiles
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.reauthentication import Reauthentication
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in.admission import Admission
from core.usecases.identity.sign_in.landings.api import SignIn
from core.usecases.identity.sign_in.landings.browser import BrowserSessions
from core.usecases.identity.sign_in.proofs.link import SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import PasswordProofs
from core.usecases.identity.sign_in.proofs.upstream import UpstreamProofs
from core.usecases.identity.unverified_accounts import UnverifiedAccounts
from core.usecases.identity.upstream.identities import Identities
from core.usecases.identity.upstream.identity_grants import IdentityGrants
from core.usecases.identity.upstream.journeys import Journeys
from core.usecases.identity.upstream.link_requests import LinkRequests
from core.usecases.identity.upstream.linked_identities import LinkedIdentities
from core.usecases.identity.upstream.outages import ProviderLooks, ProviderOutages
from core.usecases.identity.upstream.provider_tokens import ProviderTokens
from core.usecases.identity.upstream.providers import UpstreamProviders
from core.usecases.identity.upstream.repeated_returns import RepeatedReturns
from core.usecases.tenancy.join_requests import JoinByDomain
from core.usecases.tenancy.profile_values import ProfileValues, ProviderValues
from entrypoints.assembly.configured import installed_providers, listed_proxies, location_database, password_hasher, with_client
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings
from ports.identity.upstream.connections import ConnectionLookup
from ports.passwords import CommonPasswords, PasswordHasher


class Identity(Frozen, kw_only=True):
    passwords: PasswordHasher
    foreign_hashes: ForeignHashes
    common_passwords: CommonPasswords
    accounts: Accounts
    address_proofs: AddressProofs
    unverified_accounts: UnverifiedAccounts
    account_passwords: AccountPasswords
    account_mails: AccountMails
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
    sign_in: SignIn
    flows: Flows
    browser_sessions: BrowserSessions
    sign_in_links: SignInLinks
    passkeys: Passkeys
    passkey_proofs: PasskeyProofs
    reauthentication: Reauthentication
    privacy: Privacy
    journeys: Journeys
    connection_lookup: ConnectionLookup
    connection_recorder: ConnectionExchangeWriter
    upstream_proofs: UpstreamProofs
    identities: Identities
    link_requests: LinkRequests
    repeated_returns: RepeatedReturns
    provider_tokens: ProviderTokens


@contextmanager
def open_identity(settings: Settings, foundation: Foundation, decline: Declining) -> Iterator[Identity]:
    """Raises `SettingsError` or `StartFailed`."""
    new_unit_of_work, pool, buckets = foundation.unit_of_work, foundation.pool, foundation.shared_buckets
    stores = foundation.stores
    system, clock, ids, spread = foundation.system, foundation.clock, foundation.ids, foundation.secrets.spread
    templates, links = foundation.mail_templates, foundation.links
    with ExitStack() as closing:
        passwords = password_hasher(settings, foundation.metrics)
        closing.callback(passwords.close)
        common_passwords = ShippedCommonPasswords()
        rules = PasswordRules(common_passwords)
        facts = PostgresFacts(pool)
        sessions = Sessions(
            new_unit_of_work,
            PostgresRefreshTokens(pool),
            facts,
            foundation.token_signer,
            foundation.server_secrets,
            foundation.metrics,
            issuer=settings.public_url,
            access_lifetime=settings.access_token_lifetime,
            lifetime=settings.session_lifetime,
            system=system,
        )
        mfa = Mfa(
            new_unit_of_work,
            lookup=MfaRows(Statements(pool), ids, clock),
            totp=PyotpTotp(POSTERN.name),
            backup_codes=HmacBackupCodes(foundation.server_secrets),
            keyring=foundation.keyring,
            templates=templates,
            clock=clock,
            throttles=settings.rate_limits,
        )
        agents = LibraryUserAgents()
        devices = Devices(
            unit_of_work=new_unit_of_work,
            lookup=stores.devices,
            agents=agents,
            locations=location_database(settings, closing),
            proxies=listed_proxies(settings),
            system=system,
        )
        login_events = LoginEvents(
            new_unit_of_work,
            stores.login_events,
            devices=devices,
            templates=templates,
            metrics=foundation.metrics,
            system=system,
        )
        installed = installed_providers(settings)
        outages = ProviderOutages(new_unit_of_work, foundation.metrics, clock)
        realms = HomeRealms(
            PostgresRealms(pool),
            PostgresRealmProviders(pool, clock, configured=with_client(installed)),
            ProviderLooks(outages, foundation.upstreams, {one.value: known.endpoints for one, known in installed.items()}),
        )
        joining = JoinByDomain(new_unit_of_work, templates=templates, metrics=foundation.metrics, system=system)
        familiar = FamiliarAddresses()
        password_proofs = PasswordProofs(
            new_unit_of_work,
            PostgresAttempts(pool),
            passwords,
            devices=devices,
            login_events=login_events,
            realms=realms,
            familiar=familiar,
            clock=clock,
            throttles=settings.rate_limits,
        )
        authenticators = Fido2Authenticators()
        providers = UpstreamProviders(installed, foundation.keyring)
        passkeys = Passkeys(
            new_unit_of_work,
            stores.passkeys,
            relying_party=relying_party(settings.public_url),
            authenticators=authenticators,
            mfa=mfa,
            providers=providers,
            agents=agents,
            templates=templates,
            metrics=foundation.metrics,
            system=system,
        )
        passkey_proofs = PasskeyProofs(
            new_unit_of_work,
            stores.passkeys,
            passkeys=passkeys,
            authenticators=authenticators,
            destinations=PostgresDestinations(pool),
            devices=devices,
            login_events=login_events,
            realms=realms,
            templates=templates,
            system=system,
        )
        admission = Admission(
            new_unit_of_work,
            devices=devices,
            mfa=mfa,
            passkeys=passkey_proofs,
            login_events=login_events,
            realms=realms,
            joining=joining,
            provided=ProviderValues(new_unit_of_work, ProfileValues(new_unit_of_work, stores.profile_values, clock)),
            familiar=familiar,
            system=system,
        )
        mailed_codes = MailedCodes(new_unit_of_work, buckets, foundation.server_secrets, clock)
        sign_in_links = SignInLinks(
            new_unit_of_work,
            PostgresAttempts(pool),
            devices=devices,
            codes=mailed_codes,
            login_events=login_events,
            links=links,
            system=system,
        )
        flows = Flows(new_unit_of_work, stores.flows, system)
        identity_grant_lookup = stores.identity_grants
        identity_grants = IdentityGrants(identity_grant_lookup, foundation.keyring, clock)
        upstream_lookup = PostgresUpstreamSignIn(pool)
        connections = PostgresConnections(pool)
        connection_recorder = ConnectionExchangeWriter(connections, foundation.metrics, spread=spread)
        journeys = Journeys(
            upstream_lookup,
            foundation.upstreams,
            providers=providers,
            outages=outages,
            server_secrets=foundation.server_secrets,
            recorder=connection_recorder,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        )
        linked = LinkedIdentities(templates=templates, system=system)
        accounts = Accounts(
            unit_of_work=new_unit_of_work,
            rules=rules,
            passwords=passwords,
            destinations=PostgresDestinations(pool),
            templates=templates,
            links=links,
            buckets=buckets,
            system=system,
            immediate_email_changes=settings.email_change == "immediate",
        )
        profiles = Profiles(new_unit_of_work, buckets, foundation.server_secrets, clock, is_time_zone)
        reauthentication = Reauthentication(
            new_unit_of_work,
            PostgresProofs(pool),
            passwords=password_proofs,
            passkeys=passkey_proofs,
            mfa=mfa,
            devices=devices,
            login_events=login_events,
            realms=realms,
            metrics=foundation.metrics,
            clock=clock,
            window=settings.reauthentication_window,
        )
        yield Identity(
            passwords=passwords,
            foreign_hashes=ForeignHashes(PostgresForeignHashes(pool), passwords, foundation.metrics),
            common_passwords=common_passwords,
            accounts=accounts,
            address_proofs=AddressProofs(
                new_unit_of_work,
                accounts=accounts,
                codes=mailed_codes,
                proofs=password_proofs,
                rules=rules,
                passwords=passwords,
                vouched_accounts=stores.vouched_accounts,
                realms=realms,
                system=system,
            ),
            unverified_accounts=UnverifiedAccounts(new_unit_of_work, system, settings.unverified_account_retention),
            account_passwords=AccountPasswords(
                unit_of_work=new_unit_of_work,
                rules=rules,
                passwords=passwords,
                realms=realms,
                templates=templates,
                buckets=buckets,
                clock=clock,
            ),
            account_mails=AccountMails(
                unit_of_work=new_unit_of_work,
                brandings=foundation.brandings,
                templates=templates,
                links=links,
                realms=realms,
                buckets=buckets,
                system=system,
                server_secrets=foundation.server_secrets,
            ),
            mailed_codes=mailed_codes,
            mailed_proofs=MailedProofs(
                new_unit_of_work,
                reauthentication=reauthentication,
                templates=templates,
                buckets=buckets,
                server_secrets=foundation.server_secrets,
                devices=devices,
                login_events=login_events,
                metrics=foundation.metrics,
                system=system,
            ),
            account_summaries=AccountSummaries(PostgresAccountSummaries(pool), clock),
            profiles=profiles,
            pictures=Pictures(new_unit_of_work, stores.pictures, system),
            devices=devices,
            mfa=mfa,
            login_events=login_events,
            sessions=sessions,
            own_sessions=OwnSessions(new_unit_of_work, PostgresOwnSessions(pool), clock),
            presence=PresenceWriter(PostgresPresence(pool), foundation.metrics, spread=spread),
            impersonations=Impersonations(new_unit_of_work, sessions, ids),
            privacy=Privacy(new_unit_of_work, stores.privacy, decline, most_logins=settings.export_login_events, system=system),
            realms=realms,
            joining=joining,
            admission=admission,
            sign_in=SignIn(
                passwords=password_proofs,
                passkeys=passkey_proofs,
                devices=devices,
                admission=admission,
                sessions=sessions,
                signer=foundation.token_signer,
                verifier=foundation.token_verifier,
                issuer=settings.public_url,
            ),
            flows=flows,
            sign_in_links=sign_in_links,
            passkeys=passkeys,
            passkey_proofs=passkey_proofs,
            browser_sessions=BrowserSessions(
                passwords=password_proofs,
                devices=devices,
                admission=admission,
                sessions=sessions,
                flows=flows,
                links=sign_in_links,
                passkeys=passkey_proofs,
                server_secrets=foundation.server_secrets,
                clock=clock,
            ),
            journeys=journeys,
            connection_lookup=connections,
            connection_recorder=connection_recorder,
            upstream_proofs=UpstreamProofs(
                new_unit_of_work,
                upstream_lookup,
                linked=linked,
                profiles=profiles,
                grants=identity_grants,
                realms=realms,
                devices=devices,
                login_events=login_events,
                email_syntax=foundation.email_syntax,
                metrics=foundation.metrics,
                system=system,
            ),
            identities=Identities(
                new_unit_of_work,
                stores.identities,
                upstream_lookup,
                linked=linked,
                providers=providers,
                grants=identity_grants,
                devices=devices,
                clock=clock,
            ),
            link_requests=LinkRequests(upstream_lookup, journeys=journeys, server_secrets=foundation.server_secrets, clock=clock),
            repeated_returns=RepeatedReturns(upstream_lookup, trio.sleep),
            provider_tokens=ProviderTokens(
                new_unit_of_work,
                identity_grant_lookup,
                foundation.upstreams,
                providers=providers,
                grants=identity_grants,
                keyring=foundation.keyring,
                metrics=foundation.metrics,
                clock=clock,
                pause=trio.sleep,
            ),
            reauthentication=reauthentication,
        )

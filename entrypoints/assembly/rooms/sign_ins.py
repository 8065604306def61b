"""Sign-ins: devices and the log of sign-ins, the ways to prove who somebody is, and the admission that all of them end in."""

from contextlib import ExitStack

import trio

from adapters.crypto.factors import Fido2Authenticators, HmacBackupCodes, PyotpTotp
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.identity.proofs.sign_in import PostgresAttempts, PostgresDestinations, PostgresProofs
from adapters.postgres.statements import Statements
from adapters.user_agents import LibraryUserAgents
from core.domain.branding import POSTERN
from core.domain.identity.passkeys import relying_party
from core.domain.identity.passwords import AtSignIn
from core.domain.identity.sign_in import FamiliarAddresses
from core.frozen import Frozen
from core.usecases.identity.account_mails import MailedCodes
from core.usecases.identity.devices import Devices
from core.usecases.identity.guards.guesses import Guesses, NoticedOrigins
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.reauthentication import MailedProofs, Reauthentication
from core.usecases.identity.risk import InstallationWayBack
from core.usecases.identity.sign_in.admission import Admission
from core.usecases.identity.sign_in.proofs.mailed import SignInLinks
from core.usecases.identity.sign_in.proofs.passkey import PasskeyProofs
from core.usecases.identity.sign_in.proofs.password import BreachesAtSignIn, PasswordProofs
from core.usecases.tenancy.join_requests import JoinByDomain
from core.usecases.tenancy.profile_fields import ProfileValues, ProviderValues
from entrypoints.assembly.configured import listed_proxies, location_database
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.rooms.known_passwords import KnownPasswordsRoom
from entrypoints.assembly.rooms.upstream import UpstreamParts
from entrypoints.settings import Settings
from ports.crypto import PasswordHasher


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
            system=system,
        ),
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

"""Where everything is put together: one frozen `Services`, built by hand, closed in reverse."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Final
from uuid import UUID

import psycopg
import structlog

from actors.account_mails import account_mailer
from actors.audit_linker import AuditLinker
from actors.invitation_sweeper import InvitationSweeper
from actors.janitor import Janitor
from actors.mailer import mailer
from actors.metrics_refresher import MetricsRefresher
from actors.presence import Presence
from actors.purger import Purger
from actors.reencrypter import reencrypter
from actors.subscription_expirer import SubscriptionExpirer
from actors.supervisor import Actor
from adapters.crypto.argon2_binding import BuiltForAnotherProcessor
from adapters.crypto.backup_codes import HmacBackupCodes
from adapters.crypto.common_passwords import ShippedCommonPasswords
from adapters.crypto.key_ring import AesGcmKeyRing, KeyFile, MalformedKeys, parse
from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords
from adapters.crypto.signing_keys import CryptoKeyMaker, KeyCache, sealing_context
from adapters.crypto.tokens import JwtSigner, JwtVerifier
from adapters.crypto.totp import PyotpTotp
from adapters.email_syntax import LibraryEmailSyntax
from adapters.location import LocationDatabaseUnusable, locations
from adapters.mail.templates import ShippedMailTemplates
from adapters.mail.transports import MailSettingsError, transport_for
from adapters.metrics.prometheus import PrometheusMetrics
from adapters.postgres import housekeeping
from adapters.postgres.account_overviews import PostgresAccountOverviews
from adapters.postgres.alerts import PostgresSuspiciousActivity
from adapters.postgres.api_keys import PostgresApiKeys, PostgresKeyUse
from adapters.postgres.audit import PostgresAuditLog
from adapters.postgres.audit_chains import PostgresAuditChains
from adapters.postgres.branding import PostgresBrandings
from adapters.postgres.client_secrets import PostgresClientSecrets
from adapters.postgres.database import PostgresDatabase
from adapters.postgres.devices import PostgresDevices
from adapters.postgres.doorbell import PostgresDoorbell
from adapters.postgres.end_users import PostgresEndUsers
from adapters.postgres.governance import PostgresOrganizationRegister
from adapters.postgres.invitations import PostgresInvitations
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.members import PostgresMembers
from adapters.postgres.mfa import PostgresMfa
from adapters.postgres.organization_remains import PostgresOrganizationRemains
from adapters.postgres.organizations import PostgresOrganizations
from adapters.postgres.plans import PostgresPlans
from adapters.postgres.platform_users import PostgresUserDirectory
from adapters.postgres.pool import Pool
from adapters.postgres.rate_limits import PostgresBuckets
from adapters.postgres.relations import PostgresRelations
from adapters.postgres.roles import PostgresRoles
from adapters.postgres.sealed_columns import PostgresSealedColumns
from adapters.postgres.server_secrets import PostgresServerSecrets
from adapters.postgres.service_analytics import PostgresServiceAnalytics
from adapters.postgres.service_remains import PostgresServiceRemains
from adapters.postgres.service_users import PostgresServiceUsers
from adapters.postgres.services import PostgresServiceRegister, PostgresServices
from adapters.postgres.sessions import PostgresCallers, PostgresPresence, PostgresRefreshTokens
from adapters.postgres.sign_in import PostgresApplications, PostgresDestinations
from adapters.postgres.subscriptions import PostgresSubscriptions
from adapters.postgres.tiers import PostgresTiers
from adapters.postgres.unit_of_work import unit_of_work
from adapters.proxies import ListedProxies, ProxyListUnusable, read_networks
from adapters.system import SystemClock, SystemIds, SystemSecrets
from adapters.turns import FairTurns
from adapters.user_agents import LibraryUserAgents
from core.domain import organizations, services
from core.domain.branding import POSTERN
from core.domain.identifiers import KeyId
from core.domain.jobs import NewJob
from core.domain.links import Links
from core.domain.signing_keys import KeyPurpose, KeyState, SigningKey, in_state
from core.usecases.access import Access
from core.usecases.account_administration import AccountAdministration
from core.usecases.account_mails import AccountMails
from core.usecases.account_passwords import AccountPasswords, PasswordRules
from core.usecases.accounts import Accounts
from core.usecases.api_keys import ApiKeys
from core.usecases.audit import Audit
from core.usecases.callers import Callers
from core.usecases.client_secrets import ClientSecrets
from core.usecases.devices import Devices
from core.usecases.encryption import Reencryption
from core.usecases.end_users import EndUsers
from core.usecases.governance import Governance
from core.usecases.impersonation import Impersonations
from core.usecases.invitations import Invitations
from core.usecases.members import Members
from core.usecases.mfa import Mfa
from core.usecases.organizations import Organizations
from core.usecases.plans import Plans
from core.usecases.platform_owners import PlatformOwners
from core.usecases.platform_users import PlatformUsers
from core.usecases.purge import Purge
from core.usecases.roles import Roles
from core.usecases.service_analytics import ServiceAnalysis
from core.usecases.service_info import ServiceInfo
from core.usecases.service_users import ServiceUsers
from core.usecases.services import OrganizationServices, RegisteredServices
from core.usecases.sessions import Sessions
from core.usecases.sign_in import SignIn
from core.usecases.signing_keys import SigningKeys, stored
from core.usecases.subscriptions import Subscriptions
from entrypoints.failures import StartFailed
from entrypoints.installation import conninfo
from entrypoints.settings import Settings, SettingsError
from ports.accounts import EmailSyntax
from ports.clock import Clock
from ports.devices import Locations
from ports.encryption import CannotOpen
from ports.ids import Ids
from ports.jobs import JobQueue
from ports.mail import MailTransport
from ports.mail_templates import MailTemplates
from ports.passwords import CommonPasswords, PasswordHasher
from ports.remains import Remains
from ports.secrets import Secrets
from ports.server_secrets import ServerSecrets
from ports.tokens import TokenSigner, TokenVerifier
from ports.unit_of_work import UnitOfWorkFactory

KEY_FILE: Final = "encryption.keys"
# The ids that `postern keys generate` gives begin with the day.
_DAY_OF_KEY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the entrances use. `actors` and the doorbell's `run` belong to whoever serves; a command leaves them alone."""

    version: str
    public_url: str
    clock: Clock
    ids: Ids
    secrets: Secrets
    metrics: PrometheusMetrics
    metrics_page: PrometheusMetrics
    database: PostgresDatabase
    unit_of_work: UnitOfWorkFactory
    jobs: JobQueue
    doorbell: PostgresDoorbell
    shared_buckets: PostgresBuckets
    keyring: AesGcmKeyRing
    passwords: PasswordHasher
    common_passwords: CommonPasswords
    server_secrets: ServerSecrets
    email_syntax: EmailSyntax
    mail_templates: MailTemplates
    links: Links
    accounts: Accounts
    account_passwords: AccountPasswords
    account_mails: AccountMails
    mail: MailTransport
    signing_keys: SigningKeys
    reencryption: Reencryption
    token_signer: TokenSigner
    token_verifier: TokenVerifier
    callers: Callers
    api_keys: ApiKeys
    sessions: Sessions
    impersonations: Impersonations
    sign_in: SignIn
    devices: Devices
    mfa: Mfa
    platform_owners: PlatformOwners
    account_administration: AccountAdministration
    governance: Governance
    platform_users: PlatformUsers
    organizations: Organizations
    members: Members
    invitations: Invitations
    roles: Roles
    access: Access
    end_users: EndUsers
    plans: Plans
    subscriptions: Subscriptions
    services: OrganizationServices
    registered_services: RegisteredServices
    client_secrets: ClientSecrets
    service_users: ServiceUsers
    service_info: ServiceInfo
    service_analytics: ServiceAnalysis
    audit: Audit
    actors: tuple[Actor, ...]


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Needs the database's address, not the database: while that is away, what needs it refuses with `Unavailable`."""
    async with AsyncExitStack() as closing:
        clock, ids, secrets = SystemClock(), SystemIds(), SystemSecrets()
        metrics = PrometheusMetrics()
        keyring = key_ring(settings)
        mail = mail_transport(settings)
        target = conninfo(settings)

        pool = Pool(target, most=settings.pool_size, on_wait=metrics.pool_waited)
        closing.push_async_callback(pool.aclose)
        try:
            await pool.open()
        except psycopg.OperationalError as error:
            log.warning("database_away", error=" ".join(str(error).split()))
        doorbell = PostgresDoorbell(target)
        new_unit_of_work = unit_of_work(pool, ids, clock, keyring, doorbell)
        database = PostgresDatabase(pool)
        queue = PostgresJobQueue(pool, keyring)

        passwords = _passwords(settings, metrics)
        closing.callback(passwords.close)
        common_passwords = ShippedCommonPasswords()
        server_secrets = PostgresServerSecrets(pool, keyring, clock)
        mail_templates = ShippedMailTemplates(settings.public_url)
        links = Links(settings.public_url, settings.public_frontend_url)
        buckets = PostgresBuckets(pool)
        rules = PasswordRules(common_passwords)
        account_mails = AccountMails(
            unit_of_work=new_unit_of_work,
            brandings=PostgresBrandings(pool),
            templates=mail_templates,
            links=links,
            buckets=buckets,
            clock=clock,
            secrets=secrets,
        )
        accounts = Accounts(
            unit_of_work=new_unit_of_work,
            rules=rules,
            passwords=passwords,
            destinations=PostgresDestinations(pool),
            templates=mail_templates,
            links=links,
            buckets=buckets,
            clock=clock,
            ids=ids,
            secrets=secrets,
            immediate_email_changes=settings.email_change == "immediate",
        )
        invitations = Invitations(
            new_unit_of_work,
            PostgresInvitations(pool),
            accounts=accounts,
            templates=mail_templates,
            links=links,
            server_secrets=server_secrets,
            clock=clock,
            ids=ids,
            secrets=secrets,
        )
        known_keys = KeyCache(stored(new_unit_of_work), keyring)
        signing_keys = SigningKeys(new_unit_of_work, CryptoKeyMaker(keyring), clock, known_keys)
        verifier, signer = JwtVerifier(known_keys, settings.public_url, clock), JwtSigner(known_keys)
        sessions = Sessions(
            new_unit_of_work,
            PostgresRefreshTokens(pool),
            signer,
            server_secrets,
            metrics,
            issuer=settings.public_url,
            access_lifetime=settings.access_token_lifetime,
            lifetime=settings.session_lifetime,
            clock=clock,
            ids=ids,
            secrets=secrets,
        )
        presence = Presence(PostgresPresence(pool), metrics, spread=secrets.spread)
        key_presence = Presence(PostgresKeyUse(pool), metrics, spread=secrets.spread, name="key_presence")
        mfa = Mfa(
            new_unit_of_work,
            lookup=PostgresMfa(pool),
            totp=PyotpTotp(POSTERN.name),
            backup_codes=HmacBackupCodes(server_secrets),
            keyring=keyring,
            templates=mail_templates,
            clock=clock,
        )
        devices = Devices(
            unit_of_work=new_unit_of_work,
            lookup=PostgresDevices(pool),
            agents=LibraryUserAgents(),
            locations=_locations(settings, closing),
            proxies=_proxies(settings),
            secrets=secrets,
            clock=clock,
            ids=ids,
        )
        subscriptions = Subscriptions(new_unit_of_work, PostgresSubscriptions(pool), clock, ids)
        reencryption = Reencryption(keyring, PostgresSealedColumns(pool, keyring))

        async def key_ages() -> Mapping[str, timedelta]:
            return await ages(signing_keys, keyring, clock.now())

        def purger(kind: str, remains: Remains, job: Callable[[UUID], NewJob]) -> Purger:
            purge = Purge(new_unit_of_work, remains, job)
            return Purger(kind, purge, queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=secrets.spread)

        audit = Audit(PostgresAuditLog(pool), PostgresAuditChains(pool), server_secrets)

        yield Services(
            version=version("postern"),
            public_url=settings.public_url,
            clock=clock,
            ids=ids,
            secrets=secrets,
            metrics=metrics,
            metrics_page=metrics,
            database=database,
            unit_of_work=new_unit_of_work,
            jobs=queue,
            doorbell=doorbell,
            shared_buckets=buckets,
            keyring=keyring,
            passwords=passwords,
            common_passwords=common_passwords,
            server_secrets=server_secrets,
            email_syntax=LibraryEmailSyntax(),
            mail_templates=mail_templates,
            links=links,
            accounts=accounts,
            account_mails=account_mails,
            account_passwords=AccountPasswords(
                unit_of_work=new_unit_of_work,
                rules=rules,
                passwords=passwords,
                templates=mail_templates,
                buckets=buckets,
                clock=clock,
            ),
            mail=mail,
            signing_keys=signing_keys,
            reencryption=reencryption,
            token_signer=signer,
            token_verifier=verifier,
            devices=devices,
            mfa=mfa,
            api_keys=ApiKeys(new_unit_of_work, PostgresApiKeys(pool), key_presence, clock=clock, ids=ids, secrets=secrets),
            callers=Callers(verifier, PostgresCallers(pool), presence, clock),
            sessions=sessions,
            impersonations=Impersonations(new_unit_of_work, sessions, ids),
            sign_in=SignIn(
                new_unit_of_work,
                PostgresApplications(pool),
                passwords,
                devices=devices,
                mfa=mfa,
                sessions=sessions,
                templates=mail_templates,
                signer=signer,
                verifier=verifier,
                metrics=metrics,
                clock=clock,
                ids=ids,
                issuer=settings.public_url,
                throttles=settings.rate_limits,
            ),
            platform_owners=PlatformOwners(new_unit_of_work, passwords, common_passwords, clock, ids),
            account_administration=AccountAdministration(
                unit_of_work=new_unit_of_work,
                overviews=PostgresAccountOverviews(pool),
                mfa=mfa,
                templates=mail_templates,
                links=links,
                clock=clock,
                secrets=secrets,
            ),
            organizations=Organizations(
                new_unit_of_work,
                PostgresOrganizations(pool),
                sessions,
                auto_approve=settings.org_auto_approve,
                clock=clock,
                ids=ids,
            ),
            members=Members(new_unit_of_work, PostgresMembers(pool), sessions, clock),
            invitations=invitations,
            roles=Roles(new_unit_of_work, PostgresRoles(pool), clock, ids),
            access=Access(PostgresRelations(pool)),
            end_users=EndUsers(new_unit_of_work, PostgresEndUsers(pool), FairTurns()),
            plans=Plans(new_unit_of_work, PostgresPlans(pool), clock, ids),
            subscriptions=subscriptions,
            services=OrganizationServices(new_unit_of_work, PostgresServices(pool), clock, ids),
            registered_services=RegisteredServices(PostgresServiceRegister(pool)),
            client_secrets=ClientSecrets(new_unit_of_work, PostgresClientSecrets(pool), clock, ids, secrets),
            service_users=ServiceUsers(new_unit_of_work, PostgresServiceUsers(pool), clock, ids),
            service_info=ServiceInfo(new_unit_of_work, PostgresServices(pool), clock),
            service_analytics=ServiceAnalysis(PostgresServiceAnalytics(pool), clock),
            governance=Governance(new_unit_of_work, PostgresOrganizationRegister(pool), PostgresTiers(pool), clock),
            platform_users=PlatformUsers(PostgresUserDirectory(pool), PostgresSuspiciousActivity(pool), mfa, clock),
            audit=audit,
            actors=(
                mailer(mail, queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=secrets.spread),
                account_mailer(account_mails, queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=secrets.spread),
                reencrypter(reencryption, queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=secrets.spread),
                presence,
                key_presence,
                SubscriptionExpirer(subscriptions, spread=secrets.spread),
                purger(organizations.PURGE_JOB, PostgresOrganizationRemains(pool), organizations.purge_job),
                purger(services.PURGE_JOB, PostgresServiceRemains(pool), services.purge_job),
                AuditLinker(audit, spread=secrets.spread),
                InvitationSweeper(invitations, spread=secrets.spread),
                Janitor(
                    [
                        housekeeping.ExpiredSessions(pool),
                        housekeeping.RevokedSessions(pool),
                        housekeeping.RotatedRefreshTokens(pool),
                        housekeeping.RevokedDevices(pool),
                        housekeeping.UnusedDevices(pool),
                        housekeeping.PastMailedTokens(pool),
                        housekeeping.ExpiredPreauthentications(pool),
                        housekeeping.FullBuckets(pool),
                        housekeeping.RetiredSigningKeys(pool),
                        housekeeping.DeadJobs(pool),
                    ],
                    spread=secrets.spread,
                ),
                MetricsRefresher(
                    metrics,
                    database=database,
                    queue=queue,
                    audit_backlog=audit.backlog,
                    key_ages=key_ages,
                    clock=clock,
                    spread=secrets.spread,
                ),
            ),
        )


def key_file(settings: Settings) -> KeyFile | None:
    """Where an installation keeps its encryption keys that keeps them itself. None when they are a setting."""
    return KeyFile(settings.data_dir / KEY_FILE) if settings.encryption_keys is None else None


def key_ring(settings: Settings) -> AesGcmKeyRing:
    """Raises `SettingsError` or `StartFailed`."""
    file = key_file(settings)
    if file is None:
        try:
            return AesGcmKeyRing(parse(settings.encryption_keys.reveal() if settings.encryption_keys is not None else ""))
        except MalformedKeys as error:
            raise SettingsError(f"POSTERN_ENCRYPTION_KEYS cannot be used: {error}") from None
    try:
        return file.ring()
    except MalformedKeys as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        raise StartFailed(f"The encryption keys {file.path} cannot be used: {error.strerror}") from None


def mail_transport(settings: Settings) -> MailTransport:
    """Raises `SettingsError`."""
    url = f"file:{settings.data_dir / 'mail'}" if settings.mail == "file:" else settings.mail
    try:
        return transport_for(url, settings.mail_sender, clock=SystemClock(), password=settings.mail_password)
    except MailSettingsError as error:
        raise SettingsError(f"POSTERN_MAIL, POSTERN_MAIL_SENDER or POSTERN_MAIL_PASSWORD cannot be used: {error}") from None


def argon2_parameters(settings: Settings) -> Argon2Parameters:
    """Raises `SettingsError`."""
    try:
        return Argon2Parameters(settings.argon2_memory // 1024, settings.argon2_passes, settings.argon2_lanes)
    except ValueError as error:
        raise SettingsError(f"POSTERN_ARGON2_MEMORY, POSTERN_ARGON2_PASSES or POSTERN_ARGON2_LANES cannot be used: {error}") from None


def _passwords(settings: Settings, metrics: PrometheusMetrics) -> Argon2Passwords:
    try:
        return Argon2Passwords(argon2_parameters(settings), settings.argon2_workers, metrics, most_queued=settings.argon2_queue)
    except BuiltForAnotherProcessor as error:
        raise StartFailed(str(error)) from None


def _locations(settings: Settings, closing: AsyncExitStack) -> Locations:
    try:
        return closing.enter_context(locations(settings.geoip_database))
    except LocationDatabaseUnusable as error:
        raise StartFailed(f"POSTERN_GEOIP_DATABASE {settings.geoip_database} cannot be used: {error}") from None


def _proxies(settings: Settings) -> ListedProxies:
    file = settings.proxy_networks_file
    try:
        return ListedProxies([*settings.proxy_networks, *(read_networks(file) if file is not None else ())])
    except ProxyListUnusable as error:
        raise StartFailed(f"POSTERN_PROXY_NETWORKS_FILE {file} cannot be used: {error}") from None


async def unreadable(signing_keys: SigningKeys, keyring: AesGcmKeyRing) -> Sequence[KeyId]:
    """The signing keys, in force or to come, that no encryption key of ours opens. Outgoing ones verify by their public half."""

    def opens(key: SigningKey) -> bool:
        try:
            keyring.open(key.sealed_private_key, sealing_context(key.id))
        except CannotOpen:
            return False
        return True

    return [key.id for key in await signing_keys.list() if key.state is not KeyState.OUTGOING and not opens(key)]


async def ages(signing_keys: SigningKeys, keyring: AesGcmKeyRing, now: datetime) -> Mapping[str, timedelta]:
    """How long the keys in force have been so, by purpose. An encryption key tells its day in its id, if we named it."""
    keys = await signing_keys.list()
    found = {purpose.value: in_state(keys, purpose, KeyState.CURRENT) for purpose in KeyPurpose}
    told: dict[str, timedelta] = {purpose: key.age(now) for purpose, key in found.items() if key is not None}
    day = _DAY_OF_KEY.match(keyring.current_key_id())
    if day is not None:
        try:
            told["encryption"] = max(now - datetime.fromisoformat(day[0]).replace(tzinfo=UTC), timedelta(0))
        except ValueError:
            log.debug("encryption_key_without_day", key=keyring.current_key_id())
    return told

"""The foundation, which every area uses: database, keys, mail, clock and random numbers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version

import psycopg
import structlog

from adapters.crypto.key_pairs import PairsAhead
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.crypto.signed_by_others import JwtKeyProofs
from adapters.crypto.signing_keys import CryptoKeyMaker, KeyCache
from adapters.crypto.tokens import JwtSigner, JwtVerifier
from adapters.limits import UnlimitedBuckets
from adapters.mail.templates import ShippedMailTemplates
from adapters.mail.transports import GuardedPost
from adapters.mail_address import LibraryEmailSyntax
from adapters.metrics import PrometheusMetrics
from adapters.outbound.client import GuardedClient, PlainClient, Trust
from adapters.outbound.client_documents import GuardedKeySets
from adapters.outbound.dialer import Dialer, SystemNames
from adapters.postgres.branding import PostgresBrandings, PostgresInstallationWords
from adapters.postgres.database import PostgresDatabase
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.refresh_tokens import PostgresUsedKeyProofs
from adapters.postgres.identity.upstream.connections import PostgresConnections, PostgresPostedAnswers
from adapters.postgres.jobs import PostgresDoorbell, PostgresJobQueue
from adapters.postgres.listening_processes import name_of_listener
from adapters.postgres.rate_limits import PostgresBuckets
from adapters.postgres.server_secrets import PostgresServerSecrets
from adapters.postgres.statements import Statements
from adapters.postgres.unit_of_work import Stores, unit_of_work
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from adapters.saml.documents import XmlServiceProviderDocuments, XmlThreads
from adapters.system import SystemClock, SystemIds, SystemSecrets
from adapters.texts import ShippedTexts
from adapters.upstream import Upstreams
from adapters.upstream.directories import LdapPasswordPages, SamlDirectories
from adapters.upstream.further import WaitingAnswers
from adapters.upstream.keys import JwtAssertionSignatures
from adapters.upstream.oauth import Calls
from core.domain.identity.account_mails import Links
from core.domain.key_proofs import NonceRule
from core.frozen import Frozen
from core.usecases.identity.account_endings import LockLinks
from core.usecases.installation_words import KeptInstallationWords
from core.usecases.jobs import GivenUpJobs
from core.usecases.key_proofs import KeyProofs
from core.usecases.keys import KeyCare, Reencryption, SigningKeys, stored
from core.usecases.outbound_reach import OutboundReach
from core.usecases.tenancy.hook_asking import HookWaits
from entrypoints.assembly.by_name import PartsByName
from entrypoints.assembly.configured import (
    direct_client,
    guarded_client,
    guarded_dialer,
    inside_client,
    key_ring,
    mail_transport,
    plain_client,
)
from entrypoints.assembly.directories import LdapOnFirstUse, LdapReadingOnFirstUse
from entrypoints.assembly.traced import Tracing, tracing
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.http.scrapes import Scrapes
from entrypoints.installation import conninfo
from entrypoints.settings import Settings
from ports.crypto import KeptSecrets, TokenSigner, TokenVerifier
from ports.identity.accounts import EmailSyntax
from ports.identity.upstream import AssertionSignatures, LdapDirectories, LdapReading, ServiceProviderDocuments, UpstreamProtocols
from ports.jobs import JobQueue
from ports.mail import MailTemplates, MailTransport
from ports.outbound import OperatorsOutbound, Outbound, TextRecords
from ports.services.services import KeySets
from ports.system import Clock, Ids, Secrets, SharedBuckets, System
from ports.tenancy.organizations import OrganizationPost
from ports.texts import Brandings, ShippedWords
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class Foundation(Frozen, kw_only=True):
    version: str
    public_url: str
    security_contacts: Sequence[str]
    system: System
    metrics: PrometheusMetrics
    scrapes: Scrapes
    pool: Pool
    stores: Stores
    database: PostgresDatabase
    unit_of_work: UnitOfWorkFactory
    jobs: JobQueue
    dead_jobs: GivenUpJobs
    doorbell: PostgresDoorbell
    shared_buckets: SharedBuckets
    keyring: AesGcmKeyRing
    server_secrets: KeptSecrets
    email_syntax: EmailSyntax
    brandings: Brandings
    installation_words: KeptInstallationWords
    shipped_words: ShippedWords
    mail_templates: MailTemplates
    lock_links: LockLinks
    mail: MailTransport
    outbound: Outbound
    outbound_reach: OutboundReach
    hook_waits: HookWaits
    key_sets: KeySets
    upstreams: UpstreamProtocols
    assertions: AssertionSignatures
    xml_threads: XmlThreads
    directory_documents: ServiceProviderDocuments
    ldap_directories: LdapDirectories
    ldap_reading: LdapReading
    text_records: TextRecords
    organization_post: OrganizationPost
    operators_outbound: OperatorsOutbound
    links: Links
    signing_keys: SigningKeys
    key_care: KeyCare
    reencryption: Reencryption
    token_signer: TokenSigner
    token_verifier: TokenVerifier
    key_proofs: KeyProofs
    tracing: Tracing | None

    @property
    def clock(self) -> Clock:
        return self.system.clock

    @property
    def ids(self) -> Ids:
        return self.system.ids

    @property
    def secrets(self) -> Secrets:
        return self.system.secrets


def shared_parts(settings: Settings, foundation: Foundation) -> PartsByName:
    """What use cases of every area take by the same name."""
    return {
        "unit_of_work": foundation.unit_of_work,
        "system": foundation.system,
        "clock": foundation.clock,
        "ids": foundation.ids,
        "spread": foundation.secrets.spread,
        "metrics": foundation.metrics,
        "keyring": foundation.keyring,
        "server_secrets": foundation.server_secrets,
        "outbound": foundation.outbound,
        "reach": foundation.outbound_reach,
        "buckets": foundation.shared_buckets,
        "brandings": foundation.brandings,
        "templates": foundation.mail_templates,
        "links": foundation.links,
        "syntax": foundation.email_syntax,
        "signer": foundation.token_signer,
        "verifier": foundation.token_verifier,
        "signatures": foundation.assertions,
        "protocols": foundation.upstreams,
        "base_url": settings.public_url,
        "issuer": settings.public_url,
        "access_lifetime": settings.access_token_lifetime,
    }


@cache
def _version() -> str:
    """The version in the metadata of the installed package, which does not change while a process runs."""
    return version("postern")


class _Calling(Frozen):
    """What calls other hosts, and what finds them."""

    names: SystemNames
    dialer: Dialer
    trust: Trust
    outbound: GuardedClient
    operators_outbound: PlainClient
    inside: GuardedClient
    direct: PlainClient


@asynccontextmanager
async def open_foundation(settings: Settings, ahead: PairsAhead | None = None) -> AsyncIterator[Foundation]:
    """Needs the address of the database, but not the database itself: while the database is down, each use of it raises `Unavailable`."""
    metrics, keyring, mail, names = PrometheusMetrics(), key_ring(settings), mail_transport(settings), SystemNames()
    dialer = guarded_dialer(settings, names)
    calling = _Calling(
        names,
        dialer,
        # Mail needs a `Trust` of its own, because the HTTP client writes its protocol into the TLS context.
        Trust(settings.outbound_ca_file),
        guarded_client(settings, dialer),
        plain_client(settings, names),
        inside_client(settings, names),
        direct_client(settings, names),
    )
    target = conninfo(settings)
    pool = Pool(target, max_size=settings.pool_size, on_wait=metrics.pool_waited)
    try:
        try:
            await pool.open()
        except psycopg.OperationalError as error:
            log.warning("database_away", error=" ".join(str(error).split()))
        doorbell = PostgresDoorbell(target, pool, application_name=name_of_listener(_version()))
        yield _assembled(settings, metrics, keyring, mail, calling=calling, pool=pool, doorbell=doorbell, ahead=ahead)
    finally:
        for client in (calling.outbound, calling.operators_outbound, calling.inside, calling.direct):
            await client.aclose()
        await pool.aclose()


def _assembled(
    settings: Settings,
    metrics: PrometheusMetrics,
    keyring: AesGcmKeyRing,
    mail: MailTransport,
    *,
    calling: _Calling,
    pool: Pool,
    doorbell: PostgresDoorbell,
    ahead: PairsAhead | None,
) -> Foundation:
    system = System(SystemClock(), SystemIds(), SystemSecrets())
    clock = system.clock
    links = Links(settings.public_url, settings.public_frontend_url)
    lock_links = LockLinks(keyring, links, clock)
    new_unit_of_work = unit_of_work(pool, system.ids, clock, keyring, doorbell)
    installation_words = KeptInstallationWords(PostgresInstallationWords(pool), clock)
    return Foundation(
        version=_version(),
        public_url=settings.public_url,
        security_contacts=settings.security_contact or (),
        system=system,
        metrics=metrics,
        scrapes=Scrapes(metrics, settings.metrics_token),
        pool=pool,
        stores=Stores(Statements(pool, doorbell.ring_here)),
        database=PostgresDatabase(pool, clock, settings.standby_reads),
        unit_of_work=new_unit_of_work,
        jobs=PostgresJobQueue(pool, keyring),
        dead_jobs=GivenUpJobs(new_unit_of_work, PostgresJobQueue(pool, keyring)),
        doorbell=doorbell,
        shared_buckets=PostgresBuckets(pool) if settings.rate_limits else UnlimitedBuckets(),
        keyring=keyring,
        email_syntax=LibraryEmailSyntax(),
        brandings=PostgresBrandings(pool),
        installation_words=installation_words,
        mail_templates=ShippedMailTemplates(ShippedTexts(), settings.public_url, lock_links, installation_words),
        shipped_words=ShippedTexts(),
        lock_links=lock_links,
        mail=mail,
        links=links,
        outbound_reach=OutboundReach(clock),
        hook_waits=HookWaits(clock),
        tracing=tracing(settings, calling.direct, metrics, clock, _version()),
        **_keys(settings, pool, keyring, clock, new_unit_of_work, ahead=ahead),
        **_calls(settings, calling, pool, keyring, clock),
    )


def _keys(
    settings: Settings,
    pool: Pool,
    keyring: AesGcmKeyRing,
    clock: Clock,
    new_unit_of_work: UnitOfWorkFactory,
    *,
    ahead: PairsAhead | None,
) -> PartsByName:
    known_keys = KeyCache(stored(new_unit_of_work), keyring)
    signing_keys = SigningKeys(new_unit_of_work, CryptoKeyMaker(keyring, ahead), clock, known_keys)
    server_secrets = PostgresServerSecrets(pool, keyring, clock)
    return {
        "server_secrets": server_secrets,
        "signing_keys": signing_keys,
        "key_care": KeyCare(signing_keys, keyring, clock),
        "reencryption": Reencryption(keyring, PostgresSealedColumns(pool, keyring)),
        "token_signer": JwtSigner(known_keys),
        "token_verifier": JwtVerifier(known_keys, settings.public_url, clock),
        "key_proofs": KeyProofs(JwtKeyProofs(), PostgresUsedKeyProofs(pool), server_secrets, clock, NonceRule(settings.dpop_nonces)),
    }


def _calls(settings: Settings, calling: _Calling, pool: Pool, keyring: AesGcmKeyRing, clock: Clock) -> PartsByName:
    dialer, context, outbound = calling.dialer, calling.trust.context, calling.outbound
    tenants_calls = Calls(outbound, calling.inside)
    xml_threads = XmlThreads()
    directory_documents = XmlServiceProviderDocuments(xml_threads, fair_turn)
    ldap_directories = LdapOnFirstUse(dialer.connect, context)
    return {
        "outbound": outbound,
        "operators_outbound": calling.operators_outbound,
        "text_records": calling.names,
        "key_sets": GuardedKeySets(outbound),
        "upstreams": Upstreams(
            Calls(calling.operators_outbound, calling.operators_outbound),
            tenants_calls,
            SamlDirectories(directory_documents, PostgresConnections(pool), keyring, clock, settings.public_url),
            LdapPasswordPages(ldap_directories, PostgresConnections(pool), keyring, settings.public_url),
            answers=WaitingAnswers(PostgresPostedAnswers(pool), keyring),
            clock=clock,
        ),
        "assertions": JwtAssertionSignatures(tenants_calls),
        "xml_threads": xml_threads,
        "directory_documents": directory_documents,
        "ldap_directories": ldap_directories,
        "ldap_reading": LdapReadingOnFirstUse(dialer.connect, context),
        "organization_post": GuardedPost(dialer.connect, dialer.permits, context, clock),
    }

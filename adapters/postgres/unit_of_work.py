"""The unit of work: one use case, one transaction, one connection of the pool."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.federation.authorization_codes import AuthorizationCodeRows
from adapters.postgres.federation.client_documents import DocumentServiceRows
from adapters.postgres.federation.consents import ConsentRows
from adapters.postgres.federation.device_flow import DeviceCodeRows
from adapters.postgres.federation.exchanges import ExchangeRows
from adapters.postgres.federation.saml.configurations import SamlRows
from adapters.postgres.federation.scim.teams import DirectoryTeamRows
from adapters.postgres.federation.scim.tokens import ScimTokenRows
from adapters.postgres.federation.scim.users import ProvisionedUserRows
from adapters.postgres.identity.accounts import AccountRows
from adapters.postgres.identity.factors.devices import DeviceRows
from adapters.postgres.identity.factors.mfa import MfaRows
from adapters.postgres.identity.factors.passkeys import PasskeyRows
from adapters.postgres.identity.pictures import PictureRows
from adapters.postgres.identity.privacy.privacy import PrivacyRows
from adapters.postgres.identity.profiles import ProfileRows
from adapters.postgres.identity.proofs.account_passwords import AccountPasswordRows
from adapters.postgres.identity.proofs.flows import FlowRows
from adapters.postgres.identity.proofs.login_events import LoginEventRows
from adapters.postgres.identity.proofs.mailed_tokens import MailedTokenRows
from adapters.postgres.identity.proofs.sign_in import SignInRows
from adapters.postgres.identity.proofs.sign_in_links import SignInLinkRows
from adapters.postgres.identity.realms.providers import ProviderOutageRows
from adapters.postgres.identity.sessions.browser_sessions import BrowserSessionRows
from adapters.postgres.identity.sessions.impersonation import ImpersonationRows
from adapters.postgres.identity.sessions.sessions import SessionRows
from adapters.postgres.identity.upstream.connections import ConnectionTestRows, DirectorySessionRows
from adapters.postgres.identity.upstream.identities import IdentityRows
from adapters.postgres.identity.upstream.identity_assertions import IdentityAssertionRows
from adapters.postgres.identity.upstream.provider_tokens import IdentityGrantRows
from adapters.postgres.identity.upstream.vouched_accounts import VouchedAccountRows
from adapters.postgres.jobs import JobRows
from adapters.postgres.platform.imports import ImportRows
from adapters.postgres.platform.platform_owners import PlatformOwnerRows
from adapters.postgres.record.events import EventRows
from adapters.postgres.services.api_keys import ApiKeyRows
from adapters.postgres.services.assignments import AssignmentRows
from adapters.postgres.services.billing import BillingRows
from adapters.postgres.services.client_secrets import ClientSecretRows
from adapters.postgres.services.end_users import EndUserRows
from adapters.postgres.services.permissions import ServicePermissionRows
from adapters.postgres.services.plans import PlanRows
from adapters.postgres.services.resource_servers import ResourceServerRows
from adapters.postgres.services.service_claims import ServiceClaimRows
from adapters.postgres.services.service_roles import ServiceRoleRows
from adapters.postgres.services.service_users import ServiceUserRows
from adapters.postgres.services.services import ServiceRows
from adapters.postgres.services.subscriptions import SubscriptionRows
from adapters.postgres.services.user_keys import UserKeyRows
from adapters.postgres.signing_keys import SigningKeyRows
from adapters.postgres.statements import Statements
from adapters.postgres.tenancy.branding import LookRows
from adapters.postgres.tenancy.connection_refreshes import ConnectionRefreshRows
from adapters.postgres.tenancy.domain_routes import DomainRouteRows
from adapters.postgres.tenancy.domains import DomainRows
from adapters.postgres.tenancy.fields.profile_fields import ProfileFieldRows
from adapters.postgres.tenancy.fields.profile_values import ProfileValueRows
from adapters.postgres.tenancy.invitations import InvitationRows
from adapters.postgres.tenancy.join_requests import JoinRequestRows
from adapters.postgres.tenancy.keys.management_keys import ManagementKeyRows
from adapters.postgres.tenancy.keys.trusted_issuers import TrustedIssuerRows
from adapters.postgres.tenancy.mail_servers import MailServerRows
from adapters.postgres.tenancy.members import MemberRows
from adapters.postgres.tenancy.oauth_credentials import OAuthCredentialRows
from adapters.postgres.tenancy.organizations import OrganizationRows
from adapters.postgres.tenancy.owners import OwnershipRows
from adapters.postgres.tenancy.roles import RoleRows
from adapters.postgres.tenancy.setup.setup_links import SetupLinkRows
from adapters.postgres.tenancy.siem import SiemRows
from adapters.postgres.tenancy.sign_in_rules import SignInRulesRows
from adapters.postgres.tenancy.teams import TeamRows
from adapters.postgres.tenancy.upstream_providers import UpstreamProviderRows
from adapters.postgres.tenancy.webhook_deliveries import WebhookDeliveryRows
from adapters.postgres.tenancy.webhooks import WebhookRows
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.events import Event
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.jobs import Doorbell
from ports.system import Ids
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

Source_co = TypeVar("Source_co", covariant=True)
Source = TypeVar("Source")
Store = TypeVar("Store")


class _Speaking(Protocol[Source_co]):
    @property
    def statements(self) -> Source_co: ...


class _Made(Generic[Source, Store]):
    """A store, made at its first use: a unit of work needs only two or three stores."""

    def __init__(self, make: Callable[[Source], Store]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, stores: _Speaking[Source], _owner: type) -> Store:
        store = self._make(stores.statements)
        # From now on Python finds the attribute before this descriptor, which has no `__set__`.
        stores.__dict__[self._name] = store
        return store


class Stores:
    """The stores that are also asked outside a unit of work, with `Statements`."""

    vouched_accounts = _Made(VouchedAccountRows)
    profiles = _Made(ProfileRows)
    pictures = _Made(PictureRows)
    flows = _Made(FlowRows)
    passkeys = _Made(PasskeyRows)
    identities = _Made(IdentityRows)
    identity_grants = _Made(IdentityGrantRows)
    login_events = _Made(LoginEventRows)
    devices = _Made(DeviceRows)
    privacy = _Made(PrivacyRows)
    organizations = _Made(OrganizationRows)
    members = _Made(MemberRows)
    profile_fields = _Made(ProfileFieldRows)
    profile_values = _Made(ProfileValueRows)
    roles = _Made(RoleRows)
    teams = _Made(TeamRows)
    sign_in_rules = _Made(SignInRulesRows)
    mail_servers = _Made(MailServerRows)
    looks = _Made(LookRows)
    connection_refreshes = _Made(ConnectionRefreshRows)
    domains = _Made(DomainRows)
    domain_routes = _Made(DomainRouteRows)
    join_requests = _Made(JoinRequestRows)
    oauth_credentials = _Made(OAuthCredentialRows)
    upstream_providers = _Made(UpstreamProviderRows)
    webhooks = _Made(WebhookRows)
    webhook_deliveries = _Made(WebhookDeliveryRows)
    setup_links = _Made(SetupLinkRows)
    siem = _Made(SiemRows)
    assignments = _Made(AssignmentRows)
    client_secrets = _Made(ClientSecretRows)
    permissions = _Made(ServicePermissionRows)
    plans = _Made(PlanRows)
    resource_servers = _Made(ResourceServerRows)
    trusted_issuers = _Made(TrustedIssuerRows)
    service_roles = _Made(ServiceRoleRows)
    service_claims = _Made(ServiceClaimRows)
    service_users = _Made(ServiceUserRows)
    services = _Made(ServiceRows)
    subscriptions = _Made(SubscriptionRows)
    user_keys = _Made(UserKeyRows)
    imports = _Made(ImportRows)
    invitations = _Made(InvitationRows)
    end_users = _Made(EndUserRows)
    authorization_codes = _Made(AuthorizationCodeRows)
    exchanges = _Made(ExchangeRows)
    device_codes = _Made(DeviceCodeRows)
    consents = _Made(ConsentRows)
    document_services = _Made(DocumentServiceRows)
    provisioned_users = _Made(ProvisionedUserRows)
    directory_teams = _Made(DirectoryTeamRows)

    def __init__(self, statements: Statements | Transaction) -> None:
        self.statements = statements


class PostgresUnitOfWork(Stores):
    """Implements `ports.unit_of_work.UnitOfWork`."""

    statements: Transaction
    accounts = _Made(AccountRows)
    account_passwords = _Made(AccountPasswordRows)
    platform_owners = _Made(PlatformOwnerRows)
    sessions = _Made(SessionRows)
    browser_sessions = _Made(BrowserSessionRows)
    sign_ins = _Made(SignInRows)
    sign_in_links = _Made(SignInLinkRows)
    connection_tests = _Made(ConnectionTestRows)
    directory_sessions = _Made(DirectorySessionRows)
    identity_assertions = _Made(IdentityAssertionRows)
    provider_outages = _Made(ProviderOutageRows)
    mailed_tokens = _Made(MailedTokenRows)
    impersonations = _Made(ImpersonationRows)
    ownerships = _Made(OwnershipRows)
    management_keys = _Made(ManagementKeyRows)
    api_keys = _Made(ApiKeyRows)
    billing = _Made(BillingRows)
    scim_tokens = _Made(ScimTokenRows)
    saml = _Made(SamlRows)
    signing_keys = _Made(SigningKeyRows)

    def __init__(self, transaction: Transaction, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> None:
        super().__init__(transaction)
        self._doorbell = doorbell
        self._events = EventRows(transaction, ids, clock)
        self.mfa = MfaRows(transaction, ids, clock)
        self.jobs = JobRows(transaction, ids, keyring)

    async def record(self, event: Event) -> AuditEntryId | None:
        return await self._events.record(event)

    async def record_all(self, events: Sequence[Event]) -> None:
        await self._events.record_all(events)

    async def record_in_every_log(self, event: Event, person: UserId, *, listed: bool = False) -> None:
        await self._events.record_in_every_log(event, person, listed=listed)

    async def commit(self) -> None:
        """Commit, shielded from cancellation, within a deadline. Afterwards the unit of work takes no further statements."""
        for topic in await self.statements.commit():
            # The notification also reaches this process a little later. This second ring costs one look for work that finds nothing.
            self._doorbell.ring(topic)


def unit_of_work(pool: Pool, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> UnitOfWorkFactory:
    """Makes units of work on the pool's connections. Entering one raises `Overloaded` when no connection becomes free in time."""

    def open_unit_of_work() -> AbstractAsyncContextManager[UnitOfWork]:
        return _Opened(pool, lambda transaction: PostgresUnitOfWork(transaction, ids, clock, keyring, doorbell))

    return open_unit_of_work


class _Opened:
    """One unit of work, for the length of an `async with` block."""

    __slots__ = ("_lease", "_make", "_pipelined", "_transaction")

    def __init__(self, pool: Pool, make: Callable[[Transaction], UnitOfWork]) -> None:
        self._lease = pool.connection()
        self._make = make

    async def __aenter__(self) -> UnitOfWork:
        with translated():
            connection = await self._lease.__aenter__()
            try:
                # Entering sends nothing yet, and does not wait.
                self._pipelined = await connection.pipelined_transaction().__aenter__()
            except BaseException as error:
                await self._lease.__aexit__(type(error), error, None)
                raise
        self._transaction = Transaction(connection, self._pipelined)
        return self._make(self._transaction)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transaction.close()
        with translated():
            try:
                await self._pipelined.__aexit__(kind, error, trace)
            finally:
                await self._lease.__aexit__(kind, error, trace)
        # Translate the exception that ended the block into a refusal of the domain.
        translated().__exit__(kind, error, trace)

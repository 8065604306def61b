"""One use case, one transaction. Leaving without `commit` rolls back. No mail, HTTP call or password hash happens while one is open."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.events import Event
from core.domain.identifiers import AuditEntryId
from ports.accounts import AccountStore
from ports.api_keys import ApiKeyStore
from ports.client_secrets import ClientSecretStore
from ports.devices import DeviceStore
from ports.end_users import EndUserStore
from ports.impersonations import ImpersonationStore
from ports.invitations import InvitationStore
from ports.jobs import JobStore
from ports.login_events import LoginEventStore
from ports.mailed_tokens import MailedTokenStore
from ports.members import MemberStore
from ports.mfa import MfaStore
from ports.organizations import OrganizationStore
from ports.plans import PlanStore
from ports.roles import RoleStore
from ports.service_users import ServiceUserStore
from ports.services import ServiceStore
from ports.sessions import SessionStore
from ports.sign_in import SignInStore
from ports.signing_keys import SigningKeyStore
from ports.subscriptions import SubscriptionStore


class UnitOfWork(Protocol):
    @property
    def accounts(self) -> AccountStore: ...
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def sign_ins(self) -> SignInStore: ...
    @property
    def login_events(self) -> LoginEventStore: ...
    @property
    def devices(self) -> DeviceStore: ...
    @property
    def mfa(self) -> MfaStore: ...
    @property
    def mailed_tokens(self) -> MailedTokenStore: ...
    @property
    def impersonations(self) -> ImpersonationStore: ...
    @property
    def organizations(self) -> OrganizationStore: ...
    @property
    def members(self) -> MemberStore: ...
    @property
    def roles(self) -> RoleStore: ...
    @property
    def api_keys(self) -> ApiKeyStore: ...
    @property
    def client_secrets(self) -> ClientSecretStore: ...
    @property
    def plans(self) -> PlanStore: ...
    @property
    def service_users(self) -> ServiceUserStore: ...
    @property
    def services(self) -> ServiceStore: ...
    @property
    def subscriptions(self) -> SubscriptionStore: ...
    @property
    def invitations(self) -> InvitationStore: ...
    @property
    def end_users(self) -> EndUserStore: ...
    @property
    def signing_keys(self) -> SigningKeyStore: ...
    @property
    def jobs(self) -> JobStore: ...

    async def record(self, event: Event) -> AuditEntryId | None:
        """Write the event, its audit entry, and the jobs that follow from it. What a use case changes and what it says about it stand or
        fall together. None when the event is not audited.
        """

    async def record_all(self, events: Sequence[Event]) -> None:
        """The same for many at once, in as few statements as for one."""

    async def commit(self) -> None: ...


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]

"""The store of rules for risk, of organizations and of the installation, and of the sign-ins that a report judges by them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import LoginEventId, OrganizationId, UserId
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.risk_policies.owner_notices import NoticedSignIn
from core.domain.identity.risk_policies.policies import Decided, RiskPolicies
from core.domain.identity.risk_policies.shadow import PastPerson, PastSignIn
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class MetSignIn(Frozen):
    """A sign-in about which a rule has decided, with the person's address of today; None if the account is deleted."""

    event: LoginEvent
    email: str | None
    decided: Decided


class RiskPolicyStore(Protocol):
    """Outside a unit of work, `find`, `people`, `older`, `sign_ins`, `addresses`, `excepted`, `met`, `noticed` and `owners` are one
    statement and one round trip. `save` and `hold_installation` need a unit of work; before `save`, the organization or the installation
    is held. Sign-ins read the rules on their own. Where an organization may be None, this means the installation.
    """

    async def find(self, organization: OrganizationId | None) -> RiskPolicies | None:
        """None when there is no such organization."""

    async def hold_installation(self) -> None:
        """Nobody else changes the rules of the installation until the transaction ends."""

    async def save(self, organization: OrganizationId | None, rules: RiskPolicies) -> None: ...

    async def people(self, organization: OrganizationId | None) -> Mapping[UserId, PastPerson]:
        """What the organization knows of its members today; of the installation, its platform owners."""

    async def older(self, organization: OrganizationId | None, since: datetime, most: int) -> UUID | None:
        """The newest sign-in since then that has at least so many after it. None when there are no more altogether."""

    async def sign_ins(self, organization: OrganizationId | None, since: datetime, after: UUID | None, limit: int) -> Sequence[PastSignIn]:
        """The next of the sign-ins that led to the organization, the oldest first. With `after`, those after this one."""

    async def addresses(self, users: Sequence[UserId]) -> Mapping[UserId, str]:
        """The addresses of these people today."""

    async def excepted(self, organization: OrganizationId, users: Sequence[UserId]) -> Mapping[UserId, str]:
        """The addresses of those of these people who are members. The organization learns the address of nobody else by their id."""

    async def met(self, organization: OrganizationId | None, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        """The sign-ins about which a rule has decided, the newest first."""

    async def noticed(self, login: LoginEventId) -> NoticedSignIn | None:
        """What owners hear of this sign-in. None when it has been deleted or forgotten, or its person has no account any more."""

    async def owners(self, organization: OrganizationId | None) -> Sequence[Owner]:
        """Those of the installation have no organization's name."""

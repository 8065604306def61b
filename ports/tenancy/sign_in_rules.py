"""The store of organizations' sign-in rules."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, UserId
from core.domain.tenancy.sign_in_rules import SignInRules
from core.frozen import Frozen


class HeldRules(Frozen):
    """The rules of an organization that is held, and whether the person who asks has a second factor."""

    rules: SignInRules
    has_second_factor: bool


class SignInRulesStore(Protocol):
    """Outside a unit of work, `get` is one statement and one round trip. The other methods need a unit of work. Statements that enforce the
    rules read them on their own. Only PostgreSQL implements it.
    """

    async def get(self, organization: OrganizationId) -> SignInRules | None:
        """None when there is no such organization."""

    async def find(self, organization: OrganizationId, user: UserId) -> HeldRules:
        """Called after the organization is held, so that one change follows the other."""

    async def save(self, organization: OrganizationId, rules: SignInRules) -> None: ...

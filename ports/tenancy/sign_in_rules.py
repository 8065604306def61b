"""The store of organizations' sign-in rules."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, UserId
from core.domain.tenancy.sign_in_rules import RulesAsked, SignInRules
from core.frozen import Frozen


class HeldRules(Frozen):
    """The rules of an organization that is held, and whether the person who asks has a second factor, and a passkey."""

    rules: SignInRules
    has_second_factor: bool
    has_passkey: bool


class RulesReach(Frozen):
    """The rows that a change of the rules would reach, each counted up to a limit."""

    without_second_factor: int
    uninvitable: int
    administrators_without: int
    members_without: int


class SignInRulesStore(Protocol):
    """Outside a unit of work, `find`, `reach` and `knows_role` are one statement and one round trip each. The other methods need a unit of
    work. Statements that enforce the rules read them on their own.
    """

    async def find(self, organization: OrganizationId) -> SignInRules | None:
        """None when there is no such organization."""

    async def reach(self, organization: OrganizationId, asked: RulesAsked) -> RulesReach:
        """At most `MOST_COUNTED` rows of each kind are read."""

    async def knows_role(self, organization: OrganizationId, role: str) -> bool:
        """Whether an application of the organization has this role, by the slugs of both: `billing/approver`."""

    async def get(self, organization: OrganizationId, user: UserId) -> HeldRules:
        """Called after the organization is held, so that one change follows the other."""

    async def save(self, organization: OrganizationId, rules: SignInRules) -> None:
        """A role that has ended meanwhile is stored as none."""

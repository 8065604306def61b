"""Rights: what a person may do in a service, by the service's roles that the person holds. Postern tells the rights, and the application
decides by them.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Self

from core.domain.identifiers import AssignmentId
from core.frozen import Frozen


class ServiceRights(Frozen):
    """The slugs of the roles that a person holds in a service, and the keys of the permissions that these roles have. Both are sorted."""

    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    @classmethod
    def by(cls, roles: Mapping[str, Collection[str]]) -> Self:
        """The rights that come with these roles: the permissions of each by its slug."""
        return cls(tuple(sorted(roles)), tuple(sorted(frozenset().union(*roles.values()))))


class GivenBy(Frozen):
    """The assignment that gives a person a role: the person's own, or that of a team or of a role of the organization, by its slug."""

    assignment: AssignmentId
    team: str | None = None
    organization_role: str | None = None


class HeldRole(Frozen, kw_only=True):
    """A role of a service that a person holds, and all that gives it to the person. Without an assignment, everybody has the role."""

    slug: str
    permissions: Sequence[str]
    given_to_everybody: bool
    given_by: Sequence[GivenBy]


class BlockReason(StrEnum):
    """Why a person may do nothing in a service, whatever their roles."""

    DEACTIVATED = "deactivated"
    NOT_ADMITTED = "not_admitted"


class ExplainedRights(Frozen, kw_only=True):
    """A user of a service, with all that gives the person rights there. Roles and teams are sorted by their slugs."""

    barred: BlockReason | None
    held: Sequence[HeldRole]
    teams: Sequence[str]

    @property
    def roles(self) -> Sequence[HeldRole]:
        """The roles that count: none while the person is barred."""
        return () if self.barred else self.held

    @property
    def rights(self) -> ServiceRights:
        return ServiceRights.by({role.slug: role.permissions for role in self.roles})


class RightsReason(StrEnum):
    """Why somebody may do something in a service, or not."""

    ROLE = "role"
    UNKNOWN_PERMISSION = "unknown_permission"
    DEACTIVATED = "deactivated"
    NOT_ADMITTED = "not_admitted"
    NO_ROLE = "no_role"


class RightsVerdict(Frozen):
    """Whether a person has a permission. `role` is one that gives it, and `by` one assignment of that role; both are None where there are
    none.
    """

    reason: RightsReason
    role: str | None = None
    by: GivenBy | None = None

    @property
    def is_allowed(self) -> bool:
        return self.reason is RightsReason.ROLE


def verdict(explained: ExplainedRights, permission: str, *, is_known: bool) -> RightsVerdict:
    """`is_known` says whether the service has this permission."""
    if not is_known:
        return RightsVerdict(RightsReason.UNKNOWN_PERMISSION)
    if explained.barred is not None:
        return RightsVerdict(RightsReason(explained.barred.value))
    giving = [role for role in explained.roles if permission in role.permissions]
    if not giving:
        return RightsVerdict(RightsReason.NO_ROLE)
    # A role that somebody has assigned says more than one that everybody has.
    role = next((role for role in giving if role.given_by), giving[0])
    return RightsVerdict(RightsReason.ROLE, role.slug, role.given_by[0] if role.given_by else None)

"""Access as it is explained: what somebody may do in an organization, and by which relation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.domain.email import Email
from core.domain.organizations import OrganizationStatus
from core.domain.roles import Capability, capabilities_of


@dataclass(frozen=True, slots=True)
class Related:
    """One relation in which somebody stands to an organization: by themselves, or by way of the role of this slug."""

    relation: str
    by_role: str = ""


@dataclass(frozen=True, slots=True)
class Accessor:
    """Somebody and an organization, and what relates them. `role` is empty for whoever is no member."""

    email: Email
    is_active: bool
    organization_slug: str
    organization_status: OrganizationStatus
    role: str
    related: Sequence[Related]

    @property
    def gets_in(self) -> bool:
        """As the check of every request sees it, once they are signed in."""
        return self.is_active and bool(self.role and self.related) and self.organization_status is OrganizationStatus.ACTIVE

    @property
    def capabilities(self) -> Mapping[Capability, Sequence[Related]]:
        """Those that they have, in the order of the interface, each with all relations that give it."""
        given = {one: capabilities_of([one.relation]) for one in self.related}
        found = {capability: [one for one, gives in given.items() if capability in gives] for capability in Capability}
        return {capability: by for capability, by in found.items() if by}

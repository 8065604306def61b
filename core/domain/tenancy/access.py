"""Access, explained: the actions that a person may take in an organization, and the relations that allow them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from core.domain.email import Email
from core.domain.identity.terms.terms import PendingTerms
from core.domain.tenancy.organizations import OrganizationStatus
from core.domain.tenancy.roles import Capability, capabilities_of
from core.frozen import Frozen


class Related(Frozen):
    """One relation between a person and an organization. The person has it directly, or through the role with this slug, or through the
    team with this slug, or through a role that the team carries.
    """

    relation: str
    by_role: str = ""
    by_team: str = ""


class Accessor(Frozen):
    """A person, an organization, and the relations between them. `role` is empty for people who are not members."""

    email: Email
    is_active: bool
    organization_slug: str
    organization_status: OrganizationStatus
    role: str
    related: Sequence[Related]
    second_factor_due: datetime | None = None
    """The end of the grace period of a member without the second factor that the organization requires."""
    owes_second_factor: bool = False
    """The grace period is over."""
    terms: Sequence[PendingTerms] = ()
    """Of the organization and of the installation, what the person has not accepted."""

    @property
    def owes_terms(self) -> bool:
        return any(one.is_over for one in self.terms)

    @property
    def gets_in(self) -> bool:
        """The result of the check at every request of the signed-in person."""
        belongs = bool(self.role and self.related) and not self.owes_second_factor and not self.owes_terms
        return self.is_active and belongs and self.organization_status is OrganizationStatus.ACTIVE

    @property
    def capabilities(self) -> Mapping[Capability, Sequence[Related]]:
        """The person's capabilities, in the order of the interface, each with all relations that give it."""
        given = {one: capabilities_of([one.relation]) for one in self.related}
        found = {capability: [one for one, gives in given.items() if capability in gives] for capability in Capability}
        return {capability: by for capability, by in found.items() if by}

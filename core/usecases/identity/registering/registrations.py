"""Who may register: the rule of the installation, and that of the organization whose page somebody is on. Both must let the person in."""

from collections.abc import Sequence

from core.domain.email import Email
from core.domain.identifiers import OrganizationId
from core.domain.identity.registering.registration_rules import (
    ANYBODY_NEW,
    Newcomers,
    RegistrationPolicy,
    RegistrationRule,
    closing,
)
from core.frozen import Frozen
from ports.identity.registering.registration_rules import RegistrationRules, ThrowawayDomains


class Registrations(Frozen):
    installation: RegistrationRule
    throwaway: ThrowawayDomains
    lookup: RegistrationRules

    def leads_on(self, newcomers: Newcomers = ANYBODY_NEW) -> bool:
        """Whether a sign-in page has a link to the registration: the rules let somebody register, whose account then leads to where the
        page does. It asks nothing about an address, so it is the same for all.
        """
        rules = (self.installation,) if newcomers.rule is None else (self.installation, newcomers.rule)
        return closing(rules) is None and newcomers.get_in

    async def require(self, email: Email, organization: str) -> None:
        """`organization` is the slug that the request names, or empty. Comes before anything that depends on the address, so that known and
        unknown addresses are refused alike. Raises `RegistrationClosed` where nobody registers, and `BadRequest` for the address's domain.
        """
        for rule in await self._rules(organization):
            rule.require(email, self.throwaway.knows)

    async def without_form(self, organization: str) -> RegistrationPolicy | None:
        """The policy under which a page has no form, since no address would do. None where it has one."""
        return closing(await self._rules(organization))

    async def refuses_arrival(self, email: Email, organization: OrganizationId | None, vouching: OrganizationId | None) -> bool:
        """Whether a provider's first word about an address makes no account, on a page of that organization. An organization that vouches
        for the address, by its own provider or by its proved domain, gives the account itself, as its directory does: neither its rule nor
        the installation's counts. On another organization's pages, the rule of that one does.
        """
        gives_it_itself = vouching is not None and organization in (None, vouching)
        if gives_it_itself or (organization is None and self.installation.policy is RegistrationPolicy.ANYBODY):
            return False
        arrival = await self.lookup.of_arrival(organization, email)
        refused_here = arrival.rule is not None and arrival.rule.refuses(email, self.throwaway.knows, invited=arrival.invited_here)
        refused = vouching is None and self.installation.refuses(email, self.throwaway.knows, invited=arrival.invited)
        return refused or refused_here

    async def _rules(self, organization: str) -> Sequence[RegistrationRule]:
        """The installation's first. What it closes needs no look-up."""
        if not organization or closing((self.installation,)) is not None:
            return (self.installation,)
        theirs = await self.lookup.find(organization)
        return (self.installation,) if theirs is None else (self.installation, theirs)

"""Drafts of mail domains: a text to publish, and the look for it."""

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import SetupDraftId
from core.domain.tenancy.domain_routes import route_domain
from core.domain.tenancy.setup.setup_drafts import MOST_DOMAINS, SetupDraft, SetupDraftState, passed_again, require_changeable
from core.domain.tenancy.setup.setup_links import KnownSetupLink, SetupPurpose
from core.frozen import Frozen, replace
from core.usecases.tenancy.domains.domain_proofs import DomainProofs
from core.usecases.tenancy.setup.held_links import NO_SUCH_DRAFT, held_draft, held_link
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class DomainDrafts(Frozen):
    unit_of_work: UnitOfWorkFactory
    proofs: DomainProofs
    system: System

    async def add(self, known: KnownSetupLink, name: str) -> SetupDraft:
        """Raises `BadRequest`, `Conflict` when the organization has a route for the domain, and `SetupLinkRefused`. A domain that the link
        has already is returned as it is.
        """
        domain = route_domain(name)
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            held = await held_link(uow, known, SetupPurpose.DOMAIN, self.system.clock)
            there = [one for one in await uow.setup_links.drafts(held.link.id) if one.purpose is SetupPurpose.DOMAIN]
            same = next((one for one in there if one.subject == domain), None)
            if same is not None:
                return same
            if len(there) >= MOST_DOMAINS:
                raise BadRequest(f"A link sets up at most {MOST_DOMAINS} domains", words="setup_too_many_domains")
            if (await uow.domain_routes.standing(held.link.organization, domain)).has_domain:
                raise Conflict("The organization has a route for this domain", words="setup_domain_exists")
            draft = SetupDraft(
                id=SetupDraftId(self.system.ids.new()),
                link=held.link.id,
                organization=held.link.organization,
                purpose=SetupPurpose.DOMAIN,
                subject=domain,
                settings={"token": self.system.secrets.token().reveal()},
                created_at=now,
                updated_at=now,
            )
            await uow.setup_links.save_draft(draft)
            await uow.commit()
        return draft

    async def look(self, known: KnownSetupLink, draft: SetupDraftId) -> SetupDraft:
        """Look for the proof, and write down whether it is there. Raises `NotFound`, `Conflict` once it is active, and
        `SetupLinkRefused`.
        """
        async with self.unit_of_work() as uow:
            _, seen = await held_draft(uow, known, draft, self.system.clock)
        if seen.purpose is not SetupPurpose.DOMAIN:
            raise NotFound(NO_SUCH_DRAFT)
        require_changeable(seen)
        is_there = await self.proofs.is_published(seen.domain)
        async with self.unit_of_work() as uow:
            _, found = await held_draft(uow, known, draft, self.system.clock)
            if found.is_active:
                return found
            now = self.system.clock.now()
            looked = replace(
                found,
                state=passed_again(found) if is_there else SetupDraftState.DRAFT,
                came="" if is_there else "not_found",
                tested_at=now,
                updated_at=now,
            )
            await uow.setup_links.save_draft(looked)
            await uow.commit()
        return looked

"""Links of own texts follow the proofs of domains."""

from collections.abc import Collection

from core.domain.identifiers import OrganizationId
from core.domain.tenancy.texts.own_texts import digest_of, following
from ports.unit_of_work import UnitOfWork


async def follow_proof(uow: UnitOfWork, organization: OrganizationId, domain: str, listed: Collection[str]) -> None:
    """After the proof of the domain has come or gone, in the unit of work of that, which holds the organization. A text stays as somebody
    wrote it: without the proof, pages and mails show its links as words. Links to
    the domains that the operator has `listed` need none.
    """
    kept = await uow.own_texts.list(organization)
    changed = following(kept, domain, {*listed, *await uow.own_texts.hosts(organization)}) if kept else []
    if changed:
        now = {one.place: one for one in changed}
        await uow.own_texts.put(changed)
        await uow.own_texts.save_digest(organization, digest_of(now.get(one.place, one) for one in kept))

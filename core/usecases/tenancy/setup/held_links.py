"""Holds a set-up link in the middle of a change: the link as things are now, which nobody revokes until the unit of work ends."""

from typing import Final

from core.domain.errors import Conflict, NotFound, found
from core.domain.identifiers import SetupDraftId
from core.domain.record.events import Actor
from core.domain.tenancy.setup.setup_drafts import SetupDraft
from core.domain.tenancy.setup.setup_links import (
    KnownSetupLink,
    SetupLinkRefused,
    SetupLinkUnknown,
    SetupPurpose,
    require_browser,
    require_purpose,
    require_usable,
)
from core.domain.tenancy.upstream_providers import provider_deleted
from ports.clock import Clock
from ports.unit_of_work import UnitOfWork

NO_SUCH_DRAFT: Final = "There is no such draft"


async def held_link(uow: UnitOfWork, known: KnownSetupLink, purpose: SetupPurpose, clock: Clock) -> KnownSetupLink:
    """The link as things are now; nobody revokes it until the unit of work ends. Raises `SetupLinkUnknown` and `SetupLinkRefused`."""
    held = await uow.setup_links.hold(known.link.id)
    if held is None:
        raise SetupLinkUnknown
    require_browser(held, known.browser_digest)
    require_usable(held, clock.now())
    if held.link.finished_at is not None:
        raise SetupLinkRefused(words="setup_used_up", values={"organization": held.branding.name})
    require_purpose(held, purpose)
    return held


async def held_draft(uow: UnitOfWork, known: KnownSetupLink, draft: SetupDraftId, clock: Clock) -> tuple[KnownSetupLink, SetupDraft]:
    """As `held_link`, with one of its drafts. Raises `NotFound`."""
    seen = await uow.setup_links.find_draft(known.link.organization, draft)
    if seen is None or seen.link != known.link.id:
        raise NotFound(NO_SUCH_DRAFT)
    held = await held_link(uow, known, seen.purpose, clock)
    # Read again: the organization is held only now.
    return held, found(await uow.setup_links.find_draft(known.link.organization, draft), NO_SUCH_DRAFT)


async def drop_connection(uow: UnitOfWork, draft: SetupDraft, actor: Actor, *, keeps_named: bool = False) -> None:
    """The connection of a draft that somebody drops. Nothing happens to one that was ever active. A domain route may lead to a connection
    that has passed its test: then it stays if `keeps_named`. Raises `Conflict` otherwise.
    """
    if draft.provider is None:
        return
    provider = await uow.upstream_providers.hold(draft.organization, draft.provider)
    if provider is None or provider.was_ever_active:
        return
    if await uow.upstream_providers.is_named(provider.id):
        if keeps_named:
            return
        raise Conflict("A domain route leads to this connection: an administrator of the organization changes it", words="setup_active")
    await uow.upstream_providers.delete(provider.id)
    await uow.record(provider_deleted(provider, actor))

"""Drafts of a SIEM: the receiver that a set-up link names, and the event that tries it."""

from datetime import datetime

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import SetupDraftId, SiemId
from core.domain.tenancy.setup.setup_drafts import SetupDraft, SetupDraftState, passed_again, require_changeable
from core.domain.tenancy.setup.setup_links import KnownSetupLink, SetupPurpose
from core.domain.tenancy.siem import (
    BATCH_SIZE,
    SiemConfiguration,
    SiemCredentials,
    credential,
    provider_named,
    require_usable,
    siem_destination,
    siem_name,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.setup.held_links import NO_SUCH_DRAFT, held_draft, held_link
from core.usecases.tenancy.siem import Siem
from ports.encryption import KeyRing
from ports.system import System
from ports.tenancy.setup.setup_links import SetupLinkStore
from ports.unit_of_work import UnitOfWorkFactory


class SiemDrafts(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SetupLinkStore
    siem: Siem
    keyring: KeyRing
    system: System

    async def configure(
        self, known: KnownSetupLink, *, name: str, provider_type: str, endpoint_url: str, api_key: str, auth_header: str
    ) -> SetupDraft:
        """Make the draft, or change it; then it has to be tried again. Credentials that are left empty stay while the receiver's host
        stays. Raises `BadRequest`, `Conflict` once it is active, and `SetupLinkRefused`.
        """
        to = siem_destination(endpoint_url)
        if not self.siem.outbound.may_call(to):
            raise BadRequest("endpoint_url: this address is not public", words="setup_address_not_public")
        given = SiemCredentials(credential("api_key", api_key), credential("auth_header", auth_header))
        require_usable(given)
        now = self.system.clock.now()
        settings = {"name": siem_name(name), "provider": provider_named(provider_type).value, "endpoint_url": endpoint_url}
        async with self.unit_of_work() as uow:
            held = await held_link(uow, known, SetupPurpose.SIEM, self.system.clock)
            before = next((one for one in await uow.setup_links.drafts(held.link.id) if one.purpose is SetupPurpose.SIEM), None)
            if before is not None:
                require_changeable(before)
            same = before is not None and (before.subject, before.settings["provider"]) == (to.host, settings["provider"])
            identifier = SetupDraftId(self.system.ids.new()) if before is None else before.id
            credentials = given
            if same:
                kept = self._opened(identifier, (await uow.setup_links.credentials(identifier))[0])
                credentials = SiemCredentials(given.api_key or kept.api_key, given.auth_header or kept.auth_header)
                require_usable(credentials)
            draft = SetupDraft(
                id=identifier,
                link=held.link.id,
                organization=held.link.organization,
                purpose=SetupPurpose.SIEM,
                subject=to.host,
                settings=settings,
                has_credentials=bool(credentials),
                created_at=now if before is None else before.created_at,
                updated_at=now,
            )
            sealed = self.keyring.seal(credentials.text(), draft_context(identifier)) if credentials else None
            await uow.setup_links.save_draft(draft, sealed=sealed)
            await uow.commit()
        return draft

    async def test(self, known: KnownSetupLink, draft: SetupDraftId) -> SetupDraft:
        """Send the receiver something that is no entry, once, and write down what came. Raises `NotFound`, `Conflict` once it is active,
        and `SetupLinkRefused`.
        """
        async with self.unit_of_work() as uow:
            _, seen = await held_draft(uow, known, draft, self.system.clock)
            require_changeable(seen)
            sealed, _ = await uow.setup_links.credentials(draft)
        if seen.purpose is not SetupPurpose.SIEM:
            raise NotFound(NO_SUCH_DRAFT)
        refused = await self.siem.refused(receiver(seen, self.system.clock.now()), self._opened(draft, sealed))
        async with self.unit_of_work() as uow:
            _, found = await held_draft(uow, known, draft, self.system.clock)
            if found.updated_at != seen.updated_at or found.is_active:
                # Somebody has changed the settings meanwhile, in another tab: this test says nothing about them.
                return found
            now = self.system.clock.now()
            tested = replace(
                found,
                state=SetupDraftState.DRAFT if refused is not None else passed_again(found),
                came=refused or "",
                tested_at=now,
                updated_at=now,
            )
            await uow.setup_links.save_draft(tested)
            await uow.commit()
        return tested

    def _opened(self, draft: SetupDraftId, sealed: bytes | None) -> SiemCredentials:
        return SiemCredentials() if sealed is None else SiemCredentials.read(self.keyring.open(sealed, draft_context(draft)))


def receiver(draft: SetupDraft, now: datetime) -> SiemConfiguration:
    """The configuration that the draft becomes. It keeps the draft's id."""
    settings = draft.settings
    return SiemConfiguration(
        id=SiemId(draft.id),
        organization=draft.organization,
        name=str(settings["name"]),
        provider=provider_named(str(settings["provider"])),
        endpoint_url=str(settings["endpoint_url"]),
        batch_size=BATCH_SIZE,
        is_active=True,
        has_credentials=draft.has_credentials,
        created_at=now,
        updated_at=now,
    )


def draft_context(draft: SetupDraftId) -> str:
    return f"setup_drafts.sealed_credentials:{draft}"

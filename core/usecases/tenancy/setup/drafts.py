"""Drafts of an email domain, SCIM and a SIEM behind a setup link: what each shows, and its test."""

from datetime import datetime

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.federation.scim.tokens import KIND
from core.domain.identifiers import SetupDraftId, SiemId
from core.domain.tenancy.domains import route_domain
from core.domain.tenancy.management_keys import NewMachineKey, key_name, prefix_of
from core.domain.tenancy.setup import (
    MOST_DOMAINS,
    KnownSetupLink,
    SetupDraft,
    SetupDraftState,
    SetupPurpose,
    passed_again,
    require_changeable,
)
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
from core.usecases.tenancy.domains import DomainProofs
from core.usecases.tenancy.receivers.siem import Siem
from core.usecases.tenancy.setup.setup_links import NO_SUCH_DRAFT, held_draft, held_link
from ports.crypto import KeyRing
from ports.system import System
from ports.tenancy.connections import SetupLinkStore
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


class ScimDrafts(Frozen):
    unit_of_work: UnitOfWorkFactory
    system: System

    async def make_token(self, known: KnownSetupLink, name: str) -> NewMachineKey[SetupDraft]:
        """Make a token, in place of the one that the link made before. Raises `BadRequest`, `Conflict` once that one is active, and
        `SetupLinkRefused`.
        """
        called, now = key_name(name), self.system.clock.now()
        text = self.system.secrets.key(KIND)
        async with self.unit_of_work() as uow:
            held = await held_link(uow, known, SetupPurpose.SCIM, self.system.clock)
            before = next((one for one in await uow.setup_links.drafts(held.link.id) if one.purpose is SetupPurpose.SCIM), None)
            if before is not None:
                require_changeable(before)
                await uow.setup_links.remove_draft(before.id)
            draft = SetupDraft(
                id=SetupDraftId(self.system.ids.new()),
                link=held.link.id,
                organization=held.link.organization,
                purpose=SetupPurpose.SCIM,
                subject=called,
                settings={"prefix": prefix_of(text)},
                created_at=now,
                updated_at=now,
            )
            await uow.setup_links.save_draft(draft, digest=text.digest())
            await uow.commit()
        return NewMachineKey(draft, text)


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

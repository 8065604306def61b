"""Drafts of a directory by SCIM: a token that is shown once, and the first request that comes with it."""

from core.domain.federation.scim.tokens import KIND
from core.domain.identifiers import SetupDraftId
from core.domain.tenancy.keys.machine_keys import NewMachineKey, key_name, prefix_of
from core.domain.tenancy.setup.setup_drafts import SetupDraft, require_changeable
from core.domain.tenancy.setup.setup_links import KnownSetupLink, SetupPurpose
from core.frozen import Frozen
from core.usecases.tenancy.setup.held_links import held_link
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


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

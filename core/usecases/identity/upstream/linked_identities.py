"""Linked identities: made from a provider's word, recorded, and mailed to the owner of the account at the account's own address."""

from typing import Final

from core.domain.email import Email
from core.domain.identifiers import IdentityId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.identities import ConnectedIdentity, identity_linked, identity_unlinked
from core.domain.identity.upstream.providers import Upstream
from core.domain.languages import Language
from core.domain.record.events import Actor
from core.frozen import Frozen
from core.usecases.identity.upstream.journeys import Vouched
from ports.mail_templates import MailTemplates
from ports.system import System
from ports.unit_of_work import UnitOfWork

# If another sign-in creates the same account or connects the same identity at the same time, this sign-in looks again and finds it done.
LOOKS: Final = 3


class LinkedIdentities(Frozen, kw_only=True):
    templates: MailTemplates
    system: System

    def of(self, user: UserId, vouched: Vouched) -> ConnectedIdentity:
        upstream, asserted = vouched.upstream, vouched.asserted
        return ConnectedIdentity(
            id=IdentityId(self.system.ids.new()),
            user=user,
            provider=upstream.key,
            issuer=asserted.issuer,
            subject=asserted.subject,
            email=asserted.email,
            linked_at=self.system.clock.now(),
            naming=asserted.naming,
        )

    async def tell_linked(
        self,
        uow: UnitOfWork,
        identity: ConnectedIdentity,
        account: Account,
        upstream: Upstream,
        actor: Actor,
        *,
        service: ServiceId | None,
        how: str,
    ) -> None:
        mail = self.templates.mail(
            "identity_linked",
            account.email.address,
            account=account.id,
            language=account.language or actor.language,
            provider=upstream.name,
            when=identity.linked_at,
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_linked(identity, actor, service=service, how=how))

    async def tell_unlinked(
        self,
        uow: UnitOfWork,
        identity: ConnectedIdentity,
        email: Email,
        provider: str,
        actor: Actor,
        *,
        language: Language | None,
        service: ServiceId | None = None,
        signed_out: bool = False,
    ) -> None:
        """Tells the owner that an identity was disconnected. `provider` is the provider's name for people. `signed_out`: all other sessions
        have ended with the identity.
        """
        mail = self.templates.mail(
            "identity_unlinked",
            email.address,
            account=identity.user,
            language=language or actor.language,
            provider=provider,
            signed_out=signed_out,
            when=self.system.clock.now(),
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_unlinked(identity, actor, service=service))

"""Mail servers of organizations: members set, test and remove them, and the organization's mails go through them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.errors import BadRequest, found
from core.domain.identifiers import JobId, MailServerId, OrganizationId
from core.domain.mail import Mail
from core.domain.record.events import Actor
from core.domain.requests import checked
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import (
    PATIENCE,
    PLACE,
    MailServer,
    NewMailServer,
    OrganizationMail,
    mail_password,
    mail_server_configured,
    mail_server_failed,
    mail_server_recovered,
    mail_server_removed,
    require_name_of,
    sealing_context,
    sender_name,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, values_of
from core.usecases.tenancy.rights import hold_members, hold_rights, require_capability
from ports.crypto import CannotOpen, KeyRing
from ports.identity.accounts import EmailSyntax
from ports.mail import MailDelayed, MailRefused, MailTemplates, MailTransport
from ports.metrics import Metrics
from ports.system import Clock, Ids
from ports.tenancy.organizations import MailServerStore, OrganizationPost, SealedMailServer
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# Limits of concurrent mails in this process: to all organizations' servers together, and to the server of one organization. The mailer has
# more workers than `AT_ONCE`, so slow servers of organizations never hold up a mail that goes through the installation's server.
AT_ONCE: Final = 12
AT_ONCE_OF_ONE: Final = 2
_ALL_BUSY: Final = timedelta(seconds=5)


class Tested(Frozen):
    success: bool
    message: str


class MailServers:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: MailServerStore,
        post: OrganizationPost,
        installation: MailTransport,
        *,
        keyring: KeyRing,
        syntax: EmailSyntax,
        templates: MailTemplates,
        metrics: Metrics,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._post = post
        self._installation = installation
        self._keyring = keyring
        self._syntax = syntax
        self._templates = templates
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._busy: Counter[OrganizationId] = Counter()

    async def get(self, member: Member) -> MailServer | None:
        found = await self._lookup.find(member.organization)
        return None if found is None else found.server

    async def configure(self, member: Member, actor: Actor, wanted: NewMailServer) -> MailServer:
        """Set the organization's mail server, in place of an earlier one. Raises `BadRequest`, also when the sender's name is another's
        than the organization's, and `Forbidden` when the caller may no longer change the settings.
        """
        now = self._clock.now()
        server = MailServer(
            id=MailServerId(self._ids.new()),
            organization=member.organization,
            **checked(values_of(wanted), PLACE),
            from_email=self._sender(wanted.from_email),
            from_name=sender_name(wanted.from_name),
            created_at=now,
            updated_at=now,
        )
        if not self._post.may_use(server.host):
            raise BadRequest(
                "host: this address is not public, and the operator of this installation has not allowed it", words="address_not_public"
            )
        sealed = self._keyring.seal(mail_password(wanted.password).reveal().encode(), sealing_context(server.id))
        async with self._unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, Capability.SETTINGS_MANAGE)
            require_name_of(acting.organization_name, server.from_name)
            await uow.mail_servers.save(server, sealed)
            await uow.record(mail_server_configured(server, actor))
            await uow.commit()
        return server

    async def remove(self, member: Member, actor: Actor) -> None:
        """Remove the organization's mail server. From now on the organization's mails go through the installation's server. Nothing happens
        when there is no mail server. Raises `Forbidden` when the caller may no longer change the settings.
        """
        async with self._unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            removed = await uow.mail_servers.remove(member.organization)
            if removed is not None:
                await uow.record(mail_server_removed(removed, actor))
                await uow.commit()

    async def test(self, member: Member, actor: Actor) -> Tested:
        """Send the caller a mail now. A success ends the mail server's earlier failure. Raises `NotFound` when there is no mail server."""
        known = found(await self._lookup.find(member.organization), "No mail server is set")
        server = known.server
        to = member.caller.email.address
        mail = self._templates.mail(
            "mail_server_test",
            to,
            account=member.user,
            language=member.caller.language or actor.language,
            host=server.host,
            when=self._clock.now(),
        )
        try:
            with self._hand(server.organization):
                await self._post.send(server, self._opened(known), mail, JobId(self._ids.new()))
        except (MailDelayed, MailRefused) as failure:
            return Tested(False, str(failure))
        if server.failing_since is not None:
            await self._recover(server)
        return Tested(True, f"The mail server has taken a mail to {to}")

    async def deliver(self, wanted: OrganizationMail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """Send a mail through the organization's server, or through the installation's server. Raises `MailRefused` and `MailDelayed`, as
        `MailTransport.send` does.
        """
        found = await self._lookup.find(wanted.organization)
        if found is None or not await self._delivered(found, wanted.by_own_server or wanted.mail, id):
            await self._installation.send(wanted.mail, id)
            self._metrics.organization_mail("installation")

    async def _delivered(self, found: SealedMailServer, mail: Mail, id: JobId) -> bool:  # noqa: A002
        """Returns False when the installation's server must send the mail instead. Raises `MailRefused` and `MailDelayed`."""
        server = found.server
        rests = server.rests(self._clock.now())
        if rests is not None:
            if server.fallen_back_at is not None:
                return False
            raise MailDelayed("The organization's mail server has failed a moment ago", after=rests, asked=False)
        try:
            with self._hand(server.organization):
                await self._post.send(server, self._opened(found), mail, id)
        except _Busy:
            if server.fallen_back_at is not None:
                return False
            raise
        except MailRefused:
            self._metrics.organization_mail("refused")
            raise
        except MailDelayed as delay:
            self._metrics.organization_mail("failed")
            if await self._failed(server, str(delay)):
                return False
            raise
        self._metrics.organization_mail("own")
        if server.failing_since is not None:
            await self._recover(server)
        return True

    async def _failed(self, server: MailServer, reason: str) -> bool:
        """Records a failure. Returns True when the installation's server sends the organization's mails, from now on or already."""
        now = self._clock.now()
        log.warning("organization_mail_failed", organization=str(server.organization), host=server.host, error=reason)
        failing_since = await self._lookup.failed(server.id, now, now + server.rest)
        if failing_since is None:
            # A member has replaced the mail server meanwhile. The next attempt finds the new server.
            return False
        if server.fallen_back_at is None and failing_since <= now - PATIENCE:
            await self._fall_back(server, now)
            return True
        return server.fallen_back_at is not None

    async def _fall_back(self, server: MailServer, now: datetime) -> None:
        """Of several processes that find the fallback due, one tells the owners. That mail goes through the installation's server, because
        the organization's server fails.
        """
        async with self._unit_of_work() as uow:
            fallen = await uow.mail_servers.fall_back(server.id, now - PATIENCE, now)
            if fallen is None or fallen.failing_since is None:
                return
            await uow.record(mail_server_failed(fallen, fallen.failing_since))
            for owner in await uow.mail_servers.owners(fallen.organization):
                mail = self._templates.mail(
                    "mail_server_failed",
                    owner.email.address,
                    account=owner.user,
                    language=owner.language,
                    branding=owner.branding,
                    carries_own_texts=owner.is_own,
                    host=fallen.host,
                )
                await uow.jobs.add(mail.as_job())
            await uow.commit()
        log.warning("organization_mail_fell_back", organization=str(fallen.organization), host=fallen.host)

    async def _recover(self, server: MailServer) -> None:
        async with self._unit_of_work() as uow:
            if await uow.mail_servers.recover(server.id):
                await uow.record(mail_server_recovered(server))
            await uow.commit()
        log.info("organization_mail_recovered", organization=str(server.organization), host=server.host)

    @contextmanager
    def _hand(self, organization: OrganizationId) -> Iterator[None]:
        if self._busy.total() >= AT_ONCE or self._busy[organization] >= AT_ONCE_OF_ONE:
            raise _Busy("Other mails are on their way there", after=_ALL_BUSY, asked=False)
        one = Counter([organization])
        self._busy += one
        try:
            yield
        finally:
            # Unlike `Counter.subtract`, `-=` removes an organization whose count is zero, so the counter does not grow.
            self._busy -= one

    def _opened(self, found: SealedMailServer) -> Secret:
        try:
            return Secret(self._keyring.open(found.sealed_password, sealing_context(found.server.id)).decode())
        except CannotOpen as error:
            log.error("mail_server_password_unreadable", organization=str(found.server.organization), error=str(error))  # noqa: TRY400 - the sentence says it all
            raise MailDelayed("No key in force opens the password of the mail server", asked=False) from None

    def _sender(self, text: str) -> str:
        try:
            address = self._syntax.parse(text.strip()).address
        except BadRequest as refusal:
            raise BadRequest("from_email: not a valid e-mail address", words="email_invalid", detail=refusal.detail) from None
        if not address.isascii():
            # Mail from a non-ASCII sender needs SMTPUTF8 at each receiving server, and few have it.
            raise BadRequest("from_email: write the address in ASCII", words="email_ascii")
        return address


class _Busy(MailDelayed):
    """Too many mails to organizations' servers are under way. Does not count as a failure of the server."""

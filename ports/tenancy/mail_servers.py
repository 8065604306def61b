"""The store of organizations' mail servers, and the hand-over of mail to them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import JobId, MailServerId, OrganizationId
from core.domain.mail import Mail
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import MailServer
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class SealedMailServer(Frozen):
    server: MailServer
    sealed_password: bytes


class MailServerStore(Protocol):
    """Outside a unit of work, `find` and `failed` are one statement and one round trip each. The other methods need a unit of work. When
    a member acts, the caller has already locked the organization. Only PostgreSQL implements `MailServerStore`.
    """

    async def find(self, organization: OrganizationId) -> SealedMailServer | None: ...

    async def failed(self, server: MailServerId, at: datetime, rests_until: datetime) -> datetime | None:
        """Records a failure. Returns since when the server fails; None when there is no such mail server any more."""

    async def save(self, server: MailServer, sealed_password: bytes) -> None:
        """Replaces the server that the organization had, and forgets its failures."""

    async def remove(self, organization: OrganizationId) -> MailServer | None:
        """Returns the server that was removed."""

    async def fall_back(self, server: MailServerId, failing_since: datetime, at: datetime) -> MailServer | None:
        """From now on, the installation's server does the work of one that has failed since this moment or earlier. None when the server
        has not failed for so long, or had fallen back already: of two callers, one gets None.
        """

    async def recover(self, server: MailServerId) -> bool:
        """The server works again. True when it had fallen back: of two callers, one gets True."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class OrganizationPost(Protocol):
    """Hands mail to servers that organizations name. A guarded SMTP client implements it."""

    def may_use(self, host: str) -> bool:
        """False for an address that is never called. A host name that is permitted here may still lead to such an address later."""

    async def send(self, server: MailServer, password: Secret, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """As `MailTransport.send`: raises `MailRefused` and `MailDelayed`."""

"""The store of device codes, as digests, until they expire."""

from datetime import datetime
from typing import Protocol

from core.domain.federation.oauth.clients import ClientCredentials
from core.domain.federation.oauth.device_flow import AskedFor, AskingClient, DeviceApproval, EnteredCode, NewDeviceCode, Poll
from core.domain.identifiers import DeviceCodeId, SessionId, UserId


class DeviceCodeStore(Protocol):
    """Outside a unit of work, `ask`, `poll`, `find_entered` and `find` are one statement and one round trip each. The other methods need a
    unit of work in which the caller has already locked the account of the person. Only PostgreSQL implements `DeviceCodeStore`.
    """

    async def ask(self, code: NewDeviceCode, client: AskingClient) -> AskedFor | None:
        """Adds the code, if the client's organization is active and no pending code has the same user code. None when there is no such
        client.
        """

    async def poll(self, digest: bytes, shown: ClientCredentials | None, at: datetime) -> Poll | None:
        """The client that polls, and its device code. A poll of a pending code is recorded. If the poll came too soon, all further polls
        have to wait longer. With `shown` None, the device code alone tells the client. None when there is no such client, or no such code
        to tell the client by.
        """

    async def find_entered(self, user_code_hmac: bytes) -> EnteredCode | None:
        """The code that shows this user code and that nobody has decided about."""

    async def find(self, code: DeviceCodeId) -> EnteredCode | None:
        """The code, in any state."""

    async def approve(self, code: DeviceCodeId, user: UserId, session: SessionId, at: datetime) -> bool:
        """Approves the code with what the session has proved. Of two callers at once, one gets True. False when the code is no longer
        pending, or the session has ended. It is the person's newest answer to the application: what they refused before and approve now is
        no longer refused.
        """

    async def deny(self, code: DeviceCodeId, user: UserId, at: datetime) -> bool:
        """False when the code is no longer pending."""

    async def consume(self, code: DeviceCodeId, at: datetime) -> DeviceApproval | None:
        """Of many callers at once, one gets the approval."""

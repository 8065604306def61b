"""Where device codes are kept: as digests, for as long as they last."""

from datetime import datetime
from typing import Protocol

from core.domain.federation.oauth.clients import ClientCredentials
from core.domain.federation.oauth.device_flow import AskedFor, AskingClient, DeviceApproval, EnteredCode, NewDeviceCode, Poll
from core.domain.identifiers import DeviceCodeId, SessionId, UserId


class DeviceCodeStore(Protocol):
    """Outside a unit of work, `ask`, `poll`, `find_entered` and `find` are one statement and one round trip each. The other methods need a
    unit of work. A person's account is held before their codes are decided about, ended or consumed. Only PostgreSQL implements it.
    """

    async def ask(self, code: NewDeviceCode, client: AskingClient) -> AskedFor | None:
        """Adds the code, if the client's organization is active and no pending one has its user code. None when there is no such client."""

    async def poll(self, digest: bytes, shown: ClientCredentials | None, at: datetime) -> Poll | None:
        """The client as it shows itself, and its device code. Of a pending code it is noted that this poll came, and when it came too soon,
        all further ones have to come later. `shown`: None for the device code alone, which then says whose it is. None when there is no
        such client, or no such code to tell it by.
        """

    async def find_entered(self, user_code_hmac: bytes) -> EnteredCode | None:
        """The one that shows this user code and that nobody has decided about."""

    async def find(self, code: DeviceCodeId) -> EnteredCode | None:
        """In any state."""

    async def approve(self, code: DeviceCodeId, user: UserId, session: SessionId, at: datetime) -> bool:
        """With what the session has proved. Of two at once, one gets True. False when the code is not pending any more, or the session has
        ended.
        """

    async def deny(self, code: DeviceCodeId, user: UserId, at: datetime) -> bool:
        """False when it is not pending any more."""

    async def consume(self, code: DeviceCodeId, at: datetime) -> DeviceApproval | None:
        """Of many at once, one gets it."""

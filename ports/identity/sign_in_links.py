"""What a mailed sign-in link depends on, besides its token."""

from typing import Protocol

from core.domain.identifiers import ClientId, UserId
from core.domain.identity.sign_in import ServiceName


class SignInLinkStore(Protocol):
    """Part of the unit of work."""

    async def are_permitted(self, user: UserId) -> bool:
        """Whether no active organization of theirs has turned them off."""

    async def application(self, service: ServiceName, redirect_uri: str) -> tuple[ClientId, str] | None:
        """The client that a link can lead to, and where: its organization is active, the redirect URI is one of its own, the first where
        none is named, and it has a secret or keys to redeem a code with. An application without them needs a code challenge, which no
        mail can carry.
        """

"""The conditions of a mailed sign-in link, besides its token."""

from typing import Protocol

from core.domain.identifiers import ClientId, UserId
from core.domain.identity.sign_in import ServiceName


class SignInLinkStore(Protocol):
    """All methods need a unit of work."""

    async def are_permitted(self, user: UserId) -> bool:
        """Whether no active organization of the person's has turned sign-in links off."""

    async def application(self, service: ServiceName, redirect_uri: str) -> tuple[ClientId, str] | None:
        """The client that a link can lead to, and the redirect URI. The client's organization is active, the redirect URI is one of its own
        (the first one by default), and it has a secret or keys to redeem a code with. An application without secret and keys needs a code
        challenge, which no mail can carry.
        """

"""The stores of further providers of the installation, of the people whom only they know, and of the answers that they send by forms."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import FlowId
from core.domain.identity.upstream.further import FurtherProvider, ProviderPreset
from core.domain.identity.upstream.newcomers import WaitingNewcomer
from core.domain.identity.upstream.posted_answers import PostedAnswer
from core.domain.identity.upstream.providers import OfferedFurther
from core.domain.tenancy.look_pictures import Logo


class ProviderPresets(Protocol):
    """Files implement it."""

    def all(self) -> Sequence[ProviderPreset]:
        """In the order of their names."""

    def find(self, key: str) -> ProviderPreset | None: ...


class FurtherProviderStore(Protocol):
    """Outside a unit of work, `list`, `offered`, `kept`, `people` and `find` are one statement and one round trip each. The other methods
    need a unit of work. Only PostgreSQL implements `FurtherProviderStore`.
    """

    async def list(self) -> Sequence[FurtherProvider]:
        """In the order of their buttons."""

    async def offered(self) -> Sequence[OfferedFurther]:
        """Those that are on, in the order of their buttons."""

    async def kept(self) -> Sequence[tuple[FurtherProvider, bytes]]:
        """Those that are on, with the sealed secrets of our clients there, in the order of their buttons."""

    async def find(self, key: str) -> FurtherProvider | None: ...

    async def people(self, keys: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """How many people are connected to these, by short name and by the issuer that they are known by, also one of before."""

    async def hold_all(self) -> None:
        """Of two that add a provider at once, the second waits."""

    async def hold(self, key: str) -> tuple[FurtherProvider, bytes] | None:
        """The provider and the sealed secret of our client there. Nobody else changes them meanwhile."""

    async def unknown_organizations(self, slugs: Sequence[str]) -> Sequence[str]:
        """Those that do not exist."""

    async def save(self, provider: FurtherProvider, sealed_secret: bytes) -> bool:
        """False when another provider has the short name."""

    async def save_logo(self, provider: FurtherProvider, logo: Logo | None) -> None:
        """With None, removes the logo."""

    async def remove(self, provider: FurtherProvider) -> int:
        """Removes the provider with all identities there. Returns how many they were."""


class NewcomerStore(Protocol):
    """In a unit of work."""

    async def keep(self, newcomer: WaitingNewcomer) -> None:
        """In place of the newcomer that the flow had."""

    async def find(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None: ...

    async def send(self, flow: FlowId, email: str, code_digest: bytes, most: int, now: datetime) -> bool:
        """Keeps a code in place of the one before. False when so many codes were sent, or nobody waits in the flow."""

    async def attempt(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        """Counts a try of the code. Of several at once, each is counted."""

    async def remove(self, flow: FlowId) -> None: ...


class PostedAnswerStore(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def keep(self, answer: PostedAnswer) -> bool:
        """In place of the answer that waited for the same state, so that a form that comes again and again keeps one. False unless the
        provider sends answers by forms, and a browser has left for it with this state and has not come back.
        """

    async def redeem(self, provider: str, code_digest: bytes, state_digest: bytes) -> tuple[UUID, bytes] | None:
        """The id that the answer is sealed for, and the sealed answer, once."""
